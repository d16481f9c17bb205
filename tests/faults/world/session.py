"""A session with PostgreSQL by plain socket: synchronous, quick, and as many as there are connections.

Speaks as much of the protocol as a fault needs: trust, one simple query at a time, answers as text.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType

_PROTOCOL = 196_608  # 3.0
PATIENCE = 20.0


class ServerError(Exception):
    """What the server answered instead of rows."""

    def __init__(self, fields: dict[str, str]) -> None:
        super().__init__(f"{fields.get('M', '')} ({fields.get('C', '')})")
        self.state = fields.get("C", "")
        self.final = fields.get("V") in ("FATAL", "PANIC")  # it hangs up


class Session:
    def __init__(self, port: int, *, application: str = "fault", database: str = "postgres") -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self._stream = self._socket.makefile("rb")
        try:
            values = ["user", "postgres", "database", database, "application_name", application]
            text = b"".join(value.encode() + b"\0" for value in values) + b"\0"
            self._socket.sendall(struct.pack("!ii", len(text) + 8, _PROTOCOL) + text)
            self._answer()
        except BaseException:
            self.close()
            raise

    def run(self, sql: str) -> list[list[str | None]]:
        """The rows of one statement, or of several with a semicolon between them."""
        text = sql.encode() + b"\0"
        self._socket.sendall(b"Q" + struct.pack("!i", len(text) + 4) + text)
        return self._answer()

    def value(self, sql: str) -> str | None:
        return self.run(sql)[0][0]

    def close(self) -> None:
        # Not politely: the server may be frozen or gone. It rolls back when it sees the end.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._stream.close()
        self._socket.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def _answer(self) -> list[list[str | None]]:
        """Everything up to the server's word that it is ready."""
        rows = []
        error: ServerError | None = None
        for kind, body in self._messages():
            if kind == b"D":
                rows.append(_row(body))
            elif kind == b"E":
                error = ServerError({part[:1].decode(): part[1:].decode() for part in body.split(b"\0") if part})
                if error.final:
                    break
        if error is not None:
            raise error
        return rows

    def _messages(self) -> Iterator[tuple[bytes, bytes]]:
        while True:
            head = self._stream.read(5)
            if len(head) < 5:
                raise ConnectionError("PostgreSQL hung up")
            body = self._stream.read(struct.unpack("!i", head[1:])[0] - 4)
            if head[:1] == b"Z":
                return
            yield head[:1], body


def _row(body: bytes) -> list[str | None]:
    row: list[str | None] = []
    at = 2
    for _ in range(struct.unpack("!h", body[:2])[0]):
        size = struct.unpack("!i", body[at : at + 4])[0]
        at += 4
        row.append(None if size < 0 else body[at : at + size].decode())
        at += max(size, 0)
    return row
