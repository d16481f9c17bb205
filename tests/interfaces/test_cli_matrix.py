"""Every command through the real program: on a terminal of 80 columns, in a pipe, with --json, and through a server.

The calls are in matrix_world.py; a command without one fails here. What a pipe and --json answer with is compared with
the table of docs/reference/cli.md. To keep new snapshots, run it with WAKEFUL_KEEP_SNAPSHOTS=1 and read what it wrote.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from tests import commands
from tests.interfaces.matrix_world import CALLS, Call, Prepared, all_commands, copied, prepare, scrubbed
from tests.interfaces.pty_world import COLUMNS, SNAPSHOTS, environ, on_a_terminal, piped
from tests.remote.world import serving_process
from wakeful.cli import main
from wakeful.service.views import AlarmView, FireView

MODES: Final = "abcde"  # terminal, pipe, --json, the database itself, the same through a server
REFERENCE: Final = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()


def named(calls: tuple[Call, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("call", calls, ids=lambda call: call.name)


class House:
    """A served database with prepared owners, and a template of a folder for commands on a whole database."""

    def __init__(self, folder: Path, template: Path, alone: Prepared, owners: dict[str, Prepared], url: str) -> None:
        self.folder = folder
        self.template = template
        self.alone = alone
        self.owners = owners
        self.url = url

    def of(self, call: Call, mode: str) -> Prepared:
        return self.owners[f"o{CALLS.index(call):02}{mode}"] if call.where == "owner" else self.alone

    def args(self, call: Call, mode: str) -> list[str]:
        prepared = self.of(call, mode)
        owner = ["--owner", prepared.owner] if call.where == "owner" and mode != "e" else []
        return [*call.words, *call.args(prepared), *owner]

    def cwd(self, call: Call, folder: Path) -> Path:
        if call.where != "owner":
            return copied(self.template, folder / "place", call)
        for name, text in call.files.items():
            (self.folder / name).write_text(text)
        return self.folder


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder, template = tmp_path_factory.mktemp("served"), tmp_path_factory.mktemp("template")
    owners = [f"o{at:02}{mode}" for at, call in enumerate(CALLS) if call.where == "owner" for mode in MODES]
    prepared = asyncio.run(prepare(folder, owners, tokens=True))
    alone = asyncio.run(prepare(template, ["local"], tokens=True))["local"]
    piped("backup", "copy.db", cwd=template)
    piped("export", "alarms.jsonl", "--fires", cwd=template)
    with serving_process(folder) as server:
        alone = replace(alone, url=server.url, admitted=prepared[owners[0]].token)
        yield House(folder, template, alone, prepared, server.url)


@pytest.fixture
def ask(house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """One command in this process, its output not being a terminal."""
    for name in [name for name in os.environ if name.startswith("WAKEFUL_")]:
        monkeypatch.delenv(name)

    def ask(call: Call, mode: str, *more: str, **environ: str) -> Result:
        cwd = house.cwd(call, tmp_path / mode)
        monkeypatch.chdir(cwd)
        typed, args = call.typed(house.of(call, mode)), [*house.args(call, mode), *more]
        config = {"XDG_CONFIG_HOME": str(cwd / "config")}
        return CliRunner().invoke(main, args, input=typed, env=config | environ, catch_exceptions=False)

    return ask


def test_every_command_has_a_call() -> None:
    assert sorted(all_commands()) == sorted(call.name for call in CALLS)


# How far away a moment is, and the name of a temporary folder, take more or less room from one run to the next. On a
# wide terminal no line is cut or wrapped, and that does not show.
LISTS: Final = frozenset({"set", "ls", "history", "agenda", "failed", "wait", "tail", "top", "doctor"})
WIDE: Final = 300


@named(CALLS)
def test_on_a_terminal_it_fits_and_is_as_it_was_read(call: Call, house: House, tmp_path: Path) -> None:
    cwd = house.cwd(call, tmp_path)
    typed = [line] if (line := call.typed(house.of(call, "a"))) else []
    config = {"XDG_CONFIG_HOME": str(cwd / "config")}
    columns = WIDE if call.name in LISTS else COLUMNS
    screen = on_a_terminal(*house.args(call, "a"), cwd=cwd, env=config, until=call.until, typed=typed, columns=columns)
    assert screen.code == call.code, screen.text
    text = screen.text.replace(str(cwd), "FOLDER")
    assert not [line for line in text.splitlines() if width(line) > columns and not is_sentence(line)], text
    if call.name == "history":  # what happened within the same millisecond may stand in either order
        heading, *lines = text.splitlines(keepends=True)
        text = heading + "".join(sorted(lines, key=scrubbed))
    text = scrubbed(text)
    file = SNAPSHOTS / "matrix" / f"{call.name.replace(' ', '-')}.txt"
    if os.environ.get("WAKEFUL_KEEP_SNAPSHOTS"):
        file.write_text(text)
    assert text == file.read_text()


@named(tuple(call for call in CALLS if call.name in LISTS and call.name != "wait"))
def test_a_list_fits_a_terminal_of_80_columns(call: Call, house: House, tmp_path: Path) -> None:
    cwd = house.cwd(call, tmp_path)
    shown = on_a_terminal(*house.args(call, "a"), cwd=cwd, env={"XDG_CONFIG_HOME": str(cwd / "config")}).text
    assert not [line for line in shown.splitlines() if width(line) > COLUMNS and not is_sentence(line)], shown


def is_sentence(line: str) -> bool:
    """Whether the terminal itself may break the line: a refusal, a remark, or a script that is printed to be run."""
    return line.startswith(("error: ", "note: ", "dashboard: ", "    response=")) or " INFO " in line


def width(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in line)


def test_every_snapshot_belongs_to_a_command() -> None:
    known = {call.name.replace(" ", "-") for call in CALLS}
    assert {file.stem for file in (SNAPSHOTS / "matrix").iterdir()} == known


# What a pipe and a program get

ROW: Final = re.compile(r"^\| (`[a-z].*?) \| (.*?) \| (.*?) ?\|$", re.MULTILINE)
TEXT: Final = "text"
A_RECORD: Final = "record"
ENDS: Final = tuple(call for call in CALLS if not call.until)


class Shape:
    """What the reference says of a command: its columns in a pipe, and the keys of its document."""

    def __init__(self, columns: str, keys: str) -> None:
        self.columns = columns
        must, _, may = keys.partition(";")
        self.must = set(re.findall(r"`(\w+)`", must))
        self.may = {*self.must, *re.findall(r"`(\w+)`", may)}
        for thing, view in (("an alarm", AlarmView), ("a fire", FireView)):
            if keys.startswith(thing):
                self.must |= {"id", "status", "target"}
                self.may |= {*view.__struct_fields__}
        self.open = "what the target said" in keys

    def check_lines(self, lines: list[str]) -> None:
        if self.columns == TEXT:
            return
        expected = 2 if self.columns == A_RECORD else len(self.columns.split(", "))
        assert {line.count("\t") + 1 for line in lines} <= {expected}, lines

    def check_document(self, document: dict[str, Any]) -> None:
        assert self.must <= document.keys(), document
        assert self.open or document.keys() <= self.may, document.keys() - self.may


def shapes() -> dict[str, Shape]:
    section = REFERENCE.partition("### Columns and keys")[2].partition("\n## ")[0]
    found: dict[str, Shape] = {}
    for names, columns, keys in ROW.findall(section):
        for name in re.findall(r"`(.*?)`", names):
            found.setdefault(re.sub(r" (--.*|[A-Z].*)", "", name), Shape(columns, keys))
    return found


SHAPES: Final = shapes()


def test_the_reference_has_columns_and_keys_of_every_command() -> None:
    assert sorted(SHAPES) == sorted(all_commands())


@named(ENDS)
def test_in_a_pipe_lines_have_the_columns_of_the_reference(call: Call, ask: Any) -> None:
    result = ask(call, "b")
    assert result.exit_code == call.code, result.output
    assert bool(result.stdout) is (call.code in (0, 1) and call.name not in SILENT), result.stderr
    SHAPES[call.name].check_lines(result.stdout.splitlines())


SILENT: Final = ("db scheduled-tasks",)  # there is no task yet
NOT_JSON: Final = ("completion", "help")


@named(tuple(call for call in ENDS if call.name not in NOT_JSON))
def test_with_json_the_document_has_the_keys_of_the_reference(call: Call, ask: Any) -> None:
    result = ask(call, "c", "--json")
    assert result.exit_code == call.code, result.output
    if call.code not in (0, 1):
        assert result.stdout == ""
        return
    documents = result.stdout.splitlines() if call.name == "tail" else [result.stdout]
    for document in documents:
        SHAPES[call.name].check_document(json.loads(document))


# Through a server


@named(tuple(call for call in CALLS if call.server == "same"))
def test_through_a_server_it_says_the_same(call: Call, ask: Any, house: House) -> None:
    for more in ((), ("--json",)) if call.name in READING else ((),):
        here = ask(call, "d", *more)
        there = ask(call, "e", *more, WAKEFUL_URL=house.url, WAKEFUL_TOKEN=house.of(call, "e").token)
        assert (there.exit_code, scrubbed(there.stderr)) == (here.exit_code, scrubbed(here.stderr))
        assert scrubbed(there.stdout) == scrubbed(here.stdout)


READING: Final = ("ls", "show", "why", "agenda", "history", "failed", "stats", "tail", "top", "retry", "target ls")


@named(tuple(call for call in CALLS if call.server == "refused"))
def test_what_needs_the_database_is_refused_through_a_server(call: Call, ask: Any, house: House) -> None:
    result = ask(call, "e", WAKEFUL_URL=house.url, WAKEFUL_TOKEN="wk_x")
    assert (result.exit_code, result.stdout) == (2, ""), result.stderr
    assert "this command needs the database itself" in result.stderr


def test_following_through_a_server_tells_what_happens_as_it_happens(house: House, tmp_path: Path) -> None:
    prepared = house.of(next(call for call in CALLS if call.name == "tail"), "e")
    env = environ(WAKEFUL_URL=house.url, WAKEFUL_TOKEN=prepared.token)
    # By the beginning of its id: what the server tells has the whole one.
    follow = [*commands.PROGRAM, "tail", prepared.year[:18], "-f", "--json"]
    process = subprocess.Popen(follow, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["what"] == "created"
        piped("pause", prepared.tea, cwd=tmp_path, env=env)
        piped("pause", prepared.year, "--reason", "over", cwd=tmp_path, env=env)
        told = json.loads(process.stdout.readline())
        assert (told["what"], told["alarm_id"], told["reason"]) == ("paused", prepared.year, "over")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()
