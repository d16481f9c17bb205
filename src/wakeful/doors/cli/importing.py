"""`import`: take over alarms from another system."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from wakeful.app import build_store, build_targets
from wakeful.clock import SystemClock
from wakeful.config import Settings
from wakeful.doors.cli.asking import Command, asked
from wakeful.errors import InvalidRequest, UnknownTarget
from wakeful.store import Store

if TYPE_CHECKING:
    from wakeful.chronos import Found, Table


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
    from wakeful.chronos import CHAT, Table

    settings = asked().settings()
    targets = {CHAT: target} | dict(map(_pair, others))
    found = asyncio.run(_import(Table(url, table=table), settings, targets, dry_run=dry_run))
    _tell(found, dry_run=dry_run)
    return 1 if found.left_count else 0


def _pair(given: str) -> tuple[str, str]:
    word, _, name = given.partition("=")
    if not word or not name:
        raise InvalidRequest(f"{given!r} is not understood", field="--target-for", fix="Give WORD=NAME.")
    return word, name


async def _import(table: Table, settings: Settings, targets: Mapping[str, str], *, dry_run: bool) -> Found:
    store = None if dry_run else build_store(settings)
    try:
        await _check_targets(settings, targets)
        await table.check()
        if store is not None:
            await store.migrate()  # before the long look: it may be refused
        found = await _through(table, settings, targets, label="looking")
        _remark(found, settings)
        return found if store is None else await _through(table, settings, targets, label="taking over", store=store)
    finally:
        await table.close()
        if store is not None:
            await store.close()


async def _check_targets(settings: Settings, targets: Mapping[str, str]) -> None:
    served = build_targets(settings)
    for place in served.values():
        await place.target.close()
    for name in targets.values():
        if name not in served:
            raise UnknownTarget(
                f"there is no target {name!r}",
                field="target",
                fix=f"Known are: {', '.join(sorted(served))}. The setting wake_url makes the target router.",
            )


async def _through(
    table: Table, settings: Settings, targets: Mapping[str, str], *, label: str, store: Store | None = None
) -> Found:
    """Once through the table, with a bar for whoever watches."""
    from wakeful.chronos import go_through

    now = SystemClock().now()
    with click.progressbar(
        length=await table.count(), label=label, file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as bar:
        return await go_through(
            table, targets=targets, now=now, old_before=now - settings.retention, store=store, seen=bar.update
        )


def _remark(found: Found, settings: Settings) -> None:
    """What somebody should know before it begins, and may still interrupt it for."""
    if found.leased_now:
        click.echo(f"note: {found.leased_now} were leased just now: is Chronos still running?", err=True)
    if found.old:
        days = settings.retention.days
        click.echo(
            f"note: {found.old} ended more than {days} days ago: the next worker deletes them, unless the setting"
            " `retention` is longer",
            err=True,
        )


def _tell(found: Found, *, dry_run: bool) -> None:
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
