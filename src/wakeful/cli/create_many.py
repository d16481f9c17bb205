"""`set`: set many alarms from a file, all of them or none."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from wakeful.alarm.request import CreateRequest, decode
from wakeful.cli.context import Command, asked
from wakeful.cli.output import schedule_of, tell_notes
from wakeful.errors import InvalidRequest
from wakeful.process.application import Wakeful
from wakeful.service import Created, views


@click.command("set", cls=Command)
@click.argument("file")
def set_command(file: str) -> None:
    """Set many alarms from a file, all of them or none.

    FILE holds one JSON object on each line, or a JSON array of them, with the fields of an alarm as HTTP takes them; -
    is standard input. A field that is not accepted, or a key that another alarm has, and none is set. A time without a
    timezone is in that of `wakeful at`. Columns in a pipe: id, what was done, next fire, schedule, target, label,
    message.

    \b
      {"when": "tomorrow at 9am", "wake_message": "Read page 1", "idempotency_key": "page-1"}
      {"when": "every weekday at 9am", "wake_message": "Morning brief", "target": "ops"}
    """
    zone = asked().zone(None).name
    wanted = [one if one.timezone else replace(one, timezone=zone) for one in _requests(_text(file))]

    async def do(alarms: Wakeful) -> tuple[list[Created], datetime]:
        made = await alarms.create_many(wanted)
        tell_notes(dict.fromkeys(note for one in made for note in one.notes))
        return made, await alarms.service.now()

    _tell(*asked().run(do, creates=True))


def _text(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise InvalidRequest(f"{file} cannot be read ({error.strerror})", field="FILE") from None


def _requests(text: bytes) -> list[CreateRequest]:
    items: list[Any]
    if text.lstrip().startswith(b"["):
        items = list(decode(text, list[msgspec.Raw]))
    else:
        items = [line for line in text.splitlines() if line.strip()]
    if not items:
        raise InvalidRequest("there is no alarm in it", field="FILE", fix="Give one JSON object on each line.")
    return [_request(at, bytes(item)) for at, item in enumerate(items)]


def _request(at: int, item: bytes) -> CreateRequest:
    try:
        return decode(item, CreateRequest)
    except InvalidRequest as error:  # numbered as the verb numbers what it refuses itself
        raise InvalidRequest(error.message, field=f"alarms[{at}].{error.field}", fix=error.fix) from None


def _tell(made: list[Created], now: datetime) -> None:
    out = asked().output
    short = out.ids([one.alarm.id for one in made])
    rows = [
        (
            short[one.alarm.id],
            "existed" if one.deduped else "set",
            out.at(one.alarm.next_fire_at, now) if one.alarm.status == "active" else "",
            schedule_of(one.alarm),
            one.alarm.target,
            one.alarm.label,
            one.alarm.wake_message,
        )
        for one in made
    ]
    shown = [views.view(one.alarm) | ({"deduped": True} if one.deduped else {}) for one in made]
    out.rows(("id", "done", "next", "schedule", "target", "label", "message"), rows, {"alarms": shown, "now": now})
