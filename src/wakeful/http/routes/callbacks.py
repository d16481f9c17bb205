"""Where agent platforms say what became of a wake, in their own words: each is translated into the fire's report.

These operations are open to everyone, so each checks what its platform proves itself with. They are served where a
target of their kind is configured: `settings/kinds.py` names them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from msgspec.structs import replace
from starlette.responses import Response

from wakeful.errors import Conflict, NotFound, Unauthorized
from wakeful.http import answers as shape
from wakeful.http import operations
from wakeful.http.endpoint import Context
from wakeful.http.operations import Operation, OperationRequest
from wakeful.http.routes.fires import speaks_for
from wakeful.http.security.guard import answer, header, read
from wakeful.model.alarm import Fire
from wakeful.model.requests import ReportRequest
from wakeful.service import Alarms
from wakeful.store import FireQuery
from wakeful.targets import a2a, langgraph, openai_session
from wakeful.targets.signing import BadSignature, verify

BODY_LIMIT: Final = 4 * 1024 * 1024  # a platform may send the whole conversation along
BEGAN_WITHIN: Final = timedelta(days=7)  # how long ago the wakes of a session can have been due
_LOOKED_AT: Final = 10_000  # fires that one page goes through
_PAGE: Final = 500
_PAGES: Final = 20  # of one target

Token = Callable[[OperationRequest], str]
Translate = Callable[[bytes, str], ReportRequest | None]


def callback(kind: str, says: str, token: Token, translate: Translate, *, in_query: bool = False) -> Operation:
    """Declare the operation of a platform that is given an address for each wake, and its report token.

    `token` finds that token in a request. `translate` gets the body and what the fire's last note said.
    """
    return Operation(
        method="POST",
        path=f"/v1/callbacks/{kind}/{{fire_id}}",
        run=_Named(kind, partial(_reported, token=token, translate=translate)),
        says=says,
        scope="",
        query=(operations.text("token", "The report token of the wake."),) if in_query else (),
        body=dict[str, Any],
        answers={200: shape.CallbackAnswer},
        refuses=(401, 409),
    )


class _Named:
    """A function with a name, which the OpenAPI document shows."""

    def __init__(self, name: str, run: Callable[[Context, OperationRequest], Awaitable[Response]]) -> None:
        self.__name__ = name
        self._run = run

    async def __call__(self, context: Context, call: OperationRequest) -> Response:
        return await self._run(context, call)


async def _reported(context: Context, call: OperationRequest, *, token: Token, translate: Translate) -> Response:
    given = token(call)
    if not given or not await speaks_for(context, call.fire_id, given):
        raise Unauthorized("this is not the report token of this fire", field="token", fix="Send that of its wake.")
    body = await read(call.request, limit=BODY_LIMIT)
    alarms = _operator(context, call)
    report = translate(body, await _noted(alarms, call.fire_id))
    if report is not None:
        await alarms.report(call.fire_id, report)
    return answer(shape.CallbackAnswer(reported=int(report is not None), now=await context.now()))


async def _noted(alarms: Alarms, fire_id: str) -> str:
    """What an earlier message on this fire said; nothing while its first attempt is under way and not on record."""
    try:
        fire = await alarms.fire_of(fire_id)
    except NotFound:
        return ""
    return fire.result if fire.report_by is not None else ""


def _operator(context: Context, call: OperationRequest) -> Alarms:
    """The verbs without an owner: what was checked stands for the wake's."""
    return Alarms(context.service, replace(call.caller, owner=""))


# The platforms


LANGGRAPH: Final = (
    callback(
        langgraph.KIND,
        "Take the end of a run from a LangGraph server",
        lambda call: str(call["token"]),
        lambda body, _: langgraph.report_of(body),
        in_query=True,
    ),
)
A2A: Final = (
    callback(
        a2a.KIND,
        "Take a push notification from an A2A agent",
        lambda call: header(call.request.scope, a2a.TOKEN_HEADER.encode()) or "",
        lambda body, so_far: a2a.report_of(body, so_far=so_far),
    ),
)


async def session_event(context: Context, call: OperationRequest) -> Response:
    """Report on the wakes of a session that wait for it, whoever their owners are: its key is the project's."""
    body = await read(call.request, limit=BODY_LIMIT)
    targets = _signed_for(context, call, body)
    event = openai_session.event_in(body)
    report = openai_session.report_of(event)
    reported = 0
    if report is not None:
        fires = await _awaited(context, event.data.id, targets)
        reported = await _report_each(_operator(context, call), fires, report)
    return answer(shape.CallbackAnswer(reported=reported, now=await context.now()))


async def _report_each(alarms: Alarms, fires: Iterable[Fire], report: ReportRequest) -> int:
    reported = 0
    for fire in fires:
        with suppress(Conflict):  # somebody else has just reported on it
            await alarms.report(fire.id, report)
            reported += 1
    return reported


def _signed_for(context: Context, call: OperationRequest, body: bytes) -> frozenset[str]:
    """Return the targets whose secret this was signed with."""
    headers, now = call.request.headers, context.service.clock.now()
    secrets = {
        name: str(target.get("webhook_secret", ""))
        for name, target in context.settings.targets.items()
        if target["kind"] == openai_session.KIND
    }
    found = frozenset(name for name, secret in secrets.items() if secret and _is_signed(secret, headers, body, now))
    if not found:
        raise Unauthorized(
            "no target has the secret this was signed with, or it is too old",
            field="webhook-signature",
            fix="Set webhook_secret to the signing secret of the project's webhook.",
        )
    return found


def _is_signed(secret: str, headers: Mapping[str, str], body: bytes, now: datetime) -> bool:
    try:
        verify(secret, headers, body, now=now)
    except BadSignature:
        return False
    return True


async def _awaited(context: Context, session: str, targets: Iterable[str]) -> list[Fire]:
    """Return the fires of a session whose report is awaited."""
    since = await context.now() - BEGAN_WITHIN
    found: list[Fire] = []
    for target in targets:
        query = FireQuery(statuses=("delivered",), target=target, since=since, limit=_PAGE, look_at=_LOOKED_AT)
        for _ in range(_PAGES):
            page = await context.store.fires(query)
            found += [fire for fire in page if fire.report_by is not None and await _is_of(context, fire, session)]
            if page.further is None:
                break
            query = replace(query, cursor=page.further)
    return found


async def _is_of(context: Context, fire: Fire, session: str) -> bool:
    alarm = await context.store.get(fire.alarm_id)
    return alarm is not None and alarm.conversation_id == session


OPENAI_SESSION: Final = (
    Operation(
        method="POST",
        path=f"/v1/callbacks/{openai_session.KIND}",
        run=session_event,
        says="Take a webhook of OpenAI's Agents API",
        scope="",
        body=dict[str, Any],
        answers={200: shape.CallbackAnswer},
        refuses=(401,),
    ),
)
