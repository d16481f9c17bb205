"""What a store's errors say of whose fault it is: a machine that is short of something, or what was to be written."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from wakeful.errors import StoreUnavailable
from wakeful.store.sqlite.file import describe


def told(error: apsw.Error) -> StoreUnavailable:
    said = describe(error, "wakeful.db")
    assert isinstance(said, StoreUnavailable)
    return said


def test_a_file_that_cannot_be_opened_or_may_not_grow_is_the_machines_fault(tmp_path: Path) -> None:
    with pytest.raises(apsw.CantOpenError) as cannot_open:
        apsw.Connection(str(tmp_path / "nowhere" / "wakeful.db"))
    db = apsw.Connection(str(tmp_path / "wakeful.db"))
    db.execute("create table t (x); pragma max_page_count = 2")
    with pytest.raises(apsw.FullError) as full:
        db.execute("insert into t values (zeroblob(100000))")
    with pytest.raises(apsw.SQLError) as wrong:
        db.execute("select * from nothing")
    db.close()
    assert told(cannot_open.value).by_machine
    assert told(full.value).by_machine
    assert not told(wrong.value).by_machine


@pytest.mark.parametrize(("state", "by_machine"), [("53100", True), ("53200", True), ("58030", True), ("0A000", False)])
async def test_a_server_without_room_or_memory_is_the_machines_fault(pg_dsn: str, state: str, by_machine: bool) -> None:
    from wakeful.store.postgres.database import Database

    database = Database(pg_dsn, pool_size=1, pgbouncer=False)
    with pytest.raises(StoreUnavailable) as refused:
        await database.run(
            lambda connection, again: connection.execute(
                f"do $$ begin raise exception 'so it is' using errcode = '{state}'; end $$"
            )
        )
    await database.close()
    assert refused.value.by_machine is by_machine
