"""A version opens a newer schema, and refuses only what the ledger of migrations says that it cannot use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import wakeful
from tests.databases import database_of
from wakeful.errors import InvalidConfig, StoreUnavailable
from wakeful.service.diagnosis import database
from wakeful.store import Store
from wakeful.store.copying import CopyEnd
from wakeful.store.copying.move import move
from wakeful.store.copying.sqlite import SqliteTables
from wakeful.store.queries import CLOSED, CONTRACT, Dialect, Migration, Naming, migrations
from wakeful.store.sqlite import SqliteStore
from wakeful.testing import ManualClock
from wakeful.testing.conformance import Outbox
from wakeful.testing.conformance.making import added, an_alarm, done, one_claimed, settled, stored

NEXT = migrations("sqlite", Naming())[-1].version + 1
Newer = Callable[..., None]


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> Newer:
    """From now on the stores are those of the next version, whose migration adds a column."""

    def begin(*, breaks: bool = False) -> None:
        def steps(dialect: Dialect, naming: Naming) -> list[Migration]:
            known = migrations(dialect, naming)
            sql = naming.fill("alter table {t}alarms add column colour text not null default ''")
            return [*known, Migration(NEXT, f"{NEXT:04}-colour", sql, NEXT if breaks else known[-1].oldest)]

        for module in ("sqlite", "postgres.migrate", "postgres.maintenance", "sqlite.maintenance"):
            monkeypatch.setattr(f"wakeful.store.{module}.migrations", steps)

    return begin


@pytest.fixture
def database_place(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """The arguments of `wakeful.open` for an empty database of its own."""
    return database_of(request, tmp_path)


def ledger(outbox: Outbox) -> str:
    schema, dot, _ = outbox.table.rpartition(".")
    return f"{schema}{dot}wakeful_migrations"


async def test_an_older_version_opens_reads_and_writes_a_newer_schema(
    store: Store, outbox: Outbox, clock: ManualClock, newer: Newer, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = an_alarm(clock)
    await added(store, before)
    newer()
    assert await store.migrate() == [f"{NEXT:04}-colour"]
    monkeypatch.undo()
    assert await store.migrate() == []
    claimed = await one_claimed(store)
    assert await settled(store, done(claimed)) == ["applied"]
    after = an_alarm(clock, due=60)
    await added(store, after)
    assert await stored(store, after) == after
    found = await store.maintenance.inspect()
    assert (found.schema, found.needed) == (NEXT, CONTRACT)
    assert [one.state for one in database(found, "here")] == ["ok", "ok", "ok"]
    newer()
    assert await store.migrate() == []


async def test_a_step_that_breaks_older_versions_closes_the_database_to_them(
    store: Store, newer: Newer, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer(breaks=True)
    assert await store.migrate() == [f"{NEXT:04}-colour"]
    assert await store.migrate() == []
    monkeypatch.undo()
    with pytest.raises(InvalidConfig, match=f"must know schema {NEXT}"):
        await store.migrate()
    assert database(await store.maintenance.inspect(), "here")[1].state == "fail"


async def test_a_database_that_is_closed_is_refused_whatever_the_ledger_says_of_older_versions(
    store: Store, outbox: Outbox, newer: Newer, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer()
    await store.migrate()
    await outbox.run(
        f"insert into {ledger(outbox)} (service, version, applied_at) values ('wakeful', {CLOSED}, '2030-01-01')"
    )
    with pytest.raises(InvalidConfig, match="was closed"):
        await store.migrate()
    monkeypatch.undo()
    with pytest.raises(InvalidConfig, match="was closed"):
        await store.migrate()


async def test_a_newer_number_without_a_word_on_older_versions_is_refused(store: Store, outbox: Outbox) -> None:
    await outbox.run(f"delete from {ledger(outbox)} where service = 'wakeful-oldest'")
    await outbox.run(
        f"insert into {ledger(outbox)} (service, version, applied_at) values ('wakeful', {NEXT}, '2030-01-01')"
    )
    with pytest.raises(InvalidConfig, match="newer wakeful"):
        await store.migrate()


def test_a_step_says_in_its_first_line_that_it_breaks_older_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = tmp_path / "migrations"
    steps.mkdir()
    for number, text in {
        1: "select 1",
        CONTRACT: "select 1",
        CONTRACT + 1: "select 1",
        CONTRACT + 2: "-- breaks older versions: they cannot read it\nselect 1",
        CONTRACT + 7: "select 1",
    }.items():
        (steps / f"{number:04}-x.sqlite.sql").write_text(text)
    monkeypatch.setattr("wakeful.store.queries._SQL", tmp_path)
    assert [step.oldest for step in migrations("sqlite", Naming())] == [
        *(1, CONTRACT, CONTRACT),
        *(CONTRACT + 2, CONTRACT + 2),
    ]


@pytest.mark.parametrize("database_place", ["sqlite", "postgres"], indirect=True)
async def test_a_program_whose_database_is_refused_leaves_no_connection_open(
    database_place: dict[str, Any], newer: Newer, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer(breaks=True)
    async with wakeful.open(**database_place) as alarms:
        await alarms.stats()
    monkeypatch.undo()
    refused = wakeful.open(**database_place)
    with pytest.raises(InvalidConfig, match=f"must know schema {NEXT}"):
        await refused.__aenter__()
    with pytest.raises(StoreUnavailable, match="closed"):
        await refused.stats()


async def test_a_version_does_not_move_what_it_knows_only_in_part(
    clock: ManualClock, newer: Newer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def end(name: str) -> CopyEnd:
        path = str(tmp_path / name)
        store = SqliteStore(path, clock=clock)
        return CopyEnd(path, store, lambda: SqliteTables(path, Naming(), now=clock.now()), file=path)

    source, target = end("from.db"), end("to.db")
    await source.store.migrate()
    await added(source.store, an_alarm(clock))
    newer()
    await source.store.migrate()
    monkeypatch.undo()
    with pytest.raises(InvalidConfig, match="it would lose some"):
        await move(source, target, by="ada", now=clock.now(), watch=lambda _: lambda _: None)
    assert await source.closed() is None
    await source.close()
    await target.close()
