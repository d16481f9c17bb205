"""The timeline by hand: a span of hours is chosen with a mouse, a finger or keys, and its fires are listed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from tests.dashboard.browser import browsing, reading
from tests.dashboard.test_timeline import fired
from tests.interfaces.world import Visitor, serving

pytestmark = pytest.mark.browser
SOON = 60_000
WEEK = "/timeline?week=2026-W13&tz=Europe/Berlin"  # its Sunday has no hour from 2 to 3
MONDAY = datetime(2026, 3, 22, 23, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with browsing() as found:
        yield found


@pytest.fixture
async def visit(tmp_path: Path) -> AsyncIterator[Visitor]:
    async with serving(str(tmp_path / "w.db")) as visitor:
        await fired(visitor, "local", MONDAY + 8.25 * HOUR, "completed", "failed")
        await fired(visitor, "local", MONDAY + 10.25 * HOUR, "completed")
        yield visitor


def hour_of(page: Page, day: int, hour: int) -> Locator:
    return page.locator(".heat tbody tr").nth(day).locator("td").nth(hour)


async def middle(cell: Locator) -> tuple[float, float]:
    box = await cell.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def asked(page: Page) -> tuple[str, str, str]:
    parts = urlsplit(page.url)
    said = parse_qs(parts.query)
    return parts.path, said["since"][0], said["until"][0]


async def drag(page: Page, start: Locator, end: Locator) -> None:
    await page.mouse.move(*await middle(start))
    await page.mouse.down()
    await page.mouse.move(*await middle(end), steps=4)


async def test_hours_that_are_dragged_over_are_listed(browser: Browser, visit: Visitor) -> None:
    async with reading(browser, visit.url) as reader:
        page = await reader.open(WEEK)
        await drag(page, hour_of(page, 0, 8), hour_of(page, 0, 10))
        await expect(page.locator("td.chosen")).to_have_count(3)
        await expect(page.locator(".span-said")).to_contain_text("Mon 08:00 – Mon 11:00: 3 hours, 3 fired, 0 to come")
        async with page.expect_navigation():
            await page.mouse.up()
        assert asked(page) == ("/fires", "2026-03-23T07:00:00Z", "2026-03-23T10:00:00Z")
        await expect(page.locator("tr[data-href]")).to_have_count(3)


async def test_a_drag_backwards_over_days_is_the_time_between(browser: Browser, visit: Visitor) -> None:
    async with reading(browser, visit.url) as reader:
        page = await reader.open(WEEK)
        await drag(page, hour_of(page, 6, 3), hour_of(page, 5, 23))  # over the hour that the clocks skip
        await expect(page.locator("td.chosen")).to_have_count(4)
        async with page.expect_navigation():
            await page.mouse.up()
        # Nothing fired in it: what is planned is listed.
        assert asked(page) == ("/timeline/coming", "2026-03-28T22:00:00Z", "2026-03-29T02:00:00Z")


async def test_a_click_is_still_a_click(browser: Browser, visit: Visitor) -> None:
    async with reading(browser, visit.url) as reader:
        page = await reader.open(WEEK)
        async with page.expect_navigation():
            await hour_of(page, 0, 8).locator("a").click()
        assert asked(page) == ("/fires", "2026-03-23T07:00:00Z", "2026-03-23T08:00:00Z")


async def test_a_span_is_chosen_by_keys_and_let_go(browser: Browser, visit: Visitor) -> None:
    async with reading(browser, visit.url) as reader:
        page = await reader.open(WEEK)
        await hour_of(page, 0, 8).locator("a").focus()
        for key in ("Shift+ArrowRight", "Shift+ArrowRight", "Shift+ArrowDown"):
            await page.keyboard.press(key)
        await expect(page.locator("td.chosen")).to_have_count(27)
        await expect(hour_of(page, 1, 10)).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(page.locator("td.chosen")).to_have_count(0)
        await page.keyboard.press("ArrowUp")
        await page.keyboard.press("Shift+ArrowLeft")
        async with page.expect_navigation():
            await page.keyboard.press("Enter")
        assert asked(page) == ("/fires", "2026-03-23T08:00:00Z", "2026-03-23T10:00:00Z")


async def test_keys_go_on_where_they_were_when_the_calendar_was_drawn_anew(browser: Browser, visit: Visitor) -> None:
    async with reading(browser, visit.url) as reader:
        page = await reader.open(WEEK)
        await hour_of(page, 0, 8).locator("a").focus()
        await page.keyboard.press("Shift+ArrowRight")
        await expect(hour_of(page, 0, 9)).to_be_focused()
        await page.evaluate(
            """() => new Promise((drawn) => {
                const rendered = () => requestAnimationFrame(() => drawn());
                document.body.addEventListener("htmx:after:swap", rendered, {once: true});
                document.body.dispatchEvent(new CustomEvent("wakeful:changed"));
            })"""
        )
        await page.keyboard.press("Shift+ArrowRight")
        await expect(page.locator("td.chosen")).to_have_count(3)


async def test_the_hour_that_does_not_exist_is_stepped_over(browser: Browser, visit: Visitor) -> None:
    async with reading(browser, visit.url) as reader:
        page = await reader.open(WEEK)
        await hour_of(page, 0, 8).locator("a").focus()
        for key in (*["ArrowDown"] * 6, *["ArrowLeft"] * 5):
            await page.keyboard.press(key)
        await expect(hour_of(page, 6, 3)).to_be_focused()
        await page.keyboard.press("ArrowLeft")
        await expect(hour_of(page, 6, 1)).to_be_focused()


async def test_a_choice_outlives_what_happens_meanwhile(browser: Browser, visit: Visitor) -> None:
    async with reading(browser, visit.url) as reader:
        page = await reader.open(WEEK)
        await drag(page, hour_of(page, 0, 8), hour_of(page, 0, 12))
        async with page.expect_response(lambda answer: "/timeline?week=2026-W13" in answer.url, timeout=SOON):
            await page.evaluate("document.body.dispatchEvent(new CustomEvent('wakeful:changed'))")
        await expect(page.locator("td.chosen")).to_have_count(5, timeout=SOON)


async def touch(session: Any, kind: str, at: tuple[float, float] | None) -> None:
    points = [] if at is None else [{"x": at[0], "y": at[1]}]
    await session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


async def test_a_finger_that_rests_first_chooses(browser: Browser, visit: Visitor) -> None:
    given: dict[str, Any] = {"has_touch": True, "viewport": {"width": 1000, "height": 700}}
    async with reading(browser, visit.url, **given) as reader:
        page = await reader.open(WEEK)
        session = await page.context.new_cdp_session(page)
        await touch(session, "touchStart", await middle(hour_of(page, 0, 8)))
        await expect(page.locator("td.chosen")).to_have_count(1, timeout=SOON)
        await touch(session, "touchMove", await middle(hour_of(page, 0, 9)))
        await touch(session, "touchMove", await middle(hour_of(page, 0, 10)))
        await expect(page.locator("td.chosen")).to_have_count(3, timeout=SOON)
        async with page.expect_navigation():
            await touch(session, "touchEnd", None)
        assert asked(page) == ("/fires", "2026-03-23T07:00:00Z", "2026-03-23T10:00:00Z")
