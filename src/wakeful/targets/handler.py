"""A handler: a Python function in this process. What it returns is the result, what it raises is the failure."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any, Final, cast

import msgspec

from wakeful.errors import InvalidConfig
from wakeful.model.alarm import ERROR_LIMIT, RESULT_LIMIT
from wakeful.model.outcome import Completed, Delivered, Failed, Outcome, Snoozed
from wakeful.rules.wake import Wake
from wakeful.schedule import duration
from wakeful.targets.calls import Deadlines, Threads
from wakeful.targets.text import described, one_line, storable

log = logging.getLogger("wakeful.handler")

HandlerFunction = Callable[[Wake], Awaitable[object] | object]  # async or plain
_DONE: Final = Completed()
_TAKEN: Final = Delivered(awaits_report=True)


class Snooze(Exception):
    """Raised by a handler that wants the same wake again after a while: "15m", a timedelta, or seconds."""

    def __init__(self, wait: str | float | timedelta) -> None:
        self.wait = duration(wait.total_seconds() if isinstance(wait, timedelta) else wait)
        super().__init__(f"snoozed for {self.wait}")


class Handler:
    """Settings:

    function   async or plain; called with the Wake
    timeout    seconds one call may take
    threads    how many calls of a plain function may run at once
    reports    it only takes the wake up and says later how it went: where it returns None, a report is awaited

    An async function that takes too long is cancelled. A plain function cannot be: its call is settled as failed, but
    its thread stays taken until the function returns by itself. `overdue` counts such threads. They belong to this
    handler alone, so no other handler waits for them, and they do not keep the process from ending.
    """

    def __init__(
        self, function: HandlerFunction, *, timeout: float = 900, threads: int = 32, reports: bool = False
    ) -> None:
        if timeout <= 0:
            raise InvalidConfig(f"{timeout} is not more than 0 seconds", field="timeout")
        if threads < 1:
            raise InvalidConfig(f"{threads} is less than 1", field="threads")
        self._function = function
        self._call = cast(Callable[[Wake], Awaitable[Any]], function) if _is_async(function) else self._in_a_thread
        self._without_result: Outcome = _TAKEN if reports else _DONE
        self._deadlines = Deadlines(timeout)
        self._late = f"no answer within {timeout:g} s"
        self._most = None if _is_async(function) else 2 * threads
        self._threads = Threads(threads, f"wakeful-{getattr(function, '__name__', 'handler')}")
        self._name = getattr(function, "__qualname__", type(function).__qualname__)
        self._lock = threading.Lock()
        self._in_threads: set[object] = set()
        self._abandoned: set[object] = set()

    def room(self, total: int) -> int:
        """How many wakes it is handed at once, where nobody says: of a plain function those that run, and the next.

        What waits for a thread is this process's, and its time runs: another process may be idle meanwhile.
        """
        return total if self._most is None else min(total, self._most)

    @property
    def overdue(self) -> int:
        """Threads taken by calls that nobody waits for any more."""
        return len(self._abandoned)

    async def deliver(self, wake: Wake) -> Outcome:
        running = self._deadlines.begin()
        try:
            result = await self._call(wake)
        except Snooze as snooze:
            return Snoozed(snooze.wait)
        except asyncio.CancelledError as error:
            if running.late:
                return Failed(self._late)
            if running.task.cancelling() > running.cancelling:
                raise  # the delivery itself is cancelled
            self._log_failure(wake)  # something the handler waited for was
            return Failed(described(error, ERROR_LIMIT))
        except (Exception, SystemExit) as error:
            self._log_failure(wake)
            return Failed(described(error, ERROR_LIMIT))
        finally:
            self._deadlines.end(running)
        return self._without_result if result is None else Completed(storable(_text(result), RESULT_LIMIT))

    def _log_failure(self, wake: Wake) -> None:
        """Log the exception that is being handled. The ids are in the text too: a plain formatter shows no fields."""
        alarm = wake.alarm
        hide = tuple(text for text in (alarm.wake_message, alarm.payload_json) if len(text) > 2)
        log.error(
            "the handler %r (%s) failed: alarm %s, fire %s, attempt %d",
            alarm.target,
            self._name,
            alarm.id,
            wake.fire_id,
            wake.attempt,
            exc_info=True,
            extra={"alarm_id": alarm.id, "fire_id": wake.fire_id, "target": alarm.target, "hide": hide},
        )

    async def close(self) -> None:
        self._deadlines.close()
        self._threads.close()

    async def _in_a_thread(self, wake: Wake) -> Any:
        call = object()
        try:
            result = await self._threads.run(self._plain, wake, call)
        except asyncio.CancelledError:
            with self._lock:
                if call in self._in_threads:
                    self._abandoned.add(call)
            raise
        return await result if inspect.isawaitable(result) else result

    def _plain(self, wake: Wake, call: object) -> Any:
        with self._lock:
            self._in_threads.add(call)
        try:
            return self._function(wake)
        finally:
            with self._lock:
                self._in_threads.discard(call)
                self._abandoned.discard(call)


def _is_async(function: Callable[..., Any]) -> bool:
    called = function if inspect.isroutine(function) or isinstance(function, partial) else type(function).__call__
    return inspect.iscoroutinefunction(called)


def _text(result: Any) -> str:
    """A result as text: a string as it is, else JSON, else however it describes itself."""
    if isinstance(result, str):
        return result
    try:
        return msgspec.json.encode(result).decode()
    except Exception:  # msgspec calls what the result defines: anything can happen there
        try:
            return repr(result)
        except Exception as error:
            return one_line(f"a {type(result).__name__} that cannot be shown ({described(error, 200)})", RESULT_LIMIT)
