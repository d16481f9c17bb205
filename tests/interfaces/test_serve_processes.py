"""`wakeful serve --processes N`: real processes on one port and one PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from tests.faults.conftest import until
from tests.interfaces.test_cli_processes import Start, run, start
from tests.ports import free_port
from wakeful.testing.receiver import Receiver

__all__ = ["start"]

COUNT = 2


class Processes:
    """A parent, its processes, and requests to one of them."""

    def __init__(self, parent: subprocess.Popen[str], log: Path) -> None:
        self.parent = parent
        self._log = log
        self._seen: set[int] = set()

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def port(self) -> int:
        return int(self.log.partition("127.0.0.1:")[2].partition(",")[0])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def pids(self) -> list[int]:
        found = sorted(child.pid for child in psutil.Process(self.parent.pid).children())
        self._seen |= set(found)
        return found

    def kill(self) -> None:
        """Leave nobody behind, also where a test failed because they did not end by themselves."""
        if self.parent.poll() is None:
            self.pids()
            self.parent.kill()
        for pid in self._seen:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def are_ready(self) -> bool:
        assert self.parent.poll() is None, self.log
        return f"{COUNT} processes are ready" in self.log

    def is_listening(self, pid: int) -> bool:
        connections = psutil.Process(pid).net_connections("tcp")
        return any(one.status == psutil.CONN_LISTEN and one.laddr.port == self.port for one in connections)

    async def ended(self) -> int:
        await until(lambda: self.parent.poll() is not None, "the parent ends")
        return self.parent.returncode

    @asynccontextmanager
    async def at(self, pid: int) -> AsyncIterator[aiohttp.ClientSession]:
        """A client whose one connection is to this process: the kernel chooses, so we try until it chose that one."""
        while True:
            async with aiohttp.ClientSession(
                self.url, connector=aiohttp.TCPConnector(limit=1), headers={"X-Wakeful-Client": "test"}
            ) as session:
                async with session.get("/healthz") as answer:
                    assert answer.status == 200
                    await answer.read()
                found = psutil.Process(pid).net_connections("tcp")
                if any(one.status == psutil.CONN_ESTABLISHED and one.laddr.port == self.port for one in found):
                    yield session
                    return


Serving = Callable[..., Processes]


@pytest.fixture
def serving(start: Start, tmp_path: Path, pg_dsn: str, pg_migrated: str) -> Iterator[Serving]:
    log = (tmp_path / "log").open("w")
    made: list[Processes] = []

    def serving(*args: str, port: int = 0, **environ: str) -> Processes:
        environ = {**os.environ, "WAKEFUL_DB": pg_dsn, "WAKEFUL_SCHEMA": pg_migrated, **environ}
        command = ("serve", "--port", str(port), "--processes", str(COUNT), *args)
        made.append(Processes(start(*command, env=environ, stderr=log), Path(log.name)))
        return made[-1]

    yield serving
    log.close()
    for processes in made:
        processes.kill()


async def created(session: aiohttp.ClientSession, **fields: Any) -> str:
    async with session.post("/v1/alarms", json={"wake_message": "x", "delay_seconds": 1} | fields) as answer:
        assert answer.status == 201, await answer.text()
        return str((await answer.json())["id"])


async def test_another_is_started_for_one_that_is_killed_and_meanwhile_the_others_answer(serving: Serving) -> None:
    processes = serving()
    await until(processes.are_ready, "both are ready")
    first, second = processes.pids()
    os.kill(first, signal.SIGKILL)
    async with processes.at(second) as session, session.get("/readyz") as answer:
        assert answer.status == 200
    await until(lambda: first not in (now := processes.pids()) and len(now) == COUNT, "another is there")
    [other] = set(processes.pids()) - {second}
    await until(lambda: processes.is_listening(other), "and listens")
    assert f"process {first} was ended by signal 9: another is started in 0.25 s" in processes.log
    assert processes.log.count(" on http://127.0.0.1:") == 2, "the address is said once, and that all are ready"
    processes.parent.send_signal(signal.SIGTERM)
    assert await processes.ended() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_to_the_parent_ends_all_in_good_order(serving: Serving, number: signal.Signals) -> None:
    processes = serving()
    await until(processes.are_ready, "both are ready")
    pids, port = processes.pids(), processes.port
    async with processes.at(pids[0]) as session:
        waiting = asyncio.create_task(session.get("/v1/inbox?wait=60"))
        async with processes.at(pids[1]) as other:
            await created(other, delay_seconds=3600)
        for pid in (*pids, processes.parent.pid):  # as systemd does: all of them at once
            os.kill(pid, number)
        async with asyncio.timeout(30), await waiting as answer:
            assert answer.status == 200  # what was accepted is answered
    assert await processes.ended() == 0
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert "stopping now" not in processes.log
    socket.create_server(("127.0.0.1", port)).close()  # nobody holds the port any more


async def test_the_second_signal_ends_all_at_once(serving: Serving, tmp_path: Path) -> None:
    async with asyncio.timeout(60), hanging() as (url, called):
        (tmp_path / "wakeful.toml").write_text(
            f'stop_within = "10m"\n[targets.hook]\nkind = "webhook"\nurl = "{url}"\n'
            'allow_private = true\ntimeout = "10m"\n'
        )
        processes = serving()
        await until(processes.are_ready, "both are ready")
        pids = processes.pids()
        async with processes.at(pids[0]) as session:
            await created(session, target="hook")
        await called.wait()
        processes.parent.send_signal(signal.SIGTERM)
        await until(lambda: "stopping 2 processes" in processes.log, "it is told")
        processes.parent.send_signal(signal.SIGTERM)
        assert await processes.ended() == 128 + signal.SIGTERM
        assert not any(psutil.pid_exists(pid) for pid in pids)


@asynccontextmanager
async def hanging() -> AsyncIterator[tuple[str, asyncio.Event]]:
    """A receiver that never answers."""
    called = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        called.set()
        try:
            await reader.read()
        finally:
            writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", called
    finally:
        server.close()


async def test_processes_whose_parent_is_gone_stop_too(serving: Serving) -> None:
    processes = serving()
    await until(processes.are_ready, "both are ready")
    pids = processes.pids()
    processes.parent.kill()
    assert await processes.ended() == -signal.SIGKILL
    await until(lambda: not any(psutil.pid_exists(pid) for pid in pids), "they end")
    assert processes.log.count("the parent process is gone: stopping") == COUNT


async def test_two_processes_fire_nothing_twice(serving: Serving, tmp_path: Path) -> None:
    async with Receiver() as receiver:
        (tmp_path / "wakeful.toml").write_text(
            f'batch = 5\n[targets.hook]\nkind = "webhook"\nurl = "{receiver.url}"\nallow_private = true\n'
        )
        processes = serving()
        await until(processes.are_ready, "both are ready")
        ids = []
        for pid in processes.pids():
            async with processes.at(pid) as session:
                ids += [await created(session, target="hook") for _ in range(100)]
        await until(lambda: len(receiver.wakes) >= 200, "all are delivered")
        processes.parent.send_signal(signal.SIGTERM)  # what is under way comes down
        assert await processes.ended() == 0
        delivered = [wake.headers["webhook-id"].partition("@")[0] for wake in receiver.wakes]
        assert sorted(delivered) == sorted(ids)


async def test_what_happens_in_one_process_is_heard_at_the_other(serving: Serving) -> None:
    processes = serving()
    await until(processes.are_ready, "both are ready")
    here, there = processes.pids()
    async with asyncio.timeout(60), processes.at(here) as following, processes.at(there) as setting:
        async with following.get("/v1/events") as events:
            made = await created(setting, target="inbox")
            said = b""
            while b"fire" not in said or made.encode() not in said:
                said += await events.content.readline()
    async with asyncio.timeout(60), processes.at(here) as waiting, processes.at(there) as setting:
        async with waiting.get("/v1/inbox") as answer:
            assert made in await answer.text()
        fetching = asyncio.create_task(waiting.get("/v1/inbox?wait=50"))
        made = await created(setting, target="inbox")
        async with await fetching as answer:
            assert made in await answer.text()


@pytest.mark.parametrize("order", [1, -1])
async def test_the_printed_link_signs_in_once_whichever_process_answers(
    start: Start, serving: Serving, pg_dsn: str, pg_migrated: str, order: int
) -> None:
    environ = {**os.environ, "WAKEFUL_DB": pg_dsn, "WAKEFUL_SCHEMA": pg_migrated}
    assert start("token", "new", "--owner", "ada", env=environ).wait(60) == 0
    processes = serving()
    await until(processes.are_ready, "both are ready")
    link = processes.log.partition("/login?once=")[2].split()[0]
    here, there = processes.pids()[::order]
    async with processes.at(here) as session, processes.at(there) as other:
        async with session.get(f"/login?once={link}", allow_redirects=False) as answer:
            assert answer.status == 303
            cookies = {name: cookie.value for name, cookie in answer.cookies.items()}
        async with other.get(f"/login?once={link}", allow_redirects=False) as answer:
            assert answer.status == 401, "once, not once for each process"
        async with other.get("/", cookies=cookies, allow_redirects=False) as answer:
            assert answer.status == 200, "signed in everywhere"


async def test_a_token_that_is_revoked_ends_at_every_process_with_its_links(
    start: Start, serving: Serving, pg_dsn: str, pg_migrated: str
) -> None:
    environ = {**os.environ, "WAKEFUL_DB": pg_dsn, "WAKEFUL_SCHEMA": pg_migrated}

    async def said(*args: str) -> dict[str, Any]:
        out, err = await asyncio.to_thread(start(*args, "--json", env=environ).communicate, timeout=60)
        assert out, err
        found: dict[str, Any] = json.loads(out)
        return found

    token = await said("token", "new", "--owner", "ada")
    headers = {"authorization": f"Bearer {token['token']}"}
    processes = serving()
    await until(processes.are_ready, "both are ready")
    here, there = processes.pids()
    async with asyncio.timeout(120), processes.at(here) as session, processes.at(there) as other:
        async with session.post("/v1/calendar-links", headers=headers) as answer:
            link = await answer.json()
        path = link["url"].removeprefix(processes.url)
        for one in (session, other):  # both have looked the two tokens up, and believe them for two seconds
            for asked in (one.get("/v1/alarms", headers=headers), one.get(path)):
                async with asked as answer:
                    assert answer.status == 200
        assert (await said("token", "revoke", token["id"]))["links"] == [link["id"]]
        for one in (session, other):
            for place, given in (("/v1/alarms", headers), (path, {})):
                while True:
                    async with one.get(place, headers=given) as answer:
                        if answer.status == 401:
                            break


async def test_several_processes_on_sqlite_are_refused(start: Start) -> None:
    _, err = run(start, "serve", "--port", "0", "--processes", "2", code=2)
    assert err == (
        "error: --processes: --processes: 2 processes need PostgreSQL, and this database is a SQLite file. "
        "Give 1, or a postgresql://… database.\n"
    )
    _, err = run(start, "serve", "--port", "0", "--processes", "0", code=2)
    assert "error: --processes: --processes: 0 is less than 1" in err


async def test_where_there_are_not_enough_ports_it_says_so(serving: Serving) -> None:
    processes = serving(WAKEFUL_METRICS_PORT="65535")
    assert await processes.ended() == 2
    assert "there are not 2 ports from there on" in processes.log


async def test_what_is_wrong_is_said_once_and_ends_the_start(serving: Serving) -> None:
    processes = serving("--host", "0.0.0.0")
    assert await processes.ended() == 2
    assert processes.log.count("there is no token yet") == 1
    with socket.create_server(("127.0.0.1", 0)) as taken:
        processes = serving(port=taken.getsockname()[1])
        assert await processes.ended() == 2
        assert "error: --port: cannot listen on" in processes.log


async def test_two_parents_do_not_share_a_port_by_mistake(serving: Serving) -> None:
    processes = serving()
    await until(processes.are_ready, "both are ready")
    assert await serving(port=processes.port).ended() == 2
    assert "error: --port: cannot listen on" in processes.log


async def test_systemd_is_told_by_the_parent_once_all_are_ready(serving: Serving, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.setblocking(False)
        processes = serving(NOTIFY_SOCKET=str(tmp_path / "notify"))
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(60):
            told = await loop.sock_recv(systemd, 4096)
        assert told.decode() == f"READY=1\nSTATUS={COUNT} processes on {processes.url}"
        assert all(processes.is_listening(pid) for pid in processes.pids())
        assert len(processes.pids()) == COUNT
        processes.parent.send_signal(signal.SIGTERM)
        assert await processes.ended() == 0
        assert systemd.recv(4096) == b"STOPPING=1"
        with pytest.raises(BlockingIOError):
            systemd.recv(4096)


async def test_each_process_tells_at_a_port_of_its_own_how_it_is(serving: Serving) -> None:
    port = free_port(COUNT)
    processes = serving(WAKEFUL_METRICS_PORT=str(port))
    await until(processes.are_ready, "both are ready")
    async with aiohttp.ClientSession() as session:
        for number in range(COUNT):
            async with session.get(f"http://127.0.0.1:{port + number}/metrics") as answer:
                assert (answer.status, "wakeful_inflight" in await answer.text()) == (200, True)
    processes.parent.send_signal(signal.SIGTERM)
    assert await processes.ended() == 0


async def test_a_process_that_stands_still_is_replaced(serving: Serving, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        processes = serving(NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="6000000")
        await until(processes.are_ready, "both are ready")
        first, second = processes.pids()
        os.kill(first, signal.SIGSTOP)
        await until(lambda: first not in (now := processes.pids()) and len(now) == COUNT, "another is there")
        assert second in processes.pids()
        assert f"process {first} stands still and is ended" in processes.log
