"""What a calendar program is told of an owner's fires, from the plan to the outcome."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from icalendar import Calendar

from wakeful.python.client import LocalWakeful
from wakeful.service.calendar_feed import (
    LINE,
    MOST_COMING,
    MOST_OF_ONE,
    CalendarEvent,
    CalendarFeed,
    calendar_feed,
    calendar_file,
)
from wakeful.store import Store
from wakeful.testing import ManualClock

from .world import HOUR, waiting, waking


@pytest.fixture
def wake_me(store: Store, clock: ManualClock) -> LocalWakeful:
    return waking(store, clock)


async def feed_of(wake_me: LocalWakeful, owner: str = "") -> CalendarFeed:
    service = wake_me.service
    base = "https://clock.example/"
    return await calendar_feed(service.store, owner or wake_me.caller.owner, base=base, now=await service.now())


async def told(wake_me: LocalWakeful, owner: str = "") -> dict[str, Any]:
    """The events by their uid."""
    read = Calendar.from_ical((await feed_of(wake_me, owner)).body)
    found = {str(event["uid"]): event for event in read.walk("VEVENT")}
    assert len(found) == len(read.walk("VEVENT"))
    return found


async def test_a_fire_becomes_its_outcome_under_the_same_uid(wake_me: LocalWakeful, clock: ManualClock) -> None:
    alarm = await wake_me.set("in 1 hour", "Check the grant portal")
    [(uid, planned)] = (await told(wake_me)).items()
    assert str(planned["summary"]) == "Check the grant portal"
    assert str(planned["url"]) == f"https://clock.example/alarms/{alarm.id}"
    await clock.advance(HOUR)
    await wake_me.run_due()
    [(same, waits)] = (await told(wake_me)).items()
    assert (same, str(waits["summary"])) == (uid, "… Check the grant portal")
    assert "Waiting in the inbox." in waits["description"]
    assert waits["sequence"] > planned["sequence"]
    [wake] = await wake_me.inbox()
    await clock.advance(timedelta(seconds=5))
    await wake_me.completed(wake.fire.id, "3 grants")
    [(same, done)] = (await told(wake_me)).items()
    assert (same, str(done["summary"])) == (uid, "✓ Check the grant portal")
    assert "Completed.\nResult: 3 grants\n" in done["description"]
    assert done["sequence"] > waits["sequence"]
    assert done["dtstart"].dt == planned["dtstart"].dt


async def test_a_failure_says_why(wake_me: LocalWakeful, clock: ManualClock) -> None:
    await waiting(wake_me, clock, max_failures=0)
    [wake] = await wake_me.inbox()
    await wake_me.delivery_failed(wake.fire.id, "no milk")
    [failed] = (await told(wake_me)).values()
    assert str(failed["summary"]) == "✗ read me"
    assert "Failed (reported).\n" in failed["description"]
    assert "Error: no milk\n" in failed["description"]


async def test_a_fire_that_is_tried_again_is_one_event(wake_me: LocalWakeful, clock: ManualClock) -> None:
    alarm = await waiting(wake_me, clock)
    [wake] = await wake_me.inbox()
    await wake_me.delivery_failed(wake.fire.id, "no milk")
    assert (await wake_me.get(alarm.id)).status == "active"
    [(uid, again)] = (await told(wake_me)).items()
    assert (uid, str(again["summary"])) == (wake.fire.id, "… read me")
    assert "Failed, and tried again" in again["description"]


async def test_a_fire_that_is_put_off_is_told_where_it_was_and_where_it_will_be(wake_me: LocalWakeful) -> None:
    alarm = await wake_me.set("in 1 hour", "work")
    [(uid, planned)] = (await told(wake_me)).items()
    later = await wake_me.snooze(alarm.id, 2 * HOUR)
    found = await told(wake_me)
    assert str(found.pop(uid)["summary"]) == "– work"
    [again] = found.values()
    assert (str(again["summary"]), again["dtstart"].dt) == ("work", planned["dtstart"].dt + HOUR)
    assert again["sequence"] == later.alarm.version


async def test_a_skipped_fire_that_is_planned_again_is_coming(wake_me: LocalWakeful) -> None:
    series = await wake_me.set(cron="0 9 * * *", wake_message="x")
    await wake_me.skip(series.id)
    await wake_me.update(series.id, cron="0 9,10 * * *")
    found = await told(wake_me)
    first = min(found.values(), key=lambda event: event["dtstart"].dt)
    assert (first["dtstart"].dt, str(first["summary"])) == (series.next_fire_at, "x")


async def test_a_skipped_fire_stays_in_the_calendar_as_skipped(wake_me: LocalWakeful, clock: ManualClock) -> None:
    series = await wake_me.set(cron="0 9 * * *", wake_message="x")
    await wake_me.skip(series.id)
    found = await told(wake_me)
    first = min(found.values(), key=lambda event: event["dtstart"].dt)
    assert (first["dtstart"].dt, str(first["summary"])) == (series.next_fire_at, "– x")
    assert "Skipped (requested)." in first["description"]


async def test_only_an_owners_own_fires_of_some_weeks_are_told(wake_me: LocalWakeful, clock: ManualClock) -> None:
    ada = wake_me.for_owner("ada")
    await ada.set("in 100 days", "beyond")
    paused = await ada.set("in 1 hour", "paused")
    await ada.pause(paused.id)
    await wake_me.for_owner("eve").set("in 1 hour", "eve's")
    assert await told(wake_me, "ada") == {}
    await waiting(wake_me, clock, owner="ada")
    assert len(await told(wake_me, "ada")) == 1
    await clock.advance(timedelta(days=32))
    assert [str(event["summary"]) for event in (await told(wake_me, "ada")).values()] == ["beyond"]


async def test_the_feed_changes_only_when_something_happens(wake_me: LocalWakeful, clock: ManualClock) -> None:
    alarm = await wake_me.set(cron="0 9 * * *", wake_message="x")
    first = await feed_of(wake_me)
    await clock.advance(timedelta(minutes=1))
    assert (await feed_of(wake_me)).etag == first.etag
    await wake_me.update(alarm.id, wake_message="y")
    assert (await feed_of(wake_me)).etag != first.etag


async def test_the_feed_is_bounded_and_every_alarm_is_in_it(wake_me: LocalWakeful) -> None:
    for number in range(20):
        await wake_me.set(cron="* * * * *", wake_message=f"often {number}")
    rare = await wake_me.set("in 80 days", "rare")
    found = await told(wake_me)
    assert len(found) == MOST_COMING
    assert any(uid.startswith(rare.id) for uid in found)
    shares = [len([1 for event in found.values() if event["summary"] == f"often {number}"]) for number in range(20)]
    assert max(shares) - min(shares) <= 1  # nobody's second before everyone's first
    assert "there are more" in (await feed_of(wake_me)).body.decode().replace("\r\n ", "")


async def test_one_alarm_has_so_many_events_at_most(wake_me: LocalWakeful) -> None:
    await wake_me.set(cron="* * * * *", wake_message="often")
    assert len(await told(wake_me)) == MOST_OF_ONE


@given(st.lists(st.tuples(st.text(), st.text()), max_size=3))
@example([("ü" * 200, "x" + "🎉" * 100), ("xx" + "€" * 200, "xxx" + "🎉" * 100)])
def test_any_text_is_read_back_by_a_calendar_program(texts: list[tuple[str, str]]) -> None:
    at = datetime(2030, 1, 1, 9, tzinfo=UTC)
    events = [
        CalendarEvent(uid=f"u{n}", at=at, summary=summary, description=words, changed_at=at, sequence=n)
        for n, (summary, words) in enumerate(texts)
    ]
    body = calendar_file(events, name="a,b;c", says="x\ny", refresh=HOUR)
    lines = body.split(b"\r\n")
    assert all(len(line) <= LINE for line in lines)
    assert all(line.decode() is not None for line in lines)  # no character is cut in two
    read = Calendar.from_ical(body).walk("VEVENT")
    assert [str(event["summary"]) for event in read] == [plain(summary) for summary, _ in texts]
    assert [str(event["description"]) for event in read] == [plain(words) for _, words in texts]


def plain(text: str) -> str:
    """The text with one kind of line end and no control characters."""
    for end in ("\r\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029"):
        text = text.replace(end, "\n")
    return "".join(one for one in text if one in "\n\t" or not (ord(one) < 32 or 127 <= ord(one) < 160))
