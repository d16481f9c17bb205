"""Lists in a real browser, on either store: filters, what is marked, and all of ten thousand."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from tests.dashboard.browser import reading
from tests.dashboard.driving import SOON, is_live, press
from tests.interfaces.world import Visitor
from wakeful.model.requests import CreateRequest
from wakeful.service.bulk import SLICE
from wakeful.store import AlarmQuery
from wakeful.testing import store_of

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
MANY = 10_000
WHOLE = 600_000  # milliseconds that so many may take on a busy machine


async def set_many(visit: Visitor, count: int, label: str) -> None:
    alarms = visit.alarms.for_owner("local")
    for first in range(0, count, 500):
        numbers = range(first, min(first + 500, count))
        await alarms.create_many(
            [CreateRequest(wake_message=f"{label} {number}", label=label, when="in 20 hours") for number in numbers]
        )


async def paused(visit: Visitor) -> list[str]:
    found = await store_of(visit.alarms).find(AlarmQuery(owner="local", statuses=("paused",), limit=2 * MANY))
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
        await page.get_by_role("textbox", name="Label").fill("many")
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


async def acted_on(page: Page, button: Locator, total: int, done: str) -> None:
    """Press it, see how far it is after the first slice, and wait until all is done."""
    async with page.expect_response("**/bulk/alarms", timeout=SOON) as first:
        await button.click()
    told = await (await first.value).text()
    assert "<progress" in told
    assert f"<b>{SLICE} of {total:,} alarms</b> {done} so far" in told
    await expect(page.locator(".progress")).to_contain_text(f"{total:,} of {total:,} alarms {done}.", timeout=WHOLE)
    await expect(page.locator(".progress progress")).to_have_count(0)


@pytest.mark.parametrize("some", [1000, pytest.param(MANY - 1, marks=pytest.mark.long)])
async def test_of_ten_thousand_those_that_match_are_changed_and_changed_back(
    browser: Browser, both: Visitor, some: int
) -> None:
    await set_many(both, MANY - some, "rest")
    await set_many(both, some, "some")
    async with reading(browser, both.url) as reader:
        page = await reader.open("/alarms?label=some")
        await expect(page.locator("#rows tbody tr")).to_have_count(50)  # a page of them, never all
        await page.locator(".whole").get_by_role("link", name=re.compile("pause")).click()
        await expect(page.get_by_role("heading", name=f"Pause all {some:,} alarms that match")).to_be_visible()
        number, go = page.get_by_label(f"Type {some} to go on"), page.get_by_role("button", name=f"Pause {some:,}")
        await number.fill("10")
        await go.click()
        assert await number.evaluate("(one) => one.validity.patternMismatch")  # the form is not even sent
        assert await paused(both) == []
        await number.fill(str(some))
        await acted_on(page, go, some, "paused")
        assert await paused(both) == ["some"] * some
        await acted_on(page, page.locator(".progress").get_by_role("button", name="Undo"), some, "resumed")
        assert await paused(both) == []
