"""What `wakeful import alarm` takes and says: a dry run, other targets, notes, and the answer that its page shows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from wakeful.store import Worker

from .alarm_file_world import NOW, AlarmsFile
from .alarm_import_world import A_PID, Import, at, bring, by_row, file, here, told
from .chronos_world import Chronos, Here

__all__ = ["bring", "file", "here"]

DAYS = 24 * 3600


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
    here.ask(lambda store: store.maintenance.beat(worker))
    assert bring().stderr == ""


def test_what_is_beyond_retention_is_counted_and_said(file: AlarmsFile, here: Here, bring: Import) -> None:
    then = NOW - 100 * DAYS
    file.add(id=then * 1000, set_at=then, started_at=then, completed_at=then + 1, duration_ms=1000, result="ok")
    result = bring("--json")
    assert told(result)["beyond_retention"] == 1
    assert "note: 1 ended more than 90 days ago: the next worker deletes them" in result.stderr
    assert here.ask(lambda store: store.maintenance.purge(at(NOW - 90 * DAYS))) == 2, "the alarm and its fire"
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
