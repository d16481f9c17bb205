"""Every fault that can be planted, by the part of wakeful that it is in.

Nothing of wakeful is imported here: a fault is planted before the module that it is in.
"""

from __future__ import annotations

from typing import Final

from .delivery import IN_DELIVERY
from .fault import Fault, Several, Source, Sql
from .interfaces import IN_INTERFACES
from .rules import IN_DECISIONS
from .service import IN_VERBS
from .store import IN_STORES

__all__ = ["FAULTS", "Fault", "Several", "Source", "Sql"]

_PARTS: Final = (IN_DECISIONS, IN_DELIVERY, IN_INTERFACES, IN_VERBS, IN_STORES)
FAULTS: Final[dict[str, Fault]] = {name: fault for part in _PARTS for name, fault in part.items()}
assert len(FAULTS) == sum(map(len, _PARTS)), "two faults have one name: only one of them would be planted"
