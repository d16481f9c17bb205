"""Pictures of every view: python -m tests.dashboard.screenshots [FOLDER] (docs/screenshots). Light, dark, a phone."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, expect

from tests.dashboard.browser import browsing, reading
from tests.doors.world import Visitor, serving
from wakeful.alarm import Completed, Failed, Outcome, Wake
from wakeful.dispatcher import ServedTarget
from wakeful.store import FireQuery
from wakeful.testing import store_of, targets_of

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1200, "height": 680}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1200, "height": 680}},
    "phone": {"color_scheme": "light", "viewport": {"width": 360, "height": 740}},
}
EVERY = (
    (
        "every weekday at 9am",
        "Morning brief: what is new in the inbox, what is due today",
        "morning brief",
        "assistant",
    ),
    ("every 4 hours", "Check the grant portal for a decision", "grant portal", "research"),
    ("every day at 18:30", "Summarise the day for Ada", "evening summary", "assistant"),
    ("every monday at 8am", "Plan the week", "week plan", "assistant"),
    ("every 30 minutes", "Is the nightly build still red?", "build watch", "ci"),
)
NOW = (
    ("Send the quarterly report to the board", "board report", "mail"),
    ("Ping the vendor about the open ticket", "", "mail"),
    ("Renew the certificate of example.org", "certificate", "ops"),
    ("Post the release notes", "release notes", "assistant"),
)


class Receiver:
    def __init__(self, error: str = "") -> None:
        self._error = error

    async def deliver(self, wake: Wake) -> Outcome:
        return Failed(self._error, retryable=False) if self._error else Completed("done")

    async def close(self) -> None: ...


async def fill(visit: Visitor) -> str:
    for name in ("assistant", "research", "ci", "ops"):
        targets_of(visit.clock)[name] = ServedTarget(Receiver(), 8)
    targets_of(visit.clock)["mail"] = ServedTarget(Receiver("HTTP 503: mailbox is over quota"), 8)
    made = [await visit.clock.set(when, text, label=label, target=target) for when, text, label, target in EVERY]
    await visit.clock.pause(made[3].id, reason="holidays")
    for text, label, target in NOW:
        last = await visit.clock.set(delay=0.01, wake_message=text, label=label, target=target, payload={"page": 3})
        async with asyncio.timeout(60):
            while not await store_of(visit.clock).fires(FireQuery(alarm_id=last.id, limit=1)):
                pass
    return f"/alarms/{made[1].id}"


async def take(browser: Browser, visit: Visitor, folder: Path, name: str, views: dict[str, str]) -> None:
    for look, given in LOOKS.items():
        async with reading(browser, visit.url, **given) as reader:
            for view, path in views.items():
                page = await reader.open(path)
                await expect(page.locator("#live.on")).to_be_visible(timeout=60_000)
                await page.screenshot(path=folder / f"{view}-{look}{name}.png")
                await page.close()


async def main(folder: Path) -> None:
    views = {"now": "/", "alarms": "/alarms", "fires": "/fires", "targets": "/targets", "health": "/health"}
    with tempfile.TemporaryDirectory() as place:
        async with browsing() as browser:
            async with serving(f"{place}/full.db", tick=timedelta(milliseconds=50)) as visit:
                alarm = await fill(visit)
                new = "/new?when=every%20weekday%20at%209am&wake_message=Morning%20brief"
                await take(browser, visit, folder, "", views | {"alarm": alarm, "new": new})
            async with serving(f"{place}/empty.db") as visit:
                await take(browser, visit, folder, "-empty", views)


if __name__ == "__main__":
    given = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/screenshots")
    given.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(given))
