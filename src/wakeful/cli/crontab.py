"""`import crontab`: what the lines of a crontab mean here, and with --yes an alarm for each."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from wakeful.alarm.request import CreateRequest, json_of
from wakeful.cli.context import Command, asked
from wakeful.cli.output import Output, clean, local, utc
from wakeful.clock import SystemClock
from wakeful.errors import InvalidRequest
from wakeful.process.application import Wakeful
from wakeful.service import Created, views
from wakeful.transfer.crontab import CronJob, Crontab, read

_AT_ONCE: Final = 100
LIMIT: Final = 1024 * 1024  # bytes of a crontab


@click.command("crontab", cls=Command)
@click.argument("file")
@click.option(
    "--to", "target", default="", metavar="TARGET", help="Where the wakes go: whoever receives them runs the command."
)
@click.option("--tz", metavar="ZONE", help="The zone of the machine that ran it. Default: the setting `timezone`.")
@click.option("--system/--personal", default=None, help="Whether a column with the user stands before the command.")
@click.option("--yes", is_flag=True, help="Set the alarms; without it they are only shown.")
@click.option("--dry-run", is_flag=True, help="Only show them, which is what happens without --yes.")
def import_crontab(file: str, target: str, tz: str | None, system: bool | None, yes: bool, dry_run: bool) -> int:
    """Take over the jobs of a crontab.

    FILE is a crontab, or - for stdin: crontab -l | wakeful import crontab -. wakeful runs no commands: a job becomes
    an alarm whose wake says the command, and whose payload is {"command": …}. It can be run again: a job that is there
    already is left alone. The exit status is 1 when a line could not be taken over. Columns in a pipe: line, what
    becomes of it, original, understood as, next three fires, why not.
    """
    settings = asked().settings()
    if yes and not dry_run and not target:
        raise InvalidRequest(
            "nobody is named who would run the commands", field="--to", fix="wakeful target ls shows whom there is."
        )
    is_system = file.startswith(("/etc/crontab", "/etc/cron.d/")) if system is None else system
    found = read(_text(file), timezone=tz or settings.timezone, system=is_system, now=SystemClock().now())
    for line, name, value in found.settings:
        click.echo(f"note: line {line}: {clean(name)}={clean(value)} is not taken along", err=True)
    done: dict[int, Created] = {}
    if yes and not dry_run:
        answers = asked().run(lambda alarms: _set(alarms, found.taken, target), creates=True)
        done = {job.line: answer for job, answer in zip(found.taken, answers, strict=True)}
    _tell(found, done, asked().output)
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
            target=target,
            label="crontab",
            idempotency_key=job.key,
        )
        for job in jobs
    ]
    answers: list[Created] = []
    for at in range(0, len(wanted), _AT_ONCE):
        answers += await alarms.create_many(wanted[at : at + _AT_ONCE])
    return answers


def _became(job: CronJob, done: dict[int, Created]) -> str:
    if job.reason:
        return "not translated"
    if job.line not in done:
        return "would be set"
    return "is there already" if done[job.line].deduped else "set"


def _tell(found: Crontab, done: dict[int, Created], out: Output) -> None:
    if out.json:
        shown = [_document(job, done) for job in found.jobs]
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
            click.echo("Nothing was set. To set them: --to TARGET --yes")


def _document(job: CronJob, done: dict[int, Created]) -> dict[str, Any]:
    shown = {name: value for name, value in msgspec.structs.asdict(job).items() if value not in ("", None, ())}
    shown["state"] = _became(job, done)
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
