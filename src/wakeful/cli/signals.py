"""`signal`: something happened; the alarms that wait for it are cancelled, skip a fire, are moved, or fire at once."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import click
from msgspec import Raw

from wakeful.alarm.create import check_payload
from wakeful.alarm.json_text import raw_text
from wakeful.cli.context import Command, asked
from wakeful.cli.fields import payload_of
from wakeful.cli.output import Output
from wakeful.process.application import Wakeful
from wakeful.service import Signalled, views
from wakeful.service.signalling import SignalledAlarm

_CHANGED: Final = ("cancelled", "fired", "skipped", "moved")
_WORDS: Final = {"fired": "fires now", "skipped": "skips", "moved": "moved to"}


@click.command("signal", cls=Command)
@click.argument("name")
@click.option("--payload", metavar="JSON|@FILE|-", help="JSON for the wakes that come for it; - reads stdin.")
def signal_command(name: str, payload: str | None) -> int:
    """Say that something happened, to the alarms that wait for it.

    Of those set with --unless NAME a one-shot is cancelled, or moved where it has --rearm, and a series skips its next
    fire. Those set with --or-when NAME fire at once. It is not kept for alarms that are set later.
    """
    given = None if payload is None else payload_of(payload)
    if isinstance(given, Raw):
        check_payload(raw_text(given))  # also before it is sent to a server

    async def do(alarms: Wakeful) -> tuple[Signalled, datetime]:
        return await alarms.signal(name, given), await alarms.service.now()

    done, now = asked().run(do)
    out = asked().output
    short = out.ids([one.alarm.id for one in done.alarms])
    rows = [
        (short[one.alarm.id], _effect(one, out, now), one.alarm.label or one.alarm.wake_message) for one in done.alarms
    ]
    told = {
        **{name: [views.view(alarm) for alarm in getattr(done, name)] for name in _CHANGED},
        "effects": [
            {"alarm_id": one.alarm.id, "effect": one.effect, **({} if one.at is None else {"at": one.at})}
            for one in done.alarms
        ],
        "in_flight": done.in_flight,
        "notes": done.notes,
        "now": now,
    }
    if rows or asked().json:
        out.rows(("id", "effect", "alarm"), rows, told)
    for note in done.notes:
        click.echo(f"note: {note}", err=True)
    return 0


def _effect(one: SignalledAlarm, out: Output, now: datetime) -> str:
    words = _WORDS.get(one.effect, one.effect.replace("_", " "))
    return words if one.at is None or one.effect not in _CHANGED else f"{words} {out.at(one.at, now)}"
