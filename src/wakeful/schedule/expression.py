"""From the text of a recurring schedule to a value that answers "when next?"."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from wakeful.errors import InvalidSchedule
from wakeful.schedule.cron import Cron
from wakeful.schedule.interval import every
from wakeful.schedule.zones import by_zone_rules, zone

LONGEST = 300
_EVERY = "@every "


class Schedule(Protocol):
    """When something recurs."""

    def after(self, moment: datetime) -> datetime | None:
        """The first fire strictly after an aware moment, in UTC; None when there is none."""
        ...


def split_zone(cron_expr: str, timezone: str) -> tuple[str, str]:
    """The expression without its CRON_TZ= or TZ= prefix, and the zone it is meant in."""
    expr = cron_expr.strip()
    if expr.startswith(("CRON_TZ=", "TZ=")):
        prefix, _, expr = expr.partition(" ")
        timezone = prefix.partition("=")[2]
    return expr.strip(), timezone


def is_interval(cron_expr: str) -> bool:
    """Whether it is elapsed time ("@every 90m"), which needs an anchor to count from."""
    return split_zone(cron_expr, "")[0].startswith(_EVERY)


def schedule(cron_expr: str, timezone: str = "UTC", *, anchor: datetime | None = None) -> Schedule:
    """The schedule of a cron expression. The same expression and zone give the same, shared value.

    `@every` fires at anchor + k · period, k ≥ 1; without an anchor it can be checked but not asked.
    """
    if len(cron_expr) > LONGEST:
        raise InvalidSchedule(f"is longer than {LONGEST} characters.", field="cron_expr")
    expr, name = split_zone(cron_expr, timezone)
    if expr.startswith(_EVERY):
        zone(name)
        return every(expr.removeprefix(_EVERY).strip(), anchor)
    return _shared(expr, name)


@by_zone_rules(maxsize=4096)
def _shared(expr: str, timezone: str) -> Cron:
    return Cron(expr, zone(timezone))
