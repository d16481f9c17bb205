"""JSON schemas of the tools' types, as short as they can be: every conversation of an agent pays for them."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct


def given(value: Struct) -> dict[str, Any]:
    """The fields that were given, by their names in Python."""
    fields = {name: getattr(value, name) for name in value.__struct_fields__}
    return {name: found for name, found in fields.items() if found is not UNSET}


_ANY: Final = {"anyOf": [{"type": name} for name in ("object", "array", "string", "number", "boolean")]}


@cache
def schema(kind: type[Struct]) -> dict[str, Any]:
    """The JSON schema of a type in one piece: no references, no titles. Made once: nobody changes it."""
    made = msgspec.json.schema(kind)
    parts = made.pop("$defs")
    found: dict[str, Any] = _inlined(made, parts)
    return found


def _inlined(node: Any, parts: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inlined(item, parts) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        more = {name: value for name, value in node.items() if name != "$ref"}
        return _inlined(parts[node["$ref"].rpartition("/")[2]], parts) | more
    shown = {name: _inlined(value, parts) for name, value in node.items() if not _noise(name, value)}
    if "enum" in shown:
        shown.setdefault("type", "string")
    kinds = shown.get("anyOf")
    if isinstance(kinds, list) and all(set(kind) == {"type"} for kind in kinds):
        shown["type"] = _one_type([kind["type"] for kind in shown.pop("anyOf")])
    if isinstance(shown.get("properties"), dict):
        shown["properties"] = {name: value or _ANY for name, value in shown["properties"].items()}
    return shown


def _one_type(kinds: list[str]) -> Any:
    """Return the type that agents see. A text says whatever a number does, and some clients know only single types."""
    return "string" if set(kinds) == {"string", "number"} else kinds


# What an agent does not need to be told in advance: it costs context in every conversation, and our refusals say it.
_SAID_BY_REFUSALS: Final = frozenset({"minLength", "maxLength", "minItems", "minimum", "exclusiveMinimum"})
_NO_BOUND: Final = 2**31 - 1


def _noise(name: str, value: Any) -> bool:
    if name in _SAID_BY_REFUSALS or (name == "maximum" and value == _NO_BOUND):
        return not isinstance(value, dict)
    if name in ("default", "required"):
        return value in ("", [], {}, 0, None, False)
    return name == "title" and isinstance(value, str)
