"""`wakeful import alarm` run again, or cut off and run again: every row is here once."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.faults.conftest import Process
from wakeful.cli import main
from wakeful.transfer.takeover import PAGE

from .alarm_file_world import NOW, AlarmsFile
from .alarm_import_world import Import, bring, by_row, file, fires, here, told
from .chronos_world import Here
from .erlang import term_to_binary

__all__ = ["bring", "file", "here"]


def test_running_it_again_adds_nothing_and_leaves_alone_what_has_moved_on(
    file: AlarmsFile, here: Here, bring: Import
) -> None:
    rows = file.fill()
    bring()
    plain = by_row(here)[rows["pending"]]
    assert CliRunner().invoke(main, ["cancel", plain.id]).exit_code == 0
    # Meanwhile in Alarm, which nobody stopped: what it fires there is not what happened here.
    file.sql("update alarm set started_at = ?, result = 'ok', completed_at = ?", (NOW, NOW))
    more = file.add()
    after, kept = here.alarms(), fires(here)
    assert told(bring("--json"))["taken_over"] == len(rows) + 1
    assert {id: alarm for id, alarm in here.alarms().items() if id in after} == after
    assert by_row(here).keys() == {*rows.values(), more}
    assert fires(here) | kept == fires(here)
    assert by_row(here)[rows["pending"]].status == "cancelled"


HALTING = """
import os, signal, sys

from wakeful.cli import main
from wakeful.store.postgres import PostgresStore
from wakeful.store.sqlite import SqliteStore

verb, point, args = sys.argv[1], sys.argv[2], sys.argv[3:]


def halting(do):
    calls = 0

    async def halting(self, values, **more):
        nonlocal calls
        calls += 1
        if calls == 3 and point == "before":
            os.kill(os.getpid(), signal.SIGSTOP)
        done = await do(self, values, **more)
        if calls == 3 and point == "after":
            os.kill(os.getpid(), signal.SIGSTOP)
        return done

    return halting


for store in (PostgresStore, SqliteStore):
    setattr(store, verb, halting(getattr(store, verb)))
main(args)
"""


@pytest.mark.parametrize(("verb", "point"), [("add", "before"), ("add", "after"), ("settle", "after")])
def test_killed_half_way_and_run_again_every_row_is_here_once(
    file: AlarmsFile, here: Here, bring: Import, tmp_path: Path, verb: str, point: str
) -> None:
    file.add_many(4 * PAGE + 1)
    asked = [sys.executable, "-c", HALTING, verb, point, "import", "alarm", str(file.path)]
    process = Process(asked, tmp_path, name="halting")
    try:
        asyncio.run(process.frozen())
    finally:
        process.close()
    assert len(here.alarms()) == (2 if (verb, point) == ("add", "before") else 3) * PAGE
    assert len(fires(here)) == (3 if verb == "settle" else 2) * PAGE // 2
    assert told(bring("--json"))["taken_over"] == 4 * PAGE + 1
    rows, alarms, kept = file.rows(), by_row(here), fires(here)
    assert alarms.keys() == rows.keys()
    for id, row in rows.items():
        alarm = alarms[id]
        assert alarm.status == ("active" if row["started_at"] is None else "fired")
        assert (alarm.id in kept) == (row["started_at"] is not None)
        assert (alarm.claim, alarm.version, alarm.claimed_at) == (0, 1, None)


def test_a_retry_is_nobodys_until_what_was_tried_is_on_record(
    file: AlarmsFile, here: Here, bring: Import, tmp_path: Path
) -> None:
    """Killed between the two: it is leased, and a lease ends by itself; run again, and it is free at once."""
    rows = file.fill()
    source = HALTING.replace("calls == 3", "calls == 1")
    process = Process(
        [sys.executable, "-c", source, "add", "after", "import", "alarm", str(file.path)], tmp_path, name="halting"
    )
    try:
        asyncio.run(process.frozen())
    finally:
        process.close()
    assert {id for id, alarm in by_row(here).items() if alarm.claimed_at is not None} == {rows["retrying"]}
    bring()
    retried = by_row(here)[rows["retrying"]]
    assert (retried.claimed_at, fires(here)[retried.id].attempts) == (None, 2)


def test_the_row_of_another_file_with_the_same_id_is_told_apart(
    file: AlarmsFile, here: Here, bring: Import, tmp_path: Path
) -> None:
    id = file.add()
    other = AlarmsFile(tmp_path / "other.sqlite")
    other.add(id=id, message=term_to_binary(b"something else"))
    bring()
    [left] = told(bring("--json", code=1, path="other.sqlite"))["left"]
    [mine] = here.alarms().values()
    assert left["reason"] == f"alarm {mine.id} already has the idempotency_key 'alarm:{id}' here"
    bring("--owner", "bo", path="other.sqlite")
    assert {alarm.owner_did: alarm.wake_message for alarm in here.alarms().values()} == {
        "local": "Call client",
        "bo": "something else",
    }
