"""Each fault of the harness's PostgreSQL really happens, and really heals."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Literal

import asyncpg
import psutil
import pytest

from wakeful.store.postgres import PostgresStore
from wakeful.store.queries import Naming

from .world.postgres import Cluster
from .world.server import until
from .world.session import ServerError, Session

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster.start(tmp_path_factory.mktemp("world"))
    yield cluster
    cluster.close()


@pytest.fixture(autouse=True)
def alarms(cluster: Cluster) -> None:
    with cluster.session() as session:
        session.run("drop table if exists alarms; create table alarms (id int); insert into alarms values (1)")


def ids(cluster: Cluster) -> list[str | None]:
    with cluster.session() as session:
        return [id for [id] in session.run("select id from alarms order by id")]


def add(cluster: Cluster, id: int) -> None:
    with cluster.session() as session:
        session.run(f"insert into alarms values ({id})")


def gone(session: Session) -> bool:
    with suppress(ServerError, ConnectionError):
        session.run("select 1")
        return False
    return True


@pytest.mark.parametrize("how", ["fast", "immediate", "kill"])
def test_a_stopped_server_is_gone_with_all_its_processes_and_comes_back_with_its_rows(
    cluster: Cluster, how: Literal["fast", "immediate", "kill"]
) -> None:
    old = cluster.session(application="wakeful")
    if how == "kill":
        cluster.kill()
    else:
        cluster.stop(how)
    assert gone(old)
    with pytest.raises(ConnectionRefusedError):
        cluster.session()
    cluster.start_again()
    assert ids(cluster) == ["1"]
    old.close()


def test_a_frozen_server_accepts_and_does_not_answer_until_it_is_thawed(cluster: Cluster) -> None:
    answers: list[object] = []
    with cluster.session() as old:
        cluster.freeze()
        asking = [
            threading.Thread(target=lambda: answers.append(ids(cluster))),
            threading.Thread(target=lambda: answers.append([old.value("select id from alarms")])),
        ]
        with socket.create_connection(("127.0.0.1", cluster.port), timeout=5):
            for one in asking:
                one.start()
            for one in asking:
                one.join(0.2)
            assert answers == []
            cluster.thaw()
            for one in asking:
                one.join(60)
    assert answers == [["1"], ["1"]]


def test_a_frozen_server_can_be_stopped_and_killed(cluster: Cluster) -> None:
    cluster.freeze()
    cluster.kill()
    cluster.start_again()
    cluster.freeze()
    cluster.stop("fast")
    cluster.start_again()
    assert ids(cluster) == ["1"]


def test_only_the_named_sessions_are_ended(cluster: Cluster) -> None:
    with cluster.session(application="wakeful") as ours, cluster.session(application="other") as theirs:
        assert cluster.terminate_backends() == 1
        assert gone(ours)
        assert not gone(theirs)


def test_only_the_listening_session_is_cut(cluster: Cluster) -> None:
    with cluster.session(application="wakeful") as listener, cluster.session(application="wakeful") as worker:
        listener.run('LISTEN "wakeful:alarms"')
        worker.run("select id from alarms")
        assert cluster.cut_listen() == 1
        assert gone(listener)
        assert not gone(worker)


async def test_the_ear_of_a_real_store_is_cut_and_grows_again(cluster: Cluster) -> None:
    store = PostgresStore(cluster.dsn, naming=Naming(schema="ear"))
    try:
        await store.migrate()
        await store.claim({"desk": 1}, lease=timedelta(seconds=5))
        for _ in range(2):
            await asyncio.to_thread(until, lambda: cluster.cut_listen() == 1, "it listens")
        await store.claim({"desk": 1}, lease=timedelta(seconds=5))
    finally:
        await store.close()


def test_read_only_counts_for_sessions_that_were_there_before(cluster: Cluster) -> None:
    with cluster.session() as old:
        cluster.read_only(True)
        with pytest.raises(ServerError) as refused:
            until(lambda: old.run("insert into alarms values (2)") and False, "it hears of it", within=60)
        assert refused.value.state == "25006"
        cluster.read_only(False)
        until(lambda: old.value("show transaction_read_only") == "off", "it hears of that too")
    add(cluster, 3)
    assert "3" in ids(cluster)


@pytest.mark.parametrize("lock", ["lock_table", "lock_rows"])
def test_a_lock_keeps_others_out_while_the_block_lasts(cluster: Cluster, lock: str) -> None:
    with cluster.session() as other:
        other.run("set lock_timeout = '50ms'")
        with getattr(cluster, lock)(60):
            with pytest.raises(ServerError) as waited:
                other.run("update alarms set id = 2")
            assert waited.value.state == "55P03"
            if lock == "lock_rows":  # it is free to read, and to be added to
                assert other.run("select id from alarms") == [["1"]]
        other.run("set lock_timeout = '20s'; update alarms set id = 2")
    assert ids(cluster) == ["2"]


def test_a_lock_ends_by_itself_when_its_time_is_over(cluster: Cluster) -> None:
    with cluster.lock_table(0.2), cluster.session() as other:
        assert other.value("set lock_timeout = '20s'; select count(*) from alarms") == "1"


def test_no_connection_is_left_not_even_one_of_those_that_were_held(cluster: Cluster) -> None:
    with cluster.session(application="wakeful") as held:
        with cluster.use_up_connections() as count:
            assert count == 60
            assert gone(held)
            with pytest.raises(ServerError) as refused:
                cluster.session(application="wakeful")
            assert refused.value.state == "53300"
    until(lambda: ids(cluster) == ["1"], "they are given back")


def test_a_restore_goes_back_to_the_backup_as_often_as_wanted(cluster: Cluster) -> None:
    cluster.backup()
    for id in (2, 3):
        add(cluster, id)
        cluster.restore()
        assert ids(cluster) == ["1"]


async def test_the_replica_takes_over_from_a_dead_and_from_a_frozen_primary(tmp_path: Path) -> None:
    cluster = Cluster.start(tmp_path, replica=True)
    try:
        with cluster.session() as session:
            session.run("create table alarms (id int); insert into alarms values (1)")
        cluster.stop("fast")
        cluster.start_again()
        add(cluster, 2)
        both, before = cluster.dsn_both, cluster.dsn
        cluster.promote()
        assert cluster.dsn != before
        assert ids(cluster) == ["1", "2"], "what was acknowledged is there"
        connection = await asyncpg.connect(both, timeout=60)
        await connection.execute("insert into alarms values (3)")
        await connection.close()

        cluster.rebuild_replica()
        cluster.freeze()
        cluster.promote()
        assert (cluster.dsn, cluster.dsn_both) == (before, both)
        assert ids(cluster) == ["1", "2", "3"]
        cluster.rebuild_replica()
        cluster.backup()
        add(cluster, 4)
        cluster.restore()
        cluster.promote()
        assert ids(cluster) == ["1", "2", "3"], "the replica went back too"
    finally:
        cluster.close()


_STARTS = """
import sys, time, pathlib
from tests.faults.world.postgres import Cluster
cluster = Cluster.start(pathlib.Path(sys.argv[1]))
cluster.freeze()
print(cluster.sockets, flush=True)
time.sleep(600)
"""


def test_nothing_is_left_of_a_cluster_whose_owner_was_killed(tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(
        [sys.executable, "-c", _STARTS, str(tmp_path)], env=environ, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        sockets = Path(owner.stdout.readline().strip())
        left = psutil.Process(owner.pid).children(recursive=True)
        assert any(process.name() == "postgres" for process in left)
        owner.send_signal(signal.SIGKILL)
    until(lambda: not any(map(_runs, left)), "its processes end")
    until(lambda: not sockets.exists(), "its folder of sockets goes")


def _runs(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False
