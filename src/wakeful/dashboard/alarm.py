"""`/alarms/{id}`: one alarm, why it is as it is, what it did and will do."""

from __future__ import annotations

from itertools import islice
from typing import Final

from starlette.responses import Response

from wakeful.alarm import coming
from wakeful.dashboard.page import Visit

FIRES: Final = 30
NEXT: Final = 5


async def page(visit: Visit) -> Response:
    alarms = visit.alarms
    found = await alarms.get(visit.request.path_params["id"])
    fires = await alarms.fires(found.id, limit=FIRES)
    chain = await alarms.find(root_id=found.root_id or found.id, limit=FIRES)
    now = await visit.context.service.now()
    following = list(islice(coming(found), NEXT)) if found.status == "active" else []
    return visit.show(
        "alarm.html",
        here="alarms",
        alarm=found,
        fires=fires,
        why=await alarms.why(found.id),
        following=following,
        chain=[one for one in chain if one.id != found.id],
        now=now,
    )
