"""What it takes to add something is in CONTRIBUTING.md, file by file: this counts, and tries it on a copy."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from wakeful.settings.kinds import TARGET_KINDS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "wakeful"
MIGRATIONS = "store/sql/migrations/"
GENERATED = "model/keywords.py"  # from the others: a test in tests/typing says when it is to be written anew
MOST = {"field": 6, "policy": 3, "fire status": 4, "target": 2}
# Something there is of each, and where it is named besides: there its value is used to decide, or means something else.
SAMPLES: dict[str, tuple[str, set[str]]] = {
    "field": (
        "isolated",
        # A column of others' tables, and a conversation of its own at an agent platform.
        {"rules/task.py", "mcp/task_tools.py", "targets/table.py", "targets/langgraph.py", "targets/a2a.py"},
    ),
    "policy": ("grace", {"settings/__init__.py"}),  # a setting too
    "fire status": (
        "snoozed",
        # An alarm can be snoozed as well as a fire: an event of that name, an outcome, what is said of many at once.
        # And it has a colour, and a sign.
        {
            "rules/edit.py",
            "rules/settle.py",
            "rules/undo.py",
            "service/live.py",
            "dispatcher/observability.py",
            "cli/colours.py",
            "dashboard/bulk.py",
            "dashboard/words.py",
            "store/sql/alarms.sqlite.sql",  # which has to name the index that finds it
        },
    ),
    # A word of PostgreSQL, and of systemd.
    "target": (
        "notify",
        {
            "store/postgres/__init__.py",
            "store/postgres/hints.py",
            "process/server.py",
            "process/processes.py",
            "runtime/os_signals.py",
            "runtime/systemd.py",
        },
    ),
}


def listed(what: str) -> list[str]:
    """The files that CONTRIBUTING.md has in its list for adding something."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text.split(f"### How to add a {what}\n", 1)[1].split("\n### ", 1)[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def is_named(word: str, path: Path) -> bool:
    """Whether code, not a comment or a sentence, names it."""
    if path.suffix == ".sql":
        return re.search(rf"\b{word}\b", re.sub("--.*", "", path.read_text())) is not None
    nodes = ast.walk(ast.parse(path.read_text()))
    parts = ("id", "attr", "arg", "name", "value")
    return any(getattr(node, part, None) == word for node in nodes for part in parts)


def naming(word: str) -> set[str]:
    files = (path for path in SOURCE.rglob("*") if path.suffix in (".py", ".sql") and is_named(word, path))
    found = {path.relative_to(SOURCE).as_posix() for path in files}
    found = {MIGRATIONS if path.startswith(MIGRATIONS) else path for path in found}
    return {path for path in found if not path.startswith("testing/") and path != GENERATED}


@pytest.mark.parametrize("what", ["field", "policy", "fire status", "target", "route", "phrase"])
def test_every_file_of_a_list_is_there(what: str) -> None:
    assert listed(what)
    for path in listed(what):
        assert (SOURCE / path).exists()


@pytest.mark.parametrize("what", MOST)
def test_adding_touches_few_files(what: str) -> None:
    assert len(listed(what)) <= MOST[what]
    word, besides = SAMPLES[what]
    found = naming(word)
    assert besides < found, "no longer named there"
    folders = tuple(path for path in listed(what) if path.endswith("/"))
    assert {path for path in found - besides if not path.startswith(folders) and path not in listed(what)} == set()
    assert len(found - besides) <= MOST[what]


@pytest.mark.parametrize("kind", TARGET_KINDS)
def test_every_kind_of_target_is_where_it_is_said_to_be(kind: str) -> None:
    module, _, name = TARGET_KINDS[kind].place.partition(":")
    made = getattr(import_module(module), name)
    assert callable(getattr(made, "func", made).deliver)  # an entry of a list is its class with some settings


# Tried on a copy

FIELD: dict[str, list[tuple[str, str]]] = {
    "model/requests.py": [
        ("    payload: Annotated[\n", '    colour: Annotated[str | None, about("Its colour.", "red")] = None\n'),
    ],
    "model/alarm.py": [('    wake_message: str = ""\n', '    colour: str = ""\n')],
    "rules/wake.py": [
        ("    label: str\n", "    colour: str\n"),
        ("            label=alarm.label,\n", "            colour=alarm.colour,\n"),
    ],
    "service/views.py": [("    conversation_id: Text = UNSET\n", "    colour: Text = UNSET\n")],
    "mcp/schemas.py": [('    label: str = ""\n    key: str', '    colour: str = ""\n')],
}
COLUMN = "alter table {t}alarms add column colour text not null default '';\n"
SHOWN = """
import sys
from datetime import UTC, datetime
from click.testing import CliRunner
from tests.acting import Draft, edit
from wakeful.rules.wake import Wake
from wakeful.rules.create import differences
from wakeful.rules.edit import fire_now, update
from wakeful.model.requests import CreateRequest
from wakeful.cli import main
from wakeful.errors import InvalidRequest
from wakeful.http.answers import InboxWake
from wakeful.mcp import agent_views, schemas
from wakeful.rules.arguments import request_fields, set_arguments
from wakeful.service.views import AlarmView, encode

now = datetime.now(UTC)
def drawn(colour):
    draft = Draft(owner_did="ada", wake_message="x", when="in 2 hours", colour=colour)
    return draft, draft.alarm(id="a1", now=now)
draft, alarm = drawn(" red ")
assert alarm.colour == "red"
assert differences(draft.wanted, alarm, drawn("blue")[1]) == ["colour"]
assert update(alarm, None, edit(colour="blue"), now=now).after.colour == "blue"
assert fire_now(alarm, id="a2", now=now).colour == "red"
try:
    drawn("x" * 2000)
except InvalidRequest as error:
    assert error.field == "colour"
else:
    raise AssertionError("no limit")
assert b'"colour":"red"' in encode(AlarmView.of(alarm))
assert b'"colour":"red"' in Wake(alarm).body
assert "colour" in InboxWake.__struct_fields__
for tool in (schemas.SetArguments, schemas.UpdateArguments):
    assert tool.__struct_fields__.count("colour") == 1
assert agent_views.alarm_view(alarm, agent_views.TextBudget(), message=100, payload=100).colour == "red"
said, _ = set_arguments("in 2 hours", "x", {"colour": "red", "key": "k"})
assert request_fields(said, creates=True)["colour"] == "red"
assert "--colour TEXT" in CliRunner().invoke(main, ["at", "--help"]).output
"""


# In the database that its arguments name: created, read, changed, fired, and read by whoever opens it next.
KEPT = """
import asyncio, json, sys
import wakeful

async def main(db, **settings):
    async with wakeful.open(db, owner="ada", **settings) as alarms:
        @alarms.handler("ops")
        async def ops(wake):
            return "done"
        later = await alarms.set("2035-07-01T09:00:00Z", "x", target="ops", colour="red")
        await alarms.update(later.id, label="y")
        assert (await alarms.get(later.id)).colour == "red"
        await alarms.update(later.id, colour="green")
        soon = await alarms.set("in 1 second", "x", target="ops", colour="blue")
        async with asyncio.timeout(60), alarms.running():
            while (await alarms.get(soon.id)).status != "fired":
                await asyncio.sleep(0.05)
    async with wakeful.open(db, owner="ada", **settings) as alarms:
        found = await alarms.find()
        assert {(alarm.label, alarm.colour) for alarm in found} == {("y", "green"), ("", "blue")}, found

asyncio.run(main(sys.argv[1], **json.loads(sys.argv[2])))
"""


def add_field(copy: Path) -> None:
    """Follow the recipe for a field in a copy of `src/wakeful`: it stands in the middle of its struct."""
    for path, lines in FIELD.items():
        text = (copy / path).read_text()
        for before, line in lines:
            assert text.count(before) == 1, (path, before)
            text = text.replace(before, line + before)
        (copy / path).write_text(text)
    number = max(int(path.name[:4]) for path in (copy / MIGRATIONS).glob("*.sql")) + 1
    for dialect in ("sqlite", "postgres"):
        (copy / MIGRATIONS / f"{number:04}-colour.{dialect}.sql").write_text(COLUMN)


@pytest.fixture
def with_field(tmp_path: Path) -> Path:
    """A copy of the source with one more field."""
    copy = tmp_path / "src" / "wakeful"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    add_field(copy)
    return copy.parent


def run(program: str, *arguments: str, source: Path) -> None:
    environment: dict[str, Any] = {**os.environ, "PYTHONPATH": os.pathsep.join((str(source), str(ROOT)))}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environment,
        cwd=source,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_field_that_is_added_to_those_files_is_settable_and_shown_at_every_door(with_field: Path) -> None:
    assert {*FIELD, MIGRATIONS} == set(listed("field"))
    run(SHOWN, source=with_field)


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_field_that_is_added_to_those_files_is_kept(
    request: pytest.FixtureRequest, with_field: Path, tmp_path: Path, database: str
) -> None:
    where, settings = str(tmp_path / "wakeful.db"), {}
    if database == "postgres":
        where, settings = request.getfixturevalue("pg_dsn"), {"schema": request.getfixturevalue("pg_schema")}
    run(KEPT, where, json.dumps(settings), source=with_field)
