"""The parts of a recurring phrase as values; how often it fires, and between which hours."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import NamedTuple

from wakeful.schedule.names import ordinal
from wakeful.schedule.offsets import Offset, read_amounts, total
from wakeful.schedule.recurrence import LONGEST_INTERVAL, CountedDay
from wakeful.schedule.times_of_day import WallTime
from wakeful.schedule.words import MONTH, UNITS, WEEKDAY, Contradiction, LazyPattern, PhraseRefused

WORKDAYS = frozenset(range(1, 6))
WEEKEND = frozenset({0, 6})
EVERY_DAY = frozenset(range(7))
DAY_END = time(23, 59, 59)


class Bounds(NamedTuple):
    """From when, until when and how often a series fires; None where nothing was said."""

    starts_at: datetime | None = None
    ends_at: datetime | None = None
    max_fires: int | None = None


@dataclass(slots=True)
class Exclusions:
    """The days on which something that recurs does not fire."""

    weekdays: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    month_days: frozenset[int] = frozenset()
    yearly: frozenset[tuple[int, int]] = frozenset()  # month and day, in every year
    dates: frozenset[date] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.weekdays or self.months or self.month_days or self.yearly or self.dates)


class Hours(NamedTuple):
    """From one time of day to another: where that stands in the phrase, and the readings of the wall clock."""

    at: tuple[int, int]
    begin: datetime
    end: datetime | None = None
    are_sure: bool = True  # that nobody can take one for the other half of the day


@dataclass(slots=True)
class WallBounds:
    """The bounds as they were said: readings of the wall clock, and how long."""

    start: datetime | None = None
    start_clock: time | None = None  # the time of day that was said with the start
    end: datetime | None = None
    end_clock: time | None = None
    hours: Hours | None = None  # times of day alone that it is from and to
    months: int = 0  # how long, counted from the start or from now
    days: int = 0
    millis: int = 0
    max_fires: int | None = None
    remarks: list[str] = field(default_factory=list)

    @property
    def is_lasting(self) -> bool:
        return bool(self.months or self.days or self.millis)


@dataclass(slots=True)
class RhythmParts:
    """Everything a recurring phrase says, each part at most once."""

    recurs: bool = False  # it says so: "every", "daily", "mondays"
    each: bool = False  # "every" was said, and what it belongs to comes next
    unit: str = ""  # day, week, month or year
    interval: int = 1
    unit_at: tuple[int, int] = (0, 0)  # where in the phrase that was said
    seconds: int = 0  # of an interval that is shorter than a day
    from_start: bool = False
    times_per_unit: int = 0  # "twice a day"
    weekdays: frozenset[int] = frozenset()
    is_weekday_range: bool = False
    days: tuple[int, ...] = ()  # of the month; from its end if negative
    counted: tuple[CountedDay, ...] = ()  # first friday
    positions: tuple[int, ...] = ()  # the first, the last … of all `picked_from` within a month
    picked_from: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    is_of_quarter: bool = False
    year_days: tuple[int, ...] = ()
    weeks: tuple[int, ...] = ()
    clocks: list[WallTime] = field(default_factory=list)
    clock_words: list[str] = field(default_factory=list)
    part: str | None = None
    window: tuple[time, time] | None = None
    bounds: WallBounds = field(default_factory=WallBounds)
    exclusions: Exclusions = field(default_factory=Exclusions)
    is_utc: bool = False
    exact: bool = False  # UTC is said beside it: its times are on the 24-hour clock
    remarks: list[str] = field(default_factory=list)

    @property
    def says_days(self) -> bool:
        """Whether it names days of a week, month or year."""
        return bool(self.weekdays or self.says_dates or self.weeks)

    @property
    def says_dates(self) -> bool:
        return bool(self.days or self.counted or self.positions or self.year_days)

    @property
    def says_rhythm(self) -> bool:
        return bool(self.unit or self.seconds or self.says_days or (self.part and self.recurs))

    def set_interval(self, unit: str, interval: int, at: tuple[int, int]) -> None:
        if self.unit or self.seconds:
            raise PhraseRefused("how often it recurs is said twice")
        self.unit, self.interval, self.unit_at = unit, interval, at
        self.recurs = True
        self.each = False

    def set_seconds(self, seconds: int) -> None:
        self.set_interval("", 1, (0, 0))
        self.seconds = seconds

    def set_dates(self) -> None:
        """Before days of a month are read."""
        if self.says_dates:
            raise PhraseRefused("days of the month are said twice: set one schedule for each")
        self.each = False


_END = r"(?![a-z0-9])"
_OTHER = r"other|alternate|second|[0-9]{1,5}(?:st|nd|rd|th)"
_CALENDAR = r"day|week|fortnight|month|quarter|year"
_NAMED = LazyPattern(rf"(everyday|daily|nightly|hourly|weekly|fortnightly|monthly|quarterly|yearly|annually){_END}")
_PER_UNIT = LazyPattern(
    rf"(?:(once)|(twice)|thrice|([0-9]{{1,2}})(?: times| ?x)) "
    rf"(?:(?:an?|per|each|every) (day|week|month|year)|(daily|nightly|weekly|monthly|yearly|annually)){_END}"
)
_EVERY = LazyPattern(rf"(?:once )?(?:every|each){_END} ?")
_OTHER_UNIT = LazyPattern(rf"(?:({_OTHER}) )?({_CALENDAR})s?{_END}(?! of )")
_OTHER_DAYS = LazyPattern(rf"(?:({_OTHER})|([0-9]{{1,3}})) (?={WEEKDAY}s?{_END}|weekends?{_END})")
_WORKDAYS = LazyPattern(rf"(?:{_OTHER}|[0-9]{{1,5}}) (?:week|work|working|business)[ -]?days?{_END}(?! of )")
_OF_A_MONTH = LazyPattern(r" (?:of|in) ")
_ONE_NAME = LazyPattern(rf"(?:{WEEKDAY}|weekend)s?")
_SINGLE_UNIT = LazyPattern(r"(half (?:an )?hour|hour|minute|second|min|sec)(?![a-z])")
_FROM_START = LazyPattern(r" from its start(?![a-z])")
_NAMED_UNITS = {
    "everyday": ("day", 1),
    "daily": ("day", 1),
    "nightly": ("day", 1),
    "weekly": ("week", 1),
    "fortnightly": ("week", 2),
    "monthly": ("month", 1),
    "quarterly": ("month", 3),
    "yearly": ("year", 1),
    "annually": ("year", 1),
}
_CALENDAR_UNITS = {"fortnight": ("week", 2), "quarter": ("month", 3)}
_STEPS = {"d": ("day", 1), "w": ("week", 7), "fortnight": ("week", 7), "mo": ("month", 1), "y": ("year", 12)}


def read_interval(text: str, position: int, parts: RhythmParts) -> int:
    """Read how often; return where it ends, or -1 where nothing of this kind stands."""
    if found := _NAMED.match(text, position):
        _named(found, parts)
        return found.end()
    if found := _PER_UNIT.match(text, position):
        parts.set_interval(found[4] or _NAMED_UNITS[found[5]][0], 1, found.span())
        parts.times_per_unit = 1 if found[1] else 2 if found[2] else int(found[3] or 3)
        return found.end()
    if found := _EVERY.match(text, position):
        return _after_every(text, found.end(), parts, position)
    return -1


def _named(found: re.Match[str], parts: RhythmParts) -> None:
    if found[1] == "hourly":
        parts.set_seconds(3600)
        return
    parts.set_interval(*_NAMED_UNITS[found[1]], found.span())
    if found[1] == "nightly":
        if parts.part not in (None, "night"):
            raise PhraseRefused(f"{parts.part} and night contradict each other")
        parts.part = "night"


def _after_every(text: str, position: int, parts: RhythmParts, begin: int) -> int:
    if parts.each:
        raise PhraseRefused('"every" is said twice')
    if found := _OTHER_UNIT.match(text, position):
        unit, size = _CALENDAR_UNITS.get(found[2], (found[2], 1))
        parts.set_interval(unit, _checked(size * how_many(found[1])), (begin, found.end()))
        return found.end()
    if found := _OTHER_DAYS.match(text, position):
        return _weeks(text, found, parts, begin)
    if found := _WORKDAYS.match(text, position):
        raise PhraseRefused(f'"{text[begin : found.end()]}" cannot be counted: name the days, or say every weekday')
    if (end := _amounts(text, position, parts, begin)) >= 0:
        return end
    parts.recurs = parts.each = True
    return position


def how_many(word: str | None) -> int:
    """1 for nothing said, 2 for "other", else the number."""
    if not word:
        return 1
    digits = re.sub(r"[a-z]+$", "", word)
    return int(digits) if digits else 2


def _weeks(text: str, found: re.Match[str], parts: RhythmParts, begin: int) -> int:
    """Every other friday, every 3 weekends; "every 3rd friday" only where its month follows, which others read."""
    name = _ONE_NAME.match(text, found.end())
    assert name is not None
    if found[1] and found[1] not in ("other", "alternate"):
        if _OF_A_MONTH.match(text, name.end()) or how_many(found[1]) == 1:
            parts.recurs = parts.each = True
            return found.start()
        day, n = name[0], how_many(found[1])
        period = text[begin : name.end()]
        readings = [f"every {n} weeks on {day}", *([f"every {ordinal(n)} {day} of the month"] if n < 6 else [])]
        raise Contradiction(
            f'"{period}" can be every {n} weeks or once a month',
            *(f"{text[:begin]}{one}{text[name.end() :]}" for one in readings),
        )
    parts.set_interval("week", _checked(how_many(found[1] or found[2])), (begin, found.end()))
    return found.end()


def _amounts(text: str, position: int, parts: RhythmParts, begin: int) -> int:
    if single := _SINGLE_UNIT.match(text, position):
        half = 2 if single[1].startswith("half") else 1
        parts.set_seconds({"h": 3600, "m": 60, "s": 1}[single[1].split()[-1][0]] // half)
        return _from_start(text, single.end(), parts)
    amounts, end = read_amounts(text, position)
    if not amounts:
        return -1
    offset = total(amounts)
    if offset.months or offset.days:
        parts.set_interval(*_calendar(offset, UNITS[amounts[0][7]], text, (position, end)), (begin, end))
        return end
    if offset.millis % 1000 or offset.millis < 1000:
        raise PhraseRefused("an interval must be whole seconds, at least one")
    parts.set_seconds(offset.millis // 1000)
    return _from_start(text, end, parts)


def _from_start(text: str, end: int, parts: RhythmParts) -> int:
    if counted := _FROM_START.match(text, end):
        parts.from_start = True
        return counted.end()
    return end


def _calendar(offset: Offset, unit: str, text: str, at: tuple[int, int]) -> tuple[str, int]:
    """So many days, weeks, months or years, by the calendar: the time of day stays, whatever the clocks do."""
    if offset.millis or (offset.months and offset.days):
        why = "an interval is days, weeks, months or years, or it is hours and less"
        hours, rest = divmod(offset.millis, 3_600_000)
        words = f"{text[: at[0]]}{offset.days * 24 + hours} hours{text[at[1] :]}"
        raise PhraseRefused(why, *([] if rest or offset.months else [words]))
    name, length = _STEPS[unit]
    n, rest = divmod(offset.months or offset.days, length)
    if rest:  # "1 year and 6 months", "2 weeks and 3 days"
        return ("month", _checked(offset.months)) if offset.months else ("day", _checked(offset.days))
    return name, _checked(n)


def _checked(n: int) -> int:
    if not 1 <= n <= LONGEST_INTERVAL:
        raise PhraseRefused("it is too long" if n else "every 0 of them is not an interval")
    return n


_CLOCK = r"(?:(noon|midday|midnight)|([0-9]{1,2})(?::([0-9]{2}))?(?: ?([ap])\.?m\b\.?)?)"
_WINDOW = LazyPattern(
    rf"(?:(?:from |between |during )|(?=[0-9]{{1,2}}(?::[0-9]{{2}})?(?: ?[ap]\.?m\.?)? ?(?:to|-|until|till) ?[0-9]))"
    rf"{_CLOCK}(?: (?:to|and|until|till|through|thru) | ?- ?){_CLOCK}(?![a-z0-9:]| (?:of )?{MONTH}\b)"
)
_HOURS = LazyPattern(
    r"of hours? ([0-9]{1,2})(?: through ([0-9]{1,2}))?(?: and hours? ([0-9]{1,2})(?: through ([0-9]{1,2}))?)?(?![0-9:])"
)
_AFTERNOON = range(1, 6)  # an hour that does not say which half of the day is in the afternoon here, as everywhere
_NOON = 12 * 60
_DAY = 24 * 60
_ClockGroups = tuple[str | None, ...]  # the groups of _CLOCK: name, hour, minute, half


def read_window(text: str, position: int, parts: RhythmParts) -> int:
    if found := _HOURS.match(text, position):
        _set(parts, *_hours(found))
        return found.end()
    found = _WINDOW.match(text, position)
    if found is None:
        return -1
    readings = _readings(found.groups()[:4], found.groups()[4:], exact=parts.exact)
    if len(readings) > 1:
        words = [f"from {_time(begin):%H:%M} to {_time(end):%H:%M}" for begin, end in readings]
        raise Contradiction(
            f'"{found[0]}" can be {" or ".join(words)}',
            *(f"{text[:position]}{reading}{text[found.end() :]}" for reading in words),
        )
    [(begin, end)] = readings
    _set(parts, _time(begin), _time(end))
    if any(_is_in_afternoon(*one) for one in ((found.groups()[:4], begin), (found.groups()[4:], end))):
        read = f"{_time(begin):%H:%M} to {_time(end):%H:%M}"
        parts.remarks.append(f'"{found[0]}" was read as {read}: for other hours write am and pm, or the 24-hour clock.')
    return found.end()


def _is_in_afternoon(clock: _ClockGroups, minutes: int) -> bool:
    """Whether it is 1 to 5 that was read as the afternoon."""
    return _is_open(clock) and int(clock[1] or 0) in _AFTERNOON and minutes % _DAY >= _NOON


def _hours(found: re.Match[str]) -> tuple[time, time]:
    """Of hours 9 through 16; of hours 0 through 5 and hours 22 through 23: those over midnight."""
    low, high = int(found[1]), int(found[2] or found[1])
    if found[3]:
        late, last = int(found[3]), int(found[4] or found[3])
        if (low, last) != (0, 23) or not high < late <= last:
            raise PhraseRefused("hours that are apart are different schedules: set one for each")
        low = late
    elif high < low:
        raise PhraseRefused("there are no such hours in a day")
    if max(low, high) > 23:
        raise PhraseRefused("there are no such hours in a day")
    return time(low), time(high, 59)


def _set(parts: RhythmParts, begin: time, end: time) -> None:
    if parts.window is not None:
        raise PhraseRefused("hours are said twice")
    if begin == end:
        raise PhraseRefused("it begins and ends at the same time")
    parts.window = begin, end


def _readings(first: _ClockGroups, last: _ClockGroups, *, exact: bool) -> list[tuple[int, int]]:
    """The windows that two clocks can mean, in minutes of the day: both on the 12-hour clock, or both on the 24-hour.

    An end before its begin is on the next morning. More than one reading means that nobody can know. `exact`: UTC is
    said beside them, so that they are on the 24-hour clock.
    """
    begin, end = _minutes(first), _minutes(last)
    if exact and _is_open(first) and _is_open(last):
        return [(begin, end)] if begin < end else [(begin, end), (begin, end + _NOON)]
    if _is_open(first) and _is_open(last):
        return _both_open(begin, end)
    if not _is_open(first) and not _is_open(last):
        return [(begin, end)]
    sure, unsure = (last, first) if _is_open(first) else (first, last)
    if _is_24h(sure[1]):
        return [(begin, end)] if _fits_24_hours(sure, unsure) else _on_24_hours(first, begin, end)
    if _is_open(last):
        return [(begin, begin + _ahead(begin, end))]
    readings = [(end - _ahead(begin, end), end)]
    if last[0] == "midnight" and begin % _NOON > _AFTERNOON[-1] * 60 + 59:  # "9 to midnight"
        readings.insert(0, (begin, end))
    return readings


def _both_open(begin: int, end: int) -> list[tuple[int, int]]:
    """9 to 5 is a working day, 2 to 4 the afternoon; of 5 to 1 nobody can know where it begins."""
    if begin // 60 not in _AFTERNOON:
        return [(begin, begin + _ahead(begin, end))]
    begins = (begin + _NOON,) if begin < end < _NOON else (begin, begin + _NOON)
    return [(at, at + _ahead(at, end)) for at in begins]


def _fits_24_hours(sure: _ClockGroups, unsure: _ClockGroups) -> bool:
    """Whether the other clock is written as on a 24-hour clock too: as in "22:00 to 6:00" and in "10:00 to 06:00"."""
    return int(sure[1] or 0) not in range(1, 13) or (len(unsure[1] or "") > 1 and unsure[2] is not None)


def _on_24_hours(first: _ClockGroups, begin: int, end: int) -> list[tuple[int, int]]:
    """One clock has a leading zero. Over midnight the other may have been meant as pm: "09:00 to 5:00"."""
    if begin <= end:
        return [(begin, end)]
    return [(begin, end), (begin + _NOON, end) if _is_open(first) else (begin, end + _NOON)]


def _ahead(begin: int, end: int) -> int:
    """How many minutes after the begin a clock next shows the end, whichever half of the day; twelve hours at most."""
    return (end - begin) % _NOON or _NOON


def _time(minutes: int) -> time:
    return time(minutes % _DAY // 60, minutes % 60)


def _is_open(clock: _ClockGroups) -> bool:
    """Whether it does not say which half of the day it is in."""
    return not clock[0] and not clock[3] and not _is_24h(clock[1])


def _minutes(clock: _ClockGroups) -> int:
    """Minutes of the day; of a clock that leaves its half of the day open those that are written."""
    name, hour, minute, half = clock
    if name:
        return 0 if name == "midnight" else _NOON
    number, minutes = int(hour or 0), int(minute or 0)
    if number > 23 or minutes > 59 or (half and not 1 <= number <= 12):
        raise PhraseRefused("there is no such time of day")
    if half:
        number = number % 12 + (12 if half == "p" else 0)
    return number * 60 + minutes


def _is_24h(hour: str | None) -> bool:
    return bool(hour) and (str(hour).startswith("0") or int(hour or 0) > 12)


def times_within(seconds: int, window: tuple[time, time]) -> list[time]:
    """The times of day from the start of a window on, so many seconds apart.

    The end of the window counts; but what recurs within an hour ends before a full one: from 9 to 5, every 20 minutes,
    the last is at 16:40.
    """
    begin, end = (at.hour * 3600 + at.minute * 60 for at in window)
    if end < begin:
        end += 86_400
    if seconds < 3600 and end % 3600 == 0:
        end -= 1
    found = range(begin, end + 1, seconds)
    if len(found) > 1440:
        raise PhraseRefused("something that recurs every few seconds has no hours of its own")
    return [time(at // 3600 % 24, at // 60 % 60, at % 60) for at in found]


def crosses_midnight(window: tuple[time, time]) -> bool:
    return window[1] < window[0]
