"""`tail`: what happened last, one line each, and with -f whatever happens next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, Final

import click
import msgspec

from wakeful.cli.colours import painted
from wakeful.cli.context import Command, asked
from wakeful.cli.output import Output, clean, table, utc
from wakeful.cli.times import reader_zone
from wakeful.clock import SystemClock
from wakeful.errors import NotFound, TooMany
from wakeful.model.alarm import Alarm
from wakeful.process.application import Wakeful
from wakeful.remote.connection import RESET
from wakeful.schedule import zone
from wakeful.service import views
from wakeful.service.diagnosis import length
from wakeful.service.live import WHATS, LiveEvent
from wakeful.service.watch import Overview

_KEPT: Final = 2000  # alarms whose words are remembered while following
_SHORT: Final = 13  # signs of an id that a terminal shows: its millisecond, and enough to find it by


@click.command("tail", cls=Command)
@click.argument("id", default="")
@click.option("-f", "--follow", is_flag=True, help="Go on as things happen, until Ctrl-C.")
@click.option(
    "-n", "limit", type=click.IntRange(0, 1000), default=20, show_default=True, help="How many to begin with."
)
@click.option("--what", "whats", type=click.Choice(WHATS), multiple=True, help="Only these; may be repeated.")
def tail_command(id: str, follow: bool, limit: int, whats: tuple[str, ...]) -> None:
    """Show the latest events, and follow them as they happen.

    Of all alarms, or of one. With --json each line is a JSON document. Columns in a pipe: at, what, target, id, label,
    message, reason.
    """
    out = asked().output

    async def do(alarms: Wakeful) -> None:
        say = _Teller(alarms, out)
        said = 0
        async for event in _events(alarms, id, whats, limit=limit, follow=follow):
            await say(event)
            said += 1
        if not said and limit:
            out.empty("Nothing has happened here yet.")

    try:
        asked().run(do)
    except KeyboardInterrupt:
        return  # that is how one stops it


async def _events(
    alarms: Wakeful, id: str, whats: tuple[str, ...], *, limit: int, follow: bool
) -> AsyncIterator[LiveEvent]:
    if id:
        id = (await alarms.get(id)).id  # NotFound, where there is none
    if not follow:
        for event in await _latest(alarms, id, whats, limit):
            yield event
        return
    opened = asyncio.Event()
    following = alarms.events(*whats, alarm_id=id, opened=opened)
    coming = asyncio.ensure_future(anext(following))
    try:
        await _either(coming, opened)  # before it is read what was last: nothing falls between the two
        told = await _latest(alarms, id, whats, limit)
        for event in told:
            yield event
        known = {_key(event) for event in told}
        while True:
            event = await _next(coming)
            coming = asyncio.ensure_future(anext(following))
            if event.what == RESET:
                click.echo("note: the server was away, and some events were missed", err=True)
            elif _key(event) not in known:
                yield event
    finally:
        coming.cancel()
        await asyncio.wait((coming,), timeout=2)  # whoever pressed Ctrl-C does not wait for a server


async def _next(coming: asyncio.Future[LiveEvent]) -> LiveEvent:
    try:
        return await coming
    except StopAsyncIteration:
        said = "events came faster than they could be shown"
        raise TooMany(said, fix="Start again, with fewer: --what.") from None


async def _either(coming: asyncio.Future[LiveEvent], opened: asyncio.Event) -> None:
    ready = asyncio.ensure_future(opened.wait())
    await asyncio.wait((coming, ready), return_when=asyncio.FIRST_COMPLETED)
    ready.cancel()


async def _latest(alarms: Wakeful, id: str, whats: tuple[str, ...], limit: int) -> list[LiveEvent]:
    return await alarms.recent_events(*whats, alarm_id=id, limit=limit) if limit else []


def _key(event: LiveEvent) -> tuple[object, ...]:
    return event.at, event.what, event.alarm_id, event.fire_id


class _Teller:
    """Says events one by one, with the words of their alarms."""

    def __init__(self, alarms: Wakeful, out: Output) -> None:
        self._clock = alarms
        self._out = out
        self._words: dict[str, Alarm | None] = {}

    async def __call__(self, event: LiveEvent) -> None:
        alarm = await self._alarm(event.alarm_id)
        if self._out.json:
            line = msgspec.json.encode(_document(event, alarm)).decode()
        elif self._out.terminal:
            line = _line(event, alarm, self._out)
        else:
            words = (alarm.label, alarm.wake_message) if alarm else ("", "")
            target = event.target or (alarm.target if alarm else "")
            cells = (utc(event.at), event.what, target, event.fire_id or event.alarm_id, *words, event.reason)
            line = "\t".join(map(clean, cells))
        self._out.echo(line)  # flushed at once: whoever reads the pipe hears of it when it happens

    async def _alarm(self, id: str) -> Alarm | None:
        if id not in self._words:
            if len(self._words) >= _KEPT:
                self._words.clear()
            try:
                self._words[id] = await self._clock.get(id)
            except NotFound:  # deleted since
                self._words[id] = None
        return self._words[id]


def _document(event: LiveEvent, alarm: Alarm | None) -> dict[str, Any]:
    shown: dict[str, Any] = {name: value for name, value in msgspec.structs.asdict(event).items() if value}
    if alarm is not None:
        shown = {"target": alarm.target} | shown | {"label": alarm.label, "message": alarm.wake_message}
    return shown


def _line(event: LiveEvent, alarm: Alarm | None, out: Output) -> str:
    words = (alarm.label or alarm.wake_message) if alarm is not None else ""
    target = event.target or (alarm.target if alarm is not None else "")
    said = f"{words}: {event.reason}" if event.reason and words else words or event.reason
    at, what = f"{event.at.astimezone(zone(reader_zone())):%d %b %H:%M:%S}", f"{event.what:<9}"
    rest = f"  {clean(target)[:12]:<12}  {event.alarm_id[:_SHORT]}  {clean(said)}"
    room = out.width - len(at) - len(what) - 2
    rest = rest if len(rest) <= room else rest[: room - 1].rstrip() + "…"
    return f"{at}  {painted(what, event.what) if out.coloured else what}{rest}".rstrip()


# `top`: what is due, in flight and next, refreshed until somebody has seen enough.

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
