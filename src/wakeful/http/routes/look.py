"""Overviews over HTTP: history, agenda, and the preview of a `when`."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.responses import Response

from wakeful.http import answers as shape
from wakeful.http import operations
from wakeful.http.context import Context
from wakeful.http.operations import LIMIT, PAGE, Operation, OperationRequest
from wakeful.http.security.guard import body
from wakeful.schedule import zone
from wakeful.service.history import STATUSES
from wakeful.store import Matches
from wakeful.views import view

LONGEST_AGENDA: Final = 24 * 366.0
_LIMIT: Final = "The most to return; fewer if they are long."


async def history(context: Context, call: OperationRequest) -> Response:
    asked = {name: call[name] for name in ("status", "target", "since", "limit")}
    found = await context.of(call).history(**asked, most=operations.PAGE_SIZE)
    return await context.answer({"history": found} | _more(found))


async def failed(context: Context, call: OperationRequest) -> Response:
    found = await context.of(call).failed(limit=call["limit"], most=operations.PAGE_SIZE)
    return await context.answer({"failed": found} | _more(found))


async def agenda(context: Context, call: OperationRequest) -> Response:
    found = await context.of(call).agenda(hours=call["hours"], limit=call["limit"], most=operations.PAGE_SIZE)
    return await context.answer({"agenda": [{"at": at, "alarm": view(alarm)} for at, alarm in found]} | _more(found))


def _more(found: Matches[Any]) -> dict[str, bool]:
    """Note that there may be more, if the answer was cut at its limit or size."""
    return {} if found.further is None else {"more": True}


async def stats(context: Context, call: OperationRequest) -> Response:
    return await context.answer(msgspec.structs.asdict(await context.of(call).stats()))


async def preview(context: Context, call: OperationRequest) -> Response:
    given = await body(call.request, shape.PreviewBody)
    understood = await context.of(call).parse(given.when, timezone=given.timezone or "")
    local = zone(understood.timezone)
    shown: dict[str, Any] = {
        "kind": understood.kind,
        "timezone": understood.timezone,
        "description": understood.description,
        "next": [{"utc": at, "local": at.astimezone(local)} for at in understood.next(given.n)],
        "remarks": understood.remarks,
    }
    if understood.fire_at is not None:
        shown["fire_at"] = understood.fire_at
    if understood.cron_expr:
        shown["cron_expr"] = understood.cron_expr
    return await context.answer(shown)


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/history",
        run=history,
        says="Past and upcoming fires, newest first",
        scope="read",
        query=(
            operations.choice("status", STATUSES, "Only entries with this status."),
            operations.text("target", "Only entries of this target."),
            operations.moment("since", "Fires scheduled, and alarms created, at or after."),
            operations.whole("limit", 1, LIMIT, 50, _LIMIT),
        ),
        answers={200: shape.HistoryAnswer},
    ),
    Operation(
        method="GET",
        path="/v1/failed",
        run=failed,
        says="The latest fires that failed or were not reported in time",
        scope="read",
        query=(operations.whole("limit", 1, LIMIT, 20, _LIMIT),),
        answers={200: shape.FailedAnswer},
    ),
    Operation(
        method="GET",
        path="/v1/agenda",
        run=agenda,
        says="The next fires of all alarms, merged, soonest first",
        scope="read",
        query=(operations.amount("hours", LONGEST_AGENDA, 24, "How far to look ahead."), PAGE),
        answers={200: shape.AgendaAnswer},
    ),
    Operation(method="GET", path="/v1/stats", run=stats, says="Counts", scope="read", answers={200: shape.StatsAnswer}),
    Operation(
        method="POST",
        path="/v1/preview",
        run=preview,
        says="Explain a `when` and show when it would fire",
        scope="read",
        body=shape.PreviewBody,
        answers={200: shape.PreviewAnswer},
    ),
)
