"""Overviews over HTTP: history, agenda, targets, the latest events, and the preview of a `when`."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict
from starlette.responses import Response

from wakeful.http import answers as shape
from wakeful.http import operations
from wakeful.http.endpoint import Context
from wakeful.http.operations import LIMIT, PAGE, Operation, OperationRequest
from wakeful.http.security.guard import answer, body
from wakeful.runtime.cpu_time import in_thread
from wakeful.schedule import Understood, zone
from wakeful.service.history import STATUSES
from wakeful.service.inbox import missed
from wakeful.service.live import WHATS
from wakeful.service.views import AlarmView
from wakeful.service.watch import MOST_EVENTS
from wakeful.store import Matches

LONGEST_AGENDA: Final = 24 * 366.0
_LIMIT: Final = "The most to return; fewer if they are long."


async def history(context: Context, call: OperationRequest) -> Response:
    asked = {name: call[name] for name in ("status", "target", "since", "limit")}
    found = await context.of(call).history(**asked, most=operations.PAGE_SIZE)
    passed, notes = missed(found), found.notes or UNSET
    return answer(
        shape.HistoryAnswer(history=found, missed=passed, more=_more(found), notes=notes, now=await context.now())
    )


async def failed(context: Context, call: OperationRequest) -> Response:
    found = await context.of(call).failed(limit=call["limit"], most=operations.PAGE_SIZE)
    return answer(shape.FailedAnswer(failed=found, more=_more(found), now=await context.now()))


async def agenda(context: Context, call: OperationRequest) -> Response:
    found = await context.of(call).agenda(hours=call["hours"], limit=call["limit"], most=operations.PAGE_SIZE)
    coming = [shape.Coming(at=at, alarm=AlarmView.of(alarm)) for at, alarm in found]
    notes = found.notes or UNSET
    return answer(shape.AgendaAnswer(agenda=coming, more=_more(found), notes=notes, now=await context.now()))


def _more(found: Matches[Any]) -> bool | UnsetType:
    """Note that there may be more, if the answer was cut at its limit or size."""
    return UNSET if found.further is None else True


async def stats(context: Context, call: OperationRequest) -> Response:
    counts = asdict(await context.of(call).stats())
    return answer(shape.StatsAnswer(**counts, now=await context.now()))


async def budget(context: Context, call: OperationRequest) -> Response:
    used = await context.of(call).budget(call["alarm_id"])
    return answer(shape.BudgetAnswer(budget=used, now=await context.now()))


async def targets(context: Context, call: OperationRequest) -> Response:
    return answer(shape.TargetsAnswer(targets=await context.of(call).targets(), now=await context.now()))


async def overview(context: Context, call: OperationRequest) -> Response:
    seen = asdict(await context.of(call).overview())
    return answer(shape.OverviewAnswer(**seen | {"next": [AlarmView.of(alarm) for alarm in seen["next"]]}))


async def recent_events(context: Context, call: OperationRequest) -> Response:
    found = await context.of(call).recent_events(*call["events"], alarm_id=call["alarm_id"], limit=call["limit"])
    return answer(shape.RecentEventsAnswer(events=found, now=await context.now()))


async def preview(context: Context, call: OperationRequest) -> Response:
    request = await body(call.request, shape.PreviewBody)
    understood = await context.of(call).parse(request.when, timezone=request.timezone or "")
    now = await context.now()
    return answer(await in_thread(lambda: _previewed(understood, request.n, now)))


def _previewed(understood: Understood, n: int, now: datetime) -> shape.PreviewAnswer:
    """Work out the answer in a thread: how long that takes depends on the rule."""
    local = zone(understood.timezone)
    return shape.PreviewAnswer(
        kind=understood.kind,
        fire_at=understood.fire_at or UNSET,
        cron_expr=understood.cron_expr or UNSET,
        starts_at=understood.starts_at or UNSET,
        ends_at=understood.ends_at or UNSET,
        max_fires=understood.max_fires or UNSET,
        timezone=understood.timezone,
        description=understood.description,
        next=[shape.Occurrence(utc=at, local=at.astimezone(local)) for at in understood.next(n)],
        skipped=[
            shape.SkippedOccurrence(utc=at, local=at.astimezone(local), holiday=holiday)
            for at, holiday in understood.skipped(n)
        ]
        or UNSET,
        calendar=understood.calendar or UNSET,
        remarks=understood.remarks,
        now=now,
    )


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
            operations.moment_or_ago("since", "Fires scheduled, and alarms created, at or after."),
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
        method="GET",
        path="/v1/budget",
        run=budget,
        says="What is used of budgets in this hour and day, and what is allowed",
        scope="read",
        query=(operations.text("alarm_id", "All limits on one alarm."),),
        answers={200: shape.BudgetAnswer},
        refuses=(404, 409),
    ),
    Operation(
        method="GET",
        path="/v1/targets",
        run=targets,
        says="The targets that the caller may use, who serves them, and how they are",
        scope="read",
        answers={200: shape.TargetsAnswer},
    ),
    Operation(
        method="GET",
        path="/v1/overview",
        run=overview,
        says="How much is due, in flight and next, and how each target did in the last hour",
        scope="read",
        answers={200: shape.OverviewAnswer},
    ),
    Operation(
        method="GET",
        path="/v1/events/recent",
        run=recent_events,
        says="The latest live events, oldest first",
        scope="read",
        query=(
            operations.several("events", WHATS, "Only these."),
            operations.text("alarm_id", "Only those of one alarm."),
            operations.whole("limit", 1, MOST_EVENTS, 20, "The most to return."),
        ),
        answers={200: shape.RecentEventsAnswer},
        refuses=(404, 409),
    ),
    Operation(
        method="POST",
        path="/v1/preview",
        run=preview,
        says="Explain a `when` and show when it would fire",
        scope="read",
        for_wakes=True,
        body=shape.PreviewBody,
        answers={200: shape.PreviewAnswer},
    ),
)
