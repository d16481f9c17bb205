"""`edit`, by flags and in an editor that is a small program."""

from __future__ import annotations

import json
import stat
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.interfaces.pty_world import check_snapshot, on_a_terminal, piped
from wakeful.cli.edit import changed, text_of
from wakeful.errors import InvalidRequest
from wakeful.model.alarm import Alarm

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"WAKEFUL_DB": str(tmp_path / "wakeful.db")}


def new(cwd: Path, env: dict[str, str], *args: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(piped(*args, "--json", cwd=cwd, env=env)[0])
    return told


def an_editor(folder: Path, *programs: str) -> str:
    """One that does each of these to `text` in turn, once per time it is opened, and keeps what it was shown."""
    file = folder / "editor.py"
    steps = "\n".join(f"def step{number}(text):\n    {step}\n    return text" for number, step in enumerate(programs))
    file.write_text(
        f"#!{sys.executable}\nimport pathlib, sys\n{steps}\n"
        "file = pathlib.Path(sys.argv[1])\n"
        f"seen = pathlib.Path({str(folder)!r})\n"
        "number = len(list(seen.glob('seen*')))\n"
        "(seen / f'seen{number}').write_text(file.read_text())\n"
        "file.write_text(globals()[f'step{number}'](file.read_text()))\n"
    )
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


def test_flags_change_what_they_name_and_nothing_else(tmp_path: Path, env: dict[str, str]) -> None:
    before = new(
        tmp_path, env, "every", "day at 9am", "brief", "--label", "L", "--report-within", "10m", "--grace", "5m"
    )
    after = new(
        tmp_path,
        env,
        *("edit", before["id"], "--when", "every day at 10am", "--message", "Brief", "--payload", '{"a": 1}'),
        *("--policy", "expires=2h", "--policy", "max-fires=3"),
    )
    assert (after["cron_expr"], after["wake_message"], after["payload"]) == ("0 10 * * *", "Brief", {"a": 1})
    assert (after["label"], after["version"], after["changed"]) == ("L", 2, True)
    assert after["policy"].items() >= {"report_within": 600, "grace": 300, "expires": 7200, "max_fires": 3}.items()
    rows = dict(
        line.split("\t") for line in piped("edit", before["id"], "--label", "M", cwd=tmp_path, env=env)[0].splitlines()
    )
    assert (rows["version"], rows["when"]) == ("3", "at 10:00 every day for 3 times, UTC")


def test_a_budget_is_given_and_a_field_of_the_policy_taken_out(tmp_path: Path, env: dict[str, str]) -> None:
    before = new(tmp_path, env, "every", "day at 9am", "brief", "--grace", "5m", "--expires", "2h")
    flags = ("--policy", "wakes-per-day=24", "--policy", "cost_per_day=2.5", "--policy", "expires=")
    after = new(tmp_path, env, "edit", before["id"], *flags)["policy"]
    assert after == {"grace": 300, "wakes_per_day": 24, "cost_per_day": 2.5}


@pytest.mark.parametrize(
    ("flags", "word", "code"),
    [
        (["--when", "whenever"], "'whenever' is not a time", 2),
        (["--to", "moon"], "there is no target 'moon'", 2),
        (["--policy", "colour=red"], "names are: backoff_base", 2),
        (["--policy", "expires=soon"], "policy.expires", 2),
        (["--policy", "cost_per_day=much"], "policy.cost_per_day", 2),
        (["--payload", "{"], "payload", 2),
        (["--payload", "@nowhere"], "cannot be read", 2),
        (["--label", "x", "--version", "7"], "version", 4),
    ],
)
def test_what_is_refused_changes_nothing(
    tmp_path: Path, env: dict[str, str], flags: list[str], word: str, code: int
) -> None:
    before = new(tmp_path, env, "every", "day at 9am", "brief")
    assert word in piped("edit", before["id"], *flags, cwd=tmp_path, env=env, code=code)[1]
    after = new(tmp_path, env, "show", before["id"])
    assert after["version"] == 1
    assert piped("edit", "nobody", *flags, cwd=tmp_path, env=env, code=3)[0] == ""


def test_the_editor_gets_the_alarm_and_only_what_is_changed_is_sent(tmp_path: Path, env: dict[str, str]) -> None:
    before = new(tmp_path, env, "every", "day at 9am", "brief", "--payload", '{"a":  1}', "--label", "L")
    editor = an_editor(tmp_path, "text = text.replace('brief', 'Brief').replace('# expires', 'expires')")
    after = new(tmp_path, env | {"EDITOR": editor}, "edit", before["id"])
    assert (after["wake_message"], after["version"], after["policy"]["expires"]) == ("Brief", 2, 7200)
    kept = ("cron_expr", "next_fire_at", "label", "payload", "timezone")
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    shown = tomllib.loads((tmp_path / "seen0").read_text())
    assert (shown["when"], shown["payload"], shown["policy"]["grace"]) == ("0 9 * * *", '{"a":  1}', "60s")


def test_an_error_opens_the_editor_again_with_the_reason(tmp_path: Path, env: dict[str, str]) -> None:
    id = new(tmp_path, env, "at", "2099-01-01T00:00:00Z", "x")["id"]
    editor = an_editor(
        tmp_path,
        "text = text.replace('2099-01-01T00:00:00+00:00', 'whenever')",
        "text = text.replace('whenever', '2098-01-01T00:00:00Z') + 'junk ='",
        "text = text.replace('junk =', '')",
    )
    after = new(tmp_path, env | {"EDITOR": editor}, "edit", id)
    assert after["next_fire_at"] == "2098-01-01T00:00:00Z"
    assert (tmp_path / "seen1").read_text().startswith("# error: when: 'whenever' is not a time")
    assert (tmp_path / "seen2").read_text().startswith("# error: text: it is not TOML")
    assert (tmp_path / "seen2").read_text().count("# error") == 1


def test_giving_up_after_an_error_changes_nothing(tmp_path: Path, env: dict[str, str]) -> None:
    id = new(tmp_path, env, "at", "2099-01-01T00:00:00Z", "x")["id"]
    editor = an_editor(tmp_path, "text = text.replace('2099-01-01T00:00:00+00:00', 'whenever')", "pass")
    assert "nothing was changed" in piped("edit", id, cwd=tmp_path, env=env | {"EDITOR": editor}, code=2)[1]
    assert new(tmp_path, env, "show", id)["version"] == 1


def test_saving_it_as_it_is_or_empty_changes_nothing(tmp_path: Path, env: dict[str, str]) -> None:
    id = new(tmp_path, env, "at", "2099-01-01T00:00:00Z", "x")["id"]
    for number, program in enumerate(("text = text + '# a remark'", "text = ''")):
        folder = tmp_path / str(number)
        folder.mkdir()
        after = new(tmp_path, env | {"EDITOR": an_editor(folder, program)}, "edit", id)
        assert (after["version"], after["changed"]) == (1, False)


def test_who_was_slower_is_told_and_keeps_the_text(tmp_path: Path, env: dict[str, str]) -> None:
    id = new(tmp_path, env, "at", "2099-01-01T00:00:00Z", "x")["id"]
    meanwhile = (
        f"import subprocess; subprocess.run([sys.executable, '-m', 'wakeful.cli', 'edit', {id!r}, '--label', 'theirs'])"
    )
    editor = an_editor(tmp_path, f"{meanwhile}; text = text.replace('label = \"\"', 'label = \"mine\"')")
    _, said = piped("edit", id, cwd=tmp_path, env=env | {"EDITOR": editor}, code=4)
    file = Path(said.partition("What you wrote is in ")[2].partition(". Edit")[0])
    assert 'label = "mine"' in file.read_text()
    file.unlink()
    assert new(tmp_path, env, "show", id)["label"] == "theirs"


def test_on_a_terminal(tmp_path: Path, env: dict[str, str]) -> None:
    id = new(tmp_path, env, "every", "day at 9am", "brief")["id"]
    editor = an_editor(tmp_path, "text = text.replace('brief', 'Brief')")
    screen = on_a_terminal("edit", id, cwd=tmp_path, env=env | {"EDITOR": editor})
    assert screen.code == 0
    check_snapshot("edit", screen)


def an_alarm(**given: Any) -> Alarm:
    moments = {"fire_at": NOON, "next_fire_at": NOON, "occurrence_at": NOON, "created_at": NOON, "updated_at": NOON}
    return Alarm(**({"id": "a", "owner_did": "ada", "user_id": "ada"} | moments | given))


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_comes_back_from_the_editor_as_it_was(message: str, label: str) -> None:
    text = text_of(an_alarm(wake_message=message, label=label, owner_did=label or "x"))
    shown = tomllib.loads(text)
    assert (shown["message"], shown["label"]) == (message, label)
    assert changed(text, text) == {}


def test_an_unknown_field_and_a_payload_that_is_no_text_are_refused() -> None:
    text = text_of(an_alarm())
    with pytest.raises(InvalidRequest, match="Known are: when"):
        changed(text, f'colour = "red"\n{text}')
    with pytest.raises(InvalidRequest, match="is not a text"):
        changed(text, text.replace('payload = "{}"', "payload = 3"))


def test_what_an_edit_made_of_a_series_is_said(tmp_path: Path, env: dict[str, str]) -> None:
    before = new(tmp_path, env, "every", "weekday at 9am", "brief", "--tz", "UTC")
    said = piped("edit", before["id"], "--when", "2099-01-01", "--kind", "once", cwd=tmp_path, env=env)[1]
    assert "note: It was at 09:00 on Monday through Friday, UTC, and now it fires once and never again." in said
