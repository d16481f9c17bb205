"""Nothing that is said about when takes long to understand or to refuse, and nothing breaks."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from wakeful.errors import InvalidRequest
from wakeful.schedule import parse, schedule

NOW = datetime(2026, 3, 29, 0, 59, tzinfo=UTC)  # an hour before the clocks change in Berlin
LIMIT = 0.05  # seconds of CPU
WORDS = """
every each in at on from until next last first second third of the and or , - / * @ : am pm noon midnight day days
weekday weekend monday tue friday june feb month months year years week weeks hour hours minute minutes s ms 1 2 9 15
RRULE: FREQ=DAILY FREQ=YEARLY;BYDAY=MO ;INTERVAL=3 ;COUNT=5 DTSTART:20270101T090000 EXDATE:20270101 counted times
30 31 60 99 2026 9999 1h30m 09:00 25:99 2026-02-30 @every @daily tomorrow today other not except L W # ? 1-5 */7
""".split()  # noqa: SIM905 - a list would be a page long
EVERY_60 = ",".join(map(str, range(60)))
NASTY = (
    "313020271h30m",
    "in " + "1h " * 300,
    "every " + "day and " * 200,
    "1" * 5000,
    "@every " + "9" * 5000 + "s",
    "*/" + "9" * 5000 + " * * * *",
    ",".join(["0-59/1"] * 2000) + " * * * *",
    "0 0 " + ",".join(map(str, range(1, 32))) + " 2 *",
    "0 0 31 2 *",
    "0 0 30 2,4 MON#5",
    "59 23 31 12 7",
    "0 0 29 2 1",
    " " * 100_000,
    "\n" * 10_000 + "9",
    "at " * 20_000,
    "-" * 50_000,
    "9:" * 20_000,
    "(" * 20_000,
    "٣" * 5000,
    "tomorrow " * 5000,
    "2026-" * 5000,
    "9999-12-31T23:59:59-12:00",
    "DTSTART:19000101T000000 RRULE:FREQ=DAILY;COUNT=5000",
    "DTSTART:19000101T000600 RRULE:FREQ=MINUTELY;INTERVAL=7",
    "DTSTART:19000101T000000 RRULE:FREQ=MINUTELY;INTERVAL=7;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO",
    "DTSTART:19000101T000000 RRULE:FREQ=MINUTELY;INTERVAL=99999;BYHOUR=3;BYDAY=MO",
    "RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
    "RRULE:FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30",
    "RRULE:FREQ=YEARLY;INTERVAL=99999;BYYEARDAY=366",
    "RRULE:FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYSETPOS=366",
    "RRULE:FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYHOUR=9;BYSETPOS=366,-366",
    f"RRULE:FREQ=DAILY;BYSECOND={EVERY_60};BYMINUTE={EVERY_60};BYHOUR={','.join(map(str, range(24)))};BYSETPOS=-1",
    " ".join(["DTSTART:19000101", *["RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"] * 10]),
    "DTSTART:20260101T000000 RRULE:FREQ=MINUTELY EXDATE:" + ",".join(f"202603{day}" for day in range(28, 32)),
    "RRULE:" + ";" * 1900,
    "RRULE:FREQ=DAILY;BYHOUR=" + "1," * 900,
    "DTSTART:" * 200,
    "FREQ=" * 10_000,
    "every " + "1st, " * 50 + "on the last day",
    "in 99999999999999 years",
    "every 99999999999999 years",
)


def spent(text: str) -> float:
    """CPU seconds that it takes to understand a text, or to refuse it: the best of three, the machine has others."""

    def once() -> float:
        began = time.process_time()
        with suppress(InvalidRequest):
            parse(text, now=NOW, timezone="Europe/Berlin")
        with suppress(InvalidRequest):
            schedule(text, "Europe/Berlin", anchor=NOW).after(NOW)
        return time.process_time() - began

    took = once()
    return took if took < LIMIT else min(took, once(), once())


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_what_is_meant_to_take_long_does_not(text: str) -> None:
    assert spent(text) < LIMIT


@settings(deadline=None, derandomize=True, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(some.lists(some.sampled_from(WORDS), max_size=40), some.sampled_from(("", " ", "  ")))
def test_no_phrase_takes_long(words: list[str], between: str) -> None:
    assert spent(between.join(words)) < LIMIT


@settings(deadline=None, derandomize=True, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(some.text(max_size=600) | some.text("0123456789*/,-# LW?@everyMONJAN", max_size=600))
def test_no_text_takes_long(text: str) -> None:
    assert spent(text) < LIMIT
