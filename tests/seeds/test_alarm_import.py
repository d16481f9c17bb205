"""`wakeful import alarm`: every row comes over with what became of it, once, however often it is run or cut off."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import wakeful
from tests.faults.conftest import Process
from wakeful.alarm import Alarm, Fire
from wakeful.cli import main
from wakeful.contrib.erlang_terms import Atom
from wakeful.contrib.takeover import PAGE
from wakeful.service.history import HistoryStatus
from wakeful.store import FireQuery, Stats, Store, Worker
from wakeful.testing import ManualClock

from .alarm_file_world import NOW, AlarmsFile
from .chronos_world import Chronos, Here, here_on
from .erlang import a_map, keywords, term_to_binary

Import = Callable[..., Result]
DAYS = 24 * 3600
A_PID = bytes([131, 104, 2, 119, 4]) + b"ping" + bytes([88, 119, 1]) + b"n" + bytes(12)


@pytest.fixture
def file(tmp_path: Path) -> AlarmsFile:
    (tmp_path / "data").mkdir()
    return AlarmsFile(tmp_path / "data" / "alarm.sqlite")


@pytest.fixture(params=["sqlite", "postgres"])
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Here]:
    with here_on(request.param, request, tmp_path) as here:
        yield here


@pytest.fixture
def bring(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Import:
    """Run the command, as people and scripts do."""
    monkeypatch.chdir(tmp_path)
    for name, value in here.environ.items():
        monkeypatch.setenv(name, value)

    def bring(*args: str, code: int = 0, path: str = "data/alarm.sqlite") -> Result:
        result = CliRunner().invoke(main, ["import", "alarm", path, *args], catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    return bring


def told(result: Result) -> Any:
    return json.loads(result.stdout)


def by_row(here: Here) -> dict[int, Alarm]:
    alarms = here.alarms().values()
    found = {int(alarm.idempotency_key.removeprefix("alarm:")): alarm for alarm in alarms}
    assert len(found) == len(alarms)
    return found


def fires(here: Here) -> dict[str, Fire]:
    async def read(store: Store) -> dict[str, Fire]:
        return {fire.alarm_id: fire for fire in await store.fires(FireQuery(limit=100_000))}

    return here.ask(read)


def opened(here: Here, **more: Any) -> wakeful.Wakeful:
    given: dict[str, Any] = here.given | more
    return wakeful.open(**given)


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def test_what_is_pending_waits_here(file: AlarmsFile, here: Here, bring: Import) -> None:
    rows = file.fill()
    assert told(bring("--json", "--owner", "ann"))["taken_over"] == len(rows)
    alarm = by_row(here)[rows["pending"]]
    assert (alarm.owner_did, alarm.user_id, alarm.kind, alarm.status) == ("ann", "ann", "once", "active")
    assert alarm.next_fire_at == alarm.fire_at == alarm.occurrence_at == at(NOW + 3600)
    assert (alarm.target, alarm.wake_message) == ("Pushover", "Call client")
    assert alarm.payload == {
        "process": "Elixir.Pushover",
        "message": ["send", {"title": "Reminder", "message": "Call client"}],
        "term": '{:send, %{title: "Reminder", message: "Call client"}}',
    }
    assert (alarm.max_failures, alarm.policy.backoff_base) == (3, 10)
    assert alarm.policy.backoff_cap > 10**9, "Alarm's ladder has no end"
    assert (alarm.created_by, alarm.created_via) == ("1", "mcp")
    assert alarm.created_at == at(0) + timedelta(milliseconds=rows["pending"])
    assert (alarm.claim, alarm.version, alarm.claimed_at) == (0, 1, None)
    other = by_row(here)[rows["mailer"]]
    assert (other.target, other.wake_message, other.created_via) == ("mailer", "{:run, 17, [1, 2]}", "alarm")
    assert (other.max_failures, other.policy.backoff_base) == (0, 5)


def test_what_has_ended_is_on_record_as_it_ended(file: AlarmsFile, here: Here, bring: Import) -> None:
    rows, before = file.fill(), file.rows()
    bring()
    alarms, kept = by_row(here), fires(here)
    expected = {
        "retrying": ("active", "retrying"),
        "fired": ("fired", "delivered"),
        "completed": ("fired", "completed"),
        "slow": ("fired", "completed"),
        "failed": ("failed", "failed"),
        "timeout": ("fired", "timed_out"),
    }
    for name, statuses in expected.items():
        row, alarm = before[rows[name]], alarms[rows[name]]
        fire = kept.pop(alarm.id)
        assert (alarm.status, fire.status) == statuses, name
        assert (fire.scheduled_for, fire.started_at) == (at(row["set_at"]), at(row["started_at"]))
        assert fire.completed_at == (row["completed_at"] and at(row["completed_at"]))
        assert (fire.duration_ms, fire.result) == (row["duration_ms"], row["result"] or "")
        assert (fire.attempts, fire.target, fire.report_by) == (row["attempts"], "Pushover", None)
        assert alarm.last_fired_at == at(row["started_at"])
    assert kept == {}, "what never fired has no fire"
    assert alarms[rows["failed"]].last_error == "HTTP 503 from Pushover API (after 3 attempts)"
    cancelled = alarms[rows["cancelled"]]
    assert (cancelled.status, cancelled.cancelled_at) == ("cancelled", at(NOW - 50))


def test_stats_and_history_tell_the_same_as_alarm_did(file: AlarmsFile, here: Here, bring: Import) -> None:
    """A failed, timed-out or retried row counts as fired too in Alarm: here each counts once, a retry as pending."""
    rows, theirs = file.fill(), file.stats()
    bring()

    async def ask() -> tuple[Stats, dict[str, list[str]]]:
        async with opened(here) as clock:
            words: tuple[HistoryStatus, ...] = ("pending", "fired", "completed", "failed", "timed_out", "cancelled")
            return await clock.stats(), {
                word: [entry.result for entry in await clock.history(status=word)] for word in words
            }

    ours, history = asyncio.run(ask())
    assert ours == Stats(
        total=theirs["total"],
        pending=theirs["pending"] + 1,
        fired=theirs["fired"] - theirs["failed"] - theirs["timeout_unknown"] - 1,
        completed=theirs["completed"],
        failed=theirs["failed"],
        cancelled=theirs["cancelled"],
        timeout_unknown=theirs["timeout_unknown"],
        avg_duration_ms=theirs["avg_duration_ms"],
    )
    assert ours.avg_duration_ms == 3500
    assert sorted(history["completed"]) == ["ok", "sent to 3 recipients"]
    assert history["timed_out"] == ["timeout_unknown"]
    assert history["failed"] == ["FAILED: HTTP 503 from Pushover API (after 3 attempts)"]
    assert [len(entries) for entries in history.values()] == [3, 2, 2, 1, 1, 1]
    assert sum(map(len, history.values())) == len(rows)


def test_overdue_ones_fire_at_once_and_once_and_a_retry_goes_on(file: AlarmsFile, here: Here, bring: Import) -> None:
    rows = file.fill()
    bring()
    wakes: list[wakeful.Wake] = []

    async def serve() -> None:
        time = ManualClock(at(NOW + 60))
        async with opened(here, clock=time) as clock:

            @clock.handler("Pushover")
            async def pushover(wake: wakeful.Wake) -> str:
                wakes.append(wake)
                if wake.attempt == 3:
                    raise ConnectionError("HTTP 503")
                return "sent"

            await clock.run_due()
            assert len(wakes) == 2
            await time.advance(timedelta(seconds=27))
            await clock.run_due()
            assert len(wakes) == 2, "7 s, doubled for each of two failures, is 28 s"
            await time.advance(timedelta(seconds=5))
            await clock.run_due()

    asyncio.run(serve())
    alarms, kept = by_row(here), fires(here)
    overdue, retried = alarms[rows["overdue"]], alarms[rows["retrying"]]
    assert sorted((wake.alarm_id, wake.attempt) for wake in wakes) == sorted(
        [(overdue.id, 1), (retried.id, 3), (retried.id, 4)]
    )
    assert (overdue.status, kept[overdue.id].result) == ("fired", "sent")
    assert (retried.status, kept[retried.id].status, kept[retried.id].attempts) == ("fired", "completed", 4)
    assert kept[retried.id].started_at == at(NOW - 599)


def test_what_had_fired_can_still_be_reported_on(file: AlarmsFile, here: Here, bring: Import) -> None:
    id = file.add(set_at=NOW - 20, started_at=NOW - 20)
    bring()
    [alarm] = here.alarms().values()

    async def report() -> None:
        async with opened(here) as clock:
            await clock.completed(f"{alarm.id}@{(NOW - 20) * 1000}", "ok")

    asyncio.run(report())
    assert [fire.status for fire in fires(here).values()] == ["completed"]
    bring()
    assert [fire.status for fire in fires(here).values()] == ["completed"], "an import does not take it back"
    assert by_row(here).keys() == {id}


def test_a_dry_run_counts_and_changes_nothing(file: AlarmsFile, here: Here, bring: Import, tmp_path: Path) -> None:
    file.fill()
    bad = file.add(set_at=10**13)
    before = file.path.read_bytes()
    answer = told(bring("--dry-run", "--json", code=1))
    assert {one["status"]: one["count"] for one in answer["alarms"]} == {
        "pending": 4,
        "retrying": 1,
        "fired": 1,
        "completed": 2,
        "failed": 1,
        "timeout_unknown": 1,
        "cancelled": 1,
    }
    assert (answer["dry_run"], answer["found"], answer["due"], answer["left_behind"]) == (True, 11, 2, 1)
    assert "taken_over" not in answer
    assert answer["left"][0]["id"] == str(bad)
    assert answer["left"][0]["reason"].startswith("set_at: 10000000000000 is not a moment that can be kept.")
    assert file.path.read_bytes() == before
    assert [path.name for path in tmp_path.rglob("*")] == ["data", "alarm.sqlite"]
    if schema := here.given.get("schema"):
        assert Chronos(here.given["db"], schema).sql("select to_regnamespace($1::text)", schema)[0][0] is None


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


def test_what_cannot_come_is_listed_and_everything_else_comes(file: AlarmsFile, here: Here, bring: Import) -> None:
    good = file.add()
    bad = {
        file.add(message=A_PID): "message: it holds a pid, which means nothing outside the system that made it.",
        file.add(message=b"\x00"): "message: it is not a term in the format of term_to_binary.",
        file.add(message="text"): "message: it is text, not a BLOB.",
        file.add(message=bytes(1024 * 1024 + 1)): "message: it is larger than 1048576 bytes.",
        file.add(message=term_to_binary(bytes(100_000))): "payload: it is ",
        file.add(process=" "): "process: it is empty",
        file.add(set_at=1.5): "set_at: it is real, not a whole number.",
        file.add(set_at=-1): "set_at: -1 is out of range.",
        file.add(max_retries=5000): "max_failures: 5000 retries are not possible.",
        file.add(backoff_ms="soon"): "backoff_ms: it is text, not a whole number.",
    }
    file.sql("update alarm set process = cast(x'ff' as text) where id = ?", [(odd := file.add())])
    bad[odd] = "process: it is not UTF-8."
    answer = bring(code=1)
    lines = dict(line.split("\t", 1) for line in answer.stdout.splitlines())
    assert (lines["found"], lines["left behind"], lines["taken over"]) == (str(len(bad) + 1), str(len(bad)), "1")
    for id, reason in bad.items():
        assert lines[f"left {id}"].startswith(f"pending once: {reason}")
    assert by_row(here).keys() == {good}


def test_what_ended_because_nobody_could_read_it_is_history_all_the_same(
    file: AlarmsFile, here: Here, bring: Import
) -> None:
    odd = file.add(message=b"junk", started_at=NOW - 9, set_at=NOW - 10, result="FAILED: Failed to deserialize")
    old = file.add(message=b"junk", started_at=NOW - 9, set_at=NOW - 10, reply=b"bad \x00term")
    file.sql("update alarm set result = cast(x'6f6bff' as text) where id = ?", [old])
    bring()
    alarm = by_row(here)[odd]
    assert alarm.wake_message == "(a message that cannot be read: it is not a term in the format of term_to_binary)"
    assert (alarm.status, fires(here)[alarm.id].last_error) == ("failed", "Failed to deserialize")
    kept = fires(here)[by_row(here)[old].id]
    assert (kept.status, kept.result, kept.last_error) == ("delivered", "ok\ufffd", "bad term")


def test_states_that_overlap_count_where_alarm_counts_them(file: AlarmsFile, here: Here, bring: Import) -> None:
    both = file.add(set_at=NOW - 9, started_at=NOW - 9, completed_at=NOW - 8, result="ok", cancelled_at=NOW - 7)
    gone = file.add(set_at=NOW - 9, started_at=NOW - 9, result="RETRY: HTTP 503 (attempt 1/3)", cancelled_at=NOW - 7)
    never = file.add(set_at=NOW - 9, result="FAILED: unknown process")
    bring()
    alarms, kept = by_row(here), fires(here)
    assert [alarms[id].status for id in (both, gone, never)] == ["cancelled", "cancelled", "failed"]
    assert {id: fire.status for id, fire in kept.items()} == {
        alarms[both].id: "completed",
        alarms[never].id: "failed",
    }


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b"Call client", "Call client"),
        ((Atom("send"), a_map(title=b"Break time")), "Break time"),
        ((Atom("send"), a_map(body=b"b", title=b"t", message=b"m")), "m"),
        ((Atom("send"), keywords(body=b"from a keyword list")), "from a keyword list"),
        ([(Atom("x"), 1, a_map(message=b" "))], '[{:x, 1, %{message: " "}}]'),
        ((Atom("alarm_triggered"), 17), "{:alarm_triggered, 17}"),
        (Atom("tick"), ":tick"),
        ((Atom("say"), b"x" * 50_000), '{:say, "' + "x" * (32 * 1024 - 11) + "…"),
    ],
)
def test_a_wake_says_what_the_message_says(tmp_path: Path, message: Any, said: str) -> None:
    file = AlarmsFile(tmp_path / "alarm.sqlite")
    file.add(message=term_to_binary(message))
    db = str(tmp_path / "wakeful.db")
    result = CliRunner().invoke(main, ["import", "alarm", str(file.path), "--db", db], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    [alarm] = Here({"db": db}).alarms().values()
    assert alarm.wake_message == said
    assert alarm.payload["process"] == "Elixir.Pushover"


def test_an_older_alarm_had_fewer_columns(here: Here, bring: Import, tmp_path: Path) -> None:
    file = AlarmsFile(tmp_path / "alarm.sqlite", later=False)
    pending, fired = file.add(), file.add(set_at=NOW - 9, started_at=NOW - 9)
    bring(path="alarm.sqlite")
    alarms = by_row(here)
    assert (alarms[pending].max_failures, alarms[pending].policy.backoff_base) == (0, 5)
    assert fires(here)[alarms[fired].id].status == "delivered"


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


def test_where_wakes_go_can_be_said(file: AlarmsFile, here: Here, bring: Import) -> None:
    push, mail = file.add(), file.add(process="Elixir.My.Mailer")
    said = bring("--dry-run").stderr
    assert "note: 1 wait for 'My.Mailer', which is not known here" in said
    assert "note: 1 wait for 'Pushover', which is not known here" in said
    said = bring("--target", "inbox", "--target-for", "Elixir.My.Mailer=mailer").stderr
    assert "note: 1 wait for 'mailer'" in said
    assert "Pushover" not in said
    assert {id: alarm.target for id, alarm in by_row(here).items()} == {push: "inbox", mail: "mailer"}


def test_a_handler_that_some_process_has_registered_is_known(file: AlarmsFile, here: Here, bring: Import) -> None:
    file.add()
    moment = at(NOW)
    worker = Worker(id="w1", host="h", pid=1, version="1", started_at=moment, seen_at=moment, handlers=("Pushover",))
    here.ask(lambda store: store.beat(worker))
    assert bring().stderr == ""


def test_what_is_beyond_retention_is_counted_and_said(file: AlarmsFile, here: Here, bring: Import) -> None:
    then = NOW - 100 * DAYS
    file.add(id=then * 1000, set_at=then, started_at=then, completed_at=then + 1, duration_ms=1000, result="ok")
    result = bring("--json")
    assert told(result)["beyond_retention"] == 1
    assert "note: 1 ended more than 90 days ago: the next worker deletes them" in result.stderr
    assert here.ask(lambda store: store.purge(at(NOW - 90 * DAYS))) == 2, "the alarm and its fire"
    assert here.alarms() == {}


def test_it_is_a_command_of_the_real_program(file: AlarmsFile, here: Here, bring: Import, tmp_path: Path) -> None:
    file.fill()
    asked = [sys.executable, "-m", "wakeful.cli", "import", "alarm", str(file.path), "--json"]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout)["taken_over"] == 10
    assert len(here.alarms()) == 10


def test_the_page_shows_what_the_command_says(file: AlarmsFile, here: Here, bring: Import) -> None:
    page = (Path(__file__).parents[2] / "docs" / "seeds" / "alarm.md").read_text()
    command, *shown = page.partition("$ wakeful import alarm ")[2].partition("```")[0].strip().splitlines()
    file.fill()
    file.add(id=1709395200000, message=A_PID)
    path, *args = command.split()
    said = bring(*args, code=1, path=path).stdout
    assert [line.split() for line in said.splitlines()] == [line.split() for line in shown]
