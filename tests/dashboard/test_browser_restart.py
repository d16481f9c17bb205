"""A real server that is killed and started again: an open page says so, and catches up by itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from tests.dashboard.browser import reading
from tests.dashboard.driving import is_live
from tests.databases import database_of
from tests.remote.world import serving_process

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture(params=["sqlite", "postgres"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Where a server finds its settings."""
    lines = [f'{name} = "{value}"' for name, value in database_of(request, tmp_path).items()]
    (tmp_path / "wakeful.toml").write_text("\n".join(lines) + "\n")
    return tmp_path


async def set_alarm(page: Page, url: str, message: str, when: str) -> None:
    answer = await page.request.post(f"{url}/v1/alarms", data={"wake_message": message, "when": when})
    assert answer.status == 201, await answer.text()


async def test_a_page_recovers_by_itself_when_a_killed_server_comes_back(browser: Browser, folder: Path) -> None:
    with serving_process(folder) as server:
        async with reading(browser, server.url, cut=True) as reader:
            page = await reader.open("/")
            await is_live(page)
            await page.evaluate("window.kept = true")
            await set_alarm(page, server.url, "due while nobody is there", "in 2 seconds")
            await set_alarm(page, server.url, "due later", "in 5 hours")
            await expect(page.locator("#next")).to_contain_text("due later")
            server.kill()
            live = page.locator("#live")
            await expect(live).to_have_text(re.compile(r"^updated \d+ s ago$"))
            await expect(live).to_have_text(re.compile(r"^updated ([3-9]|\d\d) s ago$"))  # it goes on counting
            await expect(page.locator("#next")).to_contain_text("due later")  # what was known stays
            with serving_process(folder, port=server.port) as again:
                await is_live(page)
                await expect(page.locator("#tail")).to_contain_text("due while nobody is there")
                await set_alarm(page, again.url, "set afterwards", "in 1 hour")
                await expect(page.locator("#next")).to_contain_text("set afterwards")
                assert await page.evaluate("window.kept")  # nobody reloaded it
                await page.close()


async def test_a_form_that_was_open_before_a_restart_is_still_good(browser: Browser, folder: Path) -> None:
    with serving_process(folder) as server:
        async with reading(browser, server.url, cut=True) as reader:
            page = await reader.open("/new")
            await page.get_by_label("When").fill("in 1 hour")
            await expect(page.locator("#preview li")).to_have_count(1)
            await page.get_by_label("Message").fill("begun before")
            server.kill()
            with serving_process(folder, port=server.port):
                await page.get_by_role("button", name="Set the alarm").click()
                await expect(page.get_by_role("heading", name="begun before")).to_be_visible()
                await page.close()
