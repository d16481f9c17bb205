"""What the writers of table targets share: their protocol, and what is wrong with a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from wakeful.errors import InvalidConfig
from wakeful.model.alarm import Row, is_for_numbers
from wakeful.model.outcome import Delivered, Failed, Outcome

NOT_INSERTED: Final = "could not insert"


class Unfit(Exception):
    """The table could not take a row, whatever it said.

    `needed`: the columns that need a value and get none, and what could be written there. `unfit`: the column whose
    type does not fit. `key`: that is the key.
    """

    def __init__(
        self, why: str, *, needed: Mapping[str, str] | None = None, unfit: str = "", key: bool = False
    ) -> None:
        super().__init__(why)
        self.why, self.needed, self.unfit, self.key = why, needed or {}, unfit, key


class TableWriter(Protocol):
    """Puts rows into a database that is not wakeful's own. `Unfit` where the table could not take one."""

    async def check(self) -> None: ...

    async def try_out(self, row: Row) -> None:
        """Insert a row and roll it back. What its values alone are refused for (a check, a reference) passes."""
        ...

    async def insert(self, row: Row) -> Outcome: ...

    async def close(self) -> None: ...


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


def no_text_key(table: str, key: str, type: str) -> Unfit:
    return Unfit(f"the column {key} of {table} is of type {type}, and takes no text such as a wake's id", key=True)


def check_texts(table: str, types: Mapping[str, str], values: Mapping[str, Any]) -> None:
    """Unfit where a column for numbers would get text: SQLite would keep it there, and its reader stumble."""
    for column, value in values.items():
        if is_for_numbers(type := types.get(column, "")) and not _is_number(value):
            why = f"the column {column} of {table} is of type {type}, and text would be written there"
            raise Unfit(why, unfit=column)


def _is_number(value: Any) -> bool:
    try:
        float(str(value))
    except ValueError:
        return value is None
    return True


def no_value(table: str, types: Mapping[str, str]) -> Unfit:
    names = ", ".join(types)
    these = f"columns {names} of {table} are" if len(types) > 1 else f"column {names} of {table} is"
    why = f"the {these} NOT NULL without a default, and nothing is written there"
    return Unfit(why, needed={column: _filling(type.lower()) for column, type in types.items()})


def _filling(type: str) -> str:
    """What could stand in a column of such a type, as `columns` has it."""
    fillings = {
        ("date", "time"): "delivered_at",
        ("bool", "int", "real", "floa", "doub", "num", "dec", "serial"): "'0'",
        ("json",): "'{}'",
        ("uuid",): "alarm_id",
    }
    return next((filling for parts, filling in fillings.items() if any(part in type for part in parts)), "''")


def inserted(table: str, rows: int) -> Outcome:
    return Delivered(f"a row in {table}" if rows else f"already a row in {table}")


def not_inserted(error: str, *, unhealthy: bool) -> Outcome:
    return Failed(f"{NOT_INSERTED}: {error}", unhealthy=unhealthy)
