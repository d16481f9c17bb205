"""Many alarms at once: chosen by filter, counted before, confirmed when they are many."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import wakeful
from tests.doors.pty_world import check_snapshot, on_a_terminal, piped
from wakeful.cli import main


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"WAKEFUL_DB": str(tmp_path / "wakeful.db")}


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """Twelve alarms with the label many, two with few, one of somebody else."""

    async def fill() -> None:
        async with wakeful.open(tmp_path / "wakeful.db") as clock:
            for number in range(12):
                await clock.set("2099-01-01T00:00:00Z", f"number {number}", label="many")
            for number in range(2):
                await clock.set("2099-01-01T00:00:00Z", f"number {number}", label="few", conversation_id="c")
            await clock.for_owner("eve").set("2099-01-01T00:00:00Z", "hers", label="few")

    asyncio.run(fill())
    return tmp_path


def counted(cwd: Path, env: dict[str, str], *args: str) -> int:
    return len(piped("ls", *args, cwd=cwd, env=env)[0].splitlines())


def test_a_few_are_changed_at_once_and_nobody_elses(filled: Path, env: dict[str, str]) -> None:
    out, err = piped("pause", "--label", "few", "--reason", "holiday", cwd=filled, env=env)
    assert [line.split("\t")[1] for line in out.splitlines()] == ["paused", "paused"]
    assert "note: 2 alarms will be paused" in err
    assert counted(filled, env, "--status", "paused") == 2
    assert counted(filled, env, "--owner", "eve", "--status", "paused") == 0
    told: Any = json.loads(piped("resume", "--conversation", "c", "--json", cwd=filled, env=env)[0])
    assert [alarm["status"] for alarm in told["alarms"]] == ["active", "active"]
    out, _ = piped("snooze", "36000d", "--text", "number 1", "--label", "few", cwd=filled, env=env)
    assert [line.split("\t")[2][:11] for line in out.splitlines()] == ["next at 212"]
    assert "no alarm fits" in piped("cancel", "--label", "none", cwd=filled, env=env)[1]


def test_a_dry_run_shows_and_changes_nothing(filled: Path, env: dict[str, str]) -> None:
    out, _ = piped("cancel", "--label", "many", "--dry-run", cwd=filled, env=env)
    assert [line.split("\t")[1:] for line in out.splitlines()] == [["active", "would be cancelled"]] * 12
    told: Any = json.loads(piped("cancel", "--label", "many", "--dry-run", "--json", cwd=filled, env=env)[0])
    assert (told["dry_run"], len(told["alarms"])) == (True, 12)
    assert counted(filled, env) == 14


def test_a_script_must_say_yes_to_many(filled: Path, env: dict[str, str]) -> None:
    _, err = piped("cancel", "--to", "inbox", cwd=filled, env=env, code=2)
    assert "14 alarms would be cancelled, which is more than 10" in err
    assert counted(filled, env) == 14
    piped("cancel", "--to", "inbox", "--yes", cwd=filled, env=env)
    assert counted(filled, env) == 0
    assert counted(filled, env, "--owner", "eve") == 1


def test_a_terminal_asks_for_the_number(filled: Path, env: dict[str, str]) -> None:
    screen = on_a_terminal("cancel", "--label", "many", cwd=filled, env=env, typed=["11"])
    assert screen.code == 0
    check_snapshot("cancel-many-refused", screen)
    assert counted(filled, env) == 14
    screen = on_a_terminal("cancel", "--label", "many", cwd=filled, env=env, typed=["12"])
    assert screen.text.count("cancelled") >= 12
    assert counted(filled, env) == 2


@pytest.mark.parametrize(
    "args",
    [
        ["pause"],
        ["cancel"],
        ["cancel", "--all", "--label", "few"],
        ["cancel", "--all", "--dry-run"],
        ["pause", "someid", "--label", "few"],
        ["snooze", "1h"],
        ["snooze", "someid", "1h", "--label", "few"],
        ["retry"],
        ["retry", "some@1", "--failed"],
        ["retry", "some@1", "--to", "inbox"],
    ],
)
def test_neither_or_both_is_refused(filled: Path, env: dict[str, str], args: list[str]) -> None:
    assert piped(*args, cwd=filled, env=env, code=2)[1].startswith("error: ")
    assert counted(filled, env, "--status", "active") == 14


def test_every_failed_fire_is_opened_again(tmp_path: Path, env: dict[str, str]) -> None:
    async def fail() -> None:
        async with wakeful.open(tmp_path / "wakeful.db") as clock:

            @clock.handler("shaky")
            async def shaky(wake: object) -> None:
                raise RuntimeError("no")

            for _ in range(3):
                await clock.set(delay=0.001, wake_message="x", target="shaky", max_failures=0)
            while (await clock.stats()).failed < 3:
                await clock.run_due()

    asyncio.run(fail())
    assert piped("retry", "--failed", "--to", "inbox", cwd=tmp_path, env=env)[0] == ""
    assert piped("retry", "--failed", "--before", "30d", cwd=tmp_path, env=env)[0] == ""
    dry = piped("retry", "--failed", "--dry-run", cwd=tmp_path, env=env)[0].splitlines()
    assert [line.split("\t")[1:] for line in dry] == [["failed", "would be retried"]] * 3
    told: Any = json.loads(piped("retry", "--failed", "--after", "1h", "--json", cwd=tmp_path, env=env)[0])
    assert [fire["status"] for fire in told["fires"]] == ["retrying"] * 3
    assert piped("failed", cwd=tmp_path, env=env)[0] == ""


def test_alarms_that_wait_in_the_inbox_are_cancelled_too(tmp_path: Path, env: dict[str, str]) -> None:
    async def fill() -> str:
        async with wakeful.open(tmp_path / "wakeful.db") as clock:
            alarm = await clock.set(delay=0.001, wake_message="Read the GRANT page", conversation_id="c")
            await clock.set(delay=0.001, wake_message="Water the plants")
            while await clock.run_due() or len(await clock.fires(status="waiting")) < 2:
                pass
            return alarm.id

    id = asyncio.run(fill())
    for flags in (["--text", "grant"], ["--conversation", "c"]):
        out, _ = piped("cancel", *flags, "--dry-run", cwd=tmp_path, env=env)
        assert out.splitlines() == [f"{id}\tfired\twould be cancelled"]
    assert (
        "no alarm fits"
        in piped("cancel", "--text", "grant", "--after", "2099-01-01T00:00:00Z", cwd=tmp_path, env=env)[1]
    )
    out, _ = piped("cancel", "--text", "grant", cwd=tmp_path, env=env)
    assert out.split("\t")[:2] == [id, "cancelled"]
    assert [
        line.split("\t")[3] for line in piped("wait", "--for", "1s", "-n", "9", cwd=tmp_path, env=env)[0].splitlines()
    ] == ["Water the plants"]


PAGES = [{"when": "2099-01-01T00:00:00Z", "wake_message": f"page {n}", "idempotency_key": f"p{n}"} for n in range(30)]


@pytest.mark.parametrize("form", ["lines", "array"])
def test_many_are_set_from_a_file_and_once(tmp_path: Path, env: dict[str, str], form: str) -> None:
    text = json.dumps(PAGES, indent=2) if form == "array" else "\n\n".join(map(json.dumps, PAGES))
    (tmp_path / "many").write_text(text)
    first = [line.split("\t") for line in piped("set", "many", cwd=tmp_path, env=env)[0].splitlines()]
    assert [(row[1], row[6]) for row in first] == [("set", f"page {n}") for n in range(30)]
    again = json.loads(piped("set", "many", "--json", cwd=tmp_path, env=env)[0])["alarms"]
    assert [(alarm["id"], alarm["deduped"]) for alarm in again] == [(row[0], True) for row in first]
    assert counted(tmp_path, env) == 30


@pytest.mark.parametrize(
    ("text", "said", "code"),
    [
        (
            '{"when": "in 1 hour", "wake_message": "x"}\n{"when": "whenever", "wake_message": "y"}',
            "alarms[1].when: ",
            2,
        ),
        ('{"when": "in 1 hour", "wake_message": "x"}\n{"when": "in 1 hour", "colour": "red"}', "alarms[1].", 2),
        ('{"when": "in 1 hour", "wake_message": "x"}\n{"when"', "alarms[1].body: it is not JSON", 2),
        ('[{"when": "in 1 hour", "wake_message": "x"}, 7]', "alarms[1].", 2),
        ("[", "it is not JSON", 2),
        ("", "there is no alarm in it", 2),
        ('{"when": "in 1 hour", "wake_message": "x"}\n' + json.dumps(PAGES[0] | {"label": "l"}), "has the key 'p0'", 4),
    ],
)
def test_one_that_is_refused_and_none_is_set(
    tmp_path: Path, env: dict[str, str], text: str, said: str, code: int
) -> None:
    (tmp_path / "first").write_text(json.dumps(PAGES[0]))
    piped("set", "first", cwd=tmp_path, env=env)
    (tmp_path / "many").write_text(text)
    assert said in piped("set", "many", cwd=tmp_path, env=env, code=code)[1]
    assert counted(tmp_path, env) == 1


def test_a_file_that_is_not_there_is_said(tmp_path: Path, env: dict[str, str]) -> None:
    assert "nowhere cannot be read" in piped("set", "nowhere", cwd=tmp_path, env=env, code=2)[1]


def test_many_are_set_from_standard_input(tmp_path: Path, env: dict[str, str]) -> None:
    done = CliRunner().invoke(main, ["set", "-", "--json"], input="\n".join(map(json.dumps, PAGES)), env=env)
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.stdout)["alarms"]) == counted(tmp_path, env) == 30
