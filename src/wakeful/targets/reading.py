"""Limits the work of reading a receiver's answer, and spreads it over time.

What arrives is taken up to a number of bytes and of lines: each chunk, header and interim reply has a line at least, so
lines are what reading costs. Longer pieces are read a slice at a time, all connections of a process taking turns, and
then the loop is left to others for as long as the slice took. However many receivers do their worst, and whatever they
send at once, nobody's wake waits for more than a slice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

import aiohttp
from aiohttp.client_proto import ResponseHandler

from wakeful.clock import stopwatch

SLICE: Final = 2048  # bytes
ANSWER_BYTES: Final = 128 * 1024  # head and body, as they come over the line
ANSWER_LINES: Final = 2000
INTERIM_LIMIT: Final = 20  # replies 1xx before the answer; a server that is slow sends one every few seconds
LONGEST_REST: Final = 0.01  # seconds; whatever held the loop up, it may not have been us


class Unreasonable(aiohttp.ClientError):
    """An answer that nobody has to read to its end; says why, in our words."""


def too_many_interim() -> Unreasonable:
    return Unreasonable(f"it sent more than {INTERIM_LIMIT} interim replies (1xx)")


def too_long_a_head() -> Unreasonable:
    return Unreasonable(f"the head of its answer has more than {ANSWER_BYTES} bytes or {ANSWER_LINES} lines")


class Connector(aiohttp.TCPConnector):
    """Connections whose answers are bounded work. Leaky: the driver has no setting for it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory = partial(Answering, loop=self._loop)  # type: ignore[assignment]  # which is one of its kind


class Answering(ResponseHandler):
    """The receiving side of one connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._turns = _turns(loop)
        self._slices: deque[bytes] = deque()
        self._end: tuple[BaseException | None] | None = None  # the connection is gone: with what, once all is read
        self.cut = False  # there was more than is read: the connection has ended
        self.begin()

    def begin(self) -> None:
        """Another answer is to come over this connection."""
        self._bytes, self._lines = ANSWER_BYTES, ANSWER_LINES
        self.slices_read = 0  # of this answer

    def data_received(self, data: bytes) -> None:
        if not data:  # the driver goes on with what it has
            super().data_received(data)
        if self.cut or not data:
            return
        waits = bool(self._slices)
        taken = 0
        while taken < len(data) and self._bytes > 0 and self._lines > 0:
            part = data[taken : taken + min(SLICE, self._bytes)]
            taken += len(part)
            self._bytes -= len(part)
            self._lines -= part.count(b"\n")
            self._slices.append(part)
        if taken < len(data):
            self.cut = True
            if self.transport is not None:
                self.transport.abort()
        if waits or len(self._slices) > 1:
            self._turns.ask(self)
        else:
            self.step()  # a short answer, as nearly all are

    def connection_lost(self, exc: BaseException | None) -> None:
        self._end = (exc,)
        if not self._slices:
            self._ended()

    def step(self) -> bool:
        """Read a slice; whether there is another."""
        if self.transport is None:  # we closed it: nobody wants the rest
            self._slices.clear()
        if self._slices:
            self.slices_read += 1
            super().data_received(self._slices.popleft())
        if len(self._buffer) > INTERIM_LIMIT + 1:  # messages nobody has looked at yet, the answer among them
            self._slices.clear()
            self.cut = True
            self.set_exception(too_many_interim())
            if self.transport is not None:
                self.transport.abort()
        if not self._slices:
            if self.cut:
                self._break_off()
            if self._end is not None:
                self._ended()
        return bool(self._slices)

    def _break_off(self) -> None:
        """What came stays; where not even the head did, there is no answer."""
        payload, self._payload, self._parser = self._payload, None, None
        if payload is None:
            if self.exception() is None and not self._buffer:
                self.set_exception(too_long_a_head())
        elif not payload.is_eof():
            payload.feed_eof()
        self.force_close()

    def _ended(self) -> None:
        assert self._end is not None
        (exc,), self._end = self._end, None
        super().connection_lost(exc)


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
