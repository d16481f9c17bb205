"""How values are shown to people."""

from __future__ import annotations

import pytest

from wakeful.alarm import ALARM_STATUSES, FIRE_STATUSES
from wakeful.dashboard.words import SIGNS, state
from wakeful.service.timeline import outcome_of
from wakeful.store.figures import StepCount


@pytest.mark.parametrize("status", sorted({*ALARM_STATUSES, *FIRE_STATUSES}))
def test_every_status_has_a_sign_and_a_word(status: str) -> None:
    """Colour never stands alone."""
    shown = state(status)
    assert SIGNS[status] in shown
    assert status.replace("_", " ") in shown


@pytest.mark.parametrize("status", FIRE_STATUSES)
def test_every_status_of_a_fire_is_seen_in_the_timeline(status: str) -> None:
    failed = int(status in ("failed", "timed_out"))
    assert outcome_of(StepCount({status: 1}, failed)) == {
        "failed": "bad",
        "timed_out": "bad",
        "retrying": "warn",
        "skipped": "warn",
        "completed": "good",
    }.get(status, "open")
