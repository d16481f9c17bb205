"""One alarm and its fires as a store would keep them, small enough to read: what the tests of the decisions act on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from tests.acting import Draft, edit
from wakeful.model.alarm import Alarm, Change, Event, Fire, Policy
from wakeful.model.outcome import Completed, Delivered, Failed, Outcome, Report, Try
from wakeful.rules.edit import cancel, pause, resume, skip_next, snooze, update
from wakeful.rules.report import fetch, report, retry, sweep
from wakeful.rules.settle import begin, note, settle, settle_at_length
from wakeful.rules.suspect import ALONE, is_alone, put_on_trial

MONDAY = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
LEASE = 2 * MINUTE
DONE, ARRIVED, BROKEN = Completed("ok"), Delivered("HTTP 200"), Failed("HTTP 503")
AWAITED = Delivered("HTTP 202", awaits_report=True)


def at(hour: int, minute: int = 0, second: int = 0) -> datetime:
    """That hour of Monday; 24 and more are the days after."""
    return MONDAY.replace(hour=0) + timedelta(hours=hour, minutes=minute, seconds=second)


def alarm(*, now: datetime = MONDAY, **asked: Any) -> Alarm:
    usual = {"owner_did": "ada", "wake_message": "Look at the grants", "target": "ops"}
    return Draft(**(usual | asked)).alarm(id="a1", now=now)


class World:
    """An alarm, its fires and its events. Writes are refused as a store refuses them: by claim and version."""

    def __init__(self, alarm: Alarm) -> None:
        self.alarm = alarm
        self.fires: dict[datetime, Fire] = {}
        self.events: list[Event] = []

    @property
    def fire(self) -> Fire | None:
        """What is on record of the occurrence being worked on."""
        return self.fires.get(self.alarm.occurrence_at)

    @property
    def rows(self) -> list[tuple[datetime, str, str]]:
        return [(fire.scheduled_for, fire.status, fire.reason) for _, fire in sorted(self.fires.items())]

    def write(self, change: Change | None) -> bool:
        if change is None or (change.claim, change.version) != (self.alarm.claim, self.alarm.version):
            return False
        self.alarm = change.after
        self.fires |= {fire.scheduled_for: fire for fire in change.fires}
        self.events += change.events
        return True

    def claim(self, now: datetime) -> Alarm:
        assert self.alarm.status == "active"
        assert self.alarm.next_fire_at <= now, "claimed early"
        unsettled = min(self.alarm.unsettled + 1, max(self.alarm.unsettled, ALONE))
        self.alarm = replace(self.alarm, claimed_at=now, claim=self.alarm.claim + 1, unsettled=unsettled)
        return self.alarm

    def dies(self, now: datetime) -> None:
        """A worker that claims it, begins to deliver it, and is gone."""
        self.claim(now)
        if is_alone(self.alarm):
            assert self.write(put_on_trial(self.alarm))

    def attempt(self, outcome: Outcome, now: datetime | None = None, *, took: timedelta = SECOND) -> bool:
        """Claim, deliver, settle; whether it was delivered at all. Without a moment: just when it is due."""
        now = now or self.alarm.next_fire_at
        self.claim(now)
        instead = begin(self.alarm, self.fire if self.alarm.may_have_fire else None, now=now)
        if instead is not None:
            assert self.write(instead)
            return False
        self.settle(outcome, now, now + took)
        return True

    def settle(self, outcome: Outcome, started: datetime, ended: datetime) -> None:
        change = settle(self.alarm, self.fire, outcome, Try(started, ended))
        at_length = settle_at_length(self.alarm, self.fire, outcome, Try(started, ended))
        assert replace(change, at_once=False) == at_length, "the short way decides as the long one"
        assert self.write(change)

    def note(self, held: Alarm, outcome: Outcome, started: datetime, ended: datetime) -> None:
        """A worker comes back with an alarm that is no longer its own."""
        known = self.fires.get(held.occurrence_at)
        assert self.write(note(self.alarm, known, held.occurrence_at, outcome, Try(started, ended)))

    def report(self, occurrence: datetime, said: Report, now: datetime) -> bool:
        return self.write(report(self.alarm, self.fires.get(occurrence), occurrence, said, now=now))

    def sweep(self, occurrence: datetime, now: datetime) -> None:
        assert self.write(sweep(self.alarm, self.fires[occurrence], now=now))

    def fetch(self, occurrence: datetime, now: datetime) -> None:
        assert self.write(fetch(self.alarm, self.fires[occurrence], now=now))

    def retry(self, occurrence: datetime, now: datetime) -> None:
        assert self.write(retry(self.alarm, self.fires[occurrence], now=now, by="ada"))

    def cancel(self, now: datetime) -> bool:
        return self.write(cancel(self.alarm, self.fire, now=now, by="ada", inbox=tuple(self.fires.values())))

    def pause(self, now: datetime) -> bool:
        return self.write(pause(self.alarm, now=now, by="ada", reason="holiday"))

    def resume(self, now: datetime) -> bool:
        return self.write(resume(self.alarm, self.fire, now=now, by="ada"))

    def snooze(self, wait: timedelta, now: datetime) -> None:
        assert self.write(snooze(self.alarm, self.fire, wait, now=now, by="ada"))

    def skip(self, now: datetime, *, at: datetime | None = None) -> None:
        assert self.write(skip_next(self.alarm, self.fire, now=now, lease=LEASE, at=at, by="ada"))

    def update(self, now: datetime, *, version: int | None = None, **fields: Any) -> None:
        wanted, inbox = edit(**fields), tuple(self.fires.values())
        assert self.write(update(self.alarm, self.fire, wanted, now=now, version=version, by="ada", inbox=inbox))


def once(**asked: Any) -> World:
    return World(alarm(**({"fire_at": at(9)} | asked)))


def hourly(*, policy: Policy | None = None, **asked: Any) -> World:
    """Every full hour, first at nine."""
    usual: dict[str, Any] = {"cron_expr": "0 * * * *", "policy": policy or Policy()}
    return World(alarm(**(usual | asked)))


def fired() -> World:
    world = once()
    world.attempt(DONE)
    return world


def failed() -> World:
    world = once(max_failures=0)
    world.attempt(BROKEN)
    return world


def cancelled() -> World:
    world = once()
    world.cancel(MONDAY)
    return world


def paused() -> World:
    world = once()
    world.pause(MONDAY)
    return world


FINISHED = [fired, failed, cancelled]
