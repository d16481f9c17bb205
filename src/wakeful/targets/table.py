"""A table: the wake as a row that another program reads, exactly one for each fire.

In wakeful's own database the row is handed back as the outcome, and the store writes it inside the settlement's own
transaction. In another database it is inserted here; the unique key makes a repetition harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from wakeful.alarm import TASKS, Delivered, Failed, Outcome, Row, Wake
from wakeful.clock import Clock
from wakeful.errors import InvalidConfig
from wakeful.moments import stamp

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
NOT_INSERTED: Final = "could not insert"


class TableWriter(Protocol):
    """Puts rows into a database that is not wakeful's own."""

    async def check(self) -> None: ...

    async def insert(self, row: Row) -> Outcome: ...

    async def close(self) -> None: ...


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
        columns = {**columns, **{column: SIGNATURE[column] for column in self._optional}}
        self._columns = {column: self._field(column, field) for column, field in columns.items()}
        self._stamped = tuple(column for column, field in columns.items() if field == "delivered_at")
        self._timeout = timeout
        self._writer = self._writer_for(database) if database else None

    async def check(self, database: str = "") -> None:
        """Refuse to start on a table that is missing, lacks a column, or has no unique key for the fire id.

        `database` says where wakeful's own tables are; it is not needed for a table elsewhere.
        """
        if self._writer is not None:
            return await self._writer.check()
        writer = self._writer_for(database)
        try:
            await writer.check()
        finally:
            await writer.close()

    async def deliver(self, wake: Wake) -> Outcome:
        values = {column: value(wake) for column, value in self._columns.items()}
        row = Row(self._table, values, self._key, self._stamped, self._optional)
        if self._writer is None:
            return Delivered(f"a row in {self._table}", row=row)
        return await self._writer.insert(row)

    async def close(self) -> None:
        if self._writer is not None:
            await self._writer.close()

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


def quoted(name: str) -> str:
    """An identifier, or several with dots between, as SQL takes them."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


def verify_columns(table: str, wanted: tuple[str, ...], found: Mapping[str, Any]) -> None:
    """Raise for a table that is missing (no columns at all) or lacks one of those wanted."""
    if not found:
        raise InvalidConfig(f"there is no table {table!r}", field="table")
    missing = [column for column in wanted if column not in found]
    if missing:
        fix = f"It has: {', '.join(found)}."
        raise InvalidConfig(f"table {table!r} has no column {', '.join(missing)}", field="columns", fix=fix)


def no_unique_key(table: str, key: str) -> InvalidConfig:
    fix = f"For example: create unique index on {table} ({key})."
    return InvalidConfig(f"table {table!r} has no unique index on {key!r} alone", field="key", fix=fix)


def inserted(table: str, rows: int) -> Outcome:
    return Delivered(f"a row in {table}" if rows else f"already a row in {table}")


def not_inserted(error: str, *, unhealthy: bool) -> Outcome:
    return Failed(f"{NOT_INSERTED}: {error}", unhealthy=unhealthy)


def _check_name(name: str) -> None:
    if not name or "\x00" in name or len(name.encode("utf-8", "replace")) > 63:
        raise InvalidConfig(f"{name[:60]!r} is not a name of 1 to 63 bytes", field="table")
