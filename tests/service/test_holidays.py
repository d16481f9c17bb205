"""Holidays as owners ask for them: by a phrase or by a policy, with the calendars of the settings, on both stores."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import wakeful
from wakeful.errors import InvalidRequest
from wakeful.python.client import LocalWakeful
from wakeful.schedule import days_off
from wakeful.settings.tables import CalendarSettings
from wakeful.store import EventQuery, Store
from wakeful.testing import ManualClock

from .world import waking

BERLIN = "Europe/Berlin"
WEDNESDAY = datetime(2026, 12, 23, 12, tzinfo=UTC)
CLOSED = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//office//EN
BEGIN:VEVENT
UID:1@office
DTSTART;VALUE=DATE:20261224
DTEND;VALUE=DATE:20261226
SUMMARY:Closed
END:VEVENT
BEGIN:VEVENT
UID:2@office
DTSTART;VALUE=DATE:20201231
RRULE:FREQ=YEARLY
SUMMARY:Stocktaking
END:VEVENT
END:VCALENDAR
"""


@pytest.fixture(autouse=True)
def no_calendars_left() -> Iterator[None]:
    yield
    days_off._calendars.clear()


@pytest.fixture
def office(tmp_path: Path) -> Path:
    file = tmp_path / "office.ics"
    file.write_text(CLOSED)
    return file


def ada(store: Store, clock: ManualClock, **settings: Any) -> LocalWakeful:
    calendars = {"berlin": CalendarSettings(country="DE", subdivision="BE")}
    return waking(store, clock, **({"owner": "ada", "timezone": BERLIN, "calendars": calendars} | settings))


@pytest.fixture
async def clock() -> ManualClock:
    return ManualClock(WEDNESDAY)


@pytest.mark.parametrize(
    "when",
    [
        "every day at 9am except public holidays",
        "every day at 9am, not on bank holidays",
        "every day, except for holidays, at 9am",
    ],
)
async def test_a_phrase_leaves_public_holidays_out(store: Store, clock: ManualClock, when: str) -> None:
    me = ada(store, clock)
    made = await me.create(wakeful.CreateRequest(wake_message="x", when=when))
    alarm = made.alarm
    assert (alarm.cron_expr, alarm.policy.calendar, alarm.policy.on_holiday) == ("0 9 * * *", "berlin", "skip")
    assert [at.day for at, _ in await me.agenda(hours=24 * 5)] == [24, 27, 28]
    assert "What falls on a holiday of the calendar 'berlin' is skipped." in made.notes


async def test_it_is_skipped_on_record_and_why_says_so(store: Store, clock: ManualClock) -> None:
    me = ada(store, clock)
    alarm = await me.set("every day at 9am except public holidays", "x", policy={"overlap": "allow"})
    await clock.advance(datetime(2026, 12, 24, 10, tzinfo=UTC) - clock.now())
    await me.run_due()
    said = (await me.why(alarm.id)).summary
    assert said.startswith("Its fire of 2026-12-25T08:00:00Z falls on a holiday (Christmas Day) and is skipped.")
    assert "After that at 2026-12-27T08:00:00Z." in said
    [note] = [note for note in (await me.details(alarm.id)).notes if "is a holiday" in note]
    assert note == "2026-12-25 is a holiday (Christmas Day): it fires next at 2026-12-27T09:00:00+01:00."
    for day in (25, 26, 27):
        await clock.advance(datetime(2026, 12, day, 8, tzinfo=UTC) - clock.now())
        await me.run_due()
    fires = [(fire.scheduled_for.day, fire.status, fire.reason) for fire in reversed(await me.fires(alarm.id))]
    assert fires == [(24, "waiting", ""), (25, "skipped", "holiday"), (26, "skipped", "holiday"), (27, "waiting", "")]
    entries = [entry for entry in await me.history(status="skipped") if entry.alarm_id == alarm.id]
    assert [entry.result for entry in entries] == ["Second Day of Christmas", "Christmas Day"]
    skipped = entries[-1].id
    assert (await me.why(skipped)).summary.endswith("was skipped: it fell on a holiday (Christmas Day).")


async def test_a_policy_moves_to_the_owners_working_days(store: Store, clock: ManualClock) -> None:
    me = ada(store, clock)
    await me.set_owner_settings(working_days="sun-thu")
    alarm = await me.set(cron="0 9 25 * *", wake_message="x", policy={"on_holiday": "next_working_day"})
    assert (alarm.policy.calendar, alarm.policy.working_days) == ("berlin", "sun-thu")
    assert alarm.next_fire_at == datetime(2026, 12, 27, 8, tzinfo=UTC)  # a Sunday
    moved = await me.update(alarm.id, policy={"on_holiday": "previous_working_day", "working_days": "mon-fri"})
    assert moved.alarm.next_fire_at == datetime(2026, 12, 24, 8, tzinfo=UTC)
    plain = (await me.update(alarm.id, policy={"calendar": None})).alarm
    assert plain.next_fire_at == datetime(2026, 12, 25, 8, tzinfo=UTC)
    assert (plain.policy.calendar, plain.policy.on_holiday, plain.policy.working_days) == (
        "",
        None,
        "",
    )
    again = await me.update(alarm.id, when="every friday at 9am except public holidays")
    assert (again.alarm.policy.calendar, again.alarm.policy.on_holiday) == ("berlin", "skip")


async def test_every_working_day_is_the_owners_and_keeps_holidays(store: Store, clock: ManualClock) -> None:
    me = ada(store, clock)
    alarm = await me.set("every working day at 9am", "x")
    assert (alarm.cron_expr, alarm.policy.calendar) == ("0 9 * * 1-5", "berlin")
    await me.set_owner_settings(working_days="sun-thu")
    alarm = await me.set("every working day at 9am", "x")
    found = await me.parse("every working day at 9am")
    assert {at.weekday() for at in found.next(20)} == {6, 0, 1, 2, 3}
    assert alarm.cron_expr == found.cron_expr


async def test_without_a_calendar_working_days_are_days_of_the_week(store: Store, clock: ManualClock) -> None:
    me = waking(store, clock, owner="ada")
    made = await me.create(wakeful.CreateRequest(wake_message="x", when="every working day at 9am"))
    alarm = made.alarm
    assert (alarm.cron_expr, alarm.policy.calendar) == ("0 9 * * 1-5", "")
    assert "No calendar of holidays is set: it fires on public holidays too." in made.notes
    assert (await me.update(alarm.id, when="every working day at 8am")).alarm.cron_expr == "0 8 * * 1-5"
    assert (await me.parse("every working day at 9am")).description == "at 09:00 on Monday through Friday, UTC"
    with pytest.raises(InvalidRequest, match="no calendar is set"):
        await me.set("every working day at 9am except public holidays", "x")


async def test_a_preview_shows_what_is_left_out(store: Store, clock: ManualClock) -> None:
    found = await ada(store, clock).parse("every day at 9am except public holidays")
    assert found.description.endswith(", except public holidays")
    assert [at.day for at in found.next(3)] == [24, 27, 28]
    assert [(at.day, name) for at, name in found.skipped(3)] == [(25, "Christmas Day"), (26, "Second Day of Christmas")]
    plain = await ada(store, clock).parse("every day at 9am")
    assert plain.skipped(10) == []


async def test_days_that_are_none_are_refused_also_where_nothing_is_moved(store: Store, clock: ManualClock) -> None:
    me = ada(store, clock)
    with pytest.raises(InvalidRequest, match="does not name days"):
        await me.set("every day at 9am", "x", policy={"working_days": "someday"})
    alarm = await me.set("every day at 9am", "x")
    with pytest.raises(InvalidRequest, match="does not name days"):
        await me.update(alarm.id, policy={"working_days": "someday"})
    assert await me.get(alarm.id) == alarm


@pytest.mark.parametrize("what", ["when", "policy.on_holiday", "policy.calendar"])
async def test_without_a_calendar_it_is_refused_with_what_to_do(store: Store, clock: ManualClock, what: str) -> None:
    me = ada(store, clock, calendars={})
    asked: dict[str, dict[str, Any]] = {
        "when": {"when": "every day at 9am except public holidays"},
        "policy.on_holiday": {"when": "every day at 9am", "policy": {"on_holiday": "skip"}},
        "policy.calendar": {"when": "every day at 9am", "policy": {"calendar": "berlin"}},
    }
    with pytest.raises(InvalidRequest, match=r"\[calendars\.") as refused:
        await me.set(wake_message="x", **asked[what])
    assert refused.value.field == what
    assert await me.find() == []


async def test_of_several_calendars_the_owners_counts_then_the_servers(store: Store, clock: ManualClock) -> None:
    two = {"berlin": CalendarSettings(country="DE", subdivision="BE"), "us": CalendarSettings(country="US")}
    me = ada(store, clock, calendars=two)
    with pytest.raises(InvalidRequest, match=r"Name one in your settings: berlin, us\."):
        await me.set("every day at 9am except public holidays", "x")
    me = ada(store, clock, calendars=two, calendar="us")
    assert (await me.set("every day at 9am except public holidays", "x")).policy.calendar == "us"
    await me.set_owner_settings(calendar="berlin")
    assert (await me.set("every day at 9am except public holidays", "x")).policy.calendar == "berlin"
    assert (await me.set("every day at 9am", "x")).policy.calendar == ""  # nothing is silenced unasked
    named = await me.set("every day at 9am", "x", policy={"calendar": "us"})
    assert (named.policy.calendar, named.policy.on_holiday) == ("us", "skip")


async def test_one_moment_on_a_holiday_is_refused_to_leave_it_out(store: Store, clock: ManualClock) -> None:
    with pytest.raises(InvalidRequest, match="only a series leaves holidays out"):
        await ada(store, clock).set("tomorrow at 9am except public holidays", "x")


async def test_a_file_of_events_is_a_calendar_and_is_read_again(store: Store, clock: ManualClock, office: Path) -> None:
    me = ada(store, clock, calendars={"office": CalendarSettings(ics=str(office))})
    alarm = await me.set("every day at 9am except holidays", "x", policy={"overlap": "allow"})
    assert [at.day for at, _ in await me.agenda(hours=24 * 10)] == [26, 27, 28, 29, 30, 1, 2]
    await clock.advance(datetime(2026, 12, 24, 8, tzinfo=UTC) - clock.now())
    await me.run_due()
    office.unlink()  # noqa: ASYNC240 - nobody waits for this loop
    for day in (25, 26):
        await clock.advance(datetime(2026, 12, day, 8, tzinfo=UTC) - clock.now())
        await me.run_due()
    fires = [(fire.scheduled_for.day, fire.status) for fire in reversed(await me.fires(alarm.id))]
    assert fires == [(24, "skipped"), (25, "waiting"), (26, "waiting")]  # a file that is gone silences nothing
    events = [
        event for _, event in await store.events(EventQuery(alarm_id=alarm.id)) if event.what == "holidays_unknown"
    ]
    assert len(events) == 2
    assert "the calendar 'office' cannot be read: office.ics: No such file" in events[0].reason
    [note] = [note for note in (await me.details(alarm.id)).notes if "holidays" in note]
    assert note.startswith("It fires on holidays too: the calendar 'office' cannot be read")
    with pytest.raises(InvalidRequest, match=r"office\.ics"):
        await me.set("every day at 9am except holidays", "x")
    office.write_text(CLOSED.replace("20261224", "20261227").replace("20261226", "20261228"))  # noqa: ASYNC240 - nobody waits for this loop
    await clock.advance(datetime(2026, 12, 27, 8, tzinfo=UTC) - clock.now())
    await me.run_due()
    assert (await me.fires(alarm.id))[0].reason == "holiday"


async def test_many_at_once_are_asked_the_same(store: Store, clock: ManualClock) -> None:
    asked = [wakeful.CreateRequest(wake_message="x", when="every working day at 9am")] * 2
    made = await ada(store, clock).create_many(asked)
    assert {one.alarm.policy.calendar for one in made} == {"berlin"}


async def test_the_same_request_with_a_key_is_the_same_alarm(store: Store, clock: ManualClock) -> None:
    me = ada(store, clock)
    one = await me.set("every day at 9am except public holidays", "x", key="k")
    assert (await me.set("every day at 9am except public holidays", "x", key="k")).id == one.id
