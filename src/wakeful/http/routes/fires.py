"""Fires over HTTP: list, report, retry; and the inbox."""

from __future__ import annotations

import asyncio
import hmac
from typing import Final

from msgspec import UNSET
from msgspec.structs import asdict, replace
from starlette.responses import Response

from wakeful.errors import Conflict, NotFound, TooMany, Unauthorized
from wakeful.http import answers as shape
from wakeful.http import operations
from wakeful.http.endpoint import Context, disconnected, further, unless_gone
from wakeful.http.operations import CURSOR, PAGE, Operation, OperationRequest
from wakeful.http.security.auth import PREFIX, bearer
from wakeful.http.security.guard import Refusal, answer, body, header
from wakeful.model.alarm import FIRE_STATUSES, INBOX, UNSUCCESSFUL, Fire, parse_fire_id
from wakeful.model.requests import ReportRequest
from wakeful.rules.wake import Wake, report_token, reports_under
from wakeful.service import Alarms, Caller, TakenWake, Why, views
from wakeful.service.views import FireView
from wakeful.store import Matches
from wakeful.store.filters import FireFilter

RETRY_LIMIT: Final = 1000
RETRY_AT_ONCE: Final = 32
LONGEST_WAIT: Final = 60.0
CLIENT: Final = "X-Wakeful-Client"


async def fires(context: Context, call: OperationRequest, alarm_id: str = "") -> Response:
    found = await _found(context, call, alarm_id)
    shown = [FireView.of(fire, alarm_id) for fire in found]
    return answer(shape.FiresAnswer(fires=shown, next_cursor=further(found.further), now=await context.now()))


async def fires_of(context: Context, call: OperationRequest) -> Response:
    alarm = await context.of(call).get(call.id)
    return await fires(context, call, alarm.id)


async def _found(context: Context, call: OperationRequest, alarm_id: str = "") -> Matches[Fire]:
    """The fires the query chooses."""
    return await context.of(call).fires(
        alarm_id,
        status=call["status"],
        target=call.query.get("target", ""),
        since=call["since"],
        until=call["until"],
        cursor=call["cursor"],
        limit=call["limit"],
        most=operations.PAGE_SIZE,
    )


async def fire(context: Context, call: OperationRequest) -> Response:
    alarms = context.of(call)
    found = await alarms.fire_of(call.fire_id)
    again = await alarms.retry_at(found)
    return answer(shape.ReportedAnswer.of(found, retry_at=again or UNSET, now=await context.now()))


async def why(context: Context, call: OperationRequest) -> Response:
    fire = await context.of(call).fire_of(call.fire_id)
    return answer(await context.of(call).why(fire.id))


async def report(context: Context, call: OperationRequest) -> Response:
    alarms = Alarms(context.service, await _reporter(context, call))
    asked = await body(call.request, ReportRequest)
    done = await alarms.report(call.fire_id, asked)
    again, notes = done.retry_at or UNSET, done.notes or UNSET
    return answer(shape.ReportedAnswer.of(done.fire, retry_at=again, notes=notes, now=await context.now()))


async def _reporter(context: Context, call: OperationRequest) -> Caller:
    """Return the caller of a report; a fire's report token stands for its owner."""
    header = call.request.headers.get("authorization")
    scheme = (header or "").partition(" ")[0].lower()
    token = bearer(header)
    if call.caller.owner and (scheme != "bearer" or token.startswith(PREFIX)):
        return call.caller
    if not await speaks_for(context, call.fire_id, token):
        what = "this is not the report token of this fire"
        raise Unauthorized(what, field="Authorization", fix="Use the report.token of its wake.")
    return replace(call.caller, owner="")


async def speaks_for(context: Context, fire_id: str, token: str) -> bool:
    """Return whether a report token belongs to this fire, made with the current key or an earlier one."""
    keys = await context.store.access.report_keys()
    if _is_made_with(keys.current, fire_id, token):
        return True
    for old in keys.retired:
        if _is_made_with(old.key, fire_id, token):
            key = parse_fire_id(fire_id)
            fire = (await context.store.fires_at([key])).get(key)
            return reports_under(old.retired_at, fire, now=await context.store.now())
    return False


def _is_made_with(key: bytes, fire_id: str, token: str) -> bool:
    return hmac.compare_digest(token.encode(), report_token(key, fire_id).encode())


async def retry(context: Context, call: OperationRequest) -> Response:
    opened = await context.of(call).retry(call.fire_id)
    return answer(shape.FireAnswer.of(opened.fire, now=await context.now()))


async def hand_over(context: Context, call: OperationRequest) -> Response:
    request = await body(call.request, shape.HandOverBody)
    made = await context.of(call).hand_over(call.fire_id, request.target)
    return answer(shape.NotedAnswer.of(made.alarm, notes=made.notes or UNSET, now=await context.now()))


async def retry_many(context: Context, call: OperationRequest) -> Response:
    found = await _found(context, call)
    alarms, room = context.of(call), asyncio.Semaphore(RETRY_AT_ONCE)

    async def one(fire: Fire) -> bool:
        async with room:
            try:
                await alarms.retry(fire.id)
            except (Conflict, NotFound, TooMany):
                return False
            return True

    retried = sum(await asyncio.gather(*(one(fire) for fire in found)))
    return answer(
        shape.RetriedAnswer(
            found=len(found),
            retried=retried,
            refused=len(found) - retried,
            next_cursor=further(found.further),
            now=await context.now(),
        )
    )


async def inbox(context: Context, call: OperationRequest) -> Response:
    # It hands wakes out, and an image on a page is a GET too; but no page can send a header of this name with it.
    if not call.caller.limited and not header(call.request.scope, CLIENT.lower().encode()):
        raise Refusal(
            403,
            "foreign_origin",
            "a web page could have made a browser send this, and the wakes would be lost to their owner",
            field=CLIENT,
            fix=f"Use POST /v1/inbox, or send the header {CLIENT} with any value, or a token.",
        )
    return await take(context, call)


async def take(context: Context, call: OperationRequest) -> Response:
    done = {} if call.request.method == "GET" else (await body(call.request, shape.InboxBody, optional=True)).done
    handed = await unless_gone(
        context.of(call).inbox(
            limit=call["limit"],
            wait=call["wait"],
            target=call["target"] or INBOX,
            conversation_id=call["conversation_id"],
            done=done,
        ),
        disconnected(call.request),
    )
    secret = (await context.store.access.report_keys()).current
    base = context.settings.public_url or str(call.request.base_url)
    url = base.rstrip("/") + "/v1/fires/{fire_id}/report"
    wakes = [_wake(taken, url, secret) for taken in handed]
    return answer(shape.InboxAnswer(wakes=wakes, notes=handed.notes or UNSET, now=await context.now()))


def _wake(taken: TakenWake, url: str, secret: bytes) -> shape.InboxWake:
    """Return the wake, which never changes, and what varies each time it is handed out."""
    alarm, fire = taken
    wake = Wake(replace(alarm, occurrence_at=fire.scheduled_for), report_url=url, secret=secret)
    return shape.InboxWake(**asdict(wake.content), **views.handed_out(taken))


_INBOX: Final = Operation(
    method="POST",
    path="/v1/inbox",
    run=take,
    says="Take due wakes from the inbox, leased until they are reported",
    scope="write",
    query=(
        operations.amount("wait", LONGEST_WAIT, 0, "How many seconds to wait for a wake; 0 answers at once."),
        operations.whole("limit", 1, shape.INBOX_LIMIT, 10, "The most to return; fewer if they are long."),
        operations.text("target", "Another inbox than the usual one, by its name."),
        operations.text("conversation_id", "Only wakes of this conversation; the others stay."),
    ),
    body=shape.InboxBody,
    body_optional=True,
    answers={200: shape.InboxAnswer},
    refuses=(404, 409),
    waits=True,
)
_STATUS, _TARGET, *_TIMES = operations.filters(FireFilter, FIRE_STATUSES)
_FAILED: Final = replace(
    operations.several("status", UNSUCCESSFUL, "Which to retry; both unless said."), default=UNSUCCESSFUL
)
_ID: Final = "/v1/fires/{fire_id}"

OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/fires",
        run=fires,
        says="List the fires of all alarms, latest first",
        scope="read",
        query=(_STATUS, _TARGET, *_TIMES, PAGE, CURSOR),
        answers={200: shape.FiresAnswer},
    ),
    Operation(
        method="GET",
        path="/v1/alarms/{id}/fires",
        run=fires_of,
        says="List the fires of an alarm, latest first",
        scope="read",
        for_wakes=True,
        query=(_STATUS, *_TIMES, PAGE, CURSOR),
        answers={200: shape.FiresAnswer},
    ),
    Operation(
        method="POST",
        path="/v1/fires/retry",
        run=retry_many,
        says=f"Retry up to {RETRY_LIMIT} failed or timed-out fires",
        scope="write",
        query=(
            _FAILED,
            _TARGET,
            *_TIMES,
            operations.whole("limit", 1, RETRY_LIMIT, RETRY_LIMIT, "The most to retry."),
            CURSOR,
        ),
        answers={200: shape.RetriedAnswer},
        waits=True,
    ),
    Operation(
        method="GET",
        path=_ID,
        run=fire,
        says="One fire",
        scope="read",
        answers={200: shape.ReportedAnswer},
        for_wakes=True,
    ),
    Operation(
        method="GET",
        path=f"{_ID}/why",
        run=why,
        says="Explain why a fire was late, failed, or was skipped",
        scope="read",
        for_wakes=True,
        answers={200: Why},
    ),
    Operation(
        method="POST",
        path=f"{_ID}/report",
        run=report,
        says="Report the outcome of a fire",
        scope="write",
        for_wakes=True,
        body=ReportRequest,
        answers={200: shape.ReportedAnswer},
        refuses=(409,),
        own_token=True,
    ),
    Operation(
        method="POST",
        path=f"{_ID}/retry",
        run=retry,
        says="Retry a failed or timed-out fire",
        scope="write",
        answers={200: shape.FireAnswer},
        refuses=(409,),
    ),
    Operation(
        method="POST",
        path=f"{_ID}/hand-over",
        run=hand_over,
        says="Wake another target in place of the one that has this wake, which is reported as completed with that",
        scope="write",
        body=shape.HandOverBody,
        answers={200: shape.NotedAnswer},
        refuses=(409,),
    ),
    _INBOX,
    replace(
        _INBOX,
        method="GET",
        run=inbox,
        body=None,
        body_optional=False,
        refuses=(),
        says=f"The same with GET, for clients that send {CLIENT} or a token",
        headers=(
            operations.Header(
                CLIENT,
                "Any value; proves that the request does not come from a web page. Not needed with a token.",
                ".+",
            ),
        ),
        safe=False,
    ),
)
