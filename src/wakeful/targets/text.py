"""Make foreign text safe to store and to print."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from wakeful.runtime.logs import printable

NAME_LIMIT: Final = 200


def storable(text: str, limit: int) -> str:
    """The text as it is, but for NUL and broken surrogates, which no database takes."""
    text = text[:limit]
    if text.isprintable():
        return text
    return text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")


def one_line(text: str, limit: int) -> str:
    """The text with everything that does not print escaped: line breaks, terminal codes, direction marks."""
    return printable(text[:limit])


def without(text: str, secrets: Iterable[str]) -> str:
    """The text with secrets blotted out. Very short ones are left: they would blot out half the language."""
    for secret in secrets:
        if len(secret) >= 6:
            text = text.replace(secret, "[hidden]")
    return text


def whose(owner: str, by: str, operator: str) -> str:
    """Who set an alarm, for people who read its words: `[ada, by laptop] `, or nothing for the operator's own.

    It stands before the message: services cut off the end of what is long, and a message may claim anything.
    """
    if operator and owner == operator and (by in ("", operator) or by.startswith(f"{operator} (")):
        return ""
    owner, by = one_line(owner, NAME_LIMIT), one_line(by, NAME_LIMIT)
    return f"[{owner}, by {by}] " if by else f"[{owner}] "


def described(error: BaseException, limit: int) -> str:
    """An exception in one line: its name and what it says, if it can say it."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:
        return name
    return one_line(f"{name}: {text}", limit) if text else name
