"""Each fault of the harness's limits, clock, disk, pgbouncer and older versions really happens, and really heals.

What needs a tool that is not everywhere (pgbouncer, libfaketime, the right to mount) is tried where it is; the name of
the case says so.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from .world import bouncer, clock, disk, limits, versions
from .world.bouncer import Bouncer
from .world.clock import FakeTime
from .world.disk import SmallDisk
from .world.postgres import Cluster
from .world.server import home, leave, until
from .world.session import ServerError

ROOT = Path(__file__).parents[2]


def where(there: bool, tool: str) -> pytest.MarkDecorator:
    """One case if the tool is there; else one that says it is not, and holds that we notice."""
    return pytest.mark.parametrize("there", [there], ids=[tool if there else f"without-{tool}"])


# A process: its limits and its clock.

_PROBE = """
import asyncio, datetime, json, os, sys, threading, time
async def times():
    began = time.monotonic()
    await asyncio.sleep(0.05)
    time.sleep(0.05)
    threading.Event().wait(0.05)
    return [datetime.datetime.now(datetime.UTC).timestamp(), time.time(), began, time.monotonic() - began]
def grow():
    with open("grown", "ab", buffering=0) as file:
        file.write(b"x" * 4096)
def descriptors():
    open("grown", "ab").close()
for line in sys.stdin:
    try:
        answer = asyncio.run(times()) if line.strip() == "times" else globals()[line.strip()]()
    except OSError as error:
        answer = error.errno
    print(json.dumps(answer), flush=True)
"""


class Probe:
    def __init__(self, folder: Path, environ: dict[str, str] | None = None, **limited: int) -> None:
        args = [sys.executable, "-c", _PROBE]
        self._child = subprocess.Popen(
            limits.command(args, **limited) if limited else args,
            cwd=folder,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._child.pid

    def ask(self, what: str) -> Any:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        stuck = threading.Timer(60, self._child.kill)
        stuck.start()
        try:
            self._child.stdin.write(what + "\n")
            self._child.stdin.flush()
            return json.loads(self._child.stdout.readline())
        finally:
            stuck.cancel()

    def close(self) -> None:
        self._child.kill()
        self._child.communicate()


@pytest.fixture
def probe(tmp_path: Path) -> Iterator[Callable[..., Probe]]:
    made: list[Probe] = []

    def make(environ: dict[str, str] | None = None, **limited: int) -> Probe:
        made.append(Probe(tmp_path, environ, **limited))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_running_process_meets_the_end_of_its_file_size_and_gets_over_it(probe: Callable[..., Probe]) -> None:
    victim = probe()
    assert victim.ask("grow") is None
    with limits.file_size(victim.pid, 4096):
        assert victim.ask("grow") == errno.EFBIG
    assert victim.ask("grow") is None


def test_a_running_process_has_no_descriptor_left_and_gets_over_it(probe: Callable[..., Probe]) -> None:
    victim = probe()
    assert victim.ask("descriptors") is None
    with limits.no_more_files(victim.pid):
        assert victim.ask("descriptors") == errno.EMFILE
    assert victim.ask("descriptors") is None
    with limits.open_files(victim.pid, 50):
        assert victim.ask("descriptors") is None


def test_a_process_begins_within_limits(probe: Callable[..., Probe]) -> None:
    victim = probe(file_size=4096)
    assert [victim.ask("grow"), victim.ask("grow")] == [None, errno.EFBIG]
    assert probe(files=40).ask("descriptors") is None


@where(clock.available(), "faketime")
def test_the_wall_clock_is_set_while_a_process_runs_and_what_counts_on_goes_on(
    probe: Callable[..., Probe], there: bool
) -> None:
    if not there:
        with pytest.raises(AssertionError, match="apt-get install faketime"):
            FakeTime.start()
        return
    fake = FakeTime.start()
    victim = probe(fake.environ)
    behind = 0.0
    for jump in (0.0, 3600.0, -7200.5, 3600.5):
        fake.jump(jump)
        behind += jump
        before, since = time.time(), time.monotonic()
        now, also_now, counted, slept = victim.ask("times")
        after, until_then = time.time(), time.monotonic()
        assert before - 1 <= now - behind <= after + 1
        assert abs(now - also_now) < 1
        assert since <= counted <= until_then
        assert 0.15 <= slept <= until_then - since
    victim.close()
    fake.close()
    assert not list(Path("/dev/shm").glob(f"*faketime*_{victim.pid}"))


@where(clock.available(), "faketime")
def test_a_database_has_a_clock_that_can_be_set_too(tmp_path: Path, there: bool) -> None:
    if not there:
        assert not clock.available()
        return
    fake = FakeTime.start()
    cluster = Cluster.start(tmp_path, environ=fake.environ)
    try:
        with cluster.session() as session:
            for jump, offset in ((3600, 3600), (-7200, -3600)):
                fake.jump(jump)
                now = float(session.value("select extract(epoch from clock_timestamp())") or 0)
                assert abs(now - time.time() - offset) < 20
    finally:
        cluster.close()
        fake.close()


# The disk.


@where(disk.available(), "mount")
def test_a_full_disk_refuses_until_it_is_freed_and_leaves_no_mount(tmp_path: Path, there: bool) -> None:
    if not there:
        with pytest.raises(RuntimeError, match="cannot mount"):
            SmallDisk.start(tmp_path, 1)
        return
    small = SmallDisk.start(tmp_path, 2)
    try:
        (small.path / "before").write_bytes(bytes(100_000))
        small.fill()
        with pytest.raises(OSError) as full:
            (small.path / "after").write_bytes(bytes(5000))
        assert full.value.errno == errno.ENOSPC
        small.free()
        (small.path / "after").write_bytes(bytes(5000))
        assert os.path.ismount(small.path)
    finally:
        small.close()
    assert not os.path.ismount(small.path)


@where(disk.available(), "mount")
def test_a_database_on_a_full_disk_refuses_and_comes_back(tmp_path: Path, there: bool) -> None:
    if not there:
        assert not disk.available()
        return
    place = home("wkdk")
    small = SmallDisk.start(place, 120)
    cluster = Cluster.start(tmp_path, data=small.path)
    grow = "insert into alarms select repeat(md5(random()::text), 20) from generate_series(1, 20000)"
    try:
        with cluster.session() as session:
            session.run("create table alarms (text text)")
            small.fill()
            with pytest.raises((ServerError, ConnectionError), match=r"No space left|hung up"):
                _for_ever(lambda: session.run(grow))
        small.free()
        until(lambda: _counts(cluster), "it answers again")
    finally:
        cluster.close()
        small.close()
        leave(place)


def _for_ever(work: Callable[[], object]) -> None:
    while True:
        work()


def _counts(cluster: Cluster) -> bool:
    """Whether it takes a row; started again if it ended, as a server does that cannot write its log."""
    if not cluster.running:
        cluster.start_again()
    with suppress(ServerError, ConnectionError), cluster.session() as session:
        session.run("insert into alarms values ('after')")
        return True
    return False


_MOUNTS = """
import pathlib, sys, time
from tests.faults.world.disk import SmallDisk
print(SmallDisk.start(pathlib.Path(sys.argv[1]), 1).path, flush=True)
time.sleep(600)
"""


@where(disk.available(), "mount")
def test_no_mount_is_left_of_an_owner_that_was_killed(tmp_path: Path, there: bool) -> None:
    if not there:
        assert not disk.available()
        return
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(
        [sys.executable, "-c", _MOUNTS, str(tmp_path)], env=environ, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        path = owner.stdout.readline().strip()
        assert os.path.ismount(path)
        owner.kill()
    until(lambda: not os.path.ismount(path), "it is unmounted")


# pgbouncer.


@where(bouncer.available(), "pgbouncer")
def test_a_bouncer_dies_comes_back_and_follows_the_primary(tmp_path: Path, there: bool) -> None:
    if not there:
        assert not bouncer.available()
        return
    cluster = Cluster.start(tmp_path, replica=True)
    between = Bouncer.start(tmp_path, cluster)
    try:
        session = between.session()
        assert session.value("show port") == str(cluster.port)
        between.kill()
        with pytest.raises(ConnectionError):
            session.run("select 1")
        with pytest.raises(ConnectionRefusedError):
            between.session()
        session.close()
        between.start_again()
        cluster.promote()
        between.follow()

        def there_again() -> bool:
            with suppress(ServerError, ConnectionError), between.session() as session:
                return session.value("show port") == str(cluster.port)
            return False

        until(there_again, "it goes to the new primary")
    finally:
        between.close()
        cluster.close()


# An older version.


@where(versions.available(), "history")
def test_an_older_wakeful_runs_out_of_the_history(tmp_path: Path, there: bool) -> None:
    if not there:
        with pytest.raises(RuntimeError, match="git archive"):
            versions.checkout(versions.PREVIOUS, tmp_path)
        return
    environ = versions.checkout(versions.PREVIOUS, tmp_path / "old")
    code = "import wakeful; print(wakeful.__file__)"
    done = subprocess.run([sys.executable, "-c", code], env=environ, cwd=tmp_path, capture_output=True, text=True)
    assert Path(done.stdout.strip()).is_relative_to(tmp_path / "old"), done.stderr
