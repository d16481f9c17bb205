"""wakeful: a durable alarm clock for AI agents and services.

    async with wakeful.open("wakeful.db") as clock:
        await clock.set("tomorrow at 9am", "Check the grant portal")

Nothing happens at import, and names are resolved when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wakeful.alarm import Alarm, Fire, Policy, Wake
    from wakeful.alarm.request import CreateRequest, EditRequest
    from wakeful.app import Wakeful, open, open_sync
    from wakeful.errors import (
        Conflict,
        Forbidden,
        InvalidConfig,
        InvalidRequest,
        InvalidSchedule,
        NotFound,
        StaleVersion,
        StoreBusy,
        StoreUnavailable,
        TooMany,
        Unauthorized,
        UnknownTarget,
        WakefulError,
    )
    from wakeful.remote import RemoteWakeful
    from wakeful.schedule import Understood, describe, parse
    from wakeful.targets.handler import Snooze

__version__ = "0.1.0"

_HOMES = {
    "Alarm": "alarm",
    "Fire": "alarm",
    "Policy": "alarm",
    "Wake": "alarm",
    "CreateRequest": "alarm.request",
    "EditRequest": "alarm.request",
    "Wakeful": "app",
    "open": "app",
    "open_sync": "app",
    "Conflict": "errors",
    "Forbidden": "errors",
    "InvalidConfig": "errors",
    "InvalidRequest": "errors",
    "InvalidSchedule": "errors",
    "NotFound": "errors",
    "StaleVersion": "errors",
    "StoreBusy": "errors",
    "StoreUnavailable": "errors",
    "TooMany": "errors",
    "Unauthorized": "errors",
    "UnknownTarget": "errors",
    "WakefulError": "errors",
    "RemoteWakeful": "remote",
    "Understood": "schedule",
    "describe": "schedule",
    "parse": "schedule",
    "Snooze": "targets.handler",
}
__all__ = [
    "Alarm",
    "Conflict",
    "CreateRequest",
    "EditRequest",
    "Fire",
    "Forbidden",
    "InvalidConfig",
    "InvalidRequest",
    "InvalidSchedule",
    "NotFound",
    "Policy",
    "RemoteWakeful",
    "Snooze",
    "StaleVersion",
    "StoreBusy",
    "StoreUnavailable",
    "TooMany",
    "Unauthorized",
    "Understood",
    "UnknownTarget",
    "Wake",
    "Wakeful",
    "WakefulError",
    "__version__",
    "describe",
    "open",
    "open_sync",
    "parse",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'wakeful' has no attribute {name!r}")
    value = getattr(import_module(f"wakeful.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
