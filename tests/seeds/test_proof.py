"""docs/seeds.md: what the four pages say, and the test that proves each line, none of them missing."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "seeds.md"
SUITE = ROOT / "src" / "wakeful" / "testing" / "conformance"
LEAST = {"Chronos: the data model": 60, "Chronos: the dispatch worker": 40, "timed": 25, "Alarm": 90}


def sections() -> dict[str, list[list[str]]]:
    """The rows of each section's table, without its head."""
    found: dict[str, list[list[str]]] = {}
    for part in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        lines = [line for line in body.splitlines() if line.startswith("|")]
        cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
        found[title] = [row for row in cells if set("".join(row)) - set("-: ") and row[0] != "the page says"]
    return found


ROWS = [(title, row) for title, rows in sections().items() for row in rows]


@pytest.mark.parametrize(("title", "least"), LEAST.items())
def test_every_page_has_its_table(title: str, least: int) -> None:
    assert len(sections()[title]) >= least


def test_no_row_is_empty_and_each_names_a_test_that_is_there() -> None:
    wrong = []
    for title, row in ROWS:
        claim, proof = row
        named = re.findall(r"`(tests/[\w/]+\.py(?:::\w+)+)`", proof)
        missing = [test for test in named if not is_there(test)]
        if not claim or not named or missing:
            wrong.append((title, claim, missing))
    assert wrong == []


def is_there(test: str) -> bool:
    path, *names = test.split("::")
    return (ROOT / path).exists() and ("::".join(names) in named_in(ROOT / path))


@cache
def named_in(path: Path) -> frozenset[str]:
    """Tests by name, also those a file takes from the conformance suite."""
    tree = ast.parse(path.read_text())
    found = set(_tests(tree.body))
    if any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in tree.body):
        found |= {name for module in SUITE.rglob("*.py") for name in _tests(ast.parse(module.read_text()).body)}
    return frozenset(found)


def _tests(body: list[ast.stmt]) -> list[str]:
    found = []
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(node.name)
        elif isinstance(node, ast.ClassDef):
            found += [f"{node.name}::{name}" for name in _tests(node.body)]
    return [name for name in found if "test_" in name]
