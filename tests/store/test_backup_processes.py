"""The programs themselves: a server under load is backed up, killed and restored, and whoever is woken counts."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests import commands
from wakeful.settings import Settings
from wakeful.store import AlarmQuery, FireQuery
from wakeful.store.copying import CopyEnd
from wakeful.testing.receiver import Receiver

from .copying_world import Databases, end_of, files_in
from .test_backup import pairs

SERIES, ONCE = 20, 60


@pytest.fixture
async def databases(tmp_path: Path, pg_dsn: str) -> AsyncIterator[Databases]:
    made = Databases(tmp_path, pg_dsn)
    yield made
    await made.drop()


def environ(settings: Settings) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WAKEFUL_")}
    return kept | {"WAKEFUL_DB": settings.db, "WAKEFUL_SCHEMA": settings.schema}


async def wakeful(settings: Settings, *args: str, cwd: Path, code: int = 0) -> Any:
    done = await asyncio.to_thread(commands.run, [*args, "--json"], cwd=cwd, env=environ(settings))
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if done.stdout else done.stderr


async def serving(settings: Settings, cwd: Path) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        *commands.PROGRAM, "serve", "--port", "0", cwd=cwd, env=environ(settings), stderr=-1
    )
    assert process.stderr is not None
    assert b"wakeful" in await process.stderr.readline()
    return process


@pairs
async def test_backup_kill_restore_serve_loses_nothing_and_repeats_nothing_that_was_settled(
    databases: Databases, tmp_path: Path, source: str, target: str
) -> None:
    old, new = databases.new(source), databases.new(target, "new")
    async with Receiver() as receiver:
        (tmp_path / "wakeful.toml").write_text(
            f'[targets.hook]\nkind = "webhook"\nurl = "{receiver.url}"\nallow_private = true\n'
        )
        server = await serving(old, tmp_path)
        try:
            async with end_of(old) as end:
                await _load(old, tmp_path)
                await receiver.wait_for(SERIES, timeout=60)
                made = await wakeful(old, "backup", str(tmp_path / "b.db"), cwd=tmp_path)
                at_backup = len(receiver.wakes)
                await receiver.wait_for(at_backup + SERIES, timeout=60)  # the lost database goes on
                server.send_signal(signal.SIGKILL)
                await server.wait()
                ids = {alarm.id for alarm in await end.store.find(AlarmQuery(limit=1000))}
        finally:
            if server.returncode is None:
                server.kill()
                await server.wait()
        assert made["rows"]["alarms"] == len(ids) == SERIES + ONCE
        backed_up = replace(old, db=str(tmp_path / "b.db"), schema="")
        async with end_of(backed_up) as end:
            settled = {fire.id for fire in await end.store.fires(FireQuery(limit=10_000)) if fire.delivered_at}
            alarms = {alarm.id: alarm for alarm in await end.store.find(AlarmQuery(limit=1000))}
        # A server has opened it to look: the backup itself stays as it was made.
        assert settled
        before = Counter(wake.fire_id for wake in receiver.wakes)
        restored = await wakeful(new, "restore", str(tmp_path / "b.db"), cwd=tmp_path)
        assert restored["rows"]["alarms"] == len(ids)
        seen = len(receiver.wakes)
        server = await serving(new, tmp_path)
        try:
            await receiver.wait_for(seen + 2 * SERIES, timeout=60)
            async with end_of(new) as end:
                while not await _all_once_fired(end):
                    await receiver.wait_for(len(receiver.wakes) + 1, timeout=60)
        finally:
            server.terminate()
            await server.wait()
        after = Counter(wake.fire_id for wake in receiver.wakes[seen:])
        assert not settled & set(after)  # nothing twice that was settled before the backup
        assert {fire.partition("@")[0] for fire in before + after} == ids  # nothing lost
        pending = {alarm.fire_id for alarm in alarms.values() if alarm.status == "active"}
        assert pending <= set(after)  # later ones come under the ids they had
        assert max(after.values()) == 1


async def _all_once_fired(end: CopyEnd) -> bool:
    found = await end.store.find(AlarmQuery(limit=1000))
    return not any(alarm.kind == "once" and alarm.status == "active" for alarm in found)


async def _load(settings: Settings, cwd: Path) -> None:
    """Series of one second, and single ones over the next seconds: through the library, as a program sets them."""
    import wakeful as library

    given: dict[str, Any] = {"schema": settings.schema} if settings.schema else {}
    async with library.open(settings.db, config=cwd / "wakeful.toml", **given) as alarms:
        for number in range(SERIES):
            await alarms.set("@every 1s", f"tick {number}", target="hook")
        for number in range(ONCE):
            await alarms.set(delay=0.2 + number / 5, wake_message=f"once {number}", target="hook")


async def test_the_commands_refuse_in_plain_words_and_tell_what_they_did(tmp_path: Path) -> None:
    settings = Settings(db="wakeful.db")
    missing = await wakeful(settings, "backup", "b.db", cwd=tmp_path, code=2)
    assert "there is no file" in missing
    assert files_in(tmp_path) == []
    await wakeful(settings, "at", "2099-01-01T00:00:00Z", "x", cwd=tmp_path)
    made = await wakeful(settings, "backup", "b.db", cwd=tmp_path)
    assert made["rows"]["alarms"] == 1
    there = await wakeful(settings, "backup", "b.db", cwd=tmp_path, code=4)
    assert '"b.db exists"' in there
    assert "Name another file, or give --overwrite." in there
    await wakeful(settings, "backup", "b.db", "--overwrite", cwd=tmp_path)
    assert "is not empty (alarms: 1)" in await wakeful(settings, "restore", "b.db", cwd=tmp_path, code=4)
    unasked = await wakeful(settings, "restore", "b.db", "--replace", cwd=tmp_path, code=4)
    assert "Give --yes" in unasked
    restored = await wakeful(settings, "restore", "b.db", "--replace", "--yes", cwd=tmp_path)
    assert (restored["due"], restored["missed"]) == (0, "fire")
