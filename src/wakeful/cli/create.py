"""`at` and `every`: set an alarm, and hear in words how it was understood."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, get_args

import click

from wakeful.alarm import Fire
from wakeful.alarm.model import Kind
from wakeful.alarm.request import CreateRequest, OnConflict, PolicyRequest
from wakeful.cli.context import Command, asked
from wakeful.cli.fields import field_options, payload_of, policy_options, with_options, words_of
from wakeful.cli.leading_time import split
from wakeful.cli.output import next_fire, tell_notes
from wakeful.cli.output import words as in_words
from wakeful.cli.times import ShellZone, own_zone
from wakeful.cli.waiting import GOOD, outcome, settled
from wakeful.clock import SystemClock
from wakeful.errors import InvalidSchedule
from wakeful.process.application import Wakeful
from wakeful.schedule import Understood, is_rule, parse
from wakeful.service import Created, views

_EXPLICIT: Final = ("every ", "each ", "@", "*", "cron_tz=", "tz=")
# How 03/04 is read is said by whoever sets the alarm: here any order tells that it is a time at all.
_ANY_ORDER: Final = "mdy"


_options: Final = with_options(
    click.option("--key", "idempotency_key", help=words_of(CreateRequest, "idempotency_key")),
    click.option("--on-conflict", type=click.Choice(get_args(OnConflict)), help=words_of(CreateRequest, "on_conflict")),
    *field_options(
        tz="The time's IANA zone. Default: your own, then the setting `timezone`, then the shell's.",
        to="Where wakes go; by default the setting default_target.",
    ),
    *policy_options(),
)


@click.command("at", cls=Command)
@click.argument("words", nargs=-1, required=True, metavar="WHEN MESSAGE…")
@_options
@click.option("--wait", is_flag=True, help="Wait until it has fired, and show what became of it.")
def at_command(words: tuple[str, ...], wait: bool, **given: Any) -> int:
    """Set an alarm that fires once.

    WHEN is a phrase ("tomorrow at 9am"), a duration ("in 30m" or just 30m), an ISO time, or unix seconds. Without
    quotes, the longest beginning that is a time is the time, and the rest is the message.

    \b
      wakeful at "tomorrow at 9am" Check the grant portal
      wakeful at 30m "Tea is ready" --to phone
      wakeful at 2030-01-01T09:00:00Z "Happy new year" --payload '{"page": 3}'
    """
    return _set("once", words, given, wait=wait)


@click.command("every", cls=Command)
@click.argument("words", nargs=-1, required=True, metavar="SCHEDULE MESSAGE…")
@_options
def every_command(words: tuple[str, ...], **given: Any) -> None:
    """Set an alarm that fires again and again.

    SCHEDULE is a phrase, with or without "every" in front, cron with 5 or 6 fields, @daily and its kin,
    @every 90m, or a recurrence rule (RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=TU;BYHOUR=9).

    \b
      wakeful every "weekday at 9am" Morning brief --to ops --tz Europe/Berlin
      wakeful every 15m "Look at the queue"
      wakeful every "0 9 * * 1-5" "Morning brief"
    """
    _set("cron", words, given)


def _set(kind: Kind, words: tuple[str, ...], given: dict[str, Any], *, wait: bool = False) -> int:
    policy = PolicyRequest(**{name: given.pop(name) for name in PolicyRequest.__struct_fields__})  # None: not said
    named = given.pop("timezone")
    zone = asked().zone(named)
    text, message = _read(kind, words, zone.name, SystemClock().now())
    payload = payload_of(given.pop("payload"))

    async def do(alarms: Wakeful) -> tuple[Created, datetime, Fire | None, ShellZone]:
        now = await alarms.service.now()
        own = zone if named else await own_zone(alarms, zone)
        wanted = CreateRequest(
            wake_message=message, when=text, timezone=own.name, payload=payload, policy=policy, **given
        )
        added = await alarms.create(wanted)
        if wait:
            return added, now, await settled(alarms, added.alarm), own
        tell_notes(added.all_notes)
        return added, now, None, own

    added, now, fire, zone = asked().run(do, creates=True, delivers=wait)
    _tell(added, zone, now, fired=outcome(fire) if wait else "", fire=fire)
    return 0 if not wait or (fire is not None and fire.status in GOOD) else 1


def _read(kind: Kind, words: tuple[str, ...], timezone: str, now: datetime) -> tuple[str, str]:
    """The time, as `parse` takes it, and the message."""

    def meaning(text: str) -> str:
        found = (understanding(way, timezone, now) for way in _ways(kind, text))
        return next((one.description for one in found if one is not None), "")

    text, message = split(words, "at" if kind == "once" else "every", meaning)
    return understood(kind, text, timezone, now), message


def understanding(text: str, timezone: str, now: datetime) -> Understood | None:
    try:
        return parse(text, timezone=timezone, now=now, date_order=_ANY_ORDER)
    except InvalidSchedule as error:
        if error.field == "timezone":
            raise
        return None


def understood(kind: Kind, text: str, timezone: str, now: datetime) -> str:
    """The text as `parse` takes it. The command says whether it is once or again, so the text need not."""
    text = text.strip()
    found, way = None, text
    for way in _ways(kind, text):
        if (found := understanding(way, timezone, now)) is not None:
            break
    if found is None:
        # Refuses it, with the forms that work.
        parse(_ways(kind, text)[0], timezone=timezone, now=now, date_order=_ANY_ORDER)
        raise AssertionError(text)
    if found.kind != kind:
        what, command = ("fires once", "at") if kind == "cron" else ("repeats", "every")
        shown = repr(text.removeprefix("every "))
        raise InvalidSchedule(f"{shown} {what}", field="when", fix=f"Use: wakeful {command} {shown} MESSAGE")
    return way


def _ways(kind: str, text: str) -> list[str]:
    if kind == "once":
        return [text, f"in {text}"]
    cron = len(text.split()) >= 5 and text[0].isdigit()
    explicit = text.lower().startswith(_EXPLICIT) or cron or is_rule(text)
    return [text] if explicit else [f"every {text}", text]


def _tell(added: Created, zone: ShellZone, now: datetime, *, fired: str = "", fire: Fire | None = None) -> None:
    alarm = added.alarm
    shown: dict[str, Any] = views.view(alarm) | {"when": in_words(alarm), "now": now}
    if added.deduped:
        shown["deduped"] = True
    if added.similar is not None:
        shown["similar"] = added.similar
    if fire is not None:
        shown["fire"] = views.fire_view(fire)
    out = asked().output
    out.record(
        {
            "id": out.id(alarm.id),
            "when": in_words(alarm),
            **(next_fire(alarm, out, now) if fire is None or not out.terminal else {}),
            "timezone": f"{zone.name} ({zone.source})" if out.terminal else alarm.timezone,
            "message": alarm.wake_message,
            "target": alarm.target,
            "deduped": "the key was taken; this is the alarm that has it" if added.deduped else "",
            "fire": out.id(fire.id) if fire is not None else "",
            "fired": fired,
        },
        shown,
    )
