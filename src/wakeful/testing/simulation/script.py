"""Scripts: what clients do and what goes wrong, step by step, as values that a seed generates.

A script is plain data. Printed, it is read by people; as a Python literal, it is pasted into a test.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, Literal, get_args

from msgspec import Struct
from msgspec.structs import fields

StoreCall = Literal["add", "claim", "settle", "renew", "get", "fires_at", "now", "next_due", "spend", "any"]
Trouble = Literal["refused", "lost", "slow", "repeated", "clock", "dies", "late"]
What = Literal[
    "cancel",
    "pause",
    "resume",
    "skip",
    "undo",
    "fire",
    "retry",
    "snooze",
    "move",
    "reword",
    "when",
    "policy",
    "rearm",
    "repeat",
]
Reported = Literal["completed", "failed", "working", "snooze"]
Answer = Literal["500", "429", "410", "hangs up", "late", "never"]
STORE_CALLS: Final[tuple[StoreCall, ...]] = get_args(StoreCall)
TROUBLES: Final[tuple[Trouble, ...]] = ("refused", "lost", "slow", "repeated", "clock", "dies")
ANSWERS: Final[tuple[Answer, ...]] = get_args(Answer)


class Step(Struct, frozen=True, kw_only=True, tag=True, repr_omit_defaults=True):
    """One step. Alarms are called by small numbers: steps about one that was never set do nothing."""


class Wait(Step, frozen=True, kw_only=True, repr_omit_defaults=True):
    """Let so much time pass."""

    seconds: float


class Create(Step, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A client sets alarm `alarm` through process `by`: `after` seconds from now, or a series of `every` seconds.

    `key`: with an idempotency key, repeated until it is answered. `many`: so many at once, numbered from `alarm` on.
    """

    alarm: int
    by: int = 0
    after: float = 1.0
    every: int = 0
    wall_time: bool = False  # a daily time in a zone whose law may change
    target: str = "steady"
    owner: str = "ann"
    key: bool = False
    many: int = 1
    max_failures: int = 2
    report_within: float | None = None
    on_silence: Literal["again", "give_up"] | None = None
    overlap: Literal["skip", "allow"] | None = None
    catch_up: Literal["one", "skip"] | None = None
    max_fires: int | None = None
    wakes_per_hour: int | None = None
    unless: str | None = None
    or_when: str | None = None
    exact_backoff: bool | None = None
    expires: float | None = None
    at_limit: Literal["defer", "skip"] | None = None
    unless_since: float | None = None
    rearm: float | None = None


class Change(Step, frozen=True, kw_only=True, repr_omit_defaults=True):
    """The owner of an alarm changes it: `what` is a verb, `seconds` how far for move and snooze."""

    alarm: int
    what: What
    by: int = 0
    seconds: float = 1.0


class Report(Step, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A receiver reports on the latest wake of an alarm that began."""

    alarm: int
    what: Reported
    by: int = 0


class Signal(Step, frozen=True, kw_only=True, repr_omit_defaults=True):
    name: str
    by: int = 0
    owner: str = "ann"


class Fetch(Step, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A reader takes wakes from the inbox, waits for one for `wait` seconds, and hangs up after `gone` of them."""

    by: int = 0
    owner: str = "ann"
    wait: float = 0.0
    gone: float | None = None
    completes: bool = False  # it reports what it was handed


class Kill(Step, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A process dies, and is started again after `down` seconds with an empty memory."""

    process: int
    down: float = 0.5
    newer_zones: bool = False  # it comes back with a newer edition of the zone data


class Stop(Step, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A process is asked to stop, as by SIGTERM, and is started again `down` seconds after it has."""

    process: int
    down: float = 0.5
    newer_zones: bool = False


class Freeze(Step, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A process stands still for `seconds`."""

    process: int
    seconds: float


class SetClock(Step, frozen=True, kw_only=True, repr_omit_defaults=True):
    """The wall clock of a machine is moved by `by` seconds; after `back_after` seconds it is right again.

    `machine`: that of a process, or -1 for the database's. Where all is one machine, it is always that one.
    """

    machine: int
    by: float
    back_after: float | None = None


class StoreTrouble(Step, frozen=True, kw_only=True, repr_omit_defaults=True):
    """What happens to a process at its next `times` calls of this name.

    refused, slow (by `seconds`), repeated; late: it takes effect, and is answered after `seconds`;
    lost: it took effect, and the caller is told that the store is unavailable;
    dies: the process is killed before it takes effect; clock: the wall clock is moved by `seconds` in the middle of it.
    """

    process: int
    call: StoreCall
    what: Trouble
    times: int = 1
    seconds: float = 0.0


class Away(Step, frozen=True, kw_only=True, repr_omit_defaults=True):
    """Nobody reaches the store for `seconds`."""

    seconds: float


class Deaf(Step, frozen=True, kw_only=True, repr_omit_defaults=True):
    """Hints do not reach a process for `seconds`."""

    process: int
    seconds: float


class Receiver(Step, frozen=True, kw_only=True, repr_omit_defaults=True):
    """The next `times` wakes to the target `shaky` are answered so."""

    answer: Answer
    times: int = 1


class Script(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """Steps, and what is drawn from the seed while they run.

    `out_of_turn`: the order in which ready tasks go on. `delays`: how long calls of the store and receivers take.
    `one_machine`: the database has the clock of the processes, as SQLite; else each has its own.
    """

    seed: int
    steps: tuple[Step, ...]
    processes: int = 2
    one_machine: bool = False
    out_of_turn: bool = True
    delays: bool = True


def readable(script: Script) -> str:
    """For people: when each step begins, and what happens."""
    at, lines = 0.0, []
    for step in script.steps:
        if isinstance(step, Wait):
            at += step.seconds
            continue
        values = {one.name: getattr(step, one.name) for one in fields(step) if getattr(step, one.name) != one.default}
        values_text = ", ".join(f"{name}={value!r}" for name, value in values.items())
        lines.append(f"{at:9.3f} s  {type(step).__name__:<12} {values_text}".rstrip())
    drawn = [name for name in ("out_of_turn", "delays") if getattr(script, name)]
    machine = "one machine" if script.one_machine else "each process and the database with a clock of its own"
    head = f"{script.processes} processes, {machine}; drawn from seed {script.seed}: {', '.join(drawn) or 'nothing'}"
    return "\n".join([head, *lines])


def literal(script: Script) -> str:
    """The script as Python, to be pasted into a test."""
    head = {one.name: getattr(script, one.name) for one in fields(script) if one.name != "steps"}
    values_text = ", ".join(f"{name}={value!r}" for name, value in head.items())
    return f"Script({values_text}, steps=(\n" + "".join(f"    {step!r},\n" for step in script.steps) + "))"


# Generated from a seed


def generated(seed: int) -> Script:
    """The script of a seed. Most are short; some are about one thing: see KINDS."""
    random = Random(f"script {seed}")
    draft, kind = _Draft(random), _kind(random)
    if kind == "short":
        draft.short(random.randint(8, 40))
    else:
        getattr(draft, kind)()
    return Script(
        seed=seed,
        steps=tuple(draft.steps),
        processes=draft.processes,
        one_machine=random.random() < 0.4,
        out_of_turn=random.random() < 0.8,
        delays=random.random() < 0.9,
    )


# Kinds of scripts that are about one thing, and which share of the seeds each has.
KINDS: Final = {
    "burst": 0.08,
    "poison": 0.04,
    "signals": 0.12,
    "budgets": 0.12,
    "silence": 0.08,
    "in_flight": 0.06,
    "clocks": 0.05,
    "bad_answers": 0.03,
    "again": 0.04,
    "trials": 0.02,
}


def _kind(random: Random) -> str:
    drawn = random.random()
    for kind, share in KINDS.items():
        drawn -= share
        if drawn < 0:
            return kind
    return "short"


def trouble(seed: int, seconds: float) -> Script:
    """Only what goes wrong, over so many seconds: for alarms and handlers that somebody brings along."""
    random = Random(f"trouble {seed}")
    draft = _Draft(random)
    at = 0.0
    while at < seconds:
        wait = random.choice((0.01, 0.2, 1.0, 3.0, 8.0))
        draft.add(Wait(seconds=wait))
        draft.add(draft.trouble())
        at += wait
    return Script(seed=seed, steps=tuple(draft.steps), one_machine=random.random() < 0.4)


class _Draft:
    def __init__(self, random: Random) -> None:
        self._random = random
        self.steps: list[Step] = []
        self.processes = 2
        self._alarms = 0

    def short(self, length: int) -> None:
        some = self._random
        doing: list[tuple[float, Callable[[], Step]]] = [
            (1.6, self._create),
            (2.0, self._change),
            (2.0, self._report),
            (0.4, lambda: Signal(name=some.choice(("go", "stop")), by=self._process(), owner=self._owner())),
            (0.8, self._fetch),
            (3.4, self.trouble),
            (0.5, lambda: Receiver(answer=some.choice(ANSWERS), times=some.randint(1, 3))),
        ]
        weights, makers = zip(*doing, strict=True)
        self.add(self._create())
        for _ in range(length):
            if some.random() < 0.55:
                self.add(Wait(seconds=some.choice((0.001, 0.01, 0.05, 0.2, 0.5, 1.0, 2.0))))
            [make] = some.choices(makers, weights)
            self.add(make())

    def trouble(self) -> Step:
        """One thing that goes wrong with a process, a clock or the database."""
        some = self._random
        process = self._process()
        makers: list[Callable[[], Step]] = [
            lambda: Kill(process=process, down=some.choice((0.0, 0.3, 2.0)), newer_zones=self._rarely()),
            lambda: Stop(process=process, down=some.choice((0.0, 0.5)), newer_zones=self._rarely()),
            lambda: Freeze(process=process, seconds=some.choice((0.5, 3.0, 7.0))),
            self._set_clock,
            self._store_trouble,
            lambda: Away(seconds=some.choice((0.1, 1.0, 6.0))),
            lambda: Deaf(process=process, seconds=some.choice((1.0, 5.0))),
        ]
        [make] = some.choices(makers, (6, 2, 4, 7, 12, 2, 1))
        return make()

    def burst(self) -> None:
        """Many wakes under way at once at a slow receiver when their worker dies."""
        some = self._random
        many = some.randint(12, 30)
        target = some.choice(("slow", "steady", "long"))
        self.add(Create(alarm=0, after=1.0, many=many, target=target, report_within=some.choice((None, 30.0))))
        self._alarms = many
        self.add(Wait(seconds=some.choice((0.95, 1.0, 1.05, 1.5, 2.5))))
        trouble = (
            Kill(process=0, down=0.3),
            Freeze(process=0, seconds=7.0),
            self._set_clock(),
            StoreTrouble(process=0, call="renew", what="refused", times=20),
            self._store_trouble(),
        )
        if some.random() < 0.4:  # their worker dies, and so does the one that tries them as a group
            self.processes = some.choice((1, 2))
            self.steps[-1:] = [
                StoreTrouble(process=at, call="settle", what="dies", times=2) for at in range(self.processes)
            ]
            self.add(Wait(seconds=25.0))
            return
        for _ in range(some.randint(1, 3)):
            self.add(some.choices(trouble, (3, 1, 1, 1, 1))[0])
            self.add(Wait(seconds=some.choice((0.01, 0.5, 3.0, 6.5))))
            self.add(self._report())
        self.short(some.randint(2, 6))

    def poison(self) -> None:
        some = self._random
        self.add(Create(alarm=0, after=1.0, target="poison", every=some.choice((0, 0, 60))))
        self._alarms = 1
        for _ in range(some.randint(2, 6)):
            self.add(self._create())
        for _ in range(some.randint(2, 8)):
            self.add(Wait(seconds=some.choice((0.5, 2.0, 5.0))))
            self.add(self._report() if some.random() < 0.5 else self._change())

    def signals(self) -> None:
        """Alarms that wait for signals."""
        some = self._random
        for at in range(3):
            once = some.random() < 0.5
            waits: dict[str, object] = {"or_when": "go"}
            if some.random() < 0.7:
                waits = {"unless": "stop", "unless_since": some.choice((None, None, 1.5))}
                waits["rearm"] = some.choice((None, 2.0)) if once else None
            self.add(
                Create(
                    alarm=at,
                    after=some.choice((0.5, 2.0, 4.0)),
                    every=0 if once else some.choice((2, 5)),
                    target=some.choice(("steady", "slow", "long", "shaky")),
                    max_failures=4,
                    **waits,  # type: ignore[arg-type]
                )
            )
        self._alarms = 3
        self._about(
            [
                (5.0, lambda: Signal(name=some.choice(("go", "stop", "stop")), by=self._process())),
                (2.0, lambda: self._changed("snooze", "snooze", "skip", "pause", "resume", "rearm", "repeat")),
                (0.7, lambda: SetClock(machine=-1, by=some.choice((-3.0, -60.0)))),
                (0.7, lambda: Receiver(answer="500", times=2)),
                (0.5, self._report),
                (0.5, self.trouble),
            ]
        )

    def budgets(self) -> None:
        """Alarms that meet limits."""
        some = self._random
        for at in range(3):
            once = some.random() < 0.4
            self.add(
                Create(
                    alarm=at,
                    after=some.choice((0.5, 1.0, 2.0)),
                    every=0 if once else some.choice((1, 2)),
                    target=some.choice(("steady", "slow", "shaky")),
                    owner=some.choice(("ann", "cat", "cat")),
                    report_within=some.choice((None, None, 1.0)),
                    wakes_per_hour=some.choice((None, 1, 2, 3, 5)),
                    at_limit=some.choice((None, "defer", "skip")),
                    catch_up=some.choice((None, "skip")),
                    expires=some.choice((None, None, 60.0)),
                )
            )
        self._alarms = 3
        self._about(
            [
                (2.0, lambda: self._changed("snooze", "retry", "fire")),
                (2.0, self._report),
                (2.0, lambda: Receiver(answer=some.choice(("500", "hangs up")), times=2)),
                (1.0, lambda: Kill(process=self._process(), down=0.3)),
                (0.5, self.trouble),
            ]
        )

    def silence(self) -> None:
        """Alarms whose receivers do not report in time."""
        some = self._random
        for at in range(3):
            self.add(
                Create(
                    alarm=at,
                    after=some.choice((0.5, 1.0, 2.0)),
                    every=some.choice((0, 0, 2, 5)),
                    target=some.choice(("steady", "shaky", "slow")),
                    report_within=1.0,
                    on_silence=some.choice((None, None, "give_up")),
                    wakes_per_hour=some.choice((None, 2, 3)),
                    overlap=some.choice((None, "allow")),
                    expires=some.choice((None, 3.0)),
                )
            )
        self._alarms = 3
        self._about(
            [
                (3.0, lambda: Report(alarm=self._alarm(), what=some.choice(("working", "completed", "failed")))),
                (1.0, lambda: self._changed("snooze", "move", "cancel", "retry")),
                (1.0, lambda: Freeze(process=self._process(), seconds=3.0)),
                (0.5, lambda: Away(seconds=3.0)),
                (0.5, self.trouble),
            ]
        )

    def in_flight(self) -> None:
        """Reports, changes and signals while an attempt is under way, and leases that lapse meanwhile."""
        some = self._random
        self.processes = some.choice((1, 2, 2))
        for at in range(2):
            self.add(
                Create(
                    alarm=at,
                    after=0.5,
                    every=some.choice((0, 0, 10)),
                    target=some.choice(("long", "long", "slow", "steady")),
                    report_within=some.choice((None, 1.0, 3.0)),
                    unless=some.choice((None, None, "stop")),
                )
            )
        self._alarms = 2
        late = StoreTrouble(process=self._process(), call="settle", what="late", seconds=3.0)
        self._about(
            [
                (
                    3.0,
                    lambda: Report(alarm=self._alarm(), what=some.choice(("failed", "failed", "working", "completed"))),
                ),
                (1.5, lambda: self._changed("move", "cancel", "pause", "snooze", "skip", "retry", "fire")),
                (0.7, lambda: Signal(name="stop", by=self._process())),
                (1.5, lambda: SetClock(machine=some.choice((-1, 0)), by=60.0)),
                (0.7, lambda: late),
                (0.5, self.trouble),
            ]
        )

    def clocks(self) -> None:
        """Clocks that are set by little and by much while alarms are claimed and delivered."""
        some = self._random
        for at in range(4):
            every = some.choice((0, 1, 2, 5))
            self.add(Create(alarm=at, after=some.choice((0.5, 1.0, 6.0, 12.0)), every=every, target=self._target()))
        self._alarms = 4
        steps = (0.01, 0.05, 0.5, 3.0, 60.0, 3600.0)
        clock: list[tuple[float, Callable[[], Step]]] = [
            (3.0, lambda: SetClock(machine=some.choice((-1, -1, 0, 1)), by=-some.choice(steps))),
            (1.0, lambda: SetClock(machine=some.choice((-1, 0, 1)), by=some.choice(steps))),
            (1.0, lambda: Create(alarm=some.randrange(4), after=6.0, target="long")),
            (0.5, self._report),
        ]
        self._about(clock)

    def bad_answers(self) -> None:
        """A target that answers one owner badly, and what waits there for it and for others."""
        some = self._random
        for at in range(5):
            self.add(
                Create(
                    alarm=at,
                    after=some.choice((0.5, 1.0, 3.0, 6.0)),
                    every=some.choice((0, 1, 2, 5)),
                    target="shaky",
                    owner="ann" if at < 3 else "bob",
                )
            )
        self._alarms = 5
        self.add(Receiver(answer="500", times=some.randint(4, 9)))
        self._about(
            [
                (2.0, lambda: Receiver(answer=some.choice(("500", "429")), times=some.randint(1, 6))),
                (1.0, lambda: Create(alarm=some.randint(3, 4), after=0.5, target="shaky", owner="bob")),
                (0.5, self.trouble),
            ]
        )

    def again(self) -> None:
        """Wakes of an owner with a budget that come again: snoozed, tried again by hand, reported as failed."""
        some = self._random
        for at in range(2):
            self.add(
                Create(
                    alarm=at,
                    after=0.5,
                    every=some.choice((0, 1, 5)),
                    owner="cat",
                    max_fires=some.choice((None, None, 3)),
                    max_failures=some.choice((0, 2)),
                    report_within=some.choice((None, 1.0)),
                    on_silence="give_up",
                )
            )
        self._alarms = 2
        self._about(
            [
                (3.0, lambda: Change(alarm=self._alarm(), what=some.choice(("retry", "snooze")), seconds=0.5)),
                (2.0, lambda: Report(alarm=self._alarm(), what=some.choice(("failed", "failed", "snooze")))),
                (1.0, lambda: StoreTrouble(process=self._process(), call="spend", what="refused", times=3)),
                (0.3, self.trouble),
            ]
        )

    def trials(self) -> None:
        """Workers that die again and again while several suspects are under way."""
        some = self._random
        many = some.randint(2, 4)
        self.processes = 1
        self.add(Create(alarm=0, after=0.5, many=many, target=some.choice(("long", "slow"))))
        self._alarms = many
        self.add(Wait(seconds=1.0))
        for _ in range(some.randint(4, 8)):
            self.add(Kill(process=0, down=0.0))
            self.add(Wait(seconds=some.choice((6.0, 7.0, 8.5, 10.0))))

    def _target(self) -> str:
        return self._random.choice(("steady", "slow", "long"))

    def _about(self, doing: list[tuple[float, Callable[[], Step]]]) -> None:
        some = self._random
        weights, makers = zip(*doing, strict=True)
        for _ in range(some.randint(6, 16)):
            self.add(Wait(seconds=some.choice((0.05, 0.5, 1.0, 2.0))))
            [make] = some.choices(makers, weights)
            self.add(make())

    def _changed(self, *whats: What) -> Step:
        return Change(
            alarm=self._alarm(),
            what=self._random.choice(whats),
            by=self._process(),
            seconds=self._random.choice((0.5, 2.0, 5.0)),
        )

    def add(self, step: Step) -> None:
        self.steps.append(step)

    def _process(self) -> int:
        return min(self._random.randrange(2), self.processes - 1)

    def _owner(self) -> str:
        return self._random.choice(("ann", "ann", "ann", "bob", "bob", "cat"))

    def _rarely(self) -> bool:
        return self._random.random() < 0.08

    def _alarm(self) -> int:
        """Rather one of the latest: something still happens to it."""
        return max(0, self._alarms - 1 - int(self._random.random() ** 2 * self._alarms))

    def _create(self) -> Step:
        some = self._random
        alarm, self._alarms = self._alarms, self._alarms + 1
        series = some.random() < 0.35
        reports = some.random() < 0.35

        def seldom(value: object, share: float = 0.15) -> object:
            return value if some.random() < share else None

        fields = {
            "target": some.choice(("steady", "steady", "steady", "inbox", "shaky", "slow", "long", "long")),
            "owner": self._owner(),
            "key": some.random() < 0.3,
            "many": 1 if some.random() < 0.9 else some.randint(2, 6),
            "report_within": some.choice((1.0, 3.0, 10.0)) if reports else None,
            "on_silence": seldom("give_up", 0.3) if reports else None,
            "overlap": seldom("allow"),
            "catch_up": seldom("skip"),
            "max_fires": seldom(some.randint(1, 4)) if series else None,
            "wakes_per_hour": seldom(some.randint(1, 3)),
            "unless": seldom("stop"),
            "or_when": seldom("go"),
            "exact_backoff": seldom(True),
            "expires": seldom(some.choice((3.0, 60.0)), 0.08),
            "at_limit": seldom(some.choice(("defer", "skip")), 0.25),
        }
        if fields["unless"] and fields["or_when"]:
            fields["or_when"] = None
        if fields["unless"]:
            fields["unless_since"] = seldom(1.5, 0.3)
            fields["rearm"] = seldom(2.0, 0.3) if not series else None
        self._alarms += int(fields["many"]) - 1  # type: ignore[call-overload]
        wall_time = not series and some.random() < 0.08
        return Create(
            alarm=alarm,
            by=self._process(),
            after=some.choice((0.0, 0.02, 0.5, 1.0, 2.0, 4.0, 8.0)),
            every=some.choice((1, 2, 5)) if series else 0,
            wall_time=wall_time,
            **fields,  # type: ignore[arg-type]
        )

    def _change(self) -> Step:
        some = self._random
        what: What = some.choice(
            (
                "cancel",
                "cancel",
                "pause",
                "resume",
                "skip",
                "skip",
                "undo",
                "fire",
                "retry",
                "snooze",
                "snooze",
                "move",
                "move",
                "reword",
                some.choice(("when", "policy", "rearm", "repeat")),
            )
        )
        seconds = some.choice((0.0, 0.5, 2.0, 5.0))
        return Change(alarm=self._alarm(), what=what, by=self._process(), seconds=seconds)

    def _report(self) -> Step:
        some = self._random
        what: Reported = some.choice(("completed", "completed", "failed", "working", "snooze"))
        return Report(alarm=self._alarm(), what=what, by=self._process())

    def _fetch(self) -> Step:
        some = self._random
        return Fetch(
            by=self._process(),
            owner=self._owner(),
            wait=some.choice((0.0, 0.5, 3.0)),
            gone=some.choice((None, 0.0, 0.002, 0.02, 0.3)),
            completes=some.random() < 0.5,
        )

    def _set_clock(self) -> Step:
        some = self._random
        by = some.choice((0.05, 0.5, 3.0, 60.0, 600.0, 3600.0, 86400.0)) * some.choice((1, -1))
        return SetClock(
            machine=min(some.randrange(-1, 2), self.processes - 1),
            by=by,
            back_after=some.choice((None, 0.01, 1.0, 5.0)),
        )

    def _store_trouble(self) -> Step:
        some = self._random
        what: Trouble = some.choice(TROUBLES)
        return StoreTrouble(
            process=self._process(),
            call=some.choice(STORE_CALLS),
            what=what,
            times=some.choice((1, 1, 2, 5)),
            seconds=some.choice((0.02, 0.5, 6.0))
            if what == "slow"
            else some.choice((-600.0, -60.0, -1.0, 1.0, 600.0))
            if what == "clock"
            else 0.0,
        )
