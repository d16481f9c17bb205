"""A Sunday in November to stand on, and short ways to ask."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, time
from zoneinfo import ZoneInfo

from hypothesis import HealthCheck, settings

from wakeful.schedule import Understood, parse, schedule, split_zone
from wakeful.schedule.cron import Cron

NOW = datetime(2026, 11, 15, 8, tzinfo=UTC)  # 09:00 on a Sunday in Berlin
BERLIN = "Europe/Berlin"
QUICK = settings(max_examples=300, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])


def say(text: str, *, timezone: str = BERLIN, now: datetime = NOW, default_time: time = time(9)) -> Understood:
    return parse(text, timezone=timezone, now=now, default_time=default_time)


def local(text: str, *, timezone: str = BERLIN, now: datetime = NOW) -> str:
    """When a phrase fires, on the wall clock of its zone."""
    understood = say(text, timezone=timezone, now=now)
    assert understood.kind == "once"
    assert understood.fire_at is not None
    return f"{understood.fire_at.astimezone(ZoneInfo(understood.timezone)):%Y-%m-%d %H:%M}"


def fires(expr: str, start: str, n: int = 3, timezone: str = "UTC") -> list[str]:
    """The next fires after a moment, in local time, asked of a schedule that remembers nothing yet."""
    tz = ZoneInfo(timezone)
    schedule = Cron(expr, tz)
    moment = datetime.fromisoformat(start)
    found = []
    for _ in range(n):
        fire = schedule.after(moment)
        if fire is None:
            break
        found.append(fire.astimezone(tz).isoformat(timespec="seconds"))
        moment = fire
    return found


def rule_fires(text: str, *, timezone: str = "UTC", anchor: datetime | None = None) -> Iterator[datetime]:
    """All fires of a recurrence rule, in its own zone's time."""
    rhythm = schedule(text, timezone, anchor=anchor)
    tz = ZoneInfo(split_zone(text, timezone)[1])
    moment = datetime(1900, 1, 1, tzinfo=UTC)
    while (fire := rhythm.after(moment)) is not None:
        yield fire.astimezone(tz)
        moment = fire
