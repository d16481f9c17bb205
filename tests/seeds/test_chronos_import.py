"""`wakeful import chronos`: everything comes over, once, however often it is run and wherever it is cut off."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from click.testing import CliRunner, Result

from tests.faults.conftest import Process
from wakeful.cli import main
from wakeful.model.alarm import Alarm
from wakeful.moments import whole_ms
from wakeful.seeds.chronos_import import ChronosTable
from wakeful.store import Store
from wakeful.testing import ManualClock
from wakeful.transfer.takeover import PAGE

from .chronos_world import DID, USER, Chronos, Here, an_alarm, chronos_in, here_on

Import = Callable[..., Result]
ROUTER = {"wake_url": "http://127.0.0.1:9/internal/wake"}  # nobody is there: nothing is delivered here
NOW = datetime.now(UTC).replace(microsecond=123_456)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@pytest.fixture
def chronos(pg_dsn: str) -> Iterator[Chronos]:
    with chronos_in(pg_dsn) as chronos:
        yield chronos


@pytest.fixture(params=["sqlite", "postgres"])
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Here]:
    """On PostgreSQL it is the very database that Chronos's table is in, under another schema."""
    with here_on(request.param, request, tmp_path, **ROUTER) as here:
        yield here


@pytest.fixture
def bring(chronos: Chronos, here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Import:
    """Run the command, as people and scripts do."""
    monkeypatch.chdir(tmp_path)
    for name, value in here.environ.items():
        monkeypatch.setenv(name, value)

    def bring(*args: str, code: int = 0, url: str = chronos.dsn) -> Result:
        asked = ["import", "chronos", url, "--table", chronos.table, *args]
        result = CliRunner().invoke(main, asked, catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    return bring


def told(result: Result) -> Any:
    return json.loads(result.stdout)


def a_full_table(chronos: Chronos) -> None:
    """Every status and kind, with something in every column."""
    chronos.add(label="plain")
    chronos.add(label="due", fire_at=NOW - HOUR, next_fire_at=NOW - HOUR)
    chronos.add(
        label="in retry",
        fire_at=NOW - HOUR,
        next_fire_at=NOW + HOUR,
        failure_count=3,
        max_failures=7,
        last_error="wake: router returned 503: try later",
        conversation_id="c1",
        payload='{"b": 1, "a": {"deep": [1, 2.50, "é \\u2603"]}, "b": 2}',
        idempotency_key="portal",
    )
    chronos.add(label="leased", fire_at=NOW - DAY, next_fire_at=NOW - DAY, claimed_at=NOW - timedelta(minutes=10))
    chronos.add(label="cron", kind="cron", cron_expr="0 9 * * 1-5", timezone="Europe/Berlin", last_fired_at=NOW - DAY)
    chronos.add(label="every", kind="cron", cron_expr="@every 90m")
    chronos.add(label="fired", status="fired", last_fired_at=NOW - DAY, idempotency_key="done")
    chronos.add(
        label="failed", status="failed", failure_count=5, last_error="wake: router returned 404", payload="null"
    )
    chronos.add(label="cancelled", status="cancelled", updated_at=NOW - DAY, created_at=NOW - 2 * DAY)
    chronos.add(label="cancelled cron", kind="cron", cron_expr="@daily", status="cancelled", wake_message="\ttab\n☃")
    chronos.add(label="other", owner_did="did:matrix:bo:0123456789abcdef", user_id="bo", idempotency_key="portal")


def same(row: dict[str, Any], alarm: Alarm) -> None:
    """Column by column; moments to the millisecond, and to fire at never earlier."""
    for name in ("owner_did", "user_id", "label", "kind", "cron_expr", "timezone", "conversation_id", "wake_message"):
        assert getattr(alarm, name) == row[name], name
    for name in ("status", "idempotency_key", "max_failures", "failure_count", "last_error"):
        assert getattr(alarm, name) == row[name], name
    assert alarm.payload_json == row["payload_text"]
    assert alarm.claimed_at is None
    for name in ("created_at", "updated_at", "last_fired_at"):
        assert getattr(alarm, name) == (row[name] and whole_ms(row[name])), name
    for name in ("fire_at", "next_fire_at"):
        late = getattr(alarm, name) - row[name] if row[name] else timedelta(0)
        assert timedelta(0) <= late < timedelta(milliseconds=1), name
    assert (alarm.target, alarm.created_via, alarm.created_by) == ("router", "chronos", row["owner_did"])


def test_every_row_comes_over_with_all_it_holds(chronos: Chronos, here: Here, bring: Import) -> None:
    a_full_table(chronos)
    before = chronos.rows()
    answer = told(bring("--json"))
    alarms = here.alarms()
    assert alarms.keys() == before.keys()
    for id, row in before.items():
        same(row, alarms[id])
    assert (answer["found"], answer["taken_over"], answer["left_behind"]) == (11, 11, 0)
    assert chronos.rows() == before, "Chronos's own table is only read"


def test_its_ladder_stays_exact_where_the_setting_says_so(
    chronos: Chronos, here: Here, bring: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    spread = chronos.add()
    bring()
    monkeypatch.setenv("WAKEFUL_EXACT_BACKOFF", "true")
    exact = chronos.add(kind="cron", cron_expr="@every 90m")
    bring()
    found = here.alarms()
    assert [found[id].policy.exact_backoff for id in (spread, exact)] == [False, True]
    assert found[exact].policy.anchor is not None


def test_a_dry_run_counts_and_changes_nothing(chronos: Chronos, here: Here, bring: Import, tmp_path: Path) -> None:
    a_full_table(chronos)
    bad = chronos.add(kind="cron", cron_expr="61 * * * *")
    before = chronos.rows()
    answer = told(bring("--dry-run", "--json", code=1))
    counts = {(one["status"], one["kind"]): one["count"] for one in answer["alarms"]}
    assert counts == {
        ("active", "once"): 5,
        ("active", "cron"): 3,
        ("fired", "once"): 1,
        ("failed", "once"): 1,
        ("cancelled", "once"): 1,
        ("cancelled", "cron"): 1,
    }
    assert (answer["dry_run"], answer["found"], answer["due"], answer["leased"]) == (True, 12, 2, 1)
    assert "taken_over" not in answer
    [left] = answer["left"]
    assert (left["id"], left["status"], left["kind"]) == (bad, "active", "cron")
    assert left["reason"].startswith("cron_expr: minute: 61 is out of range.")
    assert chronos.rows() == before
    assert list(tmp_path.iterdir()) == []
    if schema := here.given.get("schema"):
        assert chronos.sql("select to_regnamespace($1::text)", schema)[0][0] is None


def test_running_it_again_adds_nothing_and_leaves_alone_what_has_moved_on(
    chronos: Chronos, here: Here, bring: Import
) -> None:
    a_full_table(chronos)
    bring()
    [plain] = [alarm for alarm in here.alarms().values() if alarm.label == "plain"]
    owner = ["--owner", DID]
    assert CliRunner().invoke(main, ["cancel", plain.id, *owner]).exit_code == 0
    after = here.alarms()
    assert told(bring("--json"))["taken_over"] == 11
    assert here.alarms() == after
    assert here.alarms()[plain.id].status == "cancelled"


def test_what_was_added_since_comes_with_the_next_run(chronos: Chronos, here: Here, bring: Import) -> None:
    chronos.add()
    bring()
    more = chronos.add(idempotency_key="later")
    bring()
    assert len(here.alarms()) == 2
    assert here.alarms()[more].idempotency_key == "later"


HALTING = """
import asyncio, os, signal, sys

from wakeful.cli import main
from wakeful.store.postgres import PostgresStore
from wakeful.store.sqlite import SqliteStore

point, args = sys.argv[1], sys.argv[2:]


def halting(add):
    calls = 0

    async def halting(self, alarms, **more):
        nonlocal calls
        calls += 1
        if calls == 3 and point == "before":
            os.kill(os.getpid(), signal.SIGSTOP)
        writing = asyncio.create_task(add(self, alarms, **more))
        if calls == 3 and point == "during":
            await asyncio.sleep(0.003)
            os.kill(os.getpid(), signal.SIGSTOP)
        added = await writing
        if calls == 3 and point == "after":
            os.kill(os.getpid(), signal.SIGSTOP)
        return added

    return halting


for store in (PostgresStore, SqliteStore):
    store.add = halting(store.add)
main(args)
"""


@pytest.mark.parametrize("point", ["before", "during", "after"])
def test_killed_half_way_and_run_again_nothing_is_lost_and_nothing_twice(
    chronos: Chronos, here: Here, bring: Import, tmp_path: Path, point: str
) -> None:
    chronos.add_many(4 * PAGE + 1)
    asked = ["import", "chronos", chronos.dsn, "--table", chronos.table]
    process = Process([sys.executable, "-c", HALTING, point, *asked], tmp_path, name="halting")
    try:
        asyncio.run(process.frozen())
    finally:
        process.close()
    half = len(here.alarms())
    if point == "during":
        assert 2 * PAGE <= half <= 3 * PAGE
    else:
        assert half == (2 if point == "before" else 3) * PAGE
    assert told(bring("--json"))["taken_over"] == 4 * PAGE + 1
    rows, alarms = chronos.rows(), here.alarms()
    assert alarms.keys() == rows.keys()
    for id, row in rows.items():
        same(row, alarms[id])


def test_what_cannot_come_is_listed_and_everything_else_comes(chronos: Chronos, here: Here, bring: Import) -> None:
    good = chronos.add()
    chronos.sql("alter table alarms alter column label drop not null")
    bad = {
        chronos.add(kind="cron", cron_expr="@every 500ms"): "cron_expr: @every: '500ms' is not between",
        chronos.add(kind="cron", cron_expr="@daily", timezone="Local"): "timezone: 'Local' is not a known time zone",
        chronos.add(label=None): "it cannot be read (Expected `str`, got `null` - at `$.label`)",
        chronos.add(payload="[" * 2000 + "]" * 2000): "it cannot be read (",
    }
    for moment in ("'infinity'", "timestamptz '20000-01-01'"):
        id = chronos.add()
        chronos.sql(f"update alarms set next_fire_at = {moment} where id = $1", id)
        bad[id] = "next_fire_at: '"
    answer = bring(code=1)
    lines = dict(line.split("\t", 1) for line in answer.stdout.splitlines())
    assert (lines["found"], lines["left behind"], lines["taken over"]) == (str(len(bad) + 1), str(len(bad)), "1")
    for id, reason in bad.items():
        assert lines[f"left {id}"].partition(": ")[2].startswith(reason)
    assert here.alarms().keys() == {good}


def test_a_key_that_another_alarm_has_here_is_not_given_away(chronos: Chronos, here: Here, bring: Import) -> None:
    mine = an_alarm(ManualClock(NOW), owner_did=DID, user_id=USER, idempotency_key="portal")

    async def add(store: Store) -> None:
        await store.add([mine])

    here.ask(add)
    theirs, other = chronos.add(idempotency_key="portal"), chronos.add(idempotency_key="other")
    [left] = told(bring("--json", code=1))["left"]
    assert left["id"] == theirs
    assert left["reason"] == f"alarm {mine.id} already has the idempotency_key 'portal' here"
    assert here.alarms().keys() == {mine.id, other}


def test_what_a_later_chronos_added_is_understood(
    pg_dsn: str, here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in here.environ.items():
        monkeypatch.setenv(name, value)
    with chronos_in(pg_dsn, later=True) as chronos:
        retried = chronos.add(kind="cron", cron_expr="0 * * * *", occurrence_at=NOW - HOUR, failure_count=1)
        other = chronos.add(target="workforced")
        asked = ["import", "chronos", pg_dsn, "--table", chronos.table, "--json"]
        first = CliRunner().invoke(main, asked)
        assert first.exit_code == 1
        [left] = told(first)["left"]
        assert left["id"] == other
        assert "Give --target-for workforced=NAME." in left["reason"]
        assert CliRunner().invoke(main, [*asked, "--target-for", "workforced=inbox"]).exit_code == 0
        alarms = here.alarms()
        assert {id: alarm.target for id, alarm in alarms.items()} == {retried: "router", other: "inbox"}
        assert alarms[retried].occurrence_at == whole_ms(NOW - HOUR + timedelta(microseconds=999))


def test_what_one_should_know_first_is_said(chronos: Chronos, here: Here, bring: Import) -> None:
    chronos.add(fire_at=NOW, next_fire_at=NOW, claimed_at=datetime.now(UTC))
    chronos.add(status="fired", updated_at=NOW - 100 * DAY)
    said = bring().stderr
    assert "note: 1 were leased just now: is Chronos still running?" in said
    assert "note: 1 ended more than 90 days ago: the next worker deletes them" in said


def test_it_reads_page_by_page(chronos: Chronos) -> None:
    """However many rows there are, some hundred of them are in memory."""
    chronos.add_many(2 * PAGE + 7)

    async def read() -> list[list[str]]:
        table = ChronosTable(chronos.dsn, table=chronos.table)
        try:
            return [[row[0] for row in page] async for page in table.pages()]
        finally:
            await table.close()

    pages = asyncio.run(read())
    assert [len(page) for page in pages] == [PAGE, PAGE, 7]
    ids = [id for page in pages for id in page]
    assert ids == sorted(set(ids))


def on_a_terminal(args: list[str], environ: dict[str, str], folder: Path) -> str:
    """What a person sees on stderr."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(args, cwd=folder, env=os.environ | environ, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    seen = b""
    while True:
        try:
            read = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not read:
            break
        seen += read
    os.close(ours)
    assert process.wait(60) == 0, seen
    return seen.decode()


def test_a_terminal_sees_a_bar_and_a_pipe_does_not(chronos: Chronos, here: Here, bring: Import, tmp_path: Path) -> None:
    chronos.add_many(PAGE + 1)
    asked = [sys.executable, "-m", "wakeful.cli", "import", "chronos", chronos.dsn, "--table", chronos.table]
    seen = on_a_terminal(asked, here.environ | {"TERM": "xterm"}, tmp_path)
    assert "looking" in seen
    assert "taking over  [####" in seen
    assert "100%" in seen
    assert bring().stderr == ""


def test_an_interrupted_one_ends_as_other_commands_do(chronos: Chronos, here: Here, tmp_path: Path) -> None:
    """Ctrl-C while the database keeps it waiting: the usual exit status and no traceback."""

    async def interrupted() -> tuple[int | None, str]:
        connection = await asyncpg.connect(chronos.dsn)
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(f"lock table {chronos.table} in access exclusive mode")
        asked = ["import", "chronos", chronos.dsn, "--table", chronos.table]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "wakeful.cli", *asked),
            cwd=tmp_path,
            env=os.environ | here.environ,
            stderr=asyncio.subprocess.PIPE,
        )
        waiting = "select count(*) from pg_locks where not granted and relation = to_regclass($1::text)"
        while await connection.fetchval(waiting, chronos.table) == 0:
            assert process.returncode is None
        process.send_signal(signal.SIGINT)
        _, said = await asyncio.wait_for(process.communicate(), 30)
        await transaction.rollback()
        await connection.close()
        return process.returncode, said.decode()

    code, said = asyncio.run(interrupted())
    assert code == 130, said
    assert "Traceback" not in said
