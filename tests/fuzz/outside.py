"""What receivers answer, over a socket, and rows that another program writes into the database."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from typing import Any, Final

import apsw
import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from wakeful.clock import SystemClock
from wakeful.model.outcome import Delivered, Failed
from wakeful.process.application import open_local
from wakeful.targets.router import Router
from wakeful.targets.webhook import Webhook
from wakeful.testing import ManualClock, store_of
from wakeful.testing.targets import a_wake

from .harness import Broke, Parse, Parser
from .inputs import any_text, crons, moments, mostly, near, numbers, objects, some_json, spans

STATUSES: Final = (
    b"200 OK",
    b"202 Accepted",
    b"204 No",
    b"301 There",
    b"400 No",
    b"410 Gone",
    b"429 Later",
    b"500 No",
    b"503 No",
    b"600 ?",
    b"99 ?",
)
HEADERS: Final = (
    b"content-type: application/json", b"content-type: application/problem+json; charset=utf-16", b"content-type: ;;;",
    b"content-length: 5", b"content-length: -1", b"content-length: 5, 6", b"content-length: 99999999999999999999",
    b"transfer-encoding: chunked", b"transfer-encoding: gzip, chunked", b"content-encoding: gzip",
    b"content-encoding: br",
    b"connection: close", b"connection: keep-alive", b"connection: upgrade\r\nupgrade: websocket", b"retry-after: 120",
    b"retry-after: Wed, 21 Oct 2099 07:28:00 GMT", b"retry-after: " + b"9" * 300,
    b"retry-after: Thu, 99 Foo 99999 25:61:61",
    b"location: http://[::1", b"location: //evil\\@x", b"set-cookie: a=b; expires=never", b"x: " + b"y" * 9000,
    b"a" * 9000 + b": b",
    b" folded", b"no colon", b"x: \xff\xfe\x00", b": empty", b"x:\r\ny: z",
)  # fmt: skip
ANSWERS: Final = objects(
    ("snooze", "status", "outcome", "result", "reason", "error", "for", "retry_after", "report", "ok"),
    {"snooze": st.one_of(spans, numbers), "for": st.one_of(spans, numbers)},
)


@st.composite
def _replies(draw: DrawFn) -> list[bytes]:
    """What a receiver writes, in the pieces it writes it in."""
    body = draw(
        st.one_of(st.binary(max_size=80), st.builds(_json, st.one_of(ANSWERS, some_json)), st.just(b"[" * 60_000))
    )
    lines = draw(st.lists(st.one_of(st.sampled_from(HEADERS), st.binary(max_size=20)), max_size=5))
    if draw(st.booleans()):
        lines = [b"content-type: application/json", b"content-length: %d" % len(body), *lines[:1]]
    elif draw(st.booleans()):
        lines, body = [*lines[:2], b"transfer-encoding: chunked"], draw(_chunked(body))
    interim = b"HTTP/1.1 102 Wait\r\n\r\n" * draw(st.sampled_from((0, 0, 0, 1, 19, 21, 400)))
    first = draw(st.one_of(st.sampled_from(STATUSES).map(lambda status: b"HTTP/1.1 " + status), st.binary(max_size=20)))
    whole = interim + b"\r\n".join([first, *lines, b"", b""]) + body
    if not draw(st.integers(0, 5)):
        whole = draw(st.one_of(st.binary(max_size=100), st.just(b"\r\n" * 3000), st.just(b"HTTP/1.1 " * 2000)))
    cuts = sorted({0, len(whole), *(min(at, len(whole)) for at in draw(st.lists(st.integers(0, 200), max_size=3)))})
    return [whole[begin:end] for begin, end in pairwise(cuts)]


@st.composite
def _chunked(draw: DrawFn, body: bytes) -> bytes:
    size = draw(st.sampled_from((b"%x" % len(body), b"-1", b"ffffffffffffffffff", b"zz", b"0", b"5;" + b"e" * 3000)))
    return (
        size
        + b"\r\n"
        + body
        + b"\r\n"
        + draw(st.sampled_from((b"0\r\n\r\n", b"0\r\nx: y\r\n\r\n", b"", b"1\r\na\r\n" * 2000)))
    )


def _json(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return b'"\\ud800"'


@asynccontextmanager
async def _receivers() -> AsyncIterator[Parse]:
    reply: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            for piece in reply:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
    targets = (
        Webhook(url=url, allow_private=True, clock=SystemClock(), timeout=1),
        Router(url=url, clock=SystemClock(), timeout=1),
    )

    async def parse(said: list[bytes]) -> None:
        reply[:] = said
        for target in targets:
            outcome = await target.deliver(a_wake())
            if isinstance(outcome, Delivered | Failed):
                outcome.__repr__().encode()  # it is written into the database
            elif not hasattr(outcome, "wait"):
                raise Broke(f"{outcome!r} is no outcome")

    yield parse
    for target in targets:
        await target.close()
    listening.close()
    await listening.wait_closed()


@asynccontextmanager
async def _tables() -> AsyncIterator[Parse]:
    """A gateway's file: a row is written, planned, changed into another, and gone."""
    with tempfile.TemporaryDirectory() as folder:
        path, clock = f"{folder}/w.db", ManualClock()
        db = apsw.Connection(path)
        db.set_busy_timeout(5000)
        db.execute(
            "create table messages (id text primary key, chat_jid text, sender text, content text, timestamp text)"
        )
        async with open_local(path, clock=clock) as served:
            await store_of(served).tasks.connect("scheduled_tasks")

        async def parse(columns: dict[str, Any]) -> None:
            names, marks = ", ".join(columns), ", ".join("?" * len(columns))
            try:
                db.execute(f"insert into scheduled_tasks ({names}) values ({marks})", tuple(columns.values()))
            except (apsw.ConstraintError, apsw.MismatchError):
                return
            for _ in range(3):  # a row that could not be read or written just now is looked at again a tick later
                await served.run_due()
                if db.execute("select count(*) from task_changes").fetchall() == [(0,)]:
                    break
                await clock.advance(1)
            else:
                raise Broke("it is still to be planned")
            db.execute("delete from scheduled_tasks")
            await served.run_due()

        async with open_local(path, clock=clock) as served:
            yield parse
        db.close()


def outside() -> Iterator[Parser]:
    wild = st.one_of(
        st.none(), any_text.map(_whole), st.binary(max_size=20), st.integers(-(2**63), 2**63 - 1), st.floats()
    )
    row = {
        "id": mostly(st.just("t"), wild),
        "owner": mostly(st.just("main"), wild),
        "chat_jid": mostly(st.just("1@g.us"), wild),
        "prompt": mostly(st.just("say it"), wild),
        "cron": st.one_of(st.none(), crons.map(_whole), wild),
        "next_run": st.one_of(st.none(), moments.map(_whole), wild),
        "status": st.one_of(st.just("active"), near(("active", "paused", "done")).map(_whole), wild),
    }
    yield Parser("receivers' answers", _replies(), _receivers)
    yield Parser("rows in a table", st.fixed_dictionaries(row), _tables)


def _whole(text: str) -> str:
    """Without half characters, which no driver takes."""
    return text.encode("utf-8", "replace").decode()
