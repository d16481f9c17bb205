"""The SQL of a dialect, by name; the names of wakeful's tables; and the ledger that says who may open them.

One file per dialect, the same names in the same order: the diff of the two is the dialect guide.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Final, Literal

import msgspec
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
_FILES: Final = ("alarms", "access", "maintenance")
# The schema of the first version that names its columns: it may open any later one, unless a step says otherwise.
CONTRACT: Final = 13
_BREAKS: Final = "-- breaks older versions"


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

    @property
    def service(self) -> str:
        """Whose lines are ours in a ledger of migrations that others may use too."""
        return f"wakeful:{self.prefix}" if self.prefix else "wakeful"

    @property
    def oldest_service(self) -> str:
        """Of the lines that say which schema a version must know."""
        return f"wakeful-oldest:{self.prefix}" if self.prefix else "wakeful-oldest"

    def fill(self, sql: str) -> str:
        return sql.replace("{t}", self.qualifier).replace("{p}", self.prefix)


class Migration(Struct, frozen=True):
    """`oldest`: the newest schema that a version must know to use the tables after this step."""

    version: int
    name: str
    sql: str
    oldest: int


class Ledger(Struct, frozen=True):
    """What the ledger of migrations says: the steps that were applied, and the oldest schema that may open the tables.

    `oldest` is empty in a ledger that no step after `CONTRACT` was noted in: then the newest step is needed.
    """

    applied: frozenset[int] = frozenset()
    oldest: frozenset[int] = frozenset()

    @property
    def version(self) -> int:
        return max(self.applied, default=0)

    @property
    def needed(self) -> int:
        return max(self.oldest, default=self.version)

    def check_known(self, known: int) -> None:
        """InvalidConfig where only newer versions may open these tables."""
        if self.needed > known:
            raise InvalidConfig(
                f"the tables were made by a newer wakeful (schema {self.version}): a version must know schema "
                f"{self.needed} to open them, and this one knows {known}",
                field="database",
                fix="Install that version or a later one.",
            )

    def to_note(self, step: Migration) -> int | None:
        """The line about the oldest version that a step adds; None where there is nothing new to say."""
        return step.oldest if step.version > CONTRACT and step.oldest not in self.oldest else None


# What a row of the ledger is one of: a step, or a service with its newest step.
LedgerKey = Literal["version", "service"]


def ledger_key(keys: Iterable[frozenset[str]]) -> LedgerKey | None:
    """How a table `migrations` is keyed, from the columns of its unique indexes; None where we cannot use it."""
    found: LedgerKey = "version"
    for key in keys:
        if key == {"service"}:
            found = "service"
        elif not {"service", "version"} <= key:
            return None  # two steps of ours would be in each other's way
    return found


def versions_of(found: Iterable[int], key: LedgerKey) -> frozenset[int]:
    """Which steps the rows of a service say were applied, and `CLOSED` where they say that."""
    versions = frozenset(found)
    if key == "version" or not versions:
        return versions
    newest = max(versions)
    closed = {CLOSED} if newest >= CLOSED else set()
    return frozenset(range(1, newest % CLOSED + 1)) | closed


def newest_step(ledger: Ledger) -> int:
    return max(ledger.applied - {CLOSED}, default=0)


def closing_version(ledger: Ledger, key: LedgerKey) -> int:
    """The version that closes a database. In a service's only row the newest step can still be read from it."""
    return CLOSED if key == "version" else CLOSED + newest_step(ledger)


def line_refused(table: str, why: str) -> InvalidConfig:
    return InvalidConfig(
        f"the table {table} of this database does not take wakeful's lines: {why}",
        field="database",
        fix="Rename it, or let it take rows (service, version, applied_at) of the service 'wakeful'.",
    )


def queries(dialect: Dialect, naming: Naming) -> dict[str, str]:
    """Every named statement of a dialect, its tables named for this database, and their columns as they are."""
    return statements(dialect, naming, *_FILES)


def statements(dialect: Dialect, naming: Naming, *files: str) -> dict[str, str]:
    """The statements of files, by the names that stand above them, with the columns and the parts that they ask for."""
    parts: dict[str, str] = {}
    found: dict[str, str] = {}
    for what, name, comment, sql in chain.from_iterable(
        _pieces((_SQL / f"{file}.{dialect}.sql").read_text()) for file in files
    ):
        for mark, part in parts.items():
            sql = sql.replace(mark, part)
        if what == "part":
            parts["{" + name + "}"] = sql
        else:
            found[name] = comment + filled(naming.fill(sql))
    return found


def _pieces(text: str) -> Iterator[tuple[str, str, str, str]]:
    """What it is, its name, the comment below it and its SQL."""
    _, *pieces = _HEAD.split(text)
    for what, name, comment, body in zip(*(pieces[at::4] for at in range(4)), strict=True):
        yield what, name, comment, body.strip().rstrip(";")


def migrations(dialect: Dialect, naming: Naming) -> list[Migration]:
    """The numbered schema steps of a dialect, in order."""
    found = sorted(entry.name for entry in (_SQL / "migrations").iterdir() if entry.name.endswith(f".{dialect}.sql"))
    steps: list[Migration] = []
    oldest = 0
    for name in found:
        version, sql = int(name[:4]), (_SQL / "migrations" / name).read_text()
        if version <= CONTRACT or sql.startswith(_BREAKS):
            oldest = version
        steps.append(Migration(version, name.removesuffix(f".{dialect}.sql"), naming.fill(sql), oldest))
    assert len({step.version for step in steps}) == len(steps), f"two migrations of one number in {found}"
    return steps


CLOSED: Final = 1_000_000  # a schema version that there never is


class Transfer(Struct, frozen=True, kw_only=True):
    """Why a database must not be opened: it was moved away, or what is copied into it is not complete.

    It is closed by a line in the ledger of migrations that no version knows: every wakeful refuses it, also an older
    one, which takes it for a newer one's. What happened stands in a row of `secrets`.

    `other`: the database at the other end, for people to read. `id`: the same at both ends of one move.
    """

    id: str
    state: Literal["leaving", "left", "arriving", "restoring"]
    other: str
    at: str

    def encoded(self) -> bytes:
        return msgspec.json.encode(self)


def why_closed(value: object) -> Transfer:
    """What stands in `secrets` of a database that is closed."""
    if isinstance(value, bytes):
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(value, type=Transfer)
    raise InvalidConfig(
        "this database was closed, and does not say why", field="database", fix="Use the one that took its place."
    )


def refused(transfer: Transfer) -> InvalidConfig:
    """The error for whoever opens such a database."""
    match transfer:
        case Transfer(state="left"):
            what, fix = f"this database was moved to {transfer.other} at {transfer.at}", "Use that one: set `db` to it."
        case Transfer(state="leaving"):
            what = f"this database is being moved to {transfer.other} since {transfer.at}"
            fix = "Run `wakeful db move` again to finish that, or `wakeful db move --abandon` to go on here."
        case Transfer(state="restoring"):
            what = f"restoring {transfer.other} into this database has not come to its end"
            fix = "Run `wakeful restore --replace` again."
        case _:
            what = f"what is being moved here from {transfer.other} since {transfer.at} is not complete"
            fix = "Run `wakeful db move` there again to finish it."
    return InvalidConfig(what, field="database", fix=fix)
