"""A page of rows: taken as they come until it is full, by number or by weight; and an owner's turn to read.

A search reads a bounded weight of rows, whether they have the text or not, and says where to go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from wakeful.errors import StoreBusy, TooMany

SEARCHED: Final = 16_000_000  # characters of rows that one search reads
READ_WITHIN: Final = timedelta(seconds=5)
READS_PER_OWNER: Final = 2
AHEAD_OF_IT: Final = 1_000_000  # characters that are brought before it is known whether they fit
FIRST_ROWS: Final = 4
MOST_ROWS: Final = 200
WAITING: Final = 64  # reads of one owner that wait for their turn

Cursor = tuple[datetime, str]
T = TypeVar("T")
V = TypeVar("V")


class Matches(list[T]):
    """What was found. `further`: where to go on, where there may be more; None at the end."""

    def __init__(self, values: Iterable[T] = (), further: Cursor | None = None) -> None:
        super().__init__(values)
        self.further = further


class Page(Generic[T]):
    """Rows of the store, the first ones that fit. `most`: so much weight, but always one row; 0 is without limit."""

    def __init__(self, limit: int, *, most: int = 0, text: str = "", among: tuple[str, ...] | tuple[int, ...]) -> None:
        self.rows: list[T] = []
        self.last: T | None = None  # read, whether it is on the page or not
        self.more = False
        self.end: Cursor | None = None  # where to go on, though all that was to be read is here
        self._limit = limit
        self._most = most
        self._text = text.casefold()
        self._among = among
        self._weight = self._searched = self._seen = 0

    def take(self, row: Any) -> bool:
        """Take a row, or leave it where the page is full already. Whether to bring another."""
        if self._is_full:
            self.more = True
            return False
        self.last = row
        weight = sum([len(value) for value in row if type(value) is str])
        self._searched += weight
        self._seen += 1
        if not self._text or any(self._text in str(row[at]).casefold() for at in self._among):
            self.rows.append(row)
            self._weight += weight
        return True

    @property
    def at_once(self) -> int:
        """How many rows to bring next, going by those that came: long ones one by one, short ones in bulk."""
        if not self._seen:
            return FIRST_ROWS
        return max(1, min(MOST_ROWS, AHEAD_OF_IT * self._seen // max(1, self._searched)))

    def found(self, make: Callable[[T], V], cursor: Callable[[V], Cursor]) -> Matches[V]:
        further = cursor(make(self.last)) if self.more and self.last is not None else self.end
        return Matches(map(make, self.rows), further)

    @property
    def _is_full(self) -> bool:
        if len(self.rows) >= self._limit or (self._text and self._searched >= SEARCHED):
            return True
        return 0 < self._most <= self._weight and bool(self.rows)


def filled(rows: Iterable[Any], page: Page[Any]) -> Page[Any]:
    """Look at rows until the page is full: what comes after is not read."""
    for row in rows:
        if not page.take(row):
            break
    return page


class _Turn(Struct):
    room: asyncio.Semaphore
    here: int = 0


class ReadTurns:
    """So many reads of one owner at once; more of them wait, and nobody else does. No owner: wakeful itself."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._turns: dict[str, _Turn] = {}

    @asynccontextmanager
    async def turn(self, owner: str) -> AsyncIterator[None]:
        if not owner:
            yield
            return
        turn = self._turns.setdefault(owner, _Turn(asyncio.Semaphore(self._at_once)))
        if turn.here >= self._at_once + WAITING:
            raise TooMany(
                f"{self._at_once} of your reads are running and {WAITING} more are waiting",
                field="reads_per_owner",
                fix="Wait for their answers before you send more.",
                retry_after=1.0,
            )
        turn.here += 1
        try:
            async with turn.room:
                yield
        finally:
            turn.here -= 1
            if not turn.here:
                self._turns.pop(owner, None)


def too_slow(within: float) -> StoreBusy:
    """A read that was stopped so that others get their turn."""
    return StoreBusy(
        f"this read took longer than {within:g} s and was stopped",
        fix="Ask for less: a smaller limit, a time span, a status or a target.",
    )
