"""Tools for testing wakeful and programs that use it: a manual clock, a database in memory, the simulator.

`wakeful.testing.conformance`, the conformance suites, needs pytest; nothing else here does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wakeful.store.memory.database import MemoryDatabase
from wakeful.testing.access import store_of, targets_of
from wakeful.testing.clock import NEW_YEAR, ManualClock
from wakeful.testing.in_memory import open_in_memory

if TYPE_CHECKING:
    from wakeful.testing.simulation import simulate

__all__ = ["NEW_YEAR", "ManualClock", "MemoryDatabase", "open_in_memory", "simulate", "store_of", "targets_of"]


def __getattr__(name: str) -> Any:
    if name == "simulate":  # only for whoever asks: every run of pytest imports this package for the plugin
        from wakeful.testing.simulation import simulate

        return simulate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
