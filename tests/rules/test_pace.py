"""How often one alarm is delivered at most."""

from __future__ import annotations

from datetime import timedelta

from wakeful.rules.pace import too_soon

from .world import at

NOTHING = timedelta(0)


def test_as_many_as_are_allowed_within_a_minute_go_at_once_and_the_next_waits_for_the_first_to_be_a_minute_old() -> (
    None
):
    delivered = [at(9, 0, 0), at(9, 0, 10), at(9, 0, 20)]
    assert too_soon(delivered[:2], 3, now=at(9, 0, 20)) == NOTHING
    assert too_soon(delivered, 3, now=at(9, 0, 20)) == timedelta(seconds=40)
    assert too_soon(delivered, 3, now=at(9, 0, 59)) == timedelta(seconds=1)
    assert too_soon(delivered, 3, now=at(9, 1, 0)) == NOTHING
    assert too_soon([*delivered, at(9, 1, 0)], 3, now=at(9, 1, 0)) == timedelta(seconds=10)


def test_moments_from_before_the_clock_was_set_back_hold_up_nothing() -> None:
    assert too_soon([at(10), at(10)], 2, now=at(9)) == NOTHING
