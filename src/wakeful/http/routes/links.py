"""The pages behind the links in a message: a person says that a wake is done, or wants it again later.

Programs open the links of a message to preview or to check them, so opening one shows a page and changes nothing; its
button reports. The address holds the fire's report token, and nobody signs in.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape
from typing import Final
from urllib.parse import parse_qs

from msgspec.structs import replace
from starlette.responses import HTMLResponse, Response

from wakeful.errors import Conflict, InvalidRequest, NotFound, Unauthorized, WakefulError
from wakeful.http import operations
from wakeful.http.endpoint import Context
from wakeful.http.operations import Operation, OperationRequest, TextParameter
from wakeful.http.routes.fires import speaks_for
from wakeful.http.security.guard import problem, read
from wakeful.model.requests import ReportRequest
from wakeful.rules.report import check_open
from wakeful.service import Alarms

SNOOZES: Final = ("15 minutes", "1 hour", "1 day")
_FORM_LIMIT: Final = 1000  # bytes
_SHOWN: Final = 2000  # characters of a message
_STYLE: Final = (
    "body{font:1.1rem/1.5 system-ui,sans-serif;max-width:34rem;margin:3rem auto;padding:0 1rem;color-scheme:light dark}"
    "button{font:inherit;padding:.5rem 1.2rem;margin:0 .5rem .5rem 0}p{white-space:pre-wrap;overflow-wrap:anywhere}"
)
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
# A browser that sends no referrer at all sends no origin with the form either, and it would be refused.
_HEADERS: Final = {
    "content-security-policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "cache-control": "no-store",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "x-robots-tag": "noindex",
}


async def done_page(context: Context, call: OperationRequest) -> Response:
    return await _shown(context, call, "<button>Done</button>")


async def snooze_page(context: Context, call: OperationRequest) -> Response:
    buttons = "".join(f'<button name="for" value="{name}">{name}</button>' for name in SNOOZES)
    return await _shown(context, call, f"Again in: {buttons}")


async def done(context: Context, call: OperationRequest) -> Response:
    return await _reported(context, call, ReportRequest(outcome="completed"), "Done.")


async def snooze(context: Context, call: OperationRequest) -> Response:
    try:
        form = parse_qs((await read(call.request, limit=_FORM_LIMIT)).decode("utf-8", "replace"), max_num_fields=10)
        name = form.get("for", [""])[0]
        if name not in SNOOZES:
            raise InvalidRequest(f"{name[:60]!r} is not accepted", field="for", fix=f"Accepted: {', '.join(SNOOZES)}.")
    except (WakefulError, ValueError) as error:
        return _refused(error if isinstance(error, WakefulError) else InvalidRequest("it cannot be read", field="form"))
    return await _reported(context, call, ReportRequest(outcome="snooze", wait=name), f"Again in {name}.")


async def _shown(context: Context, call: OperationRequest, buttons: str) -> Response:
    """What the link is about, and its buttons, as long as there is something left to report."""
    try:
        alarms = await _operator(context, call)
        ended = await _ended(alarms, call.fire_id)
        message = (await alarms.get(call.fire_id.rpartition("@")[0])).wake_message
    except WakefulError as error:
        return _refused(error)
    form = f'<form method="post">{buttons}</form>'
    return _page(f"<p>{escape(message[:_SHOWN])}</p>{f'<p>{escape(ended)}</p>' if ended else form}")


async def _reported(context: Context, call: OperationRequest, report: ReportRequest, said: str) -> Response:
    try:
        await (await _operator(context, call)).report(call.fire_id, report)
    except WakefulError as error:
        return _refused(error)
    return _page(f"<p>{said}</p>")


async def _operator(context: Context, call: OperationRequest) -> Alarms:
    """The verbs without an owner, once the token of the address is found to be that of its fire."""
    if not await speaks_for(context, call.fire_id, str(call["token"])):
        raise Unauthorized("this link is not valid, or it has expired", field="token", fix="Use that of the message.")
    return Alarms(context.service, replace(call.caller, owner=""))


async def _ended(alarms: Alarms, fire_id: str) -> str:
    """Why there is nothing to report any more; empty where there is, as while the first attempt is under way."""
    try:
        check_open(await alarms.fire_of(fire_id))
    except Conflict as error:
        return error.message
    except NotFound:
        return ""
    return ""


def _refused(error: WakefulError) -> Response:
    return _page(f"<p>{escape(f'{error.message}. {error.fix}')}</p>", problem(error).status or 500)


def _page(body: str, status: int = 200) -> Response:
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    page = f"<!doctype html><html lang=en>{head}<title>wakeful</title><style>{_STYLE}</style>{body}</html>"
    return HTMLResponse(page, status, _HEADERS)


_TEXT: Final = TextParameter(("text/html",), "A page")
_PAGE: Final = Operation(
    method="GET",
    path="/r/{fire_id}/done",
    run=done_page,
    says="Show the page behind a link: a button for Done; changes nothing",
    scope="",
    query=(operations.text("token", "The report token of the wake."),),
    answers={
        200: _TEXT,
        400: TextParameter((*_TEXT.media, "application/problem+json"), "What is not accepted"),
        **dict.fromkeys((401, 404, 409), TextParameter(_TEXT.media, "A page that says why not")),
    },
)
_SNOOZE: Final = "/r/{fire_id}/snooze"
LINKS: Final = (
    _PAGE,
    replace(_PAGE, method="POST", run=done, says="Report from that page that the wake is done"),
    replace(
        _PAGE, path=_SNOOZE, run=snooze_page, says="Show the page behind a link: buttons for later; changes nothing"
    ),
    replace(_PAGE, path=_SNOOZE, method="POST", run=snooze, says="Report from that page that the wake is wanted later"),
)
