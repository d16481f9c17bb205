"""The two dialects side by side: what both need has the same name and stands in the same order."""

from __future__ import annotations

from wakeful.store.queries import Naming, queries

# What only one of them needs, and why.
ONLY_SQLITE = {
    "due": "a claim in three short statements, each one text: the writer thread holds the interpreter lock briefly",
    "claimed": "see due",
    "renewed": "see due",
    "put_fires": "one statement cannot write two tables, as PostgreSQL's can",
    "put_first_fires": "see put_fires",
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
