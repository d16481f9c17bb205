"""`/alarms` and `/fires`: what there is, found by what stands in the address."""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response

from wakeful.alarm import ALARM_STATUSES, FIRE_STATUSES
from wakeful.dashboard import columns
from wakeful.dashboard.addresses import between
from wakeful.dashboard.choosing import KINDS, address, cursor_of, filters, names_of
from wakeful.dashboard.page import Visit
from wakeful.moments import cursor_text
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
        "shown": columns.chosen(visit, what),
        "known_columns": columns.COLUMNS[what],
    }
    return columns.keep(visit, what, visit.show(f"{what}.html", **values))
