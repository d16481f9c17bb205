"""Plan an alarm again after the rules of its time zone changed. Pure: both sets of rules are set elsewhere.

An alarm that was set by the wall clock fires when clocks show that time by the rules in force. An occurrence that was
begun keeps its moment. Its old position is the first occurrence after `updated_at` under the old rules; its new
position is the same under the new rules. Planning again changes nothing more, so it can be interrupted and repeated.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.model.alarm import Alarm, Change, Event
from wakeful.moments import whole_ms
from wakeful.rules.plan import alike, at_occurrence, following
from wakeful.schedule import former_rules, instant, is_interval, rules_changed_at, split_zone, zone

REZONED: Final = "rezoned"  # what its event says
_MS: Final = timedelta(milliseconds=1)
_TICK: Final = timedelta(microseconds=1)


def rezone(alarm: Alarm, *, now: datetime, version: str) -> Change | None:
    """Return the alarm at its moment by the rules in force, or None where it stands there or is being worked on.

    `version`: the edition of the zone data that has these rules.
    """
    now = whole_ms(now)
    if alarm.finished or alarm.claimed_at is not None or alarm.unsettled:
        return None  # in a worker's hands: what follows is planned by the rules in force
    planned = _one_shot(alarm, now) if alarm.kind == "once" else _series(alarm, now)
    if planned is None or planned == alarm:
        return None
    after = replace(planned, claim=alarm.claim + 1, version=alarm.version + 1, updated_at=now)
    name = split_zone(alarm.cron_expr, alarm.timezone)[1] if alarm.kind == "cron" else alarm.timezone
    moments = f"{alarm.next_fire_at.isoformat()} is now {after.next_fire_at.isoformat()}"
    reason = f"{moments}: the rules of {name} have changed" + (", and it has ended by then" if after.finished else "")
    event = Event(
        at=now,
        what=REZONED,
        alarm_id=alarm.id,
        owner_did=alarm.owner_did,
        by=f"time zone data {version}",
        reason=reason,
    )
    return Change(claim=alarm.claim, version=alarm.version, after=after, events=(event,), edited=True)


def _one_shot(alarm: Alarm, now: datetime) -> Alarm | None:
    is_waiting = alarm.occurrence_at == alarm.fire_at and alarm.failure_count == 0  # not snoozed, not tried
    if not alarm.wall_time or not is_waiting:
        return None
    at = instant(datetime.fromisoformat(alarm.wall_time), zone(alarm.timezone))
    if at == alarm.fire_at or max(at, alarm.occurrence_at) <= now:
        return None
    return at_occurrence(replace(alarm, fire_at=at), at)


def _series(alarm: Alarm, now: datetime) -> Alarm | None:
    if is_interval(alarm.cron_expr):
        return None
    planned = _Planned.of(alarm)
    if alarm.failure_count or alarm.occurrence_at <= alarm.updated_at:
        return planned.brought_forward()
    if planned.former != alarm.occurrence_at:
        return planned.postponed()
    if max(planned.current or now, alarm.occurrence_at) <= now:
        return None  # overdue by both: it is the same occurrence, and is delivered as it stands
    return planned.moved_to(planned.current)


class _Planned(Struct, frozen=True):
    """A series, and its first occurrence after what is accounted for: by the former rules and by those in force."""

    alarm: Alarm
    former: datetime | None
    current: datetime | None

    @classmethod
    def of(cls, alarm: Alarm) -> _Planned:
        # Whatever planned it left nothing open up to that moment but the occurrence itself.
        since, changed_at = alarm.updated_at, rules_changed_at()
        asked = alarm
        if alarm.failure_count or alarm.occurrence_at <= since:
            asked = replace(alarm, fire_count=alarm.fire_count + 1)  # the current one may be the last one allowed
        with former_rules():
            former = _after(asked, since)
        current = _after(asked, since)
        # Planned before the change, or after it by a process that did not know of it yet.
        if changed_at is not None and (since < changed_at or former == alarm.occurrence_at != current):
            current = _after(asked, alike(alarm, since))
        return cls(alarm, former, current)

    def moved_to(self, occurrence: datetime | None) -> Alarm:
        if occurrence is None:
            return replace(self.alarm, status="fired")
        if occurrence <= self.alarm.updated_at:
            occurrence = self.alarm.updated_at + _MS  # it is past, and a fire of that moment may be on record
        return at_occurrence(self.alarm, occurrence)

    def brought_forward(self) -> Alarm | None:
        """A retry, or what was put back, that its next occurrence has come before: it is due just before that."""
        if not self._is_overtaken:
            return None
        assert self.current is not None
        return replace(self.alarm, next_fire_at=max(self.current - _MS, self.alarm.updated_at))

    def postponed(self) -> Alarm | None:
        """A snoozed one: at the occurrence it was put off to, or at the next where that comes first now."""
        if self._is_overtaken:
            return self.moved_to(self.current)
        at = self.alarm.occurrence_at
        with former_rules():
            stood = _after(self.alarm, at - _TICK) == at
        if not stood or _after(self.alarm, at - _TICK) == at:
            return None
        return self.moved_to(_after(self.alarm, alike(self.alarm, at) - _TICK))

    @property
    def _is_overtaken(self) -> bool:
        until = self.alarm.next_fire_at
        return self.current is not None and self.current <= until and (self.former is None or self.former > until)


def _after(alarm: Alarm, moment: datetime) -> datetime | None:
    """The first occurrence after a moment, whatever occurrence the alarm stands at."""
    return following(replace(alarm, occurrence_at=datetime.max.replace(tzinfo=moment.tzinfo)), moment)
