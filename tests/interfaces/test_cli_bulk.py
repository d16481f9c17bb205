"""Several alarms at once, by filter or by id: a terminal is asked, a script says --yes, a dry run changes nothing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

import wakeful
from tests.interfaces.pty_world import check_snapshot, on_a_terminal, piped
from wakeful.cli import main


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"WAKEFUL_DB": str(tmp_path / "wakeful.db")}


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """Twelve alarms with the label many, two with few, one of somebody else."""

    async def fill() -> None:
        async with wakeful.open(tmp_path / "wakeful.db") as alarms:
            for number in range(12):
                await alarms.set("2099-01-01T00:00:00Z", f"number {number}", label="many")
            for number in range(2):
                await alarms.set("2099-01-01T00:00:00Z", f"number {number}", label="few", conversation_id="c")
            await alarms.for_owner("eve").set("2099-01-01T00:00:00Z", "hers", label="few")

    asyncio.run(fill())
    return tmp_path


def counted(cwd: Path, env: dict[str, str], *args: str) -> int:
    return len(piped("ls", *args, cwd=cwd, env=env)[0].splitlines())


def test_a_script_that_says_yes_changes_what_fits_and_nobody_elses(filled: Path, env: dict[str, str]) -> None:
    out, err = piped("pause", "--label", "few", "--reason", "holiday", "--yes", cwd=filled, env=env)
    assert [line.split("\t")[1] for line in out.splitlines()] == ["paused", "paused"]
    assert "note: 2 alarms will be paused" in err
    assert counted(filled, env, "--status", "paused") == 2
    assert counted(filled, env, "--owner", "eve", "--status", "paused") == 0
    told: Any = json.loads(piped("resume", "--conversation", "c", "--json", "--yes", cwd=filled, env=env)[0])
    assert [alarm["status"] for alarm in told["alarms"]] == ["active", "active"]
    out, _ = piped("snooze", "36000d", "--text", "number 1", "--label", "few", "--yes", cwd=filled, env=env)
    assert [line.split("\t")[2][:11] for line in out.splitlines()] == ["next at 212"]
    assert "no alarm fits" in piped("cancel", "--label", "none", cwd=filled, env=env)[1]


def test_what_fires_in_a_time_is_moved_or_cancelled_where_a_script_says_yes(filled: Path, env: dict[str, str]) -> None:
    due = ("--due-from", "2098-12-31T00:00:00Z", "--due-to", "2099-01-01T00:00:00Z")
    _, err = piped("move", *due, "--by", "1d", "--label", "few", cwd=filled, env=env, code=2)
    assert "2 alarms would be moved" in err
    out, _ = piped("move", *due, "--by", "1d", "--label", "few", "--dry-run", cwd=filled, env=env)
    assert [line.split("\t")[2] for line in out.splitlines()] == ["would be moved"] * 2
    out, _ = piped("move", *due, "--by", "1d", "--label", "few", "--yes", cwd=filled, env=env)
    assert [line.split("\t")[2] for line in out.splitlines()] == ["next at 2099-01-02T00:00:00Z"] * 2
    out, _ = piped("cancel", *due, "--yes", cwd=filled, env=env)
    assert [line.split("\t")[1] for line in out.splitlines()] == ["cancelled"] * 12
    out, _ = piped("move", "--all", "--timezone", "Asia/Tokyo", "--yes", "--json", cwd=filled, env=env)
    assert [one["timezone"] for one in json.loads(out)["alarms"]] == ["Asia/Tokyo"] * 2
    assert "does not go with" in piped("cancel", *due, "--status", "active", cwd=filled, env=env, code=2)[1]


def ids_of(cwd: Path, env: dict[str, str], *args: str) -> list[str]:
    return [line.split("\t")[0] for line in piped("ls", *args, cwd=cwd, env=env)[0].splitlines()]


BULK: Final[dict[str, list[str]]] = {
    "cancel --all": ["cancel", "--all"],
    "cancel by filter": ["cancel", "--label", "few"],
    "cancel by ids": ["cancel", "{0}", "{1}"],
    "pause by filter": ["pause", "--text", "number 1"],
    "pause by ids": ["pause", "{0}", "{1}"],
    "resume by filter": ["resume", "--label", "asleep"],
    "resume by ids": ["resume", "{2}", "{3}"],
    "snooze by filter": ["snooze", "36000d", "--to", "inbox"],
    "snooze by ids": ["snooze", "{0}", "{1}", "36000d"],
    "skip by ids": ["skip", "{4}", "{5}"],
    "retry by filter": ["retry", "--failed"],
}


@pytest.fixture
def rows(filled: Path) -> tuple[Path, list[str]]:
    """Besides: two paused alarms, two series, two fires that failed."""

    async def fill() -> list[str]:
        async with wakeful.open(filled / "wakeful.db") as alarms:

            @alarms.handler("shaky")
            async def shaky(wake: object) -> None:
                raise RuntimeError("no")

            few = await alarms.find(label="few")
            asleep = [await alarms.set("2099-01-01T00:00:00Z", "z", label="asleep") for _ in range(2)]
            for alarm in asleep:
                await alarms.pause(alarm.id)
            series = [await alarms.set("every day at 9am", "daily") for _ in range(2)]
            for _ in range(2):
                await alarms.set(delay=0.001, wake_message="x", target="shaky", max_failures=0)
            while (await alarms.stats()).failed < 2:
                await alarms.run_due()
            return [alarm.id for alarm in (*few, *asleep, *series)]

    return filled, asyncio.run(fill())


def everything(cwd: Path) -> list[tuple[Any, ...]]:
    """All that is stored of alarms and fires."""

    async def read() -> list[tuple[Any, ...]]:
        async with wakeful.open(cwd / "wakeful.db") as clock:
            alarms, fires = await clock.find(limit=500), await clock.fires(limit=500)
            return [(alarm.id, alarm.version, alarm.status) for alarm in alarms] + [
                (fire.id, fire.status, fire.updated_at) for fire in fires
            ]

    return asyncio.run(read())


@pytest.mark.parametrize("name", BULK)
def test_every_bulk_change_needs_a_yes_without_a_terminal_and_has_a_dry_run(
    rows: tuple[Path, list[str]], env: dict[str, str], name: str
) -> None:
    cwd, ids = rows
    command = [word.format(*ids) for word in BULK[name]]
    before = everything(cwd)
    out, err = piped(*command, cwd=cwd, env=env, code=2)
    assert out == ""
    assert "and there is no terminal to ask. Nothing was changed. --dry-run shows them; --yes does it." in err
    out, _ = piped(*command, "--dry-run", cwd=cwd, env=env)
    assert out.splitlines()
    assert all("would be " in line for line in out.splitlines()), out
    told: Any = json.loads(piped(*command, "--dry-run", "--json", cwd=cwd, env=env)[0])
    assert told["dry_run"] is True
    assert len(told.get("alarms") or told["fires"]) == len(out.splitlines())
    assert everything(cwd) == before
    piped(*command, "--yes", cwd=cwd, env=env)
    assert everything(cwd) != before


@pytest.mark.parametrize("name", BULK)
def test_every_bulk_change_asks_on_a_terminal(rows: tuple[Path, list[str]], env: dict[str, str], name: str) -> None:
    cwd, ids = rows
    command = [word.format(*ids) for word in BULK[name]]
    before = everything(cwd)
    count = len(piped(*command, "--dry-run", cwd=cwd, env=env)[0].splitlines())
    question = f"Type {count} to go on" if count > 10 else "Go on? [y/N]"
    screen = on_a_terminal(*command, cwd=cwd, env=env, typed=["" if count <= 10 else "7"])
    assert question in " ".join(screen.text.split())
    assert "note: nothing was changed" in screen.text
    assert everything(cwd) == before
    screen = on_a_terminal(*command, cwd=cwd, env=env, typed=["y" if count <= 10 else str(count)])
    assert screen.code == 0, screen.text
    assert everything(cwd) != before


@pytest.mark.parametrize(
    "command", [["cancel", "{0}"], ["pause", "{0}"], ["snooze", "{0}", "36000d"], ["skip", "{4}"], ["resume", "{2}"]]
)
def test_one_alarm_by_id_is_changed_without_a_question_unless_it_is_a_dry_run(
    rows: tuple[Path, list[str]], env: dict[str, str], command: list[str]
) -> None:
    cwd, ids = rows
    command = [word.format(*ids) for word in command]
    before = everything(cwd)
    assert "would be" in piped(*command, "--dry-run", cwd=cwd, env=env)[0]
    assert everything(cwd) == before
    piped(*command, cwd=cwd, env=env)
    assert everything(cwd) != before


def test_a_dry_run_of_one_fire_retries_nothing(rows: tuple[Path, list[str]], env: dict[str, str]) -> None:
    cwd, _ = rows
    fire = piped("failed", cwd=cwd, env=env)[0].splitlines()[0].split("\t")[3]
    before = everything(cwd)
    assert piped("retry", fire, "--dry-run", cwd=cwd, env=env)[0].split("\t")[2] == "would be retried\n"
    assert everything(cwd) == before


def test_a_dry_run_says_which_of_the_named_stay_as_they_are(filled: Path, env: dict[str, str]) -> None:
    one, two = ids_of(filled, env, "--label", "few")
    piped("cancel", one, cwd=filled, env=env)
    out, _ = piped("pause", one, two, "--dry-run", cwd=filled, env=env)
    assert out.splitlines() == [f"{one}\tcancelled\tstays as it is", f"{two}\tactive\twould be paused"]


def test_cancel_all_with_yes_takes_pending_ones_and_wakes_in_the_inbox_of_its_owner_alone(
    filled: Path, env: dict[str, str]
) -> None:
    async def fire() -> None:
        async with wakeful.open(filled / "wakeful.db") as alarms:
            await alarms.set(delay=0.001, wake_message="waits in the inbox")
            while not await alarms.fires(status="waiting"):
                await alarms.run_due()

    asyncio.run(fire())
    out, _ = piped("cancel", "--all", "--dry-run", cwd=filled, env=env)
    assert sorted(line.split("\t")[1] for line in out.splitlines()) == ["active"] * 14 + ["fired"]
    screen = on_a_terminal("cancel", "--all", cwd=filled, env=env, typed=["14"])
    assert "15 alarms will be cancelled. Type 15 to go on" in screen.text
    assert counted(filled, env) == 14
    assert piped("cancel", "--all", "--yes", cwd=filled, env=env)[0] == "cancelled\t15\n"
    assert counted(filled, env) == 0
    assert counted(filled, env, "--owner", "eve") == 1
    assert "no alarm fits" in piped("cancel", "--all", cwd=filled, env=env)[1]


def test_a_terminal_asks_for_the_number(filled: Path, env: dict[str, str]) -> None:
    screen = on_a_terminal("cancel", "--label", "many", cwd=filled, env=env, typed=["11"])
    assert screen.code == 0
    check_snapshot("cancel-many-refused", screen)
    assert counted(filled, env) == 14
    screen = on_a_terminal("cancel", "--label", "many", cwd=filled, env=env, typed=["12"])
    assert screen.text.count("cancelled") >= 12
    assert counted(filled, env) == 2


def test_in_one_process_too(filled: Path, env: dict[str, str]) -> None:
    """As the tests above, without a process of its own: planted faults are in this one."""
    one, two = ids_of(filled, env, "--label", "few")
    before = everything(filled)
    for words, code in (
        (["cancel", "--all"], 2),
        (["cancel", "--all", "--dry-run"], 0),
        (["pause", "--label", "few"], 2),
        (["pause", one, two], 2),
        (["pause", one, "--dry-run"], 0),
    ):
        done = CliRunner().invoke(main, words, env=env)
        assert done.exit_code == code, done.output
        assert everything(filled) == before


def test_cancel_all_keeps_the_reason_that_was_given(filled: Path, env: dict[str, str]) -> None:
    one = ids_of(filled, env, "--label", "few")[0]
    done = CliRunner().invoke(main, ["cancel", "--all", "--yes", "--reason", "moved to another server"], env=env)
    assert done.exit_code == 0, done.output
    assert "cancelled\t14" in done.output
    assert counted(filled, env) == 0
    assert "moved to another server" in CliRunner().invoke(main, ["why", one], env=env).output
    assert counted(filled, env, "--owner", "eve") == 1


@pytest.mark.parametrize(
    "args",
    [
        ["pause"],
        ["cancel"],
        ["cancel", "--all", "--label", "few"],
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
        async with wakeful.open(tmp_path / "wakeful.db") as alarms:

            @alarms.handler("shaky")
            async def shaky(wake: object) -> None:
                raise RuntimeError("no")

            for _ in range(3):
                await alarms.set(delay=0.001, wake_message="x", target="shaky", max_failures=0)
            while (await alarms.stats()).failed < 3:
                await alarms.run_due()

    asyncio.run(fail())
    assert piped("retry", "--failed", "--to", "inbox", cwd=tmp_path, env=env)[0] == ""
    assert piped("retry", "--failed", "--before", "30d", cwd=tmp_path, env=env)[0] == ""
    dry = piped("retry", "--failed", "--dry-run", cwd=tmp_path, env=env)[0].splitlines()
    assert [line.split("\t")[1:] for line in dry] == [["failed", "would be retried"]] * 3
    told: Any = json.loads(piped("retry", "--failed", "--after", "1h", "--json", "--yes", cwd=tmp_path, env=env)[0])
    assert [fire["status"] for fire in told["fires"]] == ["retrying"] * 3
    assert piped("failed", cwd=tmp_path, env=env)[0] == ""


def test_alarms_that_wait_in_the_inbox_are_cancelled_too(tmp_path: Path, env: dict[str, str]) -> None:
    async def fill() -> str:
        async with wakeful.open(tmp_path / "wakeful.db") as alarms:
            alarm = await alarms.set(delay=0.001, wake_message="Read the GRANT page", conversation_id="c")
            await alarms.set(delay=0.001, wake_message="Water the plants")
            while await alarms.run_due() or len(await alarms.fires(status="waiting")) < 2:
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
    out, _ = piped("cancel", "--text", "grant", "--yes", cwd=tmp_path, env=env)
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
