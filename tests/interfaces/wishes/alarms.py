"""Wishes 26 to 41: alarms are moved, snoozed, cancelled, set by the dozen, looked for and reported on."""

from __future__ import annotations

from datetime import timedelta

from .world import DAY, HOUR, MONDAY, Wish, World, at, fires, kept_in

ALARMS: list[Wish] = []
wish = kept_in(ALARMS)


@wish(26, "move my 9am to 10am")
async def move(world: World) -> None:
    series = await world.set("every weekday at 9am", key="brief", policy={"max_fires": 9})
    moved = await world("alarm_update", id="brief", when="10am")
    assert fires(await world.alarms.get("brief"), 6) == [at(day, 10) for day in (7, 8, 9, 10, 11, 14)]
    assert moved["alarm"]["policy"] == {"max_fires": 9}
    text = await world.refused("alarm_update", id="brief", when="tomorrow at 9am")
    assert 'add the kind "once"' in text
    assert world.offered is None
    assert (await world.alarms.get(series.id)).kind == "cron"
    await world.set("friday at 9am", key="friday")
    moved = await world("alarm_update", id="friday", when="10am")
    assert "a time of day alone is the next one" in moved["notes"][0]
    once = await world("alarm_update", id="brief", when="tomorrow at 9am", kind="once")
    assert "now it fires once and never again" in once["notes"][0]


@wish(27, "snooze 1h on a series due later")
async def snooze_a_later_one(world: World) -> None:
    await world.set("every weekday at 9:30", key="brief")
    await world("alarm_update", id="brief", action="snooze", **{"for": "3h"})
    assert (await world.alarms.get("brief")).next_fire_at == MONDAY + 3 * HOUR
    await world.alarms.update("brief", when="20:00")
    snoozed = await world.wish("alarm_update", id="brief", action="snooze", **{"for": "1h"})
    assert snoozed["alarm"]["next_fire_at"] == "2030-01-07T21:00:00Z"
    assert fires(await world.alarms.get("brief"), 2) == [at(7, 21), at(8, 20)]


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
    await world.alarms.set("every day at 9am", "work", key="k")
    skipped = await world("alarm_update", id="k", action="skip", at="2030-01-07T09:00:00Z")
    assert skipped["alarm"]["next_fire_at"] == "2030-01-08T09:00:00Z"
    await world.refused("alarm_update", id="k", action="skip", at="2030-01-07T09:00:00Z")
    assert fires(await world.alarms.get("k"), 2) == [at(8), at(9)]
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
    assert len(await world.alarms.find(status="cancelled")) == 0
    assert (await world("alarm_cancel", text="grant", reason="done"))["cancelled"] == 3
    assert [wake["alarm_id"] for wake in (await world("alarm_inbox"))["wakes"]] == [other["alarm"]["id"]]
    await world("alarm_set", when="in 3 hours", wake_message="z", conversation_id="c")
    assert (await world("alarm_cancel", conversation_id="c"))["cancelled"] == 1
    ids = [(await world.set("in 1 hour", key=key)).id for key in ("a", "b")]
    assert (await world("alarm_cancel", ids=[ids[0], "b"]))["cancelled"] == 2
    assert "it is not said which" in await world.refused("alarm_cancel")
    await world.refused("alarm_cancel", ids=["nobody", (await world.set("in 1 hour", key="c")).id])
    assert (await world.alarms.get("c")).status == "active"


@wish(34, "set 30 alarms")
async def set_many(world: World) -> None:
    items = [{"when": f"in {n + 1} hours", "wake_message": f"page {n}", "key": f"page-{n}"} for n in range(30)]
    made = await world("alarm_set", alarms=items, target="inbox", conversation_id="c")
    found = [await world.alarms.get(id) for id in made["ids"]]
    assert [alarm.wake_message for alarm in found] == [f"page {n}" for n in range(30)]
    assert {alarm.conversation_id for alarm in found} == {"c"}
    assert (await world("alarm_set", alarms=items, target="inbox", conversation_id="c"))["ids"] == made["ids"]
    bad = [{"when": "in 1 hour", "wake_message": "new"}, {"when": "end of month", "wake_message": "newer"}]
    text = await world.refused("alarm_set", alarms=bad)
    assert text.startswith("alarms[1].when: ")
    assert len(await world.alarms.find()) == 30
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
    await world.alarms.run_due()
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
    await world.alarms.run_due()
    assert (await world.woken())["message"] == "work"
    assert (await world.alarms.get("k")).next_fire_at == at(7)
    assert "no fire of alarm" in await world.refused("alarm_update", id="k", action="retry")
    await world.pass_time(HOUR)
    wake = await world.woken()
    failed = await world("alarm_report", fire_id=wake["fire_id"], outcome="failed", reason="HTTP 503")
    assert failed["fire"]["status"] == "failed"
    again = await world("alarm_update", id="k", action="retry")
    assert again["fire_id"] == wake["fire_id"]
    await world.alarms.run_due()
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
    assert (await world.alarms.fire_of(wake["fire_id"])).result == "3 grants"
    await world("alarm_report", fire_id=other["fire_id"], outcome="failed", reason="HTTP 503")
    assert "nope" in await world.refused("alarm_inbox", done={"nope@1": "x"})
