"""The dashboard before a full database: first paint, bytes and requests of each view, and the server's time for it.

SQLite, filled by SQL with alarms that are active and fires of the last month.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import apsw
from playwright.async_api import Browser, async_playwright

from wakeful.app import build
from wakeful.config import Settings
from wakeful.server import serve

VIEWS = ("/", "/alarms", "/alarms?status=active", "/alarms?text=nothing", "/fires", "/fires?status=failed", "/targets")
SAMPLES = 7
_MONTH = 30 * 86_400_000
_NUMBERS = "with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < ?) "
_ID = "printf('%s-%04x-7000-%04x-%012x', substr(id, 1, 8), n / 65536, n % 65536, n)"


def run(*, alarms: int, fires: int) -> Iterator[dict[str, Any]]:
    folder = Path(tempfile.mkdtemp(prefix="wakeful-bench"))
    try:
        yield from asyncio.run(_measured(str(folder / "wakeful.db"), alarms, fires))
    finally:
        shutil.rmtree(folder)


async def _measured(db: str, alarms: int, fires: int) -> list[dict[str, Any]]:
    settings = Settings(db=db, port=0)
    async with build(settings) as clock:
        made = await clock.set("every day at 9am", "Look at the grant portal", label="grants")
        now = await clock.service.now()
    fill(db, made.id, now, alarms=alarms, fires=fires)
    async with build(settings) as clock:
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(serve(clock, ready=ready.set_result))
        try:
            url = await ready
            views = (*VIEWS, f"/alarms/{made.id}", "/health", "/new")
            async with async_playwright() as playwright, aiohttp.ClientSession() as session:
                browser = await playwright.chromium.launch(
                    executable_path=shutil.which("chromium"), args=["--no-sandbox"]
                )
                found = [await _view(browser, session, url, view) for view in views]
                await browser.close()
        finally:
            serving.cancel()
            await asyncio.wait((serving,))
    return [{"bench": "dashboard", "store": "sqlite", "alarms": alarms, "fires": fires} | one for one in found]


def fill(db: str, template: str, now: datetime, *, alarms: int, fires: int) -> None:
    """Copies of one alarm, spread over the day ahead; fires of theirs over the month behind, one in fifty failed."""
    connection, at = apsw.Connection(db), int(now.timestamp() * 1000)
    columns = [row[1] for row in connection.execute("pragma table_info(alarms)")]
    spread = f"{at} + 3600000 + (n * 7919) % 86400000"
    new = {"id": _ID, "next_fire_at": spread, "occurrence_at": spread, "created_at": f"{at} - n"}
    new |= {"updated_at": f"{at} - n", "label": "'alarm ' || n", "target": "'target' || (n % 20)"}
    chosen = ", ".join(new.get(column, column) for column in columns)
    connection.execute("begin immediate")
    connection.execute(
        f"{_NUMBERS} insert into alarms ({', '.join(columns)}) select {chosen} from numbers, alarms where id = ?",
        (alarms, template),
    )
    due = f"{at} - (n * {max(1, _MONTH // fires)})"
    connection.execute(
        f"""{_NUMBERS} insert into fires (alarm_id, scheduled_for, owner_did, target, status, reason, attempts,
            failures, started_at, delivered_at, completed_at, duration_ms, result, last_error, log, count, updated_at)
            select ids.id, {due}, 'local', 'target' || (n % 20), iif(n % 50 = 0, 'failed', 'completed'), '', 1,
                   iif(n % 50 = 0, 1, 0), {due} + 20, {due} + 40, {due} + 40, 20, 'done',
                   iif(n % 50 = 0, 'HTTP 500', ''), '[]', 1, {due} + 40
              from numbers join (select id, row_number() over (order by id) as number from alarms) ids
                on ids.number = 1 + n % {alarms}""",
        (fires,),
    )
    connection.execute("commit")
    connection.execute("analyze")
    connection.close()


async def _view(browser: Browser, session: aiohttp.ClientSession, url: str, view: str) -> dict[str, Any]:
    times, size = [], 0
    for _ in range(SAMPLES):
        begun = time.perf_counter()
        async with session.get(url + view) as response:
            size = len(await response.read())
            status = response.status
        times.append(1000 * (time.perf_counter() - begun))
    page = await browser.new_page()
    await page.goto(url + view)
    await page.locator("main").wait_for()
    loaded = await page.evaluate(
        """new Promise((done) => setTimeout(() => done({
            paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null,
            requests: 1 + performance.getEntriesByType("resource").length,
            scripts: performance.getEntriesByType("resource").reduce((sum, one) => sum + one.encodedBodySize, 0)
        }), 300))"""
    )
    await page.close()
    return {
        "view": view.replace(view[8:], "ID") if view.startswith("/alarms/") else view,
        "status": status,
        "server_ms_median": round(statistics.median(times), 1),
        "server_ms_most": round(max(times), 1),
        "first_paint_ms": None if loaded["paint"] is None else round(loaded["paint"], 1),
        "page_bytes": size,
        "requests": loaded["requests"],
        "other_bytes": loaded["scripts"],
    }
