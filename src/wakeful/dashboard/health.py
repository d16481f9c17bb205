"""`/health`: who dispatches, how late things are, what waits, what the database is. For whoever runs this server."""

from __future__ import annotations

import platform
from typing import Any, Final

from starlette.responses import Response

from wakeful._version import __version__
from wakeful.dashboard.page import HEADERS, Visit
from wakeful.schedule.zone_rules import zone_data
from wakeful.service import diagnosis
from wakeful.service.figures import CHANGED, DUE, SAMPLED, waiting
from wakeful.service.figures import health as health_by_hour
from wakeful.service.views import encode
from wakeful.service.why import is_alive

WORKERS: Final = 50
OWNERS: Final = 20


async def page(visit: Visit) -> Response:
    visit.principal.need("admin")
    store, service, settings = visit.context.store, visit.context.service, visit.context.settings
    now = await service.now()
    workers = sorted(await store.maintenance.workers(), key=lambda worker: worker.seen_at, reverse=True)
    backlog = await store.maintenance.backlog(lease=settings.lease)
    states = await service.targets.states()
    paused = frozenset(name for name, state in states.items() if state.paused_at is not None)
    values: dict[str, Any] = {
        "workers": [(worker, is_alive(worker, now)) for worker in workers[:WORKERS]],
        "findings": [
            diagnosis.dispatcher(workers, now),
            diagnosis.overdue(backlog, paused, now),
            diagnosis.zones(zone_data(), settings.timezone, now, await store.maintenance.editions()),
            *diagnosis.calendars(service.calendars),
        ],
        "hours": await health_by_hour(service, now=now),
        "sampled": SAMPLED,
        "counted": CHANGED,
        "backlog": backlog,
        "waiting": (await waiting(service))[:OWNERS],
        "due": DUE,
        "storage": await store.maintenance.storage(),
        "versions": {"wakeful": __version__, "Python": platform.python_version()},
        "size": diagnosis.size,
        "now": now,
    }
    return visit.show("health.html", here="health", **values)


async def figures(visit: Visit) -> Response:
    """The same hours for the charts: moments in unix seconds, lateness in seconds."""
    visit.principal.need("admin")
    hours = await health_by_hour(visit.context.service, now=await visit.context.service.now())
    known = [hour.lateness if hour.lateness.count else None for hour in hours]
    found = {
        "at": [int(hour.since.timestamp()) for hour in hours],
        "fires": [hour.fires for hour in hours],
        "median": [one and one.median / 1000 for one in known],
        "p95": [one and one.p95 / 1000 for one in known],
        "longest": [one and one.longest / 1000 for one in known],
    }
    return Response(encode(found), headers=HEADERS, media_type="application/json")
