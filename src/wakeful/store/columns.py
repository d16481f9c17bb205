"""The columns of wakeful's tables, named once: they are the fields of the structs that are kept, in the same order.

SQL that goes over a table's columns asks for them here, and says what it wants of each:

    {alarm columns}                 id, owner_did, …
    {event columns of event}        event.at, event.what, …
    {dispatch columns from change}  next_fire_at = change.next_fire_at, status = change.status, …
    {alarm as json}                 'id', id, … 'fire_at', fire_at / 1000.0, …                     (SQLite)
    {alarm arrays from $4}          $4::uuid[], $5::text[], …: an array for each column            (PostgreSQL)
    {alarm unfolded of sent from $4}  the values of such arrays, where an array of one stands for all rows
    {token values from $2}          $2::text, $3::text, …: a value for each column                 (PostgreSQL)

Arrays or values without a `from` are numbered on from those before. `but a, b` leaves columns out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal

from msgspec import Struct, inspect

from wakeful.alarm import Alarm, Event, Fire
from wakeful.alarm.budget import BudgetCount
from wakeful.store.records import FirstTry, TargetState, Token, Worker

# What a settlement writes. An owner's words are not among them: an edit is never overwritten by a delivery.
DISPATCH: Final = (
    *("next_fire_at", "status", "failure_count", "last_error", "claimed_at", "updated_at", "last_fired_at"),
    *("occurrence_at", "claim", "unsettled", "version", "awaiting", "fire_count", "failed_in_a_row"),
    *("paused_reason", "cancelled_at"),
)
# Moments that nearly always are the occurrence: of new rows they are not sent a second time.
AS_OCCURRENCE: Final = ("fire_at", "next_fire_at")
# What nothing changes: whose it is, its key, and when it was created.
FIXED: Final = ("id", "owner_did", "user_id", "idempotency_key", "created_at")

Kind = Literal["text", "number", "moment", "flag", "bytes", "json"]
_TYPES: Final[Mapping[Kind, str]] = {
    "text": "text",
    "number": "integer",
    "moment": "timestamptz",
    "flag": "boolean",
    "bytes": "bytea",
    "json": "json",
}
# Columns whose type in PostgreSQL is not that of their kind.
_OTHER_TYPES: Final = {
    (Alarm, "id"): "uuid",
    (Alarm, "payload"): "json",  # text here, so that it stays byte for byte as given
    (Fire, "alarm_id"): "uuid",
    (Fire, "duration_ms"): "bigint",
    (Token, "scopes"): "text",
    (BudgetCount, "cost"): "bigint",
    (FirstTry, "id"): "uuid",
    (FirstTry, "ms"): "bigint",
}


class Column(Struct, frozen=True):
    name: str
    kind: Kind
    type: str  # in PostgreSQL


@cache
def columns(struct: type[Struct]) -> tuple[Column, ...]:
    """The columns a struct is kept in; of which kind each is says its field's annotation."""
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    kinds = {field.encode_name: _kind(field.type) for field in info.fields}
    return tuple(Column(name, kind, _OTHER_TYPES.get((struct, name), _TYPES[kind])) for name, kind in kinds.items())


def _kind(type: inspect.Type) -> Kind:
    match type:
        case inspect.UnionType(types=(only, inspect.NoneType())):
            return _kind(only)
        case inspect.DateTimeType():
            return "moment"
        case inspect.BoolType():
            return "flag"
        case inspect.IntType():
            return "number"
        case inspect.BytesType():
            return "bytes"
        case inspect.StrType() | inspect.LiteralType():
            return "text"
        case _:
            return "json"


def places(struct: type[Struct], kind: Kind, among: Sequence[str] = ()) -> tuple[int, ...]:
    """Where columns of a kind stand in a row of a struct, or in one of some of its fields."""
    found = {column.name for column in columns(struct) if column.kind == kind}
    return tuple(at for at, name in enumerate(among or struct.__struct_encode_fields__) if name in found)


_ALARM: Final = {column.name: column for column in columns(Alarm)}
# What an edit writes besides.
INTENT: Final = tuple(name for name in _ALARM if name not in (*DISPATCH, *FIXED))
# By the names SQL calls them by.
_GROUPS: Final[Mapping[str, Sequence[Column]]] = {
    "alarm": tuple(_ALARM.values()),
    "dispatch": tuple(_ALARM[name] for name in DISPATCH),
    "intent": tuple(_ALARM[name] for name in INTENT),
    "edited": tuple(column for name, column in _ALARM.items() if name not in FIXED),
    "fire": columns(Fire),
    "event": columns(Event),
    "worker": columns(Worker),
    "state": columns(TargetState),
    "token": columns(Token),
    "count": columns(BudgetCount),
    "first_try": columns(FirstTry),
}

_ASKED: Final = re.compile(
    r"\{(?P<group>\w+) (?P<what>columns|arrays|values|unfolded|as json)"
    r"( but (?P<but>\w+(, \w+)*))?( of (?P<alias>\w+))?( from (?P<source>\$?\w+))?\}"
)


def filled(sql: str) -> str:
    """A statement with the columns it asks for."""
    number = 0  # of the last parameter that was given out

    def answer(asked: re.Match[str]) -> str:
        nonlocal number
        wanted = list(_GROUPS[asked["group"]])
        for name in asked["but"].split(", ") if asked["but"] else ():
            del wanted[[column.name for column in wanted].index(name)]
        if asked["what"] not in ("arrays", "values", "unfolded"):
            return _listed(wanted, asked)
        first = int(asked["source"].removeprefix("$")) if asked["source"] else number + 1
        number = first + len(wanted) - 1
        if asked["what"] == "unfolded":
            return _unfolded(wanted, asked["alias"], first)
        ending = "[]" if asked["what"] == "arrays" else ""
        return ", ".join(f"${place}::{column.type}{ending}" for place, column in enumerate(wanted, first))

    return _ASKED.sub(answer, sql)


def _unfolded(wanted: Sequence[Column], alias: str, first: int) -> str:
    """What `folded` has made of a batch, row by row. An empty array says: as `occurrence_at`."""

    def one(at: int, column: Column, otherwise: str = "") -> str:
        array = f"${at}::{column.type}[]"
        return f"case cardinality({array}) when 1 then ({array})[1]{otherwise} else {alias}.{column.name} end"

    numbered = {column.name: (at, column) for at, column in enumerate(wanted, first)}
    occurrence = one(*numbered["occurrence_at"])
    return ", ".join(
        one(at, column, f" when 0 then {occurrence}" if name in AS_OCCURRENCE else "")
        for name, (at, column) in numbered.items()
    )


def folded(columns: Sequence[Sequence[Any]], names: Sequence[str]) -> list[Sequence[Any]]:
    """The columns of a batch, nothing sent twice, as `unfolded` reads them: one value where all rows have the same."""
    found = [column[:1] if _is_alike(column) else column for column in columns]
    occurrence = found[names.index("occurrence_at")]
    for at in [names.index(name) for name in AS_OCCURRENCE if name in names]:
        if len(found[at]) > 1 and found[at] == occurrence:
            found[at] = ()
    return found


def _is_alike(column: Sequence[Any]) -> bool:
    # Those that are not mostly differ at their ends, too: comparing many long texts takes a while.
    return bool(column[0] == column[-1]) and column.count(column[0]) == len(column)


def _listed(wanted: Sequence[Column], asked: re.Match[str]) -> str:
    if asked["what"] == "as json":
        return ", ".join(f"'{column.name}', {_as_json(column)}" for column in wanted)
    if source := asked["source"]:
        return ", ".join(f"{column.name} = {source}.{column.name}" for column in wanted)
    alias = f"{asked['alias']}." if asked["alias"] else ""
    return ", ".join(f"{alias}{column.name}" for column in wanted)


def _as_json(column: Column) -> str:
    match column.kind:
        case "moment":
            return f"{column.name} / 1000.0"
        case "json":
            return f"json(iif(json_valid({column.name}), {column.name}, '{{}}'))"
        case _:
            return column.name
