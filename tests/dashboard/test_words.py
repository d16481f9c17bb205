"""How values are shown to people."""

from __future__ import annotations

import pytest

from wakeful.dashboard.words import MARKED, SHOWN, SIGNS, is_cut, pretty, state, visible
from wakeful.model.alarm import ALARM_STATUSES, FIRE_STATUSES
from wakeful.service.figures import outcome_of
from wakeful.store.maintenance import StepCount


@pytest.mark.parametrize("status", sorted({*ALARM_STATUSES, *FIRE_STATUSES}))
def test_every_status_has_a_sign_and_a_word(status: str) -> None:
    """Colour never stands alone."""
    shown = state(status)
    assert SIGNS[status] in shown
    assert status.replace("_", " ") in shown


@pytest.mark.parametrize("status", FIRE_STATUSES)
def test_every_status_of_a_fire_is_seen_in_the_timeline(status: str) -> None:
    failed = int(status in ("failed", "timed_out"))
    assert outcome_of(StepCount.of({status: 1}, failed)) == {
        "failed": "bad",
        "timed_out": "bad",
        "retrying": "warn",
        "skipped": "warn",
        "completed": "good",
    }.get(status, "open")


def nested(depth: int, size: int) -> str:
    return "[" * depth + "1" + ",1" * ((size - 2 * depth) // 2) + "]" * depth


@pytest.mark.parametrize("payload", [nested(97, 60_000), nested(97, 131_072), "[" * 5000])
def test_a_deep_or_long_payload_is_not_indented(payload: str) -> None:
    assert pretty(payload) == payload


def test_a_payload_that_fits_is_indented() -> None:
    assert pretty('{"a":[1,"\\u00e9"]}') == '{\n  "a": [\n    1,\n    "é"\n  ]\n}'


@pytest.mark.parametrize("sign", ["a", '"', "é", "中", "\u202e", "\U000e0001", "\ud800"])
def test_a_page_shows_the_beginning_of_a_long_text_and_no_more(sign: str) -> None:
    """Quotes become five characters each; hidden signs are not named one by one where there are many."""
    shown = visible(sign * 131_072)
    assert SHOWN // 5 < len(shown) <= 5 * SHOWN
    assert is_cut(sign * 131_072)
    assert not is_cut(sign * 100)


def test_few_hidden_signs_are_named_and_the_rest_is_escaped() -> None:
    assert visible("<a>\u202e\n\t") == '&lt;a&gt;<span class="hidden-sign" title="U+202E">␦</span>\n\t'
    assert visible("\x00" * (MARKED + 1)) == "␦" * (MARKED + 1)
