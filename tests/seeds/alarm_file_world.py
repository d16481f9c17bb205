"""A file of Alarm's that has been in use for a while: its table as its page describes it, and rows of every state."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw

from wakeful.seeds.erlang_terms import Atom

from .erlang import a_map, term_to_binary

# Column by column from Alarm's page; what it added later is added as it does.
TABLE = """
create table alarm (
    id integer primary key, updated_at integer, set_at integer not null, process text not null, message blob not null,
    started_at integer, reply text, cancelled_at integer)
"""
LATER = (
    "completed_at integer",
    "duration_ms integer",
    "result text",
    "created_by text",
    "created_via text",
    "max_retries integer default 0",
    "attempts integer default 0",
    "backoff_ms integer default 5000",
)
NOW = int(datetime.now(UTC).timestamp())
CALL = term_to_binary((Atom("send"), a_map(title=b"Reminder", message=b"Call client")))
# What the page says its `stats` counts.
STATS = """
select count(*) as total,
       count(*) filter (where started_at is null and cancelled_at is null) as pending,
       count(*) filter (where started_at is not null and completed_at is null and cancelled_at is null) as fired,
       count(*) filter (where completed_at is not null) as completed,
       count(*) filter (where result like 'FAILED:%') as failed,
       count(*) filter (where cancelled_at is not null) as cancelled,
       count(*) filter (where result = 'timeout_unknown') as timeout_unknown,
       cast(round(avg(duration_ms) filter (where completed_at is not null)) as integer) as avg_duration_ms
  from alarm
"""


class AlarmsFile:
    def __init__(self, path: Path, *, later: bool = True, journal: str = "delete") -> None:
        self.path = path
        self._next = (NOW - 3600) * 1000
        self.sql(f"pragma journal_mode={journal}")
        self.sql(TABLE)
        for column in LATER if later else ():
            self.sql(f"alter table alarm add column {column}")

    def sql(self, statement: str, values: Any = ()) -> list[tuple[Any, ...]]:
        db = apsw.Connection(str(self.path))
        try:
            return db.execute(statement, values).fetchall()
        finally:
            db.close()

    def add(self, **given: Any) -> int:
        """A row; what is not given is left to the table, or pending for an hour from now."""
        self._next += 1000
        row: dict[str, Any] = {
            "id": self._next,
            "set_at": NOW + 3600,
            "process": "Elixir.Pushover",
            "message": CALL,
        } | given
        row.setdefault("updated_at", row["id"])
        self.sql(f"insert into alarm ({', '.join(row)}) values ({', '.join('?' * len(row))})", tuple(row.values()))
        return int(row["id"])

    def add_many(self, count: int) -> None:
        self.sql(
            "with recursive number (value) as (select 1 union all select value + 1 from number where value < ?4)"
            " insert into alarm"
            " (id, updated_at, set_at, process, message, started_at, completed_at, duration_ms, result)"
            " select ?1 + value, ?1 + value, ?2 + value, 'Elixir.Pushover', ?3, iif(value % 2, ?2, null),"
            " iif(value % 2, ?2 + 1, null), iif(value % 2, 1000, null), iif(value % 2, 'ok', null)"
            " from number",
            (self._next, NOW - 600, CALL, count),
        )

    def rows(self) -> dict[int, dict[str, Any]]:
        names = [name for (name,) in self.sql("select name from pragma_table_info('alarm')")]
        return {row[0]: dict(zip(names, row, strict=True)) for row in self.sql("select * from alarm order by id")}

    def stats(self) -> dict[str, Any]:
        db = apsw.Connection(str(self.path))
        try:
            counted = db.execute(STATS)
            names = [name for name, _ in counted.get_description()]
            return dict(zip(names, counted.fetchall()[0], strict=True))
        finally:
            db.close()

    def fill(self) -> dict[str, int]:
        """A row of every state, with something in every column."""
        return {
            "pending": self.add(created_by="1", created_via="mcp", max_retries=3, backoff_ms=10_000),
            "overdue": self.add(set_at=NOW - 60),
            "retrying": self.add(
                set_at=NOW - 600,
                started_at=NOW - 599,
                updated_at=(NOW - 30) * 1000,
                result="RETRY: HTTP 503 from Pushover API (attempt 2/3)",
                max_retries=3,
                attempts=2,
                backoff_ms=7000,
            ),
            "fired": self.add(set_at=NOW - 200, started_at=NOW - 199),
            "completed": self.add(
                set_at=NOW - 100, started_at=NOW - 99, completed_at=NOW - 97, duration_ms=2000, result="ok"
            ),
            "slow": self.add(
                set_at=NOW - 90,
                started_at=NOW - 90,
                completed_at=NOW - 85,
                duration_ms=5000,
                result="sent to 3 recipients",
                attempts=1,
                max_retries=2,
            ),
            "failed": self.add(
                set_at=NOW - 400,
                started_at=NOW - 400,
                updated_at=(NOW - 390) * 1000,
                result="FAILED: HTTP 503 from Pushover API (after 3 attempts)",
                attempts=3,
                max_retries=3,
            ),
            "timeout": self.add(set_at=NOW - 900, started_at=NOW - 899, result="timeout_unknown"),
            "cancelled": self.add(set_at=NOW + 60, cancelled_at=NOW - 50),
            "mailer": self.add(process="mailer", message=term_to_binary((Atom("run"), 17, [1, 2]))),
        }
