"""The dashboard before a full database: first paint, bytes and requests of each view, and what the store takes for it.

First paint and reads are the least of several: what the machine does beside is not theirs.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import aiohttp
from msgspec import Struct
from playwright.async_api import Browser, async_playwright

from bench.full_database import fill_postgres, fill_sqlite, views
from bench.worlds import World
from wakeful.process.application import build
from wakeful.process.server import serve
from wakeful.settings import Settings
from wakeful.store import Store

GOALS: Final = {"first_paint_ms": 200, "page_bytes": 100_000, "slowest_read_ms": 50}
SAMPLES: Final = 7
PAINTS: Final = 5


class Read(Struct):
    """One read of the store, as long as whoever asked for it waited."""

    name: str
    ms: float


def run(world: World, *, alarms: int, fires: int) -> Iterator[dict[str, Any]]:
    with world.fresh() as place:
        yield from asyncio.run(_measured(world.store, place, alarms, fires))


async def _measured(kind: str, place: dict[str, Any], alarms: int, fires: int) -> list[dict[str, Any]]:
    settings = Settings(**place, port=0)
    async with build(settings) as clock:
        made = await clock.set("every day at 9am", "Look at the grant portal", label="grants")
        now = await clock.service.now()
    if kind == "sqlite":
        fill_sqlite(settings.db, made.id, now, alarms=alarms, fires=fires)
    else:
        await fill_postgres(settings.db, settings.schema, made.id, now, alarms=alarms, fires=fires)
    told = {"bench": "dashboard", "store": kind, "alarms": alarms, "fires": fires}
    return [told | one for one in await measured(settings, views(made.id, now))]


async def measured(settings: Settings, pages: list[str]) -> list[dict[str, Any]]:
    async with build(settings) as alarms:
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(serve(alarms, ready=ready.set_result))
        reads = _timed(alarms.service.store)
        try:
            url = await ready
            async with async_playwright() as playwright, aiohttp.ClientSession() as session:
                browser = await playwright.chromium.launch(
                    executable_path=shutil.which("chromium"), args=["--no-sandbox"]
                )
                found = [await _view(browser, session, url, view, reads) for view in pages]
                await browser.close()
        finally:
            serving.cancel()
            await asyncio.wait((serving,))
    return found


def _timed(store: Store) -> list[Read]:
    """Each read of the store from here on, in a list that whoever looks empties."""
    reads: list[Read] = []

    def timed(name: str, verb: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **values: Any) -> Any:
            begun = time.perf_counter()
            try:
                return await verb(*args, **values)
            finally:
                reads.append(Read(name, 1000 * (time.perf_counter() - begun)))

        return call

    for name in ("agenda", "find", "fires", "count", "described_fires", "fires_at", "events", "usage", "named", "get"):
        setattr(store, name, timed(name, getattr(store, name)))
    for part in (store.access, store.maintenance):
        for name in (name for name, its in vars(type(part)).items() if not name.startswith("_") and callable(its)):
            setattr(part, name, timed(name, getattr(part, name)))
    return reads


async def _view(
    browser: Browser, session: aiohttp.ClientSession, url: str, view: str, reads: list[Read]
) -> dict[str, Any]:
    times: list[float] = []
    worked: list[float] = []
    slowest: dict[str, list[float]] = {}
    for _ in range(SAMPLES):
        reads.clear()
        begun, before = time.perf_counter(), time.process_time()
        async with session.get(url + view) as response:
            size = len(await response.read())
            status = response.status
        times.append(1000 * (time.perf_counter() - begun))
        worked.append(1000 * (time.process_time() - before))
        for name in {read.name for read in reads}:
            slowest.setdefault(name, []).append(max(read.ms for read in reads if read.name == name))
    # What is not read for every answer is the dispatcher's.
    longest = max(((min(took), name) for name, took in slowest.items() if len(took) == SAMPLES), default=(0.0, ""))
    loaded = min([await _loaded(browser, url + view) for _ in range(PAINTS)], key=lambda one: one["paint"] or 0)
    found = {
        "view": view,
        "status": status,
        "server_ms_least": round(min(times), 1),
        "server_ms_median": round(statistics.median(times), 1),
        "cpu_ms_least": round(min(worked), 1),
        "first_paint_ms": None if loaded["paint"] is None else round(loaded["paint"], 1),
        "page_bytes": size,
        "requests": loaded["requests"],
        "other_bytes": loaded["scripts"],
        "slowest_read": longest[1],
        "slowest_read_ms": round(longest[0], 1),
    }
    return found | {"over": [name for name, most in GOALS.items() if (found[name] or 0) > most]}


async def _loaded(browser: Browser, address: str) -> dict[str, Any]:
    page = await browser.new_page()
    await page.goto(address)
    loaded: dict[str, Any] = await page.evaluate(
        """new Promise((done) => setTimeout(() => done({
            paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null,
            requests: 1 + performance.getEntriesByType("resource").length,
            scripts: performance.getEntriesByType("resource").reduce((sum, one) => sum + one.encodedBodySize, 0)
        }), 300))"""
    )
    await page.close()
    return loaded
