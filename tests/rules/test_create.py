"""What a caller may ask for, and what is refused: each refusal names the field and says what to do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tests.acting import Draft
from wakeful.errors import InvalidRequest, InvalidSchedule
from wakeful.model.alarm import Policy
from wakeful.model.requests import GivenTime
from wakeful.rules.create import understand, user_of
from wakeful.rules.plan import following

from .world import DAY, HOUR, MINUTE, MONDAY, SECOND, alarm, at

BAD: list[tuple[str, str, dict[str, Any]]] = [
    ("no time", "when", {}),
    ("two times", "when", {"delay": HOUR, "fire_at": at(9)}),
    ("a time and a series", "when", {"delay": HOUR, "cron_expr": "@daily"}),
    ("the past", "fire_at", {"fire_at": at(7)}),
    ("this very moment", "fire_at", {"fire_at": MONDAY}),
    ("no offset", "fire_at", {"fire_at": at(9).replace(tzinfo=None)}),
    ("the end of all time", "fire_at", {"fire_at": datetime.max.replace(tzinfo=timezone(-timedelta(hours=12)))}),
    ("no wait", "delay_seconds", {"delay": timedelta(0)}),
    ("a wait back", "delay_seconds", {"delay": -HOUR}),
    ("a wait of ages", "delay_seconds", {"delay": timedelta.max}),
    ("no such zone", "timezone", {"delay": HOUR, "timezone": "Mars/Olympus"}),
    ("no such zone for a series", "timezone", {"cron_expr": "@daily", "timezone": "Europe/Atlantis"}),
    ("no cron", "cron_expr", {"cron_expr": "every now and then"}),
    ("the 30th of February", "cron_expr", {"cron_expr": "0 0 30 2 *"}),
    ("an end before the first", "cron_expr", {"cron_expr": "@daily", "policy": Policy(ends_at=at(9))}),
    ("no interval", "cron_expr", {"cron_expr": "@every never"}),
    ("no rule", "cron_expr", {"cron_expr": "RRULE:FREQ=NEVER"}),
    ("a rule that is over", "cron_expr", {"cron_expr": "RRULE:FREQ=DAILY;UNTIL=20250101"}),
    ("no message", "wake_message", {"delay": HOUR, "wake_message": " \n"}),
    ("NUL in the message", "wake_message", {"delay": HOUR, "wake_message": "a\x00b"}),
    ("half a surrogate pair", "wake_message", {"delay": HOUR, "wake_message": "\ud83d"}),
    ("a message too long", "wake_message", {"delay": HOUR, "wake_message": "é" * (16 * 1024 + 1)}),
    ("nobody's", "owner_did", {"delay": HOUR, "owner_did": " "}),
    ("NUL in the label", "label", {"delay": HOUR, "label": "\x00"}),
    ("a label too long", "label", {"delay": HOUR, "label": "x" * 1025}),
    ("half a pair in the key", "idempotency_key", {"delay": HOUR, "idempotency_key": "\udc00"}),
    ("no JSON", "payload", {"delay": HOUR, "payload": "{'page': 3}"}),
    ("empty payload", "payload", {"delay": HOUR, "payload": ""}),
    ("not a number in JSON", "payload", {"delay": HOUR, "payload": "NaN"}),
    ("a payload too deep", "payload", {"delay": HOUR, "payload": "[" * 60_000 + "]" * 60_000}),
    ("a payload too large", "payload", {"delay": HOUR, "payload": '"' + "x" * 128 * 1024 + '"'}),
    ("NUL in the payload", "payload", {"delay": HOUR, "payload": '"\x00"'}),
    ("escaped NUL in the payload", "payload", {"delay": HOUR, "payload": r'{"a": "\u0000"}'}),
    ("half a pair in the payload", "payload", {"delay": HOUR, "payload": '"\udc00"'}),
    ("fewer than no retries", "max_failures", {"delay": HOUR, "max_failures": -1}),
    ("retries without end", "max_failures", {"delay": HOUR, "max_failures": 1001}),
    ("a base below nothing", "policy.backoff_base", {"delay": HOUR, "policy": Policy(backoff_base=-1)}),
    ("not a number", "policy.jitter", {"delay": HOUR, "policy": Policy(jitter=float("nan"))}),
    ("endless", "policy.grace", {"delay": HOUR, "policy": Policy(grace=float("inf"))}),
    ("expired at birth", "policy.expires", {"delay": HOUR, "policy": Policy(expires=0)}),
    ("no time to report", "policy.report_within", {"delay": HOUR, "policy": Policy(report_within=0)}),
    ("no fires at all", "policy.max_fires", {"cron_expr": "@daily", "policy": Policy(max_fires=0)}),
    ("paused from the start", "policy.auto_pause_after", {"cron_expr": "@daily", "policy": Policy(auto_pause_after=0)}),
    (
        "a start in no zone",
        "policy.starts_at",
        {"cron_expr": "@daily", "policy": Policy(starts_at=at(9).replace(tzinfo=None))},
    ),
    (
        "a start before all time",
        "policy.starts_at",
        {"cron_expr": "@daily", "policy": Policy(starts_at=datetime(1, 1, 1, tzinfo=UTC))},
    ),
    (
        "an end in no zone",
        "policy.ends_at",
        {"cron_expr": "@daily", "policy": Policy(ends_at=at(9).replace(tzinfo=None))},
    ),
]


@pytest.mark.parametrize(("field", "asked"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_what_cannot_be_kept_is_refused_with_its_field_and_a_way_out(field: str, asked: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        alarm(**asked)
    assert refused.value.field == field
    assert refused.value.fix


def test_a_time_that_is_refused_is_an_invalid_schedule() -> None:
    with pytest.raises(InvalidSchedule, match="is not in the future"):
        alarm(fire_at=at(7))


def test_a_one_shot_waits_for_its_moment() -> None:
    made = alarm(fire_at=at(9))
    assert (made.kind, made.status, made.version, made.claim) == ("once", "active", 1, 0)
    assert made.fire_at == made.occurrence_at == made.next_fire_at == at(9)


def test_a_delay_counts_from_now() -> None:
    assert alarm(delay=90 * SECOND).fire_at == at(8, 1, 30)


def test_a_moment_between_two_milliseconds_is_never_early() -> None:
    assert alarm(fire_at=at(9) + timedelta(microseconds=1)).next_fire_at == at(9) + timedelta(milliseconds=1)
    assert alarm(delay=timedelta(microseconds=1010)).next_fire_at == MONDAY + timedelta(milliseconds=2)


def test_a_moment_of_any_zone_is_kept_in_utc() -> None:
    berlin = timezone(timedelta(hours=1))
    made = alarm(fire_at=datetime(2026, 1, 5, 10, tzinfo=berlin))
    assert made.fire_at == at(9)
    assert made.fire_at is not None
    assert made.fire_at.tzinfo is UTC


def test_a_series_stands_at_its_first_occurrence_in_its_zone() -> None:
    made = alarm(cron_expr="0 10 * * *", timezone="Europe/Berlin")
    assert (made.kind, made.fire_at, made.occurrence_at) == ("cron", None, at(9))


def test_a_phrase_is_understood_once_and_for_all() -> None:
    assert alarm(when="2026-01-05T09:00:00Z").fire_at == at(9)
    assert alarm(when="0 9 * * *").cron_expr == "0 9 * * *"
    with pytest.raises(InvalidSchedule):
        alarm(when="2025-01-05T09:00:00Z")


def test_an_interval_counts_from_its_making_and_keeps_its_anchor() -> None:
    made = alarm(cron_expr="@every 90m")
    assert made.policy.anchor == MONDAY
    assert made.occurrence_at == at(9, 30)


def test_an_interval_that_starts_later_counts_from_its_start() -> None:
    made = alarm(cron_expr="@every 90m", policy=Policy(starts_at=at(12)))
    assert made.policy.anchor == at(12)
    assert made.occurrence_at == at(13, 30)


def test_a_start_in_the_past_is_what_an_interval_counts_from() -> None:
    made = alarm(cron_expr="@every 90m", policy=Policy(starts_at=at(7)))
    assert (made.policy.anchor, made.occurrence_at) == (at(7), at(8, 30))
    # Every third day since Saturday: not since today, which is Monday.
    series = alarm(when="every 3 days at 9am", policy=Policy(starts_at=at(9) - 2 * DAY))
    assert series.occurrence_at == at(9) + DAY


def test_a_rule_fires_first_at_its_start_if_that_is_one_of_its_times() -> None:
    made = alarm(cron_expr="FREQ=DAILY;INTERVAL=3", policy=Policy(starts_at=at(12, 0, 30)))
    assert (made.policy.anchor, made.occurrence_at) == (at(12, 0, 30), at(12, 0, 30))
    assert following(made, made.occurrence_at) == at(12, 0, 30) + 3 * DAY
    later = alarm(cron_expr="FREQ=DAILY;INTERVAL=3;BYHOUR=11", policy=Policy(starts_at=at(12)))
    assert later.occurrence_at == at(11) + DAY


def test_a_rule_counts_from_its_first_fire_and_keeps_that_anchor() -> None:
    made = alarm(cron_expr="FREQ=WEEKLY;INTERVAL=2;BYDAY=TU;BYHOUR=9;COUNT=2", timezone="Europe/Berlin")
    tuesday = at(8) + DAY
    assert (made.policy.anchor, made.occurrence_at) == (tuesday, tuesday)
    assert following(made, tuesday) == tuesday + 14 * DAY
    assert following(made, tuesday + 14 * DAY) is None


def test_a_rule_is_kept_in_one_way_of_writing_and_in_the_zone_it_names() -> None:
    text = "RRULE:BYDAY=TU;FREQ=WEEKLY\nDTSTART;TZID=Europe/Berlin:20260106T090000"
    for made in (alarm(cron_expr=text), alarm(when=text)):
        assert made.cron_expr == "DTSTART:20260106T090000 RRULE:FREQ=WEEKLY;BYDAY=TU"
        assert (made.timezone, made.policy.anchor, made.occurrence_at) == ("Europe/Berlin", None, at(8) + DAY)


def test_starts_at_and_ends_at_are_the_first_and_last_moments_allowed() -> None:
    made = alarm(cron_expr="0 * * * *", policy=Policy(starts_at=at(12), ends_at=at(12)))
    assert made.occurrence_at == at(12)
    after = at(12) + timedelta(microseconds=1)
    assert alarm(cron_expr="0 * * * *", policy=Policy(starts_at=after)).occurrence_at == at(13)


def test_a_payload_is_kept_byte_for_byte() -> None:
    payload = ' {"b":1, "a": 1.0,"a":2,\n"ü":"\\u00fc", "big": 12345678901234567890123} '
    assert alarm(delay=MINUTE, payload=payload).payload_json == payload


def test_a_payload_may_speak_of_an_escaped_nul_without_holding_one() -> None:
    payload = r'{"regex": "\\u0000"}'
    assert alarm(delay=MINUTE, payload=payload).payload_json == payload


def test_texts_up_to_their_limits_are_kept() -> None:
    made = alarm(delay=DAY, wake_message="é" * 16 * 1024, label="x" * 1024, max_failures=1000, payload="null")
    assert len(made.wake_message.encode()) == 32 * 1024


def test_a_draft_carries_over_whole() -> None:
    asked: dict[str, Any] = {
        "label": "l",
        "conversation_id": "c",
        "target": "ops",
        "isolated": True,
        "idempotency_key": "k",
    }
    asked |= {"created_by": "u1", "created_via": "mcp", "parent_fire": "a0@1", "root_id": "a0", "max_failures": 0}
    made = alarm(delay=HOUR, generation=3, **asked)
    assert {name: getattr(made, name) for name in asked} == asked
    assert (made.generation, made.created_at, made.updated_at) == (3, MONDAY, MONDAY)


@pytest.mark.parametrize(
    ("owner", "user"),
    [
        ("did:matrix:ada:0123456789abcdef", "ada"),
        ("did:matrix:0B7F6A9E-1C2D-4E3F-8A9B-0C1D2E3F4A5B:0123456789ABCDEF", "0b7f6a9e-1c2d-4e3f-8a9b-0c1d2e3f4a5b"),
        ("did:matrix:Ada:0123456789abcdef", "Ada"),
        ("did:matrix:ada:short", "did:matrix:ada:short"),
        ("did:web:example.org", "did:web:example.org"),
        ("local", "local"),
    ],
)
def test_the_user_is_the_label_of_a_did_or_the_owner_itself(owner: str, user: str) -> None:
    assert user_of(owner) == user
    assert alarm(delay=HOUR, owner_did=owner).user_id == user


def test_understanding_a_time_plans_nothing() -> None:
    timing = understand(GivenTime(delay=HOUR, timezone="UTC"), now=MONDAY)
    assert (timing.kind, timing.fire_at, timing.timezone) == ("once", at(9), "UTC")


def test_now_is_cut_to_the_millisecond() -> None:
    now = MONDAY + timedelta(microseconds=1999)
    made = Draft(owner_did="ada", wake_message="x", delay=HOUR).alarm(id="a", now=now)
    assert made.created_at == MONDAY + timedelta(milliseconds=1)


@pytest.mark.parametrize("phrase", ["in 10 minutes", "tomorrow at 9am", "every day at 9am until friday"])
def test_a_phrase_is_read_once_for_each_moment_zone_and_order_of_dates(phrase: str) -> None:
    def read(**changed: Any) -> tuple[datetime, Any]:
        given = {"now": MONDAY, "timezone": "UTC", "date_order": "", **changed}
        timing = understand(
            GivenTime(when=phrase, timezone=given["timezone"]), now=given["now"], date_order=given["date_order"]
        )
        moment = timing.fire_at or timing.bounds.ends_at
        assert moment is not None
        return moment, timing

    moment, timing = read()
    assert read()[0] is moment, "the very one: it was not read again"
    assert read(date_order="dmy") == (moment, timing)
    later, berlin = read(now=MONDAY + SECOND)[0], read(timezone="Europe/Berlin")
    assert later - moment == (SECOND if phrase.startswith("in") else timedelta(0))
    assert (berlin[0] == moment) == phrase.startswith("in")
    assert berlin[1].timezone == "Europe/Berlin"
