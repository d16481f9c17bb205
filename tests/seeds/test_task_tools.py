"""The task tools, driven by the official client, on both stores: what they write other programs see, and it happens."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import Any

import pytest

from wakeful.mcp import TASK_TOOLS

from .conftest import Gateway
from .task_tools_world import BRIEF, CHAT, GO_NAMES, the_whole_round, tools

DAY = 86_400


async def rows(gateway: Gateway) -> list[tuple[Any, ...]]:
    return await gateway.sql("select * from scheduled_tasks order by id")


async def test_every_tool_does_its_work(gateway: Gateway) -> None:
    await gateway.connect()
    async with tools(gateway.wakeful) as agent:
        await the_whole_round(agent)


async def test_a_scheduled_task_is_a_row_in_the_table_and_becomes_a_message(gateway: Gateway) -> None:
    await gateway.connect()
    async with tools(gateway.wakeful) as ana:
        made = await ana("schedule_task", targetJid=CHAT, prompt="brief", cron="*/30 * * * *", contextMode="isolated")
    id = made["taskId"]
    assert re.fullmatch(rf"task-{int(gateway.clock.now().timestamp() * 1000)}-[0-9a-f]{{8}}", id)
    columns = "id, owner, chat_jid, prompt, cron, status, context_mode"
    assert await gateway.sql(f"select {columns} from scheduled_tasks") == [
        (id, "ana", CHAT, "brief", "*/30 * * * *", "active", "isolated")
    ]
    assert await gateway.task(id) == ("active", gateway.clock.now() + timedelta(minutes=30))
    await gateway.pass_time(1800)
    assert await gateway.sql("select chat_jid, sender, content from messages") == [
        (CHAT, f"scheduler-isolated:{id}", "brief")
    ]


@pytest.mark.parametrize("mode", ["group", "", "Isolated", "other"])
async def test_any_other_mode_shares_the_chat_s_context(gateway: Gateway, mode: str) -> None:
    await gateway.connect()
    async with tools(gateway.wakeful) as ana:
        id = (await ana("schedule_task", **BRIEF, contextMode=mode))["taskId"]
        assert (await ana("get_task", taskId=id))["task"]["ContextMode"] == "group"


async def test_a_moment_in_cron_runs_once_and_a_past_one_at_once(gateway: Gateway) -> None:
    await gateway.connect()
    async with tools(gateway.wakeful) as ana:
        soon = (await ana("schedule_task", targetJid=CHAT, prompt="soon", cron=gateway.at(60)))["taskId"]
        past = await ana("schedule_task", targetJid=CHAT, prompt="past", cron=gateway.at(-60))
        assert "due now" in past["summary"]
        assert await gateway.sql(f"select cron from scheduled_tasks where id = '{soon}'") == [(None,)]
        await gateway.pass_time()
        assert await gateway.messages() == ["past"]
        await gateway.pass_time(60)
        assert await gateway.messages() == ["past", "soon"]
        await gateway.pass_time(DAY)
        assert len(await gateway.messages()) == 2
        assert (await ana("get_task", taskId=soon))["task"]["Status"] == "done"


async def test_digits_in_cron_are_an_interval_in_milliseconds(gateway: Gateway) -> None:
    await gateway.connect()
    async with tools(gateway.wakeful) as ana:
        made = await ana("schedule_task", targetJid=CHAT, prompt="tick", cron="90000")
    assert "90 seconds" in made["summary"] or "1 minute and 30 seconds" in made["summary"], made["summary"]
    for _ in range(3):
        await gateway.pass_time(90)
    assert await gateway.messages() == ["tick"] * 3


async def test_a_rule_in_cron_counts_from_its_first_run(gateway: Gateway) -> None:
    await gateway.connect()
    async with tools(gateway.wakeful) as ana:
        made = await ana("schedule_task", targetJid=CHAT, prompt="tick", cron="RRULE:FREQ=MINUTELY;INTERVAL=10;COUNT=2")
    assert "every 10 minutes" in made["summary"]
    for _ in range(4):
        await gateway.pass_time(600)
    assert await gateway.messages() == ["tick"] * 2


NO_TIMES = [
    ("", "no time was given"),
    ("61 * * * *", "out of range"),
    ("0 0 30 2 *", "never"),
    ("RRULE:FREQ=DAILY;BYHOUR=25", "BYHOUR"),
    ("tomorrow at 9", ""),
    ("0", "not an interval"),
    ("-5", ""),
    ("9" * 50, ""),
    ("2030-01-31T09:00:00", "not a moment with an offset"),
    ("2030-02-31T09:00:00Z", "not a moment"),
]


@pytest.mark.parametrize(("cron", "why"), NO_TIMES)
async def test_a_time_that_makes_no_sense_is_refused_and_nothing_is_written(
    gateway: Gateway, cron: str, why: str
) -> None:
    await gateway.connect()
    async with tools(gateway.wakeful) as ana:
        text = await ana.refused("schedule_task", targetJid=CHAT, prompt="x", cron=cron)
        assert text.startswith("schedule_task: cron: ")
        assert why in text
        assert await rows(gateway) == []
        assert (await ana.as_taught(text))["tasks"] == []
        id = (await ana("schedule_task", **BRIEF))["taskId"]
        before = await rows(gateway)
        if cron:
            text = await ana.refused("update_task", taskId=id, cron=cron)
            assert why in text
            assert (await ana.as_taught(text))["task"]["ID"] == id
            assert await rows(gateway) == before


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"prompt": ""}, "prompt"),
        ({"prompt": "x" * 33_000}, "prompt"),
        ({"targetJid": " "}, "targetJid"),
        ({"targetJid": "x" * 2000}, "targetJid"),
        ({"prompt": 5}, "prompt"),
        ({"nextRun": "2030-01-31T09:00:00Z"}, "nextRun"),
    ],
)
async def test_what_no_task_can_hold_is_refused_under_the_argument_s_name(
    gateway: Gateway, given: dict[str, Any], field: str
) -> None:
    await gateway.connect()
    async with tools(gateway.wakeful) as ana:
        assert f"schedule_task: {field}: " in await ana.refused("schedule_task", **BRIEF | given)
        assert await rows(gateway) == []


# The same again


async def test_the_same_cron_and_prompt_are_one_task_even_when_asked_at_once(gateway: Gateway) -> None:
    await gateway.connect()
    async with tools(gateway.wakeful) as ana:
        made = await asyncio.gather(*(ana("schedule_task", **BRIEF) for _ in range(8)))
        assert len({one["taskId"] for one in made}) == 1
        assert sum(one.get("deduped", False) for one in made) == 7
        elsewhere = await ana("schedule_task", **BRIEF | {"targetJid": "other@g.us"})
        assert elsewhere["taskId"] == made[0]["taskId"]
        assert CHAT in elsewhere["notes"][0]


async def test_what_is_not_the_same_active_task_is_a_task_of_its_own(gateway: Gateway) -> None:
    await gateway.connect()
    async with tools(gateway.wakeful) as ana, tools(gateway.wakeful, "ben") as ben:
        first = (await ana("schedule_task", **BRIEF))["taskId"]
        others = [
            await ana("schedule_task", **BRIEF | {"prompt": "Evening brief"}),
            await ana("schedule_task", **BRIEF | {"cron": "0 10 * * 1-5"}),
            await ben("schedule_task", **BRIEF),
            *[await ana("schedule_task", **BRIEF | {"cron": "2030-01-31T09:00:00Z"}) for _ in range(2)],
        ]
        await ana("pause_task", taskId=first)
        others.append(await ana("schedule_task", **BRIEF))
    assert len({first, *(one["taskId"] for one in others)}) == 7


# Looking


async def test_a_task_is_told_under_the_names_the_gateway_s_programs_know(gateway: Gateway) -> None:
    await gateway.connect()
    async with tools(gateway.wakeful) as ana:
        id = (await ana("schedule_task", targetJid=CHAT, prompt="brief", cron="*/30 * * * *"))["taskId"]
        await gateway.pass_time()
        found = await ana("get_task", taskId=id)
        [alarm] = await gateway.alarms(id)
        assert found["alarmId"] == alarm.id
        assert found["task"] == {
            "ID": id,
            "Owner": "ana",
            "ChatJID": CHAT,
            "Prompt": "brief",
            "Cron": "*/30 * * * *",
            "NextRun": gateway.at(1800),
            "Status": "active",
            "Created": gateway.at(0),
            "ContextMode": "group",
        }
        assert (await ana("alarm_get", id=found["alarmId"]))["alarm"]["label"] == id


async def test_what_another_program_wrote_wrong_is_told_with_the_reason(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.add("broken", owner="ana", cron="61 * * * *")
    await gateway.pass_time()
    async with tools(gateway.wakeful) as ana:
        found = await ana("get_task", taskId="broken")
        assert (found["task"]["Status"], found["task"]["NextRun"]) == ("error", None)
        assert "out of range" in found["error"]
        text = await ana.refused("resume_task", taskId="broken")
        assert "out of range" in text
        assert "out of range" in await ana.refused("update_task", taskId="broken", prompt="other words")
        assert (await ana.as_taught(text))["task"] == found["task"]
        await ana("update_task", taskId="broken", cron="0 9 * * 1-5")
        assert (await ana("get_task", taskId="broken"))["task"]["Status"] == "active"


@pytest.mark.parametrize("sign", ["x", "й", '"', "\U0001f600"])
async def test_a_long_prompt_is_read_in_pieces(gateway: Gateway, sign: str) -> None:
    await gateway.connect()
    prompt = "." + sign * (32_000 // len(sign.encode()))
    async with tools(gateway.wakeful) as ana:
        id = (await ana("schedule_task", **BRIEF | {"prompt": prompt}))["taskId"]
        text, offset = "", 0
        while offset or not text:
            piece = await ana("get_task", taskId=id, offset=offset)
            text, offset = text + piece["task"]["Prompt"], piece.get("nextOffset", 0)
        assert text == prompt
        assert len((await ana("list_tasks"))["tasks"][0]["Prompt"]) < 130


async def test_a_list_of_many_comes_in_pages_that_miss_none(gateway: Gateway) -> None:
    await gateway.connect()
    for number in range(130):
        await gateway.add(f"t{number:03}" + "й" * (number % 5 * 100), owner="ana", cron="0 9 * * *", prompt="й\n" * 900)
    await gateway.add("other", owner="ben", cron="0 9 * * *")
    seen: list[str] = []
    cursor = ""
    async with tools(gateway.wakeful) as ana:
        while cursor or not seen:
            page = await ana("list_tasks", cursor=cursor)
            assert all(set(task) == GO_NAMES for task in page["tasks"])
            seen += [task["ID"][:4] for task in page["tasks"]]
            cursor = page.get("nextCursor", "")
        assert sorted(seen) == [f"t{number:03}" for number in range(130)]
        assert "not a cursor" in await ana.refused("list_tasks", cursor="gone")


async def test_the_newest_task_is_first(gateway: Gateway) -> None:
    await gateway.connect()
    made = []
    async with tools(gateway.wakeful) as ana:
        for number in range(3):
            made.append((await ana("schedule_task", **BRIEF | {"prompt": str(number)}))["taskId"])
            await gateway.clock.advance(1)
        assert [task["ID"] for task in (await ana("list_tasks"))["tasks"]] == made[::-1]


# Changing


async def test_other_words_keep_the_alarm_and_another_time_gives_a_new_one(gateway: Gateway) -> None:
    await gateway.connect()
    async with tools(gateway.wakeful) as ana:
        id = (await ana("schedule_task", targetJid=CHAT, prompt="brief", cron="*/30 * * * *"))["taskId"]
        await gateway.pass_time()
        await ana("update_task", taskId=id, prompt="long brief", targetJid="other@g.us", contextMode="isolated")
        await gateway.pass_time(1800)
        assert await gateway.sql("select chat_jid, sender, content from messages") == [
            ("other@g.us", f"scheduler-isolated:{id}", "long brief")
        ]
        assert len(await gateway.alarms(id)) == 1
        await ana("update_task", taskId=id, cron="0 * * * *")
        assert await gateway.task(id) == ("active", gateway.clock.now() + timedelta(minutes=30))
        await gateway.pass_time()
        assert len(await gateway.alarms(id)) == 2
        await ana("update_task", taskId=id, nextRun=gateway.at(60))
        await gateway.pass_time(60)
        assert len(await gateway.messages()) == 2
        assert await gateway.task(id) == ("active", gateway.clock.now() + timedelta(minutes=29))


async def test_a_new_time_runs_a_task_again_that_is_done(gateway: Gateway) -> None:
    await gateway.connect()
    async with tools(gateway.wakeful) as ana:
        id = (await ana("schedule_task", targetJid=CHAT, prompt="once", cron=gateway.at(5)))["taskId"]
        await gateway.pass_time(5)
        text = await ana.refused("resume_task", taskId=id)
        assert "it was scheduled to run once, and has run" in text
        assert "not active" in await ana.refused("pause_task", taskId=id)
        await ana("update_task", taskId=id, prompt="twice")
        assert await gateway.task(id) == ("done", None)
        await ana("update_task", taskId=id, nextRun=gateway.at(5))
        await gateway.pass_time(5)
        assert await gateway.messages() == ["once", "twice"]
        assert (await ana.as_taught(text))["task"]["Status"] == "done", "a hint plans nothing anew"


async def test_update_without_a_change_and_with_two_moments_is_refused(gateway: Gateway) -> None:
    await gateway.connect()
    async with tools(gateway.wakeful) as ana:
        id = (await ana("schedule_task", **BRIEF))["taskId"]
        before = await rows(gateway)
        assert "Give one of: prompt" in await ana.refused("update_task", taskId=id)
        at = {"cron": "2030-01-31T09:00:00Z", "nextRun": "2031-01-31T09:00:00Z"}
        assert "it is a different moment" in await ana.refused("update_task", taskId=id, **at)
        assert "nextRun: " in await ana.refused("update_task", taskId=id, nextRun="soon")
        assert (await ana("update_task", taskId=id, prompt=BRIEF["prompt"]))["ok"] is True
        assert await rows(gateway) == before


async def test_a_paused_task_runs_once_late_when_it_is_resumed(gateway: Gateway) -> None:
    await gateway.connect()
    async with tools(gateway.wakeful) as ana:
        id = (await ana("schedule_task", targetJid=CHAT, prompt="brief", cron="*/30 * * * *"))["taskId"]
        await gateway.pass_time()
        for _ in range(2):  # saying it twice changes nothing
            assert (await ana("pause_task", taskId=id))["ok"] is True
        await gateway.pass_time(3 * 1800 + 60)
        assert await gateway.messages() == []
        for _ in range(2):
            assert (await ana("resume_task", taskId=id))["ok"] is True
        await gateway.pass_time()
        assert await gateway.messages() == ["brief"]
        assert await gateway.task(id) == ("active", gateway.clock.now() + timedelta(minutes=29))


async def test_a_cancelled_task_is_gone_and_fires_no_more(gateway: Gateway) -> None:
    await gateway.connect()
    async with tools(gateway.wakeful) as ana:
        id = (await ana("schedule_task", targetJid=CHAT, prompt="brief", cron="*/30 * * * *"))["taskId"]
        await gateway.pass_time()
        assert (await ana("cancel_task", taskId=id))["ok"] is True
        assert await rows(gateway) == []
        assert "task not found" in await ana.refused("cancel_task", taskId=id)
    await gateway.pass_time(1800)
    assert await gateway.messages() == []
    assert [alarm.status for alarm in await gateway.alarms(id)] == ["cancelled"]


# Owners

FOREIGN: dict[str, dict[str, Any]] = {
    "get_task": {},
    "update_task": {"prompt": "taken"},
    "cancel_task": {},
    "pause_task": {},
    "resume_task": {},
}


@pytest.mark.parametrize("tool", sorted(FOREIGN))
async def test_another_owner_s_task_is_not_found_and_stays_as_it_is(gateway: Gateway, tool: str) -> None:
    await gateway.connect()
    async with tools(gateway.wakeful) as ana, tools(gateway.wakeful, "eve") as eve:
        id = (await ana("schedule_task", **BRIEF))["taskId"]
        if tool == "resume_task":
            await ana("pause_task", taskId=id)
        before = await rows(gateway)
        told = [await eve.refused(tool, taskId=one, **FOREIGN[tool]) for one in (id, "task-0-00000000")]
        assert "taskId: task not found." in told[0]
        assert told[0] == told[1]
        assert await eve.as_taught(told[0]) == {**await eve("list_tasks"), "tasks": []}
        assert await rows(gateway) == before


async def test_another_owner_neither_lists_nor_repeats_one_s_tasks(gateway: Gateway) -> None:
    await gateway.connect()
    async with tools(gateway.wakeful) as ana, tools(gateway.wakeful, "eve") as eve:
        mine = (await ana("schedule_task", **BRIEF))["taskId"]
        assert (await eve("list_tasks"))["tasks"] == []
        assert "not a cursor" in await eve.refused("list_tasks", cursor=mine)
        theirs = (await eve("schedule_task", **BRIEF))["taskId"]
        assert theirs != mine
        assert [task["ID"] for task in (await eve("list_tasks"))["tasks"]] == [theirs]
        assert await gateway.sql(f"select owner from scheduled_tasks where id = '{theirs}'") == [("eve",)]


async def test_the_owner_cannot_be_given(gateway: Gateway) -> None:
    await gateway.connect()
    async with tools(gateway.wakeful) as ana:
        await ana.refused("schedule_task", **BRIEF, owner="eve")
        assert await rows(gateway) == []


def test_every_tool_is_tried_with_another_owner() -> None:
    assert {*FOREIGN, "list_tasks", "schedule_task"} == set(TASK_TOOLS)
