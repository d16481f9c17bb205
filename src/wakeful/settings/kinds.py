"""Kinds of target: wakeful's own, those that other packages register, and classes that settings name themselves."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import Any, Final

from msgspec import Struct

from wakeful.errors import InvalidConfig

ENTRY_POINTS: Final = "wakeful.targets"
_CALLBACKS: Final = "wakeful.http.routes.callbacks"
_LINKS: Final = "wakeful.http.routes.links:LINKS"  # pages on which people report
_PLACE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


class TargetKind(Struct, frozen=True):
    """A kind of target. `read_as_words`: by people, and by other people's agents (see rules/users.py).

    `callbacks`: the HTTP operations with which its platform tells the outcome, `package.module:NAME`. They are served
    where a target of this kind is configured.
    """

    place: str  # imported only when configured: some bring heavy libraries along
    read_as_words: bool = False
    concurrency: int | None = None  # in place of the setting, where a target does not say
    callbacks: str = ""


TARGET_KINDS: Final = {
    "webhook": TargetKind("wakeful.targets.webhook:Webhook", callbacks=_LINKS),
    "router": TargetKind("wakeful.targets.router:Router"),
    "table": TargetKind("wakeful.targets.table:TableTarget", read_as_words=True),
    "notify": TargetKind("wakeful.targets.notify:Notify", read_as_words=True),
    "slack": TargetKind("wakeful.targets.chat:slack", read_as_words=True, callbacks=_LINKS),
    "discord": TargetKind("wakeful.targets.chat:discord", read_as_words=True, callbacks=_LINKS),
    "telegram": TargetKind("wakeful.targets.chat:telegram", read_as_words=True, callbacks=_LINKS),
    "ntfy": TargetKind("wakeful.targets.chat:ntfy", read_as_words=True, callbacks=_LINKS),
    "inbox": TargetKind("wakeful.targets.inbox:Inbox"),
    "command": TargetKind("wakeful.targets.command:Command", read_as_words=True, concurrency=4),
    # An agent there reads the message, in a conversation that any alarm can name.
    "langgraph": TargetKind(
        "wakeful.targets.langgraph:LangGraph", read_as_words=True, callbacks=f"{_CALLBACKS}:LANGGRAPH"
    ),
    "a2a": TargetKind("wakeful.targets.a2a:A2A", read_as_words=True, callbacks=f"{_CALLBACKS}:A2A"),
    "openai_session": TargetKind(
        "wakeful.targets.openai_session:OpenAISession", read_as_words=True, callbacks=f"{_CALLBACKS}:OPENAI_SESSION"
    ),
}


def kind_names() -> list[str]:
    """Return the names of all kinds that are installed."""
    return [*TARGET_KINDS, *sorted(_registered())]


def is_kind(name: str) -> bool:
    """Return whether settings may name this kind. A class that is named in place is not imported for that."""
    return name in TARGET_KINDS or _PLACE.fullmatch(name) is not None or name in _registered()


@cache
def target_kind(name: str, field: str = "kind") -> TargetKind:
    """Return a kind by its name; `field` is the setting that names it.

    One of another package says about itself what `TargetKind` says of wakeful's own.
    Unless its class has `read_as_words = False`, only the operator may use such a target until `owners` says more.
    """
    if name in TARGET_KINDS:
        return TARGET_KINDS[name]
    place = _registered().get(name, name)
    found = named(place, field=field)
    return TargetKind(
        place,
        read_as_words=bool(getattr(found, "read_as_words", True)),
        concurrency=getattr(found, "concurrency", None),
        callbacks=str(getattr(found, "callbacks", "")),
    )


def named(place: str, *, field: str) -> Any:
    """Import what `package.module:NAME` names."""
    module, _, name = place.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InvalidConfig(
            f"{place} cannot be imported: {error}", field=field, fix="Install its package where wakeful runs."
        ) from None


@cache
def _registered() -> dict[str, str]:
    """The kinds of other packages, and where each is."""
    from importlib.metadata import entry_points  # it takes longer to import than a command of the shell to run

    return {point.name: point.value for point in entry_points(group=ENTRY_POINTS)}
