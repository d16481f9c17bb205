"""`import crontab`: what the lines mean, what is refused and why, and that nothing is set twice."""

from __future__ import annotations

import json
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.pty_world import check_snapshot, on_a_terminal, piped
from wakeful.transfer.crontab import CronJob, read, tables

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
TAB = r"""# my jobs
PATH=/usr/bin
CRON_TZ=Europe/Berlin
0 9 * * 1-5  /usr/bin/brief --all
@reboot /usr/bin/start
30 2 29 2 *  leap
*/15 * * * * mail -s "100\% sure" ada%Hello,%bye
*/15 * * * * mail -s "100\% sure" ada%Hello,%bye
TZ = "America/New_York"
@daily backup
"""


def jobs(text: str, *, system: bool = False) -> list[CronJob]:
    return read(text, timezone="UTC", system=system, now=NOW).jobs


def test_a_line_is_a_schedule_in_its_zone_and_a_command() -> None:
    found = read(TAB, timezone="UTC", system=False, now=NOW)
    brief, reboot, leap, mail, again, backup = found.jobs
    assert (brief.line, brief.cron_expr, brief.timezone) == (4, "0 9 * * 1-5", "Europe/Berlin")
    assert brief.means == "at 09:00 on Monday through Friday, Europe/Berlin"
    assert [moment.isoformat() for moment in brief.next] == [f"2026-11-{day}T08:00:00+00:00" for day in (17, 18, 19)]
    assert brief.payload == {"command": "/usr/bin/brief --all"}
    assert "@reboot is not a time" in reboot.reason
    assert leap.next[0] == datetime(2028, 2, 29, 1, 30, tzinfo=UTC)
    assert mail.payload == {"command": 'mail -s "100% sure" ada', "stdin": "Hello,\nbye"}
    assert again.key == f"{mail.key}#2"
    assert (backup.timezone, backup.next[0]) == ("America/New_York", datetime(2026, 11, 17, 5, tzinfo=UTC))
    assert found.settings == [(2, "PATH", "/usr/bin")]


def test_a_system_crontab_has_a_column_for_the_user() -> None:
    [job] = jobs("17 *\t* * *\troot\tcd / && run-parts /etc/cron.hourly", system=True)
    assert job.payload == {"command": "cd / && run-parts /etc/cron.hourly", "user": "root"}
    [job] = jobs("@hourly root run", system=True)
    assert job.payload == {"command": "run", "user": "root"}
    assert jobs("0 9 * * * root", system=True)[0].reason == "there is no command"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("* * *", "needs five fields"),
        ("0 9 * * *", "there is no command"),
        ("0 25 * * * x", "hour: 25 is out of range"),
        ("0 0 30 2 * x", "never fire"),
        ("5~10 * * * * x", "random time"),
        ("@sometimes x", "is not a shorthand"),
        ("0 9 * * * %only input", "there is no command"),
        ("CRON_TZ=Mars/Base\n0 9 * * * x", "not a known time zone"),
    ],
)
def test_what_cannot_be_taken_over_says_why(line: str, reason: str) -> None:
    [job] = jobs(line)
    assert reason in job.reason


def test_the_same_job_has_the_same_key_and_another_has_another() -> None:
    [one], [same], [other] = jobs("0 9 * * * x"), jobs("# new\n0  9 * * *   x"), jobs("0 9 * * * y")
    assert one.key == same.key != other.key
    assert jobs("- 0 9 * * * x".replace("- ", "-"))[0].key == one.key  # a dash: cron is not to log it


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"WAKEFUL_DB": str(tmp_path / "wakeful.db")}


def test_it_shows_first_and_sets_only_when_told_to_and_nothing_twice(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "tab").write_text(TAB)
    out, err = piped("import", "crontab", "tab", cwd=tmp_path, env=env, code=1)
    assert [line.split("\t")[:2] for line in out.splitlines()] == [
        ["4", "would be set"],
        ["5", "not translated"],
        *(["6", "would be set"], ["7", "would be set"], ["8", "would be set"]),
        ["10", "would be set"],
    ]
    assert "note: line 2: PATH=/usr/bin is not taken along" in err
    assert not (tmp_path / "wakeful.db").exists()
    assert (
        "targets: the settings have no cron-"
        in piped("import", "crontab", "tab", "--yes", cwd=tmp_path, env=env, code=2)[1]
    )
    assert (
        "no target 'moon'"
        in piped("import", "crontab", "tab", "--yes", "--to", "moon", cwd=tmp_path, env=env, code=2)[1]
    )
    assert piped("ls", cwd=tmp_path, env=env)[0] == ""
    args = ("import", "crontab", "-", "--yes", "--to", "inbox", "--json")
    told: Any = json.loads(piped(*args, cwd=tmp_path, env=env, input=TAB, code=1)[0])
    assert [job["state"] for job in told["jobs"]] == ["set", "not translated", "set", "set", "set", "set"]
    shown = json.loads(piped("show", told["jobs"][2]["id"], "--json", cwd=tmp_path, env=env)[0])
    assert (shown["wake_message"], shown["payload"], shown["timezone"]) == (
        "leap",
        {"command": "leap"},
        "Europe/Berlin",
    )
    again: Any = json.loads(piped(*args, cwd=tmp_path, env=env, input=TAB, code=1)[0])
    assert {job["state"] for job in again["jobs"]} == {"is there already", "not translated"}
    assert len(piped("ls", cwd=tmp_path, env=env)[0].splitlines()) == 5


def test_its_commands_are_run_once_the_operator_has_accepted_their_tables(tmp_path: Path) -> None:
    """The two steps that it prints, with a database and a settings file of one's own."""
    fed = "cat >> said%from%cron"
    (tmp_path / "tab").write_text(f'* * * * * echo "hello ${{USER}}\\%" >> said\n* * * * * {fed}\n0 0 1 1 * {fed}\n')
    env = {"HOME": str(tmp_path), "USER": "ada"}
    (tmp_path / "wakeful.toml").write_text("db = 'wakeful.db'")  # its last line has no end
    _, said = piped("import", "crontab", "tab", "--yes", cwd=tmp_path, env=env, code=2)
    assert "First `wakeful import crontab tab --targets >> wakeful.toml`" in said
    added, _ = piped("import", "crontab", "tab", "--targets", cwd=tmp_path, env=env)
    with (tmp_path / "wakeful.toml").open("a") as settings:
        settings.write(added)
    targets = tomllib.loads((tmp_path / "wakeful.toml").read_text())["targets"]
    assert len(targets) == 2, "one for each command, though two lines have the same"
    assert added.count("# line ") == 3
    assert piped("import", "crontab", "tab", "--targets", cwd=tmp_path, env=env)[0] == "", "nothing is there twice"
    piped("import", "crontab", "tab", "--yes", cwd=tmp_path, env=env)
    alarms = json.loads(piped("ls", "--json", cwd=tmp_path, env=env)[0])["alarms"]
    assert {(one["target"], one["max_failures"]) for one in alarms} == {(name, 0) for name in targets}
    for name in sorted(targets):
        piped("target", "test", name, cwd=tmp_path, env=env)
    assert sorted((tmp_path / "said").read_text().splitlines()) == ["cron", "from", "hello ada%"]


def test_a_command_has_the_same_target_wherever_its_line_stands() -> None:
    """An alarm that was set before never runs the command of another line."""
    before, after = jobs("0 1 * * * one\n0 2 * * * two"), jobs("0 2 * * * new\n0 3 * * * two")
    assert before[1].target == after[1].target
    assert len({job.target for job in (*before, *after)}) == 3


def test_no_line_can_break_out_of_its_table() -> None:
    line = "0 9 * * * echo \"\\\" \x7f \x1b \u202e [targets.x] 'a' ${HOME} # é"
    found = tomllib.loads(tables(jobs(line)))["targets"]
    [(_, target)] = found.items()
    assert target["argv"] == ["/bin/sh", "-c", line.removeprefix("0 9 * * * ").replace("${", "$${")]


def test_on_a_terminal(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "tab").write_text("CRON_TZ=Europe/Berlin\n0 9 1 1 * happy new year\n@reboot start\n0 25 * * * x\n")
    screen = on_a_terminal("import", "crontab", "tab", cwd=tmp_path, env=env)
    assert screen.code == 1
    check_snapshot("import-crontab", screen)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, env: dict[str, str]) -> None:
    assert "nowhere cannot be read" in piped("import", "crontab", "nowhere", cwd=tmp_path, env=env, code=2)[1]
