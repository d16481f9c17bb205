"""What all readers of phrases share: the vocabulary, normalised text, patterns, and how a phrase is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Self

from wakeful.schedule.interval import UNIT_NAMES
from wakeful.schedule.names import MONTH_NAMES, WEEKDAY_NAMES, ordinal


class LazyPattern:
    """A pattern that is compiled when it is first used: a phrase needs few of them, and compiling is slow."""

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._compiled: re.Pattern[str] | None = None

    @property
    def compiled(self) -> re.Pattern[str]:
        if self._compiled is None:
            self._compiled = re.compile(self.text)
        return self._compiled

    def match(self, text: str, position: int = 0) -> re.Match[str] | None:
        return (self._compiled or self.compiled).match(text, position)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return (self._compiled or self.compiled).fullmatch(text)

    def search(self, text: str, position: int = 0) -> re.Match[str] | None:
        return (self._compiled or self.compiled).search(text, position)

    def sub(self, replacement: str | Callable[[re.Match[str]], str], text: str) -> str:
        return (self._compiled or self.compiled).sub(replacement, text)


class PhraseRefused(Exception):
    """What was wrong with a phrase, and phrases that say it properly. Becomes an InvalidSchedule in parse()."""

    all_or_none = False  # its suggestions exclude each other: one of them alone would be a guess

    def __init__(self, why: str, *instead: str) -> None:
        super().__init__(why)
        self.why = why
        self.instead = instead

    def suggesting(self, *instead: str) -> Self:
        """The same with other suggestions, as many."""
        other = type(self)(self.why, *instead)
        other.all_or_none = self.all_or_none
        return other


class Contradiction(PhraseRefused):
    """Words that exclude each other, or that have several meanings: all suggestions are offered, or none."""

    all_or_none = True


class RefusedRhythm(PhraseRefused):
    """The same for something that recurs: what is suggested instead recurs too, and as often."""


_ONES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS = ("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_CARDINALS = {word: n for n, word in enumerate((*_ONES, *_TEENS), 1)} | {
    word: 20 + 10 * n for n, word in enumerate(_TENS)
}
_FIRST = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_ORDINALS = {word: n for n, word in enumerate((*_FIRST, "eleventh", "twelfth"), 1)}
_ORDINALS |= {f"{word}th": n for n, word in enumerate(_TEENS[3:], 13)} | {"twentieth": 20, "thirtieth": 30}

MONTHS = {name.lower(): n for n, name in enumerate(MONTH_NAMES, 1)}
MONTHS |= {name[:3]: n for name, n in MONTHS.items()} | {"sept": 9}
WEEKDAYS = {name.lower(): n for n, name in enumerate(WEEKDAY_NAMES)}
WEEKDAYS |= {name[:3]: n for name, n in WEEKDAYS.items()} | {"tues": 2, "weds": 3, "thur": 4, "thurs": 4}
UNITS = UNIT_NAMES | dict.fromkeys(("mo", "mos", "month", "months"), "mo") | dict.fromkeys(("y", "yr", "yrs"), "y")
UNITS |= {"year": "y", "years": "y", "fortnight": "fortnight", "fortnights": "fortnight"}
SPELLED_OUT = {word for word in UNITS if len(word) > 3 and word not in ("secs", "mins")} | {"day"}


def either(words: dict[str, int] | dict[str, str]) -> str:
    """A pattern that matches any of the words, the longest first."""
    return "|".join(sorted(words, key=len, reverse=True))


MONTH = f"(?:{either(MONTHS)})"
WEEKDAY = f"(?:{either(WEEKDAYS)})"
UNIT = f"(?:{either(UNITS)})"

_ODD = str.maketrans({"’": "'", "‘": "'", "–": "-", "—": "-", "−": "-", "\u00a0": " ", "\u2009": " ", "\u202f": " "})
_TEEN = "|".join((*_TEENS, *_ORDINALS)).replace("second|", "")
_WORD_CLOCK = LazyPattern(
    rf"\b({'|'.join((*_ONES, *_TEENS[:3]))})[ -]"
    rf"({'|'.join(_TEENS)}|({'|'.join(_TENS[:4])})(?:[ -]({'|'.join(_ONES)}))?)\b"
)
_ORDINAL_SECOND = LazyPattern(
    rf"\bsecond(?= (?:of|day|(?:week|work|working|business) ?day|and last|and [a-z0-9]+ {WEEKDAY}|{WEEKDAY}s?)\b"
    r"|[ -]to[ -](?:the )?last\b|,? (?:and )?(?:the )?(?:third|fourth|fifth|[2-5](?:nd|rd|th))\b|, )"
)
_MONTH_SECOND = LazyPattern(rf"\b({MONTH}) second\b")
_NUMBER_WORDS = LazyPattern(
    rf"\b(?:({'|'.join(_TENS)})(?:[ -]({'|'.join((*_FIRST[:9], *_ONES))}))?|({_TEEN}|{'|'.join(_ONES)}))\b"
)
_ANY_NUMBER_WORD = LazyPattern(
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twe|thir|fif|first|second|for)"
)


_LARGE = {"hundred": 100, "thousand": 1000, "million": 1_000_000}
_LARGE_WORD = LazyPattern(rf"\b(?:{'|'.join(_LARGE)})\b")
_LARGE_NUMBER = LazyPattern(
    rf"\b(?:an?|[0-9]{{1,3}})(?: (?:{'|'.join(_LARGE)})\b)+"
    rf"(?:(?: and)? [0-9]{{1,3}}(?: (?:{'|'.join(_LARGE)})\b)+)*(?:(?: and)? [0-9]{{1,2}}\b(?![:./\-]))?"
)


def normal(text: str) -> str | None:
    """Lower case, single spaces, digits for number words; None when it holds characters no phrase has."""
    text = " ".join(text.translate(_ODD).lower().split())
    if not text.isascii() or not text.isprintable():
        return None
    if _ANY_NUMBER_WORD.search(text) or "teen" in text or "ninth" in text or "ty" in text or "tieth" in text:
        text = _ORDINAL_SECOND.sub("2nd", text)
        text = _MONTH_SECOND.sub(r"\1 2nd", text)
        text = _WORD_CLOCK.sub(_clock_digits, text)
        text = _NUMBER_WORDS.sub(_digits, text)
    return _LARGE_NUMBER.sub(_large_number, text) if _LARGE_WORD.search(text) else text


def _clock_digits(found: re.Match[str]) -> str:
    """Keep "seven thirty" apart: it is not a number but may be half past seven."""
    hour, rest = _CARDINALS[found[1]], found[2]
    minute = _CARDINALS.get(rest) or _CARDINALS[found[3]] + _CARDINALS.get(found[4] or "", 0)
    return f"{hour} {minute:02}"


def _digits(found: re.Match[str]) -> str:
    tens, ones, single = found.groups()
    number = _CARDINALS.get(tens or "", 0)
    word = single or ones or ""
    if word in _CARDINALS:
        return str(number + _CARDINALS[word])
    if word in _ORDINALS:
        return ordinal(number + _ORDINALS[word])
    return str(number)


def _large_number(found: re.Match[str]) -> str:
    """2 million 8 hundred and 67 thousand: what stands before a larger word is multiplied, the rest is added."""
    total = group = 0
    for word in found[0].split():
        if word in ("a", "an"):
            group = 1
        elif word == "hundred":
            group *= _LARGE[word]
        elif word in _LARGE:
            total, group = total + group * _LARGE[word], 0
        elif word != "and":
            group += int(word)
    return str(total + group)


_PLURALS = "|".join(f"{name.lower()}s" for name in WEEKDAY_NAMES)
_DAY = r"(?:[a-z]+|(?:week|work|working|business) ?day)"
RECURS = LazyPattern(
    rf"\b(?:every|each|everyday|daily|hourly|weekly|monthly|quarterly|yearly|annually|nightly|fortnightly"
    rf"|(?:{_PLURALS})(?! from now)|weekdays|weekends|(?:work|working|business) ?days(?! from now)"
    rf"|mornings|afternoons|evenings|nights(?! from now)"
    rf"|(?:once|twice|thrice|[0-9]+ ?x|[0-9]+ times) (?:an?|per) (?:day|week|month|year)"
    rf"|(?:[1-9](?:st|nd|rd|th)|last) {_DAY} of the month|through|thru"
    rf"|{WEEKDAY}s? ?(?:to|-) ?{WEEKDAY}s?)\b"
)
EVERY = LazyPattern(r"\b(?:every|each)\b")
COUNTED_WORKDAYS = LazyPattern(r"(?:\bin )?\b[0-9]+ (?:week|work|working|business)[ -]?days?\b(?! of )(?: from now)?")
# Days that one moment cannot have: "mon/wed/fri at 8:30" lacks its "every".
SEVERAL_DAYS = LazyPattern(rf"\b{WEEKDAY}s?(?:,? and |, ?| ?[&/] ?){WEEKDAY}s?\b")
# Not understood, but meant to recur: so that no single moment is suggested for it.
SOUNDS_RECURRING = LazyPattern(
    rf"\b(?:(?:bi|semi|tri)-?(?:weekly|monthly|yearly|annual(?:ly)?)|twice|thrice|[0-9]+ ?x|times"
    rf"|(?:per|once an?) [a-z]+|alternate|repeat(?:ing|ed|s)?|recurring|{WEEKDAY}s? (?:to|-) {WEEKDAY}s?)\b"
)
