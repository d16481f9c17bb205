"""The filter `owner` of Alarms and Fires: for operators, in the address, through to what is done to many."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.dashboard.world import person
from tests.databases import database_of
from tests.interfaces.world import Visitor, serving
from wakeful.store import AlarmQuery
from wakeful.testing import store_of


@pytest.fixture(params=["sqlite", "postgres"])
async def both(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Visitor]:
    async with serving(**database_of(request, tmp_path)) as visitor:
        await visitor.alarms.for_owner("ada & co").set("in 1 hour", "of ada")
        await visitor.alarms.for_owner("ops").set("in 1 hour", "of the operator")
        yield visitor


async def test_an_operator_sees_whose_alarms_they_ask_for(both: Visitor) -> None:
    operator = await person(both, "ops", "admin")
    own = (await operator.get("/alarms")).text
    assert ("of the operator" in own, "of ada" in own) == (True, False)
    assert 'name="owner"' in own
    assert 'href="/alarms?owner=ada%20%26%20co"' in (await operator.get("/owners")).text
    adas = (await operator.get("/alarms?owner=ada+%26+co")).text
    assert ("of the operator" in adas, "of ada" in adas) == (False, True)
    assert 'name="owner" value="ada &amp; co"' in adas
    assert 'data-live="/live?owner=ada%20%26%20co"' in adas
    place = re.search(r'data-href="(/alarms/[^"]*)"', adas)
    assert place is not None
    assert place[1].endswith("?owner=ada%20%26%20co")
    alarm = (await operator.get(place[1])).text
    assert "An alarm of ada &amp; co." in alarm
    assert '<form method="post" action="/alarms/' not in alarm  # what is done to it is done from their list
    assert (await operator.get(place[1].partition("?")[0])).status == 404  # nobody is there by mistake
    assert "No alarm is like that" in (await operator.get("/alarms?owner=nobody")).text
    assert (await operator.get("/fires?owner=ada+%26+co")).status == 200
    assert (await operator.get("/alarms?owner=%00")).status == 400


async def test_nobody_else_has_the_filter(both: Visitor) -> None:
    ada = await person(both, "ada & co")
    assert 'name="owner"' not in (await ada.get("/alarms")).text
    assert 'name="owner"' not in (await ada.get("/fires")).text
    assert (await ada.get("/alarms?owner=ada+%26+co")).status == 200  # themselves
    for path in ("/alarms", "/fires", "/bulk/alarms", "/bulk/fires"):
        answer = await ada.get(f"{path}?owner=ops&verb=pause")
        assert (answer.status, "needs admin" in answer.text) == (403, True), path
        assert "of the operator" not in answer.text


async def test_many_of_another_owner_are_changed_and_changed_back(both: Visitor) -> None:
    operator = await person(both, "ops", "admin")
    asked = (await operator.get("/bulk/alarms?verb=pause&owner=ada+%26+co")).text
    assert "Pause all 1 alarms" in asked
    assert '<input type="hidden" name="owner" value="ada &amp; co">' in asked
    done = (await operator.post("/bulk/alarms", {"verb": "pause", "owner": "ada & co"})).text
    assert "1 of 1 alarms" in done
    assert await statuses(both) == {"of ada": "paused", "of the operator": "active"}
    undo = re.search(r'<form method="post" action="/bulk/alarms".*?</form>', done, re.DOTALL)
    assert undo is not None
    fields = dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', undo[0]))
    assert fields["owner"] == "ada &amp; co"
    await operator.post("/bulk/alarms", fields | {"owner": "ada & co"})
    assert await statuses(both) == {"of ada": "active", "of the operator": "active"}


async def statuses(visit: Visitor) -> dict[str, str]:
    return {alarm.wake_message: alarm.status for alarm in await store_of(visit.alarms).find(AlarmQuery(limit=10))}
