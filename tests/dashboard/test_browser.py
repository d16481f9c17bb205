"""What one does at the dashboard, in a real browser, on either store: it is live, and it acts."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from playwright.async_api import Browser, Page, expect

from tests.dashboard.browser import reading
from tests.dashboard.driving import alarm_of, door, fired_as, is_live, is_over, press, press_in_menu, status_of
from tests.interfaces.world import Visitor
from wakeful.store import FireQuery
from wakeful.testing import store_of

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def keep(page: Page) -> None:
    """Leave a mark that would be gone if the page were loaded again."""
    await page.evaluate("window.kept = true")


async def is_kept(page: Page) -> bool:
    return bool(await page.evaluate("window.kept === true"))


# Live


async def test_an_alarm_is_set_by_a_phrase_and_seen_to_fire(browser: Browser, both: Visitor) -> None:
    async with reading(browser, both.url) as reader:
        page = await reader.open("/")
        await is_live(page)
        await keep(page)
        form = await reader.open("/new")
        await form.get_by_label("When").fill("every weekday at 9am")
        await expect(form.locator("#preview")).to_contain_text("09:00")
        await expect(form.locator("#preview li")).to_have_count(5)
        await form.get_by_label("When").fill("in 2 parsecs")
        await expect(form.locator("#preview .error")).to_be_visible()
        await form.get_by_label("When").fill("in 3 seconds")
        await expect(form.locator("#preview li")).to_have_count(1)
        await form.get_by_label("Message").fill("water the plants")
        await press(form, "Set the alarm")
        await expect(form.get_by_role("heading", name="water the plants")).to_be_visible()
        await expect(page.locator("#tail")).to_contain_text("water the plants")
        await expect(page.locator("#next")).not_to_contain_text("water the plants")
        assert await is_kept(page)


async def test_what_fails_needs_you_and_is_repaired_with_one_button(browser: Browser, both: Visitor) -> None:
    made = door(both)
    async with reading(browser, both.url) as reader:
        page = await reader.open("/")
        await is_live(page)
        await keep(page)
        needs = page.locator("#needs")
        await expect(needs).to_contain_text("Nothing.")
        await both.alarms.set(delay=0.01, wake_message="open up", target="door")
        await expect(needs).to_contain_text("open up")
        await expect(needs).to_contain_text("the door is locked")
        assert await is_kept(page)
        made.error = ""
        await needs.get_by_role("button", name="Retry").click()
        await expect(page.locator("#said")).to_contain_text("tried again")
        await expect(page.locator("#tail")).to_contain_text("walked in")
        await expect(page.locator("#needs")).to_contain_text("Nothing.")
    [fire] = await store_of(both.alarms).fires(FireQuery(limit=10))
    assert fire.status == "completed"


async def test_two_tabs_stay_in_step(browser: Browser, both: Visitor) -> None:
    async with reading(browser, both.url) as reader:
        first, second, listed = await reader.open("/"), await reader.open("/"), await reader.open("/alarms")
        for page in (first, second, listed):
            await is_live(page)
            await keep(page)
        made = await both.set(wake_message="seen by all")
        for part in (first.locator("#next"), second.locator("#next"), listed.locator("#rows")):
            await expect(part).to_contain_text("seen by all")
        await first.goto(f"{both.url}/alarms/{made['id']}")
        await press(first, "^Cancel", sure=True)
        await expect(second.locator("#next")).not_to_contain_text("seen by all")
        await expect(listed.locator("#rows")).to_contain_text("cancelled")
        assert await is_kept(second)
        assert await is_kept(listed)


async def test_more_tabs_may_be_open_than_a_browser_has_connections_to_one_server(
    browser: Browser, both: Visitor
) -> None:
    """A tab that nobody sees lets go of its stream, and catches up when it is looked at again."""
    async with reading(browser, both.url) as reader:
        pages = []
        for _ in range(8):  # six connections are what browsers have
            page = await reader.open("/")
            await is_live(page)
            await look_away(page, True)
            pages.append(page)
        await both.set(wake_message="set meanwhile")
        await look_away(pages[0], False)
        await expect(pages[0].locator("#next")).to_contain_text("set meanwhile")
        await is_live(pages[0])


async def look_away(page: Page, hidden: bool) -> None:
    """Windows of a driven browser are always seen: here the page is told what it would be told."""
    await page.evaluate(
        """(hidden) => {
            Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


# Acting


async def test_pause_resume_snooze_fire_cancel(browser: Browser, both: Visitor) -> None:
    id = (await both.set(wake_message="act on me"))["id"]
    async with reading(browser, both.url) as reader:
        page = await reader.open(f"/alarms/{id}")
        await press_in_menu(page, "Pause", "^Pause$")
        assert await status_of(both, id) == "paused"
        await expect(page.locator("#said")).to_contain_text("Paused")
        await press(page, "^Resume")
        assert await status_of(both, id) == "active"
        before = await alarm_of(both, id)
        await press_in_menu(page, "Snooze", "^1 hour")
        assert (await alarm_of(both, id)).next_fire_at - before.next_fire_at > timedelta(0)
        await press(page, "^Fire now")
        assert f"/alarms/{id}" in page.url
        await expect(page.locator("#said")).to_contain_text("Fires now")
        await press(page, "^Cancel", sure=True)
        assert await status_of(both, id) == "cancelled"
        await expect(page.get_by_role("button", name="Pause")).to_have_count(0)


async def test_what_cannot_be_taken_back_is_not_done_where_one_says_no(browser: Browser, both: Visitor) -> None:
    id = (await both.set(wake_message="leave me"))["id"]
    async with reading(browser, both.url) as reader:
        page = await reader.open(f"/alarms/{id}")
        await page.get_by_role("button", name=re.compile("^Cancel")).click()
        await page.locator("#sure").get_by_role("button", name="No").click()
        await expect(page.locator("#sure")).to_be_hidden()
        await press_in_menu(page, "Pause", "^Pause$")  # what comes after it is done
    assert await status_of(both, id) == "paused"


async def test_a_failed_fire_is_tried_again_from_its_alarm(browser: Browser, both: Visitor) -> None:
    made = door(both)
    alarm = await both.alarms.set(delay=0.01, wake_message="open up", target="door")
    await is_over(both, alarm.id)
    made.error = ""
    async with reading(browser, both.url) as reader:
        page = await reader.open(f"/alarms/{alarm.id}")
        await press(page, "^Retry")
        await fired_as(both, "completed")
        await expect(page.locator("#fire")).to_contain_text("walked in")  # nobody reloaded it


async def test_who_signs_in_stays_in_until_they_sign_out(browser: Browser, both: Visitor) -> None:
    token = (await both.token("ada"))["authorization"].removeprefix("Bearer ")
    async with reading(browser, both.url) as reader:
        page = await reader.open("/alarms")
        assert page.url.endswith("/login")
        await page.get_by_label("Token").fill(token)
        await press(page, "^Sign in$")
        await is_live(page)
        assert token not in await page.evaluate("document.cookie")  # no script reads it
        assert token not in await page.content()
        await press(page, "^Sign out$")
        assert page.url.endswith("/login")
        await page.goto(both.url + "/alarms")
        assert page.url.endswith("/login")


async def test_who_may_only_read_sees_it_live_and_has_no_button(browser: Browser, both: Visitor) -> None:
    door(both)
    failed = await both.alarms.for_owner("ada").set(delay=0.01, wake_message="open up", target="door")
    await is_over(both, failed.id)
    token = (await both.token("ada", "read"))["authorization"].removeprefix("Bearer ")
    async with reading(browser, both.url, token=token) as reader:
        for path in ("/", "/alarms", "/fires", f"/alarms/{failed.id}", "/targets", "/timeline"):
            page = await reader.open(path)
            await is_live(page)
            assert await page.locator("main form[method=post], main input[type=checkbox][name=id]").count() == 0, path
            assert await page.locator("a[href='/new'], a[href*='/bulk/'], a[href$='/edit']").count() == 0, path
            await page.close()
        page = await reader.open("/alarms")
        await is_live(page)
        await both.alarms.for_owner("ada").set("in 1 hour", "also seen")
        await expect(page.locator("#rows")).to_contain_text("also seen")
        await page.keyboard.press("j")
        for key in "xpcs":  # keys have nothing to press
            await page.keyboard.press(key)
        await expect(page.locator("tr.at-cursor")).to_contain_text("also seen")
    assert {await status_of(both, alarm.id) for alarm in await both.alarms.for_owner("ada").find(text="also")} == {
        "active"
    }
