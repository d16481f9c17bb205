"""Decide who may use a target, and which chats an owner may write to. Pure.

A wake to a webhook, a router, a handler or the inbox says whose it is, and only a program reads it. A row in a table or
a notification is read as words, by people and by other people's agents: it is for the operator alone until `owners`
says more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from wakeful.errors import InvalidRequest
from wakeful.model.alarm import TASKS, Alarm
from wakeful.model.limits import EVERYONE

ANYONE: Final = frozenset({EVERYONE})
NOT_YOURS: Final = "its owner is not allowed to use this target"


class Users(Struct, frozen=True, kw_only=True):
    """The owners who may use a target."""

    owners: frozenset[str] = ANYONE
    task_owners: frozenset[str] = ANYONE  # whose tasks of `scheduled_tasks` may go there
    operator: str = ""
    chats: Mapping[str, Sequence[str]] = {}  # of each owner; empty: nobody is kept from any
    is_chat: bool = False  # whether the conversation of every wake is a chat, not only that of a task

    def may_use(self, owner: str, *, via: str = "") -> bool:
        owners = self.task_owners if via == TASKS else self.owners
        return owner in owners or EVERYONE in owners

    def may_write(self, owner: str, chat: str, *, via: str = "") -> bool:
        """Return whether an owner may write to a chat. An alarm without a chat is always allowed."""
        if not self.chats or not chat or not (self.is_chat or via == TASKS):
            return True
        if owner == self.operator and owner not in self.chats:
            return True
        return any(_fits(chat, pattern) for name in (owner, EVERYONE) for pattern in self.chats.get(name, ()))

    def check_chat(self, owner: str, chat: str, *, via: str = "") -> None:
        if not self.may_write(owner, chat, via=via):
            raise InvalidRequest(
                f"this owner is not allowed to write to the chat {chat[:60]!r}", field="conversation_id", fix=CHAT_FIX
            )

    def refusal(self, alarm: Alarm) -> str:
        """Return why a due alarm must not be delivered, or nothing: the settings may have changed since it was set."""
        if not self.may_use(alarm.owner_did, via=alarm.created_via):
            return f"not delivered: {NOT_YOURS}"
        if not self.may_write(alarm.owner_did, alarm.conversation_id, via=alarm.created_via):
            return "not delivered: its owner is not allowed to write to this chat"
        return ""


CHAT_FIX: Final = "Name a chat of this owner's; the operator lists them in the setting `chats`."


def _fits(chat: str, pattern: str) -> bool:
    head, star, tail = pattern.partition(EVERYONE)
    if not star:
        return chat == pattern
    return len(chat) >= len(head) + len(tail) and chat.startswith(head) and chat.endswith(tail)
