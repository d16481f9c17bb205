"""`import ics`: alarms for the events of a calendar file, and for their reminders."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.cli.context import Command, asked
from wakeful.cli.output import Output, clean, utc
from wakeful.clock import SystemClock
from wakeful.errors import Conflict, InvalidRequest, UnknownTarget
from wakeful.service import views
from wakeful.transfer.ics import KEYS

if TYPE_CHECKING:
    from wakeful.model.alarm import Alarm
    from wakeful.python.verbs import Verbs
    from wakeful.transfer.ics import FoundEvent


_SHOWN: Final = ("wake_message", "when", "fire_at", "cron_expr", "timezone", "target", "idempotency_key")


@click.command("ics", cls=Command)
@click.argument("file")
@click.option("--to", "target", default="", metavar="TARGET", help="Where the wakes go. Default: `default_target`.")
@click.option("--tz", metavar="ZONE", help="The zone of times without one, and of whole days. Default: as for `at`.")
@click.option("--yes", is_flag=True, help="Set the alarms; without it they are only shown.")
@click.option("--dry-run", is_flag=True, help="Only show them, which is what happens without --yes.")
def import_ics(file: str, target: str, tz: str | None, yes: bool, dry_run: bool) -> int:
    """Set alarms for the events of a calendar file, and for their reminders.

    FILE is an .ics file, or - for stdin. An event becomes one alarm for each of its reminders (VALARM), or one at its
    start; a recurring one becomes a series. Without --yes it only shows what would be set. It can be run again: what
    has not changed is left alone, what has is updated, and an event that the file calls cancelled is cancelled. The
    exit status is 1 when an event was left out. Columns in a pipe: line, what becomes of it, event, alarms, next fire,
    why not.
    """
    from wakeful.transfer.ics import CalendarDefaults, read_events

    usual = CalendarDefaults(asked().zone(tz).name, target, SystemClock().now())
    found = read_events(_data(file), usual)
    dry_run = dry_run or not yes
    done = (
        [tried(event) for event in found]
        if dry_run
        else asked().run(lambda alarms: import_events(alarms, found), creates=True)
    )
    _tell(done, asked().output, dry_run=dry_run)
    return 1 if any(one.found.reason for one in done) else 0


def _data(file: str) -> bytes:
    """No more than is accepted and one byte, by which it is seen to be too long."""
    from wakeful.transfer.ics import LIMIT

    try:
        if file == "-":
            return sys.stdin.buffer.read(LIMIT + 1)
        with open(file, "rb") as opened:
            return opened.read(LIMIT + 1)
    except OSError as error:
        raise InvalidRequest(f"{file} cannot be read ({error.strerror})", field="FILE") from None


def _tell(done: Sequence[ImportedEvent], out: Output, *, dry_run: bool) -> None:

    counts = Counter(one.state for one in done)
    if out.json:
        totals = {state.replace(" ", "_"): counts[state] for state in STATES}
        click.echo(views.encode({"dry_run": dry_run, **totals, "events": [_document(one) for one in done]}))
        return
    for one in done:
        click.echo(_line(one, out.width) if out.terminal else "\t".join(_cells(one)))
    if out.terminal:
        said = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
        click.echo(
            f"{len(done)} events: {said or 'nothing'}." + (" Nothing was set. To set them: --yes" if dry_run else "")
        )


def _cells(one: ImportedEvent) -> list[str]:
    event = one.found
    fires = [alarm.next for alarm in event.coming if alarm.next is not None]
    cells = (
        str(event.line),
        one.state,
        event.summary,
        str(len(event.coming)),
        utc(min(fires)) if fires else "",
        event.reason,
    )
    return [clean(cell) for cell in cells]


def _line(one: ImportedEvent, width: int) -> str:
    line, state, summary, count, first, reason = _cells(one)
    what = reason or (f"{count} alarm{'s' if count != '1' else ''}, next {first}" if first else "")
    text = f"line {line:<5} {state:<13}  {summary}" + (f": {what}" if what else "")
    return text if len(text) <= width else text[: width - 1] + "…"


def _document(one: ImportedEvent) -> dict[str, Any]:
    event = one.found
    shown: dict[str, Any] = {"line": event.line, "state": one.state, "uid": event.uid, "summary": event.summary}
    alarms = [
        {name: value for name, value in msgspec.structs.asdict(alarm.request).items() if name in _SHOWN and value}
        | {"next": alarm.next}
        for alarm in event.coming
    ]
    shown |= {"alarms": alarms} if alarms else {}
    shown |= {"past": len(event.alarms) - len(alarms)} if len(event.alarms) > len(alarms) else {}
    shown |= {"ids": one.ids} if one.ids else {}
    return shown | ({"reason": event.reason} if event.reason else {})


# Take over the events of a calendar file: their alarms are set, updated or cancelled, each event at once


# What becomes of an event, in the order in which the answer counts it.
WOULD, SET, UPDATED, THERE = "would be set", "set", "updated", "there already"
CANCELLED, PAST, LEFT = "cancelled", "past", "left out"
STATES: Final = (WOULD, SET, UPDATED, THERE, CANCELLED, PAST, LEFT)
_PAGE: Final = 500


class ImportedEvent(Struct, frozen=True):
    found: FoundEvent
    state: str
    ids: tuple[str, ...] = ()  # of its alarms


def tried(event: FoundEvent) -> ImportedEvent:
    """What would become of an event, as far as the file says it."""
    if event.reason:
        return ImportedEvent(event, LEFT)
    if event.is_cancelled and not event.alarms:
        return ImportedEvent(event, CANCELLED)
    return ImportedEvent(event, WOULD if event.coming else PAST)


async def import_events(alarms: Verbs, found: Sequence[FoundEvent]) -> list[ImportedEvent]:
    """Do it. An event that is refused is left out with the reason, and the others are taken over."""
    waiting = await _waiting(alarms)
    done: list[ImportedEvent] = []
    for event in found:
        if event.reason:
            done.append(ImportedEvent(event, LEFT))
            continue
        try:
            done.append(await _take_over(alarms, event, waiting.get(event.key, [])))
        except UnknownTarget:
            raise
        except (InvalidRequest, Conflict) as error:
            done.append(ImportedEvent(replace(event, reason=str(error).rstrip("."), alarms=()), LEFT))
    return done


async def _waiting(alarms: Verbs) -> dict[str, list[Alarm]]:
    """The alarms of earlier imports that still wait, by what the keys of their event begin with."""
    found: dict[str, list[Alarm]] = {}
    last: Alarm | None = None
    while page := await alarms.find(status=("active", "paused"), text=KEYS, limit=_PAGE, cursor=last):
        for alarm in page:
            if alarm.idempotency_key.startswith(KEYS):
                found.setdefault(alarm.idempotency_key.rpartition(":")[0], []).append(alarm)
        last = page[-1]
    return found


async def _take_over(alarms: Verbs, event: FoundEvent, waiting: Sequence[Alarm]) -> ImportedEvent:
    """Make the alarms here what the event says: all of them at once, before those that it has no more are cancelled."""
    known = {alarm.idempotency_key: alarm for alarm in waiting}
    for one in event.coming:
        if one.key not in known:  # fired or cancelled here since: that stays so, unless the event has changed
            known |= {alarm.idempotency_key: alarm for alarm in await alarms.find(key=one.key, limit=1)}
    changed = [one for one in event.coming if one.key not in known or _revision(known[one.key]) != one.revision]
    same = {one.key for one in event.alarms if one.key in known and _revision(known[one.key]) == one.revision}
    wanted = {one.key for one in changed} | same
    gone = [alarm for alarm in waiting if alarm.idempotency_key not in wanted]
    answers = (
        await alarms.create_many([replace(one.request, on_conflict="replace") for one in changed]) if changed else []
    )
    for alarm in gone:
        await alarms.cancel(alarm.id)
    ids = (*(answer.alarm.id for answer in answers), *(known[key].id for key in same))
    return ImportedEvent(event, _state(event, had=bool(known), has_changed=bool(changed), has_gone=bool(gone)), ids)


def _state(event: FoundEvent, *, had: bool, has_changed: bool, has_gone: bool) -> str:
    if has_changed:
        return UPDATED if had else SET
    if event.is_cancelled or (has_gone and not event.coming):
        return CANCELLED
    if has_gone:
        return UPDATED
    return THERE if had else PAST


def _revision(alarm: Alarm) -> str:
    """The revision of its event that an alarm was set from; it may have got another payload since."""
    payload = alarm.payload
    return str(payload.get("revision", "")) if isinstance(payload, dict) else ""
