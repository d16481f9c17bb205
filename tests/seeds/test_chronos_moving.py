"""From Chronos to wakeful as docs/seeds/chronos.md says it, with the real programs: everything new wakes the router."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import apsw
import asyncpg
import pytest

from tests.interfaces.world import serving
from wakeful.clock import SystemClock
from wakeful.moments import unix_ms

from .chronos_router import TOKEN, Router
from .chronos_world import DID, USER, Chronos, Here, chronos_in, here_on

PAGE = (Path(__file__).parents[2] / "docs" / "seeds" / "chronos.md").read_text()
MOVING = PAGE.partition("\n## Moving\n")[2].partition("\n## ")[0]
WAKEFUL = [sys.executable, "-m", "wakeful.cli"]
WITHIN = 60.0  # seconds


@pytest.fixture(params=["sqlite", "postgres"])
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Here]:
    with here_on(request.param, request, tmp_path) as here:
        yield here


@pytest.fixture
def chronos(pg_dsn: str) -> Iterator[Chronos]:
    with chronos_in(pg_dsn) as chronos:
        yield chronos


@pytest.fixture
async def router() -> AsyncIterator[Router]:
    async with Router() as router:
        yield router


def environ(**given: str) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("WAKEFUL_", "CHRONOS_"))}
    return plain | {"WAKEFUL_PORT": "0"} | given


async def run(folder: Path, given: dict[str, str], *args: str, code: int = 0) -> str:
    process = await asyncio.create_subprocess_exec(
        *WAKEFUL, *args, cwd=folder, env=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    async with asyncio.timeout(WITHIN):
        out, err = await process.communicate()
    assert process.returncode == code, err.decode()
    return out.decode()


class Program:
    """A long-running command, and what it says on standard error."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said = ""

    async def says(self, pattern: str) -> re.Match[str]:
        assert self.process.stderr is not None
        async with asyncio.timeout(WITHIN):
            while (found := re.search(pattern, self.said)) is None:
                line = await self.process.stderr.readline()
                assert line, self.said
                self.said += line.decode()
        return found


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    started: list[Program] = []

    async def start(given: dict[str, str], *args: str) -> Program:
        process = await asyncio.create_subprocess_exec(
            *WAKEFUL, *args, cwd=tmp_path, env=given, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        started.append(Program(process))
        return started[-1]

    yield start
    for program in started:
        with suppress(ProcessLookupError):
            program.process.kill()
        await program.process.communicate()


async def insert(here: Here, message: str) -> None:
    """As another program does it: the page's columns that have no default, and nothing of wakeful's."""
    settings = here.settings
    names = "owner_did, user_id, kind, next_fire_at, wake_message"
    if "://" not in settings.db:
        db = apsw.Connection(settings.db)
        db.set_busy_timeout(int(WITHIN * 1000))
        now = unix_ms(SystemClock().now())
        db.execute(f"insert into alarms ({names}) values (?, ?, 'once', ?, ?)", (DID, USER, now, message))
        db.close()
        return
    connection = await asyncpg.connect(settings.db)
    try:
        values = f"('{DID}', '{USER}', 'once', now(), '{message}')"
        await connection.execute(f"insert into {settings.schema}.alarms ({names}) values {values}")
    finally:
        await connection.close()


async def target_of(here: Here, message: str) -> str:
    return await asyncio.to_thread(
        lambda: next(alarm.target for alarm in here.alarms().values() if alarm.wake_message == message)
    )


def exported() -> set[str]:
    """The variables that the page has a mover set."""
    lines = [line.removeprefix("export ") for line in MOVING.splitlines() if line.startswith("export ")]
    return {name for line in lines for name in re.findall(r"(?:^|\s)([A-Z_]+)=", line.partition("#")[0])}


async def test_following_the_page_wakes_the_router_for_everything_new(
    chronos: Chronos, here: Here, router: Router, start: Callable[..., Any], tmp_path: Path
) -> None:
    new = {"imported", "in SQL", "over HTTP"}
    all_woken = asyncio.Event()

    async def look(_: dict[str, Any]) -> None:
        if {wake["message"] for wake in router.wakes} == new:
            all_woken.set()

    router.before_answering = look
    old = await asyncio.to_thread(lambda: chronos.add(wake_message="imported"))
    await asyncio.to_thread(lambda: chronos.sql("update alarms set next_fire_at = now(), fire_at = now()"))
    there = f"{chronos.dsn}{'&' if '?' in chronos.dsn else '?'}search_path={chronos.schema}"
    values = here.environ | {"WAKEFUL_WAKE_URL": router.url, "WAKEFUL_WAKE_TOKEN": TOKEN, "CHRONOS_POSTGRES_URI": there}
    assert values.keys() <= exported() | {"WAKEFUL_SCHEMA"}
    given = environ(**{name: value for name, value in values.items() if name in exported()})
    for line in MOVING.splitlines():
        if line.startswith("$ wakeful "):
            await run(tmp_path, given, *shlex.split(line)[2:])
    program = await start(given, "serve")
    url = (await program.says(r"on (http://127\.0\.0\.1:\d+)"))[1]
    await insert(here, "in SQL")
    async with aiohttp.ClientSession() as http:
        body = {"kind": "once", "delay_seconds": 1, "wake_message": "over HTTP"}
        async with http.post(f"{url}/v1/alarms", json=body) as answer:
            assert answer.status == 201, await answer.text()
    await asyncio.wait_for(all_woken.wait(), WITHIN)
    assert router.faults == []
    assert len(router.wakes) == len(new)
    assert old in {wake["alarm_id"] for wake in router.wakes}


async def test_migrating_directs_rows_in_sql_and_only_where_the_settings_name_a_target(
    here: Here, tmp_path: Path
) -> None:
    wake_url = {"WAKEFUL_WAKE_URL": "http://127.0.0.1:9/internal/wake"}
    for given, said, target in (
        ({}, "", "inbox"),
        (wake_url, "rows in SQL go to\trouter", "router"),
        ({}, "", "router"),
        (wake_url | {"WAKEFUL_DEFAULT_TARGET": "inbox"}, "rows in SQL go to\tinbox", "inbox"),
        ({"WAKEFUL_DEFAULT_TARGET": "it's"}, "rows in SQL go to\tit's", "it's"),
    ):
        out = await run(tmp_path, environ(**here.environ, **given), "db", "migrate")
        assert said in out
        assert bool(said) == ("rows in SQL" in out)
        message = f"row {given} {target}".replace("'", "")
        await insert(here, message)
        assert await target_of(here, message) == target


async def test_a_start_warns_of_a_router_that_is_not_there_and_goes_on(
    here: Here, start: Callable[..., Any], tmp_path: Path
) -> None:
    with socket.socket() as silent:  # it is bound and does not listen: nobody else can take its port
        silent.bind(("127.0.0.1", 0))
        wake_url = f"http://127.0.0.1:{silent.getsockname()[1]}/internal/wake"
        program = await start(environ(**here.environ, WAKEFUL_WAKE_URL=wake_url), "worker")
        warning = await program.says(r"WARNING.*the target 'router' cannot be reached: could not connect: .*")
        assert "wake_url" in warning[0]
        await program.says(r"wakeful \S+ worker")


async def test_a_start_that_may_not_change_the_table_says_so_and_serves(
    pg_own_dsn: str, pg_own_schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    role = f"r_{pg_own_schema}"
    here = Here({"db": pg_own_dsn, "schema": pg_own_schema})
    await asyncio.to_thread(here.alarms)  # its tables are made, by their owner
    owner = await asyncpg.connect(pg_own_dsn)
    try:
        await owner.execute(
            f"create role {role} login; grant usage on schema {pg_own_schema} to {role};"
            f" grant all on all tables in schema {pg_own_schema} to {role};"
            f" grant all on all sequences in schema {pg_own_schema} to {role}"
        )
        user = re.sub(r"//[^@/]*@", f"//{role}:@", pg_own_dsn)
        wake_url = "http://127.0.0.1:9/internal/wake"
        async with serving(user, schema=pg_own_schema, wake_url=wake_url) as visit:
            assert (await visit.set())["target"] == "router"
        assert "rows inserted in SQL without a target may not go to 'router'" in caplog.text
        assert "`wakeful db migrate`" in caplog.text
    finally:
        await owner.execute(f"drop owned by {role}; drop role {role}")
        await owner.close()
