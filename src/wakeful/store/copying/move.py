"""Moving from one database to another, so that nothing is lost and nothing fires from both.

The old one is fenced first: whoever has it open can write nothing any more, and nobody opens it. The new one cannot be
opened until all is there and was compared. A move that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import secrets
from datetime import datetime

from msgspec import Struct

from wakeful.errors import Conflict, InvalidRequest
from wakeful.store.copying import (
    TABLES,
    CopyEnd,
    TableSum,
    Watch,
    check_copied_whole,
    copy_table,
    table,
    total,
    verified,
)
from wakeful.store.maintenance import keep_first_edition
from wakeful.store.queries import Naming, Transfer, migrations, refused


class Moved(Struct, frozen=True, kw_only=True):
    """`again`: it was moved before, and nothing was left to do. `task_table` is known, but not in the new database."""

    sums: dict[str, TableSum]
    resumed: bool = False
    again: bool = False
    task_table: str = ""


async def move(source: CopyEnd, target: CopyEnd, *, by: str, now: datetime, watch: Watch) -> Moved:
    if source.name == target.name:
        raise InvalidRequest(f"{target.name} is where it is already", field="--to", fix="Name another database.")
    if not source.is_there:
        raise InvalidRequest(f"there is no file {source.name}", field="db", fix="Name the database to move.")
    leaving = await _source_state(source, target)
    arriving = await target.closed()
    resumed = leaving is not None and arriving is not None and arriving.id == leaving.id
    if leaving is not None and leaving.state == "left" and not resumed:
        return Moved(sums={}, again=True)
    if not resumed:
        await _check_target(source, target, arriving)
    if leaving is None:
        leaving = Transfer(id=secrets.token_hex(8), state="leaving", other=target.name, at=_text(now))
        await source.check_nobody_dispatches()
        await _check_ids(source, target)
        await _fence(source, leaving)
    if not resumed:
        await _close_target(target, Transfer(id=leaving.id, state="arriving", other=source.name, at=_text(now)))
    seen = watch(2 * await total(source.tables))
    for one in TABLES:
        await copy_table(source.tables, target.tables, one, seen)
    sums = await verified(source.tables, target.tables, seen)
    return await _hand_over(source, target, leaving, Moved(sums=sums, resumed=resumed), by=by)


async def _source_state(source: CopyEnd, target: CopyEnd) -> Transfer | None:
    """The move that was begun before, if one was; any other reason to be closed is one not to be moved."""
    closed = await source.closed()
    if closed is None:
        await source.store.migrate()  # both have the same tables then
        await check_copied_whole(source.tables, migrations("sqlite", Naming())[-1].version, source.name)
        return None
    if closed.state not in ("leaving", "left"):
        raise refused(closed)
    if closed.other != target.name:
        if closed.state == "left":
            raise refused(closed)
        raise Conflict(
            f"{source.name} is being moved to {closed.other}",
            fix="Finish that with --to of that database, or call it off with --abandon.",
        )
    return closed


async def _check_target(source: CopyEnd, target: CopyEnd, arriving: Transfer | None) -> None:
    if arriving is not None:
        # Half a copy that a move called off has left: nobody could open it since.
        if arriving.state != "arriving" or arriving.other != source.name:
            raise refused(arriving)
        return
    await target.store.migrate()
    await target.check_nobody_dispatches()
    if there := await target.in_use():
        counts = ", ".join(f"{name}: {count}" for name, count in there.items())
        raise Conflict(f"{target.name} is not empty ({counts})", fix="Move into an empty database.")


async def _check_ids(source: CopyEnd, target: CopyEnd) -> None:
    """Before anything is closed: another program may have given its own ids to alarms in a SQLite file."""
    for name, column in (("alarms", "id"), ("fires", "alarm_id")):
        async for rows in source.tables.rows(table(name), (column,)):
            target.tables.check_ids(id for (id,) in rows)


async def _fence(source: CopyEnd, leaving: Transfer) -> None:
    tables = source.tables
    async with tables.transaction():
        await tables.run("set_transfer", value=leaving.encoded())
        await tables.fence(f"this database was moved to {leaving.other}")


async def _close_target(target: CopyEnd, arriving: Transfer) -> None:
    tables = target.tables
    async with tables.transaction():
        for one in TABLES:
            await tables.clear(one)
        await tables.run("set_transfer", value=arriving.encoded())
        await tables.refuse_to_open()


async def _hand_over(source: CopyEnd, target: CopyEnd, leaving: Transfer, moved: Moved, *, by: str) -> Moved:
    """The old one is left for good before the new one is opened: stopped in between, neither of them fires."""
    left = Transfer(id=leaving.id, state="left", other=leaving.other, at=leaving.at)
    await source.tables.run("set_transfer", value=left.encoded())
    tables, now = target.tables, await target.store.now()
    async with tables.transaction():
        await target.take_up("moved", f"from {source.name}", by=by, now=now)
        await tables.run("end_transfer")
        await tables.lift_fence()
    await keep_first_edition(target.store.maintenance)
    missing = await target.missing_task_table()
    return Moved(sums=moved.sums, resumed=moved.resumed, task_table=missing)


async def abandon(source: CopyEnd) -> Transfer:
    """Go on with the old database; what was copied so far stays closed."""
    closed = await source.closed()
    if closed is None or closed.state != "leaving":
        raise Conflict(
            f"{source.name} is not being moved" if closed is None else refused(closed).message,
            fix="Only a move that is not complete can be called off.",
        )
    async with source.tables.transaction():
        await source.tables.lift_fence()
        await source.tables.run("end_transfer")
    return closed


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
