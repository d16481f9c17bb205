"""Commands that change alarms and report on fires. Each answers with the row as it is now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import click

from wakeful import views
from wakeful.alarm import Alarm, Fire
from wakeful.app import Wakeful
from wakeful.cli import tell
from wakeful.cli.context import Command, asked
from wakeful.cli.output import utc
from wakeful.errors import InvalidRequest, WakefulError
from wakeful.service import Changed

Verb = Callable[[Wakeful, str], Awaitable[dict[str, Any]]]


def _each(ids: tuple[str, ...], verb: Verb) -> int:
    """Do it to each. One that is refused does not keep the others from it; the exit status is the first refusal's."""

    async def do(clock: Wakeful) -> tuple[list[dict[str, Any]], list[WakefulError], datetime]:
        done, refused = [], []
        for id in ids:
            try:
                done.append(await verb(clock, id))
            except WakefulError as error:
                refused.append(error)
        return done, refused, await clock.service.now()

    done, refused, now = asked().run(do)
    if done or asked().json:
        rows = [(str(one["id"]), str(one["status"]), _remark(one)) for one in done]
        asked().output.rows(("id", "status", "remark"), rows, {"alarms": done, "now": now})
    statuses = [tell(error) for error in refused]
    return statuses[0] if statuses else 0


def _changed(done: Changed) -> dict[str, Any]:
    return views.view(done) | {"in_flight": done.in_flight}


def _remark(shown: dict[str, Any]) -> str:
    parts = ["one attempt is under way and may still arrive"] if shown.get("in_flight") else []
    if "next_fire_at" in shown:
        parts.append(f"next at {utc(shown['next_fire_at'])}")
    return "; ".join(parts)


@click.command("cancel", cls=Command)
@click.argument("ids", nargs=-1, metavar="ID…")
@click.option("--all", "everything", is_flag=True, help="Every pending alarm of the owner.")
@click.option("--reason", default="", help="Why, for those who ask later.")
def cancel_command(ids: tuple[str, ...], everything: bool, reason: str) -> int:
    """Cancel alarms.

    What has already ended answers as it is.
    """
    if everything == bool(ids):
        raise InvalidRequest("name the alarms, or say --all", field="ID", fix="wakeful ls shows their ids.")
    if everything:
        count, now = asked().run(_reset)
        asked().output.record({"cancelled": str(count)}, {"cancelled": count, "now": now})
        return 0

    async def one(clock: Wakeful, id: str) -> dict[str, Any]:
        return _changed(await clock.cancel(id, reason=reason))

    return _each(ids, one)


async def _reset(clock: Wakeful) -> tuple[int, datetime]:
    return await clock.reset(), await clock.service.now()


@click.command("pause", cls=Command)
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@click.option("--reason", default="", help="Why, for those who ask later.")
def pause_command(ids: tuple[str, ...], reason: str) -> int:
    """Pause alarms until they are resumed."""

    async def one(clock: Wakeful, id: str) -> dict[str, Any]:
        return _changed(await clock.pause(id, reason=reason))

    return _each(ids, one)


@click.command("resume", cls=Command)
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
def resume_command(ids: tuple[str, ...]) -> int:
    """Resume paused alarms."""

    async def one(clock: Wakeful, id: str) -> dict[str, Any]:
        return _changed(await clock.resume(id))

    return _each(ids, one)


@click.command("snooze", cls=Command)
@click.argument("id")
@click.argument("for", metavar="FOR")
def snooze_command(id: str, **given: str) -> int:
    """Put an alarm off for a while.

    FOR is a duration: 15m, 1h30m, "2 days".
    """

    async def one(clock: Wakeful, id: str) -> dict[str, Any]:
        return _changed(await clock.snooze(id, given["for"]))

    return _each((id,), one)


@click.command("fire", cls=Command)
@click.argument("id")
def fire_command(id: str) -> int:
    """Fire an alarm now, once more; its own time stays.

    Answers with the one-shot copy that was made.
    """

    async def one(clock: Wakeful, id: str) -> dict[str, Any]:
        return views.view(await clock.fire(id))

    return _each((id,), one)


def _report(say: Callable[[Wakeful], Awaitable[Fire]]) -> None:
    async def do(clock: Wakeful) -> tuple[Fire, Alarm, datetime | None, datetime]:
        fire = await say(clock)
        return fire, await clock.get(fire.alarm_id), await clock.retry_at(fire), await clock.service.now()

    fire, alarm, again, now = asked().run(do)
    fields = {
        "id": fire.id,
        "status": fire.status,
        "reason": fire.reason,
        "result": fire.result,
        "error": fire.last_error,
        "next": utc(again or alarm.next_fire_at) if alarm.status == "active" else "",
    }
    asked().output.record(fields, views.fire_view(fire) | {"now": now})


@click.command("retry", cls=Command)
@click.argument("fire")
def retry_command(fire: str) -> None:
    """Open a failed or timed-out fire again."""
    _report(lambda clock: clock.retry(fire))


@click.command("done", cls=Command)
@click.argument("fire")
@click.argument("result", default="")
def done_command(fire: str, result: str) -> None:
    """Report that the work of a fire is done.

    FIRE may be the alarm's id where one fire of it awaits a report.
    """
    _report(lambda clock: clock.completed(fire, result))


@click.command("fail", cls=Command)
@click.argument("fire")
@click.argument("reason", default="")
def fail_command(fire: str, reason: str) -> None:
    """Report that the work of a fire failed.

    It is retried as the alarm's policy says.
    """
    _report(lambda clock: clock.delivery_failed(fire, reason))
