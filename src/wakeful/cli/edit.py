"""`edit`: change an alarm by flags, or in your editor."""

from __future__ import annotations

import json
import tempfile
import tomllib
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import click
from msgspec import Raw

from wakeful.cli.context import Command, asked
from wakeful.cli.fields import example_of, field_options, payload_of, with_options
from wakeful.cli.output import clean, local, next_fire, tell_notes, words
from wakeful.errors import InvalidRequest, StaleVersion
from wakeful.model.alarm import Alarm, Policy
from wakeful.model.requests import EditRequest, PolicyRequest
from wakeful.process.application import Wakeful
from wakeful.rules.create import POLICY_COUNTS, POLICY_LENGTHS
from wakeful.rules.wanted import ATTRIBUTES, EDITABLE, request_of
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
def edit_command(id: str, policies: tuple[str, ...], version: int | None, **options: Any) -> None:
    """Change an alarm: by flags, or in your editor.

    Without flags it opens $VISUAL, $EDITOR or vi on the alarm as TOML. What is not changed stays as it is. Where
    somebody else has changed the alarm meanwhile nothing is written, and the exit status is 4.
    """
    said = {name: value for name, value in options.items() if value is not None}
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


# An alarm as a text that somebody edits, in TOML, and what is different in it afterwards. Pure.

_RENAMED: Final = {"wake_message": "message", "conversation_id": "conversation"}
# In the file → in a request.
FIELDS: Final = {_RENAMED.get(name, name): name for name in ("when", "kind", "timezone", *EDITABLE) if name != "policy"}
_ABOUT: Final = {
    "when": 'A phrase ("tomorrow at 9am"), "in 20m", an ISO time or cron. Changing it starts the alarm anew.',
    "kind": "once, or cron for a series. Change it together with `when`, where a series is to fire once, or back.",
    "payload": "JSON, as text. It comes back with the wake.",
    "max_failures": "How often a failed delivery is tried again.",
}


def text_of(alarm: Alarm) -> str:
    """What there is to edit, with comments."""
    lines = [
        f"# Alarm {alarm.id} of {_comment(alarm.owner_did)}, {alarm.status}, version {alarm.version}.",
        "# Change what is to be different, save and close. What you leave as it is stays as it is.",
        "# An empty file changes nothing.",
        "",
    ]
    for name, value in _values(alarm).items():
        lines += [f"# {_ABOUT[name]}"] if name in _ABOUT else []
        lines.append(f"{name} = {_toml(value)}")
    lines += ["", "# A line that is taken out of here is as the settings say.", "[policy]"]
    for name, value in policy_values(alarm.policy).items():
        lines.append(
            f"# {name} = {_toml(example_of(PolicyRequest, name))}" if value is None else f"{name} = {_toml(value)}"
        )
    return "\n".join(lines) + "\n"


def _values(alarm: Alarm) -> dict[str, Any]:
    when = alarm.cron_expr if alarm.fire_at is None else local(alarm.fire_at, alarm.timezone)
    return {shown: when if name == "when" else getattr(alarm, ATTRIBUTES[name]) for shown, name in FIELDS.items()}


def policy_values(policy: Policy) -> dict[str, Any]:
    """A policy as a request names it; None where nothing is set."""
    found: dict[str, Any] = {}
    for name in PolicyRequest.__struct_fields__:
        value = getattr(policy, name)
        if isinstance(value, datetime):
            value = value.isoformat()
        elif value is not None and name in POLICY_LENGTHS:
            value = f"{int(value)}s" if value >= 1 and value == int(value) else value  # "0s" is not a length
        found[name] = value
    return found


def changed(before: str, after: str) -> dict[str, Any]:
    """The fields of a request that the edited text asks for; empty where nothing is different."""
    new = _read(after)
    if not new:
        return {}
    old = _read(before)
    fields: dict[str, Any] = {}
    for name, value in new.items():
        if name == "policy" or value == old.get(name):
            continue
        if name not in FIELDS:
            raise InvalidRequest("there is no such field", field=name, fix=f"Known are: {', '.join(FIELDS)}, policy.")
        fields[FIELDS[name]] = _payload(value) if name == "payload" else value
    policy = new.get("policy", old["policy"])
    if policy != old["policy"]:
        # A line that was taken out is null: as the settings say.
        fields["policy"] = dict.fromkeys(old["policy"]) | policy
    return fields


def _read(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidRequest(f"it is not TOML ({error})", field="text") from None


def _payload(value: Any) -> Raw:
    if not isinstance(value, str):
        raise InvalidRequest(
            f"{value!r} is not a text", field="payload", fix="Write JSON between quotes: '{\"page\": 3}'."
        )
    return Raw(value.strip().encode())


def _comment(text: str) -> str:
    return json.dumps(text, ensure_ascii=True)[1:-1]


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return str(value)
    if "\n" in value and "\r" not in value:
        return '"""\n' + "\n".join(map(_escaped, value.split("\n"))) + '"""'
    # What JSON is full of reads better between single quotes, where nothing is escaped.
    if '"' in value and "'" not in value and value.isprintable():
        return f"'{value}'"
    return f'"{_escaped(value)}"'


def _escaped(text: str) -> str:
    """For a string between double quotes. Whatever an editor would not show is written out."""
    return "".join(_sign(sign) for sign in text)


def _sign(sign: str) -> str:
    if sign in '"\\':
        return f"\\{sign}"
    return sign if sign.isprintable() else f"\\U{ord(sign):08x}"
