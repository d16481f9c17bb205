"""Upgrade, a rolling upgrade with restarts, and the way back, with the code of older commits (promise I5).

`CONTRACT` names the first commit that keeps the schema contract: from there on a version opens the tables of a newer
one. 33591f3, which is older, does not; but a process of it that runs while the tables are upgraded goes on.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.test_adding import ROOT, SOURCE, add_field

CONTRACT = Path(__file__).with_name("CONTRACT").read_text().strip()
BEFORE_CONTRACT = "33591f3"
PROGRAM = Path(__file__).with_name("program.py")
Database = tuple[str, dict[str, str]]  # its address, and the settings that belong to it


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "sqlite":
        return str(tmp_path / "wakeful.db"), {}
    return request.getfixturevalue("pg_dsn"), {"schema": request.getfixturevalue("pg_schema")}


def code_of(commit: str, folder: Path) -> Path:
    """The source of a commit, for PYTHONPATH."""
    made = subprocess.run(["git", "archive", "--format=tar", commit, "src"], cwd=ROOT, capture_output=True, check=False)
    if made.returncode:
        whole = subprocess.run(
            ["git", "rev-parse", "--is-shallow-repository"], cwd=ROOT, capture_output=True, check=False
        )
        needs = f"this test runs wakeful as it was at {commit}: it needs a clone with that commit"
        if whole.stdout.strip() != b"false":
            pytest.skip(f"{needs}; this is a source package or a shallow clone")
        pytest.fail(f"{needs}. {made.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def newer_code(folder: Path) -> Path:
    """The next version: it has one more field, whose column its migration adds."""
    shutil.copytree(SOURCE, folder / "src" / "wakeful", ignore=shutil.ignore_patterns("__pycache__"))
    add_field(folder / "src" / "wakeful")
    return folder / "src"


class Process:
    def __init__(self, popen: subprocess.Popen[str]) -> None:
        self._popen = popen

    def answer(self) -> Any:
        assert self._popen.stdout is not None
        line = self._popen.stdout.readline()
        assert line, f"it ended with {self._popen.wait(60)}"
        return json.loads(line)

    def tell(self, verb: str, *positional: str, **named: str) -> Any:
        assert self._popen.stdin is not None
        self._popen.stdin.write(json.dumps([verb, positional, named]) + "\n")
        self._popen.stdin.flush()
        return self.answer()

    def stop(self) -> None:
        """As an operator does: it comes to its end, and says nothing of an error."""
        assert self._popen.stdin is not None
        self._popen.stdin.close()
        assert self._popen.wait(60) == 0


@contextmanager
def process(source: Path, database: Database) -> Iterator[Process]:
    db, settings = database
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WAKEFUL_")}
    pipe = subprocess.PIPE
    popen = subprocess.Popen(
        [sys.executable, str(PROGRAM), db, json.dumps(settings)],
        env=environment | {"PYTHONPATH": str(source)},
        cwd=source,
        stdin=pipe,
        stdout=pipe,
        text=True,
    )
    with popen:
        try:
            found = Process(popen)
            assert Path(found.answer()).is_relative_to(source)
            yield found
        finally:
            popen.kill()


def check_nothing_lost(told: dict[str, list[str]], works: dict[str, dict[str, str]]) -> None:
    expected = {"soon": "fired", "wall": "active", "series": "active", "gone": "cancelled"}
    seen = {(told[id][0], told[id][1]) for ids in works.values() for id in ids.values()}
    assert seen == {(expected[what], f"{name}: {what}") for name in works for what in expected}
    assert {told[ids["wall"]][3] for ids in works.values()} == {"2035-07-01T09:00:00"}


def all_of(works: dict[str, dict[str, str]]) -> list[str]:
    return [id for ids in works.values() for id in ids.values()]


def test_a_process_of_before_the_contract_goes_on_while_the_tables_are_upgraded(
    database: Database, tmp_path: Path
) -> None:
    with ExitStack() as running:
        old = running.enter_context(process(code_of(BEFORE_CONTRACT, tmp_path / "old"), database))
        works = {"old": old.tell("work", "old")}
        new = running.enter_context(process(ROOT / "src", database))
        works["new"] = new.tell("work", "new")
        works["old again"] = old.tell("work", "old again")
        assert old.tell("relabel", works["new"]["wall"], "by the old") == "by the old"
        assert new.tell("relabel", works["old again"]["wall"], "by the new") == "by the new"
        for one in (old, new):
            told = one.tell("state", *all_of(works))
            check_nothing_lost(told, works)
            assert told[works["new"]["wall"]][2] == "by the old"
            assert told[works["old again"]["wall"]][2] == "by the new"
        old.stop()
        works["new again"] = new.tell("work", "new again")
        check_nothing_lost(new.tell("state", *all_of(works)), works)
        new.stop()


def test_versions_since_the_contract_are_upgraded_one_by_one_and_downgraded_again(
    database: Database, tmp_path: Path
) -> None:
    old_code, new_code = code_of(CONTRACT, tmp_path / "old"), newer_code(tmp_path / "new")
    works: dict[str, dict[str, str]] = {}
    with ExitStack() as running:
        old = running.enter_context(process(old_code, database))
        works["before"] = old.tell("work", "before")
        new = running.enter_context(process(new_code, database))
        works["upgraded"] = new.tell("work", "upgraded", colour="red")
        works["kept running"] = old.tell("work", "kept running")
        old.stop()
        restarted = running.enter_context(process(old_code, database))
        works["restarted"] = restarted.tell("work", "restarted")
        new.stop()
        works["downgraded"] = restarted.tell("work", "downgraded")
        restarted.tell("relabel", works["upgraded"]["wall"], "by the old")
        check_nothing_lost(restarted.tell("state", *all_of(works)), works)
        restarted.stop()
        again = running.enter_context(process(new_code, database))
        works["upgraded again"] = again.tell("work", "upgraded again", colour="blue")
        told = again.tell("state", *all_of(works))
        check_nothing_lost(told, works)
        assert told[works["upgraded"]["wall"]][2:] == ["by the old", "2035-07-01T09:00:00", "red"]
        assert {told[id][4] for id in works["downgraded"].values()} == {""}
        again.stop()
