"""Tools for testing wakeful and programs that use it: a manual clock and the conformance suites.

`wakeful.testing.conformance` needs pytest; nothing else here does.
"""

from wakeful.testing.access import store_of, targets_of
from wakeful.testing.clock import NEW_YEAR, ManualClock

__all__ = ["NEW_YEAR", "ManualClock", "store_of", "targets_of"]
