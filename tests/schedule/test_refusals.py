"""What is refused, and that a refusal helps."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from time import thread_time
from zoneinfo import ZoneInfo

import pytest

from wakeful.errors import InvalidRequest, InvalidSchedule
from wakeful.schedule import parse

from .helpers import BERLIN, NOW, say

NONSENSE = [
    "",
    "   ",
    "soon",
    "frobnicate",
    "nowish",
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
    "next tuesday the 20th",
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
SOUNDING = ["biweekly", "semi-monthly", "twice a day", "3 times a week", "once per blue moon", "alternate days"]
CRON = ["* * * *", "0 25 * * *", "0 0 30 2 *", "@every 0s", "@fortnightly", "CRON_TZ=UTC", "0 9 * * 1-5 # note"]
RECURRING = ["every other weekday", "every day until christmas", "every week", "every full moon", "every feb 30"]
RHYTHMIC = ["monday to friday", "every 1.5 days", "every night at 12", *SOUNDING, *CRON, *RECURRING]


SUGGESTED = re.compile(r'"([^"]+)" \(([^()]+)\)')


def refusal(text: str) -> InvalidSchedule:
    with pytest.raises(InvalidSchedule) as refused:
        say(text)
    assert isinstance(refused.value, InvalidRequest)
    assert refused.value.field == "when"
    assert "It is now Sunday 15 November 2026 09:00 in Europe/Berlin." in refused.value.message
    return refused.value


@pytest.mark.parametrize("text", [text for text in REFUSED if text not in RHYTHMIC])
def test_it_is_refused_and_the_refusal_says_what_the_time_is_and_what_would_work(text: str) -> None:
    one = r'"[^"]+" \([^()]+\)'
    assert re.fullmatch(rf"(?:Try {one}(?: or {one})?|A time is written like {one} or {one})\.", refusal(text).fix)
    for phrase, means in SUGGESTED.findall(refusal(text).fix):
        [at] = say(phrase).next(1)
        local = at.astimezone(ZoneInfo(BERLIN))
        assert means.removeprefix("next ").startswith(f"{local:%a} {local.day} {local:%b} ")
        assert means.endswith(f" {local:%H:%M}")


@pytest.mark.parametrize("text", RHYTHMIC)
def test_for_what_recurs_nothing_is_suggested_that_does_not(text: str) -> None:
    refused = refusal(text)
    assert refused.fix
    assert tuple(re.findall(r'"([^"]+)"', refused.fix)) == refused.meant
    assert all(say(phrase).kind == "cron" for phrase in refused.meant)


UNITS = {"day": (0, 1), "week": (0, 7), "month": (1, 0), "quarter": (3, 0), "year": (12, 0), "monday": (0, 7)}
COUNTED = [
    (f"every {count} {unit}s{clock}", count * months, count * days)
    for count in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 24, 30, 365)
    for unit, (months, days) in UNITS.items()
    if unit not in ("monday", "quarter")
    for clock in ("", " at 5pm")
]
OTHER = [
    (f"{each} {word} {unit}{clock}", count * UNITS[unit][0], count * UNITS[unit][1])
    for each in ("every", "each")
    for word, count in (("other", 2), ("alternate", 2), ("second", 2), ("3rd", 3), ("4th", 4), ("", 1))
    for unit in UNITS
    for clock in ("", " at 17:30", " until friday")
    if unit != "monday" or word in ("other", "alternate")
]
MORE = [("every 36h and 1 day", 0, 2.5), ("weekly", 0, 7), ("monthly", 1, 0), ("annually", 12, 0), ("yearly", 12, 0)]


@pytest.mark.parametrize(("text", "months", "days"), [*COUNTED, *OTHER, *MORE])
def test_a_suggested_rhythm_has_the_period_that_was_meant(text: str, months: int, days: float) -> None:
    now = datetime(2026, 11, 15, 8, tzinfo=UTC)
    refused = None
    try:
        parse(text, timezone="UTC", now=now)
    except InvalidSchedule as error:
        refused = error
    if refused is None:
        return  # it is understood, and needs no suggestion
    phrases = re.findall(r'"([^"]+)"', refused.fix)
    assert tuple(phrases) == refused.meant
    for phrase in phrases:
        understood = parse(phrase, timezone="UTC", now=now)
        assert understood.kind == "cron"
        fires = understood.next(6)
        if months:
            assert [(b.year - a.year) * 12 + b.month - a.month for a, b in pairwise(fires)] == [months] * 5
            assert {fire.day for fire in fires} == {1}
            assert {fire.time() for fire in fires} <= {time(9), time(17), time(17, 30)}
        elif understood.ends_at is None:
            assert {b - a for a, b in pairwise(fires)} == {timedelta(days=days)}


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("every week at 5pm", ("every monday at 5pm",)),
        ("every 2 hours at 9am", ("every 2 hours starting at 9am",)),
        ("every monday at 9 and 11", ("0 9,11 * * 1", "0 21,23 * * 1")),
        ("monday through friday", ("0 9 * * 1-5",)),
        ("every week until friday", ("every monday until friday at 9am",)),
        ("every day until christmas", ()),
        ("every 3rd friday", ("every 3 weeks on friday", "every 3rd friday of the month")),
        ("every 6th friday", ("every 6 weeks on friday",)),
        ("every other weekday", ()),
        ("0 25 * * *", ()),
    ],
)
def test_what_is_suggested_for_what_recurs(text: str, meant: tuple[str, ...]) -> None:
    assert refusal(text).meant == meant


@pytest.mark.parametrize("text", ["313020271h30m", "999999999h", "every 313020271h30m", "every 999999999 weeks"])
def test_a_length_beyond_the_calendar_is_refused_like_any_other(text: str) -> None:
    assert refusal(text).fix


@pytest.mark.parametrize("hour", range(24))
@pytest.mark.parametrize("day", ["2027-03-28", "2027-10-31", "2026-12-31", "2028-02-28"])
def test_the_suggestions_work_at_any_time_of_any_day(day: str, hour: int) -> None:
    now = datetime.fromisoformat(f"{day}T{hour:02}:30:00+00:00")
    for text in ("nonsense", "30m", "tomorrow at midnight", "every week"):
        with pytest.raises(InvalidSchedule) as refused:
            parse(text, timezone="America/New_York", now=now)
        phrases = re.findall(r'"([^"]+)"', refused.value.fix)
        assert len(phrases) == (1 if text.startswith("every") else 2)
        for phrase in phrases:
            parse(phrase, timezone="America/New_York", now=now)


def test_a_bare_duration_is_asked_back_as_once_or_again() -> None:
    with pytest.raises(InvalidSchedule) as refused:
        say("30m")
    assert refused.value.fix == 'Try "in 30m" (Sun 15 Nov 09:30) or "every 30m" (next Sun 15 Nov 09:30).'


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


@pytest.mark.parametrize("text", ["9am Mon/Wed", "at noon on Sat/Sun", "9am Here/There"])
def test_words_with_a_slash_are_not_taken_for_a_zone(text: str) -> None:
    assert refusal(text).field == "when"


@pytest.mark.parametrize("text", ["9" * 5000, "every " * 900, "a" * 100_000, "1 and " * 2000, "in 1h" + "1h" * 5000])
def test_very_long_texts_are_refused_at_once(text: str) -> None:
    with pytest.raises(InvalidSchedule, match="longer than 300"):
        say(text)


@pytest.mark.parametrize(
    ("piece", "times", "end"),
    [
        ("1 ", 149, ""),
        ("1h", 150, ""),
        ("mon, ", 59, "mon"),
        ("at ", 99, ""),
        ("in ", 99, ""),
        ("1st and ", 37, "1st"),
        (",", 300, ""),
    ],
)
def test_texts_of_many_equal_pieces_take_no_longer(piece: str, times: int, end: str) -> None:
    def seconds(pieces: int) -> float:
        started = thread_time()
        with pytest.raises(InvalidSchedule):
            say(piece * pieces + end)
        return thread_time() - started

    few = max(seconds(times // 3) for _ in range(3))
    # Three times the pieces; whoever tries every way to cut them up takes thousands of times as long.
    assert min(seconds(times) for _ in range(3)) < 100 * few


@pytest.mark.parametrize(
    "text", ["in １０ minutes", "٣ pm", "tomorrow\0", "to\u200bmorrow", "明天", "in 5 minutes 🙂", "\x1b[31m9am"]
)
def test_letters_and_digits_of_other_scripts_are_refused(text: str) -> None:
    with pytest.raises(InvalidSchedule, match="characters"):
        say(text)


def test_the_words_of_a_rule_with_half_a_time_are_refused() -> None:
    with pytest.raises(InvalidSchedule):
        say("every 2 weeks on Tuesday at 00, counted from 5 January 2027 at 09:00, until 1 May 2028")


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidSchedule):
        say(None)  # type: ignore[arg-type]  # what a door might hand in


def test_the_refusal_speaks_of_the_zone_that_was_handed_in() -> None:
    with pytest.raises(InvalidSchedule, match="2026 17:00 in Asia/Tokyo"):
        parse("soon", timezone="Asia/Tokyo", now=datetime(2026, 11, 15, 8, tzinfo=UTC))
    assert BERLIN != "Asia/Tokyo"
    assert NOW.hour == 8
