"""A command: the wake as input of a program that is started for it, and what its exit status means.

Only the operator names programs, in the settings. What an alarm says reaches the program as data: on stdin and in
variables of its environment, never as an argument and never through a shell.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import signal
from collections.abc import Mapping, Sequence
from typing import Final

from wakeful.errors import InvalidConfig
from wakeful.model.alarm import ERROR_LIMIT, RESULT_LIMIT
from wakeful.model.outcome import Completed, Delivered, Failed, Outcome
from wakeful.rules.wake import Wake
from wakeful.runtime.child import Ended, Program, Stop, learn_of_exits, run_program
from wakeful.targets.calls import Threads
from wakeful.targets.text import one_line, storable, without

log = logging.getLogger("wakeful.command")

TRY_LATER: Final = 75  # EX_TEMPFAIL of sysexits.h
STDIN: Final = ("wake", "prompt")
PASSED_ON: Final = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR")
VARIABLE_LIMIT: Final = 32_768  # bytes of one variable of a wake: what is longer stands on stdin only
_STDERR_LIMIT: Final = 1_000  # bytes that go into the error
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Command:
    """Settings:

    argv          the program and its arguments; there is no shell
    cwd           the folder it is started in; "" is the folder of wakeful
    env           the variables of wakeful's own environment that it gets, by name
    stdin         what it reads there: "wake", the wake as JSON, or "prompt", the wake as a text for a model
    timeout       seconds it may take; then it is ended
    final_codes   exit statuses with which the fire has failed for good
    reports       exit status 0 says that it took the wake up: a report is awaited
    concurrency   how many may run at once, in each process of wakeful
    """

    def __init__(
        self,
        *,
        argv: Sequence[str],
        cwd: str = "",
        env: Sequence[str] = PASSED_ON,
        stdin: str = "wake",
        timeout: float = 900,
        final_codes: Sequence[int] = (),
        reports: bool = False,
        concurrency: int = 4,
    ) -> None:
        _check_argv(argv)
        _check_names(env)
        if stdin not in STDIN:
            raise InvalidConfig(f"{stdin!r} is not accepted", field="stdin", fix=f"Give {' or '.join(STDIN)}.")
        if timeout <= 0:
            raise InvalidConfig(f"{timeout} is not more than 0 seconds", field="timeout")
        if not isinstance(final_codes, list | tuple) or not all(
            type(one) is int and 0 < one < 256 for one in final_codes
        ):
            raise InvalidConfig("give a list of exit statuses from 1 to 255", field="final_codes")
        self._argv = tuple(argv)
        self._cwd = os.path.expanduser(cwd) or None
        self._env = tuple(env)
        self._stdin = stdin
        self._timeout = timeout
        self._final_codes = frozenset(final_codes)
        self._reports = reports
        self._children = Children(concurrency)

    async def check(self, _: str) -> None:
        """InvalidConfig if the program cannot be started."""
        check_program(self._argv[0], self._cwd, passed_on(self._env))

    async def deliver(self, wake: Wake) -> Outcome:
        asked = self._reports or wake.alarm.policy.report_within is not None
        env = passed_on(self._env) | variables(wake, reports=asked)
        run = program_of(self._argv, env, cwd=self._cwd, timeout=self._timeout)
        try:
            ended = await self._children.run(run, input_of(wake, self._stdin))
        except OSError as error:
            return Failed(f"{self._argv[0]} cannot be started: {error.strerror or error}", unhealthy=True)
        outcome = outcome_of(ended, timeout=self._timeout, final_codes=self._final_codes, hide=secrets_of(wake))
        _log(outcome, ended, wake)
        if self._reports and isinstance(outcome, Completed):
            return Delivered("exit status 0", awaits_report=True)
        return outcome

    async def close(self) -> None:
        await self._children.close()


class Children:
    """Runs programs, a number of them at once. A run that is cancelled has ended its program before it returns."""

    def __init__(self, limit: int) -> None:
        learn_of_exits()
        self._threads = Threads(limit, "wakeful-command")
        self._runs: dict[asyncio.Future[Ended], Stop] = {}

    async def run(self, program: Program, stdin: bytes) -> Ended:
        stop, cancelled = Stop(), False
        run = asyncio.ensure_future(self._threads.run(run_program, program, stdin, stop))
        self._runs[run] = stop
        run.add_done_callback(self._runs.pop)
        while not run.done():
            try:
                await asyncio.wait((run,))
            except asyncio.CancelledError:  # a second one ends the program at once
                stop.ask()
                cancelled = True
        if cancelled:
            run.exception()  # seen
            raise asyncio.CancelledError
        return run.result()

    async def close(self) -> None:
        """End what runs."""
        for stop in self._runs.values():
            stop.ask()
        if self._runs:
            await asyncio.wait(tuple(self._runs))
        self._threads.close()


def program_of(argv: Sequence[str], env: Mapping[str, bytes], *, cwd: str | None, timeout: float) -> Program:
    return Program(
        argv=tuple(argv), env=env, cwd=cwd, timeout=timeout, out_limit=RESULT_LIMIT - 1, err_limit=_STDERR_LIMIT
    )


# The input and the environment


def input_of(wake: Wake, stdin: str) -> bytes:
    return wake.prompt.encode("utf-8", "replace") if stdin == "prompt" else wake.body


def passed_on(names: Sequence[str]) -> dict[str, bytes]:
    """Of wakeful's own environment, only these: it holds tokens and passwords."""
    return {name: os.environb[name.encode()] for name in names if name.encode() in os.environb}


def variables(wake: Wake, *, reports: bool) -> dict[str, bytes]:
    """The wake as variables: those that have a value, and are not too long. WAKE_VARIABLES names all of them."""
    signal = wake.signal
    values = {
        "fire_id": wake.fire_id,
        "alarm_id": wake.alarm_id,
        "owner": wake.owner_did,
        "target": wake.alarm.target,
        "conversation_id": wake.conversation_id,
        "label": wake.label,
        "message": wake.message,
        "payload": wake.payload_json,
        "author": wake.author,
        "scheduled_for": wake.scheduled_for.isoformat(),
        "attempt": str(wake.attempt),
        "number": str(wake.number),
        "late_ms": str(wake.late_ms),
        "missed": str(wake.missed),
        "last_error": wake.last_error,
        "signal": signal.name if signal else "",
        "signal_payload": signal.payload_json if signal else "",
        "report_url": wake.content.report.url if reports else "",
        "report_token": wake.report_token if reports else "",
    }
    encoded = {f"WAKEFUL_{name.upper()}": value.encode("utf-8", "replace") for name, value in values.items()}
    return {name: value for name, value in encoded.items() if 0 < len(value) <= VARIABLE_LIMIT and b"\0" not in value}


# The outcome


def secrets_of(wake: Wake) -> tuple[str, ...]:
    return (wake.report_token, wake.token)


def outcome_of(ended: Ended, *, timeout: float, final_codes: frozenset[int], hide: Sequence[str]) -> Outcome:
    if ended.how == "exited" and ended.status == 0:
        return Completed(storable(without(ended.out, hide), RESULT_LIMIT))
    what = one_line(f"{_how(ended, timeout)}{_said(without(ended.err, hide))}", ERROR_LIMIT)
    by_itself = ended.how == "exited" and ended.status > 0
    return Failed(what, retryable=not (by_itself and ended.status in final_codes), answered=by_itself)


def _how(ended: Ended, timeout: float) -> str:
    if ended.how == "late":
        return f"it did not end within {timeout:g} s, and was ended"
    if ended.how == "stopped":
        return "it was ended because wakeful stops"
    if ended.status < 0:
        return f"it was ended by {_signal_name(-ended.status)}"
    if ended.status == TRY_LATER:
        return f"exit status {TRY_LATER} (try again later)"
    return f"exit status {ended.status}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _said(stderr: str) -> str:
    lines = " | ".join(filter(None, map(str.strip, stderr.splitlines())))
    return f": {lines}" if lines else ""


def _log(outcome: Outcome, ended: Ended, wake: Wake) -> None:
    """What the program wrote to stderr; not what it may quote of the wake."""
    alarm = wake.alarm
    hide = (*secrets_of(wake), *(text for text in (alarm.wake_message, alarm.payload_json) if len(text) > 2))
    level = logging.WARNING if isinstance(outcome, Failed) else logging.DEBUG
    more = {"alarm_id": alarm.id, "fire_id": wake.fire_id, "target": alarm.target, "hide": hide}
    log.log(level, "the command %r, exit status %d%s", alarm.target, ended.status, _said(ended.err), extra=more)


# The settings


def check_program(name: str, cwd: str | None, env: Mapping[str, bytes]) -> None:
    """InvalidConfig for a folder or a program that is not there; a name without a slash is looked for in PATH."""
    if cwd is not None and not os.path.isdir(cwd):
        raise InvalidConfig(f"{cwd} is not a folder", field="cwd", fix="Name a folder that exists.")
    path = os.fsdecode(env.get("PATH", os.defpath))
    place = os.path.join(cwd or "", name) if "/" in name else name
    if shutil.which(place, path=path) is None:
        where = f"{os.path.abspath(place)} is" if "/" in name else f"{name!r} is in none of the folders {path}, or"
        raise InvalidConfig(
            f"{where} not an executable file",
            field="argv",
            fix='Give the full path of a program that wakeful may execute; a shell is ["/bin/sh", "-c", "…"].',
        )


def _check_argv(argv: Sequence[str]) -> None:
    is_list = isinstance(argv, list | tuple) and all(isinstance(one, str) and "\0" not in one for one in argv)
    if not is_list or not argv or not argv[0]:
        fix = 'Give the program and its arguments, such as ["/usr/bin/notify-send", "wakeful"].'
        raise InvalidConfig("it is not a list of texts that begins with a program", field="argv", fix=fix)


def _check_names(env: Sequence[str]) -> None:
    if not isinstance(env, list | tuple) or not all(isinstance(one, str) and _NAME.fullmatch(one) for one in env):
        fix = 'Give names of variables, such as ["PATH", "HOME"]; their values are those that wakeful has.'
        raise InvalidConfig("it is not a list of names", field="env", fix=fix)
