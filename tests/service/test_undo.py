"""`undo`: the last cancel, skip, pause or edit of an alarm is taken back, once, while nothing else changed since."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import asdict

from tests.acting import acting
from wakeful.errors import Conflict, InvalidRequest, NotFound, TooMany
from wakeful.model.alarm import Alarm, Event
from wakeful.python.client import LocalWakeful
from wakeful.rules.undo import BOOKKEEPING, FORMER_LIMIT
from wakeful.store import EventQuery, Store
from wakeful.store.columns import DISPATCH, FIXED
from wakeful.testing import ManualClock

from .world import HOUR, ends, waking

DAY = timedelta(days=1)


@pytest.fixture
def wake_me(store: Store, clock: ManualClock) -> LocalWakeful:
    return waking(store, clock)


def intent(alarm: Alarm) -> dict[str, object]:
    """What the alarm says, when it fires and where it goes: all but the numbers of its row."""
    numbers = ("version", "claim", "updated_at", "in_flight")
    return {name: value for name, value in asdict(alarm).items() if name not in numbers}


def test_what_an_edit_keeps_is_all_that_is_not_bookkeeping_of_the_stores() -> None:
    assert set(DISPATCH) | set(FIXED) == BOOKKEEPING


async def test_a_cancelled_one_shot_comes_back_as_it_was_and_fires(wake_me: LocalWakeful, clock: ManualClock) -> None:
    alarm = await wake_me.set("in 2 hours", "Tea", payload={"a": 1}, key="tea")
    await wake_me.cancel(alarm.id, reason="by mistake")
    back = await wake_me.undo("tea")
    assert intent(back.alarm) == intent(alarm)
    assert back.alarm.version > alarm.version
    await clock.advance(2 * HOUR)
    await wake_me.run_due()
    assert [wake.wake_message for wake, _ in await wake_me.inbox()] == ["Tea"]


async def test_a_paused_alarm_that_was_cancelled_comes_back_paused(wake_me: LocalWakeful) -> None:
    alarm = await wake_me.set("in 2 hours", "Tea")
    await wake_me.pause(alarm.id, reason="holiday")
    await wake_me.cancel(alarm.id)
    back = await wake_me.undo(alarm.id)
    assert (back.alarm.status, back.alarm.paused_reason) == ("paused", "holiday")


async def test_a_cancelled_one_shot_whose_time_has_passed_needs_a_new_one(
    wake_me: LocalWakeful, clock: ManualClock
) -> None:
    alarm = await wake_me.set("in 1 hour", "Tea")
    await wake_me.cancel(alarm.id)
    await clock.advance(2 * HOUR)
    with pytest.raises(InvalidRequest, match="its time has passed") as refused:
        await wake_me.undo(alarm.id)
    assert refused.value.field == "when"
    assert (await wake_me.get(alarm.id)).status == "cancelled"
    back = await wake_me.undo(alarm.id, when="in 3 hours")
    assert (back.alarm.status, back.alarm.next_fire_at) == ("active", clock.now() + 3 * HOUR)


async def test_a_cancelled_series_goes_on_and_what_passed_is_on_record(
    wake_me: LocalWakeful, clock: ManualClock
) -> None:
    alarm = await wake_me.set("every hour", "Look")
    await wake_me.cancel(alarm.id)
    await clock.advance(3 * HOUR)
    back = await wake_me.undo(alarm.id)
    assert (back.alarm.status, back.alarm.cancelled_at) == ("active", None)
    assert clock.now() < back.alarm.next_fire_at <= clock.now() + HOUR
    [gap] = await wake_me.fires(alarm.id)
    assert (gap.status, gap.reason, gap.scheduled_for) == ("skipped", "cancelled", alarm.next_fire_at)
    assert gap.through is not None
    assert back.alarm.next_fire_at - gap.through == HOUR


async def test_a_pause_is_taken_back(wake_me: LocalWakeful) -> None:
    alarm = await wake_me.set("every hour", "Look")
    await wake_me.pause(alarm.id)
    assert intent((await wake_me.undo(alarm.id)).alarm) == intent(alarm)


async def test_a_skip_is_taken_back_while_the_fire_is_ahead_and_it_fires(
    wake_me: LocalWakeful, clock: ManualClock
) -> None:
    alarm = await wake_me.set("every day at 9am", "Look")
    await wake_me.skip(alarm.id)
    back = await wake_me.undo(alarm.id)
    assert intent(back.alarm) == intent(alarm)
    await clock.advance(alarm.next_fire_at - clock.now())
    await wake_me.run_due()
    assert await ends(wake_me, alarm.id) == [("waiting", "")]


async def test_a_skip_of_a_fire_that_is_over_is_refused(wake_me: LocalWakeful, clock: ManualClock) -> None:
    alarm = await wake_me.set("every hour", "Look")
    await wake_me.skip(alarm.id)
    await clock.advance(alarm.next_fire_at - clock.now())
    before = await wake_me.get(alarm.id)
    with pytest.raises(Conflict, match="is over"):
        await wake_me.undo(alarm.id)
    assert await wake_me.get(alarm.id) == before


@pytest.mark.parametrize(
    "changes",
    [
        {"wake_message": "Coffee", "payload": {"b": 2}, "label": "l", "conversation_id": "c", "max_failures": 1},
        {"when": "every day at 10am", "timezone": "Europe/Berlin"},
        {"policy": {"max_fires": 3, "jitter": 60}},
        {"when": "in 5 hours", "kind": "once"},
    ],
)
async def test_an_edit_is_taken_back_with_all_that_it_changed(
    wake_me: LocalWakeful, changes: dict[str, object]
) -> None:
    alarm = await wake_me.set("every weekday at 9am", "Tea", payload={"a": 1}, policy={"expires": 60})
    edited = await wake_me.update(alarm.id, **changes)  # type: ignore[arg-type]
    assert intent(edited.alarm) != intent(alarm)
    assert intent((await wake_me.undo(alarm.id)).alarm) == intent(alarm)


async def test_a_report_since_is_not_a_change(wake_me: LocalWakeful, clock: ManualClock) -> None:
    alarm = await wake_me.set("every hour", "Look")
    await wake_me.update(alarm.id, wake_message="Listen")
    await clock.advance(HOUR)
    await wake_me.run_due()
    [(_, fire)] = await wake_me.inbox()
    await wake_me.completed(fire.id, "done")
    assert (await wake_me.undo(alarm.id)).alarm.wake_message == "Look"


async def test_only_the_last_change_is_taken_back_and_once(wake_me: LocalWakeful) -> None:
    alarm = await wake_me.set("every hour", "one")
    await wake_me.update(alarm.id, wake_message="two")
    await wake_me.update(alarm.id, wake_message="three")
    assert (await wake_me.undo(alarm.id)).alarm.wake_message == "two"
    with pytest.raises(Conflict, match="was taken back already"):
        await wake_me.undo(alarm.id)
    assert (await wake_me.get(alarm.id)).wake_message == "two"


async def test_what_changed_since_is_said(wake_me: LocalWakeful) -> None:
    alarm = await wake_me.set("every hour", "one")
    await wake_me.update(alarm.id, wake_message="two")
    await wake_me.snooze(alarm.id, "5h")
    with pytest.raises(Conflict, match="it was snoozed"):
        await wake_me.undo(alarm.id)
    with pytest.raises(Conflict, match="there is no change"):
        await wake_me.undo((await wake_me.set("in 1 hour", "new")).id)


async def test_a_key_that_was_used_since_is_a_conflict(wake_me: LocalWakeful) -> None:
    alarm = await wake_me.set("in 2 hours", "old", key="k")
    await wake_me.cancel(alarm.id)
    await wake_me.set("in 3 hours", "new", key="k", on_conflict="replace")
    with pytest.raises(Conflict, match="it was replaced"):
        await wake_me.undo(alarm.id)
    assert (await wake_me.get("k")).wake_message == "new"


async def test_a_change_of_the_last_24_hours_and_no_older_one(wake_me: LocalWakeful, clock: ManualClock) -> None:
    late, soon = [await wake_me.set("every hour", "x") for _ in range(2)]
    await wake_me.cancel(late.id)
    await clock.advance(timedelta(seconds=1))
    await wake_me.cancel(soon.id)
    await clock.advance(DAY)
    with pytest.raises(Conflict, match="only the last 24 hours"):
        await wake_me.undo(late.id)
    assert (await wake_me.undo(soon.id)).alarm.status == "active"


async def test_former_values_are_shown_to_nobody_and_kept_once(wake_me: LocalWakeful, store: Store) -> None:
    alarm = await wake_me.set("every hour", "hunter2")
    for text in ("two", "three", "four"):
        await wake_me.update(alarm.id, wake_message=text)
    assert "hunter2" not in str(await wake_me.why(alarm.id))
    assert {event.what for _, event in await store.events(EventQuery(alarm_id=alarm.id))} == {"updated"}
    followed = await store.changes(owner="", since=alarm.created_at, after_event=0, limit=100)
    assert {event.what for _, event in followed.events} == {"updated"}
    kept = [event for event in await _latest(store, alarm) if event.what == "former"]
    assert len(kept) == 1
    assert "three" in kept[0].reason


async def test_values_that_are_too_long_are_not_kept_and_that_is_said(wake_me: LocalWakeful, store: Store) -> None:
    alarm = await wake_me.set("every hour", "x", payload={"long": "x" * FORMER_LIMIT})
    await wake_me.update(alarm.id, payload={})
    assert max(len(event.reason) for event in await _latest(store, alarm)) < 1000
    with pytest.raises(Conflict, match="too long to be kept"):
        await wake_me.undo(alarm.id)
    await wake_me.cancel(alarm.id)
    assert (await wake_me.undo(alarm.id)).alarm.status == "active"


async def test_another_owner_takes_nothing_back(wake_me: LocalWakeful) -> None:
    alarm = await wake_me.set("every hour", "x", key="k")
    await wake_me.cancel(alarm.id)
    for name in (alarm.id, "k"):
        with pytest.raises(NotFound):
            await wake_me.for_owner("eve").undo(name)
    assert (await wake_me.get(alarm.id)).status == "cancelled"


async def test_a_skip_or_a_pause_takes_no_time(wake_me: LocalWakeful) -> None:
    alarm = await wake_me.set("every hour", "x")
    await wake_me.pause(alarm.id)
    with pytest.raises(InvalidRequest, match="without a new time"):
        await wake_me.undo(alarm.id, when="in 1 hour")
    assert (await wake_me.get(alarm.id)).status == "paused"


async def test_who_is_at_the_limit_brings_nothing_back(store: Store, clock: ManualClock) -> None:
    limited = acting(waking(store, clock, quota_active=1).service, "ada", limited=True)
    alarm = await limited.set("in 1 hour", "x")
    await limited.cancel(alarm.id)
    await limited.set("in 1 hour", "y")
    with pytest.raises(TooMany):
        await limited.undo(alarm.id)
    assert (await limited.get(alarm.id)).status == "cancelled"


async def _latest(store: Store, alarm: Alarm) -> list[Event]:
    return [event for _, event in await store.events(EventQuery(alarm_id=alarm.id, latest=True))]
