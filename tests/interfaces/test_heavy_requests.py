"""Requests that cost their sender little and a server much: nobody else waits for them.

Each goes through a real server, whose guard fails the test when one callback of the event loop uses 50 ms (I6).
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.databases import database_of
from tests.interfaces.world import Visitor, serving
from wakeful.model.requests import CreateRequest
from wakeful.rules.create import create
from wakeful.schedule import recurrence_schedule, zone
from wakeful.schedule.recurrence_schedule import RuleSchedule
from wakeful.service import create as creating

RARE = "RRULE:FREQ=YEARLY;BYYEARDAY=366;BYDAY=MO"  # one fire in 28 years
LONG_COUNT = "DTSTART:19000101T000000Z RRULE:FREQ=WEEKLY;BYDAY=MO,TU;BYSETPOS=1;COUNT=5000"
HEAVY = (
    RARE,
    LONG_COUNT,
    "FREQ=MINUTELY;INTERVAL=1441;BYHOUR=1;BYMINUTE=1;BYSECOND=1,2",
    "FREQ=MINUTELY;INTERVAL=99991;BYHOUR=1;BYMINUTE=1;BYYEARDAY=366;BYDAY=MO",
)


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return database_of(request, tmp_path)


@pytest.fixture
async def visit(database: dict[str, Any]) -> AsyncIterator[Visitor]:
    async with serving(**database) as visitor:
        yield visitor


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The times for which an alarm was worked out."""
    found: list[str] = []

    def counted(wanted: Any, *args: Any, **more: Any) -> Any:
        found.append(wanted.time.when)
        return create(wanted, *args, **more)

    monkeypatch.setattr(creating, "create", counted)
    return found


def batch(count: int, when: str = RARE) -> dict[str, Any]:
    return {"alarms": [{"wake_message": "m", "when": when}] * count}


async def test_a_batch_of_rare_rules_is_worked_out_as_far_as_the_rate_allows(visit: Visitor, built: list[str]) -> None:
    eve = await visit.token("eve")
    answer = await visit("POST", "/v1/alarms/batch", batch(1000), headers=eve)
    assert (answer.status, answer.json["created"], answer.json["refused"]) == (200, 600, 400)
    assert {one["problem"]["field"] for one in answer.json["results"][600:]} == {"creates_per_minute"}
    assert len(built) == 600


async def test_all_or_none_beyond_the_rate_is_refused_before_the_work(visit: Visitor, built: list[str]) -> None:
    eve = await visit.token("eve")
    answer = await visit("POST", "/v1/alarms/batch?all_or_none=true", batch(1000), headers=eve)
    assert answer.told == (429, "too_many", "creates_per_minute")
    assert built == []


async def test_the_token_of_a_wake_is_counted_before_the_work_too(visit: Visitor, built: list[str]) -> None:
    await visit.token("eve")
    wake = await visit.fired("eve")
    headers = {"authorization": f"Bearer {wake.token}"}
    built.clear()
    answer = await visit("POST", "/v1/alarms/batch?all_or_none=true", batch(1000), headers=headers)
    assert answer.told == (429, "too_many", "creates_per_minute")
    assert built == []
    answer = await visit("POST", "/v1/alarms/batch", batch(200), headers=headers)
    assert answer.status == 200
    assert len(built) == 200


async def test_a_target_that_is_not_there_is_refused_before_the_time_is_read(visit: Visitor, built: list[str]) -> None:
    eve = await visit.token("eve")
    answer = await visit("POST", "/v1/alarms", {"wake_message": "m", "when": RARE, "target": "nowhere"}, headers=eve)
    assert answer.told[1:] == ("unknown_target", "target")
    assert built == []


async def test_what_is_refused_does_not_use_up_the_rate(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), creates_per_minute=3) as visit:
        eve = await visit.token("eve")
        for path in ("/v1/alarms/batch", "/v1/alarms/batch?all_or_none=true"):
            refused = await visit("POST", path, batch(3, "every blue moon"), headers=eve)
            assert refused.status in (200, 400)
        answer = await visit("POST", "/v1/alarms/batch", batch(4, "in 1 hour"), headers=eve)
        assert (answer.json["created"], answer.json["refused"]) == (3, 1)


@pytest.mark.parametrize("when", HEAVY)
async def test_a_heavy_rule_is_previewed_and_set(database: dict[str, Any], when: str) -> None:
    async with serving(**database) as visit:  # here, and not in a fixture: the guard fails the test itself
        eve = await visit.token("eve")
        answer = await visit("POST", "/v1/preview", {"when": when, "n": 100}, headers=eve)
        assert answer.status in (200, 400), answer.text
        assert all(one["utc"] < "2240" for one in answer.json.get("next", []))
        answer = await visit("POST", "/v1/alarms", {"wake_message": "m", "when": when}, headers=eve)
        assert answer.status in (201, 400), answer.text


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has not worked out any schedule yet, at each request."""

    def built(recurrence: Any, timezone: str, anchor: datetime | None) -> Any:
        return recurrence_schedule._build(recurrence, zone(timezone), anchor or datetime(2000, 1, 1, tzinfo=UTC))

    monkeypatch.setattr(recurrence_schedule, "_shared", built)


def counted(days: int) -> str:
    """A rule that is over after 5,000 fires; those that passed are counted first."""
    begun = datetime.now(UTC) - timedelta(days=days)
    return f"DTSTART:{begun:%Y%m%d}T000000Z RRULE:FREQ=DAILY;COUNT=5000"


COUNTED = counted(4900)


@pytest.mark.usefixtures("forgetful")
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "/v1/alarms/{}", {"when": counted(4901)}),
        ("PATCH", "/v1/alarms/{}", {"label": "a", "policy": {"jitter": "5s"}}),
        ("POST", "/v1/alarms/{}/pause", {}),
        ("POST", "/v1/alarms/{}/skip", {}),
        ("POST", "/v1/alarms/{}/snooze", {"for": "3d"}),
        ("GET", "/v1/alarms/{}/why", None),
        ("GET", "/v1/agenda?hours=100", None),
        ("GET", "/v1/calendar.ics", None),
        ("DELETE", "/v1/alarms/{}", None),
    ],
)
async def test_nobody_waits_for_what_is_done_with_a_heavy_rule(
    tmp_path: Path, method: str, path: str, body: dict[str, Any] | None
) -> None:
    async with serving(str(tmp_path / "w.db")) as visit:
        eve = await visit.token("eve")
        made = await visit("POST", "/v1/alarms", {"wake_message": "m", "when": COUNTED}, headers=eve)
        assert made.status == 201, made.text
        answer = await visit(method, path.format(made.json["id"]), body, headers=eve)
        assert answer.status == 200, answer.text


@pytest.mark.usefixtures("forgetful")
async def test_a_repeating_interval_is_counted_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written otherwise (ISO 8601), and becomes a rule that counts like any other."""
    searched: Counter[bool] = Counter()
    loop, search = threading.get_ident(), RuleSchedule.search_uncounted

    def noted(self: RuleSchedule, asked: datetime) -> datetime | None:
        searched[threading.get_ident() == loop] += 1
        return search(self, asked)

    monkeypatch.setattr(RuleSchedule, "search_uncounted", noted)
    begun = datetime.now(UTC) - timedelta(days=500)
    when = f"R4000/{begun:%Y-%m-%d}T00:00:00Z/P1D"
    async with serving(str(tmp_path / "w.db")) as visit:
        eve = await visit.token("eve")
        made = await visit("POST", "/v1/alarms", {"wake_message": "m", "when": "in 1 hour"}, headers=eve)
        for method, path, body in (
            ("POST", "/v1/preview", {"when": when}),
            ("POST", "/v1/alarms", {"wake_message": "m", "when": when}),
            ("PATCH", f"/v1/alarms/{made.json['id']}", {"when": when, "kind": "cron"}),
        ):
            searched.clear()
            answer = await visit(method, path, body, headers=eve)
            assert answer.status in (200, 201), answer.text
            assert searched[False] >= 500, (method, path)
            assert searched[True] == 0, (method, path)


@pytest.mark.usefixtures("forgetful")
@pytest.mark.parametrize("path", ["/alarms/{}", "/alarms/{}/edit", "/alarms"])
async def test_nobody_waits_for_the_page_of_a_heavy_rule(tmp_path: Path, path: str) -> None:
    async with serving(str(tmp_path / "w.db")) as visit:
        eve = await visit.token("eve")
        made = await visit("POST", "/v1/alarms", {"wake_message": "m", "when": COUNTED}, headers=eve)
        cookie = {"cookie": f"wakeful_token={eve['authorization'].removeprefix('Bearer ')}"}
        page = await visit("GET", path.format(made.json["id"]), headers=cookie)
        assert page.status == 200, page.text


@pytest.mark.usefixtures("forgetful")
async def test_nobody_waits_for_an_agent_that_asks_for_a_heavy_rule(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db")) as visit:
        eve = await visit.token("eve") | {"accept": "application/json, text/event-stream"}
        made = await visit("POST", "/v1/alarms", {"wake_message": "m", "when": COUNTED}, headers=eve)
        for tool, arguments in (
            ("alarm_get", {"id": made.json["id"]}),
            ("alarm_agenda", {}),
            ("alarm_set", {"wake_message": "n", "when": COUNTED}),
        ):
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
            answer = await visit("POST", "/mcp", call, headers=eve)
            assert answer.json["result"]["isError"] is False, answer.text


async def test_the_calendar_feed_of_a_thousand_alarms(visit: Visitor) -> None:
    eve = await visit.token("eve")
    series = [{"wake_message": "m" * 200, "when": "every hour"} for _ in range(300)]
    assert (await visit("POST", "/v1/alarms/batch", {"alarms": series}, headers=eve)).json["created"] == 300
    answer = await visit("GET", "/v1/calendar.ics", headers=eve)
    assert answer.status == 200, answer.text
    assert answer.text.count("BEGIN:VEVENT") == 1000


async def filled(visit: Visitor, owner: str, count: int, words: str) -> None:
    """So many alarms of an owner, set by the program itself, which has no limits."""
    mine = visit.alarms.for_owner(owner)
    for at in range(0, count, 1000):
        some = range(at, min(at + 1000, count))
        await mine.create_many([CreateRequest(wake_message=f"{words} {n}", when="in 10 hours") for n in some])


async def test_a_search_through_very_many_alarms_comes_in_pages(database: dict[str, Any]) -> None:
    async with serving(**database, quota_active=100_000) as visit:
        eve = await visit.token("eve")
        await filled(visit, "eve", 6_500, "water the plants " * 10)
        cursor: str | None = ""
        pages = found = 0
        while cursor is not None:
            more = f"&cursor={cursor}" if cursor else ""
            answer = await visit("GET", f"/v1/alarms?q=plants%2011&limit=500{more}", headers=eve)
            assert answer.status == 200, answer.text
            pages, found = pages + 1, found + len(answer.json["alarms"])
            cursor = answer.json.get("next_cursor")
        assert found == 0  # "plants 11" is in none: blanks are doubled
        assert pages >= 2  # each looked at a part of them
        said = {"text": "no such word", "dry_run": True}
        answer = await visit("POST", "/v1/alarms/cancel", said, headers=eve)
        assert (answer.status, answer.json["cancelled"]) == (200, 0), answer.text


async def test_very_many_alarms_are_cancelled_while_others_are_served(database: dict[str, Any]) -> None:
    async with serving(**database) as visit:
        eve, ada = await visit.token("eve"), await visit.token("ada")
        await filled(visit, "eve", 600, "runaway")
        for method, path, body in (
            ("POST", "/v1/alarms/cancel", {"text": "runaway 1"}),
            ("DELETE", "/v1/alarms?all=true", None),
        ):
            cancelling = asyncio.create_task(visit(method, path, body, headers=eve))
            served = 0
            while not cancelling.done():
                answer = await visit("POST", "/v1/alarms", {"wake_message": "m", "when": "in 1 hour"}, headers=ada)
                assert answer.status in (201, 429), answer.text
                served += 1
            assert (await cancelling).status == 200
            assert served > 1
        left = await visit("GET", "/v1/alarms?status=active", headers=eve)
        assert left.json["alarms"] == []


async def test_the_calendar_feed_of_ten_thousand_alarms(database: dict[str, Any]) -> None:
    async with serving(**database) as visit:
        eve = await visit.token("eve")
        await filled(visit, "eve", 10_000, "tea " * 100)
        answer = await visit("GET", "/v1/calendar.ics", headers=eve)
        assert answer.status == 200, answer.text
        assert answer.text.count("BEGIN:VEVENT") == 1000
