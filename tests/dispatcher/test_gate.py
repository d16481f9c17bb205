"""The wake gate on both stores: who is woken, who is not, and what is on record of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from tests.acting import acting
from wakeful.errors import InvalidRequest, StoreUnavailable
from wakeful.model.limits import OwnerLimits
from wakeful.model.outcome import Delivered, Failed, Outcome
from wakeful.model.requests import EditRequest, PolicyRequest
from wakeful.rules.wake import Wake
from wakeful.runtime.metrics import Metrics
from wakeful.settings.tables import BudgetSettings, CheckSettings
from wakeful.store import EventQuery
from wakeful.testing.conformance import Outbox
from wakeful.testing.receiver import Receiver

from .conftest import OWNER, World

HOUR = 3600


def checks(world: World, **given: dict[str, Any]) -> None:
    world.settings = replace(
        world.settings, checks={name: CheckSettings(**settings) for name, settings in given.items()}
    )
    world.service.settings = world.settings


def found(world: World) -> list[str]:
    return [wake.check.found if wake.check else "" for wake in world.desk.wakes]


async def reasons(world: World, alarm: Any) -> list[tuple[str, str]]:
    return [(fire.status, fire.reason) for fire in reversed(await world.fires(alarm))]


async def test_a_row_that_changes_wakes_and_one_that_does_not_is_skipped(world: World, outbox: Outbox) -> None:
    checks(world, mail={"sql": f"select count(*) from {outbox.table}"})
    alarm = await world.set(cron="0 * * * *", policy={"only_if": "mail"})
    for _ in range(3):
        await world.run_due(HOUR)
    assert found(world) == ["first"]
    await outbox.run(f"insert into {outbox.table} values ('f1', 'hello')")
    for _ in range(2):
        await world.run_due(HOUR)
    assert found(world) == ["first", "changed"]
    skipped = ("skipped", "unchanged")
    delivered = ("delivered", "")
    assert await reasons(world, alarm) == [delivered, skipped, skipped, delivered, skipped]
    assert (await world.read(alarm)).fire_count == 2
    why = await acting(world.service, OWNER).why(alarm.id)
    assert "was skipped: the check that it waits for (`only_if`) found nothing new." in why.summary


@pytest.mark.parametrize(
    ("changed", "answers"),
    [
        ("status", [{"status": 200}, {"status": 200}, {"status": 500}]),
        ("etag", [{"headers": {"etag": '"1"'}}, {"headers": {"etag": '"1"'}}, {"headers": {"ETag": '"2"'}}]),
        (
            "/items/0/id",
            [{"body": '{"items": [{"id": 7}]}'}, {"body": '{"n": 2, "items": [{"id": 7}]}'}, {"body": "{}"}],
        ),
    ],
)
async def test_an_answer_that_changes_wakes(world: World, changed: str, answers: list[dict[str, Any]]) -> None:
    async with Receiver() as receiver:
        checks(world, page={"url": receiver.url, "changed": changed, "allow_private": True})
        alarm = await world.set(cron="0 * * * *", policy={"only_if": "page"})
        for answer in answers:
            receiver.answer(**answer)
            await world.run_due(HOUR)
        assert found(world) == ["first", "changed"]
        assert [status for status, _ in await reasons(world, alarm)] == ["delivered", "skipped", "delivered"]


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"changed": "etag"}, "its answer has no ETag"),
        ({"changed": "/a"}, "its answer is not JSON"),
        ({"changed": "status", "allow_private": False}, "private"),
    ],
)
async def test_a_gate_that_fails_opens_and_says_so(world: World, settings: dict[str, Any], error: str) -> None:
    async with Receiver() as receiver:
        checks(world, page={"url": receiver.url, "allow_private": True} | settings)
        alarm = await world.set(cron="0 * * * *", policy={"only_if": "page"})
        for _ in range(2):
            await world.run_due(HOUR)
    assert found(world) == ["failed", "failed"]
    events = [
        event for _, event in await world.store.events(EventQuery(alarm_id=alarm.id)) if event.what == "check_failed"
    ]
    assert len(events) == 2
    assert error in events[0].reason
    assert receiver.url not in events[0].reason
    why = await acting(world.service, OWNER).why(alarm.id)
    assert any("check_failed: the check 'page' failed, so the wake was sent" in fact for fact in why.facts)


async def test_what_an_answer_says_stays_with_the_operator(world: World) -> None:
    async with Receiver() as receiver:
        receiver.answer(503, body="internal-host-name")
        checks(world, page={"url": receiver.url, "changed": "etag", "allow_private": True})
        alarm = await world.set(cron="0 * * * *", policy={"only_if": "page"})
        await world.run_due(HOUR)
    [(_, event)] = await world.store.events(EventQuery(alarm_id=alarm.id))
    assert event.reason == "the check 'page' failed, so the wake was sent: HTTP 503"


async def test_a_query_that_fails_says_nothing_of_the_database(world: World) -> None:
    checks(world, page={"sql": "select secret_column from nowhere"})
    alarm = await world.set(cron="0 * * * *", policy={"only_if": "page"})
    await world.run_due(HOUR)
    assert found(world) == ["failed"]
    [(_, event)] = await world.store.events(EventQuery(alarm_id=alarm.id))
    assert event.reason == "the check 'page' failed, so the wake was sent: it cannot be looked at"


async def test_a_check_that_was_removed_opens(world: World) -> None:
    checks(world, page={"sql": "select 1"})
    alarm = await world.set(cron="0 * * * *", policy={"only_if": "page"})
    checks(world)
    await world.run_due(HOUR)
    assert found(world) == ["failed"]
    await acting(world.service, OWNER).edit(alarm.id, EditRequest(label="still to be edited"))


async def test_a_change_is_not_lost_with_a_wake_that_fails(world: World) -> None:
    checks(world, page={"sql": "select 1"})
    alarm = await world.set(cron="0 * * * *", policy={"only_if": "page"}, max_failures=1)
    world.desk.answer(Failed("no"), Failed("no"))
    await world.run_due(HOUR)
    await world.run_due(60)
    assert found(world) == ["first", "first"]
    await world.run_due(HOUR)
    await world.run_due(HOUR)
    assert found(world) == ["first"] * 3
    assert [status for status, _ in await reasons(world, alarm)] == ["failed", "delivered", "skipped"]


async def test_a_retry_that_arrives_has_told_of_it(world: World) -> None:
    checks(world, page={"sql": "select 1"})
    await world.set(cron="0 * * * *", policy={"only_if": "page"})
    world.desk.answer(Failed("no"))
    await world.run_due(HOUR)
    await world.run_due(60)
    await world.run_due(HOUR)
    assert found(world) == ["first", "first"]


async def test_what_a_signal_asks_for_comes_though_nothing_changed(world: World) -> None:
    checks(world, page={"sql": "select 1"})
    await world.set(cron="0 * * * *", policy={"only_if": "page", "or_when": "now"})
    await world.run_due(HOUR)
    await world.clock.advance(60)
    await acting(world.service, OWNER).signal("now")
    await world.run_due()
    await world.run_due(HOUR)
    assert found(world) == ["first", "unchanged"]


async def test_a_skipped_wake_is_not_counted_against_a_budget(world: World) -> None:
    checks(world, page={"sql": "select 1"})
    budget = BudgetSettings(owners={OWNER: OwnerLimits(owner_wakes_per_day=2)})
    world.settings = replace(world.settings, budget=budget)
    alarm = await world.set(cron="0 * * * *", policy={"only_if": "page"})
    for _ in range(4):
        await world.run_due(HOUR)
    assert ("skipped", "budget") not in await reasons(world, alarm)


async def test_a_slow_check_holds_up_nobody_else(world: World) -> None:
    asked, answered = asyncio.Event(), asyncio.Event()

    async def slowly(_: web.Request) -> web.StreamResponse:
        asked.set()
        await answered.wait()
        return web.Response()

    class Desk:
        async def deliver(self, wake: Wake) -> Outcome:
            await asked.wait()  # it is looked at, and not answered yet
            answered.set()
            return Delivered()

        async def close(self) -> None: ...

    async with Receiver() as receiver:
        receiver.answer_with(slowly)
        checks(world, page={"url": receiver.url, "allow_private": True, "timeout": 30})
        await world.set(cron="0 * * * *", policy={"only_if": "page"})
        world.serve("other", Desk())
        quick = await world.set(HOUR, target="other")
        async with asyncio.timeout(60):
            await world.run_due(HOUR)
        assert (await world.read(quick)).status == "fired"
        assert found(world) == ["first"]


async def test_one_that_does_not_answer_in_time_opens(world: World) -> None:
    async with Receiver() as receiver:
        receiver.hang()
        checks(world, page={"url": receiver.url, "allow_private": True, "timeout": "50ms"})
        await world.set(cron="0 * * * *", policy={"only_if": "page"})
        await world.run_due(HOUR)
        assert found(world) == ["failed"]
        assert world.desk.wakes[0].check is not None
        assert world.desk.wakes[0].check.error == "no answer within 0.05 s"


async def test_without_the_store_it_waits(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    checks(world, page={"sql": "select 1"})
    alarm = await world.set(cron="0 * * * *", policy={"only_if": "page"})
    seen = world.store.access.check_value

    async def away(*_: Any) -> str | None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(world.store.access, "check_value", away)
    await world.run_due(HOUR)
    assert found(world) == []
    monkeypatch.setattr(world.store.access, "check_value", seen)
    await world.run_due(5)
    assert found(world) == ["first"]
    assert [status for status, _ in await reasons(world, alarm)] == ["delivered"]


async def test_only_what_the_operator_defined_can_be_named(world: World) -> None:
    checks(world, page={"sql": "select 1"}, mail={"sql": "select 2"})
    ada = acting(world.service, OWNER)
    for policy, when, what in (
        ({"only_if": "pages"}, "every hour", "there is no check 'pages'"),
        ({"only_if": "page"}, "in 1 hour", "nothing to compare with"),
    ):
        with pytest.raises(InvalidRequest, match=what) as refused:
            await ada.set(when, "x", target="desk", policy=policy)  # type: ignore[arg-type]
        assert refused.value.field == "policy.only_if"
    assert await ada.find() == []
    alarm = await ada.set("every hour", "x", target="desk", policy={"only_if": "page"})
    with pytest.raises(InvalidRequest, match="Known are: mail, page"):
        await ada.edit(alarm.id, EditRequest(policy=PolicyRequest(only_if="pages")))
    with pytest.raises(InvalidRequest, match="nothing to compare with"):
        await ada.edit(alarm.id, EditRequest(when="in 1 hour", kind="once"))
    assert (await ada.edit(alarm.id, EditRequest(policy=PolicyRequest(only_if=None)))).alarm.policy.only_if is None


async def test_looks_are_counted(world: World) -> None:
    metrics = Metrics()
    checks(world, page={"sql": "select 1"})
    world._dispatcher = world.another(metrics=metrics)
    await world.set(cron="0 * * * *", policy={"only_if": "page"})
    for _ in range(3):
        await world.run_due(HOUR)
    assert metrics._counts["wakeful_checks_total"] == {("first",): 1, ("unchanged",): 2}
