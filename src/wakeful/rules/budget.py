"""Limit how many wakes, and what reported cost, an owner, an alarm and a chain have in an hour and in a day. Pure.

A wake is counted before it is sent, in one transaction with the look at what was counted before: the store lets
`charged` decide there. Hours and days are those of UTC. Most wakes meet no limit, and nothing is counted for them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, cast, get_args

from msgspec import Struct
from msgspec.structs import replace

from wakeful.errors import InvalidSchedule
from wakeful.model.alarm import DEFAULT_POLICY, Alarm, Change, Event, Fire, Policy
from wakeful.model.limits import BudgetLimits
from wakeful.moments import unix_ms, whole_ms
from wakeful.rules.passing import with_tries
from wakeful.rules.plan import following, skipped_run, timetable, undecided
from wakeful.rules.settle import UNREPORTED, is_too_late, release, skip
from wakeful.schedule import is_interval, is_rule, schedule, zone
from wakeful.schedule.expression import fires_per_day, fires_within_day, per_day
from wakeful.schedule.zones import by_zone_rules

Scope = Literal["owner", "alarm", "chain", "rewake", "agent"]
Period = Literal["hour", "day"]
Key = tuple[str, str, str, datetime]  # of a count: scope, id, period, and when that one began

DEFERRED: Final = "deferred"  # what the event of an alarm says whose wake waits for its budget
BUDGET_REACHED: Final = "budget_reached"  # what the owner is told, once for each limit and period
MILLIONTHS: Final = 1_000_000  # cost is counted in these: sums stay exact
_LENGTHS: Final[Mapping[str, timedelta]] = {"hour": timedelta(hours=1), "day": timedelta(days=1)}
_MS: Final = timedelta(milliseconds=1)
_ATTEMPT: Final = "attempt"  # the scope of marks: which attempts were counted
_BY_AGENTS: Final = "mcp"  # through what they set alarms


class BudgetCount(Struct, frozen=True, kw_only=True):
    """What was used in one period. `told`: whether the owner has heard that a limit was met in it."""

    scope: str
    id: str
    period: str
    starts_at: datetime
    wakes: int = 0
    cost: int = 0  # in millionths
    told: bool = False

    @property
    def key(self) -> Key:
        return self.scope, self.id, self.period, self.starts_at

    @property
    def ends_at(self) -> datetime:
        return self.starts_at + _LENGTHS[self.period]


class Allowance(Struct, frozen=True):
    """A limit that a wake meets: so many wakes, or so much cost, in each period. 0: not limited."""

    scope: Scope
    id: str
    period: Period
    wakes: int = 0
    cost: float = 0.0

    def is_used_up(self, used: BudgetCount) -> bool:
        by_wakes = 0 < self.wakes <= used.wakes
        return by_wakes or 0 < self.cost * MILLIONTHS <= used.cost

    def words(self, used: BudgetCount) -> str:
        """Why a wake has to wait or is skipped."""
        whose = {
            "owner": "its owner",
            "agent": "all that agents set for its owner",
            "chain": f"the chain that began with alarm {self.id}",
        }.get(self.scope, "this alarm")
        what = "snoozed or repeated wake" if self.scope == "rewake" else "wake"
        limit = (
            f"{self.wakes} {what}{'s' if self.wakes > 1 else ''}"
            if 0 < self.wakes <= used.wakes
            else f"a cost of {self.cost:g}"
        )
        return f"the budget of {whose} is used up: {limit} in one {self.period}"


class Charge(Struct, frozen=True):
    """One wake that is about to be sent, and the limits it meets.

    `attempt`: which attempt this is. It is on record as counted, so that it is counted once: its worker may die before
    it is settled, and the next one begins the same attempt again. `again`: that may be so, and on the day before.
    """

    allowances: tuple[Allowance, ...]
    at: datetime
    attempt: str = ""
    again: bool = False

    @property
    def keys(self) -> list[Key]:
        return [*(_key(allowance, self.at) for allowance in self.allowances), *self.marks]

    @property
    def marks(self) -> list[Key]:
        """Where it may be on record that this attempt was counted; a new mark is the first."""
        days = (self.at, self.at - _LENGTHS["day"]) if self.again else (self.at,)
        return [(_ATTEMPT, self.attempt, "day", _start("day", day)) for day in days] if self.attempt else []


class Refusal(Struct, frozen=True):
    """Why a wake is not sent now, and from when on it may be. `first`: nobody was told of this limit yet."""

    scope: Scope
    words: str
    until: datetime
    first: bool = False


class Budget:
    """The limits of all owners, and which of them a wake meets."""

    def __init__(self, everyone: BudgetLimits, owners: Mapping[str, BudgetLimits] | None = None) -> None:
        self._everyone = everyone
        self._owners = owners or {}
        names = [name for name in BudgetLimits.__struct_fields__ if name.startswith(("owner_", "alarm_"))]
        self._spares_nobody = any(getattr(everyone, name) for name in names)

    def limits_of(self, owner: str) -> BudgetLimits:
        return self._owners.get(owner, self._everyone)

    def allowances(self, alarm: Alarm, fire: Fire | None) -> tuple[Allowance, ...]:
        """The limits a wake meets. `fire`: what is on record of it, where it was tried or reported on before."""
        limits = self._owners.get(alarm.owner_did)
        if limits is None:
            limits = self._everyone
            if not self._spares_nobody and _is_plain(alarm, fire):  # nearly always, and found at one look
                is_on_time = alarm.kind == "once" and alarm.occurrence_at == alarm.fire_at
                return () if is_on_time else _of_rewake(alarm, fire, limits)
        if is_paid_for(alarm, fire):
            return ()
        met = [*_of_owner(alarm.owner_did, limits), *_of_alarm(alarm, limits), *_of_chain(alarm, limits)]
        return (*met, *_of_rewake(alarm, fire, limits), *_of_agents(alarm, limits))

    def limits_on(self, alarm: Alarm) -> tuple[Allowance, ...]:
        """All limits that wakes of an alarm may meet, whichever of them the next one does."""
        limits = self.limits_of(alarm.owner_did)
        met = (*_of_owner(alarm.owner_did, limits), *_of_alarm(alarm, limits), *_of_chain(alarm, limits))
        rewakes = _allowed("rewake", alarm.id, limits.rewakes_per_hour, limits.rewakes_per_day)
        return (*met, *rewakes, *_of_agents(alarm, limits))

    def limits_on_owner(self, owner: str) -> tuple[Allowance, ...]:
        """An owner's own limits; the day is there without one too, for what it cost."""
        found = _of_owner(owner, self.limits_of(owner))
        has_day = any(one.period == "day" for one in found)
        return found if has_day else (*found, Allowance("owner", owner, "day"))

    def limits_on_agents(self, owner: str) -> tuple[Allowance, ...]:
        limits = self.limits_of(owner)
        return _allowed("agent", owner, limits.agent_wakes_per_hour, limits.agent_wakes_per_day)


def _is_plain(alarm: Alarm, fire: Fire | None) -> bool:
    """Return whether no limit is met but those of everybody, of every alarm, and of wakes that come again."""
    if fire is not None or alarm.generation or alarm.failure_count or _has_own(alarm.policy):
        return False
    return alarm.kind != "once" or alarm.created_via != _BY_AGENTS


def _has_own(policy: Policy) -> bool:
    """Return whether an alarm has limits of its own. This is on the path of every wake."""
    if policy is DEFAULT_POLICY:
        return False
    return (policy.wakes_per_hour or policy.wakes_per_day or policy.cost_per_day) is not None


def _of_owner(owner: str, limits: BudgetLimits) -> tuple[Allowance, ...]:
    wakes = limits.owner_wakes_per_hour, limits.owner_wakes_per_day
    return _allowed("owner", owner, *wakes, limits.owner_cost_per_day)


def _of_alarm(alarm: Alarm, limits: BudgetLimits) -> tuple[Allowance, ...]:
    """What its owner said, but never more than the operator allows."""
    policy = alarm.policy
    hour = _least(policy.wakes_per_hour, limits.alarm_wakes_per_hour)
    day = _least(policy.wakes_per_day, limits.alarm_wakes_per_day)
    cost = min((one for one in (policy.cost_per_day, limits.alarm_cost_per_day) if one), default=0.0)
    return _allowed("alarm", alarm.id, hour, day, cost)


def _of_chain(alarm: Alarm, limits: BudgetLimits) -> tuple[Allowance, ...]:
    if not is_chained(alarm):
        return ()
    wakes = limits.chain_wakes_per_hour, limits.chain_wakes_per_day
    return _allowed("chain", alarm.root_id, *wakes, limits.chain_cost_per_day)


def _of_rewake(alarm: Alarm, fire: Fire | None, limits: BudgetLimits) -> tuple[Allowance, ...]:
    if not (limits.rewakes_per_hour or limits.rewakes_per_day) or not is_rewake(alarm, fire):
        return ()
    return _allowed("rewake", alarm.id, limits.rewakes_per_hour, limits.rewakes_per_day)


def _of_agents(alarm: Alarm, limits: BudgetLimits) -> tuple[Allowance, ...]:
    """One-shots that agents have set without a word of the wake that made them: so they can wake themselves for ever.

    Not series: how often one wakes was said when it was set.
    """
    if alarm.kind != "once" or alarm.created_via != _BY_AGENTS or is_chained(alarm):
        return ()
    return _allowed("agent", alarm.owner_did, limits.agent_wakes_per_hour, limits.agent_wakes_per_day)


def _allowed(scope: Scope, id: str, hour: int, day: int, cost: float = 0.0) -> tuple[Allowance, ...]:
    found = [Allowance(scope, id, "hour", hour)] if hour else []
    if day or cost:
        found.append(Allowance(scope, id, "day", day, cost))
    return tuple(found)


def _least(*given: int | None) -> int:
    return min((one for one in given if one), default=0)


def is_paid_for(alarm: Alarm, fire: Fire | None) -> bool:
    """Return whether this is one more try at a wake that is counted already, and that nobody has reported on."""
    if alarm.failure_count == 0:
        return False
    return fire is None or fire.delivered_at is None or fire.reason == UNREPORTED


def is_chained(alarm: Alarm) -> bool:
    """Return whether a wake led to this alarm. Copies that `fire` makes of an alarm nobody's wake set are not."""
    return alarm.generation > 0 and bool(alarm.root_id)


def is_rewake(alarm: Alarm, fire: Fire | None) -> bool:
    """Return whether this wake comes again: it was snoozed, or had arrived before. Its schedule names neither."""
    if fire is not None and fire.delivered_at is not None and fire.scheduled_for == alarm.occurrence_at:
        return True
    if alarm.kind == "once":
        return alarm.fire_at is not None and alarm.occurrence_at - alarm.fire_at >= _MS
    try:
        return following(alarm, alarm.occurrence_at - _MS) != alarm.occurrence_at
    except InvalidSchedule:  # it can no longer be planned: it is set aside when this wake is settled
        return False


# What an alarm will cost

_HOURS: Final = 24
_COUNTED: Final = 120  # fires in an hour that are counted for a note


def wakes_per_day(alarm: Alarm) -> int:
    """Return how often a series wakes its reader on a day on which it does."""
    if alarm.kind == "once":
        return 1
    if is_interval(alarm.cron_expr):
        upcoming = timetable(alarm).after(alarm.occurrence_at)
        return 1 if upcoming is None else per_day(upcoming - alarm.occurrence_at)
    if is_rule(alarm.cron_expr):
        return fires_within_day(timetable(alarm), alarm.occurrence_at)
    return _fires_per_day(alarm.cron_expr, alarm.timezone, alarm.occurrence_at)


@by_zone_rules(maxsize=1024)
def _fires_per_day(cron_expr: str, timezone: str, first: datetime) -> int:
    return fires_per_day(schedule(cron_expr, timezone), first, zone(timezone))


def wake_notes(alarm: Alarm, limits: BudgetLimits) -> tuple[str, ...]:
    """Tell whoever sets a series how often it wakes, and if its budget does not allow that."""
    wakes = wakes_per_day(alarm)
    if wakes <= 1:  # once a day is what anyone expects
        return ()
    met = (*_of_owner(alarm.owner_did, limits), *_of_alarm(alarm, limits), *_of_chain(alarm, limits))
    a_day = min((one.wakes for one in met if one.period == "day" and one.wakes), default=wakes)
    an_hour = min((one.wakes for one in met if one.period == "hour" and one.wakes), default=0)
    is_held = an_hour > 0 and _fires_within_hour(alarm, an_hour + 1)
    at_most = min(wakes, _HOURS * an_hour) if is_held else wakes
    notes = [f"It wakes {wakes:,} times a day."]
    if at_most < wakes:
        notes = [f"It is due {wakes:,} times a day, and wakes {at_most:,} times at most."]
    defers = alarm.policy.at_limit == "defer"
    if is_held:
        then = "the others wait for the next hour" if defers else "the others are skipped"
        notes.append(f"Its budget allows {an_hour:,} wakes an hour: {then}.")
    if a_day < at_most:
        then = "after that it waits for the next day" if defers else "the others are skipped"
        notes.append(f"Its budget allows {a_day:,} wakes a day: {then}.")
    return tuple(notes)


def _fires_within_hour(alarm: Alarm, count: int) -> bool:
    """Return whether a series fires so often within an hour from its next fire on, as far as that is counted."""
    at, times = alarm.occurrence_at, timetable(alarm)
    for _ in range(count - 1 if count <= _COUNTED else 0):
        later = times.after(at)
        if later is None or later - alarm.occurrence_at >= _LENGTHS["hour"]:
            return False
        at = later
    return count <= _COUNTED


# What was used


def _start(period: str, at: datetime) -> datetime:
    hour = whole_ms(at).replace(minute=0, second=0, microsecond=0)
    return hour if period == "hour" else hour.replace(hour=0)


def _key(allowance: Allowance, at: datetime) -> Key:
    return allowance.scope, allowance.id, allowance.period, _start(allowance.period, at)


def charged(
    charges: Sequence[Charge], counts: Mapping[Key, BudgetCount]
) -> tuple[list[Refusal | None], list[BudgetCount]]:
    """Decide which of these wakes may be sent, in their order, and what is counted then.

    A wake is counted against all of its limits or, where one of them is used up, against none.
    """
    known = dict(counts)
    changed: dict[Key, BudgetCount] = {}
    answers: list[Refusal | None] = []
    for charge in charges:
        refusal, counted = _charged(charge, known)
        answers.append(refusal)
        for count in counted:
            known[count.key] = changed[count.key] = count
    return answers, list(changed.values())


def _charged(charge: Charge, known: Mapping[Key, BudgetCount]) -> tuple[Refusal | None, list[BudgetCount]]:
    if any(mark in known and known[mark].wakes for mark in charge.marks):
        return None, []  # it was counted, and whoever was to send it died or released it
    used = [(allowance, known_count(allowance, charge.at, known)) for allowance in charge.allowances]
    over = [(allowance, count) for allowance, count in used if allowance.is_used_up(count)]
    if not over:
        marks = [
            BudgetCount(scope=scope, id=id, period=period, starts_at=starts_at, wakes=1)
            for scope, id, period, starts_at in charge.marks[:1]
        ]
        return None, [*(replace(count, wakes=count.wakes + 1) for _, count in used), *marks]
    allowance, count = max(over, key=lambda one: one[1].ends_at)  # the one that is used up for longest
    refusal = Refusal(allowance.scope, allowance.words(count), count.ends_at, first=not count.told)
    return refusal, [] if count.told else [replace(count, told=True)]


def known_count(allowance: Allowance, at: datetime, known: Mapping[Key, BudgetCount]) -> BudgetCount:
    """What was counted against a limit in the period of a moment; nothing yet, if it is not known."""
    scope, id, period, starts_at = key = _key(allowance, at)
    return known.get(key) or BudgetCount(scope=scope, id=id, period=period, starts_at=starts_at)


def costs(change: Change) -> list[BudgetCount]:
    """What a report that names its cost adds to the counts of its owner, alarm and chain."""
    if not change.cost:
        return []
    alarm = change.after
    whose = [("owner", alarm.owner_did), ("alarm", alarm.id)]
    whose += [("chain", alarm.root_id)] if is_chained(alarm) else []
    day, cost = _start("day", alarm.updated_at), round(change.cost * MILLIONTHS)
    return [BudgetCount(scope=scope, id=id, period="day", starts_at=day, cost=cost) for scope, id in whose]


# What follows


def attempt_of(alarm: Alarm) -> str:
    """The attempt that is begun, the same for whoever begins it again: a retry or a snooze has another moment."""
    return f"{alarm.id}@{unix_ms(alarm.next_fire_at)}"


def over_budget(alarm: Alarm, fire: Fire | None, refusal: Refusal, *, now: datetime) -> Change:
    """Defer or skip a claimed alarm whose budget is used up: as its policy says, else a series skips and others wait.

    What could not be delivered any more by then is skipped at once.
    """
    now = whole_ms(now)
    at_limit = alarm.policy.at_limit or ("skip" if alarm.kind == "cron" else "defer")
    if at_limit == "skip" or is_too_late(alarm, refusal.until):
        change = skip(alarm, "budget", now=now)
        if fire is not None:
            change = replace(change, fires=tuple(with_tries(one, fire) for one in change.fires))
    else:
        change = _deferred(alarm, refusal, now=now)
    return replace(change, events=(*_told(alarm, refusal, now), *change.events))


def _deferred(alarm: Alarm, refusal: Refusal, *, now: datetime) -> Change:
    """Put it off until its budget allows it; occurrences of its series until then are on record as skipped."""
    change, until = release(alarm, now=now), max(alarm.next_fire_at, refusal.until)
    passed = skipped_run(alarm, undecided(alarm), until, "budget", now=now)
    event = _event(alarm, DEFERRED, f"until {until.isoformat()}: {refusal.words}", now)
    after = replace(change.after, next_fire_at=until)
    return replace(change, after=after, events=(event,), fires=() if passed is None else (passed,))


def _told(alarm: Alarm, refusal: Refusal, now: datetime) -> Iterator[Event]:
    if refusal.first:
        yield _event(alarm, BUDGET_REACHED, f"{refusal.words}; it is free again at {refusal.until.isoformat()}", now)


def _event(alarm: Alarm, what: str, reason: str, now: datetime) -> Event:
    return Event(at=now, what=what, alarm_id=alarm.id, owner_did=alarm.owner_did, fire_id=alarm.fire_id, reason=reason)


# What is used of budgets in this hour and day, for whoever asks; and which alarms wait for theirs. Pure.

_SCOPES: Final = get_args(Scope)


class BudgetUse(Struct, frozen=True, kw_only=True):
    """What was used of one limit in the hour or day that is now. 0 allowed: not limited.

    `id`: of the owner (also for `agent`), of the alarm, or of the alarm that the chain began with. `until`: when the
    hour or day is over.
    """

    scope: Scope
    id: str
    period: Period
    wakes: int
    wakes_allowed: int
    cost: float
    cost_allowed: float
    used_up: bool
    until: datetime


def uses(
    allowances: Iterable[Allowance], counts: Iterable[BudgetCount], now: datetime, *, always: Collection[Allowance] = ()
) -> list[BudgetUse]:
    """What was used of these limits, those that are used up first.

    A limit of which nothing was used is left out, unless it is in `always`.
    """
    known = {count.key: count for count in counts}
    found: list[BudgetUse] = []
    for allowance in allowances:
        count = known_count(allowance, now, known)
        is_limited = bool(allowance.wakes or allowance.cost)
        if count.wakes or count.cost or (is_limited and allowance in always):
            found.append(_use(allowance, count))
    return sorted(found, key=lambda use: (not use.used_up, _SCOPES.index(use.scope), use.id, use.until))


def _use(allowance: Allowance, count: BudgetCount) -> BudgetUse:
    return BudgetUse(
        scope=allowance.scope,
        id=allowance.id,
        period=cast(Period, count.period),
        wakes=count.wakes,
        until=count.ends_at,
        wakes_allowed=allowance.wakes,
        cost=count.cost / MILLIONTHS,
        cost_allowed=allowance.cost,
        used_up=allowance.is_used_up(count),
    )


def may_wait_for_budget(alarm: Alarm) -> bool:
    """Return whether an alarm can be one that was put off until a budget is free: until an hour (of UTC) is over."""
    due = alarm.next_fire_at
    return alarm.status == "active" and alarm.occurrence_at < due and not (due.minute or due.second or due.microsecond)


def waiting_for_budget(
    alarms: Iterable[Alarm], budget: Budget, counts: Iterable[BudgetCount], now: datetime
) -> set[str]:
    """The ids of those that wait until a budget of theirs is free again."""
    known = {count.key: count for count in counts}
    found: set[str] = set()
    for alarm in alarms:
        for allowance in budget.limits_on(alarm):
            count = known_count(allowance, now, known)
            if count.ends_at == alarm.next_fire_at and allowance.is_used_up(count):
                found.add(alarm.id)
    return found
