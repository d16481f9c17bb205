"""A round: a fresh ground, one fault after another, an end to everything, and a judgement."""

from __future__ import annotations

import random
import shutil
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from . import kinds_neighbour, kinds_pg, kinds_sqlite
from .checker import Verdict, judge, only_receivers, worst
from .ground import DISPATCHERS, Ground, Stopped
from .kinds import KINDS, Hit, Kind
from .processes import Exit, too_busy
from .profiles import USUAL, Profile
from .records import Injection, write_all
from .world import versions

OLDER: Final = "5c35f4d"  # the version whose databases must stay usable
KEPT: Final = 6  # folders of rounds that went wrong, per run: more would fill the disk
__all__ = ["OLDER", "Plan", "Result", "kinds_neighbour", "kinds_pg", "kinds_sqlite", "plans", "run_round"]


class Plan(Struct, frozen=True, kw_only=True):
    store: str
    kinds: list[str]
    seed: int
    profile: Profile = USUAL

    @property
    def where(self) -> str:
        return self.store if self.profile is USUAL else f"{self.store}, {self.profile.name}"


class Result(Struct, frozen=True, kw_only=True):
    plan: Plan
    verdict: Verdict | None  # None: the round itself did not come to an end
    injections: list[Injection]
    exits: list[Exit]
    error: str = ""
    too_busy: str = ""  # the machine had too much other work for it

    @property
    def load(self) -> str:
        if self.verdict is None or self.plan.profile is USUAL:
            return ""
        return f", {self.verdict.rate:.0f} alarms a second, {self.verdict.in_flight} in flight at most"


def plans(store: str, names: list[str], rng: random.Random, *, profile: Profile = USUAL) -> Iterator[Plan]:
    """Rounds of a few kinds, for ever: every kind comes once before one comes again."""
    while names:
        shuffled = rng.sample(names, len(names))
        for start in range(0, len(shuffled), profile.each):
            chosen = shuffled[start : start + profile.each]
            yield Plan(store=store, kinds=ordered(chosen), seed=rng.randrange(1 << 30), profile=profile)


def ordered(names: list[str]) -> list[str]:
    """What needs an older beginning first; what could harm those after it last, a file that moved after a backup."""
    return sorted(names, key=lambda name: (not KINDS[name].older, KINDS[name].last, name if KINDS[name].last else ""))


def run_round(plan: Plan, folder: Path, *, stop: threading.Event, until: float, rate: float) -> Result:
    """`until`: no further fault begins after this moment (monotonic), but those that come last in a round."""
    older = any(KINDS[name].older for name in plan.kinds)
    profile = plan.profile
    injections: list[Injection] = []
    exits: list[Exit] = []
    try:
        environ: Mapping[str, str] | None = versions.checkout(OLDER, folder.with_suffix(".old")) if older else None
        with Ground(folder, plan.store, seed=plan.seed, stop=stop, rate=rate, older=environ, profile=profile) as ground:
            exits = ground.keeper.exits
            ground.pause(profile.warm)
            for name in plan.kinds:
                if time.monotonic() > until and not KINDS[name].last:
                    continue
                injections.append(_inject(ground, KINDS[name]))
                if injections[-1].error or injections[-1].too_busy:
                    break  # who knows what state it is in
                ground.pause(1.0 if only_receivers(injections[-1]) else profile.rest)
            ground.drain()
            evidence = ground.evidence(injections)
        write_all(folder / "evidence.json", [evidence])  # first: so that it can be judged again
        verdict = judge(evidence)
        write_all(folder / "violations.jsonl", verdict.violations)
        write_all(folder / "injections.jsonl", injections)
        result = Result(plan=plan, verdict=verdict, injections=injections, exits=list(exits))
    except Stopped:
        result = Result(plan=plan, verdict=None, injections=[], exits=[])
    except Exception as trouble:
        excuse = too_busy(trouble)
        error = "" if excuse else traceback.format_exc(limit=-3)
        told = list(exits)
        result = Result(plan=plan, verdict=None, injections=injections, exits=told, error=error, too_busy=excuse)
    _tidy(folder, result)
    return result


def _inject(ground: Ground, kind: Kind) -> Injection:
    ground.pause(ground.random.uniform(0, 0.7))
    ground.kind, ground.began = kind.name, None
    asked = time.time()
    hit, error, excuse = Hit(hits=(*DISPATCHERS, "store")), "", ""
    try:
        hit = kind.inject(ground)
        ended = hit.ended or time.time()
        ground.everybody_up()
    except Stopped:
        raise
    except Exception as trouble:
        ended, excuse = time.time(), too_busy(trouble)
        error = "" if excuse else f"{type(trouble).__name__}: {trouble}"[:500]
    return Injection(
        kind=kind.name,
        store=ground.store,
        began=ground.began or asked,
        since=asked,
        ended=ended,
        hits=hit.hits,
        skew=hit.skew,
        forgets_since=hit.forgets_since,
        within=hit.within,
        note=hit.note,
        error=error,
        too_busy=excuse,
    )


def _tidy(folder: Path, result: Result) -> None:
    """Keep what shows a fault, up to a bound; the rest goes."""
    shutil.rmtree(folder.with_suffix(".old"), ignore_errors=True)
    shutil.rmtree(folder / "store", ignore_errors=True)
    clean = result.verdict is not None and not worst([result.verdict]) and not any(i.error for i in result.injections)
    others = [path for path in folder.parent.iterdir() if path.is_dir() and path != folder]
    if clean or not folder.exists() or len(others) > KEPT + 3:
        shutil.rmtree(folder, ignore_errors=True)
