"""Receivers that answer slowly, without end, or with rubbish: none of them harms anybody but its own wakes."""

from __future__ import annotations

import asyncio
import base64
import gzip
import tracemalloc

import pytest

from wakeful.model.outcome import Delivered, Failed, Snoozed
from wakeful.targets.sending.reading import INTERIM_LIMIT
from wakeful.testing.receiver import Receiver
from wakeful.testing.targets import a_wake

from .conftest import Open, RawServer

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode()
OLD = "whsec_" + base64.b64encode(b"the secret before it....").decode()
JSON = {"content-type": "application/json"}


class TestHostileReplies:
    async def test_no_answer_ends_at_the_deadline(self, webhook: Open, receiver: Receiver) -> None:
        receiver.hang()
        outcome = await webhook(receiver.url, timeout=1).deliver(a_wake())
        assert outcome == Failed("no answer within 1 s", unhealthy=True)

    async def test_a_json_reply_that_drips_ends_at_the_deadline_and_is_no_yes(
        self, webhook: Open, receiver: Receiver
    ) -> None:
        receiver.drip(pause=0.02)
        outcome = await webhook(receiver.url, timeout=1).deliver(a_wake())
        assert outcome == Failed("HTTP 200, but the reply did not end within 1 s", unhealthy=True, answered=True)

    async def test_any_other_reply_that_drips_is_a_yes_at_the_deadline(self, webhook: Open, receiver: Receiver) -> None:
        receiver.drip(pause=0.02, content_type="text/event-stream")
        outcome = await webhook(receiver.url, timeout=1).deliver(a_wake())
        assert outcome == Delivered("HTTP 200; the reply did not end within 1 s")

    async def test_an_endless_reply_is_not_read_to_its_end(self, webhook: Open, receiver: Receiver) -> None:
        receiver.endless()
        outcome = await webhook(receiver.url).deliver(a_wake())
        assert outcome == Delivered("HTTP 200; the reply was longer than 65536 bytes and not read")

    async def test_a_reply_in_a_million_pieces_is_not_read_to_its_end(self, webhook: Open, raw: RawServer) -> None:
        async def crumble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            while True:
                writer.write(b"1\r\nx\r\n" * 50_000)
                await writer.drain()

        raw.talk = crumble
        outcome = await webhook(raw.url, timeout=20).deliver(a_wake())
        assert outcome == Delivered("HTTP 200; the reply was in too many pieces and not read")

    async def test_interim_replies_without_end_are_cut_short(self, webhook: Open, raw: RawServer) -> None:
        async def promise(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                writer.write(b"HTTP/1.1 102 Processing\r\n\r\n" * 1000)
                await writer.drain()

        raw.talk = promise
        outcome = await webhook(raw.url, timeout=20).deliver(a_wake())
        assert outcome == Failed("it sent more than 20 interim replies (1xx)", unhealthy=True)

    async def test_an_answer_after_interim_replies_may_arrive_with_them(self, webhook: Open, raw: RawServer) -> None:
        body = b'{"snooze": 60, "more": "' + b"x" * 50_000 + b'"}'
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        raw.reply = b"HTTP/1.1 102 Processing\r\n\r\n" * INTERIM_LIMIT + head + body
        assert isinstance(await webhook(raw.url).deliver(a_wake()), Snoozed)

    async def test_a_few_interim_replies_are_read_over(self, webhook: Open, raw: RawServer) -> None:
        raw.reply = b"HTTP/1.1 102 Processing\r\n\r\n" * 20 + raw.reply
        target = webhook(raw.url)
        assert await target.deliver(a_wake()) == Delivered("HTTP 200")
        assert await target.deliver(a_wake()) == Delivered("HTTP 200")

    async def test_a_huge_reply_costs_little_memory(self, webhook: Open, raw: RawServer) -> None:
        sent = 0

        async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            writer.write(b"HTTP/1.1 500 No\r\ncontent-length: 1000000000\r\n\r\n")
            while sent < 1_000_000_000:
                writer.write(bytes(100_000))
                await writer.drain()
                sent += 100_000

        raw.talk = pour
        target = webhook(raw.url)
        tracemalloc.start()
        try:
            outcome = await target.deliver(a_wake())
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert isinstance(outcome, Failed)
        assert peak < 8_000_000
        assert sent < 50_000_000

    async def test_a_gzip_bomb_stays_packed(self, webhook: Open, receiver: Receiver) -> None:
        bomb = gzip.compress(b'{"outcome": "completed", "result": "' + b" " * 20_000_000 + b'"}')
        receiver.answer(200, headers=JSON | {"content-encoding": "gzip"}, body=bomb)
        outcome = await webhook(receiver.url).deliver(a_wake())
        assert outcome == Delivered("HTTP 200; the reply was not valid JSON")

    async def test_a_connection_cut_before_the_answer_failed(self, webhook: Open, receiver: Receiver) -> None:
        receiver.reset()
        outcome = await webhook(receiver.url).deliver(a_wake())
        assert isinstance(outcome, Failed)
        assert outcome.unhealthy
        assert outcome.retryable

    async def test_a_connection_cut_within_a_json_answer_failed(self, webhook: Open, receiver: Receiver) -> None:
        receiver.reset(after=b'{"outcome": "comp')
        outcome = await webhook(receiver.url).deliver(a_wake())
        assert isinstance(outcome, Failed)
        assert outcome.error.startswith("HTTP 200, but ")

    @pytest.mark.parametrize(
        "reply",
        [
            b"",
            b"\x00" * 1000,
            b"SSH-2.0-OpenSSH_9.6\r\n",
            b"HTTP/9.9 999 What\r\n\r\n",
            b"HTTP/1.1 -1 What\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: application/json\r\n\r\nZZZ\r\n",
            b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 5000 + b"\r\n",
            b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000 + b"\r\n\r\n",
            b"HTTP/1.1 500 \xff\xfe\r\nx\x00y: \xff\r\n\r\n",
            b"HTTP/1.1 101 Switching\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
            b"HTTP/1.1 302 Go\r\nlocation: http://[::1/\r\ncontent-length: 0\r\n\r\n",
        ],
    )
    async def test_garbage_is_a_failure_and_never_an_exception(
        self, webhook: Open, raw: RawServer, reply: bytes
    ) -> None:
        raw.reply = reply
        assert isinstance(await webhook(raw.url, timeout=5).deliver(a_wake()), Failed)

    async def test_a_kept_connection_that_died_meanwhile_is_replaced_at_once(
        self, webhook: Open, raw: RawServer
    ) -> None:
        """Otherwise a wake would be late by a whole backoff because the receiver closes idle connections."""

        async def answer_once_then_close_on_the_next(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            writer.write(b"HTTP/1.1 204 OK\r\n\r\n")
            await reader.readuntil(b"webhook-id")

        raw.talk = answer_once_then_close_on_the_next
        target = webhook(raw.url)
        assert await target.deliver(a_wake()) == Delivered("HTTP 204")
        assert await target.deliver(a_wake()) == Delivered("HTTP 204")
        assert raw.connections == 2

    async def test_a_target_that_is_away_is_unhealthy(self, webhook: Open, raw: RawServer) -> None:
        import socket

        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            outcome = await webhook(f"http://127.0.0.1:{closed.getsockname()[1]}/").deliver(a_wake())
        assert isinstance(outcome, Failed)
        assert outcome.unhealthy
        assert not outcome.answered
        assert "could not connect" in outcome.error

    async def test_speaking_plain_http_to_us_in_tls_fails_in_words(self, webhook: Open, raw: RawServer) -> None:
        outcome = await webhook(raw.url.replace("http:", "https:"), timeout=5).deliver(a_wake())
        assert isinstance(outcome, Failed)
        assert outcome.unhealthy

    async def test_a_name_that_means_nothing_fails_in_words(self, webhook: Open) -> None:
        outcome = await webhook("http://nowhere.invalid/").deliver(a_wake())
        assert outcome == Failed("the host name could not be resolved", unhealthy=True)

    async def test_cancelling_the_delivery_cancels_the_request(self, webhook: Open, receiver: Receiver) -> None:
        receiver.hang()
        delivery = asyncio.create_task(webhook(receiver.url).deliver(a_wake()))
        await receiver.wait_for(1)
        delivery.cancel()
        with pytest.raises(asyncio.CancelledError):
            await delivery
