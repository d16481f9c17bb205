"""For tests of wakeful and of programs that use it: a clock that is moved by hand, and the store conformance suite.

`wakeful.testing.conformance` needs pytest; nothing else here does.
"""

from wakeful.testing.access import store_of, targets_of
from wakeful.testing.clock import NEW_YEAR, ManualClock

__all__ = ["NEW_YEAR", "ManualClock", "store_of", "targets_of"]
