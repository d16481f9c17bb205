"""The names of months, weekdays and ordinals, as they are written in descriptions."""

from __future__ import annotations

MONTH_NAMES = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
WEEKDAY_NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
ORDINAL_NAMES = ("last", "first", "second", "third", "fourth", "fifth")


def ordinal(n: int) -> str:
    suffix = "th" if 10 <= n % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{suffix}"


def listed(words: list[str]) -> str:
    """A, B and C."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


DATE_ORDERS = ("", "dmy", "mdy")  # how 03/04 is read; without one, it is refused with both readings
