"""`edit`: change an alarm by flags, or in your editor."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from typing import Any, Final

import click

from wakeful.alarm import Alarm
from wakeful.alarm.create import POLICY_COUNTS
from wakeful.alarm.request import EditRequest, PolicyRequest, request_of
from wakeful.cli.context import Command, asked
from wakeful.cli.edit_text import changed, text_of
from wakeful.cli.fields import field_options, payload_of, with_options
from wakeful.cli.output import clean, next_fire, tell_notes, words
from wakeful.errors import InvalidRequest, StaleVersion
from wakeful.process.application import Wakeful
from wakeful.service import Changed, views

_MARK: Final = "# error: "
_TIME: Final = {"when", "fire_at", "delay_seconds", "cron_expr", "timezone"}


_fields: Final = with_options(
    *field_options(tz="The IANA zone in which its time is understood.", to="Where its wakes go.")
)


@click.command("edit", cls=Command)
@click.argument("id")
@click.option("--when", help="When it fires: a phrase, a duration, an ISO time or cron. Starts the alarm anew.")
@click.option(
    "--kind",
    type=click.Choice(["once", "cron"]),
    help="With --when: what the time is. Needed where a series is to fire once, or the other way round.",
)
@click.option("--message", "wake_message", help="What the wake says.")
@_fields
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME=VALUE",
    help="One field of its policy; nothing after the = takes it out. May be repeated.",
)
@click.option("--version", type=int, metavar="N", help="Only if it still is at this version.")
def edit_command(id: str, policies: tuple[str, ...], version: int | None, **given: Any) -> None:
    """Change an alarm: by flags, or in your editor.

    Without flags it opens $VISUAL, $EDITOR or vi on the alarm as TOML. What is not changed stays as it is. Where
    somebody else has changed the alarm meanwhile nothing is written, and the exit status is 4.
    """
    said = {name: value for name, value in given.items() if value is not None}
    if said or policies:
        done = asked().run(lambda alarms: _by_flags(alarms, id, said, policies, version))
        _tell(done.alarm, done)
    else:
        _tell(*asked().run(lambda alarms: _in_editor(alarms, id, version)))


async def _by_flags(
    alarms: Wakeful, id: str, said: dict[str, Any], policies: tuple[str, ...], version: int | None
) -> Changed:
    alarm = await alarms.get(id)
    if "payload" in said:
        said["payload"] = payload_of(said["payload"])
    if policies:
        said["policy"] = dict(map(_pair, policies))
    return await _edited(alarms, alarm.id, said, version)


async def _edited(alarms: Wakeful, id: str, fields: dict[str, Any], version: int | None) -> Changed:
    done = await alarms.edit(id, request_of(EditRequest, fields), version=version)
    tell_notes(done.notes)
    return done


def _pair(given: str) -> tuple[str, Any]:
    name, named, value = given.partition("=")
    name = name.strip().replace("-", "_")
    if name not in PolicyRequest.__struct_fields__ or not named:
        known = ", ".join(PolicyRequest.__struct_fields__)
        raise InvalidRequest(
            f"{given!r} is not understood", field="--policy", fix=f"Give NAME=VALUE; names are: {known}."
        )
    if not value:
        return name, None
    if name == "cost_per_day":
        with suppress(ValueError):
            return name, float(value)
    return name, int(value) if name in POLICY_COUNTS and value.isdigit() else value


async def _in_editor(alarms: Wakeful, id: str, version: int | None) -> tuple[Alarm, Changed | None]:
    """The alarm, and what changed it; None where nothing did."""
    alarm = await alarms.get(id)
    before = text = text_of(alarm)
    while True:
        edited = click.edit(text, extension=".toml")
        if edited is None or _without_errors(edited) == _without_errors(text) != before:
            raise InvalidRequest("nothing was changed: the text was not saved again", field="text")
        text = edited
        try:
            fields = changed(before, text)
            if not fields:
                return alarm, None
            done = await _edited(alarms, alarm.id, fields, version or alarm.version)
            return done.alarm, done
        except StaleVersion as error:
            raise _with_text(error, text) from None
        except InvalidRequest as error:
            text = f"{_MARK}{clean(str(error))}\n{_without_errors(text)}"


def _without_errors(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith(_MARK)) + "\n"


def _with_text(error: StaleVersion, text: str) -> StaleVersion:
    """What somebody wrote is not thrown away."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml", prefix="wakeful-edit-", delete=False) as file:
        file.write(text)
    return StaleVersion(error.message, field=error.field, fix=f"What you wrote is in {file.name}. Edit it anew.")


def _tell(alarm: Alarm, done: Changed | None) -> None:
    under_way = done is not None and done.in_flight
    out = asked().output
    out.record(
        {
            "id": out.id(alarm.id),
            "version": str(alarm.version) if done is not None else f"{alarm.version}: nothing was changed",
            "when": words(alarm),
            **(next_fire(alarm, out) if alarm.status == "active" else {}),
            "target": alarm.target,
            "note": "one attempt is under way and may still arrive as it was" if under_way else "",
        },
        views.view(alarm) | {"when": words(alarm), "changed": done is not None, "in_flight": under_way},
    )
