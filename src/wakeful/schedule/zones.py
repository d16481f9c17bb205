"""Time zones by name, what people call them, and what a wall clock reading means as an instant.

Only utcoffset() is trusted: a gap is where it grows, a repeated stretch is where it shrinks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache, wraps
from io import BytesIO
from itertools import count
from typing import Any, TypeVar
from zoneinfo import ZoneInfo, available_timezones

from wakeful.errors import InvalidSchedule
from wakeful.schedule.names import MONTH_NAMES

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
_requested: ContextVar[int] = ContextVar("the rules that are asked", default=0)  # 0: those in force


def by_zone_rules(maxsize: int) -> Callable[[F], F]:
    """`lru_cache` for answers that depend on the rules of a zone: they are kept for each set of rules apart."""

    def decorated(function: F) -> F:
        @lru_cache(maxsize=maxsize)
        def known(_: int, *args: Hashable) -> Any:
            return function(*args)

        @wraps(function)
        def answer(*args: Hashable) -> Any:
            return known(_requested.get() or _rules.in_force, *args)

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
    token = _requested.set(_rules.former)
    try:
        yield
    finally:
        _requested.reset(token)


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
        data = _rules.numbered[_requested.get() or _rules.in_force].get(name)
        try:
            return ZoneInfo(name) if data is None else ZoneInfo.from_file(BytesIO(data), key=name)
        except (KeyError, ValueError, OSError):  # unknown, malformed, or a folder such as "Europe"
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
    candidates = zones_of_name(name)
    listed = " or ".join(f'"{one}"' for one in candidates or zones_alike(name))
    fix = (
        f"Did you mean {listed}?"
        if listed
        else 'Use an IANA name such as "Europe/Berlin", "America/New_York" or "UTC".'
    )
    error = InvalidSchedule(f"{name!r} {why}.", field="timezone", fix=fix)
    error.repair = {"timezone": candidates[0]} if len(candidates) == 1 else {}
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


_NEW_YORK, _CHICAGO, _DENVER, _LOS_ANGELES = (
    *("America/New_York", "America/Chicago"),
    *("America/Denver", "America/Los_Angeles"),
)
# Words for a zone that has its summer time in it: "9am pacific time".
_REGIONAL = {
    **dict.fromkeys(("pt", "pacific"), _LOS_ANGELES),
    **dict.fromkeys(("mt", "mountain"), _DENVER),
    **dict.fromkeys(("ct", "central"), _CHICAGO),
    **dict.fromkeys(("et", "eastern"), _NEW_YORK),
    "uk": "Europe/London",
    **dict.fromkeys(("utc", "gmt", "zulu"), "UTC"),
}
# Of abbreviations the zones that people mean by them, the likeliest first; summer and winter are their own affair.
_ABBREVIATIONS = {
    **{word: (name,) for word, name in _REGIONAL.items()},
    **dict.fromkeys(("pst", "pdt"), (_LOS_ANGELES,)),
    **dict.fromkeys(("mst", "mdt"), (_DENVER,)),
    "cst": (_CHICAGO, "Asia/Shanghai"),
    "cdt": (_CHICAGO,),
    **dict.fromkeys(("est", "edt"), (_NEW_YORK,)),
    **dict.fromkeys(("cest", "cet"), ("Europe/Paris",)),
    "bst": ("Europe/London",),
    "ist": ("Asia/Kolkata", "Europe/Dublin", "Asia/Jerusalem"),
    "jst": ("Asia/Tokyo",),
    "kst": ("Asia/Seoul",),
    **dict.fromkeys(("aest", "aedt"), ("Australia/Sydney",)),
    "awst": ("Australia/Perth",),
    **dict.fromkeys(("nzst", "nzdt"), ("Pacific/Auckland",)),
}
# Large cities that no zone is named after.
_MORE_CITIES = {
    **dict.fromkeys(("san_francisco", "seattle", "las_vegas", "san_diego"), _LOS_ANGELES),
    **dict.fromkeys(("boston", "washington_dc", "miami", "atlanta", "nyc", "philadelphia"), _NEW_YORK),
    **dict.fromkeys(("houston", "dallas", "austin"), _CHICAGO),
    **dict.fromkeys(("montreal", "ottawa"), "America/Toronto"),
    **dict.fromkeys(("munich", "hamburg", "frankfurt", "cologne"), "Europe/Berlin"),
    **dict.fromkeys(("geneva", "basel", "bern"), "Europe/Zurich"),
    "barcelona": "Europe/Madrid",
    "milan": "Europe/Rome",
    **dict.fromkeys(("edinburgh", "manchester"), "Europe/London"),
    **dict.fromkeys(("mumbai", "delhi", "new_delhi", "bangalore"), "Asia/Kolkata"),
    **dict.fromkeys(("beijing", "shenzhen"), "Asia/Shanghai"),
    **dict.fromkeys(("osaka", "kyoto"), "Asia/Tokyo"),
}
_LONGEST = 64
_MOST_WORDS = 3
_REGIONS = ("Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific")
_NO_CITY = frozenset({"the", "a", "an", "half", "this", "next", *(name.lower() for name in MONTH_NAMES)})


def zone_of_name(name: str) -> str:
    """The IANA name that an abbreviation or a city stands for; empty where there is none, or more than one."""
    found = zones_of_name(name)
    return found[0] if len(found) == 1 else ""


def zones_of_name(name: str) -> tuple[str, ...]:
    """All that an abbreviation or a city can stand for, the likeliest first."""
    key = _key(name.lower().removesuffix(" time"))
    if not key or len(key) > _LONGEST:
        return ()
    return _ABBREVIATIONS.get(key) or _city(key)


def zones_alike(name: str) -> tuple[str, ...]:
    """Those that are written almost like it."""
    from difflib import get_close_matches  # for what nearly nobody writes

    known = _names()
    return tuple(known[found] for found in get_close_matches(name[:_LONGEST].lower(), known, 2, 0.85))


def in_its_case(name: str) -> str:
    """The name as the data writes it, whatever its case; empty where there is none."""
    return _names().get(name.lower(), "")


def split_place(text: str) -> tuple[str, str] | None:
    """A phrase without the place it names at its end ("9am Berlin time", "3pm in New York"), and the zone of that."""
    words = text.split()
    if words[-1].lower() == "time":
        for length in range(min(_MOST_WORDS, len(words) - 2), 0, -1):
            if name := _place(words[-1 - length : -1], regional=True):
                return _before(words[: -1 - length]), name
    elif "in" in words[1:]:
        at = len(words) - 1 - words[::-1].index("in")
        place = words[at + 1 :]
        if 0 < len(place) <= _MOST_WORDS and (name := _place(place, regional=False)):
            return _before(words[:at]), name
    return None


def _before(words: list[str]) -> str:
    return " ".join(words).removesuffix(" in").rstrip(", ")


def _place(words: list[str], *, regional: bool) -> str:
    key = _key(" ".join(words).strip("."))
    if words[0].lower() in _NO_CITY or not key.replace("_", "").replace(".", "").isalpha():
        return ""
    found = _city(key)
    return (_REGIONAL.get(key, "") if regional else "") or (found[0] if found else "")


def _key(name: str) -> str:
    return "_".join(name.lower().split())


def _city(key: str) -> tuple[str, ...]:
    name = _MORE_CITIES.get(key) or _cities().get(key)
    return (name,) if name else ()


def _names() -> dict[str, str]:
    """Every zone by its name in small letters; none where they cannot be read, and whoever asks next tries again."""
    try:
        return _read_names()
    except OSError:  # no descriptor is left to open them with
        return {}


@cache
def _read_names() -> dict[str, str]:
    """Read when first needed: it is a walk through files."""
    return {name.lower(): name for name in available_timezones()}


@cache
def _cities() -> dict[str, str]:
    """City → zone, where one zone alone is named after it."""
    found: dict[str, set[str]] = {}
    for name in _names().values():
        region, _, city = name.rpartition("/")
        if region.partition("/")[0] in _REGIONS:
            found.setdefault(city.lower(), set()).add(name)
    return {city: min(names) for city, names in found.items() if len(names) == 1}
