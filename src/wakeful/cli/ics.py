"""`import ics`: alarms for the events of a calendar file, and for their reminders."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from wakeful import views
from wakeful.cli.context import Command, asked
from wakeful.cli.output import Output, clean, utc
from wakeful.clock import SystemClock
from wakeful.errors import InvalidRequest

if TYPE_CHECKING:
    from wakeful.cli.ics_import import ImportedEvent


_SHOWN: Final = ("wake_message", "when", "fire_at", "cron_expr", "timezone", "target", "idempotency_key")


@click.command("ics", cls=Command)
@click.argument("file")
@click.option("--to", "target", default="", metavar="TARGET", help="Where the wakes go. Default: `default_target`.")
@click.option("--tz", metavar="ZONE", help="The zone of times without one, and of whole days. Default: as for `at`.")
@click.option("--dry-run", is_flag=True, help="Only show what there is, and what cannot be taken over and why.")
def import_ics(file: str, target: str, tz: str | None, dry_run: bool) -> int:
    """Set alarms for the events of a calendar file, and for their reminders.

    FILE is an .ics file, or - for stdin. An event becomes one alarm for each of its reminders (VALARM), or one at its
    start; a recurring one becomes a series. It can be run again: what has not changed is left alone, what has is
    updated, and an event that the file calls cancelled is cancelled. The exit status is 1 when an event was left out.
    Columns in a pipe: line, what becomes of it, event, alarms, next fire, why not.
    """
    from wakeful.cli.ics_import import import_events, tried
    from wakeful.transfer.ics import CalendarDefaults, read_events

    usual = CalendarDefaults(asked().zone(tz).name, target, SystemClock().now())
    found = read_events(_data(file), usual)
    done = (
        [tried(event) for event in found]
        if dry_run
        else asked().run(lambda clock: import_events(clock, found), creates=True)
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
    from wakeful.cli.ics_import import STATES

    counts = Counter(one.state for one in done)
    if out.json:
        totals = {state.replace(" ", "_"): counts[state] for state in STATES}
        click.echo(views.encode({"dry_run": dry_run, **totals, "events": [_document(one) for one in done]}))
        return
    for one in done:
        click.echo(_line(one, out.width) if out.terminal else "\t".join(_cells(one)))
    if out.terminal:
        said = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
        click.echo(f"{len(done)} events: {said or 'nothing'}." + (" Nothing was changed." if dry_run else ""))


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
