"""Asking for more than one's share: stored bytes, searches, lists in bulk, and answers that nobody reads."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import socket
import time
from collections import Counter
from typing import Final

import aiohttp

from tests.faults.client import iso

from .attack import attack, over_and_over, summed, tried, unless
from .house import STORED, House
from .records import Tried

LONG: Final = 8_000  # bytes of one long alarm
IN_A_BATCH: Final = 30  # of them in the 256 KiB that a request may have
UNREAD: Final = 20  # clients that do not read
LISTS: Final = [{"jsonrpc": "2.0", "method": "list", "params": {"limit": 100}, "id": n} for n in range(20)]


def long_alarm() -> dict[str, str]:
    # Noise, so that no database makes it small.
    return {
        "wake_message": base64.b64encode(os.urandom(LONG * 3 // 4)).decode(),
        "fire_at": iso(time.time() + 86400),
    }


@attack("storing beyond the quota", stage=1)
async def store_much(house: House, until: float) -> Tried:
    """Goes on until it is refused, whatever the time: the searches need what it stores."""
    end, stored, refused = time.monotonic() + 60, 0, 0
    async with house.as_owner("hoarder") as hoarder:

        async def batch() -> None:
            nonlocal stored, refused
            alarms = [long_alarm() for _ in range(IN_A_BATCH)]
            reply = await hoarder("POST", "/v1/alarms/batch", {"alarms": alarms})
            results = reply.json["results"] if reply.status == 200 else []
            made = sum(result["status"] == 201 for result in results)
            stored += made
            refused += len(results) - made
            hoarder.came["items refused"] += len(results) - made

        while not refused and time.monotonic() < end:
            await asyncio.gather(*(batch() for _ in range(4)))
    what = f"{stored} alarms of {LONG // 1000} kB stored, then refused at the quota of {STORED // 1_000_000} MB"
    return tried(
        what,
        hoarder.came,
        unless(refused, "it was never refused"),
        unless(stored * LONG < 1.3 * STORED, f"{stored * LONG} bytes were stored"),
    )


@attack("searching long alarms", stage=3)
async def search(house: House, until: float) -> Tried:
    async with house.as_owner("hoarder") as hoarder:

        async def once() -> None:
            reply = await hoarder("GET", "/v1/alarms?limit=500&q=there-is-no-such-word")
            if reply.status == 429:
                await asyncio.sleep(0.05)

        number = await over_and_over(until, 24, once)
    return tried(f"`?q=` over {STORED // LONG} long alarms, {number} times, 24 at once", hoarder.came)


@attack("batches of 20 lists on WebSockets", stage=2)
async def lists(house: House, until: float) -> Tried:
    longest = 0
    came: Counter[str] = Counter()
    async with house.as_owner("hoarder") as hoarder:

        async def one() -> None:
            nonlocal longest
            async with hoarder.session.ws_connect("/v1/ws", max_msg_size=0) as line:
                while time.monotonic() < until:
                    await line.send_json(LISTS)
                    message = await line.receive(timeout=30)
                    if message.type is not aiohttp.WSMsgType.TEXT:
                        came["hung up"] += 1
                        return
                    longest = max(longest, len(message.data))
                    came["answers"] += 1
                    came["lists refused"] += message.data.count('"error"')

        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            await asyncio.gather(*(one() for _ in range(4)))
    what = (
        f"{came['answers']} batches of 20 lists of 100 alarms on 4 sockets; the longest answer {longest / 1e6:.1f} MB"
    )
    return tried(what, came, unless(longest < 10_000_000, f"an answer had {longest} bytes"))


@attack("clients that do not read", stage=3)
async def unread(house: House, until: float) -> Tried:
    """Each asks for a page of megabytes through a window of 4 kB, again and again, and takes none of it."""
    token = house.tokens["hoarder"]
    head = f"GET /v1/alarms?limit=500 HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\n\r\n"
    loop = asyncio.get_running_loop()
    lines: list[socket.socket] = []
    sent = 0
    try:
        while time.monotonic() < until:
            if len(lines) < UNREAD:
                line = socket.socket()
                line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # else the kernel reads for it
                line.setblocking(False)
                with contextlib.suppress(OSError):
                    await loop.sock_connect(line, ("127.0.0.1", house.port))
                lines.append(line)
            for line in lines:
                with contextlib.suppress(OSError):
                    line.send(head.encode())
                    sent += 1
            await asyncio.sleep(0.1)
    finally:
        for line in lines:
            line.close()
    return tried(f"{sent} pages asked for by {UNREAD} connections that take nothing", {})


@attack("statistics and histories all at once", stage=3)
async def counts(house: House, until: float) -> Tried:
    async with house.as_owner("reader") as reader:
        paths = ("/v1/stats", "/v1/history?limit=500", "/v1/agenda", "/v1/fires?limit=500", "/v1/failed")

        async def once() -> None:
            replies = await asyncio.gather(*(reader("GET", path) for path in paths))
            if any(reply.status == 429 for reply in replies):
                await asyncio.sleep(0.1)

        number = await over_and_over(until, 8, once)
    return tried(f"{number * len(paths)} of them, {8 * len(paths)} at once", summed(reader))
