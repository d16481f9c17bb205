"""The arguments and answers of the task tools, with the names of the gateway's own tools."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from wakeful.mcp.schemas import Cut, Result, Utc

PAGE: Final = 50


def _about(text: str, *examples: str) -> Meta:
    return Meta(description=text, examples=list(examples) or None)


Jid = Annotated[str, _about("The chat that gets the message.", "123@g.us")]
Prompt = Annotated[str, _about("The message: what to do then.")]
Cron = Annotated[
    str,
    _about(
        "Cron with 5 or 6 fields; or milliseconds between two runs; or a moment with offset, to run once.",
        "0 9 * * 1-5",
        "1800000",
        "2030-01-31T09:00:00Z",
    ),
]
Mode = Annotated[
    str, _about("`isolated`: without the chat's earlier messages. Anything else is `group`.", "isolated", "group")
]
TaskId = Annotated[str, _about("A task's id, from schedule_task or list_tasks.")]


class ScheduleArguments(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    target_jid: Jid
    prompt: Prompt
    cron: Cron = ""
    context_mode: Mode = "group"


class TaskArguments(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    task_id: TaskId


class GetTaskArguments(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    task_id: TaskId
    offset: Annotated[int, Meta(ge=0, le=2**31 - 1, description="The character of a long prompt to start at.")] = 0


class UpdateTaskArguments(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    task_id: TaskId
    prompt: Prompt | UnsetType = UNSET
    cron: Cron | UnsetType = UNSET
    next_run: Annotated[str, _about("When it runs next, with offset.", "2030-01-31T09:00:00Z")] | UnsetType = UNSET
    target_jid: Jid | UnsetType = UNSET
    context_mode: Mode | UnsetType = UNSET


class ListTasksArguments(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    status: Annotated[Literal["", "active", "paused", "done", "error"], _about("Only those; empty: all.")] = ""
    cursor: Annotated[str, _about("`nextCursor` of the previous page.")] = ""


# Answers

_GO: Final = {
    "id": "ID",
    "owner": "Owner",
    "chat_jid": "ChatJID",
    "prompt": "Prompt",
    "cron": "Cron",
    "next_run": "NextRun",
    "status": "Status",
    "created": "Created",
    "context_mode": "ContextMode",
}


class TaskView(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename=_GO):
    """A task under the names the gateway's programs know."""

    id: str
    owner: str
    chat_jid: str
    prompt: Cut
    cron: str
    next_run: Annotated[str, _about("RFC 3339 in UTC.")] | None
    status: Annotated[str, _about("active, paused, done or error; or another program's own word.")]
    created: Utc
    context_mode: str


class ScheduleResult(Result, frozen=True, omit_defaults=True, kw_only=True, rename="camel"):
    task_id: str
    deduped: Annotated[bool, _about("You already have an active task with this prompt and time: this is it.")] = False


class DoneResult(Result, frozen=True, omit_defaults=True, kw_only=True, rename="camel"):
    ok: bool


class GetTaskResult(Result, frozen=True, omit_defaults=True, kw_only=True, rename="camel"):
    task: TaskView
    error: Annotated[str, _about("Why it does not run.")] = ""
    alarm_id: Annotated[str, _about("The alarm behind it: alarm_get shows what it did, and why.")] = ""
    next_offset: Annotated[int, _about("Where a long prompt continues; absent at its end.")] = 0


class ListTasksResult(Result, frozen=True, omit_defaults=True, kw_only=True, rename="camel"):
    tasks: Annotated[list[TaskView], _about("The newest first.")]
    next_cursor: str = ""
