"""A signal, and the names it may have. What it does to an alarm is decided in signalling.py. Pure."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from wakeful.errors import InvalidRequest
from wakeful.model.alarm import Alarm, Policy
from wakeful.schedule import zone
from wakeful.schedule.interval import span_words

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
    """Refuse names that no signal can have, one signal for both, and what says how a signal counts without one."""
    for name in ("unless", "or_when"):
        if (signal := getattr(policy, name)) is not None:
            check_signal_name(signal, f"policy.{name}")
    if policy.unless is not None and policy.unless == policy.or_when:
        raise InvalidRequest(
            f"{policy.or_when!r} would cancel it as well, by `unless`",
            field="policy.or_when",
            fix="Give two different names, or leave one out.",
        )
    for name in ("unless_since", "rearm"):
        if getattr(policy, name) is not None and policy.unless is None:
            raise InvalidRequest(
                "it says what the signal named in `unless` does, and none is named",
                field=f"policy.{name}",
                fix=f"Name the signal in policy.unless, or leave {name} out.",
            )
    if policy.rearm is not None and policy.unless_since is not None:
        raise InvalidRequest(
            "with `rearm` every signal counts, whenever it comes",
            field="policy.unless_since",
            fix="Leave out unless_since or rearm.",
        )


def check_rearm(alarm: Alarm) -> None:
    """Refuse `rearm` on a series: its times come from its schedule."""
    if alarm.policy.rearm is None or alarm.kind == "once":
        return
    raise InvalidRequest(
        "a signal moves an alarm that fires once, and this is a series, whose times come from its schedule",
        field="policy.rearm",
        fix='Give one time, such as "in 15 minutes"; or leave rearm out: then the signal skips the next fire.',
    )


def signal_notes(alarm: Alarm) -> list[str]:
    """What the signals that an active alarm waits for will do to it, in words."""
    policy = alarm.policy
    if alarm.status != "active":
        return []
    notes = [f"The signal {policy.or_when!r} fires it at once."] if policy.or_when else []
    return [*notes, _unless_note(alarm, policy.unless)] if policy.unless else notes


def _unless_note(alarm: Alarm, name: str) -> str:
    policy = alarm.policy
    if policy.rearm is not None:
        return f"Each signal {name!r} moves this alarm to {span_words(policy.rearm)} after it."
    within = f" at most {span_words(policy.unless_since)} before" if policy.unless_since is not None else ""
    if alarm.kind == "once":
        return f"The signal {name!r} cancels this alarm" + (f" if it comes{within} its time." if within else ".")
    local = alarm.occurrence_at.astimezone(zone(alarm.timezone)).isoformat(timespec="seconds")
    which = f"the fire that it comes{within}" if within else "only the next fire"
    return f"A signal {name!r} skips {which}, now that of {local}; the series goes on."
