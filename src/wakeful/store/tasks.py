"""SQL tasks: a table `scheduled_tasks` that other programs write to, and the alarms that its rows stand for.

Triggers on the table queue the ids of changed rows. A dispatcher reads these, decides (alarm/task.py) and writes the
alarm, the link to it and the row's progress in one transaction. When such an alarm settles, its row is written too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import msgspec
from msgspec import Struct

from wakeful.alarm import Task, TaskNews, TaskPlan
from wakeful.alarm.task import ISOLATED
from wakeful.errors import InvalidConfig, InvalidRequest
from wakeful.store.queries import Dialect, Naming, named

NEEDED: Final = ("id", "owner", "chat_jid", "prompt", "cron", "next_run", "status", "created_at")
_EMPTIED: Final = ("cron", "next_run")
ID_LENGTH: Final = 27  # of those the task tools make
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?")
_SQL: Final = Path(__file__).with_name("sql")
_task: Final = msgspec.json.Decoder(Task)


class TaskDoor(Protocol):
    async def connect(self, table: str) -> bool:
        """Watch a table, made here where there is none (then True), and take over the rows it has.

        InvalidConfig if it is not a table, or lacks columns of a task. Safe to repeat.
        """
        ...

    async def rehearse(self, table: str) -> None:
        """Make wakeful's tables and connect this one, all in one transaction, and take it back.

        What would stop `migrate` or `connect` is raised here, where nothing is left behind.
        """
        ...

    async def disconnect(self) -> str:
        """Watch no table any more, and forget what was queued; the name of the one that was watched. Its rows stay.

        The links stay too: until each is undone (`unlink`), its alarm says nothing.
        """
        ...

    async def links(self, *, limit: int) -> dict[str, str]:
        """Tasks by id, with the id of the alarm that stands for each; empty where none does."""
        ...

    async def unlink(self, task_ids: Sequence[str]) -> None: ...

    async def rows(self, table: str, *, limit: int) -> list[Task] | None:
        """The rows of a table that need not be connected, newest first; None where there is no such table.

        InvalidConfig where it could not be connected. Nothing is written, and no table of wakeful's is needed.
        """
        ...

    async def table(self) -> str:
        """The table that is connected; empty when none is."""
        ...

    async def mend(self) -> bool:
        """Watch the table again if it was recreated (then True), and read all of its rows."""
        ...

    async def news(self, *, limit: int, after: int = 0) -> list[TaskNews]:
        """Tasks that were changed since they were last planned, first changed first. Their alarms are not read here.

        `after`: the highest `upto` of those that were looked at before.
        """
        ...

    async def moved(self, alarm_ids: Sequence[str]) -> dict[str, TaskNews | None]:
        """Of these alarms, those whose task's row no longer stands as it was planned, with what it says now.

        None where that cannot be told: the table is gone, or nothing can be made of the row. An alarm that stands for
        no task is not among them.
        """
        ...

    async def plan(self, plans: Sequence[TaskPlan]) -> list[Planned]:
        """Write each plan whose task, link and alarm still are as its news says, all of it or nothing."""
        ...

    async def find(self, *, owner: str = "", id: str = "", limit: int = 500) -> list[Task]:
        """Rows as they are, newest first."""
        ...

    async def insert(self, task: Task) -> bool:
        """False where the id is taken. InvalidRequest where the table refuses it."""
        ...

    async def update(self, task: Task, *, was: Task) -> bool:
        """False where its owner has no such task, or it is no longer what it was."""
        ...

    async def delete(self, id: str, *, owner: str | None) -> bool: ...

    async def notes(self, *, limit: int = 100) -> dict[str, str]:
        """Why tasks do not run, or their rows could not be written."""
        ...

    async def nameless(self) -> dict[str, str]:
        """Rows that no alarm can stand for, since their id is not text, as SQL writes it; and what is wrong with it."""
        ...


class Planned(Struct, frozen=True):
    """What became of a plan.

    written   all of it is
    moved     the task, its link or its alarm is no longer what was read, or somebody holds it: again at the next tick
    refused   the database does not take it; nothing was written, and `error` says why
    """

    what: Literal["written", "moved", "refused"]
    error: str = ""


WRITTEN: Final = Planned("written")
MOVED: Final = Planned("moved")


class NotAsRead(Exception):
    """Someone else was faster: decide again in the next round."""


class TaskTable(Struct, frozen=True):
    """A connected table: its name, and the types of its columns."""

    name: str
    columns: Mapping[str, str]
    required: tuple[str, ...] = ()  # columns that take no NULL and have no default

    @property
    def quoted(self) -> str:
        return ".".join(f'"{part}"' for part in self.name.split("."))


def check_name(table: str) -> str:
    if not _NAME.fullmatch(table):
        raise InvalidConfig(
            f"{table[:60]!r} is not a table name", field="table", fix="Use letters, digits and _; schema.table is fine."
        )
    return table


def check_columns(table: TaskTable) -> None:
    missing = [name for name in NEEDED if name not in table.columns]
    if missing:
        raise InvalidConfig(
            f"{table.name} has no column {', '.join(missing)}", field="table", fix=f"A task needs {', '.join(NEEDED)}."
        )
    for name in table.required:
        if name in _EMPTIED:
            raise InvalidConfig(
                f"the column {name} of {table.name} is NOT NULL, but a task without {name} needs NULL there",
                field="table",
                fix=f"Allow NULL in {name}.",
            )
        if name not in (*NEEDED, "context_mode"):
            raise InvalidConfig(
                f"the column {name} of {table.name} is NOT NULL and has no default, so no new task could be written",
                field="table",
                fix=f"Give {name} a default, or allow NULL in it.",
            )


def check_next_run(table: TaskTable, fits: bool) -> None:
    if not fits:
        raise InvalidConfig(
            f"the column next_run of {table.name} is of type {table.columns['next_run']}, which holds no moment",
            field="table",
            fix="Make it text, a timestamp, or a number of seconds since 1970 (bigint, double precision).",
        )


def unfit_id(table: str, type: str) -> InvalidConfig:
    return InvalidConfig(
        f"the column id of {table} is of type {type}, which cannot hold the ids of tasks",
        field="table",
        fix=f"Make it text: ids such as task-1767225600000-1a2b3c4d have {ID_LENGTH} characters.",
    )


def task_sql(dialect: Dialect, naming: Naming) -> dict[str, str]:
    return named((_SQL / f"tasks.{dialect}.sql").read_text(), naming)


def filled(sql: Mapping[str, str], table: TaskTable, parts: Mapping[str, str]) -> dict[str, str]:
    """The statements for one table; `parts` are what depends on its columns."""
    has_mode = "context_mode" in table.columns
    common = {
        "tasks": table.quoted,
        "name_mode": ", context_mode" if has_mode else "",
        "set_mode": ", context_mode = :context_mode" if has_mode else "",
        "give_mode": ", :context_mode" if has_mode else "",
        "error": ", error = :note" if "error" in table.columns else "",
        "error_given": ", error = given.note" if "error" in table.columns else "",
    }
    return {name: _fill(text, {**common, **parts}) for name, text in sql.items()}


def _fill(text: str, parts: Mapping[str, str]) -> str:
    for name, part in parts.items():
        text = text.replace("{" + name + "}", part)
    return text


def check_mode(task: Task, table: TaskTable) -> None:
    if task.context_mode == ISOLATED and "context_mode" not in table.columns:
        raise InvalidRequest(
            f"{table.name} has no column to mark a task as isolated",
            field="context_mode",
            fix=f"alter table {table.name} add column context_mode text not null default 'group'",
        )


def task_of(row: Sequence[Any]) -> Task | None:
    """Columns in the order of Task's fields; None for a row that is not there."""
    values = [None if value is None else str(value) for value in row]
    return None if values[0] is None else Task(**dict(zip(Task.__struct_fields__, values, strict=True)))  # type: ignore[arg-type]


def news_of(row: Sequence[Any]) -> TaskNews:
    task_id, upto, alarm_id, seen, note, *columns = row
    return TaskNews(
        task_id=task_id,
        upto=upto,
        alarm_id=alarm_id or "",
        seen=None if seen is None else _task.decode(seen),
        note=note or "",
        task=task_of(columns),
    )


def seen_of(text: str) -> Task:
    return _task.decode(text)


def seen_text(task: Task) -> str:
    return msgspec.json.encode(task).decode()


def together(*notes: str) -> str:
    return "; ".join(note for note in notes if note)[:1000]
