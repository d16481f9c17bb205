"""`import`: take over alarms from another system."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from wakeful.cli.context import Command, asked
from wakeful.cli.crontab import import_crontab
from wakeful.cli.database import check_database
from wakeful.cli.ics import import_ics
from wakeful.cli.import_file import import_file
from wakeful.clock import SystemClock
from wakeful.errors import InvalidRequest, UnknownTarget
from wakeful.process.application import build_store, build_targets
from wakeful.settings import Settings
from wakeful.store import Store

if TYPE_CHECKING:
    from wakeful.transfer.takeover import Findings, Source, Take, TakeoverResult


@click.group("import")
def import_command() -> None:
    """Take over alarms from another system."""


@import_command.command("chronos", cls=Command)
@click.argument("url", envvar="CHRONOS_POSTGRES_URI")
@click.option("--target", default="router", show_default=True, metavar="NAME", help="Where their wakes go here.")
@click.option(
    "--target-for", "others", multiple=True, metavar="WORD=NAME", help="The same for rows with another target there."
)
@click.option("--table", default="alarms", show_default=True, metavar="[SCHEMA.]TABLE", help="Chronos's table.")
@click.option("--dry-run", is_flag=True, help="Only say what there is, and what cannot be taken over and why.")
def import_chronos(url: str, target: str, others: tuple[str, ...], table: str, dry_run: bool) -> int:
    """Take over the alarms of Chronos from its PostgreSQL database.

    URL is postgresql://…, or comes from CHRONOS_POSTGRES_URI. Nothing is written there. Stop Chronos first. Every alarm
    keeps its id, so the command can be interrupted and run again. The exit status is 1 when anything was left behind.
    """
    from wakeful.seeds.chronos_import import CHAT, ChronosTable, taken

    settings = asked().settings()
    targets = {CHAT: target} | dict(map(_pair, others))
    take = partial(taken, targets=targets)
    found = asyncio.run(_import(ChronosTable(url, table=table), take, settings, must=targets.values(), dry_run=dry_run))
    return _tell(found, dry_run=dry_run)


@import_command.command("alarm", cls=Command)
@click.argument("file")
@click.option("--target", default="", metavar="NAME", help="Where all their wakes go, instead of to their processes.")
@click.option(
    "--target-for", "others", multiple=True, metavar="PROCESS=NAME", help="The same for the alarms of one process."
)
@click.option("--dry-run", is_flag=True, help="Only say what there is, and what cannot be taken over and why.")
def import_alarm(file: str, target: str, others: tuple[str, ...], dry_run: bool) -> int:
    """Take over the alarms of Alarm, the Elixir scheduler, from its SQLite file.

    FILE is its data/alarm.sqlite; nothing is written there. Stop Alarm first. They become alarms of --owner. A process
    becomes the target or handler of the same name: Elixir.Pushover is Pushover. The command can be interrupted and run
    again. The exit status is 1 when anything was left behind.
    """
    from wakeful.seeds.alarm_file import AlarmFile, taken

    settings = asked().settings()
    take = partial(taken, owner=settings.owner, target=target, targets=dict(map(_pair, others)))
    return _tell(asyncio.run(_import(AlarmFile(file), take, settings, dry_run=dry_run)), dry_run=dry_run)


import_command.add_command(import_crontab)
import_command.add_command(import_file)
import_command.add_command(import_ics)


def _pair(given: str) -> tuple[str, str]:
    word, _, name = given.partition("=")
    if not word or not name:
        raise InvalidRequest(f"{given!r} is not understood", field="--target-for", fix="Give WORD=NAME.")
    return word, name


async def _import(
    source: Source, take: Take, settings: Settings, *, must: Collection[str] = (), dry_run: bool
) -> Findings:
    """`must`: targets that have to be configured. Any other may be a handler that some process will register."""
    store = None if dry_run else build_store(settings)
    take = _with_exact_backoff(take) if settings.exact_backoff else take
    try:
        configured = await _configured(settings)
        _check_targets(configured, must)
        await source.check()
        if store is not None:
            check_database(settings, creates=True)
            await store.migrate()  # before the long look: it may be refused
        found = await _through(source, take, settings, label="looking")
        _remark(source, found, settings)
        _remark_unserved(found, configured | await _registered(store))
        return found if store is None else await _through(source, take, settings, label="taking over", store=store)
    finally:
        await source.close()
        if store is not None:
            await store.close()


def _with_exact_backoff(take: Take) -> Take:
    """Their ladder is theirs, and exact: a setting that says so holds for what comes over too."""

    def taken(row: object) -> TakeoverResult:
        found = take(row)
        return replace(found, alarm=replace(found.alarm, policy=replace(found.alarm.policy, exact_backoff=True)))

    return taken


async def _configured(settings: Settings) -> set[str]:
    served = build_targets(settings)
    for place in served.values():
        await place.target.close()
    return set(served)


def _check_targets(configured: Collection[str], must: Collection[str]) -> None:
    for name in must:
        if name not in configured:
            raise UnknownTarget(
                f"there is no target {name!r}",
                field="target",
                fix=f"Known are: {', '.join(sorted(configured))}. The setting wake_url makes the target router.",
            )


async def _registered(store: Store | None) -> set[str]:
    """The handlers that processes have told of."""
    workers = [] if store is None else await store.maintenance.workers()
    return {name for worker in workers for name in (*worker.targets, *worker.handlers)}


async def _through(
    source: Source, take: Take, settings: Settings, *, label: str, store: Store | None = None
) -> Findings:
    """Once through all of it, with a bar for whoever watches."""
    from wakeful.transfer.takeover import go_through

    now = SystemClock().now()
    with click.progressbar(
        length=await source.count(), label=label, file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as bar:
        return await go_through(
            source, take, now=now, old_before=settings.kept_since(now), store=store, seen=bar.update
        )


def _remark(source: Source, found: Findings, settings: Settings) -> None:
    """What somebody should know before it begins, and may still interrupt it for."""
    if found.leased_now:
        click.echo(f"note: {found.leased_now} were leased just now: is {source.name} still running?", err=True)
    if found.old:
        days = settings.retention.days
        click.echo(
            f"note: {found.old} ended more than {days} days ago: the next worker deletes them, unless the setting"
            " `retention` is longer",
            err=True,
        )


def _remark_unserved(found: Findings, known: Collection[str]) -> None:
    for name, count in sorted(found.waiting.items()):
        if count and name not in known:
            click.echo(
                f"note: {count} wait for {name!r}, which is not known here: they stay due until a target is configured"
                " or a handler registered under that name, or --target or --target-for says where they go",
                err=True,
            )


def _tell(found: Findings, *, dry_run: bool) -> int:
    """The answer, and the exit status."""
    kinds = [{"status": status, "kind": kind, "count": n} for (status, kind), n in sorted(found.kinds.items())]
    fields = {"found": str(found.total)} | {f"{one['status']} {one['kind']}": str(one["count"]) for one in kinds}
    fields |= {"due": str(found.due), "leased": str(found.leased), "beyond retention": str(found.old)}
    fields |= {"left behind": str(found.left_count)} | ({} if dry_run else {"taken over": str(found.taken_over)})
    fields |= {f"left {row.id}": f"{row.status} {row.kind}: {row.reason}" for row in found.left}
    if found.left_count > len(found.left):
        fields["left …"] = f"{found.left_count - len(found.left)} more"
    asked().output.record(
        fields,
        {
            "dry_run": dry_run,
            "found": found.total,
            "alarms": kinds,
            "due": found.due,
            "leased": found.leased,
            "beyond_retention": found.old,
            "left_behind": found.left_count,
            "left": found.left,
        }
        | ({} if dry_run else {"taken_over": found.taken_over}),
    )
    return 1 if found.left_count else 0
