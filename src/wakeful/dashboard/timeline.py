"""`/timeline`: what fired and what will, as a week of hours or a month of days, in the reader's zone."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from starlette.responses import Response

from wakeful.dashboard.page import Visit, between, reader_zone
from wakeful.errors import InvalidRequest
from wakeful.service.figures import (
    AHEAD,
    AHEAD_SIZE,
    Cell,
    day_of,
    days,
    days_of_month,
    first_of,
    hours_between,
    hours_of,
    monday_of,
    month_name,
    timeline,
    week_name,
)

LISTED: Final = 150
_WEEK: Final = timedelta(days=7)


async def page(visit: Visit) -> Response:
    tz = reader_zone(visit)
    if asked := visit.query("month"):
        return await _month_page(visit, asked, tz, in_zone(visit))
    now = await visit.context.service.now()
    monday = monday_of(visit.query("week"), now.astimezone(tz).date())
    dates = [monday + timedelta(days=number) for number in range(7)]
    steps = [step for day in dates for step in hours_of(day, tz) if step is not None]
    found = await timeline(visit.alarms, steps, now=now)
    values: dict[str, Any] = {
        "days": days(dates, tz, found.cells),
        "known_until": found.known_until,
        "week": week_name(monday),
        "month": month_name(monday),
        "today": now.astimezone(tz).date(),
        "before": week_name(monday - _WEEK),
        "after": week_name(monday + _WEEK),
        "tz": tz.key,
        "in_zone": in_zone(visit),
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
    values["between"] = between
    values["is_cut"] = agenda.further is not None and (not agenda or agenda[-1][0] < until)
    return visit.show("coming.html", here="timeline", now=now, **values)


def in_zone(visit: Visit) -> str:
    """What a link to another week carries on where a zone was asked for."""
    return f"&{urlencode({'tz': asked})}" if (asked := visit.query("tz")) else ""


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


# `/timeline?month=…`: a month of days, for people who think in days


DayCell = tuple[date, Cell, float]  # with how many hours the day has


async def _month_page(visit: Visit, asked: str, tz: ZoneInfo, in_zone: str) -> Response:
    first, now = first_of(asked), await visit.context.service.now()
    dates = days_of_month(first)
    steps = [day_of(day, tz) for day in dates]
    found = await timeline(visit.alarms, steps, now=now)
    marked = [(day, cell, hours_between(step)) for day, cell, step in zip(dates, found.cells, steps, strict=True)]
    values: dict[str, Any] = {
        "weeks": weeks(marked),
        "known_until": found.known_until,
        "month": f"{first:%Y-%m}",
        "title": f"{first:%B %Y}",
        "before": month_name(first - timedelta(days=1)),
        "after": month_name(dates[-1] + timedelta(days=1)),
        "today": now.astimezone(tz).date(),
        "tz": tz.key,
        "in_zone": in_zone,
        "between": between,
        "now": now,
    }
    return visit.show("parts/month.html" if visit.is_fragment else "month.html", here="timeline", **values)


def weeks(found: list[DayCell]) -> list[tuple[str, list[DayCell | None]]]:
    """Rows of seven days that begin on Monday, each with the name of its week; None before and after the month."""
    ahead: list[DayCell | None] = [None] * found[0][0].weekday()
    line = [*ahead, *found]
    line += [None] * (-len(line) % 7)
    rows = [line[at : at + 7] for at in range(0, len(line), 7)]
    return [(week_name(next(one[0] for one in row if one is not None)), row) for row in rows]
