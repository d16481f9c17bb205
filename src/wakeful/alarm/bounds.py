"""The bounds that a phrase says of a series ("until friday", "10 times"): they become part of its policy. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from wakeful.alarm.model import Alarm, Policy
from wakeful.errors import InvalidRequest
from wakeful.schedule import describe
from wakeful.schedule.descriptions import end_words, start_words


class SaidBounds(Struct, frozen=True):
    """From when, until when and how often a series fires, as its phrase says it; None where it does not."""

    starts_at: datetime | None = None
    ends_at: datetime | None = None
    max_fires: int | None = None


NO_BOUNDS: Final = SaidBounds()
BOUNDS: Final = SaidBounds.__struct_fields__


def bounded(policy: Policy, said: SaidBounds, given: Mapping[str, Any], *, fired: int = 0) -> Policy:
    """The policy with the bounds of the phrase. `given`: what the same request says of the policy in its own fields.

    `fired`: how often the series has fired before it got this phrase, whose "10 times" are ten more.
    """
    if said == NO_BOUNDS:
        return policy
    found = {name: value for name, value in asdict(said).items() if value is not None}
    for name, value in found.items():
        explicit = given.get(name)
        if explicit is not None and explicit != value:
            raise InvalidRequest(
                f"it says {_shown(explicit)}, and the phrase in `when` says {_shown(value)}",
                field=f"policy.{name}",
                fix="Say it in one of the two only.",
            )
    if said.max_fires is not None and given.get("max_fires") is None:
        found["max_fires"] = said.max_fires + fired
    return replace(policy, **found)


def _shown(value: datetime | int) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def bounds_in_words(alarm: Alarm) -> dict[str, str]:
    """The bounds of a series by their names in a policy, each as what the series does."""
    policy, found = alarm.policy, {}
    if policy.starts_at is not None:
        found["starts_at"] = f"starts on {start_words(policy.starts_at, alarm.timezone)}"
    if policy.ends_at is not None:
        found["ends_at"] = f"ends on {end_words(policy.ends_at, alarm.timezone)}"
    if policy.max_fires is not None:
        found["max_fires"] = f"fires {policy.max_fires} time{'s' if policy.max_fires > 1 else ''} at most"
    return found


def series_words(alarm: Alarm) -> str:
    """When a series fires, in words, with the bounds of its policy."""
    policy = alarm.policy
    return describe(
        alarm.cron_expr,
        alarm.timezone,
        starts_at=policy.starts_at,
        ends_at=policy.ends_at,
        max_fires=policy.max_fires,
    )
