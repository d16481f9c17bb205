"""Time zones by the names people give them: in any case, a city, an abbreviation; and those that are meant by one."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from zoneinfo import available_timezones

from wakeful.schedule.names import MONTH_NAMES

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


def zone_meant(name: str) -> str:
    """The IANA name that an abbreviation or a city stands for; empty where there is none, or more than one."""
    found = zones_meant(name)
    return found[0] if len(found) == 1 else ""


def zones_meant(name: str) -> tuple[str, ...]:
    """All that an abbreviation or a city can stand for, the likeliest first."""
    said = _key(name.lower().removesuffix(" time"))
    if not said or len(said) > _LONGEST:
        return ()
    return _ABBREVIATIONS.get(said) or _city(said)


def zones_alike(name: str) -> tuple[str, ...]:
    """Those that are written almost like it."""
    known = _names()
    return tuple(known[found] for found in get_close_matches(name[:_LONGEST].lower(), known, 2, 0.85))


def in_its_case(name: str) -> str:
    """The name as the data writes it, whatever its case; empty where there is none."""
    return _names().get(name.lower(), "")


def zone_said(text: str) -> tuple[str, str] | None:
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
    said = _key(" ".join(words).strip("."))
    if words[0].lower() in _NO_CITY or not said.replace("_", "").replace(".", "").isalpha():
        return ""
    found = _city(said)
    return (_REGIONAL.get(said, "") if regional else "") or (found[0] if found else "")


def _key(name: str) -> str:
    return "_".join(name.lower().split())


def _city(said: str) -> tuple[str, ...]:
    name = _MORE_CITIES.get(said) or _cities().get(said)
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
