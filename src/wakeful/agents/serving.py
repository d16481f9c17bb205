"""Serve wakes with one function: leased, renewed while it runs, and reported when it has ended."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable
from contextlib import suppress
from typing import Final

from wakeful.clock import SystemClock
from wakeful.errors import InvalidRequest
from wakeful.model.alarm import INBOX
from wakeful.process.application import Wakeful, open
from wakeful.remote import RemoteWakeful
from wakeful.remote.serving import InboxWorker
from wakeful.runtime.os_signals import ending_run
from wakeful.targets.handler import Handler, HandlerFunction

CONCURRENCY: Final = 8  # an agent's turn is costly: fewer at once than of other handlers


def serve(
    on_wake: HandlerFunction,
    *,
    at: str | os.PathLike[str] | None = None,
    target: str = INBOX,
    token: str | None = None,
    timeout: float = 900,
    concurrency: int = CONCURRENCY,
) -> Awaitable[None]:
    """Call `on_wake`, async or plain, for every wake of a target, until the program is stopped.

    >>> wakeful.agents.serve(on_wake, at="http://127.0.0.1:4747")

    `at`: a server, or a database, which this process then dispatches too; unless given, WAKEFUL_URL and the other
    settings say. What `on_wake` returns is the result of the fire, an exception is a failure, which is retried, and
    `wakeful.Snooze` asks for the wake again later. A wake whose process dies comes again with the same `fire_id`.

    A plain program ends here: SIGTERM and SIGINT (Ctrl-C) let the wakes under way finish, then end it with status 0.
    In an event loop write `await wakeful.agents.serve(…)`; cancelling it ends it in the same way.
    """
    if not callable(on_wake):
        raise InvalidRequest("on_wake is not a function", field="on_wake", fix="Give one that takes a wake.")
    if concurrency < 1:
        raise InvalidRequest(f"{concurrency} is less than 1", field="concurrency")
    serving = _serve(on_wake, at, target, token, timeout, concurrency)
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        return serving
    try:
        asyncio.run(serving)
    except KeyboardInterrupt:
        raise SystemExit(0) from None
    raise AssertionError("unreachable: it serves until it is stopped")


async def _serve(
    on_wake: HandlerFunction,
    at: str | os.PathLike[str] | None,
    target: str,
    token: str | None,
    timeout: float,
    concurrency: int,
) -> None:
    async with open(at, token=token) as alarms:
        if isinstance(alarms, RemoteWakeful) or target not in alarms.settings.inboxes:
            alarms.handler(target, timeout=timeout, concurrency=concurrency)(on_wake)
            await alarms.run()
        else:
            await _serve_inbox(alarms, target, Handler(on_wake, timeout=timeout, threads=concurrency), concurrency)


async def _serve_inbox(alarms: Wakeful, target: str, handler: Handler, concurrency: int) -> None:
    """Serve an inbox in the database itself: what other processes put there comes here too."""
    worker = InboxWorker(alarms, SystemClock())
    worker.add(target, handler, concurrency)
    try:
        async with alarms.running():
            with ending_run():
                await worker.run()
    finally:
        await worker.close()
