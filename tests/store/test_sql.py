"""The two dialects side by side: what both need has the same name and stands in the same order."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import wakeful.store
from wakeful.store.queries import Naming, queries

# What only one of them needs, and why.
ONLY_SQLITE = {
    "due": "a claim in three short statements, each one text: the writer thread holds the interpreter lock briefly",
    "claimed": "see due",
    "renewed": "see due",
    "put_fires": "one statement cannot write two tables, as PostgreSQL's can",
    "put_first_fires": "see put_fires",
    "put_settled_fires": "see put_fires",
    "add_events": "see put_fires",
    "suspect": "see due",
    "in_turn": "see due",
    "old_fires": "found by a reader first, so that the write lock is held only for the deletion",
    "old_alarms": "see old_fires",
    "old_events": "see old_fires",
    "old_tokens": "see old_fires",
    "broken_quickly": "PostgreSQL has nothing to be quick about: it does not read its own files through",
}
ONLY_POSTGRES = {
    "claimed_unheard": "inside a process no answer gets lost",
    "claim_in_turn": "where SQLite's claim in pieces has one more",
    "now": "the database's clock judges",
    "notify": "a hint to other processes",
    "tables": "the catalogue, for the migration's check",
}


def test_both_dialects_name_the_same_statements_in_the_same_order() -> None:
    lite = [name for name in queries("sqlite", Naming()) if name not in ONLY_SQLITE]
    postgres = [name for name in queries("postgres", Naming()) if name not in ONLY_POSTGRES]
    assert lite == postgres


def test_what_only_one_dialect_has_is_really_there() -> None:
    assert set(ONLY_SQLITE) <= set(queries("sqlite", Naming()))
    assert set(ONLY_POSTGRES) <= set(queries("postgres", Naming()))


_STORE = Path(wakeful.store.__file__).parent
_EVERY_COLUMN = re.compile(r"(?:\bselect|\breturning|,)\s*\*|\.\*")
_INSERT = re.compile(r"\binsert\s+into\s+\S+(?:\s+as\s+\w+)?\s*(.)")


def unnamed(sql: str) -> list[str]:
    """Where a text of SQL takes whatever columns there are."""
    return [found[0] for found in _EVERY_COLUMN.finditer(sql)] + [
        found[0] for found in _INSERT.finditer(sql) if found[1] != "("
    ]


@pytest.mark.parametrize(
    "path", sorted((_STORE / "sql").rglob("*.sql")), ids=lambda path: str(path.relative_to(_STORE / "sql"))
)
def test_a_statement_names_its_columns(path: Path) -> None:
    """Another version may have added one: `select *` and inserts by position would break, or take it for another."""
    sql = re.sub("--.*", "", path.read_text())
    assert unnamed(sql) == []


@pytest.mark.parametrize("path", sorted(_STORE.rglob("*.py")), ids=lambda path: str(path.relative_to(_STORE)))
def test_sql_in_python_names_its_columns(path: Path) -> None:
    strings = (node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant))
    sql = [text for text in strings if isinstance(text, str) and re.match(r"\s*(select|insert|with|update)\b", text)]
    assert [text for text in sql if unnamed(text)] == []


@pytest.mark.parametrize(
    "sql",
    [
        "select *\n  from {t}alarms",
        "select fire.*, alarm.*",
        "select seq, *",
        "returning *",
        "insert into {t}alarms\nvalues {rows}",
        "insert into {t}alarms as known\nselect 1",
    ],
)
def test_the_scan_sees_a_statement_that_does_not(sql: str) -> None:
    assert unnamed(sql)
