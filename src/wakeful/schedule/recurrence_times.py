"""At which times of a day a recurrence rule fires, as bits: one per minute, or per second where it names several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from math import gcd

from wakeful.schedule.recurrence import RecurrenceRule

_DAY = 86_400
_LENGTHS = {"HOURLY": 3600, "MINUTELY": 60}


class RuleTimes:
    """The times of day of one rule that counts from `start`, as slots of a day.

    Where only every n-th hour or minute counts, which of them depends on the day.
    """

    __slots__ = (
        "_allowed",
        "_block",
        "_inside",
        "_interval",
        "_second",
        "_start",
        "_stride",
        "_unit",
        "per_day",
        "varies",
    )

    def __init__(self, rule: RecurrenceRule, start: datetime) -> None:
        seconds = rule.by_second or (start.second,)
        self._unit = 60 if len(seconds) == 1 else 1
        self._second = seconds[0] if self._unit == 60 else 0
        self.per_day = _DAY // self._unit
        length = _LENGTHS.get(rule.freq, _DAY)  # of what repeats: a day, an hour or a minute
        self._block = length // self._unit
        self._interval = rule.interval if length < _DAY else 1
        self._start = (start.toordinal() * _DAY + start.hour * 3600 + start.minute * 60) // length
        self._allowed = self._named(rule, start, length, seconds)
        self._inside = (1 << self._block) - 1
        if rule.by_set_pos and rule.freq not in ("YEARLY", "MONTHLY", "WEEKLY"):
            # Each day, hour or minute is like the others: what stands at these positions is known once and for all.
            self._inside = spread(picked(sorted({at % self._block for at in bits_of(self._allowed)}), rule.by_set_pos))
        self._stride = spread(range(0, self.per_day, self._block * self._interval), 1, self._inside)
        self.varies = self._interval > 1

    def _named(self, rule: RecurrenceRule, start: datetime, length: int, seconds: tuple[int, ...]) -> int:
        hours = rule.by_hour or ((start.hour,) if length == _DAY else range(24))
        minutes = rule.by_minute or ((start.minute,) if length > 60 else range(60))
        bits = spread(seconds) if self._unit == 1 else 1
        return spread(hours, 3600 // self._unit, spread(minutes, 60 // self._unit, bits))

    def any(self) -> bool:
        """Whether any day has one: steps of an hour from half past never fall on the full hour."""
        blocks = self.per_day // self._block
        step = gcd(self._interval, blocks)
        return bool(spread(range(self._start % step, blocks, step), self._block, self._inside) & self._allowed)

    def of(self, ordinal: int) -> int:
        """The slots of a day, as bits."""
        if not self.varies:
            return self._stride & self._allowed
        wait = (self._start - ordinal * self.per_day // self._block) % self._interval
        return 0 if wait * self._block >= self.per_day else self._stride << wait * self._block & self._allowed

    def first_counted(self, ordinal: int, slot: int) -> tuple[int, int]:
        """The day and slot where the next hour or minute that counts begins: a long interval skips many days."""
        if not self.varies:
            return ordinal, slot
        block = (ordinal * self.per_day + slot) // self._block
        wait = (self._start - block) % self._interval
        return divmod((block + wait) * self._block, self.per_day) if wait else (ordinal, slot)

    def slot(self, wall: datetime) -> int:
        """The first slot that is not before a reading."""
        passed = wall.hour * 3600 + wall.minute * 60 + wall.second
        return -((self._second - passed) // self._unit)

    def time(self, slot: int) -> tuple[int, int, int]:
        seconds = slot * self._unit + self._second
        return seconds // 3600, seconds // 60 % 60, seconds % 60


def picked(values: Sequence[int], positions: tuple[int, ...]) -> list[int]:
    """Those at the given positions, counted from 1, or from the end if negative."""
    size = len(values)
    places = {position - 1 if position > 0 else size + position for position in positions}
    return [values[place] for place in sorted(places) if 0 <= place < size]


def bits_of(bits: int) -> list[int]:
    """The places of the set bits."""
    return [place for place, bit in enumerate(reversed(f"{bits:b}")) if bit == "1"]


def spread(places: Iterable[int], size: int = 1, bits: int = 1) -> int:
    """The bits, again at each of these places."""
    found = 0
    for place in places:
        found |= bits << place * size
    return found
