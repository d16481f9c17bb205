"""The time zone that a name most likely means which is none: an abbreviation, or a city."""

from __future__ import annotations

from functools import cache
from zoneinfo import available_timezones

# Of abbreviations the zone that most people mean by them; summer and winter are its own affair.
_ABBREVIATIONS = {
    **dict.fromkeys(("pst", "pdt", "pt", "pacific"), "America/Los_Angeles"),
    **dict.fromkeys(("mst", "mdt", "mt", "mountain"), "America/Denver"),
    **dict.fromkeys(("cdt", "ct", "central"), "America/Chicago"),
    **dict.fromkeys(("est", "edt", "et", "eastern"), "America/New_York"),
    **dict.fromkeys(("cest", "cet"), "Europe/Paris"),
    **dict.fromkeys(("bst", "uk"), "Europe/London"),
    "jst": "Asia/Tokyo",
    **dict.fromkeys(("aest", "aedt"), "Australia/Sydney"),
    **dict.fromkeys(("utc", "gmt", "zulu"), "UTC"),
}
_LONGEST = 64
_REGIONS = ("Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific")


def zone_meant(name: str) -> str:
    """The IANA name that an abbreviation or a city stands for; empty where there is none, or more than one."""
    said = "_".join(name.lower().removesuffix(" time").split())
    if not said or len(said) > _LONGEST:
        return ""
    return _ABBREVIATIONS.get(said) or _cities().get(said, "")


@cache
def _cities() -> dict[str, str]:
    """City → zone, where one zone alone is named after it. Read when first needed: it is a walk through files."""
    found: dict[str, set[str]] = {}
    for name in available_timezones():
        region, _, city = name.rpartition("/")
        if region.partition("/")[0] in _REGIONS:
            found.setdefault(city.lower(), set()).add(name)
    return {city: min(names) for city, names in found.items() if len(names) == 1}
