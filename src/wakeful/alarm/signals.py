"""A signal, and the names it may have. What it does to an alarm is decided in signalling.py. Pure."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from wakeful.alarm.model import Policy
from wakeful.errors import InvalidRequest

SIGNAL_PAYLOAD_LIMIT: Final = 16 * 1024
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")


class Signal(Struct, frozen=True, kw_only=True):
    """Something that happened: its name, and JSON for the wakes it makes."""

    name: str
    payload_json: str = "null"


def by_signal(name: str | None) -> str:
    """The reason on record of what a signal did."""
    return f"the signal {name!r}"


def check_signal_name(name: str, field: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"{name[:120]!r} is not a name of a signal",
            field=field,
            fix="Use letters, digits and . _ : - behind a letter or a digit, at most 100 characters.",
        )


def check_signals(policy: Policy) -> None:
    """Refuse names that no signal can have, and one signal that would both cancel and fire."""
    for name in ("unless", "or_when"):
        if (signal := getattr(policy, name)) is not None:
            check_signal_name(signal, f"policy.{name}")
    if policy.unless is not None and policy.unless == policy.or_when:
        raise InvalidRequest(
            f"{policy.or_when!r} would cancel it as well, by `unless`",
            field="policy.or_when",
            fix="Give two different names, or leave one out.",
        )
