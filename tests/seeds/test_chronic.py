"""Chronic's own test cases, as facts: what is another time here stands on the page for those who come from Alarm."""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
import pytest

from wakeful.errors import InvalidSchedule
from wakeful.schedule import parse

ROWS: Final = Path(__file__).with_name("chronic.jsonl")
PAGE: Final = Path(__file__).parents[2] / "docs" / "seeds" / "alarm.md"
SUITES: Final = {"radar/chronic, MIT": "Elixir", "mojombo/chronic, MIT": "Ruby"}
COLUMNS: Final = ("same moment", "same day", "another day", "refused", "past: refused", "past: the next one")


class Case(msgspec.Struct, frozen=True):
    source: str
    phrase: str
    now: datetime
    expected: datetime


@cache
def judged() -> dict[str, dict[str, list[str]]]:
    """The phrases of each suite by what became of them."""
    found: dict[str, dict[str, list[str]]] = {suite: defaultdict(list) for suite in SUITES.values()}
    for line in ROWS.read_bytes().splitlines():
        case = msgspec.json.decode(line, type=Case)
        found[SUITES[case.source]][_verdict(case)].append(case.phrase)
    return found


def _verdict(case: Case) -> str:
    is_past = case.expected <= case.now
    try:
        fire_at = parse(case.phrase, now=case.now).fire_at
    except InvalidSchedule:
        return "past: refused" if is_past else "refused"
    assert fire_at is not None, case
    means, expected = fire_at.replace(microsecond=0), case.expected.astimezone(UTC)
    if means == expected:
        return "same moment"
    if is_past:
        return "past: the next one"
    return "same day" if means.date() == expected.date() else "another day"


def section() -> str:
    return PAGE.read_text().partition("## What Chronic understood")[2].partition("\n## ")[0]


@pytest.mark.parametrize("suite", SUITES.values())
def test_the_page_has_the_counts(suite: str) -> None:
    counts = judged()[suite]
    row = [str(sum(map(len, counts.values()))), *(str(len(counts[name])) for name in COLUMNS)]
    found = re.search(rf"^\| {suite}[^|]*\|(.*)\|$", section(), re.MULTILINE)
    assert found is not None
    assert [cell.strip() for cell in found[1].split("|")] == row


@pytest.mark.parametrize("suite", SUITES.values())
def test_every_difference_stands_on_the_page(suite: str) -> None:
    named = set(re.findall(r"`([^`]+)`", section()))
    counts = judged()[suite]
    missing = [phrase for name in ("another day", "refused") for phrase in counts[name] if phrase not in named]
    assert missing == []
    same = {phrase for phrase in counts["same moment"] if phrase in named}
    assert same == set()  # what is told as a difference is one


def test_what_is_another_time_of_the_same_day_names_no_time_of_day() -> None:
    """But for what only names a part of the day, and for units of which Chronic takes the middle."""
    others = [
        phrase
        for counts in judged().values()
        for phrase in counts["same day"]
        if re.search(r"\d(:\d|\s?[ap]m)|noon|midnight", phrase, re.IGNORECASE)
    ]
    assert others == []
    named = set(re.findall(r"`([^`]+)`", section()))
    units = [
        one for counts in judged().values() for one in counts["same day"] if re.match(r"next (h|m|s)|tonight", one)
    ]
    assert [one for one in units if one not in named] == []
