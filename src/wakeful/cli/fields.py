"""The fields of a request as options of the command line: `at`, `every` and `edit` take them from its declaration."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import click
from msgspec import UNSET, Raw, Struct, UnsetType

from wakeful.errors import InvalidRequest
from wakeful.model.requests import CreateRequest, PolicyRequest
from wakeful.rules.wanted import EDITABLE

Option = Callable[[Callable[..., Any]], Callable[..., Any]]
# Fields that are an argument, an option of another name, or an option for each of their parts.
_NAMED_OTHERWISE: Final = ("wake_message", "payload", "target", "conversation_id", "policy")


def with_options(*options: Option) -> Option:
    """All of them, in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def field_options(*, tz: str, to: str) -> list[Option]:
    return [
        click.option("--to", "target", metavar="TARGET", help=to),
        click.option("--payload", metavar="JSON|@FILE|-", help="State to hand back with the wake; - reads stdin."),
        click.option("--tz", "timezone", metavar="ZONE", help=tz),
        click.option("--conversation", "conversation_id", help=words_of(CreateRequest, "conversation_id")),
        *(
            click.option(_flag(CreateRequest, name), help=words_of(CreateRequest, name), **_form(CreateRequest, name))
            for name in EDITABLE
            if name not in _NAMED_OTHERWISE
        ),
    ]


def policy_options() -> list[Option]:
    return [
        click.option(_flag(PolicyRequest, name), help=words_of(PolicyRequest, name), **_form(PolicyRequest, name))
        for name in PolicyRequest.__struct_fields__
    ]


@cache
def _hints(request: type[Struct]) -> dict[str, Any]:
    """Worked out once: there is an option for each field."""
    return get_type_hints(request, include_extras=True)


@cache
def _plain_hints(request: type[Struct]) -> dict[str, Any]:
    return get_type_hints(request)


def words_of(request: type[Struct], name: str) -> str:
    """What a field is for, as every interface says it."""
    [meta, *_] = _hints(request)[name].__metadata__
    return str(meta.description)


def example_of(request: type[Struct], name: str) -> Any:
    """One value that a field takes, as every interface shows it."""
    [meta, *_] = _hints(request)[name].__metadata__
    return meta.examples[0]


def _flag(request: type[Struct], name: str) -> str:
    option = name.replace("_", "-")
    is_bool = bool in get_args(_plain_hints(request)[name])
    return f"--{option}/--not-{option}" if is_bool else f"--{option}"


def _form(request: type[Struct], name: str) -> dict[str, Any]:
    """What a field of a request takes, on the command line."""
    kind = get_args(_plain_hints(request)[name])
    if bool in kind:
        return {"default": None}
    if request is CreateRequest:
        return {"type": int, "metavar": "N"} if int in kind else {}
    if all(isinstance(one, str) for one in get_args(kind[0])) and get_args(kind[0]):
        return {"type": click.Choice(get_args(kind[0]))}
    if int in kind:
        return {"type": click.IntRange(1, 2**31 - 1)}
    if float in kind and str not in kind:
        return {"type": float, "metavar": "NUMBER"}
    if float not in kind:
        return {"metavar": "NAME"}
    return {"metavar": "TIME" if name.endswith("_at") else "DURATION"}


def payload_of(given: str | None) -> Raw | UnsetType:
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
