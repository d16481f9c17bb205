"""What is refused, and that a refusal helps."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from time import perf_counter

import pytest

from wakeful.errors import InvalidRequest, InvalidSchedule
from wakeful.schedule import parse

from .helpers import BERLIN, NOW, say

NONSENSE = [
    "",
    "   ",
    "soon",
    "frobnicate",
    "now",
    "the day",
    "+am",
    "1-2",
    "2012-14",
    "at single",
    "3 30",
    "three twenty",
    "4a",
    "rat 6",
    "11",
]
PAST = ["yesterday", "2 days ago", "2020-01-01", "2020-01-01T09:00Z", "1595186800", "march 3 2015", "today at 8am"]
RANGES = [
    "9 to 5",
    "10am to 12pm",
    "monday to friday",
    "aug 10 - aug 12",
    "between 3 and 4",
    "1pm-3pm",
    "4pm for 30 mins",
]
PERIODS = [
    "march",
    "2027",
    "july 2027",
    "next month",
    "next week",
    "this year",
    "christmas",
    "in the morning",
    "next march",
]
IMPOSSIBLE = [
    "14pm",
    "0am",
    "13:00pm",
    "25:12",
    "at 9:75",
    "february 30",
    "june 31 2027",
    "mar 99th",
    "30/2/2027",
    "the 32nd",
]
CONTRADICTIONS = [
    "tomorrow at 9am UTC, Europe/Berlin",
    "friday 21 november 2026",
    "tuesday the 20th",
    "5th friday of february 2027",
    "8am in the evening",
]
AMBIGUOUS = [
    "3y",
    "2 mo",
    "30m",
    "1h30m",
    "15h",
    "tomorrow at midnight",
    "this evening at 12",
    "8.9.2027",
    "friday night at 1am",
    "5",
]
DOUBLED = [
    "tomorrow friday at 9 at 10",
    "tomorrow 11/20",
    "in 5 minutes tomorrow",
    "in 1 hour in 2 hours",
    "in 2 hours at 5pm",
]
VAGUE = ["in a few minutes", "in several hours", "sometime tomorrow", "noonish", "tomorrow at", "remind me tomorrow"]
FAR = ["in 9999 years", "in 999999999 weeks", "in 999999999 hours", "9999-12-31T23:59:59-14:00"]
REFUSED = NONSENSE + PAST + RANGES + PERIODS + IMPOSSIBLE + CONTRADICTIONS + AMBIGUOUS + DOUBLED + VAGUE + FAR
CRON = ["* * * *", "0 25 * * *", "0 0 30 2 *", "@every 0s", "@fortnightly", "CRON_TZ=UTC", "0 9 * * 1-5 # note"]
RECURRING = ["every other week", "every day until friday", "every week", "every full moon", "every feb 30"]


@pytest.mark.parametrize("text", REFUSED + CRON + RECURRING)
def test_it_is_refused_and_the_refusal_says_what_the_time_is_and_what_would_work(text: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        say(text)
    assert isinstance(refused.value, InvalidRequest)
    assert refused.value.field == "when"
    assert "It is now Sunday 15 November 2026 09:00 in Europe/Berlin." in refused.value.message
    suggestions = re.fullmatch(r'Try "(.+)" or "(.+)"\.', refused.value.fix)
    assert suggestions is not None
    for phrase in suggestions.groups():
        assert say(phrase).next(1)


@pytest.mark.parametrize("hour", range(24))
@pytest.mark.parametrize("day", ["2027-03-28", "2027-10-31", "2026-12-31", "2028-02-28"])
def test_the_suggestions_work_at_any_time_of_any_day(day: str, hour: int) -> None:
    now = datetime.fromisoformat(f"{day}T{hour:02}:30:00+00:00")
    for text in ("nonsense", "30m", "tomorrow at midnight", "every other week"):
        with pytest.raises(InvalidSchedule) as refused:
            parse(text, timezone="America/New_York", now=now)
        phrases = re.findall(r'"([^"]+)"', refused.value.fix)
        assert len(phrases) == 2
        for phrase in phrases:
            parse(phrase, timezone="America/New_York", now=now)


def test_a_bare_duration_is_asked_back_as_once_or_again() -> None:
    with pytest.raises(InvalidSchedule) as refused:
        say("30m")
    assert refused.value.fix == 'Try "in 30m" or "every 30m".'


def test_milliseconds_are_not_taken_for_seconds() -> None:
    with pytest.raises(InvalidSchedule, match="not milliseconds") as refused:
        say("1795186800000")
    assert '"1795186800"' in refused.value.fix


def test_an_abbreviation_counts_only_while_its_clocks_are_on_it() -> None:
    assert say("december 4 at 9am EST").timezone == "America/New_York"
    for text in ("july 4 at 9am EST", "july 4 at 9am, EST"):
        with pytest.raises(InvalidSchedule, match="EDT"):
            say(text)


def test_an_unknown_zone_in_a_phrase_is_named() -> None:
    with pytest.raises(InvalidSchedule) as refused:
        say("tomorrow at 9am Europe/Atlantis")
    assert refused.value.field == "timezone"


@pytest.mark.parametrize("text", ["9" * 5000, "every " * 900, "a" * 100_000, "1 and " * 2000, "in 1h" + "1h" * 5000])
def test_very_long_texts_are_refused_at_once(text: str) -> None:
    started = perf_counter()
    with pytest.raises(InvalidSchedule, match="longer than 300"):
        say(text)
    assert perf_counter() - started < 2


@pytest.mark.parametrize(
    "text", ["1 " * 149, "1h" * 150, "mon, " * 59 + "mon", "at " * 99, "in " * 99, "1st and " * 37 + "1st", "," * 300]
)
def test_texts_of_many_equal_pieces_take_no_longer(text: str) -> None:
    started = perf_counter()
    with pytest.raises(InvalidSchedule):
        say(text)
    assert perf_counter() - started < 2


@pytest.mark.parametrize(
    "text", ["in １０ minutes", "٣ pm", "tomorrow\0", "to\u200bmorrow", "明天", "in 5 minutes 🙂", "\x1b[31m9am"]
)
def test_letters_and_digits_of_other_scripts_are_refused(text: str) -> None:
    with pytest.raises(InvalidSchedule, match="characters"):
        say(text)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidSchedule):
        say(None)  # type: ignore[arg-type]  # what a door might hand in


def test_the_refusal_speaks_of_the_zone_that_was_handed_in() -> None:
    with pytest.raises(InvalidSchedule, match="2026 17:00 in Asia/Tokyo"):
        parse("soon", timezone="Asia/Tokyo", now=datetime(2026, 11, 15, 8, tzinfo=UTC))
    assert BERLIN != "Asia/Tokyo"
    assert NOW.hour == 8
