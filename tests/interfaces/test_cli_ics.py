"""`import ics` in the shell: what it says, that a dry run changes nothing, and what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.pty_world import piped
from tests.remote.world import serving_process
from tests.transfer.test_ics_file import USUAL, calendar, event, valarm
from wakeful.errors import InvalidConfig
from wakeful.transfer.ics import LIMIT, read_events

TEAM = calendar(
    event("DTSTART;TZID=Europe/Berlin:20900501T090000", valarm("TRIGGER:-PT15M"), valarm("TRIGGER:-P1D")),
    event("DTSTART:20900501T090000", uid="floating"),
    event("DTSTART:20200501T090000Z", uid="gone"),
    event("DTSTART;TZID=Moon/Crater:20900501T090000", uid="odd").replace("Meeting", "\x1b[31mOdd\x07"),
).decode()


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "team.ics").write_text(TEAM, newline="")
    return {"WAKEFUL_DB": str(tmp_path / "wakeful.db")}


def cells(out: str) -> list[list[str]]:
    return [line.split("\t") for line in out.splitlines()]


def test_a_dry_run_says_what_would_be_set_and_changes_nothing(tmp_path: Path, env: dict[str, str]) -> None:
    args = ("import", "ics", "team.ics", "--tz", "America/New_York")
    out, _ = piped(*args, cwd=tmp_path, env=env, code=1)
    assert piped(*args, "--yes", "--dry-run", cwd=tmp_path, env=env, code=1)[0] == out
    dentist, floating, gone, odd = cells(out)
    assert dentist[1:5] == ["would be set", "Meeting", "2", "2090-04-30T07:00:00Z"]
    assert floating[1:5] == ["would be set", "Meeting", "1", "2090-05-01T13:00:00Z"]
    assert gone[1] == "past"
    assert odd[1] == "left out"
    assert odd[5] == "TZID 'Moon/Crater' is not a known time zone"
    assert "\x1b" not in out
    assert not (tmp_path / "wakeful.db").exists()
    out, _ = piped(*args, "--yes", cwd=tmp_path, env=env, code=1)
    assert [line[1] for line in cells(out)] == ["set", "set", "past", "left out"]
    assert len(piped("ls", cwd=tmp_path, env=env)[0].splitlines()) == 3


def test_the_document_lists_every_event_and_the_same_file_changes_nothing(tmp_path: Path, env: dict[str, str]) -> None:
    args = ("import", "ics", "-", "--tz", "Europe/Berlin", "--to", "inbox", "--json", "--yes")
    told: Any = json.loads(piped(*args, cwd=tmp_path, env=env, input=TEAM, code=1)[0])
    assert (told["set"], told["past"], told["left_out"], told["dry_run"]) == (2, 1, 1, False)
    dentist = told["events"][0]
    assert [alarm["when"] for alarm in dentist["alarms"]] == ["2090-05-01T08:45:00", "2090-04-30T09:00:00"]
    shown: Any = json.loads(piped("show", dentist["ids"][0], "--json", cwd=tmp_path, env=env)[0])
    assert (shown["wall_time"], shown["timezone"], shown["label"]) == (
        "2090-05-01T08:45:00",
        "Europe/Berlin",
        "Meeting",
    )
    assert shown["payload"]["event"]["uid"] == "u1"
    again: Any = json.loads(piped(*args, cwd=tmp_path, env=env, input=TEAM, code=1)[0])
    assert (again["set"], again["there_already"]) == (0, 2)
    after: Any = json.loads(piped("show", dentist["ids"][0], "--json", cwd=tmp_path, env=env)[0])
    assert after == shown | {"now": after["now"]}


def test_through_a_server_it_is_the_same(tmp_path: Path, env: dict[str, str]) -> None:
    with serving_process(tmp_path, "--db", env["WAKEFUL_DB"]) as serving:
        remote = {"WAKEFUL_URL": serving.url}
        args = ("import", "ics", "team.ics", "--tz", "Europe/Berlin", "--yes")
        out, _ = piped(*args, cwd=tmp_path, env=remote, code=1)
        assert [line[1] for line in cells(out)] == ["set", "set", "past", "left out"]
        (tmp_path / "team.ics").write_text(TEAM.replace("20900501T090000", "20900502T090000"), newline="")
        out, _ = piped(*args, cwd=tmp_path, env=remote, code=1)
        assert [line[1] for line in cells(out)] == ["updated", "updated", "past", "left out"]
    out, _ = piped(*args, cwd=tmp_path, env=env, code=1)
    assert [line[1] for line in cells(out)] == ["there already", "there already", "past", "left out"]


def test_what_cannot_be_read_is_refused_and_nothing_is_made(tmp_path: Path, env: dict[str, str]) -> None:
    def refused(*args: str, input: str = "") -> str:
        return piped("import", "ics", *args, cwd=tmp_path, env=env, code=2, input=input)[1]

    assert "nowhere.ics cannot be read" in refused("nowhere.ics")
    assert "cannot be read" in refused(".")
    assert "no BEGIN:VCALENDAR" in refused("-", input="hello")
    assert "longer than 10 MiB" in refused("-", input="BEGIN:VCALENDAR\n" + "x" * LIMIT)
    assert "'Mars' is not a known time zone" in refused("team.ics", "--tz", "Mars")
    assert not (tmp_path / "wakeful.db").exists()
    assert "no target 'moon'" in refused("team.ics", "--to", "moon", "--yes")


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "icalendar", None)
    with pytest.raises(InvalidConfig, match="needs icalendar") as refusal:
        read_events(TEAM.encode(), USUAL)
    assert "wakeful[ics]" in refusal.value.fix
