"""What a dispatcher believes of the store's clock: only what an answer proves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from wakeful.dispatcher.store_clock import believable

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def seconds(value: float) -> timedelta:
    return timedelta(seconds=value)


@pytest.mark.parametrize(
    ("believed", "said", "answered", "then"),
    [
        (0.0, 0.2, 0.5, 0.0),  # it may be the same clock, however long the answer took
        (0.0, 60.2, 0.5, 59.7),  # it is ahead: by at least this much
        (60.0, 0.2, 0.5, -0.3),  # it is not, or no longer: never more than it may be, or wakes would be early
        (59.9, 60.2, 0.5, 59.9),  # nothing new
        (-5.0, 0.0, 0.001, -0.001),
        (0.0, 0.0, -0.01, 0.0),  # the other clock was set back in between: nothing more is believed
        (0.0, -0.1, -0.01, -0.099),
    ],
)
def test_an_offset_stands_until_an_answer_disproves_it(
    believed: float, said: float, answered: float, then: float
) -> None:
    offset = believable(seconds(believed), NOON + seconds(said), NOON, NOON + seconds(answered))
    assert offset == seconds(then)
