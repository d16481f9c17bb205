"""Wishes 1 to 25: an alarm is set for a time in the words of agents, also twice under one key."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from .world import DAY, HOUR, MONDAY, Wish, World, at, fires, kept_in

TIMES: list[Wish] = []
wish = kept_in(TIMES)


@wish(1, "in 10 minutes, with this state")
async def in_ten_minutes(world: World) -> None:
    alarm = await world.set("in 10 minutes", payload={"page": 3})
    assert alarm.next_fire_at == MONDAY + timedelta(minutes=10)
    await world.pass_time(HOUR)
    assert (await world.woken())["payload"] == {"page": 3}


@wish(2, "in 45 s / five minutes / 1 hr 20 min")
async def lengths(world: World) -> None:
    for said, seconds in (("in 45 s", 45), ("five minutes", 300), ("in 1 hr 20 min", 4800)):
        assert (await world.set(said)).next_fire_at == MONDAY + timedelta(seconds=seconds)


@wish(3, "weekdays at 9am in a zone")
async def weekdays(world: World) -> None:
    alarm = await world.set("every weekday at 9am", timezone="America/New_York")
    assert fires(alarm, 6) == [at(day, 14) for day in (7, 8, 9, 10, 11, 14)]


@wish(4, "weekdays at 9 and 17; Mon/Wed/Fri")
async def twice_a_day(world: World) -> None:
    assert fires(await world.set("every weekday at 9:00 and 17:00"), 3) == [at(7), at(7, 17), at(8)]
    assert fires(await world.set("every mon, wed and fri at 9am"), 4) == [at(7), at(9), at(11), at(14)]


@wish(5, "first Monday of the month; yearly")
async def monthly(world: World) -> None:
    assert fires(await world.set("first monday of the month at 9am"), 2) == [at(7), at(4, month=2)]
    yearly = fires(await world.set("every year on march 3 at 9am"), 2)
    assert [moment.year for moment in yearly] == [2030, 2031]


@wish(6, "9am PST in the phrase")
async def zone_in_the_phrase(world: World) -> None:
    assert (await world.set("9am PST")).next_fire_at == at(7, 17)


@wish(7, "a past time")
async def a_past_time(world: World) -> None:
    text = await world.refused("alarm_set", when="2020-01-01T00:00:00Z", wake_message="x")
    assert "is in the past" in text
    for said in re.findall(r'"([^"]+)"', text.partition("Try ")[2].partition(" Nothing")[0]):
        await world("alarm_set", when=said, wake_message="x")


@wish(8, "tomorrow at midnight")
async def midnight(world: World) -> None:
    text = await world.refused("alarm_set", when="tomorrow at midnight", wake_message="x")
    assert 'Try "tomorrow at 00:00" (Tue 8 Jan 00:00) or "tomorrow at 23:59" (Tue 8 Jan 23:59)' in text
    assert (await world.set("tomorrow at 00:00")).next_fire_at == at(8, 0)


@wish(9, "`30m`")
async def bare_length(world: World) -> None:
    text = await world.refused("alarm_set", when="30m", wake_message="x")
    assert 'Try "in 30m" (Mon 7 Jan 08:30) or "every 30m" (next Mon 7 Jan 08:30)' in text
    assert (await world.set("in 30m")).next_fire_at == MONDAY + timedelta(minutes=30)


@wish(10, "same key, pending alarm")
async def same_key(world: World) -> None:
    first = await world.set("in 1 hour", key="k")
    again = await world("alarm_set", when="in 1 hour", wake_message="work", key="k")
    assert (again["alarm"]["id"], again["deduped"]) == (first.id, True)
    text = await world.refused("alarm_set", when="in 2 hours", wake_message="work", key="k")
    assert f"alarm {first.id} already has the key 'k', and differs in when" in text
    assert 'on_conflict: "replace"' in text
    for more in ({"payload": {"a": 1}}, {"label": "l"}, {"timezone": "Asia/Tokyo"}, {"max_failures": 1}):
        await world.refused("alarm_set", when="in 1 hour", wake_message="work", key="k", **more)
    assert (await world.alarms.get("k")).version == 1


@wish(11, "same key, ended alarm")
async def same_key_after_its_end(world: World) -> None:
    first = await world.set("in 1 hour", key="k")
    await world("alarm_cancel", id="k")
    text = await world.not_set("alarm_set", when="in 1 hour", wake_message="work", key="k")
    assert "is cancelled: nothing was set" in text
    assert 'give on_conflict "replace"' in text
    again = await world("alarm_set", when="in 1 hour", wake_message="work", key="k", on_conflict="replace")
    assert (again["alarm"]["id"], again["alarm"]["status"]) == (first.id, "active")


@wish(12, "no zone given")
async def no_zone(world: World) -> None:
    made = await world("alarm_set", when="tomorrow at 9am", wake_message="x")
    assert any("No timezone was given: the time is in UTC" in note for note in made["notes"])
    made = await world("alarm_set", when="in 3 days at 5pm", wake_message="x")
    assert any("No timezone was given" in note for note in made["notes"])
    said = (("in 10 minutes", ""), ("tomorrow at 9am", "Asia/Tokyo"), ("2030-02-01T09:00:00Z", ""))
    for when, zone in (*said, ("every 5 minutes", "")):
        more = {"timezone": zone} if zone else {}
        made = await world("alarm_set", when=when, wake_message="x", **more)
        assert not any("No timezone" in note for note in made.get("notes", ())), when


@wish(13, "03/04/2031")
async def two_readings(world: World) -> None:
    text = await world.refused("alarm_set", when="03/04/2031", wake_message="x")
    assert 'Try "4 march 2031" (Tue 4 Mar 2031 09:00) or "3 april 2031" (Thu 3 Apr 2031 09:00)' in text
    assert (await world.set("4 march 2031")).next_fire_at == datetime(2031, 3, 4, 9, tzinfo=UTC)
    assert (await world.set("03/14/2031")).next_fire_at == datetime(2031, 3, 14, 9, tzinfo=UTC)


@wish(14, "a time in a daylight-saving gap")
async def in_a_gap(world: World) -> None:
    made = await world("alarm_set", when="2030-03-31 02:30", timezone="Europe/Berlin", wake_message="x")
    assert any("02:30 does not exist on 2030-03-31 in Europe/Berlin: it fires at 03:00" in n for n in made["notes"])
    made = await world("alarm_set", when="every day at 02:30", timezone="Europe/Berlin", wake_message="x")
    assert any("does not happen" in note for note in made["notes"])


@wish(15, "`timezone: PST`, `New York`")
async def zones_by_other_names(world: World) -> None:
    for said, zone in (("PST", "America/Los_Angeles"), ("New York", "America/New_York"), ("berlin", "Europe/Berlin")):
        alarm = await world.set("tomorrow at 9am", timezone=said)
        assert (alarm.timezone, alarm.next_fire_at.astimezone(ZoneInfo(zone)).hour) == (zone, 9)


@wish(16, '"9am Berlin time"')
async def berlin_time(world: World) -> None:
    assert (await world.set("tomorrow at 9am Berlin time")).next_fire_at == at(8, 8)


@wish(17, "every other Tuesday / day")
async def every_other(world: World) -> None:
    found = fires(await world.set("every other tuesday at 9am"))
    assert all(moment.weekday() == 1 and moment.hour == 9 for moment in found)
    assert {later - earlier for earlier, later in pairwise(found)} == {14 * DAY}
    found = fires(await world.set("every other day at 9am"))
    assert {later - earlier for earlier, later in pairwise(found)} == {2 * DAY}


@wish(18, "every 3 days")
async def every_three_days(world: World) -> None:
    found = fires(await world.set("every 3 days at 9am"))
    assert all(moment.hour == 9 for moment in found)
    assert {later - earlier for earlier, later in pairwise(found)} == {3 * DAY}


@wish(19, "hourly 9 to 5 on weekdays")
async def office_hours(world: World) -> None:
    found = fires(await world.set("hourly from 9 to 5 on weekdays"), 50)
    assert {moment.hour for moment in found} == set(range(9, 18))
    assert {moment.weekday() for moment in found} == set(range(5))


@wish(20, "last business day of the month")
async def last_workday(world: World) -> None:
    found = fires(await world.set("last business day of the month at 9am"), 3)
    assert found == [at(31), at(28, month=2), at(29, month=3)]


@wish(21, "end of day / month, next month")
async def ends(world: World) -> None:
    assert (await world.set("end of day")).next_fire_at.date() == MONDAY.date()
    assert (await world.set("end of month")).next_fire_at.date() == at(31).date()
    assert (await world.set("next month")).next_fire_at.month == 2


@wish(22, "RRULE, PT15M")
async def other_notations(world: World) -> None:
    assert (await world.set("PT15M")).next_fire_at == MONDAY + timedelta(minutes=15)
    found = fires(await world.set("RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=TU"))
    assert {moment.weekday() for moment in found} == {1}
    assert {later - earlier for earlier, later in pairwise(found)} == {14 * DAY}


@wish(23, "5 minutes before a moment")
async def before_a_moment(world: World) -> None:
    assert (await world.set("5 minutes before tomorrow at 3pm")).next_fire_at == at(8, 14, 55)
    assert (await world.set("5 minutes before 2030-01-08T10:00:00Z")).next_fire_at == at(8, 9, 55)


@wish(24, "every day for 5 days")
async def for_five_days(world: World) -> None:
    made = await world.wish("alarm_set", when="every day at 9am for 5 days", wake_message="work")
    assert made["alarm"]["policy"] == {"ends_at": "2030-01-12T08:00:00Z"}
    assert len(fires(await world.alarms.get(made["alarm"]["id"]), 99)) == 5


@wish(25, "until Friday")
async def until_friday(world: World) -> None:
    alarm = await world.set("every day at 9am until friday")
    assert fires(alarm, 99) == [at(day) for day in (7, 8, 9, 10, 11)]
    alarm = await world.set("every day at 9am", policy={"ends_at": "friday"})
    assert fires(alarm, 99) == [at(day) for day in (7, 8, 9, 10, 11)]
