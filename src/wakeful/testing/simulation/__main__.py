"""The command of ./scripts/simulate: seed after seed until the time is up or a promise breaks."""

from __future__ import annotations

import argparse
import sys
from itertools import count, islice

from wakeful.clock import stopwatch
from wakeful.testing.simulation.runner import replay, run_text, shrunk, simulate_seeds
from wakeful.testing.simulation.script import readable

TOLD_EVERY = 60.0  # seconds


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this seed, and print all that happens")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--seeds", type=int, help="so many seeds")
    parser.add_argument("--steps", type=int, help="until so many steps were played")
    parser.add_argument("--seconds", type=float, help="for so long")
    parser.add_argument("--hours", type=float, help="for so long")
    options = parser.parse_args()
    return _replayed(options.seed) if options.seed is not None else _simulated(options)


def _replayed(seed: int) -> int:
    run = replay(seed)
    print(readable(run.script), *run.trace, sep="\n")
    if run.broken is None:
        print(f"\n{run.steps} steps, {run.calls:,} calls of the store: every promise held")
        return 0
    print(f"\n{run.broken.promise} is broken, {run.broken.text}\n\nthe smallest script that breaks it:\n")
    print(run_text(shrunk(run)))
    return 1


def _simulated(options: argparse.Namespace) -> int:
    began = last = stopwatch()
    seconds = (options.hours or 0) * 3600 + (options.seconds or 0)
    if not (seconds or options.seeds or options.steps):
        seconds = 60
    seeds = steps = calls = 0
    chosen = islice(count(options.first), options.seeds)
    for run in simulate_seeds(chosen, until=lambda: bool(seconds) and stopwatch() - began >= seconds):
        seeds, steps, calls = seeds + 1, steps + run.steps, calls + run.calls
        if run.broken is not None:
            print(f"seed {run.script.seed}: {run.broken.promise} is broken, {run.broken.text}", flush=True)
            print(f"\nthe smallest script that breaks it:\n\n{run_text(shrunk(run))}")
            _tell(seeds, steps, calls, stopwatch() - began)
            return 1
        if stopwatch() - last >= TOLD_EVERY:
            last = stopwatch()
            _tell(seeds, steps, calls, last - began)
        if options.steps and steps >= options.steps:
            break
    _tell(seeds, steps, calls, stopwatch() - began)
    print("every promise held")
    return 0


def _tell(seeds: int, steps: int, calls: int, seconds: float) -> None:
    a_minute = 60 * seeds / max(seconds, 0.001)
    print(f"{seeds:,} seeds, {steps:,} steps, {calls:,} calls of the store, {a_minute:,.0f} seeds a minute", flush=True)


if __name__ == "__main__":
    sys.exit(main())
