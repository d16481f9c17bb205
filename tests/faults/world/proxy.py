"""A TCP proxy in a process of its own: a network that falls silent, breaks, or is slow, on demand."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

if __package__:
    from .child import Child

Address = tuple[str, int]


class Proxy:
    """From 127.0.0.1:`port` to a server."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self.port: int = child.hear()

    @classmethod
    def start(cls, to: Address | Path | str) -> Proxy:
        """`to`: host and port, or the path of a unix socket."""
        return cls(Child(Path(__file__), json.dumps(to if isinstance(to, tuple) else str(to))))

    def half_open(self) -> None:
        """Nothing is forwarded and nobody is told: sockets stay open, new ones are accepted. What was sent meanwhile
        arrives after heal(), as TCP would send it again."""
        self._child.ask("half_open")

    def cut(self) -> int:
        """Every connection is reset, both ways, and so is every new one until heal(). How many there were."""
        return int(self._child.ask("cut"))

    def reset(self) -> int:
        """Every connection is reset once; new ones are welcome."""
        return int(self._child.ask("reset"))

    def delay(self, ms: float) -> None:
        """Every piece takes so much longer, each way."""
        self._child.ask("delay", ms)

    def heal(self) -> None:
        """Forwards at once again; ends half_open, cut and delay."""
        self._child.ask("heal")

    def move(self, to: Address | Path | str) -> None:
        """New connections go elsewhere, as after a failover behind one address."""
        self._child.ask("move", to if isinstance(to, tuple) else str(to))

    def connections(self) -> int:
        return int(self._child.ask("connections"))

    def close(self) -> None:
        self._child.close()


class _Network:
    """The child's side."""

    def __init__(self, to: Address | str) -> None:
        self._to = to
        self._delay = 0.0
        self._broken = False
        self._flows = asyncio.Event()
        self._flows.set()
        self._open: set[asyncio.StreamWriter] = set()

    def half_open(self) -> None:
        self._flows.clear()

    def cut(self) -> int:
        self._broken = True
        return self.reset()

    def reset(self) -> int:
        count = len(self._open)
        for writer in [*self._open]:
            _reset(writer)
        return (count + 1) // 2

    def delay(self, ms: float) -> None:
        self._delay = ms / 1000

    def heal(self) -> None:
        self._delay, self._broken = 0.0, False
        self._flows.set()

    def move(self, to: Address | str) -> None:
        self._to = to

    def connections(self) -> int:
        return len(self._open) // 2

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._broken:
            _reset(writer)
            return
        self._open.add(writer)
        try:
            await self._flows.wait()
            with suppress(OSError):
                their_reader, their_writer = await self._connect()
                self._open.add(their_writer)
                try:
                    await asyncio.gather(self._pump(reader, their_writer), self._pump(their_reader, writer))
                finally:
                    self._open.discard(their_writer)
                    their_writer.close()
        finally:
            self._open.discard(writer)
            writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._to, str):
            return await asyncio.open_unix_connection(self._to)
        return await asyncio.open_connection(*self._to)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError):
                while piece := await reader.read(65_536):
                    if self._delay:
                        await asyncio.sleep(self._delay)
                    await self._flows.wait()
                    writer.write(piece)
                    await writer.drain()
            await self._flows.wait()  # the end of a stream does not get through a silent network either
        finally:
            # The other way too: who has ended one half of a connection to PostgreSQL wants nothing from the other.
            writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    sock: socket.socket | None = writer.get_extra_info("socket")
    if sock is not None and sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closes by RST
    writer.transport.abort()


async def _main(to: Any) -> None:
    network = _Network(to if isinstance(to, str) else (to[0], to[1]))
    server = await asyncio.start_server(network.serve, "127.0.0.1", 0)
    print(json.dumps(server.sockets[0].getsockname()[1]), flush=True)
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    while line := await orders.readline():
        verb, *args = json.loads(line)
        answer = getattr(network, verb)(*args)
        await asyncio.sleep(0)  # what was reset is reset before we say so
        print(json.dumps(answer), flush=True)
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(_main(json.loads(sys.argv[1])))
