"""What the browser tests have in common: how a page is waited for, buttons, keys, and a target that can be mended."""

from __future__ import annotations

import re
from datetime import timedelta

from playwright.async_api import Locator, Page, expect

from tests.interfaces.world import Visitor
from tests.remote.world import until
from wakeful.dispatcher import ServedTarget
from wakeful.model.alarm import Alarm
from wakeful.model.outcome import Completed, Failed, Outcome
from wakeful.rules.wake import Wake
from wakeful.store import FireQuery
from wakeful.testing import store_of, targets_of

SOON = 60_000  # milliseconds: how long a thing may take on a busy machine
QUICK = timedelta(milliseconds=50)
expect.set_options(timeout=SOON)


class Door:
    """A target that fails with what it is told to say, until it is mended."""

    def __init__(self, error: str = "the door is locked") -> None:
        self.error = error

    async def deliver(self, wake: Wake) -> Outcome:
        return Failed(self.error, retryable=False) if self.error else Completed("walked in")

    async def close(self) -> None: ...


def door(visit: Visitor, error: str = "the door is locked") -> Door:
    made = Door(error)
    targets_of(visit.alarms)["door"] = ServedTarget(made, 8)
    return made


# What is on record


async def alarm_of(visit: Visitor, id: str) -> Alarm:
    alarm = await store_of(visit.alarms).get(id)
    assert alarm is not None
    return alarm


async def status_of(visit: Visitor, id: str) -> str:
    return (await alarm_of(visit, id)).status


async def is_over(visit: Visitor, id: str) -> None:
    async def look() -> bool:
        return await status_of(visit, id) != "active"

    await until(look)


async def fired_as(visit: Visitor, status: str) -> None:
    """Wait until a fire ends like that."""

    async def look() -> bool:
        return bool(await store_of(visit.alarms).fires(FireQuery(statuses=(status,), limit=1)))

    await until(look)


# Pages


async def is_live(page: Page) -> None:
    """Its script listens, and the server tells it what changes."""
    await expect(page.locator("#live.on")).to_be_visible()


async def arrived(page: Page, at: str) -> None:
    """On that page, and its script listens."""
    await expect(page).to_have_url(re.compile(at))
    await is_live(page)


async def press(page: Page, name: str, *, within: Locator | None = None, sure: bool = False) -> None:
    """Press a button and wait until the page that follows has come; `sure`: it asks first."""
    await page.evaluate("document.body.dataset.before = 'yes'")
    await (within or page).get_by_role("button", name=re.compile(name)).first.click()
    if sure:
        await page.locator("#sure").get_by_role("button", name="Yes").click()
    await page.locator("body:not([data-before]) footer").wait_for()


async def press_in_menu(page: Page, menu: str, name: str) -> None:
    opened = page.locator("details", has=page.locator("summary", has_text=menu))
    await opened.locator("summary").click()
    await press(page, name, within=opened)


async def tab_to(page: Page, wanted: Locator) -> None:
    """Go there as one does without a mouse."""
    for _ in range(40):
        if await wanted.evaluate("(one) => one === document.activeElement"):
            return
        await page.keyboard.press("Tab")
    await expect(wanted).to_be_focused()
