"""The calendar feed: what a calendar program gets that subscribes to it, and what its token is good for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from icalendar import Calendar

from tests.databases import database_of
from tests.interfaces.world import Answer, Visitor, serving
from wakeful.service.calendar_feed import MOST_LINKS
from wakeful.store.records import READS_PER_OWNER, ReadTurns
from wakeful.testing import store_of

FEED = "/v1/calendar.ics"


@pytest.fixture(params=["sqlite", "postgres"])
async def visit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Visitor]:
    async with serving(**database_of(request, tmp_path)) as visitor:
        yield visitor


async def calendar_token(visit: Visitor, owner: str) -> str:
    return (await visit.token(owner, "calendar"))["authorization"].removeprefix("Bearer ")


def events(answer: Answer) -> dict[str, Any]:
    """The events of a feed by their uid, as a calendar program reads them."""
    assert answer.status == 200, answer.text
    read = Calendar.from_ical(answer.text)
    assert read.errors == []
    found = {str(event["uid"]): event for event in read.walk("VEVENT")}
    assert len(found) == len(read.walk("VEVENT"))
    assert all(event.errors == [] for event in found.values())
    return found


async def test_a_feed_holds_the_coming_fires_of_its_owner(visit: Visitor) -> None:
    ada = visit.alarms.for_owner("ada")
    once = await ada.set("2 hours from now", "Read; the, grant\\portal\n\nand more", label="Grüße 🎉")
    daily = await ada.set("every day at 9am", "Say good morning " + "ü" * 200)
    await visit.alarms.for_owner("eve").set("in 1 hour", "nobody else's business")
    token = await calendar_token(visit, "ada")
    answer = await visit("GET", f"{FEED}?token={token}")
    assert answer.headers["content-type"] == "text/calendar; charset=utf-8"
    assert answer.headers["cache-control"].startswith("private")
    assert all(len(line) <= 75 for line in answer.text.encode().split(b"\r\n"))
    assert "\n" not in answer.text.replace("\r\n", "")
    assert "nobody" not in answer.text
    found = events(answer)
    [one] = [event for uid, event in found.items() if uid.startswith(once.id)]
    assert one["uid"] == f"{once.id}@{int(once.next_fire_at.timestamp() * 1000)}"
    assert one["dtstart"].dt == once.next_fire_at.replace(microsecond=0)
    assert str(one["summary"]) == "Grüße 🎉"
    assert str(one["description"]).startswith("Read; the, grant\\portal\n\nand more\n")
    assert one["sequence"] == once.version
    series = sorted(event["dtstart"].dt for uid, event in found.items() if uid.startswith(daily.id))
    assert len(series) in (90, 91)
    assert series[0] == daily.next_fire_at
    assert {after - before for before, after in pairwise(series)} == {timedelta(days=1)}
    said = next(event for uid, event in found.items() if uid.startswith(daily.id))
    assert "Repeats: at 09:00 every day, UTC\n" in str(said["description"])


async def test_an_alarm_that_fires_all_the_time_leaves_room_for_the_others(visit: Visitor) -> None:
    ada = visit.alarms.for_owner("ada")
    await ada.set("@every 1s", "tick")
    rare = await ada.set("in 80 days", "rare")
    answer = await visit("GET", f"{FEED}?token={await calendar_token(visit, 'ada')}")
    found = events(answer)
    assert any(uid.startswith(rare.id) for uid in found)
    assert 2 <= len(found) <= 140  # a hundred to come, and those that have fired meanwhile
    assert "there are more" in answer.text.replace("\r\n ", "")


async def test_a_feed_is_read_when_it_is_its_owners_turn(visit: Visitor) -> None:
    """Like every long read (`reads_per_owner`): whoever asks for it all the time keeps only itself waiting."""
    place = f"{FEED}?token={await calendar_token(visit, 'ada')}"
    turns: ReadTurns = store_of(visit.alarms)._turns  # type: ignore[attr-defined]
    async with AsyncExitStack() as taken:
        for _ in range(READS_PER_OWNER):
            await taken.enter_async_context(turns.turn("ada"))
        asked = asyncio.create_task(visit("GET", place))
        async with asyncio.timeout(30):
            while turns._turns["ada"].here <= READS_PER_OWNER:
                assert not asked.done(), (await asked).text
                await asyncio.sleep(0.005)
            theirs = await visit("GET", f"{FEED}?token={await calendar_token(visit, 'eve')}")
        assert theirs.status == 200
        assert not asked.done()
    assert (await asked).status == 200


async def test_a_feed_that_has_not_changed_is_not_sent_again(visit: Visitor) -> None:
    ada = visit.alarms.for_owner("ada")
    await ada.set("every day at 9am", "Good morning")
    place = f"{FEED}?token={await calendar_token(visit, 'ada')}"
    first = await visit("GET", place)
    for tag in (first.headers["etag"], f'"other", W/{first.headers["etag"]}'):
        again = await visit("GET", place, headers={"if-none-match": tag})
        assert (again.status, again.text, again.headers["etag"]) == (304, "", first.headers["etag"])
    head = await visit("HEAD", place)
    assert (head.status, head.text, head.headers["etag"]) == (200, "", first.headers["etag"])
    await ada.set("in 1 hour", "More")
    changed = await visit("GET", place, headers={"if-none-match": first.headers["etag"]})
    assert changed.status == 200
    assert changed.headers["etag"] != first.headers["etag"]


async def test_a_calendar_token_is_good_for_the_feed_in_the_address_and_nothing_else(visit: Visitor) -> None:
    ada, text = await visit.token("ada", "admin"), await calendar_token(visit, "ada")
    header = {"authorization": f"Bearer {text}"}
    document = (await visit("GET", "/openapi.json")).json
    tried = 0
    for path, methods in document["paths"].items():
        for method, entry in methods.items():
            if entry.get("security") == []:
                continue
            place = path.format(id="x", fire_id="x@1", token_id="x", name="x")
            answer = await visit(method.upper(), place, headers=header)
            assert answer.told == (403, "forbidden", "Authorization"), (method, path, answer.text)
            if path != FEED:
                in_address = await visit(method.upper(), f"{place}?token={text}")
                assert in_address.told == (401, "unauthorized", "Authorization"), (method, path, in_address.text)
            tried += 1
    assert tried > 30
    for scopes in (("read",), ("write",), ("admin",)):
        other = (await visit.token("ada", *scopes))["authorization"].removeprefix("Bearer ")
        assert (await visit("GET", f"{FEED}?token={other}")).told == (403, "forbidden", "token")
        assert (await visit("GET", FEED, headers={"authorization": f"Bearer {other}"})).status == 200
    assert (await visit("POST", f"{FEED}?token={text}")).told[0] == 401
    assert (await visit("GET", FEED, headers=ada)).status == 200
    assert (await visit("GET", FEED)).told == (401, "unauthorized", "Authorization")
    for wrong in ("", "nonsense", text[:-1] + ("x" if text[-1] != "x" else "y"), "wk_0123456789abcdef_" + "x" * 43):
        assert (await visit("GET", f"{FEED}?token={wrong}")).told == (401, "unauthorized", "token")
    assert (await visit("GET", f"{FEED}?token={text}&token={text}")).told == (400, "invalid_request", "token")
    assert (await visit("GET", f"{FEED}?token={text}&x=1")).told == (400, "invalid_request", "x")


async def test_a_revoked_or_expired_address_ends(visit: Visitor) -> None:
    text = await calendar_token(visit, "ada")
    assert (await visit("GET", f"{FEED}?token={text}")).status == 200
    await store_of(visit.alarms).access.update_token(text.split("_")[1], revoked_at=await visit.alarms.service.now())
    async with asyncio.timeout(60):
        while (answer := await visit("GET", f"{FEED}?token={text}")).status == 200:
            pass  # at most two seconds
    assert answer.told == (401, "unauthorized", "token")
    assert "revoked" in answer.json["detail"]


async def test_an_owner_makes_and_revokes_addresses_of_the_feed(visit: Visitor) -> None:
    ada, eve = await visit.token("ada"), await visit.token("eve")
    await visit.alarms.for_owner("ada").set("in 1 hour", "mine")
    made = await visit("POST", "/v1/calendar-links", {"label": "phone", "expires": "90d"}, headers=ada)
    assert made.status == 201
    assert made.headers["cache-control"] == "no-store"
    link = made.json
    assert link["url"].startswith(f"{visit.url}{FEED}?token=wk_{link['id']}_")
    assert link["label"] == "phone"
    assert datetime.fromisoformat(link["expires_at"]) - datetime.fromisoformat(link["now"]) > timedelta(days=89)
    place = link["url"].removeprefix(visit.url)
    assert [str(event["summary"]) for event in events(await visit("GET", place)).values()] == ["mine"]
    assert (await visit("DELETE", f"/v1/calendar-links/{link['id']}", headers=eve)).told == (
        404,
        "not_found",
        "token_id",
    )
    own = ada["authorization"].split("_")[1]
    assert (await visit("DELETE", f"/v1/calendar-links/{own}", headers=ada)).told == (404, "not_found", "token_id")
    revoked = await visit("DELETE", f"/v1/calendar-links/{link['id']}", headers=ada)
    assert (revoked.status, revoked.json["state"]) == (200, "revoked")
    guest = await visit.token("ada", "read")
    assert (await visit("POST", "/v1/calendar-links", headers=guest)).told[:2] == (403, "forbidden")
    for _ in range(MOST_LINKS):
        assert (await visit("POST", "/v1/calendar-links", headers=ada)).status == 201
    full = await visit("POST", "/v1/calendar-links", headers=ada)
    assert full.told[:2] == (409, "conflict")
    assert (await visit("POST", "/v1/calendar-links", headers=eve)).status == 201


async def test_where_no_token_is_needed_the_address_has_none_and_nobody_is_locked_out(visit: Visitor) -> None:
    await visit.set(label="open")
    made = (await visit("POST", "/v1/calendar-links")).json
    assert made["url"] == f"{visit.url}{FEED}"
    assert "id" not in made
    assert [str(event["summary"]) for event in events(await visit("GET", FEED)).values()] == ["open"]
    assert await store_of(visit.alarms).access.tokens() == []
    foreign = await visit("GET", FEED, headers={"sec-fetch-site": "cross-site"})
    assert foreign.told[:2] == (403, "foreign_origin")


async def test_reading_the_feed_counts_as_a_request_of_its_owner(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), requests_per_minute=3) as visit:
        place = f"{FEED}?token={await calendar_token(visit, 'ada')}"
        statuses = [(await visit("GET", place)).status for _ in range(5)]
        assert statuses == [200, 200, 200, 429, 429]


async def test_the_token_in_the_address_is_never_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(str(tmp_path / "w.db")) as visit:
        text = await calendar_token(visit, "ada")
        for given in (text, text[:-1], text.upper()):
            await visit("GET", f"{FEED}?token={given}")
            await visit("GET", f"{FEED}x?token={given}")
            await visit("GET", f"{FEED}?token={given}&other=1")
        metrics = (await visit("GET", "/metrics", headers=await visit.token("ops", "admin"))).text
    secret = text.split("_", 2)[2]
    assert "calendar.ics" in metrics
    assert secret[:-1].lower() not in (caplog.text + metrics).lower()
