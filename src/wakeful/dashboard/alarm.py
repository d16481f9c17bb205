"""`/alarms/{id}`: one alarm, why it is as it is, what it did and will do."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from starlette.responses import Response

from wakeful.alarm import Alarm, Fire, coming
from wakeful.dashboard.page import Visit
from wakeful.dashboard.wake_shown import body_of, curl_of, wake_of
from wakeful.dashboard.waterfall import waterfall

FIRES: Final = 30
NEXT: Final = 5


async def page(visit: Visit) -> Response:
    visit = visit.on_behalf(visit.query("owner"))
    alarms = visit.alarms
    found = await alarms.get(visit.request.path_params["id"])
    fires = await alarms.fires(found.id, limit=FIRES)
    chain = await alarms.find(root_id=found.root_id or found.id, limit=FIRES)
    now = await visit.context.service.now()
    following = list(islice(coming(found), NEXT)) if found.status == "active" else []
    chosen = await _chosen(visit, found, fires)
    return visit.show(
        "alarm.html",
        here="alarms",
        alarm=found,
        fires=fires,
        why=await alarms.why(found.id),
        following=following,
        parent=found.parent_fire.partition("@")[0],
        chain=[one for one in chain if one.id != found.id],
        now=now,
        told=body_of(wake_of(found, found.occurrence_at, report_url=_report_url(visit))).decode(),
        **_about(visit, found, chosen, now),
    )


async def _chosen(visit: Visit, alarm: Alarm, fires: list[Fire]) -> Fire | None:
    """The fire that the address names, else the latest that was tried."""
    if asked := visit.query("fire"):
        fire = await visit.alarms.fire_of(asked)
        if fire.alarm_id == alarm.id:
            return fire
    return next((fire for fire in fires if fire.log), fires[0] if fires else None)


def _about(visit: Visit, alarm: Alarm, fire: Fire | None, now: Any) -> dict[str, Any]:
    if fire is None:
        return {"fire": None, "steps": [], "curl": ""}
    curl = curl_of(alarm, fire, report_url=_report_url(visit), attempt=len(fire.log)) if fire.log else ""
    return {"fire": fire, "steps": waterfall(fire, now), "curl": curl}


def _report_url(visit: Visit) -> str:
    settings = visit.context.settings
    return (settings.public_url or settings.local_url).rstrip("/") + "/v1/fires/{fire_id}/report"
