"""An owner's own settings: above the server's, below the alarm's, cached, and seen by every process soon."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import wakeful
from wakeful.errors import InvalidRequest
from wakeful.model.owner_settings import OwnerSettings
from wakeful.python.client import LocalWakeful
from wakeful.service.owner_settings import GOOD_FOR, OwnerSettingsCache
from wakeful.settings import Settings
from wakeful.settings.tables import CalendarSettings
from wakeful.store import Store
from wakeful.testing import ManualClock

from .world import waking

BERLIN = "Europe/Berlin"
APRIL = datetime(2031, 4, 3, 9, tzinfo=UTC)


@pytest.fixture
def ada(store: Store, clock: ManualClock) -> LocalWakeful:
    return waking(
        store, clock, owner="ada", timezone="America/New_York", calendars={"de": CalendarSettings(country="DE")}
    )


async def test_a_zone_counts_for_every_alarm_that_names_none(ada: LocalWakeful) -> None:
    before = await ada.set("every day at 9am", "x")
    found = await ada.set_owner_settings(timezone=BERLIN)
    assert (found.timezone, found.own, found.calendars) == (BERLIN, ["timezone"], ["de"])
    assert before.timezone == "America/New_York"
    assert (await ada.get(before.id)).timezone == "America/New_York"  # what is set keeps its own
    assert (await ada.set("every day at 9am", "x")).timezone == BERLIN
    assert (await ada.set("every day at 9am", "x", timezone="Asia/Tokyo")).timezone == "Asia/Tokyo"
    [made] = await ada.create_many([wakeful.CreateRequest(wake_message="x", when="tomorrow at 9am")])
    assert made.alarm.timezone == BERLIN
    assert (await ada.parse("tomorrow at 9am")).timezone == BERLIN
    assert (await ada.for_owner("bob").set("every day at 9am", "x")).timezone == "America/New_York"
    assert (await ada.set_owner_settings(timezone="")).own == []
    assert (await ada.set("every day at 9am", "x")).timezone == "America/New_York"


async def test_a_date_order_counts_wherever_a_date_is_read(ada: LocalWakeful) -> None:
    date = "03/04/2031 at 9am"
    with pytest.raises(InvalidRequest, match="4 March 2031 or 3 April 2031"):
        await ada.set(date, "x")
    await ada.set_owner_settings(date_order="dmy")
    alarm = await ada.set(date, "x", timezone="UTC", key="k")
    assert alarm.next_fire_at == APRIL
    assert (await ada.set(date, "x", timezone="UTC", key="k")).id == alarm.id
    [made] = await ada.create_many([wakeful.CreateRequest(wake_message="x", when=date, timezone="UTC")])
    assert made.alarm.next_fire_at == APRIL
    assert (await ada.parse(date, timezone="UTC")).fire_at == APRIL
    assert (await ada.update(made.alarm.id, when="02/04/2031 at 9am")).alarm.next_fire_at == APRIL - timedelta(days=1)
    assert (await ada.snooze(made.alarm.id, until=date)).alarm.next_fire_at == APRIL
    again = await ada.create(wakeful.CreateRequest(wake_message="y", when=date, timezone="UTC"))
    assert any("dmy" in note or "day first" in note for note in again.notes)
    with pytest.raises(InvalidRequest, match="4 March 2031 or 3 April 2031"):
        await ada.for_owner("bob").set(date, "x")


async def test_notes_say_whose_zone_was_assumed(ada: LocalWakeful) -> None:
    asked = wakeful.CreateRequest(wake_message="x", when="every day at 9am")
    notes = (await ada.create(asked)).notes
    assert notes[:1] == [
        "No timezone was given: the time is in America/New_York. Give `timezone` if you meant another."
    ]
    await ada.set_owner_settings(timezone=BERLIN)
    note, *_ = (await ada.create(asked)).notes
    assert (
        note == "No timezone was given: the time is in your zone, Europe/Berlin. Give `timezone` if you meant another."
    )


async def test_another_process_sees_a_change_within_seconds(
    ada: LocalWakeful, store: Store, clock: ManualClock
) -> None:
    assert (await ada.owner_settings()).own == []
    await store.access.put_owner_settings("ada", OwnerSettings(timezone=BERLIN))  # as another process does it
    await clock.advance(timedelta(seconds=GOOD_FOR))
    assert (await ada.owner_settings()).timezone == BERLIN
    assert GOOD_FOR <= 5


async def test_a_create_does_not_read_them_each_time(clock: ManualClock) -> None:
    class Counted:
        reads = 0

        async def owner_settings(self, owner: str) -> OwnerSettings:
            self.reads += 1
            return OwnerSettings()

    class Kept:
        access = Counted()

    cache = OwnerSettingsCache(Kept(), Settings(), clock)  # type: ignore[arg-type]  # all it asks of a store
    for _ in range(100):
        await cache.of("ada")
    assert Kept.access.reads == 1
    await cache.of("bob")
    assert Kept.access.reads == 2


@pytest.mark.parametrize(
    ("given", "field", "says"),
    [
        ({"timezone": "Mars/Olympus"}, "timezone", "Mars/Olympus"),
        ({"date_order": "ymd"}, "date_order", "Give dmy or mdy."),
        ({"working_days": "mon-someday"}, "working_days", "mon-fri"),
        ({"calendar": "fr"}, "calendar", "There are: de."),
        ({}, "body", "Name one of timezone, date_order, working_days, calendar."),
    ],
)
async def test_what_cannot_be_is_refused_and_changes_nothing(
    ada: LocalWakeful, given: dict[str, str], field: str, says: str
) -> None:
    await ada.set_owner_settings(timezone=BERLIN)
    with pytest.raises(InvalidRequest, match=says) as refused:
        await ada.set_owner_settings(**({"timezone": "Asia/Tokyo"} | given if given else {}))
    assert refused.value.field == field
    assert (await ada.owner_settings()).timezone == BERLIN


async def test_days_are_kept_in_one_way_of_writing(ada: LocalWakeful) -> None:
    assert (await ada.owner_settings()).working_days == "mon-fri"
    assert (await ada.set_owner_settings(working_days="Sunday - thu")).working_days == "sun-thu"
    assert (await ada.set_owner_settings(working_days="fri, mon,wed")).working_days == "mon,wed,fri"
    assert (await ada.set_owner_settings(working_days="tue-mon")).working_days == "mon-sun"


async def test_an_operator_who_is_nobody_has_none(ada: LocalWakeful) -> None:
    with pytest.raises(InvalidRequest, match="Name the owner"):
        await ada.for_owner("").set_owner_settings(timezone=BERLIN)
