"""Commands for whoever runs wakeful: serving, targets, the database."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec.structs import replace

from wakeful.cli.backup import note_task_table, progress
from wakeful.cli.context import Command, asked
from wakeful.cli.database import check_database
from wakeful.cli.output import clean, utc
from wakeful.cli.tasks import scheduled_tasks
from wakeful.clock import SystemClock
from wakeful.errors import InvalidRequest, NotFound
from wakeful.process.application import LocalWakeful, Wakeful, build, build_copy_end, build_store, build_targets
from wakeful.python.client import check_target
from wakeful.rules.wake import Wake
from wakeful.runtime.logs import shown
from wakeful.runtime.os_signals import ending_run
from wakeful.schedule import duration
from wakeful.service.diagnosis import size
from wakeful.service.targets import MESSAGE, PAYLOAD, Tested, send_test, target_named, told, wake_for_test
from wakeful.service.watch import TargetStatus
from wakeful.settings import Settings, exposed
from wakeful.store import Inspection, TargetState
from wakeful.store.maintenance import IMPOSSIBLE

if TYPE_CHECKING:
    from wakeful.process.processes import ParentLink
    from wakeful.settings import Settings
    from wakeful.store.copying.move import Moved


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
    from wakeful.process.processes import serve_together
    from wakeful.process.server import serve

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
    from wakeful.process.server import work

    _stay(work, _settings(**flags), create=create)


def _settings(**flags: Any) -> Settings:
    """The settings of a process that stays, which logs from here on."""
    from wakeful.runtime.logs import log_to_stderr

    settings = asked().settings(**flags)
    log_to_stderr(settings.log_level, settings.log_format, hide=settings.secrets)
    if file := exposed(asked().config):
        log.warning("%s holds secrets, and everyone on this machine can read it: chmod o-r %s", file, file)
    return settings


def _stay(
    run: Callable[[LocalWakeful], Awaitable[None]],
    settings: Settings,
    *,
    create: bool = False,
    parent: ParentLink | None = None,
) -> None:
    from wakeful.process.server import run_process, stay

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

    async def do(alarms: Wakeful) -> tuple[list[TargetStatus], datetime]:
        return await alarms.targets(), await alarms.now()

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
    state = asked().run_local(
        lambda alarms: alarms.service.targets.pause(name, by=alarms.settings.owner, reason=reason), creates=True
    )
    _state(state, "paused")


@target_command.command("resume", cls=Command)
@click.argument("name")
def target_resume(name: str) -> None:
    """Deliver to a paused target again."""
    asked().settings()
    _state(asked().run_local(lambda alarms: alarms.service.targets.resume(name, by=alarms.settings.owner)), "ok")


def _state(state: TargetState, word: str) -> None:
    asked().output.record({"target": state.target, "state": word}, msgspec.structs.asdict(state) | {"state": word})


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
                await store.maintenance.use_default_target(settings.sql_target)
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
    counts = asked().run_local(lambda alarms: alarms.service.count_old(length, owner=owner))
    if dry_run:
        fields = {name: str(count) for name, count in counts.items()} | {"deleted": "nothing: this is a dry run"}
        asked().output.record(fields, counts | {"deleted": 0, "dry_run": True})
        return 0
    if any(counts.values()) and not yes and sys.stdin.isatty():
        shown = ", ".join(f"{count} {name}" for name, count in counts.items())
        if not click.confirm(f"Delete {shown} {whose}, finished more than {older_than} ago?", err=True):
            click.echo("note: nothing was deleted", err=True)
            return 1
    count = asked().run_local(lambda alarms: alarms.service.purge(length, owner=owner))
    asked().output.record({"deleted": str(count)}, {"deleted": count})
    return 0


def _with_unit(text: str) -> timedelta:
    try:
        float(text)
    except ValueError:
        return duration(text)
    fix = f"Say {text}d for days, {text}h for hours or {text}m for minutes."
    raise InvalidRequest(f"{text!r} has no unit", field="--older-than", fix=fix)


# `db check`: whether the database is sound, and whether rows stand as none can


@db_command.command("check", cls=Command)
def db_check() -> int:
    """Read all of the database and say whether it is sound.

    It reads every row, for as long as that takes, and changes nothing. The exit status is 1 when something is wrong.
    """
    settings = asked().settings()
    if "://" not in settings.db and not os.path.exists(settings.db):
        raise NotFound(f"{os.path.abspath(settings.db)} does not exist", field="db", fix="Name another: --db.")

    async def look() -> Inspection:
        store = build_store(settings)
        try:
            return await store.maintenance.inspect(thorough=True)
        finally:
            await store.close()

    found = asyncio.run(look())
    asked().output.record(_fields(found), msgspec.structs.asdict(found) | {"sound": found.sound})
    return 0 if found.sound else 1


def _fields(found: Inspection) -> dict[str, str]:
    fields = {"database": found.engine, "size": size(found.size)}
    fields["schema"] = f"{found.schema} of {found.known}" if found.schema else "no tables yet"
    fields |= {f"broken {number}": said for number, said in enumerate(found.broken, 1)}
    fields |= {what: f"{count}: {IMPOSSIBLE[what]}" if count else "0" for what, count in found.impossible.items()}
    return fields | {"sound": "yes" if found.sound else "no"}


# `db move`: from one database to another


@db_command.command("move", cls=Command)
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


# `target test`: one wake through the real target, now, without an alarm


@target_command.command("test", cls=Command)
@click.argument("name")
@click.option("--message", default=MESSAGE, help="What the wake says.")
@click.option("--payload", default=PAYLOAD, metavar="JSON", help="What the wake brings along.")
@click.option("--conversation", default="", help="The conversation the wake belongs to.")
def target_test(name: str, message: str, payload: str, conversation: str) -> int:
    """Send one test wake through a target and show what came back.

    It is really sent, from here and at once. No alarm is set and nothing is kept; a report on it is not accepted. The
    row of a table is shown, not written. The exit status is 1 when the target did not take it.
    """
    settings = asked().settings()
    _check_json(payload)
    said = {"message": message, "payload": payload, "conversation": conversation}
    wake = wake_for_test(settings, name, now=SystemClock().now(), via="cli", **said)
    tested = asyncio.run(_sent(settings, name, wake))
    shown = {"target": name, "outcome": type(tested.outcome).__name__.lower(), **told(tested.outcome)}
    fields = {
        key: value if isinstance(value, str) else msgspec.json.encode(value).decode() for key, value in shown.items()
    }
    asked().output.record(
        fields | {"took": f"{tested.took_ms} ms", "fire": wake.fire_id},
        shown | {"took_ms": tested.took_ms, "fire_id": wake.fire_id},
    )
    return 1 if tested.failed else 0


def _check_json(payload: str) -> None:
    try:
        msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(f"it is not JSON ({error})", field="--payload") from None


async def _sent(settings: Settings, name: str, wake: Wake) -> Tested:
    served = build_targets(settings)
    try:
        target = target_named(name, served)
        await check_target(name, target, settings)
        with ending_run():  # a program that was started is ended too
            return await send_test(target, wake)
    finally:
        for one in served.values():
            await one.target.close()
