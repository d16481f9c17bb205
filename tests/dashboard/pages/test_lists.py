"""`/alarms` and `/fires`: found by what stands in the address, in pages, with the columns one chose."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from urllib.parse import urlencode

import pytest

from tests.dashboard.pages.desk import Desk, rows
from wakeful.service import bulk as searching

HOUR = timedelta(hours=1)


async def test_a_span_that_reaches_into_the_future_leads_to_what_is_to_come_in_it(desk: Desk) -> None:
    await desk.alarms.set("in 1 hour", "soon")
    now = await desk.alarms.service.now()
    span = urlencode({"since": (now - HOUR).isoformat(), "until": (now + 2 * HOUR).isoformat()})
    page = await desk.get(f"/fires?{span}")
    [there] = re.findall(r'href="(/timeline/coming[^"]*)"', page)
    assert "soon" in rows(await desk.get(unescape(there)))[0]
    assert "/timeline/coming" not in await desk.get("/fires?until=1h")
    assert "what fired in this time" in await desk.get(f"/timeline/coming?{span}")


async def test_every_filter_stands_in_the_address(desk: Desk) -> None:
    await desk.alarms.set("in 1 hour", "one", label="red", conversation_id="c1")
    await desk.alarms.set("every day at 9am", "two", label="blue")
    paused = await desk.alarms.set("in 1 hour", "three")
    await desk.alarms.pause(paused.id)
    for query, found in {
        "": ["three", "blue", "red"],
        "?status=paused": ["three"],
        "?status=active,paused&kind=once": ["three", "red"],
        "?kind=cron": ["blue"],
        "?label=red": ["red"],
        "?conversation_id=c1": ["red"],
        "?text=tw": ["blue"],
        "?target=nowhere": [],
        "?since=1h": ["three", "blue", "red"],
        "?until=1h": [],
    }.items():
        assert rows(await desk.get("/alarms" + query)) == found, query


@pytest.mark.parametrize(
    ("query", "field"),
    [("status=gone", "gone"), ("kind=x", "x"), ("since=yesterdayish", "since"), ("cursor=x", "cursor")],
)
async def test_a_filter_that_is_not_understood_is_refused_in_words(desk: Desk, query: str, field: str) -> None:
    answer = await desk.visit("GET", f"/alarms?{query}")
    assert answer.status == 400
    assert field in answer.text
    assert "Traceback" not in answer.text


async def test_pages_keep_the_filter_both_ways(desk: Desk) -> None:
    for number in range(53):
        await desk.alarms.set("in 1 hour", f"n{number}", label="many")
    await desk.alarms.set("in 1 hour", "other")
    first = await desk.get("/alarms?label=many")
    assert len(rows(first)) == 50
    [older] = re.findall(r'rel="next" href="([^"]*)"', first)
    second = await desk.get(older.replace("&amp;", "&"))
    assert len(rows(second)) == 3
    assert 'href="/alarms?label=many">← newest' in second


_QUERIES = ("label=it", "text=deep", "status=cancelled,failed", "conversation_id=c", "kind=cron")


@pytest.mark.parametrize("query", _QUERIES)
async def test_a_list_looks_through_so_many_and_goes_on(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setattr(searching, "LOOKED_AT", 4)
    monkeypatch.setattr(searching, "READ", 4)
    wanted = await desk.alarms.set("every day at 9am", "deep down", label="it", conversation_id="c")
    await desk.alarms.cancel(wanted.id)
    for number in range(5):
        await desk.alarms.set("in 1 hour", f"n{number}")
    first = await desk.get(f"/alarms?{query}")
    assert rows(first) == []
    assert "None among those looked through so far; there are older ones." in first
    [older] = re.findall(r'rel="next" href="([^"]*)"', first)
    second = await desk.get(older.replace("&amp;", "&"))
    assert rows(second) == ["it"]
    assert 'rel="next"' not in second


async def test_what_was_cancelled_is_found_at_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "LOOKED_AT", 4)
    wanted = await desk.alarms.set("every day at 9am", "deep down", label="it")
    await desk.alarms.cancel(wanted.id)
    for number in range(5):
        await desk.alarms.set("in 1 hour", f"n{number}")
    assert rows(await desk.get("/alarms?status=cancelled")) == ["it"]


async def test_fires_are_looked_through_the_same_way(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "LOOKED_AT", 1)
    for _ in range(2):
        await desk.visit.fired()
    first = await desk.get("/fires?target=elsewhere")
    [older] = re.findall(r'rel="next" href="([^"]*)"', first)
    assert "None among those looked through so far" in first
    assert "No fire is like that." in await desk.get(older.replace("&amp;", "&"))


async def test_columns_are_chosen_in_the_address_and_kept(desk: Desk) -> None:
    await desk.alarms.set("in 1 hour", "one", conversation_id="the-talk", key="my-key")
    usual = await desk.get("/alarms")
    assert "the-talk" not in usual
    answer = await desk.visit("GET", "/alarms?columns=key&columns=conversation")
    assert "the-talk" in answer.text
    assert "my-key" in answer.text
    assert "<th>Status</th>" not in answer.text
    kept = answer.headers["set-cookie"].partition(";")[0]
    assert kept == "wakeful_columns_alarms=conversation.key"
    assert "the-talk" in await desk.get("/alarms", cookie=kept)


async def test_fires_say_which_alarm_they_are_of(desk: Desk) -> None:
    wake = await desk.visit.fired()
    page = await desk.get("/fires")
    assert rows(page) == ["work"]
    assert wake.fire_id in page
    at = (wake.scheduled_for + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert rows(await desk.get(f"/fires?since={at}")) == []
    assert rows(await desk.get(f"/fires?until={at}&status=delivered")) == ["work"]
