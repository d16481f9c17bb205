"""Many alarms in one call, and what a caller is told besides: on both stores."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast

import pytest
from msgspec.structs import replace

from wakeful.clock import SystemClock, turn
from wakeful.errors import Conflict, InvalidRequest, InvalidSchedule, NotFound, StoreUnavailable, UnknownTarget
from wakeful.model.alarm import Alarm
from wakeful.model.requests import CreateRequest
from wakeful.python.client import LocalWakeful
from wakeful.service import Created
from wakeful.service.create import BuiltAlarm, Creation
from wakeful.service.notes import due_notes
from wakeful.store import AlarmQuery, Matches, Store
from wakeful.testing import ManualClock

from .world import HOUR, waiting, waking


@pytest.fixture
def wake_me(store: Store, clock: ManualClock) -> LocalWakeful:
    return waking(store, clock)


def asked(message: str, key: str = "", **more: str) -> CreateRequest:
    return CreateRequest(wake_message=message, when="in 1 hour", idempotency_key=key, **more)  # type: ignore[arg-type]


async def test_a_key_that_is_taken_refuses_all_of_them(wake_me: LocalWakeful) -> None:
    first = await wake_me.create(asked("one", "k"))
    with pytest.raises(Conflict, match=f"alarm {first.alarm.id} already has the key 'k'") as refusal:
        await wake_me.create_many([asked("new"), asked("other", "k")])
    assert refusal.value.field == "alarms[1].idempotency_key"
    with pytest.raises(Conflict):
        await wake_me.create_many([asked("two", "twice"), asked("three", "twice")])
    with pytest.raises(InvalidSchedule) as wrong:
        await wake_me.create_many([asked("new"), CreateRequest(wake_message="x", when="soonish")])
    assert wrong.value.field == "alarms[1].when"
    assert [alarm.id for alarm in await wake_me.find()] == [first.alarm.id]


async def test_what_to_do_with_a_taken_key_is_heeded_for_each(wake_me: LocalWakeful) -> None:
    first = (await wake_me.create(asked("one", "k"))).alarm
    same, kept = await wake_me.create_many([asked("one", "k"), asked("other", "k", on_conflict="return")])
    assert (same.alarm.id, same.deduped, kept.alarm.wake_message) == (first.id, True, "one")
    [replaced] = await wake_me.create_many([asked("other", "k", on_conflict="replace")])
    assert (replaced.alarm.id, replaced.alarm.wake_message) == (first.id, "other")
    assert (await wake_me.get("k")).wake_message == "other"


async def test_a_key_with_another_wake_behind_it_or_another_zone_is_another_request(
    wake_me: LocalWakeful, clock: ManualClock
) -> None:
    await waiting(wake_me, clock)
    [wake] = await wake_me.inbox()
    first = await wake_me.set("in 1 hour", "x", key="k", parent_fire=wake.fire.id)
    assert await wake_me.set("in 1 hour", "x", key="k", parent_fire=wake.fire.id) == first
    await waiting(wake_me, clock)
    [other] = await wake_me.inbox()
    with pytest.raises(Conflict, match="differs in parent_fire"):
        await wake_me.set("in 1 hour", "x", key="k", parent_fire=other.fire.id)
    with pytest.raises(Conflict, match="differs in when"):
        await wake_me.set("in 1 hour", "x", key="k", timezone="Asia/Tokyo")


async def test_many_are_cancelled_by_id_key_text_or_conversation(wake_me: LocalWakeful, clock: ManualClock) -> None:
    ids = [(await wake_me.set("in 1 hour", f"grant {n}", key=f"k{n}", conversation_id="c")).id for n in range(3)]
    other = await wake_me.set("in 2 hours", "plants")
    dry = await wake_me.cancel_many(text="GRANT", dry_run=True)
    assert {alarm.id for alarm in dry.alarms} == set(ids)
    assert {alarm.status for alarm in await wake_me.find()} == {"active"}
    with pytest.raises(NotFound):
        await wake_me.cancel_many([ids[0], "nobody"])
    assert (await wake_me.get(ids[0])).status == "active"
    assert [alarm.status for alarm in (await wake_me.cancel_many([ids[0], "k1", "k1"])).alarms] == ["cancelled"] * 2
    assert [alarm.id for alarm in (await wake_me.cancel_many(conversation_id="c")).alarms] == [ids[2]]
    assert [alarm.id for alarm in await wake_me.find(status="active")] == [other.id]
    with pytest.raises(InvalidRequest, match="it is not said which"):
        await wake_me.cancel_many()
    with pytest.raises(InvalidRequest, match="both ids and filters"):
        await wake_me.cancel_many(["k1"], text="grant")


async def test_a_wake_that_nobody_fetched_is_cancelled_with_the_others(
    wake_me: LocalWakeful, clock: ManualClock
) -> None:
    alarm = await waiting(wake_me, clock)
    assert [one.id for one in (await wake_me.cancel_many(text=alarm.wake_message[:5])).alarms] == [alarm.id]
    assert await wake_me.inbox() == []


async def test_earlier_wakes_are_reported_with_the_call_that_takes_the_next(
    wake_me: LocalWakeful, clock: ManualClock
) -> None:
    for conversation in ("a", "b", "b"):
        await wake_me.set(delay=1, wake_message="work", conversation_id=conversation)
    await clock.advance(2)
    await wake_me.run_due()
    [first] = await wake_me.inbox(conversation_id="a")
    [second] = await wake_me.inbox(limit=1, done={first.fire.id: "3 grants"})
    assert second.alarm.conversation_id == "b"
    assert (await wake_me.fire_of(first.fire.id)).result == "3 grants"
    await wake_me.cancel(second.alarm.id)
    with pytest.raises(NotFound):
        await wake_me.inbox(done={second.fire.id: "x", f"{second.alarm.id}@1": "y"})
    assert (await wake_me.fire_of(second.fire.id)).status == "delivered", "one that is not there, and none is reported"
    assert len(await wake_me.inbox(done={first.fire.id: "again"})) == 1
    assert (await wake_me.fire_of(first.fire.id)).result == "3 grants"


async def test_a_wake_says_where_it_stands_in_its_series(wake_me: LocalWakeful, clock: ManualClock) -> None:
    await wake_me.set(cron="0 * * * *", wake_message="hourly", policy={"max_fires": 3})
    for number, previous in ((1, None), (2, "completed"), (3, "completed")):
        await clock.advance(HOUR)
        await wake_me.run_due()
        [taken] = await wake_me.inbox()
        assert (taken.number, taken.max_fires) == (number, 3)
        assert (taken.previous.status if taken.previous else None) == previous
        assert (taken.next_fire_at is None) == (number == 3)
        await wake_me.completed(taken.fire.id, f"result {number}")
        if taken.previous:
            assert taken.previous.result == f"result {number - 1}"


async def test_what_is_due_and_not_delivered_is_said(wake_me: LocalWakeful, clock: ManualClock) -> None:
    assert (await wake_me.agenda()).notes == []
    await wake_me.set(delay=1, wake_message="x")
    assert (await wake_me.agenda()).notes == []
    await clock.advance(2)
    [note] = (await wake_me.agenda()).notes
    assert (await wake_me.history()).notes == [note]
    assert note.startswith("1 alarm is due for 'inbox', the first since ")
    assert "no running worker delivers there" in note
    assert await due_notes(wake_me.service, wake_me.caller.owner, "elsewhere") == []
    await wake_me.run_due()
    assert (await wake_me.agenda()).notes == []


async def test_a_fire_is_retried_by_its_alarm_and_snoozed_until_a_phrase(
    wake_me: LocalWakeful, clock: ManualClock
) -> None:
    alarm = await waiting(wake_me, clock, max_failures=0, key="mail@home")
    with pytest.raises(Conflict, match="has failed"):
        await wake_me.retry("mail@home")
    [taken] = await wake_me.inbox()
    await wake_me.delivery_failed("mail@home", "HTTP 503")
    assert (await wake_me.retry("mail@home")).fire.id == taken.fire.id
    assert "is being retried: HTTP 503" in (await wake_me.why("mail@home")).summary
    later = await wake_me.set("in 1 hour", "x", timezone="Asia/Tokyo")
    snoozed = await wake_me.snooze(later.id, until="tomorrow at 9am")
    assert snoozed.alarm.next_fire_at.isoformat()[11:19] == "00:00:00"
    assert alarm.idempotency_key == "mail@home"


async def test_history_counts_back_from_now_and_tells_how_late(wake_me: LocalWakeful, clock: ManualClock) -> None:
    await wake_me.set(delay=60, wake_message="old")
    await clock.advance(timedelta(minutes=2))
    await wake_me.run_due()
    await clock.advance(5 * HOUR)
    await wake_me.set(delay=1, wake_message="new")
    await clock.advance(31)
    await wake_me.run_due()
    [entry] = await wake_me.history(since="1h")
    assert (entry.message, entry.late_ms) == ("new", 30_000)
    with pytest.raises(InvalidRequest, match="how long ago"):
        await wake_me.history(since="a while")


async def test_each_of_many_is_set_or_refused_in_its_own_place(wake_me: LocalWakeful) -> None:
    first = (await wake_me.create(asked("one", "k"))).alarm
    wishes = [
        asked("new"),
        CreateRequest(wake_message="x", when="soonish"),
        asked("one", "k"),
        asked("other", "k"),
        asked("two", "twice"),
        asked("two", "twice"),
        asked("three", "twice"),
        asked("four", "four", on_conflict="never"),
        CreateRequest(wake_message="x", when="in 1 hour", target="nowhere"),
    ]
    made = await wake_me.create_each(wishes)
    told = [one.deduped if isinstance(one, Created) else (type(one), one.field) for one in made]
    assert told == [
        False,
        (InvalidSchedule, "when"),
        True,
        (Conflict, "idempotency_key"),
        False,
        True,
        (Conflict, "idempotency_key"),
        (InvalidRequest, "on_conflict"),
        (UnknownTarget, "target"),
    ]
    assert {alarm.wake_message for alarm in await wake_me.find()} == {"one", "new", "two"}
    [replaced] = await wake_me.create_each([asked("other", "k", on_conflict="replace")])
    assert isinstance(replaced, Created)
    assert (replaced.alarm.id, replaced.alarm.wake_message) == (first.id, "other")
    assert await wake_me.create_each([]) == []


async def test_what_the_database_does_not_take_fails_none_of_those_beside_it(
    wake_me: LocalWakeful, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = Creation.build

    async def spoiled(self: Creation, one: CreateRequest, id: str = "") -> BuiltAlarm:
        drawn = await build(self, one, id)
        return replace(drawn, alarm=replace(drawn.alarm, kind="never")) if one.wake_message == "bad" else drawn

    monkeypatch.setattr(Creation, "build", spoiled)
    good, bad, other = await wake_me.create_each([asked("good"), asked("bad"), asked("good too")])
    assert (isinstance(good, Created), isinstance(other, Created)) == (True, True)
    assert isinstance(bad, StoreUnavailable)
    assert {alarm.wake_message for alarm in await wake_me.find()} == {"good", "good too"}


async def test_the_alarms_of_one_call_have_one_moment(store: Store) -> None:
    wake_me = waking(store, SystemClock())
    wishes = [CreateRequest(wake_message="x", delay_seconds=3600) for _ in range(300)]
    made = [*await wake_me.create_many(wishes), *await wake_me.create_many(wishes)]
    assert len({one.alarm.fire_at for one in made[:300]}) == 1
    assert [one.alarm.id for one in made] == sorted(one.alarm.id for one in made)


async def test_who_has_the_keys_of_a_call_is_asked_together(store: Store, clock: ManualClock) -> None:
    reads: list[int] = []

    class Counted:
        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def named(self, owner: str, keys: Sequence[str]) -> list[Alarm]:
            reads.append(len(keys))
            return await store.named(owner, keys)

        async def find(self, query: AlarmQuery) -> Matches[Alarm]:
            raise AssertionError("one by one")

    wake_me = waking(cast(Store, Counted()), clock)
    wishes = [asked("x", f"k{n}") for n in range(250)]
    assert [one.deduped for one in await wake_me.create_many(wishes)] == [False] * 250
    assert [one.deduped for one in await wake_me.create_many(wishes)] == [True] * 250
    assert reads == [100, 100, 50] * 2
    with pytest.raises(Conflict) as taken:
        await wake_me.create_many([*wishes[:-1], asked("y", "k249")])
    assert taken.value.field == "alarms[249].idempotency_key"
    await wake_me.create_many([asked("y", "k1", on_conflict="return"), asked("z")])
    assert len(reads) == 9, "nobody is asked for what is accepted anyway"


async def test_others_have_their_turn_while_many_are_read(wake_me: LocalWakeful) -> None:
    turns = 0

    async def somebody_else() -> None:
        nonlocal turns
        while True:
            await turn()
            turns += 1

    bad = [CreateRequest(wake_message="x", when=f"every frobnicate at 25:{n}") for n in range(500)]
    other = asyncio.create_task(somebody_else())
    for _ in range(3):  # that one begins
        await turn()
    creation = await Creation.begin(wake_me.service, wake_me.caller)
    for draw in (creation.draw_each(bad), creation.build_all([asked("x")] * 5_000)):
        before = turns
        await draw
        assert turns - before > 5
    other.cancel()
