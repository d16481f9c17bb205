"""`init`, `target test` and `completion`, through the real program."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import wakeful
from tests.interfaces.pty_world import check_snapshot, environ, on_a_terminal, piped
from wakeful.cli.init import SEEDS, settings_text
from wakeful.model.alarm import Policy
from wakeful.rules.create import LONGEST_WAIT
from wakeful.settings import TABLES, Settings, load
from wakeful.settings.sources import user_db
from wakeful.testing.receiver import Receiver

SECRET = "whsec_" + "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"


def set_in(file: Path) -> dict[str, object]:
    """What a settings file changes."""
    settings, usual = load(file, environ={}), Settings()
    values = {name: getattr(settings, name) for name in Settings.__struct_fields__}
    return {name: value for name, value in values.items() if value != getattr(usual, name)}


def test_init_writes_a_file_that_changes_nothing_and_never_writes_over_one(tmp_path: Path) -> None:
    out, _ = piped("init", cwd=tmp_path)
    file = tmp_path / "wakeful.toml"
    assert out.splitlines()[0] == f"written\t{file}"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert set_in(file) == {"db": user_db({})}  # where nothing is set it is one per user
    file.write_text('owner = "ada"\n')
    assert "is there already" in piped("init", cwd=tmp_path, code=4)[1]
    assert file.read_text() == 'owner = "ada"\n'
    assert json.loads(piped("init", "other.toml", "--json", cwd=tmp_path)[0]) == {
        "written": str(tmp_path / "other.toml")
    }
    assert "cannot be written" in piped("init", "no/such/folder.toml", cwd=tmp_path, code=2)[1]
    check_snapshot("init", on_a_terminal("init", "third.toml", cwd=tmp_path), FOLDER=str(tmp_path))


def test_every_line_of_it_is_a_setting_with_its_default(tmp_path: Path) -> None:
    text = settings_text()
    file = tmp_path / "all.toml"
    plain = text.partition("# Where wakes go, by name")[0]
    file.write_text(re.sub(r"^# (?=\w+ = )", "", plain, flags=re.MULTILINE))
    assert set_in(file) == {}
    named = set(re.findall(r"^# (\w+) = ", plain, flags=re.MULTILINE))
    assert named == set(Settings.__struct_fields__) - set(TABLES)


@pytest.mark.parametrize("like", SEEDS)
async def test_init_like_a_seed_sets_what_its_page_implies_and_explains_the_rest(tmp_path: Path, like: str) -> None:
    await _piped("init", "--like", like, cwd=tmp_path)
    file = tmp_path / "wakeful.toml"
    assert {name: getattr(load(file, environ={}), name) for name in SEEDS[like]} == SEEDS[like]
    assert set(set_in(file)) - {"db"} <= SEEDS[like].keys()
    named = re.findall(r"^(?:# )?(\w+) = ", file.read_text().partition("# Where wakes go, by name")[0], re.MULTILINE)
    assert sorted(named) == sorted(set(Settings.__struct_fields__) - set(TABLES)), "each setting once"
    async with wakeful.open(tmp_path / "wakeful.db", config=file) as alarms:
        alarm = await alarms.set("in 1 hour", "x")
    expected = {
        "chronos": ("router", 5, Policy(exact_backoff=True, on_silence="again")),
        "timed": ("inbox", 5, Policy(on_silence="again")),
        "alarm": (
            "inbox",
            0,
            Policy(backoff_base=5, backoff_cap=LONGEST_WAIT.total_seconds(), exact_backoff=True, on_silence="give_up"),
        ),
    }
    assert (alarm.target, alarm.max_failures, alarm.policy) == expected[like]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def configure(folder: Path, url: str) -> None:
    (folder / "wakeful.toml").write_text(
        f'[targets.hook]\nkind = "webhook"\nurl = "{url}"\nsecret = "{SECRET}"\nallow_private = true\n'
        '[targets.rows]\nkind = "table"\ntable = "messages"\n'
    )


async def test_a_target_gets_one_signed_wake_and_no_alarm_stays_behind(folder: Path) -> None:
    async with Receiver(secret=SECRET) as receiver:
        configure(folder, receiver.url)
        out = await _piped("target", "test", "hook", "--message", "hello", "--json", cwd=folder)
        told = json.loads(out)
        [wake] = receiver.wakes
        assert wake.verified
        assert (wake.json["message"], wake.json["payload"], wake.fire_id) == ("hello", {"test": True}, told["fire_id"])
        assert (told["target"], told["outcome"]) == ("hook", "delivered")
        receiver.answer(status=503)
        rows = dict(
            line.split("\t") for line in (await _piped("target", "test", "hook", cwd=folder, code=1)).splitlines()
        )
        assert (rows["outcome"], rows["retried"]) == ("failed", "it would be tried again")
        assert "503" in rows["error"]
    assert not (folder / "wakeful.db").exists()


async def _piped(*args: str, cwd: Path, code: int = 0) -> str:
    """Beside a receiver that lives in this loop."""
    import asyncio

    return (await asyncio.to_thread(piped, *args, cwd=cwd, code=code))[0]


def test_what_cannot_be_tested_is_said(folder: Path) -> None:
    configure(folder, "http://127.0.0.1:9/")
    assert "Known are: hook, inbox, rows" in piped("target", "test", "moon", cwd=folder, code=2)[1]
    assert "it is not JSON" in piped("target", "test", "hook", "--payload", "{", cwd=folder, code=2)[1]
    assert json.loads(piped("target", "test", "inbox", "--json", cwd=folder)[0])["outcome"] == "waiting"


def test_a_table_s_row_is_shown_and_not_written(folder: Path) -> None:
    import apsw

    db = apsw.Connection(str(folder / "wakeful.db"))
    db.execute(
        "create table messages (id text primary key, chat_jid text, content text, sender text, sender_name text,"
        " timestamp text, is_from_me integer, is_bot_message integer)"
    )
    (folder / "wakeful.toml").write_text('db = "wakeful.db"\n[targets.rows]\nkind = "table"\ntable = "messages"\n')
    told = json.loads(piped("target", "test", "rows", "--message", "hello", "--json", cwd=folder)[0])
    assert told["row"]["table"] == "messages"
    assert "hello" in json.dumps(told["row"])
    assert db.execute("select count(*) from messages").fetchall() == [(0,)]
    db.close()


def test_target_test_on_a_terminal(folder: Path) -> None:
    configure(folder, "http://127.0.0.1:9/")
    screen = on_a_terminal("target", "test", "inbox", cwd=folder)
    screen.raw = re.sub(r"\d+ ms", "N ms", screen.raw)
    check_snapshot("target-test", screen)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_and_how_to_install_it(tmp_path: Path, shell: str) -> None:
    out, _ = piped("completion", shell, cwd=tmp_path)
    assert "_WAKEFUL_COMPLETE" in out
    assert out.splitlines()[-1].startswith("# To install: ")
    assert f"wakeful completion {shell}" in out.splitlines()[-1]
    assert out.startswith("#compdef") == (shell == "zsh")


def test_the_script_s_question_is_answered(tmp_path: Path) -> None:
    program = "import sys; sys.argv = ['wakeful']; from wakeful.cli import main; main()"
    asked = {"_WAKEFUL_COMPLETE": "bash_complete", "COMP_WORDS": "wakeful pa", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environ(**asked), cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["plain,pause"]
    assert os.listdir(tmp_path) == []
