"""`at` and `every`: set an alarm, and hear in words how it was understood."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, get_args

import click
import msgspec
from msgspec.structs import replace

from wakeful.cli.context import Command, asked
from wakeful.cli.fields import field_options, payload_of, policy_options, with_options, words_of
from wakeful.cli.output import clean, next_fire, schedule_of, tell_notes
from wakeful.cli.output import words as in_words
from wakeful.cli.times import ShellZone, own_zone
from wakeful.clock import SystemClock
from wakeful.errors import InvalidRequest, InvalidSchedule
from wakeful.model.alarm import Alarm, Fire, Kind
from wakeful.model.requests import CreateRequest, OnConflict, PolicyRequest
from wakeful.process.application import LocalWakeful, Wakeful
from wakeful.rules.wanted import decode
from wakeful.runtime.os_signals import ending_run
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
def at_command(words: tuple[str, ...], wait: bool, **options: Any) -> int:
    """Set an alarm that fires once.

    WHEN is a phrase ("tomorrow at 9am"), a duration ("in 30m" or just 30m), an ISO time, or unix seconds. Without
    quotes, the longest beginning that is a time is the time, and the rest is the message.

    \b
      wakeful at "tomorrow at 9am" Check the grant portal
      wakeful at 30m "Tea is ready" --to phone
      wakeful at 2030-01-01T09:00:00Z "Happy new year" --payload '{"page": 3}'
    """
    return _set("once", words, options, wait=wait)


@click.command("every", cls=Command)
@click.argument("words", nargs=-1, required=True, metavar="SCHEDULE MESSAGE…")
@_options
def every_command(words: tuple[str, ...], **options: Any) -> None:
    """Set an alarm that fires again and again.

    SCHEDULE is a phrase, with or without "every" in front, cron with 5 or 6 fields, @daily and its kin,
    @every 90m, or a recurrence rule (RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=TU;BYHOUR=9).

    \b
      wakeful every "weekday at 9am" Morning brief --to ops --tz Europe/Berlin
      wakeful every 15m "Look at the queue"
      wakeful every "0 9 * * 1-5" "Morning brief"
    """
    _set("cron", words, options)


def _set(kind: Kind, words: tuple[str, ...], options: dict[str, Any], *, wait: bool = False) -> int:
    policy = PolicyRequest(**{name: options.pop(name) for name in PolicyRequest.__struct_fields__})  # None: not said
    named = options.pop("timezone")
    zone = asked().zone(named)
    text, message = _read(kind, words, zone.name, SystemClock().now())
    payload = payload_of(options.pop("payload"))

    async def do(alarms: Wakeful) -> tuple[Created, datetime, Fire | None, ShellZone]:
        now = await alarms.now()
        own = zone if named else await own_zone(alarms, zone)
        wanted = CreateRequest(
            wake_message=message, when=text, timezone=own.name, payload=payload, policy=policy, **options
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


# `at --wait`: stay until the alarm has fired and what became of that is known.

EVERY: Final = 0.1  # seconds between two looks
GOOD: Final = ("waiting", "delivered", "completed", "working")
_OPEN: Final = ("retrying",)  # another attempt follows
_PENDING: Final = ("active", "paused")


async def settled(alarms: Wakeful, alarm: Alarm) -> Fire | None:
    """The fire of a one-shot alarm once it is delivered or given up; None where the alarm ended without one."""
    async with _delivering(alarms, alarm):
        moment = asked().output.when(alarm.next_fire_at, await alarms.now())
        click.echo(f"note: waiting until it fires: {moment}; Ctrl-C ends the waiting, not the alarm", err=True)
        while True:
            now = await alarms.get(alarm.id)
            fires = await alarms.fires(alarm.id, limit=1)
            if fires and fires[0].status not in _OPEN:
                return fires[0]
            if now.status not in _PENDING:
                return None
            await SystemClock().sleep(EVERY)


@contextlib.asynccontextmanager
async def _delivering(alarms: Wakeful, alarm: Alarm) -> AsyncIterator[None]:
    """Deliver in this process where no worker does: otherwise the waiting would have no end."""
    # Whoever answers us at a server delivers there as well.
    if not isinstance(alarms, LocalWakeful) or (await alarms.service.targets.served()).get(alarm.target):
        yield
        return
    click.echo("note: no worker is running on this database: this command delivers while it waits", err=True)
    await alarms.check_targets()
    running = asyncio.create_task(alarms.dispatcher.run(), name="wakeful dispatcher")
    try:
        with ending_run():  # what it has started is ended too
            yield
    finally:
        alarms.dispatcher.stop()
        await asyncio.wait((running,))
    running.result()


def outcome(fire: Fire | None) -> str:
    """What became of it, in words."""
    if fire is None:
        return "it ended without firing"
    said = fire.last_error or fire.result or fire.reason
    where = " in the inbox; `wakeful wait` takes it" if fire.status == "waiting" else ""
    return f"{fire.status}{where}" + (f": {clean(said)}" if said else "")


# `at tomorrow at 5pm call mum`: where the time ends and the message begins, when a shell has taken the quotes away.

LONGEST: Final = 20  # words of a time that are looked at
SUFFIX: Final = 6  # words at the end of a message that may be a time
# What a text means as a time; empty where it is not one.
Meaning = Callable[[str], str]
_GOING_ON: Final = ("at", "on", "in", "from", "next", "every", "until")  # with these a time would go on
_PARTS_OF_A_DAY: Final = ("morning", "afternoon", "evening", "night")


def split(words: Sequence[str], command: str, meaning: Meaning) -> tuple[str, str]:
    """The time and the message. InvalidSchedule, with both ways to quote it, where there are two readings.

    A word with a space in it was quoted: it is a whole time or a whole part of the message, never a piece of one.
    """
    if not words:
        raise InvalidRequest("a time and a message are needed", field="WHEN", fix=_example(command))
    if _was_quoted(words[0]):
        return words[0], _message(words[1:], words[0], command)
    loose = next((at for at, word in enumerate(words) if _was_quoted(word)), len(words))
    lengths = [count for count in range(1, min(loose, LONGEST) + 1) if meaning(" ".join(words[:count]))]
    if not lengths:
        return words[0], " ".join(words[1:])  # it is refused as it is read, with the forms that work
    lengths = _without_echo(words, lengths, meaning)
    longest = lengths[-1]
    time, rest = " ".join(words[:longest]), words[longest:]
    message = _message(rest, time, command)
    if other := _other_reading(words[:loose], lengths):
        _refuse(command, (time, message), other)
    if loose == len(words) and len(rest) > 1:
        _check_message(command, time, rest, meaning)
    return time, message


def _was_quoted(word: str) -> bool:
    return len(word.split()) != 1


def _message(words: Sequence[str], time: str, command: str) -> str:
    if not words:
        example = f'For example: wakeful {command} {shlex.quote(time)} "Look at the mail"'
        raise InvalidRequest(f"{time!r} is the time, and nothing is left to say", field="MESSAGE", fix=example)
    return " ".join(words)


def _without_echo(words: Sequence[str], lengths: list[int], meaning: Meaning) -> list[int]:
    """`weekday at 9am morning brief`: what only says again that 9am is in the morning is left to the message."""
    *shorter, longest = lengths
    if not shorter or shorter[-1] != longest - 1 or words[longest - 1].lower() not in _PARTS_OF_A_DAY:
        return lengths
    before, after = " ".join(words[: longest - 1]), " ".join(words[:longest])
    has_clock = any(sign.isdigit() for sign in before)
    return shorter if has_clock and meaning(before) == meaning(after) else lengths


def _other_reading(words: Sequence[str], lengths: Sequence[int]) -> tuple[str, str] | None:
    """`july 4 2090 budget`: a year, or a budget's? A bare number at the end of a time may belong to the message."""
    longest = lengths[-1]
    is_bare = words[longest - 1].isdigit() and longest > 1 and words[longest - 2].lower() not in ("at", "in", "on")
    if not is_bare or len(lengths) < 2 or longest == len(words):
        return None
    shorter = lengths[-2]
    return " ".join(words[:shorter]), " ".join(words[shorter:])


def _check_message(command: str, time: str, rest: Sequence[str], meaning: Meaning) -> None:
    """Refuse a message that begins or ends with what could belong to the time."""
    for at in range(max(1, len(rest) - SUFFIX), len(rest)):
        later = " ".join(rest[at:])
        if meaning(f"{time} {later}"):
            _refuse(command, (time, " ".join(rest)), (f"{time} {later}", " ".join(rest[:at])))
    goes_on = rest[0].lower() in _GOING_ON or any(sign.isdigit() for sign in rest[0])
    for count in range(min(len(rest) - 1, SUFFIX) if goes_on else 0, 0, -1):
        first = " ".join(rest[:count])
        if meaning(first):
            _refuse(command, (time, " ".join(rest)), (first, " ".join(rest[count:])))


def _refuse(command: str, *readings: tuple[str, str]) -> None:
    shown = [f"wakeful {command} {_quoted(time)} {_quoted(message)}" for time, message in readings]
    raise InvalidSchedule(
        "this can be read in two ways",
        field="when",
        fix=f"Put quotes around the time and the message: {' or '.join(shown)}",
    )


def _quoted(text: str) -> str:
    return f'"{text}"' if text.isprintable() and not set(text) & set('"\\$`!') else shlex.quote(text)


def _example(command: str) -> str:
    time = "tomorrow at 9am" if command == "at" else "weekday at 9am"
    return f'For example: wakeful {command} "{time}" "Look at the mail"'


# `set`: set many alarms from a file, all of them or none.


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
        return made, await alarms.now()

    _tell_all(*asked().run(do, creates=True))


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


def _tell_all(made: list[Created], now: datetime) -> None:
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
