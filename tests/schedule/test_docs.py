"""The page on saying when cannot lie: its phrases are parsed and its figures counted."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from wakeful.errors import InvalidSchedule
from wakeful.schedule import is_rule

from .differences import MORE_THAN_ONE
from .helpers import say
from .scoring import cron_verdicts, phrase_verdicts, rows

PAGE = (Path(__file__).parents[2] / "docs" / "when.md").read_text(encoding="utf-8")


def phrases(kind: str) -> list[str]:
    return [line for block in re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


@pytest.mark.parametrize("phrase", phrases("accepted"))
def test_what_the_page_says_is_understood_is(phrase: str) -> None:
    assert say(phrase).kind == "once"


@pytest.mark.parametrize("phrase", phrases("refused"))
def test_what_the_page_says_is_refused_is(phrase: str) -> None:
    with pytest.raises(InvalidSchedule):
        say(phrase)


@pytest.mark.parametrize("phrase", phrases("recurring"))
def test_what_the_page_says_recurs_does(phrase: str) -> None:
    assert say(phrase).kind == "cron"


@pytest.mark.parametrize("rule", phrases("rules"))
def test_what_the_page_says_is_a_rule_is(rule: str) -> None:
    understood = say(rule)
    assert is_rule(understood.cron_expr)
    assert understood.next(2)


@pytest.mark.parametrize(("phrase", "expr"), re.findall(r"^\| ([a-z0-9].*?) \| `(.*?)` \|$", PAGE, re.MULTILINE))
def test_what_the_page_says_recurs_is_that_expression(phrase: str, expr: str) -> None:
    assert say(phrase).cron_expr == expr


def test_the_page_keeps_the_score_on_phrases() -> None:
    score = Counter(verdict for verdict, _ in phrase_verdicts())
    answered = score["right"] + score["wrong"]
    asked = answered + score["refused"]
    assert f"{asked} rows" in PAGE
    assert f"{score['right'] / asked:.1%}".replace("%", " %") + " right" in PAGE
    assert f"{score['refused'] / asked:.1%}".replace("%", " %") + " refused" in PAGE
    assert f"{score['wrong'] / answered:.1%}".replace("%", " %") + " of\n" in PAGE


def test_the_page_keeps_the_score_on_recurring_phrases() -> None:
    score = Counter(verdict for verdict, row in phrase_verdicts() if row["category"] == "recurring")
    assert f"{score['recurring as cron']} of the {score.total()} are understood" in PAGE


def test_the_page_keeps_the_score_on_phrases_with_an_order_and_on_definite_ones() -> None:
    indefinite = {phrase for phrases in MORE_THAN_ONE.values() for phrase in phrases}
    ordered = Counter(verdict for verdict, _ in phrase_verdicts(date_order="mdy"))
    asked = ordered["right"] + ordered["wrong"] + ordered["refused"]
    assert f"{ordered['right'] / asked:.1%}".replace("%", " %") + " right" in PAGE
    judged = list(phrase_verdicts())
    on_purpose = [row for verdict, row in judged if verdict == "refused" and row["phrase"] in indefinite]
    right = Counter(verdict for verdict, _ in judged)["right"]
    assert f"{len(on_purpose)} of the refused are more than one moment" in PAGE
    assert f"of the others, {right / (asked - len(on_purpose)):.1%}".replace("%", " %") + " are right" in PAGE


@pytest.mark.parametrize(("phrase", "suggested"), re.findall(r"^\| \*(.+?)\* \| (\".+?\)) \|$", PAGE, re.MULTILINE))
def test_what_the_page_says_is_suggested_is(phrase: str, suggested: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        say(phrase)
    assert refused.value.fix == f"Try {suggested}."


def test_the_page_keeps_the_number_of_rows_whose_suggestions_are_checked() -> None:
    checked = len(rows("phrases_dev.jsonl")) + len(rows("more_phrases_dev.jsonl"))
    assert f"Of all {checked:,} phrases and {len(rows('cron_dev.jsonl'))} cron expressions" in PAGE


def test_the_page_keeps_the_score_on_cron() -> None:
    score = Counter(verdict for verdict, _ in cron_verdicts())
    differ = score["differs"] + score["accepted"]
    assert f"{score.total()} rows: all {score['grid']} of the clock-change grid" in PAGE
    assert f"{differ} rows ({differ / score.total():.1%})".replace("%", " %") in PAGE
    assert f"{score['refused']} more rows are refused" in PAGE
