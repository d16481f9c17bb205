"""The fault run's own parts: enough kinds, dealt out fairly, and a table that hides nothing."""

from __future__ import annotations

import itertools
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from .checker import ALLOWED, CALM, COLUMNS, Verdict, Violation
from .client import acknowledged
from .kinds import ANYWHERE, KINDS
from .places import PLACES
from .processes import too_busy
from .profiles import USUAL
from .records import Injection, Notes, Seen, read
from .report import HEADS, Report
from .rounds import Plan, Result, ordered, plans

GUARANTEES = Path(__file__).parents[2] / "docs" / "guarantees.md"


def test_there_are_kinds_for_every_place() -> None:
    assert len(KINDS) >= 30
    assert {store for kind in KINDS.values() for store in kind.stores} == set(PLACES) == set(ANYWHERE)


def test_every_kind_comes_once_before_one_comes_again() -> None:
    names = [name for name, kind in KINDS.items() if "sqlite" in kind.stores]
    found = plans("sqlite", names, random.Random(1))
    rounds = -(-len(names) // USUAL.each)
    dealt = [name for plan in itertools.islice(found, rounds) for name in plan.kinds]
    assert sorted(dealt) == sorted(names)


def test_the_same_seed_deals_the_same_faults() -> None:
    names = list(KINDS)
    once, again = (list(itertools.islice(plans("x", names, random.Random(5)), 8)) for _ in range(2))
    assert once == again


def test_what_begins_with_an_older_version_comes_first_and_what_stays_comes_last() -> None:
    chosen = ordered(["restored from a backup", "kill serve", "upgrade, two versions side by side"])
    assert chosen == ["upgrade, two versions side by side", "kill serve", "restored from a backup"]


def result(*violations: Violation, error: str = "") -> Result:
    one = Injection(kind="kill serve", store="sqlite", began=1.0, ended=2.0, hits=("serve",), error=error)
    verdict = Verdict(
        store="sqlite", violations=list(violations), alarms={"kill serve": 7, CALM: 2}, recovery={"kill serve": 1.25}
    )
    return Result(plan=Plan(store="sqlite", kinds=["kill serve"], seed=1), verdict=verdict, injections=[one], exits=[])


def test_the_table_sums_up_rounds() -> None:
    report = Report()
    report.add(result(Violation("duplicate_in_flight", "kill serve", "a", "twice")))
    report.add(result())
    [line] = [line for line in report.table().splitlines() if line.startswith("| kill serve")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == ["kill serve", "sqlite", "2", "14", "0", "1", *["0"] * 10, "1.2"]
    assert not report.failed
    assert report.last_line() == "1 passed, 0 failed"


@pytest.mark.parametrize("column", [column for column in COLUMNS if column not in ALLOWED])
def test_any_broken_promise_fails_the_run(column: Any) -> None:
    report = Report()
    report.add(result(Violation(column, "kill serve", "a", "it happened")))
    assert report.failed
    assert "it happened" in report.details()
    assert report.last_line() == "0 passed, 1 failed"


def test_what_took_too_long_on_a_busy_machine_is_told_and_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (4.0 * (os.cpu_count() or 1), 0.0, 0.0))
    said = too_busy(TimeoutError("it is not ready"))
    assert "4 programs for each processor: it is not ready" in said
    assert not too_busy(RuntimeError("the client ended by itself"))
    report = Report()
    unfinished = replace(result().injections[0], too_busy=said)
    report.add(replace(result(), injections=[unfinished]))
    report.add(replace(result(), verdict=None, injections=[], too_busy=said))
    assert "it is not ready" in report.table()
    assert not report.failed
    monkeypatch.setattr(os, "getloadavg", lambda: (0.5, 0.0, 0.0))
    assert not too_busy(TimeoutError("it is not ready"))


def test_lateness_is_told_and_fails_nothing() -> None:
    report = Report()
    report.add(result(Violation("late", "kill serve", "a", "2.5 s late")))
    assert "2.5 s late" in report.details()
    assert not report.failed


def test_a_kind_that_was_not_reached_in_time_fails_nothing() -> None:
    report = Report()
    report.add(result())
    report.absent["kill a worker", "sqlite"] = "not reached in time"
    assert "not reached in time" in report.table()
    assert not report.failed


def test_a_fault_that_could_not_be_done_and_a_round_that_broke_off_fail_the_run() -> None:
    report = Report()
    report.add(result(error="no such process"))
    assert report.failed
    assert "no such process" in report.details()
    broken = Report()
    plan = Plan(store="sqlite", kinds=["kill serve"], seed=1)
    broken.add(Result(plan=plan, verdict=None, injections=[], exits=[], error="Traceback"))
    assert broken.failed
    assert broken.last_line() == "0 passed, 1 failed"


def test_what_this_machine_cannot_do_stands_in_the_table() -> None:
    report = Report()
    report.absent["pgbouncer killed", "bouncer"] = "not available: pgbouncer"
    assert "not available: pgbouncer" in report.table()


@pytest.mark.parametrize(
    ("status", "answer", "known"),
    [
        (201, {"id": "a", "next_fire_at": "2026-01-01T00:00:00Z"}, "ok"),
        (409, {"detail": "no"}, "refused"),
        (503, {"detail": "away"}, "unknown"),
        (599, None, "unknown"),
    ],
)
def test_only_a_yes_counts_as_one(status: int, answer: Any, known: str) -> None:
    assert acknowledged("create", 1, 0.0, status, answer).known == known


def test_cancelling_what_is_over_promises_nothing() -> None:
    assert acknowledged("cancel", 1, 0.0, 200, {"id": "a", "status": "fired", "in_flight": False}).known == "refused"
    assert acknowledged("cancel", 1, 0.0, 200, {"id": "a", "status": "cancelled", "in_flight": False}).known == "ok"


def test_half_a_line_was_never_said(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes")
    seen = Seen(
        at=1, answered=2, status=200, fire="a@1", alarm="a", attempt=1, message="", scheduled=1, receiver="", process=""
    )
    notes.add(seen)
    notes.close()
    with (tmp_path / "notes").open("ab") as file:
        file.write(b'{"at": 1, "answ')
    assert read(tmp_path / "notes", Seen) == [seen]


def test_the_page_of_guarantees_explains_every_column_and_promise() -> None:
    text = GUARANTEES.read_text()
    assert all(f"| {head} |" in text for head in HEADS.values())
    promised = re.findall(
        r"^\| ([A-Z]\d)(?:, ([A-Z]\d))? \|", (GUARANTEES.parent / "architecture.md").read_text(), re.M
    )
    codes = {code for pair in promised for code in pair if code}
    assert len(codes) >= 14
    assert all(f"| {code} |" in text for code in codes)


def test_every_test_the_page_of_guarantees_names_is_there() -> None:
    named = set(re.findall(r"`(tests/[\w/]+(?:\.py)?)`", GUARANTEES.read_text()))
    assert len(named) > 10
    assert [path for path in named if not (GUARANTEES.parents[1] / path).exists()] == []
