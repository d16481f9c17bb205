"""Owners and tokens: for the operator alone; a token is shown once, and revoked only by who types its id."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.interfaces.world import Answer, Visitor, serving
from wakeful.testing import store_of


@pytest.fixture(params=["sqlite", "postgres"])
async def visit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Visitor]:
    if request.param == "sqlite":
        place = serving(str(tmp_path / "wakeful.db"), quota_active=10)
    else:
        schema = request.getfixturevalue("pg_migrated")
        place = serving(request.getfixturevalue("pg_dsn"), schema=schema, quota_active=10)
    async with place as visitor:
        yield visitor


async def signed_in(visit: Visitor, owner: str, *scopes: str) -> dict[str, str]:
    header = await visit.token(owner, *scopes)
    return {"cookie": f"wakeful_token={header['authorization'].removeprefix('Bearer ')}"}


async def sent(visit: Visitor, path: str, cookie: dict[str, str], form: list[tuple[str, str]]) -> Answer:
    csrf = re.search(r'name="csrf" value="(\w+)"', (await visit("GET", "/new", headers=cookie)).text)
    assert csrf is not None
    body = urlencode([("csrf", csrf[1]), *form]).encode()
    headers = cookie | {"content-type": "application/x-www-form-urlencoded"}
    return await visit("POST", path, body, headers=headers, allow_redirects=False)


async def test_owners_with_what_they_have(visit: Visitor) -> None:
    for owner, count in (("ada", 3), ("<b>bob</b>", 1)):
        for number in range(count):
            await visit.alarms.for_owner(owner).set("in 1 day", f"note {number}")
    shown = (await visit("GET", "/owners")).text
    assert "&lt;b&gt;bob&lt;/b&gt;" in shown
    assert "<b>bob</b>" not in shown
    assert 'aria-label="3 of 10"' in shown
    assert "There is no valid token" in shown


async def test_only_an_operator_gets_in(visit: Visitor) -> None:
    cookie = await signed_in(visit, "ada", "read", "write")
    assert (await visit("GET", "/owners", headers=cookie)).status == 403
    made = await sent(visit, "/owners/tokens", cookie, [("owner", "ada"), ("scope", "admin")])
    assert made.status == 403
    [own] = await store_of(visit.alarms).access.tokens()
    refused = await sent(visit, f"/owners/tokens/{own.id}/revoke", cookie, [("typed", own.id)])
    assert refused.status == 403
    [still] = await store_of(visit.alarms).access.tokens()
    assert still.revoked_at is None
    assert ">Owners</a>" not in (await visit("GET", "/", headers=cookie)).text


async def test_a_token_is_shown_once_and_works(visit: Visitor) -> None:
    cookie = await signed_in(visit, "boss", "admin")
    form = [("owner", "ada"), ("scope", "read"), ("scope", "write"), ("label", "her <i>agent</i>"), ("expires", "30d")]
    made = await sent(visit, "/owners/tokens", cookie, form)
    assert made.status == 200
    assert made.headers["cache-control"] == "no-store"
    found = re.search(r"wk_[0-9a-f]+_[\w-]{43}", made.text)
    assert found is not None
    token = found[0]
    answer = await visit("GET", "/v1/alarms", headers={"authorization": f"Bearer {token}"})
    assert answer.status == 200
    shown = (await visit("GET", "/owners", headers=cookie)).text
    assert token not in shown
    assert token.split("_", 2)[2] not in shown  # the secret part may itself have a "_" in it
    assert "her &lt;i&gt;agent&lt;/i&gt;" in shown
    kept = await store_of(visit.alarms).access.token(token.split("_")[1])
    assert kept is not None
    assert (kept.owner_did, kept.scopes) == ("ada", ("read", "write"))
    assert kept.expires_at is not None


async def test_what_is_refused_makes_no_token(visit: Visitor) -> None:
    cookie = await signed_in(visit, "boss", "admin")
    wrong = ([("owner", " "), ("scope", "read")], [("owner", "ada")], [("owner", "ada"), ("scope", "root")])
    for form in (*wrong, [("owner", "ada"), ("scope", "read"), ("expires", "soon")]):
        assert (await sent(visit, "/owners/tokens", cookie, form)).status == 400
    assert len(await store_of(visit.alarms).access.tokens()) == 1


async def test_a_token_is_revoked_by_typing_its_id(visit: Visitor) -> None:
    cookie = await signed_in(visit, "boss", "admin")
    theirs = await visit.token("ada")
    id = theirs["authorization"].split("_")[1]
    refused = await sent(visit, f"/owners/tokens/{id}/revoke", cookie, [("typed", "yes")])
    assert refused.status == 409
    assert f"Type {id}" in refused.text
    kept = await store_of(visit.alarms).access.token(id)
    assert kept is not None
    assert kept.revoked_at is None
    done = await sent(visit, f"/owners/tokens/{id}/revoke", cookie, [("typed", id)])
    assert (done.status, done.headers["location"]) == (303, "/owners")
    kept = await store_of(visit.alarms).access.token(id)
    assert kept is not None
    assert kept.revoked_at is not None
    unknown = await sent(visit, "/owners/tokens/abc123/revoke", cookie, [("typed", "abc123")])
    assert unknown.status == 404


async def test_owners_are_shown_a_page_at_a_time(visit: Visitor) -> None:
    for number in range(22):
        await visit.alarms.for_owner(f"owner-{number:02}").set("in 1 day", "note")
    shown = (await visit("GET", "/owners")).text
    assert "owner-19" in shown
    assert "owner-20<" not in shown
    assert "/owners?after=owner-19" in shown
    rest = (await visit("GET", "/owners?after=owner-19")).text
    assert "owner-21" in rest
    assert "?after=" not in rest
