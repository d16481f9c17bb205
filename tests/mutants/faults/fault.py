"""What a planted fault is: a fragment of SQL or of a module's source, and what stands there instead."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Sql(Struct, frozen=True):
    """A fragment of one dialect's statements, in each of the named ones that have it."""

    dialect: Literal["sqlite", "postgres"]
    statements: tuple[str, ...]
    old: str
    new: str = ""


class Source(Struct, frozen=True):
    """A fragment of a module, once."""

    module: str
    old: str
    new: str


class Several(Struct, frozen=True):
    """Guards that stand behind each other: nothing happens unless all of them are gone."""

    sources: tuple[Source, ...]


Fault = Sql | Source | Several
