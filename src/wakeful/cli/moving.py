"""`db move`: from one database to another."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from wakeful.app import build_copy_end
from wakeful.cli.backup import note_task_table, progress
from wakeful.cli.context import Command, asked
from wakeful.clock import SystemClock
from wakeful.errors import InvalidRequest
from wakeful.logs import shown

if TYPE_CHECKING:
    from wakeful.config import Settings
    from wakeful.store.copying.move import Moved


@click.command("move", cls=Command)
@click.option("--to", metavar="DB", help="The new database: postgresql://…, or a SQLite file.")
@click.option("--to-schema", metavar="NAME", default="", help="The schema for wakeful's tables there (PostgreSQL).")
@click.option("--to-prefix", metavar="NAME", default="", help="The prefix of wakeful's tables there.")
@click.option("--abandon", is_flag=True, help="Call off a move that is not complete, and go on with the old database.")
def move_command(to: str | None, to_schema: str, to_prefix: str, abandon: bool) -> None:
    """Move everything to another database, from the one that --db or the settings name.

    Stop `wakeful serve` and `wakeful worker` first. The old database is closed for good, the new one opened when
    all was copied and compared. Run it again after an interruption: it goes on where it stopped.
    """
    settings = asked().settings()
    if abandon == (to is not None):
        raise InvalidRequest("it needs a database to move to", field="--to", fix="Give --to DB, or --abandon.")
    if to is None:
        _abandon(settings)
        return
    new = replace(settings, db=to, schema=to_schema, prefix=to_prefix)
    moved = asyncio.run(_move(settings, new))
    if moved.again:
        asked().output.record({"moved": "it was moved before"}, {"moved_before": True, "to": shown(to)})
        return
    rows = {f"rows of {name}": f"{one.rows}, checksum {one.checksum:016x}" for name, one in moved.sums.items()}
    resumed = "where it was interrupted" if moved.resumed else ""
    tables = {name: {"rows": one.rows, "checksum": f"{one.checksum:016x}"} for name, one in moved.sums.items()}
    asked().output.record(
        {"moved to": shown(to), "went on": resumed, **rows},
        {"moved_before": False, "to": shown(to), "resumed": moved.resumed, "tables": tables},
    )
    note_task_table(moved.task_table)


async def _move(settings: Settings, new: Settings) -> Moved:
    from wakeful.store.copying.move import move

    source, target = build_copy_end(settings), build_copy_end(new)
    try:
        with progress("move") as watch:
            return await move(source, target, by=settings.owner, now=SystemClock().now(), watch=watch)
    finally:
        await target.close()
        await source.close()


def _abandon(settings: Settings) -> None:
    from wakeful.store.copying.move import abandon

    async def work() -> str:
        source = build_copy_end(settings)
        try:
            return (await abandon(source)).other
        finally:
            await source.close()

    other = asyncio.run(work())
    asked().output.record({"called off": f"the move to {other}"}, {"abandoned": other})
