"""The columns of wakeful's tables, named once: they are the fields of the structs that are kept, in the same order.

SQL that goes over a table's columns asks for them here, and says what it wants of each:

    {alarm columns}                 id, owner_did, …
    {event columns of event}        event.at, event.what, …
    {dispatch columns from change}  next_fire_at = change.next_fire_at, status = change.status, …
    {alarm as json}                 'id', id, … 'fire_at', fire_at / 1000.0, …                     (SQLite)
    {alarm arrays from $4}          $4::uuid[], $5::text[], …: an array for each column            (PostgreSQL)
    {alarm definitions}             id uuid, owner_did text, …: of what all rows have alike        (PostgreSQL)
    {alarm lists from $5}           json_array_elements_text($5::json), …: of each other column    (PostgreSQL)
    {alarm unfolded of sent from $5}  the values of both, row by row                               (PostgreSQL)
    {token values from $2}          $2::text, $3::text, …: a value for each column                 (PostgreSQL)

Arrays or values without a `from` are numbered on from those before. `but a, b` leaves columns out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, inspect

from wakeful.model.alarm import Alarm, Event, Fire
from wakeful.rules.budget import BudgetCount
from wakeful.store.access import Token
from wakeful.store.maintenance import TargetState, Worker


class FirstTry(Struct, frozen=True):
    """What is written of a first attempt that arrived (rules/settle.py): all that does not follow from its alarm.

    The moments after `status` are of a series: a one-shot stays at its own. `ms`: from the start to the end, which is
    before it where a clock was set back.
    """

    id: str
    held_claim: int
    held_version: int
    status: str
    next_fire_at: datetime | None
    occurrence_at: datetime | None
    scheduled_for: datetime | None
    started_at: datetime
    ms: int
    completed: bool
    result: str
    log: tuple[object, ...]


# What a settlement writes. An owner's words are not among them: an edit is never overwritten by a delivery.
DISPATCH: Final = (
    *("next_fire_at", "status", "failure_count", "last_error", "claimed_at", "updated_at", "last_fired_at"),
    *("occurrence_at", "claim", "unsettled", "version", "awaiting", "fire_count", "failed_in_a_row"),
    *("paused_reason", "cancelled_at"),
)
# Moments that nearly always are another: of new rows they are not sent a second time.
AS_ANOTHER: Final = {"fire_at": "occurrence_at", "next_fire_at": "occurrence_at", "updated_at": "created_at"}
# What nothing changes: whose it is, its key, and when it was created.
FIXED: Final = ("id", "owner_did", "user_id", "idempotency_key", "created_at")

# Kept in another column: see `kept_schedule`.
ELSEWHERE: Final = {(Alarm, "wall_time"): "cron_expr"}

_encode: Final = msgspec.json.Encoder().encode
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
    kept = (field for field in info.fields if (struct, field.name) not in ELSEWHERE)
    kinds = {field.encode_name: _kind(field.type) for field in kept}
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
    return tuple(at for at, name in enumerate(among or [column.name for column in columns(struct)]) if name in found)


def kept_schedule(alarm: Alarm) -> str:
    """What the column `cron_expr` holds: the expression of a series, the wall time of a one-shot.

    A process of 33591f3 that still runs beside this version breaks on SQLite when `alarms` has one more column.
    """
    return alarm.cron_expr if alarm.kind == "cron" else alarm.wall_time


def with_schedule(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of an alarm, from a row in which `cron_expr` holds what `kept_schedule` says."""
    if fields["kind"] == "once":
        fields["wall_time"], fields["cron_expr"] = fields["cron_expr"], ""
    return fields


_ALARM: Final = {column.name: column for column in columns(Alarm)}
# What an edit writes besides.
INTENT: Final = tuple(name for name in _ALARM if name not in (*DISPATCH, *FIXED))
# By the names SQL calls them by.
# The fields of an alarm that have a column, in the order of their columns.
_ATTRIBUTES: Final = dict(zip(Alarm.__struct_encode_fields__, Alarm.__struct_fields__, strict=True))
ALARM_FIELDS: Final = tuple(_ATTRIBUTES[name] for name in _ALARM)
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
    r"\{(?P<group>\w+) (?P<what>columns|arrays|values|definitions|lists|unfolded|as json)"
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
        if asked["what"] not in ("arrays", "values", "lists", "unfolded"):
            return _listed(wanted, asked)
        first = int(asked["source"].removeprefix("$")) if asked["source"] else number + 1
        number = first + len(wanted) - 1
        if asked["what"] == "unfolded":
            return _unfolded(wanted, asked["alias"], first)
        if asked["what"] == "lists":
            return ", ".join(f"json_array_elements_text(${place}::json)" for place in range(first, number + 1))
        ending = "[]" if asked["what"] == "arrays" else ""
        return ", ".join(f"${place}::{column.type}{ending}" for place, column in enumerate(wanted, first))

    return _ASKED.sub(answer, sql)


def _unfolded(wanted: Sequence[Column], alias: str, first: int) -> str:
    """What `folded` has made of a batch, row by row."""
    numbered = {column.name: (at, column) for at, column in enumerate(wanted, first)}

    def own(name: str) -> str:
        return f"{alias}.{name}::{numbered[name][1].type}"

    def one(name: str) -> str:
        at, column = numbered[name]
        other = AS_ANOTHER.get(name)
        as_another = f" when json_array_length(${at}::json) = 0 then {own(other)}" if other else ""
        return f"case when ${at}::json is null then alike.{name}::{column.type}{as_another} else {own(name)} end"

    return ", ".join(map(one, numbered))


def _definition(column: Column) -> str:
    """Of a value in a JSON object. What is JSON itself comes as text, so that it stays byte for byte as given."""
    return f"{column.name} {'text' if column.type == 'json' else column.type}"


def folded(columns: Sequence[Sequence[Any]], names: Sequence[str]) -> list[str | None]:
    """The columns of a batch as `unfolded` reads them: first what all rows have alike, then each column that differs.

    All of it is JSON: a driver that checks every value of an array takes longer for that than the database for this.
    The first column always comes as one: it says how many rows there are.
    """
    alike: dict[str, Any] = {}
    differing: dict[str, Sequence[Any]] = {}
    for name, column in zip(names, columns, strict=True):
        if differing and _is_alike(column):
            alike[name] = column[0]
        else:
            differing[name] = column
    for name, other in AS_ANOTHER.items():
        if name in differing and differing[name] == differing.get(other):
            differing[name] = ()
    sent = (_json(differing[name]) if name in differing else None for name in names)
    return [_json(alike), *sent]


def _json(value: object) -> str:
    return _encode(value).decode()


def _is_alike(column: Sequence[Any]) -> bool:
    # Those that are not mostly differ at their ends, too: comparing many long texts takes a while.
    return bool(column[0] == column[-1]) and column.count(column[0]) == len(column)


def _listed(wanted: Sequence[Column], asked: re.Match[str]) -> str:
    if asked["what"] == "as json":
        return ", ".join(f"'{column.name}', {_as_json(column)}" for column in wanted)
    if asked["what"] == "definitions":
        return ", ".join(map(_definition, wanted))
    if source := asked["source"]:
        return ", ".join(f"{column.name} = {source}.{column.name}" for column in wanted)
    alias = f"{asked['alias']}." if asked["alias"] else ""
    return ", ".join(f"{alias}{column.name}" for column in wanted)


def _as_json(column: Column) -> str:
    match column.kind:
        case "moment":
            return f"{column.name} / 1000.0"
        case _ if column is _ALARM["cron_expr"]:
            return "iif(kind = 'cron', cron_expr, ''), 'wall_time', iif(kind = 'once', cron_expr, '')"
        case "json":
            return f"json(iif(json_valid({column.name}), {column.name}, '{{}}'))"
        case _:
            return column.name
