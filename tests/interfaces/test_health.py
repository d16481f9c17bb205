"""What operators ask a process: its numbers, and whether it should get traffic."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.interfaces.world import Visitor, serving
from wakeful.dispatcher import DispatcherHealth
from wakeful.errors import StoreUnavailable
from wakeful.http.health import judged
from wakeful.http.security.guard import Refusal
from wakeful.testing import store_of


async def scraped(visit: Visitor, **more: Any) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    answer = await visit("GET", "/metrics", **more)
    assert answer.status == 200, answer.text
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


async def test_a_scrape_tells_what_happened(visit: Visitor) -> None:
    await visit.fired()
    await visit.set()
    await visit("GET", "/v1/alarms/nope")
    await visit("GET", "/nowhere")
    told = await scraped(visit)
    assert told["wakeful_fires_total", (("reason", ""), ("status", "delivered"))] == 1
    assert told["wakeful_deliveries_total", (("outcome", "delivered"), ("target", "agent"))] == 1
    assert told["wakeful_creates_total", (("via", "http"),)] == 1
    assert told["wakeful_creates_total", (("via", "python"),)] == 1
    assert told["wakeful_lateness_seconds_count", ()] == 1
    assert told["wakeful_due_backlog", (("target", "agent"),)] == 0
    assert told["wakeful_inflight", ()] == 0
    requests = [labels for name, labels in told if name == "wakeful_http_requests_total"]
    assert (("method", "POST"), ("route", "/v1/alarms"), ("status", "201")) in requests
    assert (("method", "GET"), ("route", "/v1/alarms/{id}"), ("status", "404")) in requests
    assert (("method", "GET"), ("route", "none"), ("status", "404")) in requests
    assert "local" not in {value for _, labels in told for _, value in labels}


async def test_a_scrape_while_the_store_is_away_tells_the_rest(visit: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(**_: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(store_of(visit.alarms).maintenance, "backlog", away)
    told = await scraped(visit)
    assert told["wakeful_store_errors_total", ()] == 1
    assert not any(name.startswith("wakeful_due_") for name, _ in told)


async def test_once_there_are_tokens_the_numbers_are_for_admins(tmp_path: Path) -> None:
    from wakeful.http.security.auth import mint

    async with serving(str(tmp_path / "w.db"), did_auth=True) as visit:
        now = await store_of(visit.alarms).now()
        held: dict[str, str] = {}
        for scope in ("read", "admin"):
            held[scope], token = mint("ops", [scope], now=now)
            await store_of(visit.alarms).access.add_token(token)
        assert (await visit("GET", "/metrics")).status == 401
        assert (await visit("GET", "/metrics", headers={"authorization": f"Bearer {held['read']}"})).status == 403
        assert await scraped(visit, headers={"authorization": f"Bearer {held['admin']}"})
        assert (await visit("GET", "/readyz")).status == 200


async def test_a_process_that_is_well_is_ready(visit: Visitor) -> None:
    answer = await visit("GET", "/readyz")
    assert answer.status == 200
    assert answer.json["dispatcher"] == "running"
    assert 0 <= answer.json["heartbeat_age_seconds"] < visit.alarms.settings.lease.total_seconds()
    assert (await visit("HEAD", "/readyz")).status == 200
    assert (await visit("POST", "/readyz")).status == 405


async def test_it_is_not_ready_when_the_store_is_away(visit: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away() -> None:
        raise StoreUnavailable("the disk is gone")

    monkeypatch.setattr(store_of(visit.alarms).maintenance, "target_states", away)
    assert (await visit("GET", "/readyz")).told == (503, "store_unavailable", "")


async def test_it_is_not_ready_when_the_store_hangs(visit: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    store, goes_on = store_of(visit.alarms), asyncio.Event()
    target_states = store.maintenance.target_states

    async def hangs() -> object:
        await goes_on.wait()
        return await target_states()

    monkeypatch.setattr("wakeful.http.health.ANSWER_WITHIN", 0.05)
    monkeypatch.setattr(store.maintenance, "target_states", hangs)
    assert (await visit("GET", "/readyz")).told == (503, "store_unavailable", "")
    goes_on.set()  # the dispatcher may be asking for them too, and cannot stop before it knows


async def test_it_is_not_ready_once_its_dispatcher_has_ended(visit: Visitor) -> None:
    visit.alarms.dispatcher._state = "ended"
    assert (await visit("GET", "/readyz")).told == (503, "not_ready", "")


async def test_a_dispatcher_that_died_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wakeful.process.application import build
    from wakeful.settings import Settings

    async def dies(_: object) -> float:
        raise RuntimeError("a bug")

    monkeypatch.setattr("wakeful.dispatcher.Dispatcher._step", dies)
    async with build(Settings(db=str(tmp_path / "w.db"), stop_within=timedelta(seconds=1))) as alarms:
        assert alarms.dispatcher.health.state == "idle"
        with pytest.raises(RuntimeError, match="a bug"):
            await alarms.run()
        assert alarms.dispatcher.health.state == "ended"


async def test_a_dispatcher_that_is_told_to_stop_is_stopping(visit: Visitor) -> None:
    visit.alarms.dispatcher._deliveries.stopping = True
    assert visit.alarms.dispatcher.health.state == "stopping"


@pytest.mark.parametrize(
    "pulse",
    [
        DispatcherHealth("running", 30.1),
        DispatcherHealth("running", stalled=30.1),
        DispatcherHealth("stopping"),
        DispatcherHealth("ended"),
    ],
)
def test_a_dispatcher_that_is_not_well_is_refused(pulse: DispatcherHealth) -> None:
    with pytest.raises(Refusal) as refusal:
        judged(pulse)
    assert (refusal.value.status, refusal.value.code) == (503, "not_ready")


@pytest.mark.parametrize(
    "pulse", [None, DispatcherHealth("idle", 1e9), DispatcherHealth("running", 29.9, stalled=29.9)]
)
def test_a_dispatcher_that_is_well_or_elsewhere_is_no_trouble(pulse: DispatcherHealth | None) -> None:
    assert judged(pulse)["dispatcher"]


async def test_a_request_leaves_a_line_at_debug_without_its_path(
    visit: Visitor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="wakeful.http")
    await visit("GET", "/v1/alarms/secret-id?token=hunter2")
    [record] = [record for record in caplog.records if record.name == "wakeful.http"]
    assert (record.levelno, record.__dict__["route"], record.__dict__["status"]) == (
        logging.DEBUG,
        "/v1/alarms/{id}",
        400,
    )
    assert "secret-id" not in str(record.__dict__)
    assert "hunter2" not in str(record.__dict__)
