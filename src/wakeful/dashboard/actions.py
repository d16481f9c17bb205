"""What the buttons do: the same verbs as everywhere, then back to the page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.responses import Response

from wakeful.alarm.request import ReportRequest
from wakeful.dashboard.page import Visit, reader_zone
from wakeful.errors import NotFound
from wakeful.service import Changed, ChangedFire, Created

Action = Callable[[Visit, str], Awaitable[str]]


async def _pause(visit: Visit, id: str) -> str:
    return _told("Paused.", await visit.alarms.pause(id, reason=visit.field("reason")))


async def _resume(visit: Visit, id: str) -> str:
    return _told("Resumed.", await visit.alarms.resume(id))


async def _snooze(visit: Visit, id: str) -> str:
    if said := visit.field("until"):
        understood = await visit.alarms.parse(said, timezone=reader_zone(visit).key)
        return _told("Snoozed.", await visit.alarms.snooze(id, until=understood.next(1)[0]))
    return _told("Snoozed.", await visit.alarms.snooze(id, visit.field("for") or "1h"))


async def _skip(visit: Visit, id: str) -> str:
    done = await visit.alarms.skip(id, at=visit.field("at") or None)
    return _told(
        "Skipped." if done.alarm.status == "active" else "Skipped. It was the last one: the series is over.", done
    )


async def _undo(visit: Visit, id: str) -> str:
    return _told("Taken back.", await visit.alarms.undo(id, when=visit.field("when") or None))


async def _cancel(visit: Visit, id: str) -> str:
    done = await visit.alarms.cancel(id, reason=visit.field("reason"))
    return _told("Cancelled; an attempt was under way and may still arrive." if done.in_flight else "Cancelled.", done)


def _told(what: str, done: Changed | Created | ChangedFire) -> str:
    return " ".join((what, *done.notes))


ON_ALARM: Final[dict[str, Action]] = {
    "pause": _pause,
    "resume": _resume,
    "snooze": _snooze,
    "skip": _skip,
    "cancel": _cancel,
    "undo": _undo,
}


async def on_alarm(visit: Visit) -> Response:
    id, verb = visit.request.path_params["id"], visit.request.path_params["verb"]
    if verb == "fire":
        made = await visit.alarms.fire(id)
        said = "Fires now. Its own times stay; the manual fire is listed with the others."
        return visit.back(f"/alarms/{made.alarm.policy.manual_of or id}", _told(said, made))
    if verb not in ON_ALARM:
        raise NotFound(f"there is no action {verb!r}", field="verb")
    return visit.back(visit.field("back") or f"/alarms/{id}", await ON_ALARM[verb](visit, id))


async def on_fire(visit: Visit) -> Response:
    id, verb = visit.request.path_params["id"], visit.request.path_params["verb"]
    if verb == "retry":
        said = _told("It is tried again.", await visit.alarms.retry(id))
    elif verb == "done":
        report = ReportRequest(outcome="completed", result=visit.field("result"))
        said = _told("Reported as done.", await visit.alarms.report(id, report))
    else:
        raise NotFound(f"there is no action {verb!r}", field="verb")
    return visit.back(visit.field("back") or f"/alarms/{id.partition('@')[0]}", said)


async def on_target(visit: Visit) -> Response:
    visit.principal.need("admin")
    name, verb = visit.request.path_params["id"], visit.request.path_params["verb"]
    service = visit.context.service
    if verb == "pause":
        await service.targets.pause(name, by=visit.principal.by, reason=visit.field("reason"))
    elif verb == "resume":
        await service.targets.resume(name, by=visit.principal.by)
    else:
        raise NotFound(f"there is no action {verb!r}", field="verb")
    return visit.back(visit.field("back") or "/targets", f"{name} is {verb}d.")
