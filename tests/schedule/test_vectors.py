"""The score on public test cases. The figures are kept in docs/when.md."""

from __future__ import annotations

from collections import Counter

import pytest

from .differences import CONVENTIONS, DIFFERENCES, MORE_THAN_ONE, OPTIONS, REFUSED
from .scoring import Row, cron_verdicts, phrase_verdicts


@pytest.fixture(scope="module")
def cron() -> list[tuple[str, Row]]:
    return list(cron_verdicts())


@pytest.fixture(scope="module")
def phrases() -> list[tuple[str, Row]]:
    return list(phrase_verdicts())


def test_every_row_of_the_clock_change_grid_is_right(cron: list[tuple[str, Row]]) -> None:
    score = Counter(verdict for verdict, row in cron if row["source"] == "dst-grid")
    assert score == {"grid": 139}


def test_every_cron_row_that_differs_is_listed_with_its_reason(cron: list[tuple[str, Row]]) -> None:
    differing = {(row["expr"], row["start"]) for verdict, row in cron if verdict in ("differs", "accepted")}
    assert differing == set(DIFFERENCES)
    assert {row["expr"] for verdict, row in cron if verdict == "refused"} == set(REFUSED)
    assert {(row["expr"], row["start"]) for verdict, row in cron if verdict == "differs from source"} == set(OPTIONS)
    assert not [row for verdict, row in cron if verdict in ("wrong", "grid wrong")]


def test_at_most_four_in_a_hundred_cron_rows_differ(cron: list[tuple[str, Row]]) -> None:
    assert sum(verdict in ("differs", "accepted") for verdict, _ in cron) <= 0.04 * len(cron)


def test_phrases_are_right_or_refused_and_hardly_ever_wrong(phrases: list[tuple[str, Row]]) -> None:
    score = Counter(verdict for verdict, _ in phrases)
    answered = score["right"] + score["wrong"]
    assert score["right"] >= 0.80 * (answered + score["refused"])
    assert score["wrong"] <= 0.02 * answered


def test_of_the_definite_points_nearly_all_are_right(phrases: list[tuple[str, Row]]) -> None:
    """Definite: a source takes it for one moment, and no rule of ours says that it can be more than one."""
    indefinite = {phrase for phrases in MORE_THAN_ONE.values() for phrase in phrases}
    agreed = {phrase for phrases in CONVENTIONS.values() for phrase in phrases}
    score = Counter(verdict for verdict, row in phrases if verdict != "refused" or row["phrase"] not in indefinite)
    wrong = [row["phrase"] for verdict, row in phrases if verdict == "wrong"]
    assert score["right"] >= 0.93 * (score["right"] + score["wrong"] + score["refused"])
    assert len([phrase for phrase in wrong if phrase not in agreed]) <= 0.01 * (score["right"] + score["wrong"])


def test_what_is_listed_as_refused_on_purpose_is_refused(phrases: list[tuple[str, Row]]) -> None:
    refused = {row["phrase"] for verdict, row in phrases if verdict == "refused"}
    assert {phrase for some in MORE_THAN_ONE.values() for phrase in some} <= refused


def test_with_the_order_of_the_sources_their_dates_are_right() -> None:
    score = Counter(verdict for verdict, _ in phrase_verdicts(date_order="mdy"))
    assert score["right"] >= 0.83 * (score["right"] + score["wrong"] + score["refused"])
    assert score["wrong"] <= 0.02 * score["right"]


def test_no_nonsense_is_accepted_and_nothing_that_recurs_is_taken_for_one_moment(
    phrases: list[tuple[str, Row]],
) -> None:
    score = Counter(verdict for verdict, _ in phrases)
    assert score["nonsense as once"] == score["nonsense as cron"] == score["recurring as once"] == 0


def test_every_row_keeps_its_source_and_licence(cron: list[tuple[str, Row]], phrases: list[tuple[str, Row]]) -> None:
    assert all(row["source"] and row["licence"] for _, row in cron + phrases)
