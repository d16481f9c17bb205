"""The least that wakeful's role in PostgreSQL needs: what docs/security.md says is run here, word for word."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

import wakeful
from wakeful.process.application import build, open_local
from wakeful.service.tokens import TokenVerbs
from wakeful.settings import Settings
from wakeful.testing import store_of

from .postgres_world import World

SAID = (Path(__file__).parents[2] / "docs" / "security.md").read_text()


def statements(name: str) -> list[str]:
    """The SQL of the page for one of the two roles."""
    found = re.search(rf"```sql\n(-- {name}:.*?)```", SAID, re.DOTALL)
    assert found is not None, name
    return [one.strip() for one in found[1].split(";") if one.strip()]


@pytest.fixture
async def roles(own_world: World) -> AsyncIterator[tuple[str, str]]:
    """The names of an owning and of a serving role, which the page calls wakeful and wakeful_serve."""
    names = f"{own_world.schema}_own", f"{own_world.schema}_serve"
    yield names
    for name in names:
        if await own_world.value("select count(*) from pg_roles where rolname = $1", name):
            await own_world.sql(f"drop owned by {name} cascade")
            await own_world.sql(f"drop role {name}")


async def run(world: World, said: list[str], names: tuple[str, str]) -> None:
    owning, serving = names
    database = world.dsn.rsplit("/", 1)[1].partition("?")[0]
    for sql in said:
        sql = re.sub(r"\bwakeful_serve\b", serving, sql)
        sql = re.sub(r"\bwakeful\b", owning, sql).replace("DATABASE", database)
        await world.sql(sql)


async def everything(world: World, role: str, schema: str) -> None:
    """What a server does in a day."""
    async with build(Settings(db=world.dsn_as(role), schema=schema, retention=timedelta(0))) as alarms:
        store = store_of(alarms)
        alarms.handler("ops")(lambda wake: "ok")
        alarm = await alarms.set(delay=0.001, wake_message="work", target="ops", key="k")
        await alarms.set("in 1 hour", "later", target="ops")
        assert await alarms.run_due() == 1
        assert [fire.result for fire in await alarms.fires(alarm.id)] == ["ok"]
        await alarms.reset()
        await alarms.set(delay=0.001, wake_message="fetch me")
        assert await alarms.run_due() == 1
        [(_, fire)] = await alarms.inbox()
        await alarms.completed(fire.id, "done")
        assert await store.access.check_rows("select 1", within=30) == [(1,)]
        _, token = await TokenVerbs(store).new("ada", ["read"])
        await TokenVerbs(store).revoke(token.id)
        while await store.maintenance.purge(await store.now() + timedelta(days=1)):
            pass
        assert (await alarms.stats()).completed == 0


async def test_a_role_that_owns_its_schema_is_enough_for_all_of_it(own_world: World, roles: tuple[str, str]) -> None:
    await run(own_world, statements("one role"), roles)
    await everything(own_world, roles[0], roles[0])
    [row] = await own_world.sql(
        "select rolsuper, rolcreatedb, rolcreaterole from pg_roles where rolname = $1", roles[0]
    )
    assert not any(row)


async def test_it_reads_no_table_of_anybody_else(own_world: World, roles: tuple[str, str]) -> None:
    await run(own_world, statements("one role"), roles)
    async with open_local(own_world.dsn_as(roles[0]), schema=roles[0]) as alarms:
        with pytest.raises(wakeful.WakefulError, match="permission denied"):
            await store_of(alarms).access.check_rows(f"select * from {own_world.alarms}", within=30)


async def test_a_serving_role_does_all_of_it_but_migrate(own_world: World, roles: tuple[str, str]) -> None:
    await run(own_world, statements("one role"), roles)
    async with open_local(own_world.dsn_as(roles[0]), schema=roles[0]):
        pass  # as `wakeful db migrate` does
    await run(own_world, statements("two roles"), roles)
    await everything(own_world, roles[1], roles[0])
    owner = await asyncpg.connect(own_world.dsn_as(roles[0]))
    await owner.execute(f"create table {roles[0]}.of_the_next_version (x integer)")
    await owner.close()
    connection = await asyncpg.connect(own_world.dsn_as(roles[1]))
    try:
        await connection.execute(f"insert into {roles[0]}.of_the_next_version values (1)")
        for sql in (f"drop table {roles[0]}.alarms", f"create table {roles[0]}.mine (x integer)"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(sql)
    finally:
        await connection.close()
