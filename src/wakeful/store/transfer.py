"""A database that must not be opened now: it was moved away, or a copy into it is not complete.

It is closed by a line in the ledger of migrations that no version knows. Older versions refuse it too, since they take
it for a newer version's. The reason is stored in a row of `secrets`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final, Literal

import msgspec
from msgspec import Struct

from wakeful.errors import InvalidConfig

CLOSED: Final = 1_000_000  # a schema version that there never is


class Transfer(Struct, frozen=True, kw_only=True):
    """`other`: the database at the other end, for people to read. `id`: the same at both ends of one move."""

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
    """What whoever opens such a database is told."""
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
