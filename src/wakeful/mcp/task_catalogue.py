"""The task tools as a client gets them, where the setting `mcp_tasks` turns them on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from wakeful.alarm import Task
from wakeful.errors import Forbidden, InvalidConfig, NotFound, TooMany, WakefulError
from wakeful.mcp import task_schemas as schemas
from wakeful.mcp.catalogue import ToolEntry, correction, look
from wakeful.mcp.task_tools import TaskTools
from wakeful.service import Alarms

TASK_INSTRUCTIONS: Final = """
- Tasks put a message into a chat: schedule_task {"targetJid": "123@g.us", "prompt": "Morning brief", "cron": \
"0 9 * * 1-5"}. Whoever reads that chat is woken, by the gateway. list_tasks and get_task show yours; update_task, \
pause_task, resume_task and cancel_task change them."""

_NAMES: Final = {  # of the columns, as the tools call them
    "id": "taskId",
    "chat_jid": "targetJid",
    "next_run": "nextRun",
    "cron_expr": "cron",
    "wake_message": "prompt",
    "context_mode": "contextMode",
}


async def _hint(alarms: Alarms, entry: ToolEntry, error: WakefulError, arguments: Mapping[str, Any]) -> str:
    """As the other tools do: the caller's own call corrected, or one that only looks."""
    match error:
        case InvalidConfig():  # no task tool works until the operator has seen to it
            return look("alarm_list", {"status": "all"})
        case Forbidden() | NotFound() | TooMany():
            return look("list_tasks", {})
    if corrected := correction(entry, error, arguments, when="cron"):
        return corrected
    id = arguments.get("taskId")
    # Only what the caller named itself, never another task of theirs: an example is soon copied.
    if isinstance(id, str) and await _found(alarms, id) is not None:
        return look("get_task", {"taskId": id})
    return look("list_tasks", {})


async def _found(alarms: Alarms, id: str) -> Task | None:
    try:
        return await alarms.service.tasks.get(id, owner=alarms.caller.owner)
    except NotFound:
        return None


def _entry(name: str, **more: Any) -> ToolEntry:
    look = "It may or may not have been done; check with list_tasks."
    return ToolEntry(name=name, tools=TaskTools, example=_hint, unknown=look, names=_NAMES, **more)


TASK_ENTRIES: Final = (
    _entry(
        "schedule_task",
        title="Schedule a task",
        about="Put a message into a chat later, once or repeatedly. An active task of yours with the same cron "
        "and prompt is not made twice. "
        'Example: {"targetJid": "123@g.us", "prompt": "Morning brief", "cron": "0 9 * * 1-5"}',
        takes=schemas.ScheduleArguments,
        answers=schemas.ScheduleResult,
        scope="write",
        run=TaskTools.schedule,
    ),
    _entry(
        "get_task",
        title="Show a task",
        about="One task: its prompt, when it runs next, and why it does not.",
        takes=schemas.GetTaskArguments,
        answers=schemas.GetTaskResult,
        scope="read",
        run=TaskTools.get,
    ),
    _entry(
        "list_tasks",
        title="List tasks",
        about="List your tasks, newest first, in short.",
        takes=schemas.ListTasksArguments,
        answers=schemas.ListTasksResult,
        scope="read",
        run=TaskTools.list,
    ),
    _entry(
        "update_task",
        title="Change a task",
        about="Change a task's prompt, times, chat or mode. A task that is done or in error runs again at a new time. "
        'Example: {"taskId": "…", "cron": "0 8 * * 1-5"}',
        takes=schemas.UpdateTaskArguments,
        answers=schemas.DoneResult,
        scope="write",
        run=TaskTools.update,
        destructive=True,
    ),
    _entry(
        "pause_task",
        title="Pause a task",
        about="Keep a task from running until it is resumed.",
        takes=schemas.TaskArguments,
        answers=schemas.DoneResult,
        scope="write",
        run=TaskTools.pause,
        idempotent=True,
    ),
    _entry(
        "resume_task",
        title="Resume a task",
        about="Let a task run again. If it was due meanwhile, it runs at once, and only once.",
        takes=schemas.TaskArguments,
        answers=schemas.DoneResult,
        scope="write",
        run=TaskTools.resume,
        idempotent=True,
    ),
    _entry(
        "cancel_task",
        title="Cancel a task",
        about="Delete a task for good.",
        takes=schemas.TaskArguments,
        answers=schemas.DoneResult,
        scope="write",
        run=TaskTools.cancel,
        destructive=True,
    ),
)
TASK_TOOLS: Final[Mapping[str, ToolEntry]] = {entry.name: entry for entry in TASK_ENTRIES}
