"""Commands that change alarms and report on fires. Each answers with the row as it is now."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Final

import click
from msgspec import Raw

from wakeful.cli import tell
from wakeful.cli.context import Command, asked
from wakeful.cli.fields import payload_of
from wakeful.cli.output import Output, since, tell_notes, tracked
from wakeful.errors import InvalidRequest, WakefulError
from wakeful.model.alarm import ALARM_STATUSES, PENDING, UNSUCCESSFUL, Alarm, Fire
from wakeful.model.requests import ReportRequest
from wakeful.process.application import Wakeful
from wakeful.rules.create import check_payload
from wakeful.rules.wanted import raw_text
from wakeful.service import Changed, ChangedFire, Signalled, views
from wakeful.service.signalling import SignalledAlarm

# Changes of more than one alarm: which they are, how many, and whether the caller means it.
#
# A terminal is asked, for more than a few by typing their number. A script has to say --yes. --dry-run only shows them.

_PAGE: Final = 500
_MANY: Final = 10  # above this the number is typed, not only agreed to
_FILTERS: Final = ("status", "target", "label", "conversation", "text", "before", "after")
_DUE: Final = ("due_from", "due_to")
Options = Callable[[Callable[..., Any]], Callable[..., Any]]
Found = tuple[list[Alarm], datetime]
Find = Callable[[Wakeful, dict[str, Any], tuple[str, ...]], Awaitable[Found]]

_CHOOSING: Final[dict[str, Options]] = {
    "status": click.option("--status", type=click.Choice(ALARM_STATUSES), help="Only these."),
    "target": click.option("--to", "--target", "target", metavar="TARGET", help="Only those of a target."),
    "label": click.option("--label", help="Only those with this label."),
    "conversation": click.option("--conversation", help="Only those of a conversation."),
    "text": click.option("--text", metavar="TEXT", help="Only those with this in the label or the message."),
    "before": click.option("--before", metavar="TIME|DURATION", help="Created before, or longer ago than this."),
    "after": click.option("--after", metavar="TIME|DURATION", help="Created at or after, or so long ago at most."),
    "due_from": click.option(
        "--due-from", metavar="TIME", help='Only what fires from then on: "tomorrow", "in 2 hours".'
    ),
    "due_to": click.option("--due-to", metavar="TIME", help='Only what fires until then: "tomorrow" is the whole day.'),
    "dry_run": click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing."),
    "yes": click.option("--yes", is_flag=True, help="Do not ask. Needed for several at once in a script."),
}


def choosing(names: Sequence[str] = _FILTERS) -> Options:
    """The options that choose, and those of every command that can change several at once."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for name in reversed([*names, "dry_run", "yes"]):
            command = _CHOOSING[name](command)
        return command

    return decorate


def is_chosen(options: dict[str, Any]) -> bool:
    return any(options.get(name) for name in _FILTERS)


async def _found(alarms: Wakeful, options: dict[str, Any], statuses: tuple[str, ...]) -> Found:
    now = await alarms.now()
    filters: dict[str, Any] = {
        "status": statuses,
        "target": options.get("target") or "",
        "label": options.get("label") or "",
        "conversation_id": options.get("conversation") or "",
        "text": options.get("text") or "",
        "since": since(options.get("after"), "after", now),
        "until": since(options.get("before"), "before", now),
    }
    page = await alarms.find(**filters, limit=_PAGE)
    found = list(page)
    while page.further is not None:
        page = await alarms.find(**filters, cursor=page.further, limit=_PAGE)
        found += page
    return found, now


def picked(
    ids: tuple[str, ...],
    options: dict[str, Any],
    verb: str,
    statuses: tuple[str, ...],
    find: Find = _found,
    also: tuple[str, ...] = (),
) -> tuple[str, ...] | None:
    """The ids to act on: those that were named, or all that fit. None: there is nothing to do, and that was said.

    `statuses`: which alarms a filter is for. `also`: those in which an alarm that is named can be changed besides.
    """
    if bool(ids) == is_chosen(options):
        fix = "wakeful ls shows their ids; --label, --to and others choose. Not both."
        raise InvalidRequest("name the alarms, or say which", field="ID", fix=fix)
    if ids and not options["dry_run"]:
        several = dict.fromkeys(ids)
        return ids if len(several) == 1 or _agreed(len(several), "alarm", verb, yes=options["yes"]) else None
    if ids:
        return agreed_ids(asked().run(lambda alarms: _named(alarms, ids)), options, verb, (*statuses, *also))
    wanted = (options["status"],) if options.get("status") else statuses
    return agreed_ids(asked().run(lambda alarms: find(alarms, options, wanted)), options, verb)


def agreed_ids(
    found: Found, options: dict[str, Any], verb: str, statuses: tuple[str, ...] = ()
) -> tuple[str, ...] | None:
    """The ids of these alarms, if the caller means them. None: that was said, or they were only shown.

    `statuses`: in which the command changes an alarm; none: in any.
    """
    alarms, now = found
    if options["dry_run"]:
        would = dict.fromkeys(statuses or ALARM_STATUSES, f"would be {verb}")
        rows = [(alarm.id, alarm.status, would.get(alarm.status, "stays as it is")) for alarm in alarms]
        document = {"alarms": [views.view(alarm) for alarm in alarms], "dry_run": True, "now": now}
        asked().output.rows(("id", "status", "remark"), rows, document)
        return None
    return tuple(alarm.id for alarm in alarms) if _agreed(len(alarms), "alarm", verb, yes=options["yes"]) else None


async def _named(alarms: Wakeful, ids: tuple[str, ...]) -> Found:
    found = [await alarms.get(id) for id in ids]
    return list({alarm.id: alarm for alarm in found}.values()), await alarms.now()


async def to_cancel(alarms: Wakeful, options: dict[str, Any], statuses: tuple[str, ...]) -> Found:
    """Besides those that are pending, alarms that have fired and whose wake nobody has taken from the inbox yet."""
    found, now = await _found(alarms, options, statuses)
    if any(options.get(name) for name in ("status", "before", "after")):
        return found, now
    names = {"target": "target", "label": "label", "conversation": "conversation_id", "text": "text"}
    filters: dict[str, Any] = {theirs: options.get(name) or "" for name, theirs in names.items()}
    known = {alarm.id for alarm in found}
    waiting = (await alarms.cancel_many(**filters, dry_run=True)).alarms
    return [*found, *(alarm for alarm in waiting if alarm.id not in known)], now


async def all_to_cancel(alarms: Wakeful) -> Found:
    """Every pending alarm, and every alarm whose wake nobody has taken from the inbox yet."""
    found, now = await _found(alarms, {}, PENDING)
    known = {alarm.id for alarm in found}
    waiting = dict.fromkeys(fire.alarm_id for fire in await _fires(alarms, status="waiting"))
    return [*found, *[await alarms.get(id) for id in waiting if id not in known]], now


def picked_fires(id: str, options: dict[str, Any]) -> tuple[str, ...] | None:
    """The id of a fire, or of all that failed or fell silent, oldest first, as `picked` has those of alarms."""
    if id and not options["dry_run"]:
        return (id,)
    fires, now = asked().run(lambda alarms: _failed(alarms, id, options))
    if options["dry_run"]:
        rows = [(fire.id, fire.status, "would be retried") for fire in fires]
        document = {"fires": [views.fire_view(fire) for fire in fires], "dry_run": True, "now": now}
        asked().output.rows(("id", "status", "remark"), rows, document)
        return None
    return tuple(fire.id for fire in fires) if _agreed(len(fires), "fire", "retried", yes=options["yes"]) else None


async def _failed(alarms: Wakeful, id: str, options: dict[str, Any]) -> tuple[list[Fire], datetime]:
    now = await alarms.now()
    if id:
        return [await alarms.fire_of(id)], now
    fires = await _fires(
        alarms,
        status=UNSUCCESSFUL,
        target=options.get("target") or "",
        since=since(options.get("after"), "after", now),
        until=since(options.get("before"), "before", now),
    )
    return fires[::-1], now


async def _fires(alarms: Wakeful, **filters: Any) -> list[Fire]:
    page = await alarms.fires(**filters, limit=_PAGE)
    found = list(page)
    while page.further is not None:
        page = await alarms.fires(**filters, cursor=page.further, limit=_PAGE)
        found += page
    return found


def _agreed(count: int, noun: str, verb: str, *, yes: bool) -> bool:
    """Whether the caller means it. How many it is about is always said."""
    what = f"{count} {noun}{'' if count == 1 else 's'}"
    if count == 0:
        click.echo(f"note: no {noun} fits: nothing to do", err=True)
        if asked().json:
            click.echo(views.encode({f"{noun}s": []}))
        return False
    if yes:
        click.echo(f"note: {what} will be {verb}", err=True)
        return True
    if not sys.stdin.isatty():
        fix = "Nothing was changed. --dry-run shows them; --yes does it."
        raise InvalidRequest(f"{what} would be {verb}, and there is no terminal to ask", field="--yes", fix=fix)
    if not _confirmed(f"{what} will be {verb}.", count):
        click.echo("note: nothing was changed", err=True)
        return False
    return True


def _confirmed(said: str, count: int) -> bool:
    if count <= _MANY:
        return click.confirm(f"{said} Go on?", err=True)
    typed: str = click.prompt(f"{said} Type {count} to go on", default="", show_default=False, err=True)
    return typed.strip() == str(count)


# The commands.

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
        return done, refused, await alarms.now()

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
@choosing((*_FILTERS, *_DUE))
@click.option("--reason", default="", help="Why, for those who ask later.")
def cancel_command(ids: tuple[str, ...], everything: bool, reason: str, **options: Any) -> int:
    """Cancel alarms.

    Those that are named, or all that fit the options, also those whose wake still waits in the inbox. What has already
    ended answers as it is. With --due-from or --due-to a series goes on: it only leaves out what falls within.
    """
    if any(options[name] for name in _DUE):
        return _cancel_due(ids, {**options, "everything": everything}, reason)
    if not everything and not ids and not is_chosen(options):
        raise InvalidRequest("name the alarms, or say --all", field="ID", fix="wakeful ls shows their ids.")
    if everything and (ids or is_chosen(options)):
        raise InvalidRequest("it stands alone", field="--all", fix="To choose, leave it out: --label, --to, --text ….")
    if everything:
        found = agreed_ids(asked().run(all_to_cancel), options, "cancelled")
        if found is None:
            return 0
        count, now = asked().run(lambda alarms: _cancel_all(alarms, found, reason))
        asked().output.record({"cancelled": str(count)}, {"cancelled": count, "now": now})
        return 0

    async def one(alarms: Wakeful, id: str) -> dict[str, Any]:
        return _changed(await alarms.cancel(id, reason=reason))

    chosen = picked(ids, options, "cancelled", ("active", "paused"), to_cancel, also=("fired",))
    return 0 if chosen is None else _each(chosen, one)


def _cancel_due(ids: tuple[str, ...], options: dict[str, Any], reason: str) -> int:
    filters = _many(ids, options, ("status", "before", "after", "everything"))
    found = agreed_ids(
        asked().run(lambda alarms: _that_would(alarms.cancel_many, alarms, filters)), options, "cancelled"
    )
    if found is None:
        return 0
    done, now = asked().run(lambda alarms: _all_at_once(alarms.cancel_many(**filters, reason=reason), alarms))
    return _tell_many(done, now)


def _many(ids: tuple[str, ...], options: dict[str, Any], refused: Sequence[str] = ()) -> dict[str, Any]:
    """The filters of a verb that finds its alarms itself."""
    for name in refused:
        if options.get(name):
            fix = "Choose with --due-from, --due-to, --to, --label, --conversation and --text."
            raise InvalidRequest("it does not go with --due-from and --due-to", field=f"--{name}", fix=fix)
    names = {"conversation": "conversation_id"}
    kept = ("target", "label", "conversation", "text", *_DUE)
    return {"ids": ids} | {names.get(name, name): options[name] for name in kept if options.get(name)}


async def _that_would(verb: Callable[..., Awaitable[Any]], alarms: Wakeful, filters: dict[str, Any]) -> Found:
    done = await verb(**filters, dry_run=True)
    tell_notes(done.notes)
    return done.alarms, await alarms.now()


async def _all_at_once(doing: Awaitable[Any], alarms: Wakeful) -> tuple[Any, datetime]:
    return await doing, await alarms.now()


def _tell_many(done: Any, now: datetime) -> int:
    """The rows after one call that changed many. What was refused is in its notes."""
    tell_notes(done.notes)
    shown = [views.view(alarm) for alarm in done.alarms]
    out = asked().output
    short = out.ids([str(one["id"]) for one in shown])
    rows = [(short[str(one["id"])], str(one["status"]), _remark(one, now)) for one in shown]
    out.rows(("id", "status", "remark"), rows, {"alarms": shown, "in_flight": done.in_flight, "now": now})
    return 0


@click.command("move", cls=Command)
@click.argument("ids", nargs=-1, metavar="ID…")
@click.option("--by", metavar="DURATION", help="Move the next fire by this, such as 1d or 2h.")
@click.option("--timezone", default="", metavar="ZONE", help="Move them to this time zone.")
@click.option("--all", "everything", is_flag=True, help="Every pending alarm of the owner.")
@choosing(("target", "label", "conversation", "text", *_DUE))
def move_command(ids: tuple[str, ...], by: str | None, timezone: str, everything: bool, **options: Any) -> int:
    """Move alarms in time, or to another time zone.

    Those that are named, or all that fit the options: `wakeful move --due-from tomorrow --due-to tomorrow --by 1d`.
    Whole days keep the time of day; of a series only the next fire moves. In another zone a series keeps its time of
    day, and what fires once its moment.
    """
    where = {**_many(ids, options), "by": by, "timezone": timezone, "everything": everything}
    found = agreed_ids(asked().run(lambda alarms: _that_would(alarms.move_many, alarms, where)), options, "moved")
    if found is None:
        return 0
    done, now = asked().run(lambda alarms: _all_at_once(alarms.move_many(**where), alarms))
    return _tell_many(done, now)


async def _cancel_all(alarms: Wakeful, ids: tuple[str, ...], reason: str) -> tuple[int, datetime]:
    if not reason:
        return await alarms.reset(), await alarms.now()
    for id in ids:
        await alarms.cancel(id, reason=reason)
    return len(ids), await alarms.now()


@click.command("pause", cls=Command)
@click.argument("ids", nargs=-1, metavar="ID…")
@choosing()
@click.option("--reason", default="", help="Why, for those who ask later.")
def pause_command(ids: tuple[str, ...], reason: str, **options: Any) -> int:
    """Pause alarms until they are resumed.

    Those that are named, or all active ones that fit the options.
    """

    async def one(alarms: Wakeful, id: str) -> dict[str, Any]:
        return _changed(await alarms.pause(id, reason=reason))

    chosen = picked(ids, options, "paused", ("active",))
    return 0 if chosen is None else _each(chosen, one)


@click.command("resume", cls=Command)
@click.argument("ids", nargs=-1, metavar="ID…")
@choosing()
def resume_command(ids: tuple[str, ...], **options: Any) -> int:
    """Resume paused alarms.

    Those that are named, or all paused ones that fit the options.
    """

    async def one(alarms: Wakeful, id: str) -> dict[str, Any]:
        return _changed(await alarms.resume(id))

    chosen = picked(ids, options, "resumed", ("paused",))
    return 0 if chosen is None else _each(chosen, one)


@click.command("snooze", cls=Command)
@click.argument("words", nargs=-1, metavar="[ID…] FOR")
@click.option("--until", metavar="TIME", help='In the place of FOR: a moment, or a phrase such as "tomorrow at 9am".')
@choosing()
def snooze_command(words: tuple[str, ...], until: str | None, **options: Any) -> int:
    """Put an alarm off for a while.

    FOR is a duration: 15m, 1h30m, "2 days". Without an ID, all active alarms that fit the options are put off.
    """
    if not words and until is None:
        raise InvalidRequest("it is not said for how long", field="FOR", fix='Give a duration, or --until "9am".')
    ids, wait = (words, None) if until is not None else (words[:-1], words[-1])

    async def one(alarms: Wakeful, id: str) -> dict[str, Any]:
        return _changed(await alarms.snooze(id, wait, until=until))

    chosen = picked(tuple(ids), options, "put off", ("active",))
    return 0 if chosen is None else _each(chosen, one)


@click.command("skip", cls=Command)
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@click.option("--at", metavar="TIME", help="The fire that is meant; another one is not skipped.")
@choosing(())
def skip_command(ids: tuple[str, ...], at: str | None, **options: Any) -> int:
    """Skip the next fire of a series, and keep the series.

    With --at (such as "tomorrow at 9am" or 2026-12-24T09:00:00Z) it skips that one or none, and may be repeated. To
    move a fire instead: wakeful snooze.
    """

    async def one(alarms: Wakeful, id: str) -> dict[str, Any]:
        return _changed(await alarms.skip(id, at=at))

    chosen = picked(ids, options, "skipped once", ("active",))
    return 0 if chosen is None else _each(chosen, one)


@click.command("undo", cls=Command)
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@click.option("--when", metavar="TIME", help="A new time, where that of a cancelled or edited one-shot has passed.")
@choosing(())
def undo_command(ids: tuple[str, ...], when: str | None, **options: Any) -> int:
    """Take back the last change of an alarm.

    A cancel, skip, pause or edit of the last 24 hours can be taken back, once, while nothing else changed since.
    """

    async def one(alarms: Wakeful, id: str) -> dict[str, Any]:
        return _changed(await alarms.undo(id, when=when))

    chosen = picked(ids, options, "taken back to what they were", ALARM_STATUSES)
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


@click.command("append", cls=Command)
@click.argument("id")
@click.argument("payload")
def append_command(id: str, payload: str) -> int:
    """Add to the payload of an alarm.

    Fields of an object or elements of a list are added, also to lists within. PAYLOAD is JSON, @FILE or - for stdin.
    """

    async def one(alarms: Wakeful, id: str) -> dict[str, Any]:
        return _changed(await alarms.append(id, payload_of(payload)))

    return _each((id,), one)


@click.command("hand-over", cls=Command)
@click.argument("fire")
@click.argument("target")
def hand_over_command(fire: str, target: str) -> int:
    """Wake another target in place of the one that has a wake.

    The wake is reported as done with that. Answers with the one-shot alarm by which it is delivered.
    """

    async def one(alarms: Wakeful, id: str) -> dict[str, Any]:
        made = await alarms.hand_over(id, target)
        tell_notes(made.notes)
        return views.view(made.alarm)

    return _each((fire,), one)


def _report(say: Callable[[Wakeful], Awaitable[ChangedFire]]) -> None:
    async def do(alarms: Wakeful) -> tuple[ChangedFire, datetime]:
        return await say(alarms), await alarms.now()

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
def retry_command(fire: str, failed: bool, **options: Any) -> int:
    """Open a failed or timed-out fire again.

    With --failed all of them, oldest first; --before and --after say when they were due. One whose alarm has gone on
    since is refused and does not keep the others from it.
    """
    if failed == bool(fire) or (fire and is_chosen(options)):
        raise InvalidRequest("name a fire, or say --failed", field="FIRE", fix="wakeful failed shows them.")
    chosen = picked_fires(fire, options)
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


# `signal`: something happened; the alarms that wait for it are cancelled, skip a fire, are moved, or fire at once.

_CHANGED: Final = ("cancelled", "fired", "skipped", "moved")
_WORDS: Final = {"fired": "fires now", "skipped": "skips", "moved": "moved to"}


@click.command("signal", cls=Command)
@click.argument("name")
@click.option("--payload", metavar="JSON|@FILE|-", help="JSON for the wakes that come for it; - reads stdin.")
def signal_command(name: str, payload: str | None) -> int:
    """Say that something happened, to the alarms that wait for it.

    Of those set with --unless NAME a one-shot is cancelled, or moved where it has --rearm, and a series skips its next
    fire. Those set with --or-when NAME fire at once. It is not kept for alarms that are set later.
    """
    given = None if payload is None else payload_of(payload)
    if isinstance(given, Raw):
        check_payload(raw_text(given))  # also before it is sent to a server

    async def do(alarms: Wakeful) -> tuple[Signalled, datetime]:
        return await alarms.signal(name, given), await alarms.now()

    done, now = asked().run(do)
    out = asked().output
    short = out.ids([one.alarm.id for one in done.alarms])
    rows = [
        (short[one.alarm.id], _effect(one, out, now), one.alarm.label or one.alarm.wake_message) for one in done.alarms
    ]
    told = {
        **{name: [views.view(alarm) for alarm in getattr(done, name)] for name in _CHANGED},
        "effects": [
            {"alarm_id": one.alarm.id, "effect": one.effect, **({} if one.at is None else {"at": one.at})}
            for one in done.alarms
        ],
        "in_flight": done.in_flight,
        "notes": done.notes,
        "now": now,
    }
    if rows or asked().json:
        out.rows(("id", "effect", "alarm"), rows, told)
    for note in done.notes:
        click.echo(f"note: {note}", err=True)
    return 0


def _effect(one: SignalledAlarm, out: Output, now: datetime) -> str:
    words = _WORDS.get(one.effect, one.effect.replace("_", " "))
    return words if one.at is None or one.effect not in _CHANGED else f"{words} {out.at(one.at, now)}"
