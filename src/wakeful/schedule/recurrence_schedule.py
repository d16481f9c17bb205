"""When a recurrence fires next: its days and its times of day as bits.

A search starts at the moment that it is given, whatever the age of the rule.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from math import gcd
from typing import Protocol
from zoneinfo import ZoneInfo

from wakeful.errors import InvalidSchedule
from wakeful.schedule.recurrence import CountedDay, Recurrence, RecurrenceRule, RuleMoment, read
from wakeful.schedule.wall_schedule import WallSchedule, lowest, reading
from wakeful.schedule.zones import SECOND, aware, by_zone_rules, instant, zone

LAST_YEAR = 9999
_EVERY_SEVENTH = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28
_EVERY_WEEK_OF_YEAR = sum(1 << 7 * week for week in range(54))
_MONTH_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_ALL_MONTHS = (2 << 12) - 2
_WEEK = 127


class RuleDays:
    """The days of one rule that counts from `start`. It never changes; it only remembers its last year and month."""

    __slots__ = (
        *("_month", "_month_days", "_months", "_n", "_nth_in_month", "_nth_in_year", "_rule", "_start", "_stride"),
        *("_week", "_weekdays", "_year"),
    )

    def __init__(self, rule: RecurrenceRule, start: date) -> None:
        rule = with_days_of(rule, start)
        self._rule = rule
        self._start = start
        self._n = rule.interval
        self._months = sum(1 << month for month in rule.by_month) or _ALL_MONTHS
        self._month_days = rule.by_month_day
        self._weekdays = sum({1 << day.weekday for day in rule.by_day if not day.n})
        counted = tuple(day for day in rule.by_day if day.n)
        in_year = rule.freq == "YEARLY" and not rule.by_month
        self._nth_in_month = () if in_year else counted
        self._nth_in_year = counted if in_year else ()
        self._week = week_of(start.toordinal(), rule.week_start)
        self._stride = sum(1 << day for day in range(0, 31, self._n))
        self._year = (0, 0)
        self._month = (0, 0, 0)

    def of(self, year: int, month: int) -> int:
        """The days of a month, as bits 1 to 31."""
        known_year, known_month, known = self._month
        if (known_year, known_month) != (year, month):
            known = self._of(year, month) if self._months >> month & 1 else 0
            self._month = year, month, known
        return known

    def _of(self, year: int, month: int) -> int:
        length = 29 if month == 2 and is_leap(year) else _MONTH_LENGTHS[month]
        first = date(year, month, 1).toordinal()
        bits = self._counted(year, month, first) & (2 << length) - 2
        if bits and self._month_days:
            bits &= sum({1 << (day if day > 0 else length + 1 + day) for day in self._month_days if -day <= length})
        if bits and (self._weekdays or self._nth_in_month) and not self._nth_in_year:
            bits &= self._on_weekdays(length, first % 7)
        if bits and (self._rule.by_year_day or self._rule.by_week_no or self._nth_in_year):
            bits &= self._in_year(year) >> first - date(year, 1, 1).toordinal()
        return bits

    def _counted(self, year: int, month: int, first: int) -> int:
        """Those in a year, month, week or day that counts, when only every n-th does."""
        freq, n = self._rule.freq, self._n
        if n == 1 or freq in ("HOURLY", "MINUTELY"):
            return -1
        if freq == "YEARLY":
            return 0 if (year - self._start.year) % n else -1
        if freq == "MONTHLY":
            return 0 if (month_number(year, month) - month_number(self._start.year, self._start.month)) % n else -1
        if freq == "DAILY":
            return self._stride << (self._start.toordinal() - first) % n + 1
        bits, begins = 0, self._rule.week_start
        week = week_of(first, begins)
        for number in range(week + (self._week - week) % n, week_of(first + 30, begins) + 1, n):
            at = number * 7 + begins - first + 1
            bits |= _WEEK << at if at >= 0 else _WEEK >> -at
        return bits

    def _on_weekdays(self, length: int, first: int) -> int:
        week = self._weekdays
        bits = ((week >> first | week << 7 - first) & _WEEK) * _EVERY_SEVENTH << 1
        for day in self._nth_in_month:
            bits |= nth_weekday(day, length, first)
        return bits

    def _in_year(self, year: int) -> int:
        """The days of a year, as bits 1 to 366, by the parts that count within the year."""
        known, bits = self._year
        if known != year:
            bits = self._work_out_year(year)
            self._year = year, bits
        return bits

    def _work_out_year(self, year: int) -> int:
        rule, length = self._rule, 366 if is_leap(year) else 365
        first = date(year, 1, 1).toordinal()
        bits = (2 << length) - 2
        if rule.by_year_day:
            bits &= sum({1 << (day if day > 0 else length + 1 + day) for day in rule.by_year_day if -day <= length})
        if rule.by_week_no:
            bits &= self._in_weeks(year, first)
        if self._nth_in_year:
            week = self._weekdays
            on = ((week >> first % 7 | week << 7 - first % 7) & _WEEK) * _EVERY_WEEK_OF_YEAR << 1
            for day in self._nth_in_year:
                on |= nth_weekday(day, length, first % 7)
            bits &= on
        return bits

    def _in_weeks(self, year: int, first: int) -> int:
        """Week 1 is the first with four days in its year: the days at either end may be of a neighbour's week."""
        bits = 0
        for owner in (year - 1, year, year + 1):
            begin, end = first_week(owner, self._rule.week_start), first_week(owner + 1, self._rule.week_start)
            weeks = (end - begin) // 7
            for number in self._rule.by_week_no:
                week = number - 1 if number > 0 else weeks + number
                if 0 <= week < weeks:
                    at = begin + 7 * week - first + 1
                    bits |= _WEEK << at if at >= 0 else _WEEK >> -at
        return bits

    def next_month(self, year: int, month: int) -> tuple[int, int]:
        """The next month that may have some; beyond the last year when there is none."""
        number = month_number(year, month) + 1
        freq, n = self._rule.freq, self._n
        if n > 1:
            if freq == "MONTHLY":
                number += (month_number(self._start.year, self._start.month) - number) % n
            elif freq == "YEARLY":
                wait = (self._start.year - number // 12) % n
                number = (number // 12 + wait) * 12 if wait else number
            elif freq in ("DAILY", "WEEKLY") and number // 12 <= LAST_YEAR:
                number = max(number, self._month_of_next_counted(number))
        while not self._months >> number % 12 + 1 & 1 and number // 12 <= LAST_YEAR:
            number += 1
        return number // 12, number % 12 + 1

    def rare(self) -> int:
        """The day that makes shorter months be skipped, or 0."""
        lowest = min(self._month_days, default=0)
        skipped = (month for month in range(1, 13) if self._months >> month & 1 and _MONTH_LENGTHS[month] < lowest)
        return lowest if any(skipped) else 0

    def _month_of_next_counted(self, number: int) -> int:
        """In which month the next day or week that counts begins or goes on: long intervals skip many."""
        ordinal = date(number // 12, number % 12 + 1, 1).toordinal()
        if self._rule.freq == "DAILY":
            ordinal += (self._start.toordinal() - ordinal) % self._n
        else:
            week = week_of(ordinal, self._rule.week_start)
            ordinal = max(ordinal, (week + (self._week - week) % self._n) * 7 + self._rule.week_start)
        if ordinal > date.max.toordinal():
            return (LAST_YEAR + 1) * 12
        found = date.fromordinal(ordinal)
        return month_number(found.year, found.month)


def with_days_of(rule: RecurrenceRule, start: date) -> RecurrenceRule:
    """The rule with the day it leaves out: that of its start."""
    if rule.by_week_no and not rule.by_day and not rule.by_year_day and not rule.by_month_day:
        return rule._replace(by_day=(CountedDay(start.toordinal() % 7),))
    if rule.by_week_no or rule.by_year_day or rule.by_month_day or rule.by_day:
        return rule
    if rule.freq == "YEARLY":
        return rule._replace(by_month=rule.by_month or (start.month,), by_month_day=(start.day,))
    if rule.freq == "MONTHLY":
        return rule._replace(by_month_day=(start.day,))
    if rule.freq == "WEEKLY":
        return rule._replace(by_day=(CountedDay(start.toordinal() % 7),))
    return rule


def month_number(year: int, month: int) -> int:
    return year * 12 + month - 1


def week_of(ordinal: int, week_start: int) -> int:
    """The number of a day's week, counted through all years."""
    return (ordinal - week_start) // 7


def first_week(year: int, week_start: int) -> int:
    """The day on which week 1 of a year begins: the week of its fourth day."""
    fourth = year * 365 - 361 + (year - 1) // 4 - (year - 1) // 100 + (year - 1) // 400
    return week_of(fourth, week_start) * 7 + week_start


def nth_weekday(day: CountedDay, length: int, first: int) -> int:
    """The bit of a counted weekday in a month or year of this length that begins on this weekday; 0 if it has none."""
    found = 1 + (day.weekday - first) % 7
    if day.n > 0:
        found += 7 * (day.n - 1)
    else:
        found += (length - found) // 7 * 7 + 7 * (day.n + 1)
    return 1 << found if 1 <= found <= length else 0


def is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


_DAY = 86_400
_STEP_SECONDS = {"HOURLY": 3600, "MINUTELY": 60}


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
        length = _STEP_SECONDS.get(rule.freq, _DAY)  # of what repeats: a day, an hour or a minute
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


TICK = timedelta(microseconds=1)
SHORTER = ("HOURLY", "MINUTELY")  # than a day
_MIDNIGHT = (0, 0, 0)
_LAST_DAY = date.max.toordinal()
_NO_END = datetime.max.replace(tzinfo=UTC)
# How far a search goes before it is given up: years from the moment asked, and candidates. Within 40 years every
# weekday meets every date, over 2100 as well. Whoever searches for a rule of somebody else's must get an answer in
# milliseconds, whatever the rule.
SEARCHED_YEARS = 200
_YEARS = 41
_MONTHS = _YEARS * 12
_DAYS = 2_000
_PERIODS = {"YEARLY": _YEARS, "MONTHLY": _MONTHS, "WEEKLY": _MONTHS}  # those with any day at all


class Fires(Protocol):
    """What answers when it fires next."""

    def after(self, moment: datetime) -> datetime | None: ...


class RuleSchedule(WallSchedule):
    """One rule, counted from a reading of the wall clock. It never changes; it only remembers what it worked out."""

    __slots__ = ("_counted", "_end", "_fraction", "_reach", "_slots", "begin", "days", "origin", "rule", "times")

    def __init__(self, rule: RecurrenceRule, origin: datetime, tz: ZoneInfo, begin: datetime | None = None) -> None:
        """`origin`: the reading it counts from. `begin`: the moment before which nothing fires; else that reading's."""
        clock_named = rule.freq not in SHORTER
        super().__init__(tz, fixed=clock_named or bool(rule.by_hour and (rule.by_minute or rule.freq == "HOURLY")))
        self.rule = rule
        self._fraction = timedelta(microseconds=origin.microsecond)
        self.origin = origin.replace(microsecond=0)
        self.begin = begin or instant(self.origin, tz)
        self._end = _NO_END if rule.until is None else _last_moment(rule.until, tz)
        self._counted = 0, self.begin - TICK
        self.days = RuleDays(rule, self.origin.date())
        self.times = RuleTimes(rule, self.origin)
        # Years that count are far apart; where days or weeks are counted, which of them meet a date takes longer.
        self._reach = min(SEARCHED_YEARS, _YEARS * (rule.interval if rule.freq in ("YEARLY", "MONTHLY") else _MONTHS))
        self._slots = bits_of(self.times.of(0)) if rule.by_set_pos else []
        if not self.times.any():
            raise InvalidSchedule(
                f"RRULE:{rule.text()} never fires: no {rule.freq.lower()} step falls on a time it names.",
                field="cron_expr",
                fix="Leave out BYSETPOS, INTERVAL or one of BYHOUR, BYMINUTE and BYSECOND, or change DTSTART.",
            )

    def search(self, start: datetime) -> datetime | None:
        found = self.search_uncounted(start)
        if found is None or found > self._end:
            return None
        return found if self.rule.fire_count is None or self._is_counted(found) else None

    def search_uncounted(self, start: datetime) -> datetime | None:
        """The next fire as if there were no COUNT and no UNTIL."""
        found = super().search(max(start, self.begin - TICK) - self._fraction)
        return None if found is None else found + self._fraction

    def _is_counted(self, found: datetime) -> bool:
        """Whether a fire is among the first COUNT. Each fire is counted once, then remembered."""
        count, last = self._counted
        assert self.rule.fire_count is not None
        if found.year - self.begin.year > (_YEARS if self.rule.freq in SHORTER else SEARCHED_YEARS):
            return False  # counting so far would keep others waiting
        while count < self.rule.fire_count and last < found:
            following = self.search_uncounted(last)
            assert following is not None  # found is one, and it is later
            count, last = count + 1, following
        self._counted = count, last
        return found <= last

    def at_or_after(self, wall: datetime, limit: int = 0) -> datetime | None:
        if self.fixed and wall < self.origin:
            wall = self.origin
        if self.rule.by_set_pos and self.rule.freq in _PERIODS:
            return self._picked_from(wall)
        ordinal, slot = wall.toordinal(), self.times.slot(wall)
        last = min(wall.year + SEARCHED_YEARS, LAST_YEAR)
        for _ in range(_DAYS):
            ordinal, slot = self.times.first_counted(ordinal, slot)
            day = self._day_from(ordinal, last)
            if day < 0:
                return None
            if day > ordinal:
                ordinal, slot = day, 0
            if (found := lowest(self.times.of(ordinal), slot)) >= 0:
                return self._reading(ordinal, found)
            ordinal, slot = ordinal + 1, 0
        return None

    def _reading(self, ordinal: int, slot: int) -> datetime:
        day = date.fromordinal(ordinal)
        return reading(day.year, day.month, day.day, self.times.time(slot))

    def _day_from(self, ordinal: int, last: int = LAST_YEAR) -> int:
        """The first day that fires, from this one on up to the end of a year; -1 when there is none."""
        if ordinal > _LAST_DAY:
            return -1
        start = date.fromordinal(ordinal)
        year, month, day = start.year, start.month, start.day
        last = min(year + self._reach, last)
        for _ in range(_MONTHS if year <= last else 0):
            if (found := lowest(self.days.of(year, month), day)) > 0:
                return (
                    ordinal + found - day
                    if month == start.month and year == start.year
                    else _ordinal(year, month, found)
                )
            year, month = self.days.next_month(year, month)
            day = 1
            if year > last:
                break
        return -1

    def _picked_from(self, wall: datetime) -> datetime | None:
        """With BYSETPOS: the first of those picked in each year, month or week that is not before a reading."""
        begins = self._period(wall)
        period = begins + (self._period(self.origin) - begins) % self.rule.interval
        slots, last = self._slots, min(wall.year + SEARCHED_YEARS, LAST_YEAR)
        for _ in range(_PERIODS[self.rule.freq]):
            days = self._days_of(period)
            for place in picked(range(len(days) * len(slots)), self.rule.by_set_pos):
                found = self._reading(days[place // len(slots)], slots[place % len(slots)])
                if found >= wall:
                    return found
            day = self._day_from(self._end_of(period), last)
            if day < 0:
                return None
            period = self._period(date.fromordinal(day))
        return None

    def _end_of(self, period: int) -> int:
        """The first day behind a year, month or week."""
        if self.rule.freq == "WEEKLY":
            return (period + 1) * 7 + self.rule.week_start
        year, month = (period + 1, 0) if self.rule.freq == "YEARLY" else divmod(period + 1, 12)
        return _ordinal(year, month + 1, 1) if year <= LAST_YEAR else _LAST_DAY + 1

    def _period(self, wall: date) -> int:
        if self.rule.freq == "YEARLY":
            return wall.year
        if self.rule.freq == "MONTHLY":
            return month_number(wall.year, wall.month)
        return week_of(wall.toordinal(), self.rule.week_start)

    def _days_of(self, period: int) -> list[int]:
        """The days of a year, month or week on which it fires; none beyond the end of the calendar."""
        if self.rule.freq == "WEEKLY":
            first = period * 7 + self.rule.week_start
            week = [date.fromordinal(ordinal) for ordinal in range(first, min(first + 7, _LAST_DAY + 1))]
            return [day.toordinal() for day in week if self.days.of(day.year, day.month) >> day.day & 1]
        numbers = [period] if self.rule.freq == "MONTHLY" else range(period * 12, period * 12 + 12)
        found = []
        for year, month in (divmod(number, 12) for number in numbers):
            if year <= LAST_YEAR:
                before = _ordinal(year, month + 1, 1) - 1
                found += [before + day for day in bits_of(self.days.of(year, month + 1))]
        return found


class RecurrenceSchedule:
    """Several rules and single dates as one, without its exceptions."""

    __slots__ = ("_days_off", "_off", "rules", "zone")

    def __init__(
        self, rules: tuple[Fires, ...], off: frozenset[datetime], days_off: frozenset[date], tz: ZoneInfo
    ) -> None:
        self.rules = rules
        self._off = off
        self._days_off = days_off
        self.zone = tz

    def after(self, moment: datetime) -> datetime | None:
        start = aware(moment)
        while True:  # an exception is met once at most
            found = min((fire for rule in self.rules if (fire := rule.after(start)) is not None), default=None)
            if found is None:
                return None
            if found in self._off:
                start = found
            elif self._days_off and (day := found.astimezone(self.zone).date()) in self._days_off:
                start = max(found, _last_moment(day, self.zone))
            else:
                return found


class FixedDates:
    """Single moments."""

    __slots__ = ("_moments",)

    def __init__(self, moments: list[datetime]) -> None:
        self._moments = sorted(moments)

    def after(self, moment: datetime) -> datetime | None:
        at = bisect_right(self._moments, moment)
        return self._moments[at] if at < len(self._moments) else None


class Unanchored:
    """A recurrence that was only checked: it does not know yet what it counts from."""

    __slots__ = ()

    def after(self, moment: datetime) -> datetime | None:
        raise InvalidSchedule("a rule without DTSTART needs the moment it counts from.", field="anchor")


def recurrence_schedule(text: str, timezone: str, anchor: datetime | None) -> Fires:
    """The schedule of a recurrence's text; the same text, zone and anchor give the same, shared value."""
    recurrence, name = read(text, timezone)
    if recurrence.start is not None:
        anchor = None
    elif anchor is not None:
        anchor = aware(anchor, "anchor")
        anchor = anchor.replace(microsecond=anchor.microsecond // 1000 * 1000)
    return _shared(recurrence, name, anchor)


def first_anchor(text: str, timezone: str, now: datetime) -> datetime:
    """What a rule without DTSTART counts from if it is set now: its own first fire.

    Not where the clocks move that fire: its time of day would be taken for the rule's.
    """
    recurrence, name = read(text, timezone)
    endless = recurrence._replace(rules=tuple(rule._replace(fire_count=None, until=None) for rule in recurrence.rules))
    if all(rule.says_time for rule in recurrence.rules):
        return _shared(endless, name, now + SECOND).after(now) or now
    tz, fire = zone(name), _shared(endless, name, now).after(now) or now
    follows = any(rule.freq in SHORTER for rule in recurrence.rules)
    return fire if follows or fire.astimezone(tz).time() == now.astimezone(tz).time() else now


@by_zone_rules(maxsize=4096)
def _shared(recurrence: Recurrence, timezone: str, anchor: datetime | None) -> Fires:
    tz = zone(timezone)
    if recurrence.start is None and anchor is None:
        _build(recurrence, tz, datetime(2000, 1, 1, tzinfo=UTC))
        return Unanchored()
    return _build(recurrence, tz, anchor)


def _build(recurrence: Recurrence, tz: ZoneInfo, anchor: datetime | None) -> Fires:
    if recurrence.start is not None:
        origin = _wall(recurrence.start, tz)
        rules: list[Fires] = [RuleSchedule(rule, origin, tz) for rule in recurrence.rules]
    else:
        assert anchor is not None
        origin = anchor.astimezone(tz).replace(tzinfo=None, fold=0)
        rules = [_counted_from(rule, origin, tz, anchor) for rule in recurrence.rules]
    if not recurrence.dates and not recurrence.exceptions and len(rules) == 1:
        return rules[0]
    if recurrence.dates:
        rules.append(FixedDates([_at(moment, origin, tz) for moment in recurrence.dates]))
    off = frozenset(_at(moment, origin, tz) for moment in recurrence.exceptions if isinstance(moment, datetime))
    days_off = frozenset(moment for moment in recurrence.exceptions if not isinstance(moment, datetime))
    return RecurrenceSchedule(tuple(rules), off, days_off, tz)


def _counted_from(rule: RecurrenceRule, origin: datetime, tz: ZoneInfo, anchor: datetime) -> RuleSchedule:
    """A rule without DTSTART: counted from its first reading at or after the start.

    If it names a time of day that has no seconds: not those at which it happens to be set.
    """
    if rule.says_time:
        origin = origin.replace(microsecond=0)
        rule = rule._replace(by_second=rule.by_second or (0,))
    elif rule.freq not in SHORTER:
        rule = rule._replace(by_hour=(origin.hour,), by_minute=(origin.minute,), by_second=(origin.second,))
    if rule.interval > 1:
        rule = with_days_of(rule, origin.date())
        each = RuleSchedule(rule._replace(interval=1, fire_count=None), origin, tz, anchor)
        first = each.at_or_after(origin.replace(microsecond=0))
        origin = (first or origin).replace(microsecond=origin.microsecond)
    return RuleSchedule(rule, origin, tz, anchor)


def _wall(start: RuleMoment, tz: ZoneInfo) -> datetime:
    if not isinstance(start, datetime):
        return reading(start.year, start.month, start.day, _MIDNIGHT)
    return start if start.tzinfo is None else start.astimezone(tz).replace(tzinfo=None)


def _at(moment: RuleMoment, origin: datetime, tz: ZoneInfo) -> datetime:
    """A date's moment in UTC; a whole day has the time of day the rules count from."""
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, origin.time())
    return moment if moment.tzinfo is not None else instant(moment, tz)


def _last_moment(day: RuleMoment, tz: ZoneInfo) -> datetime:
    """The end of a day, or the moment itself."""
    if isinstance(day, datetime):
        return day if day.tzinfo is not None else instant(day, tz)
    after = date.fromordinal(day.toordinal() + 1)
    return instant(reading(after.year, after.month, after.day, _MIDNIGHT), tz) - TICK


def _ordinal(year: int, month: int, day: int) -> int:
    return date(year, month, day).toordinal()
