"""What is SQLite's own: the file, its locks, its migrations, and how many commits things take."""

from __future__ import annotations

import asyncio
import os
import re
import stat
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from wakeful.clock import stopwatch
from wakeful.errors import InvalidConfig, StoreBusy, StoreUnavailable
from wakeful.model.alarm import Policy
from wakeful.store import AlarmQuery
from wakeful.store.queries import Naming, queries
from wakeful.store.sqlite import SqliteStore
from wakeful.store.sqlite import file as sqlite_file
from wakeful.store.sqlite import writer as sqlite_writer
from wakeful.store.sqlite.readers import narrowed, search_values
from wakeful.testing import ManualClock
from wakeful.testing.conformance.making import LEASE, added, an_alarm, claimed, done, settled

from .sqlite_file_tools import ask, migrated, other_program


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "wakeful.db")


@pytest.fixture
async def file(path: str, clock: ManualClock) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, clock=clock)
    await store.migrate()
    yield store
    await store.close()


async def pragma(store: SqliteStore, name: str) -> object:
    return await store._writer.submit(lambda db: db.pragma(name))


class TestTheFile:
    async def test_only_its_owner_can_read_it(self, file: SqliteStore, path: str, clock: ManualClock) -> None:
        await added(file, an_alarm(clock))
        for name in (path, f"{path}-wal", f"{path}-shm"):
            assert stat.S_IMODE(os.stat(name).st_mode) == 0o600

    async def test_an_existing_file_keeps_its_mode(self, path: str) -> None:
        ask(path, "create table other (x)")
        os.chmod(path, 0o640)
        await migrated(path)
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o640

    async def test_every_commit_is_synced_to_a_log(self, file: SqliteStore) -> None:
        assert await pragma(file, "journal_mode") == "wal"
        assert await pragma(file, "synchronous") == 2

    async def test_a_claim_alone_does_not_wait_for_the_disk_but_what_follows_does(
        self, file: SqliteStore, clock: ManualClock
    ) -> None:
        during: list[object] = []
        look = file._sql["due"]
        await added(file, an_alarm(clock))

        def watched(db: apsw.Connection) -> None:
            during.append(db.pragma("synchronous"))
            db.execute(look.replace("select", "select no_such_column,", 1))  # and then it fails

        with pytest.raises(StoreUnavailable):
            await file._writer.submit(watched, lax=True)
        assert during == [1]
        assert await pragma(file, "synchronous") == 2
        assert len(await claimed(file)) == 1
        assert await pragma(file, "synchronous") == 2

    async def test_readers_neither_write_nor_checkpoint(self, file: SqliteStore) -> None:
        assert await file._read(lambda db: db.pragma("query_only")) == 1
        assert await file._read(lambda db: db.pragma("wal_autocheckpoint")) == 0
        with pytest.raises(StoreUnavailable):
            await file._read(lambda db: db.execute("delete from alarms"))

    async def test_nothing_is_made_before_it_is_asked_for(self, path: str, clock: ManualClock) -> None:
        store = SqliteStore(path)
        with pytest.raises(StoreUnavailable):
            await store.add([an_alarm(clock)])
        with pytest.raises(StoreUnavailable):
            await store.find(AlarmQuery())
        assert not Path(path).exists()  # noqa: ASYNC240 - nobody waits for this loop
        await store.migrate()
        await added(store, an_alarm(clock))
        await store.close()

    async def test_a_file_without_our_tables_says_what_to_do(self, path: str) -> None:
        ask(path, "create table other (x)")
        store = SqliteStore(path)
        with pytest.raises(StoreUnavailable, match="migrate"):
            await store.find(AlarmQuery())
        await store.close()

    async def test_closing_leaves_one_file_with_everything_in_it(self, path: str, clock: ManualClock) -> None:
        store = SqliteStore(path, clock=clock)
        await store.migrate()
        await added(store, *(an_alarm(clock) for _ in range(50)))
        assert len(await store.find(AlarmQuery())) == 50
        await store.close()
        assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)]
        assert ask(path, "select count(*) from alarms") == [(50,)]

    @pytest.mark.parametrize("bad", ["", ":memory:", ".", "no/such/directory/wakeful.db", "text.db"])
    async def test_what_can_be_no_database_is_refused(self, tmp_path: Path, bad: str) -> None:
        (tmp_path / "text.db").write_text(
            "this is no database, it is a text that is long enough to be read as a header" * 9
        )
        store = SqliteStore(bad if bad in ("", ":memory:") else str(tmp_path / bad))
        with pytest.raises(InvalidConfig):
            await store.migrate()
        await store.close()

    async def test_a_file_we_may_not_write_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as directory, as_nobody(directory):
            file = os.path.join(directory, "wakeful.db")
            await migrated(file)
            os.chmod(file, 0o444)
            with pytest.raises(InvalidConfig, match="cannot be written"):
                await migrated(file)


@contextmanager
def as_nobody(directory: str) -> Iterator[None]:
    """Root may write to any file: step down for a moment."""
    os.chmod(directory, 0o777)
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


class TestOtherPrograms:
    async def test_a_locked_file_is_busy_for_all_who_wait_and_then_works_again(
        self, path: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await migrated(path)
        monkeypatch.setattr(sqlite_file, "BUSY_MS", 500)
        store = SqliteStore(path, clock=clock)
        with other_program(path) as db:
            db.execute("begin immediate")
            alarms = [an_alarm(clock) for _ in range(10)]
            began = stopwatch()
            answers = await asyncio.gather(*(store.add([alarm]) for alarm in alarms), return_exceptions=True)
            assert [type(answer) for answer in answers] == [StoreBusy] * 10
            assert stopwatch() - began < 10 * 0.5 / 2  # they waited together, not one after the other
            assert await store.find(AlarmQuery()) == []  # reading goes on meanwhile
            db.execute("rollback")
        await store.add(alarms)
        assert len(await store.find(AlarmQuery())) == 10
        await store.close()

    async def test_another_program_that_writes_all_the_time_and_we_both_get_on(
        self, file: SqliteStore, path: str, clock: ManualClock
    ) -> None:
        program = (
            "import sqlite3, sys\n"
            "db = sqlite3.connect(sys.argv[1], timeout=5, isolation_level=None)\n"
            "db.execute('create table other (x)')\n"
            "print('ready', flush=True)\n"
            "for n in range(100):\n"
            "    db.execute('begin immediate'); db.execute('insert into other values (1)'); db.execute('commit')\n"
            "print('done', flush=True)\n"
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, path, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        other = asyncio.ensure_future(process.stdout.readline())
        ours = 0
        while not other.done() or ours < 20:  # as much as we can, for as long as the other one needs
            await asyncio.gather(*(file.add([an_alarm(clock) for _ in range(300)]) for _ in range(4)))
            ours += 1
        assert await other == b"done\n"
        assert await process.wait() == 0
        assert (await file.stats(most=1_000_000)).total == ours * 1200

    async def test_two_stores_on_one_file_never_share_a_lease(
        self, file: SqliteStore, path: str, clock: ManualClock
    ) -> None:
        other = SqliteStore(path, clock=clock)
        await added(file, *(an_alarm(clock) for _ in range(200)))
        answers = await asyncio.gather(*(claimed(store, 10) for store in (file, other) for _ in range(10)))
        ids = [alarm.id for answer in answers for alarm in answer]
        assert len(ids) == len(set(ids)) == 200
        await other.close()


def _watch(statements: list[str], db: apsw.Connection) -> None:
    """Have every statement noted."""

    def trace(_: object, sql: str, __: object) -> bool:
        statements.append(sql)
        return True

    db.exec_trace = trace


class TestGroupCommit:
    async def test_creates_at_the_same_time_share_their_commits(self, file: SqliteStore, clock: ManualClock) -> None:
        before = file._writer.commits
        await asyncio.gather(*(file.add([an_alarm(clock)]) for _ in range(64)))
        assert file._writer.commits - before <= 32

    @pytest.mark.parametrize(("slow", "begun"), [(60, ["insert", "insert"]), (0, ["begin", "insert", "commit"])])
    async def test_a_crowd_is_two_statements_unless_the_disk_is_slow(
        self, file: SqliteStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, slow: float, begun: list[str]
    ) -> None:
        """Each is a transaction by itself: while it runs the event loop makes the next creates ready."""
        monkeypatch.setattr(sqlite_writer, "_SLOW", slow)
        statements: list[str] = []
        await added(file, an_alarm(clock))  # the first one keeps the edition of the zone data besides
        await file._writer.submit(partial(_watch, statements))
        is_held, hold = threading.Event(), threading.Event()

        def wait(db: apsw.Connection) -> bool:
            is_held.set()
            return hold.wait()

        held = file._writer.submit(wait)
        await asyncio.to_thread(is_held.wait)
        alarms = [an_alarm(clock) for _ in range(64)]
        calls = [asyncio.ensure_future(file.add([alarm])) for alarm in alarms]
        await asyncio.sleep(0.01)
        statements.clear()
        hold.set()
        await asyncio.gather(held, *calls)
        after = statements[statements.index("commit") + 1 :]
        assert [next(word for word in ("begin", "insert", "commit") if word in sql) for sql in after] == begun
        assert [await file.get(alarm.id) for alarm in alarms] == alarms

    @pytest.mark.parametrize("how", ["abort", "rollback"])
    @pytest.mark.parametrize("crowd", [20, 32, 64, 100])
    async def test_one_of_a_crowd_that_is_refused_fails_alone(
        self, file: SqliteStore, clock: ManualClock, crowd: int, how: str
    ) -> None:
        await file._writer.submit(
            lambda db: db.execute(f"""create trigger broken before insert on alarms when new.label = 'bad'
                begin select raise({how}, 'broken'); end""")
        )
        alarms = [an_alarm(clock, label="bad" if n == 10 else "") for n in range(crowd)]
        answers = await asyncio.gather(*(file.add([alarm]) for alarm in alarms), return_exceptions=True)
        assert [n for n, answer in enumerate(answers) if isinstance(answer, StoreUnavailable)] == [10]
        assert [await file.get(alarm.id) for alarm in alarms] == [*alarms[:10], None, *alarms[11:]]

    async def test_of_a_crowd_with_one_key_one_is_new(self, file: SqliteStore, clock: ManualClock) -> None:
        alarms = [an_alarm(clock, idempotency_key="k", label=str(n)) for n in range(64)]
        answers = await asyncio.gather(*(file.add([alarm]) for alarm in alarms))
        assert [added.deduped for [added] in answers] == [False] + [True] * 63
        assert {added.alarm for [added] in answers} == {alarms[0]}

    async def test_whoever_is_cancelled_takes_nobody_along(self, file: SqliteStore, clock: ManualClock) -> None:
        alarms = [an_alarm(clock) for _ in range(64)]
        calls = [asyncio.ensure_future(file.add([alarm])) for alarm in alarms]
        await asyncio.sleep(0)
        calls[5].cancel()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [n for n, answer in enumerate(answers) if isinstance(answer, asyncio.CancelledError)] == [5]
        assert None not in [await file.get(alarm.id) for n, alarm in enumerate(alarms) if n != 5]

    async def test_what_was_accepted_is_written_before_it_is_closed(self, path: str, clock: ManualClock) -> None:
        store = SqliteStore(path, clock=clock)
        await store.migrate()
        await added(store, an_alarm(clock))
        calls = [asyncio.ensure_future(store.add([an_alarm(clock)])) for _ in range(10)]
        await asyncio.sleep(0)
        await asyncio.gather(store.close(), *calls)
        assert ask(path, "select count(*) from alarms") == [(11,)]

    async def test_operations_of_every_kind_share_a_commit(self, file: SqliteStore, clock: ManualClock) -> None:
        await added(file, an_alarm(clock))
        leased = await claimed(file)
        hold = asyncio.Event()
        loop = asyncio.get_running_loop()
        held = file._writer.submit(lambda db: asyncio.run_coroutine_threadsafe(hold.wait(), loop).result())
        calls = [
            asyncio.ensure_future(call)
            for call in (
                file.add([an_alarm(clock)]),
                file.settle([done(leased[0])]),
                file.claim({"none": 1}, lease=LEASE),
                file.renew([]),
            )
        ]
        await asyncio.wait(calls[:1], timeout=0)
        before = file._writer.commits
        hold.set()
        await asyncio.gather(held, *calls)
        assert file._writer.commits - before <= 2

    async def test_one_that_has_the_whole_transaction_taken_back_fails_alone(
        self, file: SqliteStore, clock: ManualClock
    ) -> None:
        bad, before, after = (an_alarm(clock, label=label) for label in ("bad", "before", "after"))
        await file._writer.submit(
            lambda db: db.execute("""create trigger broken before insert on alarms when new.label = 'bad'
                begin select raise(rollback, 'broken'); end""")
        )
        hold = asyncio.Event()
        loop = asyncio.get_running_loop()
        held = file._writer.submit(lambda db: asyncio.run_coroutine_threadsafe(hold.wait(), loop).result())
        calls = [asyncio.ensure_future(file.add([alarm])) for alarm in (before, bad, after)]
        await asyncio.wait(calls[:1], timeout=0)
        hold.set()
        await held
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [isinstance(answer, StoreUnavailable) for answer in answers] == [False, True, False]
        assert [await file.get(alarm.id) for alarm in (before, bad, after)] == [before, None, after]

    async def test_five_hundred_settlements_are_a_few_dozen_statements(
        self, file: SqliteStore, clock: ManualClock
    ) -> None:
        """Between two statements a busy event loop may keep the interpreter lock for milliseconds."""
        await added(file, *(an_alarm(clock) for _ in range(500)))
        leased = await claimed(file, 500)
        statements: list[str] = []
        await file._writer.submit(partial(_watch, statements))
        assert await settled(file, *(done(alarm) for alarm in leased)) == ["applied"] * 500
        assert 0 < len(statements) < 50

    async def test_a_lone_create_does_not_wait_for_a_bulk_to_end(self, file: SqliteStore, clock: ManualClock) -> None:
        calls = [asyncio.ensure_future(file.add([an_alarm(clock) for _ in range(count)])) for count in (10_000, 1)]
        finished, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        assert finished == {calls[1]}
        assert len(await calls[0]) == 10_000


class TestReaders:
    async def test_a_connection_that_failed_is_closed(self, file: SqliteStore, path: str, clock: ManualClock) -> None:
        await added(file, *(an_alarm(clock, payload_json='"%s"' % ("x" * 4000)) for _ in range(50)))
        await file._writer.submit(lambda db: db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE), alone=True)
        with open(path, "r+b") as pages:  # noqa: ASYNC230 - nobody waits for this loop
            pages.seek(4096 * 8)
            pages.write(b"\xff" * 4096 * 40)
        open_files = len(os.listdir("/proc/self/fd"))
        for _ in range(40):
            with pytest.raises(StoreUnavailable, match="malformed"):
                await file.find(AlarmQuery())
        assert len(os.listdir("/proc/self/fd")) <= open_files + 4

    async def test_the_log_is_cut_back_once_a_long_reader_is_gone(
        self, file: SqliteStore, path: str, clock: ManualClock
    ) -> None:
        with other_program(path) as reader:
            reader.execute("begin; select count(*) from alarms")
            for _ in range(6):
                await added(file, *(an_alarm(clock, payload_json='"%s"' % ("x" * 8000)) for _ in range(500)))
            assert os.stat(f"{path}-wal").st_size > 16 << 20
            reader.execute("commit")
            for _ in range(3):  # what a worker writes anyway
                await added(file, an_alarm(clock))
            assert os.stat(f"{path}-wal").st_size <= 8 << 20


class TestFullDisk:
    async def test_nothing_is_acknowledged_while_the_disk_is_full_and_then_it_goes_on(
        self, path: str, clock: ManualClock
    ) -> None:
        disk = FullDisk()
        try:
            store = SqliteStore(path, clock=clock)
            await store.migrate()
            await added(store, an_alarm(clock))
            disk.full = True
            lost = [an_alarm(clock) for _ in range(20)]
            answers = await asyncio.gather(*(store.add([alarm]) for alarm in lost), return_exceptions=True)
            assert {type(answer) for answer in answers} == {StoreUnavailable}
            assert all("disk is full" in str(answer) for answer in answers)
            disk.full = False
            await store.add(lost)
            assert (await store.stats()).total == 21
            await store.close()
        finally:
            disk.unregister()
        assert ask(path, "pragma integrity_check") == [("ok",)]


class FullDisk(apsw.VFS):
    """The system's own files, until the disk is full."""

    full = False

    def __init__(self) -> None:
        super().__init__("full-disk", base="unix", makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        disk = self

        class File(apsw.VFSFile):
            def xWrite(self, data: bytes, offset: int) -> None:
                if disk.full:
                    raise apsw.FullError("database or disk is full")
                super().xWrite(data, offset)

        return File("unix", name, flags)


class TestPlans:
    @pytest.mark.parametrize("name", ["due", "suspect", "next_due"])
    async def test_the_due_index_is_used(self, file: SqliteStore, path: str, name: str) -> None:
        values = {"now": 1, "due": 1, "target": "x", "lease": 1, "slots": 1}
        values |= {"suspect": None, "in_group": True, "most": 1}
        with other_program(path) as db:
            plan = db.execute(f"explain query plan {queries('sqlite', Naming())[name]}", values).fetchall()
        told = " / ".join(str(step[3]) for step in plan)
        assert "USING INDEX alarms_due_idx (target=?" in told
        assert not re.search(r"SCAN (?!LIST|\(subquery)", told)
        assert "TEMP B-TREE" not in told or name == "suspect"  # of the few that were looked at

    async def test_owners_in_turn_are_found_by_their_index(self, file: SqliteStore, path: str) -> None:
        values = {"now": 1, "target": "x", "lease": 1, "share": 1, "each": 1, "after": "", "owners": 1}
        with other_program(path) as db:
            plan = db.execute(f"explain query plan {queries('sqlite', Naming())['in_turn']}", values).fetchall()
        told = [str(step[3]) for step in plan if "alarms" in str(step[3])]
        index = "SEARCH alarms USING {}INDEX alarms_turns_idx (target=? AND owner_did"
        assert sum(step.startswith((index.format(""), index.format("COVERING "))) for step in told) == 3, told
        assert [step for step in told if step.startswith("SCAN")] == []

    async def test_who_waits_for_a_signal_is_found_by_its_name(self, file: SqliteStore, path: str) -> None:
        values = {"owner": "x", "signal": "reply", "after": "", "limit": 1}
        with other_program(path) as db:
            plan = db.execute(f"explain query plan {queries('sqlite', Naming())['listening']}", values).fetchall()
        told = " / ".join(str(step[3]) for step in plan)
        for index in ("alarms_unless_idx", "alarms_or_when_idx"):
            assert f"SEARCH alarms USING INDEX {index} (owner_did=? AND <expr>=? AND id>?)" in told
        assert "SCAN" not in told
        assert "TEMP B-TREE" not in told

    async def test_a_policy_that_is_not_json_waits_for_nothing(
        self, file: SqliteStore, path: str, clock: ManualClock
    ) -> None:
        await added(file, an_alarm(clock, policy=Policy(unless="reply")))
        ask(path, "update alarms set policy = ?", "{")
        assert await file.listening("ada", "reply", limit=1) == []

    @pytest.mark.parametrize(("name", "index"), [("overdue", "fires_report_idx"), ("waiting", "fires_waiting_idx")])
    async def test_pending_fires_are_found_by_their_index(
        self, file: SqliteStore, path: str, name: str, index: str
    ) -> None:
        with other_program(path) as db:
            for conversation in ("", "c"):
                values = {"now": 1, "owner": "x", "target": "inbox", "conversation_id": conversation, "limit": 1}
                sql = narrowed(queries("sqlite", Naming())[name], values)
                plan = db.execute(f"explain query plan {sql}", values).fetchall()
                assert any(index in str(step[3]) for step in plan)

    @pytest.mark.parametrize("more", [{}, {"statuses": ("paused",)}, {"root_id": "r", "target": "x"}])
    async def test_a_key_is_found_by_its_index(self, file: SqliteStore, path: str, more: dict[str, Any]) -> None:
        values = search_values(AlarmQuery(owner="ada", key="k", **more))
        with other_program(path) as db:
            sql = narrowed(queries("sqlite", Naming())["find"], values)
            plan = db.execute(f"explain query plan {sql}", values).fetchall()
        assert any("alarms_idempotency_idx (owner_did=? AND idempotency_key=?)" in str(step[3]) for step in plan), plan

    async def test_text_is_found_in_any_case_of_any_language(self, file: SqliteStore, clock: ManualClock) -> None:
        await added(file, an_alarm(clock, label="ÜBER Straße"))
        assert len(await file.find(AlarmQuery(text="über STRASSE"))) == 1

    async def test_a_policy_with_a_field_of_a_newer_wakeful_can_be_read(
        self, file: SqliteStore, path: str, clock: ManualClock
    ) -> None:
        alarm = an_alarm(clock)
        await added(file, alarm)
        ask(path, "update alarms set policy = ?", '{"jitter": 4.0, "mood": "good"}')
        [leased] = await claimed(file, lease=timedelta(seconds=1))
        assert leased.policy.jitter == 4.0
