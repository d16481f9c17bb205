"""A SQLite file from the outside: another program's connection, and a store that only migrates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw

from wakeful.store.sqlite import SqliteStore


@contextmanager
def other_program(path: str) -> Iterator[apsw.Connection]:
    db = apsw.Connection(path)
    try:
        yield db
    finally:
        db.close()


def ask(path: str, sql: str, *values: Any) -> list[Any]:
    with other_program(path) as db:
        return db.execute(sql, values).fetchall()


async def migrated(path: str, **given: Any) -> list[str]:
    store = SqliteStore(path, **given)
    try:
        return await store.migrate()
    finally:
        await store.close()
