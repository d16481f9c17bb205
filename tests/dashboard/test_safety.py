"""What no page gives away and no form does: CSRF, origins, scopes, headers, prefixes; and how to turn it off."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.dashboard.world import Person, person
from tests.interfaces.world import Visitor, serving
from wakeful.dashboard import words
from wakeful.dashboard.page import COOKIE, _templates
from wakeful.http.security.auth import mint
from wakeful.process.application import build
from wakeful.settings import Settings
from wakeful.store import AlarmQuery, FireQuery
from wakeful.testing import store_of

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PAGES = ("/", "/now/needs", "/now/next", "/now/tail", "/new", "/alarms", "/fires", "/targets", "/health", "/login")
FORMS = (
    *("/new/preview", "/alarms/x/pause", "/alarms/x/edit", "/bulk/alarms", "/bulk/fires", "/fires/x/retry", "/logout"),
    *("/targets/inbox/pause", "/targets/inbox/test", "/owners/tokens", "/owners/tokens/x/revoke"),
)
ALARM = {"when": "in 1 hour", "wake_message": "from a form"}


async def alarms_of(visit: Visitor, owner: str = "ada") -> list[str]:
    return [alarm.wake_message for alarm in await store_of(visit.alarms).find(AlarmQuery(owner=owner, limit=100))]


# Forms


async def test_a_form_of_ours_sets_an_alarm(visit: Visitor) -> None:
    ada = await person(visit, "ada")
    answer = await ada.post("/new", ALARM)
    assert (answer.status, answer.headers["location"][:8]) == (303, "/alarms/"), answer.text
    assert await alarms_of(visit) == ["from a form"]


async def test_a_form_without_the_word_of_its_own_page_changes_nothing(visit: Visitor) -> None:
    ada, eve, again = await person(visit, "ada"), await person(visit, "eve"), await person(visit, "ada")
    for each in (ada, eve, again):
        await each.get("/new")
    assert len({ada.csrf, eve.csrf, again.csrf}) == 3  # one for each token, also of one owner
    for word in ("", "0" * 64, eve.csrf, again.csrf, ada.csrf[:-1], "é"):
        answer = await ada.post("/new", ALARM, csrf=word)
        assert answer.status == 403, word
        assert "not from a page of this server" in answer.text
    for path in FORMS:
        assert (await ada.post(path, csrf="")).status == 403, path
    assert await alarms_of(visit) == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "evil.example"}, 421),
        ({"sec-fetch-site": "same-origin"}, 303),
    ],
)
async def test_a_page_of_another_site_changes_nothing(visit: Visitor, headers: dict[str, str], status: int) -> None:
    ada = await person(visit, "ada")
    assert (await ada.post("/new", ALARM, headers)).status == status
    assert await alarms_of(visit) == ([] if status != 303 else ["from a form"])


async def test_a_page_of_another_site_shows_nothing_of_a_server_without_tokens(visit: Visitor) -> None:
    await visit.set(wake_message="mine alone")
    for path in PAGES[:-1]:
        answer = await Person(visit).get(path, {"sec-fetch-site": "cross-site"})
        assert answer.status == 403, path
        assert answer.headers["content-type"].startswith("text/html")
        assert "mine alone" not in answer.text
    assert (await Person(visit).get("/", {"host": "rebound.example"})).status == 421


@pytest.mark.parametrize(("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 200)])
async def test_a_page_of_another_site_does_not_follow_what_happens(visit: Visitor, site: str, status: int) -> None:
    ada = await person(visit, "ada")
    async with aiohttp.ClientSession() as session:
        async with session.get(visit.url + "/live", headers=ada.headers | {"sec-fetch-site": site}) as stream:
            assert stream.status == status


async def test_signing_in_is_not_done_by_another_site(visit: Visitor) -> None:
    token = (await visit.token("eve"))["authorization"].removeprefix("Bearer ")
    answer = await Person(visit).post("/login", {"token": token}, {"sec-fetch-site": "cross-site"}, csrf="")
    assert answer.status == 403
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "back", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "/\r\nx-evil: 1"]
)
async def test_a_form_leads_back_to_a_page_of_ours_only(visit: Visitor, back: str) -> None:
    ada = await person(visit, "ada")
    made = (await ada.post("/new", ALARM)).headers["location"]
    answer = await ada.post(f"{made}/pause", {"back": back})
    assert (answer.status, answer.headers["location"]) == (303, "/")
    told = await ada.post(f"{made}/resume", {"back": back}, {"hx-request": "true"})
    assert (told.status, told.headers["hx-location"]) == (204, "/")


async def test_a_form_that_cannot_be_read_is_refused(visit: Visitor) -> None:
    ada = await person(visit, "ada")
    headers = ada.headers | {"content-type": "application/x-www-form-urlencoded"}
    for body in (b"\xff\xfe", b"&".join(b"id=%d" % number for number in range(3000))):
        assert (await visit("POST", "/new", body, headers=headers)).status == 400
    assert (await visit("POST", "/new", b"a=" + b"x" * 300_000, headers=headers)).status == 413


# Who may only read


async def test_who_may_only_read_sees_no_buttons_and_is_refused(visit: Visitor) -> None:
    writer, reader = await person(visit, "ada"), await person(visit, "ada", "read")
    made = (await writer.post("/new", ALARM)).headers["location"]
    await writer.post(f"{made}/pause")
    for path in ("/", "/alarms", made, "/fires", "/targets"):
        forms = re.findall(r'<form method="post" action="([^"]*)"', (await reader.get(path)).text)
        assert [place for place in forms if place != "/logout"] == [], path
        assert "/bulk/" not in (await reader.get(path)).text
        assert "+ alarm" not in (await reader.get(path)).text
        assert 'name="verb"' not in (await reader.get(path)).text
    assert (await reader.get("/new")).status == 403
    assert (await reader.get("/health")).status == 403
    for path in ("/new", f"{made}/resume", f"{made}/cancel", "/bulk/alarms", "/bulk/fires", "/targets/inbox/pause"):
        answer = await reader.post(path, ALARM | {"verb": "cancel", "id": made.rpartition("/")[2]}, csrf=reader.csrf)
        assert answer.status == 403, path
        assert answer.headers["content-type"].startswith("text/html")
        assert "needs write" in answer.text
    [alarm] = await store_of(visit.alarms).find(AlarmQuery(owner="ada", limit=100))
    assert alarm.status == "paused"


async def test_only_an_operator_pauses_a_target_or_sees_the_machine(visit: Visitor) -> None:
    ada = await person(visit, "ada")
    assert (await ada.get("/health")).status == 403
    assert "/health" not in (await ada.get("/")).text
    assert (await ada.post("/targets/agent/pause")).status == 403
    assert await visit.alarms.service.targets.states() == {}
    operator = await person(visit, "ops", "admin")
    assert (await operator.post("/targets/agent/pause")).status == 303
    assert (await visit.alarms.service.targets.states())["agent"].paused_at is not None


# Headers, and what pages are made of


async def test_every_page_says_what_a_browser_may_do_with_it(visit: Visitor) -> None:
    operator = await person(visit, "ops", "admin")
    made = (await operator.post("/new", ALARM)).headers["location"]
    for path in (*PAGES, made, "/alarms/nothing", "/alarms?status=wrong"):
        headers = (await operator.get(path)).headers
        assert headers["content-security-policy"] == CSP, path
        assert headers["x-content-type-options"] == "nosniff", path
        assert headers["x-frame-options"] == "DENY", path
        assert headers["cache-control"] == "no-store", path
        assert headers["referrer-policy"] == "same-origin", path
        assert headers["content-type"] == "text/html; charset=utf-8", path


async def test_no_page_has_a_script_a_style_or_a_handler_in_it(visit: Visitor) -> None:
    operator = await person(visit, "ops", "admin")
    made = (await operator.post("/new", ALARM)).headers["location"]
    await visit.fired("ops")
    for path in (*PAGES, made):
        text = (await operator.get(path)).text
        assert re.findall(r"<script(?! src=\"/static/)", text) == [], path
        assert re.findall(r"<style|\sstyle=|\son[a-z]+=|javascript:|hx-on", text) == [], path
        if path == made:  # what a receiver is sent says where to report, and is shown as it is: as text
            text = re.sub(r'<details class="(?:told|curl)">.*?</details>', "", text, flags=re.DOTALL)
        assert "http://" not in text, path
        assert "https://" not in text, path


async def test_what_others_write_is_text_in_every_page(visit: Visitor) -> None:
    """Also without a browser: what a page answers has none of it as markup, in its texts or its fields."""
    nasty = "\"><script>alert(1)</script><b data-xss='1'>"
    operator = await person(visit, "ops", "admin")
    ops = visit.alarms.for_owner("ops")
    alarm = await ops.set("in 5 hours", nasty, label=nasty, payload={nasty: 1}, conversation_id=nasty, key=nasty)
    await ops.pause(alarm.id, reason=nasty)
    await visit.alarms.for_owner(nasty).set("in 1 hour", nasty)
    asked = quote(nasty)
    for path in (
        *(*PAGES, f"/alarms/{alarm.id}", f"/alarms/{alarm.id}/edit", "/owners", "/bulk/alarms?verb=resume"),
        *(f"/alarms?text={asked}&label={asked}&owner={asked}", f"/fires?target={asked}", f"/timeline?week={asked}"),
        *(f"/new?when={asked}&wake_message={asked}&payload={asked}", f"/alarms/{asked}", f"/alarms?status={asked}"),
    ):
        text = (await operator.get(path)).text
        assert "<b data-xss" not in text, path
        assert "<script>" not in text, path


async def test_what_pages_load_is_here_and_may_be_kept(visit: Visitor) -> None:
    page = (await Person(visit).get("/")).text
    places = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
    assert len(places) >= 4
    for place in [*places, "/favicon.ico"]:
        answer = await Person(visit).get(place)
        assert answer.status == 200, place
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["x-content-type-options"] == "nosniff"
    for path in ("/static/..%2fpage.py", "/static/LICENSE.htmx", "/static/nothing.js"):
        assert (await Person(visit).get(path)).status == 404, path


async def test_no_page_has_a_secret_in_it(tmp_path: Path) -> None:
    secret, password = "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0", "hunter2-hunter2"
    url, headers = f"http://127.0.0.1:9/wake/{password}", {"authorization": f"Basic {password}"}
    target = {"kind": "webhook", "url": url, "headers": headers, "secret": secret, "allow_private": True}
    async with serving(str(tmp_path / "w.db"), targets={"ops": target}) as visit:
        operator = await person(visit, "ops", "admin")
        token = operator.headers["cookie"].partition("=")[2]
        made = (await operator.post("/new", ALARM | {"when": "in 1 second", "target": "ops"})).headers["location"]
        await _until_tried(visit, "ops")
        assert 'class="attempts"' in (await operator.get(made)).text
        for path in (*PAGES, made):
            text = (await operator.get(path)).text
            for hidden in (secret, secret.removeprefix("whsec_"), password, token, token.split("_", 2)[2]):
                assert hidden not in text, path


async def _until_tried(visit: Visitor, owner: str) -> None:
    async with asyncio.timeout(60):
        while not await store_of(visit.alarms).fires(FireQuery(owner=owner, limit=1)):
            pass


# Off, elsewhere, under a prefix


async def test_turned_off_there_are_no_pages(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), dashboard=False) as visit:
        for path in (*PAGES, "/static/app.js", "/favicon.ico", "/live"):
            answer = await Person(visit).get(path)
            assert answer.told[:2] == (404, "not_found"), path
        assert (await visit("POST", "/new", b"when=now")).status == 404
        assert (await visit("GET", "/healthz")).status == 200


@asynccontextmanager
async def mounted(tmp_path: Path, prefix: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with build(Settings(db=str(tmp_path / "w.db"))) as alarms:
        app = Starlette(routes=[Mount(prefix, alarms.asgi())])
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client


async def test_in_another_program_every_link_keeps_the_prefix(tmp_path: Path) -> None:
    async with mounted(tmp_path, "/clock") as client:
        seen, todo = set[str](), ["/clock/"]
        while todo:
            path = todo.pop()
            # A page is opened once for each kind of address it has: weeks lead to weeks for ever.
            kind = re.sub("=[^&]*", "", path)
            if kind in seen or path.startswith("/clock/live"):
                continue
            seen.add(kind)
            answer = await client.get(path)
            assert answer.status_code == 200, path
            if not answer.headers["content-type"].startswith("text/html"):
                continue
            places = re.findall(r'(?:href|src|action|hx-get|hx-post|data-live)="([^"#][^"]*)"', answer.text)
            assert [place for place in places if not place.startswith("/clock/")] == [], path
            todo += map(unescape, re.findall(r'(?:href|src|hx-get)="(/clock/[^"]*)"', answer.text))
        assert {"/clock/alarms", "/clock/fires", "/clock/targets", "/clock/health", "/clock/new"} <= seen
        assert {"/clock/timeline?week", "/clock/timeline?month", "/clock/owners"} <= seen
        page = (await client.get("/clock/new")).text
        csrf = re.search(r'name="csrf" value="([0-9a-f]+)"', page)
        assert csrf is not None
        answer = await client.post("/clock/new", data=ALARM | {"csrf": csrf[1]})
        assert answer.headers["location"].startswith("/clock/alarms/")
        assert (await client.get(answer.headers["location"])).status_code == 200


async def test_in_another_program_the_cookie_is_sent_to_the_pages_only(tmp_path: Path) -> None:
    async with build(Settings(db=str(tmp_path / "w.db"))) as alarms:
        text, token = mint("ada", ["read"], now=await alarms.service.now())
        await store_of(alarms).access.add_token(token)
        app: Any = Starlette(routes=[Mount("/clock", alarms.asgi())])
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost") as client:
            assert (await client.get("/clock/")).headers["location"] == "/clock/login"
            answer = await client.post("/clock/login", data={"token": text})
            assert answer.headers["location"] == "/clock/"
            assert answer.headers["set-cookie"] == f"{COOKIE}={text}; HttpOnly; Path=/clock; SameSite=strict"


async def test_a_stream_beyond_the_limit_is_refused_before_it_begins(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), live_per_owner=1) as visit:
        ada = await person(visit, "ada")
        async with aiohttp.ClientSession() as session:
            async with session.get(visit.url + "/live", headers=ada.headers) as stream:
                assert stream.status == 200
                assert await stream.content.readline() == b"retry: 1000\n"
                assert (await ada.get("/live")).status == 429


async def test_a_page_is_not_rendered_in_the_event_loop(visit: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long page would delay everybody's wakes."""
    await visit.set()
    rendered_in: set[threading.Thread] = set()
    state = words.FILTERS["state"]

    def recorded(status: str) -> Any:
        rendered_in.add(threading.current_thread())
        return state(status)

    monkeypatch.setitem(_templates().filters, "state", recorded)
    assert (await Person(visit).get("/alarms")).status == 200
    assert rendered_in
    assert threading.current_thread() not in rendered_in
