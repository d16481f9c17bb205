"""How a connection's statements are planned: each time, or once for a few seconds.

Planned each time, a statement always has the plan that fits the tables as they are and the values it was given: right
for lists and searches, whose filters come and go. Of the few statements that a worker repeats all day (claim, settle,
create) planning is most of the work where the batch is small, and their plan does not depend on their values. It does
depend on the tables: one made while a table was empty would read all of it once it is full. So it is kept for seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import asyncpg

from wakeful.clock import stopwatch

KEPT_FOR: Final = 5.0  # seconds
EACH_TIME: Final = "force_custom_plan"
_ONCE: Final = "force_generic_plan"

if TYPE_CHECKING:
    _Connection = asyncpg.Connection[asyncpg.Record]
else:
    _Connection = asyncpg.Connection


class PlanningConnection(_Connection):
    """A connection that begins with plans made each time."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._keeps: bool | None = False  # None: asked for, and no answer came
        self._planned = stopwatch()  # since when: plans made before that are gone

    async def keep_plans(self, wanted: bool) -> None:
        """See to it that the statements that follow are planned so."""
        said = []
        if wanted != self._keeps:
            said.append(f"set plan_cache_mode = {_ONCE if wanted else EACH_TIME}")
        if wanted and (now := stopwatch()) - self._planned > KEPT_FOR:
            said.append("discard plans")
            self._planned = now
        if said:
            self._keeps = None
            await self.execute("; ".join(said))
            self._keeps = wanted
