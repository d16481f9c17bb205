"""Phrases for one moment: the parts are collected in whatever order they come, then put together by the rules."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any, NamedTuple

from wakeful.schedule.dates import Day, day_of_month, month_length, next_month, read_date, read_dayword, read_weekday
from wakeful.schedule.names import MONTH_NAMES, WEEKDAY_NAMES, ordinal
from wakeful.schedule.offsets import Offset, Relative, is_iso, read_length, read_offset, read_relative
from wakeful.schedule.times_of_day import (
    PART_OF_DAY,
    PARTS,
    SMALL_HOURS,
    WallTime,
    afternoon_remark,
    is_machine_written,
    read_clock,
    read_past,
    settle,
)
from wakeful.schedule.words import Contradiction, LazyPattern, PhraseRefused
from wakeful.schedule.zones import change_at, instant, zone

_BETWEEN = re.compile(r"[ ,]+")
_DATE_TO_CLOCK = re.compile(r"[:\-t](?=[0-9]{2}:[0-9]{2})")
_UNLESS = LazyPattern(r".*\bunless\b")
_EVENT = LazyPattern(r"(?:when|once|as soon as|if) [a-z]")
_PAST_WORDS = re.compile(r"\b(?:yesterday|ago|last (?:night|week|month|year))\b")
_UTC_OFFSET = re.compile(r"([+-])([0-9]{2}):?([0-9]{2})(?![0-9:])")
_YEAR = re.compile(r"([1-9][0-9]{3})(?![a-z0-9:])")
_THE_NUMBER = LazyPattern(r"(?:on )?the ([0-9]{1,2})(?![a-z0-9])")
_DAYS_NOT_HOURS = range(13, 32)  # a lone number beside a weekday: people say smaller ones for hours as well
# An abbreviation counts only while its zone really uses it: "9am EST" in July would be off by an hour.
ABBREVIATIONS = {
    **dict.fromkeys(("utc", "gmt"), "UTC"),
    **dict.fromkeys(("cet", "cest"), "Europe/Paris"),
    "jst": "Asia/Tokyo",
    **dict.fromkeys(("est", "edt"), "America/New_York"),
    **dict.fromkeys(("mst", "mdt"), "America/Denver"),
    **dict.fromkeys(("pst", "pdt"), "America/Los_Angeles"),
}
_ABBREVIATION = re.compile(rf"\(?({'|'.join(ABBREVIATIONS)})\)?(?![a-z0-9+\-/])")


class LoneNumber(NamedTuple):
    """A number that can be a day of the month: "21", or "the 21"."""

    number: int
    clock: WallTime | None  # what it is as an hour; None after "the"


@dataclass(slots=True)
class OnceParts:
    """The parts of a phrase, each at most once."""

    offset: Offset | None = None
    date: Day | None = None
    dayword: Day | None = None
    weekday: tuple[Day, int] | None = None
    part: str | None = None
    clock: WallTime | None = None
    number: LoneNumber | None = None
    abbreviation: str | None = None
    utc_offset: timedelta | None = None
    year: int | None = None
    in_utc: bool = False  # a name of UTC stood beside the phrase
    phrase: str = ""
    remarks: tuple[str, ...] = ()
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)  # where each part stands in the phrase

    @property
    def has_day(self) -> bool:
        return bool(self.date or self.dayword or self.weekday or self.offset)

    def words(self, slot: str) -> str:
        start, end = self.spans[slot]
        return self.phrase[start:end].removeprefix("on ")

    def with_part(self, slot: str, words: str) -> str:
        """The phrase with other words for one of its parts, for a suggestion that keeps all the others."""
        start, end = self.spans.get(slot, (0, 0))
        return " ".join(f"{self.phrase[:start]} {words} {self.phrase[end:]}".split()).strip(", ")

    def comes_before(self, slot: str, other: str) -> bool:
        return self.spans[slot] < self.spans[other]

    def between(self, slot: str, other: str) -> str:
        """What stands between two parts; empty where they do not come in this order."""
        return self.phrase[self.spans[slot][1] : self.spans[other][0]]


def collect(text: str, today: date) -> OnceParts:
    """Every part of the phrase, in whatever order; PhraseRefused when something is left over or said twice."""
    parts = OnceParts(phrase=text)
    position, slot = 0, ""
    while position < len(text):
        between = _DATE_TO_CLOCK if slot == "date" and text[position] in ":-t" else _BETWEEN
        if position and (gap := between.match(text, position)):
            position = gap.end()
        if text[position:] in ("", ".", "!"):
            break
        slot, value, end = _next_part(text, position, today)
        if not slot:
            raise _left_over(text, position)
        if getattr(parts, slot) is not None:
            raise PhraseRefused(f'"{text[position:end]}" is a second {slot}')
        setattr(parts, slot, value)
        parts.spans[slot] = (position, end)
        position = end
    if parts.number is not None:
        _place_number(parts, parts.number, today)
    return parts


def read_utc_offset(text: str) -> timedelta:
    if text == "z":
        return timedelta(0)
    digits = text[1:].replace(":", "").ljust(4, "0")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    if int(digits[2:]) > 59 or minutes > 14 * 60:
        raise PhraseRefused(f"there is no offset {text} from UTC")
    return timedelta(minutes=-minutes if text[0] == "-" else minutes)


def _left_over(text: str, position: int) -> PhraseRefused:
    if text.isdigit() and len(text) == 13:
        return PhraseRefused("unix time is counted in seconds here, not milliseconds", text[:10])
    if _UNLESS.match(text):
        return PhraseRefused('a condition is not part of a time: give the time alone, and a signal in policy "unless"')
    if _EVENT.match(text):
        return PhraseRefused('an event is not a time: give the latest time, and a signal in policy "or_when"')
    if _PAST_WORDS.search(text):
        return PhraseRefused("that is in the past")
    return PhraseRefused(f'"{text[position:][:60]}" was not understood')


def _next_part(text: str, position: int, today: date) -> tuple[str, Any, int]:
    found: tuple[Any, int] | None
    if found := read_past(text, position, one_moment=True):
        return "clock", *found
    if found := read_offset(text, position):
        return "offset", *found
    if found := read_date(text, position, today):
        return "date", *found
    if found := read_dayword(text, position, today):
        return "dayword", *found
    if found := read_weekday(text, position, today):
        return "weekday", *found
    if part := PART_OF_DAY.match(text, position):
        return "part", part[1], part.end()
    return _clock_or_number(text, position)


def _clock_or_number(text: str, position: int) -> tuple[str, Any, int]:
    if clock := read_clock(text, position):
        parts, end = clock
        if parts.bare and parts.hour in _DAYS_NOT_HOURS and text[position:end].isdigit():
            return "number", LoneNumber(parts.hour, parts), end
        return "clock", parts, end
    if number := _THE_NUMBER.match(text, position):
        return "number", LoneNumber(int(number[1]), None), number.end()
    return _zone_or_year(text, position)


def _zone_or_year(text: str, position: int) -> tuple[str, Any, int]:
    if short := _ABBREVIATION.match(text, position):
        return "abbreviation", short[1], short.end()
    if offset := _UTC_OFFSET.match(text, position):
        return "utc_offset", read_utc_offset(offset[0]), offset.end()
    if year := _YEAR.match(text, position):
        return "year", int(year[1]), year.end()
    return "", None, position


def _place_number(parts: OnceParts, lone: LoneNumber, today: date) -> None:
    """A lone number is the day of the month right after a weekday, and else the hour that it would be without one."""
    start, end = parts.spans["number"]
    after_weekday = (
        parts.weekday is not None
        and parts.weekday[0].plain
        and parts.comes_before("weekday", "number")
        and not parts.between("weekday", "number").strip(" ,")
    )
    is_hour = lone.clock is not None and parts.clock is None and parts.part is not None  # "monday 21 in the evening"
    if after_weekday and not is_hour and not (parts.date or parts.dayword or parts.offset):
        parts.date, parts.spans["date"] = day_of_month(lone.number, today), (start, end)
    elif lone.clock is None:
        raise PhraseRefused(
            f'"{parts.words("number")}" was not understood', parts.with_part("number", f"the {ordinal(lone.number)}")
        )
    elif parts.clock is not None:
        raise PhraseRefused(f'"{parts.words("number")}" is a second clock')
    else:
        parts.clock, parts.spans["clock"] = lone.clock, (start, end)


_WEEK = timedelta(days=7)
_COUNTED_WEEKDAYS = 5  # "2nd friday" counts the fridays of a month, "13th friday" cannot


def resolved_days(parts: OnceParts, today: date) -> tuple[date, ...]:
    """The dates it can be, soonest first; what was decided on the way is remarked."""
    if parts.date and parts.dayword:
        raise PhraseRefused("two dates are given")
    day = parts.date or parts.dayword
    if parts.year is not None:
        day = _with_year(day, parts.year)
    if parts.offset is not None:
        return (_counted(parts, parts.offset, day, today),)
    if day is not None:
        return _with_weekday(parts, day).dates
    if parts.weekday is not None:
        return parts.weekday[0].dates
    if parts.clock is None:
        raise PhraseRefused("no day is given")
    return today, today + timedelta(days=1)


def is_weekday_in_weeks(parts: OnceParts) -> bool:
    """Whether it is the weekday of a week that is so many weeks ahead: "friday in two weeks"."""
    if not (parts.offset and parts.offset.in_weeks and parts.weekday and parts.weekday[0].plain):
        return False
    words = parts.words("offset")  # "for two weeks" and "within two weeks" are not a week
    return words.startswith("in ") or words.endswith((" now", " hence", " out"))


def check_weekday(parts: OnceParts, day: date) -> None:
    if parts.weekday is not None and day.toordinal() % 7 != parts.weekday[1]:
        name = WEEKDAY_NAMES[day.toordinal() % 7]
        either = (parts.with_part("weekday", name.lower()), parts.with_part("date", ""))
        why = f"{day} is a {name}, not a {WEEKDAY_NAMES[parts.weekday[1]]}"
        raise Contradiction(why, *(either if "date" in parts.spans else ()))


def which_week(parts: OnceParts, taken: date) -> tuple[str, ...]:
    """Which of two weekdays was taken, where the words are used for both."""
    if parts.weekday is None or parts.date or parts.dayword:
        return ()
    day, other = parts.weekday[0], parts.weekday[0].other
    if other is None or taken != day.dates[0]:
        return ()
    name = WEEKDAY_NAMES[parts.weekday[1]]
    date_words = _day_and_month(other)
    return (
        f'"{parts.words("weekday")}" is {name} {_day_and_month(taken)}: '
        f'for {name} {date_words} say "{name.lower()} {date_words.lower()}".',
    )


def _day_and_month(day: date) -> str:
    return f"{day.day} {MONTH_NAMES[day.month - 1]}"


def _in_full(day: date) -> str:
    return f"{WEEKDAY_NAMES[day.toordinal() % 7]} {_day_and_month(day)} {day.year}"


def _with_year(day: Day | None, year: int) -> Day:
    if day is None or not day.yearless:
        raise PhraseRefused(f'"{year}" does not belong to a date')
    try:
        return Day((day.dates[0].replace(year=year),))
    except ValueError:
        raise PhraseRefused(f"there is no 29 February {year}") from None


def _counted(parts: OnceParts, offset: Offset, day: Day | None, today: date) -> date:
    """So far from today, or from the day that is named after it: "2 days after next friday"."""
    if day is None and is_weekday_in_weeks(parts):
        return _weekday_in_weeks(parts, offset, today)
    counts_from_weekday = offset.from_date and parts.weekday is not None and parts.comes_before("offset", "weekday")
    if counts_from_weekday and parts.weekday is not None:
        if day is not None:
            day = _with_weekday(parts, day)
        elif len(parts.weekday[0].dates) == 1:
            day = parts.weekday[0]
            parts.remarks += which_week(parts, day.dates[0])
    counted = _shifted(offset, day, today)
    if not counts_from_weekday:
        check_weekday(parts, counted)
    return counted


def _shifted(offset: Offset, day: Day | None, today: date) -> date:
    counts_from_day = offset.from_date and day is not None and not offset.millis
    if not counts_from_day and not (offset.takes_a_clock and day is None and not offset.from_date):
        raise PhraseRefused("an offset and a date cannot be combined like that")
    return offset.shift(day.dates[0] if day else today)


def _weekday_in_weeks(parts: OnceParts, offset: Offset, today: date) -> date:
    """That weekday of the week, Monday to Sunday, in which today's weekday is so many weeks ahead."""
    assert parts.weekday is not None
    there = offset.shift(today)
    day = there + timedelta(days=(parts.weekday[1] - 1) % 7 - (there.toordinal() - 1) % 7)
    if day < today + _WEEK:  # "friday in a week", said on a Sunday: hardly the one in five days
        readings = [
            parts.with_part("offset", f"{_day_and_month(one)} {one.year}".lower()) for one in (day, day + _WEEK)
        ]
        name = WEEKDAY_NAMES[parts.weekday[1]]
        raise PhraseRefused(f"that can be {name} {_day_and_month(day)} or a week later", *readings)
    if day != there:
        words = parts.words("offset")
        parts.remarks += (f'"{words}" is {_in_full(there)}: {_in_full(day)}, in the same week, is meant.',)
    return day


def _with_weekday(parts: OnceParts, day: Day) -> Day:
    """The day with the weekday beside it: the next date that is both, where its month or year is not said."""
    if parts.weekday is None:
        return day
    fits = day.dates[0].toordinal() % 7 == parts.weekday[1]
    if day.monthless and parts.between("date", "weekday") == " " and not (fits and day.dates[0].day == 1):
        _check_is_not_counted(parts, day.dates[0].day, parts.weekday[1])
    if day.monthless and parts.weekday[0].plain and parts.comes_before("weekday", "date"):
        return _next_that_is_both(parts, day.dates[0], parts.weekday[1])
    if not fits and day.yearless and parts.weekday[0].plain:
        following = _a_year_later(day.dates[0])
        if following is not None and following.toordinal() % 7 == parts.weekday[1]:
            name, coming = WEEKDAY_NAMES[parts.weekday[1]], day.dates[0]
            parts.remarks += (
                f"{_day_and_month(coming)} is not a {name} in {coming.year}: {_in_full(following)} is meant.",
            )
            return Day((following,))
    check_weekday(parts, day.dates[0])
    return day


def _check_is_not_counted(parts: OnceParts, number: int, weekday: int) -> None:
    """PhraseRefused for "2nd friday"; there is no 13th friday in a month."""
    if number > _COUNTED_WEEKDAYS:
        return
    nth, name = ordinal(number), WEEKDAY_NAMES[weekday].lower()
    parts.spans["counted"] = (parts.spans["date"][0], parts.spans["weekday"][1])
    readings = (f"{name} the {nth}", f"{nth} {name} of this month", f"{nth} {name} of next month")
    raise PhraseRefused(
        f'"{nth} {name}" can be a day of the month or count the {name.title()}s of one',
        *(parts.with_part("counted", words) for words in readings),
    )


def _next_that_is_both(parts: OnceParts, coming: date, weekday: int) -> Day:
    """Every day of the month comes on every weekday within two years, the 31st too."""
    found, number = coming, coming.day
    while found.toordinal() % 7 != weekday:
        month = next_month(found)
        while month_length(month) < number:
            month = next_month(month)
        found = month.replace(day=number)
    if found != coming or parts.number is not None:
        name = WEEKDAY_NAMES[weekday]
        parts.remarks += (f'"{name} {ordinal(number)}" is {_in_full(found)}, the next {ordinal(number)} on a {name}.',)
    return Day((found,))


def _a_year_later(day: date) -> date | None:
    """None for 29 February."""
    try:
        return day.replace(year=day.year + 1)
    except ValueError:
        return None


_UNIX = re.compile(r"([0-9]{9,10})(?:\.([0-9]{1,9}))?")
_ISO = re.compile(
    r"([0-9]{4})(-?)([0-9]{2})\2([0-9]{2})"
    r"(?:[t ]([0-9]{2}|[0-9](?=:)):?([0-9]{2})(?::?([0-9]{2})(?:[.,:]([0-9]{1,9}))?)?)?"
    r" ?(z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)
_NOW = re.compile(r"(?:right )?now|right away|immediately|straight away|at once|asap")
_MS = timedelta(milliseconds=1)


class Once(NamedTuple):
    """One moment: when it is, where it was meant, and what clocks do there."""

    fire_at: datetime
    timezone: str
    remarks: tuple[str, ...] = ()
    wall: datetime | None = None  # what clocks show then, where that is what was meant
    has_day: bool = True
    has_clock: bool = True  # a time of day was said, and not only assumed


def understand(
    text: str, timezone: str, now: datetime, default: time, date_order: str = "", *, in_utc: bool = False
) -> Once:
    """The one moment a normalised phrase means; Refused when there is none or more than one.

    `in_utc`: UTC was named beside it, so its times are on the 24-hour clock.
    """
    if (found := _UNIX.fullmatch(text)) is not None:
        return _unix(found, timezone, now)
    if (iso := _ISO.fullmatch(text)) is not None:
        return _iso(iso, timezone, now, default)
    if _NOW.fullmatch(text.rstrip(".!")):
        return Once(now.replace(microsecond=now.microsecond // 1000 * 1000) + _MS, timezone)
    if is_iso(text):
        return _offset_only(OnceParts(offset=read_length(text)), timezone, now)
    if read_past(text, 0) is None and (relative := read_relative(text)) is not None:
        return _relative(relative, timezone, now, default, date_order)
    parts = collect(text, now.astimezone(zone(timezone)).date())
    parts.in_utc = in_utc
    short = parts.abbreviation
    if short is None:
        return _put_together(parts, timezone, now, default, date_order)
    name = ABBREVIATIONS[short]
    once = _put_together(collect(text, now.astimezone(zone(name)).date()), name, now, default, date_order)
    used = once.fire_at.astimezone(zone(name)).tzname()
    if name != "UTC" and used != short.upper():
        raise PhraseRefused(
            f"clocks of {name} are on {used} then, not {short.upper()}; name the zone itself",
            *(re.sub(rf"\(?\b{short}\b\)?", replacement, text) for replacement in (name, (used or "").lower())),
        )
    return once


def _relative(relative: Relative, timezone: str, now: datetime, default: time, date_order: str) -> Once:
    """So long before or after a moment. Of a time of day without a day, the next one that is still ahead."""
    offset, parts, rest = relative
    try:
        base = understand(rest, timezone, now, default, date_order)
    except PhraseRefused as refused:
        if rest == "today" and offset.millis > 0:
            raise PhraseRefused('"today" has no time of day to count from', f"{parts}now") from None
        raise PhraseRefused(refused.why, *(f"{parts}{phrase}" for phrase in refused.instead)) from None
    if offset.millis and not base.has_clock:
        raise PhraseRefused(
            f'"{rest}" has no time of day to count from', f"{parts}{rest} at 9am", f"{parts}{rest} at noon"
        )
    tz = zone(base.timezone)
    fire_at = offset.after(base.fire_at, tz)
    if fire_at <= now and not base.has_day:
        fire_at = offset.after(understand(rest, timezone, base.fire_at, default, date_order).fire_at, tz)
    wall = fire_at.astimezone(tz).replace(tzinfo=None, fold=0)
    _ahead([fire_at], now, base.timezone)
    return Once(fire_at, base.timezone, base.remarks, None if base.wall is None else wall, base.has_day)


def _unix(found: re.Match[str], timezone: str, now: datetime) -> Once:
    fire_at = datetime.fromtimestamp(int(found[1]), UTC) + timedelta(
        milliseconds=int((found[2] or "0").ljust(3, "0")[:3])
    )
    return Once(_ahead([fire_at], now, timezone), timezone)


def _iso(found: re.Match[str], timezone: str, now: datetime, default: time) -> Once:
    year, _, month, day, hour, minute, second, fraction, offset = found.groups()
    try:
        wall = datetime.combine(date(int(year), int(month), int(day)), default)
        if hour is not None:
            micro = int((fraction or "").ljust(3, "0")[:3]) * 1000
            wall = wall.replace(hour=int(hour), minute=int(minute), second=int(second or 0), microsecond=micro)
    except ValueError as error:
        raise PhraseRefused(f"there is no such date and time ({error})") from None
    if offset is None:
        return _first_ahead([wall], timezone, now)
    if hour is None:
        raise PhraseRefused("a date with an offset needs a time")
    return _fixed(wall, read_utc_offset(offset), timezone, now)


def _fixed(wall: datetime, offset: timedelta, name: str, now: datetime) -> Once:
    return Once(_ahead([wall.replace(tzinfo=timezone(offset)).astimezone(UTC)], now, name), name)


def _put_together(parts: OnceParts, timezone: str, now: datetime, default: time, date_order: str) -> Once:
    if parts.date is not None and parts.date.day_first is not None:
        parts.date = _in_order(parts, parts.date, parts.date.day_first, date_order)
    today = now.astimezone(zone(timezone)).date()
    part = _part(parts)
    _check_clock(parts, part)
    if (
        parts.offset
        and not parts.offset.from_date
        and parts.clock is None
        and part is None
        and not is_weekday_in_weeks(parts)
    ):
        return _offset_only(parts, timezone, now)
    days = resolved_days(parts, today)
    if parts.clock and _is_on_24_hours(parts):
        parts.clock = parts.clock._replace(exact=True)
    at = settle(parts.clock, part) if parts.clock else PARTS[part] if part else default
    if part == "night" and at < SMALL_HOURS:
        days = _small_hours(parts, days, today)
    walls = [datetime.combine(day, at) for day in days]
    if parts.utc_offset is None:
        once = _first_ahead(walls, timezone, now)
        taken = once.wall.date() if once.wall and not parts.offset else None
        afternoon = afternoon_remark(parts.clock, part, parts.words("clock")) if parts.clock else ()
        remarks = (*once.remarks, *parts.remarks, *afternoon, *(which_week(parts, taken) if taken else ()))
        return once._replace(remarks=remarks, has_day=parts.has_day, has_clock=bool(parts.clock or part))
    if parts.clock is None or len(walls) > 1:
        raise PhraseRefused("an offset from UTC needs a date and a time")
    return _fixed(walls[0], parts.utc_offset, timezone, now)


def _is_on_24_hours(parts: OnceParts) -> bool:
    """Whether its time is one that programs write: with an offset, in UTC, or beside a date in numbers."""
    if parts.utc_offset is not None or parts.abbreviation in ("utc", "gmt") or parts.in_utc:
        return True
    return parts.date is not None and is_machine_written(parts.words("date"), parts.words("clock"))


def _in_order(parts: OnceParts, day: Day, day_first: date, date_order: str) -> Day:
    """03/04 as it was meant: by the order that is set, or by the weekday beside it; else nobody knows."""
    readings = {"mdy": day.dates[0], "dmy": day_first}
    fits = [date_order] if date_order else list(readings)
    if not date_order and parts.weekday is not None:
        fits = [order for order in fits if readings[order].toordinal() % 7 == parts.weekday[1]]
    start, end = parts.spans["date"]
    written = parts.phrase[start:end].removeprefix("on ")
    if date_order:
        first = "day" if date_order == "dmy" else "month"
        parts.remarks = (
            f"{written} was read {first} first, as date_order says. Write the month as a word to be sure.",
        )
    if len(fits) == 1:
        return Day((readings[fits[0]],), yearless=day.yearless)
    names = [
        f"{found.day} {MONTH_NAMES[found.month - 1]}" + ("" if day.yearless else f" {found.year}")
        for found in readings.values()
    ]
    raise PhraseRefused(
        f'"{written}" can be {names[0]} or {names[1]}; the setting date_order, mdy or dmy, decides it',
        *(parts.with_part("date", name.lower()) for name in names),
    )


def _part(parts: OnceParts) -> str | None:
    from_day = parts.dayword.part if parts.dayword else None
    if from_day and parts.part and from_day != parts.part:
        raise PhraseRefused(f"{from_day} and {parts.part} contradict each other")
    return from_day or parts.part


def _check_clock(parts: OnceParts, part: str | None) -> None:
    clock = parts.clock
    if clock is None:
        if parts.abbreviation and not part:
            raise PhraseRefused("a time zone needs a time of day")
    elif clock.bare and part is None and not (clock.minute and parts.has_day):
        raise PhraseRefused(f'"{clock.hour}" alone is not a time of day', *_clock_readings(parts, clock))
    elif clock.hours_only and not (parts.has_day or parts.abbreviation):  # a length has no time zone
        raise PhraseRefused(
            f'"{parts.words("clock")}" alone can be a time or a duration',
            parts.with_part("clock", f"in {clock.hour}h{f'{clock.minute}m' if clock.minute else ''}"),
            parts.with_part("clock", f"at {clock.hour:02}:{clock.minute:02}"),
        )
    elif clock.midnight and (parts.has_day or part):
        raise PhraseRefused(
            "midnight with a date can be its start or its end",
            parts.with_part("clock", "at 00:00"),
            parts.with_part("clock", "at 23:59"),
        )


def _clock_readings(parts: OnceParts, clock: WallTime) -> list[str]:
    minutes = f":{clock.minute:02}" if clock.minute else ""
    if 1 <= clock.hour <= 12 and not minutes and parts.weekday and not (parts.date or parts.dayword or parts.offset):
        half = "am" if 5 < clock.hour < 12 else "pm"
        return [parts.with_part("clock", words) for words in (f"at {clock.hour}{half}", f"the {ordinal(clock.hour)}")]
    if 1 <= clock.hour <= 12:
        return [parts.with_part("clock", f"at {clock.hour}{minutes}{half}m") for half in "ap"]
    found = [parts.with_part("clock", f"at {clock.hour:02}{minutes or ':00'}")]
    return found if minutes or parts.date else [*found, parts.with_part("clock", f"the {ordinal(clock.hour)}")]


def _offset_only(parts: OnceParts, timezone: str, now: datetime) -> Once:
    assert parts.offset is not None
    if parts.date or parts.dayword or parts.year or parts.utc_offset is not None or parts.abbreviation:
        raise PhraseRefused("an offset from now and a date are two different moments")
    fire_at = parts.offset.after(now, zone(timezone))
    check_weekday(parts, fire_at.astimezone(zone(timezone)).date())
    fire_at = fire_at.replace(microsecond=fire_at.microsecond // 1000 * 1000)
    wall = None if parts.offset.millis else fire_at.astimezone(zone(timezone)).replace(tzinfo=None, fold=0)
    return Once(_ahead([fire_at], now, timezone), timezone, wall=wall)


def _small_hours(parts: OnceParts, days: tuple[date, ...], today: date) -> tuple[date, ...]:
    """Tonight at 1am is the coming 1am; friday night at 1am could be on either side."""
    if parts.date or parts.weekday or parts.offset or (parts.dayword and parts.dayword.dates != (today,)):
        at = settle(parts.clock, "night") if parts.clock else SMALL_HOURS
        where = f" {parts.words('abbreviation')}" if parts.abbreviation else ""
        raise PhraseRefused(
            "the small hours of a night belong to two days",
            *(
                f"{day.day} {MONTH_NAMES[day.month - 1].lower()} {day.year} at {at:%H:%M}{where}"
                for day in (days[-1], days[-1] + timedelta(days=1))
                if parts.utc_offset is None
            ),
        )
    return today, today + timedelta(days=1)


def _first_ahead(walls: list[datetime], name: str, now: datetime) -> Once:
    fires = [instant(wall, zone(name)) for wall in walls]
    fire_at = _ahead(fires, now, name)
    wall = walls[fires.index(fire_at)]
    return Once(fire_at, name, _remarks(wall, fire_at, name), wall)


def _ahead(fires: list[datetime], now: datetime, name: str) -> datetime:
    for fire in fires:
        if fire > now:
            return fire
    raise PhraseRefused(f"{fires[0].astimezone(zone(name)):%Y-%m-%d %H:%M} is in the past")


def _remarks(wall: datetime, fire_at: datetime, name: str) -> tuple[str, ...]:
    change = change_at(wall, zone(name))
    if change is None:
        return ()
    if change[2] > change[1]:
        local = fire_at.astimezone(zone(name))
        return (f"{wall:%H:%M} does not exist on {wall:%Y-%m-%d} in {name}: it fires at {local:%H:%M}.",)
    return (f"{wall:%H:%M} happens twice on {wall:%Y-%m-%d} in {name}: the first one is meant.",)
