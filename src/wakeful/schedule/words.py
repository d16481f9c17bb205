"""The vocabulary of phrases: normalised text, number words, names of months, weekdays and units."""

from __future__ import annotations

import re

from wakeful.schedule.interval import UNIT_NAMES
from wakeful.schedule.names import MONTH_NAMES, WEEKDAY_NAMES, ordinal

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
_WORD_CLOCK = re.compile(
    rf"\b({'|'.join((*_ONES, *_TEENS[:3]))})[ -]"
    rf"({'|'.join(_TEENS)}|({'|'.join(_TENS[:4])})(?:[ -]({'|'.join(_ONES)}))?)\b"
)
_ORDINAL_SECOND = re.compile(
    rf"\bsecond(?= (?:of|day|(?:week|work|working|business) ?day|and last|and [a-z0-9]+ {WEEKDAY}|{WEEKDAY}s?)\b"
    r"|[ -]to[ -](?:the )?last\b|,? (?:and )?(?:the )?(?:third|fourth|fifth|[2-5](?:nd|rd|th))\b|, )"
)
_MONTH_SECOND = re.compile(rf"\b({MONTH}) second\b")
_NUMBER_WORDS = re.compile(
    rf"\b(?:({'|'.join(_TENS)})(?:[ -]({'|'.join((*_FIRST[:9], *_ONES))}))?|({_TEEN}|{'|'.join(_ONES)}))\b"
)
_ANY_NUMBER_WORD = re.compile(
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twe|thir|fif|first|second|for)"
)


_LARGE = {"hundred": 100, "thousand": 1000, "million": 1_000_000}
_LARGE_WORD = re.compile(rf"\b(?:{'|'.join(_LARGE)})\b")
_LARGE_NUMBER = re.compile(
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
