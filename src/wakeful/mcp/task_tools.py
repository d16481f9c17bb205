"""The task tools: each reads its arguments, calls one verb on tasks, and describes the result."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec
from msgspec import UNSET

from wakeful.alarm import Task
from wakeful.alarm.task import moment_of
from wakeful.errors import InvalidRequest, InvalidSchedule
from wakeful.mcp import views
from wakeful.mcp.json_schema import given
from wakeful.mcp.task_schemas import (
    PAGE,
    DoneResult,
    GetTaskArguments,
    GetTaskResult,
    ListTasksArguments,
    ListTasksResult,
    ScheduleArguments,
    ScheduleResult,
    TaskArguments,
    TaskView,
    UpdateTaskArguments,
)
from wakeful.mcp.views import BUDGET, NAME, TextBudget, cut
from wakeful.schedule import describe
from wakeful.schedule.descriptions import moment as in_words
from wakeful.service import Alarms
from wakeful.service.tasks import TaskEdit

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

    async def schedule(self, asked: ScheduleArguments) -> ScheduleResult:
        done = await self._tasks.schedule(
            owner=self._owner,
            chat_jid=asked.target_jid,
            prompt=asked.prompt,
            cron=asked.cron,
            context_mode=asked.context_mode,
            guarded=self._guarded,
        )
        task, notes = done.task, []
        if done.deduped and task.chat_jid != asked.target_jid:
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

    async def get(self, asked: GetTaskArguments) -> GetTaskResult:
        task = await self._tasks.get(asked.task_id, owner=self._owner)
        prompt, room = (task.prompt or "")[asked.offset :], TextBudget()
        kept = cut(prompt, PIECE)
        end = asked.offset + len(kept) - 1 if kept != prompt else 0
        if end:
            call = {"taskId": task.id, "offset": end}
            room.notes.append(f"The prompt continues: get_task {msgspec.json.encode(call).decode()}")
        alarm = await self._tasks.alarm(task)
        return GetTaskResult(
            summary=await self._words(task),
            now=await self._now(),
            task=_view(task, kept.removesuffix("…") if end else kept),
            error=cut(await self._tasks.note(task), views.ERROR),
            alarm_id=alarm.id if alarm else "",
            next_offset=end,
            notes=room.notes,
        )

    async def list(self, asked: ListTasksArguments) -> ListTasksResult:
        found = await self._tasks.list(owner=self._owner)
        if asked.cursor:
            found = _after(found, asked.cursor)
        found = [task for task in found if not asked.status or task.status == asked.status]
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

    async def update(self, asked: UpdateTaskArguments) -> DoneResult:
        fields = {name: value for name, value in given(asked).items() if name not in ("task_id", "target_jid")}
        if asked.target_jid is not UNSET:
            fields["chat_jid"] = asked.target_jid
        if not fields:
            names = "prompt, cron, nextRun, targetJid, contextMode"
            raise InvalidRequest("nothing to change was given", field="update_task", fix=f"Give one of: {names}.")
        edit = TaskEdit(**fields)
        return await self._done(
            "Changed", await self._tasks.update(asked.task_id, edit, owner=self._owner, guarded=self._guarded)
        )

    async def pause(self, asked: TaskArguments) -> DoneResult:
        return await self._done("Paused", await self._tasks.pause(asked.task_id, owner=self._owner))

    async def resume(self, asked: TaskArguments) -> DoneResult:
        task = await self._tasks.resume(asked.task_id, owner=self._owner, guarded=self._guarded)
        return await self._done("Resumed", task)

    async def cancel(self, asked: TaskArguments) -> DoneResult:
        await self._tasks.cancel(asked.task_id, owner=self._owner)
        return DoneResult(summary="Cancelled: the task is gone.", now=await self._now(), ok=True)

    async def _done(self, what: str, task: Task) -> DoneResult:
        return DoneResult(summary=f"{what}: {await self._words(task)}", now=await self._now(), ok=True)

    async def _words(self, task: Task) -> str:
        """When it runs, as it was understood, and when that is next."""
        zone, now, at = self._settings.timezone, await self._service.now(), _moment(task.next_run)
        when = cut(_when(task, zone), views.ERROR)
        if task.status != "active":
            return f"{when}. The task is {cut(task.status or 'without status', NAME)}."
        if at is None:
            return f"{when}. Its next run is not known yet."
        return f"{when}. Next at {views.local(at, zone)}, {views.away(at - now)}."

    async def _now(self) -> str:
        return views.utc(await self._service.now())


def _view(task: Task, prompt: str) -> TaskView:
    at, created = _moment(task.next_run), _moment(task.created_at)
    next_run = views.utc(at) if at is not None else cut(task.next_run, NAME) if task.next_run else None
    return TaskView(
        id=cut(task.id, ID),
        owner=cut(task.owner or "", NAME),
        chat_jid=cut(task.chat_jid or "", NAME),
        prompt=prompt,
        cron=cut(task.cron or "", NAME),
        next_run=next_run,
        status=cut(task.status or "", NAME),
        created=views.utc(created) if created is not None else cut(task.created_at or "", NAME),
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
