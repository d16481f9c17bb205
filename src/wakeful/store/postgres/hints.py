"""Hints between processes: something may be due sooner than a sleeping dispatcher thinks.

Only ever a hint. Losing one, or the connection they come by, costs a tick and never an alarm.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from wakeful.clock import SystemClock
from wakeful.errors import StoreUnavailable

if TYPE_CHECKING:
    from wakeful.store.postgres.database import Database
    from wakeful.store.postgres.hosts import Direct

_CHECK_EVERY: Final = 30.0
_LONGEST_PAUSE: Final = 5.0


class Hints:
    """Tells the others, and hears from them. `heard` is set in both cases."""

    def __init__(self, database: Database, *, channel: str, notify: str, heard: asyncio.Event, across: bool) -> None:
        self._database = database
        self._channel = channel
        self._notify = notify
        self._heard = heard
        self._across = across
        self._again = False
        self._teller: asyncio.Task[None] | None = None
        self._ear: asyncio.Task[None] | None = None

    def tell(self) -> None:
        """At once in this process; the others by a NOTIFY that nobody waits for."""
        self._heard.set()
        self._again = True
        if self._across and (self._teller is None or self._teller.done()):
            self._teller = asyncio.create_task(self._tell_others())

    def listen(self) -> None:
        if self._across and self._ear is None:
            self._ear = asyncio.create_task(self._hear())

    async def close(self) -> None:
        self._across = False
        if self._teller is not None:
            await self._teller
        if self._ear is not None:
            self._ear.cancel()
            with suppress(asyncio.CancelledError):
                await self._ear

    async def _tell_others(self) -> None:
        while self._again:  # whatever came while the last one was on its way is told by one more
            self._again = False
            # The alarm is committed; who does not hear of it looks within a tick anyway.
            with suppress(StoreUnavailable):
                await self._database.fetch(self._notify, self._channel)

    async def _hear(self) -> None:
        pause = 0.0
        while True:
            await SystemClock().sleep(pause)
            pause = min(_LONGEST_PAUSE, max(0.1, pause * 2))
            # Whatever is wrong with this connection, the next one may be well.
            with suppress(Exception):
                connection = await self._database.listener()
                try:
                    await self._stay(connection)
                finally:
                    connection.terminate()
                pause = 0.1

    async def _stay(self, connection: Direct) -> None:
        """Until the connection is gone."""
        gone = asyncio.Event()
        connection.add_termination_listener(lambda _: gone.set())
        await connection.add_listener(self._channel, self._on_notify)
        self._heard.set()  # something may have been said while nobody listened
        while not connection.is_closed():
            with suppress(TimeoutError):
                async with asyncio.timeout(_CHECK_EVERY):
                    await gone.wait()
                    return
            await connection.execute("select 1")  # a peer that vanished without a word is noticed here

    def _on_notify(self, *_: Any) -> None:
        self._heard.set()
