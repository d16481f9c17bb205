"""Without a mouse, in a real browser: set an alarm, find it, open it, snooze, pause and cancel it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from playwright.async_api import Browser, expect

from tests.dashboard.browser import reading
from tests.dashboard.driving import alarm_of, arrived, is_live, tab_to
from tests.interfaces.world import Visitor

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
OUTLINED = """() => {
    const one = document.activeElement, style = getComputedStyle(one);
    return one === document.body || (style.outlineStyle !== "none" && style.outlineWidth !== "0px");
}"""
ALARM = "/alarms/[0-9a-f-]+[?]?$"


async def test_everything_is_done_by_keyboard(browser: Browser, both: Visitor) -> None:
    await both.set(wake_message="another one")
    async with reading(browser, both.url) as reader:
        page = await reader.open("/")
        await arrived(page, "/$")
        await page.keyboard.press("n")
        await arrived(page, "/new$")
        await expect(page.get_by_label("When")).to_be_focused()  # the first field, by itself
        await page.keyboard.type("in 10 minutes")
        await tab_to(page, page.get_by_label("Message"))
        await page.keyboard.type("by keyboard alone")
        await tab_to(page, page.get_by_role("button", name="Set the alarm"))
        await page.keyboard.press("Enter")
        await arrived(page, ALARM)
        id = page.url.rpartition("/")[2]
        # Found
        await page.keyboard.press("g")
        await page.keyboard.press("a")
        await arrived(page, "/alarms$")
        await page.keyboard.press("/")
        await expect(page.get_by_label("Text")).to_be_focused()
        await page.keyboard.type("keyboard")
        await page.keyboard.press("Enter")
        await arrived(page, "text=keyboard")
        await page.keyboard.press("j")
        await expect(page.locator("tr.at-cursor")).to_contain_text("by keyboard alone")
        await page.keyboard.press("x")
        await expect(page.locator("#marked")).to_have_text("1")
        await page.keyboard.press("x")
        await expect(page.locator("#bulk")).to_be_hidden()
        await page.keyboard.press("Enter")
        await arrived(page, ALARM)
        # Acted on
        before = (await alarm_of(both, id)).next_fire_at
        await page.keyboard.press("s")
        await page.keyboard.press("Enter")  # the first of the lengths
        await expect(page.locator("#said")).to_contain_text("Snoozed")
        assert (await alarm_of(both, id)).next_fire_at != before
        await is_live(page)
        await page.keyboard.press("p")
        await page.keyboard.type("out of office")
        await page.keyboard.press("Enter")
        await expect(page.locator("#said")).to_contain_text("Paused")
        assert (await alarm_of(both, id)).paused_reason == "out of office"
        await is_live(page)
        await page.keyboard.press("p")
        await expect(page.locator("#said")).to_contain_text("Resumed")
        await is_live(page)
        await page.keyboard.press("?")
        await expect(page.locator("#help")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.locator("#help")).to_be_hidden()
        await page.keyboard.press("c")
        await tab_to(page, page.locator("#sure").get_by_role("button", name="Yes"))
        await page.keyboard.press("Enter")
        await expect(page.locator("#said")).to_contain_text("Cancelled")
        assert (await alarm_of(both, id)).status == "cancelled"


async def test_a_row_is_acted_on_from_the_list_and_can_be_undone(browser: Browser, both: Visitor) -> None:
    await both.set(wake_message="older")
    id = (await both.set(wake_message="newer", when="in 10 minutes"))["id"]
    async with reading(browser, both.url) as reader:
        page = await reader.open("/alarms")
        await is_live(page)
        for key in "jjk":
            await page.keyboard.press(key)
        await expect(page.locator("tr.at-cursor")).to_contain_text("newer")
        before = (await alarm_of(both, id)).next_fire_at
        await page.keyboard.press("s")
        await expect(page.locator("#bulk-said")).to_contain_text("1 alarms snoozed")
        assert (await alarm_of(both, id)).next_fire_at - before > timedelta(minutes=45)
        await expect(page.locator("tr.at-cursor")).to_contain_text("newer")  # it stays where it was


async def test_where_one_is_can_be_seen(browser: Browser, both: Visitor) -> None:
    """Whatever has the focus has a line around it, on each page."""
    id = (await both.set(wake_message="look at me"))["id"]
    async with reading(browser, both.url) as reader:
        for path in ("/", "/alarms", f"/alarms/{id}", "/new", "/targets"):
            page = await reader.open(path)
            await is_live(page)
            for _ in range(12):
                await page.keyboard.press("Tab")
                assert await page.evaluate(OUTLINED), (
                    path,
                    await page.evaluate("document.activeElement.outerHTML.slice(0, 200)"),
                )
            await page.close()
