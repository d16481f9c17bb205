"""`import file`: the alarms of an `export`, into this database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

import click

from wakeful.cli.backup import progress
from wakeful.cli.context import Command, asked
from wakeful.cli.database import check_database
from wakeful.cli.output import clean
from wakeful.errors import InvalidRequest
from wakeful.process.application import build_store
from wakeful.settings import Settings

if TYPE_CHECKING:
    from wakeful.transfer.json_lines import ImportResult

_SHOWN = 10  # bad lines that a refusal names


@click.command("file", cls=Command)
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--dry-run", is_flag=True, help="Only say what there is, and which lines are bad.")
@click.option("--skip-bad", is_flag=True, help="Leave bad lines out, instead of importing nothing.")
def import_file(file: str, dry_run: bool, skip_bad: bool) -> int:
    """Take over the alarms of a file that `wakeful export` wrote.

    Every alarm keeps its id, its key, its owner and its place in its own time; what has ended stays ended. What is here
    already is left as it is, so the command can be interrupted and run again. Where a line is bad nothing is imported,
    unless --skip-bad is given. The exit status is 1 when a line was left out.
    """
    settings = asked().settings()
    result = _looked_through(file)
    if result.left and not (skip_bad or dry_run):
        raise InvalidRequest(_bad_lines(result), field="FILE", fix="Nothing was imported. --skip-bad leaves them out.")
    if not dry_run:
        check_database(settings, creates=True)
        asyncio.run(_import(settings, file, result))
    _tell(file, result, dry_run=dry_run)
    return 1 if result.left_count else 0


def _bad_lines(result: ImportResult) -> str:
    named = "; ".join(f"line {one.line}: {one.reason}" for one in result.left[:_SHOWN])
    more = f"; and {result.left_count - _SHOWN} more" if result.left_count > _SHOWN else ""
    return f"{result.left_count} bad line{'s' if result.left_count > 1 else ''}: {named}{more}"


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    from wakeful.transfer.json_lines import read_header

    try:
        with open(file, "rb") as lines:
            read_header(lines.readline())
            yield lines
    except FileNotFoundError:
        raise InvalidRequest(f"there is no file {file}", field="FILE", fix="Name one of `wakeful export`.") from None


def _looked_through(file: str) -> ImportResult:
    """All of it is read before anything is written."""
    from wakeful.transfer.json_lines import ImportResult, read_alarms

    result = ImportResult()
    with _opened(file) as lines:
        for one in read_alarms(lines, result.note):
            result.alarms += 1
            result.fires += len(one.fires)
    return result


async def _import(settings: Settings, file: str, result: ImportResult) -> None:
    from wakeful.transfer.json_lines import bring_in, read_alarms

    told: Callable[[int, str], None] = lambda line, reason: None  # noqa: E731 - said when it was looked through
    store = build_store(settings)
    try:
        await store.migrate()
        with progress("import") as watch, _opened(file) as lines:
            await bring_in(store, read_alarms(lines, told), result, seen=watch(result.alarms))
    finally:
        await store.close()


def _tell(file: str, result: ImportResult, *, dry_run: bool) -> None:
    done = {} if dry_run else {"imported": result.imported, "there already": result.there_already, "due": result.due}
    counts = {"alarms": result.alarms, "fires": result.fires, **done, "left out": result.left_count}
    left = {f"line {one.line}": clean(one.reason) for one in result.left}
    asked().output.record(
        {"file": file} | {name: str(count) for name, count in counts.items()} | left,
        {"file": file, "dry_run": dry_run}
        | {name.replace(" ", "_"): count for name, count in counts.items()}
        | {"left": result.left},
    )
