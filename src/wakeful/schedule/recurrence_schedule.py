"""When a recurrence fires next. Every search begins at the moment asked, whatever the age of the rule."""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, date, datetime, timedelta
from typing import Protocol
from zoneinfo import ZoneInfo

from wakeful.errors import InvalidSchedule
from wakeful.schedule.readings import WallSchedule, lowest, reading
from wakeful.schedule.recurrence import Recurrence, RecurrenceRule, Said
from wakeful.schedule.recurrence_days import LAST_YEAR, RuleDays, month_number, week_of, with_days_of
from wakeful.schedule.recurrence_text import read
from wakeful.schedule.recurrence_times import RuleTimes, bits_of, picked
from wakeful.schedule.zones import SECOND, aware, by_zone_rules, instant, zone

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

    def search(self, asked: datetime) -> datetime | None:
        found = self.search_uncounted(asked)
        if found is None or found > self._end:
            return None
        return found if self.rule.fire_count is None or self._is_counted(found) else None

    def search_uncounted(self, asked: datetime) -> datetime | None:
        """The next fire as if there were no COUNT and no UNTIL."""
        found = super().search(max(asked, self.begin - TICK) - self._fraction)
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
        asked = date.fromordinal(ordinal)
        year, month, day = asked.year, asked.month, asked.day
        last = min(year + self._reach, last)
        for _ in range(_MONTHS if year <= last else 0):
            if (found := lowest(self.days.of(year, month), day)) > 0:
                return (
                    ordinal + found - day
                    if month == asked.month and year == asked.year
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
        asked = aware(moment)
        while True:  # an exception is met once at most
            found = min((fire for rule in self.rules if (fire := rule.after(asked)) is not None), default=None)
            if found is None:
                return None
            if found in self._off:
                asked = found
            elif self._days_off and (day := found.astimezone(self.zone).date()) in self._days_off:
                asked = max(found, _last_moment(day, self.zone))
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


def _wall(start: Said, tz: ZoneInfo) -> datetime:
    if not isinstance(start, datetime):
        return reading(start.year, start.month, start.day, _MIDNIGHT)
    return start if start.tzinfo is None else start.astimezone(tz).replace(tzinfo=None)


def _at(moment: Said, origin: datetime, tz: ZoneInfo) -> datetime:
    """A date's moment in UTC; a whole day has the time of day the rules count from."""
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, origin.time())
    return moment if moment.tzinfo is not None else instant(moment, tz)


def _last_moment(said: Said, tz: ZoneInfo) -> datetime:
    """The end of a day, or the moment itself."""
    if isinstance(said, datetime):
        return said if said.tzinfo is not None else instant(said, tz)
    after = date.fromordinal(said.toordinal() + 1)
    return instant(reading(after.year, after.month, after.day, _MIDNIGHT), tz) - TICK


def _ordinal(year: int, month: int, day: int) -> int:
    return date(year, month, day).toordinal()
