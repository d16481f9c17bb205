"""Wishes 42 to 66: chains of wakes, signals, digests, changes of many alarms, and what it cost."""

from __future__ import annotations

from datetime import timedelta

from .world import DAY, HOUR, MONDAY, Wish, World, at, fires, kept_in

MORE: list[Wish] = []
wish = kept_in(MORE)
TOMORROW = {"due_from": "tomorrow", "due_to": "tomorrow"}


@wish(42, "in 2 days, then in 9, all off when answered")
async def off_when_answered(world: World) -> None:
    both = [{"when": when, "wake_message": "ask again", "key": when} for when in ("in 2 days", "in 9 days")]
    await world("alarm_set", alarms=both, policy={"unless": "answered"})
    assert (await world("alarm_signal", name="answered"))["cancelled"] == 2


@wish(43, "in 1h, 4h, 1d, 3d until answered")
async def several_times(world: World) -> None:
    await world.refused("alarm_set", when="in 1h, 4h, 1d, 3d", wake_message="x")
    several = [{"when": f"in {length}", "wake_message": "x"} for length in ("1h", "4h", "1d", "3d")]
    made = await world("alarm_set", alarms=several, policy={"unless": "answered"})
    found = [(await world.alarms.get(id)).next_fire_at - MONDAY for id in made["ids"]]
    assert found == [HOUR, 4 * HOUR, DAY, 3 * DAY]


@wish(44, "when the build is done unless cancelled, 5pm at the latest")
async def at_the_latest(world: World) -> None:
    policy = {"or_when": "build", "unless": "build-cancelled"}
    await world("alarm_set", when="today at 5pm", wake_message="look", key="k", policy=policy)
    await world("alarm_signal", name="build", payload={"ok": True})
    await world.alarms.run_due()
    wake = await world.woken()
    assert (wake["message"], wake["signal_payload"]) == ("look", {"ok": True})


@wish(45, "when a signal comes, without a time")
async def without_a_time(world: World) -> None:
    text = await world.refused("alarm_set", wake_message="x", policy={"or_when": "bo-signed"})
    assert "when" in text
    made = await world("alarm_set", when="in 30 days", wake_message="x", policy={"or_when": "bo-signed"})
    assert (await world("alarm_signal", name="bo-signed"))["fired"] == 1
    assert made["alarm"]["status"] == "active"


@wish(51, "hand this alarm over")
async def another_target(world: World) -> None:
    await world.set("in 1 hour", key="k")
    await world("alarm_update", id="k", target="helper")
    assert (await world.alarms.get("k")).target == "helper"


@wish(53, "what did I promise Bo")
async def promised(world: World) -> None:
    await world("alarm_set", when="in 1 hour", wake_message="Send Bo the report", key="bo")
    assert [one["key"] for one in (await world("alarm_list", text="bo"))["alarms"]] == ["bo"]


@wish(54, "undo my cancel")
async def undo_a_cancel(world: World) -> None:
    await world.set("in 1 hour", key="k")
    await world("alarm_cancel", id="k")
    assert (await world("alarm_update", id="k", action="undo"))["alarm"]["status"] == "active"


@wish(55, "undo my edit")
async def undo_an_edit(world: World) -> None:
    before = await world.set("in 1 hour", key="k")
    await world("alarm_update", id="k", when="in 5 hours")
    await world("alarm_update", id="k", action="undo")
    assert (await world.alarms.get("k")).next_fire_at == before.next_fire_at


@wish(56, "move tomorrow to the day after")
async def move_tomorrow(world: World) -> None:
    for key, when in (("a", "tomorrow at 9am"), ("b", "tomorrow at 5pm"), ("c", "today at 5pm")):
        await world.set(when, key=key)
    moved = await world("alarm_update", id="all", action="move", by="1d", **TOMORROW)
    assert moved["moved"] == 2
    found = [(await world.alarms.get(key)).next_fire_at for key in "abc"]
    assert found == [at(9), at(9, 17), at(7, 17)]


@wish(57, "cancel all of tomorrow")
async def cancel_tomorrow(world: World) -> None:
    await world.set("tomorrow at 9am", key="once")
    await world.set("every day at 5pm", key="today-too")
    await world.set("every tuesday at 9am", key="series")
    done = await world("alarm_cancel", **TOMORROW)
    assert done["cancelled"] == 2
    assert (await world.alarms.get("once")).status == "cancelled"
    assert (await world.alarms.get("series")).next_fire_at == at(15)
    assert any("stays as it is" in note for note in done["notes"])


@wish(58, "the brief at local 8am in Tokyo")
async def in_tokyo(world: World) -> None:
    await world.set("every day at 8am", key="brief")
    await world("alarm_update", id="brief", timezone="Asia/Tokyo")
    assert fires(await world.alarms.get("brief"), 1) == [at(8, 23) - DAY]


@wish(59, "all my times are Tokyo's now")
async def all_in_tokyo(world: World) -> None:
    await world.set("every day at 8am", key="brief")
    moved = await world("alarm_update", id="all", timezone="Asia/Tokyo")
    assert moved["moved"] == 1
    assert (await world.alarms.get("brief")).timezone == "Asia/Tokyo"


@wish(60, "a day before, an hour before, and at the time; all off when done")
async def before_and_at(world: World) -> None:
    times = ("1 day before friday at 3pm", "1 hour before friday at 3pm", "friday at 3pm")
    made = await world(
        "alarm_set", alarms=[{"when": one, "wake_message": "x"} for one in times], policy={"unless": "d"}
    )
    found = [(await world.alarms.get(id)).next_fire_at for id in made["ids"]]
    assert found == [at(10, 15), at(11, 14), at(11, 15)]
    assert (await world("alarm_signal", name="d"))["cancelled"] == 3


@wish(62, "no heartbeat for 15 minutes")
async def heartbeat(world: World) -> None:
    policy = {"unless": "beat", "rearm": "15m"}
    await world("alarm_set", when="in 15 minutes", wake_message="no beat", key="k", policy=policy)
    await world.pass_time(timedelta(minutes=10))
    await world("alarm_signal", name="beat")
    assert (await world.alarms.get("k")).next_fire_at == MONDAY + timedelta(minutes=25)


@wish(63, "no signal by 5pm, each weekday")
async def no_signal(world: World) -> None:
    await world(
        "alarm_set", when="every weekday at 5pm", wake_message="no backup", key="k", policy={"unless": "backup"}
    )
    await world("alarm_signal", name="backup")
    assert (await world.alarms.get("k")).next_fire_at == at(8, 17)


@wish(66, "at most 3 an hour, none after 8pm")
async def at_most(world: World) -> None:
    policy = {"wakes_per_hour": 3}
    made = await world("alarm_set", when="every 5 minutes from 9am to 8pm", wake_message="x", key="k", policy=policy)
    assert not any("It wakes 288" in note for note in made["notes"])
    assert any("3 wakes an hour: the others are skipped" in note for note in made["notes"])


@wish(47, "a digest at the end of the day")
async def digest(world: World) -> None:
    await world("alarm_set", when="today at 5pm", wake_message="digest", key="digest", payload={"items": []})
    for item in ("a", "b"):
        await world("alarm_update", id="digest", action="append", payload={"items": [item]})
    await world.pass_time(10 * HOUR)
    assert (await world.woken())["payload"] == {"items": ["a", "b"]}


@wish(52, "hand over a wake that I have taken")
async def hand_over_a_wake(world: World) -> None:
    await world("alarm_set", when="in 1 hour", wake_message="work", payload={"page": 3}, key="k")
    await world.pass_time(2 * HOUR)
    wake = await world.woken()
    handed = await world("alarm_report", fire_id=wake["fire_id"], outcome="hand_over", target="helper")
    assert (handed["fire"]["status"], handed["alarm"]["target"]) == ("completed", "helper")
    await world.alarms.run_due()
    theirs = await world.woken(target="helper")
    assert (theirs["message"], theirs["payload"]) == ("work", {"page": 3})


@wish(61, "wait a day for a human's answer")
async def a_humans_answer(world: World) -> None:
    await world(
        "alarm_set", when="in 24 hours", wake_message="go on", payload={"step": 2}, policy={"or_when": "answer"}
    )
    await world("alarm_signal", name="answer", payload={"yes": True})
    await world.alarms.run_due()
    wake = await world.woken()
    assert (wake["payload"], wake["signal_payload"]) == ({"step": 2}, {"yes": True})


@wish(64, "poll with growing intervals")
async def growing(world: World) -> None:
    await world.set("in 1 minute", key="k")
    await world.pass_time(HOUR)
    wake = await world.woken()
    await world("alarm_report", fire_id=wake["fire_id"], outcome="snooze", **{"for": "2h"})
    assert (await world.alarms.get("k")).next_fire_at == MONDAY + 3 * HOUR


@wish(65, "how often, and what did it cost")
async def what_it_cost(world: World) -> None:
    policy = {"wakes_per_day": 5}
    await world("alarm_set", when="every hour", wake_message="x", key="k", policy=policy)
    await world.pass_time(2 * HOUR)
    wakes = (await world("alarm_inbox"))["wakes"]
    for wake in wakes:
        await world("alarm_report", fire_id=wake["fire_id"], outcome="completed", cost=0.5)
    [used] = [one for one in (await world("alarm_history"))["budget"] if one["of"] == "alarm"]
    assert (used["wakes"], used["wakes_left"], used["cost"]) == (len(wakes), 5 - len(wakes), 0.5 * len(wakes))
