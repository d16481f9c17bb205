"""`/alarms/{id}`: one alarm, why it is as it is, what it did and will do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from starlette.responses import Response

from wakeful.alarm import Alarm, Fire
from wakeful.dashboard.page import HEADERS, Visit
from wakeful.dashboard.wake_shown import body_of, curl_of, wake_of
from wakeful.dashboard.waterfall import waterfall
from wakeful.errors import Conflict, NotFound
from wakeful.http.security.guard import Answer
from wakeful.service.change import last_change_of
from wakeful.service.history import next_fires

FIRES: Final = 30
NEXT: Final = 5


async def page(visit: Visit) -> Response:
    visit = visit.on_behalf(visit.query("owner"))
    alarms = visit.alarms
    found = await alarms.get(visit.request.path_params["id"])
    fires = await alarms.fires(found.id, limit=FIRES)
    chain = await alarms.find(root_id=found.root_id or found.id, limit=FIRES)
    now = await visit.context.service.now()
    chosen = await _chosen(visit, found, fires)
    fired = found if chosen is None or chosen.alarm_id == found.id else await alarms.get(chosen.alarm_id)
    return visit.show(
        "alarm.html",
        here="alarms",
        alarm=found,
        fires=fires,
        why=await alarms.why(found.id),
        following=await next_fires(found, NEXT) if found.status == "active" else [],
        parent=found.parent_fire.partition("@")[0],
        **await _undoable(visit, found, now),
        chain=[one for one in chain if one.id != found.id and one.policy.manual_of is None],
        now=now,
        told=_wake(visit, found).decode(),
        **_about(visit, fired, chosen, now),
    )


async def raw(visit: Visit) -> Response:
    """Send the whole of what the page of an alarm shows the beginning of, as a file."""
    visit = visit.on_behalf(visit.query("owner"))
    alarm = await visit.alarms.get(visit.request.path_params["id"])
    what = visit.request.path_params["what"]
    if what not in RAW:
        raise NotFound(f"an alarm has no {what!r} to send", field="what", fix="There are payload, wake and curl.")
    name, read = RAW[what]
    kind = "application/json" if name.endswith(".json") else "text/plain; charset=utf-8"
    headers = HEADERS | {"content-disposition": f'attachment; filename="{name}"'}
    return Answer(await read(visit, alarm), 200, headers, kind)


async def _raw_payload(_: Visit, alarm: Alarm) -> bytes:
    return alarm.payload_json.encode()


async def _raw_wake(visit: Visit, alarm: Alarm) -> bytes:
    return _wake(visit, alarm)


async def _raw_curl(visit: Visit, alarm: Alarm) -> bytes:
    fire = await visit.alarms.fire_of(visit.query("fire"))
    fired = await _fired(visit, alarm, fire)
    if fired is None or not fire.log:
        raise NotFound(f"the alarm has no attempt of a fire {fire.id!r}", field="fire")
    return _curl(visit, fired, fire).encode()


RAW: Final[dict[str, tuple[str, Callable[[Visit, Alarm], Awaitable[bytes]]]]] = {
    "payload": ("payload.json", _raw_payload),
    "wake": ("wake.json", _raw_wake),
    "curl": ("attempt.sh", _raw_curl),
}


async def _chosen(visit: Visit, alarm: Alarm, fires: list[Fire]) -> Fire | None:
    """The fire that the address names, else the latest that was tried."""
    if asked := visit.query("fire"):
        fire = await visit.alarms.fire_of(asked)
        if await _fired(visit, alarm, fire) is not None:
            return fire
    return next((fire for fire in fires if fire.log), fires[0] if fires else None)


async def _fired(visit: Visit, alarm: Alarm, fire: Fire) -> Alarm | None:
    """The alarm that a fire on this page is stored under: itself, or a copy by which it was fired by hand."""
    if fire.alarm_id == alarm.id:
        return alarm
    with suppress(NotFound):
        copy = await visit.alarms.get(fire.alarm_id)
        return copy if copy.policy.manual_of == alarm.id else None
    return None


async def _undoable(visit: Visit, alarm: Alarm, now: datetime) -> dict[str, Any]:
    """Which change of it the button takes back, empty where none can be; and whether that may need a new time."""
    with suppress(Conflict):
        former = await last_change_of(visit.alarms, alarm)
        has_passed = former.next_fire_at <= now and (former.what == "cancelled" or former.moved)
        return {"undo": former.verb, "undo_asks_time": has_passed and former.what in ("cancelled", "updated")}
    return {"undo": "", "undo_asks_time": False}


def _about(visit: Visit, alarm: Alarm, fire: Fire | None, now: Any) -> dict[str, Any]:
    if fire is None:
        return {"fire": None, "steps": [], "curl": ""}
    curl = _curl(visit, alarm, fire) if fire.log else ""
    return {"fire": fire, "steps": waterfall(fire, now), "curl": curl}


def _wake(visit: Visit, alarm: Alarm) -> bytes:
    return body_of(wake_of(alarm, alarm.occurrence_at, report_url=_report_url(visit)))


def _curl(visit: Visit, alarm: Alarm, fire: Fire) -> str:
    return curl_of(alarm, fire, report_url=_report_url(visit), attempt=len(fire.log))


def _report_url(visit: Visit) -> str:
    settings = visit.context.settings
    return (settings.public_url or settings.local_url).rstrip("/") + "/v1/fires/{fire_id}/report"
