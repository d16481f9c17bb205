"""Times of day in words: 9am, 15:30, "half past 2", "at 5", noon; which half of the day is meant.

And a rhythm with another time of day: how "move it to 10am" keeps a series a series.
"""

from __future__ import annotations

import re
from datetime import datetime, time
from typing import NamedTuple

from wakeful.schedule.cron import DESCRIPTORS
from wakeful.schedule.expression import LONGEST, is_interval, is_rule, split_zone
from wakeful.schedule.words import LazyPattern, PhraseRefused, normal

_AMPM = r"(?:(?: in the)? ?([ap]) ?\.? ?m\b(?: ?\.)?|([ap])(?![a-z0-9]))"
_ABOUT = r"(?:(?:about|around|approximately|circa) )?"
_AT = rf"(?:for )?(?:(at|@) ?{_ABOUT}|{_ABOUT})"
_END = r"(?: approximately| exactly| sharp)?(?![a-z0-9:])"

_NAMED = LazyPattern(rf"{_AT}(?:the |12 )?(noon|mid[ -]?day|midnight){_END}")
_COLON = LazyPattern(
    rf"{_AT}([0-9]{{1,2}}):([0-9]{{2}})(?::([0-9]{{2}})(?:\.([0-9]{{1,6}}))?)?(?: ?o'clock)?{_AMPM}?{_END}"
)
_DOTTED = LazyPattern(rf"{_AT}([0-9]{{1,2}})\.([0-9]{{2}}){_AMPM}{_END}")
_H = LazyPattern(rf"{_AT}([0-9]{{1,2}}) ?h ?([0-9]{{2}})?{_END}")
_COMPACT = LazyPattern(rf"{_AT}([0-9]{{1,2}})( ?)([0-5][0-9]){_AMPM}?{_END}")
_FOUR_DIGITS = LazyPattern(
    rf"{_AT}([0-9]{{2}})([0-9]{{2}}) ?(?:hours|hrs?|h){_END}(?!,? (?:from|later|hence|out|after|before|ago|and)\b)"
)
_HOUR = LazyPattern(rf"{_AT}([0-9]{{1,2}})( ?o'?clock)?{_AMPM}?(?!\.[0-9]){_END}")
_PAST = LazyPattern(
    rf"{_AT}(half|(?:an? )?quarter|[0-9]{{1,2}})( ?min(?:ute)?s?)? (past|after|to|till|before) "
    rf"(?:(noon|mid[ -]?day|midnight)|([0-9]{{1,2}})(h)?(?: ?o'?clock)?{_AMPM}?){_END}"
)
PART_OF_DAY = LazyPattern(
    r"(?:in the |in |at |this |on the |during the )?(?:early |late )?(morning|afternoon|evening|night)(?![a-z0-9])"
)
_NUMERIC_DATE = LazyPattern(r"[0-9]+([\-/.:])[0-9]+(?:\1[0-9]+)?")
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
    hours_only: bool = False  # "15h", "1h30": could be a duration
    exact: bool = False  # as programs write it, with seconds or a date in numbers: 24-hour, unless a part is said


def read_past(text: str, position: int, *, one_moment: bool = False) -> tuple[WallTime, int] | None:
    """Minutes past or to an hour, "1800 hours"; read before offsets, which would take the numbers away.

    `one_moment`: there is no series beside it that could go from one hour to another.
    """
    for pattern, reader in _BEFORE_OFFSETS:
        if (found := pattern.match(text, position)) and (clock := reader(found)):
            return clock, found.end()
    if one_moment and (found := _PAST.match(text, position)) and _is_minutes_to(found):
        return _past_clock(found), found.end()
    return None


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
    amount, said_minutes, side, name, hour = found.groups()[1:6]
    minutes = {"half": 30}.get(amount) or (15 if amount.endswith("quarter") else int(amount))
    before = side in ("to", "till", "before")
    if before and (amount == "half" or (side != "before" and _is_range(amount, hour) and not said_minutes)):
        return None
    if minutes > 59 or (name == "midnight" and before):
        return None
    return _past_clock(found)


def _is_minutes_to(found: re.Match[str]) -> bool:
    """Whether it is minutes to an hour, though two hours are thinkable: "10 to 8pm"; not "9 to 5pm" or "5 to 8pm".

    Minutes are said in fives, and one half of the day has no hours from 10 to 8.
    """
    amount, hour, says_half = found[2], found[6], found[8] or found[9]
    return found[4] == "to" and amount in ("5", "10") and bool(hour and says_half) and int(amount) > int(hour)


def _past_clock(found: re.Match[str]) -> WallTime:
    amount, _, side, name, hour, h = found.groups()[1:7]
    minutes = {"half": 30}.get(amount) or (15 if amount.endswith("quarter") else int(amount))
    before = side in ("to", "till", "before")
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
    sure = not half and _is_24h(hour)
    return WallTime(int(hour), int(minute), int(second or 0), micro, half, certain=sure, exact=second is not None)


def _dotted(found: re.Match[str]) -> WallTime:
    return WallTime(int(found[2]), int(found[3]), half=found[4] or found[5])


def _h(found: re.Match[str]) -> WallTime:
    is_padded = len(found[2]) > 1 and found[2][0] == "0"  # 0h30 can be half an hour, 00h30 cannot
    is_open = not found[3] or (not is_padded and int(found[2]) <= SMALL_HOURS.hour)
    return WallTime(int(found[2]), int(found[3] or 0), certain=True, hours_only=is_open and not found[1])


def _four_digits(found: re.Match[str]) -> WallTime:
    hour, minute = int(found[2]), int(found[3])
    if hour > 23 or minute > 59:
        in_hours = f"in {int(found[2] + found[3])} hours"
        instead = f"{found.string[: found.start()]}{in_hours}{found.string[found.end() :]}"
        raise PhraseRefused(f'"{found[0]}" is not a time of day', instead)
    return WallTime(hour, minute, certain=True)


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


_BEFORE_OFFSETS = ((_PAST, _past), (_FOUR_DIGITS, _four_digits))
_READERS = (
    (_FOUR_DIGITS, _four_digits),
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
        written = f"{clock.hour}:{clock.minute:02}" + (f":{clock.second:02}" if clock.second else "")
        raise PhraseRefused(f"{written} is not a time of day: hours go up to 23, minutes and seconds up to 59")
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
    return clock.hour + 12 if _is_assumed(clock, part) else clock.hour


def _is_assumed(clock: WallTime, part: str | None) -> bool:
    """Whether nothing says that it is in the afternoon, but that people mean it by 1 to 5."""
    says_half = clock.half or clock.certain or clock.exact or part is not None
    return not says_half and 1 <= clock.hour <= 5


def afternoon_remark(clock: WallTime, part: str | None, words: str) -> tuple[str, ...]:
    """That 1 to 5 was read as the afternoon, and how the morning is written."""
    if not _is_assumed(clock, part):
        return ()
    morning = settle(clock._replace(certain=True), None)
    text = words.removeprefix("for ").removeprefix("at ").removeprefix("@").strip()
    return (f'"{text}" was read as {settle(clock, part):%H:%M}: for the morning write "{morning:%H:%M}".',)


def is_machine_written(day: str, clock: str) -> bool:
    """Whether a date and a clock are as programs write them: both in numbers; after "at" only if the year is first."""
    if ":" not in clock or not _NUMERIC_DATE.fullmatch(day):
        return False
    return clock[0].isdigit() or day[:4].isdigit()


def _hour_in_part(clock: WallTime, part: str) -> int:
    if clock.hour == 12 and (part != "afternoon" or clock.minute == 0):
        raise PhraseRefused(f"12 in the {part} can be noon or midnight")
    if part == "morning" or clock.hour == 12 or (part == "night" and clock.hour < 5):
        return clock.hour
    return clock.hour + 12


_FIELDS = (5, 6)
_OF_DAYS = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY")


def time_of_day(text: str) -> time | None:
    """The time of day that a text says and nothing besides; None where it says more, less or something else."""
    phrase = normal(text.strip()) if len(text) <= LONGEST else None
    found = (read_past(phrase, 0) or read_clock(phrase, 0)) if phrase else None
    if phrase is None or found is None or phrase[found[1] :] not in ("", ".", "!"):
        return None
    clock = found[0]
    if clock.bare or clock.hours_only:  # "10" and "15h" may be something else
        return None
    try:
        return settle(clock, None)
    except PhraseRefused:
        return None


def at_time_of_day(cron_expr: str, at: time) -> str | None:
    """The same rhythm at another time of day; None where it has no single time of day to move."""
    if is_interval(cron_expr):
        return None
    if is_rule(cron_expr):
        return _rule_at(cron_expr, at)
    expr, name = split_zone(cron_expr, "")
    fields = DESCRIPTORS.get(expr.lower(), expr).split()
    # Whatever stands before minute and hour (seconds) and after them (the days) is what makes the rhythm.
    if len(fields) not in _FIELDS or not all(field.isdigit() for field in fields[:-3]):
        return None
    clock = [str(at.second)] if len(fields) == max(_FIELDS) or at.second else []
    moved = " ".join([*clock, str(at.minute), str(at.hour), *fields[-3:]])
    return f"CRON_TZ={name} {moved}" if name else moved


def _rule_at(cron_expr: str, at: time) -> str | None:
    from wakeful.schedule.recurrence import Recurrence, read  # only where there is a rule: most have none

    recurrence, _ = read(cron_expr, "UTC")
    if len(recurrence.rules) != 1 or recurrence != Recurrence(recurrence.rules):
        return None  # its start, and dates more or less, have times of their own
    [rule] = recurrence.rules
    times = (rule.by_hour, rule.by_minute, rule.by_second)
    if rule.freq not in _OF_DAYS or isinstance(rule.until, datetime) or any(len(some) > 1 for some in times):
        return None
    second = (at.second,) if at.second else ()
    return Recurrence((rule._replace(by_hour=(at.hour,), by_minute=(at.minute,), by_second=second),)).text()
