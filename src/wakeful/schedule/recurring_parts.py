"""What a recurring phrase says, part by part, before it becomes a schedule."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import NamedTuple

from wakeful.schedule.clocks import WallTime
from wakeful.schedule.recurrence import CountedDay
from wakeful.schedule.refusals import PhraseRefused

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
