"""The fuzzer itself: it finds what is planted, says how to repeat it, and takes refusals for what they are."""

from __future__ import annotations

import logging
import time

import pytest
from hypothesis import strategies as st

from wakeful.errors import InvalidRequest

from .__main__ import complaints, parsers, table
from .harness import Parser, fuzz, pure

NUMBERS = st.integers(0, 1000)
PARSERS = {one.name: one for one in parsers()}


def planted(read: object) -> Parser:
    return Parser("planted", NUMBERS, pure(read))  # type: ignore[arg-type]  # each test hands in a function of numbers


def test_a_crash_is_found_made_small_and_shown_with_its_input() -> None:
    def crashes(number: int) -> None:
        if number >= 100:
            raise KeyError(number)

    found = fuzz(planted(crashes), seconds=20, start=1)
    assert (found.broke, found.culprit) == ("KeyError: 100", 100)
    again = fuzz(planted(crashes), seconds=20, start=found.seed)
    assert again.culprit == 100
    [what, said, first, command] = complaints(found)
    assert (what, said) == ("planted: KeyError: 100", "  input: 100")
    assert first == f"  first met with: {found.first}"
    assert f"--seed {found.seed}" in command


def test_a_crash_that_somebody_caught_and_logged_is_found() -> None:
    def logs(number: int) -> None:
        try:
            1 / (number // 500)
        except ZeroDivisionError:
            logging.getLogger("wakeful.somewhere").exception("broke")

    assert "ZeroDivisionError" in fuzz(planted(logs), seconds=20, start=1).broke


def test_an_input_that_takes_long_is_found() -> None:
    def dawdles(number: int) -> None:
        until = time.process_time() + (0.06 if number >= 900 else 0)
        while time.process_time() < until:
            pass

    found = fuzz(planted(dawdles), seconds=20, start=1)
    assert found.is_slow
    assert found.worst >= 900
    assert not found.broke
    assert "ms of CPU" in next(complaints(found))


def test_a_refusal_is_no_crash() -> None:
    def refuses(number: int) -> None:
        raise InvalidRequest(f"{number} is not accepted")

    found = fuzz(planted(refuses), seconds=0.2, start=1)
    assert (found.broke, found.taken) == ("", 0)
    assert found.inputs >= 1


def test_the_table_names_each_parser_with_its_worst_input() -> None:
    found = fuzz(planted(lambda number: number), seconds=0.2, start=1)
    [_, _, line] = table([found])
    assert line.startswith(f"| planted | {found.inputs:,} | {found.taken:,} | ")


@pytest.mark.parametrize("name", PARSERS)
def test_every_parser_can_be_fuzzed(name: str) -> None:
    found = fuzz(PARSERS[name], seconds=0.5, start=1)
    assert found.inputs
    assert not found.broke, list(complaints(found))
