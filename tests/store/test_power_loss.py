"""The power is cut at any moment, and every alarm that was acknowledged is still there.

A VFS records each write, truncation and sync of the database and its log. For every prefix of that record the files
are built as a disk might hold them after the cut: what was synced is there, of what was not any part may be missing.
kill -9 cannot show a missing sync; this can, and the last test proves it by taking the sync away.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest
from msgspec import Struct

from wakeful.store.sqlite import SqliteStore
from wakeful.store.sqlite import file as sqlite_file
from wakeful.testing import ManualClock
from wakeful.testing.conformance.making import an_alarm, claimed, done

ALARMS = 12
BIG = "x" * 3000  # several pages a commit, so that a commit can be torn


class Write(Struct, frozen=True):
    file: str
    at: int
    data: bytes


class Cut(Struct, frozen=True):
    """A file made shorter."""

    file: str
    size: int


class Sync(Struct, frozen=True):
    file: str


class Acknowledged(Struct, frozen=True):
    id: str
    fired: bool = False


Step = Write | Cut | Sync | Acknowledged


class Recorder(apsw.VFS):
    """The system's own files, and a record of what is done to those that must survive."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        super().__init__("recorder", base="unix", makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        filename = name.filename() if isinstance(name, apsw.URIFilename) else name
        suffix = filename.rpartition("wakeful.db")[2] if filename else "?"
        return RecordedFile(self.steps if suffix in ("", "-wal") else [], suffix, name, flags)


class RecordedFile(apsw.VFSFile):
    def __init__(self, steps: list[Step], suffix: str, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._steps = steps
        self._suffix = suffix
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._steps.append(Write(self._suffix, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self._steps.append(Cut(self._suffix, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._steps.append(Sync(self._suffix))


@contextmanager
def recorder() -> Iterator[Recorder]:
    vfs = Recorder()
    try:
        yield vfs
    finally:
        vfs.unregister()


class Disk:
    """Two files as a disk has them: what is safe, and what was written since and may or may not be there."""

    def __init__(self) -> None:
        self.safe = {"": bytearray(), "-wal": bytearray()}
        self.loose: dict[str, list[Write | Cut]] = {"": [], "-wal": []}

    def do(self, step: Step) -> None:
        match step:
            case Write() | Cut():
                self.loose[step.file].append(step)
            case Sync(file):
                for one in self.loose[file]:
                    _apply(self.safe[file], one)
                self.loose[file].clear()

    def after_power_loss(self, chance: random.Random) -> dict[str, bytes]:
        """The safe part, and any of the rest: all of it, none of it, or some of it."""
        keep = chance.choice((0.0, 0.5, 0.9, 1.0))
        files = {name: bytearray(content) for name, content in self.safe.items()}
        for name, steps in self.loose.items():
            for step in steps:
                if chance.random() < keep:
                    _apply(files[name], step)
        return {name: bytes(content) for name, content in files.items()}


def _apply(content: bytearray, step: Write | Cut) -> None:
    if isinstance(step, Cut):
        del content[step.size :]
        return
    if len(content) < step.at:
        content.extend(bytes(step.at - len(content)))
    content[step.at : step.at + len(step.data)] = step.data


async def recorded(path: Path) -> list[Step]:
    """Alarms added one by one, some of them fired, all acknowledged; and what the files went through meanwhile."""
    clock = ManualClock()
    with recorder() as vfs:
        store = SqliteStore(str(path / "wakeful.db"), clock=clock)
        await store.migrate()
        for n in range(1, ALARMS + 1):
            alarm = an_alarm(clock, wake_message=BIG)
            await store.add([alarm])
            vfs.steps.append(Acknowledged(alarm.id))
            if n % 3 == 0:
                await store.settle([done(leased) for leased in await claimed(store)])
                vfs.steps.append(Acknowledged(alarm.id, fired=True))
            # A log that is copied back and begun anew every few commits: that is where order matters most.
            if n % 4 == 0:
                await store._writer.submit(
                    lambda db: db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART), alone=True
                )
        await store.close()
        return list(vfs.steps)


def lost_after(steps: list[Step], path: Path, *, seed: int) -> list[str]:
    """What is missing or broken, over every moment at which the power could go."""
    chance = random.Random(seed)
    disk, promised, complaints = Disk(), {}, []
    migrated = next(n for n, step in enumerate(steps) if isinstance(step, Acknowledged))
    for n, step in enumerate(steps):
        disk.do(step)
        if isinstance(step, Acknowledged):
            promised[step.id] = step.fired
        if n >= migrated:
            complaints += [f"step {n}: {what}" for what in _broken(path, disk.after_power_loss(chance), promised)]
    return complaints


def _broken(path: Path, files: dict[str, bytes], promised: dict[str, bool]) -> list[str]:
    for suffix in ("", "-wal", "-shm"):
        (path / f"cut.db{suffix}").unlink(missing_ok=True)
        if suffix in files:
            (path / f"cut.db{suffix}").write_bytes(files[suffix])
    db = apsw.Connection(str(path / "cut.db"))
    try:
        if (sound := db.execute("pragma integrity_check").fetchall()) != [("ok",)]:
            return [f"integrity: {sound[:1]}"]
        rows = {row[0]: row[1] for row in db.execute("select id, status from alarms")}
        fires = {row[0] for row in db.execute("select alarm_id from fires")}
        editions = db.execute("select version from zone_rules").fetchall()
    except apsw.Error as error:
        return [f"unreadable: {error}"]
    finally:
        db.close()
    missing = [f"{id} is lost" for id in promised if id not in rows]
    if rows and not editions:
        missing.append("the edition of the time zone data is lost")
    torn = [f"{id} has fired without its fire" for id, status in rows.items() if (status == "fired") != (id in fires)]
    undone = [f"{id} is as if it had not fired" for id, fired in promised.items() if fired and rows.get(id) == "active"]
    return missing + torn + undone


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_was_acknowledged_survives_a_power_cut_at_any_moment(tmp_path: Path, seed: int) -> None:
    steps = await recorded(tmp_path)
    assert sum(isinstance(step, Acknowledged) for step in steps) > ALARMS
    assert sum(isinstance(step, Sync) for step in steps) > ALARMS
    assert lost_after(steps, tmp_path, seed=seed) == []


@pytest.mark.parametrize("synchronous", ["normal", "off"])
async def test_without_the_sync_this_very_test_would_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synchronous: str
) -> None:
    monkeypatch.setattr(sqlite_file, "SYNCHRONOUS", synchronous)
    steps = await recorded(tmp_path)
    assert lost_after(steps, tmp_path, seed=1) != []  # lost, torn, or a file that cannot be read
