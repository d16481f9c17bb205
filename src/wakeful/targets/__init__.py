"""The seam between wakeful and where wakes go: one method. What goes wrong there is an Outcome, never an exception."""

from __future__ import annotations

from typing import Protocol

from wakeful.model.outcome import Outcome
from wakeful.rules.wake import Wake


class Target(Protocol):
    async def deliver(self, wake: Wake) -> Outcome:
        """Hand over one wake. Safe to repeat under the same fire id; bounded in time and memory."""
        ...

    async def close(self) -> None: ...
