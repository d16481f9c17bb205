"""What one change may do to an alarm: the checker's rules of schedules, retries, signals and budgets.

They are written from the promises (docs/guarantees.md), by arithmetic of their own. Of the rhythms of a series they
know `@every` alone; series by cron or by wall time are checked by what holds for all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.model.alarm import Alarm, Change, Fire
from wakeful.model.outcome import Failed, Outcome

MS: Final = timedelta(milliseconds=1)
SECOND: Final = timedelta(seconds=1)
TICK: Final = timedelta(seconds=1)
LEASE: Final = timedelta(seconds=5)
GRACE: Final = 60.0  # seconds that a fire may be late where late ones are skipped
COUNTED: Final = 1000  # instants of a skipped run; beyond that its count is a minimum
SUSPECT, ALONE = 2, 3  # `unsettled` of an alarm that is claimed again, and of one that is tried by itself
ARRIVED: Final = frozenset({"completed", "delivered", "waiting"})
STEPPED_OVER: Final = frozenset({"skipped", "snoozed"})
MOVES: Final = frozenset({"cancel", "pause", "resume", "skip", "snooze", "move", "signal"})
LEAVES: Final = MOVES - {"pause"}  # verbs after which what was due is on record, or still due
BY_OWNER: Final = frozenset({"cancelled", "superseded", "paused", "requested", "signalled"})  # reasons of a fire
EDITS: Final = frozenset({"reword", "policy"})  # edits that name one field
REWRITES: Final = EDITS | {"when", "rearm", "repeat"}  # verbs after which a wake may have another body


class Grid(Struct, frozen=True):
    """The instants of an `@every` series: the anchor and k steps, k from 1 on."""

    anchor: datetime
    step: timedelta

    def has(self, moment: datetime) -> bool:
        return (moment - self.anchor) % self.step == timedelta(0)

    def after(self, moment: datetime) -> datetime:
        return self.anchor + (max(0, (moment - self.anchor) // self.step) + 1) * self.step

    def count(self, after: datetime, last: datetime) -> int:
        """How many there are after one moment and not after another."""
        return max(0, (last - self.anchor) // self.step) - max(0, (after - self.anchor) // self.step)


def grid_of(alarm: Alarm) -> Grid | None:
    said = alarm.cron_expr
    if alarm.kind != "cron" or not (said.startswith("@every ") and said.endswith("s") and said[7:-1].isdigit()):
        return None
    return Grid(alarm.policy.anchor or alarm.occurrence_at, timedelta(seconds=int(said[7:-1])))


def ladder(alarm: Alarm, failures: int) -> timedelta:
    return timedelta(seconds=min(alarm.policy.backoff_base * 2.0**failures, alarm.policy.backoff_cap))


class Written(Struct, frozen=True):
    """A change that took effect. `asked`: the verb of the client, empty for what a dispatcher does by itself.

    `was`, `fires`: the rows before. `outcome`: of the attempt that began under this claim. `began`: whether one did.
    `untouched`: nobody has asked anything of the alarm since it was set, or reported on it, and nothing has gone wrong:
    a wake that was counted, and whose answer or worker was lost, uses up a budget although it is not sent.
    """

    process: object
    asked: str
    change: Change
    was: Alarm
    fires: Mapping[tuple[str, datetime], Fire]
    began: bool = False
    outcome: Outcome | None = None
    untouched: bool = False

    @property
    def after(self) -> Alarm:
        return self.change.after

    @property
    def now(self) -> datetime:
        """When it was decided, by the clock that its writer went by."""
        return self.change.after.updated_at

    @property
    def raises_version(self) -> bool:
        return self.change.after.version != self.change.version

    @property
    def by_worker(self) -> bool:
        """A settlement of what a worker had claimed."""
        return not self.asked and not self.raises_version

    @property
    def is_moved(self) -> bool:
        return self.after.occurrence_at != self.was.occurrence_at

    @property
    def fire(self) -> Fire | None:
        """The row that it writes for the occurrence at which the alarm was."""
        return next((one for one in self.change.fires if one.scheduled_for == self.was.occurrence_at), None)

    @property
    def fire_before(self) -> Fire | None:
        return self.fires.get((self.was.id, self.was.occurrence_at))

    @property
    def is_last(self) -> bool:
        """Whether no fire is allowed after this one: nothing is due then."""
        most = self.was.policy.max_fires
        return most is not None and self.was.fire_count + 1 >= most


class ChangeRules:
    """`fires`: what the database holds, after each change."""

    def __init__(self, breaks: Callable[[str, str], None], fires: Mapping[tuple[str, datetime], Fire]) -> None:
        self._breaks = breaks
        self._fires = fires
        self._resumes: dict[str, datetime] = {}  # series that a signal has fired: where they go on
        self._answered_badly: set[tuple[object, str, str]] = set()  # process, target, owner
        self._charged: dict[tuple[str, datetime], set[str]] = defaultdict(set)  # by alarm and hour: fires
        self._told: Counter[tuple[str, str]] = Counter()  # by alarm and limit: how often its owner has heard of it

    def failed(self, process: object, alarm: Alarm, outcome: Failed) -> None:
        if outcome.answered and outcome.unhealthy:
            self._answered_badly.add((process, alarm.target, alarm.owner_did))

    def charged(self, alarm: Alarm, at: datetime) -> None:
        self._charged[alarm.id, _hour(at)].add(alarm.fire_id)

    def check(self, one: Written) -> None:
        if one.asked:
            self._check_asked(one)
        elif one.by_worker:
            self._check_worker(one)
        else:
            self._check_sweep(one)
        for fire in one.change.fires:
            self._check_fire(one, fire)

    # What clients ask

    def _check_asked(self, one: Written) -> None:
        if one.asked == "signal":
            self._signalled(one)
        if one.asked in MOVES:
            self._check_taken(one)
        else:
            self._check_edited(one)
        if one.asked in LEAVES and one.was.status in ("active", "paused"):
            self._check_left(one)

    def _check_taken(self, one: Written) -> None:
        """Whoever changes when an alarm fires takes it from its worker."""
        is_other = one.is_moved or one.after.status != one.was.status or one.after.next_fire_at != one.was.next_fire_at
        if is_other and one.after.claim <= one.was.claim:
            self._breaks("L2", f"alarm {one.was.id} was changed by {one.asked}, and its worker may still settle it")
        if one.asked == "skip" and _is_leased(one.was, one.now):
            self._breaks("F1", f"fire {one.was.fire_id} was skipped while it was being delivered")

    def _check_edited(self, one: Written) -> None:
        was, after = one.was, one.after
        if one.asked == "when" and after.kind != was.kind:
            self._breaks("A1", f"alarm {was.id} was {was.kind}, and is {after.kind} though nobody said so")
        if one.asked in EDITS:
            kept = {"catch_up": was.policy.catch_up} if one.asked == "policy" else {}
            if replace(after.policy, **kept) != was.policy:
                self._breaks("A1", f"alarm {was.id}: an edit changed more of its policy than it named")
        if after.kind == "cron" and after.policy.rearm is not None:
            self._breaks("A1", f"alarm {was.id} is a series with rearm")

    def _check_left(self, one: Written) -> None:
        """What was due when its owner moved it is on record."""
        was, after = one.was, one.after
        is_due = was.occurrence_at <= one.now or (was.claimed_at is not None and was.status == "active")
        is_left = (one.is_moved and after.occurrence_at > was.occurrence_at) or after.finished
        if is_due and is_left and one.asked != "resume":
            self._check_on_record(one)
        if (grid := grid_of(was)) is None or one.is_last or not is_left:
            return
        last = one.now
        if after.kind == "cron" and after.status == "active":
            last = after.occurrence_at - MS if one.asked == "snooze" else min(last, after.occurrence_at - MS)
        self._check_covered(one, grid, last)

    def _signalled(self, one: Written) -> None:
        was, after = one.was, one.after
        said = f"alarm {was.id}, at a signal,"
        if was.status != "active":
            self._breaks("A1", f"{said} was {was.status}, and changed")
        if any(event.what == "signalled" and event.fire_id for event in one.change.events):
            self._fired_by_signal(one, said)
            return
        arrived = one.fire_before is not None and one.fire_before.status not in ("retrying", *STEPPED_OVER)
        if was.kind == "cron" and after.status == "cancelled":
            self._breaks("A1", f"{said} is cancelled, and was a series")
        since = was.policy.unless_since
        if since is not None and was.occurrence_at - one.now > timedelta(seconds=since) and was.policy.rearm is None:
            self._breaks("A1", f"{said} lost the fire of {was.occurrence_at}, {since} s before which it was to count")
        if arrived and after.status != "cancelled":
            self._breaks("A1", f"{said} lost a fire that had arrived")
        grid = grid_of(was)
        if grid is not None and grid.has(was.occurrence_at) and grid.after(one.now) < was.occurrence_at:
            self._breaks("A1", f"{said} lost a second fire: {was.occurrence_at}, and the one before was passed over")

    def _fired_by_signal(self, one: Written, said: str) -> None:
        was, after = one.was, one.after
        if was.claimed_at is not None:
            self._breaks("A1", f"{said} was fired though it was on its way")
        if after.failure_count != was.failure_count:
            self._breaks("A1", f"{said} began its retries anew")
        if one.is_moved and (was.id, after.occurrence_at) in self._fires:
            self._breaks("D1", f"{said} was fired under the id of a fire that had been: {after.fire_id}")
        if one.is_moved and was.kind == "cron":
            self._resumes[was.id] = was.occurrence_at

    def _resumes_at(self, alarm: Alarm) -> datetime | None:
        return self._resumes.get(alarm.id) if alarm.policy.heard is not None else None

    # What workers settle

    def _check_worker(self, one: Written) -> None:
        was, after = one.was, one.after
        if (after.finished and not was.finished) or one.is_moved:
            self._check_on_record(one)
        elif not one.began and after.claimed_at is None:
            self._check_released(one)
        if not after.finished and not one.is_moved and after.failure_count > was.failure_count:
            self._check_retry(one, was.failure_count)
        if (grid := grid_of(was)) is not None and after.status == "active":
            self._check_series(one, grid)
        self._check_budget(one)
        if one.fire is not None and one.fire.reason == "missed" and was.policy.catch_up != "skip":
            self._breaks("F1", f"fire {one.fire.id} is on record as missed, and was not to be skipped for that")

    def _check_series(self, one: Written, grid: Grid) -> None:
        was, after = one.was, one.after
        if not one.is_moved:
            if not one.is_last:
                self._check_covered(one, grid, after.next_fire_at)
            return
        if not grid.has(after.occurrence_at) or after.occurrence_at <= was.next_fire_at:
            said = f"after {was.occurrence_at} (due at {was.next_fire_at}) comes {after.occurrence_at}"
            self._breaks("F2", f"alarm {was.id}: {said}, which its schedule does not say")
        past = max(one.now, was.next_fire_at)
        resumes = self._resumes_at(was)
        if resumes is not None and was.occurrence_at < resumes:
            past = max(past, resumes - timedelta(microseconds=1))
            if after.occurrence_at < resumes:
                self._breaks("F2", f"alarm {was.id} comes at {after.occurrence_at}; it was at {resumes} already")
        if one.fire is not None and one.fire.status in ARRIVED and after.occurrence_at != grid.after(past):
            self._breaks("F2", f"alarm {was.id} comes at {after.occurrence_at}; it is to at {grid.after(past)}")
        if not one.is_last:
            self._check_covered(one, grid, after.occurrence_at - MS)

    def _check_on_record(self, one: Written) -> None:
        row = self._fires.get((one.was.id, one.was.occurrence_at))
        if row is None or (row.status == "retrying" and not one.asked):
            state = "no row" if row is None else "a row that is being retried"
            self._breaks("F1", f"alarm {one.was.id} goes on from {one.was.occurrence_at}, which has {state}")

    def _check_covered(self, one: Written, grid: Grid, last: datetime) -> None:
        """Every instant after the moment at which an alarm was due, up to this one, is on record."""
        missing = next(self._missing(one, grid, last), None)
        if missing is not None:
            self._breaks("F1", f"alarm {one.was.id}: nothing is on record of {missing}, and it goes on")

    def _missing(self, one: Written, grid: Grid, last: datetime) -> Iterator[datetime]:
        id, since = one.was.id, one.was.next_fire_at
        if (resumes := self._resumes_at(one.was)) is not None:
            since = max(since, resumes - timedelta(microseconds=1))  # what a signal came before is on record
        instant = grid.after(since)
        known: list[Fire] | None = None
        while instant <= last:
            row = _covering(one.change.fires, instant) or self._fires.get((id, instant))
            if row is None:
                known = [fire for fire in self._fires.values() if fire.alarm_id == id] if known is None else known
                row = _covering(known, instant)
            if row is None:
                yield instant
            instant = grid.after(max(instant, row.through or instant) if row is not None else instant)

    def _check_retry(self, one: Written, failures: int) -> None:
        """A retry waits as long as the ladder says, comes before the next occurrence, and is not one too many."""
        was, after, before = one.was, one.after, one.fire_before
        is_foreseen = before is not None and before.status == "retrying" and before.reason == "reported"
        reported = before.completed_at if before is not None and is_foreseen else None
        failed_at = max(one.now if reported is None else reported, was.next_fire_at)
        wait = ladder(was, failures)
        at = max(failed_at + wait, one.now, was.next_fire_at)
        said = f"alarm {was.id} failed at {failed_at} for the {failures + 1}. time and is retried at"
        if after.next_fire_at < failed_at + wait - MS:
            self._breaks("E6", f"{said} {after.next_fire_at}, sooner than {wait.total_seconds()} s after that")
        asked_to_wait = isinstance(one.outcome, Failed) and one.outcome.retry_after is not None
        if was.policy.exact_backoff and not asked_to_wait and after.next_fire_at > at + MS:
            self._breaks("E6", f"{said} {after.next_fire_at}, and was to be exactly at {at}")
        if after.failure_count > was.max_failures:
            self._breaks("E6", f"{said} {after.next_fire_at}: one try too many of {was.max_failures}")
        self._check_in_time(one, max(one.now, was.next_fire_at))

    def _check_in_time(self, one: Written, past: datetime) -> None:
        """What waits gives way to the next occurrence of its series."""
        grid = grid_of(one.was)
        if grid is None or one.is_last or one.was.id in self._resumes:
            return
        if one.after.next_fire_at >= grid.after(past):
            said = f"waits until {one.after.next_fire_at}, beyond its next occurrence"
            self._breaks("F2", f"alarm {one.was.id} {said}")

    def _check_released(self, one: Written) -> None:
        """Nothing of it was sent: it comes again as if it had not been claimed."""
        was, after = one.was, one.after
        if was.unsettled == SUSPECT and after.unsettled >= SUSPECT:
            self._breaks("I9", f"alarm {was.id} was released undelivered, and counts as one that killed its worker")
        waits = after.next_fire_at - max(one.now, was.next_fire_at)
        if one.change.events or after.next_fire_at <= was.next_fire_at or after.failure_count > was.failure_count:
            return
        self._check_in_time(one, max(one.now + SECOND, was.next_fire_at))
        if waits > TICK + MS and (one.process, was.target, was.owner_did) not in self._answered_badly:
            said = f"is put off until {after.next_fire_at}; {was.target} has answered {was.owner_did} nothing bad"
            self._breaks("I6", f"alarm {was.id} {said}")

    def _check_sweep(self, one: Written) -> None:
        """What a dispatcher does where no report came, or an answer came late."""
        for fire in one.change.fires:
            before = one.fires.get((fire.alarm_id, fire.scheduled_for))
            if before is None:
                continue
            if fire.status == "retrying" and fire.reason == "unreported" and before.status == "delivered":
                self._woken_again(one, fire, before)
            if fire.status == "timed_out" and before.status == "delivered":
                self._given_up(one, fire, before)
            if before.reason in BY_OWNER and before.count == 1 and before.delivered_at is None:
                self._came_late(fire, before)

    def _came_late(self, fire: Fire, before: Fire) -> None:
        """The answer of an attempt that was under way when its owner changed the alarm."""
        has_arrived = len(fire.log) > len(before.log) and fire.log[-1].said.startswith(("delivered", "completed"))
        if has_arrived and before.completed_at is None and fire.status in ("skipped", "failed"):
            self._breaks("F1", f"fire {fire.id} has arrived, and is on record as {fire.status}, {fire.reason}")

    def _woken_again(self, one: Written, fire: Fire, before: Fire) -> None:
        if one.after.next_fire_at < one.now + ladder(one.was, before.failures) - MS:
            self._breaks("E6", f"fire {fire.id} was not reported on, and comes again at {one.after.next_fire_at}")
        grid = grid_of(one.was)
        if grid is not None and not one.is_last and grid.after(fire.scheduled_for) <= one.now:
            self._breaks("F1", f"fire {fire.id} comes again at {one.now}, after a later occurrence of its series")
        if one.was.policy.on_silence != "again":
            self._breaks("A1", f"fire {fire.id} comes again though nobody reported on it; that is to be given up")

    def _given_up(self, one: Written, fire: Fire, before: Fire) -> None:
        was = one.was
        waits = was.kind == "once" and was.policy.expires is None and was.occurrence_at == fire.scheduled_for
        if waits and was.status == "fired" and was.policy.on_silence == "again" and before.failures < was.max_failures:
            self._breaks("E6", f"fire {fire.id} was not reported on, and is given up after {before.failures} retries")

    # Fires

    def _check_fire(self, one: Written, fire: Fire) -> None:
        before = one.fires.get((fire.alarm_id, fire.scheduled_for))
        if fire.status == "skipped" and before is not None and before.status in ("delivered", "timed_out", "completed"):
            self._breaks("D1", f"fire {fire.id} was {before.status}, and is on record as skipped")
        if fire.status == "completed" and before is not None and before.status == "failed" and before.completed_at:
            self._breaks("E5", f"fire {fire.id} was reported as failed, and a second report counts")
        if before is not None and before.reason == "unreported" and before.status == "retrying":
            self._after_silence(one, fire)
        is_new = before is None or (before.status, before.through) != (fire.status, fire.through)
        if is_new and fire.status == "skipped" and fire.count < COUNTED and (grid := grid_of(one.was)) is not None:
            count = 1 + grid.count(fire.scheduled_for, fire.through or fire.scheduled_for)
            if fire.count != count:
                self._breaks("F1", f"fire {fire.id} stands for {count} instants, and says {fire.count}")

    def _after_silence(self, one: Written, fire: Fire) -> None:
        if one.by_worker and not one.began and fire.status == "failed" and fire.reason in ("expired", "superseded"):
            self._breaks("D1", f"fire {fire.id} had arrived, and is on record as a delivery that failed")
        is_planned = one.was.status == "active" and one.was.occurrence_at == fire.scheduled_for
        if one.asked == "report working" and is_planned and one.was.claimed_at is None and fire.status == "retrying":
            self._breaks("E5", f"fire {fire.id} is still to be sent again after its receiver has spoken")

    # Budgets

    def _check_budget(self, one: Written) -> None:
        was, reasons = one.was, [event.what for event in one.change.events]
        for event in one.change.events:
            if event.what == "budget_reached":
                self._told[was.id, event.reason] += 1
                if self._told[was.id, event.reason] > 1:
                    self._breaks("I7", f"the owner of alarm {was.id} was told twice: {event.reason}")
        is_skipped = one.fire is not None and one.fire.status == "skipped" and one.fire.reason == "budget"
        is_deferred = "deferred" in reasons
        if not (is_skipped or is_deferred):
            return
        limit, used = was.policy.wakes_per_hour, len(self._charged[was.id, _hour(one.now)])
        if one.untouched and was.owner_did != "cat" and limit is not None and used < limit:
            self._breaks("I7", f"alarm {was.id} had {used} of {limit} wakes in its hour, and was not sent")
        expires = was.policy.expires
        if is_deferred and expires is not None and one.after.next_fire_at > was.occurrence_at + SECOND * expires:
            self._breaks("I7", f"alarm {was.id} waits until {one.after.next_fire_at}, when it has expired")
        late = was.occurrence_at + timedelta(seconds=GRACE)
        if is_deferred and was.policy.catch_up == "skip" and one.after.next_fire_at > late:
            self._breaks("I7", f"alarm {was.id} waits until {one.after.next_fire_at}, when it is to be skipped")


def _is_leased(alarm: Alarm, now: datetime) -> bool:
    return alarm.claimed_at is not None and now - LEASE < alarm.claimed_at <= now + LEASE


def _covering(rows: tuple[Fire, ...] | list[Fire], instant: datetime) -> Fire | None:
    return next((row for row in rows if row.scheduled_for <= instant <= (row.through or row.scheduled_for)), None)


def _hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)
