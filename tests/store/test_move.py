"""Moving to another database: everything arrives and is compared, the old one is closed, a kill only interrupts."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import replace

import wakeful
from tests import commands
from wakeful.errors import Conflict, InvalidConfig, InvalidRequest, StoreUnavailable
from wakeful.rules.task import Task
from wakeful.settings import Settings
from wakeful.store import AlarmQuery, EventQuery
from wakeful.store.copying import CopyEnd, table
from wakeful.store.copying.move import Moved, abandon, move
from wakeful.store.queries import CLOSED, Naming, Transfer, migrations

from .copying_world import (
    LEASE,
    LONG_AGO,
    Databases,
    a_worker,
    an_alarm,
    content,
    end_of,
    fill,
    fired,
    unwatched,
)
from .sqlite_file_tools import ask, other_program

MANY = 5000
WAYS = [("sqlite", "postgres"), ("postgres", "sqlite"), ("sqlite", "sqlite"), ("postgres", "postgres")]
there_and_back = pytest.mark.parametrize(("source", "target"), WAYS[:2])
every_way = pytest.mark.parametrize(("source", "target"), WAYS)
each = pytest.mark.parametrize("kind", ["sqlite", "postgres"])


@pytest.fixture
async def databases(tmp_path: Path, pg_dsn: str) -> AsyncIterator[Databases]:
    made = Databases(tmp_path, pg_dsn)
    yield made
    await made.drop()


async def moved(source: CopyEnd, target: CopyEnd) -> Moved:
    return await move(source, target, by="op", now=datetime.now(UTC), watch=unwatched)


@every_way
async def test_everything_arrives_and_the_old_database_says_where_it_is(
    databases: Databases, source: str, target: str
) -> None:
    old, new = databases.new(source), databases.new(target, "new")
    async with end_of(old) as before, end_of(new, migrated=False) as after:
        alarms = await fill(before.store)
        had = await content(before.store)
        answer = await moved(before, after)
        rows = {"alarms": 4, "fires": 1, "events": 1, "tokens": 1, "secrets": 2, "target_states": 1, "zone_rules": 1}
        assert {name: one.rows for name, one in answer.sums.items() if one.rows} == rows
        assert await content(after.store) == had
        [claimed] = (await after.store.claim({"held": 9}, lease=LEASE)).alarms
        assert claimed.fire_id == alarms["leased"].fire_id
        assert claimed.claim > alarms["leased"].claim + 1
        assert [one.what for _, one in await after.store.events(EventQuery(limit=99))][-1] == "moved"
        with pytest.raises(InvalidConfig, match=re.escape(f"this database was moved to {after.name} at")):
            await before.store.migrate()
        again = await moved(before, after)
        assert again.again
    async with end_of(new) as after:  # whoever comes next may open it
        assert (await after.store.stats()).total == 4


@each
async def test_whoever_still_has_the_old_one_open_can_do_nothing_there(databases: Databases, kind: str) -> None:
    """Of whatever version: the database itself refuses, and an older wakeful takes it for a newer one's."""
    old, new = databases.new(kind), databases.new("sqlite", "new")
    async with end_of(old) as running, end_of(old) as before, end_of(new) as after:
        await running.store.add([an_alarm(LONG_AGO), an_alarm(LONG_AGO)])
        [claimed] = (await running.store.claim({"desk": 1}, lease=LEASE)).alarms
        await moved(before, after)
        with pytest.raises(StoreUnavailable, match="this database was moved to"):
            await running.store.add([an_alarm(LONG_AGO)])
        with pytest.raises(StoreUnavailable, match="this database was moved to"):
            await running.store.claim({"desk": 1}, lease=LEASE)
        with suppress(StoreUnavailable):  # or it is this change that is refused, as any that the database does not take
            assert [answer.what for answer in await running.store.settle([fired(claimed)])] == ["refused"]
        assert (await running.store.stats()).completed == 0
        assert len((await after.store.claim({"desk": 9}, lease=LEASE)).alarms) == 2
    assert migrations("sqlite", Naming())[-1].version < CLOSED


KILLED = """
import asyncio, os, signal, sys
import msgspec
from datetime import UTC, datetime
from wakeful.process.application import build_copy_end
from wakeful.settings import Settings
from wakeful.store.copying.move import move

old, new = msgspec.json.decode(sys.argv[1], type=tuple[dict[str, str], dict[str, str]])
left = int(sys.argv[2])

def watch(total):
    def seen(count):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    return seen

async def main():
    source, target = build_copy_end(Settings(**old)), build_copy_end(Settings(**new))
    await move(source, target, by="op", now=datetime.now(UTC), watch=watch)

asyncio.run(main())
"""


def killed(old: Settings, new: Settings, *, at: int) -> None:
    """Move in a process that gets a SIGKILL when so many batches are done."""
    given = json.dumps([{"db": one.db, "schema": one.schema} for one in (old, new)])
    done = subprocess.run([sys.executable, "-c", KILLED, given, str(at)], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


@there_and_back
async def test_a_move_that_is_killed_goes_on_where_it_stopped(databases: Databases, source: str, target: str) -> None:
    old, new = databases.new(source), databases.new(target, "new")
    async with end_of(old) as before:
        await fill(before.store)
        await before.store.add([an_alarm(LONG_AGO, target="later") for _ in range(MANY)])
        had = await content(before.store)
    for at in (2, 3, 8):  # while copying alarms, once more, and while comparing
        await asyncio.to_thread(killed, old, new, at=at)
        async with end_of(old, migrated=False) as before, end_of(new, migrated=False) as after:
            with pytest.raises(InvalidConfig, match="is being moved to"):
                await before.store.migrate()
            with pytest.raises(InvalidConfig, match="is not complete"):
                await after.store.migrate()
            assert await after.tables.count(table("alarms")) >= 4000
    async with end_of(old, migrated=False) as before, end_of(new, migrated=False) as after:
        answer = await moved(before, after)
        assert answer.resumed
        assert answer.sums["alarms"].rows == MANY + 4
        assert await content(after.store) == had
    async with end_of(new) as after:
        assert (await after.store.stats()).total == MANY + 4


@there_and_back
async def test_a_kill_just_before_the_new_one_is_opened_leaves_one_step(
    databases: Databases, source: str, target: str
) -> None:
    old, new = databases.new(source), databases.new(target, "new")
    async with end_of(old) as before, end_of(new) as after:
        await before.store.add([an_alarm(LONG_AGO)])
        await moved(before, after)
        left = await before.closed()
        assert left is not None
        async with after.tables.transaction():  # as it was one step before the end
            arriving = Transfer(id=left.id, state="arriving", other=before.name, at=left.at)
            await after.tables.run("set_transfer", value=arriving.encoded())
            await after.tables.refuse_to_open()
            await after.tables.clear(table("events"))
        assert not (await moved(before, after)).again
        await after.store.migrate()
        assert (await moved(before, after)).again


@there_and_back
async def test_a_copy_that_differs_is_never_opened(databases: Databases, source: str, target: str) -> None:
    old, new = databases.new(source), databases.new(target, "new")
    async with end_of(old) as before:
        await fill(before.store)
        await before.store.add([an_alarm(LONG_AGO) for _ in range(2500)])
    await asyncio.to_thread(killed, old, new, at=1)
    async with end_of(old, migrated=False) as before, end_of(new, migrated=False) as after:
        assert (await after.store.claim({"desk": 1}, lease=LEASE)).alarms  # nobody should, and somebody did
        with pytest.raises(StoreUnavailable, match="the copy of alarms is not what was copied: 2504 rows of 2504"):
            await moved(before, after)
        with pytest.raises(InvalidConfig, match="is being moved to"):
            await before.store.migrate()
        with pytest.raises(InvalidConfig, match="is not complete"):
            await after.store.migrate()


@there_and_back
async def test_a_move_can_be_called_off_and_begun_anew(databases: Databases, source: str, target: str) -> None:
    old, new = databases.new(source), databases.new(target, "new")
    async with end_of(old) as before:
        await before.store.add([an_alarm(LONG_AGO) for _ in range(2500)])
        with pytest.raises(Conflict, match="is not being moved"):
            await abandon(before)
    await asyncio.to_thread(killed, old, new, at=1)
    async with end_of(old, migrated=False) as before, end_of(new, migrated=False) as after:
        async with end_of(databases.new("sqlite", "elsewhere")) as elsewhere:
            with pytest.raises(Conflict, match=re.escape(f"is being moved to {after.name}")):
                await moved(before, elsewhere)
        await abandon(before)
        await before.store.migrate()
        [claimed] = (await before.store.claim({"desk": 1}, lease=LEASE)).alarms
        assert (await before.store.settle([fired(claimed)]))[0].what == "applied"
        with pytest.raises(InvalidConfig, match="is not complete"):
            await after.store.migrate()
        answer = await moved(before, after)
        assert not answer.resumed
        assert answer.sums["alarms"].rows == 2500
        gone = await after.store.get(claimed.id)
        assert gone is not None
        assert gone.status == "fired"
        with pytest.raises(Conflict, match="Only a move that is not complete"):
            await abandon(before)


async def test_it_is_refused_while_somebody_dispatches_or_where_there_is_something(databases: Databases) -> None:
    old, new = databases.new("sqlite"), databases.new("postgres")
    async with end_of(old) as before, end_of(new) as after:
        await before.store.add([an_alarm(LONG_AGO)])
        now = datetime.now(UTC)
        await before.store.maintenance.beat(a_worker(seen_at=now, host="another"))
        with pytest.raises(Conflict, match="on another dispatches from"):
            await moved(before, after)
        await before.store.maintenance.beat(replace(a_worker(seen_at=now, host="another"), stopped_at=now))
        await after.store.add([an_alarm(LONG_AGO)])
        with pytest.raises(Conflict, match=r"is not empty \(alarms: 1\)"):
            await moved(before, after)
        with pytest.raises(InvalidRequest, match="is where it is already"):
            await moved(before, before)
        await before.store.migrate()  # none of these closed it
        assert len((await before.store.claim({"desk": 9}, lease=LEASE)).alarms) == 1


async def test_what_postgres_cannot_keep(databases: Databases) -> None:
    """A NUL in what a target answered becomes what it becomes when PostgreSQL's store writes it; an odd id is named."""
    old, new = databases.new("sqlite"), databases.new("postgres")
    async with end_of(old) as before, end_of(new) as after:
        await before.store.add([an_alarm(LONG_AGO)])
        [claimed] = (await before.store.claim({"desk": 1}, lease=LEASE)).alarms
        await before.store.settle([fired(claimed, result="a\0b")])
        with other_program(old.db) as db:
            db.execute(
                "insert into alarms (id, owner_did, user_id, kind, next_fire_at) values ('mine-1', 'a', 'a', 'once', 1)"
            )
        with pytest.raises(InvalidRequest, match="the alarm 'mine-1' has an id that is not a UUID"):
            await moved(before, after)
        await before.store.migrate()  # asked before anything was closed
        with other_program(old.db) as db:
            db.execute("delete from alarms where id = 'mine-1'")
        await moved(before, after)
        [fire] = (await after.store.fires_at([(claimed.id, claimed.occurrence_at)])).values()
        assert fire.result == "a\N{REPLACEMENT CHARACTER}b"


@there_and_back
async def test_tasks_of_another_program_keep_their_alarms(databases: Databases, source: str, target: str) -> None:
    """Links move along; the other program's table is its own to move, and until it is there its alarms wait."""
    old, new = databases.new(source), databases.new(target, "new")
    # Its name is its own: another test's table of the usual name may stand in the same database.
    name = f"{old.schema}.scheduled_tasks" if old.schema else f"tasks_{uuid4().hex[:8]}"
    async with end_of(old) as before:
        await before.store.tasks.connect(name)
        columns = {"id": "task-1", "owner": "ada", "chat_jid": "c", "prompt": "p", "cron": "0 9 * * *"}
        assert await before.store.tasks.insert(Task(**columns, status="active", context_mode="group"))
    async with wakeful.open(old.db, **_schema(old)) as alarms:
        await alarms.run_due()  # it is planned
    async with end_of(old) as before, end_of(new) as after:
        links = await before.store.tasks.links(limit=9)
        assert list(links) == ["task-1"]
        answer = await moved(before, after)
        assert (answer.sums["task_tables"].rows, answer.sums["task_links"].rows) == (1, 1)
        assert answer.task_table == name
        assert await after.store.tasks.table() == name
        assert await after.store.tasks.links(limit=9) == links
        [alarm] = await after.store.find(AlarmQuery())
        assert alarm.id == links["task-1"]
    async with wakeful.open(new.db, owner="ada", **_schema(new)) as alarms:
        await alarms.run_due()  # without the table
        assert [(one.id, one.status) for one in await alarms.find()] == [(alarm.id, "active")]


def _schema(settings: Settings) -> dict[str, Any]:
    return {"schema": settings.schema} if settings.schema else {}


async def test_fires_come_from_the_new_database_only_and_once(databases: Databases) -> None:
    old, new = databases.new("sqlite"), databases.new("postgres")
    heard: list[str] = []

    async def run(settings: Settings) -> None:
        async with wakeful.open(settings.db, **_schema(settings)) as alarms:

            @alarms.handler("desk")
            async def desk(wake: wakeful.Wake) -> None:
                heard.append(wake.fire_id)

            await alarms.run_due()

    alarms = [an_alarm(LONG_AGO) for _ in range(30)]
    async with end_of(old) as before:
        await before.store.add(alarms[:10])
    await run(old)
    async with end_of(old) as before, end_of(new) as after:
        await before.store.add(alarms[10:])
        await moved(before, after)
    with pytest.raises(InvalidConfig, match="this database was moved to"):
        await run(old)
    await run(new)
    assert sorted(heard) == sorted(alarm.fire_id for alarm in alarms)


def test_the_command_moves_tells_and_can_be_repeated(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("WAKEFUL_")}

    def run(*args: str, code: int = 0) -> str:
        done = commands.run(args, cwd=tmp_path, env=environ)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    run("at", "2099-01-01T00:00:00Z", "x")
    assert "Give --to DB, or --abandon." in run("db", "move", code=2)
    told = json.loads(run("db", "move", "--to", "new.db", "--json"))
    assert (told["tables"]["alarms"]["rows"], told["resumed"]) == (1, False)
    assert "this database was moved to" in run("ls", code=2)
    assert "it was moved before" in run("db", "move", "--to", "new.db")
    assert "\tx" in run("ls", "--db", "new.db")
    assert ask(str(tmp_path / "new.db"), "select count(*) from alarms") == [(1,)]
