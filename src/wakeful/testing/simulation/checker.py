"""The checker: what wakeful promises (docs/guarantees.md), written down once more and independently, for the simulator.

It sees what clients asked and were told, what took effect in the database, and which wakes began. It decides nothing
by the code it checks, apart from the values themselves: an alarm, a fire, a change.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct, field

from wakeful.model.alarm import Alarm, Change, Fire, parse_fire_id
from wakeful.model.limits import OwnerLimits
from wakeful.model.outcome import Completed, Delivered, Failed, Outcome, Waiting
from wakeful.rules.budget import attempt_of
from wakeful.rules.wake import Wake
from wakeful.store import Added, Claimed, Settled
from wakeful.testing.simulation.change_rules import LEASE, REWRITES, SUSPECT, TICK, ChangeRules, Written, grid_of

SLACK: Final = 0.6  # seconds that a simulated store and a loop with much to do take besides
RECEIVER: Final = 2.0  # seconds that the slowest receiver without trouble takes
WORK: Final = {"slow": RECEIVER, "long": LEASE.total_seconds() + RECEIVER}  # of targets: what a wake takes there
DEATHS: Final = 3  # workers that an alarm may kill alone before it is blamed
# After what a process held is lost: its leases end, that is seen at a tick, the first group is tried, the next one.
RECOVERY: Final = LEASE.total_seconds() + 2 * TICK.total_seconds() + RECEIVER + 1.0
ONE_BY_ONE: Final = 0.15  # seconds between the end of one suspect's delivery and the start of the next one's
ARRIVED: Final = (Delivered, Completed, Waiting)
OVER: Final = frozenset({"completed", "delivered", "waiting", "timed_out"})
ON_TIME: Final = frozenset({"steady", "slow", "inbox"})  # targets that have no trouble of their own
LIMITED: Final = "cat"  # an owner with a budget
LIMITS: Final = OwnerLimits(owner_wakes_per_hour=8, alarm_wakes_per_hour=3, rewakes_per_hour=1, owner_cost_per_day=3.0)
COST: Final = 1.0  # of a wake of that owner that is done at once
MOST_DEATHS: Final = 2 + DEATHS + 2  # attempts at a fire that kills its worker; others may die at it by chance


class Broken(Struct, frozen=True):
    """A promise that did not hold: its name in docs/guarantees.md, and what was seen."""

    promise: str
    text: str


class Operation(Struct, eq=False):
    """What a client asks of one alarm, or of what is not an alarm yet."""

    what: str
    began: float
    process: int
    alarm: int | None = None
    fire_id: str = ""
    message: str = ""
    before: tuple[tuple[KnownAlarm, Alarm], ...] = ()  # of a signal: the alarms that may hear it, as they were


class KnownAlarm(Struct, eq=False):
    """What a client knows of an alarm: what it asked, and what it was told."""

    number: int
    ids: list[str] = field(default_factory=list)  # that acknowledged creates have named
    owner: str = ""
    key: str = ""
    words: set[str] | None = None  # messages that a wake may have; None: any
    quiet_since: float | None = None  # when a cancel or pause was acknowledged, with nothing asked since
    quiet_by: str = ""
    may_start: int = 0  # attempts that may still start then
    changed: float = -1.0  # when something was last asked of it that may set it going again
    asking: int = 0  # of such requests: not answered yet
    in_flight_at: float = -60.0  # when a change last answered that an attempt is in flight, or nobody knows
    poison: bool = False
    untouched: bool = True  # nobody has asked anything of it since it was set, or reported on it


class Attempt(Struct, eq=False):
    """A delivery that began."""

    process: object
    alarm: Alarm
    began: float
    outcome: Outcome | None = None
    ended: float | None = None
    settled: bool = False
    is_aborted: bool = False  # its process was stopping, and has released the alarm


class Checker:
    """`now`: the database's clock. `passed`: virtual seconds. `alarms`, `fires`: what the database holds."""

    def __init__(
        self,
        *,
        now: Callable[[], datetime],
        passed: Callable[[], float],
        alarms: Mapping[str, Alarm],
        fires: Mapping[tuple[str, datetime], Fire],
    ) -> None:
        self.broken: Broken | None = None
        self.known: dict[int, KnownAlarm] = {}
        self._now = now
        self._passed = passed
        self._alarms = alarms
        self._fires = fires
        self._by_id: dict[str, KnownAlarm] = {}
        self._attempts: dict[str, list[Attempt]] = {}  # by fire
        self._under_way: dict[object, list[Attempt]] = defaultdict(list)  # by process: not settled yet
        self._bodies: dict[str, tuple[bytes, str]] = {}  # by fire, with the message: that may be edited
        self._claimed_at: dict[tuple[str, int], float] = {}
        self._claimed_by: dict[tuple[str, int], object] = {}
        self._status_at_claim: dict[tuple[str, int], str] = {}
        self._moved_by_owner: dict[str, float] = {}  # alarms by id: when a change by their owner took effect
        self._reported: dict[str, tuple[str, float]] = {}  # fires: what was acknowledged, and when
        self._written: dict[str, float] = {}  # fires: when a reported failure took effect
        self._paid: dict[str, datetime] = {}  # by fire: when a try at it was last counted
        self._charged: dict[str, datetime] = {}  # by attempt: when it was counted
        self._woken: dict[tuple[str, datetime], set[str]] = defaultdict(set)  # by alarm and hour: fires that began
        self._died_alone: Counter[str] = Counter()
        self._leased_by: dict[str, object] = {}  # fires of the inbox, by the request that leased them
        self._waiting_since: dict[str, float] = {}
        self._on_trial: dict[object, set[str]] = defaultdict(
            set
        )  # by process: alarms counted as tried alone, before they are
        self._rewoken: dict[tuple[str, datetime], set[str]] = defaultdict(set)  # as `_woken`: those that come again
        self._spent: dict[datetime, float] = defaultdict(float)  # by day: cost of the owner with a budget
        self._rules = ChangeRules(self.breaks, fires)
        self.recovered = 0.0  # by when what the last trouble held up is delivered
        self.trouble = 0.0  # when something that can hold up deliveries last ended
        self.step = 0.0  # when a clock was last set
        self.store_step = -1.0  # when the database's clock was

    def breaks(self, promise: str, text: str) -> None:
        """The first one counts: what follows may be its consequence."""
        if self.broken is None:
            self.broken = Broken(promise, f"at {self._passed():.3f} s: {text}")

    # Trouble

    def troubled(self) -> None:
        self.trouble = max(self.trouble, self._passed())

    def clock_was_set(self, *, of_store: bool) -> None:
        now = self._passed()
        if now - self.trouble < RECOVERY or of_store:
            self.trouble = now  # leases of before the step end by the new clock
        self.step = now
        if of_store:
            self.store_step = now

    def died(self, process: object) -> None:
        """A process was killed, or stood still: whatever it had in hand may come again."""
        self.troubled()
        held = [one for one in self._under_way.pop(process, []) if not one.settled]
        suspects = {one.alarm.id for one in held if one.alarm.unsettled > 1} | self._on_trial.pop(process, set())
        if len(suspects) == 1:
            self._died_alone[suspects.pop()] += 1

    # Clients

    def asks(self, operation: Operation) -> None:
        if operation.alarm is None or (alarm := self.known.get(operation.alarm)) is None:
            return
        alarm.untouched = alarm.untouched and operation.what == "create"
        if operation.what in ("working", "snooze") and self._reported.get(operation.fire_id, ("",))[0] == "failed":
            del self._reported[operation.fire_id]  # of two reports the later one counts
        if operation.what not in ("cancel", "pause", "completed", "working"):
            alarm.changed, alarm.quiet_since = self._passed(), None
            alarm.asking += 1
        if operation.what == "reword" and alarm.words is not None:
            alarm.words.add(operation.message)
        elif operation.what == "undo":
            alarm.words = None

    def answered(self, operation: Operation, answer: Any) -> None:
        """`answer`: what the verb returned; None where it was refused or nobody knows."""
        alarm = self.known.get(operation.alarm) if operation.alarm is not None else None
        if alarm is None:
            return
        # Of two changes at the same time nobody knows which came first.
        is_alone = alarm.changed <= operation.began and alarm.asking <= 1
        if operation.what not in ("cancel", "pause", "completed", "working"):
            alarm.asking -= 1
            alarm.changed = self._passed()
        if answer is None or getattr(answer, "in_flight", False):
            alarm.in_flight_at = self._passed()
        if answer is None:
            return
        if operation.what in ("cancel", "pause"):
            self._quietened(alarm, operation, answer)
        elif operation.what == "reword" and alarm.words is not None and not answer.in_flight and is_alone:
            alarm.words = {operation.message}
        elif operation.what in ("completed", "failed"):
            self._reported[operation.fire_id] = operation.what, self._written.get(operation.fire_id, self._passed())
            self._check_report(self._fire(operation.fire_id), operation.fire_id)

    def signals(self, operation: Operation, owner: str) -> None:
        """A signal is sent to the alarms of an owner."""
        heard = [known for known in self.known.values() if known.owner == owner]
        operation.before = tuple(
            (known, self._alarms[known.ids[-1]])
            for known in heard
            if known.ids and not known.asking and known.ids[-1] in self._alarms
        )
        for known in heard:
            known.changed, known.quiet_since, known.untouched = self._passed(), None, False
            known.asking += 1

    def signalled(self, operation: Operation, name: str, *, owner: str, is_answered: bool) -> None:
        for known in [known for known in self.known.values() if known.owner == owner]:
            known.asking -= known.asking > 0
            known.in_flight_at = self._passed()
        for known, was in operation.before if is_answered else ():
            if not known.asking and known.changed <= operation.began:
                self._check_heard(known, was, name)
        for known in [known for known in self.known.values() if known.owner == owner]:
            known.changed = self._passed()

    def _check_heard(self, known: KnownAlarm, was: Alarm, name: str) -> None:
        """What waited for this signal has heard it."""
        policy, row = was.policy, self._alarms.get(was.id)
        if row is None or policy.unless != name or policy.unless_since is not None or was.status != "active":
            return
        if was.kind == "once" and policy.rearm is None and policy.report_within is None and row.status == "active":
            self.breaks("A1", f"alarm {was.id} is active after signal {name!r}, which was to cancel it")
        grid = grid_of(was)
        is_snoozed = grid is not None and not grid.has(was.occurrence_at) and was.claimed_at is None
        if is_snoozed and policy.heard is None and was.occurrence_at > self._now() and row == was:
            self.breaks(
                "A1", f"alarm {was.id} is due at {was.occurrence_at} after signal {name!r}: that was to skip it"
            )

    def _quietened(self, alarm: KnownAlarm, operation: Operation, answer: Any) -> None:
        """A cancel or pause was acknowledged; it counts where nothing else was asked meanwhile."""
        ended = "cancelled" if operation.what == "cancel" else "paused"
        if answer.alarm.status == ended and not alarm.asking and alarm.changed < operation.began:
            alarm.quiet_since, alarm.quiet_by = self._passed(), operation.what
            # An attempt that the change before has told of may still start, and only that one.
            alarm.may_start = 1 if self._passed() - alarm.in_flight_at < LEASE.total_seconds() else 0

    def created(self, alarm: KnownAlarm, id: str) -> None:
        """A create was acknowledged."""
        if alarm.key and alarm.ids and id not in alarm.ids:
            self.breaks("D2", f"key {alarm.key!r} was given to alarm {alarm.ids[0]} and to alarm {id}")
        if id not in self._alarms:
            self.breaks("D1", f"alarm {id} was acknowledged and has no row")
        alarm.ids.append(id)
        self._by_id[id] = alarm

    def handed_out(self, operation: Operation, alarm: Alarm, fire: Fire) -> None:
        known = self._by_id.get(alarm.id)
        if known is None or known.quiet_since is None or known.quiet_by != "cancel":
            return
        if operation.began > known.quiet_since:
            self.breaks("E4", f"fire {fire.id} was handed out after its alarm was cancelled")

    def gone(self, request: object) -> None:
        """A reader's request is over, and nobody got its answer."""
        for fire_id in [fire_id for fire_id, by in self._leased_by.items() if by is request]:
            del self._leased_by[fire_id]
            if (fire := self._fire(fire_id)) is not None and fire.status == "delivered":
                self.breaks("W1", f"fire {fire_id} is leased to a reader who has gone")

    def taken(self, request: object) -> None:
        """A reader got the answer of its request, or nobody knows what became of it."""
        for fire_id in [fire_id for fire_id, by in self._leased_by.items() if by is request]:
            del self._leased_by[fire_id]

    def known_as(self, id: str) -> KnownAlarm | None:
        return self._by_id.get(id)

    # The database

    def claims(self, process: object, claimed: Claimed, before: Mapping[str, Alarm], early: Mapping[str, Any]) -> None:
        now = self._passed()
        for alarm in claimed.alarms:
            was = before[alarm.id]
            if was.claimed_at is not None and claimed.now - LEASE < was.claimed_at <= claimed.now + LEASE:
                self.breaks("L1", f"alarm {alarm.id} was claimed although it is leased since {was.claimed_at}")
            if was.next_fire_at > claimed.now + early.get(alarm.target, timedelta(0)):
                self.breaks("F3", f"alarm {alarm.id} was claimed at {claimed.now}, due {was.next_fire_at}")
            if was.status != "active":
                self.breaks("E4", f"alarm {alarm.id} was claimed while {was.status}")
            key = alarm.id, alarm.claim
            self._claimed_at[key], self._claimed_by[key] = now, process
            fire = self._fires.get((alarm.id, alarm.occurrence_at))
            self._status_at_claim[key] = fire.status if fire is not None else ""

    def added(self, answers: Sequence[Added]) -> None:
        for added in answers:
            if added.alarm.id not in self._alarms:
                self.breaks("D1", f"the store acknowledged alarm {added.alarm.id} and has no row")

    def settles(
        self,
        process: object,
        request: object,
        changes: Sequence[Change],
        answers: Sequence[Settled],
        before: Mapping[str, Alarm],
        fires: Mapping[tuple[str, datetime], Fire],
    ) -> None:
        """What a call wrote. `before`, `fires`: the rows as they were."""
        for change, answer in zip(changes, answers, strict=True):
            was = before.get(change.after.id)
            if answer.what != "applied" or was is None:
                continue
            if (was.claim, was.version) != (change.claim, change.version):
                moved = f"claim {was.claim}, version {was.version}"
                self.breaks("L2", f"a change made at claim {change.claim}, version {change.version} met {moved}")
            by_owner = change.after.version != change.version
            if by_owner:
                self._moved_by_owner[was.id] = self._passed()
            for fire in change.fires:
                key = fire.alarm_id, fire.scheduled_for
                self._check_transition(change, fires.get(key), fire, by_owner=by_owner)
                self._leased(request, fires.get(key), fire)
            self._check_change(process, request, change, was, fires)
            self._settled(process, change, was)

    def _check_change(
        self,
        process: object,
        request: object,
        change: Change,
        was: Alarm,
        fires: Mapping[tuple[str, datetime], Fire],
    ) -> None:
        known, after = self._by_id.get(was.id), change.after
        claim = (was.id, was.claim)
        begun = [one for one in self._under_way.get(process, ()) if (one.alarm.id, one.alarm.claim) == claim]
        written = Written(
            process,
            _verb(request),
            change,
            was,
            fires,
            began=bool(begun),
            outcome=begun[-1].outcome if begun else None,
            untouched=known is not None and known.untouched and not self.trouble,
        )
        if written.asked in REWRITES:
            self._bodies = {id: body for id, body in self._bodies.items() if not id.startswith(was.id)}
        if written.asked == "report failed":
            self._written |= {fire.id: self._passed() for fire in change.fires}
        self._rules.check(written)
        if written.by_worker:
            self._check_attempts(written)
            if after.unsettled > was.unsettled:
                self._on_trial[process].add(was.id)
        if change.cost and was.owner_did == LIMITED:
            self._spent[_day(after.updated_at)] += change.cost

    def _check_attempts(self, written: Written) -> None:
        """Every attempt is counted, also one that nobody came back from."""
        fire, was = written.fire, written.was
        if fire is None or fire.status == "skipped" or was.target == "inbox" or was.unsettled > SUSPECT:
            return  # of suspects that are tried beside others not every attempt is counted
        since = self._moved_by_owner.get(was.id, -1.0)
        tries = [one for one in self._attempts.get(fire.id, ()) if one.began > since and not one.is_aborted]
        if fire.attempts < len(tries):
            self.breaks("F1", f"fire {fire.id} has {fire.attempts} attempts on record, and {len(tries)} began")

    def _settled(self, process: object, change: Change, was: Alarm) -> None:
        ended = {fire.id: fire for fire in change.fires}
        for attempt in self._under_way.get(process, ()):
            if attempt.alarm.id != change.after.id or attempt.outcome is None:
                continue
            is_over = change.after.claim != was.claim or attempt.alarm.fire_id in ended
            attempt.settled = attempt.settled or is_over
        self._under_way[process] = [one for one in self._under_way.get(process, ()) if not one.settled]
        for fire in change.fires:
            if fire.reason == "worker died":
                known = self._by_id.get(fire.alarm_id)
                if known is not None and self._died_alone[fire.alarm_id] < DEATHS:
                    died = self._died_alone[fire.alarm_id]
                    self.breaks("I3", f"fire {fire.id} is blamed; {died} workers died while it alone was tried")

    def _check_transition(self, change: Change, was: Fire | None, fire: Fire, *, by_owner: bool) -> None:
        if was is not None and was.status == "completed" and fire.status != "completed":
            self.breaks("D1", f"fire {fire.id} was completed, and is {fire.status} now")
        was_reported = was is not None and was.status == "failed" and was.completed_at is not None
        if was_reported and not by_owner and fire.status not in ("failed", "retrying", "completed"):
            self.breaks("D1", f"fire {fire.id} was reported as failed, and is {fire.status} now")
        self._check_report(fire, fire.id)

    def _check_report(self, fire: Fire | None, fire_id: str) -> None:
        """A report that was acknowledged is how its fire ended, until somebody asks for another try."""
        if (reported := self._reported.get(fire_id)) is None:
            return
        what, at = reported
        if fire is None:
            self.breaks("D1", f"fire {fire_id} was reported as {what}, and has no row")
        elif what == "completed" and fire.status != "completed":
            self.breaks("E5", f"fire {fire_id} was reported as completed, and is {fire.status}")
        elif what == "failed" and fire.status in ("delivered", "timed_out", "waiting"):
            tries = self._attempts.get(fire_id, ())
            if fire.target != "inbox" and not any(one.began > at for one in tries):
                self.breaks("E5", f"fire {fire_id} was reported as failed, and is {fire.status} without another try")

    def _leased(self, request: object, was: Fire | None, fire: Fire) -> None:
        if was is not None and was.status == "waiting" and fire.status == "delivered":
            self._leased_by[fire.id] = request
        else:
            self._leased_by.pop(fire.id, None)

    def charged(self, attempt: str, at: datetime, *, is_counted: bool = True) -> None:
        """An attempt was about to begin; `is_counted`: it was added to what is used of a budget."""
        alarm = self._alarms.get(attempt.partition("@")[0])
        if alarm is None:
            return
        if (before := self._charged.get(attempt)) is not None:  # its worker died after it was counted
            if is_counted and before.date() <= at.date() <= before.date() + timedelta(days=1):
                self.breaks("I7", f"attempt {attempt} was counted at {before}, and again at {at}")
            return
        self._charged[attempt] = self._paid[alarm.fire_id] = at
        self._rules.charged(alarm, at)
        if alarm.owner_did == LIMITED and self._spent[_day(at)] >= (LIMITS.owner_cost_per_day or 0):
            self.breaks("I7", f"a wake of {LIMITED} is sent after a cost of {self._spent[_day(at)]} on that day")

    # Wakes

    def starts(self, process: object, wake: Wake) -> Attempt:
        alarm, now, passed = wake.alarm, self._now(), self._passed()
        attempt = Attempt(process, alarm, passed)
        known = self._by_id.get(alarm.id)
        self._check_early(alarm, now)
        self._check_claim(process, alarm)
        self._check_body(wake)
        self._check_budget(alarm, now)
        if known is not None:
            self._check_quiet(known, wake)
            self._check_deaths(known, wake)
        self._on_trial[process].discard(alarm.id)  # from now on the attempt says it
        self._check_again(attempt, wake.fire_id)
        self._attempts.setdefault(wake.fire_id, []).append(attempt)
        self._under_way[process].append(attempt)
        return attempt

    def ends(self, attempt: Attempt, outcome: Outcome) -> None:
        attempt.outcome, attempt.ended = outcome, self._passed()
        if isinstance(outcome, Failed):
            self._rules.failed(attempt.process, attempt.alarm, outcome)

    def _check_early(self, alarm: Alarm, now: datetime) -> None:
        claimed = self._claimed_at.get((alarm.id, alarm.claim), 0.0)
        if now < alarm.next_fire_at and self.store_step < claimed:
            early = (alarm.next_fire_at - now).total_seconds()
            self.breaks("F3", f"fire {alarm.fire_id} began {early:.3f} s early, by the database's clock")

    def _check_claim(self, process: object, alarm: Alarm) -> None:
        row, key = self._alarms.get(alarm.id), (alarm.id, alarm.claim)
        claimed = self._claimed_at.get(key, 0.0)
        if row is None or self._claimed_by.get(key) is not process:
            return
        by = self._claimed_by.get((row.id, row.claim))
        is_anothers = row.claim != alarm.claim and by is not None and by is not process
        if is_anothers and max(self.store_step, self._moved_by_owner.get(alarm.id, -1.0)) < claimed:
            self.breaks("L1", f"fire {alarm.fire_id} began by claim {alarm.claim}; another process has {row.claim}")

    def _check_body(self, wake: Wake) -> None:
        body, before = wake.body, self._bodies.get(wake.fire_id)
        if before is not None and before[0] != body and before[1] == wake.message and wake.signal is None:
            self.breaks("E3", f"fire {wake.fire_id} has another body than before, and nobody edited its alarm")
        self._bodies[wake.fire_id] = body, wake.message

    def aborted(self, attempt: Attempt, *, is_stopping: bool) -> None:
        """A receiver was hung up on. Only a process that is stopping does that."""
        attempt.is_aborted = True
        if not is_stopping:
            self.breaks("E1", f"fire {attempt.alarm.fire_id} was broken off by its worker, which goes on")

    def _check_deaths(self, known: KnownAlarm, wake: Wake) -> None:
        since = self._moved_by_owner.get(wake.alarm.id, -1.0)
        tries = [one for one in self._attempts.get(wake.fire_id, ()) if one.began > since]
        if known.poison and len(tries) > MOST_DEATHS:
            self.breaks("I3", f"fire {wake.fire_id} has killed {len(tries)} workers, and is tried again")

    def _check_budget(self, alarm: Alarm, now: datetime) -> None:
        limit, is_limited = alarm.policy.wakes_per_hour, alarm.owner_did == LIMITED
        is_further_try = alarm.failure_count > 0  # not counted again, also where a signal gives it another id
        if (limit is None and not is_limited) or (is_further_try and alarm.fire_id not in self._paid):
            return
        at = self._paid[alarm.fire_id] if is_further_try else self._charged.get(attempt_of(alarm), now)
        hour = at.replace(minute=0, second=0, microsecond=0)
        if is_limited:
            limit = min(limit or LIMITS.alarm_wakes_per_hour or 0, LIMITS.alarm_wakes_per_hour or 0)
            self._count(self._woken, LIMITED, alarm.fire_id, hour, LIMITS.owner_wakes_per_hour or 0)
            if self._comes_again(alarm):
                self._count(self._rewoken, alarm.id, attempt_of(alarm), hour, LIMITS.rewakes_per_hour or 0)
        self._count(self._woken, alarm.id, alarm.fire_id, hour, limit or 0)

    def _count(
        self, woken: dict[tuple[str, datetime], set[str]], whose: str, wake: str, hour: datetime, limit: int
    ) -> None:
        woken[whose, hour].add(wake)
        if len(woken[whose, hour]) > limit:
            self.breaks(
                "I7", f"{whose} woke {len(woken[whose, hour])} times in the hour of {hour}; {limit} are allowed"
            )

    def _comes_again(self, alarm: Alarm) -> bool:
        """Whether a first try was snoozed until then, or its wake had arrived before."""
        if alarm.failure_count:
            return False
        row = self._fires.get((alarm.id, alarm.occurrence_at))
        if row is not None and row.delivered_at is not None:
            return True
        if alarm.kind == "once":
            return alarm.fire_at is not None and alarm.occurrence_at > alarm.fire_at
        grid = grid_of(alarm)
        return grid is not None and not grid.has(alarm.occurrence_at) and alarm.policy.heard is None

    def _check_quiet(self, known: KnownAlarm, wake: Wake) -> None:
        if known.quiet_since is not None:
            if known.may_start <= 0:
                what = f"{known.quiet_by} was acknowledged at {known.quiet_since:.3f} s"
                self.breaks("E4", f"fire {wake.fire_id} began after a {what}")
            known.may_start -= 1
        elif known.words is not None and wake.message not in known.words:
            self.breaks("E4", f"fire {wake.fire_id} says {wake.message!r} after that was changed")

    def _check_again(self, attempt: Attempt, fire_id: str) -> None:
        if not (tries := self._attempts.get(fire_id)):
            return
        last, alarm = tries[-1], attempt.alarm
        if last.settled:
            status = self._status_at_claim.get((alarm.id, alarm.claim), "")
            if isinstance(last.outcome, ARRIVED) and status in OVER:
                self.breaks("E1", f"fire {fire_id} is {status}, and began again")
            return
        if last.ended is None and last.process is attempt.process:
            self.breaks("E1", f"fire {fire_id} began again where its attempt of {last.began:.3f} s is under way")
        arrived = last.ended is None or isinstance(last.outcome, ARRIVED)
        if arrived and max(self.trouble, self.store_step) < last.began - LEASE.total_seconds():
            state = "under way" if last.ended is None else "answered"
            self.breaks("E1", f"fire {fire_id} began again while its attempt of {last.began:.3f} s was {state}")

    # Lateness

    def check(self, *, serving: Callable[[object], bool], settling: float) -> None:
        """Once a while: nothing that is due waits for longer than a tick.

        `serving`: whether a process is alive and goes on. `settling`: how many seconds after the last trouble wakes to
        targets with trouble of their own count, too.
        """
        now, passed = self._now(), self._passed()
        delivering = self._delivering(serving)
        due = [alarm for alarm in self._alarms.values() if alarm.status == "active" and alarm.next_fire_at <= now]
        # Members of a group that died are tried one by one.
        singly = sum(ONE_BY_ONE + WORK.get(one.target, 0.0) for one in due if one.unsettled >= 2)
        self.recovered = recovered = max(self.recovered, self.trouble + RECOVERY + singly)
        waiting: dict[str, float] = {}
        for alarm in due:
            if alarm.id in delivering or (alarm.target not in ON_TIME and passed < recovered + settling):
                continue
            # Moved since: it waits anew.
            moved = max(self._moved_by_owner.get(alarm.id, 0.0), self.step)
            since = max(self._waiting_since.get(alarm.id, passed), moved)
            waiting[alarm.id] = since
            late = passed - max(since, recovered) - TICK.total_seconds() - SLACK
            # A series that is due every moment is at another occurrence: that one waits only since it is due.
            if late > 0 and now - alarm.next_fire_at > TICK + timedelta(seconds=SLACK):
                lease = f"leased since {alarm.claimed_at}" if alarm.claimed_at else "nobody has it"
                self.breaks(
                    "F4" if self.step > self.trouble else "I9",
                    f"alarm {alarm.id} ({alarm.target}) is due since {alarm.next_fire_at}, it is {now};"
                    f" waits since {since:.3f} s; {lease}; unsettled {alarm.unsettled}",
                )
        self._waiting_since = waiting

    def is_quiet(self, *, serving: Callable[[object], bool]) -> bool:
        """Whether nothing is overdue, but for what is being delivered."""
        limit, delivering = self._now() - TICK - timedelta(seconds=SLACK), self._delivering(serving)
        return all(
            alarm.status != "active" or alarm.next_fire_at >= limit or alarm.id in delivering
            for alarm in self._alarms.values()
        )

    def _delivering(self, serving: Callable[[object], bool]) -> set[str]:
        return {
            one.alarm.id
            for process, attempts in self._under_way.items()
            if serving(process)
            for one in attempts
            if one.ended is None
        }

    # The end

    def at_the_end(self) -> None:
        for known in self.known.values():
            for id in known.ids:
                self._check_kept(known, id)
        keys = Counter((row.owner_did, row.idempotency_key) for row in self._alarms.values() if row.idempotency_key)
        for (owner, key), count in keys.items():
            if count > 1:
                self.breaks("D2", f"{count} alarms of {owner} have the key {key!r}")
        for fire_id in self._reported:
            self._check_report(self._fire(fire_id), fire_id)

    def _check_kept(self, known: KnownAlarm, id: str) -> None:
        row = self._alarms.get(id)
        if row is None:
            self.breaks("D1", f"alarm {id} was acknowledged and has no row")
        elif row.owner_did != known.owner or (known.key and row.idempotency_key != known.key):
            self.breaks("D1", f"alarm {id} is not as it was acknowledged")
        elif known.words is not None and row.wake_message not in known.words:
            self.breaks("D1", f"alarm {id} says {row.wake_message!r}; acknowledged was {known.words}")

    def _fire(self, fire_id: str) -> Fire | None:
        return self._fires.get(parse_fire_id(fire_id))


def _day(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _verb(request: object) -> str:
    """What a change was asked for with; empty for what a dispatcher does by itself."""
    if isinstance(request, Operation):
        return f"report {request.what}" if request.fire_id else request.what
    return "" if request is None else "fetch"
