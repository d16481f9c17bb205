"""`/new`: set an alarm; what a time means is shown while it is typed."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Final

from msgspec import DecodeError, Raw, json
from starlette.responses import Response

from wakeful.dashboard.page import Visit
from wakeful.errors import InvalidRequest, InvalidSchedule, WakefulError
from wakeful.model.alarm import Alarm
from wakeful.model.requests import CreateRequest
from wakeful.rules.wanted import request_of

_QUOTED: Final = re.compile(r'"([^"]{1,200})"')
FIELDS: Final = ("when", "wake_message", "target", "timezone", "label", "conversation_id", "idempotency_key")


async def page(visit: Visit) -> Response:
    visit.principal.need("write")
    if like := visit.query("like"):
        return await _form(visit, _as_in(await visit.alarms.get(like)))
    return await _form(visit, {name: visit.query(name) for name in (*FIELDS, "payload")})


def _as_in(alarm: Alarm) -> dict[str, str]:
    """The fields for another alarm like this one. A key is not copied, nor a moment that will have passed."""
    copied = {name: getattr(alarm, name) for name in ("wake_message", "target", "timezone", "label", "conversation_id")}
    payload = "" if alarm.payload_json == "{}" else alarm.payload_json
    when = alarm.cron_expr if alarm.kind == "cron" else ""
    return copied | {"payload": payload, "when": when, "idempotency_key": ""}


async def _form(visit: Visit, given: dict[str, str], error: WakefulError | None = None) -> Response:
    targets = sorted(await visit.context.service.targets.served()) if visit.is_operator else ["inbox"]
    status = 200 if error is None else 422
    return visit.show("new.html", status, here="new", given=given, targets=targets, error=error)


async def preview(visit: Visit) -> Response:
    """What the time in the form means, or why it is not understood."""
    when = visit.field("when")
    if not when:
        return visit.show("parts/preview.html", understood=None, error=None)
    try:
        understood = await visit.alarms.parse(when, timezone=visit.field("timezone"))
    except InvalidSchedule as error:
        nearest = await _nearest(visit, error.fix)
        return visit.show("parts/preview.html", understood=None, error=error, nearest=nearest)
    return visit.show("parts/preview.html", understood=understood, error=None)


async def _nearest(visit: Visit, fix: str) -> list[str]:
    """The forms that a refusal suggests, those that work: each becomes a button."""
    found = []
    for text in dict.fromkeys(_QUOTED.findall(fix)):
        with suppress(InvalidSchedule):
            await visit.alarms.parse(text, timezone=visit.field("timezone"))
            found.append(text)
    return found


async def create(visit: Visit) -> Response:
    given = {name: visit.field(name) for name in (*FIELDS, "payload")}
    try:
        made = await visit.alarms.create(_request(given))
    except InvalidRequest as error:
        return await _form(visit, given, error)
    said = "This key was taken: here is the alarm that has it." if made.deduped else "The alarm is set."
    return visit.back(f"/alarms/{made.alarm.id}", " ".join([said, *made.all_notes]))


def _request(given: dict[str, str]) -> CreateRequest:
    said: dict[str, object] = {name: given[name] for name in FIELDS if given[name]}
    said.setdefault("wake_message", "")
    if given["payload"]:
        said["payload"] = payload_of(given["payload"])
    return request_of(CreateRequest, said)


def payload_of(text: str) -> object:
    try:
        json.decode(text)
    except DecodeError as error:
        raise InvalidRequest(
            f"it is not JSON ({error})", field="payload", fix='Write JSON, such as {"page": 3}.'
        ) from None
    return Raw(text.encode())
