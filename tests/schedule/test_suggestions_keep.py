"""A suggestion means what was said: no zone, day, amount or time that was understood is left out or changed.

Where nothing does, a refusal gives general examples, and says that they are only that.
"""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from itertools import product
from zoneinfo import ZoneInfo

import pytest

from wakeful.errors import InvalidSchedule
from wakeful.schedule import Understood, parse, words

from .helpers import BERLIN, NOW
from .scoring import VECTORS, Row, rows

SUGGESTED = re.compile(r'"([^"]+)" \(((?:next )?[A-Z][a-z]{2} [^()]+)\)')
FRIDAY, MONDAY = date(2026, 11, 20), date(2026, 11, 16)
DAYS = {
    "": None,
    "friday": FRIDAY,
    "tomorrow": MONDAY,
    "on 20 november": FRIDAY,
    "2026-11-20": FRIDAY,
    "the 20th": FRIDAY,
    "next friday": FRIDAY,
    "in 5 days": FRIDAY,
}
TIMES = {
    "at 5pm": {time(17)},
    "15:30": {time(15, 30)},
    "eod": {time(17), time(23, 59)},
    "14pm": {time(14)},
    "by end of day": {time(17), time(23, 59)},
    "at midnight": {time(0), time(23, 59)},
    "25:00": set(),
    "9 to 5": {time(9), time(17)},
    "10am - 12pm": {time(10), time(12)},
    "22:00 to 5:00": {time(22), time(5)},
    "0900": {time(9)},
    "1h30": {time(1, 30)},
    "6-8pm": {time(18), time(20)},
    "at 9": {time(9)},
}
ZONES = {
    "": BERLIN,
    "utc": "UTC",
    "Europe/London": "Europe/London",
    "in tokyo": "Asia/Tokyo",
    **dict.fromkeys(("utc-05:00", "aest", "london", "pacific standard time", "unless bo answers", "xyzzy"), ""),
}


def suggested(phrase: str, timezone: str = BERLIN, now: datetime = NOW) -> list[Understood]:
    """What a refusal suggests as meant, understood; nothing where the phrase is understood or has examples only."""
    try:
        parse(phrase, timezone=timezone, now=now)
    except InvalidSchedule as refused:
        found = SUGGESTED.findall(refused.fix) if refused.fix.startswith("Try ") else []
        texts = [*(text for text, _ in found), *([refused.repair["when"]] if "when" in refused.repair else [])]
        return [parse(text, timezone=timezone, now=now) for text in texts]
    return []


def test_one_moment_keeps_its_day_its_time_and_its_zone() -> None:
    checked = 0
    for (day, wanted), (clock, times), (zone, name), order in product(
        DAYS.items(), TIMES.items(), ZONES.items(), (0, 1)
    ):
        phrase = " ".join(filter(None, (clock, day, zone) if order else (day, clock, zone)))
        for meant in suggested(phrase):
            assert name, phrase
            assert (meant.kind, meant.timezone) == ("once", name), phrase
            assert meant.fire_at is not None
            at = meant.fire_at.astimezone(ZoneInfo(name))
            assert wanted is None or at.date() == wanted, phrase
            assert at.time() in times or (clock == "1h30" and at == NOW + timedelta(minutes=90)), (phrase, at)
            checked += 1
    assert checked > 300


WEEKDAYS = {
    "monday": {0},
    "mon/wed/fri": {0, 2, 4},
    "weekday": {0, 1, 2, 3, 4},
    "tue & thu": {1, 3},
    "sat and sun": {5, 6},
}
CLOCKS = {
    "": [{9}],
    "at 8": [{8}],
    "at 9 and 17": [{9, 17}],
    "at 8, 12 and 6pm": [{8, 12, 18}],
    "at 9 and 11": [{9, 11}, {21, 23}],
    "at 25:00": [],
}
BOUNDS = {"": (None, None), "for 3 times": (None, 3), "until 1 december": (date(2026, 12, 1), None)}


def test_a_series_keeps_its_days_its_times_its_zone_and_its_end() -> None:
    checked = 0
    for every, (days, wanted), (clock, hours), (zone, name), (bound, (end, count)) in product(
        ("every ", ""), WEEKDAYS.items(), CLOCKS.items(), ZONES.items(), BOUNDS.items()
    ):
        phrase = " ".join(filter(None, (f"{every}{days}", clock, bound, zone)))
        for meant in suggested(phrase):
            if not every and days == "monday":
                continue  # one moment
            assert name, phrase
            assert (meant.kind, meant.timezone, meant.max_fires) == ("cron", name, count), phrase
            local = [fire.astimezone(ZoneInfo(name)) for fire in meant.next(60)]
            assert (meant.ends_at and meant.ends_at.astimezone(ZoneInfo(name)).date()) == end, phrase
            assert {fire.hour for fire in local} in hours or count, phrase
            assert {fire.weekday() for fire in local} <= wanted, phrase
            assert count or {fire.weekday() for fire in local} == wanted, phrase
            checked += 1
    assert checked > 50


@pytest.mark.parametrize(
    ("amount", "length"),
    [
        ("in half a day", timedelta(hours=12)),
        ("in 1.5 days", timedelta(hours=36)),
        ("now + 2 hours", timedelta(hours=2)),
        ("now + 90 minutes", timedelta(minutes=90)),
        ("in 1h30", timedelta(minutes=90)),
        ("in 2 h 15", timedelta(minutes=135)),
        ("the next 3 days", timedelta(days=3)),
        ("2400 hours", timedelta(hours=2400)),
    ],
)
@pytest.mark.parametrize("zone", ZONES)
def test_an_amount_stays_as_long(amount: str, length: timedelta, zone: str) -> None:
    found = suggested(f"{amount} {zone}".strip())
    assert all(meant.fire_at == NOW + length for meant in found)
    assert found or zone


@pytest.mark.parametrize(
    ("phrase", "first"),
    [
        ("eod friday", "at 5pm friday"),
        ("cob friday", "at 5pm friday"),
        ("by EOD tomorrow", "at 5pm tomorrow"),
        ("friday EOD", "friday at 5pm"),
        ("end of day friday", "at 5pm friday"),
        ("in 18 months at 6am", "18 months from today at 6am"),
        ("a week on tuesday", "a week from tuesday"),
        ("24 hours from today", "24 hours from now"),
        ("mon/wed/fri at 8:30", "every mon/wed/fri at 8:30"),
        ("tue & thu at 10am", "every tue & thu at 10am"),
        ("weekdays at 9 and 17", "0 9,17 * * 1-5"),
        ("every day at 8, 12 and 6pm", "0 8,12,18 * * *"),
        ("every 2 hours at 9am", "every 2 hours starting at 9am"),
        ("tomorrow at midnight Europe/London", "tomorrow at 00:00 Europe/London"),
        ("every monday at 9 and 11 utc", "CRON_TZ=UTC 0 9,11 * * 1"),
    ],
)
def test_the_first_suggestion(phrase: str, first: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        parse(phrase, timezone=BERLIN, now=NOW)
    assert refused.value.fix.startswith(f'Try "{first}" (')
    assert refused.value.repair in ({}, {"when": first})


@pytest.mark.parametrize(
    "phrase",
    [
        *("3pm utc-05:00", "1pm pacific standard time", "3pm aest", "9am london", "Do 15:00, Fr 18:00", "before eod"),
        *("2 business days from now", "15 minutes before my meeting tomorrow at 3pm", "before 5pm tomorrow"),
        *("in 2 hours unless Bo answers", "when the build is done", "in 2 hours at 5pm", "today at 8am", "2 days ago"),
        *("3 march 2015 at 4pm", "last friday", "yesterday at 5", "aug 10 - aug 12 at 9am", "in 3 working days"),
        *("every 3 business days", "every 2 weekdays", "every 3 working days", "every 45 minutes between 9 and 5"),
        *("twice a week", "3 times a week at 9am", "twice monthly Europe/London", "three times a year"),
    ],
)
def test_where_nothing_says_all_of_it_nothing_is_suggested_as_meant(phrase: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        parse(phrase, timezone=BERLIN, now=NOW)
    assert not refused.value.fix.startswith("Try ")
    assert (refused.value.repair, refused.value.meant) == ({}, ())


@pytest.mark.parametrize(
    ("phrase", "why"),
    [
        ("in 3 working days", '"in 3 working days" cannot be counted'),
        ("every 3 working days", '"every 3 working days" cannot be counted'),
        ("every day at 25:00", "25:00 is not a time of day"),
        ("0900", '"0900" was not understood'),
        ("24 hours from today", '"today" has no time of day to count from'),
        ("every 45 minutes between 9 and 5", "every 45 minutes is at other minutes in each hour"),
        ("in 1.5 months", "a fraction of a month has no fixed length"),
        ("in 2 hours unless Bo answers", 'a signal in policy "unless"'),
        ("when the build is done", 'a signal in policy "or_when"'),
    ],
)
def test_a_refusal_uses_the_words_that_were_said(phrase: str, why: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        parse(phrase, timezone=BERLIN, now=NOW)
    assert why in refused.value.message
    assert "BYHOUR" not in str(refused.value)


DAY_OR_CLOCK = re.compile(
    r"\b(?:(sun|mon|tue|wed|thu|fri|sat)[a-z]*|(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
    r"|(today|tomorrow|tonight|yesterday)|([0-9]{1,2})(?::[0-9]{2})? ?[ap]\.?m)\b"
)
ZONE = re.compile(r"\b(?:utc|gmt|[ecmp][sd]t|cet|cest|[a-z]+/[a-z_]+)\b")


def facts(text: str) -> set[str]:
    return {next(filter(None, found)) for found in DAY_OR_CLOCK.findall((words.normal(text) or "").lower())}


def fresh_rows() -> list[Row]:
    return [row for name in sorted(VECTORS.glob("*phrases_dev.jsonl")) for row in rows(name.name)]


def refusal_of(row: Row) -> str:
    """The suggestions of a refused phrase; nothing where it is understood or gets general examples."""
    try:
        parse(row["phrase"], timezone=row["tz"], now=datetime.fromisoformat(row["now"]))
    except InvalidSchedule as refused:
        return refused.fix if refused.fix.startswith("Try ") else ""
    return ""


def test_no_suggestion_for_a_public_phrase_drops_a_day_a_clock_or_a_zone() -> None:
    """What one of two suggestions leaves out, the other has: the ends of a span, words that contradict each other."""
    checked = 0
    for row in fresh_rows():
        fix = refusal_of(row)
        found = [text.lower() for text, _ in SUGGESTED.findall(fix)]
        if not fix or any(text[0] in "0123456789*@" and text.count(" ") >= 4 and "*" in text for text in found):
            continue  # an expression: its fires are compared elsewhere
        said = facts(row["phrase"])
        assert said <= set().union(*map(facts, found)), (row["phrase"], fix)
        assert len(found) > 1 or said <= facts(found[0]), (row["phrase"], fix)
        zones = set(ZONE.findall(row["phrase"].lower()))
        assert all(zones <= set(ZONE.findall(text)) or "/" in text for text in found), (row["phrase"], fix)
        checked += 1
    assert checked > 100


@pytest.mark.parametrize("said", ["public holidays", "holidays", "bank holidays"])
@pytest.mark.parametrize(
    ("phrase", "meant"),
    [
        ("mon/wed/fri at 8:30", ("every mon/wed/fri at 8:30",)),
        ("every friday eod", ("every friday at 5pm",)),
        ("every day at 8, 12 and 6pm", ("0 8,12,18 * * *",)),
        ("evry day at 9", ("every day at 9",)),
        ("every 3 hours from 5 to 1", ("every 3 hours from 05:00 to 13:00", "every 3 hours from 17:00 to 01:00")),
        ("tomorow at 9", ()),
        ("every eod", ()),
    ],
)
def test_a_suggestion_leaves_holidays_out_where_that_was_said(phrase: str, meant: tuple[str, ...], said: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        parse(f"{phrase} except {said}", timezone=BERLIN, now=NOW)
    assert refused.value.meant == tuple(f"{one} except public holidays" for one in meant)
    assert all(parse(one, timezone=BERLIN, now=NOW).skips_holidays for one in refused.value.meant)
    assert refused.value.repair == {}
    assert refused.value.message.startswith(f"'{phrase} except {said}' is not a time: ")
    assert refused.value.fix.startswith("Try " if meant else "Write every")


@pytest.mark.parametrize(
    "phrase", ["tomorrow at 9 and 17", "at 9 and 17", "friday at 9 and monday at 10", "in 5 minutes and in 10 minutes"]
)
def test_of_several_moments_none_is_suggested_alone(phrase: str) -> None:
    assert suggested(phrase) == []
    assert len(suggested("between 10 and 11 tomorrow")) == 2


def test_half_of_a_span_is_not_suggested() -> None:
    """Of today's hours from 8am on, said at 9am, only the end is ahead: alone it would be a guess."""
    assert suggested("today 8am to 11am") == []
    assert len(suggested("today 10am to 11am")) == 2
