"""Phrases for one moment: what was said is collected part by part, then put together by the rules.

Whatever is left over, doubled or contradictory means refusal.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import NamedTuple

from wakeful.schedule.clocks import (
    PARTS,
    SMALL_HOURS,
    WallTime,
    afternoon_remark,
    is_machine_written,
    read_past,
    settle,
)
from wakeful.schedule.dates import Day
from wakeful.schedule.iso8601 import is_iso, read_length
from wakeful.schedule.names import MONTH_NAMES, ordinal
from wakeful.schedule.once_days import check_weekday, days_meant, is_weekday_in_weeks, which_week
from wakeful.schedule.once_parts import ABBREVIATIONS, OnceParts, collect, read_utc_offset
from wakeful.schedule.refusals import PhraseRefused
from wakeful.schedule.relative import Relative, read_relative
from wakeful.schedule.zones import change_at, instant, zone

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
    said = collect(text, now.astimezone(zone(timezone)).date())
    said.in_utc = in_utc
    short = said.abbreviation
    if short is None:
        return _put_together(said, timezone, now, default, date_order)
    name = ABBREVIATIONS[short]
    once = _put_together(collect(text, now.astimezone(zone(name)).date()), name, now, default, date_order)
    used = once.fire_at.astimezone(zone(name)).tzname()
    if name != "UTC" and used != short.upper():
        raise PhraseRefused(
            f"clocks of {name} are on {used} then, not {short.upper()}; name the zone itself",
            *(re.sub(rf"\(?\b{short}\b\)?", meant, text) for meant in (name, (used or "").lower())),
        )
    return once


def _relative(relative: Relative, timezone: str, now: datetime, default: time, date_order: str) -> Once:
    """So long before or after a moment. Of a time of day without a day, the next one that is still ahead."""
    offset, said, rest = relative
    try:
        base = understand(rest, timezone, now, default, date_order)
    except PhraseRefused as refused:
        if rest == "today" and offset.millis > 0:
            raise PhraseRefused('"today" has no time of day to count from', f"{said}now") from None
        raise PhraseRefused(refused.why, *(f"{said}{phrase}" for phrase in refused.instead)) from None
    if offset.millis and not base.has_clock:
        raise PhraseRefused(
            f'"{rest}" has no time of day to count from', f"{said}{rest} at 9am", f"{said}{rest} at noon"
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


def _put_together(said: OnceParts, timezone: str, now: datetime, default: time, date_order: str) -> Once:
    if said.date is not None and said.date.day_first is not None:
        said.date = _in_order(said, said.date, said.date.day_first, date_order)
    today = now.astimezone(zone(timezone)).date()
    part = _part(said)
    _check_clock(said, part)
    if (
        said.offset
        and not said.offset.from_date
        and said.clock is None
        and part is None
        and not is_weekday_in_weeks(said)
    ):
        return _offset_only(said, timezone, now)
    days = days_meant(said, today)
    if said.clock and _is_on_24_hours(said):
        said.clock = said.clock._replace(exact=True)
    at = settle(said.clock, part) if said.clock else PARTS[part] if part else default
    if part == "night" and at < SMALL_HOURS:
        days = _small_hours(said, days, today)
    walls = [datetime.combine(day, at) for day in days]
    if said.utc_offset is None:
        once = _first_ahead(walls, timezone, now)
        taken = once.wall.date() if once.wall and not said.offset else None
        afternoon = afternoon_remark(said.clock, part, said.words("clock")) if said.clock else ()
        remarks = (*once.remarks, *said.remarks, *afternoon, *(which_week(said, taken) if taken else ()))
        return once._replace(remarks=remarks, has_day=said.has_day, has_clock=bool(said.clock or part))
    if said.clock is None or len(walls) > 1:
        raise PhraseRefused("an offset from UTC needs a date and a time")
    return _fixed(walls[0], said.utc_offset, timezone, now)


def _is_on_24_hours(said: OnceParts) -> bool:
    """Whether its time is one that programs write: with an offset, in UTC, or beside a date in numbers."""
    if said.utc_offset is not None or said.abbreviation in ("utc", "gmt") or said.in_utc:
        return True
    return said.date is not None and is_machine_written(said.words("date"), said.words("clock"))


def _in_order(said: OnceParts, day: Day, day_first: date, date_order: str) -> Day:
    """03/04 as it was meant: by the order that is set, or by the weekday beside it; else nobody knows."""
    readings = {"mdy": day.dates[0], "dmy": day_first}
    fits = [date_order] if date_order else list(readings)
    if not date_order and said.weekday is not None:
        fits = [order for order in fits if readings[order].toordinal() % 7 == said.weekday[1]]
    start, end = said.spans["date"]
    written = said.phrase[start:end].removeprefix("on ")
    if date_order:
        first = "day" if date_order == "dmy" else "month"
        said.remarks = (f"{written} was read {first} first, as date_order says. Write the month as a word to be sure.",)
    if len(fits) == 1:
        return Day((readings[fits[0]],), yearless=day.yearless)
    names = [
        f"{found.day} {MONTH_NAMES[found.month - 1]}" + ("" if day.yearless else f" {found.year}")
        for found in readings.values()
    ]
    raise PhraseRefused(
        f'"{written}" can be {names[0]} or {names[1]}; the setting date_order, mdy or dmy, decides it',
        *(said.with_part("date", name.lower()) for name in names),
    )


def _part(said: OnceParts) -> str | None:
    from_day = said.dayword.part if said.dayword else None
    if from_day and said.part and from_day != said.part:
        raise PhraseRefused(f"{from_day} and {said.part} contradict each other")
    return from_day or said.part


def _check_clock(said: OnceParts, part: str | None) -> None:
    clock = said.clock
    if clock is None:
        if said.abbreviation and not part:
            raise PhraseRefused("a time zone needs a time of day")
    elif clock.bare and part is None and not (clock.minute and said.has_day):
        raise PhraseRefused(f'"{clock.hour}" alone is not a time of day', *_clocks_meant(said, clock))
    elif clock.hours_only and not (said.has_day or said.abbreviation):  # a length has no time zone
        raise PhraseRefused(
            f'"{said.words("clock")}" alone can be a time or a duration',
            said.with_part("clock", f"in {clock.hour}h{f'{clock.minute}m' if clock.minute else ''}"),
            said.with_part("clock", f"at {clock.hour:02}:{clock.minute:02}"),
        )
    elif clock.midnight and (said.has_day or part):
        raise PhraseRefused(
            "midnight with a date can be its start or its end",
            said.with_part("clock", "at 00:00"),
            said.with_part("clock", "at 23:59"),
        )


def _clocks_meant(said: OnceParts, clock: WallTime) -> list[str]:
    minutes = f":{clock.minute:02}" if clock.minute else ""
    if 1 <= clock.hour <= 12 and not minutes and said.weekday and not (said.date or said.dayword or said.offset):
        half = "am" if 5 < clock.hour < 12 else "pm"
        return [said.with_part("clock", words) for words in (f"at {clock.hour}{half}", f"the {ordinal(clock.hour)}")]
    if 1 <= clock.hour <= 12:
        return [said.with_part("clock", f"at {clock.hour}{minutes}{half}m") for half in "ap"]
    found = [said.with_part("clock", f"at {clock.hour:02}{minutes or ':00'}")]
    return found if minutes or said.date else [*found, said.with_part("clock", f"the {ordinal(clock.hour)}")]


def _offset_only(said: OnceParts, timezone: str, now: datetime) -> Once:
    assert said.offset is not None
    if said.date or said.dayword or said.year or said.utc_offset is not None or said.abbreviation:
        raise PhraseRefused("an offset from now and a date are two different moments")
    fire_at = said.offset.after(now, zone(timezone))
    check_weekday(said, fire_at.astimezone(zone(timezone)).date())
    fire_at = fire_at.replace(microsecond=fire_at.microsecond // 1000 * 1000)
    wall = None if said.offset.millis else fire_at.astimezone(zone(timezone)).replace(tzinfo=None, fold=0)
    return Once(_ahead([fire_at], now, timezone), timezone, wall=wall)


def _small_hours(said: OnceParts, days: tuple[date, ...], today: date) -> tuple[date, ...]:
    """Tonight at 1am is the coming 1am; friday night at 1am could be on either side."""
    if said.date or said.weekday or said.offset or (said.dayword and said.dayword.dates != (today,)):
        at = settle(said.clock, "night") if said.clock else SMALL_HOURS
        where = f" {said.words('abbreviation')}" if said.abbreviation else ""
        raise PhraseRefused(
            "the small hours of a night belong to two days",
            *(
                f"{day.day} {MONTH_NAMES[day.month - 1].lower()} {day.year} at {at:%H:%M}{where}"
                for day in (days[-1], days[-1] + timedelta(days=1))
                if said.utc_offset is None
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
