"""The next fire of a series is skipped on request: it is not delivered, the one after it is, and why is on record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from wakeful.errors import Conflict, InvalidRequest, NotFound
from wakeful.model.alarm import Change
from wakeful.python.client import LocalWakeful
from wakeful.rules.wake import Wake
from wakeful.store import Store
from wakeful.testing import NEW_YEAR, ManualClock

from .world import HOUR, ends, waking

DAY = timedelta(days=1)
FIRST = NEW_YEAR + 9 * HOUR


@pytest.fixture
def wake_me(store: Store, clock: ManualClock) -> LocalWakeful:
    return waking(store, clock)


async def test_it_is_not_delivered_and_the_one_after_it_is(wake_me: LocalWakeful, clock: ManualClock) -> None:
    alarm = await wake_me.set("every day at 9am", "brief")
    skipped = await wake_me.skip(alarm.id)
    assert (skipped.alarm.next_fire_at, skipped.in_flight, skipped.alarm.status) == (FIRST + DAY, False, "active")
    await clock.advance(10 * HOUR)
    await wake_me.run_due()
    assert await wake_me.inbox() == []
    await clock.advance(DAY)
    await wake_me.run_due()
    [(_, fire)] = await wake_me.inbox()
    assert fire.scheduled_for == FIRST + DAY
    assert await ends(wake_me, alarm.id) == [("delivered", ""), ("skipped", "requested")]


async def test_why_and_history_say_who_asked_for_it(wake_me: LocalWakeful) -> None:
    alarm = await wake_me.set("every day at 9am", "brief")
    await wake_me.skip(alarm.id[:30])
    why = await wake_me.why(alarm.id)
    assert why.summary.startswith("It fires at 2030-01-02T09:00:00Z")
    assert why.summary.endswith("The fire of 2030-01-01T09:00:00Z was skipped on request by python.")
    assert any(f"skipped by python: the fire of {FIRST.isoformat()}" in fact for fact in why.facts)
    [entry] = await wake_me.history(status="skipped")
    assert (entry.reason, entry.result) == ("requested", "skipped on request by python")
    assert [str(at) for at, _ in await wake_me.agenda(hours=48)] == ["2030-01-02 09:00:00+00:00"]


async def test_a_retry_that_was_skipped_is_said_as_such(wake_me: LocalWakeful, clock: ManualClock) -> None:
    @wake_me.handler("desk")
    async def fail(_: Wake) -> None:
        raise ValueError("no")

    alarm = await wake_me.set("every day at 9am", "brief", target="desk")
    await clock.advance(9 * HOUR)
    await wake_me.run_due()
    assert await ends(wake_me, alarm.id) == [("retrying", "")]
    await wake_me.skip(alarm.id, at=FIRST)
    assert await ends(wake_me, alarm.id) == [("failed", "requested")]
    assert "its retries were skipped on request" in (await wake_me.why(alarm.id)).summary


@pytest.mark.parametrize(
    "at",
    [FIRST, FIRST.timestamp(), "2030-01-01T10:00:00+01:00", "2030-01-01T09:00:00Z", "2030-01-01 09:00", "9am"],
)
async def test_the_one_that_is_meant_is_a_moment_or_a_phrase(wake_me: LocalWakeful, at: Any) -> None:
    alarm = await wake_me.set("every day at 9am", "brief")
    assert (await wake_me.skip(alarm.id, at=at)).alarm.next_fire_at == FIRST + DAY


async def test_a_phrase_is_read_in_the_alarms_own_zone(wake_me: LocalWakeful) -> None:
    alarm = await wake_me.set("every day at 9am", "brief", timezone="Asia/Tokyo")
    assert (await wake_me.skip(alarm.id, at="9am")).alarm.next_fire_at == alarm.next_fire_at + DAY


@pytest.mark.parametrize("at", ["soonish", "every day at 9am", "", True])
async def test_what_is_not_a_moment_is_refused(wake_me: LocalWakeful, at: Any) -> None:
    alarm = await wake_me.set("every day at 9am", "brief")
    with pytest.raises(InvalidRequest) as refused:
        await wake_me.skip(alarm.id, at=at)
    assert refused.value.field == "at"
    assert await wake_me.get(alarm.id) == alarm


async def test_another_than_the_next_one_changes_nothing(wake_me: LocalWakeful) -> None:
    alarm = await wake_me.set("every day at 9am", "brief")
    with pytest.raises(Conflict) as refused:
        await wake_me.skip(alarm.id, at=FIRST + DAY)
    assert f"the next fire is the one of {FIRST.isoformat()}" in refused.value.message
    assert await wake_me.get(alarm.id) == alarm
    assert await ends(wake_me, alarm.id) == []


async def test_a_claimed_one_is_refused_until_its_lease_is_over(
    wake_me: LocalWakeful, store: Store, clock: ManualClock
) -> None:
    alarm = await wake_me.set("every day at 9am", "brief")
    await clock.advance(9 * HOUR)
    assert (await store.claim({"inbox": 1}, lease=wake_me.settings.lease)).alarms
    with pytest.raises(Conflict, match="is being delivered right now"):
        await wake_me.skip(alarm.id)
    assert await ends(wake_me, alarm.id) == []
    await clock.advance(wake_me.settings.lease)
    skipped = await wake_me.skip(alarm.id)
    assert (skipped.in_flight, skipped.alarm.next_fire_at) == (True, FIRST + DAY), "its worker may still come back"


@pytest.mark.parametrize("meanwhile", ["skip", "update"])
async def test_where_somebody_else_is_faster_the_one_after_is_not_skipped_in_its_place(
    wake_me: LocalWakeful, meanwhile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alarm = await wake_me.set("every day at 9am", "brief")
    store = wake_me.service.store
    settle = store.settle
    others: dict[str, Callable[[], Awaitable[Any]]] = {
        "skip": lambda: wake_me.skip(alarm.id),
        "update": lambda: wake_me.update(alarm.id, when="every day at 10am"),
    }

    async def overtaken(changes: Sequence[Change]) -> Any:
        monkeypatch.undo()
        await others[meanwhile]()
        return await settle(changes)

    monkeypatch.setattr(store, "settle", overtaken)
    with pytest.raises(Conflict) as refused:
        await wake_me.skip(alarm.id)
    assert refused.value.field == "at"
    expected = FIRST + DAY if meanwhile == "skip" else FIRST + HOUR
    assert (await wake_me.get(alarm.id)).next_fire_at == expected


async def test_where_only_its_words_were_changed_meanwhile_it_is_skipped(
    wake_me: LocalWakeful, monkeypatch: pytest.MonkeyPatch
) -> None:
    alarm = await wake_me.set("every day at 9am", "brief")
    store = wake_me.service.store
    settle = store.settle

    async def overtaken(changes: Sequence[Change]) -> Any:
        monkeypatch.undo()
        await wake_me.update(alarm.id, label="new")
        return await settle(changes)

    monkeypatch.setattr(store, "settle", overtaken)
    skipped = await wake_me.skip(alarm.id)
    assert (skipped.alarm.label, skipped.alarm.next_fire_at) == ("new", FIRST + DAY)


async def test_nobody_else_skips_it(wake_me: LocalWakeful) -> None:
    alarm = await wake_me.set("every day at 9am", "brief")
    for at in (None, "9am"):
        with pytest.raises(NotFound):
            await wake_me.for_owner("eve").skip(alarm.id, at=at)
    assert await wake_me.get(alarm.id) == alarm


async def test_a_wake_does_not_count_what_was_skipped_on_request_as_missed(
    wake_me: LocalWakeful, clock: ManualClock
) -> None:
    alarm = await wake_me.set("every day at 9am", "brief", policy={"overlap": "allow"})
    await clock.advance(9 * HOUR)
    await wake_me.run_due()
    await wake_me.skip(alarm.id)
    await clock.advance(25 * HOUR)
    [taken] = await wake_me.inbox()
    assert taken.missed == 0
