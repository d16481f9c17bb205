"""The quiet owner, in a process of its own: every second an alarm for each place, a list, and the wakes as they come.

python -m tests.neighbours.quiet FOLDER receives and writes FOLDER/ports.json; once there is a FOLDER/quiet.json with
the server's address and a token, it begins to ask. FOLDER/asked.jsonl, woken.jsonl and stalls.jsonl hold what it saw.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from tests.faults.client import unix
from tests.faults.receivers import OK, Request, Writer, read_request, send
from tests.faults.records import Notes

from .receivers import listen, woken
from .records import Asked, Stall

NAME: Final = "quiet"
LOUD: Final = "loud"
HOLDS: Final = 0.2  # seconds that the shared place takes over each wake
AHEAD: Final = 1.5
PATIENCE: Final = 30.0
# A place of the quiet owner's own; a router that answers one owner with 500 and quotes the wake; a slow place for all.
PLACES: Final = ("desk", "agents", "shared")


async def answer(name: str, writer: Writer, request: Request, owner: str) -> None:
    if name == "shared":
        await asyncio.sleep(HOLDS)
    if name == "agents" and owner == LOUD:
        said = request.body
        head = b"HTTP/1.1 500 No\r\ncontent-type: text/plain\r\ncontent-length: %d\r\n\r\n" % len(said)
        await send(writer, head + said)
        return
    await send(writer, OK)


class Quiet:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked, self.woken = Notes(folder / "asked.jsonl"), Notes(folder / "woken.jsonl")
        self.stalls = Notes(folder / "stalls.jsonl")
        self.stopping = asyncio.Event()

    async def serve(self, name: str, reader: asyncio.StreamReader, writer: Writer) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while not writer.is_closing() and (request := await read_request(reader)) is not None:
                seen = woken(name, request)
                self.woken.add(seen)
                await answer(name, writer, request, seen.owner)
        writer.close()

    async def live(self) -> None:
        path = self.folder / "quiet.json"
        while not path.exists() and not self.stopping.is_set():  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.05)
        if self.stopping.is_set():
            return
        told = msgspec.json.decode(path.read_bytes())
        headers = {"authorization": f"Bearer {told['token']}"}
        timeout = aiohttp.ClientTimeout(total=PATIENCE)
        async with aiohttp.ClientSession(told["url"], headers=headers, timeout=timeout) as self.session:
            async with asyncio.TaskGroup() as tasks:
                for second in itertools.count(time.time()):
                    await asyncio.sleep(max(0.0, second - time.time()))
                    if self.stopping.is_set():
                        return
                    for target in PLACES:
                        tasks.create_task(self.set(target))
                    tasks.create_task(self.ask("list", "GET", "/v1/alarms?limit=20"))

    async def set(self, target: str) -> None:
        body = {"wake_message": "time for tea", "delay_seconds": AHEAD, "target": target}
        await self.ask("create", "POST", "/v1/alarms", body, target=target)

    async def ask(self, verb: str, method: str, path: str, body: Any = None, *, target: str = "") -> None:
        at, status, told = time.time(), 0, {}
        with contextlib.suppress(OSError, aiohttp.ClientError, TimeoutError):
            async with self.session.request(method, path, json=body) as response:
                told = await response.json()
                status = response.status
        due = unix(told.get("next_fire_at")) if status == 201 else None
        alarm = told.get("id", "") if status == 201 else ""
        took = time.time() - at
        self.asked.add(Asked(at=at, took=took, verb=verb, status=status, alarm=alarm, due=due or 0.0, target=target))

    def feel_stalls(self) -> None:
        while True:
            before = time.monotonic()
            time.sleep(0.05)
            if (more := time.monotonic() - before - 0.05) > 0.3:
                self.stalls.add(Stall(time.time(), more))


async def main(folder: Path) -> None:
    quiet = Quiet(folder)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, quiet.stopping.set)
    threading.Thread(target=quiet.feel_stalls, daemon=True).start()
    await listen(folder, "ports.json", {name: partial(quiet.serve, name) for name in PLACES})
    await quiet.live()
    await quiet.stopping.wait()
    await asyncio.sleep(0)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
