"""The default policy of an alarm, from the operator's settings."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import fields

from wakeful.alarm.model import DEFAULT_POLICY, Policy
from wakeful.config import Settings

_OF_HOLIDAYS: Final = frozenset({"calendar", "working_days"})


class Defaults(Struct, frozen=True, kw_only=True):
    """What an alarm has where its caller does not say."""

    timezone: str
    date_order: str = ""  # of 03/04: dmy or mdy; without one, such a date is refused
    target: str
    max_failures: int
    policy: Policy

    @classmethod
    def of(cls, settings: Settings) -> Defaults:
        return cls(
            timezone=settings.timezone,
            date_order=settings.date_order,
            target=settings.default_target,
            max_failures=settings.max_failures,
            policy=default_policy(settings),
        )


def default_policy(settings: Settings) -> Policy:
    """Every field of a policy that is a setting too; 0 stands for none where there may be none.

    Not the calendar: which holidays are meant is a setting, but only an alarm says that it keeps them.
    """
    said: dict[str, Any] = {
        field.name: getattr(settings, field.name)
        for field in fields(Policy)
        if hasattr(settings, field.name) and field.name not in _OF_HOLIDAYS
    }
    plain: dict[str, Any] = {
        name: value.total_seconds() if isinstance(value, timedelta) else value for name, value in said.items()
    }
    may_be_none = {field.name for field in fields(Policy) if field.default is None}
    found = Policy(**{name: value for name, value in plain.items() if value or name not in may_be_none})
    return DEFAULT_POLICY if found == DEFAULT_POLICY else found  # the very one is stored as nothing at all
