"""A real browser that keeps what goes wrong in it: errors in its console, dialogs, violations of the pages' policy."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, async_playwright

# What a browser says of a server that is away: also in the middle of an answer.
CUT = (
    *("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE"),
    "Failed to fetch",
)
REFUSED = "the server responded with a status of 4"
_TELL = """addEventListener("securitypolicyviolation", (event) => tellViolation(
    `${event.violatedDirective}: ${event.blockedURI} ${event.sample}`));"""


class Reader:
    """Somebody with a window of their own; `wrong` is what must not have happened in it."""

    def __init__(self, context: BrowserContext, url: str, *, refused: bool = False) -> None:
        self._refused = refused
        self.context = context
        self.url = url
        self.wrong: list[str] = []

    async def open(self, path: str = "/") -> Page:
        page = await self.context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("dialog", self._dialog)
        await page.goto(self.url + path)
        return page

    def _console(self, line: ConsoleMessage) -> None:
        if line.type == "error" and not (self._refused and REFUSED in line.text):
            self.wrong.append(f"console: {line.text}")

    async def _dialog(self, dialog: Dialog) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        await dialog.dismiss()


@asynccontextmanager
async def browsing() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        # None of its own browsers is ever downloaded: it is the system's, in a container without a user namespace.
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def reading(
    browser: Browser, url: str, *, token: str = "", cut: bool = False, refused: bool = False, **given: Any
) -> AsyncIterator[Reader]:
    """A window with its own cookies. At the end nothing has gone wrong in it.

    `cut`: the server was away for a time; `refused`: a page was asked for that there is not.
    """
    context = await browser.new_context(**{"timezone_id": "UTC", "viewport": {"width": 1280, "height": 800}} | given)
    reader = Reader(context, url, refused=refused)
    await context.expose_function("tellViolation", lambda what: reader.wrong.append(f"policy: {what}"))
    await context.add_init_script(_TELL)
    if token:
        await context.add_cookies([{"name": "wakeful_token", "value": token, "url": url}])
    try:
        yield reader
        expected = CUT if cut else ()
        wrong = [what for what in reader.wrong if not any(sign in what for sign in expected)]
        assert wrong == [], wrong
    finally:
        await context.close()
