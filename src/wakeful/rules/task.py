"""Decide which alarm a row of `scheduled_tasks` from another program stands for. Pure.

The row says what is wanted, the alarm what happens. `seen` is the row as wakeful last left it: what differs from it
was changed by the other program and counts; what does not may lag behind the alarm and is brought up to date.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.errors import InvalidRequest, InvalidSchedule
from wakeful.model.alarm import DEFAULT_POLICY, TASKS, Alarm, Change, Fire, Policy
from wakeful.model.requests import Timing
from wakeful.moments import whole_ms
from wakeful.rules.create import check, timed, user_of
from wakeful.rules.edit import cancel, taken_over
from wakeful.rules.users import Users
from wakeful.schedule import anchor_now, counts_from_start, schedule

ISOLATED: Final = "isolated"
_LIVE: Final = ("active", "paused")
_STATES: Final = {"active": "active", "paused": "paused", "fired": "done", "failed": "error", "cancelled": "done"}
_SHORTEST_MS: Final = 1000
_MOST_DIGITS: Final = 15  # of an interval in milliseconds: 30,000 years
_COLUMNS: Final = {  # what an alarm's field is called in the row
    "wake_message": "prompt",
    "cron_expr": "cron",
    "conversation_id": "chat_jid",
    "owner_did": "owner",
    "label": "id",
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# A day from the end of the calendar, as at the other interfaces: in whatever zone it is shown, it is still a date.
_LAST: Final = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)
_NUMBER: Final = re.compile(r"[0-9]{1,12}(\.[0-9]{0,12})?")
_DATE_DIGITS: Final = 8
_FIRST_DAY: Final = 2440587.5  # 1970, as SQLite's julianday() counts
_LAST_DAY: Final = 5373484.5  # 9999
_DAY_MS: Final = 86_400_000
_GO: Final = re.compile(
    r"(?P<moment>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,9})?) (?P<offset>[+-]\d{4}) [A-Z0-9+-]{1,6}( m=[+-]\d+\.\d+)?"
)


class Task(Struct, frozen=True, kw_only=True):
    """A task's row, every column as text."""

    id: str
    owner: str | None = None
    chat_jid: str | None = None
    prompt: str | None = None
    cron: str | None = None  # an expression; digits: an interval in milliseconds; nothing: a one-shot
    next_run: str | None = None
    status: str | None = None
    context_mode: str | None = None
    created_at: str | None = None


class TaskNews(Struct, frozen=True, kw_only=True):
    """A changed task and what is known of it. `task` is None if its row was deleted."""

    task_id: str
    upto: int  # the number of the last change this covers
    task: Task | None = None
    seen: Task | None = None
    note: str = ""  # what was noted last
    trouble: str = ""  # what of the row could not be read: `task` then only resembles it
    alarm_id: str = ""
    alarm: Alarm | None = None
    fire: Fire | None = None  # of the alarm's current occurrence


class TaskPlan(Struct, frozen=True, kw_only=True):
    """What to write for a changed task: everything together, or nothing if the row has changed again."""

    news: TaskNews
    change: Change | None = None  # to the alarm the task had
    new: Alarm | None = None  # the alarm it has from now on
    alarm_id: str = ""
    task: Task | None = None  # the row as it will be
    note: str = ""  # why it does not run


class Planner(Struct, frozen=True, kw_only=True):
    """What planning a task needs besides its row."""

    target: str
    owner: str
    timezone: str
    max_failures: int
    policy: Policy = DEFAULT_POLICY
    users: Users = Users()

    def plan(self, news: TaskNews, *, id: str, now: datetime) -> TaskPlan:
        """Decide what a changed task means for its alarm. An unreadable row becomes `error` and never fires."""
        now, task = whole_ms(now), news.task
        if task is None:
            return TaskPlan(news=news, change=_ended(news, now, "task deleted"))
        if task == news.seen:
            return TaskPlan(news=news, alarm_id=news.alarm_id, task=task, note=news.note)
        if news.trouble:
            return refused_task(news, news.trouble, now=now)
        try:
            return self._plan(news, task, id, now)
        except InvalidRequest as error:
            return refused_task(news, f"{_COLUMNS.get(error.field, error.field)}: {error.message}", now=now)

    def _plan(self, news: TaskNews, task: Task, id: str, now: datetime) -> TaskPlan:
        alarm, status = news.alarm, task.status or ""
        if alarm is not None and alarm.finished and _is_behind(task, news.seen):
            return TaskPlan(news=news, alarm_id=alarm.id, task=left_by(task, alarm))
        if status not in _LIVE:
            change = _ended(news, now, f"task {status}")
            return TaskPlan(news=news, change=change, alarm_id=news.alarm_id, task=task, note=_misspelt(status))
        if alarm is None or alarm.finished or self._moved(news, task, alarm):
            return self._started(news, task, status, id, now)
        after = replace(alarm, **self._words(task))
        check(after)
        after = replace(after, status="paused" if status == "paused" else "active")
        change = taken_over(alarm, after, now=now, by=TASKS)
        return TaskPlan(news=news, change=change, alarm_id=alarm.id, task=left_by(task, after))

    def _started(self, news: TaskNews, task: Task, status: str, id: str, now: datetime) -> TaskPlan:
        """Start a new alarm for the task and end the old one, so that their fires are not confused."""
        change = _ended(news, now, "task changed")
        timing = self._timing(task, now)
        first = self._first(news.seen, task, timing, now)
        if first is None:
            note = "a one-shot without next_run is never due"
            return TaskPlan(news=news, change=change, task=replace(task, status=status), note=note)
        if timing.kind == "once":
            timing = replace(timing, fire_at=first)
        new = timed(self._alarm(task, id, first, now), timing)
        check(new)
        if counts_from_start(timing.cron_expr):
            new = replace(new, policy=replace(new.policy, anchor=first))
        new = replace(new, status="paused" if status == "paused" else "active")
        return TaskPlan(news=news, change=change, new=new, alarm_id=id, task=left_by(task, new))

    def _timing(self, task: Task, now: datetime) -> Timing:
        text = (task.cron or "").strip()
        if not text:
            return Timing("once", None, "", self.timezone)
        if text.isascii() and text.isdigit():
            # Python refuses to count thousands of digits, and no interval needs them.
            digits = text.lstrip("0")
            ms = int(digits or "0") if len(digits) <= _MOST_DIGITS else 0
            if ms < 1:
                raise InvalidSchedule(f"{text[:60]} is not an interval", field="cron_expr")
            text = f"@every {max(ms, _SHORTEST_MS)}ms"
        schedule(text, self.timezone, anchor=now)
        return Timing("cron", None, text, self.timezone)

    def _first(self, seen: Task | None, task: Task, timing: Timing, now: datetime) -> datetime | None:
        """Return when it runs next: the row's next_run, unless cron changed and next_run did not."""
        is_stale = seen is not None and task.next_run == seen.next_run and task.cron != seen.cron
        if task.next_run and not (is_stale and timing.kind == "cron"):
            return moment_of(task.next_run)
        if timing.kind == "once":
            return None
        anchor = anchor_now(timing.cron_expr, self.timezone, now)
        found = schedule(timing.cron_expr, self.timezone, anchor=anchor).after(now)
        if found is None:
            raise InvalidSchedule(f"{task.cron!r} never comes true", field="cron_expr")
        return whole_ms(found)

    def _moved(self, news: TaskNews, task: Task, alarm: Alarm) -> bool:
        return (
            news.seen is None
            or (task.cron, task.next_run) != (news.seen.cron, news.seen.next_run)
            or self._owner(task) != alarm.owner_did
        )

    def _alarm(self, task: Task, id: str, first: datetime, now: datetime) -> Alarm:
        owner = self._owner(task)
        return Alarm(
            id=id,
            owner_did=owner,
            user_id=user_of(owner),
            next_fire_at=first,
            occurrence_at=first,
            created_at=now,
            updated_at=now,
            label=task.id,
            target=self.target,
            max_failures=self.max_failures,
            policy=self.policy,
            created_by="scheduled_tasks",
            created_via=TASKS,
            **self._words(task),
        )

    def _words(self, task: Task) -> dict[str, Any]:
        """What a row says and to whom: all of an alarm that a change of the row may change without another time."""
        if not (task.chat_jid or "").strip():
            raise InvalidRequest("it is empty", field="conversation_id", fix="Name the chat.")
        owner, chat = self._owner(task), task.chat_jid or ""
        if not self.users.may_use(owner, via=TASKS):
            raise InvalidRequest("tasks of this owner are not accepted", field="owner_did")
        self.users.check_chat(owner, chat, via=TASKS)
        isolated = task.context_mode == ISOLATED
        return {"wake_message": task.prompt or "", "conversation_id": chat, "isolated": isolated}

    def _owner(self, task: Task) -> str:
        return task.owner if task.owner and task.owner.strip() else self.owner


def speaks(change: Change) -> bool:
    """Return whether writing this change is the delivery of a task: a row for a table, or a wake for the inbox.

    If so, the task's row must still ask for it.
    """
    if change.after.created_via != TASKS or change.edited:
        return False
    is_settlement = change.after.claim > change.claim
    return change.row is not None or (is_settlement and any(fire.status == "waiting" for fire in change.fires))


def shows(change: Change) -> bool:
    """Return whether this change shows in the task's row. An alarm that was only put back does not."""
    return change.after.created_via == TASKS and (
        change.edited or bool(change.fires) or change.after.status != "active"
    )


def task_state(alarm: Alarm, before: Task) -> tuple[str, str | None]:
    """Return the status and next_run of a task from its alarm. A next_run that is a number stays one."""
    return _STATES[alarm.status], None if alarm.finished else _spelled(alarm.next_fire_at, before.next_run or "")


def left_by(task: Task, alarm: Alarm) -> Task:
    """Return the row updated from its alarm. A next_run that is the same moment keeps its spelling."""
    status, next_run = task_state(alarm, task)
    if next_run is not None and task.next_run and moment_of(task.next_run) == alarm.next_fire_at:
        next_run = task.next_run
    return replace(task, status=status, next_run=next_run)


def moment_of(next_run: str) -> datetime:
    """Parse a next_run: ISO 8601, in UTC if it has no offset, like SQLite's own functions.

    Also what SQLite's `unixepoch` and `julianday` give, and what Go prints of a `time.Time`.
    """
    text = next_run.strip()
    try:
        if _is_number(text):
            found = _of_number(float(text))
        elif (go := _GO.fullmatch(text)) is not None:
            found = datetime.fromisoformat(f"{go['moment']}{go['offset']}")
        else:
            found = datetime.fromisoformat(f"{text[:-1]}Z" if text.endswith("z") else text)
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):  # 9999-12-31T23:00-05:00 is in the year 10000
        found = None
    if found is None or not _EPOCH <= found <= _LAST:
        raise InvalidSchedule(f"{next_run[:60]!r} is not a moment", field="next_run")
    return whole_ms(found)


def _is_number(text: str) -> bool:
    """Eight digits alone are a date, as ISO 8601 has it."""
    return _NUMBER.fullmatch(text) is not None and not (len(text) == _DATE_DIGITS and text.isdigit())


def _of_number(number: float) -> datetime:
    """Days since noon 24 November 4714 BC, where that is in the years 1970 to 9999, else seconds since 1970.

    0 is nothing: it is how a program that knows no NULL says that there is no next run.
    """
    if not number:
        raise ValueError("no moment")
    if _FIRST_DAY <= number <= _LAST_DAY:
        return _EPOCH + timedelta(milliseconds=round((number - _FIRST_DAY) * _DAY_MS))
    return _EPOCH + timedelta(milliseconds=round(number * 1000))


def _spelled(moment: datetime, like: str) -> str:
    """A moment as a row's next_run, as a number where that was one before."""
    if not _is_number(like := like.strip()):
        return rfc3339(moment)
    if _FIRST_DAY <= float(like) <= _LAST_DAY:
        return repr(_FIRST_DAY + (moment - _EPOCH) / timedelta(days=1))
    seconds = (moment - _EPOCH) / timedelta(seconds=1)
    return repr(seconds) if "." in like else str(int(seconds))


def as_number(next_run: str) -> str:
    """The same moment for a column of numbers: in seconds since 1970, if it is not a number already."""
    return next_run if _is_number(next_run.strip()) else _spelled(moment_of(next_run), "1")


def rfc3339(moment: datetime) -> str:
    """Format a moment in UTC with Z, with milliseconds only if there are any."""
    precision = "milliseconds" if moment.microsecond else "seconds"
    return moment.astimezone(UTC).isoformat(timespec=precision).removesuffix("+00:00") + "Z"


def refused_task(news: TaskNews, why: str, *, now: datetime) -> TaskPlan:
    """Refuse a row: it gets the status `error` and the reason, and its alarm ends."""
    change = _ended(news, whole_ms(now), "task refused")
    task = None if news.task is None else replace(news.task, status="error")
    return TaskPlan(news=news, change=change, task=task, note=why)


def _misspelt(status: str) -> str:
    """What to say of a status that looks as if it were meant to run. Every other word ends a task."""
    meant = status.strip().lower()
    return f"status: it is {status[:60]!r}, not {meant!r}" if meant in _LIVE else ""


def _ended(news: TaskNews, now: datetime, reason: str) -> Change | None:
    return None if news.alarm is None else cancel(news.alarm, news.fire, now=now, by=TASKS, reason=reason)


def _is_behind(task: Task, seen: Task | None) -> bool:
    """Return whether the row is unchanged since its alarm was active, so nobody started it again."""
    return seen is not None and seen.status in _LIVE and (task.cron, task.next_run) == (seen.cron, seen.next_run)
