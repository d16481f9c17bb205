"""Programs of somebody else's that use wakeful: how signals end them, and what a fork does to them. Real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import wakeful
from tests.databases import database_of

ROOT = Path(__file__).parent.parent
WITHIN = 60  # seconds, for a machine with much else to do

ASYNC = """
import asyncio, logging, os, signal, sys, threading
import wakeful

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")

def say(word):
    print(word, flush=True)

async def main():
    alarms = wakeful.open(**DATABASE)
    async with alarms:
        @alarms.handler("ops")
        async def ops(wake):
            say("begun")
            while alarms.dispatcher.health.state == "running":  # until it was asked to stop
                await asyncio.sleep(0.01)
            HANDLER
            say("done")
        await alarms.set(delay=0.01, wake_message="hello", target="ops", key="it")
        RUN
    say("closed")

BEFORE
asyncio.run(main())
say("after")
"""

SYNC = """
import logging, os, signal, sys, threading, time
import wakeful

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")

def say(word):
    print(word, flush=True)

BEFORE
with wakeful.open_sync(**DATABASE) as alarms:
    @alarms.handler("ops")
    def ops(wake):
        say("begun")
        while alarms.asynchronous.dispatcher.health.state == "running":
            time.sleep(0.01)
        HANDLER
        say("done")
    alarms.set(delay=0.01, wake_message="hello", target="ops", key="it")
    RUN
say("after")
"""


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return database_of(request, tmp_path)


class Program:
    """A program that was started, and what it has printed."""

    def __init__(self, text: str, database: dict[str, Any], **parts: str) -> None:
        text = text.replace("DATABASE", repr(database))
        for name in ("HANDLER", "BEFORE", "RUN"):
            text = text.replace(name, parts.get(name.lower(), "pass"))
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"import tests.mutants.plant  # it may plant a fault here too\n{text}"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that children it has forked end with it
        )
        self.lines: list[str] = []
        self._deadline = threading.Timer(WITHIN, os.killpg, (self.process.pid, signal.SIGKILL))
        self._deadline.start()

    def until(self, word: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.decode().rstrip())
            if word in self.lines[-1]:
                return
        raise AssertionError(f"{word!r} did not come:\n" + "\n".join(self.lines))

    def ended(self) -> int:
        assert self.process.stdout is not None
        self.lines += [line.decode().rstrip() for line in self.process.stdout]
        self.process.stdout.close()
        status = self.process.wait(WITHIN)
        self._deadline.cancel()
        return status


def stored(database: dict[str, Any]) -> wakeful.Alarm:
    with wakeful.open_sync(**database) as alarms:
        return alarms.get("it")


RUNS = {"async": (ASYNC, "await alarms.run()"), "sync": (SYNC, "alarms.run()")}


@pytest.mark.parametrize("form", RUNS)
def test_sigterm_lets_deliveries_in_flight_finish(database: dict[str, Any], form: str) -> None:
    text, run = RUNS[form]
    program = Program(text, database, run=run)
    program.until("begun")
    program.process.send_signal(signal.SIGTERM)
    assert program.ended() == 0, program.lines
    assert "done" in program.lines
    assert "after" not in program.lines, "the program goes on though it was told to end"
    alarm = stored(database)
    assert (alarm.status, alarm.claimed_at) == ("fired", None)


@pytest.mark.parametrize("form", RUNS)
def test_sigint_lets_deliveries_in_flight_finish(database: dict[str, Any], form: str) -> None:
    text, run = RUNS[form]
    program = Program(text, database, run=run)
    program.until("begun")
    program.process.send_signal(signal.SIGINT)
    assert program.ended() == -signal.SIGINT, program.lines
    assert "done" in program.lines
    alarm = stored(database)
    assert (alarm.status, alarm.claimed_at) == ("fired", None)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("form", RUNS)
def test_a_second_signal_ends_the_program_at_once(database: dict[str, Any], form: str) -> None:
    text, run = RUNS[form]
    endless = "await asyncio.sleep(1000)" if form == "async" else "time.sleep(1000)"
    program = Program(text, database, run=run, handler=endless)
    program.until("begun")
    program.process.send_signal(signal.SIGTERM)
    program.until("SIGTERM: stopping")
    program.process.send_signal(signal.SIGTERM)
    assert program.ended() == 128 + signal.SIGTERM
    assert "done" not in program.lines


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("form", RUNS)
def test_a_handler_of_the_programs_own_stays(database: dict[str, Any], form: str) -> None:
    text, run = RUNS[form]
    program = Program(text, database, run=run, before="signal.signal(signal.SIGTERM, lambda *_: os._exit(7))")
    program.until("begun")
    program.process.send_signal(signal.SIGTERM)
    assert program.ended() == 7


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "run", ["await alarms.run(signals=False)", "async with alarms.running(): await asyncio.sleep(1000)"]
)
def test_where_nobody_asked_for_it_no_signal_is_handled(database: dict[str, Any], run: str) -> None:
    program = Program(ASYNC, database, run=run)
    program.until("begun")
    program.process.send_signal(signal.SIGTERM)
    assert program.ended() == -signal.SIGTERM


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_sigterm_also_ends_a_program_that_runs_it_beside_its_own_work(database: dict[str, Any]) -> None:
    program = Program(ASYNC, database, run="await asyncio.gather(alarms.run(), asyncio.sleep(1000))")
    program.until("begun")
    program.process.send_signal(signal.SIGTERM)
    assert program.ended() == 0, program.lines
    assert "done" in program.lines
    assert stored(database).status == "fired"


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_in_another_thread_no_signal_is_handled(database: dict[str, Any]) -> None:
    program = Program(SYNC, database, run="threading.Thread(target=alarms.run, daemon=True).start(); time.sleep(1000)")
    program.until("begun")
    program.process.send_signal(signal.SIGTERM)
    assert program.ended() == -signal.SIGTERM


FORKS = {
    "sync": """
        alarms = wakeful.open_sync(**DATABASE).__enter__()
        alarms.set("in 1 hour", "before")

        def use():
            alarms.set("in 1 hour", "in the child")

        def close():
            alarms.close()
        """,
    "sync, a handler": """
        alarms = wakeful.open_sync(**DATABASE).__enter__()

        def use():
            alarms.handler("ops")(print)

        def close():
            alarms.close()
        """,
    "async": """
        loop = asyncio.new_event_loop()
        alarms = wakeful.open(**DATABASE)
        loop.run_until_complete(alarms.__aenter__())
        loop.run_until_complete(alarms.set("in 1 hour", "before"))

        def use():
            asyncio.new_event_loop().run_until_complete(alarms.set("in 1 hour", "in the child"))

        def close():
            loop.run_until_complete(alarms.close())
        """,
}
FORKED = """
import asyncio, os, sys, traceback
import wakeful

def say(word):
    print(word, flush=True)

OPENED
child = os.fork()
if child == 0:
    try:
        use()
        say("no error")
    except wakeful.WakefulError as error:
        say(f"{error.code}: {error.message} FIX {error.fix}")
    except BaseException:
        say(traceback.format_exc())
    os._exit(0)
os.waitpid(child, 0)
close()
say("parent is fine")
"""


@pytest.mark.parametrize("form", FORKS)
def test_after_a_fork_the_child_is_told_to_open_it_itself(database: dict[str, Any], form: str) -> None:
    program = Program(FORKED.replace("OPENED", dedent(FORKS[form])), database)
    assert program.ended() == 0, program.lines
    [told] = [line for line in program.lines if "FIX" in line]
    assert told.startswith("store_unavailable: this database was opened by process "), told
    assert "after the fork" in told
    assert program.lines[-1] == "parent is fine"


UNOPENED = """
import os
import wakeful

alarms = wakeful.open_sync(**DATABASE)  # at the head of a module, as with gunicorn --preload
alarms.handler("early")(print)
child = os.fork()
alarms.handler("late")(print)
with alarms:
    print(alarms.set("in 1 hour", "hello").status, flush=True)
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
"""


def test_what_nobody_had_opened_before_the_fork_both_processes_open(database: dict[str, Any]) -> None:
    program = Program(UNOPENED, database)
    assert program.ended() == 0, program.lines
    assert program.lines == ["active", "active"]
