"""Prepared plans: which statements of a connection are planned each time, and which once every KEPT_FOR seconds.

Lists and searches are planned each time: their filters vary, and their plan must fit the tables as they are. The
statements that a worker repeats (claim, settle, create, what is due next) use generic plans: their plan does not depend
on their values, and planning took most of the server's time for small batches. A generic plan depends on the size of
the tables: one made while a table was empty would read all of it later. So it is replaced after KEPT_FOR.

Any connection of the pool runs both kinds; `plan_cache_mode` is set when it changes over. Behind pgbouncer nothing is
set: the session is shared.
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
