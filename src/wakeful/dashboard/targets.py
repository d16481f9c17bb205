"""`/targets`: where wakes go, who serves that, and how it went in the last day."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from starlette.responses import Response

from wakeful.dashboard.page import Visit
from wakeful.service.figures import SAMPLED, TargetHours
from wakeful.service.figures import targets as targets_by_hour
from wakeful.service.targets import told
from wakeful.service.watch import overview

ACTIVE: Final = 500
FIRES: Final = 500
WIDTH, HEIGHT = 8, 24  # of an hour in a sparkline


async def page(visit: Visit) -> Response:
    return await _shown(visit)


async def test(visit: Visit) -> Response:
    """Send one wake through a target and show what came back."""
    visit.principal.need("admin")
    name = visit.request.path_params["id"]
    tested = await visit.context.service.test_target(name, via="dashboard")
    said = "; ".join(f"{key}: {value}" for key, value in told(tested.outcome).items() if value)
    return await _shown(visit, tested=(name, tested, said))


async def _shown(visit: Visit, tested: Any = None) -> Response:
    alarms, service = visit.alarms, visit.context.service
    now = await service.now()
    active = await alarms.active(limit=ACTIVE)
    fires = await alarms.fires(since=now - timedelta(hours=1), limit=FIRES)
    states = await service.targets.states()
    served = await service.targets.served()
    hours = await targets_by_hour(alarms, everyone=visit.is_operator, now=now)
    if not visit.is_operator:  # which machines run, and what others' wakes met, is not theirs to see
        used = {alarm.target for alarm in active} | {fire.target for fire in fires} | set(hours)
        served = {name: workers for name, workers in served.items() if name in used}
        states = {}
    found = overview(
        active,
        fires,
        {name: served.get(name, []) for name in (*served, *hours)},  # also what was served, and is not any more
        states,
        more=active.further is not None,
        lease=visit.context.settings.lease,
        now=now,
    )
    values: dict[str, Any] = {
        "overview": found,
        "states": states,
        "hours": hours,
        "outlines": outlines,
        "latency": latency_line,
        "sampled": SAMPLED,
        "tested": tested,
        "now": now,
    }
    return visit.show("targets.html", here="targets", **values)


def bars(target: TargetHours) -> list[dict[str, int]]:
    """The rectangles of a sparkline: what went out above what failed, hour by hour."""
    most = max((hour.out + hour.failed for hour in target.hours), default=0) or 1
    drawn: list[dict[str, int]] = []
    for number, hour in enumerate(target.hours):
        bad = -(-HEIGHT * hour.failed // most)
        good = min(HEIGHT - bad, -(-HEIGHT * hour.out // most))
        drawn.append({"x": number * WIDTH + 1, "good": good, "bad": bad, "top": HEIGHT - bad - good})
    return drawn


def outlines(target: TargetHours) -> dict[str, str]:
    """The bars of a sparkline as one path of each kind: a fourth of the bytes that as many rectangles are."""
    drawn = bars(target)
    return {
        "none": "".join(f"M{bar['x']} {HEIGHT}h6v1h-6z" for bar in drawn),
        "good": "".join(f"M{bar['x']} {bar['top']}h6v{bar['good']}h-6z" for bar in drawn if bar["good"]),
        "bad": "".join(f"M{bar['x']} {bar['top'] + bar['good']}h6v{bar['bad']}h-6z" for bar in drawn if bar["bad"]),
    }


def latency_line(target: TargetHours) -> list[str]:
    """The points of lines through the median latency of each hour: a new one after each hour without any."""
    most = max((hour.latency.median for hour in target.hours), default=0) or 1
    lines: list[list[str]] = [[]]
    for number, hour in enumerate(target.hours):
        if not hour.latency.count:
            lines.append([])
            continue
        y = HEIGHT - 2 - (HEIGHT - 4) * hour.latency.median // most
        # Twice, a little apart: an hour that stands alone is a short stroke and not an invisible point.
        lines[-1] += [f"{number * WIDTH + 2},{y}", f"{number * WIDTH + WIDTH - 2},{y}"]
    return [" ".join(line) for line in lines if line]
