"""One connection to a receiver: a request goes out, and reading the response is bounded work.

A response is read up to a number of bytes and of lines. Each chunk, header and interim response has at least one line,
so lines are what reading costs. Longer responses are parsed a slice at a time: all connections of a process take turns,
and the event loop runs other work for as long as the slice took. So whatever receivers send, a wake waits for at most
one slice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Final, cast
from weakref import WeakKeyDictionary

import httptools
from msgspec import Struct

from wakeful.clock import stopwatch

REPLY_LIMIT: Final = 64 * 1024
SLICE: Final = 2048  # bytes
ANSWER_BYTES: Final = 128 * 1024  # head and body, as they come over the line
ANSWER_LINES: Final = 2000
HEADERS: Final = 128
HEADER_BYTES: Final = 8190
INTERIM_LIMIT: Final = 20  # replies 1xx before the answer; a server that is slow sends one every few seconds
LONGEST_REST: Final = 0.01  # seconds; whatever held the loop up, it may not have been us


class Reply(Struct):
    """The response, as far as it came. Status 0: there was none."""

    status: int = 0
    headers: Mapping[str, str] = {}  # by their names in lower case; the first, where there are several
    body: bytes = b""
    cut: bool = False  # there was more than we read
    trouble: str = ""  # what ended it early
    refused: bool = False

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_json(self) -> bool:
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        return kind == "application/json" or kind.endswith("+json")


class BadAnswer(Exception):
    """There is no answer, or not all of one; says why, in our words."""


class _Enough(Exception):
    """What follows is not read: the answer is whole."""


class Answering(asyncio.Protocol):
    """One connection. `exchange` is ours, what else is public is asked for by the event loop, aiohttp's pool of
    connections, and the parser.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._turns = _turns(loop)
        self._parser = httptools.HttpResponseParser(self)
        # As lenient as common HTTP clients are: receivers that make such mistakes work with those.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self.transport: asyncio.Transport | None = None
        self.closed: asyncio.Future[None] = loop.create_future()
        self._may_stay = True  # for another request
        self._waiter: asyncio.Future[None] | None = None  # who waits for an answer
        self._slices: deque[bytes] = deque()
        self._lost: tuple[Exception | None] | None = None  # the connection is gone: with what, once all is read

    async def exchange(self, request: bytes, reply: Reply, *, skip_body_when_ok: bool = False) -> None:
        """Send a request and read the answer into `reply`; what came before a break stays there."""
        if self.transport is None:
            raise _closed_too_early()
        self._reply, self._skip_body_when_ok = reply, skip_body_when_ok
        self._bytes, self._lines, self._interim_left = ANSWER_BYTES, ANSWER_LINES, INTERIM_LIMIT
        self._headers: dict[str, str] = {}
        self._headers_left, self._reason_left = HEADERS, HEADER_BYTES
        self._pieces: list[bytes] = []
        self._body_left = REPLY_LIMIT
        self._is_whole = self._is_cut = self._may_stay = False
        self.slices_read = 0
        self._waiter = self._loop.create_future()
        self.transport.write(request)
        try:
            await self._waiter
        finally:
            self._waiter = None
            reply.body, self._pieces = b"".join(self._pieces)[:REPLY_LIMIT], []
            if not self._may_stay:
                self.abort()

    # What the pool of connections asks.

    @property
    def should_close(self) -> bool:
        """Whether it is of no use for another request: also where the answer came before all of the last was sent."""
        return not self._may_stay or self.transport is None or self.transport.get_write_buffer_size() > 0

    def is_connected(self) -> bool:
        return self.transport is not None and not self.transport.is_closing()

    def close(self) -> None:
        if not self._may_stay:
            self.abort()  # who does not read what was sent cannot keep it open
        elif self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    # What the event loop says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._waiter is None or self._waiter.done():
            self._may_stay = False
            self.abort()  # nobody asked
        elif not self._is_cut:
            self._take(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if not self.closed.done():
            self.closed.set_result(None)
        self._lost = (exc,)
        if not self._slices:
            self._ended(exc)

    def _take(self, data: bytes) -> None:
        """Cut into slices what is taken of it. A short one, as nearly all are, is read at once."""
        waits = bool(self._slices)
        taken = 0
        while taken < len(data) and self._bytes > 0 and self._lines > 0:
            part = data[taken : taken + min(SLICE, self._bytes)]
            taken += len(part)
            self._bytes -= len(part)
            self._lines -= part.count(b"\n")
            self._slices.append(part)
        if taken < len(data):
            self._is_cut = True
            self.abort()
        if waits or len(self._slices) > 1:
            self._turns.ask(self)
        else:
            self.step()

    def step(self) -> bool:
        """Read a slice; whether there is another."""
        if self._waiter is None or self._waiter.done():
            self._slices.clear()
        if self._slices:
            self.slices_read += 1
            self._parse(self._slices.popleft())
        if not self._slices and self._is_cut:
            self._break_off()
        if not self._slices and self._lost is not None:
            self._ended(*self._lost)
        return bool(self._slices)

    def _parse(self, part: bytes) -> None:
        had_head = self._reply.status > 0
        try:
            self._parser.feed_data(part)
        except httptools.HttpParserError as error:
            self._may_stay = False
            if not isinstance(error.__context__, _Enough):
                self._not_http(error.__context__, had_head)
        if self._body_left < 0:
            self._reply.cut = True
            self._may_stay = False
            self._over()
        elif self._is_whole or (self._skip_body_when_ok and self._reply.ok):
            self._over()

    def _not_http(self, why: object, had_head: bool) -> None:
        """A head that came along with rubbish does not count; one from before stays, and an answer that was whole."""
        if not had_head:
            self._reply.status, self._reply.headers = 0, {}
            self._over(why if isinstance(why, BadAnswer) else _not_an_answer())
        elif not self._is_whole:
            self._over(_broken_off())

    def _break_off(self) -> None:
        """What came stays; where not even the head did, there is no answer."""
        self._reply.cut = True
        problem = f"the head of its answer has more than {ANSWER_BYTES} bytes or {ANSWER_LINES} lines"
        self._over(None if self._reply.status else BadAnswer(problem))

    def _ended(self, exc: Exception | None) -> None:
        """The connection is gone. That ends an answer that did not say how long it is."""
        self._may_stay = False
        if self._waiter is None:
            return
        headers = self._headers
        if not self._reply.status:
            self._over(exc if isinstance(exc, OSError) else _closed_too_early())
        elif "content-length" in headers or "chunked" in headers.get("transfer-encoding", "").lower():
            self._over(_broken_off())
        else:
            self._over()

    def _over(self, error: Exception | None = None) -> None:
        if self._waiter is None or self._waiter.done():
            return
        if error is None:
            self._waiter.set_result(None)
        else:
            self._waiter.set_exception(error)

    # What the parser finds.

    def on_message_begin(self) -> None:
        if self._is_whole:
            self._may_stay = False

    def on_status(self, reason: bytes) -> None:
        self._reason_left -= len(reason)
        if self._reason_left < 0:
            raise _not_an_answer()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._reply.status:
            return  # behind the last chunk: nothing there counts
        self._headers_left -= 1
        if self._headers_left < 0 or len(name) + len(value) > HEADER_BYTES or b"\0" in value:
            raise _not_an_answer()
        self._headers.setdefault(_text(name).lower(), _text(value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        if self._is_whole:
            raise _Enough  # another answer, to the same request
        status = self._parser.get_status_code()
        if status == 0:
            raise _not_an_answer()
        if not 100 <= status < 200 or status == 101:
            self._reply.status, self._reply.headers = status, self._headers
            if status == 101:
                self._is_whole = True
                raise _Enough  # another protocol, which nobody asked for
            return
        if not self._interim_left:
            raise BadAnswer(f"it sent more than {INTERIM_LIMIT} interim replies (1xx)")
        self._interim_left -= 1
        self._headers, self._headers_left = {}, HEADERS

    def on_body(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._body_left -= len(piece)

    def on_message_complete(self) -> None:
        if self._reply.status:
            self._is_whole = True
            self._may_stay = self._parser.should_keep_alive()


class ReadingTurns:
    """Who has slices to read, one after the other."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Answering] = deque()

    def ask(self, answering: Answering) -> None:
        if answering in self._waiting:
            return
        self._waiting.append(answering)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        began = stopwatch()
        first = self._waiting[0]
        more = first.step()
        self._waiting.popleft()
        if more:
            self._waiting.append(first)
        if self._waiting:
            self._loop.call_later(min(stopwatch() - began, LONGEST_REST), self._next)


_all: WeakKeyDictionary[asyncio.AbstractEventLoop, ReadingTurns] = WeakKeyDictionary()


def _turns(loop: asyncio.AbstractEventLoop) -> ReadingTurns:
    if loop not in _all:
        _all[loop] = ReadingTurns(loop)
    return _all[loop]


def _closed_too_early() -> BadAnswer:
    return BadAnswer("the connection was closed before an answer came")


def _not_an_answer() -> BadAnswer:
    return BadAnswer("the answer was not HTTP")


def _broken_off() -> BadAnswer:
    return BadAnswer("the reply broke off")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
