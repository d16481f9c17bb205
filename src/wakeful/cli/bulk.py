"""Changes of more than one alarm: which they are, how many, and whether the caller means it.

A terminal is asked, for more than a few by typing their number. A script has to say --yes. --dry-run only shows them.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Final

import click

from wakeful.alarm import ALARM_STATUSES, Alarm, Fire
from wakeful.alarm.model import PENDING, UNSUCCESSFUL
from wakeful.cli.context import asked
from wakeful.cli.output import since
from wakeful.errors import InvalidRequest
from wakeful.process.application import Wakeful
from wakeful.service import views

_PAGE: Final = 500
_MANY: Final = 10  # above this the number is typed, not only agreed to
_FILTERS: Final = ("status", "target", "label", "conversation", "text", "before", "after")
Options = Callable[[Callable[..., Any]], Callable[..., Any]]
Found = tuple[list[Alarm], datetime]
Find = Callable[[Wakeful, dict[str, Any], tuple[str, ...]], Awaitable[Found]]

_CHOOSING: Final[dict[str, Options]] = {
    "status": click.option("--status", type=click.Choice(ALARM_STATUSES), help="Only these."),
    "target": click.option("--to", "--target", "target", metavar="TARGET", help="Only those of a target."),
    "label": click.option("--label", help="Only those with this label."),
    "conversation": click.option("--conversation", help="Only those of a conversation."),
    "text": click.option("--text", metavar="TEXT", help="Only those with this in the label or the message."),
    "before": click.option("--before", metavar="TIME|DURATION", help="Created before, or longer ago than this."),
    "after": click.option("--after", metavar="TIME|DURATION", help="Created at or after, or so long ago at most."),
    "dry_run": click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing."),
    "yes": click.option("--yes", is_flag=True, help="Do not ask. Needed for several at once in a script."),
}


def choosing(names: Sequence[str] = _FILTERS) -> Options:
    """The options that choose, and those of every command that can change several at once."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for name in reversed([*names, "dry_run", "yes"]):
            command = _CHOOSING[name](command)
        return command

    return decorate


def is_chosen(given: dict[str, Any]) -> bool:
    return any(given.get(name) for name in _FILTERS)


async def _found(alarms: Wakeful, given: dict[str, Any], statuses: tuple[str, ...]) -> Found:
    now = await alarms.service.now()
    filters: dict[str, Any] = {
        "status": statuses,
        "target": given.get("target") or "",
        "label": given.get("label") or "",
        "conversation_id": given.get("conversation") or "",
        "text": given.get("text") or "",
        "since": since(given.get("after"), "after", now),
        "until": since(given.get("before"), "before", now),
    }
    page = await alarms.find(**filters, limit=_PAGE)
    found = list(page)
    while page.further is not None:
        page = await alarms.find(**filters, cursor=page.further, limit=_PAGE)
        found += page
    return found, now


def picked(
    ids: tuple[str, ...],
    given: dict[str, Any],
    verb: str,
    statuses: tuple[str, ...],
    find: Find = _found,
    also: tuple[str, ...] = (),
) -> tuple[str, ...] | None:
    """The ids to act on: those that were named, or all that fit. None: there is nothing to do, and that was said.

    `statuses`: which alarms a filter is for. `also`: those in which an alarm that is named can be changed besides.
    """
    if bool(ids) == is_chosen(given):
        fix = "wakeful ls shows their ids; --label, --to and others choose. Not both."
        raise InvalidRequest("name the alarms, or say which", field="ID", fix=fix)
    if ids and not given["dry_run"]:
        several = dict.fromkeys(ids)
        return ids if len(several) == 1 or _agreed(len(several), "alarm", verb, yes=given["yes"]) else None
    if ids:
        return agreed_ids(asked().run(lambda alarms: _named(alarms, ids)), given, verb, (*statuses, *also))
    wanted = (given["status"],) if given.get("status") else statuses
    return agreed_ids(asked().run(lambda alarms: find(alarms, given, wanted)), given, verb)


def agreed_ids(
    found: Found, given: dict[str, Any], verb: str, statuses: tuple[str, ...] = ()
) -> tuple[str, ...] | None:
    """The ids of these alarms, if the caller means them. None: that was said, or they were only shown.

    `statuses`: in which the command changes an alarm; none: in any.
    """
    alarms, now = found
    if given["dry_run"]:
        would = dict.fromkeys(statuses or ALARM_STATUSES, f"would be {verb}")
        rows = [(alarm.id, alarm.status, would.get(alarm.status, "stays as it is")) for alarm in alarms]
        document = {"alarms": [views.view(alarm) for alarm in alarms], "dry_run": True, "now": now}
        asked().output.rows(("id", "status", "remark"), rows, document)
        return None
    return tuple(alarm.id for alarm in alarms) if _agreed(len(alarms), "alarm", verb, yes=given["yes"]) else None


async def _named(alarms: Wakeful, ids: tuple[str, ...]) -> Found:
    found = [await alarms.get(id) for id in ids]
    return list({alarm.id: alarm for alarm in found}.values()), await alarms.service.now()


async def to_cancel(alarms: Wakeful, given: dict[str, Any], statuses: tuple[str, ...]) -> Found:
    """Besides those that are pending, alarms that have fired and whose wake nobody has taken from the inbox yet."""
    found, now = await _found(alarms, given, statuses)
    if any(given.get(name) for name in ("status", "before", "after")):
        return found, now
    names = {"target": "target", "label": "label", "conversation": "conversation_id", "text": "text"}
    filters: dict[str, Any] = {theirs: given.get(name) or "" for name, theirs in names.items()}
    known = {alarm.id for alarm in found}
    waiting = (await alarms.cancel_many(**filters, dry_run=True)).alarms
    return [*found, *(alarm for alarm in waiting if alarm.id not in known)], now


async def all_to_cancel(alarms: Wakeful) -> Found:
    """Every pending alarm, and every alarm whose wake nobody has taken from the inbox yet."""
    found, now = await _found(alarms, {}, PENDING)
    known = {alarm.id for alarm in found}
    waiting = dict.fromkeys(fire.alarm_id for fire in await _fires(alarms, status="waiting"))
    return [*found, *[await alarms.get(id) for id in waiting if id not in known]], now


def picked_fires(id: str, given: dict[str, Any]) -> tuple[str, ...] | None:
    """The id of a fire, or of all that failed or fell silent, oldest first, as `picked` has those of alarms."""
    if id and not given["dry_run"]:
        return (id,)
    fires, now = asked().run(lambda alarms: _failed(alarms, id, given))
    if given["dry_run"]:
        rows = [(fire.id, fire.status, "would be retried") for fire in fires]
        document = {"fires": [views.fire_view(fire) for fire in fires], "dry_run": True, "now": now}
        asked().output.rows(("id", "status", "remark"), rows, document)
        return None
    return tuple(fire.id for fire in fires) if _agreed(len(fires), "fire", "retried", yes=given["yes"]) else None


async def _failed(alarms: Wakeful, id: str, given: dict[str, Any]) -> tuple[list[Fire], datetime]:
    now = await alarms.service.now()
    if id:
        return [await alarms.fire_of(id)], now
    fires = await _fires(
        alarms,
        status=UNSUCCESSFUL,
        target=given.get("target") or "",
        since=since(given.get("after"), "after", now),
        until=since(given.get("before"), "before", now),
    )
    return fires[::-1], now


async def _fires(alarms: Wakeful, **filters: Any) -> list[Fire]:
    page = await alarms.fires(**filters, limit=_PAGE)
    found = list(page)
    while page.further is not None:
        page = await alarms.fires(**filters, cursor=page.further, limit=_PAGE)
        found += page
    return found


def _agreed(count: int, noun: str, verb: str, *, yes: bool) -> bool:
    """Whether the caller means it. How many it is about is always said."""
    what = f"{count} {noun}{'' if count == 1 else 's'}"
    if count == 0:
        click.echo(f"note: no {noun} fits: nothing to do", err=True)
        if asked().json:
            click.echo(views.encode({f"{noun}s": []}))
        return False
    if yes:
        click.echo(f"note: {what} will be {verb}", err=True)
        return True
    if not sys.stdin.isatty():
        fix = "Nothing was changed. --dry-run shows them; --yes does it."
        raise InvalidRequest(f"{what} would be {verb}, and there is no terminal to ask", field="--yes", fix=fix)
    if not _confirmed(f"{what} will be {verb}.", count):
        click.echo("note: nothing was changed", err=True)
        return False
    return True


def _confirmed(said: str, count: int) -> bool:
    if count <= _MANY:
        return click.confirm(f"{said} Go on?", err=True)
    typed: str = click.prompt(f"{said} Type {count} to go on", default="", show_default=False, err=True)
    return typed.strip() == str(count)
