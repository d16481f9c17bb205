"""Time zones by name, and what a wall clock reading means as an instant.

Only utcoffset() is trusted: a gap is where it grows, a repeated stretch is where it shrinks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from functools import lru_cache, wraps
from io import BytesIO
from itertools import count
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from wakeful.errors import InvalidSchedule

F = TypeVar("F", bound=Callable[..., Any])
Compiled = Mapping[str, bytes]  # zones by name, as compiled files

SECOND = timedelta(seconds=1)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+\-]*(?:/[A-Za-z0-9_+\-]+){0,3}")
# These exist as files on some machines and not on others, or count leap seconds.
_NOT_NAMES = ("localtime", "posixrules", "Factory", "posix/", "right/")

# Names that are kept for old programs: whoever gives one means a place that has a summer time.
_WITHOUT_SUMMER = ("EST", "MST")

_numbers = count(2)


class _Rules:
    """Which rules count in this process. They are numbered, so that what was worked out by others is not mixed in."""

    def __init__(self) -> None:
        self.numbered: dict[int, Compiled] = {1: {}}  # a zone that is not in it: as the machine has it
        self.in_force = 1
        self.machine = ""  # the machine's edition when it was first asked for
        self.version = ""  # of those in force, where they are not simply the machine's
        self.former = 0
        self.changed_at: datetime | None = None  # from when on those in force count instead of the former ones
        self.machines: tuple[str, Compiled] | None = None  # edition and zones of a simulated machine: it has no files

    def number(self, data: Compiled) -> int:
        number = next(_numbers)
        self.numbered[number] = data
        return number


_rules = _Rules()
_asked: ContextVar[int] = ContextVar("the rules that are asked", default=0)  # 0: those in force


def by_zone_rules(maxsize: int) -> Callable[[F], F]:
    """`lru_cache` for answers that depend on the rules of a zone: they are kept for each set of rules apart."""

    def decorated(function: F) -> F:
        @lru_cache(maxsize=maxsize)
        def known(_: int, *args: Hashable) -> Any:
            return function(*args)

        @wraps(function)
        def answer(*args: Hashable) -> Any:
            return known(_asked.get() or _rules.in_force, *args)

        return answer  # type: ignore[return-value]  # it has the signature of what it wraps

    return decorated


ProcessRules = _Rules


def simulated_rules(version: str, number: int, data: Compiled) -> ProcessRules:
    """What a simulated process goes by whose machine has this zone data. `number`: as `_Rules.number` gives one."""
    rules = _Rules()
    rules.numbered[number], rules.in_force = data, number
    rules.machines = (version, data)
    return rules


def switch_rules(rules: ProcessRules) -> ProcessRules:
    """Go by the rules of another simulated process from now on; return those that counted until now."""
    global _rules
    before, _rules = _rules, rules
    return before


def zone_data_of_simulation() -> tuple[str, Compiled] | None:
    """What a simulated machine has; None on a real one, which has files."""
    return _rules.machines


def use_rules(version: str, data: Compiled) -> None:
    """From now on zones have the rules of an edition; those that are not in it still the machine's."""
    _rules.in_force, _rules.version = _rules.number(data), version


def first_edition(now: str) -> str:
    """The machine's edition as this process reads its zones: what it was at first, whatever was installed since."""
    _rules.machine = _rules.machine or now
    return _rules.machine


def rules_in_force() -> tuple[str, Compiled]:
    """The edition that was put in force here; empty where the machine's own counts."""
    return _rules.version, _rules.numbered[_rules.in_force]


def remember_former(data: Compiled, changed_at: datetime) -> None:
    """The rules that counted until a moment, for `former_rules` and `read_alike`."""
    _rules.former, _rules.changed_at = _rules.number(data), changed_at


def forget_former() -> None:
    _rules.former, _rules.changed_at = 0, None


def rules_changed_at() -> datetime | None:
    """When the rules in force took the place of others that still matter; None where there are none."""
    return _rules.changed_at


@contextmanager
def former_rules() -> Iterator[None]:
    """Inside, zones have the rules they had before."""
    token = _asked.set(_rules.former)
    try:
        yield
    finally:
        _asked.reset(token)


def read_alike(moment: datetime, name: str) -> datetime:
    """When clocks show, by the rules in force, what they showed at a moment by the former ones."""
    with former_rules():
        then = moment.astimezone(zone(name))
    tz = zone(name)
    if then.utcoffset() == moment.astimezone(tz).utcoffset():
        return moment
    return instant(then.replace(tzinfo=None, fold=0), tz)


@by_zone_rules(maxsize=1024)
def zone(name: str) -> ZoneInfo:
    """The IANA time zone of this name, in any case; its `key` is the name as the data writes it."""
    if isinstance(name, str) and len(name) <= 64 and _NAME.fullmatch(name) and not name.startswith(_NOT_NAMES):
        data = _rules.numbered[_asked.get() or _rules.in_force].get(name)
        try:
            return ZoneInfo(name) if data is None else ZoneInfo.from_file(BytesIO(data), key=name)
        except (KeyError, ValueError, OSError):  # unknown, malformed, or a folder such as "Europe"
            from wakeful.schedule.zone_names import in_its_case  # a walk through files, for what nearly nobody writes

            known = in_its_case(name)
            if known not in ("", name):
                found: ZoneInfo = zone(known)
                return found
    raise _unknown(str(name)[:64])


def given_zone(name: str) -> str:
    """The name of a zone that somebody gives, as the data writes it; refused where it means less than it seems to."""
    if name.upper() in _WITHOUT_SUMMER:
        raise _unknown(name, "has no summer time, unlike the clocks of any place that uses it")
    key: str = zone(name).key
    return key


def _unknown(name: str, why: str = "is not a known time zone") -> InvalidSchedule:
    """The refusal of a name, with the zones that are meant by it."""
    from wakeful.schedule.zone_names import zones_alike, zones_meant

    meant = zones_meant(name)
    listed = " or ".join(f'"{one}"' for one in meant or zones_alike(name))
    fix = (
        f"Did you mean {listed}?"
        if listed
        else 'Use an IANA name such as "Europe/Berlin", "America/New_York" or "UTC".'
    )
    error = InvalidSchedule(f"{name!r} {why}.", field="timezone", fix=fix)
    error.repair = {"timezone": meant[0]} if len(meant) == 1 else {}
    return error


def aware(moment: datetime, what: str = "moment") -> datetime:
    """The moment in UTC; a naive one is refused, since nobody knows where it was read."""
    if moment.tzinfo is UTC:
        return moment
    if moment.utcoffset() is None:
        raise InvalidSchedule("has no time zone.", field=what, fix="Hand in an aware datetime.")
    return moment.astimezone(UTC)


def offsets(wall: datetime, tz: ZoneInfo) -> tuple[timedelta, timedelta]:
    """The offsets before and after: equal, growing (the reading is in a gap) or shrinking (it happens twice)."""
    local = wall.replace(tzinfo=tz, fold=0)
    before, after = local.utcoffset(), local.replace(fold=1).utcoffset()
    assert before is not None
    assert after is not None
    return before, after


def transition(low: datetime, high: datetime, tz: ZoneInfo) -> datetime:
    """The instant in (low, high] at which the offset of `high` begins; both in UTC and whole seconds."""
    target = high.astimezone(tz).utcoffset()
    while high - low > SECOND:
        middle = low + (high - low) // 2
        middle = middle.replace(microsecond=0)
        if middle.astimezone(tz).utcoffset() == target:
            high = middle
        else:
            low = middle
    return high


def change_at(wall: datetime, tz: ZoneInfo) -> tuple[datetime, timedelta, timedelta] | None:
    """The clock change this reading falls into (instant, offset before, offset after); None on ordinary times."""
    before, after = offsets(wall, tz)
    if before == after:
        return None
    wall = wall.replace(tzinfo=UTC, microsecond=0, fold=0)
    early, late = sorted((wall - before, wall - after))
    return transition(early, late, tz), before, after


def instant(wall: datetime, tz: ZoneInfo) -> datetime:
    """When a wall clock reading happens, in UTC: in a gap its end, of two the first."""
    before, after = offsets(wall, tz)
    if after > before:
        change = change_at(wall, tz)
        assert change is not None
        return change[0]
    return wall.replace(tzinfo=UTC, fold=0) - before
