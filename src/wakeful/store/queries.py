"""The SQL of a dialect, by name, and the names that wakeful's tables carry in somebody's database.

One file per dialect, the same names in the same order: the diff of the two is the dialect guide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from wakeful.errors import InvalidConfig
from wakeful.store.columns import filled

OURS: Final = (
    *("alarms", "fires", "tokens", "workers", "target_states", "events", "secrets"),
    *("task_tables", "task_changes", "task_links", "claim_tokens", "budget_counts", "zone_rules", "check_values"),
    "owner_settings",
)
Dialect = Literal["sqlite", "postgres"]
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,40}")
_HEAD: Final = re.compile(r"^-- (name|part): (\w+)\n((?:--.*\n)*)", re.MULTILINE)
_SQL: Final = Path(__file__).with_name("sql")


class Naming(Struct, frozen=True):
    """Where the tables live: an optional schema (PostgreSQL) and an optional prefix."""

    schema: str = ""
    prefix: str = ""

    def __post_init__(self) -> None:
        for field, value in (("schema", self.schema), ("prefix", self.prefix)):
            if value and not _NAME.fullmatch(value):
                raise InvalidConfig(
                    f"{value!r} cannot be used in table names",
                    field=field,
                    fix="Use lower-case letters, digits and _, at most 41.",
                )

    @property
    def qualifier(self) -> str:
        """What stands before a table's name."""
        return f"{self.schema}.{self.prefix}" if self.schema else self.prefix

    def fill(self, sql: str) -> str:
        return sql.replace("{t}", self.qualifier).replace("{p}", self.prefix)


class Migration(Struct, frozen=True):
    version: int
    name: str
    sql: str


def queries(dialect: Dialect, naming: Naming) -> dict[str, str]:
    """Every named statement of a dialect, its tables named for this database, and their columns as they are."""
    return {name: filled(sql) for name, sql in named((_SQL / f"{dialect}.sql").read_text(), naming).items()}


def named(text: str, naming: Naming, *, parts_of: str = "") -> dict[str, str]:
    """The statements of a file, by the names that stand above them, with the parts that several have in common.

    `parts_of`: another file, whose parts it uses.
    """
    parts = {"{" + name + "}": sql for what, name, _, sql in _pieces(parts_of) if what == "part"}
    statements: dict[str, str] = {}
    for what, name, comment, sql in _pieces(text):
        for mark, part in parts.items():
            sql = sql.replace(mark, part)
        if what == "part":
            parts["{" + name + "}"] = sql
        else:
            statements[name] = comment + naming.fill(sql)
    return statements


def _pieces(text: str) -> Iterator[tuple[str, str, str, str]]:
    """What it is, its name, the comment below it and its SQL."""
    _, *pieces = _HEAD.split(text)
    for what, name, comment, body in zip(*(pieces[at::4] for at in range(4)), strict=True):
        yield what, name, comment, body.strip().rstrip(";")


def migrations(dialect: Dialect, naming: Naming) -> list[Migration]:
    """The numbered schema steps of a dialect, in order and without a gap."""
    found = sorted(entry.name for entry in (_SQL / "migrations").iterdir() if entry.name.endswith(f".{dialect}.sql"))
    steps = [
        Migration(
            int(name[:4]), name.removesuffix(f".{dialect}.sql"), naming.fill((_SQL / "migrations" / name).read_text())
        )
        for name in found
    ]
    assert [step.version for step in steps] == list(range(1, len(steps) + 1)), f"migration gap in {found}"
    return steps
