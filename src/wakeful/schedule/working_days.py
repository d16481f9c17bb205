"""Days of the week as settings have them: "mon-fri", "sun-thu", "mon,wed,fri". Monday is 0, as in `date.weekday`."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

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
