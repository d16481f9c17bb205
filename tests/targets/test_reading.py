"""How much of an answer is read, and that nobody waits for it: counted, not timed."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from wakeful.targets.reading import ANSWER_BYTES, ANSWER_LINES, SLICE, Answering, Unreasonable

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
MOST_SLICES = ANSWER_BYTES // SLICE


class Line(asyncio.Transport):
    """A connection as far as its receiving side sees it."""

    aborted = False

    def abort(self) -> None:
        self.aborted = True

    def close(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


def answering() -> tuple[Answering, Line]:
    made, line = Answering(asyncio.get_running_loop()), Line()
    made.connection_made(line)
    made.set_response_params(read_until_eof=True, auto_decompress=False, read_bufsize=64 * 1024)
    return made, line


async def all_read(*those: Answering) -> int:
    """Wait until they have read what they will; how many turns of the loop others had meanwhile."""
    turns = 0
    while any(one._slices for one in those):
        await asyncio.sleep(0)
        turns += 1
    return turns


@pytest.mark.parametrize(
    "flood",
    [
        CHUNKED + b"1\r\nx\r\n" * 50_000,
        CHUNKED + (b"1;" + b"e=1;" * 1000 + b"\r\nx\r\n") * 100,
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1_000_000,
    ],
    ids=["tiny chunks", "extensions", "a body without end"],
)
async def test_an_answer_is_so_much_work_and_no_more(flood: bytes) -> None:
    one, line = answering()
    for at in range(0, len(flood), 262_144):  # as the loop hands it over
        one.data_received(flood[at : at + 262_144])
    await all_read(one)
    assert one.cut
    assert line.aborted
    assert one.slices_read <= MOST_SLICES
    message, payload = await one.read()
    assert message.code == 200
    assert len(await payload.read()) <= ANSWER_BYTES


async def test_chunks_are_counted() -> None:
    one, _ = answering()
    one.data_received(CHUNKED + b"1\r\nx\r\n" * 50_000)
    await all_read(one)
    _, payload = await one.read()
    assert 0 < len(await payload.read()) <= ANSWER_LINES  # what came of it stays


async def test_a_flood_of_interim_replies_is_left_after_the_first_slice() -> None:
    one, line = answering()
    one.data_received(b"HTTP/1.1 102 Processing\r\n\r\n" * 9000)
    await all_read(one)
    assert (one.slices_read, line.aborted) == (1, True)
    assert isinstance(one.exception(), Unreasonable)


async def test_a_head_without_end_is_no_answer() -> None:
    one, line = answering()
    one.data_received(b"HTTP/1.1 200 OK\r\n")
    while not line.aborted:
        one.data_received(b"x: y\r\n" * 1000)
        await all_read(one)
    assert one.slices_read <= MOST_SLICES
    with pytest.raises(aiohttp.http_exceptions.HttpProcessingError):
        await one.read()


async def test_nor_is_one_that_comes_in_little_pieces() -> None:
    one, line = answering()
    one._lines = 100  # fewer than the driver has patience for headers
    one.data_received(b"HTTP/1.1 200 OK\r\n")
    while not line.aborted:
        one.data_received(b"x: y\r\n")
    with pytest.raises(Unreasonable, match="the head of its answer"):
        await one.read()


async def test_others_get_their_turn_between_two_slices() -> None:
    pairs = [answering() for _ in range(8)]
    for one, _ in pairs:
        one.data_received(CHUNKED + b"1\r\nx\r\n" * 50_000)
    assert [one.slices_read for one, _ in pairs] == [0] * 8  # not within the turn it came in
    turns = await all_read(*(one for one, _ in pairs))
    assert turns >= sum(one.slices_read for one, _ in pairs)


async def test_a_short_answer_is_read_at_once() -> None:
    one, line = answering()
    one.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
    assert one.slices_read == 1
    _, payload = await one.read()
    assert await payload.read() == b"ok"
    assert (one.cut, line.aborted) == (False, False)


async def test_what_came_before_the_other_side_hung_up_is_read() -> None:
    one, _ = answering()
    one.data_received(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 50_000)
    one.connection_lost(None)
    _, payload = await one.read()
    assert await payload.read() == b"x" * 50_000
    assert not one.cut


async def test_each_answer_over_a_connection_has_its_own_measure() -> None:
    one, line = answering()
    for _ in range(10):
        one.begin()
        one.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: 50000\r\n\r\n" + b"x" * 50_000)
        await all_read(one)
        _, payload = await one.read()
        assert len(await payload.read()) == 50_000
        one.set_response_params(read_until_eof=True, auto_decompress=False, read_bufsize=64 * 1024)
    assert (one.cut, line.aborted) == (False, False)
