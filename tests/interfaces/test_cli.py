"""The command line, called as people and scripts call it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

import wakeful
from wakeful.cli import COMMANDS, main
from wakeful.cli.context import SHARED
from wakeful.errors import StoreUnavailable
from wakeful.store import Stats

Run = Callable[..., Result]
NOBODY = "01a1dfba-b761-7000-8856-d5f2b52e48f7"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WAKEFUL_DB", "wakeful.db")

    def run(*args: str, input: str | None = None, code: int = 0) -> Result:
        result = CliRunner().invoke(main, args, input=input, catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    return run


def told(result: Result) -> Any:
    return json.loads(result.stdout)


def fields(result: Result) -> dict[str, str]:
    return dict(line.split("\t", 1) for line in result.stdout.splitlines())


def test_at_answers_with_the_id_and_the_time_it_understood(run: Run) -> None:
    answer = fields(run("at", "2099-07-01 09:00", "Check", "the", "portal", "--tz", "Europe/Berlin"))
    assert answer["when"] == "on Wednesday 1 July 2099 at 09:00, Europe/Berlin"
    assert answer["local"] == "2099-07-01T09:00:00+02:00"
    assert answer["utc"] == "2099-07-01T07:00:00Z"
    shown = told(run("show", answer["id"], "--json"))
    assert (shown["wake_message"], shown["created_via"]) == ("Check the portal", "cli")


def test_at_warns_while_nobody_would_deliver(run: Run) -> None:
    assert "note: No running worker serves 'inbox' yet" in run("at", "1h", "x").stderr


@pytest.mark.parametrize(
    "when", ["30m", "in 30m", "90 minutes", "tomorrow at 9am", "2099-01-01T00:00:00Z", "4070908800"]
)
def test_at_takes_single_moments(run: Run, when: str) -> None:
    assert told(run("at", when, "x", "--json"))["kind"] == "once"


@pytest.mark.parametrize(
    ("schedule", "cron"),
    [
        ("15 minutes", "*/15 * * * *"),
        ("15m", "*/15 * * * *"),
        ("every 15 minutes", "*/15 * * * *"),
        ("weekday at 9am", "0 9 * * 1-5"),
        ("0 9 * * 1-5", "0 9 * * 1-5"),
        ("@every 90m", "@every 90m"),
        ("@daily", "@daily"),
        ("mondays at 9", "0 9 * * 1"),
        ("3 days at 9am", "RRULE:FREQ=DAILY;INTERVAL=3;BYHOUR=9;BYMINUTE=0"),
        ("RRULE:FREQ=MONTHLY;BYDAY=1FR;BYHOUR=9", "RRULE:FREQ=MONTHLY;BYDAY=1FR;BYHOUR=9;BYMINUTE=0"),
    ],
)
def test_every_takes_rhythms_with_or_without_the_word(run: Run, schedule: str, cron: str) -> None:
    assert told(run("every", schedule, "x", "--json"))["cron_expr"] == cron


def test_at_and_every_send_each_others_work_to_each_other(run: Run) -> None:
    assert "Use: wakeful every 'day at 9am' MESSAGE" in run("at", "every day at 9am", "x", code=2).stderr
    assert "Use: wakeful at 'tomorrow at 9am' MESSAGE" in run("every", "tomorrow at 9am", "x", code=2).stderr
    assert not Path("wakeful.db").exists()


def test_a_time_that_is_not_understood_is_refused_with_forms_that_work(run: Run) -> None:
    refusal = run("at", "someday", "x", code=2).stderr
    assert refusal.startswith("error: when: 'someday' is not a time")
    assert 'A time is written like "' in refusal
    assert "hour" in run("every", "0 25 * * *", "x", code=2).stderr
    assert "'every funday' is not a time" in run("every", "funday", "x", code=2).stderr


def test_everything_an_alarm_can_have_is_an_option(run: Run, tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"z": 1,  "a": 2}\n')
    shown = told(
        run(
            *(
                "every",
                "day at 9am",
                "brief",
                "--json",
                "--key",
                "k",
                "--label",
                "L",
                "--conversation",
                "c",
                "--isolated",
            ),
            *("--payload", "@state.json", "--max-failures", "2", "--report-within", "10m", "--expires", "1h"),
            *(
                "--catch-up",
                "skip",
                "--grace",
                "5m",
                "--overlap",
                "allow",
                "--backoff-base",
                "1",
                "--backoff-cap",
                "9s",
            ),
            *("--starts-at", "2099-01-01T00:00:00Z", "--ends-at", "2099-02-01T00:00:00Z", "--max-fires", "3"),
            *("--jitter", "30s", "--auto-pause-after", "4"),
        )
    )
    assert shown["policy"] == {
        "backoff_base": 1.0,
        "backoff_cap": 9.0,
        "catch_up": "skip",
        "grace": 300.0,
        "expires": 3600.0,
        "overlap": "allow",
        "report_within": 600.0,
        "starts_at": "2099-01-01T00:00:00Z",
        "ends_at": "2099-02-01T00:00:00Z",
        "max_fires": 3,
        "jitter": 30.0,
        "auto_pause_after": 4,
    }
    assert (shown["label"], shown["conversation_id"], shown["isolated"], shown["max_failures"]) == ("L", "c", True, 2)
    assert '{"z": 1,  "a": 2}' in run("show", shown["id"]).stdout


def test_a_payload_may_come_from_stdin_and_must_be_json(run: Run) -> None:
    assert told(run("at", "1h", "x", "--payload", "-", "--json", input="[1, 2]"))["payload"] == [1, 2]
    assert "error: --payload: it is not JSON" in run("at", "1h", "x", "--payload", "{", code=2).stderr
    assert "error: --payload: it cannot be read" in run("at", "1h", "x", "--payload", "@missing", code=2).stderr
    for option, value in (("--tz", "Mars/Base"), ("--to", "nobody"), ("--grace", "soon"), ("--max-failures", "-1")):
        assert run("at", "1h", "x", option, value, code=2).stderr.startswith(f"error: {option}: ")


def test_a_key_that_is_taken_follows_on_conflict(run: Run) -> None:
    first = told(run("at", "1h", "x", "--key", "k", "--json"))
    again = told(run("at", "2h", "y", "--key", "k", "--on-conflict", "return", "--json"))
    assert (again["id"], again["deduped"], again["wake_message"]) == (first["id"], True, "x")
    assert "deduped" in fields(run("at", "1h", "x", "--key", " k "))
    assert "differs in when, wake_message" in run("at", "2h", "y", "--key", "k", code=4).stderr
    assert told(run("at", "2h", "y", "--key", "k", "--on-conflict", "replace", "--json"))["wake_message"] == "y"
    assert "error: --key" in run("at", "2h", "y", "--key", "k", "--on-conflict", "error", code=4).stderr


def test_ls_in_a_pipe_is_tsv_without_a_heading(run: Run) -> None:
    one = told(run("at", "2099-01-01T00:00:00Z", "tab\there\nand \x1b[31mred", "--label", "L", "--json"))
    two = told(run("every", "day at 9am", "brief", "--json"))
    lines = [line.split("\t") for line in run("ls").stdout.splitlines()]
    assert [line[0] for line in lines] == [two["id"], one["id"]]
    assert lines[1] == [
        *(one["id"], "active", "2099-01-01T00:00:00Z", "once", "inbox", "L"),
        "tab\\there\\nand \\u001b[31mred",
    ]


def test_ls_as_json_is_one_document_like_the_one_http_answers(run: Run) -> None:
    run("at", "1h", "x")
    shown = told(run("ls", "--json"))
    assert set(shown) == {"alarms", "now"}
    assert shown["alarms"][0]["wake_message"] == "x"
    assert told(run("--json", "ls"))["alarms"] == shown["alarms"]


def test_ls_shows_what_is_pending_unless_told_otherwise(run: Run) -> None:
    kept, gone = (told(run("at", "1h", name, "--json"))["id"] for name in ("kept", "gone"))
    run("cancel", gone)
    run("pause", kept)

    def listed(*options: str) -> list[str]:
        return [line.split("\t")[0] for line in run("ls", *options).stdout.splitlines()]

    assert listed() == [kept]
    assert listed("--all") == [gone, kept]
    assert listed("--status", "cancelled") == [gone]
    assert listed("--all", "-q", "GON") == [gone]
    assert listed("--all", "--since", "1h", "--to", "inbox", "--kind", "once") == [gone, kept]
    assert listed("--all", "--until", "1h") == []
    assert listed("--all", "-n", "1") == [gone]
    assert "there are more" in run("ls", "--all", "-n", "1").stderr


def test_alarms_of_another_owner_are_not_found(run: Run) -> None:
    alarm = told(run("at", "1h", "x", "--owner", "ann", "--json"))
    assert run("ls").stdout == ""
    assert run("show", alarm["id"], code=3).stderr == f"error: id: there is no alarm '{alarm['id']}'.\n"
    assert run("cancel", alarm["id"], code=3).stdout == ""
    assert run("--owner", "ann", "show", alarm["id"]).stdout


def test_acting_answers_with_the_row_as_it_is_now(run: Run) -> None:
    id = told(run("at", "1h", "x", "--json"))["id"]
    assert run("pause", id, "--reason", "away").stdout == f"{id}\tpaused\t\n"
    assert run("resume", id).stdout.startswith(f"{id}\tactive\tnext at ")
    assert run("snooze", id, "2 hours").stdout.startswith(f"{id}\tactive\tnext at ")
    copy = told(run("fire", id, "--json"))["alarms"][0]
    assert copy["root_id"] == id
    assert run("cancel", id).stdout == f"{id}\tcancelled\t\n"
    assert "error" in run("pause", id, code=4).stderr


def test_one_that_is_refused_does_not_keep_the_others_from_it(run: Run) -> None:
    id = told(run("at", "1h", "x", "--json"))["id"]
    result = run("cancel", NOBODY, id, "--yes", code=3)
    assert result.stdout == f"{id}\tcancelled\t\n"
    assert NOBODY in result.stderr


def test_cancel_all_counts_and_wants_to_be_meant(run: Run) -> None:
    run("at", "1h", "x")
    run("at", "2h", "y")
    assert "name the alarms, or say --all" in run("cancel", code=2).stderr
    run("cancel", NOBODY, "--all", code=2)
    assert fields(run("cancel", "--all", "--yes")) == {"cancelled": "2"}


def fired(**options: Any) -> str:
    """A fire of the inbox, and its id."""
    with wakeful.open_sync("wakeful.db") as alarms:
        alarm = alarms.set("in 1 hour", "work", **options)
        copy = alarms.fire(alarm.id)
        alarms.cancel(alarm.id)
        alarms.run_due()
        [fire] = alarms.fires(copy.alarm.id)
        return fire.id


def test_the_work_of_a_fire_is_reported_done_failed_and_retried(run: Run) -> None:
    fire = fired(max_failures=0)
    assert fields(run("fail", fire, "no luck"))["status"] == "failed"
    [line] = [line.split("\t") for line in run("failed").stdout.splitlines()]
    assert (line[1], line[3]) == ("failed", fire)
    assert "no luck" in line[-1]
    assert fields(run("retry", fire))["status"] == "retrying"
    done = told(run("done", fire, "all good", "--json"))
    assert (done["status"], done["result"]) == ("completed", "all good")
    assert "error" in run("retry", fire, code=4).stderr
    run("done", f"{NOBODY}@1", code=3)
    run("done", "nonsense", code=3)


def test_a_manual_fire_is_shown_with_its_alarm(run: Run) -> None:
    id = told(run("at", "2h", "work", "--json"))["id"]
    [copy] = told(run("fire", id, "--json"))["alarms"]
    assert copy["manual_of"] == id
    with wakeful.open_sync("wakeful.db") as alarms:
        alarms.run_due()
    assert [line.split("\t")[0] for line in run("ls").stdout.splitlines()] == [id]
    assert [(name, said) for name, said in fields(run("show", id)).items() if name.startswith("fire ")] == [
        (f"fire {copy['fire_at'].removesuffix('000Z')}Z", "manual, waiting")
    ]
    [shown] = told(run("show", id, "--json"))["fires"]
    assert (shown["manual"], shown["alarm_id"]) == (True, copy["id"])
    [past] = [line.split("\t") for line in run("history").stdout.splitlines() if copy["id"] in line]
    assert past[-1] == "manual"
    assert "It was fired by hand at" in run("why", id).stdout


def test_wait_takes_what_came_to_the_inbox_once_until_it_is_reported(run: Run) -> None:
    run("db", "migrate")
    assert run("wait", "--for", "10ms", code=1).stdout == ""
    id = told(run("at", "2099-01-01T00:00:00Z", "Check", "--payload", '{"page": 3}', "--json"))["id"]
    with wakeful.open_sync("wakeful.db") as alarms:
        alarms.fire(id)
        alarms.run_due()
    [wake] = told(run("wait", "--for", "20s", "-n", "5", "--json"))["wakes"]
    assert (wake["attempt"], wake["missed"], wake["late_ms"] >= 0) == (1, 0, True)
    assert (wake["message"], wake["payload"], wake["attempt"]) == ("Check", {"page": 3}, 1)
    assert run("wait", "--for", "10ms", code=1).stdout == ""  # it is leased
    run("done", wake["fire_id"], "looked")
    assert told(run("history", "--status", "completed", "--json"))["history"][0]["result"] == "looked"


def test_the_past_and_the_future_are_told(run: Run) -> None:
    fire = fired()
    later = told(run("every", "day at 9am", "brief", "--json"))["id"]
    history = [line.split("\t") for line in run("history").stdout.splitlines()]
    assert [(line[1], line[3]) for line in history if line[1] != "cancelled"] == [("pending", later), ("waiting", fire)]
    assert [entry["id"] for entry in told(run("history", "--status", "fired", "--json"))["history"]] == [fire]
    assert run("history", "--since", "2099-01-01T00:00:00Z").stdout == ""
    agenda = run("agenda", "--hours", "72").stdout.splitlines()
    assert len(agenda) == 3
    assert {line.split("\t")[3] for line in agenda} == {later}
    assert told(run("stats", "--json"))["fired"] == 1
    assert fields(run("stats"))["pending"] == "1"


def test_a_count_that_was_ended_has_a_plus(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def counted(*_: object, **__: object) -> Stats:
        return Stats(total=10_000, pending=10_000, paused=3, completed=9_999, avg_duration_ms=10_000, more=True)

    run("db", "migrate")
    monkeypatch.setattr("wakeful.python.client.LocalWakeful.stats", counted)
    shown = fields(run("stats"))
    assert [shown[name] for name in ("total", "pending", "paused", "completed", "more")] == [
        *("10000+", "10000+", "3", "9999", "yes")
    ]
    assert shown["avg_duration_ms"] == "10000"
    assert told(run("stats", "--json"))["total"] == 10_000


def test_why_explains(run: Run) -> None:
    id = told(run("at", "1h", "x", "--json"))["id"]
    assert run("why", id).stdout.startswith("It fires at ")
    shown = told(run("why", id, "--json"))
    assert set(shown) == {"summary", "facts", "now"}
    run("why", NOBODY, code=3)


def test_preview_sets_nothing_and_needs_no_database(run: Run, tmp_path: Path) -> None:
    answer = fields(run("preview", "every monday at 9am", "--tz", "Europe/Berlin", "-n", "2"))
    assert answer["means"] == "at 09:00 every Monday, Europe/Berlin"
    assert answer["cron"] == "0 9 * * 1"
    assert len([name for name in answer if name.startswith("fire ")]) == 2
    shown = told(run("preview", "2099-01-01T00:00:00Z", "--json"))
    assert shown["next"] == [{"local": "2099-01-01T00:00:00+00:00", "utc": "2099-01-01T00:00:00Z"}]
    assert list(tmp_path.iterdir()) == []


def test_a_target_is_listed_paused_and_resumed(run: Run) -> None:
    run("db", "migrate")
    assert run("target", "ls").stdout == "inbox\tok\t0\t\n"
    run("target", "pause", "inbox", "--reason", "moving house")
    [line] = run("target", "ls").stdout.splitlines()
    assert line.startswith("inbox\tpaused\t0\tsince ")
    assert line.endswith(" by local: moving house")
    run("target", "resume", "inbox")
    assert told(run("target", "ls", "--json"))["targets"][0]["state"] == "ok"
    assert "Known names: inbox" in run("target", "pause", "nowhere", code=2).stderr


def test_the_database_is_migrated_once_and_purged(run: Run) -> None:
    assert told(run("db", "migrate", "--json"))["applied"]
    assert fields(run("db", "migrate"))["applied"] == "nothing: up to date"
    run("cancel", told(run("at", "1h", "x", "--json"))["id"])
    assert fields(run("purge", "--older-than", "90d"))["deleted"] == "0"
    assert int(fields(run("purge", "--older-than", "0.001s"))["deleted"]) >= 1
    assert run("ls", "--all").stdout == ""
    assert "duration" in run("purge", "--older-than", "soon", code=2).stderr


def test_a_database_that_is_away_is_unreachable(run: Run) -> None:
    result = run("ls", "--db", "postgresql://nobody:hunter2@127.0.0.1:1/none", code=6)
    assert result.stderr.startswith("error: ")
    assert "hunter2" not in result.stderr


def test_a_wrong_setting_names_file_and_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "wakeful.toml").write_text('owner = "me"\nport = "high"\n')
    assert "wakeful.toml, line 2" in run("ls", code=2).stderr
    assert "missing.toml does not exist" in run("--config", "missing.toml", "ls", code=2).stderr


def test_a_file_in_a_directory_that_is_not_there_is_a_wrong_setting(run: Run, tmp_path: Path) -> None:
    assert "Create it first." in run("--db", str(tmp_path / "no/such/w.db"), "ls", code=2).stderr


def test_usage_is_explained_on_stderr(run: Run) -> None:
    assert "there is no command 'frob'" in run("frob", code=2).stderr
    assert run("ls", "--frob", code=2).stderr.startswith("error: ")
    assert "wakeful at --help" in run("at", code=2).stderr
    assert run("--version").stdout == f"wakeful {wakeful.__version__}\n"


def test_a_misspelt_command_or_option_is_answered_with_the_nearest(run: Run) -> None:
    assert "there is no command 'histroy'. Did you mean history?" in run("histroy", code=2).stderr
    assert "there is no option --stauts. Did you mean --status?" in run("ls", "--stauts", "x", code=2).stderr
    assert "Did you mean 'pause'?" in run("target", "pase", code=2).stderr


def test_help_is_asked_for_in_three_ways(run: Run) -> None:
    assert run("-h").stdout == run("--help").stdout == run("help").stdout
    assert "Show the version and exit." in run("-h").stdout
    assert run("ls", "-h").stdout == run("help", "ls").stdout == run("ls", "--help").stdout
    assert run("help", "target", "pause").stdout == run("target", "pause", "-h").stdout
    assert "Did you mean preview?" in run("help", "preveiw", code=2).stderr


def test_an_alarm_is_named_by_the_beginning_of_its_id_or_by_its_key(run: Run) -> None:
    one = told(run("at", "1h", "x", "--key", "tea", "--json"))["id"]
    two = told(run("at", "2h", "y", "--json"))["id"]
    assert run("pause", "tea").stdout.startswith(one)
    refused = run("cancel", two[:4], code=4).stderr
    assert one in refused
    assert two in refused
    assert run("show", two[:20]).stdout == run("show", two).stdout


def test_help_lists_every_command_with_the_words_of_the_command_itself(run: Run) -> None:
    ctx = click.Context(main)
    for section in COMMANDS.values():
        for name, (_, about) in section.items():
            command = main.get_command(ctx, name)
            assert command is not None
            assert (command.help or "").splitlines()[0] == about
            assert about in run("--help").stdout
            if not isinstance(command, click.Group):
                assert set(SHARED) <= set(command.params)


def test_an_error_keeps_its_exit_status(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("the disk is \x1b[31mgone")

    run("db", "migrate")
    monkeypatch.setattr("wakeful.python.client.LocalWakeful.stats", away)
    assert run("stats", code=6).stderr == "error: the disk is \\u001b[31mgone.\n"
