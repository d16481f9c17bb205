"""`/`: what needs you, what comes next, what just happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from msgspec import Struct
from starlette.responses import Response

from wakeful.dashboard.page import Visit, between, reader_zone
from wakeful.model.alarm import Alarm
from wakeful.service.attention import UNREAD_AFTER, Need
from wakeful.service.attention import needs as needing
from wakeful.service.bulk import alarms_of, latest_fires

HOURS: Final = 24
AHEAD: Final = 500  # fires that are looked at for the bars
LISTED: Final = 8  # alarms
TAIL: Final = 30
FAILED: Final = 50


class Bar(Struct, frozen=True):
    """An hour of the day ahead: how many fires, and how tall that is, of 100."""

    at: datetime
    until: datetime
    count: int
    height: int


class Ahead(Struct, frozen=True):
    """An alarm that will fire in the day ahead: when first, and how often after that."""

    at: datetime
    alarm: Alarm
    further: int


async def page(visit: Visit) -> Response:
    values = await _needs(visit) | await _coming(visit) | await _tail(visit)
    return visit.show("now.html", here="now", **values)


async def needs(visit: Visit) -> Response:
    return visit.show("parts/needs.html", **await _needs(visit))


async def coming(visit: Visit) -> Response:
    return visit.show("parts/next.html", **await _coming(visit))


async def tail(visit: Visit) -> Response:
    return visit.show("parts/tail.html", **await _tail(visit))


async def _needs(visit: Visit) -> dict[str, Any]:
    alarms, service = visit.alarms, visit.context.service
    now = await service.now()
    paused = await alarms.find(status="paused", limit=FAILED)
    retrying = await alarms.fires(status="retrying", limit=FAILED)
    failed = await alarms.failed(limit=FAILED)
    found = needing(
        failed,
        paused,
        await service.targets.served(),
        await service.targets.states() if visit.is_operator else {},
        is_pending=bool(await alarms.active(limit=1)),
        now=now,
        retrying=retrying,
        known=await alarms_of(alarms, [*failed, *retrying]),
        unread=await alarms.fires(status="waiting", until=now - UNREAD_AFTER, limit=FAILED),
    )
    return {"needs": _known_here(visit, found), "now": now}


def _known_here(visit: Visit, found: Sequence[Need]) -> list[Need]:
    return [need for need in found if visit.is_operator or need.what not in ("nobody", "clock")]


async def _coming(visit: Visit) -> dict[str, Any]:
    now = await visit.context.service.now()
    agenda = await visit.alarms.agenda(hours=HOURS, limit=AHEAD)
    ahead = by_alarm(agenda)
    return {
        "bars": bars(agenda, now.astimezone(reader_zone(visit))),
        "total": len(agenda),
        "agenda": ahead[:LISTED],
        "more": len(ahead) - LISTED,
        "between": between,
        "now": now,
        "counted_until": agenda.further[0] if agenda.further else None,
    }


def bars(agenda: Sequence[tuple[datetime, Alarm]], now: datetime) -> list[Bar]:
    """The hours that begin with the one `now` is in, as the clocks of its zone have them."""
    first = now.replace(minute=0, second=0, microsecond=0)
    counts = Counter(int((at - first).total_seconds() // 3600) for at, _ in agenda)
    most = max(counts.values(), default=0)
    hours = [(first.astimezone(UTC) + timedelta(hours=hour)).astimezone(now.tzinfo) for hour in range(HOURS + 1)]
    return [
        Bar(hours[hour], hours[hour + 1], counts[hour], 100 * counts[hour] // most if most else 0)
        for hour in range(HOURS)
    ]


def by_alarm(agenda: Sequence[tuple[datetime, Alarm]]) -> list[Ahead]:
    """One line for each alarm, the soonest first: one that repeats often does not crowd out the others."""
    times = Counter(alarm.id for _, alarm in agenda)
    firsts: dict[str, tuple[datetime, Alarm]] = {}
    for at, alarm in agenda:
        firsts.setdefault(alarm.id, (at, alarm))
    return [Ahead(at, alarm, times[alarm.id] - 1) for at, alarm in firsts.values()]


async def _tail(visit: Visit) -> dict[str, Any]:
    return {"fires": await latest_fires(visit.alarms, limit=TAIL), "now": await visit.context.service.now()}
