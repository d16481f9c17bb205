"""`/` and `/new`: what needs somebody, the hours ahead in the reader's zone, and times understood while typed."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.dashboard.pages.desk import Desk
from wakeful.alarm.model import Alarm, Fire
from wakeful.dashboard import new, now
from wakeful.dashboard.now import bars
from wakeful.service.attention import needs
from wakeful.store import Worker
from wakeful.testing import NEW_YEAR

MOMENTS: dict[str, Any] = dict.fromkeys(("next_fire_at", "created_at", "updated_at", "occurrence_at"), NEW_YEAR)
ALARM = Alarm(id="a", owner_did="me", user_id="me", wake_message="words", **MOMENTS)


def fire(status: str, **fields: object) -> Fire:
    known = {"alarm_id": "a", "scheduled_for": NEW_YEAR, "owner_did": "me", "target": "web", "updated_at": NEW_YEAR}
    return Fire(status=status, **known | fields)  # type: ignore[arg-type]


def worker(**fields: object) -> Worker:
    known = {"id": "w", "host": "h", "pid": 1, "version": "1", "started_at": NEW_YEAR, "seen_at": NEW_YEAR}
    return Worker(**known | fields)  # type: ignore[arg-type]


def test_what_is_being_retried_needs_somebody_and_can_be_paused() -> None:
    retrying = [(fire("retrying", attempts=2, last_error="HTTP 503"), ALARM)]
    [need] = needs([], [], {"web": [worker()]}, {}, is_pending=True, now=NEW_YEAR, retrying=retrying)
    assert (need.what, need.repair, need.id) == ("failing", "pause", "a")
    assert "attempt 2 failed" in need.said
    assert "HTTP 503" in need.said


def test_wakes_that_nobody_took_are_one_line() -> None:
    unread = [fire("waiting"), fire("waiting")]
    [need] = needs([], [], {"web": [worker()]}, {}, is_pending=True, now=NEW_YEAR, unread=unread)
    assert (need.what, need.title) == ("unread", "2 wakes wait in the inbox")


def test_a_worker_from_the_future_says_that_the_clock_jumped() -> None:
    served = {"web": [worker(seen_at=NEW_YEAR + timedelta(minutes=2))]}
    [need] = needs([], [], served, {}, is_pending=True, now=NEW_YEAR)
    assert need.what == "clock"
    assert "120 s in the future" in need.said


def test_nobody_at_work_comes_first() -> None:
    found = needs([], [], {}, {}, is_pending=True, now=NEW_YEAR, unread=[fire("waiting")])
    assert [need.what for need in found] == ["nobody", "unread"]


def test_the_hours_ahead_are_those_of_the_reader() -> None:
    half_past = NEW_YEAR.astimezone(ZoneInfo("Asia/Kolkata"))  # 05:30 there
    found = bars([(NEW_YEAR, ALARM), (NEW_YEAR + timedelta(minutes=31), ALARM)], half_past)
    assert [bar.at.strftime("%H:%M") for bar in found[:2]] == ["05:00", "06:00"]
    assert [bar.count for bar in found[:2]] == [1, 1]


async def test_the_bars_follow_the_zone_that_the_browser_says(desk: Desk) -> None:
    await desk.alarms.set("in 1 hour", "words")
    page = await desk.get("/now/next", cookie="wakeful_tz=Asia%2FKolkata")
    assert re.search(r"1 from \w+ \d\d:00 IST", page)
    assert re.search(r"1 from \w+ \d\d:00 UTC", await desk.get("/now/next", cookie="wakeful_tz=Not%2FThere"))


async def test_a_refused_time_offers_forms_that_work(desk: Desk) -> None:
    answer = await desk.post("/new/preview", [("when", "sometimes"), ("timezone", "Europe/Berlin")], fragment=True)
    offered = re.findall(r'data-fill="when" data-value="([^"]*)"', answer.text)
    assert offered
    for text in offered:
        again = await desk.post("/new/preview", [("when", text), ("timezone", "Europe/Berlin")], fragment=True)
        assert 'class="error"' not in again.text, text


async def test_what_a_refusal_quotes_but_does_not_work_is_no_button(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new, "_QUOTED", re.compile("(Try|in 30 minutes)"))
    answer = await desk.post("/new/preview", [("when", "sometimes")], fragment=True)
    assert re.findall('data-value="([^"]*)"', answer.text) == ["in 30 minutes"]


async def test_the_parts_of_now_are_asked_for_again_without_losing_one_s_place(desk: Desk) -> None:
    await desk.visit.fired()
    page = await desk.get("/")
    assert page.count('hx-swap="innerMorph"') == 3
    assert re.search(r'<tr id="t-[0-9a-f-]+@\d+"', page)


async def test_new_alarms_do_not_push_what_fired_off_the_page(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(now, "TAIL", 2)
    await desk.visit.fired()
    for number in range(5):
        await desk.alarms.set("in 1 hour", f"n{number}")
    assert len(re.findall(r'<tr id="t-[0-9a-f-]+@\d+"', await desk.get("/now/tail"))) == 1


async def test_hours_that_were_not_counted_do_not_look_empty(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(now, "AHEAD", 3)
    await desk.alarms.set("every hour", "words")
    page = await desk.get("/now/next")
    assert "3+ fires" in page
    assert "; counted until" in page
    assert len(re.findall("<title>not counted from", page)) >= 19
