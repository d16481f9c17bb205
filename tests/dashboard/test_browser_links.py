"""The Done and Snooze links of a message in a real browser: the pages keep their own policy, and their buttons work."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.dashboard.browser import reading
from tests.interfaces.test_links import PUBLIC, status, told
from tests.interfaces.world import serving
from wakeful.testing.receiver import Receiver

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_done_and_snooze_are_one_press_each(browser: Browser, tmp_path: Path) -> None:
    async with Receiver() as slack:
        team = {"kind": "slack", "url": slack.url, "allow_private": True}
        async with (
            serving(str(tmp_path / "w.db"), targets={"team": team}, public_url=PUBLIC) as visit,
            reading(browser, visit.url) as reader,
        ):
            for action, button, outcome in (("Done", "Done", "completed"), ("Snooze", "1 hour", "snoozed")):
                link = await told(visit, slack)
                page = await reader.open(link[action])
                await expect(page.locator("p")).to_have_text("Water the plants")
                assert await page.evaluate("getComputedStyle(document.body).maxWidth") != "none"  # it has its style
                assert await status(visit, link["alarm"]) == "delivered"
                await page.get_by_role("button", name=button).click()
                await expect(page.locator("form")).to_have_count(0)
                assert await status(visit, link["alarm"]) == outcome
