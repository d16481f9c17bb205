"""`/health`: who dispatches, how late things are, what the database is. For whoever runs this server."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from starlette.responses import Response

from wakeful.alarm import Fire
from wakeful.dashboard.page import Visit
from wakeful.schedule.zone_data import zone_data
from wakeful.service import diagnosis
from wakeful.service.why import is_alive

FIRES: Final = 500


class Lateness(Struct, frozen=True):
    """How long after their moment the latest fires began, in milliseconds."""

    count: int
    median: int
    p95: int
    most: int


async def page(visit: Visit) -> Response:
    visit.principal.need("admin")
    store, service = visit.context.store, visit.context.service
    now = await service.now()
    workers = sorted(await store.workers(), key=lambda worker: worker.seen_at, reverse=True)
    inspected = await store.inspect()
    findings = [
        *diagnosis.database(inspected, visit.context.settings.db),
        diagnosis.dispatcher(workers, now),
        diagnosis.zones(zone_data(), visit.context.settings.timezone, now),
    ]
    fires = await visit.alarms.fires(since=now - timedelta(hours=24), limit=FIRES)
    backlog = await store.backlog(lease=visit.context.settings.lease)
    return visit.show(
        "health.html",
        here="health",
        workers=[(worker, is_alive(worker, now)) for worker in workers[:50]],
        findings=findings,
        lateness=lateness(fires),
        backlog=backlog,
        inspected=inspected,
        size=diagnosis.size,
        now=now,
    )


def lateness(fires: list[Fire]) -> Lateness:
    late = sorted(_late(fire.started_at, fire.scheduled_for) for fire in fires if fire.started_at is not None)
    if not late:
        return Lateness(0, 0, 0, 0)
    return Lateness(len(late), late[len(late) // 2], late[len(late) * 95 // 100], late[-1])


def _late(started: datetime | None, due: datetime) -> int:
    return 0 if started is None else max(0, int((started - due).total_seconds() * 1000))
