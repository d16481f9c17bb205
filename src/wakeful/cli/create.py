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
from wakeful.alarm.request import EDITABLE, CreateRequest, OnConflict, PolicyRequest
from wakeful.app import Wakeful
from wakeful.cli.context import Command, asked
from wakeful.cli.output import local, utc, words
from wakeful.errors import InvalidRequest, InvalidSchedule
from wakeful.schedule import parse
from wakeful.service import Created, Service

# Fields of a request that are an argument, an option of their own, or an option for each of their parts.
_NAMED_OTHERWISE: Final = ("wake_message", "payload", "target", "conversation_id", "policy")
_EXPLICIT: Final = ("every ", "each ", "@", "*", "cron_tz=", "tz=")


def _options(command: Callable[..., None]) -> Callable[..., None]:
    for name in reversed(PolicyRequest.__struct_fields__):
        option = click.option(_flag(name), help=_words(PolicyRequest, name), **_form(PolicyRequest, name))
        command = option(command)
    for option in reversed(
        (
            click.option(
                "--to", "target", metavar="TARGET", help="Where wakes go; by default the setting default_target."
            ),
            click.option("--key", "idempotency_key", help=_words(CreateRequest, "idempotency_key")),
            click.option(
                "--on-conflict",
                type=click.Choice(get_args(OnConflict)),
                help=_words(CreateRequest, "on_conflict"),
            ),
            click.option("--payload", metavar="JSON|@FILE|-", help="State to hand back with the wake; - reads stdin."),
            click.option(
                "--tz", "timezone", metavar="ZONE", help="The time's IANA zone. Default: the setting `timezone`."
            ),
            click.option("--conversation", "conversation_id", help=_words(CreateRequest, "conversation_id")),
            *(
                click.option(_flag(name), help=_words(CreateRequest, name), **_form(CreateRequest, name))
                for name in EDITABLE
                if name not in _NAMED_OTHERWISE
            ),
        )
    ):
        command = option(command)
    return command


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _form(request: type[Struct], name: str) -> dict[str, Any]:
    """What a field of a request takes, on the command line."""
    kind = get_args(get_type_hints(request)[name])
    if bool in kind:
        return {"is_flag": True}
    if request is CreateRequest:
        return {"type": int, "metavar": "N"} if int in kind else {}
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
@click.argument("when")
@click.argument("message", nargs=-1, required=True)
@_options
def at_command(when: str, message: tuple[str, ...], **given: Any) -> None:
    """Set an alarm that fires once.

    WHEN is a phrase ("tomorrow at 9am"), a duration ("in 30m" or just 30m), an ISO time, or unix seconds.

    \b
      wakeful at "tomorrow at 9am" Check the grant portal
      wakeful at 30m "Tea is ready" --to phone
      wakeful at 2030-01-01T09:00:00Z "Happy new year" --payload '{"page": 3}'
    """
    _set("once", when, message, given)


@click.command("every", cls=Command)
@click.argument("schedule")
@click.argument("message", nargs=-1, required=True)
@_options
def every_command(schedule: str, message: tuple[str, ...], **given: Any) -> None:
    """Set an alarm that fires again and again.

    SCHEDULE is a phrase, with or without "every" in front, cron with 5 or 6 fields, @daily and its kin, or @every 90m.

    \b
      wakeful every "weekday at 9am" Morning brief --to ops --tz Europe/Berlin
      wakeful every 15m "Look at the queue"
      wakeful every "0 9 * * 1-5" "Morning brief"
    """
    _set("cron", schedule, message, given)


def _set(kind: Literal["once", "cron"], text: str, message: tuple[str, ...], given: dict[str, Any]) -> None:
    policy = PolicyRequest(**{name: given.pop(name) for name in PolicyRequest.__struct_fields__})

    async def do(clock: Wakeful) -> tuple[Created, datetime]:
        zone = given["timezone"] or clock.settings.timezone
        now = await clock.service.now()
        asked = CreateRequest(
            wake_message=" ".join(message),
            when=understood(kind, text, zone, now),
            payload=_payload(given.pop("payload")),
            policy=policy,
            **given,
        )
        added = await clock.create(asked)
        await _warn(clock.service, added)
        return added, now

    _tell(*asked().run(do))


def understood(kind: str, text: str, timezone: str, now: datetime) -> str:
    """The text as `parse` takes it. The command says whether it is once or again, so the text need not."""
    text = text.strip()
    found, way = None, text
    for way in _ways(kind, text):
        try:
            found = parse(way, timezone=timezone, now=now)
        except InvalidSchedule:
            continue
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
    if not (await service.targets()).get(name):
        click.echo(f"note: no running worker serves {name!r} yet; start one with: wakeful serve", err=True)


def _tell(added: Created, now: datetime) -> None:
    alarm = added.alarm
    shown: dict[str, Any] = views.view(alarm) | {"when": words(alarm), "now": now}
    if added.deduped:
        shown["deduped"] = True
    asked().output.record(
        {
            "id": alarm.id,
            "when": words(alarm),
            "local": local(alarm.next_fire_at, alarm.timezone),
            "utc": utc(alarm.next_fire_at),
            "target": alarm.target,
            "deduped": "the key was taken; this is the alarm that has it" if added.deduped else "",
        },
        shown,
    )
