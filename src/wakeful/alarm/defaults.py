"""What an alarm has where its caller does not say. Data only."""

from __future__ import annotations

from datetime import time

from msgspec import Struct

from wakeful.alarm.model import Policy


class Defaults(Struct, frozen=True, kw_only=True):
    """What an alarm has where its caller does not say."""

    timezone: str
    date_order: str = ""  # of 03/04: dmy or mdy; without one, such a date is refused
    bare_day: time = time(9)  # the time of day where only a day is named
    target: str
    max_failures: int
    policy: Policy
