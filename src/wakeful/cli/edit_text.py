"""An alarm as a text that somebody edits, in TOML, and what is different in it afterwards. Pure."""

from __future__ import annotations

import json
import tomllib
from datetime import datetime
from typing import Any, Final

from msgspec import Raw

from wakeful.alarm import Alarm, Policy
from wakeful.alarm.create import POLICY_LENGTHS
from wakeful.alarm.request import ATTRIBUTES, EDITABLE, PolicyRequest
from wakeful.cli.fields import example_of
from wakeful.cli.output import local
from wakeful.errors import InvalidRequest

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
