"""Events of a calendar file become alarms; the same file again changes nothing, and a changed event is updated."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.transfer.test_ics_file import BERLIN, calendar, event, valarm
from wakeful.cli.ics import ImportedEvent, import_events
from wakeful.errors import UnknownTarget
from wakeful.model.alarm import Alarm
from wakeful.python.client import LocalWakeful
from wakeful.service import Alarms
from wakeful.store import Store
from wakeful.testing import ManualClock
from wakeful.transfer.ics import CalendarDefaults, read_events

from .world import HOUR, waking

START = f"DTSTART{BERLIN}:20300701T090000"


@pytest.fixture
def wake_me(store: Store, clock: ManualClock) -> LocalWakeful:
    return waking(store, clock)


async def imported(wake_me: Alarms, *components: str, target: str = "") -> list[ImportedEvent]:
    usual = CalendarDefaults("Europe/Berlin", target, await wake_me.service.now())
    return await import_events(wake_me, read_events(calendar(*components), usual))


async def states(wake_me: LocalWakeful, *components: str) -> list[str]:
    return [one.state for one in await imported(wake_me, *components)]


async def waiting(wake_me: Alarms) -> list[Alarm]:
    return sorted(await wake_me.find(status=("active", "paused")), key=lambda alarm: alarm.next_fire_at)


async def test_an_event_is_set_once_and_fires_by_the_wall_clock(wake_me: LocalWakeful) -> None:
    dentist = event(START, valarm("TRIGGER:-PT15M"), valarm("TRIGGER:-P1D"))
    weekly = event(f"DTSTART{BERLIN}:20300107T090000", "RRULE:FREQ=WEEKLY", uid="weekly")
    [first, second] = await imported(wake_me, dentist, weekly)
    assert (first.state, second.state, len(first.ids)) == ("set", "set", 2)
    before = await waiting(wake_me)
    assert [alarm.next_fire_at.isoformat() for alarm in before] == [
        "2030-01-07T08:00:00+00:00",
        "2030-06-30T07:00:00+00:00",
        "2030-07-01T06:45:00+00:00",
    ]
    assert (before[2].wall_time, before[2].timezone) == ("2030-07-01T08:45:00", "Europe/Berlin")
    assert await states(wake_me, dentist, weekly) == ["there already", "there already"]
    assert await waiting(wake_me) == before


async def test_a_changed_event_is_updated_and_keeps_its_alarm(wake_me: LocalWakeful) -> None:
    await imported(wake_me, event(START, valarm("TRIGGER:-PT15M")))
    [old] = await waiting(wake_me)
    assert await states(wake_me, event(START.replace("0701", "0702"), valarm("TRIGGER:-PT15M"))) == ["updated"]
    [moved] = await waiting(wake_me)
    assert (moved.id, moved.next_fire_at) == (old.id, old.next_fire_at + timedelta(days=1))
    assert await states(wake_me, event(START.replace("0701", "0702"), valarm("TRIGGER:-PT30M"))) == ["updated"]
    [other] = await waiting(wake_me)
    assert other.next_fire_at == moved.next_fire_at - timedelta(minutes=15)
    assert (await wake_me.get(old.id)).status == "cancelled"


async def test_an_event_that_is_cancelled_or_moved_into_the_past_is_cancelled(wake_me: LocalWakeful) -> None:
    await imported(wake_me, event(START, uid="a"), event(START, uid="b"))
    assert await states(wake_me, event(START, "STATUS:CANCELLED", uid="a")) == ["cancelled"]
    assert await states(wake_me, event(f"DTSTART{BERLIN}:20200701T090000", uid="b")) == ["cancelled"]
    assert await waiting(wake_me) == []


async def test_an_event_that_is_due_and_not_delivered_yet_is_not_cancelled(
    wake_me: LocalWakeful, clock: ManualClock
) -> None:
    soon = event("DTSTART:20300101T010000Z")
    await imported(wake_me, soon)
    await clock.advance(2 * HOUR)
    assert await states(wake_me, soon) == ["there already"]
    [due] = await waiting(wake_me)
    assert due.next_fire_at < clock.now()
    await wake_me.run_due()
    assert await states(wake_me, soon) == ["past"]
    assert len(await wake_me.inbox()) == 1


async def test_what_somebody_changed_here_stays_as_long_as_the_event_does(wake_me: LocalWakeful) -> None:
    await imported(wake_me, event(START, uid="a"), event(START, uid="b"))
    one, other = await waiting(wake_me)
    await wake_me.update(one.id, wake_message="my own words")
    await wake_me.cancel(other.id)
    assert await states(wake_me, event(START, uid="a"), event(START, uid="b")) == ["there already"] * 2
    [kept] = await waiting(wake_me)
    assert kept.wake_message == "my own words"
    later = START.replace("0701", "0703")
    assert await states(wake_me, event(later, uid="a"), event(later, uid="b")) == ["updated"] * 2
    assert {alarm.wake_message for alarm in await waiting(wake_me)} == {"Meeting starts now"}


async def test_an_event_that_is_refused_leaves_the_others_and_nothing_of_itself(wake_me: LocalWakeful) -> None:
    bad = event(START, "DESCRIPTION:" + "x" * 100, valarm("TRIGGER:-PT15M"), uid="bad").replace("Meeting", "a\x00b")
    left, good = await imported(wake_me, bad, event(START, uid="good"))
    assert (left.state, good.state) == ("left out", "set")
    assert left.found.reason
    assert len(await waiting(wake_me)) == 1


async def test_an_unknown_target_is_refused_before_anything_is_set(wake_me: LocalWakeful) -> None:
    with pytest.raises(UnknownTarget):
        await imported(wake_me, event(START), target="moon")
    assert await waiting(wake_me) == []


async def test_only_the_alarms_of_the_same_owner_and_event_are_touched(wake_me: LocalWakeful) -> None:
    mine = await wake_me.set("in 1 hour", "mine", key="ics:mine:x")
    await imported(wake_me.for_owner("eve"), event(START))
    assert await states(wake_me, event(START)) == ["set"]
    assert await states(wake_me, event(START, "STATUS:CANCELLED")) == ["cancelled"]
    assert [alarm.id for alarm in await waiting(wake_me)] == [mine.id]
    assert len(await waiting(wake_me.for_owner("eve"))) == 1
