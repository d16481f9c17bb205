"""`ls`, `show` and `why`: what there is, and why it is as it is."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from wakeful.alarm import ALARM_STATUSES, Alarm, Fire
from wakeful.cli.context import Command, asked
from wakeful.cli.output import Output, local, schedule_of, since, utc, words
from wakeful.process.application import Wakeful
from wakeful.service import views

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
    everything: bool, status: str | None, after: str | None, before: str | None, limit: int, **given: str
) -> None:
    """List alarms, newest first.

    Those that are active or paused, unless --all or --status says otherwise. Columns in a pipe: id, status,
    next fire, schedule, target, label, message.
    """
    statuses = (status,) if status else () if everything else ("active", "paused")

    async def do(alarms: Wakeful) -> tuple[list[Alarm], datetime]:
        now = await alarms.service.now()
        filters = {
            "status": statuses,
            "kind": given["kind"] or "",
            "target": given["target"],
            "label": given["label"],
            "conversation_id": given["conversation"],
            "text": given["text"],
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
        return alarm, await alarms.fires(alarm.id, limit=count) if count else [], await alarms.service.now()

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
