"""The whole over HTTP: what happened, what is to come, and what a phrase means."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.responses import Response

from wakeful.doors import answers as shape
from wakeful.doors import table
from wakeful.doors.guard import answer, body
from wakeful.doors.hall import Hall
from wakeful.doors.table import LIMIT, PAGE, Ask, Operation
from wakeful.doors.wire import view
from wakeful.schedule import parse, zone
from wakeful.service.history import STATUSES
from wakeful.store import Found

LONGEST_AGENDA: Final = 24 * 366.0
_LIMIT: Final = "At most so many; fewer where they are long."


async def history(hall: Hall, ask: Ask) -> Response:
    found = await hall.service.history(
        owner=ask.owner,
        status=ask["status"],
        target=ask["target"],
        since=ask["since"],
        limit=ask["limit"],
        most=table.PAGE_SIZE,
    )
    return await hall.answer({"history": found} | _more(found))


async def failed(hall: Hall, ask: Ask) -> Response:
    found = await hall.service.failed(owner=ask.owner, limit=ask["limit"], most=table.PAGE_SIZE)
    return await hall.answer({"failed": found} | _more(found))


async def agenda(hall: Hall, ask: Ask) -> Response:
    found = await hall.service.agenda(owner=ask.owner, hours=ask["hours"], limit=ask["limit"], most=table.PAGE_SIZE)
    return await hall.answer({"agenda": [{"at": at, "alarm": view(alarm)} for at, alarm in found]} | _more(found))


def _more(found: Found[Any]) -> dict[str, bool]:
    """Said where the answer ends at its limit or at its weight, and there may be more."""
    return {} if found.further is None else {"more": True}


async def stats(hall: Hall, ask: Ask) -> Response:
    return await hall.answer(msgspec.structs.asdict(await hall.service.stats(owner=ask.owner)))


async def preview(hall: Hall, ask: Ask) -> Response:
    given = await body(ask.request, shape.PreviewBody)
    now = await hall.service.now()
    understood = parse(given.when, timezone=given.timezone or hall.settings.timezone, now=now)
    local = zone(understood.timezone)
    shown: dict[str, Any] = {
        "kind": understood.kind,
        "timezone": understood.timezone,
        "description": understood.description,
        "next": [{"utc": at, "local": at.astimezone(local)} for at in understood.next(given.n)],
        "remarks": understood.remarks,
        "now": now,
    }
    if understood.fire_at is not None:
        shown["fire_at"] = understood.fire_at
    if understood.cron_expr:
        shown["cron_expr"] = understood.cron_expr
    return answer(shown)


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/history",
        run=history,
        says="What happened and what is to come, newest first",
        scope="read",
        query=(
            table.choice("status", STATUSES, "Only what stands so."),
            table.text("target", "Only what went or goes there."),
            table.moment("since", "Fires scheduled, and alarms created, at or after."),
            table.whole("limit", 1, LIMIT, 50, _LIMIT),
        ),
        answers={200: shape.HistoryAnswer},
    ),
    Operation(
        method="GET",
        path="/v1/failed",
        run=failed,
        says="The latest fires that failed or fell silent",
        scope="read",
        query=(table.whole("limit", 1, LIMIT, 20, _LIMIT),),
        answers={200: shape.FailedAnswer},
    ),
    Operation(
        method="GET",
        path="/v1/agenda",
        run=agenda,
        says="The next fires of all alarms, merged, soonest first",
        scope="read",
        query=(table.amount("hours", LONGEST_AGENDA, 24, "How far to look ahead."), PAGE),
        answers={200: shape.AgendaAnswer},
    ),
    Operation(method="GET", path="/v1/stats", run=stats, says="Counts", scope="read", answers={200: shape.StatsAnswer}),
    Operation(
        method="POST",
        path="/v1/preview",
        run=preview,
        says="What a `when` means, and when it would fire",
        scope="read",
        body=shape.PreviewBody,
        answers={200: shape.PreviewAnswer},
    ),
)
