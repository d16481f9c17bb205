"""Fires over HTTP: what happened, reports on it, another try; and the inbox."""

from __future__ import annotations

import asyncio
import hmac
from typing import Any, Final

from msgspec.structs import replace
from starlette.responses import Response

from wakeful.alarm import FIRE_STATUSES, Fire, Wake, parse_fire_id, report_token, reports_under
from wakeful.doors import answers as shape
from wakeful.doors import table, wire
from wakeful.doors.auth import PREFIX, bearer
from wakeful.doors.guard import Refusal, body, header
from wakeful.doors.hall import Hall
from wakeful.doors.table import CURSOR, PAGE, Ask, Operation
from wakeful.errors import Conflict, NotFound, TooMany, Unauthorized
from wakeful.service import Taken
from wakeful.store import FireQuery

RETRY_LIMIT: Final = 1000
RETRY_AT_ONCE: Final = 32
LONGEST_WAIT: Final = 60.0
INBOX_LIMIT: Final = 100
CLIENT: Final = "X-Wakeful-Client"


async def fires(hall: Hall, ask: Ask) -> Response:
    return await _page(hall, ask)


async def fires_of(hall: Hall, ask: Ask) -> Response:
    alarm = await hall.service.get(ask.id, owner=ask.owner)
    return await _page(hall, ask, alarm.id)


async def _page(hall: Hall, ask: Ask, alarm_id: str = "") -> Response:
    found, further = await _found(hall, ask, alarm_id)
    return await hall.answer({"fires": [wire.fire_view(fire) for fire in found]} | further)


async def _found(hall: Hall, ask: Ask, alarm_id: str = "") -> tuple[list[Fire], dict[str, str]]:
    """The fires the query chooses, and `next_cursor` where there are more."""
    found = await hall.service.fires(
        FireQuery(
            owner=ask.owner,
            alarm_id=alarm_id,
            statuses=ask["status"],
            target=ask.query.get("target", ""),
            since=ask["since"],
            until=ask["until"],
            cursor=ask["cursor"],
            limit=ask["limit"],
            most=table.PAGE_SIZE,
        )
    )
    return found, {} if found.further is None else {"next_cursor": table.next_cursor(*found.further)}


async def fire(hall: Hall, ask: Ask) -> Response:
    return await hall.answer(wire.fire_view(await hall.service.fire_of(ask.fire_id, owner=ask.owner)))


async def why(hall: Hall, ask: Ask) -> Response:
    fire = await hall.service.fire_of(ask.fire_id, owner=ask.owner)
    return await hall.why(await hall.service.why(fire.id, owner=ask.owner, operator=not ask.guarded))


async def report(hall: Hall, ask: Ask) -> Response:
    owner = await _reporter(hall, ask)
    said = wire.report(await body(ask.request, wire.ReportBody))
    fire = await hall.service.report(ask.fire_id, said, owner=owner)
    again = await hall.service.retry_at(fire, owner=owner)
    return await hall.answer(wire.fire_view(fire) | ({"retry_at": again} if again else {}))


async def _reporter(hall: Hall, ask: Ask) -> str:
    """In whose name a report is made; the fire's own token speaks for whoever owns it."""
    header = ask.request.headers.get("authorization")
    scheme = (header or "").partition(" ")[0].lower()
    token = bearer(header)
    if ask.owner and (scheme != "bearer" or token.startswith(PREFIX)):
        return ask.owner
    if not await _speaks_for(hall, ask.fire_id, token):
        what = "this is not the report token of this fire"
        raise Unauthorized(what, field="Authorization", fix="Use report.token of its wake.")
    return ""


async def _speaks_for(hall: Hall, fire_id: str, token: str) -> bool:
    """Whether a report token is this fire's, made with the key there is now or with one it took the place of."""
    keys = await hall.store.report_keys()
    if _is_made_with(keys.current, fire_id, token):
        return True
    for old in keys.retired:
        if _is_made_with(old.key, fire_id, token):
            key = parse_fire_id(fire_id)
            fire = (await hall.store.fires_at([key])).get(key)
            return reports_under(old.retired_at, fire, now=await hall.store.now())
    return False


def _is_made_with(key: bytes, fire_id: str, token: str) -> bool:
    return hmac.compare_digest(token.encode(), report_token(key, fire_id).encode())


async def retry(hall: Hall, ask: Ask) -> Response:
    opened = await hall.service.retry(ask.fire_id, owner=ask.owner, by=ask.by, guarded=ask.guarded)
    return await hall.answer(wire.fire_view(opened))


async def retry_many(hall: Hall, ask: Ask) -> Response:
    found, further = await _found(hall, ask)
    room = asyncio.Semaphore(RETRY_AT_ONCE)

    async def one(fire: Fire) -> bool:
        async with room:
            try:
                await hall.service.retry(fire.id, owner=ask.owner, by=ask.by, guarded=ask.guarded)
            except (Conflict, NotFound, TooMany):
                return False
            return True

    retried = sum(await asyncio.gather(*(one(fire) for fire in found)))
    counts = {"found": len(found), "retried": retried, "refused": len(found) - retried}
    return await hall.answer(counts | further)


async def inbox(hall: Hall, ask: Ask) -> Response:
    # It hands wakes out, and an image on a page is a GET too; but no page can send a header of this name with it.
    if not ask.guarded and not header(ask.request, CLIENT.lower().encode()):
        raise Refusal(
            403,
            "foreign_origin",
            "a page could have made a browser ask this, and wakes would be handed out to nobody",
            field=CLIENT,
            fix=f"Use POST /v1/inbox, or send the header {CLIENT} with any value, or a token.",
        )
    return await take(hall, ask)


async def take(hall: Hall, ask: Ask) -> Response:
    handed = await hall.service.inbox(owner=ask.owner, limit=ask["limit"], wait=ask["wait"], guarded=ask.guarded)
    secret = (await hall.store.report_keys()).current
    base = hall.settings.public_url or str(ask.request.base_url)
    url = base.rstrip("/") + "/v1/fires/{fire_id}/report"
    return await hall.answer({"wakes": [_wake(taken, url, secret) for taken in handed]})


def _wake(taken: Taken, url: str, secret: bytes) -> dict[str, Any]:
    """The wake, which is the same each time, and beside it what is not."""
    alarm, fire = taken
    wake = Wake(replace(alarm, occurrence_at=fire.scheduled_for), report_url=url, secret=secret)
    return wake.fields | wire.handed_out(taken)


_INBOX: Final = Operation(
    method="POST",
    path="/v1/inbox",
    run=take,
    says="Due wakes of an owner without an address, leased until they are reported",
    scope="write",
    query=(
        table.amount("wait", LONGEST_WAIT, 0, "So many seconds until something comes; 0 answers at once."),
        table.whole("limit", 1, INBOX_LIMIT, 10, "At most so many; fewer where they are long."),
    ),
    answers={200: shape.InboxAnswer},
    waits=True,
)
_TIMES: Final = (table.moment("since", "Scheduled at or after."), table.moment("until", "Scheduled before."))
_STATUS: Final = table.several("status", FIRE_STATUSES, "Fires that ended or stand so.")
_TARGET: Final = table.text("target", "Fires that went there.")
_RETRIED: Final = ("failed", "timed_out")
_FAILED: Final = replace(table.several("status", _RETRIED, "Which to retry; both unless said."), default=_RETRIED)
_ID: Final = "/v1/fires/{fire_id}"

OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/fires",
        run=fires,
        says="Fires of all alarms, latest first",
        scope="read",
        query=(_STATUS, _TARGET, *_TIMES, PAGE, CURSOR),
        answers={200: shape.FiresAnswer},
    ),
    Operation(
        method="GET",
        path="/v1/alarms/{id}/fires",
        run=fires_of,
        says="The fires of an alarm, latest first",
        scope="read",
        query=(_STATUS, *_TIMES, PAGE, CURSOR),
        answers={200: shape.FiresAnswer},
    ),
    Operation(
        method="POST",
        path="/v1/fires/retry",
        run=retry_many,
        says=f"Open up to {RETRY_LIMIT} failed or timed-out fires again",
        scope="write",
        query=(
            _FAILED,
            _TARGET,
            *_TIMES,
            table.whole("limit", 1, RETRY_LIMIT, RETRY_LIMIT, "At most so many."),
            CURSOR,
        ),
        answers={200: shape.RetriedAnswer},
        waits=True,
    ),
    Operation(method="GET", path=_ID, run=fire, says="One fire", scope="read", answers={200: shape.FireAnswer}),
    Operation(
        method="GET",
        path=f"{_ID}/why",
        run=why,
        says="Why a fire was late, failed, or was skipped",
        scope="read",
        answers={200: shape.WhyAnswer},
    ),
    Operation(
        method="POST",
        path=f"{_ID}/report",
        run=report,
        says="Say how the work of a fire went",
        scope="write",
        body=wire.ReportBody,
        answers={200: shape.ReportedAnswer},
        refuses=(409,),
        own_token=True,
    ),
    Operation(
        method="POST",
        path=f"{_ID}/retry",
        run=retry,
        says="Open a failed or timed-out fire again",
        scope="write",
        answers={200: shape.FireAnswer},
        refuses=(409,),
    ),
    _INBOX,
    replace(
        _INBOX,
        method="GET",
        run=inbox,
        says=f"The same, for clients that send {CLIENT} or a token",
        headers=(
            table.Header(CLIENT, "Any value: shows that no page made a browser ask. Not needed with a token.", ".+"),
        ),
        safe=False,
    ),
)
