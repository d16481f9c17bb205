"""A table: the wake as a row that another program reads, exactly one for each fire.

In wakeful's own database the row is returned as the outcome, and the store writes it inside the settlement's own
transaction. In another database it is inserted here; the unique key makes a repetition harmless.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from wakeful.clock import Clock
from wakeful.errors import InvalidConfig
from wakeful.model.alarm import TASKS, Row
from wakeful.model.outcome import Delivered, Outcome
from wakeful.moments import stamp
from wakeful.rules.wake import Wake
from wakeful.targets.table_writer import TableWriter, Unfit

# What the message gateway of seed 001 reads. It follows `timestamp`: a row older than the newest one it has read is
# never seen, so the moment of writing stands there, not the moment it was due.
MESSAGES: Final = {
    "id": "fire_id",
    "chat_jid": "conversation_id",
    "sender": "sender",
    "content": "message",
    "timestamp": "delivered_at",
}
# Who set it, beside a sender that says what the gateway expects: where the table has columns of these names for text.
SIGNATURE: Final = {"owner": "owner_did", "created_by": "created_by"}
_FIELDS: Final[Mapping[str, Callable[[Wake], Any]]] = {
    "fire_id": lambda wake: wake.fire_id,
    "alarm_id": lambda wake: wake.alarm_id,
    "owner_did": lambda wake: wake.owner_did,
    "user_id": lambda wake: wake.user_id,
    "conversation_id": lambda wake: wake.conversation_id,
    "label": lambda wake: wake.label,
    "message": lambda wake: wake.message,
    "payload": lambda wake: wake.payload_json,
    "scheduled_for": lambda wake: stamp(wake.scheduled_for),
    "isolated": lambda wake: int(wake.isolated),
    "created_by": lambda wake: wake.alarm.created_by,
    "created_via": lambda wake: wake.alarm.created_via,
    "created_at": lambda wake: stamp(wake.alarm.created_at),
    "body": lambda wake: wake.body.decode(),
}
FIELDS: Final = (*_FIELDS, "sender", "delivered_at")
KEY: Final = "fire_id"  # the column that is suggested where `id` takes no text


class TableTarget:
    """Settings:

    table             its name; on PostgreSQL also schema.table
    columns           column = field of the wake (see FIELDS), or a fixed text in single quotes
    key               the column that holds the fire id; it needs a unique index of its own
    database          "": wakeful's own; else the path of an SQLite file, or postgresql://…
    sender            what the field `sender` says
    isolated_sender   the same for isolated alarms; {task_id} stands for the task's id (an alarm that is none: its
                      own), {alarm_id} for the alarm's
    timeout           seconds one insert into another database may take

    Values are text, but for `isolated`, which is 0 or 1; a store or writer turns text into the column's type.
    """

    def __init__(
        self,
        *,
        table: str,
        clock: Clock,
        columns: Mapping[str, str] = MESSAGES,
        key: str = "id",
        database: str = "",
        sender: str = "scheduler",
        isolated_sender: str = "scheduler-isolated:{task_id}",
        timeout: float = 30,
    ) -> None:
        for name in (*table.split("."), *columns, key):
            _check_name(name)
        # Whoever names the columns has all of them named.
        self._optional = tuple(SIGNATURE) if columns is MESSAGES and key not in SIGNATURE else ()
        columns = columns if key in columns else {key: "fire_id", **columns}
        if columns[key] != "fire_id":
            raise InvalidConfig(f"the key column {key!r} must be filled with fire_id", field="columns")
        if timeout <= 0:
            raise InvalidConfig(f"{timeout} is not more than 0 seconds", field="timeout")
        self._table = table
        self._key = key
        self._clock = clock
        self._sender = sender
        self._isolated_sender = isolated_sender
        self._named = columns
        columns = {**columns, **{column: SIGNATURE[column] for column in self._optional}}
        self._columns = {column: self._field(column, field) for column, field in columns.items()}
        self._stamped = tuple(column for column, field in columns.items() if field == "delivered_at")
        self._timeout = timeout
        self._database = database
        self._writer = self._writer_for(database) if database else None

    async def check(self, database: str = "") -> None:
        """Refuse to start on a table that is missing, lacks a column, or has no unique key for the fire id.

        `database` says where wakeful's own tables are; it is not needed for a table elsewhere.
        """
        await self._with_writer(database, lambda writer: writer.check())

    async def try_out(self, database: str, wake: Wake) -> None:
        """Refuse a table that could take no row at all: one is written in a transaction that is rolled back."""

        async def tried(writer: TableWriter) -> None:
            await writer.check()
            await writer.try_out(self._row(wake))

        await self._with_writer(database, tried)

    async def _with_writer(self, database: str, work: Callable[[TableWriter], Awaitable[None]]) -> None:
        writer = self._writer or self._writer_for(database)
        try:
            await work(writer)
        except Unfit as unfit:
            raise InvalidConfig(unfit.why, field="columns", fix=self._fix(unfit)) from None
        finally:
            if writer is not self._writer:
                await writer.close()

    async def deliver(self, wake: Wake) -> Outcome:
        row = self._row(wake)
        if self._writer is None:
            return Delivered(f"a row in {self._table}", row=row)
        return await self._writer.insert(row)

    async def close(self) -> None:
        if self._writer is not None:
            await self._writer.close()

    def _row(self, wake: Wake) -> Row:
        values = {column: value(wake) for column, value in self._columns.items()}
        return Row(self._table, values, self._key, self._stamped, self._optional)

    def _fix(self, unfit: Unfit) -> str:
        """Settings with which the same table can take a row."""
        name = self._table.rpartition(".")[2]
        columns = {column: field for column, field in self._named.items() if column != unfit.unfit}
        base = {"kind": "table", "table": self._table, **({"database": self._database} if self._database else {})}
        line = f"as the first line of wakeful.toml: targets.{name} = "
        if unfit.key:
            add = f"alter table {self._table} add column {KEY} text"
            index = f"create unique index {name}_{KEY} on {self._table} ({KEY})"
            columns.pop(self._key, None)
            settings = _toml(base | {"key": KEY, "columns": {KEY: "fire_id", **columns}})
            return f"Give it a column for the wake's id: `{add}; {index}`. Then name that column, {line}{settings}"
        if self._key != "id":
            base["key"] = self._key
        settings = _toml(base | {"columns": {**columns, **unfit.needed}})
        if unfit.needed:
            what = f"Give {', '.join(unfit.needed)} a default, or name what is written there,"
        else:
            what = "Make it text, or leave it out,"
        return f"{what} {line}{settings}"

    def _field(self, column: str, field: str) -> Callable[[Wake], Any]:
        if len(field) >= 2 and field[0] == field[-1] == "'":
            text = field[1:-1].replace("''", "'")
            return lambda _: text
        if field == "sender":
            return self._sender_of
        if field == "delivered_at":
            return lambda _: stamp(self._clock.now())
        if field not in _FIELDS:
            fix = f"Accepted: {', '.join(FIELDS)}, or a text in single quotes."
            raise InvalidConfig(f"{field[:60]!r} is not a field of a wake", field=f"columns.{column}", fix=fix)
        return _FIELDS[field]

    def _sender_of(self, wake: Wake) -> str:
        if wake.isolated:
            alarm = wake.alarm
            task_id = alarm.label if alarm.created_via == TASKS else alarm.id
            return self._isolated_sender.replace("{alarm_id}", alarm.id).replace("{task_id}", task_id)
        return self._sender

    def _writer_for(self, database: str) -> TableWriter:
        columns = tuple(column for column in self._columns if column not in self._optional)
        if database.startswith(("postgresql://", "postgres://")):
            try:
                from wakeful.targets.table_postgres import PostgresWriter
            except ImportError:
                fix = "pip install wakeful[postgres]"
                raise InvalidConfig("asyncpg is not installed", field="database", fix=fix) from None
            return PostgresWriter(database, self._table, columns, self._key, timeout=self._timeout)
        from wakeful.targets.table_sqlite import SqliteWriter

        return SqliteWriter(database, self._table, columns, self._key, timeout=self._timeout, clock=self._clock)


def _toml(value: Mapping[str, Any] | str) -> str:
    """On one line, as an inline table."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return "{" + ", ".join(f"{_bare(name)} = {_toml(inner)}" for name, inner in value.items()) + "}"


def _bare(name: str) -> str:
    return name if name.replace("_", "").isalnum() and name.isascii() else json.dumps(name, ensure_ascii=False)


def _check_name(name: str) -> None:
    if not name or "\x00" in name or len(name.encode("utf-8", "replace")) > 63:
        raise InvalidConfig(f"{name[:60]!r} is not a name of 1 to 63 bytes", field="table")
