"""Lists in a real browser, on either store: filters, what is marked, and all of ten thousand."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Browser, expect

from tests.dashboard.browser import reading
from tests.dashboard.driving import is_live, press
from tests.doors.world import Visitor
from wakeful.alarm.request import CreateRequest
from wakeful.store import AlarmQuery
from wakeful.testing import store_of

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
MANY = 10_000
WHOLE = 600_000  # milliseconds that so many may take on a busy machine


async def set_many(visit: Visitor, count: int, label: str) -> None:
    alarms = visit.clock.for_owner("local")
    for first in range(0, count, 500):
        numbers = range(first, min(first + 500, count))
        await alarms.create_many(
            [CreateRequest(wake_message=f"{label} {number}", label=label, when="in 20 hours") for number in numbers]
        )


async def paused(visit: Visitor) -> list[str]:
    found = await store_of(visit.clock).find(AlarmQuery(owner="local", statuses=("paused",), limit=2 * MANY))
    return [alarm.label for alarm in found]


async def test_a_list_is_filtered_and_what_is_marked_is_changed_and_changed_back(
    browser: Browser, both: Visitor
) -> None:
    await set_many(both, 12, "many")
    await set_many(both, 2, "few")
    async with reading(browser, both.url) as reader:
        page = await reader.open("/alarms")
        rows = page.locator("#rows tbody tr")
        await expect(rows).to_have_count(14)
        await page.get_by_label("Label", exact=True).fill("many")
        await press(page, "^Filter$")
        await expect(rows).to_have_count(12)
        assert "label=many" in page.url
        await is_live(page)
        await expect(page.locator("#bulk")).to_be_hidden()  # nothing is marked yet
        await page.get_by_label("Mark all").check()
        await expect(page.locator("#marked")).to_have_text("12")
        await page.locator("#typed input").fill("12")
        await page.locator("#bulk").get_by_role("button", name="Pause").click()
        await expect(page.locator("#bulk-said")).to_contain_text("12 alarms paused")
        assert "label=many" in page.url
        assert await paused(both) == ["many"] * 12
        await expect(page.locator("#rows")).to_contain_text("paused")
        await page.locator("#bulk-said").get_by_role("button", name="Undo").click()
        await expect(page.locator("#bulk-said")).to_contain_text("12 alarms resumed")
        assert await paused(both) == []


async def test_all_of_ten_thousand_are_changed_and_changed_back(browser: Browser, both: Visitor) -> None:
    await set_many(both, 3, "few")
    await set_many(both, MANY - 1, "many")  # further than ten thousand nobody counts
    async with reading(browser, both.url) as reader:
        page = await reader.open("/alarms?label=many")
        await expect(page.locator("#rows tbody tr")).to_have_count(50)  # a page of them, never all
        await page.locator(".whole").get_by_role("link", name=re.compile("pause")).click()
        await expect(page.get_by_role("heading", name="Pause all 9,999 alarms that match")).to_be_visible()
        number, go = page.get_by_label("Type 9999 to go on"), page.get_by_role("button", name="Pause 9,999")
        await number.fill("10")
        await go.click()
        assert await number.evaluate("(one) => one.validity.patternMismatch")  # the form is not even sent
        assert await paused(both) == []
        await number.fill("9999")
        await go.click()
        await expect(page.locator(".progress progress")).to_be_visible()
        await expect(page.locator(".progress")).to_contain_text(re.compile(r"\d of 9,999 alarms paused so far"))
        await expect(page.locator(".progress")).to_contain_text("9,999 of 9,999 alarms paused.", timeout=WHOLE)
        assert await paused(both) == ["many"] * (MANY - 1)
        await page.locator(".progress").get_by_role("button", name="Undo").click()
        await expect(page.locator(".progress progress")).to_be_visible()
        await expect(page.locator(".progress")).to_contain_text("9,999 of 9,999 alarms resumed.", timeout=WHOLE)
        assert await paused(both) == []
