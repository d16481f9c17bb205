"""`top`: what is due, in flight and next, refreshed until somebody has seen enough."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import click
import msgspec

from wakeful.cli.context import Command, asked
from wakeful.cli.output import Output, clean, table
from wakeful.cli.times import reader_zone
from wakeful.clock import SystemClock
from wakeful.process.application import Wakeful
from wakeful.schedule import zone
from wakeful.service import views
from wakeful.service.diagnosis import length
from wakeful.service.watch import Overview

_CLEAR: Final = "\x1b[H\x1b[2J"
_APART: Final = ("\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l")  # the terminal's other screen, and back


@click.command("top", cls=Command)
@click.option("--once", is_flag=True, help="Show it once and end; so it is in a pipe and with --json.")
@click.option(
    "--every", type=click.FloatRange(0.2, 3600), default=2, show_default=True, help="Seconds between two looks."
)
def top_command(once: bool, every: float) -> None:
    """Watch what is due, in flight and next, by target.

    Ctrl-C ends it. In a pipe it answers once: one line `total`, then one for each target. Columns: target, state,
    workers, due, in flight, ahead, and of the last hour fired, retrying, failed.
    """
    out = asked().output
    if once or out.json or not out.terminal:
        _tell(asked().run(_look), out)
        return
    try:
        _watch(out, every)
    except KeyboardInterrupt:
        return  # that is how one ends it


def _watch(out: Output, every: float) -> None:
    async def do(alarms: Wakeful) -> None:
        while True:
            seen = await _look(alarms)
            screen = _screen(seen, asked().output)  # the window may have changed
            click.echo(_CLEAR + screen, nl=False, color=out.coloured)
            await SystemClock().sleep(every)

    click.echo(_APART[0], nl=False)
    try:
        asked().run(do)
    finally:
        click.echo(_APART[1], nl=False)


async def _look(alarms: Wakeful) -> Overview:
    return await alarms.overview()


def _tell(seen: Overview, out: Output) -> None:
    if out.json:
        document: dict[str, Any] = msgspec.structs.asdict(seen)
        click.echo(views.encode(document | {"next": [views.view(alarm) for alarm in seen.next]}))
    elif out.terminal:
        out.echo(_screen(seen, out))
    else:
        for row in [_total(seen), *_targets(seen)]:
            click.echo("\t".join(map(clean, row)))


_COLUMNS: Final = ("target", "state", "workers", "due", "flying", "ahead", "fired", "retrying", "failed")


def _total(seen: Overview) -> tuple[str, ...]:
    counts = (seen.due, seen.in_flight, seen.ahead, seen.fired, seen.retrying, seen.failed)
    return ("total", "", "", *map(str, counts))


def _targets(seen: Overview) -> list[tuple[str, ...]]:
    return [
        (
            one.target,
            one.state,
            *map(str, (one.workers, one.due, one.in_flight, one.ahead, one.fired, one.retrying, one.failed)),
        )
        for one in seen.targets
    ]


def _screen(seen: Overview, out: Output) -> str:
    now = seen.now.astimezone(zone(reader_zone()))
    more = "+" if seen.more else ""
    lines = [
        f"wakeful  {now:%a %d %b %H:%M:%S}, {reader_zone()}",
        f"{seen.due}{more} due, {seen.in_flight} in flight, {seen.ahead}{more} ahead",
        f"{seen.per_minute:.0f} fired in the last minute; in the last hour {seen.fired}{more} fired,"
        f" {seen.retrying} retrying, {seen.failed} failed",
        "",
    ]
    targets = table(_COLUMNS, [[clean(cell)[:20] for cell in row] for row in _targets(seen)], out.width, out.paint)
    rows = [
        [_until(alarm.next_fire_at, seen.now), clean(alarm.target)[:12], clean(alarm.label or alarm.wake_message)]
        for alarm in seen.next
    ]
    ahead = table(("next", "target", "what"), rows, out.width, out.paint) if rows else "Nothing is ahead."
    return "\n".join([*(line[: out.width] for line in lines), targets, "", ahead])


def _until(moment: datetime, now: datetime) -> str:
    return f"in {length(moment - now)}"
