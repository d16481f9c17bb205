"""`/alarms` and `/fires`: what there is, found by what stands in the address."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from wakeful.dashboard.page import Visit, between
from wakeful.errors import InvalidRequest
from wakeful.http import operations
from wakeful.model.alarm import ALARM_STATUSES, FIRE_STATUSES
from wakeful.moments import cursor_text
from wakeful.rules.create import TEXT_LIMIT, check_text
from wakeful.schedule import duration
from wakeful.service.bulk import alarms_like, alarms_of, fires_like

PAGE: Final = 50
SIZE: Final = 400_000  # characters of rows on a page


async def alarms(visit: Visit) -> Response:
    visit = visit.on_behalf(visit.query("owner"))
    values = await _asked(visit, "alarms")
    found = await alarms_like(visit.alarms, **values.pop("found_by"), limit=PAGE, most=SIZE)
    values |= {"alarms": found, "statuses": ALARM_STATUSES, "kinds": KINDS}
    return _shown(visit, "alarms", values, found.further)


async def fires(visit: Visit) -> Response:
    visit = visit.on_behalf(visit.query("owner"))
    values = await _asked(visit, "fires")
    found = await fires_like(visit.alarms, **values.pop("found_by"), limit=PAGE, most=SIZE)
    values |= {"fires": found, "statuses": FIRE_STATUSES, "named": await alarms_of(visit.alarms, found)}
    until = values["until"]
    values["to_come"] = between("/timeline/coming", values["now"], until) if until and until > values["now"] else ""
    return _shown(visit, "fires", values, found.further)


async def _asked(visit: Visit, what: str) -> dict[str, Any]:
    asked = {name: visit.query(name) for name in names_of(what)}
    now = await visit.context.service.now()
    cursor = cursor_of(visit.query("cursor"))
    found_by = filters(what, asked, now) | {"cursor": cursor}
    return {
        "asked": asked,
        "until": found_by.get("until"),
        "found_by": found_by,
        "is_first": cursor is None,
        "now": now,
        "here": what,
    }


def _shown(visit: Visit, what: str, values: dict[str, Any], further: Any) -> Response:
    asked = values["asked"]
    values |= {
        "is_filtered": any(asked.values()),
        "newest": address(asked),
        "older": address(asked, cursor=cursor_text(*further)) if further is not None else "",
        "shown": chosen_columns(visit, what),
        "known_columns": COLUMNS[what],
    }
    return keep_columns(visit, what, visit.show(f"{what}.html", **values))


# Which columns a list shows: chosen in its address, and kept in a cookie for the next time


# In the order in which they are shown. What an alarm is called always is.
COLUMNS: Final = {
    "alarms": {
        "status": "Status",
        "next": "Next",
        "schedule": "Schedule",
        "target": "Target",
        "label": "Label",
        "conversation": "Conversation",
        "created": "Set",
        "fires": "Fires",
        "error": "Last error",
        "key": "Key",
        "id": "Id",
    },
    "fires": {
        "late": "Late",
        "outcome": "Outcome",
        "target": "Target",
        "attempts": "Attempts",
        "took": "Took",
        "result": "Result",
        "id": "Id",
    },
}
USUAL: Final = {
    "alarms": ("status", "next", "schedule", "target", "id"),
    "fires": ("late", "outcome", "target", "attempts", "result"),
}
_A_YEAR: Final = 365 * 86_400


def chosen_columns(visit: Visit, what: str) -> list[str]:
    """The columns of a list, in their own order, whatever order they were named in."""
    said = visit.request.query_params.getlist("columns")
    kept = visit.request.cookies.get(_cookie(what), "").split(".")
    wanted = [name for name in COLUMNS[what] if name in (said or kept)]
    return wanted or list(USUAL[what])


def keep_columns(visit: Visit, what: str, response: Response) -> Response:
    """Remember what was chosen just now."""
    if visit.request.query_params.getlist("columns"):
        kept = ".".join(chosen_columns(visit, what))
        path = visit.root or "/"
        response.set_cookie(_cookie(what), kept, max_age=_A_YEAR, path=path, samesite="strict", httponly=True)
    return response


def _cookie(what: str) -> str:
    return f"wakeful_columns_{what}"


# Which alarms or fires a page is about: filters as they stand in its address. Pure


KINDS: Final = ("once", "cron")
ALARM_FILTERS: Final = ("text", "status", "kind", "target", "label", "conversation_id", "since", "until", "owner")
FIRE_FILTERS: Final = ("status", "target", "since", "until", "owner")
_ACCEPTED: Final = {"alarms": {"status": ALARM_STATUSES, "kind": KINDS}, "fires": {"status": FIRE_STATUSES}}
_LENGTH: Final = re.compile(r"\d+(\.\d+)?\s*[a-z]+(\s*\d+(\.\d+)?\s*[a-z]+)*", re.IGNORECASE)


def names_of(what: str) -> Sequence[str]:
    return ALARM_FILTERS if what == "alarms" else FIRE_FILTERS


def filters(what: str, asked: Mapping[str, str], now: datetime) -> dict[str, Any]:
    """What a page asks for, as `find` and `fires` take it; InvalidRequest names the filter that is not understood."""
    found: dict[str, Any] = {}
    for name in names_of(what):
        if not (said := asked.get(name, "")):
            continue
        check_text(name, said, TEXT_LIMIT)
        if name == "owner":  # whose they are is for the visit to say, by the rights it has
            continue
        if name in ("since", "until"):
            found[name] = moment_of(name, said, now)
        elif name in _ACCEPTED[what]:
            found[name] = _among(name, said, _ACCEPTED[what][name])
        else:
            found[name] = said
    if found.get("kind") and found["kind"] not in KINDS:  # a status may be several, a kind is one
        raise InvalidRequest(f"{found['kind']!r} is not accepted", field="kind", fix=f"Accepted: {', '.join(KINDS)}.")
    return found


def moment_of(name: str, said: str, now: datetime) -> datetime:
    """A moment: RFC 3339, unix seconds, or a length of time, which counts back from now."""
    if _LENGTH.fullmatch(said):
        try:
            return now - duration(said)
        except (InvalidRequest, OverflowError):
            pass
    found: datetime = operations.moment(name, "").read(name, said)
    return found


def _among(name: str, said: str, accepted: Sequence[str]) -> str | tuple[str, ...]:
    parts = tuple(part.strip() for part in said.split(","))
    if wrong := [part for part in parts if part not in accepted]:
        raise InvalidRequest(f"{wrong[0]!r} is not accepted", field=name, fix=f"Accepted: {', '.join(accepted)}.")
    return parts[0] if len(parts) == 1 else parts


def cursor_of(said: str) -> tuple[datetime, str] | None:
    found: tuple[datetime, str] | None = operations.CURSOR.read("cursor", said) if said else None
    return found


def address(asked: Mapping[str, str], **more: str) -> str:
    """The query of a page with these filters, to be put behind its path."""
    kept = {name: value for name, value in {**asked, **more}.items() if value}
    return "?" + urlencode(kept) if kept else ""
