"""Faults of every kind, in one list: what each does to a ground, what it hits, and where it can be done.

A kind does its harm, undoes it, and says what it hit. Whatever goes wrong in between, it leaves things healed.
"""

from __future__ import annotations

import resource
import signal
import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from .ground import DISPATCHERS, LEASE, WORKERS, Ground
from .processes import python_environ
from .profiles import BUSY, USUAL
from .world import clock as clocks

ANYWHERE: Final = ("sqlite", "postgres", "bouncer", "failover")
COMMON: Final = ("sqlite", "postgres")
HERD: Final = 150
EVERYWHERE: Final = (USUAL.name, BUSY.name)
STEP: Final = 600.0  # seconds
GIVEN_UP_WITHIN: Final = 180.0  # each death of a worker costs a lease and a start


class Hit(Struct, frozen=True, kw_only=True):
    """What a fault hit; when it was over, if that was before it returned."""

    hits: tuple[str, ...]
    ended: float | None = None
    skew: float = 0.0
    forgets_since: float | None = None
    within: float | None = None
    note: str = ""


class Kind(Struct, frozen=True, kw_only=True):
    name: str
    stores: tuple[str, ...]
    inject: Callable[[Ground], Hit]
    missing: Callable[[], str]  # what this machine lacks for it; "" when nothing
    older: bool = False  # the ground begins with an older wakeful
    last: bool = False  # at the end of a round: what it does wrong would be laid at the door of those after it
    profiles: tuple[str, ...] = (USUAL.name,)


KINDS: Final[dict[str, Kind]] = {}


def nothing() -> str:
    return ""


def kind(
    name: str,
    *stores: str,
    missing: Callable[[], str] = nothing,
    older: bool = False,
    last: bool = False,
    profiles: tuple[str, ...] = (USUAL.name,),
) -> Callable[[Callable[[Ground], Hit]], Callable[[Ground], Hit]]:
    def enter(inject: Callable[[Ground], Hit]) -> Callable[[Ground], Hit]:
        KINDS[name] = Kind(
            name=name,
            stores=stores or COMMON,
            inject=inject,
            missing=missing,
            older=older,
            last=last,
            profiles=profiles,
        )
        return inject

    return enter


def one_worker(ground: Ground) -> str:
    return ground.random.choice(WORKERS)


def in_a_batch(ground: Ground, count: int = HERD) -> None:
    """Until a herd is just being delivered."""
    ground.burst(count, ahead=0.8)
    ground.pause(0.8 + ground.random.uniform(0.0, 0.2))
    ground.mark()


# Processes die


@kind("nothing but load", profiles=(BUSY.name,))
def only_load(ground: Ground) -> Hit:
    ground.pause(5)
    return Hit(hits=("receiver:none",))


@kind("kill a worker", profiles=EVERYWHERE)
def kill_worker(ground: Ground) -> Hit:
    in_a_batch(ground)
    name = one_worker(ground)
    ground.keeper.kill(name)
    return Hit(hits=(name,))


@kind("kill serve")
def kill_serve(ground: Ground) -> Hit:
    in_a_batch(ground)
    ground.keeper.kill("serve")
    ground.everybody_up()
    return Hit(hits=("serve",))


@kind("kill all processes")
def kill_all(ground: Ground) -> Hit:
    in_a_batch(ground)
    for name in DISPATCHERS:
        ground.keeper.kill(name)
    ground.everybody_up()
    return Hit(hits=DISPATCHERS)


@kind("herd with kills")
def herd_with_kills(ground: Ground) -> Hit:
    for _ in range(3):
        in_a_batch(ground)
        for name in WORKERS:
            ground.keeper.kill(name)
    return Hit(hits=WORKERS)


@kind("crash loop")
def crash_loop(ground: Ground) -> Hit:
    """One worker dies five times, each time just as it has claimed."""
    for _ in range(5):
        in_a_batch(ground, 40)
        ground.keeper.kill("worker-1")
        ground.pause(1.0)
    return Hit(hits=("worker-1",))


@kind("poison alarm")
def poison(ground: Ground) -> Hit:
    """Whoever delivers it dies, until wakeful stops trying; nobody else's alarm may pay for it."""
    [made] = ground.burst(1, target="poison", ahead=0.3)
    if not made.alarm:
        raise TimeoutError("there was no answer to the request that sets a poison alarm")
    end = time.monotonic() + GIVEN_UP_WITHIN
    while ground.alarm_status(made.alarm) in ("active", "") and time.monotonic() < end:
        ground.pause(0.5)
    status = ground.alarm_status(made.alarm)
    if status in ("active", ""):
        raise TimeoutError(f"a poison alarm is not given up after {GIVEN_UP_WITHIN:.0f} s: {status or 'no answer'}")
    return Hit(hits=DISPATCHERS, note=f"it ended {status}")


@kind("SIGTERM to a worker in a batch")
def term_worker(ground: Ground) -> Hit:
    in_a_batch(ground)
    name = one_worker(ground)
    ground.keeper.restart(name, number=signal.SIGTERM)
    return Hit(hits=(name,))


@kind("SIGTERM to serve in a batch")
def term_serve(ground: Ground) -> Hit:
    in_a_batch(ground)
    ground.keeper.restart("serve", number=signal.SIGTERM)
    ground.everybody_up()
    return Hit(hits=("serve",))


@kind("rolling restart")
def rolling_restart(ground: Ground) -> Hit:
    for name in DISPATCHERS:
        ground.keeper.restart(name, number=signal.SIGTERM)
        ground.everybody_up()
    return Hit(hits=DISPATCHERS)


# Processes stand still


@kind("freeze a worker for less than a lease")
def freeze_briefly(ground: Ground) -> Hit:
    return _freeze(ground, one_worker(ground), seconds=LEASE / 2)


@kind("freeze a worker for more than a lease")
def freeze_worker(ground: Ground) -> Hit:
    return _freeze(ground, one_worker(ground), seconds=LEASE * 1.6)


@kind("freeze a worker for six seconds", profiles=(BUSY.name,))
def freeze_for_seconds(ground: Ground) -> Hit:
    """Longer than its deliveries may take, shorter than the default lease: nobody else takes its alarms."""
    return replace(_freeze(ground, one_worker(ground), seconds=6.0), within=ground.brief)


@kind("freeze serve")
def freeze_serve(ground: Ground) -> Hit:
    return _freeze(ground, "serve", seconds=LEASE * 1.6)


@kind("freeze all processes")
def freeze_all(ground: Ground) -> Hit:
    return _freeze(ground, *DISPATCHERS, seconds=LEASE * 1.6)


def _freeze(ground: Ground, *names: str, seconds: float) -> Hit:
    in_a_batch(ground)
    with ground.frozen(*names):
        ground.pause(seconds)
    return Hit(hits=names)


@kind("no descriptors left in a worker")
def no_descriptors(ground: Ground) -> Hit:
    ground.mark()
    with ground.limited(resource.RLIMIT_NOFILE, None, "worker-1"):
        in_a_batch(ground, 40)
        ground.pause(3)
    return Hit(hits=("worker-1",))


@kind("no descriptors left in serve")
def no_descriptors_in_serve(ground: Ground) -> Hit:
    with ground.limited(resource.RLIMIT_NOFILE, None, "serve"):
        ground.pause(3)
    return Hit(hits=("serve",))


# Clocks


def no_faketime() -> str:
    return "" if clocks.available() else "faketime"


@kind("a worker's clock an hour ahead", missing=no_faketime)
def clock_ahead(ground: Ground) -> Hit:
    return _clock(ground, 3600.0)


@kind("a worker's clock an hour back", missing=no_faketime)
def clock_back(ground: Ground) -> Hit:
    return _clock(ground, -3600.0)


def _clock(ground: Ground, seconds: float) -> Hit:
    fake = clocks.FakeTime.start()
    ground.restart("worker-2", fake.environ)
    try:
        ground.until_it_sends("worker-2")
        ground.burst(20, target="slow", ahead=0.3)  # long deliveries: their leases must be renewed all the same
        ground.pause(0.7)
        ground.mark()
        fake.jump(seconds)
        in_a_batch(ground, 60)
        ground.pause(LEASE * 1.5)
    finally:
        fake.jump(-seconds)
        ended = time.time()
        ground.pause(LEASE)
        ground.restart("worker-2", {})
        fake.close()
    # On SQLite this clock judges leases too, everybody's; theirs seem to it, and its to them, an hour away. Whatever is
    # in flight just then may be sent twice.
    judges = ("store",) if ground.store == "sqlite" else ()
    return Hit(hits=("clock:worker-2", *judges), skew=seconds, ended=ended)


@kind("the clock ten minutes back for a second", missing=no_faketime, profiles=EVERYWHERE)
def clock_back_and_again(ground: Ground) -> Hit:
    return _step(ground, -STEP)


@kind("the clock ten minutes ahead for a second", missing=no_faketime, profiles=EVERYWHERE)
def clock_ahead_and_again(ground: Ground) -> Hit:
    return _step(ground, STEP)


def _step(ground: Ground, seconds: float) -> Hit:
    """The clock of the machine that wakeful runs on: every process has it, and PostgreSQL has its own."""
    fake = clocks.FakeTime.start()
    for name in DISPATCHERS:
        ground.restart(name, fake.environ)
        ground.everybody_up()
    try:
        ground.pause(3)
        ground.burst(60, ahead=1.0)
        ground.pause(0.7)
        ground.mark()
        fake.jump(seconds)
        fake.jump(-seconds)  # a second later
        ended = time.time()
        ground.pause(ground.profile.tick + ground.profile.slack)
    finally:
        for name in DISPATCHERS:
            ground.restart(name, python_environ())
        fake.close()
    judges = ("store",) if ground.store == "sqlite" else ()
    hits = (*(f"clock:{name}" for name in DISPATCHERS), *judges)
    return Hit(hits=hits, skew=seconds, ended=ended, within=ground.profile.tick)


# Receivers: nobody but their own alarms may notice


def _hostile(ground: Ground, target: str) -> Hit:
    policy = {"backoff_base": 1, "backoff_cap": 2}
    ground.burst(60, target=target, ahead=0.3, max_failures=1, policy=policy)
    ground.pause(4)
    return Hit(hits=(f"receiver:{target}",))


for _target, _does in {
    "hang": "never answers",
    "stream": "never stops answering",
    "reset": "hangs up",
    "garbage": "answers garbage",
    "refuse": "answers 500",
}.items():
    kind(f"a receiver that {_does}")(lambda ground, target=_target: _hostile(ground, target))  # type: ignore[misc]


# Versions


def no_history() -> str:
    from .world import versions

    return "" if versions.available() else "this repository's history"


@kind("upgrade, two versions side by side", missing=no_history, older=True)
def upgrade(ground: Ground) -> Hit:
    """Everything began with an older wakeful: one by one they become this one, an older worker the last."""
    if ground.older is None:
        raise RuntimeError("this ground began with the version of today")
    ground.mark()
    for name in DISPATCHERS:
        ground.keeper.restart(name, number=signal.SIGTERM, environ=python_environ())
        ground.everybody_up()
        in_a_batch(ground, 60)
        ground.pause(2)
    return Hit(hits=DISPATCHERS)
