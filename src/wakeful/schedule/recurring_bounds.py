"""From when, until when and how often: "starting next tuesday", "until november", "for six weeks", "10 times"."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from wakeful.schedule.dates import month_length, next_month, read_date, read_dayword, read_weekday
from wakeful.schedule.offsets import Offset, read_amounts, total
from wakeful.schedule.recurring_parts import DAY_END, Bounds, Hours, RhythmParts, WallBounds
from wakeful.schedule.times_of_day import PARTS, afternoon_remark, is_machine_written, read_clock, settle
from wakeful.schedule.words import MONTH, MONTHS, LazyPattern, PhraseRefused
from wakeful.schedule.zones import instant

_END = r"(?![a-z0-9])"
_COUNT = LazyPattern(
    r"(?:(?:for|only|just|at most|up to|no more than|a total of|a maximum of|max\.?) )*"
    r"(?:(twice)|(thrice)|([0-9]{1,5}) ?x"
    r"|([0-9]{1,5}) (?:more )?(?:times?|occurrences?|fires?|runs?|repetitions?|occasions?))"
    r"(?: only| in total)?"
    r"(?![a-z0-9]| (?:an?|per|each|every|in|of|daily|nightly|weekly|monthly|yearly|annually|hourly)\b)"
)
_LASTING = LazyPattern(
    r"(?:for|over|during|within) (?:(?:the |another )?(?:next|coming|following) |another |up to |at most |a total of )?"
    r"(?:(week|fortnight|month|quarter|year|day|hour)(?![a-z0-9]))?"
)
_START = LazyPattern(
    r"(?:and )?(?:starting|beginning|commencing|effective|starts|begins|from|as of|since)"
    rf"(?: (?:from|on|in|at|as of))?{_END} ?(?:the (?=start|beginning|end|[0-9]))?"
)
_UNTIL = LazyPattern(
    r"(?:and )?(?:(until|till|til|up until|up till|up to)|(through|thru|to|-)|(ending|ends|finishing|stopping))"
    rf"(?: (?:on|in|at|the end of|by))?{_END} ?"
)
_THE_END = LazyPattern(r"(?:the )?end of (?:the )?")
_ONWARDS = LazyPattern(r" (?:onwards?|on(?= ?$|,))")
_FROM_NOW = LazyPattern(rf"(?:starting|beginning|from|as of)(?: from)? (?:right )?now{_END}(?: on(?:wards?)?{_END})?")
_ISO = LazyPattern(r"([0-9]{4})-([0-9]{2})-([0-9]{2})t([0-9]{2}):([0-9]{2})(?::([0-9]{2}))?(?![0-9:.z+-])")
_EDGE = LazyPattern(r"(?:the )?(start|beginning|end) of (?:the )?")
_PERIOD = LazyPattern(rf"(?:(this|next|the|the next|the coming) )?(week|month|quarter|year){_END}")
_MONTH = LazyPattern(rf"(?:(this|next) )?({MONTH})\b\.?(?:,? ([0-9]{{4}}))?(?![a-z0-9:]| [0-9]{{1,2}}(?![0-9:]))")
_YEAR = LazyPattern(r"([0-9]{4})(?![0-9:\-/]| ?[ap]m)")
_LENGTHS = {"week": (0, 7), "fortnight": (0, 14), "month": (1, 0), "quarter": (3, 0), "year": (12, 0), "day": (0, 1)}


class NamedMoment(NamedTuple):
    """A day or a period that was said, its time of day if one was, and where that ends in the phrase."""

    first: date
    last: date
    clock: time | None
    end: int
    is_period: bool = False  # a week, month or year: what lasts until it ends before it
    exact: datetime | None = None  # a wall clock reading: so many hours from now
    remarks: tuple[str, ...] = ()
    is_clock: bool = False  # a time of day alone
    is_sure: bool = False  # in whole minutes, of which half of the day


def read_bound(text: str, position: int, parts: RhythmParts, here: datetime) -> int:
    """Read one bound; return where it ends, or -1 where none stands. `here`: what the wall clock shows now."""
    bounds = parts.bounds
    if found := _COUNT.match(text, position):
        number = 2 if found[1] else 3 if found[2] else int(found[3] or found[4])
        if bounds.max_fires is not None or number < 1:
            raise PhraseRefused("how many times is said twice" if number else "0 times is never")
        bounds.max_fires = number
        return found.end()
    if (found := _FROM_NOW.match(text, position)) is not None:
        parts.from_start = True  # of an interval; what goes by the clock does so from now on anyway
        return found.end()
    for read in (_read_lasting, _read_start, _read_end):
        if (end := read(text, position, parts, here)) >= 0:
            return end
    return -1


def says_count(text: str, position: int) -> bool:
    """Whether "10 times" stands here, whose number is not a time of day."""
    return _COUNT.match(text, position) is not None


def _read_lasting(text: str, position: int, parts: RhythmParts, here: datetime) -> int:
    bounds = parts.bounds
    found = _LASTING.match(text, position)
    if found is None:
        return -1
    if found[1]:
        months, days = _LENGTHS.get(found[1], (0, 0))
        offset, end = Offset(months, days, 0 if found[1] in _LENGTHS else 3_600_000), found.end()
    else:
        amounts, end = read_amounts(text, found.end())
        if not amounts:
            return -1
        offset = total(amounts)
    _check_end(bounds)
    bounds.months, bounds.days, bounds.millis = offset.months, offset.days, offset.millis
    return end


def _read_start(text: str, position: int, parts: RhythmParts, here: datetime) -> int:
    bounds, found = parts.bounds, _START.match(text, position)
    moment = read_moment(text, found.end(), here, exact=parts.exact) if found else None
    if found is None or moment is None:
        return -1
    if bounds.start is not None:
        raise PhraseRefused("two starts are given")
    bounds.start = moment.exact or datetime.combine(moment.first, moment.clock or time())
    bounds.start_clock = moment.clock
    bounds.remarks += moment.remarks
    if moment.is_clock and found[0].startswith("from"):
        bounds.hours = Hours((position, moment.end), bounds.start, are_sure=moment.is_sure)
    onwards = _ONWARDS.match(text, moment.end)
    return onwards.end() if onwards else moment.end


def _read_end(text: str, position: int, parts: RhythmParts, here: datetime) -> int:
    bounds, found = parts.bounds, _UNTIL.match(text, position)
    if found is None or (found[2] and found[2] in ("to", "-") and bounds.start is None):
        return -1
    is_whole = bool(found[2] or found[3] or found[0].rstrip().endswith("the end of"))
    at = found.end()
    if whole := _THE_END.match(text, at):
        is_whole, at = True, whole.end()
    moment = read_moment(text, at, max(here, bounds.start) if bounds.start else here, exact=parts.exact)
    if moment is None:
        return -1
    _check_end(bounds)
    last = moment.first - timedelta(days=1) if moment.is_period and not is_whole else moment.last
    bounds.end = moment.exact or datetime.combine(last, moment.clock or DAY_END)
    bounds.end_clock = moment.clock
    bounds.remarks += moment.remarks
    if bounds.hours is not None and moment.is_clock:
        start, begin, are_sure = bounds.hours.at[0], bounds.hours.begin, bounds.hours.are_sure and moment.is_sure
        bounds.hours = Hours((start, moment.end), begin, bounds.end, are_sure=are_sure)
    return moment.end


def _check_end(bounds: WallBounds) -> None:
    if bounds.end is not None or bounds.is_lasting:
        raise PhraseRefused("two ends are given")


def read_moment(text: str, position: int, here: datetime, *, exact: bool = False) -> NamedMoment | None:
    """The day, period or moment that stands here. `exact`: its time of day is on the 24-hour clock."""
    for read in (_read_iso, _read_offset, _read_day, _read_period, _read_clock):
        if (moment := read(text, position, here, exact)) is not None:
            return moment
    return None


def _read_iso(text: str, position: int, here: datetime, exact: bool) -> NamedMoment | None:
    found = _ISO.match(text, position)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(number or 0) for number in found.groups())
    try:
        moment = datetime.combine(date(year, month, day), time(hour, minute, second))
    except ValueError as error:
        raise PhraseRefused(f"there is no such date and time ({error})") from None
    return NamedMoment(moment.date(), moment.date(), moment.time(), found.end())


def _read_offset(text: str, position: int, here: datetime, exact: bool) -> NamedMoment | None:
    """In 2 weeks, 3 days from now: days and more are whole days."""
    at = position + 3 if text.startswith("in ", position) else position
    amounts, end = read_amounts(text, at)
    suffix = re.match(r" from now(?![a-z])", text[end:]) if amounts else None
    said_in = at > position or text.startswith("in ", max(0, position - 3))
    if not amounts or not (suffix or said_in):
        return None
    offset = total(amounts)
    end += suffix.end() if suffix else 0
    if offset.millis:
        moment = datetime.combine(offset.shift(here.date()), here.time()) + timedelta(milliseconds=offset.millis)
        return NamedMoment(moment.date(), moment.date(), None, end, exact=moment.replace(microsecond=0))
    day = offset.shift(here.date())
    return _with_clock(text, position, NamedMoment(day, day, None, end), exact)


def _read_day(text: str, position: int, here: datetime, exact: bool) -> NamedMoment | None:
    today = here.date()
    if (found := read_date(text, position, today) or read_dayword(text, position, today)) is not None:
        day, end = found
    elif (weekday := read_weekday(text, position, today)) is not None:
        day, end = weekday[0][0], weekday[1]
    else:
        return None
    moment = NamedMoment(day.dates[0], day.dates[0], PARTS[day.part] if day.part else None, end)
    return _with_clock(text, position, moment, exact)


def _with_clock(text: str, position: int, moment: NamedMoment, exact: bool) -> NamedMoment:
    """With the time of day behind it, if that is clearly one: "friday at 9am"."""
    if not text.startswith(" ", moment.end) or moment.clock is not None:
        return moment
    read = read_clock(text, moment.end + 1)
    if read is None or read[0].bare or read[0].hours_only:
        return moment
    clock, words = read[0], text[moment.end + 1 : read[1]]
    if exact or is_machine_written(text[position : moment.end], words):
        clock = clock._replace(exact=True)
    return moment._replace(clock=settle(clock, None), end=read[1], remarks=afternoon_remark(clock, None, words))


def _read_period(text: str, position: int, here: datetime, exact: bool) -> NamedMoment | None:
    edge = _EDGE.match(text, position)
    at = edge.end() if edge else position
    moment = None
    for read in _PERIODS:
        if (moment := read(text, at, here.date())) is not None:
            break
    if moment is None or edge is None:
        return moment
    day = moment.last if edge[1] == "end" else moment.first
    return NamedMoment(day, day, None, moment.end)


def _named_period(text: str, position: int, today: date) -> NamedMoment | None:
    found = _PERIOD.match(text, position)
    if found is None or (found[1] is None and not text.startswith("of ", max(0, position - 3))):
        return None
    ahead = 1 if "next" in (found[1] or "") or "coming" in (found[1] or "") else 0
    first, last = _span(found[2], ahead, today)
    return NamedMoment(first, last, None, found.end(), is_period=True)


def _span(unit: str, ahead: int, today: date) -> tuple[date, date]:
    if unit == "week":
        monday = today - timedelta(days=today.weekday() - 7 * ahead)
        return monday, monday + timedelta(days=6)
    size = {"month": 1, "quarter": 3, "year": 12}[unit]
    begin = next_month(today, -((today.month - 1) % size) + size * ahead)
    final = next_month(begin, size - 1)
    return begin, final.replace(day=month_length(final))


def _month(text: str, position: int, today: date) -> NamedMoment | None:
    found = _MONTH.match(text, position)
    if found is None:
        return None
    month = MONTHS[found[2]]
    year = (
        int(found[3]) if found[3] else today.year + (month < today.month or (month == today.month and bool(found[1])))
    )
    first = date(year, month, 1)
    return NamedMoment(first, first.replace(day=month_length(first)), None, found.end(), is_period=True)


def _year(text: str, position: int, today: date) -> NamedMoment | None:
    found = _YEAR.match(text, position)
    if found is None or not today.year <= int(found[1]) <= today.year + 100:
        return None
    return NamedMoment(date(int(found[1]), 1, 1), date(int(found[1]), 12, 31), None, found.end(), is_period=True)


_PERIODS: tuple[Callable[[str, int, date], NamedMoment | None], ...] = (_named_period, _month, _year)


def _read_clock(text: str, position: int, here: datetime, exact: bool) -> NamedMoment | None:
    """A time of day alone: the next one."""
    read = read_clock(text, position)
    if read is None or (read[0].bare and not text.startswith("at ", max(0, position - 3))) or read[0].hours_only:
        return None
    clock = read[0]._replace(exact=True) if exact else read[0]
    at = settle(clock, None)
    day = here.date() + timedelta(days=0 if at > here.time() else 1)
    remarks = afternoon_remark(clock, None, text[position : read[1]])
    is_sure = bool(clock.half or clock.certain) and not (at.second or at.microsecond)
    return NamedMoment(day, day, at, read[1], remarks=remarks, is_clock=True, is_sure=is_sure)


def resolved(bounds: WallBounds, now: datetime, tz: ZoneInfo) -> Bounds:
    """The bounds as moments."""
    starts_at = instant(bounds.start, tz) if bounds.start else None
    ends_at = instant(bounds.end, tz) if bounds.end else None
    if bounds.is_lasting:
        offset = Offset(bounds.months, bounds.days, bounds.millis)
        # What lasts from its first moment on ends before the same moment comes again; now itself has passed.
        ends_at = offset.after(starts_at, tz) - timedelta(seconds=1) if starts_at else offset.after(now, tz)
        ends_at = ends_at.replace(microsecond=0)
    if ends_at is not None and ends_at <= now:
        raise PhraseRefused(f"its end, {ends_at.astimezone(tz):%Y-%m-%d %H:%M}, has passed")
    if starts_at is not None and ends_at is not None and ends_at < starts_at:
        raise PhraseRefused("its end is before its start")
    return Bounds(_utc(starts_at), _utc(ends_at), bounds.max_fires)


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)
