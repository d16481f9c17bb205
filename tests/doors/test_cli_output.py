"""What a terminal is shown."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.doors.pty_world import on_a_terminal, piped
from wakeful.cli.output import Output, clean, table


def test_columns_are_aligned_and_the_last_one_is_cut() -> None:
    rows = [["a", "日本", "short"], ["bbb", "x", "far too long for the room that is left"]]
    assert table(("one", "two", "three"), rows, 31).splitlines() == [
        "ONE  TWO   THREE",
        "a    日本  short",
        "bbb  x     far too long for th…",
    ]


def test_a_table_fits_the_terminal_and_cuts_no_id_and_no_moment() -> None:
    id, moment = "01a1e394-240b@1794819504019", "2026-11-17 09:00:00"
    row = [
        moment,
        "pending",
        "a long name of a target",
        id,
        "",
        "a label that is long",
        "a message that is longer",
        "ok",
    ]
    columns = ("scheduled", "status", "target", "id", "tries", "label", "message", "outcome")
    heading, line = table(columns, [row], 100).splitlines()
    assert "TRIES" not in heading
    assert max(len(heading), len(line)) <= 100
    assert moment in line
    assert id in line


def test_what_has_no_room_on_a_narrow_terminal_is_left_out_the_least_missed_first() -> None:
    columns = ("scheduled", "status", "target", "id", "tries", "label", "message", "outcome")
    row = ["2026-11-17 09:00:00", "delivered", "inbox", "01a1e394-240b@1794819504019", "1", "L", "Call", "FAILED: it"]
    heading, line = table(columns, [row], 80).splitlines()
    assert heading.split() == ["SCHEDULED", "STATUS", "ID", "MESSAGE", "OUTCOME"]
    assert max(len(heading), len(line)) <= 80
    assert len(table(columns, [row], 200).splitlines()[0].split()) == len(columns)


def test_waiting_in_vain_is_said_on_a_terminal(tmp_path: Path) -> None:
    env = {"WAKEFUL_DB": "wakeful.db"}
    piped("db", "migrate", cwd=tmp_path, env=env)
    screen = on_a_terminal("wait", "--for", "1s", cwd=tmp_path, env=env)
    assert (screen.code, screen.text) == (1, "No wake came.\n")


def test_control_characters_never_reach_a_terminal() -> None:
    assert clean("a\x1b[2Jb\r\n\tc\u202ed\\") == "a\\u001b[2Jb\\r\\n\\tc\\u202ed\\\\"
    assert clean("naïve ✓ 日本語 🎉") == "naïve ✓ 日本語 🎉"


def test_a_record_is_aligned_and_leaves_out_what_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    Output(terminal=True).record({"id": "7", "status": "active", "label": ""}, {})
    assert capsys.readouterr().out == "id      7\nstatus  active\n"


def test_moments_are_in_the_reader_s_zone_for_people_and_in_utc_for_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    noon = datetime(2026, 7, 1, 12, tzinfo=UTC)
    monkeypatch.setenv("TZ", "Europe/Berlin")
    assert Output(terminal=True).at(noon) == "2026-07-01 14:00:00"
    assert Output(terminal=False).at(noon) == "2026-07-01T12:00:00Z"


def test_people_see_as_much_of_an_id_as_tells_it_from_the_others() -> None:
    one, two = "01a1dfc1-8d22-7000-87c1-99265ea41940", "01a1dfc1-8d22-7000-97c1-99265ea41940"
    assert Output(terminal=True).ids([one]) == {one: "01a1dfc1-8d22"}
    assert Output(terminal=True).ids([one, two]) == {one: one[:20], two: two[:20]}
    assert Output(terminal=False).ids([one]) == {one: one}
