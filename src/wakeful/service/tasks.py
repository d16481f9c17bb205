"""The verbs on tasks: rows of the connected `scheduled_tasks`, checked before they are written.

The row is all that is written: a dispatcher sees it as it sees the rows of other programs, and plans it. `owner` scopes
every verb: somebody else's task is not found.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from wakeful.errors import Conflict, InvalidConfig, InvalidRequest, InvalidSchedule, NotFound, TooMany
from wakeful.ids import Ids
from wakeful.model.alarm import TASKS, Alarm
from wakeful.moments import unix_ms
from wakeful.rules.edit import cancel
from wakeful.rules.task import ISOLATED, Task, TaskNews, TaskPlan, moment_of, rfc3339
from wakeful.rules.users import CHAT_FIX
from wakeful.service.limits import Limits, check
from wakeful.settings import Settings
from wakeful.settings.values import planner_of
from wakeful.store import AlarmQuery, Store

USUAL_TABLE: Final = "scheduled_tasks"
LOOKED_AT: Final = 10_000  # an owner's latest tasks, where one is looked for among them
TRIES: Final = 10
AT_ONCE: Final = 500
ALARMS: Final = 20  # of one task, looked at for the one it has now
SHARED: Final = "group"
_LIVE: Final = ("active", "paused")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d.*")
_WITH_OFFSET: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")
_HOW: Final = (
    'Give cron such as "0 9 * * 1-5", milliseconds between two runs such as "1800000", '
    'or a moment such as "2030-01-31T09:00:00Z" to run once.'
)
_FIXES: Final = {
    "chat_jid": CHAT_FIX,
    "cron": _HOW,
    "next_run": 'Give a moment with offset, such as "2030-01-31T09:00:00Z".',
}


class TaskEdit(Struct, frozen=True, kw_only=True):
    """What is to be different; None leaves a column as it is."""

    prompt: str | None = None
    cron: str | None = None
    next_run: str | None = None
    chat_jid: str | None = None
    context_mode: str | None = None


class Scheduled(Struct, frozen=True):
    """A task, and whether it was there already."""

    task: Task
    deduped: bool


class Tasks:
    def __init__(
        self, store: Store, settings: Settings, *, guards: Limits, now: Callable[[], Awaitable[datetime]]
    ) -> None:
        self._store = store
        self._settings = settings
        self._guards = guards
        self._now = now
        self._ids = Ids()
        self._looking = asyncio.Lock()
        self._planner = planner_of(settings)

    async def schedule(
        self, *, owner: str, chat_jid: str, prompt: str, cron: str, context_mode: str = "", guarded: bool = False
    ) -> Scheduled:
        """Write a new task, or answer with the active one of this owner that says the same at the same times."""
        await self._need_table()
        now = await self._now()
        task = Task(
            id="",
            owner=owner,
            chat_jid=_chat(chat_jid),
            prompt=prompt,
            status="active",
            context_mode=_mode(context_mode),
            created_at=rfc3339(now.replace(microsecond=0)),  # like the gateway's own: they are sorted as text
        )
        task = _timed(task, cron)
        if not task.cron and not task.next_run:
            raise InvalidSchedule("no time was given", field="cron", fix=_HOW)
        if not task.cron:
            return await self._inserted(task, now, guarded=guarded)
        async with self._looking:  # a call that is made twice at once is still one task
            if (same := await self._same(task)) is not None:
                return Scheduled(same, deduped=True)
            return await self._inserted(task, now, guarded=guarded)

    async def get(self, id: str, *, owner: str) -> Task:
        await self._need_table()
        found = await self._store.tasks.find(owner=owner, id=id, limit=1) if id else []
        if not found:
            raise NotFound("task not found", field="id", fix="list_tasks lists them.")
        return found[0]

    async def list(self, *, owner: str) -> list[Task]:
        """An owner's tasks, newest first."""
        await self._need_table()
        return await self._store.tasks.find(owner=owner, limit=LOOKED_AT)

    async def update(self, id: str, edit: TaskEdit, *, owner: str, guarded: bool = False) -> Task:
        """Change what is named. A new time runs a task again that had come to its end."""
        return await self._change(id, owner, lambda before: self._updated(before, edit, guarded))

    async def _updated(self, before: Task, edit: TaskEdit, guarded: bool) -> Task:
        after, now = _edited(before, edit), await self._now()
        if after == before:
            return before
        is_timed = edit.cron is not None or edit.next_run is not None
        if _status(before) not in _LIVE and not is_timed:
            self._planned(_as_if_due(after, now), before, now)  # whatever is said must make sense, should it run again
            return after
        after = replace(after, status="paused" if _status(before) == "paused" else "active")
        plan = self._planned(after, before, now)
        if guarded and is_timed:
            await self._admit(plan, before, now)
        return plan.task or after

    async def pause(self, id: str, *, owner: str) -> Task:
        return await self._change(id, owner, self._paused)

    async def _paused(self, before: Task) -> Task:
        match _status(before):
            case "active":
                return replace(before, status="paused")
            case "paused":
                return before
            case status:
                fix = "Give it another time, and it runs again."
                raise Conflict(f"the task is {status or 'without status'}, not active", field="id", fix=fix)

    async def resume(self, id: str, *, owner: str, guarded: bool = False) -> Task:
        """Let a task run again. One that was missed meanwhile runs at once, and only once."""
        return await self._change(id, owner, lambda before: self._resumed(before, guarded))

    async def _resumed(self, before: Task, guarded: bool) -> Task:
        if _status(before) == "active":
            return before
        if not before.cron and not before.next_run:
            raise Conflict("it was scheduled to run once, and has run", field="id", fix="Give it another time first.")
        now = await self._now()
        plan = self._planned(replace(before, status="active"), before, now)
        if guarded:
            await self._admit(plan, before, now)
        return plan.task or before

    async def cancel(self, id: str, *, owner: str) -> Task:
        """Delete the row: it is empty for it any more, and its alarm is cancelled within a tick."""
        before = await self.get(id, owner=owner)
        if not await self._store.tasks.delete(id, owner=before.owner):
            raise NotFound("task not found", field="id")
        return before

    async def unwatched(self) -> bool:
        """Whether there is a table of the usual name, and no table is connected."""
        if await self._store.tasks.table():
            return False
        try:
            return await self._store.tasks.rows(USUAL_TABLE, limit=0) is not None
        except InvalidConfig:
            return False  # another's, of the same name: it could not be connected as it is

    async def disconnect(self) -> tuple[str, int]:
        """Leave the connected table alone: which it was, and how many alarms of its tasks were cancelled. Rows stay.

        Safe to repeat: what an earlier try left undone is done.
        """
        name, count = await self._store.tasks.disconnect(), 0
        while links := await self._store.tasks.links(limit=AT_ONCE):
            for id in filter(None, links.values()):
                count += await self._cancelled(id, f"table {name} disconnected" if name else "table disconnected")
            await self._store.tasks.unlink(list(links))
        return name, count

    async def _cancelled(self, alarm_id: str, reason: str) -> bool:
        for _ in range(TRIES):
            alarm = await self._store.get(alarm_id)
            if alarm is None:
                return False
            key = (alarm.id, alarm.occurrence_at)
            fire = (await self._store.fires_at([key])).get(key)
            change = cancel(alarm, fire, now=await self._now(), by=TASKS, reason=reason)
            if change is None:
                return False
            [answer] = await self._store.settle([change])
            if answer.what == "applied":
                return True
        raise Conflict(f"the alarm {alarm_id} keeps changing", field="id", fix="Try again.")

    async def note(self, task: Task) -> str:
        """Why a task does not run, where a dispatcher has said so."""
        return (await self._store.tasks.notes(limit=LOOKED_AT)).get(task.id, "")

    async def alarm(self, task: Task) -> Alarm | None:
        """The alarm that stands for it, or last did; None until a dispatcher has planned it."""
        query = AlarmQuery(owner=task.owner or "", label=task.id, limit=ALARMS)
        found = await self._store.find(query)
        return next((alarm for alarm in found if alarm.created_via == TASKS), None)

    # Check, then write

    def _planned(self, task: Task, before: Task | None, now: datetime) -> TaskPlan:
        """What a dispatcher will make of the row, or the error it would write into it."""
        news = TaskNews(task_id=task.id, upto=0, task=task, seen=before)
        plan = self._planner.plan(news, id=self._ids.new(now), now=now)
        if plan.new is None:
            column, colon, said = plan.note.partition(": ")
            if not colon or column not in Task.__struct_fields__:
                column, said = "next_run", plan.note
            raise InvalidRequest(said, field=column, fix=_FIXES.get(column, ""))
        return plan

    async def _admit(self, plan: TaskPlan, before: Task | None, now: datetime) -> None:
        """The limits of an owner: a task is an alarm. Chains do not apply: no task names the wake that set it."""
        if plan.new is None:
            return
        if before is not None and _status(before) in _LIVE:
            check(plan.new, self._settings, now=now)
            return
        # Rows that no dispatcher has planned yet are not alarms yet, and would not be counted.
        count, limit = await self._count(plan.new.owner_did), self._settings.quota_active
        if count >= limit:
            raise TooMany(
                f"there are {count} active and paused tasks, and at most {limit} are allowed",
                field="quota_active",
                fix="Cancel some, or use one recurring task instead of many single ones.",
            )
        await self._guards.admit([plan.new], now=now)

    async def _count(self, owner: str) -> int:
        return sum(_status(task) in _LIVE for task in await self.list(owner=owner))

    async def _inserted(self, task: Task, now: datetime, *, guarded: bool) -> Scheduled:
        task = replace(task, id=_minted(now))
        plan = self._planned(task, None, now)
        if guarded:
            await self._admit(plan, None, now)
        row = plan.task or task
        while not await self._store.tasks.insert(row):
            row = replace(row, id=_minted(now))
        return Scheduled(row, deduped=False)

    async def _change(self, id: str, owner: str, decide: Callable[[Task], Awaitable[Task]]) -> Task:
        """Read, decide, write; again where the row moved meanwhile: it may just have fired."""
        for _ in range(TRIES):
            before = await self.get(id, owner=owner)
            after = await decide(before)
            if after == before or await self._store.tasks.update(after, was=before):
                return after
        raise Conflict("the task keeps changing", field="id", fix="Try again.")

    async def _same(self, task: Task) -> Task | None:
        said = (task.owner, task.cron, task.prompt, "active")
        for other in await self.list(owner=task.owner or ""):
            if (other.owner, (other.cron or "").strip(), other.prompt, _status(other)) == said:
                return other
        return None

    async def _need_table(self) -> None:
        if not await self._store.tasks.table():
            raise InvalidConfig(
                "no table of tasks is connected",
                field="scheduled_tasks",
                fix="Ask the operator to run `wakeful db scheduled-tasks` once and restart wakeful.",
            )


def _status(task: Task) -> str:
    return task.status or ""


def _minted(now: datetime) -> str:
    return f"task-{unix_ms(now)}-{os.urandom(4).hex()}"


def _edited(task: Task, edit: TaskEdit) -> Task:
    given = {name: value for name, value in asdict(edit).items() if value is not None}
    if "chat_jid" in given:
        _chat(given["chat_jid"])
    if "context_mode" in given:
        given["context_mode"] = _mode(given["context_mode"])
    if (at := given.get("next_run")) is not None:
        _check_moment(at, "next_run")
    cron = given.pop("cron", None)
    if cron is not None:
        task = _timed(task, cron)
        if at is not None and not task.cron and task.next_run != at and cron.strip():
            raise InvalidSchedule("it is a different moment", field="cron", fix="Give the moment in one place.")
    return replace(task, **given)


def _timed(task: Task, cron: str) -> Task:
    """The task with other times: an expression, an interval, a single moment, or nothing but its next_run."""
    text = cron.strip()
    if _MOMENT.fullmatch(text):
        _check_moment(text, "cron")
        return replace(task, cron=None, next_run=text)
    return replace(task, cron=text or None)


def _check_moment(text: str, column: str) -> None:
    if not _WITH_OFFSET.fullmatch(text):
        raise InvalidSchedule(f"{text[:60]!r} is not a moment with an offset", field=column, fix=_FIXES["next_run"])
    try:
        moment_of(text)
    except InvalidSchedule as error:
        raise InvalidSchedule(error.message, field=column, fix=_FIXES["next_run"]) from None


def _as_if_due(task: Task, now: datetime) -> Task:
    return replace(task, status="active", next_run=rfc3339(now))


def _chat(chat_jid: str) -> str:
    if not chat_jid.strip():
        raise InvalidRequest("it is empty", field="chat_jid", fix='Name the chat, such as "123@g.us".')
    return chat_jid


def _mode(context_mode: str) -> str:
    return ISOLATED if context_mode == ISOLATED else SHARED


# Numbers live events, in order per process, without telling one owner how active others are


OWNERS: Final = 50_000  # whose counts are kept; the one that was silent for longest starts again
_HALF: Final = 24  # bits
_MASK: Final = (1 << _HALF) - 1
_ROUNDS: Final = 4


class ResumeNames:
    """Numbers as names and back: all numbers of 48 bits, shuffled (a Feistel network) under a key of this process."""

    def __init__(self) -> None:
        self.run = secrets.token_hex(4)  # names of another process mean nothing here
        self._key = secrets.token_bytes(16)

    def of(self, number: int) -> str:
        left, right = number >> _HALF & _MASK, number & _MASK
        for turn in range(_ROUNDS):
            left, right = right, left ^ self._mixed(turn, right)
        return f"{self.run}-{left << _HALF | right}"

    def number(self, name: str) -> int | None:
        """Which number a name stands for; None where it cannot be one of ours."""
        run, _, digits = name.partition("-")
        if run != self.run or not digits.isascii() or not digits.isdigit() or len(digits) > 15:
            return None
        if (shuffled := int(digits)) >> 2 * _HALF:
            return None
        left, right = shuffled >> _HALF, shuffled & _MASK
        for turn in reversed(range(_ROUNDS)):
            left, right = right ^ self._mixed(turn, left), left
        return left << _HALF | right

    def _mixed(self, turn: int, half: int) -> int:
        said = bytes((turn,)) + half.to_bytes(3)
        return int.from_bytes(hashlib.blake2b(said, digest_size=3, key=self._key).digest())


class OwnerCounts:
    """How many events each owner has been told of, as far as that is remembered."""

    def __init__(self, most: int = OWNERS) -> None:
        self._most = most
        self._counts: OrderedDict[str, int] = OrderedDict()

    def next(self, owner: str) -> int:
        count = self._counts.get(owner, 0) + 1
        self._counts[owner] = count
        self._counts.move_to_end(owner)
        if len(self._counts) > self._most:
            self._counts.popitem(last=False)
        return count
