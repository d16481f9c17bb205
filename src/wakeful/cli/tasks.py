"""`db scheduled-tasks`: connect another program's table of tasks, check it beforehand, and disconnect it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from wakeful.cli.context import Command, asked
from wakeful.cli.database import check_database
from wakeful.cli.output import utc
from wakeful.clock import SystemClock
from wakeful.errors import InvalidConfig, InvalidRequest, StoreUnavailable
from wakeful.ids import Ids
from wakeful.model.alarm import TASKS
from wakeful.process.application import build_store, build_targets
from wakeful.rules.task import Task, TaskNews
from wakeful.rules.wake import Wake
from wakeful.service.targets import wake_for_test
from wakeful.service.tasks import USUAL_TABLE
from wakeful.settings import Settings, is_given
from wakeful.settings.values import planner_of
from wakeful.store import Store
from wakeful.targets.table import TableTarget

T = TypeVar("T")
MOST: Final = 100_000  # rows that are looked through beforehand
_UTC: Final = ("", "UTC", "UTC0", "Etc/UTC", "Etc/UCT", "UCT", "GMT", "Zulu")


@click.command("scheduled-tasks", cls=Command)
@click.option("--table", default=USUAL_TABLE, show_default=True, help="The table of tasks.")
@click.option("--dry-run", is_flag=True, help="Say what would happen to each row, and write nothing.")
@click.option("--disconnect", is_flag=True, help="Leave the table alone from now on; its rows stay.")
def scheduled_tasks(table: str, dry_run: bool, disconnect: bool) -> None:
    """Connect a table of tasks that other programs write to in SQL.

    It is made where there is none. Its rows are taken over; from then on inserts, updates and deletes are seen within
    a tick, and next_run and status are kept up to date. Start `wakeful serve` or `wakeful worker` anew afterwards.
    Safe to repeat.
    """
    if dry_run and disconnect:
        raise InvalidRequest("it cannot go with --dry-run", field="disconnect", fix="Give one of the two.")
    if disconnect:
        _disconnect()
        return
    settings = asked().settings()
    _warn_of_zone(settings)
    if dry_run:
        _look_through(settings, table)
        return
    made, notes = asyncio.run(_connect(settings, table))
    said = {"table": table, "made": "yes" if made else "no: taken over with its rows", "goes to": settings.tasks_target}
    if notes:
        said["in error"] = ", ".join(f"{id} ({note})" for id, note in notes.items())
    told = {"table": table, "made": made, "target": settings.tasks_target, "notes": notes}
    asked().output.record(said, told)


async def _connect(settings: Settings, table: str) -> tuple[bool, dict[str, str]]:
    async def work(store: Store) -> tuple[bool, dict[str, str]]:
        await _rehearsed(settings, store, table)
        check_database(settings, creates=True)
        await store.migrate()
        return await store.tasks.connect(table), await store.tasks.notes()

    return await _on_store(settings, work)


def _disconnect() -> None:
    name, count = asked().run_local(lambda alarms: alarms.service.tasks.disconnect())
    said = {"disconnected": name or "nothing: no table was connected", "cancelled": f"{count} alarms"}
    asked().output.record(said, {"table": name, "cancelled": count})


# Beforehand


def _look_through(settings: Settings, table: str) -> None:
    rows = asyncio.run(_on_store(settings, lambda store: _rehearsed(settings, store, table)))
    outcomes = _outcomes(rows or [], settings, SystemClock().now())
    made = "would be made" if rows is None else f"would be taken over with its {len(rows)} rows"
    click.echo(f"nothing was written: {table} {made}; tasks would go to {settings.tasks_target}", err=True)
    told = {"table": table, "made": rows is None, "target": settings.tasks_target, "tasks": outcomes, "dry_run": True}
    lines = [(one["id"], one["would"], one.get("at", ""), one.get("why", "")) for one in outcomes]
    asked().output.rows(("task", "would", "at", "why"), lines, told)


async def _rehearsed(settings: Settings, store: Store, table: str) -> list[Task] | None:
    """The table's rows, None where it would be made. What would fail fails here, where nothing is left behind."""
    rows = None
    if _is_there(settings):
        await store.tasks.rehearse(table)
        rows = await store.tasks.rows(table, limit=MOST)
    await _try_out_target(settings, store, rows or [])
    return rows


def _is_there(settings: Settings) -> bool:
    return "://" in settings.db or Path(settings.db).exists()


def _outcomes(rows: Sequence[Task], settings: Settings, now: datetime) -> list[dict[str, Any]]:
    """What a dispatcher would make of each row, were it new."""
    planner, ids = planner_of(settings), Ids()
    found = []
    for task in rows:
        plan = planner.plan(TaskNews(task_id=task.id, upto=0, task=task), id=ids.new(now), now=now)
        if plan.new is None:
            would = {"would": "be refused", "why": plan.note} if plan.note else {"would": "be left alone"}
        else:
            would = {"would": "wait" if plan.new.status == "paused" else "fire", "at": utc(plan.new.next_fire_at)}
        found.append({"id": task.id, **would})
    return found


async def _on_store(settings: Settings, work: Callable[[Store], Awaitable[T]]) -> T:
    store = build_store(settings)
    try:
        return await work(store)
    finally:
        await store.close()


def _warn_of_zone(settings: Settings) -> None:
    """timed read cron in TZ; wakeful reads it in its own setting."""
    zone = os.environ.get("TZ", "").removeprefix(":")
    if zone in _UTC or is_given("timezone", asked().config):
        return
    click.echo(
        f"TZ is {zone}, but the setting timezone is not set: cron is read in {settings.timezone}. "
        f'Set WAKEFUL_TIMEZONE={zone}, or timezone = "{zone}" in wakeful.toml.',
        err=True,
    )


async def _try_out_target(settings: Settings, store: Store, rows: Sequence[Task]) -> None:
    """Tasks need somewhere to go before they are taken over: a message is written to it, and taken back."""
    name, served = settings.tasks_target, build_targets(settings)
    try:
        target = served[name].target if name in served else TableTarget(table=name, clock=SystemClock())
        if isinstance(target, TableTarget) and (name in served or not await _is_served(store, name)):
            wake = _message_of(settings, next((task for task in rows if task.chat_jid and task.prompt), None))
            if name not in served and not _is_there(settings):
                raise InvalidConfig(f"there is no table {name!r}, and no database at {settings.db}", field="table")
            await target.try_out(settings.db, wake)
    except InvalidConfig as error:
        raise InvalidConfig(
            f"tasks would go to the table {name!r} of this database: {error.message}",
            field="tasks_target",
            fix=error.fix or "Create it first, or name another target in the setting tasks_target.",
        ) from None
    finally:
        for one in served.values():
            await one.target.close()


async def _is_served(store: Store, target: str) -> bool:
    """Whether a program serves such a handler. Before wakeful's first start there is none."""
    try:
        return any(target in worker.handlers for worker in await store.maintenance.workers())
    except StoreUnavailable:
        return False


def _message_of(settings: Settings, task: Task | None) -> Wake:
    """A task's message, as it would go out now; a made-up one where there is no task."""
    chat, prompt = (task.chat_jid or "", task.prompt or "") if task else ("1", "Is there room for a message?")
    now = SystemClock().now()
    return wake_for_test(settings, settings.tasks_target, now=now, via=TASKS, message=prompt, conversation=chat)
