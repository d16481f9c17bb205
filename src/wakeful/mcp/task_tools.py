"""The task tools, where the setting `mcp_tasks` turns them on: their types, what they do, and how they are listed.

Their names and arguments are those of the gateway's own tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from wakeful.errors import Forbidden, InvalidConfig, InvalidRequest, InvalidSchedule, NotFound, TooMany, WakefulError
from wakeful.mcp import agent_views
from wakeful.mcp.agent_views import BUDGET, NAME, TextBudget, cut
from wakeful.mcp.catalogue import ToolEntry, correction, look
from wakeful.mcp.schemas import Cut, Result, Utc, given
from wakeful.rules.task import Task, moment_of
from wakeful.schedule import describe
from wakeful.schedule.descriptions import moment as in_words
from wakeful.service import Alarms
from wakeful.service.tasks import TaskEdit

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


ID: Final = 1100  # ids are whole unless they are not ours: an id that is cut names nothing
IN_LIST: Final = 120  # bytes of a prompt
PIECE: Final = 3000
_FRAME: Final = 300  # bytes of an answer beside its tasks and its cursor


class TaskTools:
    """The tools for one caller.

    Who it was is not noted: what is done to a task is done to its row, and the row has no place for it.
    """

    def __init__(self, alarms: Alarms) -> None:
        self._service = alarms.service
        self._tasks = alarms.service.tasks
        self._settings = alarms.service.settings
        self._owner = alarms.caller.owner
        self._guarded = alarms.caller.limited

    async def schedule(self, arguments: ScheduleArguments) -> ScheduleResult:
        done = await self._tasks.schedule(
            owner=self._owner,
            chat_jid=arguments.target_jid,
            prompt=arguments.prompt,
            cron=arguments.cron,
            context_mode=arguments.context_mode,
            guarded=self._guarded,
        )
        task, notes = done.task, []
        if done.deduped and task.chat_jid != arguments.target_jid:
            notes.append(
                f"It goes to {cut(task.chat_jid or '', NAME)}. To send it elsewhere, use update_task with targetJid."
            )
        if not (await self._service.targets.served()).get(self._settings.tasks_target):
            notes.append("No running worker handles tasks yet: it runs once one does (`wakeful serve`).")
        what = "It exists already and was not changed" if done.deduped else "Scheduled"
        return ScheduleResult(
            summary=f"{what}: {await self._words(task)}",
            now=await self._now(),
            task_id=task.id,
            deduped=done.deduped,
            notes=notes,
        )

    async def get(self, arguments: GetTaskArguments) -> GetTaskResult:
        task = await self._tasks.get(arguments.task_id, owner=self._owner)
        prompt, room = (task.prompt or "")[arguments.offset :], TextBudget()
        kept = cut(prompt, PIECE)
        end = arguments.offset + len(kept) - 1 if kept != prompt else 0
        if end:
            call = {"taskId": task.id, "offset": end}
            room.notes.append(f"The prompt continues: get_task {msgspec.json.encode(call).decode()}")
        alarm = await self._tasks.alarm(task)
        return GetTaskResult(
            summary=await self._words(task),
            now=await self._now(),
            task=_view(task, kept.removesuffix("…") if end else kept),
            error=cut(await self._tasks.note(task), agent_views.ERROR),
            alarm_id=alarm.id if alarm else "",
            next_offset=end,
            notes=room.notes,
        )

    async def list(self, arguments: ListTasksArguments) -> ListTasksResult:
        found = await self._tasks.list(owner=self._owner)
        if arguments.cursor:
            found = _after(found, arguments.cursor)
        found = [task for task in found if not arguments.status or task.status == arguments.status]
        shown: list[TaskView] = []
        size = _FRAME
        for task in found[:PAGE]:
            view = _view(task, cut(task.prompt or "", IN_LIST))
            size += len(msgspec.json.encode(view)) + 1
            if shown and size + len(msgspec.json.encode(view.id)) > BUDGET:  # as the last one it is the cursor too
                break
            shown.append(view)
        more = len(found) > len(shown)
        what = f"{len(shown)} tasks, newest first" if len(shown) != 1 else "1 task"
        return ListTasksResult(
            summary=f"{what}." + (" There are more: call again with cursor." if more else ""),
            now=await self._now(),
            tasks=shown,
            next_cursor=shown[-1].id if more else "",
        )

    async def update(self, arguments: UpdateTaskArguments) -> DoneResult:
        fields = {name: value for name, value in given(arguments).items() if name not in ("task_id", "target_jid")}
        if arguments.target_jid is not UNSET:
            fields["chat_jid"] = arguments.target_jid
        if not fields:
            names = "prompt, cron, nextRun, targetJid, contextMode"
            raise InvalidRequest("nothing to change was given", field="update_task", fix=f"Give one of: {names}.")
        edit = TaskEdit(**fields)
        return await self._done(
            "Changed", await self._tasks.update(arguments.task_id, edit, owner=self._owner, guarded=self._guarded)
        )

    async def pause(self, arguments: TaskArguments) -> DoneResult:
        return await self._done("Paused", await self._tasks.pause(arguments.task_id, owner=self._owner))

    async def resume(self, arguments: TaskArguments) -> DoneResult:
        task = await self._tasks.resume(arguments.task_id, owner=self._owner, guarded=self._guarded)
        return await self._done("Resumed", task)

    async def cancel(self, arguments: TaskArguments) -> DoneResult:
        await self._tasks.cancel(arguments.task_id, owner=self._owner)
        return DoneResult(summary="Cancelled: the task is gone.", now=await self._now(), ok=True)

    async def _done(self, what: str, task: Task) -> DoneResult:
        return DoneResult(summary=f"{what}: {await self._words(task)}", now=await self._now(), ok=True)

    async def _words(self, task: Task) -> str:
        """When it runs, as it was understood, and when that is next."""
        zone, now, at = self._settings.timezone, await self._service.now(), _moment(task.next_run)
        when = cut(_when(task, zone), agent_views.ERROR)
        if task.status != "active":
            return f"{when}. The task is {cut(task.status or 'without status', NAME)}."
        if at is None:
            return f"{when}. Its next run is not known yet."
        return f"{when}. Next at {agent_views.local(at, zone)}, {agent_views.away(at - now)}."

    async def _now(self) -> str:
        return agent_views.utc(await self._service.now())


def _view(task: Task, prompt: str) -> TaskView:
    at, created = _moment(task.next_run), _moment(task.created_at)
    next_run = agent_views.utc(at) if at is not None else cut(task.next_run, NAME) if task.next_run else None
    return TaskView(
        id=cut(task.id, ID),
        owner=cut(task.owner or "", NAME),
        chat_jid=cut(task.chat_jid or "", NAME),
        prompt=prompt,
        cron=cut(task.cron or "", NAME),
        next_run=next_run,
        status=cut(task.status or "", NAME),
        created=agent_views.utc(created) if created is not None else cut(task.created_at or "", NAME),
        context_mode=cut(task.context_mode or "group", NAME),
    )


def _when(task: Task, timezone: str) -> str:
    """The times of a task in words; what another program wrote and makes no sense, as it stands."""
    text = (task.cron or "").strip()
    if not text:
        at = _moment(task.next_run)
        return "once" if at is None else in_words(at, timezone)
    try:
        return describe(f"@every {max(int(text), 1000)}ms" if text.isdigit() else text, timezone)
    except InvalidSchedule:
        return text


def _moment(text: str | None) -> datetime | None:
    """A moment another program may have written, if it is one."""
    try:
        return moment_of(text) if text else None
    except InvalidSchedule:
        return None


def _after(tasks: list[Task], cursor: str) -> list[Task]:
    for place, task in enumerate(tasks):
        if cut(task.id, ID) == cursor:
            return tasks[place + 1 :]
    raise InvalidRequest(
        f"{cursor[:80]!r} is not a cursor", field="cursor", fix="Call again without it: that task is gone."
    )


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
        takes=ScheduleArguments,
        answers=ScheduleResult,
        scope="write",
        run=TaskTools.schedule,
    ),
    _entry(
        "get_task",
        title="Show a task",
        about="One task: its prompt, when it runs next, and why it does not.",
        takes=GetTaskArguments,
        answers=GetTaskResult,
        scope="read",
        run=TaskTools.get,
    ),
    _entry(
        "list_tasks",
        title="List tasks",
        about="List your tasks, newest first, in short.",
        takes=ListTasksArguments,
        answers=ListTasksResult,
        scope="read",
        run=TaskTools.list,
    ),
    _entry(
        "update_task",
        title="Change a task",
        about="Change a task's prompt, times, chat or mode. A task that is done or in error runs again at a new time. "
        'Example: {"taskId": "…", "cron": "0 8 * * 1-5"}',
        takes=UpdateTaskArguments,
        answers=DoneResult,
        scope="write",
        run=TaskTools.update,
        destructive=True,
    ),
    _entry(
        "pause_task",
        title="Pause a task",
        about="Keep a task from running until it is resumed.",
        takes=TaskArguments,
        answers=DoneResult,
        scope="write",
        run=TaskTools.pause,
        idempotent=True,
    ),
    _entry(
        "resume_task",
        title="Resume a task",
        about="Let a task run again. If it was due meanwhile, it runs at once, and only once.",
        takes=TaskArguments,
        answers=DoneResult,
        scope="write",
        run=TaskTools.resume,
        idempotent=True,
    ),
    _entry(
        "cancel_task",
        title="Cancel a task",
        about="Delete a task for good.",
        takes=TaskArguments,
        answers=DoneResult,
        scope="write",
        run=TaskTools.cancel,
        destructive=True,
    ),
)
TASK_TOOLS: Final[Mapping[str, ToolEntry]] = {entry.name: entry for entry in TASK_ENTRIES}
