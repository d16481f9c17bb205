"""A target that records its wakes and answers as scripted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from wakeful.alarm import Delivered, Outcome, Wake

Scripted = Outcome | Callable[[Wake], Outcome]


class RecordingTarget:
    """Keeps every wake. Answers the scripted outcomes in turn, then Delivered() for ever."""

    def __init__(self, *outcomes: Scripted) -> None:
        self.wakes: list[Wake] = []
        self.closed = False
        self._outcomes = deque(outcomes)

    @property
    def fire_ids(self) -> list[str]:
        return [wake.fire_id for wake in self.wakes]

    @property
    def messages(self) -> list[str]:
        return [wake.message for wake in self.wakes]

    def answer(self, *outcomes: Scripted) -> None:
        """Script what comes next, after what is scripted already."""
        self._outcomes.extend(outcomes)

    async def deliver(self, wake: Wake) -> Outcome:
        self.wakes.append(wake)
        scripted = self._outcomes.popleft() if self._outcomes else Delivered()
        return scripted(wake) if callable(scripted) else scripted

    async def close(self) -> None:
        self.closed = True
