"""`history`, `failed`, `agenda` and `stats`: what happened, what is to come, and how much of it."""

from __future__ import annotations

from datetime import datetime

import click
import msgspec

from wakeful.alarm import Alarm
from wakeful.cli.context import Command, asked
from wakeful.cli.output import schedule_of, since, tell_notes
from wakeful.process.application import Wakeful
from wakeful.service import HistoryEntry, views
from wakeful.service.history import STATUSES, HistoryStatus
from wakeful.store import COUNTED, Stats


@click.command("history", cls=Command)
@click.option("--status", type=click.Choice(STATUSES), help="Only these.")
@click.option("--to", "target", default="", metavar="TARGET", help="Only those of a target.")
@click.option("--since", "after", metavar="TIME|DURATION", help="From this moment on, or from so long ago.")
@click.option("-n", "limit", type=click.IntRange(1, 500), default=50, show_default=True, help="How many at most.")
def history_command(status: HistoryStatus | None, target: str, after: str | None, limit: int) -> None:
    """List what happened and what is to come, newest first.

    Columns in a pipe: scheduled for, status, target, id, attempts, label, message, outcome.
    """

    async def do(alarms: Wakeful) -> tuple[list[HistoryEntry], datetime]:
        now = await alarms.service.now()
        begin = since(after, "since", now)
        found = await alarms.history(status=status or "", target=target, since=begin, limit=limit)
        tell_notes(found.notes)
        return found, now

    _entries(*asked().run(do), empty="Nothing has happened here yet, and nothing is to come.")


@click.command("failed", cls=Command)
@click.option("-n", "limit", type=click.IntRange(1, 500), default=20, show_default=True, help="How many at most.")
def failed_command(limit: int) -> None:
    """List the latest fires that failed or fell silent.

    The columns are those of `wakeful history`.
    """

    async def do(alarms: Wakeful) -> tuple[list[HistoryEntry], datetime]:
        return await alarms.failed(limit=limit), await alarms.service.now()

    _entries(*asked().run(do), empty="No fire has failed.")


def _entries(entries: list[HistoryEntry], now: datetime, *, empty: str) -> None:
    out = asked().output
    if not entries and out.empty(empty):
        return
    short = out.ids([entry.id for entry in entries])
    columns: tuple[str, ...] = ("scheduled", "status", "target", "id", "tries", "label", "message", "outcome")
    rows: list[tuple[str, ...]] = [
        (
            out.at(entry.scheduled_for, now),
            entry.status,
            entry.target,
            short[entry.id],
            str(entry.attempts or ""),
            entry.label,
            entry.message,
            _outcome(entry),
        )
        for entry in entries
    ]
    if out.is_table:  # there is room for one column of words
        columns = (*columns[:4], "message")
        rows = [(*row[:4], _in_short(entry)) for row, entry in zip(rows, entries, strict=True)]
    out.rows(columns, rows, {"history": entries, "now": now})


def _outcome(entry: HistoryEntry) -> str:
    outcome = entry.result or entry.error or entry.reason
    return ": ".join(filter(None, ("manual", outcome))) if entry.manual else outcome


def _in_short(entry: HistoryEntry) -> str:
    said = (f"{entry.attempts} attempts" if entry.attempts > 1 else "", _outcome(entry))
    return ": ".join(filter(None, (entry.label or entry.message, ", ".join(filter(None, said)))))


@click.command("agenda", cls=Command)
@click.option("--hours", type=click.FloatRange(0, 24 * 366), default=24, show_default=True, help="How far ahead.")
@click.option("-n", "limit", type=click.IntRange(1, 500), default=100, show_default=True, help="How many at most.")
def agenda_command(hours: float, limit: int) -> None:
    """List the next fires of all alarms, soonest first.

    Columns in a pipe: fires at, schedule, target, id, label, message.
    """

    async def do(alarms: Wakeful) -> tuple[list[tuple[datetime, Alarm]], datetime]:
        found = await alarms.agenda(hours=hours, limit=limit)
        tell_notes(found.notes)
        return found, await alarms.service.now()

    coming, now = asked().run(do)
    out = asked().output
    columns = ("fires at", "schedule", "target", "id", "label", "message")
    short = out.ids([alarm.id for _, alarm in coming])
    rows = [
        (out.at(moment, now), schedule_of(alarm), alarm.target, short[alarm.id], alarm.label, alarm.wake_message)
        for moment, alarm in coming
    ]
    if not rows and out.empty(
        f"Nothing fires in the next {hours:g} hours. `wakeful agenda --hours 168` looks a week ahead."
    ):
        return
    shown = [{"fires_at": moment} | views.view(alarm) for moment, alarm in coming]
    out.rows(columns, rows, {"agenda": shown, "now": now})


@click.command("stats", cls=Command)
def stats_command() -> None:
    """Count alarms and fires."""

    async def do(alarms: Wakeful) -> tuple[Stats, datetime]:
        return await alarms.stats(), await alarms.service.now()

    stats, now = asked().run(do)
    counts = msgspec.structs.asdict(stats)
    out = asked().output
    out.record({name: _counted(name, count, ended=stats.more) for name, count in counts.items()}, counts | {"now": now})


def _counted(name: str, count: int | bool | None, *, ended: bool) -> str:
    """A count as text; with a plus where counting was ended at it."""
    if isinstance(count, bool):
        return "yes" if count else "no"
    if count is None:
        return ""
    return f"{count}+" if ended and count == COUNTED and name != "avg_duration_ms" else str(count)
