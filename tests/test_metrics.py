"""The numbers: they move with real deliveries, and every one is documented."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.acting import acting
from tests.dispatcher.conftest import World, clock, outbox, place, store, world
from wakeful.dispatcher import ServedTarget
from wakeful.dispatcher.store_clock import ClockJumpDetector
from wakeful.errors import StoreUnavailable
from wakeful.model.alarm import Interface, SkipReason
from wakeful.model.outcome import Failed, Snoozed
from wakeful.model.requests import ReportRequest
from wakeful.rules.budget import Scope
from wakeful.runtime.metrics import COUNTERS, GAUGES, HISTOGRAMS, Metrics
from wakeful.service import Service
from wakeful.testing import ManualClock
from wakeful.testing.receiver import RecordingTarget

__all__ = ["clock", "outbox", "place", "store", "world"]

DOCS = Path(__file__).parent.parent / "docs"
METRICS: dict[str, tuple[str, ...]] = {
    **{name: labels for name, (labels, _) in [*COUNTERS.items(), *GAUGES.items()]},
    **{name: labels for name, (labels, _, _) in HISTOGRAMS.items()},
}


def read(metrics: Metrics, name: str, **labels: str) -> float | None:
    """One sample as a scraper reads it."""
    for family in text_string_to_metric_families(metrics.exposition()[0].decode()):
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return sample.value
    return None


def counted(world: World) -> Metrics:
    """The numbers of this world's first dispatcher and its service."""
    metrics = Metrics()
    world.service = Service(
        world.store, clock=world.clock, settings=world.settings, targets=world.served, metrics=metrics
    )
    world._dispatcher = world.another(metrics=metrics)
    return metrics


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_is_documented_with_its_labels(name: str) -> None:
    labels = METRICS[name]
    shown = "{" + ",".join(labels) + "}" if labels else ""
    assert f"| `{name}{shown}` |" in (DOCS / "metrics.md").read_text()


async def test_a_delivery_is_counted_on_its_whole_way(world: World) -> None:
    metrics = counted(world)
    await world.set(1, created_via="http")
    await world.run_due(3)
    assert read(metrics, "wakeful_creates_total", via="http") == 1
    assert read(metrics, "wakeful_claims_total") == 1
    assert read(metrics, "wakeful_leases_expired_total") == 0
    assert read(metrics, "wakeful_deliveries_total", target="desk", outcome="delivered") == 1
    assert read(metrics, "wakeful_delivery_seconds_count", target="desk") == 1
    assert read(metrics, "wakeful_fires_total", status="delivered", reason="") == 1
    assert read(metrics, "wakeful_settle_seconds_count") == 1


async def test_lateness_lands_in_the_bucket_of_the_first_attempt(world: World) -> None:
    metrics = counted(world)
    world.desk.answer(Failed("no"))
    await world.set(1)
    await world.run_due(1 + 7)
    assert read(metrics, "wakeful_lateness_seconds_bucket", le="5.0") == 0
    assert read(metrics, "wakeful_lateness_seconds_bucket", le="10.0") == 1
    assert read(metrics, "wakeful_lateness_seconds_sum") == 7
    await world.run_due(120)  # the retry is late on purpose
    assert len(world.desk.wakes) == 2
    assert read(metrics, "wakeful_lateness_seconds_count") == 1


async def test_what_waited_for_a_target_is_late_from_when_it_was_due(world: World) -> None:
    metrics = counted(world)
    world.desk.answer(Failed("HTTP 503", unhealthy=True, answered=True, retry_after=60))
    await world.set(1)
    await world.set(2)
    await world.run_due(1)
    await world.run_due(1)
    await world.run_due(70)  # the first is tried again, and the other waits for how that goes
    await world.run_due(2)
    assert len(world.desk.wakes) == 3
    assert read(metrics, "wakeful_lateness_seconds_sum") == 72


async def test_an_alarm_on_time_is_in_the_smallest_bucket(world: World) -> None:
    metrics = counted(world)
    await world.set(1)
    await world.run_due(1)
    assert read(metrics, "wakeful_lateness_seconds_bucket", le="0.001") == 1


async def test_ends_are_counted_by_status_and_reason_and_retries_are_no_end(world: World) -> None:
    metrics = counted(world)
    world.desk.answer(Failed("no"), Failed("no"), Snoozed(wait=timedelta(minutes=1)))
    await world.set(1, max_failures=1)
    await world.run_due(1)
    assert read(metrics, "wakeful_fires_total", status="retrying", reason="") is None
    await world.run_due(120)
    assert read(metrics, "wakeful_fires_total", status="failed", reason="exhausted") == 1
    assert read(metrics, "wakeful_deliveries_total", target="desk", outcome="failed") == 2
    await world.set(1)
    await world.run_due(1)
    assert read(metrics, "wakeful_fires_total", status="snoozed", reason="") == 1


@pytest.mark.parametrize("reason", get_args(SkipReason))
def test_every_reason_of_a_skip_has_a_label_of_its_own(reason: str) -> None:
    metrics = Metrics()
    metrics.ended("skipped", reason, 2)
    assert read(metrics, "wakeful_fires_total", status="skipped", reason=reason) == 2


async def test_reports_and_silence_are_counted_once(world: World) -> None:
    metrics = counted(world)
    alarm = await world.set(1, policy={"report_within": 60})
    await world.run_due(1)
    await acting(world.service, "").report(alarm.fire_id, ReportRequest(outcome="working"))
    assert read(metrics, "wakeful_fires_total", status="delivered", reason="") == 1
    await acting(world.service, "").report(alarm.fire_id, ReportRequest(outcome="completed", result="ok"))
    assert read(metrics, "wakeful_fires_total", status="completed", reason="") == 1
    await world.set(1, policy={"report_within": 60, "on_silence": "give_up"})
    await world.run_due(1)
    await world.run_due(61)
    assert read(metrics, "wakeful_fires_total", status="timed_out", reason="") == 1


async def test_silence_is_counted_when_the_last_try_got_no_report(world: World) -> None:
    metrics = counted(world)
    await world.set(1, max_failures=1, policy={"report_within": 60})
    await world.run_due(1)
    await world.run_due(61)
    assert not read(metrics, "wakeful_fires_total", status="timed_out", reason="")
    await world.run_due(60)
    await world.run_due(61)
    assert read(metrics, "wakeful_deliveries_total", target="desk", outcome="delivered") == 2
    assert read(metrics, "wakeful_fires_total", status="timed_out", reason="") == 1


async def test_a_lease_that_ran_out_is_counted(world: World) -> None:
    metrics = counted(world)
    await world.set(1)
    await world.clock.advance(1)
    await world.store.claim({"desk": 1}, lease=world.settings.lease)  # by a worker that dies
    await world.run_due(world.settings.lease)
    assert read(metrics, "wakeful_leases_expired_total") == 1
    assert read(metrics, "wakeful_lateness_seconds_bucket", le="60.0") == 0


async def test_a_clock_that_jumps_is_counted_and_a_slow_claim_is_not(clock: ManualClock) -> None:
    metrics = Metrics()
    jumps = ClockJumpDetector(metrics)
    jumps.observe(clock.now(), sent=10.0, received=10.1)
    await clock.advance(5)
    jumps.observe(clock.now(), sent=15.0, received=15.1)
    assert read(metrics, "wakeful_clock_jumps_total") == 0
    clock.set_back(3600)
    jumps.observe(clock.now(), sent=15.1, received=25.0)
    assert read(metrics, "wakeful_clock_jumps_total") == 0
    jumps.observe(clock.now(), sent=25.0, received=25.1)
    assert read(metrics, "wakeful_clock_jumps_total") == 1


async def test_a_store_that_is_away_is_counted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = counted(world)

    async def away(*_: object, **__: object) -> None:
        world.dispatcher.stop()
        raise StoreUnavailable("away")

    monkeypatch.setattr(world.store, "claim", away)
    await world.dispatcher.run()
    assert read(metrics, "wakeful_store_errors_total") == 1


async def test_the_backlog_of_a_paused_target_is_told(world: World) -> None:
    metrics = counted(world)
    await world.service.targets.pause("desk")
    for delay in (1, 2, 500):
        await world.set(delay)
    assert await world.run_due(11) == 0
    due = await world.store.maintenance.backlog(lease=world.settings.lease)
    metrics.backlog(due, ["desk", "door"], now=world.clock.now())
    assert read(metrics, "wakeful_due_backlog", target="desk") == 2
    assert read(metrics, "wakeful_due_oldest_seconds", target="desk") == 10
    assert read(metrics, "wakeful_due_backlog", target="door") == 0


async def test_a_breaker_that_opened_is_told(world: World) -> None:
    metrics = counted(world)
    sick = RecordingTarget(*(Failed("down", unhealthy=True) for _ in range(20)))
    world.served["sick"] = ServedTarget(sick, 64)
    for _ in range(6):
        await world.set(1, target="sick")
    await world.run_due(1)
    pulse = world.dispatcher.health
    metrics.dispatching(pulse.in_flight, pulse.breakers)
    assert read(metrics, "wakeful_breaker_open", target="sick") == 1
    assert read(metrics, "wakeful_breaker_open", target="desk") == 0
    assert read(metrics, "wakeful_inflight") == 0


async def test_owners_whose_wakes_wait_are_counted_and_not_named(world: World) -> None:
    metrics = counted(world)
    sick = RecordingTarget(*(Failed("HTTP 500", unhealthy=True, answered=True) for _ in range(20)))
    world.served["sick"] = ServedTarget(sick, 64)
    for _ in range(6):
        await world.set(1, target="sick")
    await world.run_due(1)
    pulse = world.dispatcher.health
    metrics.dispatching(pulse.in_flight, pulse.breakers, pulse.held)
    assert read(metrics, "wakeful_owners_held", target="sick") == 1
    assert read(metrics, "wakeful_owners_held", target="desk") == 0
    assert read(metrics, "wakeful_breaker_open", target="sick") == 0


@pytest.mark.parametrize("via", get_args(Interface))
def test_every_interface_is_counted_under_its_own_name(via: str) -> None:
    metrics = Metrics()
    metrics.created(via)
    assert read(metrics, "wakeful_creates_total", via=via) == 1
    assert f"`{via}`" in (DOCS / "metrics.md").read_text()


def test_what_callers_write_never_becomes_a_label() -> None:
    metrics = Metrics()
    metrics.created("did:matrix:mallory")
    metrics.answered("none", "BREW", 405, 0.1)
    told = metrics.exposition()[0].decode()
    assert "mallory" not in told
    assert "BREW" not in told
    assert read(metrics, "wakeful_creates_total", via="other") == 1
    assert read(metrics, "wakeful_http_requests_total", route="none", method="other", status="405") == 1


def test_owners_are_nowhere_among_the_labels() -> None:
    assert not {"owner", "owner_did", "user_id", "alarm_id"} & {
        label for labels in METRICS.values() for label in labels
    }


@pytest.mark.parametrize("accept", ["", "text/plain", "application/openmetrics-text; version=1.0.0", "*/*"])
def test_it_is_told_in_the_kind_of_text_that_was_asked_for(accept: str) -> None:
    text, kind = Metrics(version="1", store="sqlite").exposition(accept)
    assert b"wakeful_build_info{" in text
    assert kind.startswith("application/openmetrics-text" if "openmetrics" in accept else "text/plain")


def test_wakes_over_a_budget_are_counted_from_the_start_for_every_scope() -> None:
    fresh = Metrics()
    for scope in get_args(Scope):
        for action in ("deferred", "skipped"):
            assert read(fresh, "wakeful_over_budget_total", scope=scope, action=action) == 0.0
