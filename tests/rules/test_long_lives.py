"""The lives of test_properties by dice: no shrinking, but far more of it for the same price."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from wakeful.model.alarm import Policy

from .test_properties import CRONS, OUTCOMES, POLICY, REPORTS, SPELLS, WAITS, Life, Terminal


def long_life(seed: int, life: Life, steps: int) -> None:
    dice = Random(seed)

    some = dice.choice
    policy = Policy(**{name: some(values) for name, values in POLICY.items()})
    life.made(some([*CRONS, *CRONS, ""]), policy, some([0, 1, 5]), some(WAITS))
    acts: list[tuple[int, Callable[[], object]]] = [
        (8, lambda: life.an_occurrence_is_worked_on(some(SPELLS), some(SPELLS), some(OUTCOMES))),
        (3, lambda: life.time_passes(some(WAITS))),
        (2, life.it_is_due),
        (4, life.a_worker_claims_it),
        (4, lambda: life.an_attempt_comes_back(some(OUTCOMES), dice.randrange(4))),
        (1, lambda: life.a_worker_stops_or_dies(dice.random() < 0.5)),
        (4, lambda: life.the_target_reports(some(REPORTS), dice.randrange(6))),
        (1, life.the_sweep_comes_by),
        (1, life.the_inbox_is_fetched),
        (1, life.paused),
        (2, life.resumed),
        (1, lambda: life.snoozed(some(WAITS))),
        (2, lambda: life.retried(dice.randrange(6))),
        (1, life.relabelled),
        (2, lambda: life.given_another_time(some([*CRONS, ""]), some(WAITS), dice.random() < 0.5, dice.randrange(4))),
        (1, lambda: life.cancelled(dice.randrange(20))),
    ]
    needs: dict[object, Callable[[], object]] = {
        acts[0][1]: lambda: life.world.alarm.status == "active" and not life.flights,
        acts[2][1]: lambda: life.world.alarm.status == "active",
        acts[3][1]: life.claimable,
        acts[4][1]: lambda: life.flights,
        acts[5][1]: lambda: life.flights,
    }
    weights = [weight for weight, _ in acts]
    for _ in range(steps):
        [(_, act)] = dice.choices(acts, weights)
        if act not in needs or needs[act]():
            act()
            life.check()


@pytest.mark.parametrize("block", range(6))
def test_long_lives_keep_every_promise(block: int) -> None:
    for seed in range(block * 40, block * 40 + 40):
        life = Terminal()
        try:
            long_life(seed, life, steps=120)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
