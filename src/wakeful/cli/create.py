"""`at` and `every`: set an alarm, and hear in words how it was understood."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_type_hints

import click
from msgspec import UNSET, Raw, Struct, UnsetType

from wakeful import views
from wakeful.alarm import Fire
from wakeful.alarm.request import CreateRequest, PolicyRequest
from wakeful.app import Wakeful
from wakeful.cli.context import Command, asked
from wakeful.cli.leading_time import split
from wakeful.cli.output import local, utc
from wakeful.cli.output import words as in_words
from wakeful.cli.waiting import GOOD, outcome, settled
from wakeful.cli.zone import ShellZone
from wakeful.clock import SystemClock
from wakeful.errors import InvalidRequest, InvalidSchedule
from wakeful.schedule import Understood, parse
from wakeful.service import Created, Service

Kind = Literal["once", "cron"]
_EXPLICIT: Final = ("every ", "each ", "@", "*", "cron_tz=", "tz=")


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    for name in reversed(PolicyRequest.__struct_fields__):
        command = click.option(f"--{name.replace('_', '-')}", help=_words(PolicyRequest, name), **_form(name))(command)
    for option in reversed(
        (
            click.option(
                "--to", "target", metavar="TARGET", help="Where wakes go; by default the setting default_target."
            ),
            click.option("--key", "idempotency_key", help=_words(CreateRequest, "idempotency_key")),
            click.option(
                "--on-conflict",
                type=click.Choice(["return", "replace", "error"]),
                help=_words(CreateRequest, "on_conflict"),
            ),
            click.option("--payload", metavar="JSON|@FILE|-", help="State to hand back with the wake; - reads stdin."),
            click.option(
                "--tz",
                "timezone",
                metavar="ZONE",
                help="The time's IANA zone. Default: the setting `timezone`, then the shell's own.",
            ),
            click.option("--label", help=_words(CreateRequest, "label")),
            click.option("--conversation", "conversation_id", help=_words(CreateRequest, "conversation_id")),
            click.option("--isolated", is_flag=True, help=_words(CreateRequest, "isolated")),
            click.option("--max-failures", type=int, metavar="N", help=_words(CreateRequest, "max_failures")),
        )
    ):
        command = option(command)
    return command


def _form(name: str) -> dict[str, Any]:
    """What a field of a policy takes, on the command line."""
    kind = get_args(get_type_hints(PolicyRequest)[name])
    if all(isinstance(one, str) for one in get_args(kind[0])) and get_args(kind[0]):
        return {"type": click.Choice(get_args(kind[0]))}
    if int in kind:
        return {"type": click.IntRange(1, 2**31 - 1)}
    return {"metavar": "TIME" if name.endswith("_at") else "DURATION"}


def _words(request: type[Struct], name: str) -> str:
    """What a field is for, as every door says it."""
    [meta, *_] = get_type_hints(request, include_extras=True)[name].__metadata__
    return str(meta.description)


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

    SCHEDULE is a phrase, with or without "every" in front, cron with 5 or 6 fields, @daily and its kin, or @every 90m.

    \b
      wakeful every "weekday at 9am" Morning brief --to ops --tz Europe/Berlin
      wakeful every 15m "Look at the queue"
      wakeful every "0 9 * * 1-5" "Morning brief"
    """
    _set("cron", words, given)


def _set(kind: Kind, words: tuple[str, ...], given: dict[str, Any], *, wait: bool = False) -> int:
    policy = PolicyRequest(**{name: given.pop(name) for name in PolicyRequest.__struct_fields__})
    zone = asked().zone(given.pop("timezone"))
    text, message = _read(kind, words, zone.name, SystemClock().now())
    wanted = CreateRequest(
        wake_message=message,
        when=text,
        timezone=zone.name,
        payload=_payload(given.pop("payload")),
        policy=policy,
        **given,
    )

    async def do(clock: Wakeful) -> tuple[Created, datetime, Fire | None]:
        now = await clock.service.now()
        added = await clock.create(wanted)
        if wait:
            return added, now, await settled(clock, added.alarm)
        await _warn(clock.service, added)
        return added, now, None

    added, now, fire = asked().run(do, creates=True)
    _tell(added, zone, now, fired=outcome(fire) if wait else "", fire=fire)
    return 0 if not wait or (fire is not None and fire.status in GOOD) else 1


def _read(kind: Kind, words: tuple[str, ...], timezone: str, now: datetime) -> tuple[str, str]:
    """The time, as `parse` takes it, and the message."""

    def meaning(text: str) -> str:
        found = (understanding(way, timezone, now) for way in _ways(kind, text))
        return next((one.cron_expr or str(one.fire_at) for one in found if one is not None), "")

    text, message = split(words, "at" if kind == "once" else "every", meaning)
    return understood(kind, text, timezone, now), message


def understanding(text: str, timezone: str, now: datetime) -> Understood | None:
    try:
        return parse(text, timezone=timezone, now=now)
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
        parse(_ways(kind, text)[0], timezone=timezone, now=now)  # refuses it, with the forms that work
        raise AssertionError(text)
    if found.kind != kind:
        what, command = ("fires once", "at") if kind == "cron" else ("repeats", "every")
        shown = repr(text.removeprefix("every "))
        raise InvalidSchedule(f"{shown} {what}", field="when", fix=f"Use: wakeful {command} {shown} MESSAGE")
    return way


def _ways(kind: str, text: str) -> list[str]:
    if kind == "once":
        return [text, f"in {text}"]
    explicit = text.lower().startswith(_EXPLICIT) or (len(text.split()) >= 5 and text[0].isdigit())
    return [text] if explicit else [f"every {text}", text]


def _payload(given: str | None) -> Raw | UnsetType:
    if given is None:
        return UNSET
    try:
        if given == "-":
            given = sys.stdin.read()
        elif given.startswith("@"):
            given = Path(given[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"it cannot be read ({error})", field="payload") from None
    return Raw(given.strip().encode())


async def _warn(service: Service, added: Created) -> None:
    name = added.alarm.target
    if service.is_remote:  # whoever answers us there delivers as well
        return
    if not (await service.targets()).get(name):
        click.echo(f"note: no running worker serves {name!r} yet; start one with: wakeful serve", err=True)


def _tell(added: Created, zone: ShellZone, now: datetime, *, fired: str = "", fire: Fire | None = None) -> None:
    alarm = added.alarm
    shown: dict[str, Any] = views.view(alarm) | {"when": in_words(alarm), "now": now}
    if added.deduped:
        shown["deduped"] = True
    if fire is not None:
        shown["fire"] = views.fire_view(fire)
    asked().output.record(
        {
            "id": alarm.id,
            "when": in_words(alarm),
            "local": local(alarm.next_fire_at, alarm.timezone),
            "utc": utc(alarm.next_fire_at),
            "timezone": f"{zone.name} ({zone.source})" if asked().output.terminal else alarm.timezone,
            "message": alarm.wake_message,
            "target": alarm.target,
            "deduped": "the key was taken; this is the alarm that has it" if added.deduped else "",
            "fire": fire.id if fire is not None else "",
            "fired": fired,
        },
        shown,
    )
