"""Looking a SQLite file over: what it is, and whether it is sound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import apsw

from wakeful.store.inspection import IMPOSSIBLE, Inspection
from wakeful.store.queries import Naming, migrations
from wakeful.store.sqlite.schema import ledger_of


def inspected(db: apsw.Connection, *, naming: Naming, sql: Mapping[str, str], ahead: int, thorough: bool) -> Inspection:
    about: list[Any] = db.execute(sql["engine"]).fetchall()
    [(engine, size)] = about
    ledger, known = ledger_of(db, naming), migrations("sqlite", naming)[-1].version
    broken = _broken(db, sql["broken" if thorough else "broken_quickly"])
    impossible: dict[str, int] = {}
    if thorough and ledger.applied and not broken:  # the counts of a damaged file prove nothing
        counts: list[Any] = db.execute(sql["impossible"], {"ahead": ahead}).fetchall()
        impossible = dict(zip(IMPOSSIBLE, counts[0], strict=True))
    return Inspection(
        engine=engine,
        size=size,
        schema=ledger.version,
        needed=ledger.needed,
        known=known,
        broken=broken,
        impossible=impossible,
    )


def _broken(db: apsw.Connection, sql: str) -> tuple[str, ...]:
    said: list[str] = []
    try:
        said.extend(problem for (problem,) in db.execute(sql))
    except apsw.CorruptError as error:  # worse than the check can describe; it may have told of something before
        said.append(str(error))
    return tuple(said)
