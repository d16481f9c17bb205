"""`serve` and `worker` wait for a database that is away when they start, and only for one that may come."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path

import pytest

from tests.conftest import Cluster
from tests.interfaces.test_cli_processes import Start, line, run, start
from tests.store.sqlite_file_tools import ask, other_program

__all__ = ["start"]

NOBODY = "postgresql://me:hunter2@127.0.0.1:1/clock"  # nothing listens there
COMMANDS = pytest.mark.parametrize("command", [("serve", "--port", "0"), ("worker",)], ids=["serve", "worker"])


@COMMANDS
def test_it_starts_once_postgresql_is_there(start: Start, pg_cluster: Cluster, command: tuple[str, ...]) -> None:
    pg_cluster.crash()
    process = start(*command, "--db", pg_cluster.dsn)
    for _ in range(2):
        assert re.search(
            r"WARNING wakeful\.server: cannot start yet, trying again in [\d.]+ s: cannot connect to PostgreSQL",
            line(process),
        )
    pg_cluster.start()
    while "cannot start yet" in (said := line(process)):
        assert process.poll() is None
    assert said.startswith("wakeful ")
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


@COMMANDS
def test_it_starts_once_the_file_is_free(start: Start, tmp_path: Path, command: tuple[str, ...]) -> None:
    file = str(tmp_path / "wakeful.db")
    ask(file, "create table other (x)")
    with other_program(file) as db:
        db.execute("begin exclusive")
        process = start(*command)
        assert "cannot start yet" in line(process)
    while "cannot start yet" in (said := line(process)):
        assert process.poll() is None
    assert said.startswith("wakeful ")
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


@COMMANDS
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_waiting(start: Start, command: tuple[str, ...], number: signal.Signals) -> None:
    process = start(*command, "--db", NOBODY)
    while "again in 1.00 s" not in line(process):
        assert process.poll() is None
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert f"{number.name}: stopping" in err
    assert "hunter2" not in err


async def test_what_waiting_cannot_help_ends_it_at_once(start: Start, pg_cluster: Cluster, tmp_path: Path) -> None:
    pg_dsn = pg_cluster.dsn
    (tmp_path / "text.db").write_text("this is a text that is long enough to be read as the header of a database" * 9)
    wrong = {
        pg_dsn.replace("/postgres?", "/no_such_database?"): (6, "no_such_database"),
        pg_dsn.replace("postgres:@", "no_such_role:@"): (6, "no_such_role"),
        "text.db": (2, "is not a SQLite database"),
        "no/such/folder/w.db": (2, "is not a directory"),
        "mysql://db": (2, "is not a store"),
    }
    for db, (code, words) in wrong.items():
        for command in ("serve", "worker"):
            _, err = await asyncio.to_thread(run, start, command, "--db", db, code=code)
            assert words in err
            assert "cannot start yet" not in err
    assert os.listdir(tmp_path) == ["text.db"]
