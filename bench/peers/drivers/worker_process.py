"""A wakeful worker in a process of its own, which tells its parent what it handled."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import time
from datetime import datetime
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

import psutil
from msgspec import Struct

_SPAWN = multiprocessing.get_context("spawn")


class Handled(Struct):
    """What one worker says at its end."""

    fires: list[str]
    late_ms: list[float]
    startup_s: float
    """From the call that opens the clock to the first wake."""
    peak_mb: float


class WorkerProcess:
    """`ready` when it has opened its clock, at work from `go`, and gone after `stop`."""

    def __init__(self, place: dict[str, Any], *, handler: bool = True) -> None:
        self._told, other = _SPAWN.Pipe()
        self._count = _SPAWN.Value("Q", 0, lock=False)
        self._process = _SPAWN.Process(target=_work, args=(other, self._count, place, handler))

    def __enter__(self) -> Self:
        self._process.start()
        assert self._told.recv() == "ready"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process.is_alive():
            self._process.terminate()
        self._process.join()

    def go(self) -> None:
        self._told.send("go")

    def count(self) -> int:
        """How many wakes its handler has had so far."""
        return int(self._count.value)

    def cpu_s(self) -> float:
        used = psutil.Process(self._process.pid).cpu_times()
        return float(used.user + used.system)

    def stop(self) -> Handled:
        self._told.send("stop")
        handled: Handled = self._told.recv()
        self._process.join()
        return handled


def _work(told: Connection, count: Any, place: dict[str, Any], handler: bool) -> None:
    from wakeful.process.server import run_process

    run_process(_handle(told, count, place, handler))  # as `wakeful worker` does


async def _handle(told: Connection, count: Any, place: dict[str, Any], handler: bool) -> None:
    import wakeful
    from wakeful.model.alarm import fire_id
    from wakeful.process.application import open_local
    from wakeful.process.server import tune_interpreter

    alarms: list[str] = []
    due: list[datetime] = []
    begun: list[float] = []
    opening = time.perf_counter()
    async with open_local(**place) as clock:
        tune_interpreter(clock)  # as `wakeful worker` does

        async def noop(wake: wakeful.Wake) -> None:
            """Only note what came and when, as the peers' handlers do."""
            begun.append(time.time())
            alarms.append(wake.alarm_id)
            due.append(wake.scheduled_for)
            count.value += 1

        if handler:
            clock.handler("noop")(noop)
        opened = time.perf_counter() - opening
        told.send("ready")
        assert told.recv() == "go"
        started = time.time()
        asyncio.get_running_loop().add_reader(told.fileno(), clock.dispatcher.stop)
        await clock.run()
        os.set_blocking(told.fileno(), True)  # the loop did not need it so: what is said now may be long
        told.recv()  # the word to stop
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    startup_s = opened + (begun[0] - started if begun else 0)
    fires = [fire_id(alarm, at) for alarm, at in zip(alarms, due, strict=True)]
    late_ms = [1000 * (at - moment.timestamp()) for at, moment in zip(begun, due, strict=True)]
    told.send(Handled(fires, late_ms, startup_s, peak_mb))
