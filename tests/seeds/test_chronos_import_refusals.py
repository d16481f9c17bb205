"""What `wakeful import chronos` refuses before it writes anything, and in which words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from wakeful.cli import main

from .chronos_world import Chronos, Here, chronos_in, here_on

Run = Callable[..., Result]


@pytest.fixture
def chronos(pg_dsn: str) -> Iterator[Chronos]:
    with chronos_in(pg_dsn) as chronos:
        chronos.add()
        yield chronos


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """In an empty directory, with the router set up; what is refused leaves it empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WAKEFUL_DB", str(tmp_path / "wakeful.db"))
    monkeypatch.setenv("WAKEFUL_WAKE_URL", "http://127.0.0.1:9/internal/wake")

    def run(*args: str, code: int) -> Result:
        result = CliRunner().invoke(main, ["import", "chronos", *args], catch_exceptions=False)
        assert result.exit_code == code, result.output
        if code > 1:
            assert result.stdout == ""
            assert list(tmp_path.iterdir()) == []
        return result

    return run


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_a_database_that_does_not_answer_is_unreachable_and_its_password_not_told(run: Run, dry: list[str]) -> None:
    said = run("postgresql://chronos:planted@127.0.0.1:9/chronos", *dry, code=6).stderr
    assert said.startswith("error: Chronos's database: cannot connect to PostgreSQL at 127.0.0.1:9: ")
    assert "planted" not in said


@pytest.mark.parametrize("url", ["chronos.db", "mysql://127.0.0.1/chronos"])
def test_only_postgresql_is_a_place_of_chronos(run: Run, url: str) -> None:
    assert (
        run(url, code=2).stderr
        == "error: URL: this is not the address of a PostgreSQL database. Give postgresql://….\n"
    )


def test_a_table_that_is_not_there_is_named(run: Run, chronos: Chronos) -> None:
    said = run(chronos.dsn, "--table", f"{chronos.schema}.clocks", code=2).stderr
    assert f"the table '{chronos.schema}.clocks' is not there" in said


def test_a_table_of_something_else_is_refused_with_the_columns_it_lacks(run: Run, chronos: Chronos) -> None:
    chronos.sql("alter table alarms rename column wake_message to message")
    chronos.sql("alter table alarms drop column claimed_at")
    said = run(chronos.dsn, "--table", chronos.table, code=2).stderr
    assert said == (f"error: URL: the table '{chronos.table}' is not Chronos's: it has no wake_message, claimed_at.\n")


def test_ids_that_are_no_uuids_are_not_chronoss(run: Run, chronos: Chronos) -> None:
    chronos.sql("alter table alarms alter column id drop default")
    chronos.sql("alter table alarms alter column id type text")
    assert "its id is text, not uuid" in run(chronos.dsn, "--table", chronos.table, code=2).stderr


def test_a_name_is_a_name_and_nothing_else(run: Run, chronos: Chronos) -> None:
    run(chronos.dsn, "--table", f'{chronos.schema}.alarms"; drop table alarms; --', code=2)
    assert len(chronos.rows()) == 1


def test_wakefuls_own_table_is_not_chronoss(run: Run, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    with here_on("postgres", request, tmp_path) as here:
        here.ask(lambda store: store.migrate())
        said = run(here.given["db"], "--table", f"{here.given['schema']}.alarms", code=2).stderr
        assert "is wakeful's own" in said


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_a_target_that_is_not_configured_is_refused_with_those_that_are(
    run: Run, chronos: Chronos, dry: list[str]
) -> None:
    said = run(chronos.dsn, "--table", chronos.table, "--target", "deck", *dry, code=2).stderr
    assert "error: --target: there is no target 'deck'. Known are: inbox, router." in said
    said = run(chronos.dsn, "--table", chronos.table, "--target-for", "workforced=deck", *dry, code=2).stderr
    assert "there is no target 'deck'" in said
    assert "Give WORD=NAME." in run(chronos.dsn, "--target-for", "workforced", code=2).stderr


def test_without_a_router_the_default_target_is_not_there(
    run: Run, chronos: Chronos, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WAKEFUL_WAKE_URL")
    said = run(chronos.dsn, "--table", chronos.table, code=2).stderr
    assert "there is no target 'router'. Known are: inbox. The setting wake_url makes the target router." in said


def test_beside_chronoss_own_table_it_wants_names_of_its_own(
    run: Run, chronos: Chronos, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [chronos.dsn, "--table", chronos.table, "--db", chronos.dsn]
    monkeypatch.setenv("WAKEFUL_SCHEMA", chronos.schema)
    assert "Set `schema` or `prefix`" in run(*asked, code=2).stderr
    monkeypatch.setenv("WAKEFUL_PREFIX", "wakeful_")
    run(*asked, code=0)
    assert chronos.sql("select count(*) from wakeful_alarms")[0][0] == 1
    assert len(chronos.rows()) == 1


def test_the_url_may_come_from_chronoss_own_variable(
    run: Run, chronos: Chronos, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHRONOS_POSTGRES_URI", chronos.dsn)
    run("--table", chronos.table, code=0)
    assert len(Here({"db": str(tmp_path / "wakeful.db")}).alarms()) == 1
