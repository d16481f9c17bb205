"""`wakeful import alarm`: every row comes over with what became of it, and what cannot come is told."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import wakeful
from wakeful.cli import main
from wakeful.seeds.erlang_terms import Atom
from wakeful.service.history import HistoryStatus
from wakeful.store import Stats
from wakeful.testing import ManualClock

from .alarm_file_world import NOW, AlarmsFile
from .alarm_import_world import A_PID, Import, at, bring, by_row, file, fires, here, opened, told
from .chronos_world import Here
from .erlang import a_map, keywords, term_to_binary

__all__ = ["bring", "file", "here"]


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
    assert {other.policy.on_silence for other in by_row(here).values()} == {"give_up"}, "Alarm wakes nobody twice"
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
        async with opened(here) as alarms:
            words: tuple[HistoryStatus, ...] = ("pending", "fired", "completed", "failed", "timed_out", "cancelled")
            return await alarms.stats(), {
                word: [entry.result for entry in await alarms.history(status=word)] for word in words
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
        async with opened(here, clock=time) as alarms:

            @alarms.handler("Pushover")
            async def pushover(wake: wakeful.Wake) -> str:
                wakes.append(wake)
                if wake.attempt == 3:
                    raise ConnectionError("HTTP 503")
                return "sent"

            await alarms.run_due()
            assert len(wakes) == 2
            await time.advance(timedelta(seconds=27))
            await alarms.run_due()
            assert len(wakes) == 2, "7 s, doubled for each of two failures, is 28 s"
            await time.advance(timedelta(seconds=5))
            await alarms.run_due()

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
        async with opened(here) as alarms:
            await alarms.completed(f"{alarm.id}@{(NOW - 20) * 1000}", "ok")

    asyncio.run(report())
    assert [fire.status for fire in fires(here).values()] == ["completed"]
    bring()
    assert [fire.status for fire in fires(here).values()] == ["completed"], "an import does not take it back"
    assert by_row(here).keys() == {id}


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
