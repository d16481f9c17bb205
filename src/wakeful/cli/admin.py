"""Commands for whoever runs wakeful: serving, targets, the database."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import msgspec

from wakeful.app import Wakeful, build, build_store
from wakeful.cli.check import db_check
from wakeful.cli.context import Command, asked
from wakeful.cli.database import check_database
from wakeful.cli.moving import move_command
from wakeful.cli.output import clean, utc
from wakeful.cli.target_test import target_test
from wakeful.cli.tasks import scheduled_tasks
from wakeful.config import Settings, exposed
from wakeful.errors import InvalidRequest
from wakeful.schedule import duration
from wakeful.service.watch import TargetStatus
from wakeful.store import TargetState

if TYPE_CHECKING:
    from wakeful.parent_link import ParentLink

log = logging.getLogger("wakeful.config")


@click.command("serve", cls=Command)
@click.option("--host", help="The address to bind to; loopback, until there is a token.")
@click.option("--port", type=int, help="The port to listen on; 0 takes a free one.")
@click.option("--processes", type=int, help="How many processes serve at that port; more than one on PostgreSQL only.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="How much to log.")
@click.option("--create", is_flag=True, help="Begin with an empty SQLite file where the one there was is gone.")
def serve_command(create: bool, **flags: Any) -> int:
    """Run the dispatcher and the HTTP API.

    A database that is away is waited for. SIGTERM or Ctrl-C stops it in good order; a second one at once.
    """
    from wakeful.serve_processes import serve_together
    from wakeful.server import serve

    def one_of_many(settings: Settings, parent: ParentLink) -> None:
        _stay(partial(serve, ready=parent.ready, parent=parent), settings, parent=parent)

    settings = _settings(**flags)
    if settings.processes > 1:
        return serve_together(settings, one_of_many)
    _stay(serve, settings, create=create)
    return 0


@click.command("worker", cls=Command)
@click.option("--metrics-port", type=int, help="Tell at this port how it is: /metrics, /healthz, /readyz.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="How much to log.")
@click.option("--create", is_flag=True, help="Begin with an empty SQLite file where the one there was is gone.")
def worker_command(create: bool, **flags: Any) -> None:
    """Run the dispatcher alone.

    Any number of them share one database; one that is away is waited for. SIGTERM or Ctrl-C stops it in good order; a
    second one at once.
    """
    from wakeful.server import work

    _stay(work, _settings(**flags), create=create)


def _settings(**flags: Any) -> Settings:
    """The settings of a process that stays, which logs from here on."""
    from wakeful.logs import log_to_stderr

    settings = asked().settings(**flags)
    log_to_stderr(settings.log_level, settings.log_format, hide=settings.secrets)
    if file := exposed(asked().config):
        log.warning("%s holds secrets, and everyone on this machine can read it: chmod o-r %s", file, file)
    return settings


def _stay(
    run: Callable[[Wakeful], Awaitable[None]],
    settings: Settings,
    *,
    create: bool = False,
    parent: ParentLink | None = None,
) -> None:
    from wakeful.server import run_process, stay

    async def staying() -> None:
        await stay(build(settings, via="cli"), run, create=create, parent=parent)

    run_process(staying())


@click.group("target")
def target_command() -> None:
    """List, test, pause and resume targets."""


@target_command.command("ls", cls=Command)
def target_ls() -> None:
    """List targets, who serves them, and how they are.

    Columns in a pipe: name, state, workers, remark.
    """

    async def do(clock: Wakeful) -> tuple[list[TargetStatus], datetime]:
        return await clock.targets(), await clock.service.now()

    targets, now = asked().run(do)
    rows = [(one.target, one.state, str(one.workers), _remark(one)) for one in targets]
    lines = [_document(one) for one in targets]
    asked().output.rows(("target", "state", "workers", "remark"), rows, {"targets": lines, "now": now})


def _document(status: TargetStatus) -> dict[str, Any]:
    shown = {name: value for name, value in msgspec.structs.asdict(status).items() if value not in (None, "")}
    return shown | ({"remark": remark} if (remark := _remark(status)) else {})


def _remark(status: TargetStatus) -> str:
    if status.since is None:
        return ""
    by = f" by {status.by}" if status.by else ""
    return f"since {utc(status.since)}{by}" + (f": {status.reason}" if status.reason else "")


@target_command.command("pause", cls=Command)
@click.argument("name")
@click.option("--reason", default="", help="Why, for those who ask later.")
def target_pause(name: str, reason: str) -> None:
    """Deliver nothing to a target until it is resumed."""
    asked().settings()  # whoever asks a server is told that this needs the database
    state = asked().run(
        lambda clock: clock.service.targets.pause(name, by=clock.settings.owner, reason=reason), creates=True
    )
    _state(state, "paused")


@target_command.command("resume", cls=Command)
@click.argument("name")
def target_resume(name: str) -> None:
    """Deliver to a paused target again."""
    asked().settings()
    _state(asked().run(lambda clock: clock.service.targets.resume(name, by=clock.settings.owner)), "ok")


def _state(state: TargetState, word: str) -> None:
    asked().output.record({"target": state.target, "state": word}, msgspec.structs.asdict(state) | {"state": word})


target_command.add_command(target_test)


@click.group("db")
def db_command() -> None:
    """Look after the database.

    Its tables, tasks of other programs, moving it. See also `backup` and `restore`.
    """


@db_command.command("migrate", cls=Command)
def db_migrate() -> None:
    """Bring the tables up to date.

    Every command does this on its own; here it can be done ahead of an upgrade. With `wake_url` or `default_target`
    set, rows that another program inserts without a target go there from now on.
    """
    settings = asked().settings()
    check_database(settings, creates=True)

    async def migrate() -> list[str]:
        store = build_store(settings)
        try:
            applied = await store.migrate()
            if settings.sql_target:
                await store.use_default_target(settings.sql_target)
            return applied
        finally:
            await store.close()

    applied = asyncio.run(migrate())
    name = settings.sql_target
    asked().output.record(
        {"applied": ", ".join(applied) or "nothing: up to date"} | ({"rows in SQL go to": name} if name else {}),
        {"applied": applied} | ({"sql_target": name} if name else {}),
    )


db_command.add_command(scheduled_tasks)
db_command.add_command(db_check)
db_command.add_command(move_command)


@click.command("purge", cls=Command)
@click.option("--older-than", required=True, metavar="DURATION", help="With its unit, such as 90d.")
@click.option("--all-owners", is_flag=True, help="Of every owner, not only of --owner.")
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option("--yes", is_flag=True, help="Do not ask, on a terminal.")
def purge_command(older_than: str, all_owners: bool, dry_run: bool, yes: bool) -> int:
    """Delete what was finished long ago.

    Alarms of the owner that ended, their fires, events and ended tokens. On a terminal it shows them and asks first. A
    worker does this every hour for all owners, by the setting `retention`.
    """
    length = _with_unit(older_than)
    owner = "" if all_owners else asked().settings().owner
    whose = "of all owners" if all_owners else f"of the owner {clean(owner)}"
    counts = asked().run(lambda clock: clock.service.count_old(length, owner=owner))
    if dry_run:
        fields = {name: str(count) for name, count in counts.items()} | {"deleted": "nothing: this is a dry run"}
        asked().output.record(fields, counts | {"deleted": 0, "dry_run": True})
        return 0
    if any(counts.values()) and not yes and sys.stdin.isatty():
        shown = ", ".join(f"{count} {name}" for name, count in counts.items())
        if not click.confirm(f"Delete {shown} {whose}, finished more than {older_than} ago?", err=True):
            click.echo("note: nothing was deleted", err=True)
            return 1
    count = asked().run(lambda clock: clock.service.purge(length, owner=owner))
    asked().output.record({"deleted": str(count)}, {"deleted": count})
    return 0


def _with_unit(text: str) -> timedelta:
    try:
        float(text)
    except ValueError:
        return duration(text)
    fix = f"Say {text}d for days, {text}h for hours or {text}m for minutes."
    raise InvalidRequest(f"{text!r} has no unit", field="--older-than", fix=fix)
