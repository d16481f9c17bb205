"""Health and targets: what the last day's fires say, who may see it, and a test wake that really goes out."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.interfaces.world import Answer, Visitor, serving
from wakeful.dashboard.targets import bars, latency_line, outlines
from wakeful.service.figures import (
    Spread,
    TargetHour,
    TargetHours,
    by_target,
    errors,
    last_hours,
    lateness,
    spread,
)
from wakeful.store.maintenance import FireSummary
from wakeful.testing import store_of
from wakeful.testing.conformance.making import a_fire, added, an_alarm, change, settled

NOW = datetime(2026, 11, 16, 9, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def summary(at: datetime, *, late: float = 0, took: float | None = 0.1, **given: Any) -> FireSummary:
    started = at + timedelta(seconds=late)
    fields: dict[str, Any] = {
        "target": "desk",
        "owner_did": "ada",
        "status": "completed",
        "scheduled_for": at,
        "started_at": started,
        "delivered_at": None if took is None else started + timedelta(seconds=took),
        "updated_at": at,
        "error": "",
    }
    return FireSummary(**(fields | given))


class TestHours:
    def test_the_last_day_ends_with_the_hour_that_is_not_over(self) -> None:
        steps = last_hours(NOW)
        assert len(steps) == 24
        assert steps[-1] == (NOW.replace(minute=0), NOW.replace(hour=10, minute=0))
        assert steps[0][0] == steps[-1][1] - timedelta(hours=24)

    def test_the_middle_and_the_tail(self) -> None:
        assert spread([]) == Spread()
        assert spread([7]) == Spread(1, 7, 7, 7)
        assert spread(list(range(1, 101))) == Spread(100, 50, 95, 100)
        assert spread([-5, 3]) == Spread(2, 0, 3, 3)  # a clock that was set back

    def test_lateness_of_each_hour(self) -> None:
        steps = last_hours(NOW, 2)
        fires = [summary(NOW, late=2), summary(NOW - 60 * MINUTE, late=1), summary(NOW - 61 * MINUTE, late=3)]
        unstarted = summary(NOW, started_at=None, delivered_at=None)
        found = lateness(steps, [*fires, unstarted, summary(NOW - 500 * MINUTE)], lambda fire: fire.updated_at)
        assert found == [Spread(2, 1000, 3000, 3000), Spread(1, 2000, 2000, 2000)]

    def test_a_target_by_the_hour(self) -> None:
        steps = last_hours(NOW, 2)
        fires = [
            summary(NOW, took=0.2),
            summary(NOW, status="failed", took=None, error="no"),
            summary(NOW - 60 * MINUTE, status="retrying", took=None, error="no"),
            summary(NOW, target="mail", status="skipped", took=None, error="paused"),
        ]
        found = by_target(steps, fires, lambda fire: fire.scheduled_for)
        desk = found["desk"]
        assert [(hour.out, hour.failed, hour.latency.median) for hour in desk.hours] == [(0, 0, 0), (1, 1, 200)]
        assert (desk.out, desk.failed) == (1, 1)
        assert [(error.said, error.count, error.last) for error in desk.errors] == [("no", 2, NOW)]
        assert found["mail"].errors == []  # what was skipped is not an error

    def test_the_most_frequent_error_first_and_only_a_few(self) -> None:
        fires = [summary(NOW, status="failed", error=f"kind {number % 7 % 6}") for number in range(70)]
        found = errors(fires)
        assert [error.count for error in found] == [20, 10, 10, 10, 10]
        assert found[0].said == "kind 0"

    def test_a_sparkline_stays_in_its_frame(self) -> None:
        hours = [TargetHour(NOW, out, failed, Spread(out, 10 * out, 0, 0)) for out, failed in ((0, 0), (9, 1), (1, 9))]
        drawn = bars(TargetHours("desk", hours, []))
        assert all(bar["top"] >= 0 and bar["top"] + bar["good"] + bar["bad"] == 24 for bar in drawn)
        assert [bool(bar["bad"]) for bar in drawn] == [False, True, True]
        assert len(latency_line(TargetHours("desk", [*hours, hours[0], hours[1]], []))) == 2  # a gap parts the line

    def test_a_day_of_bars_is_one_path_of_each_kind(self) -> None:
        hours = [TargetHour(NOW, out, failed) for out, failed in ((0, 0), (12, 0), (9, 3))]
        found = outlines(TargetHours("desk", hours, []))
        assert found["none"] == "M1 24h6v1h-6zM9 24h6v1h-6zM17 24h6v1h-6z"
        assert found["good"] == "M9 0h6v24h-6zM17 0h6v18h-6z"
        assert found["bad"] == "M17 18h6v6h-6z"


@pytest.fixture(params=["sqlite", "postgres"])
async def visit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Visitor]:
    if request.param == "sqlite":
        place = serving(str(tmp_path / "wakeful.db"))
    else:
        place = serving(request.getfixturevalue("pg_dsn"), schema=request.getfixturevalue("pg_migrated"))
    async with place as visitor:
        yield visitor


async def fired(visit: Visitor, owner: str, target: str, **given: Any) -> None:
    store = store_of(visit.alarms)
    now = await visit.alarms.service.now()
    alarm = an_alarm(visit.alarms.service.clock, owner_did=owner, target=target, status="cancelled")
    await added(store, alarm)
    at = now - 2 * MINUTE
    fire = a_fire(alarm, scheduled_for=at, started_at=at + timedelta(seconds=3), updated_at=now, **given)
    await settled(store, change(alarm, fire))


async def signed_in(visit: Visitor, owner: str, *scopes: str) -> dict[str, str]:
    header = await visit.token(owner, *scopes)
    return {"cookie": f"wakeful_token={header['authorization'].removeprefix('Bearer ')}"}


async def sent(visit: Visitor, path: str, cookie: dict[str, str], **form: str) -> Answer:
    csrf = re.search(r'name="csrf" value="(\w+)"', (await visit("GET", "/new", headers=cookie)).text)
    assert csrf is not None
    headers = cookie | {"content-type": "application/x-www-form-urlencoded"}
    body = urlencode({"csrf": csrf[1]} | form).encode()
    return await visit("POST", path, body, headers=headers, allow_redirects=False)


async def test_health_tells_of_all_owners(visit: Visitor) -> None:
    await fired(visit, "ada", "desk", status="completed")
    await fired(visit, "bob", "desk", status="failed", last_error="no <b>answer</b>")
    shown = (await visit("GET", "/health")).text
    assert "+3.0 s" in shown
    assert re.search(r"SQLite 3\.|PostgreSQL \d", shown)
    assert "Heartbeat" in shown
    assert "time zones" in shown
    figures = (await visit("GET", "/health.json")).json
    assert len(figures["at"]) == len(figures["fires"]) == len(figures["longest"]) == 24
    assert sum(figures["fires"]) == 2
    assert [value for value in figures["p95"] if value is not None] == [3.0]


async def test_what_waits_is_told_with_whose_it_is(visit: Visitor) -> None:
    now = await visit.alarms.service.now()
    far = an_alarm(visit.alarms.service.clock, due=-90, owner_did="ada <i>", target="elsewhere", created_at=now)
    await added(store_of(visit.alarms), far)
    shown = (await visit("GET", "/health")).text
    assert "Whose they are" in shown
    assert "ada &lt;i&gt;" in shown
    assert "elsewhere" in shown


async def test_health_is_for_operators(visit: Visitor) -> None:
    cookie = await signed_in(visit, "ada")
    assert (await visit("GET", "/health", headers=cookie)).status == 403
    assert (await visit("GET", "/health.json", headers=cookie)).status == 403


async def test_an_owner_sees_only_what_its_own_wakes_met(visit: Visitor) -> None:
    await fired(visit, "ada", "desk", status="failed", last_error="ada's trouble")
    await fired(visit, "bob", "desk", status="failed", last_error="bob's trouble")
    await fired(visit, "bob", "secret-desk", status="delivered")
    cookie = await signed_in(visit, "ada")
    shown = (await visit("GET", "/targets", headers=cookie)).text
    assert "ada&#39;s trouble" in shown
    assert "bob" not in shown
    assert "secret-desk" not in shown
    assert "/test" not in shown
    assert "0 delivered, 1 failed" in shown
    operator = (await visit("GET", "/targets", headers=await signed_in(visit, "boss", "admin"))).text
    assert "bob&#39;s trouble" in operator
    assert "0 delivered, 2 failed" in operator
    assert "secret-desk" in operator


async def test_a_test_wake_goes_through_the_real_target_and_leaves_nothing(visit: Visitor) -> None:
    cookie = await signed_in(visit, "boss", "admin")
    answer = await sent(visit, "/targets/agent/test", cookie)
    assert answer.status == 200
    assert "the test wake in" in answer.text
    assert "awaits: a report" in answer.text
    wake = visit.agent.wakes.get_nowait()
    assert wake.alarm.created_via == "dashboard"
    assert (await visit.alarms.stats()).total == 0
    assert (await sent(visit, "/targets/nowhere/test", cookie)).status in (400, 404)
    own = await signed_in(visit, "ada")
    assert (await sent(visit, "/targets/agent/test", own)).status == 403
    assert visit.agent.wakes.empty()


async def test_a_target_is_paused_with_a_reason_and_resumed(visit: Visitor) -> None:
    cookie = await signed_in(visit, "boss", "admin")
    assert (await sent(visit, "/targets/agent/pause", cookie, reason="new <u>keys</u>")).status == 303
    shown = (await visit("GET", "/targets", headers=cookie)).text
    assert "new &lt;u&gt;keys&lt;/u&gt;" in shown
    assert "/targets/agent/resume" in shown
    assert (await sent(visit, "/targets/agent/resume", cookie)).status == 303
    assert "/targets/agent/pause" in (await visit("GET", "/targets", headers=cookie)).text
