"""One action on many: the number said and typed, slices until all is done, undo where there is one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.dashboard.pages.desk import Desk, form_in
from wakeful.dispatcher import ServedTarget
from wakeful.model.outcome import Failed, Outcome
from wakeful.model.requests import CreateRequest
from wakeful.rules.wake import Wake
from wakeful.service import bulk
from wakeful.testing import targets_of


async def set_many(desk: Desk, count: int, **fields: Any) -> list[str]:
    asked = [CreateRequest(wake_message=f"n{n}", when="in 1 hour", label="many", **fields) for n in range(count)]
    return [made.alarm.id for made in await desk.alarms.create_many(asked)]


async def statuses(desk: Desk, label: str = "many") -> set[str]:
    return {alarm.status for alarm in await desk.alarms.find(label=label, limit=500)}


async def test_marked_ones_are_changed_and_changed_back(desk: Desk) -> None:
    ids = await set_many(desk, 3)
    answer = await desk.post("/bulk/alarms", [("verb", "pause"), *(("id", id) for id in ids)], fragment=True)
    assert "<b>3 alarms</b> paused." in answer.text
    assert await statuses(desk) == {"paused"}
    undone = await desk.post("/bulk/alarms", form_in(answer.text, "/bulk/alarms"), fragment=True)
    assert "resumed." in undone.text
    assert await statuses(desk) == {"active"}


async def test_more_than_ten_marked_ones_need_their_number(desk: Desk) -> None:
    ids = await set_many(desk, 11)
    chosen = [("verb", "cancel"), *(("id", id) for id in ids)]
    refused = await desk.post("/bulk/alarms", chosen)
    assert refused.status == 409
    assert "Type 11" in refused.text
    assert await statuses(desk) == {"active"}
    done = await desk.post("/bulk/alarms", [*chosen, ("count", "11")])
    assert "brings a cancelled alarm back" in done.text
    assert await statuses(desk) == {"cancelled"}


async def test_all_that_match_go_in_slices_and_come_back(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "SLICE", 5)
    await set_many(desk, 12)
    other = await desk.alarms.set("in 1 hour", "other", label="other")
    before = await desk.alarms.set("in 1 hour", "paused before", label="many")
    await desk.alarms.pause(before.id)
    page = await desk.get("/bulk/alarms?verb=pause&label=many")
    assert "Pause all 12 alarms that match" in page
    fields = form_in(page, "/bulk/alarms")
    asked_again = await desk.post("/bulk/alarms", fields)
    assert asked_again.status == 409
    assert await statuses(desk) == {"active", "paused"}
    answer = await desk.post("/bulk/alarms", [*fields, ("count", "12")], fragment=True)
    said = []
    while "Go on" in answer.text:
        said.append(answer.text.partition("<b>")[2].partition("</b>")[0])
        answer = await desk.post("/bulk/alarms", form_in(answer.text, "/bulk/alarms"), fragment=True)
    assert said == ["5 of 12 alarms", "10 of 12 alarms"]
    assert "<b>12 of 12 alarms</b> paused." in answer.text
    assert await statuses(desk) == {"paused"}
    assert (await desk.alarms.get(other.id)).status == "active"
    while "Undo" in answer.text or "Go on" in answer.text:
        answer = await desk.post("/bulk/alarms", form_in(answer.text, "/bulk/alarms"), fragment=True)
        if "<b>12 of 12 alarms</b> resumed." in answer.text:
            break
    assert (await desk.alarms.get(before.id)).status == "paused"  # it was so before: not ours to resume
    assert len(await desk.alarms.find(label="many", status="active")) == 12


async def test_what_cannot_be_done_is_said_and_the_rest_is_done(desk: Desk) -> None:
    [one, other] = await set_many(desk, 2)
    await desk.alarms.cancel(other)
    answer = await desk.post("/bulk/alarms", [("verb", "pause"), ("id", one), ("id", other)], fragment=True)
    assert "<b>1 alarms</b> paused." in answer.text
    assert "1 could not be:" in answer.text
    assert (await desk.alarms.get(one)).status == "paused"


async def test_every_failed_fire_is_tried_again(desk: Desk) -> None:
    class Broken:
        def __init__(self) -> None:
            self.tried = asyncio.Event()

        async def deliver(self, wake: Wake) -> Outcome:
            self.tried.set()
            return Failed("HTTP 410", retryable=False)

        async def close(self) -> None: ...

    broken = Broken()
    targets_of(desk.visit.alarms)["broken"] = ServedTarget(broken, 8)
    for number in range(3):
        await desk.alarms.set(delay=0.01, wake_message=f"n{number}", target="broken")
    async with asyncio.timeout(30):
        while len(await desk.alarms.fires(status="failed")) < 3:
            await asyncio.wait_for(broken.tried.wait(), 30)
            broken.tried.clear()
            await desk.visit.alarms.dispatcher._all_down()
    page = await desk.get("/bulk/fires?verb=retry")
    assert "Retry all 3 fires that match" in page
    answer = await desk.post("/bulk/fires", form_in(page, "/bulk/fires"), fragment=True)
    assert "<b>3 of 3 fires</b> set to be tried again." in answer.text
    assert len(await desk.alarms.fires()) == 3  # the same fires again, not new ones


async def test_an_action_that_does_not_exist_is_refused(desk: Desk) -> None:
    assert (await desk.post("/bulk/alarms", [("verb", "explode"), ("id", "x")])).status == 404
    assert (await desk.post("/bulk/tokens", [("verb", "pause")])).status == 404


async def test_counting_ends_somewhere(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await set_many(desk, 7)
    pages = bulk.alarms_that_fit(desk.alarms, "pause", {})
    assert await bulk.count(pages, most=5) == 5
    assert await bulk.count(pages) == 7
    monkeypatch.setattr(bulk, "COUNTED", 6)
    assert await bulk.count_that_fit(desk.alarms, "alarms", "pause", {}) == 6


async def test_the_number_is_of_those_that_the_verb_can_be_done_to(desk: Desk) -> None:
    ids = await set_many(desk, 5)
    await desk.alarms.pause(ids[0])
    counted = {
        ("pause", ""): 4,
        ("resume", ""): 1,
        ("cancel", ""): 5,
        ("pause", "&status=paused"): 0,
        ("pause", "&status=active,paused&label=many"): 4,
        ("pause", "&label=few"): 0,
        ("pause", "&text=N3"): 1,
    }
    for (verb, query), number in counted.items():
        filters: dict[str, Any] = dict(part.split("=") for part in query.split("&") if part)
        if "status" in filters:
            filters["status"] = tuple(filters["status"].split(","))
        assert await bulk.count_that_fit(desk.alarms, "alarms", verb, filters) == number, (verb, query)
    assert await bulk.count_that_fit(desk.alarms, "fires", "retry", {}) == 0


@pytest.mark.parametrize("said", ["javascript:xss()", "//evil.example", "https://evil.example", "/\\evil.example"])
async def test_the_way_back_leads_to_a_page_of_ours(desk: Desk, said: str) -> None:
    ids = await set_many(desk, 1)
    done = await desk.post("/bulk/alarms", [("verb", "pause"), ("back", said), ("id", ids[0])])
    assert done.status == 200
    assert 'href="/">Back to the list' in done.text
    assert "evil" not in done.text
    assert "javascript:" not in done.text
