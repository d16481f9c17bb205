"""Alarm's file is only read: not a byte of it changes, and nothing appears beside it; another file is refused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from click.testing import CliRunner, Result

from wakeful.cli import main
from wakeful.seeds.alarm_file import COLUMNS

from .alarm_file_world import CALL, NOW, AlarmsFile
from .chronos_world import Here

Run = Callable[..., Result]
INSERT = "insert into alarm (id, updated_at, set_at, process, message) values (?, 0, ?, 'Elixir.Pushover', ?)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "their data, 100%?#"
    folder.mkdir()
    return folder


@pytest.fixture
def run(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Import a file, and see that nothing in its folder has changed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WAKEFUL_DB", str(tmp_path / "wakeful.db"))
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)

    def run(name: str, *args: str, code: int = 0) -> Result:
        before = contents(folder)
        result = CliRunner().invoke(main, ["import", "alarm", str(folder / name), *args], catch_exceptions=False)
        assert result.exit_code == code, result.output
        assert contents(folder) == before
        assert list(temporary.iterdir()) == []
        return result

    return run


def contents(folder: Path) -> dict[str, bytes]:
    """All but `-shm`, which those who have a file open share, and which is theirs to write."""
    assert folder.is_dir()
    return {path.name: b"" if path.name.endswith("-shm") else path.read_bytes() for path in folder.iterdir()}


def brought(tmp_path: Path) -> int:
    return len(Here({"db": str(tmp_path / "wakeful.db")}).alarms())


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_a_file_at_rest(run: Run, folder: Path, tmp_path: Path, journal: str) -> None:
    file = AlarmsFile(folder / "alarm.sqlite", journal=journal)
    file.fill()
    assert os.listdir(folder) == ["alarm.sqlite"]
    run("alarm.sqlite", "--dry-run")
    run("alarm.sqlite")
    assert brought(tmp_path) == 10


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_a_file_that_nobody_may_write(run: Run, folder: Path, tmp_path: Path, journal: str) -> None:
    AlarmsFile(folder / "alarm.sqlite", journal=journal).fill()
    (folder / "alarm.sqlite").chmod(0o400)
    folder.chmod(0o500)
    try:
        run("alarm.sqlite")
    finally:
        folder.chmod(0o700)
    assert brought(tmp_path) == 10


@pytest.fixture
def writing(folder: Path) -> Iterator[apsw.Connection]:
    """Alarm itself, with the file open and a row in its log that is not in the file yet."""
    file = AlarmsFile(folder / "alarm.sqlite", journal="wal")
    with closing(apsw.Connection(str(file.path))) as db:
        db.execute("pragma wal_autocheckpoint=0")
        db.execute(INSERT, (NOW * 1000, NOW + 60, CALL))
        yield db


def test_a_file_in_use_is_read_with_its_log(run: Run, folder: Path, tmp_path: Path, writing: apsw.Connection) -> None:
    run("alarm.sqlite")
    assert brought(tmp_path) == 1
    writing.execute(INSERT, (NOW * 1000 + 1, NOW + 60, CALL))
    run("alarm.sqlite")
    assert brought(tmp_path) == 2


def test_a_log_that_a_crash_left_is_read_too(run: Run, folder: Path, tmp_path: Path, writing: apsw.Connection) -> None:
    for ending in ("", "-wal"):
        shutil.copyfile(folder / f"alarm.sqlite{ending}", folder / f"crashed{ending}")
    run("crashed")
    assert brought(tmp_path) == 1


def test_half_a_transaction_that_a_crash_left_does_not_count(run: Run, folder: Path, tmp_path: Path) -> None:
    file = AlarmsFile(folder / "alarm.sqlite")
    file.add_many(300)
    with closing(apsw.Connection(str(file.path))) as db:
        db.execute("pragma cache_size=1")
        db.execute("begin immediate")
        db.execute("update alarm set process = 'never'")
        for ending in ("", "-journal"):
            shutil.copyfile(folder / f"alarm.sqlite{ending}", folder / f"crashed{ending}")
        db.execute("rollback")
    assert b"never" in (folder / "crashed").read_bytes()
    run("crashed")
    alarms = Here({"db": str(tmp_path / "wakeful.db")}).alarms().values()
    assert {alarm.target for alarm in alarms} == {"Pushover"}
    assert len(alarms) == 300


def test_a_file_that_is_being_written_is_read_as_it_was(run: Run, folder: Path, tmp_path: Path) -> None:
    file = AlarmsFile(folder / "alarm.sqlite")
    file.add()
    with closing(apsw.Connection(str(file.path))) as db:
        db.execute("begin immediate")
        db.execute(INSERT, (NOW * 1000, NOW + 60, CALL))
        run("alarm.sqlite")
        db.execute("commit")
    assert brought(tmp_path) == 1


def refused(run: Run, name: str, tmp_path: Path, *, code: int = 2) -> str:
    """What is said, also by a dry run; no database is made for it."""
    said = run(name, code=code).stderr
    assert run(name, "--dry-run", code=code).stderr == said
    assert not (tmp_path / "wakeful.db").exists()
    return said.replace(str(tmp_path / "their data, 100%?#"), "FOLDER")


def test_a_table_of_something_else_is_refused_with_the_columns_it_lacks(run: Run, folder: Path, tmp_path: Path) -> None:
    file = AlarmsFile(folder / "alarm.sqlite")
    file.sql("alter table alarm rename column message to words")
    file.sql("alter table alarm drop column cancelled_at")
    assert refused(run, "alarm.sqlite", tmp_path) == (
        "error: FILE: FOLDER/alarm.sqlite is not Alarm's: its table alarm has no message, cancelled_at.\n"
    )


def test_what_is_no_file_of_alarms_is_refused(run: Run, folder: Path, tmp_path: Path) -> None:
    assert refused(run, "nowhere", tmp_path) == "error: FILE: there is no file FOLDER/nowhere. Name the file.\n"
    (folder / "text").write_text("no database at all, but long enough to have been one" * 20)
    assert refused(run, "text", tmp_path) == "error: FILE: FOLDER/text is not a SQLite database.\n"
    (folder / "empty").touch()
    said = refused(run, "empty", tmp_path)
    assert said.startswith("error: FILE: FOLDER/empty is not Alarm's: it has no table alarm. Name the one Alarm keeps")
    with closing(apsw.Connection(str(folder / "keyless"))) as db:
        db.execute(f"create table alarm ({', '.join(COLUMNS)})")
    assert "the id of its table alarm is not the primary key" in refused(run, "keyless", tmp_path)


def test_a_damaged_file_is_told_as_such(run: Run, folder: Path, tmp_path: Path) -> None:
    file = AlarmsFile(folder / "alarm.sqlite")
    file.add_many(300)
    data = bytearray(file.path.read_bytes())
    data[4096 * 2 :] = b"\xff" * (len(data) - 4096 * 2)
    file.path.write_bytes(data)
    said = run("alarm.sqlite", "--dry-run", code=6).stderr
    assert said.startswith("error: Alarm's file: ")
    assert "CorruptError" in said
