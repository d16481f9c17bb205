"""Phrases for what recurs, turned into cron: "every weekday at 9am", "last friday of the month at 5pm".

What cron cannot count becomes a recurrence rule: "every 3 days at 9am".
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from datetime import time
from typing import NamedTuple

from wakeful.schedule import cron
from wakeful.schedule.clocks import PART_OF_DAY, PARTS, WallTime, read_clock, settle
from wakeful.schedule.interval import go_duration, rhythm
from wakeful.schedule.names import WEEKDAY_NAMES
from wakeful.schedule.offsets import Offset, read_amounts, total
from wakeful.schedule.recurrence import LONGEST_INTERVAL, Recurrence, RecurrenceRule
from wakeful.schedule.refusals import PhraseRefused
from wakeful.schedule.words import MONTH, MONTHS, UNITS, WEEKDAY, WEEKDAYS

_PLURALS = "|".join(f"{name.lower()}s" for name in WEEKDAY_NAMES)
RECURS = re.compile(
    rf"\b(?:every|each|everyday|daily|hourly|weekly|monthly|yearly|annually|nightly|(?:{_PLURALS})(?! from now)"
    r"|weekdays|weekends|once an? (?:day|week|month|year)|(?:[1-5](?:st|nd|rd|th)|last) [a-z]+ of the month"
    r"|through|thru)\b"
)
# Not understood, but meant to recur: so that no single moment is suggested for it.
SOUNDS_RECURRING = re.compile(
    rf"\b(?:(?:bi|semi|tri)-?(?:weekly|monthly|yearly|annual(?:ly)?)|quarterly|fortnightly|twice|thrice|[0-9]+ ?x|times"
    rf"|(?:per|once an?) [a-z]+|alternate|repeat(?:ing|ed|s)?|recurring|{WEEKDAY}s? (?:to|-) {WEEKDAY}s?)\b"
)
_BEYOND = (
    (r"until|till|ending|through [0-9]|through (?:next|the end)", "set `ends_at`"),
    (r"starting|beginning|as of|from [a-z0-9]+", "set `starts_at`"),
    (r"[0-9]+ ?x|[0-9]+ (?:times|occurrences)|twice|for (?:the next|up to|[0-9])", "set `max_fires` or `ends_at`"),
    (r"except|but not|excluding|unless", "name the days it does fire on"),
)
_BEYOND_PATTERN = re.compile("|".join(rf"(\b(?:{words})\b)" for words, _ in _BEYOND))
_EVERY_OTHER = re.compile(
    rf"\b(?:every|each) (?:(other|alternate)|([0-9]+)(?:st|nd|rd|th)) "
    rf"(?:(day|week|month|year|quarter)|(weekend)|{WEEKDAY})s?\b(?! (?:of|in) (?:the|every|each) month)"
)
_LENGTHS = {"day": Offset(days=1), "week": Offset(days=7), "month": Offset(1), "quarter": Offset(3), "year": Offset(12)}
_STEPS = {"d": ("DAILY", 1), "w": ("WEEKLY", 7), "fortnight": ("WEEKLY", 7), "mo": ("MONTHLY", 1), "y": ("YEARLY", 12)}
_SAYS_WHEN = re.compile(r"\bat\b|[0-9] ?[ap]\.?m\b|:|noon|midnight|morning|afternoon|evening|night")

_AND = r"(?:,? and |, ?| ?& ?)"
_NUMBER = r"[0-9]{1,2}(?:st|nd|rd|th)?"
_NTH = r"(?:[1-5](?:st|nd|rd|th)|last)"
_NTHS = rf"({_NTH}(?:{_AND}(?:the )?{_NTH})*)"
_DAYS = rf"((?:{_NUMBER}|last)(?:{_AND}(?:the )?(?:{_NUMBER}|last))*)"
_NUMBERS = rf"{_NUMBER}(?:{_AND}{_NUMBER})*"
_DAYS_IN_MONTH = (
    rf"(?:the )?(?:(?P<m1>{MONTH})\b\.? (?:the )?(?P<d1>{_NUMBERS})|(?P<d2>{_NUMBERS}) (?:of )?(?P<m2>{MONTH}))"
)
_EACH = r"(?:every|each)"
_EACH_MONTH = rf"(?:{_EACH} month|monthly)"
_EACH_YEAR = rf"(?:{_EACH} year|yearly|annually|once a year)"
_END = r"(?![a-z0-9])"

_SEPARATOR = re.compile(r"[ ,]+")
_MORE_CLOCK = re.compile(r",? and (?:at )?|, (?:at )?(?=[0-9])")
_UTC = re.compile(r"(?:utc|gmt)(?![a-z0-9+\-/])")
_FROM_START = re.compile(r" from its start(?![a-z])")
_SINGLE_UNIT = re.compile(r"(half (?:an )?hour|hour|minute|second|min|sec)(?![a-z])")


class Rule(NamedTuple):
    """The date fields of a schedule, or a whole expression that leaves no room for a time of day."""

    days: str = "*"
    months: str = "*"
    weekdays: str = "*"
    expr: str = ""
    freq: str = ""  # of a recurrence rule, where cron cannot count that far
    interval: int = 1
    plain: bool = True  # recurring by itself; else only beside a time of day


def understand(text: str, default: time) -> tuple[str, bool]:
    """The cron expression of a normalised phrase, and whether it insists on UTC."""
    _check_limits(text)
    rule, clocks, part, utc = _collect(text)
    if rule is None:
        raise PhraseRefused("it recurs, but how often was not understood")
    if rule.expr:
        if clocks or part:
            raise PhraseRefused("something that recurs every few hours or less has no time of day", rule.expr)
        return rule.expr, utc
    if not rule.plain and not clocks:
        raise PhraseRefused(
            "it is not clear whether this recurs", _expression(rule, [PARTS[part] if part else default])
        )
    if clocks and any(clock.bare for clock in clocks) and part is None:
        raise PhraseRefused("a number alone is not a time of day", *_either_half(rule, clocks))
    times = [settle(clock, part) for clock in clocks] or [PARTS[part] if part else default]
    return _expression(rule, times), utc


def _expression(rule: Rule, times: list[time]) -> str:
    if rule.freq:
        seconds, minutes, hours = _units(times)
        counted = RecurrenceRule(rule.freq, rule.interval, by_hour=hours, by_minute=minutes)
        return Recurrence((counted if seconds == (0,) else counted._replace(by_second=seconds),)).text()
    return f"{_time_fields(times)} {rule.days} {rule.months} {rule.weekdays}"


def _either_half(rule: Rule, clocks: list[WallTime]) -> Iterator[str]:
    """The same days, in the morning and in the afternoon."""
    for half in "ap":
        with contextlib.suppress(PhraseRefused):
            times = [settle(clock._replace(bare=False, half=clock.half or half), None) for clock in clocks]
            yield _expression(rule, times)


def _check_limits(text: str) -> None:
    if found := _EVERY_OTHER.search(text):
        raise PhraseRefused(f'"{found[0]}" counts across months or weeks', *_every_nth(found))
    text = _FROM_START.sub("", text)
    if found := _BEYOND_PATTERN.search(text):
        which = found.lastindex or 1
        # Without its end or its start it is the same rhythm, unless its time of day stands behind them.
        alone = text[: found.start()].rstrip(" ,") if which < 3 and not _SAYS_WHEN.search(text, found.end()) else ""
        raise PhraseRefused(
            f'"{found[0]}" is not part of how often it recurs: leave it out and {_BEYOND[which - 1][1]}',
            *([alone] if alone else []),
        )


def _every_nth(found: re.Match[str]) -> tuple[str, ...]:
    """Every second month, quarter or year. What counts days or weeks is said in whole by repairs.py, or not at all."""
    _, count, unit, _ = found.groups()
    length, times = _LENGTHS.get(unit or "", Offset()), int(count or 2)
    return _as_often(Offset(length.months * times), found.string) if length.months else ()


def _as_often(offset: Offset, text: str) -> tuple[str, ...]:
    """What recurs after so many months, or after so many days and less; nothing where no expression can say it."""
    if not offset.months:
        seconds = offset.days * 86_400 + offset.millis // 1000
        return () if offset.millis % 1000 else (f"@every {go_duration(seconds)}",)
    if offset.days or offset.millis or 12 % offset.months:
        return ()
    months = {1: "*", 12: "1"}.get(offset.months, f"*/{offset.months}")
    return (_expression(Rule(days="1", months=months), [_said_time(text)]),)


def _said_time(text: str) -> time:
    """The time of day a phrase names after "at", else nine."""
    for found in re.finditer(r"\bat ", text):
        read = read_clock(text, found.start())
        if read is not None and not read[0].bare:
            with contextlib.suppress(PhraseRefused):
                return settle(read[0], None)
    return time(9)


def _collect(text: str) -> tuple[Rule | None, list[WallTime], str | None, bool]:
    rule: Rule | None = None
    clocks: list[WallTime] = []
    part: str | None = None
    utc, position = False, 0
    while position < len(text):
        if position and (gap := _SEPARATOR.match(text, position)):
            position = gap.end()
        if text[position:] in ("", ".", "!"):
            break
        if rule is None and (read := _read_rule(text, position)):
            rule, position = read
        elif part is None and (found := PART_OF_DAY.match(text, position)):
            part, position = found[1], found.end()
        elif not clocks and (times := _read_clocks(text, position)):
            clocks, position = times
        elif zoned := _UTC.match(text, position):
            utc, position = True, zoned.end()
        else:
            raise PhraseRefused(f'"{text[position:][:60]}" was not understood in something that recurs')
    return rule, clocks, part, utc


def _read_clocks(text: str, position: int) -> tuple[list[WallTime], int] | None:
    clocks = []
    while read := read_clock(text, position):
        clocks.append(read[0])
        position = read[1]
        more = _MORE_CLOCK.match(text, position)
        if more is None or read_clock(text, more.end()) is None:
            break
        position = more.end()
    return (clocks, position) if clocks else None


def _time_fields(times: list[time]) -> str:
    """Second (when there is one), minute and hour; several times must share all but one of them."""
    seconds, minutes, hours = _units(times)
    fields = [minutes, hours] if seconds == (0,) else [seconds, minutes, hours]
    return " ".join(",".join(map(str, values)) for values in fields)


def _units(times: list[time]) -> list[tuple[int, ...]]:
    """The seconds, minutes and hours of the times."""
    if any(at.microsecond for at in times):
        raise PhraseRefused("recurring times are whole seconds")
    units = [tuple(sorted({getattr(at, unit) for at in times})) for unit in ("second", "minute", "hour")]
    if len(units[0]) > 1 or len(units[1]) * len(units[2]) != len(set(times)):
        raise PhraseRefused("times with different minutes are different schedules: set one for each")
    return units


def _read_rule(text: str, position: int) -> tuple[Rule, int] | None:
    for pattern, reader in _RULES:
        if found := pattern.match(text, position):
            return reader(found), found.end()
    if text.startswith(("every ", "each "), position):
        return _read_interval(text, text.index(" ", position) + 1)
    return None


def _read_interval(text: str, position: int) -> tuple[Rule, int] | None:
    if single := _SINGLE_UNIT.match(text, position):
        half = 2 if single[1].startswith("half") else 1
        seconds, end = {"h": 3600, "m": 60, "s": 1}[single[1].split()[-1][0]] // half, single.end()
    else:
        amounts, end = read_amounts(text, position)
        if not amounts:
            return None
        offset = total(amounts)
        if offset.months or offset.days:
            return _counted(offset, text, UNITS[amounts[0][7]]), end
        seconds = offset.millis // 1000
        if offset.millis % 1000 or seconds < 1:
            raise PhraseRefused("an interval must be whole seconds, at least one")
    if counted := _FROM_START.match(text, end):
        return Rule(expr=f"@every {go_duration(seconds)}"), counted.end()
    return Rule(expr=rhythm(seconds)), end


def _counted(offset: Offset, text: str, unit: str) -> Rule:
    """So many days, weeks, months or years, by the calendar: the time of day stays, whatever the clocks do."""
    if offset == Offset(days=1):
        return Rule()
    if offset.millis or (offset.months and offset.days):
        why = "an interval is days, weeks, months or years, or it is hours and less"
        raise PhraseRefused(why, *_as_often(offset, text))
    freq, length = _STEPS[unit]
    n, rest = divmod(offset.months or offset.days, length)
    if rest:  # "1 year and 6 months", "2 weeks and 3 days"
        freq, n = ("MONTHLY", offset.months) if offset.months else ("DAILY", offset.days)
    if n == 1:
        raise PhraseRefused("it does not say which day", *_as_often(offset, text))
    return Rule(freq=freq, interval=_interval(n))


def _interval(n: int) -> int:
    if n > LONGEST_INTERVAL:
        raise PhraseRefused("it is too long")
    return n


def weekday_field(days: set[int]) -> str:
    """Weekdays in one writing only, so that the same days give the same expression."""
    ordered = sorted(days)
    if len(ordered) == 7:
        return "*"
    if len(ordered) > 2 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"{ordered[0]}-{ordered[-1]}"
    return ",".join(map(str, ordered))


def _weekday_list(found: re.Match[str]) -> Rule:
    every, first, last, names = found.groups()
    if first is not None:
        start, end = _weekday(first), _weekday(last)
        days = {(start + more) % 7 for more in range((end - start) % 7 + 1)}
        return Rule(weekdays=weekday_field(days), plain=bool(every) or first.endswith("days"))
    said = re.findall(rf"{WEEKDAY}s?", names)
    plural = all(word.endswith("days") for word in said)
    if not (every or plural):
        raise PhraseRefused("it is not clear whether this recurs", _instead_of(found, f"every {names}"))
    return Rule(weekdays=weekday_field({_weekday(word) for word in said}))


def _weekday(word: str) -> int:
    number = WEEKDAYS.get(word)
    return number if number is not None else WEEKDAYS[word[:-1]]


def _numbers(text: str) -> str:
    """Days of a month, sorted, L for the last."""
    days = sorted({int(number) for number in re.findall(r"[0-9]+", text)})
    if any(not 1 <= day <= 31 for day in days):
        raise PhraseRefused("no month has such a day")
    return ",".join([*map(str, days), *(["L"] if "last" in text else [])])


def _nth_weekdays(nths: str, weekday: str) -> str:
    day = _weekday(weekday)
    counts = sorted({int(n) for n in re.findall(r"[1-5]", nths)})
    named = [f"{cron.WEEKDAYS[day].upper()}#{n}" for n in counts]
    return ",".join([*named, *([f"{day}L"] if "last" in nths else [])])


def _in_month(found: re.Match[str]) -> Rule:
    month = MONTHS[found["m1"] or found["m2"]]
    return Rule(days=_numbers(found["d1"] or found["d2"]), months=str(month))


def _not_alone(found: re.Match[str]) -> Rule:
    day = {"week": "monday", "month": "1st of the month", "year": "january 1st"}
    word = re.sub(r"ly$", "", found[1]).replace("annual", "year")
    instead = _instead_of(found, f"every {day[word]}") if word in day else _as_often(_LENGTHS[word], found.string)[0]
    raise PhraseRefused(f'"{found[0]}" does not say which day', instead)


def _instead_of(found: re.Match[str], words: str) -> str:
    """The phrase with other words where these were found, and a time of day."""
    text = f"{found.string[: found.start()]}{words}{found.string[found.end() :]}"
    return text if _SAYS_WHEN.search(text) else f"{text} at 9am"


_Reader = Callable[[re.Match[str]], Rule]
_WORKDAY = r"(?:weekday|work ?day|business day)"
_RULES: tuple[tuple[re.Pattern[str], _Reader], ...] = (
    (re.compile(rf"(?:every ?day|each day|daily|once a day){_END}"), lambda _: Rule()),
    (re.compile(rf"{_EACH} (?=morning|afternoon|evening|night)"), lambda _: Rule()),
    (re.compile(rf"hourly{_END}"), lambda _: Rule(expr="0 * * * *")),
    (re.compile(rf"(?:on )?(?:{_EACH} {_WORKDAY}s?|{_WORKDAY}s){_END}"), lambda _: Rule(weekdays="1-5")),
    (re.compile(rf"(?:on )?(?:{_EACH} weekends?|weekends){_END}"), lambda _: Rule(weekdays="0,6")),
    (
        re.compile(
            rf"(?:((?:{_EACH}(?: week)?|weekly|once a week)(?: on)?) |on )?"
            rf"(?:({WEEKDAY}s?) ?(?:through|thru|to|-) ?({WEEKDAY}s?)|({WEEKDAY}s?\b(?:{_AND}{WEEKDAY}s?\b)*)){_END}"
        ),
        _weekday_list,
    ),
    (
        re.compile(rf"(?:on )?(?:{_EACH} )?(?:the )?{_NTHS} ({WEEKDAY}s?) (?:of|in) (?:every|each|the) month{_END}"),
        lambda found: Rule(weekdays=_nth_weekdays(found[1], found[2])),
    ),
    (
        re.compile(rf"{_EACH_MONTH} on (?:the )?{_NTHS} ({WEEKDAY}s?){_END}"),
        lambda found: Rule(weekdays=_nth_weekdays(found[1], found[2])),
    ),
    (
        re.compile(rf"(?:on )?(?:{_EACH} )?(?:the )?{_DAYS}(?: day)? (?:of|in) (?:every|each|the) month{_END}"),
        lambda found: Rule(days=_numbers(found[1])),
    ),
    (re.compile(rf"{_EACH_MONTH} on (?:the )?{_DAYS}(?: day)?{_END}"), lambda found: Rule(days=_numbers(found[1]))),
    (
        re.compile(rf"(?:{_EACH_YEAR} on|{_EACH}) (?:the )?{_NTHS} ({WEEKDAY}s?) (?:of|in) ({MONTH}){_END}"),
        lambda found: Rule(weekdays=_nth_weekdays(found[1], found[2]), months=str(MONTHS[found[3]])),
    ),
    (
        re.compile(rf"(?:{_EACH_YEAR} on|{_EACH}) {_DAYS_IN_MONTH}{_END}"),
        _in_month,
    ),
    (
        re.compile(rf"(?:on )?{_DAYS_IN_MONTH} {_EACH} year{_END}"),
        _in_month,
    ),
    (re.compile(rf"(?:(?:every|each) )?((?:week|month|year|annual)(?:ly)?|quarter){_END}(?! on)"), _not_alone),
)
