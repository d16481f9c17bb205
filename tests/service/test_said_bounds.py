"""Bounds that a phrase says ("until friday", "10 times") become the alarm's policy, and are told back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from wakeful.errors import Conflict, InvalidRequest, InvalidSchedule
from wakeful.model.keywords import PolicyKeywords
from wakeful.model.requests import CreateRequest
from wakeful.python.client import LocalWakeful
from wakeful.rules.create import series_words
from wakeful.store import Store
from wakeful.testing import ManualClock

from .world import waking

DAY = timedelta(days=1)


@pytest.fixture
def wake_me(store: Store, clock: ManualClock) -> LocalWakeful:
    return waking(store, clock)


async def test_a_series_starts_ends_and_counts_as_its_phrase_says(wake_me: LocalWakeful, clock: ManualClock) -> None:
    now = clock.now()
    alarm = await wake_me.set(f"every 2 days at 9am starting {now + 3 * DAY:%Y-%m-%d} for 3 times", "x")
    start = (now + 3 * DAY).replace(hour=0, minute=0, second=0, microsecond=0)
    assert (alarm.policy.starts_at, alarm.policy.ends_at, alarm.policy.max_fires) == (start, None, 3)
    assert alarm.next_fire_at == start.replace(hour=9)
    fired = []
    while (await wake_me.get(alarm.id)).status == "active":
        upcoming = (await wake_me.get(alarm.id)).next_fire_at
        fired.append(upcoming)
        await clock.advance(upcoming - clock.now())
        await wake_me.run_due()
        for _, fire in await wake_me.inbox():
            await wake_me.completed(fire.id)
    assert fired == [start.replace(hour=9) + n * 2 * DAY for n in range(3)]


async def test_the_end_that_was_said_is_the_end(wake_me: LocalWakeful, clock: ManualClock) -> None:
    alarm = await wake_me.set("every hour for the next 3 hours", "x")
    assert alarm.policy.ends_at == (clock.now() + timedelta(hours=3)).replace(microsecond=0)
    assert "until" in series_words(alarm)


@pytest.mark.parametrize(
    ("when", "policy", "field"),
    [
        ("every day for 10 times", {"max_fires": 3}, "policy.max_fires"),
        ("every day until 2031-01-01", {"ends_at": "2032-01-01T00:00:00Z"}, "policy.ends_at"),
        ("every day from 2031-01-01", {"starts_at": "2032-01-01T00:00:00Z"}, "policy.starts_at"),
    ],
)
async def test_a_bound_that_is_said_twice_and_differently_is_refused_with_both(
    wake_me: LocalWakeful, when: str, policy: PolicyKeywords, field: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await wake_me.set(when, "x", policy=policy)
    assert refused.value.field == field
    assert str(dict(policy)[field.removeprefix("policy.")])[:4] in refused.value.message
    assert any(said in refused.value.message for said in ("10", "2031"))
    assert list(await wake_me.find()) == []
    kept = await wake_me.set("every day at 9am", "x")
    with pytest.raises(InvalidRequest):
        await wake_me.update(kept.id, when=when, policy=policy)
    assert (await wake_me.get(kept.id)).version == kept.version


async def test_a_bound_that_is_said_twice_and_alike_is_fine(wake_me: LocalWakeful) -> None:
    alarm = await wake_me.set("every day for 10 times", "x", policy={"max_fires": 10, "expires": "1h"})
    assert (alarm.policy.max_fires, alarm.policy.expires) == (10, 3600)


async def test_an_edit_sets_the_bounds_of_its_phrase_and_keeps_the_others(
    wake_me: LocalWakeful, clock: ManualClock
) -> None:
    alarm = await wake_me.set("every day at 9am until 2031-01-01", "x")
    edited = await wake_me.update(alarm.id, when="every monday at 9am for 5 times")
    assert edited.alarm.policy.max_fires == 5
    assert edited.alarm.policy.ends_at == alarm.policy.ends_at
    later = await wake_me.update(alarm.id, when="every monday at 9am until 2032-01-01")
    assert later.alarm.policy.ends_at == datetime(2032, 1, 1, 23, 59, 59, tzinfo=UTC)
    assert later.alarm.policy.max_fires == 5


async def test_an_end_that_no_alarm_may_have_is_refused_in_an_edit_too(wake_me: LocalWakeful) -> None:
    kept = await wake_me.set("every day at 9am", "x")
    for attempt in (
        wake_me.set("every day until 9999-12-01", "x"),
        wake_me.update(kept.id, when="every day until 9999-12-01"),
    ):
        with pytest.raises(InvalidRequest, match="9999"):
            await attempt
    assert (await wake_me.get(kept.id)).version == kept.version


async def test_so_many_times_in_an_edit_are_so_many_more(wake_me: LocalWakeful, clock: ManualClock) -> None:
    alarm = await wake_me.set("every day at 9am", "x")
    for _ in range(2):
        await clock.advance((await wake_me.get(alarm.id)).next_fire_at - clock.now())
        await wake_me.run_due()
        for _, fire in await wake_me.inbox():
            await wake_me.completed(fire.id)
    fired = (await wake_me.get(alarm.id)).fire_count
    assert fired == 2
    edited = await wake_me.update(alarm.id, when="every day at 10am for 3 times")
    assert edited.alarm.policy.max_fires == fired + 3


@pytest.mark.parametrize("when", ["every hour for the next six weeks", "every day at 9am except tomorrow, 5 times"])
async def test_the_same_phrase_later_is_the_same_request(wake_me: LocalWakeful, clock: ManualClock, when: str) -> None:
    first = await wake_me.set(when, "x", key="k")
    await clock.advance(DAY + timedelta(minutes=1))
    assert (await wake_me.set(when, "x", key="k")).id == first.id
    with pytest.raises(Conflict, match="policy"):
        await wake_me.set(when, "x", key="k", policy={"expires": "1h"})


async def test_a_series_that_would_never_fire_is_refused(wake_me: LocalWakeful, clock: ManualClock) -> None:
    with pytest.raises(InvalidSchedule, match="between its start and its end"):
        await wake_me.set("every 29 february until next year", "x")
    assert list(await wake_me.find()) == []


async def test_the_notes_say_the_bounds_that_a_phrase_set(wake_me: LocalWakeful) -> None:
    asked = CreateRequest(wake_message="x", when="every day from 2031-01-02 until 2031-02-03 for 10 times")
    made = await wake_me.create(asked)
    said = "It starts on 2 January 2031, ends on 3 February 2031 and fires 10 times at most"
    assert any(note.startswith(said) for note in made.notes)
    edited = await wake_me.update(made.alarm.id, when="every day at 9am", policy={"max_fires": 3})
    assert not any("at most" in note for note in edited.notes)


@pytest.mark.parametrize(
    ("when", "note"),
    [
        ("tomorrow at 3:30", '"3:30" was read as 15:30: for the morning write "03:30".'),
        ("every day at 3:30", '"3:30" was read as 15:30: for the morning write "03:30".'),
        ("every day at half past two", '"half past 2" was read as 14:30: for the morning write "02:30".'),
        ("every day at 3:30pm", ""),
        ("every 5 minutes", ""),
    ],
    ids=["once", "series", "words", "pm", "interval"],
)
async def test_a_note_says_that_1_to_5_was_read_as_the_afternoon(wake_me: LocalWakeful, when: str, note: str) -> None:
    notes = (await wake_me.create(CreateRequest(wake_message="x", when=when))).notes
    assert [found for found in notes if "was read as" in found] == ([note] if note else [])
