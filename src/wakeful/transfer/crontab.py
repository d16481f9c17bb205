"""A crontab, line by line: what each job is, or why wakeful cannot take it over. Pure.

A job becomes an alarm whose wake says the command. What runs it is named by the operator: a target of kind `command`
for each command, or a receiver of the wakes. What an alarm says is never executed.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from wakeful.errors import InvalidRequest
from wakeful.runtime.logs import printable
from wakeful.schedule import describe
from wakeful.schedule.expression import schedule

_SETTING: Final = re.compile(r"([A-Za-z_]\w*)\s*=\s*(.*)")
_ZONES: Final = ("CRON_TZ", "TZ")
_FIELDS: Final = 5
_SHORTHANDS: Final = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_PERCENT: Final = re.compile(r"(?<!\\)%")
NEXT: Final = 3
TIMEOUT: Final = "1d"  # cron has no limit


class CronJob(Struct, frozen=True, kw_only=True):
    """A line that asks for something. `reason`: why it is not taken over; then the rest may be missing."""

    line: int
    original: str
    cron_expr: str = ""
    timezone: str = ""
    means: str = ""
    next: tuple[datetime, ...] = ()
    user: str = ""
    command: str = ""
    stdin: str | None = None
    key: str = ""
    reason: str = ""

    @property
    def payload(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"command": self.command}
        if self.user:
            fields["user"] = self.user
        return fields if self.stdin is None else fields | {"stdin": self.stdin}

    @property
    def target(self) -> str:
        """The target of this command: the same in every crontab, wherever the line stands."""
        return f"cron-{_digest(self.user, self.command, self.stdin)[:8]}"

    @property
    def argv(self) -> tuple[str, ...]:
        """How cron runs it; the input that its line has comes before the wake."""
        if self.stdin is None:
            return ("/bin/sh", "-c", self.command)
        return ("/bin/sh", "-c", f"printf '%s\\n' {shlex.quote(self.stdin)} | (\n{self.command}\n)")


class Crontab(Struct, frozen=True):
    jobs: list[CronJob]
    settings: list[tuple[int, str, str]]  # line, name and value of variables that jobs would have found set

    @property
    def taken(self) -> list[CronJob]:
        return [job for job in self.jobs if not job.reason]


def read(text: str, *, timezone: str, system: bool, now: datetime) -> Crontab:
    """Every job of a crontab. `system`: a column with the user stands before the command, as in /etc/crontab."""
    jobs: list[CronJob] = []
    settings: list[tuple[int, str, str]] = []
    seen: Counter[str] = Counter()
    for number, line in _lines(text):
        if found := _SETTING.fullmatch(line):
            name, value = found[1], _unquoted(found[2])
            if name in _ZONES:
                timezone = value
            else:
                settings.append((number, name, value))
            continue
        job = _job(number, line, timezone, system, now)
        seen[job.key] += 1
        # The same line twice is two jobs there, and so it is here.
        jobs.append(job if seen[job.key] == 1 or job.reason else _numbered(job, seen[job.key]))
    return Crontab(jobs, settings)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            yield number, stripped


def _unquoted(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def _job(number: int, line: str, timezone: str, system: bool, now: datetime) -> CronJob:
    plain = CronJob(line=number, original=line)
    try:
        expr, rest = _split(line.removeprefix("-"))
        user, command = _user(rest) if system and rest else ("", rest)
        command, stdin = _with_input(command)
        if not command:
            raise InvalidRequest("there is no command")
        times = _times(expr, timezone, now)
        means = describe(expr, timezone)
    except InvalidRequest as error:
        return CronJob(line=number, original=plain.original, reason=str(error).rstrip("."))
    return CronJob(
        line=number,
        original=line,
        cron_expr=expr,
        timezone=timezone,
        means=means,
        next=times,
        user=user,
        command=command,
        stdin=stdin,
        key=_key(expr, timezone, user, command, stdin),
    )


def _split(line: str) -> tuple[str, str]:
    """The schedule and the rest."""
    if line.startswith("@"):
        word, *others = line.split(None, 1)
        if word.lower() == "@reboot":
            raise InvalidRequest("@reboot is not a time: use a systemd unit, or your init")
        if word.lower() not in _SHORTHANDS:
            raise InvalidRequest(f"{word!r} is not a shorthand of cron", fix=f"Known are: {', '.join(_SHORTHANDS)}.")
        return word.lower(), "".join(others)
    parts = line.split(None, _FIELDS)
    if len(parts) < _FIELDS:
        raise InvalidRequest("a line needs five fields of time and a command")
    if any("~" in part for part in parts[:_FIELDS]):
        raise InvalidRequest("a random time (~) is not the same twice", fix="Choose one, and give the alarm a jitter.")
    return " ".join(parts[:_FIELDS]), parts[_FIELDS] if len(parts) > _FIELDS else ""


def _user(rest: str) -> tuple[str, str]:
    user, *command = rest.split(None, 1)
    return user, "".join(command)


def _with_input(command: str) -> tuple[str, str | None]:
    """cron's own rule: what follows the first bare % is the command's input, where further ones end lines."""
    first, *rest = _PERCENT.split(command.strip())
    stdin = "\n".join(rest).replace("\\%", "%") if rest else None
    return first.replace("\\%", "%").strip(), stdin


def _times(expr: str, timezone: str, now: datetime) -> tuple[datetime, ...]:
    when = schedule(expr, timezone)
    found: list[datetime] = []
    moment: datetime | None = now
    while len(found) < NEXT and moment is not None:
        moment = when.after(moment)
        found += [moment] if moment is not None else []
    if not found:
        raise InvalidRequest("it never fires")
    return tuple(found)


def _key(*parts: str | None) -> str:
    """The same job has the same key: taking a crontab over again sets nothing twice."""
    return f"crontab:{_digest(*parts)[:32]}"


def _digest(*parts: str | None) -> str:
    text = "\0".join("" if part is None else part for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()


def _numbered(job: CronJob, count: int) -> CronJob:
    return CronJob(**{name: getattr(job, name) for name in job.__struct_fields__} | {"key": f"{job.key}#{count}"})


def tables(jobs: Iterable[CronJob]) -> str:
    """The `[targets.cron-…]` tables of these jobs, for a settings file: one for each command."""
    lines: dict[str, list[CronJob]] = {}
    for job in jobs:
        lines.setdefault(job.target, []).append(job)
    return "\n".join(_table(name, same) for name, same in lines.items())


def _table(name: str, jobs: list[CronJob]) -> str:
    said = [f"# line {job.line}: {printable(job.original)}" for job in jobs]
    if user := jobs[0].user:
        said.append(f"# There it runs as {printable(user)}, here as the user of wakeful.")
    argv = ", ".join(map(_toml, jobs[0].argv))
    settings = (f"[targets.{name}]", 'kind = "command"', f"argv = [{argv}]", 'cwd = "~"', f'timeout = "{TIMEOUT}"')
    return "\n".join((*said, *settings)) + "\n"


def _toml(text: str) -> str:
    """A text as a settings file has it, where `${` stands for a variable."""
    quoted = msgspec.json.encode(text.replace("${", "$${")).decode()
    return quoted.replace("\x7f", "\\u007f")
