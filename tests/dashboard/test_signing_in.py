"""Who gets in, how they are remembered, and how they leave."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from http.cookies import SimpleCookie
from pathlib import Path

import pytest

from tests.dashboard.world import Person, person
from tests.interfaces.world import Answer, Visitor, serving
from wakeful.dashboard.page import COOKIE, GOOD_FOR, LABEL, SESSION, SignInLink
from wakeful.http.security.auth import mint
from wakeful.process.application import build
from wakeful.settings import Settings
from wakeful.testing import ManualClock, store_of


def cookie_of(answer: Answer) -> str:
    assert answer.status == 303, answer.text
    return SimpleCookie(answer.headers["set-cookie"])[COOKIE].value


async def sign_in(visit: Visitor, token: str) -> Answer:
    return await Person(visit).post("/login", {"token": token}, csrf="")


# By a token


async def test_without_a_token_every_page_leads_to_the_sign_in(visit: Visitor) -> None:
    await visit.token("ada")
    for path in ("/", "/alarms", "/alarms/x", "/fires", "/targets", "/health", "/new", "/live", "/now/needs"):
        answer = await Person(visit).get(path)
        assert (answer.status, answer.headers["location"]) == (303, "/login"), path
    told = await Person(visit).get("/now/tail", {"hx-request": "true"})
    assert (told.status, told.headers["hx-redirect"]) == (204, "/login")
    assert (await Person(visit).get("/login")).status == 200


async def test_a_token_is_kept_where_no_script_and_no_other_site_reaches_it(visit: Visitor) -> None:
    token = (await visit.token("ada"))["authorization"].removeprefix("Bearer ")
    answer = await sign_in(visit, token)
    assert answer.headers["set-cookie"] == f"{COOKIE}={token}; HttpOnly; Path=/; SameSite=strict"
    assert answer.headers["cache-control"] == "no-store"
    page = await Person(visit, token).get("/")
    assert page.status == 200
    assert token not in page.text
    assert "owner ada" in page.text


async def test_behind_tls_the_cookie_is_sent_over_tls_only(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), public_url="https://wakeful.example") as visit:
        token = (await visit.token("ada"))["authorization"].removeprefix("Bearer ")
        assert "; Secure" in (await sign_in(visit, token)).headers["set-cookie"]


@pytest.mark.parametrize("token", ["", "wk_0123456789abcdef_" + "x" * 43, "hello", "wk_\x00_<script>"])
async def test_what_is_not_a_token_does_not_get_in(visit: Visitor, token: str) -> None:
    await visit.token("ada")
    answer = await sign_in(visit, token)
    assert answer.status == 401
    assert "set-cookie" not in answer.headers
    assert "<script>" not in answer.text.replace("<script src", "")


async def test_a_revoked_token_is_led_to_the_sign_in(visit: Visitor) -> None:
    ada = await person(visit, "ada")
    id = ada.headers["cookie"].split("_")[2]
    await store_of(visit.alarms).access.update_token(id, revoked_at=await visit.alarms.service.now())
    assert (await ada.get("/alarms")).headers["location"] == "/login"


async def test_on_a_server_without_tokens_a_cookie_of_another_one_is_dropped(visit: Visitor) -> None:
    """Browsers send the same cookies to every port of a machine."""
    elsewhere = Person(visit, "wk_0123456789abcdef_" + "x" * 43)
    assert (await elsewhere.get("/")).headers["location"] == "/login"
    answer = await elsewhere.get("/login")
    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert f'{COOKIE}=""' in answer.headers["set-cookie"]
    assert (await Person(visit).get("/")).status == 200


async def test_signing_out_forgets_a_token_and_leaves_it_good(visit: Visitor) -> None:
    ada = await person(visit, "ada")
    answer = await ada.post("/logout")
    assert (answer.status, answer.headers["location"]) == (303, "/login")
    assert f'{COOKIE}=""' in answer.headers["set-cookie"]
    assert (await ada.get("/")).status == 200


# By the link that `serve` prints


async def test_the_link_signs_the_operator_in_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    place = await printed(tmp_path, capfd)
    assert place == ""  # nobody needs to sign in yet
    async with build(Settings(db=str(tmp_path / "w.db"))) as alarms:
        await store_of(alarms).access.add_token(mint("ada", ["read"], now=await alarms.service.now())[1])
    capfd.readouterr()
    async with serving(str(tmp_path / "w.db")) as visit:
        place = once(capfd)
        assert place.startswith(f"{visit.url}/login?once=")
        path = place.removeprefix(visit.url)
        assert (await Person(visit).get(path, method="HEAD")).status == 200  # whoever only looks does not use it up
        first, second = await asyncio.gather(Person(visit).get(path), Person(visit).get(path))
        assert sorted((first.status, second.status)) == [303, 401]
        entered = first if first.status == 303 else second
        assert "HttpOnly" in entered.headers["set-cookie"]
        assert entered.headers["location"] == "/"
        operator = Person(visit, cookie_of(entered))
        assert "owner local" in (await operator.get("/health")).text
        [session] = [token for token in await store_of(visit.alarms).access.tokens() if token.label == LABEL]
        assert session.expires_at is not None
        assert session.expires_at - session.created_at == SESSION
        assert (await Person(visit).get(path)).status == 401

        await operator.post("/logout")
        assert (await operator.get("/")).headers["location"] == "/login"
        [ended] = [token for token in await store_of(visit.alarms).access.tokens() if token.label == LABEL]
        assert ended.revoked_at is not None


async def test_the_link_is_good_for_ten_minutes(tmp_path: Path) -> None:
    clock = ManualClock()
    async with build(Settings(db=str(tmp_path / "w.db")), clock=clock) as wakeful:
        store = store_of(wakeful)
        link = SignInLink(store, "local", clock)
        assert await link.take("") is None  # none was made yet
        late = link.offer()
        await clock.advance(GOOD_FOR)
        assert await link.take(late) is None
        replaced, good = link.offer(), link.offer()
        assert await link.take(replaced) is None
        await clock.advance(GOOD_FOR - timedelta(seconds=1))
        assert await link.take(good + "x") is None
        assert await store.access.tokens() == []
        assert await link.take(good) is not None
        assert await link.take(good) is None
        assert await link.take("") is None  # nothing is left to guess


@pytest.mark.parametrize("settings", [{"public_url": "https://wakeful.example"}, {"dashboard": False}])
async def test_no_link_is_printed_for_others_to_read(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], settings: dict[str, object]
) -> None:
    async with build(Settings(db=str(tmp_path / "w.db"))) as alarms:
        await store_of(alarms).access.add_token(mint("ada", ["read"], now=await alarms.service.now())[1])
    async with serving(str(tmp_path / "w.db"), **settings):
        assert once(capfd) == ""


async def printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> str:
    async with serving(str(tmp_path / "w.db")):
        return once(capfd)


def once(capfd: pytest.CaptureFixture[str]) -> str:
    """The link in what was printed."""
    words = capfd.readouterr().err.split()
    return next((word for word in words if "/login?once=" in word), "")
