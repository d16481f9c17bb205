"""Looking a PostgreSQL database over: what it is, and whether it is sound as far as it tells."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from wakeful.store.inspection import IMPOSSIBLE, Inspection
from wakeful.store.postgres.migrate import Migrator
from wakeful.store.queries import Naming, migrations

if TYPE_CHECKING:
    from wakeful.store.postgres.database import Connection

_AT_LENGTH: Final = 3600.0  # seconds that counting through every row may take


async def inspected(
    connection: Connection, naming: Naming, sql: Mapping[str, str], *, ahead: datetime, thorough: bool
) -> Inspection:
    [(engine, size)] = await connection.fetch(sql["engine"])
    ledger, known = await Migrator(naming).ledger(connection), migrations("postgres", naming)[-1].version
    impossible: dict[str, int] = {}
    if thorough and ledger.applied:
        [counts] = await connection.fetch(sql["impossible"], ahead, timeout=_AT_LENGTH)
        impossible = dict(zip(IMPOSSIBLE, counts, strict=True))
    return Inspection(
        engine=engine,
        size=size,
        schema=ledger.version,
        needed=ledger.needed,
        known=known,
        broken=tuple(row[0] for row in await connection.fetch(sql["broken"])),
        impossible=impossible,
    )
