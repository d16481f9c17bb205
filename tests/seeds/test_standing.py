"""The row decides at fire time: a task that was changed after it was planned is never said as it was."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from wakeful.dispatcher import ServedTarget
from wakeful.errors import StoreUnavailable
from wakeful.model.alarm import Row
from wakeful.model.outcome import Delivered, Outcome, Try, Waiting
from wakeful.process.application import open_local
from wakeful.rules.settle import settle
from wakeful.rules.wake import Wake
from wakeful.store import FireQuery, Settled
from wakeful.targets import Target
from wakeful.testing import store_of, targets_of

from .conftest import Gateway, sql_tasks_of
from .task_tools_world import tools

LEASE = timedelta(minutes=2)
AWAY = 12  # times the store is asked in vain
DELETED = "delete from scheduled_tasks where id = 't1'"
PAUSED = "update scheduled_tasks set status = 'paused' where id = 't1'"
REWORDED = "update scheduled_tasks set prompt = 'newer' where id = 't1'"
TOMORROW = "update scheduled_tasks set next_run = '{tomorrow}' where id = 't1'"
EARLIER = "update scheduled_tasks set next_run = '{earlier}' where id = 't1'"
TOUCHED = "update scheduled_tasks set prompt = prompt, error = null where id = 't1'"
CHANGES = [
    (DELETED, []),
    (PAUSED, []),
    (REWORDED, ["newer"]),
    (TOMORROW, []),
    (EARLIER, ["do t1"]),
    (TOUCHED, ["do t1"]),
]
NAMES = ["deleted", "paused", "reworded", "moved to tomorrow", "moved earlier", "touched"]


def filled(gateway: Gateway, statement: str) -> str:
    return statement.format(tomorrow=gateway.at(86_400), earlier=gateway.at(-60))


class Meddling:
    """The messages' own target, while whose wake is on its way something happens to the row."""

    def __init__(self, target: Target, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self._target = target
        self._meanwhile = meanwhile
        self.wakes: list[str] = []

    async def deliver(self, wake: Wake) -> Outcome:
        outcome = await self._target.deliver(wake)
        is_first = "do t1" not in self.wakes
        self.wakes.append(wake.message)
        if wake.message == "do t1" and is_first:
            await self._meanwhile()
        return outcome

    async def close(self) -> None:
        await self._target.close()


def meddle(gateway: Gateway, meanwhile: Callable[[], Awaitable[object]]) -> Meddling:
    served = targets_of(gateway.wakeful)["messages"]
    target = Meddling(served.target, meanwhile)
    targets_of(gateway.wakeful)["messages"] = ServedTarget(target, served.concurrency)
    return target


async def delivered(gateway: Gateway) -> list[str]:
    """What the fires say was delivered, in whatever words."""
    fires = await store_of(gateway.wakeful).fires(FireQuery())
    return [
        fire.id for fire in fires if fire.status in ("delivered", "completed") or fire.delivered_at or fire.attempts
    ]


@pytest.mark.parametrize(("change", "said"), CHANGES, ids=NAMES)
async def test_a_change_while_the_wake_is_on_its_way_counts(gateway: Gateway, change: str, said: list[str]) -> None:
    await gateway.connect()
    await gateway.add("t1", next_run=gateway.at(10))
    await gateway.add("other", next_run=gateway.at(10))
    await gateway.pass_time()
    target = meddle(gateway, lambda: gateway.sql(filled(gateway, change)))
    await gateway.pass_time(10)
    assert "do t1" in target.wakes
    assert sorted(await gateway.messages()) == sorted([*said, "do other"])
    assert len(await delivered(gateway)) == len(said) + 1
    before = await gateway.sql("select id, status, next_run from scheduled_tasks order by id")
    await gateway.pass_time(60)
    assert len(await gateway.messages()) == len(said) + 1
    assert await gateway.sql("select id, status, next_run from scheduled_tasks order by id") == before


@pytest.mark.parametrize(("change", "said"), CHANGES, ids=NAMES)
async def test_a_worker_that_claims_first_says_only_what_stands(gateway: Gateway, change: str, said: list[str]) -> None:
    """As after a stall: it has not looked at the changes yet."""
    await gateway.connect()
    await gateway.add("t1", next_run=gateway.at(10))
    await gateway.pass_time()
    await gateway.clock.advance(10)
    await gateway.sql(filled(gateway, change))
    dispatcher = gateway.wakeful.dispatcher
    settler = asyncio.create_task(dispatcher._deliveries.settler.run())
    while await dispatcher._claim():
        await dispatcher._all_down()
    settler.cancel()
    assert await gateway.messages() == said


async def test_the_settlement_writes_nothing_for_a_row_that_was_changed(gateway: Gateway) -> None:
    await gateway.connect()
    for id in ("t1", "t2"):
        await gateway.add(id, next_run=gateway.at(10))
    await gateway.pass_time()
    await gateway.clock.advance(10)
    store, now = store_of(gateway.wakeful), gateway.clock.now()
    claimed = (await store.claim({"messages": 9}, lease=LEASE)).alarms
    await gateway.sql(DELETED)
    changes = [
        settle(alarm, None, Delivered(row=message(alarm.label, f"{alarm.label}@1")), Try(now, now)) for alarm in claimed
    ]
    answers = {alarm.label: answer for alarm, answer in zip(claimed, await store.settle(changes), strict=True)}
    assert answers == {"t1": Settled("moved"), "t2": Settled("applied")}
    assert await gateway.messages() == ["t2"]
    [t1] = [alarm for alarm in claimed if alarm.label == "t1"]
    assert await store.get(t1.id) == t1
    assert await store.fires(FireQuery(alarm_id=t1.id)) == []


def message(content: str, id: str) -> Row:
    values = {"id": id, "chat_jid": "1@g.us", "sender": "scheduler", "content": content, "timestamp": "now"}
    return Row("messages", values, "id")


async def test_nothing_is_put_into_the_inbox_for_a_row_that_was_changed(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.add("t1", next_run=gateway.at(10))
    await gateway.pass_time()
    await gateway.clock.advance(10)
    store, now = store_of(gateway.wakeful), gateway.clock.now()
    [alarm] = (await store.claim({"messages": 9}, lease=LEASE)).alarms
    change = settle(alarm, None, Waiting(), Try(now, now))
    await gateway.sql(PAUSED)
    assert await store.settle([change]) == [Settled("moved")]
    await gateway.sql("update scheduled_tasks set status = 'active' where id = 't1'")
    assert await store.settle([change]) == [Settled("applied")]  # it asks for that again


async def test_an_alarm_that_only_says_it_is_of_a_task_fires(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.wakeful.set(
        delay=10, wake_message="mine", target="messages", conversation_id="1@g.us", created_via="sql"
    )
    await gateway.pass_time(10)
    assert await gateway.messages() == ["mine"]


async def test_a_target_elsewhere_is_not_called_for_a_task_that_was_deleted(gateway: Gateway) -> None:
    """The wake leaves before the settlement: the row is asked just before."""
    await gateway.connect()
    await gateway.stop()
    async with open_local(gateway.db, clock=gateway.clock, tasks_target="desk") as alarms:
        heard: list[str] = []

        @alarms.handler("desk", concurrency=1)
        async def desk(wake: Wake) -> None:
            heard.append(wake.message)
            await gateway.sql("delete from scheduled_tasks where id = 't2'")
            await gateway.sql("update scheduled_tasks set prompt = 'newer' where id = 't3'")

        for n in (1, 2, 3):
            await gateway.add(f"t{n}", next_run=gateway.at(n))
        await alarms.run_due()
        await gateway.clock.advance(10)
        await alarms.run_due()
        assert heard == ["do t1", "newer"]
        assert await gateway.sql("select id, status from scheduled_tasks order by id") == [
            ("t1", "done"),
            ("t3", "done"),
        ]


async def test_what_arrived_elsewhere_is_on_record_though_its_task_is_gone(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.stop()
    async with open_local(gateway.db, clock=gateway.clock, tasks_target="desk") as alarms:

        @alarms.handler("desk")
        async def desk(wake: Wake) -> str:
            await gateway.sql(DELETED)
            await sql_tasks_of(alarms).plan(gateway.clock.now())
            return "done"

        await gateway.add("t1", next_run=gateway.at(1))
        await alarms.run_due()
        await gateway.clock.advance(1)
        await alarms.run_due()
        [fire] = await store_of(alarms).fires(FireQuery())
        assert (fire.status, fire.result) == ("completed", "done")


@pytest.mark.parametrize("tool", ["cancel_task", "pause_task", "update_task"])
async def test_what_a_tool_has_answered_holds_while_the_wake_is_on_its_way(gateway: Gateway, tool: str) -> None:
    await gateway.connect()
    await gateway.add("t1", next_run=gateway.at(10), owner="ana")
    await gateway.pass_time()
    more = {"prompt": "newer"} if tool == "update_task" else {}
    async with tools(gateway.wakeful) as ana:
        meddle(gateway, lambda: ana(tool, taskId="t1", **more))
        await gateway.pass_time(10)
    assert await gateway.messages() == (["newer"] if more else [])


async def test_a_row_that_nothing_can_be_made_of_is_put_off_and_told_of_once(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    """A table that was dropped may come back; until then it is empty, and nobody spins."""
    await gateway.connect()
    await gateway.add("t1", next_run=gateway.at(10))
    await gateway.pass_time()
    await gateway.sql("alter table scheduled_tasks rename to elsewhere")
    await gateway.clock.advance(10)
    for _ in range(3):
        await asyncio.wait_for(gateway.wakeful.run_due(), 30)
        await gateway.clock.advance(1)
    assert await gateway.messages() == []
    assert [record.message for record in caplog.records if "waits" in record.message] == [
        "a due task waits: its row cannot be planned right now"
    ]
    [alarm] = await gateway.alarms("t1")
    assert (alarm.status, alarm.unsettled) == ("active", 0)
    await gateway.sql("alter table elsewhere rename to scheduled_tasks")
    await gateway.pass_time(1)
    assert await gateway.messages() == ["do t1"]


async def test_a_table_with_triggers_of_its_own_fires_every_time(gateway: Gateway) -> None:
    """What they leave is what stands, not what wakeful wrote."""
    await gateway.connect()
    if gateway.is_postgres:
        await gateway.sql("""create function shout() returns trigger language plpgsql as $$ begin
            if pg_trigger_depth() = 1 then
                update scheduled_tasks set prompt = new.prompt || '!' where id = new.id;
            end if;
            return null; end $$""")
        await gateway.sql("""create trigger shouting after update on scheduled_tasks for each row
            execute function shout()""")
    else:
        await gateway.sql("""create trigger shouting after update of next_run on scheduled_tasks begin
            update scheduled_tasks set prompt = new.prompt || '!' where id = new.id; end""")
    await gateway.add("t1", cron="0 * * * *", next_run=gateway.at(10))
    await gateway.pass_time(10)
    for _ in range(2):
        await gateway.pass_time(3600)
    assert len(await gateway.messages()) == 3
    assert len(await gateway.alarms("t1")) == 1


async def test_a_table_that_refuses_next_run_still_fires(gateway: Gateway) -> None:
    await gateway.sql("""create table scheduled_tasks (id text primary key, owner text, chat_jid text, prompt text,
        cron text, next_run text check (next_run is null), status text, created_at text)""")
    await gateway.connect()
    await gateway.add("t1", cron="0 * * * *")
    await gateway.pass_time()
    for _ in range(2):
        await gateway.pass_time(3600)
    assert await gateway.messages() == ["do t1"] * 2
    assert "could not be written" in (await store_of(gateway.wakeful).tasks.notes())["t1"]


@pytest.mark.parametrize("gateway", ["postgres"], indirect=True)
@pytest.mark.parametrize(("ending", "said"), [("commit", []), ("rollback", ["do t1"])])
async def test_a_row_that_somebody_is_changing_is_waited_for_by_nobody(
    gateway: Gateway, ending: str, said: list[str]
) -> None:
    await gateway.connect()
    await gateway.add("t1", next_run=gateway.at(10))
    await gateway.add("t2", next_run=gateway.at(10))
    await gateway.pass_time()
    other = await asyncpg.connect(gateway.db)
    try:
        await other.execute("begin")
        await other.execute(DELETED)
        await asyncio.wait_for(gateway.pass_time(10), 30)
        assert await gateway.messages() == ["do t2"]
        await other.execute(ending)
    finally:
        await other.close()
    await gateway.pass_time(1)
    await gateway.pass_time(1)
    assert await gateway.messages() == ["do t2", *said]


@pytest.mark.parametrize("gateway", ["postgres"], indirect=True)
async def test_a_row_that_is_only_referred_to_is_not_in_use(gateway: Gateway) -> None:
    """A gateway that writes its run log in a long transaction keeps no task waiting."""
    await gateway.connect()
    await gateway.sql("create table runs (task_id text references scheduled_tasks (id))")
    await gateway.add("t1", next_run=gateway.at(10))
    await gateway.pass_time()
    other = await asyncpg.connect(gateway.db)
    try:
        await other.execute("begin")
        await other.execute("insert into runs values ('t1')")
        await asyncio.wait_for(gateway.pass_time(10), 30)
        assert await gateway.messages() == ["do t1"]
    finally:
        await other.close()


class Watched:
    """A store that is away at first, and of which is written down what it is asked."""

    def __init__(self, store: Any, asked: list[str]) -> None:
        self._store = store
        self._asked = asked

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name in ("tasks", "maintenance"):
            return Watched(found, self._asked)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def noted(*args: Any, **kwargs: Any) -> Any:
            if len(self._asked) < AWAY:
                self._asked.append("away")
                raise StoreUnavailable("not there yet")
            self._asked.append(name)
            return await found(*args, **kwargs)

        return noted


async def test_tasks_are_planned_and_targets_looked_at_before_the_first_claim(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process that stays, as in one run: also where the database is away at the start."""

    async def idle(*_: Any) -> None:
        await asyncio.Event().wait()

    await gateway.connect()
    # It plans too, beside the loop, and could come first by chance.
    monkeypatch.setattr(gateway.wakeful.dispatcher._upkeep, "run", idle)
    monkeypatch.setattr(gateway.wakeful.dispatcher._upkeep, "resting", True)  # what the clock waits for
    for run in (gateway.wakeful.dispatcher.run, gateway.wakeful.run_due):
        asked: list[str] = []
        dispatcher = gateway.wakeful.dispatcher
        dispatcher._store = dispatcher._upkeep._store = gateway.sql_tasks._store = Watched(
            store_of(gateway.wakeful), asked
        )
        dispatcher._upkeep._caught_up = False
        if run == gateway.wakeful.run_due:
            asked += ["away"] * AWAY
        running = asyncio.create_task(run())
        async with asyncio.timeout(30):
            while "claim" not in asked:
                await gateway.clock.advance(0.1)
                await asyncio.sleep(0)
        dispatcher.stop()
        await running
        before = asked[: asked.index("claim")]
        assert {"away", "target_states", "news"} <= set(before)
