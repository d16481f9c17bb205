"""`simulate`: what the alarms of a database will do in the days to come, run in simulated time on a copy of them."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from datetime import datetime, time, timedelta
from html import escape
from pathlib import Path
from typing import Final

import click
from msgspec import to_builtins

from wakeful.cli.context import Command, asked
from wakeful.cli.output import Output
from wakeful.errors import InvalidRequest, NotFound
from wakeful.model.alarm import INBOX
from wakeful.process.application import build_store
from wakeful.process.forecast import Down, Forecast, HourOfTarget, JumpingClock, OwnerDay, forecast
from wakeful.schedule import zone
from wakeful.settings import Settings
from wakeful.store import Store

_SPAN: Final = re.compile(r"(\d{1,2}):(\d{2})-(\d{1,2}):(\d{2})")
_CELL, _ROW, _LEFT, _TOP = 6, 22, 140, 40  # pixels of the picture: an hour, a target, the names, the days
_SHADES: Final = ("#ebedf0", "#9be9a8", "#40c463", "#30a14e", "#216e39")
_SKIPPED: Final = "#d0a215"
Row = tuple[str, str, str, str, str]


@click.command("simulate", cls=Command)
@click.option("--days", type=click.IntRange(1, 366), default=7, show_default=True, help="How many days.")
@click.option("--down", multiple=True, metavar="HH:MM-HH:MM", help="No worker runs then, each day. Can be repeated.")
@click.option("--cost", type=click.FloatRange(min=0), default=0.0, help="What each wake costs, for the budgets.")
@click.option("--picture", type=click.Path(dir_okay=False, path_type=Path), help="Also draw it into this SVG file.")
def simulate_command(days: int, down: tuple[str, ...], cost: float, picture: Path | None) -> None:
    """Show what will fire in the days to come, without firing anything.

    All active and paused alarms are copied and run in simulated time: fires by target and hour, budgets, collisions,
    holidays, clock changes, and what a worker that is down makes late. Nothing is sent and nothing is changed.

    \b
      wakeful simulate --days 7 --down 02:00-04:00

    Columns in a pipe: what, when, name, count, details.
    """
    settings = asked().settings()
    if "://" not in settings.db and not os.path.exists(settings.db):
        raise NotFound(f"{os.path.abspath(settings.db)} does not exist", field="db", fix="Name another: --db.")
    pauses = [_down(text) for text in down]
    if picture is not None:
        _check_writable(picture)
    found = asyncio.run(_simulated(settings, timedelta(days=days), pauses, cost))
    if picture is not None:
        picture.write_text(drawing(found), encoding="utf-8")
    out = asked().output
    rows = list(_rows(found, out))
    if out.is_table:
        out.echo(_headline(found) + "\n")
    document = to_builtins(found, builtin_types=(datetime,))
    out.rows(("what", "when", "name", "count", "details"), rows, document)


async def _simulated(settings: Settings, length: timedelta, down: Sequence[Down], cost: float) -> Forecast:
    source = build_store(settings)
    places = {name: given.get("concurrency") for name, given in settings.targets.items()}
    concurrency = {name: count if isinstance(count, int) else settings.concurrency for name, count in places.items()}
    try:
        with tempfile.TemporaryDirectory(prefix="wakeful-simulate-") as folder:

            def scratch(clock: JumpingClock) -> Store:
                from wakeful.store.sqlite import SqliteStore

                return SqliteStore(os.path.join(folder, "simulated.db"), clock=clock)

            return await forecast(
                source,
                scratch,
                settings,
                concurrency={INBOX: settings.total_concurrency, **concurrency},
                length=length,
                down=down,
                cost=cost,
            )
    finally:
        await source.close()


def _check_writable(picture: Path) -> None:
    """Before the simulation, which takes its time."""
    try:
        picture.open("a").close()
    except OSError as error:
        raise InvalidRequest(
            f"{picture} cannot be written: {error.strerror}", field="--picture", fix="Name a file in another folder."
        ) from None


def _down(text: str) -> Down:
    found = _SPAN.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        begins, ends = time(int(found[1]), int(found[2])), time(int(found[3]), int(found[4]))
        if begins == ends:
            raise ValueError
    except ValueError:
        raise InvalidRequest(
            f"{text!r} is not a span of the day", field="--down", fix="For example --down 02:00-04:00."
        ) from None
    return Down(begins, ends)


def _headline(found: Forecast) -> str:
    ends = " (ended early: too many fires to go on)" if found.is_cut else ""
    return (
        f"{found.alarms} alarms until {found.until.astimezone(zone(found.timezone)):%a %d %b %H:%M}{ends}: "
        f"{found.fires} fires, {found.skipped} skipped, {found.late} late by a minute or more"
    )


def _rows(found: Forecast, out: Output) -> Iterator[Row]:
    def at(moment: datetime) -> str:
        return out.at(moment, found.since)

    yield from _fires(found, at_hour=not out.is_table)
    for one in found.collisions:
        yield "collision", at(one.minute), one.target, str(one.fires), f"takes {one.concurrency} at once"
    for day in found.budgets:
        yield "budget", day.day, day.owner, str(day.wakes), _limits(day)
    for run in found.skips:
        yield "skipped", at(run.first), run.label, str(run.count), ": ".join(filter(None, (run.reason, run.detail)))
    yield from _others("skipped", found.skipped - sum(run.count for run in found.skips), out)
    for late in found.late_fires:
        minutes = (late.started_at - late.scheduled_for) // timedelta(minutes=1)
        yield "late", at(late.scheduled_for), late.label, "1", f"by {minutes} min"
    yield from _others("late", found.late - len(found.late_fires), out)
    for change in found.clock_changes:
        way = "forward" if change.seconds > 0 else "back"
        hours = abs(change.seconds) / 3600
        yield "clocks", at(change.at), change.zone, str(change.alarms), f"{hours:g} h {way}"


def _limits(day: OwnerDay) -> str:
    limits = [f"of {day.wakes_per_day} wakes"] * bool(day.wakes_per_day)
    limits += [f"costs {day.cost:g}"] * bool(day.cost) + [f"of {day.cost_per_day:g}"] * bool(day.cost_per_day)
    limits += [f"{day.over_budget} over budget"] * bool(day.over_budget)
    return ", ".join(limits)


def _others(what: str, count: int, out: Output) -> Iterator[Row]:
    """For people: how many are counted above and not listed."""
    if out.is_table and count:
        yield what, "", "", str(count), "others"


def _fires(found: Forecast, *, at_hour: bool) -> Iterator[Row]:
    """By hour for programs, by day for people; days are those of the forecast's zone."""
    tz = zone(found.timezone)
    if at_hour:
        for one in found.hours:
            local = f"{one.hour.astimezone(tz):%Y-%m-%dT%H:%M%z}"
            yield "fires", local, one.target, str(one.fires), f"{one.skipped} skipped"
        return
    days: dict[tuple[str, str], list[HourOfTarget]] = {}
    for one in found.hours:
        days.setdefault((f"{one.hour.astimezone(tz):%a %d %b}", one.target), []).append(one)
    for (day, target), hours in days.items():
        peak = max(hours, key=lambda one: one.fires)
        said = [f"most at {peak.hour.astimezone(tz):%H:%M}: {peak.fires}"] * (len(hours) > 1)
        skipped = sum(one.skipped for one in hours)
        said += [f"{skipped} skipped"] * bool(skipped)
        yield "fires", day, target, str(sum(one.fires for one in hours)), ", ".join(said)


def drawing(found: Forecast) -> str:
    """The hours of each target as an SVG: the darker, the more fires; a mark below where something is skipped."""
    tz = zone(found.timezone)
    first = found.since.replace(minute=0, second=0, microsecond=0)
    hours = int((found.until - first) / timedelta(hours=1)) + 1
    targets = sorted({one.target for one in found.hours})
    most = max((one.fires for one in found.hours), default=1)
    width, height = _LEFT + hours * _CELL + 10, _TOP + len(targets) * _ROW + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        f'font-size="11"><title>{found.fires} fires of {found.alarms} alarms</title>'
        '<rect width="100%" height="100%" fill="white"/>'
    ]
    for number in range(hours):
        local = (first + timedelta(hours=number)).astimezone(tz)
        if local.hour == 0:
            x = _LEFT + number * _CELL
            parts.append(f'<text x="{x}" y="{_TOP - 12}">{local:%a %d %b}</text>')
            parts.append(f'<line x1="{x}" y1="{_TOP - 8}" x2="{x}" y2="{height}" stroke="#999"/>')
    for row, target in enumerate(targets):
        parts.append(f'<text x="4" y="{_TOP + row * _ROW + 14}">{escape(target[:22])}</text>')
    for one in found.hours:
        x = _LEFT + int((one.hour - first) / timedelta(hours=1)) * _CELL
        y = _TOP + targets.index(one.target) * _ROW
        shade = _SHADES[-(-one.fires * (len(_SHADES) - 1) // most)]
        said = f"{one.hour.astimezone(tz):%a %d %b %H:%M} {one.target}: {one.fires} fires, {one.skipped} skipped"
        parts.append(
            f'<rect x="{x}" y="{y}" width="{_CELL - 1}" height="{_ROW - 6}" fill="{shade}">'
            f"<title>{escape(said)}</title></rect>"
        )
        if one.skipped:
            parts.append(f'<rect x="{x}" y="{y + _ROW - 5}" width="{_CELL - 1}" height="3" fill="{_SKIPPED}"/>')
    return "\n".join([*parts, "</svg>\n"])
