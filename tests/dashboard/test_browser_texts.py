"""What others write, in a real browser: it is shown, and it does nothing. And every view, in both themes and widths."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest
from playwright.async_api import Browser, Page, expect

from tests.dashboard.browser import Reader, reading
from tests.dashboard.driving import door, is_live, is_over
from tests.interfaces.world import Visitor
from wakeful.http.security.auth import mint
from wakeful.testing import store_of

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

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
    "</pre></details><details open ontoggle=alert(1) data-xss><input autofocus onfocus=alert(1)>",
)
CAME_TO_LIFE = "[data-xss], iframe, [onerror], [onload], [onmouseover], [ontoggle], [onfocus], main img, base"
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]")


def as_shown(text: str) -> str:
    """What cannot be seen is shown as a sign, and white space is one space."""
    return " ".join(re.sub("[\x1b\u202e\u2066\u0007]", "␦", text).split())


async def written_everywhere(visit: Visitor) -> list[str]:
    """Each text in every place that somebody else fills, and the alarms it stands in."""
    made = door(visit)
    ids: list[str] = []
    for number, nasty in enumerate(NASTY):
        made.error = nasty
        texts: dict[str, Any] = {"label": nasty, "conversation_id": nasty, "key": nasty}
        alarm = await visit.alarms.set(delay=0.01, wake_message=nasty, target="door", payload={nasty: [nasty]}, **texts)
        await is_over(visit, alarm.id)
        kept = await visit.alarms.set(f"every day at {number + 8}am" if number < 4 else "in 5 hours", nasty)
        await visit.alarms.pause(kept.id, reason=nasty)
        ids.append(alarm.id)
    now = await visit.alarms.service.now()
    for nasty in NASTY:
        await visit.alarms.for_owner(nasty).set("in 1 hour", nasty)
        text, token = mint(nasty, ("read",), now=now, label=nasty)
        assert text
        await store_of(visit.alarms).access.add_token(token)
    await visit.alarms.service.targets.pause("door", by=NASTY[0], reason=NASTY[1])
    return ids


def places(ids: list[str]) -> list[str]:
    asked = [quote(nasty) for nasty in NASTY]
    return [
        *("/", "/alarms", "/fires", "/targets", "/health", "/owners", "/timeline", "/timeline?month=2026-11"),
        *(f"/alarms/{id}" for id in ids),
        *(f"/alarms?text={text}&label={text}&target={text}&conversation_id={text}&owner={text}" for text in asked[:5]),
        *(f"/bulk/alarms?verb=pause&owner={text}" for text in asked[5:]),
        f"/fires?target={asked[1]}",
        f"/new?when={asked[1]}&wake_message={asked[4]}&label={asked[1]}&target={asked[1]}&payload={asked[4]}",
    ]


async def is_inert(page: Page, path: str) -> None:
    assert await page.locator(CAME_TO_LIFE).count() == 0, path
    hrefs = await page.locator("main a[href]").evaluate_all("(all) => all.map((one) => one.getAttribute('href'))")
    assert [href for href in hrefs if not href.startswith("/")] == [], path
    text = await page.locator("main").inner_text()
    assert not HIDDEN.search(text), path


async def test_what_others_write_is_shown_and_never_run(browser: Browser, both: Visitor) -> None:
    ids = await written_everywhere(both)
    token = (await both.token("local", "admin"))["authorization"].removeprefix("Bearer ")
    async with reading(browser, both.url, token=token) as reader:
        page = await reader.open("/")
        for path in places(ids):
            await page.goto(both.url + path)
            await is_live(page)
            await is_inert(page, path)
        await page.goto(both.url + "/alarms")
        shown = as_shown(await page.locator("main").inner_text())
        assert [nasty for nasty in NASTY if as_shown(nasty)[:40] not in shown] == []
        await page.goto(f"{both.url}/alarms/{ids[4]}")
        await page.get_by_role("link", name="Duplicate").click()
        await expect(page.locator("textarea[name=wake_message]")).to_have_value(NASTY[4])
        await is_inert(page, "/new")


# Every view

WIDE = """[...document.querySelectorAll("main *")].filter(
    (one) => one.getBoundingClientRect().right > innerWidth && !one.closest(".scroll, pre")
).map((one) => one.outerHTML.slice(0, 200))"""
GROUND = {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 19, 24)"}


async def views(visit: Visitor) -> list[str]:
    """Each page there is, with something on it."""
    long = "a_long_word_that_nobody_can_break_" * 6
    door(visit, f"the door is locked: {long}")
    failed = await visit.alarms.set(delay=0.01, wake_message=long, target="door", label=long)
    await is_over(visit, failed.id)
    daily = await visit.alarms.set("every day at 9am", "Morning brief", payload={long: 3}, conversation_id=long)
    paused = await visit.alarms.set("in 2 hours", "later")
    await visit.alarms.pause(paused.id, reason=long)
    return [
        *("/", "/new", "/alarms", "/alarms?text=nothing-like-it", f"/alarms?label={long}", "/fires", "/targets"),
        *("/health", "/owners", "/timeline", "/timeline?month=2026-11", "/bulk/alarms?verb=pause"),
        *("/bulk/fires?verb=retry", f"/alarms/{failed.id}", f"/alarms/{daily.id}", f"/alarms/{daily.id}/edit"),
    ]


async def fits(reader: Reader, paths: list[str], scheme: str, width: int) -> None:
    page = await reader.open("/")
    for path in paths:
        await page.goto(reader.url + path)
        await is_live(page)
        assert await page.evaluate("getComputedStyle(document.body).backgroundColor") == GROUND[scheme], path
        scrolled = await page.evaluate("document.documentElement.scrollWidth")
        assert scrolled <= width, (path, scrolled, await page.evaluate(WIDE))
        assert await page.locator("h1").count() >= 1, path


@pytest.mark.parametrize(("scheme", "other"), [("light", "dark"), ("dark", "light")])
async def test_every_view_in_both_themes_and_on_a_phone(
    browser: Browser, both: Visitor, scheme: str, other: str
) -> None:
    """Nothing in the console, nothing against the policy, nothing wider than the screen."""
    paths = await views(both)
    phone = {"width": 360, "height": 740}
    async with reading(browser, both.url, color_scheme=scheme, viewport=phone) as reader:
        await fits(reader, paths, scheme, 360)
        page = await reader.open("/")
        await page.locator("#theme").click()
        await expect(page.locator("html")).to_have_attribute("data-theme", other)
        await page.close()
        await fits(reader, paths[:1], other, 360)  # it is remembered, against what the system says
