"""`/` and `/new`: what needs somebody, the hours ahead in the reader's zone, and times understood while typed."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from tests.dashboard.pages.desk import Desk, rows
from wakeful.dashboard import new, now
from wakeful.dashboard.now import bars, by_alarm
from wakeful.dashboard.words import told
from wakeful.dispatcher import ServedTarget
from wakeful.model.alarm import Alarm, Fire
from wakeful.service.attention import needs
from wakeful.service.history import HistoryEntry
from wakeful.store import Worker
from wakeful.testing import NEW_YEAR, targets_of

MOMENTS: dict[str, Any] = dict.fromkeys(("next_fire_at", "created_at", "updated_at", "occurrence_at"), NEW_YEAR)
ALARM = Alarm(id="a", owner_did="me", user_id="me", wake_message="words", **MOMENTS)


def fire(status: str, **fields: object) -> Fire:
    known = {"alarm_id": "a", "scheduled_for": NEW_YEAR, "owner_did": "me", "target": "web", "updated_at": NEW_YEAR}
    return Fire(status=status, **known | fields)  # type: ignore[arg-type]


def worker(**fields: object) -> Worker:
    known = {"id": "w", "host": "h", "pid": 1, "version": "1", "started_at": NEW_YEAR, "seen_at": NEW_YEAR}
    return Worker(**known | fields)  # type: ignore[arg-type]


def test_what_is_being_retried_needs_somebody_and_can_be_paused() -> None:
    retrying = [fire("retrying", attempts=2, last_error="HTTP 503")]
    known = {"a": ALARM}
    [need] = needs([], [], {"web": [worker()]}, {}, is_pending=True, now=NEW_YEAR, retrying=retrying, known=known)
    assert (need.what, need.repair, need.id) == ("failing", "pause", "a")
    assert "attempt 2 failed" in need.said
    assert "HTTP 503" in need.said


@pytest.mark.parametrize(
    ("alarm", "told"),
    [
        (replace(ALARM, kind="cron", failed_in_a_row=1), ["failed"]),
        (replace(ALARM, kind="cron", failed_in_a_row=0), []),  # it has completed since
        (ALARM, ["failed"]),  # what happens once does not get well by itself
    ],
)
def test_the_failure_of_a_series_is_over_when_it_goes_well_again(alarm: Alarm, told: list[str]) -> None:
    failed = [HistoryEntry(id="a@1", alarm_id="a", status="failed", target="web", scheduled_for=NEW_YEAR)]
    found = needs(failed, [], {"web": [worker()]}, {}, is_pending=True, now=NEW_YEAR, known={"a": alarm})
    assert [need.what for need in found] == told


def test_wakes_that_nobody_took_are_one_line() -> None:
    unread = [fire("waiting"), fire("waiting")]
    [need] = needs([], [], {"web": [worker()]}, {}, is_pending=True, now=NEW_YEAR, unread=unread, known={})
    assert (need.what, need.title) == ("unread", "2 wakes wait in the inbox")


def test_a_worker_from_the_future_says_that_the_clock_jumped() -> None:
    served = {"web": [worker(seen_at=NEW_YEAR + timedelta(minutes=2))]}
    [need] = needs([], [], served, {}, is_pending=True, now=NEW_YEAR, known={})
    assert need.what == "clock"
    assert "120 s in the future" in need.said


def test_nobody_at_work_comes_first() -> None:
    found = needs([], [], {}, {}, is_pending=True, now=NEW_YEAR, unread=[fire("waiting")], known={})
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


def test_an_alarm_that_repeats_is_one_line_with_what_follows() -> None:
    other = replace(ALARM, id="b")
    minutes = [(NEW_YEAR + timedelta(minutes=number), ALARM) for number in range(1, 5)]
    found = by_alarm([*minutes, (NEW_YEAR + timedelta(minutes=9), other)])
    assert [(one.alarm.id, one.at, one.further) for one in found] == [
        ("a", NEW_YEAR + timedelta(minutes=1), 3),
        ("b", NEW_YEAR + timedelta(minutes=9), 0),
    ]


async def test_the_hours_ahead_list_each_alarm_once_and_lead_to_each_hour(desk: Desk) -> None:
    await desk.alarms.set("every 5 minutes", "often", label="often")
    await desk.alarms.set("in 3 hours", "once", label="rare")
    page = await desk.get("/now/next")
    assert rows_of(page) == ["often", "rare"]
    assert "every 5 minutes, UTC · 287 more" in page
    [first, *_] = re.findall(r'<a href="(/timeline/coming\?[^"]*)" aria-label="\d+ from', page)
    assert rows(await desk.get(unescape(first)))[0].startswith("often")


def rows_of(page: str) -> list[str]:
    return re.findall(r'<td class="title"><a href="/alarms/[^"]*">([^<]*)</a>', page)


async def test_many_needs_leave_room_for_the_rest(desk: Desk) -> None:
    for number in range(9):
        targets_of(desk.visit.alarms)[f"target {number}"] = ServedTarget(desk.visit.agent, 8)
        await desk.visit.alarms.service.targets.pause(f"target {number}", by="ada", reason="")
    page = await desk.get("/now/needs")
    shown, folded = page.split("<details", 1)
    assert (shown.count("<li"), folded.count("<li")) == (6, 3)
    assert "3 more" in folded


def test_moments_in_a_text_are_those_of_the_reader_s_clock() -> None:
    shown = told(
        "no report by 2026-11-18T07:21:12+00:00, <b>tried</b> at 2026-11-18T07:21:12.5Z; not 2026-99-99T07:21:12Z"
    )
    assert shown.count("<time ") == 2
    assert 'datetime="2026-11-18T07:21:12Z"' in shown
    assert "&lt;b&gt;tried&lt;/b&gt;" in shown
    assert "not 2026-99-99T07:21:12Z" in shown
