"""The 41 wishes of agents: the calls, and what must be true afterwards. The same table stands in docs/mcp.md."""

from __future__ import annotations

from .alarms import ALARMS
from .times import TIMES

WISHES = [*TIMES, *ALARMS]
