"""Times of day in words: 9am, 15:30, "half past 2", "at 5", noon; and which half of the day is meant."""

from __future__ import annotations

import re
from datetime import time
from typing import NamedTuple

from wakeful.schedule.refusals import PhraseRefused

_AMPM = r"(?:(?: in the)? ?([ap]) ?\.? ?m\b(?: ?\.)?|([ap])(?![a-z0-9]))"
_ABOUT = r"(?:(?:about|around|approximately|circa) )?"
_AT = rf"(?:for )?(?:(at|@) ?{_ABOUT}|{_ABOUT})"
_END = r"(?: approximately| exactly| sharp)?(?![a-z0-9:])"

_NAMED = re.compile(rf"{_AT}(?:the |12 )?(noon|mid[ -]?day|midnight){_END}")
_COLON = re.compile(
    rf"{_AT}([0-9]{{1,2}}):([0-9]{{2}})(?::([0-9]{{2}})(?:\.([0-9]{{1,6}}))?)?(?: ?o'clock)?{_AMPM}?{_END}"
)
_DOTTED = re.compile(rf"{_AT}([0-9]{{1,2}})\.([0-9]{{2}}){_AMPM}{_END}")
_H = re.compile(rf"{_AT}([0-9]{{1,2}}) ?h ?([0-9]{{2}})?{_END}")
_COMPACT = re.compile(rf"{_AT}([0-9]{{1,2}})( ?)([0-5][0-9]){_AMPM}?{_END}")
_HOUR = re.compile(rf"{_AT}([0-9]{{1,2}})( ?o'?clock)?{_AMPM}?(?!\.[0-9]){_END}")
_PAST = re.compile(
    rf"{_AT}(half|(?:an? )?quarter|[0-9]{{1,2}})( ?min(?:ute)?s?)? (past|after|to|till|before) "
    rf"(?:(noon|mid[ -]?day|midnight)|([0-9]{{1,2}})(h)?(?: ?o'?clock)?{_AMPM}?){_END}"
)
PART_OF_DAY = re.compile(
    r"(?:in the |in |at |this |on the |during the )?(?:early |late )?(morning|afternoon|evening|night)(?![a-z0-9])"
)
_AFTER = "after "
SMALL_HOURS = time(5)
PARTS = {"morning": time(9), "afternoon": time(15), "evening": time(19), "night": time(21)}  # when no time is said
_HOURS = {
    "morning": range(1, 12),
    "afternoon": range(12, 20),
    "evening": range(16, 24),
    "night": (*range(17, 24), *range(5)),
}


class WallTime(NamedTuple):
    """A time of day as it was said."""

    hour: int
    minute: int = 0
    second: int = 0
    micro: int = 0
    half: str = ""  # "a" or "p" when it was said
    certain: bool = False  # 24-hour writing: no half of the day to find
    bare: bool = False  # lone numbers: only a time beside a part of the day, or with minutes beside a day
    midnight: bool = False
    minus: int = 0  # minutes to take off: "quarter to"
    hours_only: bool = False  # "15h": could be a duration


def read_past(text: str, position: int) -> tuple[WallTime, int] | None:
    """Minutes past or to an hour; read before offsets, which would take the minutes away."""
    found = _PAST.match(text, position)
    clock = _past(found) if found else None
    return (clock, found.end()) if found and clock else None


def read_clock(text: str, position: int) -> tuple[WallTime, int] | None:
    """The time of day that stands at this position, and where it ends."""
    if text.startswith(_AFTER, position):  # the first moment that is
        after = read_clock(text, position + len(_AFTER))
        return after if after and not after[0].bare and not after[0].hours_only else None
    for pattern, reader in _READERS:
        if found := pattern.match(text, position):
            clock = reader(found)
            if clock is not None:
                return clock, found.end()
    return None


def _named(found: re.Match[str]) -> WallTime:
    if found[2] == "midnight":
        return WallTime(0, certain=True, midnight=True)
    return WallTime(12, certain=True)


def _past(found: re.Match[str]) -> WallTime | None:
    amount, said_minutes, side, name, hour, h = found.groups()[1:7]
    minutes = {"half": 30}.get(amount) or (15 if amount.endswith("quarter") else int(amount))
    before = side in ("to", "till", "before")
    if before and (amount == "half" or (side != "before" and _is_range(amount, hour) and not said_minutes)):
        return None
    if minutes > 59 or (name == "midnight" and before):
        return None
    base = 12 if name else int(hour)
    if name == "midnight":
        base = 0
    half = found[8] or found[9] or ""
    clock = WallTime(base, half=half, certain=bool(name or h) or base > 12)
    return clock._replace(minus=minutes) if before else clock._replace(minute=minutes)


def _is_range(first: str, last: str | None) -> bool:
    """Whether it is rather from one hour to another: "9 to 5", "13 to 15"; not "20 to 5"."""
    return first.isdigit() and (int(first) < 13 or (last is not None and int(first) < int(last)))


def _colon(found: re.Match[str]) -> WallTime:
    _, hour, minute, second, fraction, spelled, glued = found.groups()
    half = spelled or glued or ""
    micro = int((fraction or "").ljust(6, "0"))
    return WallTime(int(hour), int(minute), int(second or 0), micro, half, certain=not half and _is_24h(hour))


def _dotted(found: re.Match[str]) -> WallTime:
    return WallTime(int(found[2]), int(found[3]), half=found[4] or found[5])


def _h(found: re.Match[str]) -> WallTime:
    return WallTime(int(found[2]), int(found[3] or 0), certain=True, hours_only=not (found[1] or found[3]))


def _compact(found: re.Match[str]) -> WallTime | None:
    at, hour, space, minute, spelled, glued = found.groups()
    bare = not (at or spelled or glued)
    if bare and not space:
        return None
    half = spelled or glued or ""
    return WallTime(int(hour), int(minute), half=half, certain=not half and _is_24h(hour), bare=bare)


def _hour(found: re.Match[str]) -> WallTime:
    at, hour, oclock, spelled, glued = found.groups()
    half = spelled or glued or ""
    # "4a" on its own is rather a door than a time.
    bare = not (at or oclock or spelled or glued == "p")
    return WallTime(int(hour), half=half, certain=not half and _is_24h(hour), bare=bare)


def _is_24h(hour: str) -> bool:
    return hour.startswith("0") or int(hour) > 12


_READERS = (
    (_COLON, _colon),
    (_PAST, _past),
    (_COMPACT, _compact),
    (_NAMED, _named),
    (_HOUR, _hour),
    (_DOTTED, _dotted),
    (_H, _h),
)


def settle(clock: WallTime, part: str | None) -> time:
    """The time of day that is meant: 1 to 5 is pm, 6 to 11 am, 12 noon, unless a half or a part of the day is said."""
    if clock.minute > 59 or clock.second > 59 or clock.hour > 23:
        raise PhraseRefused("there is no such time of day")
    if clock.half and not 1 <= clock.hour <= 12:
        raise PhraseRefused(f"{clock.hour} cannot be combined with {clock.half}m")
    hour = _hour_of_day(clock, part)
    if part is not None and hour not in _HOURS[part]:
        raise PhraseRefused(f"{hour:02}:{clock.minute:02} is not in the {part}")
    minutes = hour * 60 + clock.minute - clock.minus
    return time(minutes // 60 % 24, minutes % 60, clock.second, clock.micro // 1000 * 1000)


def _hour_of_day(clock: WallTime, part: str | None) -> int:
    if clock.half:
        return clock.hour % 12 + (12 if clock.half == "p" else 0)
    if clock.certain:
        return clock.hour
    if part is not None:
        return _hour_in_part(clock, part)
    return clock.hour + 12 if clock.hour <= 5 else clock.hour


def _hour_in_part(clock: WallTime, part: str) -> int:
    if clock.hour == 12 and (part != "afternoon" or clock.minute == 0):
        raise PhraseRefused(f"12 in the {part} can be noon or midnight")
    if part == "morning" or clock.hour == 12 or (part == "night" and clock.hour < 5):
        return clock.hour
    return clock.hour + 12
