"""Two `wakeful worker` processes on one database: every fire is delivered, and none of them twice."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter
from pathlib import Path

from wakeful.store import FireQuery

from .conftest import Process, Scene, until

ALARMS = 20_000
_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


class Receiver(asyncio.Protocol):
    """Answers 200 and counts, with as little ado as possible: the workers need the processor."""

    def __init__(self, ids: Counter[str], paths: Counter[str]) -> None:
        self._ids = ids
        self._paths = paths
        self._waiting = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._waiting += data
        while (end := self._waiting.find(b"\r\n\r\n")) >= 0:
            request, *lines = self._waiting[:end].decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            size = end + 4 + int(headers["content-length"])
            if len(self._waiting) < size:
                return
            self._waiting = self._waiting[size:]
            self._ids[headers["webhook-id"]] += 1
            self._paths[request.split()[1]] += 1
            self._transport.write(_ANSWER)


def _worker(scene: Scene, name: str, port: int) -> Process:
    """The real command; each has its own address, so that the receiver can tell them apart."""
    toml = scene.folder / f"{name}.toml"
    lines = [f'{key} = "{scene.settings[key]}"' for key in ("db", "schema") if key in scene.settings]
    url = f"http://127.0.0.1:{port}/{name}"
    target = ["[targets.desk]", 'kind = "webhook"', f'url = "{url}"', "allow_private = true"]
    toml.write_text("\n".join([*lines, *target]) + "\n")
    return scene.run([str(Path(sys.executable).with_name("wakeful")), "worker", "--config", str(toml)])


async def test_two_workers_share_a_database_and_deliver_every_fire_once(scene: Scene) -> None:
    ids: Counter[str] = Counter()
    paths: Counter[str] = Counter()
    server = await asyncio.get_running_loop().create_server(lambda: Receiver(ids, paths), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    workers = [_worker(scene, name, port) for name in ("one", "two")]

    async def both_are_there() -> bool:
        assert all(worker.running for worker in workers), "\n".join(worker.log for worker in workers)
        return len(await scene.store.maintenance.workers()) == 2

    await until(both_are_there, "both workers tell of themselves")
    alarms = await scene.add(*["wake up"] * ALARMS)
    await until(lambda: len(ids) >= ALARMS, "every alarm is delivered", within=300)
    await until(scene.all_done, "and settled")
    for worker in workers:
        worker.tell(signal.SIGTERM)
    assert [await worker.ended() for worker in workers] == [0, 0], "\n".join(worker.log for worker in workers)
    server.close()

    assert ids == Counter(alarm.fire_id for alarm in alarms)
    assert min(paths["/one"], paths["/two"]) > 0
    stats = await scene.store.stats(most=ALARMS + 1)
    assert (stats.total, stats.fired, stats.failed, stats.skipped) == (ALARMS, ALARMS, 0, 0)
    assert len(await scene.store.fires(FireQuery(statuses=("delivered",), limit=ALARMS + 1))) == ALARMS
    assert {alarm.status for alarm in (await scene.alarms()).values()} == {"fired"}
