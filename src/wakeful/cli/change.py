"""Commands that change alarms and report on fires. Each answers with the row as it is now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import click

from wakeful.alarm import ALARM_STATUSES
from wakeful.alarm.request import ReportRequest
from wakeful.cli import tell
from wakeful.cli.bulk import agreed_ids, all_to_cancel, choosing, is_chosen, picked, picked_fires, to_cancel
from wakeful.cli.context import Command, asked
from wakeful.cli.output import tell_notes, tracked
from wakeful.errors import InvalidRequest, WakefulError
from wakeful.process.application import Wakeful
from wakeful.service import Changed, ChangedFire, views

Verb = Callable[[Wakeful, str], Awaitable[dict[str, Any]]]


def _each(ids: tuple[str, ...], verb: Verb, noun: str = "alarms") -> int:
    """Do it to each. One that is refused does not keep the others from it; the exit status is the first refusal's."""

    async def do(alarms: Wakeful) -> tuple[list[dict[str, Any]], list[WakefulError], datetime]:
        done, refused = [], []
        for id in tracked(ids, label="working"):
            try:
                done.append(await verb(alarms, id))
            except WakefulError as error:
                refused.append(error)
        return done, refused, await alarms.service.now()

    done, refused, now = asked().run(do)
    if done or asked().json:
        out = asked().output
        short = out.ids([str(one["id"]) for one in done])
        rows = [(short[str(one["id"])], str(one["status"]), _remark(one, now)) for one in done]
        out.rows(("id", "status", "remark"), rows, {noun: done, "now": now})
    statuses = [tell(error, json=asked().json) for error in refused]
    return statuses[0] if statuses else 0


def _changed(done: Changed) -> dict[str, Any]:
    tell_notes(done.notes)
    return views.view(done.alarm) | {"in_flight": done.in_flight}


def _remark(shown: dict[str, Any], now: datetime) -> str:
    parts = ["one attempt is under way and may still arrive"] if shown.get("in_flight") else []
    if "next_fire_at" in shown:
        out = asked().output
        parts.append(("next " if out.terminal else "next at ") + out.when(shown["next_fire_at"], now))
    return "; ".join(parts)


@click.command("cancel", cls=Command)
@click.argument("ids", nargs=-1, metavar="ID…")
@click.option("--all", "everything", is_flag=True, help="Every pending alarm of the owner.")
@choosing()
@click.option("--reason", default="", help="Why, for those who ask later.")
def cancel_command(ids: tuple[str, ...], everything: bool, reason: str, **given: Any) -> int:
    """Cancel alarms.

    Those that are named, or all that fit the options, also those whose wake still waits in the inbox. What has already
    ended answers as it is.
    """
    if not everything and not ids and not is_chosen(given):
        raise InvalidRequest("name the alarms, or say --all", field="ID", fix="wakeful ls shows their ids.")
    if everything and (ids or is_chosen(given)):
        raise InvalidRequest("it stands alone", field="--all", fix="To choose, leave it out: --label, --to, --text ….")
    if everything:
        found = agreed_ids(asked().run(all_to_cancel), given, "cancelled")
        if found is None:
            return 0
        count, now = asked().run(lambda alarms: _cancel_all(alarms, found, reason))
        asked().output.record({"cancelled": str(count)}, {"cancelled": count, "now": now})
        return 0

    async def one(alarms: Wakeful, id: str) -> dict[str, Any]:
        return _changed(await alarms.cancel(id, reason=reason))

    chosen = picked(ids, given, "cancelled", ("active", "paused"), to_cancel, also=("fired",))
    return 0 if chosen is None else _each(chosen, one)


async def _cancel_all(alarms: Wakeful, ids: tuple[str, ...], reason: str) -> tuple[int, datetime]:
    if not reason:
        return await alarms.reset(), await alarms.service.now()
    for id in ids:
        await alarms.cancel(id, reason=reason)
    return len(ids), await alarms.service.now()


@click.command("pause", cls=Command)
@click.argument("ids", nargs=-1, metavar="ID…")
@choosing()
@click.option("--reason", default="", help="Why, for those who ask later.")
def pause_command(ids: tuple[str, ...], reason: str, **given: Any) -> int:
    """Pause alarms until they are resumed.

    Those that are named, or all active ones that fit the options.
    """

    async def one(alarms: Wakeful, id: str) -> dict[str, Any]:
        return _changed(await alarms.pause(id, reason=reason))

    chosen = picked(ids, given, "paused", ("active",))
    return 0 if chosen is None else _each(chosen, one)


@click.command("resume", cls=Command)
@click.argument("ids", nargs=-1, metavar="ID…")
@choosing()
def resume_command(ids: tuple[str, ...], **given: Any) -> int:
    """Resume paused alarms.

    Those that are named, or all paused ones that fit the options.
    """

    async def one(alarms: Wakeful, id: str) -> dict[str, Any]:
        return _changed(await alarms.resume(id))

    chosen = picked(ids, given, "resumed", ("paused",))
    return 0 if chosen is None else _each(chosen, one)


@click.command("snooze", cls=Command)
@click.argument("words", nargs=-1, metavar="[ID…] FOR")
@click.option("--until", metavar="TIME", help='In the place of FOR: a moment, or a phrase such as "tomorrow at 9am".')
@choosing()
def snooze_command(words: tuple[str, ...], until: str | None, **given: Any) -> int:
    """Put an alarm off for a while.

    FOR is a duration: 15m, 1h30m, "2 days". Without an ID, all active alarms that fit the options are put off.
    """
    if not words and until is None:
        raise InvalidRequest("it is not said for how long", field="FOR", fix='Give a duration, or --until "9am".')
    ids, wait = (words, None) if until is not None else (words[:-1], words[-1])

    async def one(alarms: Wakeful, id: str) -> dict[str, Any]:
        return _changed(await alarms.snooze(id, wait, until=until))

    chosen = picked(tuple(ids), given, "put off", ("active",))
    return 0 if chosen is None else _each(chosen, one)


@click.command("skip", cls=Command)
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@click.option("--at", metavar="TIME", help="The fire that is meant; another one is not skipped.")
@choosing(())
def skip_command(ids: tuple[str, ...], at: str | None, **given: Any) -> int:
    """Skip the next fire of a series, and keep the series.

    With --at (such as "tomorrow at 9am" or 2026-12-24T09:00:00Z) it skips that one or none, and may be repeated. To
    move a fire instead: wakeful snooze.
    """

    async def one(alarms: Wakeful, id: str) -> dict[str, Any]:
        return _changed(await alarms.skip(id, at=at))

    chosen = picked(ids, given, "skipped once", ("active",))
    return 0 if chosen is None else _each(chosen, one)


@click.command("undo", cls=Command)
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@click.option("--when", metavar="TIME", help="A new time, where that of a cancelled or edited one-shot has passed.")
@choosing(())
def undo_command(ids: tuple[str, ...], when: str | None, **given: Any) -> int:
    """Take back the last change of an alarm.

    A cancel, skip, pause or edit of the last 24 hours can be taken back, once, while nothing else changed since.
    """

    async def one(alarms: Wakeful, id: str) -> dict[str, Any]:
        return _changed(await alarms.undo(id, when=when))

    chosen = picked(ids, given, "taken back to what they were", ALARM_STATUSES)
    return 0 if chosen is None else _each(chosen, one)


@click.command("fire", cls=Command)
@click.argument("id")
def fire_command(id: str) -> int:
    """Fire an alarm now, once more; its own time stays.

    It is shown among the fires of the alarm, as manual, and does not count for --max-fires. Answers with the one-shot
    copy by which it is delivered.
    """

    async def one(alarms: Wakeful, id: str) -> dict[str, Any]:
        made = await alarms.fire(id)
        tell_notes(made.notes)
        return views.view(made.alarm)

    return _each((id,), one)


def _report(say: Callable[[Wakeful], Awaitable[ChangedFire]]) -> None:
    async def do(alarms: Wakeful) -> tuple[ChangedFire, datetime]:
        return await say(alarms), await alarms.service.now()

    done, now = asked().run(do)
    tell_notes(done.notes)
    fire, alarm, again = done.fire, done.alarm, done.retry_at
    out = asked().output
    fields = {
        "id": out.id(fire.id),
        "status": fire.status,
        "reason": fire.reason,
        "result": fire.result,
        "error": fire.last_error,
        "next": out.when(again or alarm.next_fire_at, now) if alarm.status == "active" else "",
    }
    out.record(fields, views.fire_view(fire) | {"now": now})


@click.command("retry", cls=Command)
@click.argument("fire", default="")
@click.option("--failed", is_flag=True, help="Every fire that failed or fell silent and fits the options.")
@choosing(("target", "before", "after"))
def retry_command(fire: str, failed: bool, **given: Any) -> int:
    """Open a failed or timed-out fire again.

    With --failed all of them, oldest first; --before and --after say when they were due. One whose alarm has gone on
    since is refused and does not keep the others from it.
    """
    if failed == bool(fire) or (fire and is_chosen(given)):
        raise InvalidRequest("name a fire, or say --failed", field="FIRE", fix="wakeful failed shows them.")
    chosen = picked_fires(fire, given)
    if chosen is None:
        return 0
    if fire:
        _report(lambda alarms: alarms.retry(fire))
        return 0

    async def one(alarms: Wakeful, id: str) -> dict[str, Any]:
        return views.fire_view((await alarms.retry(id)).fire)

    return _each(chosen, one, "fires")


cost_option = click.option("--cost", type=float, metavar="NUMBER", help="What the work cost, for budgets of cost.")


renew_option = click.option("--renew", is_flag=True, help="Keep its series, which a wake has set, for as long again.")


@click.command("done", cls=Command)
@click.argument("fire")
@click.argument("result", default="")
@cost_option
@renew_option
def done_command(fire: str, result: str, cost: float | None, renew: bool) -> None:
    """Report that the work of a fire is done.

    FIRE may be the alarm's id where one fire of it awaits a report.
    """
    said = ReportRequest(outcome="completed", result=result, cost=cost, renew=renew)
    _report(lambda alarms: alarms.report(fire, said))


@click.command("fail", cls=Command)
@click.argument("fire")
@click.argument("reason", default="")
@cost_option
@renew_option
def fail_command(fire: str, reason: str, cost: float | None, renew: bool) -> None:
    """Report that the work of a fire failed.

    It is retried as the alarm's policy says.
    """
    said = ReportRequest(outcome="failed", reason=reason, cost=cost, renew=renew)
    _report(lambda alarms: alarms.report(fire, said))
