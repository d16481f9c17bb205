"""Days off: calendars of holidays in this process, working days as settings have them, and phrases about both."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import Final, Literal, Protocol
from zoneinfo import ZoneInfo

from wakeful.schedule.expression import Schedule
from wakeful.schedule.zones import instant

DAY_NAMES: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
USUAL_DAYS: Final = "mon-fri"


@lru_cache(maxsize=256)
def days_of(text: str) -> frozenset[int]:
    """Which days a text names; a range may go over the end of the week. ValueError for what does not name days."""
    found: set[int] = set()
    for part in text.lower().replace(" ", "").split(","):
        first, _, last = part.partition("-")
        begin, end = _day(first, text), _day(last or first, text)
        found |= {(begin + step) % 7 for step in range((end - begin) % 7 + 1)}
    return frozenset(found)


def _day(name: str, text: str) -> int:
    if name[:3] not in DAY_NAMES or not _FULL[name[:3]].startswith(name):
        raise ValueError(f"{text[:60]!r} does not name days of the week")
    return DAY_NAMES.index(name[:3])


_FULL: Final = {
    **{name: f"{name}day" for name in ("mon", "fri", "sun")},
    "tue": "tuesday",
    "wed": "wednesday",
    "thu": "thursday",
    "sat": "saturday",
}


def days_text(text: str) -> str:
    """The same days in one way of writing: a range where they follow each other, else a list from Monday on."""
    days = days_of(text)
    if len(days) == 7:
        return "mon-sun"
    begins = [day for day in sorted(days) if (day - 1) % 7 not in days]
    if len(begins) > 1 or len(days) <= 2:
        return ",".join(DAY_NAMES[day] for day in sorted(days))
    return f"{DAY_NAMES[begins[0]]}-{DAY_NAMES[(begins[0] + len(days) - 1) % 7]}"


EXCEPT_HOLIDAYS: Final = "except public holidays"
_EXCEPT: Final = re.compile(
    r"[\s,;(]*\b(?:except(?: for)?|excluding|but not|not|skipping|other than)\s+(?:on\s+)?(?:the\s+|any\s+)?"
    r"(?:public\s+|bank\s+|national\s+|legal\s+)?holidays?\b[\s,;)]*",
    re.IGNORECASE,
)
_WORKING_DAY: Final = re.compile(
    r"\b(?:(every|each)\s+working\s+day|(?:on\s+)?(?<![0-9] )working\s+days)\b", re.IGNORECASE
)


def without_holidays(text: str) -> tuple[str, bool]:
    """A phrase without what it says of holidays, and whether it says that they are left out."""
    if "OLIDAY" not in text.upper():  # nearly always
        return text, False
    rest, found = _EXCEPT.subn(" ", text)
    return rest.strip(), found > 0


def with_working_days(text: str, days: str = USUAL_DAYS) -> str:
    """A phrase in which "every working day" is said by its days, with holidays left out."""
    if "ORKING" not in text.upper() or _WORKING_DAY.search(text) is None:
        return text
    named = (
        "weekday" if days_text(days) == USUAL_DAYS else " and ".join(DAY_NAMES[day] for day in sorted(days_of(days)))
    )
    phrase = _WORKING_DAY.sub(f"every {named}", text)
    return phrase if without_holidays(phrase)[1] else f"{phrase} {EXCEPT_HOLIDAYS}"


def without_days_off(text: str, working_days: str = USUAL_DAYS, *, has_calendar: bool = True) -> tuple[str, bool]:
    """A phrase with its working days named and without its words about holidays, and whether holidays are left out.

    Without any calendar, "every working day" means days of the week only.
    """
    phrase, skips_holidays = without_holidays(with_working_days(text, working_days))
    return phrase, skips_holidays and (has_calendar or without_holidays(text)[1])


OnHoliday = Literal["skip", "next_working_day", "previous_working_day"]
FARTHEST: Final = 31  # days that an occurrence is moved at most
_DAY: Final = timedelta(days=1)
_TICK: Final = timedelta(microseconds=1)
_DAYS_LOOKED_AT: Final = 1_000


class DaysOff(Protocol):
    """The days of one calendar."""

    @property
    def problem(self) -> str:
        """Why it cannot be read; empty where it can."""
        ...

    def holiday(self, day: date) -> str:
        """What a day is called; empty for an ordinary one."""
        ...


_calendars: dict[str, DaysOff] = {}


def use_calendars(found: Mapping[str, DaysOff]) -> None:
    """Go by these from now on, beside others that have other names."""
    _calendars.update(found)


def calendars_in_use() -> list[DaysOff]:
    return list(_calendars.values())


def calendar_named(name: str) -> DaysOff | None:
    return _calendars.get(name)


def calendar_problem(name: str) -> str:
    """Why the holidays of a calendar are not known here; empty where they are."""
    days = _calendars.get(name)
    if days is None:
        return f"there is no calendar {name!r} in the settings of this process"
    return f"the calendar {name!r} cannot be read: {days.problem}" if days.problem else ""


class MovedSchedule:
    """A schedule whose occurrences on a holiday come on the next, or the previous, working day at the same clock time.

    Where that day has occurrences of its own, or takes those of another holiday, they stay where they are: a day never
    gets those of two days. Whoever delivers skips what stays on a holiday.
    """

    def __init__(
        self, inner: Schedule, days: DaysOff, zone: ZoneInfo, *, backward: bool, working_days: str, fired: datetime
    ) -> None:
        self._inner = inner
        self._days = days
        self._zone = zone
        self._step = -_DAY if backward else _DAY
        self._working = days_of(working_days)
        self._fired = fired  # what was fired at its own time is not moved any more
        self.fixed = getattr(inner, "fixed", True)

    def after(self, moment: datetime) -> datetime | None:
        """The first fire strictly after a moment."""
        try:
            return self._after(moment)
        except OverflowError:  # beyond the ends of the calendar
            return self._inner.after(moment)

    def _after(self, moment: datetime) -> datetime | None:
        """Look through the days that have occurrences, from the first that may be moved past the moment."""
        backward = self._step < timedelta(0)
        best: datetime | None = None
        found = self._inner.after(moment if backward else moment - (FARTHEST + 1) * _DAY)
        for _ in range(_DAYS_LOOKED_AT):
            if found is None:
                return best
            day = self._date(found)
            if best is not None and day > self._date(best) + (FARTHEST * _DAY if backward else timedelta(0)):
                return best
            coming = self._first_on(day, found, moment)
            best = coming if best is None or (coming is not None and coming < best) else best
            found = self._inner.after(self._start(day + _DAY) - _TICK)
        return best or self._inner.after(moment)

    def _first_on(self, day: date, first: datetime, moment: datetime) -> datetime | None:
        """The first fire after a moment of what one day has, which begins with `first`."""
        to = self._moved_to(day)
        if to is None:
            found = first if first > moment else self._inner.after(moment)
            return found if found is not None and self._date(found) == day else None
        return next((moved for moved in self._moved(day, to, first, moment) if moved > moment), None)

    def _moved(self, day: date, to: date, found: datetime | None, moment: datetime) -> Iterator[datetime]:
        while found is not None and self._date(found) == day:
            if found != self._fired or moment < self._fired:
                clock = found.astimezone(self._zone).time().replace(fold=0)
                yield instant(datetime.combine(to, clock), self._zone)
            found = self._inner.after(found)

    def _moved_to(self, day: date) -> date | None:
        """The day that takes the occurrences of another; None where they stay."""
        if not self._days.holiday(day):
            return None
        to = self._working_day(day)
        if to is None or self._has(to):
            return None
        between = self._between(day, to)
        return None if any(self._days.holiday(one) and self._has(one) for one in between) else to

    def _between(self, day: date, to: date) -> list[date]:
        """Other days before this one that the same day would take the occurrences of: the earliest has precedence."""
        if self._step < timedelta(0):
            return [to + n * _DAY for n in range(1, (day - to).days)]
        found: list[date] = []
        one = day - _DAY
        while not self._is_working(one) and len(found) < FARTHEST:
            found.append(one)
            one -= _DAY
        return found

    def _working_day(self, day: date) -> date | None:
        ahead = (day + n * self._step for n in range(1, FARTHEST + 1))
        return next((one for one in ahead if self._is_working(one)), None)

    def _is_working(self, day: date) -> bool:
        return day.weekday() in self._working and not self._days.holiday(day)

    def _has(self, day: date) -> bool:
        found = self._inner.after(self._start(day) - _TICK)
        return found is not None and self._date(found) == day

    def _date(self, moment: datetime) -> date:
        return moment.astimezone(self._zone).date()

    def _start(self, day: date) -> datetime:
        return instant(datetime.combine(day, time()), self._zone)
