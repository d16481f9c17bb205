"""Which zone was assumed for a time that was said without one, told where another zone would make it another time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from wakeful.alarm.owner_settings import OwnerSettings
from wakeful.errors import InvalidSchedule
from wakeful.schedule import Understood, is_interval, parse

ASSUMED: Final = "No timezone was given: the time is in {}. Give `timezone` if you meant another."
_FAR_WEST: Final = "Etc/GMT+12"  # what means the same moment there does not depend on the zone
_FAR_EAST: Final = "Etc/GMT-14"


def with_assumed_zone(found: Understood, when: str, usual: OwnerSettings) -> Understood:
    """What a time was understood to mean, with a remark on its zone where that was not said."""
    if found.timezone != usual.timezone:
        return found
    if found.kind == "cron":
        depends = series_depends_on_zone(found.cron_expr)
    else:
        depends = moment_depends_on_zone(when, found.timezone, found.fire_at, found.now, usual)
    return replace(found, _remarks=(ASSUMED.format(usual.timezone), *found.remarks)) if depends else found


def series_depends_on_zone(cron_expr: str) -> bool:
    """Not so elapsed time, and what fires at any hour of any day."""
    return not is_interval(cron_expr) and cron_expr.split()[-4:] != ["*"] * 4


def moment_depends_on_zone(when: str, name: str, fire_at: datetime | None, now: datetime, usual: OwnerSettings) -> bool:
    """Whether the same words mean another moment on the other side of the world."""
    far = _FAR_WEST if name != _FAR_WEST else _FAR_EAST
    try:
        return parse(when, timezone=far, now=now, date_order=usual.date_order).fire_at != fire_at
    except InvalidSchedule:  # past there
        return True
