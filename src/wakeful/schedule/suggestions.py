"""What a refused phrase most likely means: phrases that say it, and fields that are understood."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from difflib import get_close_matches
from typing import Any, NamedTuple

from wakeful.errors import InvalidSchedule
from wakeful.schedule.names import MONTH_NAMES, WEEKDAY_NAMES
from wakeful.schedule.words import MONTH, MONTHS, UNIT, WEEKDAY, PhraseRefused, normal

_DAYWORD = r"(?:today|tomorrow|tonight|yesterday)"
_TIME_WORD = re.compile(
    rf"\b(?:[0-9]+\S*|{MONTH}|{WEEKDAY}s?|{UNIT}|{_DAYWORD}|weekend|noon|midnight|morning|afternoon|evening|night|before"
    rf"|after|until|till|when|while|if|once|every|each|next|last|this|ago|end|start|half|quarter)\b"
)
_BY = r"(?:\b(?:by|at|on) )?(?:\bthe )?"
_END_OF_DAY = re.compile(
    rf"{_BY}\b(?:(?:end|close)(?: of)? (?:the |this )?(?:business day|business|work ?day|day)|day[ -]end|eod|cob)\b"
)
_END_OF_WEEK = re.compile(rf"{_BY}\b(?:end of (?:the |this |(next) )?week|week[ -]end|eow)\b")
_END_OF_MONTH = re.compile(rf"{_BY}\b(?:end of (?:the |this |(next) )?(?:business )?month|month[ -]end|eom)\b")
_END_OF_YEAR = re.compile(rf"{_BY}\b(?:end of (?:the |this )?year|year[ -]end|eoy)\b")
_END_OF_NAMED = re.compile(rf"{_BY}\bend of (?:the )?((?:this |next )?{WEEKDAY}|today|tomorrow)\b")
_END_OF_NAMED_MONTH = re.compile(rf"{_BY}\bend of ({MONTH})\b\.?(,? [0-9]{{4}}\b)?")
_NAMES_DAY = re.compile(
    rf"\b(?:{WEEKDAY}|{MONTH}|{_DAYWORD}|the [0-9]+|[0-9]+(?:st|nd|rd|th)|{UNIT})\b|[0-9][./-][0-9]"
)
_START = re.compile(r"(?:(?:by|at|in) )?(?:the )?(?:start|beginning) (?:of )?(?:the |this )?(.+)")
_PERIODS = {
    "next week": ("monday next week at 9am", "in 1 week"),
    "this week": ("friday this week at 9am", "sunday this week at 9am"),
    "week": ("in 1 week", "monday next week at 9am"),
    "next month": ("1st of next month at 9am", "in 1 month"),
    "this month": ("last day of this month at 9am", "tomorrow at 9am"),
    "month": ("in 1 month", "1st of next month at 9am"),
    "next year": ("january 1 at 9am", "in 1 year"),
    "this year": ("december 31 at 9am", "tomorrow at 9am"),
    "year": ("in 1 year", "january 1 at 9am"),
    "next quarter": ("in 3 months",),
    "next day": ("tomorrow at 9am", "in 1 day"),
    **dict.fromkeys(("weekend", "this weekend"), ("saturday at 10am", "sunday at 10am")),
    "next weekend": ("saturday next week at 10am", "sunday next week at 10am"),
}
_FIRST_DAYS = {
    **dict.fromkeys(("week", "next week"), "monday next week"),
    **dict.fromkeys(("month", "next month"), "1st of next month"),
    **dict.fromkeys(("year", "next year"), "january 1"),
    **dict.fromkeys(("day", "next day", "business day", "work day", "workday"), "tomorrow"),
}
_HOLIDAYS = {
    r"christmas eve|xmas eve": "24 december",
    r"christmas(?: day)?|xmas(?: day)?": "25 december",
    r"boxing day": "26 december",
    r"new year'?s? eve|nye": "31 december",
    r"new year(?:'?s?(?: day)?)?": "1 january",
    r"valentine'?s?(?: day)?": "14 february",
    r"halloween": "31 october",
    r"(?:st|saint)\.? patrick'?s?(?: day)?": "17 march",
    r"april fools?'?s?(?: day)?": "1 april",
    r"independence day|4th of july": "4 july",
}
_HOLIDAY = re.compile("|".join(rf"(\b(?:{words})(?![a-z]))" for words in _HOLIDAYS))
_BARE_MONTH = re.compile(rf"(?:(?:in|this|next|coming|early|mid|late) )*({MONTH})\.?,?(?: (?:of )?([0-9]{{4}}))?")
_YEAR_MONTH = re.compile(rf"([0-9]{{4}})[ \-/]({MONTH})")
_BARE_YEAR = re.compile(r"(?:in )?(?:the year )?([0-9]{4})(?: ?a\.?d\.?)?")
_LATE_DAY = re.compile(rf"\b({MONTH})\.? (29|30|31)(?:st|th)?\b|\b(29|30|31)(?:st|th)? (?:of )?({MONTH})\b")
_ISO_INTERVAL = re.compile(r"([0-9]{4}-?[0-9]{2}[^/ ]*)/([^/ ]+)")
_MIDNIGHT = re.compile(r"(?:at )?midnight")
_FEW = re.compile(rf"(?:\bin )?\b(?:a few|few|several|some|a number of|couple of) (?:more )?({UNIT})\b")
_UPCOMING = re.compile(rf"(?:in )?(?:the )?(?:next|coming|upcoming|following) ([0-9]{{1,3}} {UNIT}\b)")
_COUNT_UPCOMING = re.compile(rf"([0-9]{{1,3}}) (?:next|coming|upcoming|following) ({UNIT})\b")
_SOON = re.compile(r"soon|shortly|later|later today|(?:in )?a (?:bit|while|moment|second|sec|minute|min)|sometime")
_VAGUE = re.compile(r"\b(?:sometime|some time|roughly|maybe|probably)\b ?|(?<=[a-z0-9])-?ish\b")
_PART = re.compile(r"(?:in the |in |this |at |during the )?(?:early |late )?(morning|afternoon|evening|night)")
_PARTS = {"morning": "9am", "afternoon": "3pm", "evening": "7pm", "night": "9pm"}
_CLOCK = r"(?:(at) )?([0-9]{1,2})(?::([0-9]{2}))?(?: ?([ap])\.?m\b\.?)?"
_CLOCKS = re.compile(
    rf"(?<![0-9:/.\-])(?:\b(?:from|between) )?'?{_CLOCK}(?: ?- ?| (?:to|and|until|till|through) ){_CLOCK}'?"
    rf"(?![a-z0-9:/]|[.\-][0-9]| (?:{UNIT}|{MONTH})\b)"
)
_SEVERAL = re.compile(r"^(?!.*\bbetween\b).*\band\b")  # 9 and 17: each of them alone would leave the other out
_DATES = re.compile(r"(?:from |between )?(.+?) (?:-|and|to|until|till|through) (.+)")
_NUMBER = re.compile(r"(?:at )?([0-9]{1,2})")
_HALF = re.compile(r"\b([0-9]{1,2})(?::([0-9]{2}))? ?([ap])m\b")
_NOW_PLUS = re.compile(r"now ?\+ ?")
_HOURS_AND_MINUTES = re.compile(r"(?<=\bin )([0-9]{1,2}) ?h ?([0-5][0-9])(?![a-z0-9:])")
_FOUR_DIGITS = re.compile(r"(?<![0-9:/.+\-])([01][0-9])([0-5][0-9])(?![0-9:/.a-z\-])")
_MONTHS_AHEAD = re.compile(r"\bin ([0-9]{1,3} (?:months?|years?))\b")
_WEEK_ON = re.compile(rf"\b(a|[0-9]{{1,2}}) (weeks?) on (?={WEEKDAY}\b)")
_REQUEST = re.compile(
    r"(?:please )?(?:(?:remind|wake|ping|call|notify|alert|nudge|tell)(?: me| us)(?: up)?(?: please)?"
    r"|set (?:an? |the )?(?:alarm|reminder)(?: for)?|(?:alarm|reminder)(?: for)?)(?![a-z])(?: (?:to|about|that)\b)?"
)
_SPELLED = tuple(
    {
        *(name.lower() for name in (*MONTH_NAMES, *WEEKDAY_NAMES)),
        *("today", "tomorrow", "tonight", "morning", "afternoon", "evening", "night", "midnight", "every", "weekday"),
        *("second", "minute", "hour", "week", "month", "weekend", "after", "before", "next", "from", "first", "last"),
    }
)
_ALMOST = 0.8
_MOST_WORDS = 12  # of a phrase that is looked through piece by piece
_SHORT, _LONG = 3, 12  # letters of words that look like too many others, and like none
_EXCEPTION = re.compile(r"\b(?:not|never|except|excluding|unless|without)\b")


class Swap(NamedTuple):
    """Words of a phrase, and what can be said in their place. All that stands around them stays."""

    start: int
    end: int
    instead: tuple[str, ...]
    all_or_none: bool = False  # readings that exclude each other: one of them alone would be a guess

    def phrases(self, text: str) -> list[str]:
        before, after = text[: self.start], text[self.end :]
        return [" ".join(f"{before} {words} {after}".split()).replace(" ,", ",") for words in self.instead]


def suggested_phrases(phrase: str, is_understood: Callable[[str], bool]) -> Iterator[str]:
    """Phrases that a normalised one can have meant, likeliest first."""
    text = phrase.rstrip(".!?").strip()
    if _EXCEPTION.search(text):
        return
    yield from (rest for rest in _without_request(text) if is_understood(rest))
    for read in _READERS:
        for swap in read(text):
            found = swap.phrases(text)
            working = [candidate for candidate in found if is_understood(candidate)]
            if working == found or not swap.all_or_none:
                yield from working
    if right := spelled(text):
        yield right


def spelled(phrase: str) -> str:
    """The phrase with words spelled right that are almost those of times; empty where it has none."""
    words = phrase.split()
    if len(words) > _MOST_WORDS:
        return ""
    right = [word if not word.isalpha() or word in _SPELLED else _closest(word) for word in words]
    return " ".join(right) if right != words else ""


def _closest(word: str) -> str:
    plural = "s" if word.endswith("s") and word[:-1] not in _SPELLED else ""
    found = get_close_matches(word.removesuffix(plural), _SPELLED, 1, _ALMOST) if _SHORT < len(word) < _LONG else []
    return f"{found[0]}{plural}" if found else word


def _of(found: re.Match[str], *instead: str, all_or_none: bool = False) -> Swap:
    return Swap(*found.span(), instead, all_or_none)


def ends(text: str) -> Iterator[Swap]:
    """The end of a day, a week, a month or a year: when work ends, and its last minute."""
    for pattern, day in _ENDS:
        if found := pattern.search(text):
            named = day(text, found)
            yield _of(found, f"{named} at 5pm".strip(), f"{named} at 23:59".strip())
            return
    if found := _END_OF_WEEK.search(text):
        which = found[1] or "this"
        yield _of(found, f"friday {which} week at 5pm", f"sunday {which} week at 23:59")


def _default_day(text: str, found: re.Match[str]) -> str:
    """Nothing where a day stands beside it, else today."""
    rest = f"{text[: found.start()]} {text[found.end() :]}"
    return "" if _NAMES_DAY.search(rest) else "today"


_ENDS: tuple[tuple[re.Pattern[str], Callable[[str, re.Match[str]], str]], ...] = (
    (_END_OF_DAY, _default_day),
    (_END_OF_NAMED, lambda _, found: str(found[1])),
    (_END_OF_NAMED_MONTH, lambda _, found: f"last day of {found[1]}{found[2] or ''}"),
    (_END_OF_MONTH, lambda _, found: f"last day of {found[1] or 'this'} month"),
    (_END_OF_YEAR, lambda *_: "december 31"),
)


def _start(text: str) -> Iterator[Swap]:
    if (found := _START.fullmatch(text)) and (day := _FIRST_DAYS.get(found[1])):
        yield _of(found, f"{day} at 9am", f"{day} at 00:00")


def _period(text: str) -> Iterator[Swap]:
    plain = re.sub(r"\b(?:coming|following|upcoming)\b", "next", text)
    plain = re.sub(r"^(?:(?:in|on|by|at|the|over|during) )+", "", plain)
    if plain in _PERIODS:
        yield Swap(0, len(text), _PERIODS[plain])
    if found := _UPCOMING.search(text):
        yield _of(found, f"in {found[1]}")
    if found := _COUNT_UPCOMING.search(text):
        yield _of(found, f"in {found[1]} {found[2]}")


def _holiday(text: str) -> Iterator[Swap]:
    if found := _HOLIDAY.search(text):
        day = list(_HOLIDAYS.values())[(found.lastindex or 1) - 1]
        yield _of(found, day, *([f"{day} at noon"] if found[0] == text else []))


def _month(text: str) -> Iterator[Swap]:
    name = year = ""
    if found := _BARE_MONTH.fullmatch(text):
        name, year = found[1], f" {found[2]}" if found[2] else ""
    elif found := _YEAR_MONTH.fullmatch(text):
        name, year = found[2], f" {found[1]}"
    elif found := _BARE_YEAR.fullmatch(text):
        yield _of(found, f"1 january {found[1]} at 9am", f"31 december {found[1]} at 9am")
    if name:
        yield Swap(0, len(text), (f"1 {name}{year} at 9am", f"last day of {name}{year} at 9am"))


def _no_such_day(text: str) -> Iterator[Swap]:
    """The last day of a month that is too short, and the first of the next."""
    if found := _LATE_DAY.search(text):
        month = found[1] or found[4]
        yield _of(found, f"last day of {month}", f"1 {MONTH_NAMES[MONTHS[month] % 12].lower()}", all_or_none=True)


def _midnight(text: str) -> Iterator[Swap]:
    if found := _MIDNIGHT.search(text):
        yield _of(found, "at 00:00", "at 23:59")


def _vague(text: str) -> Iterator[Swap]:
    if found := _FEW.search(text):
        yield _of(found, f"in 3 {found[1]}", f"in 5 {found[1]}")
    if found := _SOON.fullmatch(text):
        yield _of(found, "in 10 minutes", "in 1 hour")
    if found := _VAGUE.search(text):
        yield Swap(0, len(text), (_VAGUE.sub("", text).strip(),))
    if found := _PART.fullmatch(text):
        yield _of(found, f"today at {_PARTS[found[1]]}", f"tomorrow at {_PARTS[found[1]]}")


def _span(text: str) -> Iterator[Swap]:
    """The two ends of a span of time, each with all that was said beside it."""
    if iso := _ISO_INTERVAL.fullmatch(text):
        yield _of(iso, *(end.upper() for end in iso.groups() if end[0] != "p"))
    elif _SEVERAL.search(text):
        return
    elif found := _CLOCKS.search(text):
        yield _of(found, *_both_clocks(found), all_or_none=True)
    elif (found := _DATES.fullmatch(text)) and _shape(found[1]) == _shape(found[2]):
        yield _of(found, found[1], found[2], all_or_none=True)


def _both_clocks(found: re.Match[str]) -> tuple[str, str]:
    """The two clocks of a span; am or pm behind the last counts for the first, as far as that comes before it."""
    halves = [found[4] or "", found[8] or ""]
    hours = [int(found[2]), int(found[6])]
    if halves[1] and not halves[0]:
        halves[0] = halves[1] if hours[0] % 12 < hours[1] % 12 else "ap".replace(halves[1], "")
    is_24h = not any(halves) and max(hours) > 12
    if not any(halves) and not is_24h and hours[0] in range(6, 13) and hours[1] % 12 <= hours[0] % 12:
        halves[1] = "p"  # "9 to 5"
    first, last = (
        _clock_words(found.group(*groups), half, is_24h=is_24h)
        for groups, half in zip(((1, 2, 3), (5, 6, 7)), halves, strict=True)
    )
    return first, last


def _clock_words(text: tuple[str | None, ...], half: str, *, is_24h: bool) -> str:
    at, hour, minute = text
    minutes = f":{minute}" if minute else ""
    if half:
        return f"{'at ' if at else ''}{hour}{minutes}{half}m"
    return f"at {int(hour or 0):02}{minutes or ':00'}" if is_24h and int(hour or 0) < 13 else f"at {hour}{minutes}"


def _shape(words: str) -> str:
    """Which kinds of words in which order: what has the same says as much."""
    kinds = re.sub(rf"\b{WEEKDAY}\b", "W", re.sub(rf"\b{MONTH}\b", "M", words))
    return re.sub("[0-9]+", "0", re.sub("[ap]m", "am", kinds))


def _clock(text: str) -> Iterator[Swap]:
    if found := _NUMBER.fullmatch(text):
        hour = int(found[1])
        if 1 <= hour <= 12:
            yield _of(found, f"at {hour}am", f"at {hour}pm")
        elif hour < 24:
            yield _of(found, f"at {hour:02}:00", f"in {hour} minutes")
    if found := _HALF.search(text):
        hour, minutes, half = int(found[1]), found[2] or "00", found[3]
        if (12 < hour < 24 and half == "p") or (hour == 0 and half == "a"):
            yield _of(found, f"{hour:02}:{minutes}")


def _otherwise(text: str) -> Iterator[Swap]:
    """The same in words that are understood."""
    if found := _NOW_PLUS.match(text):
        yield _of(found, "in")
    if found := _HOURS_AND_MINUTES.search(text):
        yield _of(found, f"{found[1]}h{found[2]}m")
    if found := _FOUR_DIGITS.search(text):
        yield _of(found, f"at {found[1]}:{found[2]}")
    if found := _MONTHS_AHEAD.search(text):
        yield _of(found, f"{found[1]} from today")
    if found := _WEEK_ON.search(text):
        yield _of(found, f"{found[1]} {found[2]} from")


_READERS: tuple[Callable[[str], Iterator[Swap]], ...] = (
    *(ends, _start, _period, _holiday, _month, _no_such_day, _midnight, _vague, _span, _clock, _otherwise),
)


def _without_request(text: str) -> Iterator[str]:
    """What follows a request ("remind me to call mum"), as far as its words say nothing about time."""
    request = _REQUEST.match(text)
    words = text.split()
    if request is None or len(words) > _MOST_WORDS:
        return
    for start in range(len(request[0].split()), len(words)):
        if not _TIME_WORD.search(" ".join(words[:start])):
            yield " ".join(words[start:])


Repair = dict[str, Any]
# Of a phrase, in a zone, at a moment; raises where it is not understood.
Understand = Callable[[str, str, datetime], Any]

_REPEATED_SECONDS = re.compile(r"r([0-9]{1,4})/pt(?:([0-9]{1,4})m)?([0-9]{1,5})s")


def repair(text: str, timezone: str, now: datetime, understand: Understand) -> Repair:
    """The fields of a request that say the same and are understood; empty where none are known."""
    phrase = normal(text.strip().rstrip(".!"))
    if phrase is None:
        return {}
    for found in _candidates(phrase):
        try:
            understand(found["when"], found.get("timezone", timezone), now)
        except (PhraseRefused, InvalidSchedule, OverflowError, ValueError):
            continue
        return found
    return {}


def _candidates(phrase: str) -> Iterator[Repair]:
    yield from _repeated_seconds(phrase)
    yield from _an_end(phrase)


def _repeated_seconds(phrase: str) -> Iterator[Repair]:
    """A repeating interval of seconds, which no rule counts: elapsed time, and how often beside it."""
    if found := _REPEATED_SECONDS.fullmatch(phrase):
        seconds = int(found[2] or 0) * 60 + int(found[3])
        yield {"when": f"@every {seconds}s", "policy": {"max_fires": int(found[1])}}


def _an_end(phrase: str) -> Iterator[Repair]:
    """The end of a day, a week or a month: at 17:00, where that is ahead, else the last minute."""
    for swap in ends(phrase):
        yield from ({"when": text} for text in swap.phrases(phrase))
    if phrase == "next month":
        yield {"when": "1st of next month at 9am"}


def in_words(found: Repair, first: str) -> str:
    """A repair as a sentence for whoever reads the refusal; `first`: when it would fire."""
    more = " and ".join(f"{name} {value}" for name, value in _flat(found))
    return f'Try "{found["when"]}" ({first}){f" with {more}" if more else ""}.'


def _flat(found: Repair) -> Iterator[tuple[str, Any]]:
    for name, value in found.items():
        if isinstance(value, dict):
            yield from value.items()
        elif name != "when":
            yield name, value
