"""Chronos's data model, column by column: the table, its indexes, and an alarm as agents see it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import apsw
import msgspec
import pytest

from tests.interfaces.world import serving
from wakeful.errors import StoreUnavailable
from wakeful.ids import Ids
from wakeful.model.alarm import Alarm
from wakeful.service import views
from wakeful.store import Store
from wakeful.testing import NEW_YEAR, ManualClock

from .chronos_world import DID, USER, Chronos, Here, an_alarm, chronos_in, here_on, store_on


@pytest.fixture
def chronos(pg_dsn: str) -> Iterator[Chronos]:
    with chronos_in(pg_dsn) as chronos:
        yield chronos


@pytest.fixture
def on_postgres(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Here]:
    with here_on("postgres", request, tmp_path) as here:
        here.ask(lambda store: store.migrate())
        yield here


@pytest.fixture
def on_sqlite(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Here]:
    with here_on("sqlite", request, tmp_path) as here:
        here.ask(lambda store: store.migrate())
        yield here


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with store_on(request.param, request, tmp_path, ManualClock()) as store:
        yield store


def columns(chronos: Chronos, schema: str) -> dict[str, tuple[str, str, str | None]]:
    """By name: type, whether it may be NULL, and what it is when an insert leaves it out."""
    rows = chronos.sql(
        "select column_name, data_type, is_nullable, column_default from information_schema.columns"
        " where table_schema = $1 and table_name = 'alarms'",
        schema,
    )
    return {name: (kind, nullable, default) for name, kind, nullable, default in rows}


# Defaults too, but others: ids that sort by when, and moments cut to what wakeful keeps.
OURS_TO_SET = ("id", "created_at", "updated_at")


def test_every_column_is_there_in_postgresql_with_its_type_and_default(chronos: Chronos, on_postgres: Here) -> None:
    theirs, ours = (columns(chronos, schema) for schema in (chronos.schema, on_postgres.given["schema"]))
    assert len(theirs) == 21
    for name, (kind, nullable, default) in theirs.items():
        if name == "payload":  # kept byte for byte
            kind, default = "json", "'{}'::json"
        if name in OURS_TO_SET:
            assert (ours[name][:2], ours[name][2] is not None) == ((kind, nullable), True), name
        else:
            assert ours[name] == (kind, nullable, default), name


def test_every_column_is_there_in_sqlite_with_its_type_and_default(chronos: Chronos, on_sqlite: Here) -> None:
    kinds = {"uuid": "TEXT", "text": "TEXT", "jsonb": "TEXT", "integer": "INTEGER"}
    kinds["timestamp with time zone"] = "INTEGER"  # milliseconds
    db = apsw.Connection(on_sqlite.given["db"])
    ours = {name: rest for _, name, *rest in db.execute("pragma table_info(alarms)")}
    db.close()
    for name, (kind, nullable, default) in columns(chronos, chronos.schema).items():
        found_kind, required, found_default, _ = ours[name]
        assert (found_kind, required) == (kinds[kind], nullable == "NO"), name
        wanted = None if default is None else re.sub(r"::\w+$", "", default)
        assert found_default == wanted or (name in OURS_TO_SET and found_default), name


def test_its_three_indexes_are_there_and_the_due_one_begins_with_the_target(on_postgres: Here, on_sqlite: Here) -> None:
    """Each target is looked up on its own: the backlog of one is never read for another."""
    chronos = Chronos(on_postgres.given["db"], on_postgres.given["schema"])
    found = chronos.sql("select indexname, indexdef from pg_indexes where schemaname = $1", chronos.schema)
    postgres = {name: re.sub(r"^.* USING btree ", "", sql) for name, sql in found}
    assert postgres["alarms_due_idx"] == "(target, next_fire_at) WHERE (status = 'active'::text)"
    assert postgres["alarms_owner_idx"].startswith("(owner_did, created_at DESC")
    assert postgres["alarms_idempotency_idx"] == "(owner_did, idempotency_key) WHERE (idempotency_key <> ''::text)"
    assert "CREATE UNIQUE INDEX alarms_idempotency_idx" in str(found)

    db = apsw.Connection(on_sqlite.given["db"])
    rows = db.execute("select name, sql from sqlite_master where type = 'index' and sql is not null")
    sqlite = {name: sql.lower() for name, sql in rows}
    db.close()
    assert sqlite["alarms_due_idx"].endswith("alarms (target, next_fire_at) where status = 'active'")
    assert "alarms (owner_did, created_at desc" in sqlite["alarms_owner_idx"]
    assert sqlite["alarms_idempotency_idx"].startswith("create unique index")
    assert sqlite["alarms_idempotency_idx"].endswith("(owner_did, idempotency_key) where idempotency_key <> ''")


@pytest.mark.parametrize("wrong", [{"kind": "weekly"}, {"status": "pending"}])
async def test_the_table_itself_refuses_a_kind_or_status_that_is_none(store: Store, wrong: dict[str, Any]) -> None:
    with pytest.raises(StoreUnavailable):
        await store.add([an_alarm(ManualClock(), **wrong)])


@pytest.mark.parametrize("status", ["active", "fired", "cancelled", "failed"])
async def test_the_table_holds_each_status_of_the_page(store: Store, status: Any) -> None:
    alarm = an_alarm(ManualClock(), status=status)
    await store.add([alarm])
    assert await store.get(alarm.id) == alarm


def test_ids_are_uuids_made_by_wakeful_and_sort_by_when() -> None:
    ids = Ids()
    made = [ids.new(NEW_YEAR + timedelta(milliseconds=n // 4)) for n in range(100)]
    assert {UUID(id).version for id in made} == {7}
    assert made == sorted(set(made))


# The View of the page: its fields in order, and which of them Go leaves out when they are empty.
VIEW = {
    "id": False,
    "label": False,
    "kind": False,
    "cron_expr": True,
    "timezone": True,
    "next_fire_at": True,
    "conversation_id": True,
    "wake_message": False,
    "payload": True,
    "status": False,
    "idempotency_key": True,
    "max_failures": False,
    "failure_count": False,
    "last_error": True,
    "created_at": False,
    "last_fired_at": True,
}


def view_of(alarm: Alarm) -> dict[str, Any]:
    """ViewOf, as the page has it."""
    values: dict[str, Any] = {name: getattr(alarm, name) for name in VIEW}
    values["payload"] = alarm.payload
    if alarm.status != "active":
        values["next_fire_at"] = None
    return {name: value for name, value in values.items() if not (VIEW[name] and value in (None, ""))}


def shown(alarm: Alarm) -> dict[str, Any]:
    """What wakeful's JSON has under the names of the View."""
    told = msgspec.json.decode(views.encode(views.view(alarm)))
    return {
        name: datetime.fromisoformat(value) if name.endswith("_at") else value
        for name, value in told.items()
        if name in VIEW
    }


FULL: dict[str, Any] = {
    "label": "daily portfolio summary",
    "kind": "cron",
    "fire_at": None,
    "cron_expr": "0 9 * * 1-5",
    "timezone": "Europe/Berlin",
    "conversation_id": "c1",
    "payload_json": '{"b":  1, "a": [null]}',
    "idempotency_key": "k",
    "max_failures": 3,
    "failure_count": 2,
    "last_error": "router returned 503",
    "last_fired_at": NEW_YEAR,
}


@pytest.mark.parametrize("given", [{}, FULL, {"label": "", "wake_message": ""}], ids=["plain", "full", "empty"])
@pytest.mark.parametrize("status", ["active", "fired", "cancelled", "failed"])
def test_an_alarm_is_shown_as_the_view_field_by_field(given: dict[str, Any], status: str) -> None:
    alarm = an_alarm(ManualClock(), status=status, **given)
    assert shown(alarm) == view_of(alarm)
    assert ("next_fire_at" in shown(alarm)) == (status == "active")


def test_the_view_passes_payload_message_and_ids_through_verbatim() -> None:
    alarm = an_alarm(
        ManualClock(), payload_json='{"b":  1, "a":[ ]}', wake_message="  two\n spaces ", conversation_id=" c "
    )
    told = views.encode(views.view(alarm))
    assert b'"payload":{"b":  1, "a":[ ]}' in told
    assert shown(alarm) | {"wake_message": "  two\n spaces ", "conversation_id": " c ", "id": alarm.id} == shown(alarm)


async def test_over_http_an_alarm_has_the_fields_of_the_view_through_its_life(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "wakeful.db"), owner=DID) as visit:
        asked = {"kind": "once", "delay_seconds": 3600, "wake_message": "wake up", "idempotency_key": "k"}
        made = (await visit("POST", "/v1/alarms", asked)).json
        alarm = await visit.alarms.get(made["id"])
        assert (alarm.user_id, made["status"]) == (USER, "active")
        for answer in (made, (await visit("GET", f"/v1/alarms/{alarm.id}")).json):
            assert {name for name in answer if name in VIEW} == set(view_of(alarm))
        [listed] = (await visit("GET", "/v1/alarms")).json["alarms"]
        assert {name for name in listed if name in VIEW} == set(view_of(alarm))
        for repeated in (asked, asked | {"wake_message": "other", "on_conflict": "return"}):
            again = (await visit("POST", "/v1/alarms", repeated)).json
            assert (again["id"], again["deduped"], again["wake_message"]) == (alarm.id, True, "wake up")
        # Not as Chronos does it: said in docs/seeds/chronos.md.
        assert (await visit("POST", "/v1/alarms", asked | {"wake_message": "other"})).status == 409
        ended = (await visit("DELETE", f"/v1/alarms/{alarm.id}")).json
        assert ended["status"] == "cancelled"
        assert "next_fire_at" not in ended
