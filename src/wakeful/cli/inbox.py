"""`wait`: take the wakes that came to the inbox, for whoever has no address but a shell."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

import click
from msgspec import Raw

from wakeful.alarm import INBOX
from wakeful.cli.context import Command, asked
from wakeful.cli.output import Output, tell_notes, utc
from wakeful.cli.times import distance
from wakeful.clock import stopwatch
from wakeful.process.application import Wakeful
from wakeful.schedule import duration
from wakeful.service import TakenWake, views

AT_A_TIME: Final = 60.0  # seconds
_LATE: Final = timedelta(seconds=1)  # from here on a person is told


@click.command("wait", cls=Command)
@click.option("--for", "limit", metavar="DURATION", help="Such as 30s; without it, for as long as it takes.")
@click.option("-n", "most", type=click.IntRange(1, 100), default=1, show_default=True, help="How many at most.")
@click.option("--to", "target", default=INBOX, metavar="TARGET", help="Another inbox than the usual one, by its name.")
@click.option("--conversation", default="", help="Only wakes of this conversation; the others stay.")
@click.option("--done", multiple=True, metavar="FIRE", help="Report an earlier wake as done first; may be repeated.")
def wait_command(limit: str | None, most: int, target: str, conversation: str, done: tuple[str, ...]) -> int:
    """Wait for wakes in the inbox, and take them.

    Each is yours until its report is due: tell `wakeful done FIRE` or `wakeful fail FIRE`, else it comes again. The
    exit status is 1 when none came. Columns in a pipe: fire, scheduled for, label, message, payload, attempt,
    milliseconds late, and how many later instants of its series were missed.
    """
    patience = None if limit is None else duration(limit).total_seconds()

    async def do(alarms: Wakeful) -> tuple[list[TakenWake], datetime]:
        ending = None if patience is None else stopwatch() + patience
        while True:
            left = AT_A_TIME if ending is None else ending - stopwatch()
            found = await alarms.inbox(
                limit=most,
                wait=max(0.0, min(left, AT_A_TIME)),
                target=target,
                conversation_id=conversation,
                done=dict.fromkeys(done, ""),
            )
            if found or (left <= AT_A_TIME and ending is not None):
                tell_notes(found.notes)
                return found, await alarms.service.now()

    found, now = asked().run(do)
    out = asked().output
    document = {"wakes": [_shown(taken) for taken in found], "now": now}
    if out.is_table:
        _table(found, out, now)
    else:
        columns = ("fire", "scheduled", "label", "message", "payload", "attempt", "late ms", "missed")
        out.rows(columns, [_row(taken) for taken in found], document)
    return 0 if found else 1


def _row(taken: TakenWake) -> tuple[str, ...]:
    alarm, fire = taken
    numbers = (taken.attempt, taken.late_ms, taken.missed)
    return (fire.id, utc(fire.scheduled_for), alarm.label, alarm.wake_message, alarm.payload_json, *map(str, numbers))


def _table(found: list[TakenWake], out: Output, now: datetime) -> None:
    """For people: what is as usual is left out."""
    if not found and out.empty("No wake came."):
        return
    short = out.ids([fire.id for _, fire in found])
    rows = [
        (
            short[fire.id],
            out.at(fire.scheduled_for, now),
            alarm.label,
            "" if alarm.payload_json == "{}" else alarm.payload_json,
            _remark(taken),
            alarm.wake_message,
        )
        for taken in found
        for alarm, fire in (taken,)
    ]
    out.rows(("fire", "scheduled", "label", "payload", "remark", "message"), rows, {})


def _remark(taken: TakenWake) -> str:
    late = timedelta(milliseconds=taken.late_ms)
    said = (
        f"attempt {taken.attempt}" if taken.attempt > 1 else "",
        f"{distance(late)} late" if late >= _LATE else "",
        f"{taken.missed} missed" if taken.missed else "",
        f"ends {utc(taken.ends_at)} unless `done --renew`" if taken.renewable and taken.ends_at else "",
    )
    return ", ".join(filter(None, said))


def _shown(taken: TakenWake) -> dict[str, Any]:
    alarm, fire = taken
    return {
        "fire_id": fire.id,
        "alarm_id": alarm.id,
        "label": alarm.label,
        "conversation_id": alarm.conversation_id,
        "message": alarm.wake_message,
        "payload": Raw(alarm.payload_json.encode()),
        "scheduled_for": fire.scheduled_for,
        "author": taken.author,
        "parent_fire": alarm.parent_fire,
        "ends_at": taken.ends_at,
        "renewable": taken.renewable,
        "token": taken.token,
    } | views.handed_out(taken)
