"""docs/seeds/chronos.md: its commands work, and what it names is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from pkgutil import resolve_name

import pytest
from click.testing import CliRunner

from wakeful.cli import main
from wakeful.service import views
from wakeful.settings import Settings
from wakeful.store.queries import Naming, queries
from wakeful.testing import ManualClock

from .chronos_world import DID, an_alarm, chronos_in, here_on

PAGE = (Path(__file__).parents[2] / "docs" / "seeds" / "chronos.md").read_text()


def table(head: str) -> list[list[str]]:
    lines = PAGE.partition(f"\n{head}")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]


def test_every_store_operation_has_its_place_and_the_page_names_what_exists() -> None:
    """Method of Chronos, function of wakeful, statement in SQL."""
    rows = table("| Chronos | wakeful | SQL |")
    methods = ["CreateAlarm", "ListAlarms", "GetAlarm", "CancelAlarm", "ClaimDue", "MarkFired", "Reschedule"]
    methods += ["RecordRetry", "MarkFailed", "RescheduleAfterFailure"]
    assert [row[0].strip("`") for row in rows] == methods
    statements = queries("postgres", Naming()).keys() & queries("sqlite", Naming()).keys()
    for _, functions, names, *_ in rows:
        for path in re.findall(r"`([\w.]+)`", functions):
            assert callable(resolve_name(f"wakeful.{path}")), path
        assert re.findall(r"`(\w+)`", names)
        assert set(re.findall(r"`(\w+)`", names)) <= statements


def test_every_setting_the_page_names_exists_with_that_variable() -> None:
    told = [re.match(r"`(\w+)`, `(WAKEFUL_\w+)`", row[2]) for row in table("| Chronos | default | wakeful | default |")]
    named = {found[1]: found[2] for found in told if found}
    assert named.keys() >= {"tick", "lease", "batch", "max_failures", "db", "wake_url", "wake_token"}
    for name, variable in named.items():
        assert name in Settings.__struct_fields__
        assert variable == f"WAKEFUL_{name.upper()}"


def test_every_field_of_an_alarm_is_on_the_page() -> None:
    text = PAGE.partition("## An alarm in JSON")[2].partition("\n## ")[0]
    for name in views.view(an_alarm(ManualClock(), created_by="ada", created_via="http")):
        assert f"`{name}`" in text, name


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_commands_of_the_page_work_in_their_order(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, pg_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with chronos_in(pg_dsn) as chronos, here_on(kind, request, tmp_path) as here:
        id = chronos.add()
        url = f"{pg_dsn}{'&' if '?' in pg_dsn else '?'}search_path={chronos.schema}"
        given = here.environ | {"WAKEFUL_WAKE_URL": "http://127.0.0.1:9/internal/wake", "WAKEFUL_WAKE_TOKEN": "t"}
        for name, value in (given | {"CHRONOS_POSTGRES_URI": url}).items():
            monkeypatch.setenv(name, value)
            assert re.search(rf"\b{name}=", PAGE), name
        commands = [shlex.split(line)[2:] for line in PAGE.splitlines() if line.startswith("$ wakeful ")]
        assert [command[:2] for command in commands].count(["import", "chronos"]) == 2
        for command in commands:
            done = CliRunner().invoke(main, command, catch_exceptions=False)
            assert done.exit_code == 0, done.output
            if command[0] == "ls":
                assert done.stdout.startswith(f"{id}\tactive\t")
        assert here.alarms()[id].owner_did == DID
