"""Habits of the tests themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
# A wrapper may call what it wraps so, and one test puts a store under a dispatcher.
PRIVATE = re.compile(r"(?<!self)(?<!dispatcher)(?<!_upkeep)(?<!sql_tasks)\._(store|served)\b")


def test_no_test_reaches_for_what_wakeful_testing_hands_out() -> None:
    found = [
        f"{file.relative_to(TESTS)}:{number}: {line.strip()}"
        for file in sorted(set(TESTS.rglob("*.py")) - {Path(__file__)})
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if PRIVATE.search(line)
    ]
    assert not found, "wakeful.testing has store_of and targets_of for this:\n" + "\n".join(found)


@pytest.mark.parametrize("said", ["alarms._store.get(id)", "visit.clock._served['x']", "(await opened())._store"])
def test_what_counts_as_reaching(said: str) -> None:
    assert PRIVATE.search(said)
