"""One fire as a line of time: due, waiting for its start, each attempt, the waits between, its report. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from wakeful.alarm import Fire

WIDTH: Final = 1000
LEAST: Final = 6  # so that what took no time is seen all the same
_MS: Final = timedelta(milliseconds=1)


class Step(Struct, frozen=True, kw_only=True):
    """A part of it. `kind`: late, attempt, failed, wait, report."""

    kind: str
    name: str
    begin: datetime
    end: datetime
    said: str = ""
    x: int = 0
    width: int = 0

    @property
    def ms(self) -> int:
        return (self.end - self.begin) // _MS


def waterfall(fire: Fire, now: datetime) -> list[Step]:
    """Its parts in the order of time, each with its place on a line of WIDTH units. None where nothing was tried."""
    steps = [step for step in _steps(fire, now) if step.end >= step.begin]
    if not steps:
        return []
    first, last = min(step.begin for step in steps), max(step.end for step in steps)
    whole = max(last - first, _MS)
    return [_placed(step, first, whole) for step in steps]


def _placed(step: Step, first: datetime, whole: timedelta) -> Step:
    width = max(LEAST, round(WIDTH * ((step.end - step.begin) / whole)))
    x = min(round(WIDTH * ((step.begin - first) / whole)), WIDTH - width)
    return Step(
        kind=step.kind, name=step.name, begin=step.begin, end=step.end, said=step.said, x=max(0, x), width=width
    )


def _steps(fire: Fire, now: datetime) -> Iterator[Step]:
    if not fire.log:
        return
    reached = fire.scheduled_for
    for number, line in enumerate(fire.log, 1):
        if line.at > reached:
            is_first = number == 1
            name = "waited for its start" if is_first else "waited for the next attempt"
            yield Step(kind="late" if is_first else "wait", name=name, begin=reached, end=line.at)
        end = line.at + line.ms * _MS
        is_last = number == len(fire.log)
        went_well = is_last and fire.status in ("delivered", "completed", "waiting")
        kind = "attempt" if went_well else "failed"
        yield Step(kind=kind, name=f"attempt {number}", begin=line.at, end=end, said=line.said)
        reached = max(reached, end)
    if fire.completed_at is not None and fire.completed_at > reached:
        yield Step(kind="report", name="until its report", begin=reached, end=fire.completed_at, said=fire.result[:200])
    elif fire.status == "delivered" and fire.report_by is not None:
        yield Step(kind="report", name="its report is awaited", begin=reached, end=max(now, reached))
