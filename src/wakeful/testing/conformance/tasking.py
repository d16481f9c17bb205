"""SQL tasks: another program's table of tasks, watched, planned and written back to."""

from __future__ import annotations

from typing import Any, Final

import pytest
from msgspec.structs import replace

from wakeful.clock import Clock
from wakeful.errors import InvalidConfig, InvalidRequest
from wakeful.model.alarm import TASKS, Alarm
from wakeful.rules.task import Planner, Task, TaskNews, TaskPlan, rfc3339
from wakeful.store import Store
from wakeful.testing.conformance.making import (
    DESK,
    SECOND,
    Outbox,
    a_fire,
    added,
    an_alarm,
    done,
    new_id,
    one_claimed,
    settled,
    stored,
)
from wakeful.testing.manual_clock import ManualClock

PLANNER: Final = Planner(target=DESK, owner="local", timezone="UTC", max_failures=5)
COLUMNS: Final = (
    "id text primary key, owner text, chat_jid text, prompt text, cron text, next_run text, created_at text"
)


def beside(outbox: Outbox, name: str = "tasks") -> str:
    """A table beside the other program's own."""
    schema, dot, _ = outbox.table.rpartition(".")
    return f"{schema}{dot}{name}"


def a_task(clock: Clock, id: str = "t1", **given: Any) -> Task:
    """A one-shot that is due in ten seconds."""
    now = clock.now()
    fields = {"owner": "ada", "chat_jid": "1@g.us", "prompt": f"do {id}", "status": "active", "context_mode": "group"}
    moments = {"next_run": rfc3339(now + 10 * SECOND), "created_at": rfc3339(now)}
    return Task(id=id, **(fields | moments | given))


async def connected(store: Store, outbox: Outbox, *tasks: Task) -> str:
    table = beside(outbox)
    await store.tasks.connect(table)
    for task in tasks:
        assert await store.tasks.insert(task)
    return table


async def found(store: Store, id: str = "t1") -> Task:
    [task] = await store.tasks.find(id=id)
    return task


async def news(store: Store) -> list[TaskNews]:
    return await store.tasks.news(limit=100)


async def thought_of(store: Store, clock: Clock, one: TaskNews) -> TaskPlan:
    alarm = await store.get(one.alarm_id) if one.alarm_id else None
    return PLANNER.plan(replace(one, alarm=alarm), id=new_id(), now=clock.now())


async def planned(store: Store, clock: Clock) -> Alarm:
    """The alarm of the one task that is news."""
    [one] = await news(store)
    plan = await thought_of(store, clock, one)
    assert [answer.what for answer in await store.tasks.plan([plan])] == ["written"]
    alarm = await store.get(plan.alarm_id)
    assert alarm is not None
    return alarm


class TestTaskTables:
    async def test_a_table_is_made_where_there_is_none_and_connected_once(self, store: Store, outbox: Outbox) -> None:
        table = beside(outbox)
        assert await store.tasks.table() == ""
        assert await store.tasks.connect(table) is True
        assert await store.tasks.table() == table
        assert await store.tasks.connect(table) is False

    async def test_rows_that_were_there_are_taken_over(self, store: Store, outbox: Outbox) -> None:
        await outbox.run(f"create table {beside(outbox)} ({COLUMNS}, status text)")
        await outbox.run(f"insert into {beside(outbox)} (id, prompt) values ('t1', 'old')")
        assert await store.tasks.connect(beside(outbox)) is False
        assert [(one.task_id, one.task and one.task.prompt) for one in await news(store)] == [("t1", "old")]

    @pytest.mark.parametrize("name", ["", "a b", "x;y", "1st", "a.b.c"])
    async def test_what_cannot_name_a_table_is_refused(self, store: Store, name: str) -> None:
        with pytest.raises(InvalidConfig):
            await store.tasks.connect(name)
        with pytest.raises(InvalidConfig):
            await store.tasks.rows(name, limit=1)

    async def test_a_table_of_something_else_is_refused(self, store: Store, outbox: Outbox) -> None:
        for refused in (store.tasks.connect(outbox.table), store.tasks.rows(outbox.table, limit=1)):
            with pytest.raises(InvalidConfig, match="column"):
                await refused
        assert await store.tasks.table() == ""

    async def test_a_view_is_refused(self, store: Store, outbox: Outbox) -> None:
        await outbox.run(f"create view {beside(outbox)} as select 'x' as id")
        with pytest.raises(InvalidConfig, match="table"):
            await store.tasks.connect(beside(outbox))

    async def test_rows_are_read_of_a_table_nobody_connected(
        self, store: Store, clock: ManualClock, outbox: Outbox
    ) -> None:
        assert await store.tasks.rows(beside(outbox), limit=9) is None
        table = await connected(store, outbox, a_task(clock, "a"))
        await clock.advance(1)
        await store.tasks.insert(a_task(clock, "b"))
        await store.tasks.disconnect()
        assert [task.id for task in await store.tasks.rows(table, limit=9) or ()] == ["b", "a"]
        assert [task.id for task in await store.tasks.rows(table, limit=1) or ()] == ["b"]

    async def test_a_disconnected_table_is_not_watched(self, store: Store, clock: ManualClock, outbox: Outbox) -> None:
        table = await connected(store, outbox, a_task(clock))
        alarm = await planned(store, clock)
        await store.tasks.insert(a_task(clock, "queued"))
        assert await store.tasks.disconnect() == table
        await outbox.run(f"update {table} set prompt = 'unseen'")
        assert await store.tasks.table() == ""
        assert await news(store) == []
        assert await store.tasks.links(limit=9) == {"t1": alarm.id}
        assert await store.tasks.disconnect() == ""

    async def test_another_table_takes_the_place_of_the_first(
        self, store: Store, clock: ManualClock, outbox: Outbox
    ) -> None:
        first = await connected(store, outbox)
        await store.tasks.connect(beside(outbox, "others"))
        assert await store.tasks.table() == beside(outbox, "others")
        await outbox.run(f"insert into {first} (id) values ('unseen')")
        await store.tasks.insert(a_task(clock, "seen"))
        assert [one.task_id for one in await news(store)] == ["seen"]

    async def test_a_table_that_was_made_anew_is_watched_again(
        self, store: Store, clock: ManualClock, outbox: Outbox
    ) -> None:
        assert await store.tasks.mend() is False
        table = await connected(store, outbox, a_task(clock))
        await planned(store, clock)
        assert await store.tasks.mend() is False
        await outbox.run(f"drop table {table}")
        assert await store.tasks.mend() is False
        await outbox.run(f"create table {table} ({COLUMNS}, status text)")
        await outbox.run(f"insert into {table} (id) values ('t2')")
        assert await store.tasks.mend() is True
        assert {one.task_id: one.task is not None for one in await news(store)} == {"t1": False, "t2": True}
        await outbox.run(f"insert into {table} (id) values ('t3')")
        assert len(await news(store)) == 3


class TestTaskRows:
    async def test_nothing_is_done_where_no_table_is_connected(self, store: Store, clock: ManualClock) -> None:
        task = a_task(clock)
        for asked in (
            store.tasks.find(),
            store.tasks.insert(task),
            store.tasks.update(task, was=task),
            store.tasks.delete("t1", owner="ada"),
        ):
            with pytest.raises(InvalidRequest, match="connected"):
                await asked
        assert await news(store) == []

    async def test_an_id_is_taken_once(self, store: Store, clock: ManualClock, outbox: Outbox) -> None:
        await connected(store, outbox, a_task(clock))
        assert await store.tasks.insert(a_task(clock, prompt="again")) is False
        assert (await found(store)).prompt == "do t1"

    async def test_rows_are_found_newest_first(self, store: Store, clock: ManualClock, outbox: Outbox) -> None:
        await connected(store, outbox, a_task(clock, "a"))
        await clock.advance(1)
        await store.tasks.insert(a_task(clock, "b", owner="eve"))
        await clock.advance(1)
        await store.tasks.insert(a_task(clock, "c"))
        for asked, ids in (
            ({}, ["c", "b", "a"]),
            ({"limit": 2}, ["c", "b"]),
            ({"owner": "ada"}, ["c", "a"]),
            ({"id": "b"}, ["b"]),
            ({"id": "b", "owner": "ada"}, []),
        ):
            assert [task.id for task in await store.tasks.find(**asked)] == ids

    async def test_a_row_is_changed_only_by_its_owner_as_it_was_read(
        self, store: Store, clock: ManualClock, outbox: Outbox
    ) -> None:
        await connected(store, outbox, a_task(clock))
        was = await found(store)
        after = replace(was, prompt="newer", context_mode="isolated")
        assert await store.tasks.update(replace(after, owner="eve"), was=was) is False
        assert await store.tasks.update(after, was=replace(was, status="paused")) is False
        assert await found(store) == was
        assert await store.tasks.update(after, was=was) is True
        assert await found(store) == after
        assert await store.tasks.update(after, was=was) is False

    async def test_a_row_is_deleted_only_by_its_owner(self, store: Store, clock: ManualClock, outbox: Outbox) -> None:
        await connected(store, outbox, a_task(clock), a_task(clock, "nobody's", owner=None))
        assert await store.tasks.delete("t1", owner="eve") is False
        assert await store.tasks.delete("t1", owner=None) is False
        assert await store.tasks.delete("t1", owner="ada") is True
        assert await store.tasks.delete("t1", owner="ada") is False
        assert await store.tasks.delete("nobody's", owner=None) is True
        assert await store.tasks.find() == []

    async def test_what_the_table_refuses_is_told(self, store: Store, clock: ManualClock, outbox: Outbox) -> None:
        await outbox.run(f"create table {beside(outbox)} ({COLUMNS}, status text check (status <> 'odd'))")
        await connected(store, outbox, a_task(clock))
        was = await found(store)
        for refused in (
            store.tasks.insert(a_task(clock, "t2", status="odd")),
            store.tasks.update(replace(was, status="odd"), was=was),
        ):
            with pytest.raises(InvalidRequest, match="does not take it"):
                await refused
        with pytest.raises(InvalidRequest, match="isolated"):
            await store.tasks.insert(a_task(clock, "t2", context_mode="isolated"))
        assert await store.tasks.find() == [was]


class TestTaskNews:
    async def test_a_changed_task_is_news_until_it_is_planned(
        self, store: Store, clock: ManualClock, outbox: Outbox
    ) -> None:
        await connected(store, outbox, a_task(clock))
        [first] = await news(store)
        assert (first.task, first.seen, first.alarm_id) == (await found(store), None, "")
        alarm = await planned(store, clock)
        assert await news(store) == []
        was = await found(store)
        await store.tasks.update(replace(was, prompt="a"), was=was)
        await store.tasks.update(replace(was, prompt="b"), was=replace(was, prompt="a"))
        [again] = await news(store)
        assert again.upto > first.upto
        assert (again.task, again.seen, again.alarm_id) == (replace(was, prompt="b"), was, alarm.id)

    async def test_a_deleted_task_is_news_without_a_row(self, store: Store, clock: ManualClock, outbox: Outbox) -> None:
        await connected(store, outbox, a_task(clock))
        alarm = await planned(store, clock)
        await store.tasks.delete("t1", owner="ada")
        [one] = await news(store)
        assert (one.task, one.alarm_id) == (None, alarm.id)
        plan = await thought_of(store, clock, one)
        assert [answer.what for answer in await store.tasks.plan([plan])] == ["written"]
        assert (await stored(store, alarm)).status == "cancelled"
        assert await store.tasks.links(limit=9) == {}

    async def test_news_go_on_behind_what_was_looked_at(self, store: Store, clock: ManualClock, outbox: Outbox) -> None:
        await connected(store, outbox, *(a_task(clock, id) for id in "abc"))
        first = await store.tasks.news(limit=2)
        assert [one.task_id for one in first] == ["a", "b"]
        assert [one.task_id for one in await store.tasks.news(limit=2, after=first[-1].upto)] == ["c"]


class TestTaskPlans:
    async def test_a_plan_is_an_alarm_a_link_and_the_row(
        self, store: Store, clock: ManualClock, outbox: Outbox
    ) -> None:
        await connected(store, outbox, a_task(clock, cron="0 * * * *", next_run=None))
        alarm = await planned(store, clock)
        assert (alarm.created_via, alarm.wake_message) == (TASKS, "do t1")
        assert await store.tasks.links(limit=9) == {"t1": alarm.id}
        next_run = (await found(store)).next_run
        assert next_run is not None  # the row says when it runs
        assert next_run.startswith(f"{alarm.next_fire_at:%Y-%m-%dT%H:%M:%S}")

    async def test_a_plan_for_a_row_that_changed_again_writes_nothing(
        self, store: Store, clock: ManualClock, outbox: Outbox
    ) -> None:
        await connected(store, outbox, a_task(clock))
        [one] = await news(store)
        plan = await thought_of(store, clock, one)
        was = await found(store)
        await store.tasks.update(replace(was, prompt="newer"), was=was)
        assert [answer.what for answer in await store.tasks.plan([plan])] == ["moved"]
        assert await store.get(plan.alarm_id) is None
        assert await store.tasks.links(limit=9) == {}
        assert [one.task and one.task.prompt for one in await news(store)] == ["newer"]

    async def test_a_task_is_planned_once(self, store: Store, clock: ManualClock, outbox: Outbox) -> None:
        await connected(store, outbox, a_task(clock))
        [one] = await news(store)
        plans = [await thought_of(store, clock, one), await thought_of(store, clock, one)]
        assert [answer.what for answer in await store.tasks.plan(plans)] == ["written", "moved"]
        assert await store.get(plans[1].alarm_id) is None

    async def test_a_plan_for_an_alarm_that_moved_on_writes_nothing(
        self, store: Store, clock: ManualClock, outbox: Outbox
    ) -> None:
        await connected(store, outbox, a_task(clock))
        alarm = await planned(store, clock)
        was = await found(store)
        await store.tasks.update(replace(was, prompt="newer"), was=was)
        [one] = await news(store)
        plan = await thought_of(store, clock, one)
        await clock.advance(10)
        await one_claimed(store)
        assert [answer.what for answer in await store.tasks.plan([plan])] == ["moved"]
        assert (await stored(store, alarm)).wake_message == "do t1"

    async def test_what_the_database_does_not_take_leaves_the_others_alone(
        self, store: Store, clock: ManualClock, outbox: Outbox
    ) -> None:
        await connected(store, outbox, a_task(clock, "bad"), a_task(clock, "good"))
        plans = [await thought_of(store, clock, one) for one in await news(store)]
        assert plans[0].new is not None
        plans[0] = replace(plans[0], new=replace(plans[0].new, label="\ud800"))
        refused, written = await store.tasks.plan(plans)
        assert (refused.what, written.what) == ("refused", "written")
        assert refused.error
        assert list(await store.tasks.links(limit=9)) == ["good"]

    async def test_why_a_task_does_not_run_is_noted(self, store: Store, clock: ManualClock, outbox: Outbox) -> None:
        await connected(store, outbox, *(a_task(clock, id, chat_jid=None) for id in ("t1", "t2")))
        plans = [await thought_of(store, clock, one) for one in await news(store)]
        await store.tasks.plan(plans)
        assert await store.tasks.notes() == {"t1": "chat_jid: it is empty", "t2": "chat_jid: it is empty"}
        assert list(await store.tasks.notes(limit=1)) == ["t1"]
        assert (await found(store)).status == "error"
        assert await news(store) == []  # what was written here is nobody's change

    async def test_a_link_is_undone(self, store: Store, clock: ManualClock, outbox: Outbox) -> None:
        await connected(store, outbox, a_task(clock, "a"))
        await planned(store, clock)
        await store.tasks.insert(a_task(clock, "b"))
        await planned(store, clock)
        assert list(await store.tasks.links(limit=1)) == ["a"]
        await store.tasks.unlink(["a", "nobody"])
        assert list(await store.tasks.links(limit=9)) == ["b"]


class TestTasksAndTheirAlarms:
    async def test_a_row_that_stands_as_it_was_planned_has_not_moved(
        self, store: Store, clock: ManualClock, outbox: Outbox
    ) -> None:
        await connected(store, outbox, a_task(clock))
        alarm, other = await planned(store, clock), an_alarm(clock)
        await added(store, other)
        assert await store.tasks.moved([]) == {}
        assert await store.tasks.moved([alarm.id, other.id]) == {}

    async def test_a_row_that_was_changed_has_moved(self, store: Store, clock: ManualClock, outbox: Outbox) -> None:
        table = await connected(store, outbox, a_task(clock))
        alarm = await planned(store, clock)
        was = await found(store)
        await store.tasks.update(replace(was, prompt="newer"), was=was)
        moved = await store.tasks.moved([alarm.id])
        assert {id: one and (one.task, one.seen) for id, one in moved.items()} == {
            alarm.id: (replace(was, prompt="newer"), was)
        }
        await outbox.run(f"drop table {table}")
        assert await store.tasks.moved([alarm.id]) == {alarm.id: None}

    async def test_a_row_follows_its_alarm(self, store: Store, clock: ManualClock, outbox: Outbox) -> None:
        await connected(store, outbox, a_task(clock))
        await planned(store, clock)
        await clock.advance(10)
        assert await settled(store, done(await one_claimed(store))) == ["applied"]
        row = await found(store)
        assert (row.status, row.next_run) == ("done", None)
        assert await news(store) == []

    async def test_a_row_that_was_changed_meanwhile_is_not_overwritten(
        self, store: Store, clock: ManualClock, outbox: Outbox
    ) -> None:
        await connected(store, outbox, a_task(clock))
        await planned(store, clock)
        await clock.advance(10)
        alarm = await one_claimed(store)
        was = await found(store)
        await store.tasks.update(replace(was, status="paused"), was=was)
        assert await settled(store, done(alarm)) == ["applied"]
        assert await found(store) == replace(was, status="paused")
        assert [one.task_id for one in await news(store)] == ["t1"]

    async def test_what_a_changed_row_would_have_said_is_not_written(
        self, store: Store, clock: ManualClock, outbox: Outbox
    ) -> None:
        await connected(store, outbox, a_task(clock))
        await planned(store, clock)
        await clock.advance(10)
        alarm = await one_claimed(store)
        says = done(alarm, a_fire(alarm, status="waiting"), claim=alarm.claim + 1)
        was = await found(store)
        await store.tasks.update(replace(was, prompt="newer"), was=was)
        assert await settled(store, says) == ["moved"]
        assert await stored(store, alarm) == alarm
        await store.tasks.update(was, was=replace(was, prompt="newer"))
        assert await settled(store, says) == ["applied"]

    async def test_what_a_table_refuses_of_an_alarms_progress_is_noted(
        self, store: Store, clock: ManualClock, outbox: Outbox
    ) -> None:
        await outbox.run(f"create table {beside(outbox)} ({COLUMNS}, status text check (status <> 'done'))")
        await connected(store, outbox, a_task(clock))
        alarm = await planned(store, clock)
        await clock.advance(10)
        assert await settled(store, done(await one_claimed(store))) == ["applied"]
        assert (await stored(store, alarm)).status == "fired"
        assert (await found(store)).status == "active"
        assert "could not be written" in (await store.tasks.notes())["t1"]
