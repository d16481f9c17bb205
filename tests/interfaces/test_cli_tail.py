"""`tail` and `top`, through the real program."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests import commands
from tests.interfaces.pty_world import check_snapshot, environ, on_a_terminal, piped
from wakeful.process.application import build
from wakeful.service import live
from wakeful.service.watch import overview
from wakeful.settings import Settings
from wakeful.store import Store, TargetState, Worker
from wakeful.testing import ManualClock
from wakeful.testing.conformance.making import a_fire, an_alarm

WITHIN = 60.0  # seconds


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"WAKEFUL_DB": str(tmp_path / "wakeful.db")}


def set_alarm(cwd: Path, env: dict[str, str], *args: str) -> str:
    id: str = json.loads(piped(*args, "--json", cwd=cwd, env=env)[0])["id"]
    return id


def test_the_latest_events_come_oldest_first_one_line_each(tmp_path: Path, env: dict[str, str]) -> None:
    one = set_alarm(tmp_path, env, "at", "2099-01-01T00:00:00Z", "first", "--label", "one")
    two = set_alarm(tmp_path, env, "at", "2099-01-01T00:00:00Z", "second\nline")
    piped("cancel", one, "--reason", "not needed", cwd=tmp_path, env=env)
    rows = [line.split("\t") for line in piped("tail", cwd=tmp_path, env=env)[0].splitlines()]
    assert [(row[1], row[3]) for row in rows] == [("created", one), ("created", two), ("cancelled", one)]
    assert rows[2][2:] == ["inbox", one, "one", "first", "not needed"]
    assert rows[1][5] == "second\\nline"
    told = [json.loads(line) for line in piped("tail", "-n", "1", "--json", cwd=tmp_path, env=env)[0].splitlines()]
    assert [(event["what"], event["reason"], event["label"]) for event in told] == [("cancelled", "not needed", "one")]
    only = piped("tail", two, cwd=tmp_path, env=env)[0].splitlines()
    assert [line.split("\t")[1] for line in only] == ["created"]
    only = piped("tail", "--what", "cancelled", cwd=tmp_path, env=env)[0].splitlines()
    assert len(only) == 1
    assert "there is no alarm" in piped("tail", "nobody", cwd=tmp_path, env=env, code=3)[1]


def test_another_owners_events_are_not_shown(tmp_path: Path, env: dict[str, str]) -> None:
    set_alarm(tmp_path, env, "at", "2099-01-01T00:00:00Z", "mine")
    assert piped("tail", "--owner", "eve", cwd=tmp_path, env=env)[0] == ""
    assert json.loads(piped("top", "--json", "--owner", "eve", cwd=tmp_path, env=env)[0])["ahead"] == 0


def test_a_terminal_gets_a_line_that_fits(tmp_path: Path, env: dict[str, str]) -> None:
    id = set_alarm(tmp_path, env, "at", "2099-01-01T00:00:00Z", "Call the bank")
    set_alarm(tmp_path, env, "at", "2099-01-01T00:00:00Z", "a message that is longer than the line")
    piped("pause", id, "--reason", "holiday", cwd=tmp_path, env=env)
    screen = on_a_terminal("tail", cwd=tmp_path, env=env)
    check_snapshot("tail", screen)


def test_following_tells_what_happens_as_it_happens_and_nothing_twice(tmp_path: Path, env: dict[str, str]) -> None:
    first = set_alarm(tmp_path, env, "at", "2099-01-01T00:00:00Z", "first")
    process = subprocess.Popen(
        [*commands.PROGRAM, "tail", "-f", "--json"], cwd=tmp_path, env=environ(**env), stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["alarm_id"] == first
        second = set_alarm(tmp_path, env, "at", "2099-01-01T00:00:00Z", "second")
        told: Any = json.loads(process.stdout.readline())
        assert (told["what"], told["alarm_id"], told["message"]) == ("created", second, "second")
        piped("cancel", first, cwd=tmp_path, env=env)
        told = json.loads(process.stdout.readline())
        assert (told["what"], told["alarm_id"]) == ("cancelled", first)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stdout.read() == ""
    finally:
        process.kill()
        process.communicate()


async def test_the_latest_are_the_latest_also_where_there_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "PAGE", 10)
    clock = ManualClock()
    async with build(Settings(db=str(tmp_path / "a.db")), clock=clock) as wakeful:
        store: Store = wakeful.service.store
        for _ in range(35):
            await clock.advance(20)
            await wakeful.set(delay=3600, wake_message="x")
        told = await live.recent(store, "local", limit=5)
        assert [event.at for event in told] == [clock.now() - timedelta(seconds=20 * ago) for ago in (4, 3, 2, 1, 0)]


def test_top_counts_once_in_a_pipe(tmp_path: Path, env: dict[str, str]) -> None:
    set_alarm(tmp_path, env, "at", "2099-01-01T00:00:00Z", "later")
    assert piped("top", cwd=tmp_path, env=env)[0] == (
        "total\t\t\t0\t0\t1\t0\t0\t0\ninbox\tunserved\t0\t0\t0\t1\t0\t0\t0\n"
    )
    told = json.loads(piped("top", "--json", cwd=tmp_path, env=env)[0])
    assert [alarm["wake_message"] for alarm in told["next"]] == ["later"]
    assert told["targets"][0]["state"] == "unserved"


def test_top_once_on_a_terminal(tmp_path: Path, env: dict[str, str]) -> None:
    piped("db", "migrate", cwd=tmp_path, env=env)
    assert "Nothing is ahead." in on_a_terminal("top", "--once", cwd=tmp_path, env=env).text
    text = "Morning brief: everything that came in over night, and what to do about it"
    set_alarm(tmp_path, env, "at", "2099-01-01T00:00:00Z", text)
    screen = on_a_terminal("top", "--once", cwd=tmp_path, env=env)
    check_snapshot("top", screen)


def test_top_refreshes_a_screen_of_its_own_until_ctrl_c(tmp_path: Path, env: dict[str, str]) -> None:
    set_alarm(tmp_path, env, "at", "2099-01-01T00:00:00Z", "later")
    mine, theirs = pty.openpty()
    process = subprocess.Popen(
        [*commands.PROGRAM, "top", "--every", "0.2"],
        cwd=tmp_path,
        env=environ(**env),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown, ending = b"", time.monotonic() + WITHIN

    def more() -> bytes:
        assert time.monotonic() < ending, shown
        return os.read(mine, 10_000)

    try:
        while shown.count(b"1 ahead") < 3:
            shown += more()
        process.send_signal(signal.SIGINT)
        while b"\x1b[?1049l" not in shown:
            shown += more()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(mine)
    assert shown.startswith(b"\x1b[?1049h")
    assert b"Traceback" not in shown


async def test_what_is_due_and_what_is_in_flight_are_told_apart_by_target(tmp_path: Path) -> None:
    clock = ManualClock()
    now, lease = clock.now(), timedelta(minutes=2)
    due, flying = an_alarm(clock, target="hook", due=-5), an_alarm(clock, target="hook", due=-5, claimed_at=now)
    ahead = an_alarm(clock, target="desk", due=60)
    fires = [
        a_fire(due, status="failed"),
        a_fire(due, status="completed", updated_at=now - timedelta(minutes=5)),
        a_fire(ahead, status="delivered"),
        a_fire(ahead, status="retrying"),
    ]
    worker = Worker(id="w", host="h", pid=1, version="1", started_at=now, seen_at=now)
    paused = TargetState(target="hook", paused_at=now, updated_at=now)
    seen = overview(
        [due, flying, ahead],
        fires,
        {"desk": [worker], "hook": [worker]},
        {"hook": paused},
        more=False,
        lease=lease,
        now=now,
    )
    assert (seen.due, seen.in_flight, seen.ahead) == (1, 1, 1)
    assert (seen.per_minute, seen.fired, seen.retrying, seen.failed) == (1, 2, 1, 1)
    assert [(one.target, one.state, one.due, one.in_flight, one.failed) for one in seen.targets] == [
        ("desk", "ok", 0, 0, 0),
        ("hook", "paused", 1, 1, 1),
    ]
    assert seen.next == [ahead]
