from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from wakeful.errors import InvalidConfig
from wakeful.model.alarm import Row
from wakeful.model.outcome import Delivered, Failed
from wakeful.moments import stamp
from wakeful.targets import Target
from wakeful.targets.table import FIELDS, MESSAGES, TableTarget
from wakeful.testing.targets import TargetConformance, a_wake

asyncpg = pytest.importorskip("asyncpg")

Open = Callable[..., TableTarget]
# The gateway's own table at the time of seed 001.
GATEWAY = """
create table messages (
    id text primary key, chat_jid text not null, sender text not null, sender_name text, content text not null,
    timestamp text not null, is_from_me integer default 0, is_bot_message integer default 0,
    topic text not null default '', verb text not null default ''
)
"""


class NineOClock:
    def now(self) -> datetime:
        return datetime(2030, 1, 1, 9, 0, 0, 250_000, tzinfo=UTC)

    async def sleep(self, seconds: float) -> None: ...


@pytest.fixture
async def table() -> AsyncIterator[Open]:
    opened: list[TableTarget] = []

    def open(table: str = "messages", **settings: Any) -> TableTarget:
        usual: dict[str, Any] = {"clock": NineOClock()}
        opened.append(TableTarget(table=table, **(usual | settings)))
        return opened[-1]

    yield open
    for each in opened:
        await each.close()


@pytest.fixture
def gateway(tmp_path: Path) -> Path:
    path = tmp_path / "messages.db"
    with closing(apsw.Connection(str(path))) as database:
        database.execute("pragma journal_mode = wal")
        database.execute(GATEWAY)
    return path


# By apsw too: two SQLite libraries in one process do not see each other's locks.
def rows(path: Path, sql: str = "select * from messages") -> list[dict[str, Any]]:
    with closing(apsw.Connection(str(path))) as database:
        cursor = database.execute(sql)
        return [dict(zip((name for name, _ in cursor.getdescription()), row, strict=True)) for row in cursor]


class TestInOurOwnDatabase(TargetConformance):
    @pytest.fixture
    def target(self, table: Open) -> Target:
        return table()

    async def test_the_row_is_handed_back_for_the_settlement_to_write(self, table: Open) -> None:
        wake = a_wake("Morning brief", conversation_id="123@g.us", created_by="her agent")
        outcome = await table().deliver(wake)
        assert isinstance(outcome, Delivered)
        assert outcome.row == Row(
            "messages",
            {
                "id": wake.fire_id,
                "chat_jid": "123@g.us",
                "sender": "scheduler",
                "content": "Morning brief",
                "timestamp": "2030-01-01T09:00:00.250000Z",
                "owner": wake.owner_did,
                "created_by": "her agent",
            },
            "id",
            ("timestamp",),
            ("owner", "created_by"),
        )

    async def test_the_sender_of_an_isolated_alarm_names_it(self, table: Open) -> None:
        wake = a_wake(isolated=True)
        outcome = await table().deliver(wake)
        assert isinstance(outcome, Delivered)
        assert outcome.row is not None
        assert outcome.row.values["sender"] == f"scheduler-isolated:{wake.alarm_id}"

    async def test_both_senders_can_be_chosen(self, table: Open) -> None:
        target = table(sender="timed", isolated_sender="timed-isolated:{alarm_id}/{alarm_id.__class__}")
        senders = []
        for isolated in (False, True):
            outcome = await target.deliver(a_wake(id="a", isolated=isolated))
            assert isinstance(outcome, Delivered)
            assert outcome.row is not None
            senders.append(outcome.row.values["sender"])
        assert senders == ["timed", "timed-isolated:a/{alarm_id.__class__}"]

    async def test_its_table_can_be_checked_where_the_store_is(self, table: Open, gateway: Path) -> None:
        await table().check(str(gateway))
        with pytest.raises(InvalidConfig):
            await table("missing").check(str(gateway))

    async def test_every_field_of_a_wake_can_be_a_column(self, table: Open) -> None:
        columns = {"id": "fire_id"} | {f"c_{field}": field for field in FIELDS} | {"fixed": "'it''s'"}
        outcome = await table(columns=columns).deliver(a_wake(payload_json='{"a":  1}', created_by="bob"))
        assert isinstance(outcome, Delivered)
        assert outcome.row is not None
        values = outcome.row.values
        assert values["c_payload"] == '{"a":  1}'
        assert values["c_created_by"] == "bob"
        assert values["c_scheduled_for"] == "2030-01-01T09:00:00.000000Z"
        assert values["c_isolated"] == 0
        assert values["fixed"] == "it's"


def test_stamps_sort_like_time_among_those_of_go() -> None:
    ours = stamp(datetime(2030, 1, 1, 9, 0, 0, 123_456, tzinfo=UTC))
    assert "2030-01-01T09:00:00.123Z" > ours > "2030-01-01T09:00:00.123400001Z"
    assert stamp(datetime(2030, 1, 1, 9, tzinfo=UTC)) < "2030-01-01T09:00:00.1Z"


class TestInAnotherSqliteFile(TargetConformance):
    @pytest.fixture
    def target(self, table: Open, gateway: Path) -> Target:
        return table(database=str(gateway))

    async def test_one_fire_is_one_row_however_often_it_comes(self, table: Open, gateway: Path) -> None:
        target = table(database=str(gateway))
        await target.check()
        first = await target.deliver(a_wake(conversation_id="c"))
        again = await target.deliver(a_wake("edited", attempt=2, conversation_id="c"))
        assert (first, again) == (Delivered("a row in messages"), Delivered("already a row in messages"))
        [row] = rows(gateway)
        assert row["content"] == "Check the grant portal"
        assert row["chat_jid"] == "c"
        assert row["verb"] == ""

    async def test_a_row_says_who_set_it_where_there_are_columns_for_it(self, table: Open, gateway: Path) -> None:
        target = table(database=str(gateway))
        await target.deliver(a_wake("before"))
        with closing(apsw.Connection(str(gateway))) as database:
            database.execute("alter table messages add column Owner text; alter table messages add created_by integer")
        await target.check()
        await target.deliver(a_wake("after", id="b", owner_did="ada", created_by="her agent"))
        found = [(row["content"], row["Owner"], row["created_by"]) for row in rows(gateway)]
        assert sorted(found) == [("after", "ada", None), ("before", None, None)]

    async def test_whoever_names_the_columns_names_all_of_them(self, table: Open, gateway: Path) -> None:
        with closing(apsw.Connection(str(gateway))) as database:
            database.execute("alter table messages add column owner text")
        await table(database=str(gateway), columns=dict(MESSAGES)).deliver(a_wake())
        assert [row["owner"] for row in rows(gateway)] == [None]

    async def test_strange_text_arrives_as_it_is(self, table: Open, gateway: Path) -> None:
        text = "'); drop table messages; -- é😀\n{alarm_id}"
        await table(database=str(gateway)).deliver(a_wake(text))
        assert [row["content"] for row in rows(gateway)] == [text]

    async def test_strange_names_are_quoted(self, table: Open, tmp_path: Path) -> None:
        path = tmp_path / "strange.db"
        with closing(apsw.Connection(str(path))) as database:
            database.execute('create table "my ""table; --" ("select" text unique, "a\'b" text)')
        target = table('my "table; --', database=str(path), key="select", columns={"a'b": "message"})
        await target.check()
        assert isinstance(await target.deliver(a_wake("hi")), Delivered)
        [row] = rows(path, 'select * from "my ""table; --"')
        assert row == {"select": a_wake().fire_id, "a'b": "hi"}

    @pytest.mark.parametrize(
        "ddl",
        [
            "create table t (id text, message text)",
            "create table t (id text, message text, unique (id, message))",
            "create table t (id text, message text); create unique index u on t (id) where message = 'x'",
            "create table t (id text, message text); create unique index u on t (lower(id))",
            "create table t (id text, message text); create index u on t (id)",
        ],
    )
    async def test_a_table_without_a_unique_key_is_refused_at_start(
        self, table: Open, tmp_path: Path, ddl: str
    ) -> None:
        path = tmp_path / "t.db"
        with closing(apsw.Connection(str(path))) as database:
            database.execute(ddl)
        with pytest.raises(InvalidConfig) as caught:
            await table("t", database=str(path), columns={"id": "fire_id", "message": "message"}).check()
        assert caught.value.field == "key"

    async def test_a_missing_table_column_or_file_is_refused_at_start(
        self, table: Open, gateway: Path, tmp_path: Path
    ) -> None:
        for target, field in [
            (table("nothing", database=str(gateway)), "table"),
            (table(database=str(gateway), columns={"id": "fire_id", "nope": "label"}), "columns"),
            (table(database=str(tmp_path / "away.db")), "database"),
        ]:
            with pytest.raises(InvalidConfig) as caught:
                await target.check()
            assert caught.value.field == field
        assert not (tmp_path / "away.db").exists()

    async def test_a_file_that_is_away_is_unhealthy_and_used_as_soon_as_it_is_there(
        self, table: Open, gateway: Path, tmp_path: Path
    ) -> None:
        target = table(database=str(tmp_path / "later.db"))
        outcome = await target.deliver(a_wake())
        assert isinstance(outcome, Failed)
        assert outcome.unhealthy
        shutil.copy(gateway, tmp_path / "later.db")
        assert isinstance(await target.deliver(a_wake()), Delivered)

    async def test_a_file_that_is_locked_fails_in_time(self, table: Open, gateway: Path) -> None:
        target = table(database=str(gateway), timeout=0.3)
        with closing(apsw.Connection(str(gateway))) as other:
            other.execute("begin immediate")
            outcome = await target.deliver(a_wake())
            other.execute("rollback")
        assert isinstance(outcome, Failed)
        assert outcome.unhealthy
        assert isinstance(await table(database=str(gateway)).deliver(a_wake()), Delivered)

    async def test_a_row_the_table_refuses_is_the_wakes_fault(self, table: Open, gateway: Path) -> None:
        with closing(apsw.Connection(str(gateway))) as database:
            database.execute("create trigger no before insert on messages begin select raise(abort, 'not today'); end")
        outcome = await table(database=str(gateway)).deliver(a_wake())
        assert isinstance(outcome, Failed)
        assert "not today" in outcome.error
        assert not outcome.unhealthy


class TestInAnotherPostgres(TargetConformance):
    COLUMNS = {  # noqa: RUF012 (a constant)
        "id": "fire_id",
        "content": "message",
        "timestamp": "scheduled_for",
        "isolated": "isolated",
        "state": "payload",
    }

    @pytest.fixture
    async def database(self, pg_dsn: str) -> AsyncIterator[Any]:
        connection = await asyncpg.connect(pg_dsn)
        await connection.execute(
            'create schema other; create table other."Messages" (id varchar(80) primary key, content text not null,'
            ' "timestamp" timestamptz, isolated boolean, state json)'
        )
        yield connection
        await connection.execute("drop schema other cascade")
        await connection.close()

    @pytest.fixture
    def target(self, table: Open, pg_dsn: str, database: Any) -> TableTarget:
        return table("other.Messages", database=pg_dsn, columns=self.COLUMNS)

    async def test_one_fire_is_one_row_with_the_columns_own_types(self, target: TableTarget, database: Any) -> None:
        await target.check()
        first = await target.deliver(a_wake(payload_json='{"a":  1}'))
        again = await target.deliver(a_wake("edited", attempt=2))
        assert (first, again) == (Delivered("a row in other.Messages"), Delivered("already a row in other.Messages"))
        [row] = await database.fetch('select * from other."Messages"')
        assert row["timestamp"] == datetime(2030, 1, 1, 9, tzinfo=UTC)
        assert row["isolated"] is False
        assert row["state"] == '{"a":  1}'
        assert row["content"] == "Check the grant portal"

    async def test_a_row_says_who_set_it_where_there_are_columns_for_it(
        self, table: Open, pg_dsn: str, database: Any
    ) -> None:
        await database.execute(f"set search_path to other; {GATEWAY}; alter table messages add owner text")
        target = table("other.messages", database=pg_dsn)
        assert isinstance(await target.deliver(a_wake(conversation_id="c", owner_did="ada")), Delivered)
        assert await database.fetchval("select owner from messages") == "ada"
        await database.execute("alter table messages drop column owner")
        lost = await target.deliver(a_wake(id="b", conversation_id="c"))
        assert isinstance(lost, Failed)
        assert isinstance(await target.deliver(a_wake(id="b", conversation_id="c")), Delivered)

    async def test_a_row_the_table_refuses_is_the_wakes_fault_and_its_values_stay_private(
        self, target: TableTarget, database: Any
    ) -> None:
        await database.execute("""alter table other."Messages" add check (content <> 'planted')""")
        outcome = await target.deliver(a_wake("planted"))
        assert isinstance(outcome, Failed)
        assert not outcome.unhealthy
        assert "planted" not in outcome.error

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ('alter table other."Messages" drop constraint "Messages_pkey"', "key"),
            (
                'alter table other."Messages" drop constraint "Messages_pkey",'
                " add unique (id) deferrable initially deferred",
                "key",
            ),
            ('alter table other."Messages" drop column content', "columns"),
            ('alter table other."Messages" rename to messages', "table"),
        ],
    )
    async def test_a_table_that_does_not_fit_is_refused_at_start(
        self, target: TableTarget, database: Any, change: str, field: str
    ) -> None:
        await database.execute(change)
        with pytest.raises(InvalidConfig) as caught:
            await target.check()
        assert caught.value.field == field
        outcome = await target.deliver(a_wake())
        assert isinstance(outcome, Failed)

    async def test_broken_connections_are_made_anew(self, target: TableTarget, database: Any) -> None:
        assert isinstance(await target.deliver(a_wake()), Delivered)
        await database.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where pid <> pg_backend_pid() and query like 'insert into \"other\"%'"
        )
        outcomes = [await target.deliver(a_wake(id=f"a{n}")) for n in range(3)]
        assert outcomes[-1] == Delivered("a row in other.Messages")

    async def test_a_locked_table_fails_in_time(self, table: Open, pg_dsn: str, database: Any) -> None:
        target = table("other.Messages", database=pg_dsn, columns=self.COLUMNS, timeout=0.5)
        await target.check()
        async with database.transaction():
            await database.execute('lock table other."Messages"')
            outcome = await target.deliver(a_wake())
        assert isinstance(outcome, Failed)
        assert outcome.unhealthy


async def test_a_postgres_that_is_away_is_unhealthy_and_its_password_is_not_shown(table: Open) -> None:
    target = table(database="postgresql://user:planted@127.0.0.1:1/none", timeout=5)
    outcome = await target.deliver(a_wake())
    assert isinstance(outcome, Failed)
    assert outcome.unhealthy
    assert "planted" not in outcome.error
    with pytest.raises(InvalidConfig) as caught:
        await target.check()
    assert "planted" not in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"columns": {"id": "fire_id", "x": "no_such_field"}},
        {"columns": {"id": "message"}},
        {"columns": {"": "message"}},
        {"columns": {"a\x00b": "message"}},
        {"columns": {"é" * 32: "message"}},
        {"table": ""},
        {"table": "a..b"},
        {"key": ""},
        {"timeout": 0},
    ],
)
def test_a_wrong_setting_is_refused(table: Open, settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfig):
        table(**settings)


def test_the_usual_columns_are_those_of_the_gateway() -> None:
    assert set(MESSAGES) == {"id", "chat_jid", "sender", "content", "timestamp"}
