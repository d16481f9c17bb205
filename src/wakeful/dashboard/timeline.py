"""`/timeline`: what fired and what will, as a week of hours or a month of days, in the reader's zone."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import unquote
from zoneinfo import ZoneInfo

from starlette.responses import Response

from wakeful.dashboard import month
from wakeful.dashboard.addresses import between
from wakeful.dashboard.page import Visit
from wakeful.errors import InvalidRequest
from wakeful.schedule import zone
from wakeful.service.figures import AHEAD, AHEAD_SIZE, timeline
from wakeful.service.timeline import days, hours_of, monday_of, week_name

ZONE: Final = "wakeful_tz"  # a cookie that theme.js sets to the zone of the reader's machine
LISTED: Final = 150
_WEEK: Final = timedelta(days=7)


async def page(visit: Visit) -> Response:
    tz = reader_zone(visit)
    if asked := visit.query("month"):
        return await month.page(visit, asked, tz)
    now = await visit.context.service.now()
    monday = monday_of(visit.query("week"), now.astimezone(tz).date())
    dates = [monday + timedelta(days=number) for number in range(7)]
    steps = [step for day in dates for step in hours_of(day, tz) if step is not None]
    found = await timeline(visit.alarms, steps, now=now)
    values: dict[str, Any] = {
        "days": days(dates, tz, found.cells),
        "known_until": found.known_until,
        "week": week_name(monday),
        "month": f"{monday:%Y-%m}",
        "before": week_name(monday - _WEEK),
        "after": week_name(monday + _WEEK),
        "tz": tz.key,
        "between": between,
        "now": now,
    }
    return visit.show("parts/week.html" if visit.is_fragment else "week.html", here="timeline", **values)


async def coming(visit: Visit) -> Response:
    """The alarms that will fire between two moments."""
    now = await visit.context.service.now()
    since, until = moment(visit, "since"), moment(visit, "until")
    hours = max(0.0, (until - now).total_seconds() / 3600)
    agenda = await visit.alarms.agenda(hours=hours, limit=AHEAD, most=AHEAD_SIZE)
    listed = [(at, alarm) for at, alarm in agenda if since <= at < until]
    values: dict[str, Any] = {"agenda": listed[:LISTED], "more": len(listed) - LISTED, "since": since, "until": until}
    values["is_cut"] = agenda.further is not None and (not agenda or agenda[-1][0] < until)
    return visit.show("coming.html", here="timeline", now=now, **values)


def reader_zone(visit: Visit) -> ZoneInfo:
    """The zone that is asked for, else that of the reader's machine, else UTC."""
    if asked := visit.query("tz"):
        return zone(asked)
    try:
        return zone(unquote(visit.request.cookies.get(ZONE, "")) or "UTC")
    except InvalidRequest:
        return zone("UTC")


def moment(visit: Visit, name: str) -> datetime:
    text = visit.query(name)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise InvalidRequest(
            f"{text!r} is not a moment", field=name, fix="Give one with its zone, such as 2026-11-16T09:00:00Z."
        )
    return found
