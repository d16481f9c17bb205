"""`doctor` and `db check`, as an operator calls them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from tests.interfaces.pty_world import check_snapshot, environ, on_a_terminal, piped
from wakeful.schedule.zone_rules import ZoneData, zone_data
from wakeful.service import diagnosis
from wakeful.service.diagnosis import Finding
from wakeful.store import Inspection, TargetState, Worker
from wakeful.store.maintenance import Edition

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def doctor(cwd: Path, *args: str, code: int, env: dict[str, str] | None = None) -> dict[str, dict[str, str]]:
    told: Any = json.loads(piped("doctor", "--json", *args, cwd=cwd, code=code, env=env)[0])
    return {one["check"]: one for one in told["findings"]}


def test_without_a_database_it_fails_and_makes_none(tmp_path: Path) -> None:
    found = doctor(tmp_path, code=1, env={"WAKEFUL_DB": str(tmp_path / "wakeful.db")})
    assert found["database"]["state"] == "fail"
    assert "does not exist" in found["database"]["said"]
    assert "wakeful serve" in found["database"]["fix"]
    assert list(tmp_path.iterdir()) == []


def test_while_somebody_serves_everything_is_ok(tmp_path: Path) -> None:
    env = {"WAKEFUL_DB": str(tmp_path / "wakeful.db")}
    serving = subprocess.Popen(
        [sys.executable, "-m", "wakeful.cli", "worker"],
        cwd=tmp_path,
        env=environ(**env),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert serving.stderr is not None
        assert "worker, store" in serving.stderr.readline()
        while not _is_seen(tmp_path / "wakeful.db"):  # it is on record a moment later
            assert serving.poll() is None
        rows = piped("doctor", cwd=tmp_path, env=env)[0]
        assert "1 running" in rows
        assert {line.split("\t")[0] for line in rows.splitlines()} == {"ok"}
    finally:
        serving.terminate()
        serving.communicate(timeout=60)


def test_the_audit_names_a_fire_that_is_gone_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "wakeful.db"
    env = {"WAKEFUL_DB": str(path)}
    piped("at", "now", "hello", cwd=tmp_path, env=env)
    subprocess.run(
        [sys.executable, "-c", "import asyncio, wakeful\nasync def go():\n"
         f"    async with wakeful.open({str(path)!r}) as alarms:\n        await alarms.run_due()\nasyncio.run(go())"],
        check=True,
        env=environ(**env),
    )  # fmt: skip
    found = doctor(tmp_path, "--audit", code=1, env=env)  # nobody delivers
    assert {name: one["state"] for name, one in found.items() if name.startswith("audit")} == {
        "audit reports": "ok",
        "audit leases": "ok",
        "audit instants": "ok",
    }
    assert found["audit reports"]["said"] == "each report is the end of its fire (1 fires)"
    assert not any(name.startswith("audit") for name in doctor(tmp_path, code=1, env=env))
    apsw.Connection(str(path)).execute("delete from fires")
    found = doctor(tmp_path, "--audit", code=1, env=env)
    assert found["audit instants"]["state"] == "fail"
    assert "no fire on record for" in found["audit instants"]["said"]
    assert "wakeful history" in found["audit instants"]["fix"]


def _is_seen(path: Path) -> bool:
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return bool(db.execute("select count(*) from workers").fetchall()[0][0])
    finally:
        db.close()


def test_a_terminal_gets_lines_that_fit_with_what_to_do_below(tmp_path: Path) -> None:
    env = {"WAKEFUL_DB": str(tmp_path / "wakeful.db")}
    piped("at", "1h", "hello", cwd=tmp_path, env=env)
    screen = on_a_terminal("doctor", cwd=tmp_path, env=env)
    assert screen.code == 1
    assert "\x1b[31mfail" in screen.raw
    assert "\x1b" not in on_a_terminal("doctor", cwd=tmp_path, env=env | {"NO_COLOR": "1"}).raw
    # A folder's name is as long as it is: where lines break is only the same where it is short.
    os.symlink(tmp_path, short := Path(f"/tmp/wk{os.getpid()}"))
    try:
        screen = on_a_terminal("doctor", cwd=tmp_path, env={"WAKEFUL_DB": str(short / "wakeful.db")})
    finally:
        short.unlink()
    check_snapshot("doctor", screen, FOLDER=str(short))


def test_a_setting_that_is_wrong_is_a_finding_not_a_crash(tmp_path: Path) -> None:
    (tmp_path / "wakeful.toml").write_text('tick = "soon"\n')
    found = doctor(tmp_path, code=1)
    assert found["config"]["state"] == "fail"
    assert "wakeful.toml, line 1" in found["config"]["said"]
    (tmp_path / "wakeful.toml").write_text('db = "a.db"\n[targets.hook]\nkind = "webhook"\n')
    (tmp_path / "a.db").touch()
    found = doctor(tmp_path, code=1)
    assert found["targets"]["state"] == "fail"


def test_tables_of_another_version_and_damage_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "wakeful.db").touch()
    env = {"WAKEFUL_DB": str(tmp_path / "wakeful.db")}
    found = doctor(tmp_path, code=0, env=env)
    assert (found["schema"]["state"], found["schema"]["said"]) == ("warn", "there are no tables yet")
    assert (tmp_path / "wakeful.db").stat().st_size == 0
    piped("at", "1h", "hello", cwd=tmp_path, env=env)
    db = apsw.Connection(str(tmp_path / "wakeful.db"))
    db.execute("update wakeful_migrations set version = 999 where version = 1")
    db.close()
    assert "newer wakeful" in doctor(tmp_path, code=1, env=env)["schema"]["said"]


def test_db_check_counts_what_cannot_be(tmp_path: Path) -> None:
    env = {"WAKEFUL_DB": str(tmp_path / "wakeful.db")}
    assert "does not exist" in piped("db", "check", cwd=tmp_path, env=env, code=3)[1]
    piped("at", "1h", "hello", cwd=tmp_path, env=env)
    assert piped("db", "check", cwd=tmp_path, env=env)[0].splitlines()[-1] == "sound\tyes"
    check_snapshot("db-check", on_a_terminal("db", "check", cwd=tmp_path, env=env))
    db = apsw.Connection(str(tmp_path / "wakeful.db"))
    db.execute("update alarms set owner_did = ''")
    db.close()
    told = json.loads(piped("db", "check", "--json", cwd=tmp_path, env=env, code=1)[0])
    assert (told["sound"], told["impossible"]["alarms without an owner"]) == (False, 1)
    assert "1 alarms without an owner" not in str(doctor(tmp_path, code=1, env=env))  # counting takes long


async def test_postgres_is_examined_too_and_its_password_not_shown(tmp_path: Path, pg_dsn: str, pg_schema: str) -> None:
    env = {"WAKEFUL_DB": pg_dsn, "WAKEFUL_SCHEMA": pg_schema}
    found = doctor(tmp_path, code=0, env=env)
    assert found["schema"]["said"] == "there are no tables yet"
    connection = await asyncpg.connect(pg_dsn)
    assert await connection.fetchval("select to_regnamespace($1)", pg_schema) is None
    await connection.close()
    piped("at", "1h", "hello", cwd=tmp_path, env=env)
    found = doctor(tmp_path, code=1, env=env)
    assert found["database"]["said"].startswith("PostgreSQL ")
    assert [name for name, one in found.items() if one["state"] != "ok"] == ["dispatcher"]
    assert "disk" not in found
    assert piped("db", "check", cwd=tmp_path, env=env)[0].endswith("sound\tyes\n")


def a_worker(**given: Any) -> Worker:
    fields: dict[str, Any] = {"id": "w", "host": "box", "pid": 7, "version": "1", "started_at": NOW, "seen_at": NOW}
    return Worker(**(fields | given))


@pytest.mark.parametrize(
    ("finding", "state", "word"),
    [
        (diagnosis.dispatcher([], NOW), "fail", "none has ever run"),
        (diagnosis.dispatcher([a_worker(seen_at=NOW - timedelta(hours=3))], NOW), "fail", "3 h ago"),
        (diagnosis.dispatcher([a_worker(), a_worker(version="2")], NOW), "warn", "different versions"),
        (diagnosis.dispatcher([a_worker()], NOW), "ok", "box:7"),
        (diagnosis.clock(NOW, NOW, [a_worker(seen_at=NOW + timedelta(hours=1))]), "fail", "set back"),
        (diagnosis.clock(NOW + timedelta(seconds=5), NOW, []), "warn", "5 s apart"),
        (diagnosis.clock(NOW + timedelta(hours=5), NOW, []), "fail", "5 h apart"),
        (diagnosis.overdue({"hook": (3, NOW - timedelta(minutes=5))}, frozenset(), NOW), "fail", "3 for hook"),
        (diagnosis.overdue({"hook": (3, NOW - timedelta(minutes=5))}, frozenset({"hook"}), NOW), "ok", "nothing"),
        (diagnosis.overdue({"hook": (3, NOW - timedelta(seconds=5))}, frozenset(), NOW), "ok", "nothing"),
        (diagnosis.disk(5, "/x"), "fail", "5 bytes free"),
        (diagnosis.disk(500_000_000, "/x"), "warn", "500 MB free"),
        (diagnosis.access("u", loopback=False, live=0, opened=True), "fail", "no token"),
        (diagnosis.access("u", loopback=True, live=0, opened=False), "warn", "nobody is let in"),
        (diagnosis.access("u", loopback=False, live=1, opened=False), "ok", "1 token"),
        (diagnosis.zones(ZoneData("2019c", "/usr/share/zoneinfo"), "UTC", NOW), "warn", "old"),
        (diagnosis.zones(ZoneData("2025b", "x"), "UTC", NOW), "ok", "2025b"),
        (diagnosis.database(Inspection(engine="e", size=1, schema=1, known=1, broken=("a", "b")), "x")[2],
         "fail", "a (and 1 more)"),
    ],
)  # fmt: skip
def test_each_check_judges_by_the_facts(finding: Finding, state: str, word: str) -> None:
    assert finding.state == state
    assert word in finding.said
    assert bool(finding.fix) == (state != "ok")


def test_a_target_that_needs_somebody_is_named() -> None:
    paused = TargetState(target="a", paused_at=NOW, paused_by="ada", updated_at=NOW)
    failing = TargetState(target="b", breaker_opened_at=NOW, last_error="refused", updated_at=NOW)
    served = {"a": [a_worker()], "b": [a_worker()], "c": [], "d": [a_worker()]}
    found = diagnosis.targets(served, {"a": paused, "b": failing}, running=True)
    assert [(one.check, one.state) for one in found] == [
        ("target a", "warn"),
        ("target b", "warn"),
        ("target c", "warn"),
    ]
    assert [one.check for one in diagnosis.targets({"c": []}, {}, running=False)] == ["targets"]


def test_the_edition_of_the_zone_data_is_known_here() -> None:
    found = zone_data()
    assert found.version[:2] == "20"
    assert found.source


def test_zone_data_that_is_older_than_the_database_s_is_named() -> None:
    here = ZoneData("2026a", "/usr/share/zoneinfo")
    newer = [Edition("2026b", NOW, NOW), Edition("2025c", NOW, NOW)]
    found = diagnosis.zones(here, "UTC", NOW, newer)
    assert (found.state, "2026b" in found.said) == ("warn", True)
    assert found.fix
    assert diagnosis.zones(here, "UTC", NOW, newer[1:]).state == "ok"
    planning = diagnosis.zones(here, "UTC", NOW, [Edition("2026a", NOW, None)])
    assert (planning.state, "planned again" in planning.said) == ("ok", True)
