"""The command that opens the SQL door."""

from __future__ import annotations

import asyncio

import click

from wakeful.app import build_store, build_targets
from wakeful.clock import SystemClock
from wakeful.config import Settings
from wakeful.doors.cli.asking import Command, asked
from wakeful.errors import InvalidConfig
from wakeful.targets.table import Table


@click.command("scheduled-tasks", cls=Command)
@click.option("--table", default="scheduled_tasks", show_default=True, help="The table of tasks.")
def scheduled_tasks(table: str) -> None:
    """Connect a table of tasks that other programs write to in SQL.

    It is made where there is none. Its rows are taken over; from then on inserts, updates and deletes are seen within
    a tick, and next_run and status are kept up to date. Start `wakeful serve` or `wakeful worker` anew afterwards.
    Safe to repeat.
    """
    settings = asked().settings()
    made, notes = asyncio.run(_connect(settings, table))
    said = {"table": table, "made": "yes" if made else "no: taken over with its rows", "goes to": settings.tasks_target}
    if notes:
        said["in error"] = ", ".join(f"{id} ({note})" for id, note in notes.items())
    told = {"table": table, "made": made, "target": settings.tasks_target, "notes": notes}
    asked().output.record(said, told)


async def _connect(settings: Settings, table: str) -> tuple[bool, dict[str, str]]:
    store = build_store(settings)
    try:
        await store.migrate()
        await _check_target(settings)
        return await store.tasks.connect(table), await store.tasks.notes()
    finally:
        await store.close()


async def _check_target(settings: Settings) -> None:
    """Tasks need somewhere to go before they are taken over."""
    name = settings.tasks_target
    if name in build_targets(settings):
        return
    try:
        await Table(table=name, clock=SystemClock()).check(settings.db)
    except InvalidConfig as error:
        raise InvalidConfig(
            f"tasks would go to the table {name!r} of this database: {error.message}",
            field="tasks_target",
            fix="Create it first, or name another target in the setting tasks_target.",
        ) from None
