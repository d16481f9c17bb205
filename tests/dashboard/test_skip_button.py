"""`Skip next` in a real browser: it skips the fire that the page shows, also once the page has moved on by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.dashboard.browser import browsing, reading
from tests.databases import database_of
from tests.interfaces.world import Visitor, serving

pytestmark = pytest.mark.browser
SOON = 60_000  # milliseconds: how long a thing may take on a busy machine
DAY = timedelta(days=1)


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with browsing() as found:
        yield found


@pytest.fixture(params=["sqlite", "postgres"])
async def visit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Visitor]:
    async with serving(**database_of(request, tmp_path), tick=timedelta(milliseconds=50)) as visitor:
        yield visitor


async def test_it_skips_the_fire_that_is_shown_also_after_others_moved_on(browser: Browser, visit: Visitor) -> None:
    series = await visit.alarms.set("every day at 9am", "brief")
    async with reading(browser, visit.url) as reader:
        page = await reader.open(f"/alarms/{series.id}")
        skip, meant = page.get_by_role("button", name="Skip next"), page.locator('input[name="at"]')
        await expect(meant).to_have_value(series.next_fire_at.isoformat())
        await skip.click()
        await expect(page.locator("#said")).to_contain_text("Skipped", timeout=SOON)
        assert (await visit.alarms.get(series.id)).next_fire_at == series.next_fire_at + DAY
        await visit.alarms.skip(series.id)
        await expect(meant).to_have_value((series.next_fire_at + 2 * DAY).isoformat(), timeout=SOON)
        await skip.click()
        await expect(meant).to_have_value((series.next_fire_at + 3 * DAY).isoformat(), timeout=SOON)
        assert (await visit.alarms.get(series.id)).next_fire_at == series.next_fire_at + 3 * DAY
        await expect(page.locator("#about")).to_contain_text("skipped on request by")
