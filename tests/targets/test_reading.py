"""How much of an answer is read, and that nobody waits for it: counted, not timed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from wakeful.targets.sending.reading import (
    ANSWER_BYTES,
    ANSWER_LINES,
    HEADER_BYTES,
    INTERIM_LIMIT,
    REPLY_LIMIT,
    SLICE,
    Answering,
    BadAnswer,
    Reply,
)

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
MOST_SLICES = ANSWER_BYTES // SLICE


class Line(asyncio.Transport):
    """A connection as far as its receiving side sees it."""

    aborted = False
    unsent = 0

    def write(self, data: Any) -> None: ...

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def abort(self) -> None:
        self.aborted = True

    def close(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted


class Asked:
    """A connection over which a request has just been sent."""

    def __init__(self) -> None:
        self.one, self.line = Answering(asyncio.get_running_loop()), Line()
        self.one.connection_made(self.line)
        self.ask()

    def ask(self) -> None:
        self.reply = Reply()
        self.answer = asyncio.create_task(self.one.exchange(b"POST / HTTP/1.1\r\n\r\n", self.reply))


async def asked() -> Asked:
    made = Asked()
    await asyncio.sleep(0)  # it goes out
    return made


async def all_read(*those: Asked) -> int:
    """Wait until they have read what they will; how many turns of the loop others had meanwhile."""
    turns = 0
    while any(each.one._slices for each in those):
        await asyncio.sleep(0)
        turns += 1
    return turns


@pytest.mark.parametrize(
    "flood",
    [
        CHUNKED + b"1\r\nx\r\n" * 50_000,
        CHUNKED + (b"1" + b";e=1" * 1000 + b"\r\nx\r\n") * 100,
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1_000_000,
    ],
    ids=["tiny chunks", "extensions", "a body without end"],
)
async def test_an_answer_is_so_much_work_and_no_more(flood: bytes) -> None:
    it = await asked()
    for at in range(0, len(flood), 262_144):  # as the loop hands it over
        it.one.data_received(flood[at : at + 262_144])
    await all_read(it)
    await it.answer
    assert it.line.aborted
    assert it.one.slices_read <= MOST_SLICES
    assert (it.reply.status, it.reply.cut) == (200, True)
    assert len(it.reply.body) <= REPLY_LIMIT


async def test_chunks_are_counted() -> None:
    it = await asked()
    it.one.data_received(CHUNKED + b"1\r\nx\r\n" * 50_000)
    await it.answer
    assert 0 < len(it.reply.body) <= ANSWER_LINES  # what came of it stays


async def test_a_flood_of_interim_replies_is_left_after_the_first_slice() -> None:
    it = await asked()
    it.one.data_received(b"HTTP/1.1 102 Processing\r\n\r\n" * 9000)
    with pytest.raises(BadAnswer, match="more than 20 interim"):
        await it.answer
    await all_read(it)
    assert (it.one.slices_read, it.line.aborted) == (1, True)


async def test_interim_replies_are_counted_however_they_come() -> None:
    it = await asked()
    for _ in range(INTERIM_LIMIT):
        it.one.data_received(b"HTTP/1.1 102 Processing\r\n\r\n")
    assert not it.answer.done()
    it.one.data_received(b"HTTP/1.1 102 Processing\r\n\r\n")
    with pytest.raises(BadAnswer, match="more than 20 interim"):
        await it.answer


@pytest.mark.parametrize("piece", [b"x: y\r\n" * 1000, b"x: y\r\n", b"x" * 1000], ids=["many", "few", "one line"])
async def test_a_head_without_end_is_no_answer(piece: bytes) -> None:
    it = await asked()
    it.one.data_received(b"HTTP/1.1 200 OK\r\n")
    while not it.answer.done():
        it.one.data_received(piece)
        await all_read(it)
        await asyncio.sleep(0)
    assert it.line.aborted
    assert it.one.slices_read <= MOST_SLICES + ANSWER_LINES
    with pytest.raises(BadAnswer):
        await it.answer
    assert it.reply.status == 0


async def test_a_head_of_more_lines_than_are_taken_is_no_answer() -> None:
    it = await asked()
    it.one._lines = 100  # fewer than there may be headers
    it.one.data_received(b"HTTP/1.1 200 OK\r\n")
    while not it.line.aborted:
        it.one.data_received(b"x: y\r\n")
    with pytest.raises(BadAnswer, match="the head of its answer"):
        await it.answer


@pytest.mark.parametrize(
    "header", [b"x: " + b"y" * HEADER_BYTES, b"x" * HEADER_BYTES + b": y", b"x: a\0b"], ids=["long", "name", "NUL"]
)
async def test_a_header_nobody_sends_is_no_answer(header: bytes) -> None:
    it = await asked()
    it.one.data_received(b"HTTP/1.1 200 OK\r\n" + header + b"\r\n\r\n")
    with pytest.raises(BadAnswer):
        await it.answer
    assert it.reply.status == 0


async def test_nor_is_one_whose_first_line_has_no_end() -> None:
    it = await asked()
    it.one.data_received(b"HTTP/1.1 200 " + b"y" * (HEADER_BYTES + 1) + b"\r\n\r\n")
    with pytest.raises(BadAnswer, match="the answer was not HTTP"):
        await it.answer


async def test_others_get_their_turn_between_two_slices() -> None:
    those = [await asked() for _ in range(8)]
    for it in those:
        it.one.data_received(CHUNKED + b"1\r\nx\r\n" * 50_000)
    assert [it.one.slices_read for it in those] == [0] * 8  # not within the turn it came in
    turns = await all_read(*those)
    assert turns >= sum(it.one.slices_read for it in those)
    await asyncio.gather(*(it.answer for it in those))


async def test_a_short_answer_is_read_at_once() -> None:
    it = await asked()
    it.one.data_received(b"HTTP/1.1 200 OK\r\nX-Y: one \r\nx-y: two\r\ncontent-length: 2\r\n\r\nok")
    assert it.one.slices_read == 1
    await it.answer
    assert (it.reply.status, it.reply.body, it.reply.cut) == (200, b"ok", False)
    assert it.reply.headers["x-y"] == "one"
    assert (it.line.aborted, it.one.should_close) == (False, False)


async def test_what_came_before_the_other_side_hung_up_is_read() -> None:
    it = await asked()
    it.one.data_received(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 50_000)
    it.one.connection_lost(None)
    await it.answer
    assert (it.reply.body, it.reply.cut) == (b"x" * 50_000, False)
    assert it.one.should_close


@pytest.mark.parametrize("said", ["content-length: 9", "transfer-encoding: chunked"])
async def test_an_answer_that_ends_before_its_end_broke_off(said: str) -> None:
    it = await asked()
    it.one.data_received(f"HTTP/1.1 200 OK\r\n{said}\r\n\r\n4\r\nha".encode())
    it.one.connection_lost(ConnectionResetError(104, "reset"))
    with pytest.raises(BadAnswer, match="the reply broke off"):
        await it.answer
    assert it.reply.status == 200


async def test_each_answer_over_a_connection_has_its_own_measure() -> None:
    it = await asked()
    for _ in range(10):
        it.one.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: 50000\r\n\r\n" + b"x" * 50_000)
        await it.answer
        assert len(it.reply.body) == 50_000
        assert not it.one.should_close
        it.ask()
        await asyncio.sleep(0)
    assert (it.reply.cut, it.line.aborted) == (False, False)
    it.answer.cancel()


OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        OK + OK,
        OK + b"HTTP/1.1 20",
        OK.replace(b"1.1", b"1.0"),
        OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"),
        b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\n\r\n",
    ],
    ids=["two answers", "a part of another", "HTTP/1.0", "close", "another protocol", "no other protocol"],
)
async def test_a_connection_that_may_not_be_clean_is_not_used_again(answer: bytes) -> None:
    it = await asked()
    it.one.data_received(answer)
    await it.answer
    assert it.reply.status in (200, 101)
    assert it.one.should_close
    assert it.line.aborted


async def test_an_answer_that_came_along_with_rubbish_is_none() -> None:
    it = await asked()
    it.one.data_received(OK + b"rubbish")
    with pytest.raises(BadAnswer, match="the answer was not HTTP"):
        await it.answer
    assert (it.reply, it.line.aborted) == (Reply(), True)


async def test_nor_is_one_over_which_something_came_that_nobody_asked_for() -> None:
    it = await asked()
    it.one.data_received(OK)
    await it.answer
    it.one.data_received(OK)
    assert it.one.should_close
    assert it.line.aborted


async def test_nor_one_that_answered_before_it_was_sent_everything() -> None:
    it = await asked()
    it.line.unsent = 100
    it.one.data_received(OK)
    await it.answer
    assert it.one.should_close


async def test_an_answer_nobody_waits_for_any_more_is_not_read() -> None:
    it = await asked()
    it.one.data_received(CHUNKED + b"1\r\nx\r\n" * 50_000)
    it.answer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await it.answer
    await all_read(it)
    assert it.line.aborted
    assert it.one.slices_read <= 1
