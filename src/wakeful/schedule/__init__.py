"""When: cron, elapsed time, recurrence rules, single moments, and the phrases people use for them.

Pure: no clock is asked here. `now` is handed in, and every answer is whole milliseconds in UTC.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wakeful.schedule.expression import (
    Schedule,
    anchor_now,
    counts_from_start,
    is_interval,
    is_rule,
    may_be_rule,
    schedule,
    split_zone,
    takes_long,
    zone_in_its_case,
)
from wakeful.schedule.interval import duration
from wakeful.schedule.zones import former_rules, given_zone, instant, read_alike, rules_changed_at, zone

if TYPE_CHECKING:
    from wakeful.schedule.descriptions import describe
    from wakeful.schedule.phrases import Understood, parse

__all__ = [
    "Schedule",
    "Understood",
    "anchor_now",
    "counts_from_start",
    "describe",
    "duration",
    "former_rules",
    "given_zone",
    "instant",
    "is_interval",
    "is_rule",
    "may_be_rule",
    "parse",
    "read_alike",
    "rules_changed_at",
    "schedule",
    "split_zone",
    "takes_long",
    "zone",
    "zone_in_its_case",
]


def __getattr__(name: str) -> Any:
    # Whoever only asks schedules when they fire does not pay for reading phrases.
    if name not in ("Understood", "describe", "parse"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{'descriptions' if name == 'describe' else 'phrases'}"), name)
