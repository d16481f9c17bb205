"""The parts of a phrase for one moment: its day, its time of day, its zone, in whatever order they were said.

The whole phrase must be used up. Whatever is left over or doubled means refusal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, NamedTuple

from wakeful.schedule.clocks import PART_OF_DAY, WallTime, read_clock, read_past
from wakeful.schedule.dates import Day, day_of_month, read_date, read_dayword, read_weekday
from wakeful.schedule.lazy_pattern import LazyPattern
from wakeful.schedule.names import ordinal
from wakeful.schedule.offsets import Offset, read_offset
from wakeful.schedule.refusals import PhraseRefused

_BETWEEN = re.compile(r"[ ,]+")
_DATE_TO_CLOCK = re.compile(r"[:\-t](?=[0-9]{2}:[0-9]{2})")
_UNLESS = LazyPattern(r".*\bunless\b")
_EVENT = LazyPattern(r"(?:when|once|as soon as|if) [a-z]")
_PAST_WORDS = re.compile(r"\b(?:yesterday|ago|last (?:night|week|month|year))\b")
_UTC_OFFSET = re.compile(r"([+-])([0-9]{2}):?([0-9]{2})(?![0-9:])")
_YEAR = re.compile(r"([1-9][0-9]{3})(?![a-z0-9:])")
_THE_NUMBER = LazyPattern(r"(?:on )?the ([0-9]{1,2})(?![a-z0-9])")
_DAYS_NOT_HOURS = range(13, 32)  # a lone number beside a weekday: people say smaller ones for hours as well
# An abbreviation counts only while its zone really uses it: "9am EST" in July would be off by an hour.
ABBREVIATIONS = {
    **dict.fromkeys(("utc", "gmt"), "UTC"),
    **dict.fromkeys(("cet", "cest"), "Europe/Paris"),
    "jst": "Asia/Tokyo",
    **dict.fromkeys(("est", "edt"), "America/New_York"),
    **dict.fromkeys(("mst", "mdt"), "America/Denver"),
    **dict.fromkeys(("pst", "pdt"), "America/Los_Angeles"),
}
_ABBREVIATION = re.compile(rf"\(?({'|'.join(ABBREVIATIONS)})\)?(?![a-z0-9+\-/])")


class LoneNumber(NamedTuple):
    """A number that can be a day of the month: "21", or "the 21"."""

    number: int
    clock: WallTime | None  # what it is as an hour; None after "the"


@dataclass(slots=True)
class OnceParts:
    """The parts of a phrase, each at most once."""

    offset: Offset | None = None
    date: Day | None = None
    dayword: Day | None = None
    weekday: tuple[Day, int] | None = None
    part: str | None = None
    clock: WallTime | None = None
    number: LoneNumber | None = None
    abbreviation: str | None = None
    utc_offset: timedelta | None = None
    year: int | None = None
    in_utc: bool = False  # a name of UTC stood beside the phrase
    phrase: str = ""
    remarks: tuple[str, ...] = ()
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)  # where each part stands in the phrase

    @property
    def has_day(self) -> bool:
        return bool(self.date or self.dayword or self.weekday or self.offset)

    def words(self, slot: str) -> str:
        start, end = self.spans[slot]
        return self.phrase[start:end].removeprefix("on ")

    def with_part(self, slot: str, words: str) -> str:
        """The phrase with other words for one of its parts, for a suggestion that keeps all the others."""
        start, end = self.spans.get(slot, (0, 0))
        return " ".join(f"{self.phrase[:start]} {words} {self.phrase[end:]}".split()).strip(", ")

    def comes_before(self, slot: str, other: str) -> bool:
        return self.spans[slot] < self.spans[other]

    def between(self, slot: str, other: str) -> str:
        """What stands between two parts; empty where they do not come in this order."""
        return self.phrase[self.spans[slot][1] : self.spans[other][0]]


def collect(text: str, today: date) -> OnceParts:
    """Every part of the phrase, in whatever order; PhraseRefused when something is left over or said twice."""
    said = OnceParts(phrase=text)
    position, slot = 0, ""
    while position < len(text):
        between = _DATE_TO_CLOCK if slot == "date" and text[position] in ":-t" else _BETWEEN
        if position and (gap := between.match(text, position)):
            position = gap.end()
        if text[position:] in ("", ".", "!"):
            break
        slot, value, end = _next_part(text, position, today)
        if not slot:
            raise _left_over(text, position)
        if getattr(said, slot) is not None:
            raise PhraseRefused(f'"{text[position:end]}" is a second {slot}')
        setattr(said, slot, value)
        said.spans[slot] = (position, end)
        position = end
    if said.number is not None:
        _place_number(said, said.number, today)
    return said


def read_utc_offset(text: str) -> timedelta:
    if text == "z":
        return timedelta(0)
    digits = text[1:].replace(":", "").ljust(4, "0")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    if int(digits[2:]) > 59 or minutes > 14 * 60:
        raise PhraseRefused(f"there is no offset {text} from UTC")
    return timedelta(minutes=-minutes if text[0] == "-" else minutes)


def _left_over(text: str, position: int) -> PhraseRefused:
    if text.isdigit() and len(text) == 13:
        return PhraseRefused("unix time is counted in seconds here, not milliseconds", text[:10])
    if _UNLESS.match(text):
        return PhraseRefused('a condition is not part of a time: give the time alone, and a signal in policy "unless"')
    if _EVENT.match(text):
        return PhraseRefused('an event is not a time: give the latest time, and a signal in policy "or_when"')
    if _PAST_WORDS.search(text):
        return PhraseRefused("that is in the past")
    return PhraseRefused(f'"{text[position:][:60]}" was not understood')


def _next_part(text: str, position: int, today: date) -> tuple[str, Any, int]:
    found: tuple[Any, int] | None
    if found := read_past(text, position, one_moment=True):
        return "clock", *found
    if found := read_offset(text, position):
        return "offset", *found
    if found := read_date(text, position, today):
        return "date", *found
    if found := read_dayword(text, position, today):
        return "dayword", *found
    if found := read_weekday(text, position, today):
        return "weekday", *found
    if part := PART_OF_DAY.match(text, position):
        return "part", part[1], part.end()
    return _clock_or_number(text, position)


def _clock_or_number(text: str, position: int) -> tuple[str, Any, int]:
    if clock := read_clock(text, position):
        said, end = clock
        if said.bare and said.hour in _DAYS_NOT_HOURS and text[position:end].isdigit():
            return "number", LoneNumber(said.hour, said), end
        return "clock", said, end
    if number := _THE_NUMBER.match(text, position):
        return "number", LoneNumber(int(number[1]), None), number.end()
    return _zone_or_year(text, position)


def _zone_or_year(text: str, position: int) -> tuple[str, Any, int]:
    if short := _ABBREVIATION.match(text, position):
        return "abbreviation", short[1], short.end()
    if offset := _UTC_OFFSET.match(text, position):
        return "utc_offset", read_utc_offset(offset[0]), offset.end()
    if year := _YEAR.match(text, position):
        return "year", int(year[1]), year.end()
    return "", None, position


def _place_number(said: OnceParts, lone: LoneNumber, today: date) -> None:
    """A lone number is the day of the month right after a weekday, and else the hour that it would be without one."""
    start, end = said.spans["number"]
    after_weekday = (
        said.weekday is not None
        and said.weekday[0].plain
        and said.comes_before("weekday", "number")
        and not said.between("weekday", "number").strip(" ,")
    )
    is_hour = lone.clock is not None and said.clock is None and said.part is not None  # "monday 21 in the evening"
    if after_weekday and not is_hour and not (said.date or said.dayword or said.offset):
        said.date, said.spans["date"] = day_of_month(lone.number, today), (start, end)
    elif lone.clock is None:
        raise PhraseRefused(
            f'"{said.words("number")}" was not understood', said.with_part("number", f"the {ordinal(lone.number)}")
        )
    elif said.clock is not None:
        raise PhraseRefused(f'"{said.words("number")}" is a second clock')
    else:
        said.clock, said.spans["clock"] = lone.clock, (start, end)
