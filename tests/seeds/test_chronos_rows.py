"""From a row of Chronos to an alarm: what is kept, what is understood anew, what cannot be kept. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from wakeful.errors import InvalidRequest
from wakeful.model.alarm import DEFAULT_POLICY, Alarm
from wakeful.rules.plan import following
from wakeful.seeds.chronos_import import COLUMNS, ChronosRow, alarm_of

from .chronos_world import DID, TABLE, USER

AT = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
TARGETS = {"neo_chat": "router"}


def written(**given: Any) -> dict[str, Any]:
    """A row as PostgreSQL writes it in JSON."""
    row: dict[str, Any] = {
        "id": "8a5c4f1e-2b7d-4c39-9e60-1f2a3b4c5d6e",
        "owner_did": DID,
        "user_id": USER,
        "label": "",
        "kind": "once",
        "fire_at": "2026-03-01T09:00:00+00:00",
        "cron_expr": "",
        "timezone": "UTC",
        "next_fire_at": "2026-03-01T09:00:00+00:00",
        "conversation_id": "",
        "wake_message": "wake up",
        "payload": {},
        "status": "active",
        "idempotency_key": "",
        "max_failures": 5,
        "failure_count": 0,
        "last_error": "",
        "claimed_at": None,
        "created_at": "2026-02-01T09:00:00+00:00",
        "updated_at": "2026-02-02T09:00:00+00:00",
        "last_fired_at": None,
    }
    return row | given


def taken(targets: dict[str, str] = TARGETS, **given: Any) -> Alarm:
    return alarm_of(msgspec.json.decode(msgspec.json.encode(written(**given)), type=ChronosRow), targets)


def cron(expr: str, **given: Any) -> Alarm:
    return taken(kind="cron", cron_expr=expr, fire_at=None, **given)


def test_the_columns_it_reads_are_those_of_the_page_in_their_order() -> None:
    declared = re.findall(r"^    (\w+) +(?:UUID|TEXT|TIMESTAMPTZ|JSONB|INT)\b", TABLE, re.MULTILINE)
    assert list(COLUMNS) == declared
    assert list(written()) == list(COLUMNS)


def test_a_lease_is_not_taken_along() -> None:
    alarm = taken(claimed_at="2026-03-01T09:00:01+00:00")
    assert (alarm.claimed_at, alarm.claim, alarm.unsettled, alarm.status) == (None, 0, 0, "active")


def test_a_moment_to_fire_at_is_never_made_earlier_and_one_that_has_been_is_cut() -> None:
    alarm = taken(
        fire_at="2026-03-01T09:00:00.1234+00:00",
        next_fire_at="2026-03-01T10:00:00.000001+01:00",
        created_at="2026-02-01T09:00:00.999999+00:00",
        last_fired_at="2026-02-01T09:00:00.0019+00:00",
    )
    assert alarm.fire_at == AT + timedelta(milliseconds=124)
    assert alarm.next_fire_at == AT + timedelta(milliseconds=1)
    assert alarm.created_at.microsecond == 999_000
    assert alarm.last_fired_at is not None
    assert alarm.last_fired_at.microsecond == 1000


def test_a_one_shot_in_retry_keeps_the_instant_it_is_for() -> None:
    alarm = taken(next_fire_at="2026-03-01T09:02:00+00:00", failure_count=2, last_error="wake: router returned 503")
    assert (alarm.occurrence_at, alarm.next_fire_at) == (AT, AT + timedelta(minutes=2))
    assert (alarm.failure_count, alarm.last_error) == (2, "wake: router returned 503")


def test_a_series_in_retry_is_for_the_moment_of_the_retry_unless_the_row_says_which() -> None:
    later = {"next_fire_at": "2026-03-01T09:02:00+00:00", "failure_count": 2}
    assert cron("0 9 * * *", **later).occurrence_at == AT + timedelta(minutes=2)
    assert cron("0 9 * * *", **later, occurrence_at="2026-03-01T09:00:00+00:00").occurrence_at == AT


def test_a_one_shot_without_a_moment_of_its_own_has_the_one_it_waits_for() -> None:
    assert taken(fire_at=None).fire_at == AT


def test_fields_of_the_other_kind_mean_nothing_and_are_left_out() -> None:
    assert taken(cron_expr="0 9 * * *").cron_expr == ""
    assert taken(kind="cron", cron_expr="0 9 * * *").fire_at is None


def test_an_interval_goes_on_in_the_rhythm_it_had() -> None:
    alarm = cron("@every 90m", next_fire_at="2026-03-01T09:00:00.5+00:00")
    due = AT + timedelta(milliseconds=500)
    assert alarm.occurrence_at == due
    assert following(alarm, due - timedelta(seconds=1)) == due
    assert following(alarm, due) == due + timedelta(minutes=90)


def test_a_rule_goes_on_from_the_fire_it_waits_for() -> None:
    alarm = cron("RRULE:FREQ=DAILY;INTERVAL=3", next_fire_at="2026-03-01T09:00:00+00:00")
    assert (alarm.occurrence_at, alarm.policy.anchor) == (AT, AT)
    assert following(alarm, AT) == AT + timedelta(days=3)


@pytest.mark.parametrize("expr", ["0 9 * * 1-5", "@daily", "CRON_TZ=Asia/Tokyo 0 9 * * *", "*/5 * * * ?", "0 9 1 1 *"])
def test_what_chronos_accepts_as_cron_is_taken_as_it_is(expr: str) -> None:
    alarm = cron(expr, timezone="Europe/Berlin")
    assert (alarm.cron_expr, alarm.timezone, alarm.policy) == (expr, "Europe/Berlin", DEFAULT_POLICY)


def test_no_zone_is_utc_and_a_one_shot_needs_none() -> None:
    assert cron("@daily", timezone="").timezone == "UTC"
    assert taken(timezone="").timezone == "UTC"
    assert taken(timezone="Local").timezone == "UTC"


def test_a_cancelled_one_was_cancelled_when_it_was_last_touched() -> None:
    alarm = taken(status="cancelled")
    assert alarm.cancelled_at == alarm.updated_at == datetime(2026, 2, 2, 9, tzinfo=UTC)
    assert taken(status="fired").cancelled_at is None


@pytest.mark.parametrize("status", ["fired", "cancelled", "failed"])
def test_what_has_ended_is_kept_also_with_a_schedule_nobody_could_plan(status: str) -> None:
    alarm = cron("61 * * * *", status=status, timezone="Mars/Olympus")
    assert (alarm.status, alarm.cron_expr, alarm.timezone) == (status, "61 * * * *", "Mars/Olympus")


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("cron_expr", {"kind": "cron", "cron_expr": "61 * * * *"}),
        ("cron_expr", {"kind": "cron", "cron_expr": "@every 500ms"}),
        ("cron_expr", {"kind": "cron", "cron_expr": ""}),
        ("timezone", {"kind": "cron", "cron_expr": "@daily", "timezone": "Local"}),
        ("next_fire_at", {"next_fire_at": "infinity"}),
        ("next_fire_at", {"next_fire_at": "20000-01-01T00:00:00+00:00"}),
        ("next_fire_at", {"next_fire_at": "0044-03-15T00:00:00+00:00 BC"}),
        ("next_fire_at", {"next_fire_at": "9999-12-31T23:59:59.999999+00:00"}),
        ("created_at", {"created_at": "0001-01-01T00:00:00+01:00"}),
        ("owner_did", {"owner_did": " "}),
        ("status", {"status": "sleeping"}),
        ("kind", {"kind": "weekly"}),
        ("target", {"target": "workforced"}),
    ],
)
def test_what_cannot_be_kept_is_refused_with_the_column_that_says_so(field: str, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        taken(**given)
    assert refused.value.field == field


def test_a_word_for_another_target_is_followed_where_it_leads() -> None:
    assert taken(TARGETS | {"workforced": "desk"}, target="workforced").target == "desk"
    assert taken(TARGETS | {"workforced": "desk"}, target="neo_chat").target == "router"


def test_its_ceiling_of_retries_is_kept_as_it_stands() -> None:
    """The page counts retries; Chronos's code counted attempts. So an alarm that came over is tried once more."""
    assert [taken(max_failures=n).max_failures for n in (0, 1, 5, 5000)] == [0, 1, 5, 5000]
