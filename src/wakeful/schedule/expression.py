"""From the text of a recurring schedule to a value that answers "when next?", and how often it fires in a day."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol
from zoneinfo import ZoneInfo

from wakeful.errors import InvalidSchedule
from wakeful.schedule.cron import Cron
from wakeful.schedule.interval import every
from wakeful.schedule.zones import by_zone_rules, zone

LONGEST = 300
_EVERY = "@every "
_REPEATED = re.compile(r"\s*R[0-9]*/", re.IGNORECASE)
_RULE = re.compile(r"(?:DTSTART|RRULE|RDATE|EXDATE|EXRULE)[:;]|FREQ=", re.IGNORECASE)


class Schedule(Protocol):
    """When something recurs."""

    def after(self, moment: datetime) -> datetime | None:
        """The first fire strictly after an aware moment, in UTC; None when there is none."""
        ...


def split_zone(cron_expr: str, timezone: str) -> tuple[str, str]:
    """The expression without its CRON_TZ= or TZ= prefix, and the zone it is meant in.

    A recurrence rule in its one way of writing, without the zone of its DTSTART.
    """
    expr, timezone = _split_prefix(cron_expr, timezone)
    if not _begins_rule(expr):
        return expr, timezone
    from wakeful.schedule.recurrence import read  # only where there is a rule: most have none

    recurrence, timezone = read(expr, timezone)
    return recurrence.text(), timezone


def _split_prefix(cron_expr: str, timezone: str) -> tuple[str, str]:
    expr = cron_expr.strip()
    if expr.startswith(("CRON_TZ=", "TZ=")):
        prefix, _, expr = expr.partition(" ")
        timezone = prefix.partition("=")[2]
    return expr.strip(), timezone


def zone_in_its_case(cron_expr: str) -> str:
    """The expression with the zone of its prefix as the data writes it: an older process knows no other writing."""
    expr, name = _split_prefix(cron_expr, "")
    known = zone(name).key if name else ""
    return cron_expr if known == name else f"CRON_TZ={known} {expr}"


def is_rule(cron_expr: str) -> bool:
    """Whether it is a recurrence rule of RFC 5545, with or without a zone before it."""
    return _begins_rule(_split_prefix(cron_expr, "")[0])


def _begins_rule(expr: str) -> bool:
    return expr[:1].isalpha() and _RULE.match(expr) is not None  # cron begins with no letter


def may_be_rule(text: str) -> bool:
    """Whether what somebody gives as a time is a rule, or is read as one that may count: R5000/2027-01-01T09:00Z/P1D.

    What such a rule costs is up to whoever wrote it.
    """
    return is_rule(text) or _REPEATED.match(text) is not None


def takes_long(cron_expr: str) -> bool:
    """Whether its first answer in a process may take tens of milliseconds.

    Of a rule with COUNT the fires that passed are counted first; one in steps of minutes or hours that meets few dates
    has many candidates; and several rules are searched one after another.
    """
    if not is_rule(cron_expr):
        return False
    text = cron_expr.upper()
    return any(word in text for word in ("COUNT=", "MINUTELY", "HOURLY")) or text.count("FREQ=") > 1


def is_interval(cron_expr: str) -> bool:
    """Whether it is elapsed time ("@every 90m"), which needs an anchor to count from."""
    return _split_prefix(cron_expr, "")[0].startswith(_EVERY)


def counts_from_start(cron_expr: str) -> bool:
    """Whether it needs an anchor to count from: elapsed time, and a rule without DTSTART."""
    return is_interval(cron_expr) or (is_rule(cron_expr) and "DTSTART" not in cron_expr.upper())


def anchor_now(cron_expr: str, timezone: str, now: datetime) -> datetime:
    """What an expression that counts from its start counts from when it is set now: now, or a rule's first fire."""
    expr, timezone = _split_prefix(cron_expr, timezone)
    if not _begins_rule(expr):
        return now
    from wakeful.schedule.recurrence_schedule import first_anchor

    return first_anchor(expr, timezone, now)


def schedule(cron_expr: str, timezone: str = "UTC", *, anchor: datetime | None = None) -> Schedule:
    """The schedule of a cron expression. The same expression and zone give the same, shared value.

    `@every` fires at anchor + k · period, k ≥ 1, and a rule without DTSTART from its anchor on; without an anchor they
    have no fires, but can be checked.
    """
    # What is kept is short; only a rule may be longer.
    named = _named(cron_expr, timezone) if len(cron_expr) <= LONGEST else None
    return named or _counting(cron_expr, timezone, anchor)


@by_zone_rules(maxsize=4096)
def _named(cron_expr: str, timezone: str) -> Cron | None:
    """What names its times; None if it counts from an anchor. Every fire of a series asks, a few times."""
    expr, name = _split_prefix(cron_expr, timezone)
    return None if expr.startswith(_EVERY) or _begins_rule(expr) else _shared(expr, name)


@by_zone_rules(maxsize=4096)
def _shared(expr: str, timezone: str) -> Cron:
    return Cron(expr, zone(timezone))


def _counting(cron_expr: str, timezone: str, anchor: datetime | None) -> Schedule:
    expr, name = _split_prefix(cron_expr, timezone)
    if not _begins_rule(expr):
        if len(cron_expr) > LONGEST:
            raise InvalidSchedule(f"is longer than {LONGEST} characters.", field="cron_expr")
        zone(name)
        return every(expr.removeprefix(_EVERY).strip(), anchor)
    from wakeful.schedule.recurrence_schedule import recurrence_schedule

    return recurrence_schedule(expr, name, anchor)


_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
_MS: Final = timedelta(milliseconds=1)
_COUNTED: Final = 100  # fires of an hour that are counted one by one; what fires more often does so evenly


def fires_per_day(rhythm: Schedule, first: datetime, zone: ZoneInfo) -> int:
    """How often a schedule fires on the day of one of its fires, by the clock of its zone."""
    midnight = first.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    return fires_within_day(rhythm, midnight.astimezone(UTC))


def fires_within_day(rhythm: Schedule, begin: datetime) -> int:
    """How often a schedule fires in the 24 hours from a moment on: what counts from its first fire has none before it.

    Each hour that has a fire at all is taken to have as many as the first one: nobody waits until 1,440 were found.
    """
    hours = [begin + number * _HOUR for number in range(24)]
    busy = [fire for hour in hours if (fire := rhythm.after(hour - _MS)) is not None and fire < hour + _HOUR]
    return len(busy) * _within_hour(rhythm, busy[0]) if busy else 0


def per_day(gap: timedelta) -> int:
    """The same of what fires after equal spans of time."""
    return _DAY // gap


def _within_hour(rhythm: Schedule, first: datetime) -> int:
    """How many fires the hour has that begins with this one."""
    count, last = 1, first
    while count < _COUNTED:
        upcoming = rhythm.after(last)
        if upcoming is None or upcoming >= first + _HOUR:
            return count
        count, last = count + 1, upcoming
    return round(_HOUR / ((last - first) / (count - 1)))
