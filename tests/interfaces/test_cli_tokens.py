"""Tokens on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from wakeful.cli import main

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)

    def run(*args: str, code: int = 0) -> Result:
        result = CliRunner().invoke(main, args, catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    return run


def fields(result: Result) -> dict[str, str]:
    return dict(line.split("\t", 1) for line in result.stdout.splitlines())


def test_a_token_is_shown_once(run: Run) -> None:
    made = run("token", "new", "--owner", "ada", "--expires", "30d", "--label", "laptop")
    answer = fields(made)
    assert answer["token"].startswith(f"wk_{answer['id']}_")
    assert (answer["owner"], answer["scopes"]) == ("ada", "read,write")
    assert answer["expires"]
    assert "not shown again" in made.stderr
    for listed in (run("token", "ls").output, run("token", "ls", "--json").output):
        assert answer["id"] in listed
        assert answer["token"].split("_", 2)[2] not in listed
        assert "hash" not in listed


def test_a_token_for_the_calendar_feed_comes_with_its_address(run: Run) -> None:
    answer = json.loads(run("token", "new", "--owner", "ada", "--scopes", "calendar", "--json").stdout)
    assert answer["scopes"] == ["calendar"]
    assert answer["url"] == f"http://127.0.0.1:4747/v1/calendar.ics?token={answer['token']}"
    mixed = run("token", "new", "--scopes", "calendar,read", code=2).stderr
    assert "--scopes: calendar does not go with other scopes" in mixed
    assert "url" not in json.loads(run("token", "new", "--owner", "ada", "--json").stdout)


def test_scopes_are_read_in_any_order(run: Run) -> None:
    answer = json.loads(run("token", "new", "--owner", "ops", "--scopes", "admin, read", "--json").stdout)
    assert answer["scopes"] == ["read", "admin"]
    assert answer["token"].startswith("wk_")


def test_tokens_are_listed_with_how_they_are(run: Run) -> None:
    first = fields(run("token", "new", "--owner", "ada"))["id"]
    run("token", "new", "--owner", "eve", "--expires", "1d")
    run("token", "revoke", first)
    rows = [line.split("\t") for line in run("token", "ls").stdout.splitlines()]
    assert [(row[1], row[3][:5]) for row in rows] == [("ada", "revok"), ("eve", "until")]


@pytest.mark.parametrize("whole", [True, False])
def test_a_token_is_revoked_by_its_id_or_as_a_whole(run: Run, whole: bool) -> None:
    answer = fields(run("token", "new", "--owner", "ada"))
    assert fields(run("token", "revoke", answer["token" if whole else "id"])) == {
        "id": answer["id"],
        "state": "revoked",
    }


@pytest.mark.parametrize("id", ["nobody", "wk_", "a b", "é", "../x"])
def test_a_token_that_is_not_there_is_not_found(run: Run, id: str) -> None:
    run("db", "migrate")
    assert "there is no token" in run("token", "revoke", id, code=3).stderr


def test_wrong_wishes_are_refused(run: Run) -> None:
    assert "scopes" in run("token", "new", "--scopes", "everything", code=2).stderr
    run("token", "new", "--expires", "someday", code=2)
    assert run("token", "ls").stdout == ""


def test_a_server_is_opened_again_only_on_purpose_and_without_live_tokens(run: Run) -> None:
    made = fields(run("token", "new", "--owner", "ada"))
    assert f"wakeful token revoke {made['id']}" in run("token", "open", "--yes", code=4).stderr
    run("token", "revoke", made["id"])
    assert "--yes" in run("token", "open", code=2).stderr
    assert fields(run("token", "open", "--yes")) == {"state": "open"}


def test_the_key_of_report_tokens_is_changed_and_not_shown(run: Run) -> None:
    run("db", "migrate")
    for earlier in (1, 2, 2):
        changed = run("token", "rotate-reports", "--json")
        answer = json.loads(changed.stdout)
        assert set(answer) == {"rotated_at", "good_until", "earlier_keys"}
        assert answer["earlier_keys"] == earlier
        assert "good until then" in changed.stderr
    assert set(fields(run("token", "rotate-reports"))) == {"rotated", "good until", "earlier keys"}
