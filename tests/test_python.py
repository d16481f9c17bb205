"""The clock a Python program holds, on both stores: every verb, the handlers, and the plain front."""

from __future__ import annotations

import asyncio
import inspect
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

import wakeful
from tests.databases import database_of
from wakeful.client import Wakeful
from wakeful.sync import SyncWakeful
from wakeful.testing import NEW_YEAR, ManualClock

Place = dict[str, Any]


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return database_of(request, tmp_path)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def test_an_alarm_is_set_fired_and_explained(place: Place, clock: ManualClock) -> None:
    async with wakeful.open(**place, clock=clock) as wake_me:

        @wake_me.handler("ops")
        async def ops(wake: wakeful.Wake) -> str:
            assert wake.payload == {"page": 3}
            return f"read {wake.message}"

        alarm = await wake_me.set("in 30 minutes", "the grant portal", payload={"page": 3}, target="ops")
        assert alarm.next_fire_at == NEW_YEAR + timedelta(minutes=30)
        assert "in 30 min" in (await wake_me.why(alarm.id)).summary
        await clock.advance(timedelta(minutes=30))
        assert await wake_me.run_due() == 1
        [fire] = await wake_me.fires(alarm.id)
        assert (fire.status, fire.result) == ("completed", "read the grant portal")
        assert (await wake_me.stats()).completed == 1
        assert "completed on time" in (await wake_me.why(fire.id)).summary


async def test_a_handler_that_raises_is_retried_and_one_that_snoozes_comes_again(
    place: Place, clock: ManualClock
) -> None:
    async with wakeful.open(**place, clock=clock) as wake_me:
        tries = []

        @wake_me.handler("ops")
        def ops(wake: wakeful.Wake) -> None:
            tries.append(wake.attempt)
            if len(tries) == 1:
                raise ValueError("not yet")
            if len(tries) == 2:
                raise wakeful.Snooze("15m")

        alarm = await wake_me.set(delay="1s", wake_message="go", target="ops")
        await clock.advance(1)
        await wake_me.run_due()
        assert (await wake_me.get(alarm.id)).last_error == "ValueError: not yet"
        await clock.advance(33)
        await wake_me.run_due()
        await clock.advance(timedelta(minutes=15))
        await wake_me.run_due()
        assert [fire.status for fire in await wake_me.fires(alarm.id)] == ["completed", "snoozed"]
        assert tries == [1, 2, 1]


async def test_the_same_key_gives_the_same_alarm(place: Place, clock: ManualClock) -> None:
    async with wakeful.open(**place, clock=clock) as wake_me:
        first = await wake_me.set(delay=60, wake_message="one", key="k")
        await clock.advance(30)
        assert await wake_me.set(delay=60, wake_message="one", key="k") == first
        assert await wake_me.set(delay=90, wake_message="two", key="k", on_conflict="return") == first
        with pytest.raises(wakeful.Conflict, match="already has the key"):
            await wake_me.set(delay=90, wake_message="two", key="k", on_conflict="error")
        replaced = await wake_me.set(delay=90, wake_message="two", key="k", on_conflict="replace")
        assert (replaced.id, replaced.wake_message, replaced.version) == (first.id, "two", 2)
        assert replaced.next_fire_at == NEW_YEAR + timedelta(seconds=30 + 90)


async def test_a_finished_alarm_is_set_anew_by_replacing_it(place: Place, clock: ManualClock) -> None:
    async with wakeful.open(**place, clock=clock) as wake_me:
        first = await wake_me.set(delay=1, wake_message="one", key="k")
        await wake_me.cancel(first.id)
        await wake_me.set(delay=60, wake_message="two", key="k", on_conflict="replace")
        assert (await wake_me.get(first.id)).status == "active"


async def test_an_edit_of_what_has_changed_meanwhile_is_refused(place: Place, clock: ManualClock) -> None:
    async with wakeful.open(**place, clock=clock) as wake_me:
        alarm = await wake_me.set(delay=60, wake_message="one")
        edited = await wake_me.update(alarm.id, label="first", version=1)
        assert edited.version == 2
        with pytest.raises(wakeful.StaleVersion):
            await wake_me.update(alarm.id, label="second", version=1)
        assert (await wake_me.get(alarm.id)).label == "first"
        moved = await wake_me.update(alarm.id, when="in 2 hours", version=2)
        assert moved.next_fire_at == NEW_YEAR + timedelta(hours=2)


async def test_a_payload_comes_back_byte_for_byte(place: Place, clock: ManualClock) -> None:
    raw = b'{ "b":1,\t"a": 1e2, "b": 2, "\xc3\xa9": "\\u00e9" }'
    seen = []
    async with wakeful.open(**place, clock=clock) as wake_me:
        wake_me.handler("ops")(lambda wake: seen.append(wake.payload_json.encode()))
        alarm = await wake_me.set(delay=1, wake_message="go", payload=msgspec.Raw(raw), target="ops")
        assert (await wake_me.get(alarm.id)).payload.encode() == raw
        await clock.advance(1)
        await wake_me.run_due()
    assert seen == [raw]


async def test_pausing_resuming_snoozing_firing_and_resetting(place: Place, clock: ManualClock) -> None:
    async with wakeful.open(**place, clock=clock) as wake_me:
        alarm = await wake_me.set(cron="0 * * * *", wake_message="hourly")
        assert (await wake_me.pause(alarm.id, reason="holiday")).status == "paused"
        await clock.advance(timedelta(hours=3))
        assert await wake_me.run_due() == 0
        resumed = await wake_me.resume(alarm.id)
        assert resumed.next_fire_at == NEW_YEAR + timedelta(hours=4)
        [skipped] = await wake_me.fires(alarm.id)
        assert (skipped.reason, skipped.count) == ("paused", 3)
        snoozed = await wake_me.snooze(alarm.id, "90m")
        assert snoozed.next_fire_at == NEW_YEAR + timedelta(hours=4, minutes=30), "the four o'clock fire, put off"
        now = await wake_me.fire(alarm.id)
        assert now.root_id == alarm.id
        assert await wake_me.run_due() == 1
        assert (await wake_me.get(alarm.id)).next_fire_at == snoozed.next_fire_at
        assert await wake_me.reset() == 2, "the series, and the wake that waits in the inbox"
        assert {(await wake_me.get(id)).status for id in (alarm.id, now.id)} == {"cancelled"}
        assert await wake_me.inbox() == []


async def test_the_inbox_keeps_a_wake_until_it_is_fetched_and_reported(place: Place, clock: ManualClock) -> None:
    async with wakeful.open(**place, clock=clock) as wake_me:
        alarm = await wake_me.set(delay=1, wake_message="read me")
        await clock.advance(1)
        await wake_me.run_due()
        [(mine, fire)] = await wake_me.inbox()
        assert (mine.wake_message, fire.status) == ("read me", "delivered")
        assert await wake_me.inbox() == []
        await clock.advance(301)
        await wake_me.run_due()
        [(_, again)] = await wake_me.inbox()
        assert again.id == fire.id
        done = await wake_me.completed(fire.id, "read")
        assert (done.status, done.result) == ("completed", "read")
        assert (await wake_me.get(alarm.id)).awaiting is None


async def test_a_reported_failure_is_retried_and_a_failed_fire_can_be_retried_by_hand(
    place: Place, clock: ManualClock
) -> None:
    async with wakeful.open(**place, clock=clock, max_failures=1) as wake_me:
        alarm = await wake_me.set(delay=1, wake_message="go")
        await clock.advance(1)
        await wake_me.run_due()
        for wait in (34, 70):
            [(_, fire)] = await wake_me.inbox()
            await wake_me.delivery_failed(fire.id, "HTTP 503")
            await clock.advance(wait)
            await wake_me.run_due()
        assert (await wake_me.get(alarm.id)).status == "failed"
        [entry] = await wake_me.failed()
        assert entry.result == "FAILED: HTTP 503 (after 2 attempts)"
        await wake_me.retry(entry.id)
        assert await wake_me.run_due() == 1


async def test_history_and_agenda_tell_what_was_and_what_comes(place: Place, clock: ManualClock) -> None:
    async with wakeful.open(**place, clock=clock) as wake_me:
        fired = await wake_me.set(delay=1, wake_message="first")
        hourly = await wake_me.set(cron="0 * * * *", wake_message="hourly")
        later = await wake_me.set(delay=5400, wake_message="later")
        await clock.advance(1)
        await wake_me.run_due()
        assert [entry.alarm_id for entry in await wake_me.history(status="fired")] == [fired.id]
        assert {entry.alarm_id for entry in await wake_me.history(status="pending")} == {hourly.id, later.id}
        assert [alarm.id for _, alarm in await wake_me.agenda(hours=2)] == [hourly.id, later.id, hourly.id]
        with pytest.raises(wakeful.InvalidRequest, match="is not a status"):
            await wake_me.history(status="odd")


BAD: list[tuple[dict[str, Any], type[wakeful.WakefulError], str]] = [
    ({"at": datetime(2020, 1, 1, tzinfo=UTC)}, wakeful.InvalidSchedule, "fire_at"),
    ({"at": datetime(2031, 1, 1)}, wakeful.InvalidSchedule, "fire_at"),  # noqa: DTZ001 - that it has no zone is the point
    ({}, wakeful.InvalidSchedule, "when"),
    ({"delay": 1, "cron": "* * * * *"}, wakeful.InvalidSchedule, "when"),
    ({"delay": -1}, wakeful.InvalidRequest, "delay"),
    ({"delay": 1, "timezone": "Mars/Base"}, wakeful.InvalidSchedule, "timezone"),
    ({"cron": "0 0 30 2 *"}, wakeful.InvalidSchedule, ""),
    ({"delay": 1, "target": "nobody"}, wakeful.UnknownTarget, "target"),
    ({"delay": 1, "payload": msgspec.Raw(b"{")}, wakeful.InvalidRequest, "payload"),
    ({"delay": 1, "payload": "x" * 200_000}, wakeful.InvalidRequest, "payload"),
    ({"delay": 1, "payload": object()}, wakeful.InvalidRequest, "payload"),
    ({"delay": 1, "wake_message": "  "}, wakeful.InvalidRequest, "wake_message"),
    ({"delay": 1, "label": "a\x00b"}, wakeful.InvalidRequest, "label"),
    ({"delay": 1, "policy": {"catchup": "one"}}, wakeful.InvalidRequest, "policy.catchup"),
    ({"delay": 1, "policy": {"report_within": "soon"}}, wakeful.InvalidRequest, "policy.report_within"),
    ({"delay": 1, "max_failures": -1}, wakeful.InvalidRequest, "max_failures"),
]


@pytest.mark.parametrize(("given", "error", "field"), BAD, ids=[str(n) for n in range(len(BAD))])
async def test_bad_input_names_its_field_and_writes_nothing(
    tmp_path: Path, given: dict[str, Any], error: type[wakeful.WakefulError], field: str
) -> None:
    async with wakeful.open(tmp_path / "w.db", clock=ManualClock()) as wake_me:
        with pytest.raises(error) as raised:
            await wake_me.set(**({"wake_message": "go"} | given))
        if field:
            assert raised.value.field == field
        assert await wake_me.find() == []


async def test_a_create_inside_a_transaction_counts_when_it_commits(pg_dsn: str, pg_schema: str) -> None:
    import asyncpg

    async with wakeful.open(pg_dsn, schema=pg_schema) as wake_me:
        connection = await asyncpg.connect(pg_dsn)
        undone = connection.transaction()
        await undone.start()
        await wake_me.set(delay=60, wake_message="never", connection=connection)
        await undone.rollback()
        async with connection.transaction():
            kept = await wake_me.set(delay=60, wake_message="kept", connection=connection)
            assert await wake_me.find() == []
        assert [alarm.id for alarm in await wake_me.find()] == [kept.id]
        await connection.close()


def test_the_plain_front_has_the_same_verbs_and_works_without_a_loop(tmp_path: Path) -> None:
    with wakeful.open_sync(tmp_path / "w.db") as clock:
        alarm = clock.set(delay=60, wake_message="go")
        assert clock.get(alarm.id) == alarm
        assert clock.find() == [alarm]
        assert clock.cancel(alarm.id).alarm.status == "cancelled"
        with pytest.raises(wakeful.NotFound):
            clock.get("nothing")
    verbs = {name for name, _ in inspect.getmembers(Wakeful, inspect.iscoroutinefunction) if not name.startswith("_")}
    missing = verbs - set(dir(SyncWakeful)) - {"check_targets"}
    assert missing == set()


async def test_a_dispatcher_that_is_cancelled_stops_cleanly(tmp_path: Path) -> None:
    async with wakeful.open(tmp_path / "w.db") as clock:
        rang = asyncio.Event()

        @clock.handler("ops")
        async def ops(wake: wakeful.Wake) -> None:
            rang.set()

        task = asyncio.create_task(clock.run())
        await clock.set(delay=0.01, wake_message="go", target="ops")
        await asyncio.wait_for(rang.wait(), 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await clock.stats()).completed == 1


def test_every_public_name_is_there_and_nothing_else() -> None:
    assert sorted(wakeful.__all__) == sorted(dir(wakeful))
    for name in wakeful.__all__:
        assert getattr(wakeful, name) is not None
    with pytest.raises(AttributeError):
        _ = wakeful.nothing
