"""So long before or after a moment that is named: "an hour before tomorrow at noon", "2 days before 1 december"."""

from __future__ import annotations

import re
from typing import NamedTuple

from wakeful.schedule.offsets import Offset, read_amounts, total

_SIDE = re.compile(r" (before|after|from) (?=[a-z0-9])")
_THE = re.compile(r"(?:the )?(day|week|month) (before|after) (?!tomorrow)(?=[a-z0-9])")
_LENGTHS = {"day": Offset(days=1), "week": Offset(days=7), "month": Offset(1)}
_NOW = re.compile(r"(?:right )?now\b|this (?:second|minute|moment)\b")


class Relative(NamedTuple):
    """How far from the moment that the rest of a phrase names; negative before it."""

    offset: Offset
    said: str  # the words before the rest
    rest: str


def read_relative(text: str) -> Relative | None:
    """None for what counts from now, and for days after a date: those are offsets."""
    if found := _THE.match(text):
        length = _LENGTHS[found[1]]
        return Relative(length if found[2] == "after" else _negative(length), found[0], text[found.end() :])
    amounts, end = read_amounts(text, 0)
    side = _SIDE.match(text, end) if amounts else None
    if side is None or _NOW.match(text, side.end()):
        return None
    offset = total(amounts)
    if side[1] != "before" and not offset.millis:
        return None
    return Relative(_negative(offset) if side[1] == "before" else offset, text[: side.end()], text[side.end() :])


def _negative(offset: Offset) -> Offset:
    return Offset(-offset.months, -offset.days, -offset.millis)
