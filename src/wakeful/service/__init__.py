"""The verbs on alarms: `Alarms(service, caller)` lists them, modules of functions by subject do them.

`create` sets alarms; `change`, `cancel` and `signalling` change them; `report` and `inbox` are for whoever does the
work; `read`, `watch` and `why` tell. `core` is what they share in one process.
"""

from __future__ import annotations

from wakeful.service.alarms import Alarms, Transaction
from wakeful.service.answers import Changed, ChangedFire, Created, Details, Noted, Similar
from wakeful.service.caller import Caller
from wakeful.service.cancel import Cancelled
from wakeful.service.core import Service
from wakeful.service.history import History, HistoryEntry
from wakeful.service.inbox import TakenWake
from wakeful.service.moving import Moved
from wakeful.service.signalling import Signalled
from wakeful.service.why import Why

__all__ = [
    "Alarms",
    "Caller",
    "Cancelled",
    "Changed",
    "ChangedFire",
    "Created",
    "Details",
    "History",
    "HistoryEntry",
    "Moved",
    "Noted",
    "Service",
    "Signalled",
    "Similar",
    "TakenWake",
    "Transaction",
    "Why",
]
