"""`wait`: take the wakes that came to the inbox, for whoever has no address but a shell."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import click
from msgspec import Raw

from wakeful import views
from wakeful.app import Wakeful
from wakeful.cli.context import Command, asked
from wakeful.clock import stopwatch
from wakeful.schedule import duration
from wakeful.service import TakenWake

AT_A_TIME: Final = 60.0  # seconds


@click.command("wait", cls=Command)
@click.option("--for", "limit", metavar="DURATION", help="Such as 30s; without it, for as long as it takes.")
@click.option("-n", "most", type=click.IntRange(1, 100), default=1, show_default=True, help="How many at most.")
def wait_command(limit: str | None, most: int) -> int:
    """Wait for wakes in the inbox, and take them.

    Each is yours until its report is due: tell `wakeful done FIRE` or `wakeful fail FIRE`, else it comes again. The
    exit status is 1 when none came. Columns in a pipe: fire, scheduled for, label, message, payload, attempt,
    milliseconds late, and how many later instants of its series were missed.
    """
    patience = None if limit is None else duration(limit).total_seconds()

    async def do(clock: Wakeful) -> tuple[list[TakenWake], datetime]:
        ending = None if patience is None else stopwatch() + patience
        while True:
            left = AT_A_TIME if ending is None else ending - stopwatch()
            found = await clock.inbox(limit=most, wait=max(0.0, min(left, AT_A_TIME)))
            if found or (left <= AT_A_TIME and ending is not None):
                return found, await clock.service.now()

    found, now = asked().run(do)
    document = {"wakes": [_shown(taken) for taken in found], "now": now}
    columns = ("fire", "scheduled", "label", "message", "payload", "attempt", "late ms", "missed")
    out = asked().output
    if out.is_table and not found:
        click.echo("No wake came.")
        return 1
    short = out.ids([taken[1].id for taken in found])
    out.rows(columns, [_row(taken, short[taken[1].id]) for taken in found], document)
    return 0 if found else 1


def _row(taken: TakenWake, id: str) -> tuple[str, ...]:
    alarm, fire = taken
    when, numbers = asked().output.at(fire.scheduled_for), (taken.attempt, taken.late_ms, taken.missed)
    return (id, when, alarm.label, alarm.wake_message, alarm.payload, *map(str, numbers))


def _shown(taken: TakenWake) -> dict[str, Any]:
    alarm, fire = taken
    return {
        "fire_id": fire.id,
        "alarm_id": alarm.id,
        "label": alarm.label,
        "conversation_id": alarm.conversation_id,
        "message": alarm.wake_message,
        "payload": Raw(alarm.payload.encode()),
        "scheduled_for": fire.scheduled_for,
    } | views.handed_out(taken)
