"""`/timeline?month=…`: a month of days, for people who think in days."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from starlette.responses import Response

from wakeful.dashboard.addresses import between
from wakeful.dashboard.page import Visit
from wakeful.service.figures import (
    Cell,
    day_of,
    days_of_month,
    first_of,
    hours_between,
    month_name,
    timeline,
    week_name,
)

DayCell = tuple[date, Cell, float]  # with how many hours the day has


async def page(visit: Visit, asked: str, tz: ZoneInfo, in_zone: str) -> Response:
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
