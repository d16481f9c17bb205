"""How often: "every 3 days", "every other", "weekly", "twice a day"."""

from __future__ import annotations

import re

from wakeful.schedule.lazy_pattern import LazyPattern
from wakeful.schedule.names import ordinal
from wakeful.schedule.offsets import Offset, read_amounts, total
from wakeful.schedule.recurrence import LONGEST_INTERVAL
from wakeful.schedule.recurring_parts import RhythmParts
from wakeful.schedule.refusals import Contradiction, PhraseRefused
from wakeful.schedule.words import UNITS, WEEKDAY

_END = r"(?![a-z0-9])"
_OTHER = r"other|alternate|second|[0-9]{1,5}(?:st|nd|rd|th)"
_CALENDAR = r"day|week|fortnight|month|quarter|year"
_NAMED = LazyPattern(rf"(everyday|daily|nightly|hourly|weekly|fortnightly|monthly|quarterly|yearly|annually){_END}")
_PER_UNIT = LazyPattern(
    rf"(?:(once)|(twice)|thrice|([0-9]{{1,2}})(?: times| ?x)) "
    rf"(?:(?:an?|per|each|every) (day|week|month|year)|(daily|nightly|weekly|monthly|yearly|annually)){_END}"
)
_EVERY = LazyPattern(rf"(?:once )?(?:every|each){_END} ?")
_OTHER_UNIT = LazyPattern(rf"(?:({_OTHER}) )?({_CALENDAR})s?{_END}(?! of )")
_OTHER_DAYS = LazyPattern(rf"(?:({_OTHER})|([0-9]{{1,3}})) (?={WEEKDAY}s?{_END}|weekends?{_END})")
_WORKDAYS = LazyPattern(rf"(?:{_OTHER}|[0-9]{{1,5}}) (?:week|work|working|business)[ -]?days?{_END}(?! of )")
_OF_A_MONTH = LazyPattern(r" (?:of|in) ")
_ONE_NAME = LazyPattern(rf"(?:{WEEKDAY}|weekend)s?")
_SINGLE_UNIT = LazyPattern(r"(half (?:an )?hour|hour|minute|second|min|sec)(?![a-z])")
_FROM_START = LazyPattern(r" from its start(?![a-z])")
_NAMED_UNITS = {
    "everyday": ("day", 1),
    "daily": ("day", 1),
    "nightly": ("day", 1),
    "weekly": ("week", 1),
    "fortnightly": ("week", 2),
    "monthly": ("month", 1),
    "quarterly": ("month", 3),
    "yearly": ("year", 1),
    "annually": ("year", 1),
}
_CALENDAR_UNITS = {"fortnight": ("week", 2), "quarter": ("month", 3)}
_STEPS = {"d": ("day", 1), "w": ("week", 7), "fortnight": ("week", 7), "mo": ("month", 1), "y": ("year", 12)}


def read_interval(text: str, position: int, parts: RhythmParts) -> int:
    """Read how often; return where it ends, or -1 where nothing of this kind stands."""
    if found := _NAMED.match(text, position):
        _named(found, parts)
        return found.end()
    if found := _PER_UNIT.match(text, position):
        parts.set_interval(found[4] or _NAMED_UNITS[found[5]][0], 1, found.span())
        parts.times_per_unit = 1 if found[1] else 2 if found[2] else int(found[3] or 3)
        return found.end()
    if found := _EVERY.match(text, position):
        return _after_every(text, found.end(), parts, position)
    return -1


def _named(found: re.Match[str], parts: RhythmParts) -> None:
    if found[1] == "hourly":
        parts.set_seconds(3600)
        return
    parts.set_interval(*_NAMED_UNITS[found[1]], found.span())
    if found[1] == "nightly":
        if parts.part not in (None, "night"):
            raise PhraseRefused(f"{parts.part} and night contradict each other")
        parts.part = "night"


def _after_every(text: str, position: int, parts: RhythmParts, begin: int) -> int:
    if parts.each:
        raise PhraseRefused('"every" is said twice')
    if found := _OTHER_UNIT.match(text, position):
        unit, size = _CALENDAR_UNITS.get(found[2], (found[2], 1))
        parts.set_interval(unit, _checked(size * how_many(found[1])), (begin, found.end()))
        return found.end()
    if found := _OTHER_DAYS.match(text, position):
        return _weeks(text, found, parts, begin)
    if found := _WORKDAYS.match(text, position):
        raise PhraseRefused(f'"{text[begin : found.end()]}" cannot be counted: name the days, or say every weekday')
    if (end := _amounts(text, position, parts, begin)) >= 0:
        return end
    parts.recurs = parts.each = True
    return position


def how_many(word: str | None) -> int:
    """1 for nothing said, 2 for "other", else the number."""
    if not word:
        return 1
    digits = re.sub(r"[a-z]+$", "", word)
    return int(digits) if digits else 2


def _weeks(text: str, found: re.Match[str], parts: RhythmParts, begin: int) -> int:
    """Every other friday, every 3 weekends; "every 3rd friday" only where its month follows, which others read."""
    name = _ONE_NAME.match(text, found.end())
    assert name is not None
    if found[1] and found[1] not in ("other", "alternate"):
        if _OF_A_MONTH.match(text, name.end()) or how_many(found[1]) == 1:
            parts.recurs = parts.each = True
            return found.start()
        day, n = name[0], how_many(found[1])
        said = text[begin : name.end()]
        readings = [f"every {n} weeks on {day}", *([f"every {ordinal(n)} {day} of the month"] if n < 6 else [])]
        raise Contradiction(
            f'"{said}" can be every {n} weeks or once a month',
            *(f"{text[:begin]}{one}{text[name.end() :]}" for one in readings),
        )
    parts.set_interval("week", _checked(how_many(found[1] or found[2])), (begin, found.end()))
    return found.end()


def _amounts(text: str, position: int, parts: RhythmParts, begin: int) -> int:
    if single := _SINGLE_UNIT.match(text, position):
        half = 2 if single[1].startswith("half") else 1
        parts.set_seconds({"h": 3600, "m": 60, "s": 1}[single[1].split()[-1][0]] // half)
        return _from_start(text, single.end(), parts)
    amounts, end = read_amounts(text, position)
    if not amounts:
        return -1
    offset = total(amounts)
    if offset.months or offset.days:
        parts.set_interval(*_calendar(offset, UNITS[amounts[0][7]], text, (position, end)), (begin, end))
        return end
    if offset.millis % 1000 or offset.millis < 1000:
        raise PhraseRefused("an interval must be whole seconds, at least one")
    parts.set_seconds(offset.millis // 1000)
    return _from_start(text, end, parts)


def _from_start(text: str, end: int, parts: RhythmParts) -> int:
    if counted := _FROM_START.match(text, end):
        parts.from_start = True
        return counted.end()
    return end


def _calendar(offset: Offset, unit: str, text: str, at: tuple[int, int]) -> tuple[str, int]:
    """So many days, weeks, months or years, by the calendar: the time of day stays, whatever the clocks do."""
    if offset.millis or (offset.months and offset.days):
        why = "an interval is days, weeks, months or years, or it is hours and less"
        hours, rest = divmod(offset.millis, 3_600_000)
        words = f"{text[: at[0]]}{offset.days * 24 + hours} hours{text[at[1] :]}"
        raise PhraseRefused(why, *([] if rest or offset.months else [words]))
    name, length = _STEPS[unit]
    n, rest = divmod(offset.months or offset.days, length)
    if rest:  # "1 year and 6 months", "2 weeks and 3 days"
        return ("month", _checked(offset.months)) if offset.months else ("day", _checked(offset.days))
    return name, _checked(n)


def _checked(n: int) -> int:
    if not 1 <= n <= LONGEST_INTERVAL:
        raise PhraseRefused("it is too long" if n else "every 0 of them is not an interval")
    return n
