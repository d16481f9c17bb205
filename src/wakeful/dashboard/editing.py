"""`/alarms/{id}/edit`: change an alarm; what would change is shown before it is saved, and nobody's change is lost."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final, get_args

from starlette.responses import Response

from wakeful.dashboard.new import payload_of
from wakeful.dashboard.page import Visit
from wakeful.dashboard.words import is_cut
from wakeful.errors import Conflict, InvalidRequest, WakefulError
from wakeful.model.alarm import Alarm, Kind
from wakeful.model.requests import EditRequest
from wakeful.rules.wanted import request_of
from wakeful.service.change import EditPreview, preview_edit
from wakeful.service.history import next_fires
from wakeful.service.views import DOORS

TEXTS: Final = ("wake_message", "label", "target", "timezone", "conversation_id")
NEXT: Final = 5


async def page(visit: Visit) -> Response:
    visit.principal.need("write")
    alarm = await visit.alarms.get(visit.request.path_params["id"])
    return await _form(visit, alarm, _as_it_is(alarm), version=str(alarm.version))


def _as_it_is(alarm: Alarm) -> dict[str, str]:
    return {name: getattr(alarm, name) for name in TEXTS} | {"when": "", "kind": "", "payload": alarm.payload_json}


async def save(visit: Visit) -> Response:
    """Show what would change; save it where that was shown and is wanted."""
    alarm = await visit.alarms.get(visit.request.path_params["id"])
    given = _given(visit, alarm)
    said = visit.field("version")
    try:
        asked = _request(alarm, given)
        version = int(said) if said.isdigit() and len(said) < 10 else alarm.version
        if visit.field("step") == "save":
            done = await visit.alarms.edit(alarm.id, asked, version=version)
            return visit.back(f"/alarms/{done.alarm.id}", " ".join(["Changed.", *done.notes]))
        preview = await preview_edit(visit.alarms, alarm.id, asked, version=version)
    except (InvalidRequest, Conflict) as error:
        return await _form(visit, alarm, given, version=str(alarm.version), error=error)
    return await _form(visit, alarm, given, version=said, preview=preview)


def _given(visit: Visit, alarm: Alarm) -> dict[str, str]:
    """The form as it was sent. A field that was not touched is what the alarm has now, whoever changed it since.

    So is a payload that is too long for the form.
    """
    current = _as_it_is(alarm)
    given = {name: visit.field(name) for name in current}
    sent = _was(given)
    untouched = [name for name in given if f"was_{name}" in visit.form and visit.field(f"was_{name}") == sent[name]]
    if is_cut(alarm.payload_json):
        untouched.append("payload")
    return given | {name: current[name] for name in untouched}


def _was(values: dict[str, str]) -> dict[str, str]:
    """What a form remembers of the values it was made with. A payload is long: twice in a form it would be too long."""
    return values | {"payload": sha256(values["payload"].strip().encode("utf-8", "replace")).hexdigest()}


def _request(alarm: Alarm, given: dict[str, str]) -> EditRequest:
    changed: dict[str, object] = {
        name: given[name] for name in TEXTS if _plain(given[name]) != _plain(getattr(alarm, name))
    }
    if given["when"]:
        changed["when"] = given["when"]
        if given["kind"]:
            changed["kind"] = given["kind"]
    if given["payload"] != alarm.payload_json:
        changed["payload"] = payload_of(given["payload"] or "{}")
    return request_of(EditRequest, changed)


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").strip()  # a browser sends lines so, and a field is read without its edges


async def _form(
    visit: Visit,
    alarm: Alarm,
    given: dict[str, str],
    *,
    version: str,
    error: WakefulError | None = None,
    preview: EditPreview | None = None,
) -> Response:
    values: dict[str, Any] = {"alarm": alarm, "given": given, "at_version": version, "error": error, "preview": preview}
    values["was"] = _was(_as_it_is(alarm))
    values["kinds"] = get_args(Kind)
    values["following"] = await next_fires(preview.after, NEXT) if preview else []
    values["now"] = await visit.context.service.now()
    status = 200 if error is None else DOORS[error.code][0]
    return visit.show("edit.html", status, here="alarms", **values)
