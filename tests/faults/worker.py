"""A process to be killed: python -m tests.faults.worker ORDERS, where ORDERS is the JSON of the struct below.

It works (dispatches to a handler that writes down every wake) or writes (creates alarms and writes down every answer).
At its halting point it stops itself as a whole, between two instructions, and waits for the end there.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import sys
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

import tests.mutants.plant  # noqa: F401 - first: it may plant a fault here too
import wakeful
from wakeful.model.alarm import Alarm, Change
from wakeful.process.application import build_store
from wakeful.process.server import log_to_stderr, work
from wakeful.python.client import LocalWakeful
from wakeful.rules.wake import Wake
from wakeful.settings import load

Point = Literal["", "claimed", "delivering", "settling", "settled", "creating", "created"]
HALT = "halt"  # the message of the alarm at which a worker stops


class Orders(msgspec.Struct, kw_only=True):
    settings: dict[str, Any]
    notes: str  # the file that every wake, or every answered create, is written to
    halt: Point = ""
    task: Literal["work", "write"] = "work"
    gate: str = ""  # deliveries of "gated" wakes wait until this file exists
    first_key: int = 0


class Notes:
    """Lines that survive the process: each is one write to a file opened for appending."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def add(self, *words: object) -> None:
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


def freeze() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


class HaltingStore:
    """A store that stops the process just before or just after one of its verbs."""

    def __init__(self, store: Any, halt: Point) -> None:
        self._store = store
        self._halt = halt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def claim(self, *args: Any, **kwargs: Any) -> Any:
        claimed = await self._store.claim(*args, **kwargs)
        self._stop("claimed", claimed.alarms)
        return claimed

    async def settle(self, changes: Sequence[Change]) -> Any:
        alarms = [change.after for change in changes]
        self._stop("settling", alarms)
        answers = await self._store.settle(changes)
        self._stop("settled", alarms)
        return answers

    async def add(self, alarms: Sequence[Alarm], **kwargs: Any) -> Any:
        self._stop("creating", alarms)
        added = await self._store.add(alarms, **kwargs)
        self._stop("created", alarms)
        return added

    def _stop(self, point: Point, alarms: Sequence[Alarm]) -> None:
        if point == self._halt and any(alarm.wake_message == HALT for alarm in alarms):
            freeze()


async def opened(gate: str) -> None:
    while not os.path.exists(gate):  # noqa: ASYNC110, ASYNC240 - another process opens it, and soon
        await asyncio.sleep(0.01)


async def deliver(wake: Wake, orders: Orders, notes: Notes) -> None:
    notes.add(wake.fire_id, wake.attempt)
    match wake.message:
        case "halt" if orders.halt == "delivering":
            freeze()
        case "poison":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hanging":
            await asyncio.Event().wait()
        case "gated":
            await opened(orders.gate)
        case "brief":
            await asyncio.sleep(random.uniform(0, 0.02))


async def create_for_ever(alarms: LocalWakeful, orders: Orders, notes: Notes) -> None:
    """Eight at a time, each under a key of its own; what is written down was answered."""
    keys = itertools.count(orders.first_key)

    async def create() -> None:
        for key in keys:
            halting = orders.halt != "" and key == orders.first_key + 40
            message = HALT if halting else "later"
            alarm = await alarms.set(
                delay=3600, wake_message=message, target="desk", key=f"k{key}", on_conflict="return"
            )
            notes.add(alarm.id, key)

    await asyncio.gather(*(create() for _ in range(8)))


async def main(orders: Orders) -> None:
    settings = load(flags=orders.settings)
    notes = Notes(orders.notes)
    store: Any = HaltingStore(build_store(settings), orders.halt)
    async with LocalWakeful(store, settings=settings, targets={}) as alarms:

        @alarms.handler("desk", concurrency=settings.concurrency)
        async def desk(wake: wakeful.Wake) -> None:
            await deliver(wake, orders, notes)

        if orders.task == "work":
            await work(alarms)
        else:
            await create_for_ever(alarms, orders, notes)


if __name__ == "__main__":
    log_to_stderr("info")
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Orders)))
