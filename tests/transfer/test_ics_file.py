"""Calendar files: which alarms an event asks for, what cannot be said and why, and that nonsense spoils nothing."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakeful.errors import InvalidRequest
from wakeful.transfer.ics import LIMIT, MOST_EVENTS, MOST_REPEATS, CalendarDefaults, FoundEvent, read_events

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
USUAL = CalendarDefaults("Europe/Berlin", "", NOW)
BERLIN = ";TZID=Europe/Berlin"


def calendar(*components: str) -> bytes:
    return "\r\n".join(["BEGIN:VCALENDAR", "VERSION:2.0", *components, "END:VCALENDAR", ""]).encode()


def event(*lines: str, uid: str = "u1") -> str:
    return "\r\n".join(["BEGIN:VEVENT", f"UID:{uid}", "SUMMARY:Meeting", *lines, "END:VEVENT"])


def valarm(*lines: str) -> str:
    return "\r\n".join(["BEGIN:VALARM", "ACTION:DISPLAY", *lines, "END:VALARM"])


def read(*components: str, usual: CalendarDefaults = USUAL) -> list[FoundEvent]:
    return read_events(calendar(*components), usual)


def times(found: FoundEvent) -> list[Any]:
    """When its alarms fire, as they are asked for."""
    assert found.reason == ""
    asked = [one.request for one in found.alarms]
    return [(one.when or one.fire_at or one.cron_expr, one.timezone) for one in asked]


@pytest.mark.parametrize(
    ("start", "time"),
    [
        (f"DTSTART{BERLIN}:20270701T090000", ("2027-07-01T09:00:00", "Europe/Berlin")),
        ("DTSTART:20270701T090000Z", ("2027-07-01T09:00:00+00:00", "UTC")),
        ("DTSTART:20270701T090000", ("2027-07-01T09:00:00", "Europe/Berlin")),  # floating: the zone that was given
        ("DTSTART;VALUE=DATE:20270701", ("2027-07-01T00:00:00", "Europe/Berlin")),
        ("DTSTART;TZID=W. Europe Standard Time:20270701T090000", ("2027-07-01T09:00:00", "Europe/Berlin")),
        ('DTSTART;TZID="/example.org/20240101/America/New_York":20270701T090000', None),
        ("DTSTART;TZID=/example.org/America/New_York:20270701T090000", ("2027-07-01T09:00:00", "America/New_York")),
    ],
)
def test_an_event_without_an_alarm_fires_at_its_start(start: str, time: tuple[str, str] | None) -> None:
    [found] = read(event(start))
    assert times(found) == [time or ("2027-07-01T09:00:00", "America/New_York")]
    assert found.alarms[0].request.wake_message.startswith("Meeting ")


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [
        ("TRIGGER:-PT15M", ["2027-07-01T08:45:00"]),
        ("TRIGGER;RELATED=START:-P1D", ["2027-06-30T09:00:00"]),
        ("TRIGGER;RELATED=END:-PT5M", ["2027-07-01T10:25:00"]),
        ("TRIGGER;RELATED=END:PT0S", ["2027-07-01T10:30:00"]),
        ("TRIGGER;VALUE=DATE-TIME:20270630T160000Z", ["2027-06-30T16:00:00+00:00"]),
        ("TRIGGER:-PT15M\r\nREPEAT:2\r\nDURATION:PT5M", [f"2027-07-01T08:{minute}:00" for minute in (45, 50, 55)]),
    ],
)
def test_an_alarm_of_an_event_fires_when_it_says(trigger: str, expected: list[str]) -> None:
    [found] = read(event(f"DTSTART{BERLIN}:20270701T090000", "DURATION:PT1H30M", valarm(*trigger.split("\r\n"))))
    assert [when for when, _ in times(found)] == expected


def test_an_event_may_have_several_alarms_and_two_of_one_moment_are_one() -> None:
    alarms = [valarm("TRIGGER:-PT15M"), valarm("TRIGGER:-PT15M"), valarm("TRIGGER:-P1D"), valarm("TRIGGER:PT0S")]
    [found] = read(event(f"DTSTART{BERLIN}:20270701T090000", *alarms, "LOCATION:High Street 4"))
    assert [one.request.wake_message for one in found.alarms] == [
        "Meeting starts in 15 minutes\nWhere: High Street 4",
        "Meeting starts in 1 day\nWhere: High Street 4",
        "Meeting starts now\nWhere: High Street 4",
    ]
    assert len({one.key for one in found.alarms}) == 3


def test_an_alarm_that_says_none_is_none() -> None:
    [found] = read(event("DTSTART:20270701T090000Z", "BEGIN:VALARM", "ACTION:NONE", "END:VALARM"))
    assert times(found) == [("2027-07-01T09:00:00+00:00", "UTC")]


def test_minutes_before_pass_where_clocks_change_and_days_are_counted() -> None:
    """At 02:00 on 28 March 2027 clocks in Berlin go to 03:00."""
    start = f"DTSTART{BERLIN}:20270328T030500"
    [found] = read(event(start, valarm("TRIGGER:-PT15M"), valarm("TRIGGER:-P1D")))
    assert [one.next for one in found.alarms] == [
        datetime(2027, 3, 28, 0, 50, tzinfo=UTC),
        datetime(2027, 3, 27, 2, 5, tzinfo=UTC),
    ]
    # Of an hour that comes twice the second one has no reading of its own: it is kept as a moment.
    [found] = read(event("DTSTART;TZID=Europe/Berlin:20271031T031000", valarm("TRIGGER:-PT30M")))
    assert times(found) == [("2027-10-31T01:40:00+00:00", "Europe/Berlin")]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            [f"DTSTART{BERLIN}:20261102T090000", "RRULE:FREQ=WEEKLY;BYDAY=MO", f"EXDATE{BERLIN}:20261123T090000"],
            "DTSTART:20261102T090000 RRULE:FREQ=WEEKLY;BYDAY=MO EXDATE:20261123T090000",
        ),
        (
            [f"DTSTART{BERLIN}:20261102T090000", "RRULE:FREQ=DAILY;COUNT=30", "EXDATE:20261123T080000Z"],
            "DTSTART:20261102T090000 RRULE:FREQ=DAILY;COUNT=30 EXDATE:20261123T080000Z",
        ),
        (
            [f"DTSTART{BERLIN}:20261102T090000", "RDATE;VALUE=PERIOD:20270105T090000Z/PT1H", "RDATE:20270106T090000"],
            "DTSTART:20261102T090000 RDATE:20261102T090000,20270105T090000Z,20270106T090000",
        ),
        (
            ["DTSTART;VALUE=DATE:20000301", "RRULE:FREQ=YEARLY", valarm("TRIGGER:-PT15H")],
            "DTSTART:20000229T090000 RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=-1",
        ),
        (
            [f"DTSTART{BERLIN}:20261102T090000", "RRULE:FREQ=WEEKLY;UNTIL=20270601T070000Z", valarm("TRIGGER:-PT15M")],
            "DTSTART:20261102T084500 RRULE:FREQ=WEEKLY;UNTIL=20270601T064500Z",
        ),
    ],
)
def test_a_recurring_event_is_a_series(lines: list[str], expected: str) -> None:
    [found] = read(event(*lines))
    assert times(found) == [(expected, "Europe/Berlin")]


def test_an_occurrence_that_is_written_apart_is_left_out_of_its_series_and_fires_on_its_own() -> None:
    weekly = event(f"DTSTART{BERLIN}:20261102T090000", "RRULE:FREQ=WEEKLY")
    moved = event("RECURRENCE-ID:20261130T080000Z", f"DTSTART{BERLIN}:20261130T110000", valarm("TRIGGER:-PT10M"))
    dropped = event(f"RECURRENCE-ID{BERLIN}:20261207T090000", f"DTSTART{BERLIN}:20261207T090000", "STATUS:CANCELLED")
    for order in ((weekly, moved, dropped), (dropped, moved, weekly)):
        [found] = read(*order)
        series, apart = sorted(times(found), key=lambda time: len(time[0]), reverse=True)
        assert series[0].startswith("DTSTART:20261102T090000 RRULE:FREQ=WEEKLY EXDATE:20261130T0")
        assert "20261207T090000" in series[0]
        assert apart == ("2026-11-30T10:50:00", "Europe/Berlin")
    [alone] = read(moved)
    assert times(alone) == [("2026-11-30T10:50:00", "Europe/Berlin")]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["DTSTART;TZID=Moon/Crater:20270101T090000"], "TZID 'Moon/Crater' is not a known time zone"),
        (["DTSTART;TZID=Europe:20270101T090000"], "it is not understood"),
        ([], "DTSTART is missing"),
        (["DTSTART:20270101", "DTSTART:20270102"], "DTSTART is given more than once"),
        (["DTSTART:someday"], "DTSTART is not understood"),
        (["DTSTART:20270101T090000Z", "RRULE:FREQ=SECONDLY"], "FREQ"),
        (["DTSTART:20270101T090000Z", "RRULE:FREQ=SOMETIMES"], "RRULE is not understood"),
        (["DTSTART:20270101T090000Z", "RRULE:FREQ=DAILY;COUNT=3;UNTIL=20280101"], "COUNT"),
        (["DTSTART:20270101T090000Z", "RRULE FREQ=DAILY"], "a line is not understood"),
        (["DTSTART:20270101T090000Z", "EXRULE:FREQ=DAILY", "RRULE:FREQ=DAILY"], "EXRULE is not supported"),
        (["DTSTART:20270101T090000Z", valarm()], "TRIGGER is missing"),
        (["DTSTART:20270101T090000Z", valarm("TRIGGER:soon")], "it is not understood"),
        (["DTSTART:20270101T090000Z", valarm("TRIGGER:-P9999D")], "more than 400 days off"),
        (["DTSTART:20270101T090000Z", valarm("TRIGGER:PT0S", "REPEAT:2")], "DURATION is missing"),
        (
            ["DTSTART:20270101T090000Z", valarm("TRIGGER:PT0S", f"REPEAT:{MOST_REPEATS + 1}", "DURATION:PT1M")],
            "REPEAT of an alarm is not accepted",
        ),
        (["DTSTART:20270101T090000Z", *[valarm(f"TRIGGER:-PT{n}M") for n in range(60)]], "it has 60 alarms"),
        (
            ["DTSTART:20270101T090000Z", "RRULE:FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", valarm("TRIGGER:-P1D")],
            "cannot be written as a rule",
        ),
        (["RECURRENCE-ID;RANGE=THISANDFUTURE:20270101T090000Z", "DTSTART:20270101T100000Z"], "RANGE"),
    ],
)
def test_what_cannot_be_said_is_left_out_with_the_reason_and_nothing_of_it_is_set(
    lines: list[str], reason: str
) -> None:
    left, good = read(event(*lines), event("DTSTART:20270101T090000Z", uid="good"))
    assert reason in left.reason
    assert left.alarms == ()
    assert len(good.coming) == 1


def test_what_is_past_is_left_out_and_told_apart_from_what_is_coming() -> None:
    gone, partly, ended = read(
        event("DTSTART:20260101T090000Z", uid="gone"),
        event("DTSTART:20261116T130000Z", valarm("TRIGGER:-P1D"), valarm("TRIGGER:-PT5M"), uid="partly"),
        event("DTSTART:20260101T090000Z", "RRULE:FREQ=DAILY;COUNT=3", uid="ended"),
    )
    assert (gone.coming, ended.coming) == ([], [])
    assert [one.next for one in partly.alarms] == [None, datetime(2026, 11, 16, 12, 55, tzinfo=UTC)]


def test_what_is_not_an_event_stands_there_with_the_reason() -> None:
    todo = "BEGIN:VTODO\r\nUID:t\r\nSUMMARY:do it\r\nEND:VTODO"
    zone = "BEGIN:VTIMEZONE\r\nTZID:X\r\nBEGIN:STANDARD\r\nDTSTART:19700101T000000\r\nEND:STANDARD\r\nEND:VTIMEZONE"
    left, good, cut = read(zone, todo, event("DTSTART:20270101T090000Z"), "BEGIN:VEVENT\r\nUID:cut")
    assert (left.line, left.reason) == (9, "VTODO is not an event: only events (VEVENT) are taken over")
    assert good.reason == ""
    assert cut.reason == "the file ends within it"


def test_of_two_editions_of_an_event_the_later_counts() -> None:
    old = event("DTSTART:20270101T090000Z", "SEQUENCE:1")
    new = event("DTSTART:20270102T090000Z", "SEQUENCE:2")
    for order in ((old, new), (new, old)):
        [taken] = [found for found in read(*order) if not found.reason]
        assert times(taken) == [("2027-01-02T09:00:00+00:00", "UTC")]
        [other] = [found for found in read(*order) if found.reason]
        assert "same UID" in other.reason


def test_a_rule_with_very_many_dates_is_kept_without_those_that_have_passed() -> None:
    days = [datetime(2026, 1, 1, 9, tzinfo=UTC) + timedelta(days=nth) for nth in range(360)]
    skipped = ",".join(f"{day:%Y%m%dT%H%M%SZ}" for day in days)
    [found] = read(event("DTSTART:20250101T090000Z", "RRULE:FREQ=DAILY", f"EXDATE:{skipped}"))
    [one] = found.coming
    assert len(one.request.cron_expr or "") < 2000
    assert one.next == datetime(2026, 12, 27, 9, tzinfo=UTC)
    [later] = read(
        event("DTSTART:20250101T090000Z", "RRULE:FREQ=DAILY", f"EXDATE:{skipped}"),
        usual=USUAL._replace(now=NOW + timedelta(days=3)),
    )
    assert later.alarms[0].revision == one.revision  # a day later it is still the same event
    many = ",".join(f"{day + timedelta(days=400):%Y%m%dT%H%M%SZ}" for day in days)
    [left] = read(event("DTSTART:20250101T090000Z", "RRULE:FREQ=DAILY", f"EXDATE:{many}"))
    assert "longer than 2000 characters" in left.reason


def test_the_payload_says_what_the_event_is() -> None:
    lines = ("DESCRIPTION:Bring\\, please:\\nthe report", "URL:https://example.org/x", valarm("TRIGGER:-PT15M"))
    [found] = read(event(f"DTSTART{BERLIN}:20270701T090000", f"DTEND{BERLIN}:20270701T100000", *lines))
    told = msgspec.json.decode(found.alarms[0].request.payload)  # type: ignore[arg-type]
    assert told == {
        "event": {
            "uid": "u1",
            "summary": "Meeting",
            "start": "2027-07-01T09:00:00",
            "end": "2027-07-01T10:00:00+02:00",
            "timezone": "Europe/Berlin",
            "description": "Bring, please:\nthe report",
            "url": "https://example.org/x",
        },
        "offset_seconds": -900,
        "revision": found.alarms[0].revision,
    }


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no BEGIN:VCALENDAR"),
        (b"hello", "no BEGIN:VCALENDAR"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"BEGIN:VCALENDAR\r\n" + b"x" * LIMIT, "longer than 10 MiB"),
        (b"BEGIN:VCALENDAR\r\n" + b"BEGIN:VTODO\r\nEND:VTODO\r\n" * (MOST_EVENTS + 1), "at most 10000"),
    ],
)
def test_what_is_not_a_calendar_file_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        read_events(data, USUAL)


# Nonsense

GOOD = calendar(
    event(
        f"DTSTART{BERLIN}:20261102T090000", "RRULE:FREQ=WEEKLY;BYDAY=MO", f"EXDATE{BERLIN}:20261123T090000", "X-Y;Z=1:a"
    ),
    event(f"RECURRENCE-ID{BERLIN}:20261130T090000", f"DTSTART{BERLIN}:20261130T110000"),
    event("DTSTART;VALUE=DATE:20270701", "DTEND;VALUE=DATE:20270702", valarm("TRIGGER;RELATED=END:-PT5M"), uid="u2"),
    event(
        "DTSTART:20270701T090000Z",
        "DURATION:PT1H",
        "RDATE:20270705T090000Z",
        valarm("TRIGGER:-P1D", "REPEAT:1"),
        uid="u3",
    ),
)
VALUES = st.sampled_from(
    [
        *(
            "",
            "0",
            "-1",
            "99999999999999999999",
            "20270101",
            "00010101T000000",
            "99991231T235959Z",
            "20270101T090000/PT1H",
        ),
        *("-P99999999W", "PT", "P1Y", "FREQ=DAILY", "FREQ=YEARLY;INTERVAL=0", "FREQ=MONTHLY;BYMONTHDAY=31;BYMONTH=2"),
        *("FREQ=DAILY;UNTIL=00010101", "FREQ=WEEKLY;BYDAY=9MO", "\x00", "\ud7ff", '"', "\\", ";", ":", ",,", "é" * 300),
    ]
)
LINES = st.builds(
    "{}{}:{}".format,
    st.sampled_from(
        [
            "DTSTART",
            "DTEND",
            "DURATION",
            "RRULE",
            "RDATE",
            "EXDATE",
            "RECURRENCE-ID",
            "TRIGGER",
            "REPEAT",
            "UID",
            "SEQUENCE",
        ]
    ),
    st.sampled_from(
        ["", ";VALUE=DATE", ";VALUE=PERIOD", ";VALUE=DATE-TIME", ";TZID=Europe/Berlin", ";TZID=", ";RELATED=END"]
    ),
    VALUES,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(LINES, max_size=6), st.lists(LINES, max_size=3))
def test_properties_that_make_no_sense_never_break_it(lines: list[str], inner: list[str]) -> None:
    good = event("DTSTART:20270101T090000Z", uid="the good one")
    found = read("\r\n".join(["BEGIN:VEVENT", *lines, valarm(*inner), "END:VEVENT"]), good)
    [kept] = [one for one in found if one.uid == "the good one"]
    assert len(kept.coming) == 1
    assert all(one.reason or one.alarms is not None for one in found)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_damaged_file_is_refused_or_read(data: st.DataObject) -> None:
    damaged = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        end = min(len(damaged), at + data.draw(st.integers(0, 40)))
        damaged[at:end] = data.draw(
            st.binary(max_size=8) | st.sampled_from([b"\r\n", b":", b";", b"BEGIN:VEVENT\r\n", b"END:"])
        )
    with suppress(InvalidRequest):
        read_events(bytes(damaged), USUAL)
