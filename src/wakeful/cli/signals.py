"""`signal`: something happened, and the alarms that wait for it are cancelled or fire at once."""

from __future__ import annotations

from datetime import datetime

import click
from msgspec import Raw

from wakeful import views
from wakeful.alarm.create import check_payload
from wakeful.alarm.json_text import raw_text
from wakeful.app import Wakeful
from wakeful.cli.context import Command, asked
from wakeful.cli.fields import payload_of
from wakeful.service import Signalled


@click.command("signal", cls=Command)
@click.argument("name")
@click.option("--payload", metavar="JSON|@FILE|-", help="JSON for the wakes that come for it; - reads stdin.")
def signal_command(name: str, payload: str | None) -> int:
    """Cancel or fire the alarms that wait for a signal.

    Those set with --unless NAME are cancelled, those set with --or-when NAME fire at once. It is not kept for alarms
    that are set later.
    """
    given = None if payload is None else payload_of(payload)
    if isinstance(given, Raw):
        check_payload(raw_text(given))  # also before it is sent to a server

    async def do(clock: Wakeful) -> tuple[Signalled, datetime]:
        return await clock.signal(name, given), await clock.service.now()

    done, now = asked().run(do)
    heard = [*done.cancelled, *done.fired]
    out = asked().output
    short = out.ids([alarm.id for alarm in heard])
    effects = ["cancelled"] * len(done.cancelled) + ["fires now"] * len(done.fired)
    rows = [
        (short[alarm.id], effect, alarm.label or alarm.wake_message)
        for alarm, effect in zip(heard, effects, strict=True)
    ]
    told = {
        "cancelled": [views.view(alarm) for alarm in done.cancelled],
        "fired": [views.view(alarm) for alarm in done.fired],
        "in_flight": done.in_flight,
        "notes": done.notes,
        "now": now,
    }
    if rows or asked().json:
        out.rows(("id", "effect", "alarm"), rows, told)
    for note in done.notes:
        click.echo(f"note: {note}", err=True)
    return 0
