"""The file is deleted, moved away or replaced while it is open: nothing is answered that nobody can read again."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from wakeful.errors import StoreUnavailable
from wakeful.store import AlarmQuery
from wakeful.store.sqlite import SqliteStore
from wakeful.store.sqlite.file import Original, begin_anew, expect
from wakeful.testing import ManualClock
from wakeful.testing.conformance.making import LEASE, added, an_alarm

from .sqlite_file_tools import ask, migrated


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "wakeful.db")


@pytest.fixture
async def file(path: str, clock: ManualClock) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, clock=clock)
    await store.migrate()
    yield store
    await store.close()


def deleted(path: str) -> None:
    os.unlink(path)


def moved(path: str) -> None:
    os.rename(path, path + ".elsewhere")


def replaced(path: str) -> None:
    shutil.copy(path, path + ".copy")
    os.replace(path + ".copy", path)


AWAY = pytest.mark.parametrize("away", [deleted, moved, replaced], ids=lambda away: away.__name__)


@AWAY
async def test_no_verb_answers_for_a_file_that_is_away(
    file: SqliteStore, path: str, clock: ManualClock, away: Callable[[str], None]
) -> None:
    await added(file, an_alarm(clock))
    assert len(await file.find(AlarmQuery())) == 1
    away(path)
    for call in (
        file.add([an_alarm(clock)]),
        file.claim({"desk": 1}, lease=LEASE),
        file.migrate(),
        file.find(AlarmQuery()),
        file.maintenance.target_states(),
    ):
        with pytest.raises(StoreUnavailable, match=r"wakeful\.db .* while it was in use\. Put the same file back"):
            await call


async def test_what_was_written_while_the_file_went_away_is_not_acknowledged(
    file: SqliteStore, path: str, clock: ManualClock
) -> None:
    def slow(db: object) -> str:
        moved(path)  # it was there when the transaction began
        return "written"

    together = (file._writer.submit(slow), file.add([an_alarm(clock)]))
    answers = await asyncio.gather(*together, return_exceptions=True)
    assert [type(answer) for answer in answers] == [StoreUnavailable] * 2
    os.rename(path + ".elsewhere", path)
    for lax in (True, False):
        with pytest.raises(StoreUnavailable, match="is gone"):
            await file._writer.submit(slow, lax=lax, alone=not lax)
        os.rename(path + ".elsewhere", path)


async def test_what_was_read_while_the_file_went_away_is_not_told(file: SqliteStore, path: str) -> None:
    with pytest.raises(StoreUnavailable, match="is gone"):
        await file._read(lambda db: moved(path))


async def test_once_the_same_file_is_back_it_goes_on_with_everything_in_it(
    file: SqliteStore, path: str, clock: ManualClock
) -> None:
    await added(file, an_alarm(clock))
    moved(path)
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await file.add([an_alarm(clock)])
    os.rename(path + ".elsewhere", path)
    await added(file, an_alarm(clock))
    assert (await file.stats()).total == 2
    await file.close()
    assert ask(path, "pragma integrity_check") == [("ok",)]
    assert ask(path, "select count(*) from alarms") == [(2,)]


async def test_a_replacement_is_not_adopted_even_under_the_inode_of_the_first(
    file: SqliteStore, path: str, clock: ManualClock
) -> None:
    await added(file, an_alarm(clock))
    shutil.copy(path, path + ".backup")
    deleted(path)
    with pytest.raises(StoreUnavailable):
        await file.add([an_alarm(clock)])
    # Were nobody holding the first file's inode, the file system could give it away again.
    assert file._writer._db is not None
    for name in (path, *(f"{path}.{n}" for n in range(5))):
        shutil.copy(path + ".backup", name)
    with pytest.raises(StoreUnavailable, match="was replaced"):
        await file.add([an_alarm(clock)])
    with pytest.raises(StoreUnavailable, match="was replaced"):
        await file.find(AlarmQuery())


async def test_the_log_of_the_first_file_is_not_read_into_its_replacement(path: str, clock: ManualClock) -> None:
    store = SqliteStore(path, clock=clock)
    await store.migrate()
    await store.close()
    shutil.copy(path, path + ".backup")
    store = SqliteStore(path, clock=clock)
    await added(store, *(an_alarm(clock) for _ in range(50)))
    moved(path)
    os.rename(path + ".backup", path)
    with pytest.raises(StoreUnavailable):
        await store.add([an_alarm(clock)])
    await store.close()
    assert ask(path, "select count(*) from alarms") == [(0,)]  # the backup, as it was
    assert ask(path, "pragma integrity_check") == [("ok",)]
    assert ask(path + ".elsewhere", "select count(*) from alarms") == [(50,)]  # and the first, with all of it


async def test_it_is_said_once_loudly_that_it_is_away_and_once_that_it_is_back(
    file: SqliteStore, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "wakeful.store")
    moved(path)
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await file.maintenance.target_states()
    os.rename(path + ".elsewhere", path)
    for _ in range(3):
        await file.maintenance.target_states()
    assert [(record.levelname, record.getMessage().split(": ")[0]) for record in caplog.records] == [
        ("CRITICAL", f"{path} is gone (No such file or directory) while it was in use"),
        ("WARNING", f"{path} is back"),
    ]


def test_a_connection_opened_later_is_of_the_same_file(path: str) -> None:
    Path(path).touch()
    original = Original(path)
    original.remember()
    replaced(path)
    with pytest.raises(StoreUnavailable, match="was replaced"):
        original.remember()
    with pytest.raises(StoreUnavailable, match="was replaced"):
        original.check()


class TestAtTheNextStart:
    async def test_an_empty_file_is_not_made_beside_the_log_of_one_that_is_gone(
        self, file: SqliteStore, path: str, clock: ManualClock
    ) -> None:
        await added(file, an_alarm(clock))
        deleted(path)
        with pytest.raises(StoreUnavailable, match=r"the note wakeful\.db-wal .*-wal and .*-shm first.*--create"):
            await migrated(path)
        with pytest.raises(StoreUnavailable):
            await file.stats()
        with pytest.raises(StoreUnavailable):
            await added(file, an_alarm(clock))
        with pytest.raises(StoreUnavailable, match=r"Put it back, or begin with an empty one"):  # the log is empty now
            await migrated(path)
        assert not Path(path).exists()  # noqa: ASYNC240 - nobody waits for this loop

    async def test_nor_where_one_was_expected(self, path: str) -> None:
        await migrated(path)
        expect(path)
        deleted(path)
        with pytest.raises(StoreUnavailable, match=r"the note \.wakeful\.db\.expected beside it") as refusal:
            await migrated(path)
        assert not refusal.value.passing
        begin_anew(path)
        await migrated(path)

    async def test_the_note_is_its_owners_alone(self, path: str) -> None:
        """It names the database, which nobody else may read."""
        before = os.umask(0)
        try:
            await migrated(path)
            expect(path)
        finally:
            os.umask(before)
        [note] = Path(path).parent.glob(".*.expected")
        assert stat.S_IMODE(note.stat().st_mode) == 0o600

    async def test_beginning_anew_leaves_a_file_that_is_there_alone(self, path: str, clock: ManualClock) -> None:
        store = SqliteStore(path, clock=clock)
        await store.migrate()
        expect(path)
        await added(store, an_alarm(clock))
        begin_anew(path)
        await added(store, an_alarm(clock))
        await store.close()
        assert ask(path, "select count(*) from alarms") == [(2,)]

    async def test_a_first_start_needs_nothing(self, path: str) -> None:
        assert await migrated(path)
