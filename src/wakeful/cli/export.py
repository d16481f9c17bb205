"""`export`: alarms as JSON lines, for another database or another program."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import click

from wakeful._version import __version__
from wakeful.cli.backup import progress
from wakeful.cli.context import Command, asked
from wakeful.cli.database import check_database
from wakeful.errors import Conflict
from wakeful.process.application import build_store
from wakeful.runtime.logs import shown
from wakeful.settings import Settings
from wakeful.store import AlarmQuery
from wakeful.transfer.json_lines import FORMAT, VERSION, End, Header, exported, how_much

_ALL: Final = 2**31 - 1


@click.command("export", cls=Command)
@click.argument("file", default="-", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--fires", is_flag=True, help="Also every fire there was; without it, those that are still open.")
@click.option("--all-owners", is_flag=True, help="Of every owner, not only of --owner.")
@click.option("--overwrite", is_flag=True, help="Take the place of a file of that name, once all is written.")
def export_command(file: str, fires: bool, all_owners: bool, overwrite: bool) -> None:
    """Write alarms to a file, as JSON lines.

    With everything there is to know of each, so that `wakeful import file` can take them into another database. Without
    FILE they go to stdout. For a copy of the whole database use `wakeful backup`.
    """
    settings = asked().settings()
    check_database(settings, creates=False)
    if file != "-" and os.path.exists(file) and not overwrite:
        raise Conflict(f"{file} exists", fix="Name another file, or give --overwrite.")
    with _writing(file) as out:
        end = asyncio.run(_export(settings, out, fires=fires, all_owners=all_owners))
    if file == "-":
        return
    asked().output.record(
        {"file": file, "alarms": str(end.alarms), "fires": str(end.fires)},
        {"file": file, "alarms": end.alarms, "fires": end.fires},
    )


@contextmanager
def _writing(file: str) -> Iterator[BinaryIO]:
    """Stdout, or a file that only its owner can read and that gets its name when it is complete."""
    if file == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(file)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-", delete=False) as unfinished:
        try:
            yield unfinished  # type: ignore[misc]
            unfinished.flush()
            os.fsync(unfinished.fileno())
            os.replace(unfinished.name, path)
        except BaseException:
            os.unlink(unfinished.name)
            raise


async def _export(settings: Settings, out: BinaryIO, *, fires: bool, all_owners: bool) -> End:
    store = build_store(settings)
    try:
        await store.migrate()
        owner = "" if all_owners else settings.owner
        header = Header(
            format=FORMAT,
            version=VERSION,
            wakeful=__version__,
            at=await store.now(),
            source=shown(settings.db),
            owner=owner,
            fires=fires,
        )
        line = b""
        with progress("export") as watch:
            seen = watch(await store.count(AlarmQuery(owner=owner, limit=_ALL)))
            async for line in exported(store, header, seen=seen):
                out.write(line)
        return how_much(line)
    finally:
        await store.close()
