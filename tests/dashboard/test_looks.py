"""For everyone: enough contrast, names for what is pressed, both themes, the width of a phone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from tests.dashboard.browser import browsing, reading
from tests.dashboard.driving import door, is_live
from tests.interfaces.world import Visitor, serving
from tests.remote.world import until
from wakeful.store import FireQuery
from wakeful.testing import store_of

pytestmark = pytest.mark.browser
AXE = (Path(__file__).parent / "axe.min.js").read_text()
LONG = "a_long_word_that_nobody_can_break_" * 6
# What reaches beyond the screen and is not in a part that scrolls by itself.
WIDE = """[...document.querySelectorAll("main *")].filter(
    (one) => one.getBoundingClientRect().right > 360 && !one.closest(".scroll, pre")
).map((one) => one.outerHTML.slice(0, 200))"""
# What has the focus without a line around it.
UNSEEN = """(() => {
    const one = document.activeElement, style = getComputedStyle(one);
    const isUnseen = style.outlineStyle === "none" || style.outlineWidth === "0px";
    return one !== document.body && isUnseen ? one.outerHTML.slice(0, 200) : "";
})()"""
VIEWS = (
    "/",
    "/alarms",
    "/alarms?text=nothing-like-it",
    "/fires",
    "/targets",
    "/health",
    "/new",
    "/timeline",
    "/timeline?month=2026-11",
    "/timeline/coming?since=2026-11-16T09:00:00Z&until=2036-11-16T10:00:00Z",
    "/owners",
    "/timeline?week=soon",
    "alarm",
    "empty",
    "login",
)


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with browsing() as found:
        yield found


@pytest.fixture
async def full(tmp_path: Path) -> AsyncIterator[tuple[Visitor, str]]:
    """A server where every view has something to show."""
    async with serving(str(tmp_path / "w.db"), tick=timedelta(milliseconds=50)) as visit:
        door(visit)
        failed = await visit.alarms.set(delay=0.01, wake_message=LONG, target="door", label=LONG)
        await visit.alarms.set("every day at 9am", "Morning brief", payload={"page": 3}, conversation_id="c1")
        paused = await visit.alarms.set("in 2 hours", "later")
        await visit.alarms.pause(paused.id, reason="holidays")
        await visit.fired()
        while len(await store_of(visit.alarms).fires(FireQuery(limit=10))) < 2:
            pass
        yield visit, f"/alarms/{failed.id}"


async def violations(page: Page) -> list[str]:
    await page.evaluate(AXE)
    found = await page.evaluate("axe.run().then(result => result.violations)")
    return [
        f"{one['id']} ({one['impact']}): {[node['html'][:160] for node in one['nodes'][:3]]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_view_can_be_read_and_used_by_everyone(
    browser: Browser, full: tuple[Visitor, str], tmp_path: Path, scheme: str
) -> None:
    visit, alarm = full
    async with reading(browser, visit.url, refused=True, color_scheme=scheme) as reader:
        for view in VIEWS[:-2]:
            page = await reader.open(alarm if view == "alarm" else view)
            await is_live(page)
            assert await violations(page) == [], view
            await page.close()
        page = await reader.open("/")
        ground = "getComputedStyle(document.body).backgroundColor"
        before = await page.evaluate(ground)
        await page.locator("#theme").click()
        after = await page.evaluate(ground)
        assert {before, after} == {"rgb(255, 255, 255)", "rgb(15, 19, 24)"}
        await page.reload()
        assert await page.evaluate(ground) == after  # it is remembered
    async with serving(str(tmp_path / "empty.db")) as empty:
        async with reading(browser, empty.url, color_scheme=scheme) as reader:
            for view in ("/", "/alarms", "/fires", "/targets"):
                assert await violations(await reader.open(view)) == [], view
        await empty.token("ada")

        async def asks_for_a_token() -> bool:
            return (await empty("GET", "/alarms", allow_redirects=False)).status != 200

        await until(asks_for_a_token)
        async with reading(browser, empty.url, color_scheme=scheme) as reader:
            assert await violations(await reader.open("/login")) == []


async def test_on_a_phone_no_page_is_wider_than_the_screen(browser: Browser, full: tuple[Visitor, str]) -> None:
    visit, alarm = full
    async with reading(browser, visit.url, refused=True, viewport={"width": 360, "height": 740}) as reader:
        for view in VIEWS[:-2]:
            page = await reader.open(alarm if view == "alarm" else view)
            assert await violations(page) == [], view
            width = await page.evaluate("document.documentElement.scrollWidth")
            assert width <= 360, (view, width, await page.evaluate(WIDE))
            for title in await page.locator("td.title").all():  # a word in it is not broken into letters
                box = await title.bounding_box()
                assert box is None or box["width"] > 100, (view, await title.inner_text())
            await page.close()


async def test_pages_are_read_without_scripts(browser: Browser, full: tuple[Visitor, str]) -> None:
    visit, alarm = full
    async with reading(browser, visit.url, refused=True, java_script_enabled=False) as reader:
        for view in VIEWS[:-2]:
            page = await reader.open(alarm if view == "alarm" else view)
            assert await page.locator("h1").count() == 1, view
        page = await reader.open("/new")
        await page.get_by_label("When").fill("in 1 hour")
        await page.get_by_label("Message").fill("without a script")
        async with page.expect_navigation():
            await page.get_by_role("button", name="Set the alarm").click()
        assert await page.get_by_role("heading", name="without a script").count() == 1


async def top_of(page: Page, selector: str) -> float:
    box = await page.locator(selector).bounding_box()
    assert box is not None, selector
    return box["y"]


async def test_what_just_happened_is_seen_without_scrolling(browser: Browser, full: tuple[Visitor, str]) -> None:
    visit, _ = full
    async with reading(browser, visit.url) as reader:
        page = await reader.open("/")
        for part in ("#needs", "#next", "#tail"):
            assert await top_of(page, part) < 400, part
        assert await page.locator("#tail tr[data-href]").first.is_visible()


async def test_nothing_moves_when_something_is_said_or_fires(browser: Browser, full: tuple[Visitor, str]) -> None:
    visit, _ = full
    async with reading(browser, visit.url) as reader:
        page = await reader.open("/alarms")
        await is_live(page)
        before = [await top_of(page, one) for one in ("h1", "#rows")]
        await page.evaluate("tell('Paused.')")
        assert await page.locator("#said").is_visible()
        assert [await top_of(page, one) for one in ("h1", "#rows")] == before
        page = await reader.open("/")
        await is_live(page)
        wide = [await page.locator(one).bounding_box() for one in ("#needs", "#tail")]
        await visit.alarms.set(delay=0.01, wake_message="a wake with a longer name than those before it " * 4)
        await expect(page.locator("#tail")).to_contain_text("a wake with a longer name", timeout=60_000)
        after = [await page.locator(one).bounding_box() for one in ("#needs", "#tail")]
        assert [one and (one["x"], one["y"], one["width"]) for one in after] == [
            one and (one["x"], one["y"], one["width"]) for one in wide
        ]


async def test_the_button_that_sets_an_alarm_is_seen_at_once(browser: Browser, full: tuple[Visitor, str]) -> None:
    visit, _ = full
    for size in ({"width": 1280, "height": 600}, {"width": 360, "height": 640}):
        async with reading(browser, visit.url, viewport=size) as reader:
            page = await reader.open("/new?when=every%20weekday%20at%209am")
            await expect(page.locator("#preview li")).to_have_count(5, timeout=60_000)
            box = await page.get_by_role("button", name="Set the alarm").bounding_box()
            assert box is not None
            assert box["y"] + box["height"] <= size["height"], size


# The button says for 2 s what was done: here until `timeIsUp` is called.
HELD = """() => {
  const real = setTimeout;
  window.setTimeout = (then, ms) => ms === 2000 ? (window.timeIsUp = then, 0) : real(then, ms);
}"""
# Until the part with the button was asked for again. One change a second is enough for it: it is told until it listens.
ASKED_AGAIN = """() => new Promise((done) => {
  const telling = setInterval(changed, 100);
  document.body.addEventListener("htmx:after:swap", () => { clearInterval(telling); done(); }, { once: true });
})"""


async def test_an_id_is_copied_whole(browser: Browser, full: tuple[Visitor, str]) -> None:
    visit, alarm = full
    given: dict[str, Any] = {"permissions": ["clipboard-read", "clipboard-write"]}
    async with reading(browser, visit.url, **given) as reader:
        page = await reader.open(alarm)
        await page.evaluate(HELD)
        button = page.locator("[data-copy=alarm-id]")
        await button.click()
        await expect(button).to_have_text("Copied", timeout=60_000)
        assert await page.evaluate("navigator.clipboard.readText()") == alarm.removeprefix("/alarms/")
        await page.evaluate(ASKED_AGAIN)
        assert await button.inner_text() == "Copied"
        await page.evaluate("timeIsUp()")
        assert await button.inner_text() == "Copy"


async def test_a_first_visit_is_in_the_readers_zone(browser: Browser, full: tuple[Visitor, str]) -> None:
    visit, _ = full
    async with reading(browser, visit.url, timezone_id="Asia/Kolkata") as reader:
        page = await reader.open("/")
        await expect(page.locator(".bars title").first).to_contain_text("IST", timeout=60_000)


async def test_on_paper_there_is_what_is_read_and_nothing_to_press(browser: Browser, full: tuple[Visitor, str]) -> None:
    visit, alarm = full
    async with reading(browser, visit.url, color_scheme="dark") as reader:
        for view in ("/", "/alarms", "/fires", alarm):
            page = await reader.open(view)
            await page.emulate_media(media="print")
            for hidden in (".top", "footer", "main .button:visible"):
                assert await page.locator(hidden).locator("visible=true").count() == 0, (view, hidden)
            assert await page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)", view


async def test_what_has_the_focus_is_seen(browser: Browser, full: tuple[Visitor, str]) -> None:
    visit, alarm = full
    async with reading(browser, visit.url) as reader:
        for view in ("/", "/alarms", "/timeline", "/new", "/targets", alarm):
            page = await reader.open(view)
            for _ in range(30):
                await page.keyboard.press("Tab")
                seen = await page.evaluate(UNSEEN)
                assert seen == "", view
