"""Webhooks to open, and servers that misbehave below HTTP, where aiohttp's own server would not let them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from wakeful.clock import SystemClock
from wakeful.targets.webhook import Webhook
from wakeful.testing.receiver import Receiver

Open = Callable[..., Webhook]
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class RawServer:
    """Reads a request's head, then does what the test says. Counts connections, whatever becomes of them."""

    def __init__(self) -> None:
        self.connections = 0
        self.heads: list[bytes] = []
        self.reply = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
        self.talk: Talk | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            if self.talk is not None:
                await self.talk(reader, writer)
            else:
                writer.write(self.reply)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the other side left
        finally:
            writer.close()


@pytest.fixture
async def raw() -> AsyncIterator[RawServer]:
    server = RawServer()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    yield server
    listening.close()
    await listening.wait_closed()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as receiver:
        yield receiver


@pytest.fixture
async def webhook() -> AsyncIterator[Open]:
    opened: list[Webhook] = []

    def open(url: str, **settings: Any) -> Webhook:
        usual: dict[str, Any] = {"allow_private": True, "clock": SystemClock(), "timeout": 20}
        opened.append(Webhook(url=url, **(usual | settings)))
        return opened[-1]

    yield open
    for each in opened:
        await each.close()
