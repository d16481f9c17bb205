"""The three lanes of the tests: `./scripts/test quick`, `./scripts/test` and `./scripts/test --long`.

Quick takes the rules, SQLite and the store in memory. The usual lane adds PostgreSQL, real processes and the browser.
Long adds what takes minutes and what repeats a proof in another place: all that stands above the store on PostgreSQL
too, all mutants, longer searches.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Final, Literal

import hypothesis
import pytest

Lane = Literal["quick", "usual", "long"]

COMMANDS: Final[dict[str, str]] = {
    "quick": "./scripts/test quick",
    "usual": "./scripts/test",
    "long": "./scripts/test --long",
}
TESTS: Final = Path(__file__).parent
QUICK: Final = (
    "dispatcher",
    "rules",
    "schedule",
    "service",
    "store/test_conformance.py",
    "store/test_memory.py",
    "interfaces/test_same_everywhere.py",
)
NOT_QUICK: Final = (  # these wait, or count for many seconds
    "rules/test_long_lives.py",
    "dispatcher/test_room.py",
    "dispatcher/test_settling.py",
    "dispatcher/test_stopping.py",
    "dispatcher/test_zone_planning.py",
    "dispatcher/test_zone_releases.py",
    "service/test_loops.py",
    "service/test_runaways.py",
)
LONG: Final = (  # the tools themselves, which other commands run too, and a second proof of what is proved elsewhere
    "bench",
    "faults/test_world_machine.py",
    "faults/test_world_postgres.py",
    "fuzz/test_harness.py",
    "seeds/test_hammer.py",
    "test_deploy.py",
    "typescript/test_client.py",
)
MUTANTS: Final = ("tests/mutants/", "tests/simulation/test_planted_faults.py")
# Of the contract behind pgbouncer, what depends on sessions: the rest is the same SQL.
POOLED: Final = "store/test_postgres_pgbouncer.py"
ONE_MORE_COLUMN: Final = "TestOneMoreColumn"  # the contract once more, on tables that a newer version has extended
POOLED_CLASSES: Final = ("TestClaiming", "TestSettling", "TestLeases", "TestNextDue")
EXAMPLES: Final[dict[Lane, int]] = {"quick": 15, "usual": 50, "long": 200}  # of each property
# What goes by a store's answers runs on SQLite: the conformance suite shows that both stores answer alike.
ABOVE_THE_STORE: Final = ("dashboard", "dispatcher", "interfaces", "remote", "service")
BOTH_STORES: Final = (  # of these, what depends on how a store locks, reports news, or is away
    "dispatcher/test_delivery.py",
    "dispatcher/test_features.py",
    "dispatcher/test_settling.py",
    "dispatcher/test_stopping.py",
    "dispatcher/test_turns.py",
    "dispatcher/test_zone_planning.py",
    "service/test_audit.py",
    "service/test_gone_readers.py",
    "service/test_guards.py",
    "service/test_handing_out.py",
    "service/test_keys.py",
    "service/test_many.py",
    "service/test_taking_back.py",
)
LONG_SEARCHES: Final = {"WAKEFUL_TEST_MACHINE_SAME_EXAMPLES": "150", "WAKEFUL_TEST_SCHEMATHESIS_EXAMPLES": "25"}
MARKERS: Final = (
    "browser: drives a real Chromium; left out where there is none",
    "long: takes long, or repeats a proof elsewhere; only with --long",
)


def add_options(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="only the rules and SQLite: a minute")
    parser.addoption(
        "--mutants", choices=["none", "changed"], default="none", help="without --long: those of what changed lately"
    )
    parser.addoption("--long", action="store_true", help="everything: all mutants, longer searches, both stores")


def configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    hypothesis.settings.register_profile(
        "lane",
        hypothesis.settings.get_profile("wakeful"),
        max_examples=EXAMPLES[lane(config)],
        derandomize=lane(config) != "long",  # the same inputs in every run; only the long lane searches for others
    )
    hypothesis.settings.load_profile("lane")
    if lane(config) == "long":
        for name, examples in LONG_SEARCHES.items():
            os.environ.setdefault(name, examples)


def lane(config: pytest.Config) -> Lane:
    if config.getoption("--quick"):
        return "quick"
    return "long" if config.getoption("--long") else "usual"


def is_collected(path: Path, config: pytest.Config) -> bool:
    """Reading all files takes longer than the quick lane has."""
    if lane(config) != "quick" or not path.is_relative_to(TESTS):
        return True
    place = path.relative_to(TESTS).as_posix()
    return any(f"{one}/".startswith(f"{place}/") or f"{place}/".startswith(f"{one}/") for one in (*QUICK, "."))


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = lane(config)
    has_browser = shutil.which("chromium") is not None or "WAKEFUL_TEST_BROWSER" in os.environ  # named: must be there
    left_out = [item for item in items if not _runs(item, chosen, has_browser=has_browser)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


def scheduling(config: pytest.Config, log: Any) -> object:
    """The tests of a file run in one process, where they share a server or a database; mutants share nothing.

    Files with many tests come first, so the mutants come last and keep all processes busy until the end.
    """
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    schedule = LoadFileScheduling(config, log)
    by_file = schedule._split_scope
    schedule._split_scope = lambda test: test if test.startswith(MUTANTS) else by_file(test)
    return schedule


def left_out(config: pytest.Config) -> str:
    """What a run of mutants says at its end about those that it had no time for."""
    if lane(config) == "long" or config.getoption("--mutants") == "none":
        return ""
    from tests.mutants import changed

    drawn, more = changed.chosen(TESTS.parent)
    return f"mutants of changed files: {len(drawn)} drawn, {more} left out (--long runs all)"


def _runs(item: pytest.Item, chosen: Lane, *, has_browser: bool) -> bool:
    if _marked(item, "browser") and not has_browser:
        return False
    if chosen == "long":
        return True
    if _is_long(item):
        return False
    if chosen == "usual":
        return True
    if _is_under(item, NOT_QUICK) or ONE_MORE_COLUMN in item.nodeid:
        return False
    return _is_under(item, QUICK) and not _on_postgres(item)


def _is_long(item: pytest.Item) -> bool:
    if _marked(item, "long") or _is_under(item, LONG):
        return True
    if ONE_MORE_COLUMN in item.nodeid and _on_store(item, "postgres"):
        return True  # SQLite is the store that reads by position
    if _is_under(item, (POOLED,)):
        return ONE_MORE_COLUMN in item.nodeid or not any(name in item.nodeid for name in POOLED_CLASSES)
    return _on_store(item, "postgres") and _is_under(item, ABOVE_THE_STORE) and not _is_under(item, BOTH_STORES)


def _marked(item: pytest.Item, name: str) -> bool:
    return item.get_closest_marker(name) is not None


def _is_under(item: pytest.Item, places: tuple[str, ...]) -> bool:
    path = item.path.relative_to(TESTS).as_posix() if item.path.is_relative_to(TESTS) else ""
    return any(path == place or path.startswith(place + "/") for place in places)


def _on_store(item: pytest.Item, store: str) -> bool:
    return store in (item.callspec.params.values() if hasattr(item, "callspec") else ())


def _on_postgres(item: pytest.Item) -> bool:
    return _on_store(item, "postgres") or any(name.startswith("pg") for name in getattr(item, "fixturenames", ()))
