"""The clock a Python program holds, on both stores: every verb, the handlers, and the plain front."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

import wakeful
from tests.databases import database_of
from wakeful.python.client import LocalWakeful
from wakeful.python.sync import SyncWakeful
from wakeful.testing import NEW_YEAR, ManualClock

Place = dict[str, Any]


@dataclass
class Reading:
    celsius: float


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
        assert edited.alarm.version == 2
        with pytest.raises(wakeful.StaleVersion):
            await wake_me.update(alarm.id, label="second", version=1)
        assert (await wake_me.get(alarm.id)).label == "first"
        moved = await wake_me.update(alarm.id, when="in 2 hours", version=2)
        assert moved.alarm.next_fire_at == NEW_YEAR + timedelta(hours=2)


async def test_a_payload_comes_back_byte_for_byte(place: Place, clock: ManualClock) -> None:
    raw = b'{ "b":1,\t"a": 1e2, "b": 2, "\xc3\xa9": "\\u00e9" }'
    seen = []
    async with wakeful.open(**place, clock=clock) as wake_me:
        wake_me.handler("ops")(lambda wake: seen.append(wake.payload_json.encode()))
        alarm = await wake_me.set(delay=1, wake_message="go", payload=msgspec.Raw(raw), target="ops")
        kept = await wake_me.get(alarm.id)
        assert kept.payload_json.encode() == raw
        assert kept.payload == {"b": 2, "a": 100.0, "é": "é"}, "decoded, as in the wake"
        await clock.advance(1)
        await wake_me.run_due()
    assert seen == [raw]


async def test_pausing_resuming_snoozing_firing_and_resetting(place: Place, clock: ManualClock) -> None:
    async with wakeful.open(**place, clock=clock) as wake_me:
        alarm = await wake_me.set(cron="0 * * * *", wake_message="hourly")
        assert (await wake_me.pause(alarm.id, reason="holiday")).alarm.status == "paused"
        await clock.advance(timedelta(hours=3))
        assert await wake_me.run_due() == 0
        resumed = await wake_me.resume(alarm.id)
        assert resumed.alarm.next_fire_at == NEW_YEAR + timedelta(hours=4)
        [skipped] = await wake_me.fires(alarm.id)
        assert (skipped.reason, skipped.count) == ("paused", 3)
        snoozed = await wake_me.snooze(alarm.id, "90m")
        assert snoozed.alarm.next_fire_at == NEW_YEAR + timedelta(hours=4, minutes=30), "the four o'clock fire, put off"
        now = await wake_me.fire(alarm.id)
        assert now.alarm.root_id == alarm.id
        assert await wake_me.run_due() == 1
        assert (await wake_me.get(alarm.id)).next_fire_at == snoozed.alarm.next_fire_at
        assert await wake_me.reset() == 2, "the series, and the wake that waits in the inbox"
        assert {(await wake_me.get(id)).status for id in (alarm.id, now.alarm.id)} == {"cancelled"}
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


async def test_agenda_and_why_show_nothing_beyond_the_end_of_a_series(place: Place, clock: ManualClock) -> None:
    async with wakeful.open(**place, clock=clock) as wake_me:
        counted = await wake_me.set("every hour", "counted", policy={"max_fires": 2})
        ending = NEW_YEAR + timedelta(hours=2, minutes=30)
        bounded = await wake_me.set("every hour", "bounded", policy={"ends_at": ending})
        single = await wake_me.set("every hour", "single", policy={"max_fires": 1})
        times = [(at - NEW_YEAR, alarm.wake_message) for at, alarm in await wake_me.agenda(hours=24)]
        one, two = timedelta(hours=1), timedelta(hours=2)
        assert times == [(one, "counted"), (one, "bounded"), (one, "single"), (two, "counted"), (two, "bounded")]
        summaries = [(await wake_me.why(alarm.id)).summary for alarm in (counted, bounded, single)]
        first, then = "It fires at 2030-01-01T01:00:00Z, in 60 min.", "After that at 2030-01-01T02:00:00Z."
        assert summaries == [
            f"{first} {then} That is its last fire: it ends after 2 fires.",
            f"{first} {then} That is its last fire: it ends at 2030-01-01T02:30:00Z.",
            f"{first} That is its last fire: it ends after one fire.",
        ]
        await clock.advance(one)
        await wake_me.run_due()
        assert [alarm.wake_message for _, alarm in await wake_me.agenda(hours=24)] == ["counted", "bounded"]
        assert "That is its last fire: it ends after 2 fires." in (await wake_me.why(counted.id)).summary
        endless = await wake_me.set("every hour", "endless")
        assert "last fire" not in (await wake_me.why(endless.id)).summary


# What Python's own types mean


MEANT: list[tuple[str, Any, timedelta]] = [
    ("an hour from now", timedelta(hours=1), timedelta(hours=1)),
    ("that moment", NEW_YEAR + timedelta(hours=5), timedelta(hours=5)),
    ("that moment elsewhere", datetime(2030, 1, 1, 9, tzinfo=ZoneInfo("Europe/Berlin")), timedelta(hours=8)),
    ("the next such time of day, in the alarm's zone", time(9, 30), timedelta(hours=8, minutes=30)),
    ("tomorrow's, where today's is past", time(0, 30), timedelta(hours=23, minutes=30)),
    ("to the millisecond", time(9, 30, 15, 250_000), timedelta(hours=8, minutes=30, seconds=15.25)),
    ("unix seconds", NEW_YEAR.timestamp() + 60, timedelta(minutes=1)),
    ("whole unix seconds", int(NEW_YEAR.timestamp()) + 60, timedelta(minutes=1)),
]


@pytest.mark.parametrize(("when", "ahead"), [case[1:] for case in MEANT], ids=[case[0] for case in MEANT])
async def test_a_time_in_python_s_own_types_means_what_it_says(tmp_path: Path, when: Any, ahead: timedelta) -> None:
    async with wakeful.open(tmp_path / "w.db", clock=ManualClock(), timezone="Europe/Berlin") as wake_me:
        alarm = await wake_me.set(when, "go")
        assert (alarm.kind, alarm.next_fire_at) == ("once", NEW_YEAR + ahead)
        other = await wake_me.set("in 3 days", "go")
        assert (await wake_me.update(other.id, when=when)).alarm.next_fire_at == NEW_YEAR + ahead


NAIVE = datetime(2031, 1, 1)  # noqa: DTZ001 - that it has no zone is the point
NOT_TIMES: list[Any] = [True, [1], {}, date(2031, 1, 1), NAIVE, time(9, tzinfo=UTC), object(), float("nan")]
NOT_TIMES += [timedelta(0), timedelta(hours=-1), NEW_YEAR, "soon"]


@pytest.mark.parametrize("when", NOT_TIMES, ids=lambda when: type(when).__name__)
async def test_what_is_not_a_time_is_refused_as_when(tmp_path: Path, when: Any) -> None:
    async with wakeful.open(tmp_path / "w.db", clock=ManualClock()) as wake_me:
        kept = await wake_me.set("in 1 hour", "go")
        for ask in (wake_me.set(when, "go"), wake_me.update(kept.id, when=when)):
            with pytest.raises(wakeful.InvalidRequest) as raised:
                await ask
            assert raised.value.field == "when"
            assert raised.value.fix
        assert await wake_me.find() == [kept]


async def test_none_is_not_a_time_to_set_and_leaves_it_as_it_is_in_an_update(tmp_path: Path) -> None:
    async with wakeful.open(tmp_path / "w.db", clock=ManualClock()) as wake_me:
        nothing: Any = None
        with pytest.raises(wakeful.InvalidSchedule, match="when: None is not a time"):
            await wake_me.set(nothing, "go")
        kept = await wake_me.set("in 1 hour", "go")
        assert (await wake_me.update(kept.id, when=nothing, label="new")).alarm.next_fire_at == kept.next_fire_at


async def test_find_fires_and_history_refuse_a_word_they_do_not_know_and_say_which_is_meant(
    place: Place, clock: ManualClock
) -> None:
    async with wakeful.open(**place, clock=clock) as wake_me:
        asks: list[tuple[Any, str, str]] = [
            (lambda: wake_me.find(status="actve"), "status", "Did you mean active? Accepted: active, paused, fired"),  # type: ignore[arg-type]
            (lambda: wake_me.find(status=["active", "x"]), "status", "Accepted: active"),  # type: ignore[list-item]
            (lambda: wake_me.find(kind="cronn"), "kind", "Did you mean cron? Accepted: once, cron."),  # type: ignore[arg-type]
            (lambda: wake_me.fires(status="complete"), "status", "Did you mean completed? Accepted: retrying"),  # type: ignore[arg-type]
            (lambda: wake_me.history(status="pendng"), "status", "Did you mean pending? Accepted: pending"),  # type: ignore[arg-type]
        ]
        for ask, field, fix in asks:
            with pytest.raises(wakeful.InvalidRequest) as raised:
                await ask()
            assert raised.value.field == field
            assert raised.value.fix.startswith(fix)


BAD: list[tuple[dict[str, Any], type[wakeful.WakefulError], str]] = [
    ({"at": datetime(2020, 1, 1, tzinfo=UTC)}, wakeful.InvalidSchedule, "at"),
    ({"at": NAIVE}, wakeful.InvalidSchedule, "at"),
    ({"at": True}, wakeful.InvalidSchedule, "at"),
    ({}, wakeful.InvalidSchedule, "when"),
    ({"when": timedelta(hours=1), "delay": 60}, wakeful.InvalidSchedule, "when"),
    ({"when": NEW_YEAR + timedelta(hours=1), "at": NEW_YEAR}, wakeful.InvalidSchedule, "when"),
    ({"delay": float("nan")}, wakeful.InvalidRequest, "delay"),
    ({"delay": True}, wakeful.InvalidRequest, "delay"),
    ({"cron": "0 0 30 2 *"}, wakeful.InvalidSchedule, "cron"),
    ({"cron": 5}, wakeful.InvalidRequest, "cron"),
    ({"when": "every hour", "policy": {"ends_at": NEW_YEAR}}, wakeful.InvalidSchedule, "when"),
    ({"cron": "@hourly", "policy": {"ends_at": NEW_YEAR}}, wakeful.InvalidSchedule, "cron"),
    ({"delay": 1, "key": "a\x00b"}, wakeful.InvalidRequest, "key"),
    ({"delay": 1, "key": 7}, wakeful.InvalidRequest, "key"),
    ({"delay": 1, "wake_message": {"text": "go"}}, wakeful.InvalidRequest, "wake_message"),
    ({"delay": 1, "wake_message": b"go"}, wakeful.InvalidRequest, "wake_message"),
    ({"delay": 1, "wake_message": None}, wakeful.InvalidRequest, "wake_message"),
    ({"delay": 1, "label": 5}, wakeful.InvalidRequest, "label"),
    ({"delay": 1, "isolated": "no"}, wakeful.InvalidRequest, "isolated"),
    ({"delay": 1, "max_failures": True}, wakeful.InvalidRequest, "max_failures"),
    ({"delay": 1, "max_failures": "3"}, wakeful.InvalidRequest, "max_failures"),
    ({"delay": 1, "payload": float("nan")}, wakeful.InvalidRequest, "payload"),
    ({"delay": 1, "payload": {"a": [1, {"b": (float("inf"),)}]}}, wakeful.InvalidRequest, "payload"),
    ({"delay": 1, "payload": Reading(-float("inf"))}, wakeful.InvalidRequest, "payload"),
    ({"delay": 1, "policy": "skip"}, wakeful.InvalidRequest, "policy"),
    ({"delay": 1, "policy": {"grace": float("nan")}}, wakeful.InvalidRequest, "policy.grace"),
    ({"delay": 1, "policy": wakeful.Policy(grace=float("nan"))}, wakeful.InvalidRequest, "policy.grace"),
    ({"delay": 1, "cron": "* * * * *"}, wakeful.InvalidSchedule, "when"),
    ({"delay": -1}, wakeful.InvalidRequest, "delay"),
    ({"delay": 1, "timezone": "Mars/Base"}, wakeful.InvalidSchedule, "timezone"),
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
        async with wake_me.within(connection) as tx:
            await tx.set(delay=60, wake_message="never")
        await undone.rollback()
        async with connection.transaction(), wake_me.within(connection) as tx:
            kept = await tx.set(delay=60, wake_message="kept")
            assert await wake_me.find() == []
        assert [alarm.id for alarm in await wake_me.find()] == [kept.id]
        await connection.close()


def test_the_plain_front_has_the_same_verbs_and_works_without_a_loop(tmp_path: Path) -> None:
    with wakeful.open_sync(tmp_path / "w.db") as alarms:
        alarm = alarms.set(delay=60, wake_message="go")
        assert alarms.get(alarm.id) == alarm
        assert alarms.find() == [alarm]
        assert alarms.cancel(alarm.id).alarm.status == "cancelled"
        with pytest.raises(wakeful.NotFound):
            alarms.get("nothing")
    verbs = {
        name for name, _ in inspect.getmembers(LocalWakeful, inspect.iscoroutinefunction) if not name.startswith("_")
    }
    missing = verbs - set(dir(SyncWakeful)) - {"check_targets"}
    assert missing == set()


async def test_a_dispatcher_that_is_cancelled_stops_cleanly(tmp_path: Path) -> None:
    async with wakeful.open(tmp_path / "w.db") as alarms:
        rang = asyncio.Event()

        @alarms.handler("ops")
        async def ops(wake: wakeful.Wake) -> None:
            rang.set()

        task = asyncio.create_task(alarms.run())
        await alarms.set(delay=0.01, wake_message="go", target="ops")
        await asyncio.wait_for(rang.wait(), 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await alarms.stats()).completed == 1


def test_every_public_name_is_there_and_nothing_else() -> None:
    assert sorted(wakeful.__all__) == sorted(dir(wakeful))
    for name in wakeful.__all__:
        assert getattr(wakeful, name) is not None
    with pytest.raises(AttributeError):
        _ = wakeful.nothing
