"""What a wish is, and the door, the clock and the time that it is made with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

import pytest

from tests.interfaces.wish_interfaces import Refused, WishInterface
from wakeful.model.alarm import Alarm
from wakeful.process.application import LocalWakeful
from wakeful.rules.plan import coming
from wakeful.testing import ManualClock

MONDAY = datetime(2030, 1, 7, 8, 0, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


class World:
    """A door, the clock behind it, and the time."""

    def __init__(self, door: WishInterface, alarms: LocalWakeful, time: ManualClock) -> None:
        self.door = door
        self.alarms = alarms
        self.time = time
        self.repairs = 0
        self.offered: dict[str, Any] | None = None  # the corrected call of the latest refusal

    async def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.door(tool, **arguments)

    async def wish(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The answer to a call, or to the one that its refusal recommends: the same tool, with nothing lost."""
        try:
            return await self.door(tool, **arguments)
        except Refused as refused:
            if refused.again is None:
                raise
            self.repairs += 1
            return await self.door(tool, **refused.again)

    async def refused(self, tool: str, **arguments: Any) -> str:
        """What a door says no with, in words. Bad input changes nothing."""
        before = await self.alarms.find(limit=500)
        with pytest.raises(Refused) as refused:
            await self.door(tool, **arguments)
        assert await self.alarms.find(limit=500) == before
        self.offered = refused.value.again
        return refused.value.text

    async def not_set(self, tool: str, **arguments: Any) -> str:
        """The note where the key is taken by an alarm that has ended."""
        told = await self.door(tool, **arguments)
        assert told["deduped"]
        return str(told["notes"][0])

    async def set(self, when: str, **more: Any) -> Alarm:
        """The alarm that a wish for a time leads to."""
        made = await self.wish("alarm_set", when=when, wake_message="work", **more)
        return await self.alarms.get(made["alarm"]["id"])

    async def pass_time(self, by: timedelta) -> None:
        """Time passes while a worker runs: what falls due is delivered."""
        end = self.time.now() + by
        while (step := min(HOUR, end - self.time.now())) > timedelta(0):
            await self.time.advance(step)
            await self.alarms.run_due()

    async def woken(self, **arguments: Any) -> dict[str, Any]:
        [wake] = (await self("alarm_inbox", **arguments))["wakes"]
        return dict(wake)


def fires(alarm: Alarm, number: int = 6) -> list[datetime]:
    return list(islice(coming(alarm), number))


def at(day: int, hour: int = 9, minute: int = 0, month: int = 1) -> datetime:
    return datetime(2030, month, day, hour, minute, tzinfo=UTC)


Do = Callable[[World], Awaitable[None]]


class Wish(NamedTuple):
    number: int
    words: str
    do: Do


def kept_in(wishes: list[Wish]) -> Callable[[int, str], Callable[[Do], Do]]:
    """A decorator that keeps what it is given as a wish of this list."""

    def wish(number: int, words: str) -> Callable[[Do], Do]:
        def keep(do: Do) -> Do:
            wishes.append(Wish(number, words, do))
            return do

        return keep

    return wish
