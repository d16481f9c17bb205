"""`/alarms` and `/fires`: what there is, found by what stands in the address."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from wakeful.alarm import ALARM_STATUSES, FIRE_STATUSES
from wakeful.dashboard.page import Visit
from wakeful.http.operations import next_cursor
from wakeful.moments import read_cursor

PAGE: Final = 50
SIZE: Final = 400_000  # characters of rows on a page
ALARM_FILTERS: Final = ("status", "kind", "target", "label", "conversation_id", "text")


async def alarms(visit: Visit) -> Response:
    asked = {name: visit.query(name) for name in ALARM_FILTERS}
    cursor = visit.query("cursor")
    found = await visit.alarms.find(
        **{name: value for name, value in asked.items() if value},  # type: ignore[arg-type]
        limit=PAGE,
        cursor=read_cursor(cursor) if cursor else None,
        most=SIZE,
    )
    values: dict[str, Any] = {"alarms": found, "asked": asked, "statuses": ALARM_STATUSES, "is_first": not cursor}
    values |= {"next_page": _next(asked, found.further), "now": await visit.context.service.now(), "here": "alarms"}
    return visit.show("alarms.html", **values)


async def fires(visit: Visit) -> Response:
    asked = {name: visit.query(name) for name in ("status", "target")}
    cursor = visit.query("cursor")
    found = await visit.alarms.fires(
        status=asked["status"],
        target=asked["target"],
        limit=PAGE,
        cursor=read_cursor(cursor) if cursor else None,
        most=SIZE,
    )
    values: dict[str, Any] = {"fires": found, "asked": asked, "statuses": FIRE_STATUSES, "is_first": not cursor}
    values |= {"next_page": _next(asked, found.further), "now": await visit.context.service.now(), "here": "fires"}
    return visit.show("fires.html", **values)


def _next(asked: dict[str, str], further: Any) -> str:
    """The address of the next page; empty where this is the last."""
    if further is None:
        return ""
    kept = {name: value for name, value in asked.items() if value}
    return "?" + urlencode(kept | {"cursor": next_cursor(*further)})
