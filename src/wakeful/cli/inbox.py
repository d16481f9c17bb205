"""`wait`: take the wakes that came to the inbox, for whoever has no address but a shell, or run a program for each."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import click
from msgspec import Raw

from wakeful.cli.colours import painted
from wakeful.cli.context import Command, asked
from wakeful.cli.output import Output, clean, tell_notes, utc
from wakeful.cli.times import distance
from wakeful.clock import SystemClock, stopwatch
from wakeful.errors import InvalidConfig, InvalidRequest, StoreUnavailable, TooMany
from wakeful.model.alarm import INBOX
from wakeful.model.outcome import Completed, Failed, Outcome
from wakeful.process.application import Wakeful
from wakeful.remote.serving import FIRST_WAIT, LONGEST_WAIT, InboxWorker
from wakeful.rules.backoff import backoff
from wakeful.rules.wake import Wake
from wakeful.runtime.os_signals import ending_run
from wakeful.schedule import duration
from wakeful.service import TakenWake, views
from wakeful.settings.sources import WAKE_VARIABLES
from wakeful.targets.command import (
    STDIN,
    Children,
    check_program,
    input_of,
    outcome_of,
    program_of,
    secrets_of,
    variables,
)

AT_A_TIME: Final = 60.0  # seconds
MOST: Final = 100  # wakes taken at once
_LATE: Final = timedelta(seconds=1)  # from here on a person is told


@click.command("wait", cls=Command, context_settings={"allow_interspersed_args": False})
@click.option("--for", "limit", metavar="DURATION", help="Such as 30s; without it, for as long as it takes.")
@click.option("-n", "--count", "most", type=click.IntRange(1), help="How many at most. Default: 1; with --exec all.")
@click.option("--to", "target", default=INBOX, metavar="TARGET", help="Another inbox than the usual one, by its name.")
@click.option("--conversation", default="", help="Only wakes of this conversation; the others stay.")
@click.option("--done", multiple=True, metavar="FIRE", help="Report an earlier wake as done first; may be repeated.")
@click.option("--exec", "runs", is_flag=True, help="Run PROGRAM for each wake, and report how that went.")
@click.option("--timeout", metavar="DURATION", default="15m", show_default=True, help="With --exec: for how long.")
@click.option(
    "--stdin", type=click.Choice(STDIN), default="wake", show_default=True, help="With --exec: JSON, or a prompt."
)
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="[-- PROGRAM ARGS…]")
def wait_command(
    limit: str | None,
    most: int | None,
    target: str,
    conversation: str,
    done: tuple[str, ...],
    runs: bool,
    timeout: str,
    stdin: str,
    program: tuple[str, ...],
) -> int:
    """Wait for wakes in the inbox, and take them.

    Each is yours until its report is due: tell `wakeful done FIRE` or `wakeful fail FIRE`, else it comes again. The
    exit status is 1 when none came. Columns in a pipe: fire, scheduled for, label, message, payload, attempt,
    milliseconds late, and how many later instants of its series were missed.

    With --exec it goes on until Ctrl-C, and runs PROGRAM for one wake after the other: the wake is on its stdin and in
    WAKEFUL_* variables. Exit status 0 reports it as done, with what was printed; any other as failed, so that it comes
    again. The exit status is 1 when none came or one failed. Columns in a pipe: fire, outcome, what was printed.
    """
    wanted = Wanted(target, conversation, None if limit is None else stopwatch() + duration(limit).total_seconds())
    if runs != bool(program):
        raise InvalidRequest(
            "a program needs --exec, and --exec a program", field="PROGRAM", fix="wakeful wait --exec -- PROGRAM ARGS"
        )
    if runs:
        return _exec(Job(program, stdin, duration(timeout).total_seconds()), wanted, most, done)
    if (most or 1) > MOST:
        raise InvalidRequest(f"{most} is more than {MOST}", field="-n", fix=f"Give 1 to {MOST}.")

    async def do(alarms: Wakeful) -> tuple[list[TakenWake], datetime]:
        return await _wakes(alarms, wanted, most or 1, done), await alarms.now()

    found, now = asked().run(do)
    out = asked().output
    document = {"wakes": [_shown(taken) for taken in found], "now": now}
    if out.is_table:
        _table(found, out, now)
    else:
        columns = ("fire", "scheduled", "label", "message", "payload", "attempt", "late ms", "missed")
        out.rows(columns, [_row(taken) for taken in found], document)
    return 0 if found else 1


class Wanted(NamedTuple):
    """Which wakes are taken, and until when, by the stopwatch."""

    target: str
    conversation: str
    until: float | None


async def _wakes(alarms: Wakeful, wanted: Wanted, most: int, done: tuple[str, ...]) -> list[TakenWake]:
    """The next ones; none if no wake came in time."""
    while True:
        left = AT_A_TIME if wanted.until is None else wanted.until - stopwatch()
        found = await alarms.inbox(
            limit=most,
            wait=max(0.0, min(left, AT_A_TIME)),
            target=wanted.target,
            conversation_id=wanted.conversation,
            done=dict.fromkeys(done, ""),
        )
        if found or (left <= AT_A_TIME and wanted.until is not None):
            tell_notes(found.notes)
            return found


def _row(taken: TakenWake) -> tuple[str, ...]:
    alarm, fire = taken
    numbers = (taken.attempt, taken.late_ms, taken.missed)
    return (fire.id, utc(fire.scheduled_for), alarm.label, alarm.wake_message, alarm.payload_json, *map(str, numbers))


def _table(found: list[TakenWake], out: Output, now: datetime) -> None:
    """For people: what is as usual is left out."""
    if not found and out.empty("No wake came."):
        return
    short = out.ids([fire.id for _, fire in found])
    rows = [
        (
            short[fire.id],
            out.at(fire.scheduled_for, now),
            alarm.label,
            "" if alarm.payload_json == "{}" else alarm.payload_json,
            _remark(taken),
            alarm.wake_message,
        )
        for taken in found
        for alarm, fire in (taken,)
    ]
    out.rows(("fire", "scheduled", "label", "payload", "remark", "message"), rows, {})


def _remark(taken: TakenWake) -> str:
    late = timedelta(milliseconds=taken.late_ms)
    said = (
        f"attempt {taken.attempt}" if taken.attempt > 1 else "",
        f"{distance(late)} late" if late >= _LATE else "",
        f"{taken.missed} missed" if taken.missed else "",
        f"ends {utc(taken.ends_at)} unless `done --renew`" if taken.renewable and taken.ends_at else "",
    )
    return ", ".join(filter(None, said))


def _shown(taken: TakenWake) -> dict[str, Any]:
    alarm, fire = taken
    return {
        "fire_id": fire.id,
        "alarm_id": alarm.id,
        "label": alarm.label,
        "conversation_id": alarm.conversation_id,
        "message": alarm.wake_message,
        "payload": Raw(alarm.payload_json.encode()),
        "scheduled_for": fire.scheduled_for,
        "author": taken.author,
        "parent_fire": alarm.parent_fire,
        "ends_at": taken.ends_at,
        "renewable": taken.renewable,
        "token": taken.token,
    } | views.handed_out(taken)


# `wait --exec`: the same programs that a target of kind `command` runs, for whoever has them


class Job(NamedTuple):
    argv: tuple[str, ...]
    stdin: str
    timeout: float  # seconds


def _exec(job: Job, wanted: Wanted, most: int | None, done: tuple[str, ...]) -> int:
    try:
        check_program(job.argv[0], None, _environment())
    except InvalidConfig as error:
        raise InvalidRequest(error.message, field="PROGRAM", fix="Give a program that you may execute.") from None
    counts: Counter[str] = Counter()

    async def do(alarms: Wakeful) -> None:
        children = Children(1)
        try:
            with ending_run():
                await _serve(alarms, children, job, wanted, most, done, counts)
        finally:
            await children.close()

    try:
        asked().run(do)
    except KeyboardInterrupt:
        pass  # that is how one stops it
    else:
        return 1 if counts["failed"] or not counts else 0
    return 1 if counts["failed"] else 0


async def _serve(
    alarms: Wakeful,
    children: Children,
    job: Job,
    wanted: Wanted,
    most: int | None,
    done: tuple[str, ...],
    counts: Counter[str],
) -> None:
    worker, failures = InboxWorker(alarms, SystemClock()), 0
    while most is None or counts.total() < most:
        try:
            found = await _wakes(alarms, wanted, 1, done)
        except (StoreUnavailable, TooMany) as error:  # whoever waits until Ctrl-C waits for a server too
            if failures == 0:
                click.echo(f"note: no wakes just now: {clean(error.message)}", err=True)
            failures += 1
            await SystemClock().sleep(backoff(failures - 1, base=FIRST_WAIT, cap=LONGEST_WAIT).total_seconds())
            continue
        if not found:
            return
        done, failures = (), 0
        outcome = await _run(worker, children, job, found[0])
        counts["completed" if isinstance(outcome, Completed) else "failed"] += 1
        _tell_outcome(found[0].fire.id, outcome, asked().output)


async def _run(worker: InboxWorker, children: Children, job: Job, taken: TakenWake) -> Outcome:
    async def deliver(wake: Wake) -> Outcome:
        run = program_of(job.argv, _environment() | variables(wake, reports=False), cwd=None, timeout=job.timeout)
        try:
            ended = await children.run(run, input_of(wake, job.stdin))
        except OSError as error:
            return Failed(f"{job.argv[0]} cannot be started: {error.strerror or error}")
        return outcome_of(ended, timeout=job.timeout, final_codes=frozenset(), hide=secrets_of(wake))

    try:
        return await worker.work(taken, deliver)
    except asyncio.CancelledError:
        again = f" at {utc(taken.fire.report_by)}" if taken.fire.report_by else ""
        click.echo(f"note: {taken.fire.id} was not finished: it comes again when its lease ends{again}", err=True)
        raise


def _environment() -> dict[str, bytes]:
    """All of the caller's own: they run it themselves. Not what is left of a wake in which they run."""
    own = {os.fsdecode(name): value for name, value in os.environb.items()}
    return {name: value for name, value in own.items() if name not in WAKE_VARIABLES}


def _tell_outcome(fire_id: str, outcome: Outcome, out: Output) -> None:
    what, said = ("completed", outcome.result) if isinstance(outcome, Completed) else ("failed", _error(outcome))
    if out.json:
        name = "result" if what == "completed" else "error"
        click.echo(views.encode({"fire_id": fire_id, "outcome": what, name: said}))
    elif out.terminal:
        id = out.ids([fire_id])[fire_id]
        line = f"{painted(what, what) if out.coloured else what}  {id}  {clean(said)}"
        out.echo(line.rstrip())
    else:
        out.echo("\t".join((fire_id, what, clean(said))))


def _error(outcome: Outcome) -> str:
    return outcome.error if isinstance(outcome, Failed) else ""
