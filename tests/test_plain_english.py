"""Sentences for users and readers are in plain English: phrases that once made them hard to read stay out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
PLACES: Final = ("src/wakeful/**/*.py", "src/wakeful/**/*.sql", "docs/**/*.md", "examples/**/*.md", "*.md")
INSTEAD: Final = {
    r"(?<!there )\b(is|are|was|were) no (?!longer|more\b|later|earlier|sooner|safer)[a-z]": 'write "is not a …"',
    r"\bhas not (our|its|the|got)\b": 'write "does not have"',
    r"\bwhose ever\b": 'write "of any owner"',
    r"\bnothing says (when|where|who)\b": "say what is missing",
    r"\bin nobody's hands\b": 'write "not leased"',
    r"\bso that descriptors\b": "say which file descriptors, and what for",
}


@pytest.mark.parametrize("phrase", INSTEAD)
def test_a_phrase_that_is_hard_to_read_is_not_used(phrase: str) -> None:
    pages = {path for place in PLACES for path in ROOT.glob(place)}
    assert len(pages) > 200
    pattern = re.compile(phrase, re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted(pages)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, "\n".join([INSTEAD[phrase], *found])
