"""What a token leaves behind when it is revoked: calendar links end with it, and wakes that it fetched are listed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.world import Person
from tests.databases import database_of
from tests.remote.world import command, until
from wakeful.errors import Unauthorized
from wakeful.service.tokens import CALENDAR, FETCHED, Revoked, TokenVerbs
from wakeful.store import EventQuery
from wakeful.testing import store_of

from .world import Visitor, serving

SET = {"wake_message": "check again", "when": "in 2 hours"}


@pytest.fixture(params=["sqlite", "postgres"])
async def visit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Visitor]:
    async with serving(**database_of(request, tmp_path), tick=timedelta(milliseconds=50)) as visitor:
        yield visitor


def id_of(headers: dict[str, str]) -> str:
    return headers["authorization"].split("_")[1]


async def revoked(visit: Visitor, headers: dict[str, str]) -> Revoked:
    found = await TokenVerbs(store_of(visit.alarms)).revoke(id_of(headers))
    await until_refused(visit, headers)
    return found


async def until_refused(visit: Visitor, headers: dict[str, str]) -> None:
    """A server believes what it has looked up for two seconds."""

    async def is_refused() -> bool:
        return (await visit("GET", "/v1/alarms", headers=headers)).status == 401

    assert await until(is_refused)


async def link(visit: Visitor, headers: dict[str, str]) -> dict[str, Any]:
    made = await visit("POST", "/v1/calendar-links", {"label": "phone"}, headers=headers)
    assert made.status == 201, made.text
    found: dict[str, Any] = made.json
    return found


async def feed(visit: Visitor, made: dict[str, Any]) -> int:
    return (await visit("GET", made["url"].removeprefix(visit.url))).status


async def test_the_calendar_links_that_a_token_made_end_with_it(visit: Visitor) -> None:
    leaked, own, eves = await visit.token("ada"), await visit.token("ada"), await visit.token("eve")
    theirs = [await link(visit, leaked), await link(visit, leaked)]
    others = [await link(visit, own), await link(visit, eves)]
    found = await revoked(visit, leaked)
    assert sorted(found.links) == sorted(one["id"] for one in theirs)
    assert [await feed(visit, one) for one in (*theirs, *others)] == [401, 401, 200, 200]
    made_by = {token.id: token.made_by for token in await store_of(visit.alarms).access.tokens()}
    assert [made_by[one["id"]] for one in (*theirs, *others)] == [id_of(leaked)] * 2 + [id_of(own), id_of(eves)]


async def test_a_link_that_is_made_while_its_token_is_revoked_is_not_good(visit: Visitor) -> None:
    """A request may be under way, and a server that has looked a token up believes it for two seconds."""
    leaked, verbs = await visit.token("ada"), TokenVerbs(store_of(visit.alarms))
    await verbs.revoke(id_of(leaked))
    with pytest.raises(Unauthorized):
        await verbs.new("ada", [CALENDAR], made_by=id_of(leaked))
    [made] = [token for token in await verbs.all() if token.scopes == (CALENDAR,)]
    assert made.revoked_at is not None


async def test_the_wakes_that_a_token_fetched_are_listed_and_their_tokens_outlive_it(visit: Visitor) -> None:
    leaked, own = await visit.token("ada"), await visit.token("ada")
    wakes = []
    for headers in (leaked, own):
        await visit.alarms.for_owner("ada").set(delay=0.01, wake_message="work")
        [wake] = (await visit("POST", "/v1/inbox?wait=60", headers=headers)).json["wakes"]
        wakes.append(wake)
    found = await revoked(visit, leaked)
    assert found.wakes == (wakes[0]["fire_id"],)
    chain = {"authorization": f"Bearer {wakes[0]['token']}"}
    assert (await visit("POST", "/v1/alarms", SET, headers=chain)).status == 201
    await visit.alarms.for_owner("ada").cancel_chain(wakes[0]["alarm_id"])
    assert (await visit("POST", "/v1/alarms", SET, headers=chain)).status == 401


async def test_only_a_fetch_with_a_token_is_recorded_and_it_does_not_tell_what_became_of_an_alarm(
    visit: Visitor,
) -> None:
    store = store_of(visit.alarms)
    alarm = await visit.alarms.set(delay=0.01, wake_message="work")
    await visit("POST", "/v1/inbox?wait=60", headers={"X-Wakeful-Client": "test"})
    headers = await visit.token("ada")
    made = await visit.alarms.for_owner("ada").set(delay=0.01, wake_message="work")
    await visit("POST", "/v1/inbox?wait=60", headers=headers)
    assert [event.what for _, event in await store.events(EventQuery()) if event.what == FETCHED] == [FETCHED]
    for one in (alarm, made):
        assert await store.events(EventQuery(alarm_id=one.id, latest=True)) == []


async def test_who_revokes_is_told_on_the_command_line(visit: Visitor, tmp_path: Path) -> None:
    admin = await visit.token("ops", "admin")
    phone = await link(visit, admin)
    ops = Person(visit, admin["authorization"].removeprefix("Bearer "))
    await ops.get("/owners")
    assert (await ops.post("/owners/tokens", {"owner": "eve", "scope": "read"})).status == 200
    [eves] = [token for token in await store_of(visit.alarms).access.tokens() if token.owner_did == "eve"]
    await visit.alarms.for_owner("ops").set(delay=0.01, wake_message="work")
    [wake] = (await visit("POST", "/v1/inbox?wait=60", headers=admin)).json["wakes"]
    place = {"WAKEFUL_DB": visit.alarms.settings.db, "WAKEFUL_SCHEMA": visit.alarms.settings.schema}
    code, out, told = await asyncio.to_thread(command, ["token", "revoke", id_of(admin), "--json"], tmp_path, **place)
    assert code == 0, told
    assert json.loads(out) == {
        "id": id_of(admin),
        "state": "revoked",
        "links": [phone["id"]],
        "tokens": [eves.id],
        "wakes": [wake["fire_id"]],
    }
    for said in (phone["id"], eves.id, "Wakes that it fetched: 1", "rotate-reports"):
        assert said in told
