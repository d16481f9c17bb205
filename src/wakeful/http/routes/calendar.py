"""The calendar feed over HTTP, and the addresses that calendar programs subscribe to."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET
from starlette.responses import Response

from wakeful.http import answers as shape
from wakeful.http import operations
from wakeful.http.endpoint import Context
from wakeful.http.operations import Header, Operation, OperationRequest, TextParameter
from wakeful.http.security.guard import Answer, answer, body, header
from wakeful.rules.wanted import span
from wakeful.service.calendar_feed import FEED, FEED_TOKEN, CalendarLinks, calendar_feed

CALENDAR_FILE: Final = "text/calendar; charset=utf-8"
# Kept by the program that subscribes and by nobody on the way; asked again as often as it likes, for its ETag.
_KEPT: Final = "private, max-age=300"


async def feed(context: Context, call: OperationRequest) -> Response:
    found = await calendar_feed(context.store, call.caller.owner, base=_base(context, call), now=await context.now())
    headers = {"etag": found.etag, "cache-control": _KEPT}
    if found.etag in _etags(header(call.request.scope, b"if-none-match") or ""):
        return Response(status_code=304, headers=headers)
    disposition = 'inline; filename="wakeful.ics"'
    return Answer(found.body, 200, headers | {"content-disposition": disposition}, CALENDAR_FILE)


async def new_link(context: Context, call: OperationRequest) -> Response:
    request = await body(call.request, shape.CalendarLinkBody, optional=True)
    lasts = None if request.expires is None else span(request.expires, "expires")
    made = await _links(context, call).new(lasts=lasts, label=request.label)
    token = made.token
    shown = shape.CalendarLinkAnswer(
        url=made.url,
        id=UNSET if token is None else token.id,
        label=UNSET if token is None else token.label or UNSET,
        expires_at=UNSET if token is None else token.expires_at or UNSET,
        now=await context.now(),
    )
    return answer(shown, 201, {"cache-control": "no-store"})


async def revoke_link(context: Context, call: OperationRequest) -> Response:
    revoked = await _links(context, call).revoke(call.request.path_params["token_id"])
    return answer(shape.RevokedLinkAnswer(id=revoked, state="revoked", now=await context.now()))


def _links(context: Context, call: OperationRequest) -> CalendarLinks:
    return CalendarLinks(context.store, call.caller, _base(context, call))


def _base(context: Context, call: OperationRequest) -> str:
    return context.settings.public_url or str(call.request.base_url)


def _etags(given: str) -> list[str]:
    """Compared without their strength: a proxy that packs an answer weakens its tag."""
    return [tag.strip().removeprefix("W/") for tag in given.split(",")]


OPERATIONS: Final = (
    Operation(
        method="GET",
        path=FEED,
        run=feed,
        says="Coming fires, and what became of the latest ones, as a calendar to subscribe to",
        scope="calendar",
        query=(operations.text(FEED_TOKEN, "A token with the scope calendar, for programs that send no headers."),),
        headers=(Header("If-None-Match", "The ETag of an earlier answer: 304 if nothing has changed.", ".*"),),
        answers={
            200: TextParameter(("text/calendar",), "A calendar file (RFC 5545), one event for each fire"),
            304: TextParameter((), "Nothing has changed since the answer with this ETag"),
        },
    ),
    Operation(
        method="POST",
        path="/v1/calendar-links",
        run=new_link,
        says="Make an address of the calendar feed, with a token of its own; it is shown this once",
        scope="write",
        body=shape.CalendarLinkBody,
        body_optional=True,
        answers={201: shape.CalendarLinkAnswer},
        refuses=(409,),
    ),
    Operation(
        method="DELETE",
        path="/v1/calendar-links/{token_id}",
        run=revoke_link,
        says="Make an address of the calendar feed useless, for good",
        scope="write",
        answers={200: shape.RevokedLinkAnswer},
    ),
)
