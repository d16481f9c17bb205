"""`at` and `every`: set an alarm, and hear in words how it was understood."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

import click
from msgspec import Raw

from wakeful.app import Wakeful
from wakeful.doors import wire
from wakeful.doors.cli.asking import Command, asked
from wakeful.doors.cli.output import local, utc, words
from wakeful.errors import InvalidRequest, InvalidSchedule
from wakeful.schedule import parse
from wakeful.service import Service
from wakeful.store import Added

_NUMBER: Final = click.IntRange(1, 2**31 - 1)
_POLICY: Final[dict[str, tuple[click.ParamType[Any] | str, str]]] = {
    "report_within": ("DURATION", "Await a report for so long after delivery."),
    "expires": ("DURATION", "Start no attempt later than this after the scheduled moment."),
    "catch_up": (click.Choice(["one", "skip"]), "After downtime: fire once for what was missed, or skip it."),
    "grace": ("DURATION", "With --catch-up skip: how late a fire may still be."),
    "overlap": (
        click.Choice(["skip", "allow"]),
        "While the report of the fire before is awaited: skip, or fire all the same.",
    ),
    "backoff_base": ("DURATION", "The wait before the first retry; it doubles from there."),
    "backoff_cap": ("DURATION", "The longest wait between retries."),
    "starts_at": ("TIME", "No fire before this moment."),
    "ends_at": ("TIME", "No fire after this moment."),
    "max_fires": (_NUMBER, "End after so many fires."),
    "jitter": ("DURATION", "Spread fires by up to so much."),
    "auto_pause_after": (_NUMBER, "Pause after so many failed fires in a row."),
}
_EXPLICIT: Final = ("every ", "each ", "@", "*", "cron_tz=", "tz=")


def _options(command: Callable[..., None]) -> Callable[..., None]:
    for name, (kind, about) in reversed(_POLICY.items()):
        form = {"metavar": kind} if isinstance(kind, str) else {"type": kind}
        command = click.option(f"--{name.replace('_', '-')}", help=about, **form)(command)
    for option in reversed(
        (
            click.option(
                "--to", "target", metavar="TARGET", help="Where wakes go; by default the setting default_target."
            ),
            click.option("--key", default="", help="Idempotency key: the same request again gives the same alarm."),
            click.option(
                "--on-conflict",
                type=click.Choice(["return", "replace", "error"]),
                help="When the key is taken. Without it the same request gives the same alarm, another is refused.",
            ),
            click.option("--payload", metavar="JSON|@FILE|-", help="State to hand back with the wake; - reads stdin."),
            click.option("--tz", metavar="ZONE", help="The IANA zone of the time. Default: the setting `timezone`."),
            click.option("--label", default="", help="A name for people."),
            click.option("--conversation", default="", help="The conversation the wake belongs to."),
            click.option("--isolated", is_flag=True, help="Ask the receiver for a run apart from the conversation."),
            click.option("--max-failures", type=int, metavar="N", help="Retries allowed."),
        )
    ):
        command = option(command)
    return command


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
    policy = wire.PolicyBody(**{name: given[name] for name in _POLICY if given[name] is not None})

    async def do(clock: Wakeful) -> tuple[Added, datetime]:
        settings, service = clock.settings, clock.service
        zone = given["tz"] or settings.timezone
        body = wire.CreateBody(
            wake_message=" ".join(message),
            when=understood(kind, text, zone, await service.now()),
            timezone=zone,
            label=given["label"],
            conversation_id=given["conversation"],
            payload=_payload(given["payload"]),
            target=given["target"],
            isolated=given["isolated"],
            idempotency_key=given["key"],
            max_failures=given["max_failures"],
            policy=policy,
        )
        draft = wire.draft(
            body,
            owner=settings.owner,
            timezone=zone,
            target=settings.default_target,
            max_failures=settings.max_failures,
            default=service.default_policy,
            via="cli",
            by=settings.owner,
        )
        added = await service.set(draft, on_conflict=given["on_conflict"])
        await _warn(service, added)
        return added, await service.now()

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


def _payload(given: str | None) -> Raw:
    if given is None:
        return Raw(b"{}")
    try:
        if given == "-":
            given = sys.stdin.read()
        elif given.startswith("@"):
            given = Path(given[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"it cannot be read ({error})", field="payload") from None
    return Raw(given.strip().encode())


async def _warn(service: Service, added: Added) -> None:
    name = added.alarm.target
    if not (await service.targets()).get(name):
        click.echo(f"note: no running worker serves {name!r} yet; start one with: wakeful serve", err=True)


def _tell(added: Added, now: datetime) -> None:
    alarm = added.alarm
    shown: dict[str, Any] = wire.view(alarm) | {"when": words(alarm), "now": now}
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
