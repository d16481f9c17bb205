"""One SQLite file: a program that writes all the time, another that adds 5,000 tasks, and wakeful that fires them."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from .replay_world import INSERT, SCHEMA

TASKS = 5000
TOGETHER = 50  # tasks the other program adds in one transaction
WITHIN = 300  # seconds; it takes about 6 where nothing else runs
HAMMER = Path(__file__).with_name("hammer.py")
WAKEFUL = [sys.executable, "-m", "wakeful.cli"]


@pytest.fixture
def environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("WAKEFUL_")}


@contextmanager
def running(command: list[str], **more: Any) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, text=True, **more)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str]) -> str:
    """Ask it to end; all it said."""
    process.send_signal(signal.SIGTERM)
    said, more = process.communicate(timeout=30)
    assert process.returncode == 0, more
    return f"{said or ''}{more or ''}"


def test_five_thousand_tasks_become_messages_while_another_program_writes_all_the_time(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    path = tmp_path / "messages.db"
    with closing(sqlite3.connect(path, timeout=5, isolation_level=None)) as db:
        db.execute("pragma journal_mode = wal")
        for statement in SCHEMA:
            db.execute(statement)
        db.execute("insert into migrations values ('store', 1, '2026-03-23T10:00:00Z')")
        connect(path, environ)
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environ}
        with (
            running([sys.executable, str(HAMMER), str(path)], **pipes) as hammer,
            running([*WAKEFUL, "worker", "--db", str(path)], **pipes) as worker,
        ):
            assert hammer.stdout is not None
            assert hammer.stdout.readline() == "hammering\n"
            add_tasks(db, TASKS)
            before = count(db, "hammered")
            ending = time.monotonic() + WITHIN
            while count(db, "messages") < TASKS:
                assert worker.poll() is None
                assert time.monotonic() < ending, f"{count(db, 'messages')} of {TASKS} messages within {WITHIN} s"
                time.sleep(0.05)  # it is the others who are to have the file
            told = json.loads(ended(hammer))
            log = ended(worker)
        assert told["refused"] == []
        assert told["transactions"] == count(db, "hammered")
        assert told["transactions"] > before, told  # it did hammer while messages were written
        assert "locked" not in log
        assert "WARNING" not in log
        assert "ERROR" not in log
        assert count(db, "messages") == TASKS  # the worker has ended: no more come
        contents = db.execute("select content from messages").fetchall()
        assert sorted(contents) == sorted((f"do {number}",) for number in range(TASKS))
        assert db.execute("select status, next_run, count(*) from scheduled_tasks group by 1, 2").fetchall() == [
            ("done", None, TASKS)
        ]
        lines = db.execute("select service, min(version) from migrations group by service order by service").fetchall()
        assert lines == [("store", 1), ("wakeful", 1)]
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)


def test_a_worker_killed_in_the_middle_leaves_every_task_with_its_one_message(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """Message, alarm and task move together: no moment to die in between."""
    path, number = tmp_path / "messages.db", 600
    environ |= {"WAKEFUL_LEASE": "2s", "WAKEFUL_BATCH": "20"}
    with closing(sqlite3.connect(path, timeout=5, isolation_level=None)) as db:
        for statement in SCHEMA:
            db.execute(statement)
        connect(path, environ)
        add_tasks(db, number)
        ending = time.monotonic() + WITHIN
        for until in (number // 4, number // 2, number):
            with running([*WAKEFUL, "worker", "--db", str(path)], env=environ, stderr=subprocess.DEVNULL) as worker:
                while count(db, "messages") < until:
                    assert time.monotonic() < ending, f"{count(db, 'messages')} of {number} messages within {WITHIN} s"
                worker.kill()
                worker.wait()
            half = "select count(*) from scheduled_tasks where (status = 'done') <> (next_run is null)"
            assert db.execute(half).fetchone() == (0,)
            [done] = db.execute("select count(*) from scheduled_tasks where status = 'done'").fetchone()
            assert done == count(db, "messages")
        contents = db.execute("select content from messages").fetchall()
        assert sorted(contents) == sorted((f"do {one}",) for one in range(number))


def connect(path: Path, environ: dict[str, str]) -> None:
    command = [*WAKEFUL, "db", "scheduled-tasks", "--db", str(path)]
    subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)


def add_tasks(db: sqlite3.Connection, tasks: int) -> None:
    """As a program does that is in a hurry itself; they are due one after the other within a few seconds."""
    for first in range(0, tasks, TOGETHER):
        db.execute("begin immediate")
        for number in range(first, first + TOGETHER):
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + number % 6))
            task = (f"task-{number}", "main", "1@g.us", f"do {number}", None, at, "active", at, "group")
            db.execute(INSERT, task)
        db.execute("commit")


def count(db: sqlite3.Connection, table: str) -> int:
    [found] = db.execute(f"select count(*) from {table}").fetchone()
    return int(found)
