"""What one does at the dashboard, in a real browser: it is live, it acts, it is calm about what others write."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from tests.dashboard.browser import browsing, reading
from tests.databases import database_of
from tests.doors.world import Visitor, serving
from wakeful.alarm import Completed, Failed, Outcome, Wake
from wakeful.dispatcher import ServedTarget
from wakeful.store import AlarmQuery, FireQuery
from wakeful.testing import store_of, targets_of

pytestmark = pytest.mark.browser
SOON = 60_000  # milliseconds: how long a thing may take on a busy machine
QUICK = timedelta(milliseconds=50)


class Door:
    """A target that fails with what it is told to say, until it is mended."""

    def __init__(self, error: str = "the door is locked") -> None:
        self.error = error

    async def deliver(self, wake: Wake) -> Outcome:
        return Failed(self.error, retryable=False) if self.error else Completed("walked in")

    async def close(self) -> None: ...


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with browsing() as found:
        yield found


@pytest.fixture(params=["sqlite", "postgres"])
async def both(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Visitor]:
    async with serving(**database_of(request, tmp_path), tick=QUICK) as visitor:
        yield visitor


@pytest.fixture
async def visit(tmp_path: Path) -> AsyncIterator[Visitor]:
    async with serving(str(tmp_path / "w.db"), tick=QUICK) as visitor:
        yield visitor


def door(visit: Visitor, error: str = "the door is locked") -> Door:
    made = Door(error)
    targets_of(visit.clock)["door"] = ServedTarget(made, 8)
    return made


async def status_of(visit: Visitor, id: str) -> str:
    alarm = await store_of(visit.clock).get(id)
    assert alarm is not None
    return alarm.status


async def press(page: Page, name: str) -> None:
    """Press a button and wait until the page that follows has come."""
    await page.evaluate("document.body.dataset.before = 'yes'")
    await page.get_by_role("button", name=re.compile(name)).first.click()
    await page.locator("body:not([data-before]) footer").wait_for()


async def is_live(page: Page) -> None:
    await expect(page.locator("#live.on")).to_be_visible(timeout=SOON)


# Live


async def test_an_alarm_is_set_by_a_phrase_and_seen_to_fire(browser: Browser, both: Visitor) -> None:
    async with reading(browser, both.url) as reader:
        page = await reader.open("/")
        await is_live(page)
        form = await reader.open("/new")
        await form.get_by_label("When").fill("every weekday at 9am")
        await expect(form.locator("#preview")).to_contain_text("09:00", timeout=SOON)
        await expect(form.locator("#preview li")).to_have_count(5)
        await form.get_by_label("When").fill("in 2 parsecs")
        await expect(form.locator("#preview .error")).to_be_visible(timeout=SOON)
        await form.get_by_label("When").fill("in 3 seconds")
        await expect(form.locator("#preview li")).to_have_count(1, timeout=SOON)
        await form.get_by_label("Message").fill("water the plants")
        await press(form, "Set the alarm")
        await expect(form.get_by_role("heading", name="water the plants")).to_be_visible()
        await expect(page.locator("#next")).to_contain_text("water the plants", timeout=SOON)
        await expect(page.locator("#tail")).to_contain_text("water the plants", timeout=SOON)  # nobody reloaded it
        await expect(page.locator("#next")).not_to_contain_text("water the plants", timeout=SOON)


async def test_what_fails_needs_you_and_is_repaired_with_one_button(browser: Browser, both: Visitor) -> None:
    made = door(both)
    async with reading(browser, both.url) as reader:
        page = await reader.open("/")
        await is_live(page)
        await expect(page.locator("#needs")).to_contain_text("Nothing.")
        await both.clock.set(delay=0.01, wake_message="open up", target="door")
        needs = page.locator("#needs")
        await expect(needs).to_contain_text("open up", timeout=SOON)
        await expect(needs).to_contain_text("the door is locked")
        made.error = ""
        await needs.get_by_role("button", name="Retry").click()
        await expect(page.locator("#said")).to_contain_text("tried again", timeout=SOON)
        await expect(page.locator("#tail")).to_contain_text("walked in", timeout=SOON)
        await expect(page.locator("#needs")).to_contain_text("Nothing.", timeout=SOON)
    [fire] = await store_of(both.clock).fires(FireQuery(limit=10))
    assert fire.status == "completed"


async def test_two_windows_stay_in_step(browser: Browser, visit: Visitor) -> None:
    door(visit)
    await visit.clock.set(delay=0.01, wake_message="open up", target="door")
    async with reading(browser, visit.url) as one, reading(browser, visit.url) as other:
        first, second = await one.open("/"), await other.open("/")
        for page in (first, second):
            await is_live(page)
            await expect(page.locator("#needs")).to_contain_text("open up", timeout=SOON)
        made = await visit.set(wake_message="seen by both")
        for page in (first, second):
            await expect(page.locator("#next")).to_contain_text("seen by both", timeout=SOON)
        await first.goto(f"{visit.url}/alarms/{made['id']}")
        await press(first, "^Cancel")
        await expect(second.locator("#next")).not_to_contain_text("seen by both", timeout=SOON)


async def test_a_page_recovers_by_itself_when_the_server_comes_back(browser: Browser, tmp_path: Path) -> None:
    db = str(tmp_path / "w.db")
    async with serving(db, tick=QUICK) as visit:
        url, port = visit.url, visit.clock.settings.port
        context = reading(browser, url, cut=True)
        reader = await context.__aenter__()
        page = await reader.open("/")
        await is_live(page)
    await expect(page.locator("#live.cut")).to_contain_text("ago", timeout=SOON)
    async with serving(db, port=port, tick=QUICK) as visit:
        await visit.set(wake_message="set while it was away")
        await is_live(page)
        await expect(page.locator("#next")).to_contain_text("set while it was away", timeout=SOON)
        await context.__aexit__(None, None, None)


# Acting


async def test_pause_resume_snooze_fire_cancel(browser: Browser, visit: Visitor) -> None:
    made = await visit.set(wake_message="act on me")
    id = made["id"]
    async with reading(browser, visit.url) as reader:
        page = await reader.open(f"/alarms/{id}")
        await press(page, "^Pause")
        assert await status_of(visit, id) == "paused"
        await expect(page.locator("#said")).to_contain_text("Paused")
        await press(page, "^Resume")
        assert await status_of(visit, id) == "active"
        before = await store_of(visit.clock).get(id)
        await press(page, "^Snooze")
        after = await store_of(visit.clock).get(id)
        assert before is not None
        assert after is not None
        assert after.next_fire_at > before.next_fire_at
        await press(page, "^Fire now")
        assert page.url.rpartition("/")[2] != id  # the copy that fires
        await page.goto(f"{visit.url}/alarms/{id}")
        await press(page, "^Cancel")
        assert await status_of(visit, id) == "cancelled"
        await expect(page.get_by_role("button", name="Pause")).to_have_count(0)


async def test_a_failed_fire_is_tried_again_from_its_alarm(browser: Browser, visit: Visitor) -> None:
    made = door(visit)
    alarm = await visit.clock.set(delay=0.01, wake_message="open up", target="door")
    async with asyncio.timeout(60):
        while await status_of(visit, alarm.id) == "active":
            pass
    made.error = ""
    async with reading(browser, visit.url) as reader:
        page = await reader.open(f"/alarms/{alarm.id}")
        await press(page, "^Retry")
        async with asyncio.timeout(60):
            while not await store_of(visit.clock).fires(FireQuery(statuses=("completed",), limit=1)):
                pass


async def test_a_list_is_filtered_and_many_are_changed_at_once(browser: Browser, visit: Visitor) -> None:
    for number in range(14):
        await visit.set(wake_message=f"number {number}", label="many" if number < 12 else "few")
    async with reading(browser, visit.url) as reader:
        page = await reader.open("/alarms")
        rows = page.locator("tbody tr[data-id]")
        await expect(rows).to_have_count(14)
        await page.get_by_label("Label").fill("many")
        await press(page, "^Filter$")
        await expect(rows).to_have_count(12)
        assert "label=many" in page.url
        await expect(page.locator("#bulk")).to_be_hidden()  # nothing is marked yet
        await page.get_by_label("Mark all").check()
        await expect(page.locator("#marked")).to_contain_text("12")
        await page.locator("#typed input").fill("12")
        async with page.expect_navigation():
            await page.locator("#bulk").get_by_role("button", name="Pause").click()
        assert "label=many" in page.url
        await expect(page.locator("#said")).to_contain_text("12")
    paused = await store_of(visit.clock).find(AlarmQuery(owner="local", statuses=("paused",), limit=100))
    assert {alarm.label for alarm in paused} == {"many"}
    assert len(paused) == 12


async def arrived(page: Page, at: str) -> None:
    """On that page, and its script listens."""
    await expect(page).to_have_url(re.compile(at), timeout=SOON)
    await is_live(page)


async def test_everything_is_done_by_keyboard(browser: Browser, visit: Visitor) -> None:
    async with reading(browser, visit.url) as reader:
        page = await reader.open("/")
        await arrived(page, "/$")
        await page.keyboard.press("n")
        await arrived(page, "/new$")
        await expect(page.get_by_label("When")).to_be_focused(timeout=SOON)  # the first field, by itself
        await page.keyboard.type("in 3 hours")
        await page.keyboard.press("Tab")
        await expect(page.get_by_label("Message")).to_be_focused(timeout=SOON)
        await page.keyboard.type("by keyboard alone")
        for _ in range(7):  # target, zone, label, key, conversation, payload, and the button
            await page.keyboard.press("Tab")
        await expect(page.get_by_role("button", name="Set the alarm")).to_be_focused(timeout=SOON)
        await page.keyboard.press("Enter")
        await arrived(page, "/alarms/[0-9a-f-]+$")
        await page.keyboard.press("g")
        await page.keyboard.press("a")
        await arrived(page, "/alarms$")
        await page.keyboard.press("j")
        await expect(page.locator("tr.at-cursor")).to_contain_text("by keyboard alone")
        await page.keyboard.press("x")
        await expect(page.locator("#marked")).to_contain_text("1")
        await page.keyboard.press("Enter")
        await arrived(page, "/alarms/[0-9a-f-]+$")
        await page.keyboard.press("p")
        await expect(page.locator("#said")).to_contain_text("Paused", timeout=SOON)
        await is_live(page)
        [alarm] = await store_of(visit.clock).find(AlarmQuery(owner="local", limit=10))
        assert (alarm.wake_message, alarm.status) == ("by keyboard alone", "paused")
        await page.keyboard.press("?")
        await expect(page.locator("#help")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.locator("#help")).to_be_hidden()


async def test_who_signs_in_stays_in_until_they_sign_out(browser: Browser, visit: Visitor) -> None:
    token = (await visit.token("ada"))["authorization"].removeprefix("Bearer ")
    async with reading(browser, visit.url) as reader:
        page = await reader.open("/alarms")
        assert page.url.endswith("/login")
        await page.get_by_label("Token").fill(token)
        await press(page, "^Sign in$")
        await is_live(page)
        assert await page.evaluate("document.cookie") == ""  # no script reads it
        await press(page, "^Sign out$")
        assert page.url.endswith("/login")
        await page.goto(visit.url + "/alarms")
        assert page.url.endswith("/login")


# What others write

NASTY = (
    "<script>alert(1)</script><b data-xss>bold</b>",
    "\"><img src=x onerror=alert(1) data-xss>' onmouseover='alert(1)",
    "javascript:alert(1)",
    "<svg/onload=alert(1) data-xss><a xlink:href='javascript:alert(1)' data-xss>x</a></svg>",
    "{{ 7 * 7 }} {% raw %} ${7*7} <!-- ]]> </textarea></title></style><script>alert(1)</script>",
    "\x1b[31mred\x1b[0m \u202edesrever\u2066 \u0007bell",
    "<iframe srcdoc='<script>parent.alert(1)</script>' data-xss></iframe><form action=//evil.example data-xss>",
    "<div hx-get='/logout' hx-trigger='load' data-xss hx-on:click='alert(1)'>x</div>",
    "<meta http-equiv=refresh content=0 data-xss><base href=//evil.example data-xss>",
)


async def _write(visit: Visitor, nasty: str) -> str:
    texts: dict[str, Any] = {"label": nasty, "conversation_id": nasty, "key": nasty}
    alarm = await visit.clock.set(delay=0.01, wake_message=nasty, target="door", payload={nasty: [nasty]}, **texts)
    await visit.clock.set("every day at 9am", nasty, label=nasty)
    async with asyncio.timeout(60):
        while await status_of(visit, alarm.id) == "active":
            pass
    return alarm.id


@pytest.mark.parametrize("nasty", NASTY, ids=range(len(NASTY)))
async def test_what_others_write_is_shown_and_never_run(browser: Browser, visit: Visitor, nasty: str) -> None:
    door(visit, nasty)
    id = await _write(visit, nasty)
    await visit.clock.service.targets.pause("door", by=nasty, reason=nasty)
    async with reading(browser, visit.url) as reader:
        for path in (
            "/",
            "/alarms",
            "/fires",
            f"/alarms/{id}",
            "/targets",
            "/health",
            f"/new?when=now&label={'x' * 9}",
        ):
            page = await reader.open(path)
            await is_live(page)
            assert (
                await page.locator("[data-xss], iframe, [onerror], [onload], [onmouseover], main img").count() == 0
            ), path
            for link in await page.locator("main a[href]").all():
                href = await link.get_attribute("href")
                assert href is not None
                assert href.startswith("/"), (path, href)
            text = await page.locator("main").inner_text()
            assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", text), path
            await page.close()
        page = await reader.open("/alarms")
        shown = nasty.replace("\x1b", "␦").replace("\u202e", "␦").replace("\u2066", "␦").replace("\u0007", "␦")
        assert " ".join(shown.split())[:40] in " ".join((await page.locator("main").inner_text()).split())
        page = await reader.open(f"/alarms/{id}")
        [again] = await page.get_by_role("link", name="Duplicate").all()
        await again.click()
        await expect(page.locator("textarea[name=wake_message]")).to_be_visible()
        assert await page.locator("[data-xss], iframe").count() == 0
