"""`backup` and `restore`: the whole database in one file, and back."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from wakeful._version import __version__
from wakeful.cli.context import Command, asked
from wakeful.cli.output import utc
from wakeful.clock import SystemClock
from wakeful.errors import Conflict, InvalidRequest
from wakeful.process.application import build_copy_end
from wakeful.store.queries import Naming

if TYPE_CHECKING:
    from wakeful.settings import Settings
    from wakeful.store.copying import Seen, Watch
    from wakeful.store.copying.backup import BackupMade, Missed, Restored


@contextmanager
def progress(label: str) -> Iterator[Watch]:
    """A bar with rate and remaining time, for whoever watches on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    rate = TextColumn("{task.fields[rate]}")
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn()
    with Progress(*columns, console=console, disable=not sys.stderr.isatty(), transient=True) as bars:

        def watch(total: int) -> Seen:
            bar = bars.add_task(label, total=total, rate="")

            def seen(count: int) -> None:
                bars.advance(bar, count)
                speed = bars.tasks[bar].speed
                bars.update(bar, rate="" if speed is None else f"{speed:,.0f}/s")

            return seen

        yield watch


@click.command("backup", cls=Command)
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--overwrite", is_flag=True, help="Take the place of a file of that name, once the backup is complete.")
def backup_command(file: str, overwrite: bool) -> None:
    """Back up the whole database into one file, while it is in use.

    FILE is a SQLite database of wakeful, whichever store it was made from, that only you can read. It is checked
    before it gets its name. `wakeful restore` brings it back, into SQLite or PostgreSQL.
    """
    from wakeful.store.copying.backup import check_new

    settings = asked().settings()
    check_new(file, overwrite=overwrite)
    made = asyncio.run(_back_up(settings, file))
    rows = {f"rows of {name}": str(count) for name, count in made.rows.items() if count}
    asked().output.record(
        {"file": file, "at": utc(made.at), "bytes": str(made.bytes), **rows},
        {"file": file, "at": made.at, "bytes": made.bytes, "rows": made.rows},
    )


async def _back_up(settings: Settings, file: str) -> BackupMade:
    from wakeful.store.copying.backup import BackupFrom, back_up_postgres, back_up_sqlite

    end = build_copy_end(settings)
    if not end.is_there:
        raise InvalidRequest(f"there is no file {end.name}", field="db", fix="Name the database to back up.")
    try:
        await end.store.migrate()
        with progress("backup") as watch:
            what = BackupFrom(end.name, __version__, await end.store.now())
            if end.file is not None:
                naming = Naming(prefix=settings.prefix)
                return await back_up_sqlite(end.file, naming, file, what, watch)
            return await back_up_postgres(end.tables, file, what, watch)
    finally:
        await end.close()


@click.command("restore", cls=Command)
@click.argument("file", type=click.Path(dir_okay=False))
@click.option(
    "--missed",
    type=click.Choice(["fire", "skip"]),
    default="fire",
    show_default=True,
    help="What is due by now and may have been delivered after the backup: fire it as each alarm's policy says, under"
    " the ids it had, or record it as missed.",
)
@click.option("--replace", is_flag=True, help="Delete what the database has now. Asks for its name on a terminal.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def restore_command(file: str, missed: Missed, replace: bool, yes: bool) -> None:
    """Restore a backup.

    Into the database that --db or the settings name. It must be empty, unless --replace is given, and nobody may
    dispatch from it: stop `wakeful serve` and `wakeful worker` first. A SQLite file that is not there yet becomes the
    whole backup, other programs' tables included; elsewhere only wakeful's own tables are written.
    """
    settings = asked().settings()
    if replace and not yes:
        _confirm(settings)
    restored = asyncio.run(_restore(settings, file, missed=missed, replace=replace))
    _tell(restored, file, missed)


def _confirm(settings: Settings) -> None:
    from wakeful.runtime.logs import shown

    name = shown(settings.db)
    if not sys.stdin.isatty():
        raise Conflict(
            f"everything that {name} has now would be deleted", fix="Give --yes to do that without a question."
        )
    click.echo(f"Everything that {name} has now will be deleted.", err=True)
    if click.prompt("Type the name of the database to go on", err=True) != name:
        raise Conflict("that is not its name: nothing was changed")


async def _restore(settings: Settings, file: str, *, missed: Missed, replace: bool) -> Restored:
    from wakeful.store.copying.backup import restore

    end = build_copy_end(settings)
    naming = Naming(prefix=settings.prefix)
    now = SystemClock().now()
    try:
        with progress("restore") as watch:
            return await restore(
                file, end, naming, missed=missed, replace=replace, by=settings.owner, now=now, watch=watch
            )
    finally:
        await end.close()


def _tell(restored: Restored, file: str, missed: str) -> None:
    rows = {f"rows of {name}": str(count) for name, count in restored.rows.items() if count}
    then = (
        f"{restored.skipped} recorded as missed"
        if missed == "skip"
        else "they fire as each policy says, under the ids they had"
    )
    fields = {"file": file, "made at": utc(restored.at), **rows, "due by now": str(restored.due)}
    fields |= {"due since the backup": str(restored.since), "what happens": then if restored.due else ""}
    document = {"file": file, "made_at": restored.at, "rows": restored.rows, "due": restored.due}
    asked().output.record(
        fields, document | {"due_since": restored.since, "missed": missed, "skipped": restored.skipped}
    )
    note_task_table(restored.task_table)


def note_task_table(name: str) -> None:
    if name:
        click.echo(
            f"note: the table {name} of another program is not in this database: the alarms of its tasks wait until it"
            " is, or until `wakeful db scheduled-tasks --disconnect`",
            err=True,
        )
