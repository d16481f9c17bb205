"""What the writer thread does inside a transaction: add, claim, settle, renew, purge.

Values arrive as rows and leave as rows: encoding is the caller's work, not that of a thread that holds the lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final, Literal

import apsw
import msgspec
from msgspec import Struct

from wakeful.model.alarm import Change
from wakeful.model.alarm import Row as TableRow
from wakeful.store import Claim, Settled, Turn
from wakeful.store.records import OWNERS_A_CLAIM, written_events
from wakeful.store.rows import ID, KEY, OWNER, Row, from_change, from_event, from_fire, from_first_try

# Rows to a statement: few enough kinds to keep them all prepared, and two statements for most batches. 100 is usual.
PIECES: Final = (256, 128, 100, 64, 48, 32, 24, 16, 12, 8, 7, 6, 5, 4, 3, 2, 1)
_ANY_NUMBER: Final = 2**63 - 1
_MOST_VALUES: Final = 5_000  # of one statement: longer than 16 KiB none is kept prepared, and twice the work
Sql = Mapping[str, str]


class RowRefused(Exception):
    """A table target's row that its table does not take."""


class NotAllOurs(Exception):
    """Some of a batch has moved on: taken back, and done one by one to see which."""


class ReportStands(Exception):
    """A settlement would replace what a report has said of its fire."""


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


def write_rows(db: apsw.Connection, sql: str, rows: Sequence[Sequence[Any]]) -> int:
    """Run a `{rows}` statement over any number of rows; how many it changed."""
    changed = at = 0
    for size in PIECES:
        while len(rows) - at >= size and size * len(rows[at]) <= _MOST_VALUES:
            text = _for_rows(sql, size, len(rows[at]))
            db.execute(text, list(chain.from_iterable(rows[at : at + size])))
            changed += db.changes()
            at += size
    return changed


def add(db: apsw.Connection, sql: Sql, rows: Sequence[Sequence[Any]]) -> list[Row | None]:
    """None for each alarm that was inserted; where one was there first, every row as it now is."""
    if write_rows(db, sql["add"], rows) == len(rows):
        return [None] * len(rows)
    return [_there(db, sql, row) for row in rows]


def _there(db: apsw.Connection, sql: Sql, row: Sequence[Any]) -> Row:
    id, owner, key = row[ID], row[OWNER], row[KEY]
    found = db.execute(sql["same_id"], (id,)).fetchall() or db.execute(sql["same_key"], (owner, key)).fetchall()
    (first,) = found
    return first


class Suspect(Struct, frozen=True):
    """The alarm that was claimed before and never settled with the least against it."""

    rowid: int | None = None  # None: there is none
    in_group: bool = False  # it was not retried in a group yet: all such are claimed as others are
    is_ahead: bool = False  # its lease is from the future


def suspect(db: apsw.Connection, sql: Sql, slots: Mapping[str, int], times: Mapping[str, int]) -> Suspect:
    for most in (1, _ANY_NUMBER):
        values = {"most": most, **times}
        found: list[Row] = [
            row
            for target, free in slots.items()
            if (row := db.execute(sql["suspect"], {"target": target, "slots": free, **values}).fetchone()) is not None
        ]
        if found:
            rowid, unsettled, _, is_ahead = min(found, key=lambda row: row[1:3])
            return Suspect(rowid, unsettled == 1, bool(is_ahead))
    return Suspect()


def claim(
    db: apsw.Connection,
    sql: Sql,
    slots: Mapping[str, int],
    times: Mapping[str, int | None],
    turns: Mapping[str, Turn],
    until: Mapping[str, int],
) -> tuple[str, dict[str, str]]:
    """The alarms that are now leased, as one JSON text; and where the walk along each target's owners stood.

    `until`: per target, what counts as due.
    """
    stood: dict[str, str] = {}
    due = []
    for target, free in slots.items():
        values = {"target": target, "slots": free, **times}
        text = db.execute(sql["due"], values | {"due": until[target]}).get
        if target in turns:
            first, stood[target] = _in_turn(db, sql, turns[target], values)
            text = _in_front(first, text, free, times["suspect"])
        due.append(text)
    rowids = ",".join(text[1:-1] for text in due if text != "[]")
    if not rowids:
        return "[]", stood
    db.execute(sql["claim"], {"now": times["now"], "rowids": f"[{rowids}]"})
    claimed: str = db.execute(sql["claimed"], {"rowids": f"[{rowids}]"}).get
    return claimed, stood


def _in_turn(db: apsw.Connection, sql: Sql, turn: Turn, values: Mapping[str, Any]) -> tuple[list[int], str]:
    """The rowids of those whose turn it is, and the last owner who was read."""
    asked = {"share": turn.share, "each": turn.each, "after": turn.after, "owners": OWNERS_A_CLAIM, **values}
    found: list[Row] = db.execute(sql["in_turn"], asked).fetchall()
    rowids, stood = found[0]
    return msgspec.json.decode(rowids, type=list[int]), stood


def _in_front(first: list[int], due: str, free: int, suspect: int | None) -> str:
    """Those whose turn it is before those that were due first, as many as there are slots; the suspect before all."""
    queue = msgspec.json.decode(due, type=list[int])
    order = [*([suspect] if suspect in queue else []), *first, *queue]
    return str(list(dict.fromkeys(order))[:free])


Statement = Literal["settle", "settle_edited", "settle_at_once"]
PutFires = Literal["put_fires", "put_settled_fires", "put_first_fires"]


class Written(Struct, frozen=True):
    """A change as the rows it writes."""

    id: str
    claim: int
    statement: Statement
    put: PutFires
    alarm: list[Any]
    fires: list[list[Any]]
    events: list[list[Any]]
    row: TableRow | None
    has_former: bool = False


def written(change: Change) -> Written:
    if change.at_once and not change.edited and len(change.fires) == 1 and not change.events:
        alarm, fire = from_first_try(change)
        return Written(
            change.after.id, change.claim, "settle_at_once", "put_first_fires", alarm, [fire], [], change.row
        )
    return Written(
        change.after.id,
        change.claim,
        "settle_edited" if change.edited else "settle",
        # Reports and edits raise the version; the settlement of an attempt does not.
        "put_settled_fires" if change.after.version == change.version else "put_fires",
        from_change(change),
        [from_fire(fire) for fire in change.fires],
        [from_event(event) for event in written_events(change)],
        change.row,
        change.former is not None,
    )


def settle(db: apsw.Connection, sql: Sql, changes: Sequence[Written], *, stamp: str = "") -> list[Settled]:
    """All of them together; where one of them is refused, one by one. `stamp`: the moment, for rows that ask for it."""
    if len({change.id for change in changes}) == len(changes):
        try:
            with db:  # a savepoint
                answers = _settle(db, sql, changes, stamp)
        except (NotAllOurs, ReportStands, *BAD_VALUE):
            pass
        else:
            return answers
    return [_settle_alone(db, sql, change, stamp) for change in changes]


def _settle_alone(db: apsw.Connection, sql: Sql, change: Written, stamp: str) -> Settled:
    try:
        with db:
            (answer,) = _settle(db, sql, [change], stamp)
    except ReportStands:
        return Settled("edited")
    except BAD_VALUE as error:
        return Settled("refused", str(error))
    return answer


def _settle(db: apsw.Connection, sql: Sql, changes: Sequence[Written], stamp: str) -> list[Settled]:
    statements: dict[Statement, list[Written]] = {}
    for change in changes:
        statements.setdefault(change.statement, []).append(change)
    held = sum(write_rows(db, sql[name], [change.alarm for change in some]) for name, some in statements.items())
    if held < len(changes):
        if len(changes) > 1:
            raise NotAllOurs
        return [_not_ours(db, sql, changes[0])]
    _put_fires(db, sql, changes)
    write_rows(db, sql["add_events"], [event for change in changes for event in change.events])
    for change in changes:
        if change.has_former:
            db.execute(sql["forget_former"], {"alarm_id": change.id})
        if change.row is not None:
            put_row(db, change.row, stamp)
    return [APPLIED] * len(changes)


def _put_fires(db: apsw.Connection, sql: Sql, changes: Sequence[Written]) -> None:
    puts: dict[PutFires, list[list[Any]]] = {}
    for change in changes:
        puts.setdefault(change.put, []).extend(change.fires)
    for put, fires in puts.items():
        if write_rows(db, sql[put], fires) < len(fires):
            raise ReportStands


APPLIED: Final = Settled("applied")


def _not_ours(db: apsw.Connection, sql: Sql, change: Written) -> Settled:
    row = db.execute(sql["held_claim"], (change.id,)).fetchone()
    return Settled("edited" if row is not None and row[0] == change.claim else "lost")


_TEXTS: Final = """
select lower(name)
  from pragma_table_info(?)
 where type = '' or lower(type) like '%char%' or lower(type) like '%text%'
"""


def put_row(db: apsw.Connection, row: TableRow, stamp: str) -> None:
    """Exactly one row per fire: its key says whether it is there."""
    if row.optional:
        row = row.fitted({name for (name,) in db.execute(_TEXTS, (row.table.rpartition(".")[2],))})
    table = ".".join(quoted(part) for part in row.table.split("."))
    columns = ", ".join(quoted(name) for name in row.values)
    marks = ", ".join("?" * len(row.values))
    try:
        db.execute(
            f"insert into {table} ({columns}) values ({marks}) on conflict ({quoted(row.key)}) do nothing",
            tuple((row.values | dict.fromkeys(row.stamped, stamp)).values()),
        )
    except (apsw.SQLError, *BAD_VALUE) as error:
        raise RowRefused(f"{row.table}: {error}") from error


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def renew(db: apsw.Connection, sql: Sql, claims: Iterable[Claim], *, now: int) -> set[tuple[str, int]]:
    """Those that hold."""
    asked = {"claims": msgspec.json.encode([(claim.id, claim.claim) for claim in claims]).decode(), "now": now}
    db.execute(sql["renew"], asked)
    return msgspec.json.decode(db.execute(sql["renewed"], asked).get, type=set[tuple[str, int]])
