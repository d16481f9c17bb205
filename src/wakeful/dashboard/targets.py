"""`/targets`: where wakes go, who serves that, and how it went in the last hour."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from starlette.responses import Response

from wakeful.dashboard.page import Visit
from wakeful.service.overview import overview

ACTIVE: Final = 500
FIRES: Final = 500


async def page(visit: Visit) -> Response:
    alarms, service = visit.alarms, visit.context.service
    now = await service.now()
    active = await alarms.active(limit=ACTIVE)
    fires = await alarms.fires(since=now - timedelta(hours=1), limit=FIRES)
    states = await service.target_states()
    served = await service.targets()
    if not visit.is_operator:  # which machines run, and what others' wakes met, is not theirs to see
        used = {alarm.target for alarm in active} | {fire.target for fire in fires}
        served = {name: workers for name, workers in served.items() if name in used}
        states = {}
    found = overview(
        active,
        fires,
        served,
        states,
        more=active.further is not None,
        lease=visit.context.settings.lease,
        now=now,
    )
    return visit.show("targets.html", here="targets", overview=found, states=states, now=now)
