"""Fails a test in which one callback of a server's event loop used more than 50 ms of processor time.

While such a callback runs, nobody else is served and no wake is sent. Processor time of the loop's thread is measured,
not elapsed time, and garbage collection is left out. Processor time also grows on a slow or busy machine (shared
caches, a stolen core), so it is divided by how much slower a fixed piece of work is at that moment than it was at its
fastest, and than on the machine whose milliseconds the limit means.
What the test itself does in the same loop does not count, nor does the import of a module, which happens once in a
process.

One measurement can still be wrong: a hypervisor takes the core away while the callback runs, and counts that time as
the callback's. And a template is compiled once in a process. So a test that fails for this reason runs again, and fails
only if a callback is slow in each of three runs: what a callback always needs, it needs again.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest
from _pytest.runner import runtestprotocol

LIMIT: Final = 0.050  # seconds of processor time
SAMPLED_FROM: Final = 0.025  # of processor time: from then on the stack is recorded, to be shown
RUNS: Final = 3
REFERENCE: Final = 0.0008  # seconds that the fixed piece of work takes at its fastest where the limit was chosen
TESTS: Final = str(Path(__file__).parent) + os.sep
SAMPLE: Final = [{"id": f"{number:032x}", "label": f"alarm {number}", "fires": [number] * 8} for number in range(100)]


class SlowCallback(AssertionError):
    """One callback of the event loop used more than the limit."""


def run_again_if_slow(item: Any, nextitem: pytest.Item | None) -> bool:
    """pytest's own protocol of a test, except that a test in which a callback was slow runs again."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for _ in range(RUNS - 1):
        if not any(report.failed and SlowCallback.__name__ in report.longreprtext for report in reports):
            break
        item._initrequest()  # new fixtures
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


class MachineSpeed:
    """How much slower than at its fastest, or than on the machine of the limit, this process runs now."""

    def __init__(self) -> None:
        self._fastest = min(REFERENCE, *(self._work() for _ in range(5)))

    def slowdown(self) -> float:
        now = min(self._work() for _ in range(3))
        self._fastest = min(self._fastest, now)
        return now / self._fastest

    def _work(self) -> float:
        began = time.thread_time()
        for _ in range(5):
            json.loads(json.dumps(SAMPLE))
        return time.thread_time() - began


SPEED: Final = MachineSpeed()


class LoopGuard:
    """Measures every callback of the event loop in the thread that made it."""

    def __init__(self, limit: float = LIMIT) -> None:
        self.slow: list[str] = []
        self._limit = limit
        self._thread = threading.get_ident()
        self._clock = time.pthread_getcpuclockid(self._thread)
        self._began: float | None = None  # processor time of the thread when the running callback began
        self._collecting: float | None = None
        self._collected = 0.0  # processor time that garbage collection used during this callback
        self._stack: list[traceback.FrameSummary] = []
        self._ended = threading.Event()

    @contextmanager
    def watching(self) -> Iterator[LoopGuard]:
        handles: Any = asyncio.Handle
        run = handles._run
        sampler = threading.Thread(target=self._sample, name="loop guard", daemon=True)

        def measured(handle: Any) -> None:
            if threading.get_ident() == self._thread and self._began is None:
                self._measure(run, handle)
            else:
                run(handle)

        handles._run = measured
        gc.callbacks.append(self._collects)
        sampler.start()
        try:
            yield self
        finally:
            handles._run = run
            gc.callbacks.remove(self._collects)
            self._ended.set()
            sampler.join()

    def _measure(self, run: Any, handle: Any) -> None:
        callback = handle._callback  # cleared by a callback that is cancelled while it runs
        self._collected, self._stack = 0.0, []
        self._began = began = time.thread_time()
        try:
            run(handle)
        finally:
            self._began = None
            used = time.thread_time() - began - self._collected
            if used > self._limit and not (self._is_of_the_test(callback) or self._is_warm_up()):
                used /= SPEED.slowdown()
                if used > self._limit:
                    self.slow.append(self._described(callback, used))

    def _is_of_the_test(self, callback: Any) -> bool:
        """A test's own coroutine, or a handler or target that a test wrote."""
        task = getattr(callback, "__self__", None)
        code = getattr(task.get_coro(), "cr_code", None) if isinstance(task, asyncio.Task) else None
        files = [frame.filename for frame in self._stack] + ([code.co_filename] if code is not None else [])
        return any(file.startswith(TESTS) for file in files)

    def _is_warm_up(self) -> bool:
        """A module is imported, which happens once in the life of a process."""
        return any(frame.filename == "<frozen importlib._bootstrap>" for frame in self._stack)

    def _described(self, callback: Any, used: float) -> str:
        stack = "".join(traceback.format_list(self._stack)) or "  (no stack: a single call into C)\n"
        return f"one callback used {used * 1000:.0f} ms of processor time: {callback!r}\n{stack}"

    def _sample(self) -> None:
        """Record the stack of a callback that has used much, in a thread of its own."""
        while not self._ended.wait(0.01):
            began = self._began
            if began is not None and time.clock_gettime(self._clock) - began > SAMPLED_FROM:
                frame = sys._current_frames().get(self._thread)
                if self._began == began and frame is not None:
                    self._stack = _stack_of(frame)

    def _collects(self, phase: str, _: dict[str, int]) -> None:
        if threading.get_ident() != self._thread:
            return
        if phase == "start":
            self._collecting = time.thread_time()
        elif self._collecting is not None:
            self._collected += time.thread_time() - self._collecting
            self._collecting = None


def _stack_of(frame: FrameType) -> list[traceback.FrameSummary]:
    """The frames of the callback, outermost first, without what runs the loop.

    Source lines are read when they are shown: reading them here is slower than many callbacks.
    """
    frames = takewhile(lambda pair: pair[0].f_code.co_filename != __file__, traceback.walk_stack(frame))
    return list(reversed(traceback.StackSummary.extract(frames, lookup_lines=False)))
