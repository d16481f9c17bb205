"""Calendars of holidays as they are read: those of a country from the package `holidays`, others from a file.

Nothing is imported or read before it is needed; a server or worker reads all of them when it starts. A calendar that
cannot be read has a `problem` instead of days. A process finds a calendar by its name, as it does a time zone's rules.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any, Final, Protocol

from msgspec import Struct

from wakeful.errors import InvalidSchedule
from wakeful.schedule import schedule
from wakeful.schedule.days_off import DaysOff, calendars_in_use, use_calendars

LARGEST: Final = 5_000_000  # bytes of a file
LONGEST: Final = 366  # days of one event
_DAY: Final = timedelta(days=1)
_TICK: Final = timedelta(microseconds=1)


class CalendarSource(Protocol):
    """Where the days of a calendar come from, as settings say it: a country, or an iCalendar file."""

    @property
    def country(self) -> str: ...
    @property
    def subdivision(self) -> str: ...
    @property
    def ics(self) -> str: ...


class CountryDays:
    """The public holidays of a country, or of a part of it."""

    def __init__(self, country: str, subdivision: str = "") -> None:
        self._country = country
        self._subdivision = subdivision
        self._known: Any = None
        self._problem: str | None = None

    @property
    def problem(self) -> str:
        if self._problem is None:
            self._problem = self._read()
        return self._problem

    def holiday(self, day: date) -> str:
        return "" if self.problem else str(self._known.get(day) or "")

    def _read(self) -> str:
        try:
            import holidays  # by whoever uses it: it takes a quarter of a second
        except ImportError:
            return "the package holidays is not installed; do: pip install 'wakeful[holidays]'"
        try:
            part = self._subdivision or None
            self._known = holidays.country_holidays(self._country, subdiv=part, language="en_US")
        except NotImplementedError as error:
            return f"{error}"
        return ""


class _Event(Struct, frozen=True):
    """An event of a file: its first day, how many it has, and how it recurs."""

    name: str
    first: date
    days: int
    rule: str = ""
    but: frozenset[date] = frozenset()

    def within(self, year: int) -> Iterator[date]:
        """The days of it in a year."""
        for first in self._firsts(year):
            for n in range(self.days):
                if (day := first + n * _DAY).year == year:
                    yield day

    def _firsts(self, year: int) -> Iterator[date]:
        if not self.rule:
            yield self.first
            return
        recurs = schedule(self.rule, "UTC", anchor=_midnight(self.first))
        moment = recurs.after(_midnight(date(year, 1, 1)) - self.days * _DAY - _TICK)
        while moment is not None and moment.date().year <= year:
            if moment.date() not in self.but:
                yield moment.date()
            moment = recurs.after(moment)


class FileDays:
    """The days of the events of an iCalendar file. It is read again when it changes."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._seen: tuple[int, int, int] | None = None  # which file this was, and how it was
        self._events: list[_Event] = []
        self._years: dict[int, dict[date, str]] = {}
        self._problem: str | None = None

    @property
    def problem(self) -> str:
        if self._problem is None:
            self.refresh()
        return self._problem or ""

    def holiday(self, day: date) -> str:
        if self.problem:
            return ""
        known = self._years.get(day.year)
        if known is None:
            known = self._years[day.year] = {
                one: event.name for event in self._events for one in event.within(day.year)
            }
        return known.get(day, "")

    def refresh(self) -> None:
        """Read the file again if it has changed."""
        try:
            found = os.stat(self._path)
            seen = (found.st_ino, found.st_mtime_ns, found.st_size)
            if seen == self._seen and self._problem is not None:
                return
            self._events, self._years, self._problem = _events(self._path, found.st_size), {}, ""
            self._seen = seen
        except OSError as error:
            self._seen, self._problem = None, f"{self._path.name}: {error.strerror or error}"
        except _Unreadable as error:
            self._seen, self._problem = None, f"{self._path.name}: {error}"


class _Unreadable(Exception):
    """Why a file is not a calendar."""


def _events(path: Path, size: int) -> list[_Event]:
    if size > LARGEST:
        raise _Unreadable(f"it is larger than {LARGEST // 1_000_000} MB")
    try:
        from icalendar import Calendar
    except ImportError:
        raise _Unreadable("the package icalendar is not installed; do: pip install 'wakeful[ics]'") from None
    try:
        found = [_event(one) for one in Calendar.from_ical(path.read_bytes()).walk("VEVENT")]
        for event in found:
            next(event._firsts(event.first.year), None)  # a rule that is not understood is said now
        return found
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, InvalidSchedule) as error:
        raise _Unreadable(f"it is not a calendar that can be read ({error})") from None


def _event(event: Any) -> _Event:
    begin = event["DTSTART"].dt
    end = event["DTEND"].dt if "DTEND" in event else None
    first = begin.date() if isinstance(begin, datetime) else begin
    last = first
    if end is not None:  # an end is not part of it
        last = (end - _TICK).date() if isinstance(end, datetime) else end - _DAY
    rule = f"RRULE:{event['RRULE'].to_ical().decode()}" if "RRULE" in event else ""
    days = min(LONGEST, max(1, (last - first).days + 1))
    return _Event(str(event.get("SUMMARY", "holiday")), first, days, rule, frozenset(_left_out(event.get("EXDATE"))))


def _left_out(dates: Any) -> Iterator[date]:
    for several in dates if isinstance(dates, list) else [dates] if dates is not None else []:
        for one in several.dts:
            yield one.dt.date() if isinstance(one.dt, datetime) else one.dt


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


class Calendars:
    """The calendars of the settings: put to use in this process."""

    def __init__(self, settings: Mapping[str, CalendarSource]) -> None:
        self._known: dict[str, DaysOff] = {name: _calendar(source) for name, source in settings.items()}
        use_calendars(self._known)

    async def read(self) -> None:
        """Read all of them, in a thread: in the event loop the first request that needs one would delay wakes."""
        if self._known:
            await asyncio.to_thread(lambda: self.problems)

    @property
    def problems(self) -> Iterable[tuple[str, str]]:
        """The calendars that cannot be read, and why."""
        return [(name, known.problem) for name, known in self._known.items() if known.problem]


def refresh_calendars() -> None:
    """Read files again that have changed. It costs one `stat` each, and is done once in a while."""
    for known in calendars_in_use():
        if isinstance(known, FileDays):
            known.refresh()


def _calendar(source: CalendarSource) -> DaysOff:
    return FileDays(source.ics) if source.ics else CountryDays(source.country, source.subdivision)
