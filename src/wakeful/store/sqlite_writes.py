"""What the writer thread does inside a transaction: add, claim, settle, renew, purge.

Values arrive as rows and leave as rows: encoding is the caller's work, not that of a thread that holds the lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import apsw
from msgspec import Struct

from wakeful.alarm import Alarm, Change
from wakeful.alarm import Row as TableRow
from wakeful.store import Claim, Settled
from wakeful.store.rows import Row, from_change, from_event, from_fire

_PIECES: Final = (128, 16, 1)  # rows to a statement: few texts to prepare, few statements to run
_NEXT_FIRE_AT: Final = Alarm.__struct_fields__.index("next_fire_at")
_KEY: Final = Alarm.__struct_fields__.index("idempotency_key")
Sql = Mapping[str, str]


class RowRefused(Exception):
    """A table target's row that its table does not take."""


# What says that a value is wrong, not that the database is in trouble.
BAD_VALUE: Final = (
    RowRefused,
    apsw.ConstraintError,
    apsw.MismatchError,
    apsw.TooBigError,
    apsw.RangeError,
    TypeError,
    ValueError,
    OverflowError,
)


@lru_cache(maxsize=64)
def _for_rows(sql: str, count: int, width: int) -> str:
    group = f"({', '.join('?' * width)})"
    return sql.replace("{rows}", ", ".join([group] * count))


def write_rows(db: apsw.Connection, sql: str, rows: Sequence[Sequence[Any]]) -> list[Row]:
    """Run a `{rows}` statement over any number of rows; what it returns."""
    returned: list[Row] = []
    at = 0
    for size in _PIECES:
        while len(rows) - at >= size:
            text = _for_rows(sql, size, len(rows[at]))
            values = [value for row in rows[at : at + size] for value in row]
            returned += db.execute(text, values).fetchall()
            at += size
    return returned


def add(db: apsw.Connection, sql: Sql, rows: Sequence[Sequence[Any]]) -> list[Row | None]:
    """None for each alarm that was inserted, else the row that was there first."""
    new = {id for (id,) in write_rows(db, sql["add"], rows)}
    answers: list[Row | None] = []
    for row in rows:
        if row[0] in new:
            new.discard(row[0])  # the same id twice in one call: the second finds the first
            answers.append(None)
        else:
            answers.append(_there_first(db, sql, row))
    return answers


def _there_first(db: apsw.Connection, sql: Sql, row: Sequence[Any]) -> Row:
    id, owner, key = row[0], row[1], row[_KEY]
    found = db.execute(sql["same_id"], (id,)).fetchall() or db.execute(sql["same_key"], (owner, key)).fetchall()
    (first,) = found
    return first


def claim(db: apsw.Connection, sql: Sql, slots: Mapping[str, int], *, lease: int, now: int) -> list[Row]:
    claimed: list[Row] = []
    for target, free in slots.items():
        if free > 0:
            values = {"target": target, "slots": free, "lease": lease, "now": now}
            rows = db.execute(sql["claim"], values).fetchall()
            claimed += sorted(rows, key=lambda row: (row[_NEXT_FIRE_AT], row[0]))
    return claimed


class Written(Struct, frozen=True):
    """A change as the rows it writes."""

    id: str
    claim: int
    edited: bool
    alarm: list[Any]
    fires: list[list[Any]]
    events: list[list[Any]]
    row: TableRow | None


def written(change: Change) -> Written:
    return Written(
        change.after.id,
        change.claim,
        change.edited,
        from_change(change),
        [from_fire(fire) for fire in change.fires],
        [from_event(event) for event in change.events],
        change.row,
    )


def settle(db: apsw.Connection, sql: Sql, changes: Sequence[Written]) -> list[Settled]:
    """All of them together; where one of them is refused, one by one."""
    if len({change.id for change in changes}) == len(changes):
        try:
            with db:  # a savepoint
                answers = _settle(db, sql, changes)
        except BAD_VALUE:
            pass
        else:
            return answers
    return [_settle_alone(db, sql, change) for change in changes]


def _settle_alone(db: apsw.Connection, sql: Sql, change: Written) -> Settled:
    try:
        with db:
            (answer,) = _settle(db, sql, [change])
    except BAD_VALUE as error:
        return Settled("refused", str(error))
    return answer


def _settle(db: apsw.Connection, sql: Sql, changes: Sequence[Written]) -> list[Settled]:
    plain = [change.alarm for change in changes if not change.edited]
    edited = [change.alarm for change in changes if change.edited]
    held = {id for (id,) in write_rows(db, sql["settle"], plain) + write_rows(db, sql["settle_edited"], edited)}
    ours = [change for change in changes if change.id in held]
    write_rows(db, sql["put_fires"], [fire for change in ours for fire in change.fires])
    write_rows(db, sql["add_events"], [event for change in ours for event in change.events])
    for change in ours:
        if change.row is not None:
            _put_row(db, change.row)
    return [APPLIED if change.id in held else _not_ours(db, sql, change) for change in changes]


APPLIED: Final = Settled("applied")


def _not_ours(db: apsw.Connection, sql: Sql, change: Written) -> Settled:
    row = db.execute(sql["held_claim"], (change.id,)).fetchone()
    return Settled("edited" if row is not None and row[0] == change.claim else "lost")


def _put_row(db: apsw.Connection, row: TableRow) -> None:
    """Exactly one row per fire: its key says whether it is there."""
    table = ".".join(quoted(part) for part in row.table.split("."))
    columns = ", ".join(quoted(name) for name in row.values)
    marks = ", ".join("?" * len(row.values))
    try:
        db.execute(
            f"insert into {table} ({columns}) values ({marks}) on conflict ({quoted(row.key)}) do nothing",
            tuple(row.values.values()),
        )
    except (apsw.SQLError, *BAD_VALUE) as error:
        raise RowRefused(f"{row.table}: {error}") from error


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def renew(db: apsw.Connection, sql: Sql, claims: Iterable[Claim], *, now: int) -> set[tuple[str, int]]:
    """Those that hold."""
    rows = [(claim.id, claim.claim, now) for claim in claims]
    return {(id, number) for id, number in write_rows(db, sql["renew"], rows)}
