"""Holidays: skipped on record or moved to a working day, once, over clock changes, downtime and edits."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tests.rules.world import BROKEN, DAY, DONE, HOUR, MINUTE, World, alarm, at
from wakeful.model.alarm import Policy
from wakeful.model.requests import PolicyRequest
from wakeful.rules.plan import HOLIDAYS_UNKNOWN, coming
from wakeful.rules.settle import begin
from wakeful.schedule import days_off, schedule
from wakeful.schedule.days_off import MovedSchedule, OnHoliday, use_calendars

BERLIN = "Europe/Berlin"


class Days:
    """A calendar whose days are named here."""

    def __init__(self, *days: date) -> None:
        self.days = {day: f"Day {day.day}" for day in days}
        self.problem = ""

    def holiday(self, day: date) -> str:
        return self.days.get(day, "")


@pytest.fixture
def office() -> Iterator[Days]:
    """Tuesday the 6th is one."""
    days = Days(date(2026, 1, 6))
    use_calendars({"office": days})
    yield days
    days_off._calendars.pop("office")


def series(cron: str = "0 9 * * *", *, on_holiday: OnHoliday = "skip", zone: str = "UTC", **policy: object) -> World:
    kept = Policy(calendar="office", on_holiday=on_holiday, **policy)  # type: ignore[arg-type]  # any of its fields
    return World(alarm(cron_expr=cron, timezone=zone, policy=kept))


def fired(world: World, until: datetime) -> list[datetime]:
    """Everything up to a moment, each delivered as it is due."""
    found = []
    while world.alarm.status == "active" and world.alarm.next_fire_at <= until:
        occurrence = world.alarm.occurrence_at
        if world.attempt(DONE):
            found.append(occurrence)
    return found


# Skipped


def test_what_falls_on_a_holiday_is_skipped_on_record(office: Days) -> None:
    world = series()
    assert fired(world, at(4 * 24)) == [at(9), at(24 * 2 + 9), at(24 * 3 + 9)]
    assert world.rows[1] == (at(24 + 9), "skipped", "holiday")
    skipped = world.fires[at(24 + 9)]
    assert (skipped.result, skipped.count, skipped.attempts) == ("Day 6", 1, 0)
    assert world.alarm.fire_count == 3


def test_the_day_is_that_of_the_alarms_zone(office: Days) -> None:
    world = series("30 0 * * *", zone=BERLIN)  # 23:30 UTC of the day before
    assert fired(world, at(3 * 24)) == [at(47, 30), at(71, 30)]
    assert world.rows[0] == (at(23, 30), "skipped", "holiday")


def test_a_single_moment_and_a_snooze_are_delivered_on_a_holiday(office: Days) -> None:
    once = World(alarm(fire_at=at(33), policy=Policy(calendar="office", on_holiday="skip")))
    assert once.attempt(DONE)
    world = series("0 9 * * 1")
    world.snooze(26 * HOUR, at(9) - MINUTE)
    assert world.alarm.occurrence_at.day == 6
    assert world.attempt(DONE)


def test_what_was_tried_before_goes_on_into_a_holiday(office: Days) -> None:
    world = series("50 23 * * 1", max_fires=3, backoff_base=1800.0)
    world.attempt(BROKEN)
    assert world.alarm.next_fire_at > at(24)
    office.days[date(2026, 1, 5)] = "Day 5"  # the day of its occurrence is one by now
    assert world.attempt(DONE)


def test_after_downtime_only_the_holiday_is_skipped_as_one(office: Days) -> None:
    world = series()
    world.attempt(DONE)
    late = at(3 * 24 + 12)  # Thursday noon: Tuesday was a holiday, Wednesday and Thursday were missed
    assert not world.attempt(DONE, late)
    assert world.rows[-1] == (at(24 + 9), "skipped", "holiday")
    assert world.alarm.occurrence_at == at(2 * 24 + 9)
    assert world.attempt(DONE, late)
    assert world.rows[2:] == [(at(2 * 24 + 9), "completed", ""), (at(3 * 24 + 9), "skipped", "missed")]


def test_a_whole_day_of_an_hourly_series_that_passed_is_one_run(office: Days) -> None:
    world = World(alarm(cron_expr="0 * * * *", now=at(23, 30), policy=Policy(calendar="office", on_holiday="skip")))
    assert not world.attempt(DONE, at(49, 30))
    run = world.fires[at(24)]
    assert (run.reason, run.count, run.through) == ("holiday", 24, at(47))
    assert world.alarm.occurrence_at == at(48)


def test_it_uses_up_none_of_the_fires_and_coming_leaves_it_out(office: Days) -> None:
    world = series(max_fires=3)
    assert list(coming(world.alarm)) == [at(9), at(2 * 24 + 9), at(3 * 24 + 9)]
    assert fired(world, at(30 * 24)) == [at(9), at(2 * 24 + 9), at(3 * 24 + 9)]
    assert world.alarm.status == "fired"


def test_a_calendar_of_all_days_ends_no_loop(office: Days) -> None:
    office.holiday = lambda day: "always"  # type: ignore[method-assign]
    assert list(coming(series().alarm)) == []


# Moved

NEXT: Final = "next_working_day"
PREVIOUS: Final = "previous_working_day"


@pytest.mark.parametrize(
    ("cron", "how", "days", "expected"),
    [
        ("0 9 * * 2", NEXT, [6], [7, 13]),  # Tuesday the 6th comes on Wednesday
        ("0 9 * * 2", PREVIOUS, [6, 13], [5, 12]),
        ("0 9 9 * *", NEXT, [9], [12]),  # Friday comes on Monday
        ("0 9 12 * *", PREVIOUS, [12], [9]),  # Monday comes on Friday
        ("0 9 * * 2", NEXT, [6, 7, 8], [9, 13]),
        ("0 9 * * *", NEXT, [6], [5, 7, 8, 9, 10, 11, 12, 13]),  # Wednesday has its own: skipped
        ("0 9 6,8 * *", NEXT, [6, 7], [8]),  # the 8th has its own
        ("0 9 6,7 * *", NEXT, [6, 7], [8]),  # of two holidays one is moved
        ("0 9 6,7 * *", PREVIOUS, [6, 7], [5]),
        ("0 9 10 * *", NEXT, [6], [10]),  # a Saturday that is no holiday stays
        ("0 9,15 6 * *", NEXT, [6], [7, 7]),  # a day keeps its times
    ],
)
def test_what_falls_on_a_holiday_comes_on_a_working_day(
    office: Days, cron: str, how: OnHoliday, days: list[int], expected: list[int]
) -> None:
    office.days = {date(2026, 1, day): f"Day {day}" for day in days}
    world = series(cron, on_holiday=how)
    found = fired(world, datetime(2026, 1, 13, 23, tzinfo=UTC))
    assert [moment.day for moment in found] == expected
    assert {moment.hour for moment in found} <= {9, 15}
    assert all(not office.holiday(moment.date()) for moment in found)
    assert {reason for _, status, reason in world.rows if status == "skipped"} <= {"holiday"}


def test_working_days_are_the_owners(office: Days) -> None:
    office.days = {date(2026, 1, 8): "Day 8"}
    world = series("0 9 8 * *", on_holiday=NEXT, working_days="sun-thu")
    assert [moment.day for moment in fired(world, at(8 * 24))] == [11]  # Sunday


def test_it_keeps_its_clock_time_over_a_clock_change(office: Days) -> None:
    office.days = {date(2026, 3, 27): "Friday", date(2026, 10, 23): "Friday"}  # clocks change on both weekends
    world = series("0 9 27 3 *", on_holiday=NEXT, zone=BERLIN)
    assert world.alarm.occurrence_at.astimezone(ZoneInfo(BERLIN)) == datetime(2026, 3, 30, 9, tzinfo=ZoneInfo(BERLIN))
    world = series("0 9 23 10 *", on_holiday=NEXT, zone=BERLIN)
    assert world.alarm.occurrence_at.astimezone(ZoneInfo(BERLIN)) == datetime(2026, 10, 26, 9, tzinfo=ZoneInfo(BERLIN))


def test_where_no_working_day_is_near_it_is_skipped(office: Days) -> None:
    office.days = {date(2026, 1, 6) + n * DAY: "off" for n in range(40)}
    world = series("0 9 6 1 *", on_holiday=NEXT)
    assert fired(world, at(60 * 24)) == []
    assert world.rows == [(at(24 + 9), "skipped", "holiday")]


# Calendars that change


def test_a_calendar_that_cannot_be_read_silences_nothing(office: Days) -> None:
    world = series()
    office.problem = "office.ics: No such file or directory"
    assert fired(world, at(2 * 24)) == [at(9), at(24 + 9)]
    assert [event.what for event in world.events] == [HOLIDAYS_UNKNOWN] * 2
    assert world.events[0].reason == (
        "it fired, though the calendar 'office' cannot be read: office.ics: No such file or directory"
    )
    office.problem = ""
    assert fired(world, at(3 * 24)) == [at(2 * 24 + 9)]
    assert len(world.events) == 2


def test_an_unknown_calendar_silences_nothing() -> None:
    world = World(alarm(cron_expr="0 9 * * *", policy=Policy(calendar="nobody", on_holiday="skip")))
    assert fired(world, at(2 * 24)) == [at(9), at(24 + 9)]
    assert "there is no calendar 'nobody'" in world.events[0].reason


def test_a_day_that_became_a_holiday_after_it_was_planned_is_moved_then(office: Days) -> None:
    office.days = {}
    world = series("0 9 * * 2", on_holiday=NEXT)
    office.days = {date(2026, 1, 6): "new"}
    assert fired(world, at(9 * 24)) == [at(2 * 24 + 9), at(8 * 24 + 9)]
    office.days = {}
    world = series("0 9 * * 2", on_holiday=PREVIOUS)
    office.days = {date(2026, 1, 6): "new"}
    assert fired(world, at(9 * 24)) == [at(24 + 9), at(8 * 24 + 9)]  # the day before is over: late, not lost


def test_what_fired_on_a_holiday_since_nobody_knew_does_not_come_again(office: Days) -> None:
    office.problem = "gone"
    world = series("0 9 * * 2", on_holiday=NEXT)
    now = world.alarm.next_fire_at
    assert begin(world.claim(now), None, now=now) is None
    office.problem = ""  # it is back before the attempt ends
    world.settle(DONE, now, now + MINUTE)
    assert world.rows == [(at(24 + 9), "completed", "")]
    assert world.alarm.occurrence_at == at(8 * 24 + 9)


def test_an_edit_takes_the_holidays_up_or_leaves_them(office: Days) -> None:
    world = World(alarm(cron_expr="0 9 * * 2"))
    world.update(at(8), policy=PolicyRequest(calendar="office", on_holiday=NEXT))
    assert world.alarm.occurrence_at == at(2 * 24 + 9)
    world.update(at(8, 30), policy=PolicyRequest(calendar="", on_holiday=None))
    assert world.alarm.occurrence_at == at(24 + 9)
    assert world.attempt(DONE)


# Whatever the calendar: nothing is lost, nothing comes twice


@given(
    cron=st.sampled_from(["0 9 * * *", "0 9 * * 1-5", "30 8 * * 2,5", "0 */6 * * *", "0 9 1,15 * *", "0 2 * * 0"]),
    off=st.frozensets(st.integers(0, 120), max_size=40),
    how=st.sampled_from([NEXT, PREVIOUS]),
    working=st.sampled_from(["mon-fri", "sun-thu", "mon,wed"]),
    zone=st.sampled_from(["UTC", BERLIN, "America/New_York"]),
)
def test_days_are_moved_one_to_one(cron: str, off: frozenset[int], how: OnHoliday, working: str, zone: str) -> None:
    start = datetime(2026, 2, 1, tzinfo=UTC)
    local = ZoneInfo(zone)
    days = Days(*(date(2026, 2, 1) + n * DAY for n in off))
    inner = schedule(cron, zone)
    moved = MovedSchedule(inner, days, local, backward=how == PREVIOUS, working_days=working, fired=start)

    def listed(of: object, begin: datetime, end: datetime) -> list[datetime]:
        found, moment = [], begin
        while (upcoming := of.after(moment)) is not None and upcoming <= end:  # type: ignore[attr-defined]
            assert upcoming > moment
            found.append(upcoming)
            moment = upcoming
        return found

    end = start + 200 * DAY
    plain, ours = listed(inner, start - 40 * DAY, end), listed(moved, start - 40 * DAY, end)
    assert len(ours) == len(plain)  # each is there once: at its own time, or moved
    by_day = {moment.astimezone(local).date() for moment in plain}
    for moment in set(ours) - set(plain):
        day = moment.astimezone(local).date()
        assert day not in by_day
        assert not days.holiday(day)
    for moment in ours:  # whoever asks just before it hears of it, and just after it hears of another
        assert moved.after(moment - timedelta(microseconds=1)) == moment


def test_a_fast_series_is_known_to_go_on_after_a_holiday(office: Days) -> None:
    fast = alarm(cron_expr="*/2 * * * * *", policy=Policy(calendar="office"), now=at(24 + 9))
    upcoming = coming(fast)
    assert (next(upcoming), next(upcoming)) == (at(2 * 24), at(2 * 24, 0, 2))
