"""Tools for testing wakeful and programs that use it: a manual clock, a database in memory, the simulator.

`wakeful.testing.conformance`, the conformance suites, needs pytest; nothing else here does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wakeful.store.memory.database import MemoryDatabase
from wakeful.testing.alarms_for_tests import open_in_memory, store_of, targets_of
from wakeful.testing.manual_clock import NEW_YEAR, ManualClock

if TYPE_CHECKING:
    from wakeful.testing.simulation import simulate

__all__ = ["NEW_YEAR", "ManualClock", "MemoryDatabase", "open_in_memory", "simulate", "store_of", "targets_of"]


def __getattr__(name: str) -> Any:
    if name == "simulate":  # only for whoever asks: every run of pytest imports this package for the plugin
        from wakeful.testing.simulation import simulate

        return simulate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
