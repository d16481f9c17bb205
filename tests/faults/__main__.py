"""Break everything, by seed, and count what it cost: python -m tests.faults --seed 1 --minutes 60.

Two lanes run side by side, one on SQLite and one on PostgreSQL (plain, behind pgbouncer, with a replica), in rounds of
a few minutes on fresh databases; one round in five is a busy one (profiles.py). The result is a table; the exit
status is 1 if any promise was broken.
"""

from __future__ import annotations

import argparse
import itertools
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

from .checker import judge, worst
from .kinds import ANYWHERE, KINDS
from .profiles import BUSY, PROFILES, USUAL, Profile
from .records import Evidence, read
from .report import Report
from .rounds import Plan, ordered, plans, run_round

SHORT: Final = 220.0  # seconds in which a short run begins faults; ending and judging come after
# The rounds of the two lanes of a long run, over and over: one in five is a busy one.
LANES: Final[tuple[tuple[tuple[str, Profile], ...], ...]] = (
    (("sqlite", USUAL), ("sqlite", USUAL), ("sqlite", BUSY), ("sqlite", USUAL), ("sqlite", USUAL)),
    (("postgres", USUAL), ("bouncer", USUAL), ("postgres", USUAL), ("failover", USUAL), ("postgres", BUSY)),
)
RATE: Final = 12.0  # alarms a second and ground


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="which faults, in which order")
    parser.add_argument("--minutes", type=float, default=5.0, help="no fault begins after this")
    parser.add_argument("--store", default="all", choices=["all", "sqlite", "postgres", "bouncer", "failover"])
    parser.add_argument("--kinds", default="", help="only these: names or parts of names, with commas between")
    parser.add_argument("--profile", choices=list(PROFILES), help="only rounds of this load: usual, or busy")
    parser.add_argument("--short", action="store_true", help="each kind once on one store, within five minutes")
    parser.add_argument("--journal", type=Path, help="where to keep journals and logs of rounds that went wrong")
    parser.add_argument("--rate", type=float, default=RATE, help="alarms a second on each ground")
    parser.add_argument("--list", action="store_true", help="name the kinds and end")
    parser.add_argument("--judge", type=Path, help="judge a journal folder once more instead of running anything")
    return parser.parse_args()


class Run:
    def __init__(self, asked: argparse.Namespace, folder: Path) -> None:
        self.asked, self.folder = asked, folder
        self.rng = random.Random(asked.seed)
        self.report = Report()
        self.stop = threading.Event()
        seconds = SHORT if asked.short else asked.minutes * 60
        self.until = time.monotonic() + seconds
        self.numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._busy = threading.Lock()  # two busy rounds at a time would measure the machine

    def chosen(self, store: str, profile: Profile = USUAL) -> list[str]:
        """The kinds for a store that were asked for; what this machine cannot do is noted in the table."""
        wanted = [part.strip().lower() for part in self.asked.kinds.split(",") if part.strip()]
        names = []
        for name, one in KINDS.items():
            if store not in one.stores or (wanted and not any(part in name.lower() for part in wanted)):
                continue
            if profile.name not in one.profiles:
                continue
            if missing := one.missing():
                self.report.absent[name, store] = f"not available: {missing}"
            else:
                names.append(name)
        return names

    def lanes(self) -> list[Iterator[Plan]]:
        stores = list(ANYWHERE) if self.asked.store == "all" else [self.asked.store]
        if self.asked.short:
            return self._short({store: self.chosen(store) for store in stores})
        endless: dict[tuple[str, str], Iterator[Plan]] = {}
        lanes: list[Iterator[Plan]] = []
        for lane in LANES:
            turns = []
            for store, profile in lane:
                if store not in stores or self.asked.profile not in (None, profile.name):
                    continue
                names = self.chosen(store, profile)
                if names and (store, profile.name) not in endless:
                    rng = random.Random(self.rng.random())
                    endless[store, profile.name] = plans(store, names, rng, profile=profile)
                if names:
                    turns.append(endless[store, profile.name])
            if turns:
                lanes.append(next(turn) for turn in itertools.cycle(turns))
        return lanes

    def _short(self, names: dict[str, list[str]]) -> list[Iterator[Plan]]:
        """Every kind once, in three lanes: what works on both stores is dealt out by the seed."""
        shared = [name for name in names.get("sqlite", []) if name in names.get("postgres", [])]
        self.rng.shuffle(shared)
        own = {store: [name for name in found if name not in shared] for store, found in names.items()}
        own["bouncer"] = [name for name in own.get("bouncer", []) if KINDS[name].stores == ("bouncer",)]
        first, second = round(len(shared) * 0.4), round(len(shared) * 0.6)
        lanes = [
            [self._plan("sqlite", own.get("sqlite", []) + shared[:first])],
            [self._plan("postgres", own.get("postgres", []) + shared[first:second])],
            [
                self._plan("failover", own.get("failover", [])),
                self._plan("bouncer", own["bouncer"]),
                self._plan("sqlite", shared[second:]),
            ],
        ]
        return [iter([plan for plan in lane if plan.kinds]) for lane in lanes]

    def _plan(self, store: str, names: list[str]) -> Plan:
        return Plan(store=store, kinds=ordered(self.rng.sample(names, len(names))), seed=self.rng.randrange(1 << 30))

    def lane(self, plan_for_plan: Iterator[Plan]) -> None:
        for plan in plan_for_plan:
            if self.stop.is_set() or time.monotonic() > self.until:
                self._not_reached(plan, set())
                if self.asked.short:
                    continue
                return
            folder = self.folder / f"{next(self.numbers):03}-{plan.store}-{plan.profile.name}-{plan.seed}"
            with self._busy if plan.profile is BUSY else nullcontext():
                result = run_round(plan, folder, stop=self.stop, until=self.until, rate=self.asked.rate)
            with self._lock:
                self.report.add(result)
                self._not_reached(plan, {one.kind for one in result.injections})
                found = "" if result.verdict is None else f", {len(result.verdict.violations)} findings"
                say(
                    f"{folder.name}: {len(result.injections)} faults{found}{result.load}"
                    f"{' BROKE OFF' if result.error else ''}"
                )

    def _not_reached(self, plan: Plan, done: set[str]) -> None:
        """In a short run a kind comes once or not at all: the table says which did not."""
        if self.asked.short:
            for name in plan.kinds:
                if name not in done:
                    self.report.absent.setdefault((name, plan.store), "not reached in time")

    def __call__(self) -> int:
        started = time.monotonic()
        threads = [threading.Thread(target=self.lane, args=(lane,), name="lane") for lane in self.lanes()]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.2)
        report, took = self.report, time.monotonic() - started
        print(report.table())
        print()
        if details := report.details():
            print(details)
        print(
            f"seed {self.asked.seed}, {report.rounds} rounds, {took:.0f} s; folders of what went wrong: {self.folder}"
        )
        print(report.last_line(), flush=True)
        return 1 if report.failed or self.stop.is_set() else 0


def judged_again(folder: Path) -> int:
    """What the judge of today says of rounds that were kept."""
    found = []
    for path in sorted(folder.glob("*/evidence.json")):
        [evidence] = read(path, Evidence)
        for one in worst([judge(evidence)]):
            found.append(one)
            print(f"{path.parent.name}: {one.column} at {one.kind!r}: {one.alarm} {one.says}")
    return 1 if found else 0


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> int:
    asked = parsed()
    if asked.list:
        for one in KINDS.values():
            print(f"{one.name} ({', '.join(one.stores)})")
        print(len(KINDS))
        return 0
    if asked.judge:
        return judged_again(asked.judge)
    folder = asked.journal or Path(tempfile.mkdtemp(prefix="wakeful-faults-"))
    folder.mkdir(parents=True, exist_ok=True)
    run = Run(asked, folder)

    def stopped(*_: Any) -> None:
        say("stopping: processes are being ended")
        run.stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stopped)
    return run()


if __name__ == "__main__":
    sys.exit(main())
