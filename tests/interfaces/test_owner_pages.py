"""Every page and every form, tried with another owner's token: nothing shown, nothing changed."""

from __future__ import annotations

import json
from urllib.parse import quote

from tests.acting import acting
from tests.dashboard.world import Person
from wakeful.dashboard.alarm import RAW
from wakeful.store import EventQuery
from wakeful.testing import store_of

from .owner_world import GOOD, MANY, NAMED, SECRET, World, pages, world

__all__ = ["world"]

# Pages where an operator may name an owner.
LOOKED_AFTER = ("/alarms", "/alarms/{id}", "/alarms/{id}/raw/{what}", "/fires", "/bulk/{what}")


async def test_no_page_shows_or_changes_what_is_another_owners(world: World) -> None:
    before, visit = await world.state(), world.visit
    eve = Person(visit, world.eve["authorization"].removeprefix("Bearer "))
    tried = set()
    for path, place in pages(world, "GET"):
        answer = await eve.get(place)
        tried.add(path)
        is_named = "{id}" in path or (path == "/new" and "like=" in place)
        assert answer.status == (404 if is_named else 200), (place, answer.text)
        world.check(answer.text, (place, answer.text), given=answer.status == 404 or "cursor=" in place)
    for path, place in pages(world, "POST"):
        for verb in MANY[place.rpartition("/")[2]] if "{what}" in path else ("pause", "cancel"):
            fields = GOOD | world.adas | {"verb": verb, "version": "1", "target": "inbox", "count": "1"}
            fields |= {"id": world.fired} if place == "/bulk/fires" else {}
            fields |= {"owner": "eve", "scope": "read", "typed": world.adas["id"]}  # of a token
            answer = await eve.post(place, fields | {"idempotency_key": f"{place} {verb}"})
            tried.add(path)
            assert answer.status in ((400, 404) if "{id}" in path else (200, 303)), (place, answer.status, answer.text)
            world.check(answer.text, (place, answer.text), given=True)
            if "{what}" in path:  # the one that was marked; then all that a filter fits
                assert "1 could not be: there is no" in answer.text, answer.text
                found = await eve.post(place, {"verb": verb, "label": NAMED} if "alarms" in place else {"verb": verb})
                assert found.status == 200, found.text  # eve's own, as far as there are any
                world.check(found.text, (place, found.text), given=False)
    assert len(tried) >= 24
    assert await world.state() == before


async def test_no_page_of_ones_own_alarm_shows_another_owners_fire(world: World) -> None:
    visit, mine = world.visit, (await world.visit.fired("eve")).fire_id
    plain = (await visit.token("eve"))["authorization"].removeprefix("Bearer ")
    operator = world.eve["authorization"].removeprefix("Bearer ")
    own = f"/alarms/{mine.partition('@')[0]}"
    for token in (plain, operator):
        person = Person(visit, token)
        for page in (own, *(f"{own}/raw/{what}" for what in RAW)):
            answer = await person.get(f"{page}?fire={quote(world.fired)}")
            # The page and the command are of the fire; the payload and the wake are of one's own alarm.
            assert answer.status == (404 if page == own or page.endswith("/curl") else 200), (page, answer.text)
            world.check(answer.text, page, given=answer.status == 404)
            assert (await person.get(f"{page}?fire={quote(mine)}")).status == 200, page
        assert (await person.get(f"/new?like={mine.partition('@')[0]}")).status == 200
        for named in (
            world.pending.id,
            world.pending.id[:13],
            "k",
            world.fired,
        ):  # ada's, by whatever an alarm is named
            answer = await person.get(f"/new?like={quote(named)}")
            assert answer.status == 404, (named, answer.text)
            world.check(answer.text, named, given=True)


async def test_no_page_opens_with_a_revoked_token_or_none(world: World) -> None:
    before, visit = await world.state(), world.visit
    revoked = Person(visit, world.revoked["authorization"].removeprefix("Bearer "))
    for who in (revoked, Person(visit), Person(visit, "wk_0123456789abcdef_" + "x" * 43)):
        for _, place in pages(world, "GET"):
            answer = await who.get(place)
            assert (answer.status, answer.headers["location"]) == (303, "/login"), place
        for _, place in pages(world, "POST"):
            answer = await who.post(place, GOOD | world.adas, csrf="")
            assert (answer.status, answer.headers["location"]) == (303, "/login"), place
    assert await world.state() == before


async def test_only_an_operator_looks_after_another_owners_alarms(world: World) -> None:
    """With `owner` in the address, where that is a filter; anywhere else it says nothing, and shows nothing."""
    before, visit = await world.state(), world.visit
    plain = (await visit.token("eve"))["authorization"].removeprefix("Bearer ")
    eve, operator = Person(visit, plain), Person(visit, world.eve["authorization"].removeprefix("Bearer "))
    shown = set()
    for path, place in pages(world, "GET"):
        if "owner=" in place:
            continue
        asked = f"{place}{'&' if '?' in place else '?'}owner=ada"
        refused = await eve.get(asked)
        world.check(refused.text, asked, given=True)
        assert refused.status == 403 or path not in LOOKED_AFTER, (asked, refused.text)
        answer = await operator.get(asked)
        if path in LOOKED_AFTER:
            assert answer.status in (200, 404 if "{id}" in path else 200), (asked, answer.text)
            signs = (SECRET, NAMED, world.pending.id, world.fired)
            shown |= {path} if any(sign in answer.text and sign not in asked for sign in signs) else set()
        else:
            world.check(answer.text, asked, given=answer.status == 404 or "cursor=" in asked)
    assert shown == set(LOOKED_AFTER)
    for path, place in pages(world, "POST"):
        for person in (eve, operator) if path not in LOOKED_AFTER else (eve,):
            fields = GOOD | world.adas | {"verb": "cancel", "target": "inbox", "count": "1", "owner": "ada"}
            answer = await person.post(f"{place}?owner=ada", fields | {"idempotency_key": f"{place} of ada"})
            world.check(answer.text, (place, answer.text), given=True)
            assert answer.status == 403 or path not in LOOKED_AFTER, (place, answer.text)
    assert await world.state() == before
    place, mine = "/bulk/alarms", {"verb": "pause", "id": world.pending.id}
    assert "1 could not be: there is no" in (await operator.post(place, mine)).text
    done = (await operator.post(place, mine | {"owner": "ada"})).text
    assert "<b>1 alarms</b> paused" in done
    [event] = [
        event for _, event in await store_of(visit.alarms).events(EventQuery(alarm_id=world.pending.id, limit=100))
    ][-1:]
    assert (event.what, event.by) == ("paused", f"eve (token {world.eve['authorization'].split('_')[1]})")


async def test_no_open_page_hears_what_another_owner_does(world: World) -> None:
    visit, service = world.visit, world.visit.alarms.service
    eve = Person(visit, world.eve["authorization"].removeprefix("Bearer "))
    async with visit._session.get(visit.url + "/live", headers=eve.headers) as stream:
        while await stream.content.readline() != b"event: hello\n":
            pass
        await acting(service, "ada", by="ada").pause(world.pending.id, reason=SECRET)
        await visit("POST", "/v1/alarms", {"wake_message": "x", "when": "in 1 hour"}, headers=world.eve)
        while not (line := (await stream.content.readline()).decode()).startswith('data: ["'):
            assert line, "the stream ended"
        assert json.loads(line.removeprefix("data: ")) == ["created"]
    plain = Person(visit, (await visit.token("eve"))["authorization"].removeprefix("Bearer "))
    assert (await plain.get("/live?owner=ada")).status == 403
    async with visit._session.get(visit.url + "/live?owner=ada", headers=eve.headers) as stream:
        while await stream.content.readline() != b"event: hello\n":
            pass
        await acting(service, "ada", by="ada").resume(world.pending.id)
        while not (line := (await stream.content.readline()).decode()).startswith('data: ["'):
            assert line, "the stream ended"
        assert json.loads(line.removeprefix("data: ")) == ["resumed"]
