"""The body template of a webhook: JSON whose texts name fields of the wake, such as `{message}` or `{payload.page}`.

It is checked when the settings are read. Values are put in first and encoded afterwards, so nothing in a value can
break out of its place. No field differs between attempts, and so the bytes do not either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct

from wakeful.errors import InvalidConfig, nearest
from wakeful.rules.wake import Wake
from wakeful.targets.text import whose

_PIECE: Final = re.compile(r"\{\{|\}\}|\{(?P<field>[^{}]*)\}|[{}]")
_FIELD: Final = re.compile(r"([a-z_]+)((?:\.[A-Za-z0-9_-]+)*)(?::([1-9][0-9]{0,5}))?")
_SYNTAX: Final = "Write {message}, {payload.page}, or {message:500} for at most 500 characters; a brace is {{ or }}."
_SHOWN: Final = 60  # characters of a text that an error quotes


class ServerFacts(Struct, frozen=True):
    """What a template may say that is not in the wake: whose server this is, and where people reach it."""

    operator: str = ""
    public_url: str = ""

    def link(self, wake: Wake, action: str) -> str:
        """The address of a page on which a person reports on the wake; empty where `public_url` is not set."""
        if not self.public_url:
            return ""
        fire = quote(wake.fire_id, safe="@")
        return f"{self.public_url.rstrip('/')}/r/{fire}/{action}?token={wake.report_token}"


_LINKS: Final = ("done_url", "snooze_url")
_WITH_PATH: Final = ("payload", "signal_payload")
_FIELDS: Final[Mapping[str, Callable[[Wake, ServerFacts], Any]]] = {
    "message": lambda wake, _: wake.message,
    "label": lambda wake, _: wake.label,
    "payload": lambda wake, _: Raw(wake.payload_json.encode()),
    "prompt": lambda wake, _: wake.prompt,
    "from": lambda wake, server: whose(wake.owner_did, wake.alarm.created_by, server.operator),
    "fire_id": lambda wake, _: wake.fire_id,
    "alarm_id": lambda wake, _: wake.alarm_id,
    "owner_did": lambda wake, _: wake.owner_did,
    "user_id": lambda wake, _: wake.user_id,
    "conversation_id": lambda wake, _: wake.conversation_id,
    "created_by": lambda wake, _: wake.alarm.created_by,
    "author": lambda wake, _: wake.author,
    "scheduled_for": lambda wake, _: wake.scheduled_for.isoformat().replace("+00:00", "Z"),
    "number": lambda wake, _: wake.number,
    "signal": lambda wake, _: wake.signal and wake.signal.name,
    "signal_payload": lambda wake, _: wake.signal and Raw(wake.signal.payload_json.encode()),
    "report_url": lambda wake, _: wake.content.report.url,
    "report_token": lambda wake, _: wake.report_token,
    "token": lambda wake, _: wake.token,
    "done_url": lambda wake, server: server.link(wake, "done"),
    "snooze_url": lambda wake, server: server.link(wake, "snooze"),
}
FIELDS: Final = tuple(_FIELDS)


class _Field(Struct, frozen=True):
    """One field in a text. `path`: what is taken out of a payload; `most`: the longest text, 0 for no bound."""

    name: str
    path: tuple[str, ...] = ()
    most: int = 0

    def value(self, wake: Wake, server: ServerFacts) -> Any:
        found = _FIELDS[self.name](wake, server)
        return _at(msgspec.json.decode(found), self.path) if self.path and found is not None else found

    def text(self, wake: Wake, server: ServerFacts, escape: Mapping[int, str]) -> str:
        value = self.value(wake, server)
        text = value if isinstance(value, str) else "" if value is None else msgspec.json.encode(value).decode()
        text = shortened(text, self.most) if self.most else text
        return text.translate(escape) if escape else text


class _Text(Struct, frozen=True):
    """A text with fields. One that is a field and nothing else has that field's value, of whatever type."""

    parts: tuple[str | _Field, ...]

    def filled(self, wake: Wake, server: ServerFacts, escape: Mapping[int, str]) -> Any:
        match self.parts:
            case (_Field(most=0) as only,):
                value = only.value(wake, server)
                return only.text(wake, server, escape) if isinstance(value, str) else value
        return "".join([part if isinstance(part, str) else part.text(wake, server, escape) for part in self.parts])


class Template:
    """`given`: a table of the settings, or JSON in one text. `escape`: how characters of values are written instead."""

    def __init__(self, given: Any, server: ServerFacts, *, field: str = "body", escape: Mapping[int, str] = {}) -> None:
        self._server = server
        self._escape = escape
        try:
            self._body = _compiled(_read(given, field), field, server)
        except RecursionError:
            raise InvalidConfig("it is nested too deeply", field=field) from None

    def fill(self, wake: Wake) -> bytes:
        return msgspec.json.encode(self._filled(self._body, wake))

    def _filled(self, node: Any, wake: Wake) -> Any:
        match node:
            case _Text():
                return node.filled(wake, self._server, self._escape)
            case dict():
                return {key: self._filled(value, wake) for key, value in node.items()}
            case list():
                return [self._filled(value, wake) for value in node]
        return node


def shortened(text: str, most: int) -> str:
    """The text, or its beginning and `…`. Counted as chat services do: a character beyond U+FFFF counts as two."""
    units = text.encode("utf-16-le", "surrogatepass")
    if len(units) <= 2 * most:
        return text
    return units[: 2 * (most - 1)].decode("utf-16-le", "ignore") + "…"


def _read(given: Any, field: str) -> Any:
    if not isinstance(given, str):
        return given
    try:
        return msgspec.json.decode(given)
    except msgspec.DecodeError as error:
        fix = 'Give a table, such as { text = "{message}" }, or JSON in one text.'
        raise InvalidConfig(f"it is not JSON ({error})", field=field, fix=fix) from None


def _compiled(node: Any, field: str, server: ServerFacts) -> Any:
    match node:
        case str():
            return _parsed(node, field, server)
        case dict():
            return {key: _compiled(value, f"{field}.{key}", server) for key, value in node.items()}
        case list():
            return [_compiled(value, field, server) for value in node]
    return node


def _parsed(text: str, field: str, server: ServerFacts) -> Any:
    parts: list[str | _Field] = []
    begin = 0
    for found in _PIECE.finditer(text):
        parts.append(text[begin : found.start()])
        begin = found.end()
        if found["field"] is not None:
            parts.append(_field(found["field"], field, server))
        elif found[0] in ("{{", "}}"):
            parts.append(found[0][0])
        else:
            raise InvalidConfig(f"a brace in {text[:_SHOWN]!r} stands alone", field=field, fix=_SYNTAX)
    parts.append(text[begin:])
    kept = tuple(part for part in parts if part != "")
    return _Text(kept) if any(isinstance(part, _Field) for part in kept) else "".join(map(str, kept))


def _field(written: str, field: str, server: ServerFacts) -> _Field:
    found = _FIELD.fullmatch(written)
    if found is None:
        raise InvalidConfig(f"{{{written[:_SHOWN]}}} is not a field", field=field, fix=_SYNTAX)
    name, path, most = found[1], tuple(found[2].split(".")[1:]), int(found[3] or 0)
    if name not in _FIELDS:
        fix = f"{nearest(name, FIELDS)} There are: {', '.join(FIELDS)}.".strip()
        raise InvalidConfig(f"a wake has no field {{{name[:_SHOWN]}}}", field=field, fix=fix)
    if path and name not in _WITH_PATH:
        fix = f"Only {' and '.join(_WITH_PATH)} have parts."
        raise InvalidConfig(f"{{{written[:_SHOWN]}}}: {name} has no parts", field=field, fix=fix)
    if name in _LINKS and not server.public_url:
        fix = "Set public_url to the address at which people reach this server."
        raise InvalidConfig(f"{{{name}}} needs the setting public_url", field=field, fix=fix)
    return _Field(name, path, most)


def _at(value: Any, path: tuple[str, ...]) -> Any:
    """What stands at a path in a payload; None where nothing does."""
    for step in path:
        match value:
            case dict():
                value = value.get(step)
            case list() if step.isdecimal() and int(step) < len(value):
                value = value[int(step)]
            case _:
                return None
    return value
