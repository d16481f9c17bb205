"""Files that somebody has made to break whoever reads them: each ends soon, with a reason and little memory.

Terms of Erlang that are made so are in tests/test_erlang_terms.py, rules in tests/interfaces/test_rules.py.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.remote.world import command
from wakeful.cli.crontab import LIMIT as CRONTAB_LIMIT
from wakeful.errors import InvalidRequest
from wakeful.transfer import crontab
from wakeful.transfer.ics import LIMIT, MOST_EVENTS, CalendarDefaults, read_events

NOW = datetime(2026, 11, 15, 8, tzinfo=UTC)
USUAL = CalendarDefaults("Europe/Berlin", "inbox", NOW)


def a_calendar(*lines: str) -> bytes:
    whole = ("BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//test//", *lines, "END:VCALENDAR", "")
    return "\r\n".join(whole).encode()


def an_event(*lines: str, uid: str = "1") -> list[str]:
    return ["BEGIN:VEVENT", f"UID:{uid}", "DTSTAMP:20261101T000000Z", "DTSTART:20261201T090000Z", *lines, "END:VEVENT"]


@contextmanager
def little_memory(most: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"BEGIN:VCALENDAR\r\n" + b"X" * LIMIT, "longer than"),
        (a_calendar(*["BEGIN:VEVENT\r\nEND:VEVENT"] * (MOST_EVENTS + 1)), f"at most {MOST_EVENTS}"),
    ],
    ids=["long", "many"],
)
def test_a_calendar_that_is_too_large_is_refused_whole(data: bytes, why: str) -> None:
    with little_memory(64 << 20), pytest.raises(InvalidRequest, match=why):
        read_events(data, USUAL)


@pytest.mark.parametrize(
    "lines",
    [
        an_event("RRULE:FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30"),
        an_event("RRULE:FREQ=YEARLY;BYYEARDAY=366;BYDAY=MO;COUNT=100000"),
        an_event("RRULE:FREQ=MINUTELY;COUNT=999999999"),
        an_event("RDATE:" + ",".join(["20270101T000000Z"] * 5_000)),
        an_event("BEGIN:VALARM", "ACTION:DISPLAY", "TRIGGER:-PT5M", "REPEAT:999999999", "DURATION:PT1S", "END:VALARM"),
        an_event(*["BEGIN:VALARM", "ACTION:DISPLAY", "TRIGGER:-PT5M", "END:VALARM"] * 500),
        an_event(*["BEGIN:VALARM"] * 2_000, *["END:VALARM"] * 2_000),
        an_event("SUMMARY:" + "x" * 100_000),
        an_event("DTEND:99999999999999999999T000000Z"),
    ],
    ids=["never", "rare", "many", "dates", "repeats", "alarms", "nested", "long", "number"],
)
def test_an_event_that_is_made_to_cost_much_is_one_line_with_its_reason_and_spoils_no_other(lines: list[str]) -> None:
    good = an_event(uid="good")
    with little_memory(200 << 20):
        found = {event.uid: event for event in read_events(a_calendar(*lines, *good), USUAL)}
    if "BEGIN:VALARM" * 2 not in "".join(lines):  # what does not end takes the rest of the file with it
        assert [alarm.next is not None for alarm in found["good"].alarms] == [True]
    assert all(len(event.alarms) <= 50 for event in found.values())


def test_lines_of_a_crontab_that_are_made_to_cost_much_are_each_one_with_its_reason() -> None:
    lines = [
        "0" * 100_000 + " * * * * x",
        ",".join(["*/1"] * 50_000) + " * * * * x",
        "0-59/0 * * * * x",
        "0-99999999999999999999 * * * * x",
        "0 0 30 2 * x",
        "CRON_TZ=" + "A/" * 10_000,
        "CRON_TZ=../../etc/passwd",
    ]
    with little_memory(64 << 20):
        for line in lines:
            found = crontab.read(f"{line}\n0 9 * * * work\n", timezone="UTC", system=False, now=NOW)
            assert any(job.reason for job in found.jobs), line[:40]
        found = crontab.read(lines[0] + "\n0 9 * * * work\n", timezone="UTC", system=False, now=NOW)
    assert [job.command for job in found.taken] == ["work"]


def test_a_crontab_without_an_end_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "crontab"
    file.write_bytes(b"0 9 * * * work\n" + b"#" * CRONTAB_LIMIT)
    for name in (str(file), "/dev/zero"):
        code, _, told = command(["import", "crontab", name], tmp_path)
        assert (code, "is longer than 1 MiB" in told) == (2, True), told
