"""`import crontab`: what the lines of a crontab mean here, the targets that run them, and an alarm for each."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from wakeful.cli.context import Command, asked
from wakeful.cli.output import Output, clean, local, utc
from wakeful.clock import SystemClock
from wakeful.errors import InvalidRequest
from wakeful.model.requests import CreateRequest
from wakeful.process.application import Wakeful
from wakeful.rules.wanted import json_of
from wakeful.service import Created, views
from wakeful.settings import Settings
from wakeful.transfer.crontab import CronJob, Crontab, read, tables

_AT_ONCE: Final = 100
NAMED: Final = 5  # in an error
LOOK: Final = "look at what it has added, and restart the server"
LIMIT: Final = 1024 * 1024  # bytes of a crontab


@click.command("crontab", cls=Command)
@click.argument("file")
@click.option("--to", "target", default="", metavar="TARGET", help="Where all wakes go, instead of to the tables.")
@click.option("--targets", is_flag=True, help="Print only the tables that run the commands, for wakeful.toml.")
@click.option("--tz", metavar="ZONE", help="The zone of the machine that ran it. Default: the setting `timezone`.")
@click.option("--system/--personal", default=None, help="Whether a column with the user stands before the command.")
@click.option("--yes", is_flag=True, help="Set the alarms; without it they are only shown.")
@click.option("--dry-run", is_flag=True, help="Only show them, which is what happens without --yes.")
def import_crontab(
    file: str, target: str, targets: bool, tz: str | None, system: bool | None, yes: bool, dry_run: bool
) -> int:
    """Take over the jobs of a crontab.

    FILE is a crontab, or - for stdin: crontab -l | wakeful import crontab -. Two steps: `--targets >> wakeful.toml`
    adds a table for each command, which you look at and accept; after a restart of the server `--yes` sets the alarms.
    With --to the wakes go to a target of yours instead, and their payload is {"command": …}. It can be run again: a job
    that is there already is left alone. The exit status is 1 when a line could not be taken over. Columns in a pipe:
    line, what becomes of it, original, understood as, next three fires, why not.
    """
    settings = asked().settings()
    is_system = file.startswith(("/etc/crontab", "/etc/cron.d/")) if system is None else system
    found = read(_text(file), timezone=tz or settings.timezone, system=is_system, now=SystemClock().now())
    if targets:
        # They are appended to a file: what is in it already stays out.
        missing = [job for job in found.taken if job.target not in settings.targets]
        click.echo("\n" * bool(missing) + tables(missing), nl=False)
        return 1 if len(found.taken) < len(found.jobs) else 0
    if yes and not dry_run and not target:
        _check_targets(found.taken, settings, file)
    for line, name, value in found.settings:
        click.echo(f"note: line {line}: {clean(name)}={clean(value)} is not taken along", err=True)
    done: dict[int, Created] = {}
    if yes and not dry_run:
        answers = asked().run(lambda alarms: _set(alarms, found.taken, target), creates=True)
        done = {job.line: answer for job, answer in zip(found.taken, answers, strict=True)}
    _tell(found, done, asked().output, target, file)
    return 1 if len(found.taken) < len(found.jobs) else 0


def _text(file: str) -> str:
    try:
        with nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as opened:
            data = opened.read(LIMIT + 1)
        if len(data) > LIMIT:
            raise InvalidRequest(f"{file} is longer than {LIMIT >> 20} MiB", field="FILE", fix="Split the file.")
        return data.decode().replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{file} cannot be read ({error})", field="FILE") from None


async def _set(alarms: Wakeful, jobs: list[CronJob], target: str) -> list[Created]:
    wanted = [
        CreateRequest(
            wake_message=job.command,
            cron_expr=job.cron_expr,
            timezone=job.timezone,
            payload=json_of(job.payload),
            target=target or job.target,
            max_failures=None if target else 0,  # cron tries once
            label="crontab",
            idempotency_key=job.key,
        )
        for job in jobs
    ]
    answers: list[Created] = []
    for at in range(0, len(wanted), _AT_ONCE):
        answers += await alarms.create_many(wanted[at : at + _AT_ONCE])
    return answers


def _check_targets(jobs: list[CronJob], settings: Settings, file: str) -> None:
    missing = sorted({job.target for job in jobs} - set(settings.targets))
    if missing:
        first, second = _steps(file)
        raise InvalidRequest(
            f"the settings have no {', '.join(missing[:NAMED])}{', …' if len(missing) > NAMED else ''} yet",
            field="targets",
            fix=f"First `{first}`; {LOOK}. Then `{second}`. Or name a target of yours: --to TARGET.",
        )


def _steps(file: str) -> tuple[str, str]:
    """How the commands are taken over: the operator names them, then alarms are set."""
    command = "crontab -l | wakeful import crontab -" if file == "-" else f"wakeful import crontab {clean(file)}"
    return f"{command} --targets >> wakeful.toml", f"{command} --yes"


def _became(job: CronJob, done: dict[int, Created]) -> str:
    if job.reason:
        return "not translated"
    if job.line not in done:
        return "would be set"
    return "is there already" if done[job.line].deduped else "set"


def _tell(found: Crontab, done: dict[int, Created], out: Output, target: str, file: str) -> None:
    if out.json:
        shown = [_document(job, done, target) for job in found.jobs]
        click.echo(views.encode({"jobs": shown, "settings": [list(one) for one in found.settings]}))
        return
    for job in found.jobs:
        if out.terminal:
            _block(job, done, out.width)
        else:
            times = ", ".join(map(utc, job.next))
            cells = (str(job.line), _became(job, done), job.original, job.means, times, job.reason)
            click.echo("\t".join(map(clean, cells)))
    if out.terminal:
        left = len(found.jobs) - len(found.taken)
        click.echo(f"{len(found.taken)} {'taken over' if done else 'can be taken over'}, {left} not translated.")
        if found.taken and not done:
            first, second = _steps(file)
            click.echo(f"Nothing was set. To set them:\n1. {first}\n   {LOOK.capitalize()}.\n2. {second}")
            click.echo("Or, for a target of yours that runs the commands: --to TARGET --yes")


def _document(job: CronJob, done: dict[int, Created], target: str) -> dict[str, Any]:
    shown = {name: value for name, value in msgspec.structs.asdict(job).items() if value not in ("", None, ())}
    shown["state"] = _became(job, done)
    if not job.reason:
        shown |= {"target": target} if target else {"target": job.target, "argv": job.argv}
    return shown | ({"id": done[job.line].alarm.id} if job.line in done else {})


def _block(job: CronJob, done: dict[int, Created], width: int) -> None:
    def say(name: str, text: str) -> None:
        line = f"{name:<10}{clean(text)}"
        click.echo(line if len(line) <= width else line[: width - 1] + "…")

    say(f"line {job.line}", job.original)
    if job.reason:
        say("  not", f"translated: {job.reason}")
    else:
        say("  means", job.means)
        say("  next", ", ".join(local(moment, job.timezone)[:16].replace("T", " ") for moment in job.next))
        say("  is", f"{_became(job, done)}{f' as {done[job.line].alarm.id}' if job.line in done else ''}")
