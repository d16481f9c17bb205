"""Alarms chosen by what they are instead of by id, for the commands that change them: how many is said before."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Final

import click

from wakeful import views
from wakeful.alarm import ALARM_STATUSES, Alarm, Fire
from wakeful.app import Wakeful
from wakeful.cli.context import asked
from wakeful.cli.output import since
from wakeful.errors import InvalidRequest

_PAGE: Final = 500
_MANY: Final = 10  # more than these are only touched by someone who has read how many
_FILTERS: Final = ("status", "target", "label", "conversation", "text", "before", "after")
Options = Callable[[Callable[..., Any]], Callable[..., Any]]

_CHOOSING: Final[dict[str, Options]] = {
    "status": click.option("--status", type=click.Choice(ALARM_STATUSES), help="Only these."),
    "target": click.option("--to", "--target", "target", metavar="TARGET", help="Only those of a target."),
    "label": click.option("--label", help="Only those with this label."),
    "conversation": click.option("--conversation", help="Only those of a conversation."),
    "text": click.option("--text", metavar="TEXT", help="Only those with this in the label or the message."),
    "before": click.option("--before", metavar="TIME|DURATION", help="Created before, or longer ago than this."),
    "after": click.option("--after", metavar="TIME|DURATION", help="Created at or after, or so long ago at most."),
    "dry_run": click.option("--dry-run", is_flag=True, help="Only show which, and how many."),
    "yes": click.option("--yes", is_flag=True, help="Do not ask, however many there are."),
}


def choosing(*names: str) -> Options:
    """The options that choose; all of them, unless some are named."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for name in reversed([*(names or _FILTERS), "dry_run", "yes"]):
            command = _CHOOSING[name](command)
        return command

    return decorate


def is_chosen(given: dict[str, Any]) -> bool:
    return any(given.get(name) for name in _FILTERS)


def picked(
    ids: tuple[str, ...],
    given: dict[str, Any],
    verb: str,
    statuses: tuple[str, ...],
    find: Callable[[Wakeful, dict[str, Any], tuple[str, ...]], Awaitable[tuple[list[Alarm], datetime]]] | None = None,
) -> tuple[str, ...] | None:
    """The ids to act on: those that were named, or all that fit. None: there is nothing to do, and that was said."""
    if bool(ids) == is_chosen(given):
        fix = "wakeful ls shows their ids; --label, --to and others choose. Not both."
        raise InvalidRequest("name the alarms, or say which", field="ID", fix=fix)
    if ids:
        return ids
    wanted = (given["status"],) if given.get("status") else statuses
    alarms, now = asked().run(lambda clock: (find or _found)(clock, given, wanted))
    if given["dry_run"]:
        rows = [(alarm.id, alarm.status, f"would be {verb}") for alarm in alarms]
        document = {"alarms": [views.view(alarm) for alarm in alarms], "dry_run": True, "now": now}
        asked().output.rows(("id", "status", "remark"), rows, document)
        return None
    return tuple(alarm.id for alarm in alarms) if _agreed(len(alarms), "alarm", verb, yes=given["yes"]) else None


async def _found(clock: Wakeful, given: dict[str, Any], statuses: tuple[str, ...]) -> tuple[list[Alarm], datetime]:
    now = await clock.service.now()
    filters: dict[str, Any] = {
        "status": statuses,
        "target": given.get("target") or "",
        "label": given.get("label") or "",
        "conversation_id": given.get("conversation") or "",
        "text": given.get("text") or "",
        "since": since(given.get("after"), "after", now),
        "until": since(given.get("before"), "before", now),
    }
    found: list[Alarm] = []
    while True:
        page = await clock.find(**filters, cursor=found[-1] if found else None, limit=_PAGE)
        found += page
        if len(page) < _PAGE:
            return found, now


async def to_cancel(clock: Wakeful, given: dict[str, Any], statuses: tuple[str, ...]) -> tuple[list[Alarm], datetime]:
    """Besides those that are pending, alarms that have fired and whose wake nobody has taken from the inbox yet."""
    alarms, now = await _found(clock, given, statuses)
    if any(given.get(name) for name in ("status", "before", "after")):
        return alarms, now
    names = {"target": "target", "label": "label", "conversation": "conversation_id", "text": "text"}
    filters: dict[str, Any] = {theirs: given.get(name) or "" for name, theirs in names.items()}
    known = {alarm.id for alarm in alarms}
    waiting = (await clock.cancel_many(**filters, dry_run=True)).alarms
    return [*alarms, *(alarm for alarm in waiting if alarm.id not in known)], now


def picked_fires(given: dict[str, Any]) -> tuple[str, ...] | None:
    """The ids of fires that failed or fell silent, oldest first, as `picked` has those of alarms."""
    fires, now = asked().run(lambda clock: _failed(clock, given))
    if given["dry_run"]:
        rows = [(fire.id, fire.status, "would be retried") for fire in fires]
        document = {"fires": [views.fire_view(fire) for fire in fires], "dry_run": True, "now": now}
        asked().output.rows(("id", "status", "remark"), rows, document)
        return None
    return tuple(fire.id for fire in fires) if _agreed(len(fires), "fire", "retried", yes=given["yes"]) else None


async def _failed(clock: Wakeful, given: dict[str, Any]) -> tuple[list[Fire], datetime]:
    now = await clock.service.now()
    begin, end = since(given.get("after"), "after", now), since(given.get("before"), "before", now)
    found: list[Fire] = []
    while True:
        page: Sequence[Fire] = await clock.fires(
            status=("failed", "timed_out"),
            target=given.get("target") or "",
            since=begin,
            until=end,
            cursor=(found[-1].scheduled_for, found[-1].alarm_id) if found else None,
            limit=_PAGE,
        )
        found += page
        if len(page) < _PAGE:
            return found[::-1], now


def _agreed(count: int, noun: str, verb: str, *, yes: bool) -> bool:
    """Whether it may go on. How many it is about is always said."""
    what = f"{count} {noun}{'' if count == 1 else 's'}"
    if count == 0:
        click.echo(f"note: no {noun} fits: nothing to do", err=True)
        if asked().json:
            click.echo(views.encode({f"{noun}s": []}))
        return False
    if yes or count <= _MANY:
        click.echo(f"note: {what} will be {verb}", err=True)
        return True
    if not sys.stdin.isatty():
        raise InvalidRequest(
            f"{what} would be {verb}, which is more than {_MANY}",
            field="--yes",
            fix="--dry-run shows them; --yes does it.",
        )
    typed = click.prompt(f"{what} will be {verb}. Type {count} to go on", default="", show_default=False, err=True)
    if typed.strip() != str(count):
        click.echo("note: nothing was changed", err=True)
        return False
    return True
