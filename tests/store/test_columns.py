"""A column is a field of a struct, and named nowhere else: a field more is a migration and no SQL statement."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec import Struct

from wakeful.model.alarm import Alarm, Event, Fire
from wakeful.moments import EPOCH
from wakeful.store import DescribedFire, TargetState, Token, Worker
from wakeful.store.columns import DISPATCH, FIXED, INTENT, columns, filled
from wakeful.store.queries import Dialect, Naming, migrations, queries
from wakeful.store.sql_tasks import task_sql

ROOT = Path(__file__).parents[2]
TABLES: dict[str, type[Struct]] = {
    "alarms": Alarm,
    "fires": Fire,
    "events": Event,
    "workers": Worker,
    "target_states": TargetState,
    "tokens": Token,
}
# A program whose `Alarm` has two fields more, as its tables have two columns more.
PROGRAM = """
import asyncio, sys
from tests.mutants.faults import Source
from tests.mutants.plant import _Finder
last = "    generation: int = 0\\n"
more = last + "    colour: str = ''\\n    painted_at: datetime | None = None\\n"
sys.meta_path.insert(0, _Finder(Source("wakeful.model.alarm", last, more)))
from tests.store.test_columns import keeps_what_is_new
asyncio.run(keeps_what_is_new(*sys.argv[1:]))
"""
SQLITE_COLUMNS = (
    "alter table alarms add column colour text not null default ''; alter table alarms add painted_at integer"
)
POSTGRES_COLUMNS = "alter table {}.alarms add column colour text not null default '', add column painted_at timestamptz"


async def keeps_what_is_new(db: str, schema: str = "") -> None:
    """Runs in that program."""
    from wakeful.store import Store
    from wakeful.testing import ManualClock
    from wakeful.testing.conformance.making import an_alarm, change, done, one_claimed, settled, stored

    clock = ManualClock()

    def opened() -> Any:
        if not schema:
            from wakeful.store.sqlite import SqliteStore

            return SqliteStore(db, clock=clock)
        from wakeful.store.postgres import PostgresStore

        return PostgresStore(db, naming=Naming(schema=schema), clock=clock)

    before = opened()
    await before.migrate()
    await before.close()
    if schema:
        await _postgres(db, POSTGRES_COLUMNS.format(schema))
    else:
        apsw.Connection(db).execute(SQLITE_COLUMNS).fetchall()
    kept: Store = opened()
    first = an_alarm(clock, colour="red", painted_at=clock.now())
    await kept.add([first])
    assert await stored(kept, first) == first
    claimed: Any = await one_claimed(kept)
    assert (claimed.colour, claimed.painted_at) == ("red", clock.now())
    edit = change(claimed, edited=True, colour="green", painted_at=None, version=2)
    assert await settled(kept, edit) == ["applied"]
    assert await stored(kept, first) == edit.after
    # A settlement is not an edit: what it was not told to write stays.
    assert await settled(kept, done(edit.after, version=3, colour="blue")) == ["applied"]
    found: Any = await stored(kept, first)
    assert (found.status, found.colour) == ("fired", "green")
    await kept.close()


async def _postgres(dsn: str, statement: str) -> list[Any]:
    import asyncpg

    connection = await asyncpg.connect(dsn)
    try:
        return list(await connection.fetch(statement))
    finally:
        await connection.close()


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_a_field_more_is_kept_and_no_statement_was_touched(
    request: pytest.FixtureRequest, dialect: str, tmp_path: Path
) -> None:
    where = [str(tmp_path / "w.db")]
    if dialect == "postgres":
        where = [request.getfixturevalue("pg_dsn"), f"w{uuid.uuid4().hex[:12]}"]
    ran = subprocess.run([sys.executable, "-c", PROGRAM, *where], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_nothing_is_left_to_be_filled_in(dialect: Dialect) -> None:
    for name, sql in queries(dialect, Naming()).items():
        rest = sql.replace("'{}'", "").replace("{rows}", "")
        assert "{" not in rest, name
    assert not any("columns from" in sql for sql in task_sql(dialect, Naming()).values())


def test_an_alarms_columns_are_fixed_written_by_a_settlement_or_by_an_edit() -> None:
    assert sorted((*DISPATCH, *FIXED, *INTENT)) == sorted(column.name for column in columns(Alarm))


def test_a_list_of_columns_says_what_is_wanted_of_each() -> None:
    assert filled("{event columns}") == "at, what, alarm_id, owner_did, fire_id, by, reason"
    assert filled("{event columns but at, by of e}") == "e.what, e.alarm_id, e.owner_did, e.fire_id, e.reason"
    assert filled("{worker columns but id, host, targets, handlers, version from x}") == (
        "pid = x.pid, started_at = x.started_at, seen_at = x.seen_at, stopped_at = x.stopped_at"
    )
    assert filled("{event as json but what, alarm_id, owner_did, fire_id, by}") == "'at', at / 1000.0, 'reason', reason"
    assert filled("{token values but hash, created_at, expires_at, last_used_at, revoked_at, made_by from $3}") == (
        "$3::text, $4::text, $5::text, $6::text"
    )


def test_parameters_are_numbered_on_from_list_to_list() -> None:
    short = "but what, alarm_id, owner_did, fire_id, reason"
    assert filled(f"{{event arrays {short} from $2}}; {{event values {short}}}") == (
        "$2::timestamptz[], $3::text[]; $4::timestamptz, $5::text"
    )


def test_columns_nobody_has_are_not_passed_over() -> None:
    with pytest.raises(KeyError, match="alarmed"):
        filled("{alarmed columns}")
    with pytest.raises(ValueError, match="colour"):
        filled("{alarm columns but colour}")


def test_the_tables_have_the_columns_of_the_structs_in_sqlite() -> None:
    db = apsw.Connection(":memory:")
    for step in migrations("sqlite", Naming()):
        db.execute(step.sql)
    for table, struct in TABLES.items():
        found = [name for (name,) in db.execute("select name from pragma_table_info(?)", (table,))]
        assert sorted(name for name in found if name != "seq") == sorted(column.name for column in columns(struct))


async def test_the_tables_have_the_columns_of_the_structs_in_postgresql_and_their_types(pg_dsn: str) -> None:
    from wakeful.store.postgres import PostgresStore
    from wakeful.testing import ManualClock

    schema = f"w{uuid.uuid4().hex[:12]}"
    store = PostgresStore(pg_dsn, naming=Naming(schema=schema), clock=ManualClock())
    await store.migrate()
    await store.close()
    for table, struct in TABLES.items():
        rows = await _postgres(
            pg_dsn,
            f"select attname, atttypid::regtype::text from pg_attribute "
            f"where attrelid = '{schema}.{table}'::regclass and attnum > 0 and attname <> 'seq'",
        )
        wanted = [(c.name, c.type.replace("timestamptz", "timestamp with time zone")) for c in columns(struct)]
        assert sorted(tuple(row) for row in rows) == sorted(wanted)


def test_a_fire_whose_alarm_is_gone_is_described_by_nothing() -> None:
    from wakeful.store.postgres.rows import described_fire_of
    from wakeful.store.rows import from_fire, to_described_fire

    said: dict[str, Any] = {"owner_did": "ada", "target": "desk", "status": "failed"}
    fire = Fire(alarm_id=str(uuid.UUID(int=1)), scheduled_for=EPOCH, updated_at=EPOCH, **said)
    nothing = (None,) * (len(DescribedFire.__struct_fields__) - 1)
    assert to_described_fire((*nothing, *from_fire(fire))) == DescribedFire(fire=fire)
    row = {name: getattr(fire, name) for name in Fire.__struct_fields__} | {"log": "[]"}
    assert described_fire_of((*nothing, *row.values())) == DescribedFire(fire=fire)
