"""What a terminal is shown."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args
from zoneinfo import ZoneInfo

import pytest

from tests.interfaces.pty_world import check_snapshot, on_a_terminal, piped
from wakeful.cli import times
from wakeful.cli.colours import is_coloured, painted
from wakeful.cli.output import Output, clean, table
from wakeful.errors import NotFound
from wakeful.model.alarm import ALARM_STATUSES, FIRE_STATUSES
from wakeful.service import views
from wakeful.service.diagnosis import State


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
    soon = noon - timedelta(hours=3, minutes=12)
    assert Output(terminal=True).at(noon, soon) == "in 3 h, 14:00"
    assert Output(terminal=True).when(noon, soon) == "in 3 h 12 min, Wed 1 Jul 14:00"
    assert Output(terminal=True).sentence("It fires at 2026-07-01T12:00:00Z.", soon) == "It fires at Wed 1 Jul 14:00."
    for out in (Output(terminal=False).at, Output(terminal=False).when):
        assert out(noon, soon) == "2026-07-01T12:00:00Z"
    said = "It fires at 2026-07-01T12:00:00Z."
    assert Output(terminal=False).sentence(said, soon) == said


@pytest.mark.parametrize(
    ("ahead", "short", "full"),
    [
        (timedelta(0), "now, 12:00", "now, Wed 1 Jul 12:00"),
        (timedelta(seconds=5), "in 5 s, 12:00:05", "in 5 s, Wed 1 Jul 12:00:05"),
        (-timedelta(seconds=90), "1 min ago, 11:58:30", "1 min 30 s ago, Wed 1 Jul 11:58:30"),
        (timedelta(hours=3, minutes=12), "in 3 h, 15:12", "in 3 h 12 min, Wed 1 Jul 15:12"),
        (timedelta(hours=20), "in 20 h, Thu 08:00", "in 20 h, Thu 2 Jul 08:00"),
        (-timedelta(days=3), "3 d ago, Sun 12:00", "3 d ago, Sun 28 Jun 12:00"),
        (timedelta(days=2) - timedelta(milliseconds=40), "in 2 d, Fri 11:59", "in 2 d, Fri 3 Jul 11:59"),
        (timedelta(days=40, hours=2), "in 40 d, 10 Aug 14:00", "in 40 d, Mon 10 Aug 14:00"),
        (timedelta(days=200), "in 200 d, 2027-01-17", "in 200 d, Sun 17 Jan 2027 12:00"),
    ],
)
def test_a_moment_says_how_far_away_it_is_and_when(ahead: timedelta, short: str, full: str) -> None:
    noon = datetime(2026, 7, 1, 12, tzinfo=UTC)
    assert times.short(noon + ahead, noon, UTC) == short
    assert times.full(noon + ahead, noon, UTC) == full


def test_a_time_that_the_clock_shows_twice_says_which() -> None:
    second = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    assert times.full(second, second - timedelta(hours=5), ZoneInfo("Europe/Berlin")).endswith("25 Oct 02:30 +0100")


@pytest.mark.parametrize(
    ("choice", "environ", "terminal", "coloured"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"NO_COLOR": ""}, True, True),
        ("auto", {"TERM": "dumb"}, True, False),
        ("never", {}, True, False),
        ("always", {"NO_COLOR": "1", "TERM": "dumb"}, False, True),
    ],
)
def test_whether_there_are_colours(choice: str, environ: dict[str, str], terminal: bool, coloured: bool) -> None:
    assert is_coloured(choice, environ, terminal=terminal) is coloured


def test_every_status_has_a_colour_and_takes_no_room() -> None:
    for status in (*ALARM_STATUSES, *FIRE_STATUSES, "pending", *get_args(State)):
        assert painted(status) != status
    out = Output(terminal=True, coloured=True)
    plain = table(("id", "status", "message"), [["1", "active", "a"], ["2", "fired", ""]], 80)
    colourful = table(("id", "status", "message"), [["1", "active", "a"], ["2", "fired", ""]], 80, out.paint)
    assert colourful != plain
    assert re.sub(r"\x1b\[\d+m", "", colourful) == plain


def test_words_of_an_alarm_are_never_painted(capsys: pytest.CaptureFixture[str]) -> None:
    Output(terminal=True, coloured=True).rows(("label", "message"), [("failed", "failed")], {})
    assert "\x1b[31m" not in capsys.readouterr().out


class TestErrorsAsJson:
    @pytest.mark.parametrize(
        ("command", "error"),
        [
            (
                ("at", "every day", "hello"),
                {
                    "code": "invalid_schedule",
                    "message": "'day' repeats",
                    "field": "when",
                    "fix": "Use: wakeful every 'day' MESSAGE",
                    "exit_status": 2,
                },
            ),
            (
                ("ls", "--jsn"),
                {
                    "code": "invalid_request",
                    "message": "there is no option --jsn. Did you mean --json?",
                    "field": "--jsn",
                    "fix": "See: wakeful ls --help",
                    "exit_status": 2,
                },
            ),
            (
                ("ls", "-n", "0"),
                {
                    "code": "invalid_request",
                    "message": "Invalid value for '-n': 0 is not in the range x>=1.",
                    "field": "-n",
                    "fix": "See: wakeful ls --help",
                    "exit_status": 2,
                },
            ),
            (
                ("lss",),
                {
                    "code": "invalid_request",
                    "message": "there is no command 'lss'. Did you mean ls?",
                    "fix": "See: wakeful --help",
                    "exit_status": 2,
                },
            ),
        ],
        ids=["of the service", "option", "value", "command"],
    )
    def test_whatever_is_wrong_is_one_document(
        self, tmp_path: Path, command: tuple[str, ...], error: dict[str, object]
    ) -> None:
        answer, said = piped(*command, "--json", "--db", "w.db", cwd=tmp_path, code=2)
        assert (answer, json.loads(said)) == ("", {"error": error})
        plain = piped(*command, "--db", "w.db", cwd=tmp_path, code=2)[1]
        assert plain.startswith("error: ")
        assert str(error["message"]) in plain

    def test_it_has_the_words_of_http(self, tmp_path: Path) -> None:
        """`views.problem` is what HTTP answers with."""
        piped("db", "migrate", "--db", "w.db", cwd=tmp_path)
        said = json.loads(piped("show", "nonesuch", "--json", "--db", "w.db", cwd=tmp_path, code=3)[1])["error"]
        problem = views.problem(NotFound("there is no alarm 'nonesuch'", field="id"))
        assert (said["code"], said["field"]) == (problem.code, problem.field)
        assert said["message"] in problem.detail

    def test_each_alarm_that_is_refused_has_a_line(self, tmp_path: Path) -> None:
        piped("at", "in 5 days", "Look", "--key", "there", "--db", "w.db", cwd=tmp_path)
        command = ("cancel", "one", "there", "two", "--json", "--db", "w.db")
        done, said = piped(*command, cwd=tmp_path, code=2)  # several at once need a yes, and that is one document too
        assert (done, json.loads(said)["error"]["field"]) == ("", "--yes")
        done, said = piped(*command, "--yes", cwd=tmp_path, code=3)
        assert [alarm["status"] for alarm in json.loads(done)["alarms"]] == ["cancelled"]
        note, *refused = said.splitlines()
        assert note == "note: 3 alarms will be cancelled"
        lines = [json.loads(line)["error"] for line in refused]
        assert [line["message"] for line in lines] == ["there is no alarm 'one'", "there is no alarm 'two'"]

    def test_words_after_two_dashes_are_not_options(self, tmp_path: Path) -> None:
        said = piped("at", "--db", "w.db", "--", "every day", "--json", cwd=tmp_path, code=2)[1]
        assert said.startswith("error: ")


class TestOnATerminal:
    def test_colours_are_there_unless_they_are_not_wanted(self, tmp_path: Path) -> None:
        piped("at", "in 5 days", "Look", "--db", "w.db", cwd=tmp_path)
        look = ("ls", "--db", "w.db")
        assert "\x1b[32mactive" in on_a_terminal(*look, cwd=tmp_path).raw
        assert "\x1b[" not in on_a_terminal(*look, "--color", "never", cwd=tmp_path).raw
        assert "\x1b[" not in on_a_terminal(*look, cwd=tmp_path, env={"NO_COLOR": "1"}).raw
        assert "\x1b[" not in on_a_terminal(*look, cwd=tmp_path, env={"TERM": "dumb"}).raw
        assert "\x1b[" not in piped(*look, cwd=tmp_path)[0]
        assert "\x1b[32mactive" in piped(*look, "--color", "always", cwd=tmp_path)[0]
        assert "\x1b[" not in piped(*look, "--color", "always", "--json", cwd=tmp_path)[0]

    def test_moments_and_ids_are_short_and_the_id_is_understood(self, tmp_path: Path) -> None:
        made = on_a_terminal("at", "in 5 days", "Look", "--db", "w.db", cwd=tmp_path)
        check_snapshot("at", made, FOLDER=str(tmp_path))
        short = made.text.split("id ")[1].split()[0]
        assert len(short) == 13
        check_snapshot("show", on_a_terminal("show", short, "--db", "w.db", cwd=tmp_path))
        check_snapshot("why", on_a_terminal("why", short, "--db", "w.db", cwd=tmp_path))
        check_snapshot("history", on_a_terminal("history", "--db", "w.db", cwd=tmp_path))
        check_snapshot("snooze", on_a_terminal("snooze", short, "9d", "--db", "w.db", cwd=tmp_path))
        check_snapshot("ls", on_a_terminal("ls", "--db", "w.db", cwd=tmp_path))
        check_snapshot("agenda", on_a_terminal("agenda", "--hours", "300", "--db", "w.db", cwd=tmp_path))

    @pytest.mark.parametrize(
        ("command", "said", "code"),
        [
            (("ls",), "There are no such alarms", 0),
            (("agenda",), "Nothing fires in the next 24 hours", 0),
            (("history",), "Nothing has happened here yet", 0),
            (("failed",), "No fire has failed", 0),
            (("tail",), "Nothing has happened here yet", 0),
            (("wait", "--for", "1s"), "No wake came", 1),
        ],
        ids=lambda given: given[0] if isinstance(given, tuple) else "",
    )
    def test_an_empty_list_says_so_to_a_person_and_nothing_to_a_program(
        self, tmp_path: Path, command: tuple[str, ...], said: str, code: int
    ) -> None:
        piped("db", "migrate", "--db", "w.db", cwd=tmp_path)
        screen = on_a_terminal(*command, "--db", "w.db", cwd=tmp_path)
        assert (said in screen.text, screen.code) == (True, code)
        assert piped(*command, "--db", "w.db", cwd=tmp_path, code=code)[0] == ""


def test_people_see_as_much_of_an_id_as_tells_it_from_the_others() -> None:
    one, two = "01a1dfc1-8d22-7000-87c1-99265ea41940", "01a1dfc1-8d22-7000-97c1-99265ea41940"
    assert Output(terminal=True).ids([one]) == {one: "01a1dfc1-8d22"}
    assert Output(terminal=True).ids([one, two]) == {one: one[:20], two: two[:20]}
    assert Output(terminal=False).ids([one]) == {one: one}
