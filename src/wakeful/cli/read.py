"""`ls`, `show` and `why`: what there is, and why it is as it is."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click
import msgspec

from wakeful.cli.context import Command, asked
from wakeful.cli.output import Output, local, schedule_of, since, tell_notes, utc, words
from wakeful.model.alarm import ALARM_STATUSES, Alarm, Fire
from wakeful.process.application import Wakeful
from wakeful.service import HistoryEntry, views
from wakeful.service.history import STATUSES, HistoryStatus
from wakeful.store import COUNTED, Stats

_PAGE = 500


@click.command("ls", cls=Command)
@click.option("--all", "everything", is_flag=True, help="Also what has fired, failed or was cancelled.")
@click.option("--status", type=click.Choice(ALARM_STATUSES), help="Only these.")
@click.option("--kind", type=click.Choice(["once", "cron"]), help="Only these.")
@click.option("--to", "target", default="", metavar="TARGET", help="Only those of a target.")
@click.option("--label", default="", help="Only those with this label.")
@click.option("--conversation", default="", help="Only those of a conversation.")
@click.option("--since", "after", metavar="TIME|DURATION", help="Created at or after, or so long ago at most.")
@click.option("--until", "before", metavar="TIME|DURATION", help="Created before.")
@click.option("-q", "text", default="", metavar="TEXT", help="Part of the label or the message.")
@click.option("-n", "limit", type=click.IntRange(1), default=100, show_default=True, help="How many at most.")
def ls_command(
    everything: bool, status: str | None, after: str | None, before: str | None, limit: int, **options: str
) -> None:
    """List alarms, newest first.

    Those that are active or paused, unless --all or --status says otherwise. Columns in a pipe: id, status,
    next fire, schedule, target, label, message.
    """
    statuses = (status,) if status else () if everything else ("active", "paused")

    async def do(alarms: Wakeful) -> tuple[list[Alarm], datetime]:
        now = await alarms.now()
        filters = {
            "status": statuses,
            "kind": options["kind"] or "",
            "target": options["target"],
            "label": options["label"],
            "conversation_id": options["conversation"],
            "text": options["text"],
            "since": since(after, "since", now),
            "until": since(before, "until", now),
        }
        return await _pages(alarms, filters, limit), now

    found, now = asked().run(do)
    if len(found) > limit:
        click.echo(f"note: there are more; these are the newest {limit} (-n)", err=True)
    _list(found[:limit], now)


async def _pages(alarms: Wakeful, filters: dict[str, Any], limit: int) -> list[Alarm]:
    """As many as asked, and one more where there are more."""
    found: list[Alarm] = []
    while len(found) <= limit:
        size = min(_PAGE, limit + 1 - len(found))
        page = await alarms.find(**filters, cursor=found[-1] if found else None, limit=size)
        found += page
        if len(page) < size:
            break
    return found


def _list(alarms: list[Alarm], now: datetime) -> None:
    out = asked().output
    columns = ("id", "status", "next", "schedule", "target", "label", "message")
    shown = out.ids([alarm.id for alarm in alarms])
    rows = [
        (
            shown[alarm.id],
            alarm.status,
            out.at(alarm.next_fire_at, now) if alarm.status == "active" else "",
            schedule_of(alarm),
            alarm.target,
            alarm.label,
            alarm.wake_message,
        )
        for alarm in alarms
    ]
    if not rows and out.empty('There are no such alarms. Set one: wakeful at "in 5 minutes" "Look at the mail"'):
        return
    out.rows(columns, rows, {"alarms": [views.view(alarm) for alarm in alarms], "now": now})


@click.command("show", cls=Command)
@click.argument("id")
@click.option("-n", "count", type=click.IntRange(0, _PAGE), default=5, show_default=True, help="How many fires.")
def show_command(id: str, count: int) -> None:
    """Show one alarm and its latest fires."""

    async def do(alarms: Wakeful) -> tuple[Alarm, list[Fire], datetime]:
        alarm = await alarms.get(id)
        return alarm, await alarms.fires(alarm.id, limit=count) if count else [], await alarms.now()

    alarm, fires, now = asked().run(do)
    shown: dict[str, Any] = views.view(alarm) | {"when": words(alarm)}
    out = asked().output
    fields = {name: _text(value, out, now) for name, value in shown.items()} | {"payload": alarm.payload_json}
    if alarm.status == "active" and not out.terminal:
        fields["local"] = local(alarm.next_fire_at, alarm.timezone)
    for number, fire in enumerate(fires, 1):
        if out.terminal:
            fields[f"fire {number}"] = f"{out.when(fire.scheduled_for, now)}: {_became(fire, alarm)}"
        else:
            fields[f"fire {utc(fire.scheduled_for)}"] = _became(fire, alarm)
    out.record(fields, shown | {"fires": [views.fire_view(fire, alarm.id) for fire in fires], "now": now})


def _text(value: Any, out: Output, now: datetime) -> str:
    if isinstance(value, datetime):
        return out.when(value, now)
    return value if isinstance(value, str) else views.encode(value).decode()


def _became(fire: Fire, alarm: Alarm) -> str:
    manual = "manual, " if fire.alarm_id != alarm.id else ""
    tries = f", {fire.attempts} attempts" if fire.attempts > 1 else ""
    why = fire.last_error or fire.result or fire.reason
    return f"{manual}{fire.status}{tries}" + (f": {why}" if why else "")


@click.command("why", cls=Command)
@click.argument("id")
def why_command(id: str) -> None:
    """Explain when an alarm fires, or why it was late or did not.

    ID is an alarm's, or a fire's for that fire alone.
    """
    why = asked().run(lambda alarms: alarms.why(id))
    out = asked().output
    if out.json:
        click.echo(views.encode(why))
    else:
        for line in (why.summary, *(f"- {fact}" for fact in why.facts)):
            out.echo(out.sentence(line, why.now))


# `history`, `failed`, `agenda` and `stats`: what happened, what is to come, and how much of it.


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
        now = await alarms.now()
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
        return await alarms.failed(limit=limit), await alarms.now()

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
        return found, await alarms.now()

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
        return await alarms.stats(), await alarms.now()

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
