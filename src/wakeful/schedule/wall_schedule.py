"""From readings of a wall clock to the moments a schedule fires, where clocks change too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from wakeful.schedule.zones import SECOND, aware, change_at, instant

SEARCH_YEARS = 28
Window = tuple[datetime, datetime]  # a moment, and the next fire after it
_DAY = timedelta(days=1)
_LAST_DAY = datetime.max.replace(tzinfo=UTC) - _DAY
_NEVER: Window = (datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC))


class WallSchedule(ABC):
    """Readings of a zone's wall clock that fire. It never changes; it only remembers its last two answers.

    *Fixed* ones name their hours and minutes; the others follow whatever the wall clock really shows.
    """

    __slots__ = ("_ended", "_windows", "fixed", "zone")

    def __init__(self, tz: ZoneInfo, *, fixed: bool) -> None:
        self.zone = tz
        self.fixed = fixed
        self._windows: tuple[Window, Window] = (_NEVER, _NEVER)
        self._ended: Window = _NEVER  # the moments from which a search found nothing, or would

    @abstractmethod
    def at_or_after(self, wall: datetime, limit: int) -> datetime | None:
        """The first reading that fires, from this one on, at least up to the end of the year `limit`."""

    def after(self, moment: datetime) -> datetime | None:
        start = aware(moment)
        # Nothing fires between a moment and its next fire, so the whole stretch has one answer:
        # thousands of alarms that share an expression cost one search. Two, since a fire asks on either side of its
        # occurrence. One tuple, swapped whole.
        for since, fire in self._windows:
            if since <= start < fire:
                return fire
        if self._ended[0] <= start < self._ended[1]:
            return None
        found = self.search(start)
        if found is not None:
            self._windows = (start, found), self._windows[0]
        elif start < _LAST_DAY:  # searched again a day later: a search reaches so much further then
            self._ended = start, start + _DAY
        return found

    def search(self, start: datetime) -> datetime | None:
        """The next fire after a moment in UTC, without remembering it."""
        try:
            local = start.astimezone(self.zone)
            return self._fixed_after(local) if self.fixed else self._wild_after(local)
        except OverflowError:  # the end of the calendar
            return None

    def _fixed_after(self, local: datetime) -> datetime | None:
        """Named times: in a gap once at its end, in a repeated stretch on the first pass only."""
        start = _next_second(local)
        if local.fold:
            start = max(start, _repeated(local, self.zone)[1])
        wall = self.at_or_after(start, start.year + SEARCH_YEARS)
        return None if wall is None else instant(wall, self.zone)

    def _wild_after(self, local: datetime) -> datetime | None:
        """Every reading the wall clock really shows: none in a gap, both passes of a repeated stretch."""
        start = _next_second(local)
        limit = start.year + SEARCH_YEARS
        wall = self.at_or_after(start, limit)
        begin, end = _repeated(local, self.zone)
        fold = local.fold
        if not fold and begin < end and (wall is None or wall >= end):
            wall, fold = self.at_or_after(begin, limit), 1
        while wall is not None:
            change = change_at(wall, self.zone)
            if change is None or change[2] < change[1]:
                shown = wall.replace(tzinfo=self.zone, fold=fold if begin <= wall < end else 0)
                return shown.astimezone(UTC)
            wall = self.at_or_after(_wall(change[0], change[2]), limit)
        return None


def reading(year: int, month: int, day: int, time: tuple[int, int, int]) -> datetime:
    """A wall clock reading: a datetime without a zone, which only means something together with one."""
    return datetime(year, month, day, *time)  # noqa: DTZ001 a reading has no zone


def _next_second(local: datetime) -> datetime:
    return local.replace(tzinfo=None, microsecond=0, fold=0) + SECOND


def _wall(moment: datetime, offset: timedelta) -> datetime:
    return (moment + offset).replace(tzinfo=None)


def _repeated(local: datetime, tz: ZoneInfo) -> tuple[datetime, datetime]:
    """Where the stretch that happens twice begins and ends on the wall; empty for ordinary times."""
    change = change_at(local.replace(tzinfo=None), tz)
    if change is None:
        return local.replace(tzinfo=None), local.replace(tzinfo=None)
    return _wall(change[0], change[2]), _wall(change[0], change[1])


def lowest(bits: int, start: int) -> int:
    """The lowest set bit from `start` on, or -1."""
    bits = bits >> start << start
    return (bits & -bits).bit_length() - 1
