"""No page reads a table from end to end: every statement that a page asks finds its rows by an index.

Each page is asked of a real server, the statements are noted as the store sends them, and the database is asked how it
answers them. Lists with a filter that finds nothing look at no more rows than they say.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest
from bench.full_database import fill_postgres, fill_sqlite, views

from tests.interfaces.world import Visitor, serving
from wakeful.process.application import build
from wakeful.service import bulk as searching
from wakeful.settings import Settings

ROWS = 20_000
LOOKED_AT = 500
STEPS = 60 * LOOKED_AT  # of SQLite's machine: 20,000 rows would take several times as many
OWNERS = {"one owner": "owner_did", "many owners": "case when {n} % 2 = 0 then owner_did else 'o' || {n} % 500 end"}
_TABLE = re.compile(r"\bfrom (?:\w+\.)?(alarms|fires)\b")
Plan = tuple[str, str]  # the statement, and how it is answered

pytestmark = pytest.mark.parametrize("owners", OWNERS)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "LOOKED_AT", LOOKED_AT)
    monkeypatch.setattr(searching, "READ", LOOKED_AT)


@asynccontextmanager
async def full(settings: dict[str, Any], fill: Callable[[str, Any], Any]) -> AsyncIterator[tuple[Visitor, list[str]]]:
    """A server before a full database, and the pages that it is asked for."""
    async with build(Settings(**settings)) as alarms:
        made = await alarms.set("every day at 9am", "Look at the grant portal", label="grants")
        now = await alarms.service.now()
    await fill(made.id, now)
    async with serving(**settings) as visit:
        yield visit, views(made.id, now)


async def asked(visit: Visitor, pages: list[str], noted: list[Any]) -> list[Any]:
    """What the store was asked for these pages."""
    noted.clear()
    for page in pages:
        answer = await visit("GET", page)
        assert answer.status == 200, (page, answer.text)
    found = [one for one in noted if re.search(r"\b(alarms|fires)\b", one[0]) and _is_of_a_page(one[0])]
    assert len({sql for sql, *_ in found}) >= 12
    assert {table for sql, *_ in found if _is_list(sql) for table in _TABLE.findall(sql)} == {"alarms", "fires"}
    return found


def _is_of_a_page(sql: str) -> bool:
    """The dispatcher looks for what is due and what is old beside them: by conditions that no page has."""
    reads = re.match(r"(--.*\n)*(select|with)\b", sql)
    return bool(reads) and not re.search(r"\b(update|delete|before|unsettled [=>]|report_by <=)(?!\w)", sql)


def _is_list(sql: str) -> bool:
    return bool(
        re.search(r"\n order by\s+(created_at|id|(fire\.)?scheduled_for|case .* then created_at end) desc", sql)
    )


class TestSqlite:
    async def test_every_statement_of_a_page_goes_by_an_index(self, tmp_path: Path, owners: str) -> None:
        path = str(tmp_path / "wakeful.db")

        async def fill(id: str, now: Any) -> None:
            fill_sqlite(path, id, now, alarms=ROWS, fires=ROWS)
            db = apsw.Connection(path)
            for table, which in (("alarms", "label <> 'grants'"), ("fires", "true")):
                db.execute(f"update {table} set owner_did = {OWNERS[owners].format(n='rowid')} where {which}")
            db.execute("analyze")
            db.close()

        with _noted_by_apsw() as noted:
            async with full({"db": path}, fill) as (visit, pages):
                found = await asked(visit, pages, noted)
        db = apsw.Connection(path)
        for sql, bindings in found:
            plan = "\n".join(str(step[3]) for step in db.execute(f"explain query plan {sql}", bindings))
            # What is gone through in full is what the statement itself has made.
            assert not re.search(r"SCAN (alarms?|fires?|one|due|next)\b", plan), f"{sql}\n{plan}"
            if _is_list(sql):
                assert _steps(db, sql, bindings) < STEPS, f"{sql}\n{plan}"
        db.close()


@contextmanager
def _noted_by_apsw() -> Iterator[list[Any]]:
    noted: list[Any] = []

    def note(_: apsw.Cursor, sql: str, bindings: Any) -> bool:
        noted.append((sql, dict(bindings) if isinstance(bindings, dict) else bindings))
        return True

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = note

    apsw.connection_hooks.append(watch)
    try:
        yield noted
    finally:
        apsw.connection_hooks.remove(watch)


def _steps(db: apsw.Connection, sql: str, bindings: Any) -> int:
    found: list[int] = []

    def told(event: dict[str, Any]) -> None:
        found.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

    db.trace_v2(apsw.SQLITE_TRACE_PROFILE, told)
    db.execute(sql, bindings).fetchall()
    db.trace_v2(0, None)
    return sum(found)


class TestPostgres:
    async def test_every_statement_of_a_page_goes_by_an_index(
        self, pg_dsn: str, pg_schema: str, owners: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settings = {"random_page_cost": "1.1", "plan_cache_mode": "force_custom_plan", "jit": "off"}
        db = await asyncpg.connect(pg_dsn, server_settings=settings | {"search_path": pg_schema})

        async def fill(id: str, now: Any) -> None:
            await fill_postgres(pg_dsn, pg_schema, id, now, alarms=ROWS, fires=ROWS)
            for table, which in (("alarms", "label <> 'grants'"), ("fires", "true")):
                number = "(extract(epoch from updated_at) * 1000)::bigint"
                await db.execute(f"update {table} set owner_did = {OWNERS[owners].format(n=number)} where {which}")
                await db.execute(f"vacuum analyze {table}")

        noted = _noted_by_asyncpg(monkeypatch)
        async with full({"db": pg_dsn, "schema": pg_schema}, fill) as (visit, pages):
            found = await asked(visit, pages, noted)
        monkeypatch.undo()
        for sql, args in found:
            [[told]] = await db.fetch(f"explain (analyze, timing off, format json) {sql}", *args)
            for node in _nodes(json.loads(told)[0]["Plan"]):
                if node.get("Relation Name") in ("alarms", "fires"):
                    assert node["Node Type"] != "Seq Scan", f"{sql}\n{told}"
                    assert not _is_list(sql) or _rows(node) <= 2 * LOOKED_AT, f"{sql}\n{args}\n{told}"
        await db.close()


def _noted_by_asyncpg(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Both ways in which the driver is asked: at once, and row by row."""
    noted: list[Any] = []
    execute: Any = vars(asyncpg.Connection)["_execute"]
    cursor = asyncpg.cursor.CursorFactory.__init__

    async def noting(self: Any, query: str, args: Any, *more: Any, **named: Any) -> Any:
        noted.append((query, tuple(args)))
        return await execute(self, query, args, *more, **named)

    def noting_too(self: Any, connection: Any, query: str, state: Any, args: Any, *more: Any) -> None:
        noted.append((query, tuple(args)))
        cursor(self, connection, query, state, args, *more)

    monkeypatch.setattr(asyncpg.Connection, "_execute", noting)
    monkeypatch.setattr(asyncpg.cursor.CursorFactory, "__init__", noting_too)
    return noted


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _nodes(part)


def _rows(node: dict[str, Any]) -> int:
    """Rows that were looked at, whether they fit or not."""
    return int(node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)))
