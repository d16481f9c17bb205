"""The default policy of an alarm, from the operator's settings."""

from __future__ import annotations

from datetime import time, timedelta
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import fields

from wakeful.alarm.model import NEW_POLICY, Policy
from wakeful.settings import Settings

_OF_HOLIDAYS: Final = frozenset({"calendar", "working_days"})


class Defaults(Struct, frozen=True, kw_only=True):
    """What an alarm has where its caller does not say."""

    timezone: str
    date_order: str = ""  # of 03/04: dmy or mdy; without one, such a date is refused
    bare_day: time = time(9)  # the time of day where only a day is named
    target: str
    max_failures: int
    policy: Policy

    @classmethod
    def of(cls, settings: Settings) -> Defaults:
        return cls(
            timezone=settings.timezone,
            date_order=settings.date_order,
            bare_day=settings.bare_day,
            target=settings.usual_target,
            max_failures=settings.max_failures,
            policy=default_policy(settings),
        )


def default_policy(settings: Settings) -> Policy:
    """Every field of a policy that is a setting too; 0 stands for none where there may be none.

    Not the calendar: which holidays are meant is a setting, but only an alarm says that it keeps them.
    """
    of_policy = _policy_fields()
    said: dict[str, Any] = {
        name: getattr(settings, name) for name in of_policy if hasattr(settings, name) and name not in _OF_HOLIDAYS
    }
    plain: dict[str, Any] = {
        name: value.total_seconds() if isinstance(value, timedelta) else value for name, value in said.items()
    }
    found = Policy(**{name: value for name, value in plain.items() if value or not of_policy[name]})
    return NEW_POLICY if found == NEW_POLICY else found  # the very one is found at once where it is checked


@lru_cache(maxsize=1)
def _policy_fields() -> dict[str, bool]:
    """Its fields, and whether each may be none: to ask what a struct has takes a millisecond."""
    return {field.name: field.default is None for field in fields(Policy)}
