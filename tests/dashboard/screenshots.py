"""Pictures of every view: python -m tests.dashboard.screenshots [FOLDER] (docs/screenshots).

Light, dark and on a phone; in use, empty, and before 100,000 alarms. The data and the clock are always the same.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from playwright.async_api import Browser, expect

from tests.dashboard.browser import browsing, reading
from tests.dashboard.png import smaller
from tests.dashboard.scene import NOW, ZONE, StoppedClock, fill, fill_up, serve_targets, served_targets
from tests.interfaces.world import Visitor, serving
from wakeful.testing import targets_of

LOOKS: Final[dict[str, dict[str, Any]]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 800}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 800}},
    "phone": {"color_scheme": "light", "viewport": {"width": 360, "height": 740}},
}
VIEWS: Final = {
    "now": "/",
    "alarms": "/alarms",
    "fires": "/fires",
    "timeline": "/timeline",
    "month": "/timeline?month=2026-11",
    "targets": "/targets",
    "health": "/health",
    "owners": "/owners",
    "coming": "/timeline/coming?since=2026-11-18T09:00:00Z&until=2026-11-18T18:00:00Z",
    "bulk": "/bulk/alarms?verb=pause",
    "refused": "/timeline?week=soon",
    "new": "/new?when=every%20weekday%20at%209am&wake_message=Morning%20brief&timezone=Europe/Berlin",
}
DRAWN: Final = {"new": "#preview li", "health": "canvas"}  # what a script adds after a page has come
IN_README: Final = ("now-light.png", "alarm-dark.png", "now-phone.png")
MANY: Final = 100_000


async def take(
    browser: Browser, visit: Visitor, folder: Path, name: str, views: dict[str, str], *, whole: bool = False
) -> None:
    for look, given in LOOKS.items():
        async with reading(browser, visit.url, timezone_id=ZONE, refused=True, **given) as reader:
            await reader.context.clock.set_fixed_time(NOW)
            await reader.context.add_cookies(
                [{"name": "wakeful_tz", "value": ZONE.replace("/", "%2F"), "url": visit.url}]
            )
            for view, path in views.items():
                page = await reader.open(path)
                await expect(page.locator("#live.on")).to_be_visible(timeout=60_000)
                if view in DRAWN:
                    await expect(page.locator(DRAWN[view]).first).to_be_visible(timeout=60_000)
                file = folder / f"{view}-{look}{name}.png"
                picture = await page.screenshot(full_page=whole)
                file.write_bytes(smaller(picture) if file.name in IN_README else picture)
                await page.close()


async def main(folder: Path) -> None:
    logging.getLogger("wakeful.dispatcher").setLevel(logging.ERROR)  # it sees that the clock stands still
    with tempfile.TemporaryDirectory() as place:
        async with browsing() as browser:
            clock = StoppedClock()
            alarm = await fill(f"{place}/full.db", clock)
            async with serving(f"{place}/full.db", clock=clock) as visit:
                serve_targets(visit.alarms)
                await take(browser, visit, folder, "", VIEWS | {"alarm": alarm, "edit": f"{alarm}/edit"})
                await take(
                    browser, visit, folder, "-whole", VIEWS | {"alarm": alarm, "edit": f"{alarm}/edit"}, whole=True
                )
            async with serving(f"{place}/empty.db", clock=clock) as visit:
                targets_of(visit.alarms).pop("agent")
                await take(browser, visit, folder, "-empty", VIEWS)
            alarm = await fill_up(f"{place}/many.db", clock, MANY)
            async with serving(f"{place}/many.db", clock=clock) as visit:
                targets_of(visit.alarms).update(served_targets(f"agent-{number}" for number in range(20)))
                await take(browser, visit, folder, "-many", VIEWS | {"alarm": alarm, "edit": f"{alarm}/edit"})


if __name__ == "__main__":
    given = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/screenshots")
    given.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(given))
