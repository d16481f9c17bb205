"""A time of day on its own ("10am"), and a rhythm with another one: how "move it to 10am" keeps a series a series."""

from __future__ import annotations

from datetime import datetime, time

from wakeful.schedule.cron import DESCRIPTORS
from wakeful.schedule.expression import LONGEST, is_interval, is_rule, split_zone
from wakeful.schedule.refusals import PhraseRefused

_FIELDS = (5, 6)
_OF_DAYS = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY")


def time_of_day(text: str) -> time | None:
    """The time of day that a text says and nothing besides; None where it says more, less or something else."""
    # Imported when first needed, as in parse(): compiling their patterns takes time.
    from wakeful.schedule import words
    from wakeful.schedule.clocks import read_clock, read_past, settle

    phrase = words.normal(text.strip()) if len(text) <= LONGEST else None
    found = (read_past(phrase, 0) or read_clock(phrase, 0)) if phrase else None
    if phrase is None or found is None or phrase[found[1] :] not in ("", ".", "!"):
        return None
    clock = found[0]
    if clock.bare or clock.hours_only:  # "10" and "15h" may be something else
        return None
    try:
        return settle(clock, None)
    except PhraseRefused:
        return None


def at_time_of_day(cron_expr: str, at: time) -> str | None:
    """The same rhythm at another time of day; None where it has no single time of day to move."""
    if is_interval(cron_expr):
        return None
    if is_rule(cron_expr):
        return _rule_at(cron_expr, at)
    expr, name = split_zone(cron_expr, "")
    fields = DESCRIPTORS.get(expr.lower(), expr).split()
    # Whatever stands before minute and hour (seconds) and after them (the days) is what makes the rhythm.
    if len(fields) not in _FIELDS or not all(field.isdigit() for field in fields[:-3]):
        return None
    clock = [str(at.second)] if len(fields) == max(_FIELDS) or at.second else []
    moved = " ".join([*clock, str(at.minute), str(at.hour), *fields[-3:]])
    return f"CRON_TZ={name} {moved}" if name else moved


def _rule_at(cron_expr: str, at: time) -> str | None:
    from wakeful.schedule.recurrence import Recurrence  # only where there is a rule: most have none
    from wakeful.schedule.recurrence_text import read

    recurrence, _ = read(cron_expr, "UTC")
    if len(recurrence.rules) != 1 or recurrence != Recurrence(recurrence.rules):
        return None  # its start, and dates more or less, have times of their own
    [rule] = recurrence.rules
    times = (rule.by_hour, rule.by_minute, rule.by_second)
    if rule.freq not in _OF_DAYS or isinstance(rule.until, datetime) or any(len(some) > 1 for some in times):
        return None
    second = (at.second,) if at.second else ()
    return Recurrence((rule._replace(by_hour=(at.hour,), by_minute=(at.minute,), by_second=second),)).text()
