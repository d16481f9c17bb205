"""Runs scripts: one, many from seeds, and a failing one ever smaller until nothing can be left out."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import fields, replace

from wakeful.clock import stopwatch
from wakeful.model.alarm import Alarm, Fire
from wakeful.schedule.zones import switch_rules
from wakeful.targets.handler import HandlerFunction
from wakeful.testing.simulation.checker import Broken
from wakeful.testing.simulation.clients import BROUGHT
from wakeful.testing.simulation.event_loop import Stuck, closing, simulated_loop
from wakeful.testing.simulation.process import NOTHING, Brought, zone_rules
from wakeful.testing.simulation.script import Create, Script, Step, Wait, generated, literal, readable, trouble
from wakeful.testing.simulation.world import World

MOST_TURNS: Final = 300_000  # of the loop: a script that needs more runs in circles
SHRINK_WITHIN: Final = 60.0  # seconds


class Run(Struct, frozen=True):
    """What came of a script. `calls`: of the store, each a place where tasks may be switched."""

    script: Script
    broken: Broken | None
    steps: int
    calls: int
    trace: tuple[str, ...] = ()


class Simulated(Struct, frozen=True):
    """What is in the database at the end: the alarms that were brought along, and what became of their fires."""

    alarms: list[Alarm]
    fires: list[Fire]


class PromiseBroken(AssertionError):
    """A simulation found a promise broken; its text has the shrunken script, to be read and to be pasted."""

    def __init__(self, run: Run) -> None:
        super().__init__(run_text(run))
        self.run = run


def run_text(run: Run) -> str:
    assert run.broken is not None
    headline = f"{run.broken.promise} is broken, {run.broken.text}"
    return f"{headline}\n\n{readable(run.script)}\n\nAs a regression test, play({literal(run.script)})"


def play(script: Script, *, traced: bool = False) -> Run:
    """Run a script. The same one always goes the same way."""
    world = _played(script, traced=traced)
    trace = tuple(" ".join(map(str, line)) for line in world.trace or ())
    return Run(script, world.checker.broken, len(script.steps), world.store_calls, trace)


def _played(script: Script, *, traced: bool = False, brought: Brought = NOTHING) -> World:
    loop = simulated_loop(Random(f"order {script.seed}") if script.out_of_turn else None)
    with _as_a_simulation():
        world = World(script, loop, traced=traced, brought=brought)
        checker = world.checker
        with closing(loop, world.groups):
            try:
                loop.run(world.play(), until=lambda: checker.broken or world.clients.refused or loop.turns > MOST_TURNS)
            except Stuck:
                checker.breaks("stuck", "nobody does anything any more")
            if loop.turns > MOST_TURNS:
                checker.breaks("stuck", f"{MOST_TURNS} turns of the event loop, and no end")
    return world


def simulate(
    handlers: Mapping[str, HandlerFunction], alarms: Sequence[Mapping[str, Any]], seed: int, *, seconds: float = 30.0
) -> Simulated:
    """Run handlers and alarms through everything that can go wrong, in virtual time; another seed, other trouble.

    `alarms`: what `set` takes, policy included, for each. For `seconds` processes die and stand still, clocks are set
    and the database fails; then all is well again until everything that is due was delivered. PromiseBroken where a
    promise of docs/guarantees.md did not hold, with what had happened. What the handlers themselves promise is for the
    caller to check: a call that its worker did not survive ends at whatever `await` it had reached, and comes again.
    """
    script = trouble(seed, seconds)
    with _quietly():
        world = _played(script, brought=Brought(handlers, alarms))
    if world.clients.refused is not None:
        raise world.clients.refused
    if world.checker.broken is not None:
        raise PromiseBroken(Run(script, world.checker.broken, len(script.steps), world.store_calls))
    ours = {id for number, known in world.checker.known.items() if number >= BROUGHT for id in known.ids}
    database = world.database
    return Simulated(
        alarms=[alarm for alarm in database.alarms.values() if alarm.id in ours],
        fires=[fire for fire in database.fires.values() if fire.alarm_id in ours],
    )


def replay(seed: int, *, traced: bool = True) -> Run:
    """Run the script of a seed."""
    return play(generated(seed), traced=traced)


def simulate_seeds(seeds: Iterator[int], *, until: Callable[[], bool] = lambda: False) -> Iterator[Run]:
    """Run the script of each seed, until it is time to stop."""
    with _quietly():
        for seed in seeds:
            if until():
                return
            yield replay(seed, traced=False)


# Shrinking


def shrunk(run: Run, *, within: float = SHRINK_WITHIN) -> Run:
    """The smallest script found in this time (seconds) that breaks the same promise."""
    assert run.broken is not None
    best, by = run, stopwatch() + within
    with _quietly():
        changed = True
        while changed:
            changed = False
            for script in _smaller(best.script):
                if stopwatch() > by:
                    return best
                found = play(script)
                if found.broken is not None and found.broken.promise == run.broken.promise:
                    best, changed = found, True
                    break
    return best


def _smaller(script: Script) -> Iterator[Script]:
    """Scripts that are simpler by one change, the boldest first."""
    for name in ("delays", "out_of_turn"):
        if getattr(script, name):
            yield replace(script, **{name: False})
    size = len(script.steps) // 2
    while size:
        for at in range(0, len(script.steps), size):
            yield replace(script, steps=script.steps[:at] + script.steps[at + size :])
        size //= 2
    if script.one_machine:
        yield replace(script, one_machine=False)
    for at, step in enumerate(script.steps):
        for simpler in _simpler(step):
            yield replace(script, steps=(*script.steps[:at], simpler, *script.steps[at + 1 :]))


def _simpler(step: Step) -> Iterator[Step]:
    for one in fields(step):
        value = getattr(step, one.name)
        if one.required or value == one.default or isinstance(step, Wait):
            continue
        yield replace(step, **{one.name: one.default})
    if isinstance(step, Create) and step.many > 2:
        yield replace(step, many=step.many // 2)


# What is not part of the simulated world


@contextmanager
def _as_a_simulation() -> Iterator[None]:
    """Zone data as a simulated process has it, and no collection of garbage at moments that differ from run to run."""
    before, collects = switch_rules(zone_rules(0)), gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        switch_rules(before)
        if collects:
            gc.enable()


@contextmanager
def _quietly() -> Iterator[None]:
    """Nobody reads the log of thousands of runs."""
    log = logging.getLogger("wakeful")
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(before)
