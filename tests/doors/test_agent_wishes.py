"""The 41 wishes of agents: the calls, and what must be true afterwards.

Each is said once and made over the official MCP client, over HTTP, from Python, and from Python elsewhere
(tests/doors/wish_doors.py). A wish is answered right, or refused with a call that does it, which is then made: one
repair, never two. The same table stands in docs/mcp.md.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest

from tests.doors.wish_doors import DOORS, Refused, WishDoor
from wakeful.alarm import Alarm, coming
from wakeful.app import Wakeful, build
from wakeful.config import Settings
from wakeful.testing import ManualClock

DOCS = Path(__file__).parents[2] / "docs"
MONDAY = datetime(2030, 1, 7, 8, 0, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


class World:
    """A door, the clock behind it, and the time."""

    def __init__(self, door: WishDoor, clock: Wakeful, time: ManualClock) -> None:
        self.door = door
        self.clock = clock
        self.time = time
        self.repairs = 0
        self.offered: dict[str, Any] | None = None  # the corrected call of the latest refusal

    async def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.door(tool, **arguments)

    async def wish(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The answer to a call, or to the one that its refusal recommends: the same tool, with nothing lost."""
        try:
            return await self.door(tool, **arguments)
        except Refused as refused:
            if refused.again is None:
                raise
            self.repairs += 1
            return await self.door(tool, **refused.again)

    async def refused(self, tool: str, **arguments: Any) -> str:
        """What a door says no with, in words. Bad input changes nothing."""
        before = await self.clock.find(limit=500)
        with pytest.raises(Refused) as refused:
            await self.door(tool, **arguments)
        assert await self.clock.find(limit=500) == before
        self.offered = refused.value.again
        return refused.value.text

    async def not_set(self, tool: str, **arguments: Any) -> str:
        """What a door says where the key is taken by an alarm that has ended: agents are refused, others are told."""
        try:
            told = await self.door(tool, **arguments)
        except Refused as refused:
            return refused.text
        assert told["deduped"]
        return str(told["notes"][0])

    async def set(self, when: str, **more: Any) -> Alarm:
        """The alarm that a wish for a time leads to."""
        made = await self.wish("alarm_set", when=when, wake_message="work", **more)
        return await self.clock.get(made["alarm"]["id"])

    async def pass_time(self, by: timedelta) -> None:
        """Time passes while a worker runs: what falls due is delivered."""
        end = self.time.now() + by
        while (step := min(HOUR, end - self.time.now())) > timedelta(0):
            await self.time.advance(step)
            await self.clock.run_due()

    async def woken(self, **arguments: Any) -> dict[str, Any]:
        [wake] = (await self("alarm_inbox", **arguments))["wakes"]
        return dict(wake)


def fires(alarm: Alarm, number: int = 6) -> list[datetime]:
    return list(islice(coming(alarm), number))


def at(day: int, hour: int = 9, minute: int = 0, month: int = 1) -> datetime:
    return datetime(2030, month, day, hour, minute, tzinfo=UTC)


Do = Callable[[World], Awaitable[None]]
OpenDoor = Callable[[Wakeful], AbstractAsyncContextManager[WishDoor]]


class Wish(NamedTuple):
    number: int
    words: str
    do: Do


WISHES: list[Wish] = []
# What is said in words that are not understood: a refusal with one repair will do until they are.
NEEDS_PHRASES = (16, 21, 22, 23, 25)


def wish(number: int, words: str) -> Callable[[Do], Do]:
    def keep(do: Do) -> Do:
        WISHES.append(Wish(number, words, do))
        return do

    return keep


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
    assert (await world.clock.get("k")).version == 1


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
    assert len(fires(await world.clock.get(made["alarm"]["id"]), 99)) == 5


@wish(25, "until Friday")
async def until_friday(world: World) -> None:
    alarm = await world.set("every day at 9am until friday")
    assert fires(alarm, 99) == [at(day) for day in (7, 8, 9, 10, 11)]
    alarm = await world.set("every day at 9am", policy={"ends_at": "friday"})
    assert fires(alarm, 99) == [at(day) for day in (7, 8, 9, 10, 11)]


@wish(26, "move my 9am to 10am")
async def move(world: World) -> None:
    series = await world.set("every weekday at 9am", key="brief", policy={"max_fires": 9})
    moved = await world("alarm_update", id="brief", when="10am")
    assert fires(await world.clock.get("brief"), 6) == [at(day, 10) for day in (7, 8, 9, 10, 11, 14)]
    assert moved["alarm"]["policy"] == {"max_fires": 9}
    text = await world.refused("alarm_update", id="brief", when="tomorrow at 9am")
    assert 'add the kind "once"' in text
    assert world.offered is None
    assert (await world.clock.get(series.id)).kind == "cron"
    await world.set("friday at 9am", key="friday")
    moved = await world("alarm_update", id="friday", when="10am")
    assert "a time of day alone is the next one" in moved["notes"][0]
    once = await world("alarm_update", id="brief", when="tomorrow at 9am", kind="once")
    assert "now it fires once and never again" in once["notes"][0]


@wish(27, "snooze 1h on a series due later")
async def snooze_a_later_one(world: World) -> None:
    await world.set("every weekday at 9:30", key="brief")
    await world("alarm_update", id="brief", action="snooze", **{"for": "3h"})
    assert (await world.clock.get("brief")).next_fire_at == MONDAY + 3 * HOUR
    await world.clock.update("brief", when="20:00")
    snoozed = await world.wish("alarm_update", id="brief", action="snooze", **{"for": "1h"})
    assert snoozed["alarm"]["next_fire_at"] == "2030-01-07T21:00:00Z"
    assert fires(await world.clock.get("brief"), 2) == [at(7, 21), at(8, 20)]


@wish(28, "snooze 2 days")
async def snooze_for_days(world: World) -> None:
    await world.set("in 1 hour", key="k")
    snoozed = await world("alarm_update", id="k", action="snooze", **{"for": "2 days"})
    assert snoozed["alarm"]["next_fire_at"] == "2030-01-09T08:00:00Z"


@wish(29, "snooze until 9am")
async def snooze_until(world: World) -> None:
    await world.set("in 30 minutes", key="k", timezone="Europe/Berlin")
    snoozed = await world("alarm_update", id="k", action="snooze", until="tomorrow at 9am")
    assert snoozed["alarm"]["next_fire_at"] == "2030-01-08T08:00:00Z"


@wish(30, "skip the next one")
async def skip_the_next(world: World) -> None:
    await world.clock.set("every day at 9am", "work", key="k")
    skipped = await world("alarm_update", id="k", action="skip", at="2030-01-07T09:00:00Z")
    assert skipped["alarm"]["next_fire_at"] == "2030-01-08T09:00:00Z"
    await world.refused("alarm_update", id="k", action="skip", at="2030-01-07T09:00:00Z")
    assert fires(await world.clock.get("k"), 2) == [at(8), at(9)]
    skipped = await world("alarm_update", id="k", action="skip")
    assert skipped["alarm"]["next_fire_at"] == "2030-01-09T09:00:00Z"


@wish(31, "pause / resume")
async def pause(world: World) -> None:
    await world.set("every day at 9am", key="k")
    assert (await world("alarm_update", id="k", action="pause", reason="holiday"))["alarm"]["status"] == "paused"
    await world.pass_time(DAY)
    assert (await world("alarm_inbox"))["wakes"] == []
    assert (await world("alarm_update", id="k", action="resume"))["alarm"]["next_fire_at"] == "2030-01-08T09:00:00Z"


@wish(32, "cancel one")
async def cancel_one(world: World) -> None:
    await world.set("in 1 hour", key="k")
    await world.pass_time(2 * HOUR)
    assert (await world("alarm_cancel", id="k"))["alarm"]["status"] == "cancelled"
    assert (await world("alarm_inbox"))["wakes"] == []


@wish(33, "cancel everything about X")
async def cancel_all_about(world: World) -> None:
    await world("alarm_set", when="in 1 hour", wake_message="Read the GRANT page")
    await world("alarm_set", when="in 2 hours", wake_message="x", key="grant-2", conversation_id="c")
    await world("alarm_set", when="every day at 9am", wake_message="y", label="grants")
    other = await world("alarm_set", when="in 1 hour", wake_message="Water the plants", conversation_id="c")
    await world.pass_time(HOUR)  # the first waits in the inbox by now
    dry = await world("alarm_cancel", text="grant", dry_run=True)
    assert (dry["would_cancel"], len(dry["alarms"])) == (3, 3)
    assert len(await world.clock.find(status="cancelled")) == 0
    assert (await world("alarm_cancel", text="grant", reason="done"))["cancelled"] == 3
    assert [wake["alarm_id"] for wake in (await world("alarm_inbox"))["wakes"]] == [other["alarm"]["id"]]
    await world("alarm_set", when="in 3 hours", wake_message="z", conversation_id="c")
    assert (await world("alarm_cancel", conversation_id="c"))["cancelled"] == 1
    ids = [(await world.set("in 1 hour", key=key)).id for key in ("a", "b")]
    assert (await world("alarm_cancel", ids=[ids[0], "b"]))["cancelled"] == 2
    assert "it is not said which" in await world.refused("alarm_cancel")
    await world.refused("alarm_cancel", ids=["nobody", (await world.set("in 1 hour", key="c")).id])
    assert (await world.clock.get("c")).status == "active"


@wish(34, "set 30 alarms")
async def set_many(world: World) -> None:
    items = [{"when": f"in {n + 1} hours", "wake_message": f"page {n}", "key": f"page-{n}"} for n in range(30)]
    made = await world("alarm_set", alarms=items, target="inbox", conversation_id="c")
    found = [await world.clock.get(id) for id in made["ids"]]
    assert [alarm.wake_message for alarm in found] == [f"page {n}" for n in range(30)]
    assert {alarm.conversation_id for alarm in found} == {"c"}
    assert (await world("alarm_set", alarms=items, target="inbox", conversation_id="c"))["ids"] == made["ids"]
    bad = [{"when": "in 1 hour", "wake_message": "new"}, {"when": "end of month", "wake_message": "newer"}]
    text = await world.refused("alarm_set", alarms=bad)
    assert text.startswith("alarms[1].when: ")
    assert len(await world.clock.find()) == 30
    assert len((await world.wish("alarm_set", alarms=bad))["ids"]) == 2
    text = await world.refused("alarm_set", alarms=[{"when": "in 9 hours", "wake_message": "x", "key": "page-1"}])
    assert "already has the key 'page-1'" in text
    hundred = [{"when": "in 1 hour", "wake_message": f"{n}"} for n in range(100)]
    assert len((await world("alarm_set", alarms=hundred))["ids"]) == 100


@wish(35, "what is next today")
async def what_is_next(world: World) -> None:
    await world.set("every day at 17:00", label="late")
    await world.set("every 6 hours", label="often")
    await world.set("in 1 hour", label="soon")
    await world.set("in 3 days", label="another day")
    agenda = (await world("alarm_agenda", hours=16))["agenda"]
    assert [(entry["at"][11:16], entry["label"]) for entry in agenda] == [
        ("09:00", "soon"),
        ("12:00", "often"),
        ("17:00", "late"),
        ("18:00", "often"),
    ] + [("00:00", "often")] * (agenda[-1]["at"][11:16] == "00:00")


@wish(36, "what did I miss while offline")
async def what_did_i_miss(world: World) -> None:
    await world.set("every hour", key="look", policy={"max_fires": 9})
    await world.time.advance(5 * HOUR + timedelta(minutes=30))  # no worker runs
    assert "but no running worker delivers there" in (await world("alarm_inbox"))["notes"][0]
    await world.clock.run_due()
    story = await world("alarm_history", since="6h")
    assert story["missed"] == 4
    waiting = next(line for line in story["history"] if line["status"] == "waiting")
    assert waiting["late_ms"] == (4 * 60 + 30) * 60_000
    wake = await world.woken()
    assert (wake["late_ms"], wake["missed"], wake["attempt"]) == ((4 * 60 + 30) * 60_000, 4, 1)
    assert (wake["number"], wake["max_fires"], wake["next_fire_at"]) == (1, 9, "2030-01-07T14:00:00Z")
    await world("alarm_report", fire_id=wake["fire_id"], outcome="completed", result="3 grants")
    await world.pass_time(HOUR)
    wake = await world.woken()
    assert (wake["number"], wake["previous"]) == (2, "completed: 3 grants")


@wish(37, "did it run, and why not")
async def why_not(world: World) -> None:
    await world.set("in 1 hour", key="k")
    await world.time.advance(2 * HOUR)
    assert "no running worker serves the target 'inbox'" in (await world("alarm_get", id="k"))["why"]


@wish(38, "in 2 hours unless Y")
async def unless(world: World) -> None:
    await world.set("in 2 hours", key="nag", policy={"unless": "answered"})
    assert (await world("alarm_signal", name="answered"))["cancelled"] == 1
    await world.pass_time(3 * HOUR)
    assert (await world("alarm_inbox"))["wakes"] == []


@wish(39, "fire now / retry the failed one")
async def fire_and_retry(world: World) -> None:
    await world.set("every day at 9am", key="k", max_failures=0)
    await world("alarm_update", id="k", action="fire")
    await world.clock.run_due()
    assert (await world.woken())["message"] == "work"
    assert (await world.clock.get("k")).next_fire_at == at(7)
    assert "no fire of alarm" in await world.refused("alarm_update", id="k", action="retry")
    await world.pass_time(HOUR)
    wake = await world.woken()
    failed = await world("alarm_report", fire_id=wake["fire_id"], outcome="failed", reason="HTTP 503")
    assert failed["fire"]["status"] == "failed"
    again = await world("alarm_update", id="k", action="retry")
    assert again["fire_id"] == wake["fire_id"]
    await world.clock.run_due()
    assert (await world.woken())["attempt"] == 2


@wish(40, "a 100 KB payload back")
async def large_payload(world: World) -> None:
    payload = {"text": "й" * 45_000}
    alarm = await world.set("in 1 hour", payload=payload, key="k")
    assert await world.door.payload("k") == alarm.payload_json


@wish(41, "report working / failed / completed")
async def report(world: World) -> None:
    for conversation in ("c", "d"):
        await world.set("in 1 hour", conversation_id=conversation)
    await world.pass_time(HOUR)
    wake = await world.woken(conversation_id="c")
    await world.time.advance(timedelta(minutes=2))
    working = await world("alarm_report", fire_id=wake["fire_id"], outcome="working", result="half")
    assert working["fire"]["report_by"] > wake["report_by"]
    other = await world.woken(done={wake["fire_id"]: "3 grants"})
    assert other["conversation_id"] == "d"
    assert (await world.clock.fire_of(wake["fire_id"])).result == "3 grants"
    await world("alarm_report", fire_id=other["fire_id"], outcome="failed", reason="HTTP 503")
    assert "nope" in await world.refused("alarm_inbox", done={"nope@1": "x"})


@pytest.mark.parametrize("opened", DOORS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("wish", WISHES, ids=lambda one: one.words)
async def test_a_wish_is_answered(tmp_path: Path, wish: Wish, opened: OpenDoor) -> None:
    time = ManualClock(MONDAY)
    async with build(Settings(db=str(tmp_path / "w.db")), clock=time) as clock, opened(clock) as door:
        world = World(door, clock, time)
        await wish.do(world)
        assert not world.repairs or wish.number in (*NEEDS_PHRASES, 11, 15, 27, 34)


def test_every_wish_is_here_and_in_the_docs() -> None:
    assert [one.number for one in WISHES] == list(range(1, 42))
    table = (DOCS / "mcp.md").read_text()
    for one in WISHES:
        assert f"| {one.number} | {one.words} |" in table, one
