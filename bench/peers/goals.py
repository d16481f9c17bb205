"""The table of goals: what is to be reached, what was, and whether. Pure."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from msgspec import Struct

from bench.peers.contestants import PEERS, WAKEFUL, Store
from bench.peers.figures import Figures, short
from bench.peers.plan import WORKERS

OURS = WAKEFUL.name
NOISE = 0.95  # what the same code differs by from run to run is not called a fall
STARTUP = 1.5


class Reached(Struct, frozen=True):
    value: float
    said: str


class Goal(Struct, frozen=True):
    measure: str
    goal: str
    reached: Callable[[Figures], Reached | None]
    met: Callable[[float], bool]


class Verdict(Struct, frozen=True):
    measure: str
    reached: str
    goal: str
    met: bool | None  # None: not measured

    @property
    def mark(self) -> str:
        return {True: "✓", False: "✗", None: "–"}[self.met]


def verdicts(figures: Figures) -> list[Verdict]:
    return [_verdict(goal, goal.reached(figures)) for goal in GOALS]


def _verdict(goal: Goal, reached: Reached | None) -> Verdict:
    if reached is None:
        return Verdict(goal.measure, "not measured", goal.goal, None)
    return Verdict(goal.measure, reached.said, goal.goal, goal.met(reached.value))


def _times(measure: str, store: Store, among: list[str], field: str = "per_s") -> Callable[[Figures], Reached | None]:
    """wakeful's median over that of the best of them."""

    def reached(figures: Figures) -> Reached | None:
        ours, best = figures.median(measure, store, OURS, field), figures.best(measure, store, among, field)
        if ours is None or best is None:
            return None
        name, theirs = best
        return Reached(ours / theirs, f"{ours / theirs:.2f} × {name} ({short(ours)} against {short(theirs)})")

    return reached


def _over(measure: str, other: str, store: Store, field: str = "per_s") -> Callable[[Figures], Reached | None]:
    """One of wakeful's own medians over another."""

    def reached(figures: Figures) -> Reached | None:
        one, two = (figures.median(name, store, OURS, field) for name in (measure, other))
        if one is None or two is None:
            return None
        return Reached(one / two, f"{one / two:.2f} ({short(one)} against {short(two)})")

    return reached


def _plain(measure: str, store: Store, field: str, unit: str) -> Callable[[Figures], Reached | None]:
    def reached(figures: Figures) -> Reached | None:
        found = figures.median(measure, store, OURS, field)
        return None if found is None else Reached(found, f"{short(found)}{unit}")

    return reached


def _busy(store: Store) -> Callable[[Figures], Reached | None]:
    def reached(figures: Figures) -> Reached | None:
        found = figures.median("busy", store, OURS, "p99_ms")
        rate = figures.median("busy", store, OURS)
        return None if found is None or rate is None else Reached(found, f"{short(found)} ms at {short(rate)}/s")

    return reached


def _memory(store: Store) -> Callable[[Figures], Reached | None]:
    def reached(figures: Figures) -> Reached | None:
        found = figures.all("pending", store, OURS, "worker_peak_mb")
        pending = figures.all("pending", store, OURS, "pending")
        return Reached(max(found), f"{max(found):.0f} MB at {max(pending):,.0f}") if found else None

    return reached


def _never_falls(figures: Figures) -> Reached | None:
    """The worst step from fewer workers to more. That none was woken twice is checked in every run."""
    found = [figures.median(f"workers {count}", "postgres", OURS) for count in WORKERS]
    rates = [rate for rate in found if rate is not None]
    if len(rates) < len(WORKERS):
        return None
    worst = min(more / fewer for fewer, more in pairwise(rates))
    return Reached(worst, f"{', '.join(short(rate) for rate in rates)}/s; none twice")


def _at_least(bound: float) -> Callable[[float], bool]:
    return lambda value: value >= bound


def _at_most(bound: float) -> Callable[[float], bool]:
    return lambda value: value <= bound


def _on(store: Store) -> str:
    return {"postgres": "PostgreSQL", "sqlite": "SQLite"}[store]


def _peers(store: Store) -> list[str]:
    return [peer.name for peer in PEERS if store in peer.stores]


def _on_each(store: Store) -> list[Goal]:
    """What is asked of both stores alike."""
    on = _on(store)
    return [
        Goal(f"drain with many pending, {on}", "≥ 0.95 of empty", _over("pending", "empty", store), _at_least(0.95)),
        *(
            Goal(
                f"punctuality, idle, p{point}, {on}",
                "≤ 0.5 × APScheduler 3",
                _times("punctual", store, ["apscheduler"], f"p{point}_ms"),
                _at_most(0.5),
            )
            for point in (50, 99)
        ),
        Goal(f"punctuality at 5,000 fires/s, p99, {on}", "≤ 50 ms", _busy(store), _at_most(50)),
        Goal(
            f"herd: cron alarms at one moment, time, {on}",
            "≤ 1.2 × a plain drain",
            _over("empty", "herd", store),  # rates: the time is the other way round
            _at_most(1.2),
        ),
        Goal(
            f"webhooks per core, {on}",
            "≥ 0.8 × the bare HTTP client",
            _plain("webhooks", store, "ratio", ""),
            _at_least(0.8),
        ),
        Goal(f"HTTP creates, CPU per request, {on}", "≤ 180 µs", _plain("http", store, "cpu_us", " µs"), _at_most(180)),
        Goal(f"memory of a worker at many pending, {on}", "< 120 MB", _memory(store), lambda value: value < 120),
        Goal(
            f"start-up at many pending, {on}",
            f"as with none (≤ {STARTUP} ×)",
            _over("pending", "empty", store, "startup_s"),
            _at_most(STARTUP),
        ),
    ]


_CREATE_GOALS: tuple[tuple[Store, int], ...] = (("postgres", 10), ("sqlite", 5))
GOALS = [
    *(
        Goal("drain, PostgreSQL, history kept", f"≥ 1.0 × {peer}", _times("drain", "postgres", [peer]), _at_least(1.0))
        for peer in ("graphile-worker", "pg-boss")
    ),
    *(
        Goal("drain, SQLite", f"≥ 10 × {peer}", _times("drain", "sqlite", [peer]), _at_least(10))
        for peer in ("apscheduler", "huey")
    ),
    Goal("drain, SQLite", "≥ 0.7 of the bare loop", _times("drain", "sqlite", ["bare loop"]), _at_least(0.7)),
    *(
        Goal(
            f"create, 64 at once, {_on(store)}",
            f"≥ {times} × the best peer",
            _times("create", store, _peers(store)),
            _at_least(times),
        )
        for store, times in _CREATE_GOALS
    ),
    Goal(
        "create, bulk, PostgreSQL",
        "≥ 1.0 × the best of three",
        _times("bulk", "postgres", ["graphile-worker", "pg-boss", "pgqueuer"]),
        _at_least(1.0),
    ),
    *_on_each("postgres"),
    *_on_each("sqlite"),
    Goal("1, 2, 4 workers on one PostgreSQL", "never falls; none twice", _never_falls, _at_least(NOISE)),
]
