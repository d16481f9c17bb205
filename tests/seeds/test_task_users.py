"""Whose tasks are taken, and into which chats: by the tools, by a row that a program writes, and when one is due."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acting import acting
from wakeful.errors import InvalidRequest, UnknownTarget
from wakeful.model.requests import EditRequest
from wakeful.testing import store_of

from .conftest import Gateway
from .task_tools_world import BRIEF, tools

HERS = "ana@g.us"
OTHERS = "bob@g.us"
CHATS = {"ana": [HERS, "family-*"]}


async def opened(gateway: Gateway, **settings: Any) -> None:
    """A process with other settings, on a table that is connected."""
    await gateway.connect()
    await gateway.stop()
    await gateway.start(**settings)


def messages(*owners: str) -> dict[str, Any]:
    return {"messages": {"kind": "table", "table": "messages", "owners": list(owners)}}


async def test_tasks_of_everyone_go_where_tasks_go_and_their_alarms_do_not(gateway: Gateway) -> None:
    await opened(gateway)
    async with tools(gateway.wakeful) as ana:
        await ana("schedule_task", targetJid=OTHERS, prompt="brief", cron=gateway.at(60))
    with pytest.raises(UnknownTarget, match="Known names: inbox"):
        await gateway.wakeful.for_owner("ana").set("in 1 minute", "obey", target="messages", conversation_id=OTHERS)
    with pytest.raises(UnknownTarget):  # whatever it says of itself
        await gateway.wakeful.for_owner("ana").set("in 1 minute", "obey", target="messages", created_via="sql")
    await gateway.wakeful.set("in 1 minute", "mine", target="messages", conversation_id=OTHERS)
    await gateway.pass_time()
    await gateway.pass_time(60)
    assert sorted(await gateway.messages()) == ["brief", "mine"]


async def test_a_task_alarm_is_no_way_around(gateway: Gateway) -> None:
    """Its owner may fire it by hand and edit it: the copy is no task, and the edit names a chat like any other."""
    await opened(gateway, chats=CHATS)
    async with tools(gateway.wakeful) as ana:
        id = (await ana("schedule_task", **BRIEF | {"targetJid": HERS}))["taskId"]
        await gateway.pass_time()
        [alarm] = await gateway.alarms(id)
    service = gateway.wakeful.service
    with pytest.raises(UnknownTarget):
        await acting(service, "ana").fire(alarm.id)
    with pytest.raises(InvalidRequest) as refused:
        await acting(service, "ana").edit(alarm.id, EditRequest(conversation_id=OTHERS))
    assert refused.value.field == "conversation_id"
    edited = await acting(service, "ana").edit(alarm.id, EditRequest(conversation_id="family-2"))
    assert edited.alarm.conversation_id == "family-2"


async def test_a_task_names_a_chat_its_owner_may_write_to(gateway: Gateway) -> None:
    await opened(gateway, chats=CHATS)
    async with tools(gateway.wakeful) as ana:
        said = await ana.refused("schedule_task", **BRIEF | {"targetJid": OTHERS})
        assert "targetJid: this owner is not allowed to write to the chat" in said
        assert "the setting `chats`" in said
        id = (await ana("schedule_task", **BRIEF | {"targetJid": "family-1@g.us"}))["taskId"]
        assert "targetJid" in await ana.refused("update_task", taskId=id, targetJid=OTHERS)
        await ana("update_task", taskId=id, targetJid=HERS)
    async with tools(gateway.wakeful, "eve") as eve:
        assert "targetJid" in await eve.refused("schedule_task", **BRIEF | {"targetJid": HERS})
    assert await gateway.sql("select owner, chat_jid from scheduled_tasks") == [("ana", HERS)]


async def test_a_row_that_names_another_s_chat_is_in_error_and_says_nothing(gateway: Gateway) -> None:
    await opened(gateway, chats=CHATS)
    await gateway.add("t1", owner="ana", chat_jid=OTHERS, next_run=gateway.at(10))
    await gateway.add("t2", owner="ana", chat_jid=HERS, next_run=gateway.at(10))
    await gateway.add("t3", owner=None, chat_jid=OTHERS, next_run=gateway.at(10))  # the operator's
    await gateway.pass_time()
    await gateway.pass_time(10)
    assert await gateway.messages() == ["do t2", "do t3"]
    assert (await gateway.task("t1"))[0] == "error"
    notes = await store_of(gateway.wakeful).tasks.notes(limit=9)
    assert notes["t1"] == f"chat_jid: this owner is not allowed to write to the chat {OTHERS!r}"


async def test_owners_of_the_target_hold_for_tasks_too(gateway: Gateway) -> None:
    await opened(gateway, targets=messages("ana"))
    async with tools(gateway.wakeful, "eve") as eve:
        assert "owner: tasks of this owner are not accepted" in await eve.refused("schedule_task", **BRIEF)
    async with tools(gateway.wakeful) as ana:
        await ana("schedule_task", **BRIEF | {"cron": gateway.at(10)})
    await gateway.add("t1", owner="eve", next_run=gateway.at(10))
    await gateway.pass_time()
    await gateway.pass_time(10)
    assert await gateway.messages() == ["Morning brief"]
    assert (await gateway.task("t1"))[0] == "error"


@pytest.mark.parametrize("later", [{"targets": messages("ana")}, {"chats": CHATS}])
async def test_what_was_planned_under_other_settings_is_not_said(gateway: Gateway, later: dict[str, Any]) -> None:
    await opened(gateway)
    await gateway.add("t1", owner="eve", chat_jid=OTHERS, next_run=gateway.at(10))
    await gateway.pass_time()
    await gateway.stop()
    await gateway.start(**later)
    await gateway.pass_time(10)
    assert await gateway.messages() == []
    assert (await gateway.task("t1"))[0] == "error"
    [alarm] = await gateway.alarms("t1")
    [fire] = await acting(gateway.wakeful.service, "").fires(alarm.id)
    assert (fire.status, fire.reason) == ("failed", "refused")


# Who set it


@pytest.mark.parametrize("kind", ["text", "varchar(200)"])
async def test_a_message_says_who_set_it_where_the_table_has_columns_for_it(gateway: Gateway, kind: str) -> None:
    for column in ("owner", "created_by"):
        await gateway.sql(f"alter table messages add column {column} {kind}")
    await opened(gateway, targets=messages("*"))
    await gateway.add("t1", owner="ana", next_run=gateway.at(10))
    await gateway.wakeful.for_owner("eve").set("in 10 seconds", "obey", target="messages", created_by="her agent")
    await gateway.pass_time()
    await gateway.pass_time(10)
    said = await gateway.sql("select content, sender, owner, created_by from messages order by content")
    assert said == [
        ("do t1", "scheduler", "ana", "scheduled_tasks"),
        ("obey", "scheduler", "eve", "her agent"),
    ]


async def test_columns_of_the_same_names_for_something_else_are_left_alone(gateway: Gateway) -> None:
    await gateway.sql("alter table messages add column owner integer")
    await gateway.sql("alter table messages add column created_by timestamp")
    await opened(gateway)
    await gateway.add("t1", owner="ana", next_run=gateway.at(10))
    await gateway.pass_time()
    await gateway.pass_time(10)
    assert await gateway.sql("select content, owner, created_by from messages") == [("do t1", None, None)]


async def test_the_columns_may_come_and_go_while_it_runs(gateway: Gateway) -> None:
    await opened(gateway)
    for n, change in enumerate(("add column owner text", "drop column owner")):
        await gateway.sql(f"alter table messages {change}")
        await gateway.add(f"t{n}", owner="ana", next_run=gateway.at(10))
        await gateway.pass_time()
        await gateway.pass_time(10)
        await gateway.pass_time(60)  # PostgreSQL: a row it refused is tried again, and the columns asked for anew
    assert await gateway.messages() == ["do t0", "do t1"]
