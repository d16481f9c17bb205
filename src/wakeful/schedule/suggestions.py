"""What a refused phrase can have meant: phrases for one moment that say it, worked out from its words.

Every one of them is understood before it is suggested; here they are only put together. Nothing is left out that says
when: words that say nothing about time ("remind me tomorrow") are, and the ends of a span stand for themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from difflib import get_close_matches

from wakeful.schedule.lazy_pattern import LazyPattern
from wakeful.schedule.names import MONTH_NAMES, WEEKDAY_NAMES
from wakeful.schedule.words import MONTH, MONTHS, UNIT, WEEKDAY

_DAYWORD = r"(?:today|tomorrow|tonight|yesterday)"
_TIME_WORD = re.compile(
    rf"\b(?:[0-9]+\S*|{MONTH}|{WEEKDAY}s?|{UNIT}|{_DAYWORD}|weekend|noon|midnight|morning|afternoon|evening|night|before"
    rf"|after|until|till|not|never|except|unless|every|each|next|last|this|ago|end|start|half|quarter)\b"
)
_THE = re.compile(r"\b(?:the|at|by|on|in|of|this|before|until|till) ")
_END = re.compile(r"(?:end|close)(?: of)? (.+)|(.+) end|(eo[dwmy]|cob)")
_START = re.compile(r"(?:start|beginning) (?:of )?(.+)")
_SHORT_ENDS = {"eod": "day", "cob": "day", "eow": "week", "eom": "month", "eoy": "year"}
_LAST_DAYS = {
    **dict.fromkeys(("day", "business", "business day", "work day", "workday"), "today"),
    **dict.fromkeys(("month", "business month"), "last day of this month"),
    "next month": "last day of next month",
    "year": "december 31",
}
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
_FEW = re.compile(rf"\b(?:a few|few|several|some|a number of|couple of) (?:more )?({UNIT})\b")
_UPCOMING = re.compile(rf"(?:in )?(?:the )?(?:next|coming|upcoming|following) ([0-9]{{1,3}} {UNIT}\b.*)")
_COUNT_UPCOMING = re.compile(rf"([0-9]{{1,3}}) (?:next|coming|upcoming|following) ({UNIT})")
_SOON = re.compile(r"soon|shortly|later|later today|(?:in )?a (?:bit|while|moment|second|sec|minute|min)|sometime")
_VAGUE = re.compile(r"\b(?:sometime|some time|roughly|maybe|probably)\b ?|(?<=[a-z0-9])-?ish\b")
_PART = re.compile(r"(?:in the |in |this |at |during the )?(?:early |late )?(morning|afternoon|evening|night)")
_PARTS = {"morning": "9am", "afternoon": "3pm", "evening": "7pm", "night": "9pm"}
_BETWEEN = re.compile(r"\b(?:between|from) (.+?) (?:and|to|until|till|through|-) (.+)")
_RANGE = re.compile(r"(.+?) ?(?:-|/| to | until | till | through ) ?(.+)")
_CLOCK = r"(?:at )?[0-9]{1,2}(?::[0-9]{2})? ?(?:[ap]m)?"
_DAY_AND_CLOCK = re.compile(rf"(.*?\S) (?:at )?({_CLOCK})")
_NUMBER = re.compile(r"(?:at )?([0-9]{1,2})")
_DAY_AND_NUMBER = LazyPattern(rf"(.*\b(?:{WEEKDAY}|{_DAYWORD})),? (?:at )?([0-9]{{1,2}})")
_HALF = re.compile(r"(.*?)\b([0-9]{1,2})(?::([0-9]{2}))? ?([ap])m\b(.*)")
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
_AGO = re.compile(r"(.+) (?:ago|earlier|before now)")
_ANY_YEAR = re.compile(r"\b(?:19|20)[0-9]{2}\b")


def meant_by(phrase: str, local: datetime, is_understood: Callable[[str], bool]) -> Iterator[str]:
    """Phrases that a normalised one can have meant, likeliest first; `local`: now, by the clock of its zone."""
    said = phrase.rstrip(".!?").strip()
    if _EXCEPTION.search(said):
        return
    found = False
    for read in (
        ends,
        _start,
        _period,
        _holiday,
        _month,
        _no_such_day,
        _midnight,
        _vague,
        _span,
        _clock,
        _past,
        _right,
    ):
        for meant in read(said, local):
            if is_understood(meant):
                found = True
                yield meant
    if not found:  # a part of it, where nothing says all of it
        yield from _halves(said, is_understood)
        yield from _without_other_words(said)


def _right(said: str, _: datetime) -> Iterator[str]:
    if right := spelled(said):
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


def ends(said: str, _: datetime) -> Iterator[str]:
    """The end of a day, a week, a month or a year: when work ends, and its last minute."""
    found = _END.search(said)
    if not found:
        return
    what = _SHORT_ENDS.get(found[3] or "") or _THE.sub("", f"{found[1] or found[2]} ").strip()
    if what in ("week", "next week"):
        which = "next" if what == "next week" else "this"
        yield from (f"friday {which} week at 5pm", f"sunday {which} week at 23:59")
    else:
        day = _LAST_DAYS.get(what, what)
        day = f"last day of {day}" if re.fullmatch(MONTH, day) else day
        yield from (f"{day} at 5pm", f"{day} at 23:59")


def _start(said: str, _: datetime) -> Iterator[str]:
    if found := _START.search(said):
        what = _THE.sub("", f"{found[1]} ").strip()
        day = _FIRST_DAYS.get(what, what)
        yield from (f"{day} at 9am", f"{day} at 00:00")


def _period(said: str, _: datetime) -> Iterator[str]:
    plain = re.sub(r"\b(?:coming|following|upcoming)\b", "next", said)
    yield from _PERIODS.get(re.sub(r"^(?:(?:in|on|by|at|the|over|during) )+", "", plain), ())
    if found := _UPCOMING.fullmatch(said):
        yield f"in {found[1]}"
    if found := _COUNT_UPCOMING.fullmatch(said):
        yield f"in {found[1]} {found[2]}"


def _holiday(said: str, _: datetime) -> Iterator[str]:
    if found := _HOLIDAY.search(said):
        day = list(_HOLIDAYS.values())[(found.lastindex or 1) - 1]
        dated = f"{said[: found.start()]}{day}{said[found.end() :]}"
        yield from (dated, f"{day} at 9am", f"{day} at noon")


def _month(said: str, _: datetime) -> Iterator[str]:
    name = year = ""
    if found := _BARE_MONTH.fullmatch(said):
        name, year = found[1], f" {found[2]}" if found[2] else ""
    elif found := _YEAR_MONTH.fullmatch(said):
        name, year = found[2], f" {found[1]}"
    elif found := _BARE_YEAR.fullmatch(said):
        yield from (f"1 january {found[1]} at 9am", f"31 december {found[1]} at 9am")
    if name:
        yield from (f"1 {name}{year} at 9am", f"last day of {name}{year} at 9am")


def _no_such_day(said: str, _: datetime) -> Iterator[str]:
    """The last day of a month that is too short, and the first of the next."""
    if found := _LATE_DAY.search(said):
        month = found[1] or found[4]
        following = MONTH_NAMES[MONTHS[month] % 12].lower()
        for day in (f"last day of {month}", f"1 {following}"):
            yield f"{said[: found.start()]}{day}{said[found.end() :]}"


def _midnight(said: str, _: datetime) -> Iterator[str]:
    if _MIDNIGHT.search(said):
        yield from (_MIDNIGHT.sub("at 00:00", said, 1), _MIDNIGHT.sub("at 23:59", said, 1))


def _vague(said: str, _: datetime) -> Iterator[str]:
    if found := _FEW.search(said):
        rest = said[found.end() :]
        yield from (f"in 3 {found[1]}{rest}", f"in 5 {found[1]}{rest}")
    if _SOON.fullmatch(said):
        yield from ("in 10 minutes", "in 1 hour")
    if (plain := _VAGUE.sub("", said).strip()) != said:
        yield plain
    if found := _PART.fullmatch(said):
        yield from (f"today at {_PARTS[found[1]]}", f"tomorrow at {_PARTS[found[1]]}")


def _span(said: str, _: datetime) -> Iterator[str]:
    """The two ends of a span; the day of its begin is that of its end, where that has none."""
    if iso := _ISO_INTERVAL.fullmatch(said):
        yield from (end.upper() for end in iso.groups() if end[0] != "p")
        return
    found = _BETWEEN.search(said) or _RANGE.fullmatch(said)
    if not found:
        return
    before, first, last = said[: found.start()].strip(), found[1].strip(), found[2].strip()
    first = f"{before} {first}" if before else first
    half = re.search(r"([ap])\.?m\b", last)
    if _NUMBER.fullmatch(first) and not half:
        yield from (f"at {first.removeprefix('at ')}", f"at {last.removeprefix('at ')}")
        return
    if _NUMBER.fullmatch(last) and (bare := _DAY_AND_NUMBER.fullmatch(first)):  # hours of a day, before days of a month
        yield from (f"{bare[1]} at {hour.removeprefix('at ')}" for hour in (bare[2], last))
    yield first
    if half and (bare := re.fullmatch(r"(.*?)([0-9]{1,2}(?::[0-9]{2})?)", first)):
        yield f"{bare[1]}{bare[2]}{half[0]}"
    if day := _DAY_AND_CLOCK.fullmatch(first):
        yield f"{day[1]} {last}"
    yield last


def _clock(said: str, _: datetime) -> Iterator[str]:
    if found := _NUMBER.fullmatch(said):
        hour = int(found[1])
        if 1 <= hour <= 12:
            yield from (f"at {hour}am", f"at {hour}pm")
        elif hour < 24:
            yield from (f"at {hour:02}:00", f"in {hour} minutes")
    if found := _HALF.fullmatch(said):
        before, hour_said, minute, half, after = found.groups()
        hour, minutes = int(hour_said), minute or "00"
        if 12 < hour < 24:
            yield from (f"{before}{hour}:{minutes}{after}", f"{before}{hour - 12}:{minutes}pm{after}")
        elif hour == 0:
            yield f"{before}00:{minutes}{after}"
        other = "p" if half == "a" else "a"
        yield f"{before}{hour_said}{f':{minute}' if minute else ''}{other}m{after}"


def _past(said: str, local: datetime) -> Iterator[str]:
    """The same, the next time that it can be."""
    if found := _AGO.fullmatch(said):
        yield f"in {found[1]}"
    for word in ("today", "yesterday", "this"):
        if re.match(rf"{word}\b", said) or f" {word}" in said:
            yield re.sub(rf"\b{word}\b", "tomorrow", said, count=1)
    if said == "today":
        yield "in 1 hour"
    if found := re.fullmatch(rf"last (week|month|year|{WEEKDAY})", said):
        yield from _PERIODS.get(f"next {found[1]}", (f"next {found[1]}",))
    if found := _ANY_YEAR.search(said):
        for year in (local.year, local.year + 1):
            again = f"{said[: found.start()]}{year}{said[found.end() :]}"
            yield again if re.search("[a-su-y]", again) else again.upper()


def _halves(said: str, is_understood: Callable[[str], bool]) -> Iterator[str]:
    """Two moments that were said as one: either of them."""
    words = said.split()
    for at in range(1, min(len(words), _MOST_WORDS)):
        first, last = " ".join(words[:at]).rstrip(",;"), " ".join(words[at:])
        if is_understood(first) and is_understood(last):
            yield from (first, last)
            return


def _without_other_words(said: str) -> Iterator[str]:
    """What is left when words around it are dropped that say nothing about time."""
    words = said.split()
    if len(words) > _MOST_WORDS:
        return
    for length in range(len(words) - 1, 0, -1):
        for start in range(len(words) - length + 1):
            dropped = " ".join([*words[:start], *words[start + length :]])
            if not _TIME_WORD.search(dropped):
                yield " ".join(words[start : start + length]).strip(",;:")
