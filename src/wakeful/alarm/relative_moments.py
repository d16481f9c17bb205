"""Moments that somebody says relative to now: a phrase such as "tomorrow at 9am", or how long ago. Pure."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, time
from typing import Any

from wakeful.alarm.create import POLICY_MOMENTS
from wakeful.alarm.request import EditRequest, Moment, moment
from wakeful.errors import InvalidRequest, InvalidSchedule
from wakeful.schedule import duration, parse


def said_moment(
    value: Moment | datetime,
    field: str,
    *,
    timezone: str,
    now: datetime,
    date_order: str = "",
    bare_day: time = time(9),
) -> datetime:
    """Parse a moment, or a phrase for one ("tomorrow at 9am") as it is meant in a time zone at this moment."""
    try:
        return moment(value, field)
    except InvalidRequest as error:
        if not isinstance(value, str):
            raise
        refused = error
    try:
        understood = parse(value, timezone=timezone, now=now, default_time=bare_day, date_order=date_order)
    except InvalidSchedule as error:
        raise InvalidRequest(error.message, field=field, fix=error.fix) from None
    if understood.fire_at is None:
        raise InvalidRequest(f"{value!r} is a series, not one moment", field=field, fix=refused.fix)
    return understood.fire_at


def moment_or_ago(value: Moment | datetime, field: str, *, now: datetime) -> datetime:
    """Parse a moment, or a length of time ("8h") that counts back from now."""
    try:
        return moment(value, field)
    except InvalidRequest as refused:
        if not isinstance(value, str):
            raise
        try:
            return now - duration(value)
        except (InvalidRequest, OverflowError):
            raise InvalidRequest(
                refused.message, field=field, fix=f'{refused.fix} Or how long ago, such as "8h".'
            ) from None


def bound_meant(error: InvalidRequest, asked: EditRequest, *, timezone: str, now: datetime) -> dict[str, Any]:
    """The moment that was meant where a bound of a policy was refused as it is a phrase: "friday" ends with that day.

    As a repair of the request; {} if nothing else is wrong, or the phrase means no moment.
    """
    name = error.field.partition("policy.")[2]
    phrase = getattr(asked.policy, name, None) if name in POLICY_MOMENTS else None
    if not isinstance(phrase, str):
        return {}
    for text in (f"{phrase} at 23:59", phrase) if name == "ends_at" else (phrase,):
        with suppress(InvalidRequest):
            found = parse(text, timezone=timezone, now=now).fire_at
            if found is not None:
                return {"policy": {name: found.isoformat()}}
    return {}
