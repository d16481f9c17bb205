"""`export` and `import file`: every field comes back, in either store, and nothing that was settled fires again."""

from __future__ import annotations

import json
import stat
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict, fields, replace

from tests.interfaces.pty_world import on_a_terminal, piped
from tests.store.copying_world import Databases, an_alarm, end_of
from wakeful.model.alarm import Alarm, Attempt, Change, Fire, Policy
from wakeful.store import AlarmQuery, FireQuery, Store
from wakeful.transfer.json_lines import FORMAT, VERSION, Header, ImportResult, bring_in, exported, read_alarms

STORES = ["sqlite", "postgres"]
PAST = datetime(2026, 3, 1, 12, tzinfo=UTC)
FAR = datetime(2099, 1, 1, tzinfo=UTC)
LEASE = timedelta(seconds=60)
# A field that is left out here would not be tried.
EVERY_FIELD: dict[str, Any] = {
    "label": "ä\N{SNOWMAN}",
    "kind": "cron",
    "fire_at": None,
    "cron_expr": "@every 90m",
    "timezone": "Europe/Berlin",
    "conversation_id": "c",
    "payload_json": '{"b": 1,  "a": "é"}',
    "status": "paused",
    "idempotency_key": "k",
    "max_failures": 3,
    "failure_count": 2,
    "last_error": "HTTP 503",
    "last_fired_at": PAST,
    "target": "desk",
    "occurrence_at": FAR - timedelta(minutes=5),
    "claim": 7,
    "unsettled": 1,
    "version": 4,
    "awaiting": PAST,
    "policy": Policy(catch_up="skip", anchor=PAST, ends_at=FAR, report_within=60.0, max_fires=9),
    "fire_count": 5,
    "failed_in_a_row": 1,
    "created_by": "eve",
    "created_via": "mcp",
    "paused_reason": "later",
    "cancelled_at": PAST,
    "isolated": True,
    "parent_fire": "x@1",
    "root_id": "r",
    "generation": 2,
}


def full_alarms() -> tuple[Alarm, Alarm]:
    """A series with every field of one, and a one-shot with what only a one-shot has."""
    series = an_alarm(FAR, **EVERY_FIELD, user_id="u")
    once = an_alarm(FAR, timezone="Europe/Berlin", wall_time="2099-01-01T01:00:00")
    given = {"id", "owner_did", "wake_message", "next_fire_at", "created_at", "updated_at", "fire_at", "claimed_at"}
    others = [one for one in fields(Alarm) if one.name not in given]
    assert [one.name for one in others if getattr(series, one.name) == one.default] == ["wall_time"]
    assert once.wall_time
    return series, once


def full_fire(alarm: Alarm) -> Fire:
    return Fire(
        alarm_id=alarm.id,
        scheduled_for=alarm.occurrence_at,
        owner_did=alarm.owner_did,
        target=alarm.target,
        status="retrying",
        reason="r",
        attempts=2,
        failures=2,
        started_at=PAST,
        delivered_at=PAST,
        report_by=FAR,
        completed_at=PAST,
        duration_ms=12,
        result="RETRY",
        last_error="HTTP 503",
        log=(Attempt(PAST, 12, "HTTP 503"),),
        through=PAST,
        count=3,
        updated_at=PAST,
    )


def settled(alarm: Alarm) -> Fire:
    return Fire(
        alarm_id=alarm.id,
        scheduled_for=alarm.occurrence_at,
        owner_did=alarm.owner_did,
        target=alarm.target,
        status="completed",
        attempts=1,
        updated_at=PAST,
    )


@pytest.fixture
async def databases(tmp_path: Path, pg_dsn: str) -> AsyncIterator[Databases]:
    made = Databases(tmp_path, pg_dsn)
    yield made
    await made.drop()


async def lines_of(store: Store, *, fires: bool = True, owner: str = "") -> list[bytes]:
    header = Header(format=FORMAT, version=VERSION, wakeful="1", at=PAST, source="x", owner=owner, fires=fires)
    return [line async for line in exported(store, header)]


async def brought(store: Store, lines: list[bytes]) -> ImportResult:
    result = ImportResult()
    await bring_in(store, read_alarms(lines[1:], result.note), result, seen=lambda count: None)
    return result


async def everything(store: Store) -> tuple[dict[str, Any], dict[str, Fire]]:
    alarms = await store.find(AlarmQuery(limit=1000))
    found = await store.fires(FireQuery(limit=1000))
    return {one.id: asdict(replace(one, claimed_at=None)) for one in alarms}, {one.id: one for one in found}


async def put(store: Store, alarm: Alarm, *found: Fire) -> None:
    await store.add([alarm])
    change = Change(claim=alarm.claim, version=alarm.version, after=alarm, fires=found)
    assert [answer.what for answer in await store.settle([change])] == ["applied"]


@pytest.mark.parametrize(("source", "target"), [(one, other) for one in STORES for other in STORES])
async def test_every_field_comes_back_and_nothing_settled_fires_again(
    databases: Databases, source: str, target: str
) -> None:
    (full, once), due = full_alarms(), an_alarm(PAST)
    done = an_alarm(PAST, status="fired", fire_count=1, last_fired_at=PAST)
    async with end_of(databases.new(source)) as end:
        await put(end.store, full, full_fire(full))
        await put(end.store, done, settled(done))
        await end.store.add([once, due])
        assert len((await end.store.claim({"desk": 1}, lease=LEASE)).alarms) == 1  # in flight while it is exported
        lines, before = await lines_of(end.store), await everything(end.store)
    async with end_of(databases.new(target, "other")) as end:
        result = await brought(end.store, lines)
        assert (result.imported, result.there_already, result.due, result.left) == (4, 0, 1, [])
        assert await everything(end.store) == before
        assert before[0][once.id]["wall_time"] == once.wall_time
        [claimed] = (await end.store.claim({"desk": 10}, lease=LEASE)).alarms
        assert claimed.fire_id == due.fire_id  # at least once, under the id it had
        again = await brought(end.store, lines)
        assert (again.imported, again.there_already) == (0, 4)
        still = await end.store.get(due.id)
        assert still is not None
        assert still.claimed_at is not None  # as it is here, not as it was there


@pytest.mark.parametrize("kind", STORES)
async def test_without_fires_those_come_along_that_are_still_open(databases: Databases, kind: str) -> None:
    (full, once), done = full_alarms(), an_alarm(PAST, status="fired", fire_count=1, last_fired_at=PAST)
    async with end_of(databases.new(kind)) as end:
        await put(end.store, full, full_fire(full))
        await put(end.store, done, settled(done))
        await end.store.add([once])
        told = [json.loads(line) for line in await lines_of(end.store, fires=False)]
        assert [one["fire"]["status"] for one in told if "fire" in one] == ["retrying"]
        assert told[-1] == {"end": {"alarms": 3, "fires": 1}}
        assert len(await lines_of(end.store, owner="eve")) == 2  # nothing of others


@pytest.mark.parametrize("kind", STORES)
async def test_a_key_that_is_taken_here_is_told_with_its_line(databases: Databases, kind: str) -> None:
    here, there = an_alarm(FAR, idempotency_key="k"), an_alarm(FAR, idempotency_key="k")
    async with end_of(databases.new(kind)) as end:
        await end.store.add([there])
        lines = await lines_of(end.store)
    async with end_of(databases.new(kind, "other")) as end:
        await end.store.add([here])
        result = await brought(end.store, lines)
        assert result.imported == 0
        assert [(one.line, one.reason) for one in result.left] == [(2, f"alarm {here.id} already has the key 'k' here")]


# Through the real program


def test_a_bad_line_is_named_and_nothing_is_imported(tmp_path: Path) -> None:
    source, target = {"WAKEFUL_DB": "a.db"}, {"WAKEFUL_DB": "b.db"}
    for message in ("one", "two"):
        piped("at", "2099-01-01T00:00:00Z", message, cwd=tmp_path, env=source)
    told = piped("export", "out.jsonl", cwd=tmp_path, env=source)[0]
    assert told == "file\tout.jsonl\nalarms\t2\nfires\t0\n"
    file = tmp_path / "out.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "exists" in piped("export", "out.jsonl", cwd=tmp_path, env=source, code=4)[1]
    assert sorted(path.name for path in tmp_path.iterdir() if "jsonl" in path.name) == ["out.jsonl"]
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], lines[1].replace("once", "twice"), *lines[2:]]) + "\n")
    refused = piped("import", "file", "out.jsonl", cwd=tmp_path, env=target, code=2)[1]
    assert refused.startswith("error: FILE: 1 bad line: line 2: it cannot be read (Invalid enum value 'twice'")
    assert refused.endswith("Nothing was imported. --skip-bad leaves them out.\n")
    assert not (tmp_path / "b.db").exists()
    some = piped("import", "file", "out.jsonl", "--skip-bad", "--json", cwd=tmp_path, env=target, code=1)[0]
    assert (json.loads(some)["imported"], json.loads(some)["left"][0]["line"]) == (1, 2)
    assert piped("ls", cwd=tmp_path, env=target)[0].count("\n") == 1


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda lines: lines[1:], "its first line says nothing of that"),
        (lambda lines: lines[:-1], "line 3: the file ends early"),
        (lambda lines: [lines[0], lines[2]], "line 2: the file is not complete"),
        (lambda lines: [lines[0].replace('"version":1', '"version":2'), *lines[1:]], "it has version 2 of the format"),
        (lambda lines: [lines[0], '{"fire":{}}', *lines[1:]], "line 2: it cannot be read"),
        (lambda lines: [lines[0], lines[1].replace("UTC", "Mars/Base"), lines[2]], "line 2: timezone: "),
        (lambda lines: [lines[0], lines[1].replace("wake_message", "x"), lines[2]], "line 2: "),
    ],
)
def test_a_file_that_is_not_whole_or_not_ours_is_refused(tmp_path: Path, change: Any, what: str) -> None:
    env = {"WAKEFUL_DB": "a.db"}
    piped("every", "day at 9am", "x", cwd=tmp_path, env=env)
    lines = piped("export", cwd=tmp_path, env=env)[0].splitlines()
    (tmp_path / "out.jsonl").write_text("\n".join(change(lines)) + "\n")
    assert what in piped("import", "file", "out.jsonl", "--db", "b.db", cwd=tmp_path, code=2)[1]
    assert not (tmp_path / "b.db").exists()


def test_a_terminal_sees_how_far_it_is(tmp_path: Path) -> None:
    env = {"WAKEFUL_DB": "a.db"}
    piped("every", "day at 9am", "x", cwd=tmp_path, env=env)
    assert "0/1" in on_a_terminal("export", "out.jsonl", cwd=tmp_path, env=env).raw
    assert "0/1" in on_a_terminal("import", "file", "out.jsonl", "--db", "b.db", cwd=tmp_path).raw
