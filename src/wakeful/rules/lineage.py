"""Where an alarm comes from, and the end of a series that was set with the token of a wake. Pure.

Such a series ends by itself, unless a report on one of its wakes renews it: nobody has to find it and stop it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec.structs import replace

from wakeful.errors import Conflict
from wakeful.model.alarm import TASKS, Alarm, Change, Event
from wakeful.moments import whole_ms
from wakeful.rules.plan import at_occurrence, following

Author = Literal["owner", "agent", "import", "template", "task"]
ENDING: Final = "ending"  # what the event of a series says that ends soon unless it is renewed
RENEWED: Final = "renewed"
CHAIN_CANCELLED: Final = "chain_cancelled"  # names the alarm that the chain began with, also where that is gone
LONGEST_NOTICE: Final = timedelta(days=7)
NOTICE: Final = 0.1  # of the length of a renewal, where that is less
_AUTHORS: Final[Mapping[str, Author]] = {
    "mcp": "agent",
    "alarm": "import",
    "chronos": "import",
    "crontab": "import",
    "ics": "import",
    "import": "import",
    "template": "template",
    TASKS: "task",
}


def author_of(alarm: Alarm) -> Author:
    """Return who wrote the words of an alarm: whatever is set out of a wake, an agent wrote."""
    if alarm.parent_fire or alarm.generation > 0:
        return "agent"
    return _AUTHORS.get(alarm.created_via, "owner")


def cancelled_chain(alarm: Alarm, root_id: str, *, now: datetime, by: str = "") -> Change:
    """Put on record that a chain is cancelled from now on, beside an alarm of it, which stays as it is."""
    at = whole_ms(now)
    event = Event(at=at, what=CHAIN_CANCELLED, alarm_id=root_id, owner_did=alarm.owner_did, by=by)
    return Change(claim=alarm.claim, version=alarm.version, after=alarm, events=(event,))


def with_end(alarm: Alarm, lasts: timedelta, *, now: datetime) -> Alarm:
    """Return a series with an end, and with at least its first fire; an earlier end that its caller named stays."""
    if alarm.kind == "once":
        return alarm
    policy, end = alarm.policy, max(whole_ms(now + lasts), alarm.occurrence_at)
    if policy.ends_at is not None and policy.ends_at <= end:
        return alarm
    return replace(alarm, policy=replace(policy, ends_at=end, renew_for=lasts.total_seconds()))


def renewed(alarm: Alarm, *, now: datetime) -> Alarm:
    """Return the series with its end as far from now as when it was set. One that has just ended goes on.

    At least one more fire fits in, however rare they are.
    """
    policy = alarm.policy
    if policy.renew_for is None or policy.ends_at is None:
        raise _not_renewable(alarm, "has no end that a report can renew")
    if alarm.status in ("cancelled", "failed"):
        raise _not_renewable(alarm, f"is {alarm.status}")
    past = max(now, alarm.next_fire_at)
    upcoming = following(replace(alarm, policy=replace(policy, ends_at=None)), past)
    if upcoming is None:
        raise _not_renewable(alarm, "has no further fire, whatever its end is")
    end = max(policy.ends_at, whole_ms(now + timedelta(seconds=policy.renew_for)), upcoming)
    after = replace(alarm, policy=replace(policy, ends_at=end))
    return at_occurrence(replace(after, status="active"), upcoming) if alarm.status == "fired" else after


def _not_renewable(alarm: Alarm, why: str) -> Conflict:
    return Conflict(f"alarm {alarm.id} {why}", field="renew", fix="Report without renew.")


def is_ending(alarm: Alarm) -> bool:
    """Return whether the current occurrence is one of the last before an end that a report can renew."""
    policy = alarm.policy
    if policy.renew_for is None or policy.ends_at is None:
        return False
    endless = replace(alarm, policy=replace(policy, ends_at=None), fire_count=alarm.fire_count + 1)
    upcoming = following(endless, alarm.occurrence_at)
    if upcoming is None:  # its schedule or its `max_fires` ends it, and no report can move that
        return False
    notice = min(LONGEST_NOTICE, NOTICE * timedelta(seconds=policy.renew_for))
    if policy.ends_at - alarm.occurrence_at <= notice:
        return True
    then = following(endless, upcoming)
    return upcoming > policy.ends_at or (then is not None and then > policy.ends_at)


def announced(before: Alarm, after: Alarm) -> tuple[Event, ...]:
    """Return what is said once, when a series comes to the first of its last fires."""
    if before.policy.renew_for is None or after.status != "active" or not is_ending(after) or is_ending(before):
        return ()
    return (lineage_event(after, ENDING, f"at {_end(after)}, unless a report with renew comes before"),)


def renewal(alarm: Alarm, *, now: datetime, by: str) -> Event:
    return replace(lineage_event(alarm, RENEWED, f"until {_end(alarm)}"), at=now, by=by)


def end_note(alarm: Alarm) -> str:
    """Tell when a series ends that a report can renew; nothing of any other."""
    if alarm.kind == "once" or alarm.policy.renew_for is None or alarm.policy.ends_at is None:
        return ""
    days = f"{alarm.policy.renew_for / 86_400:g}"
    return (
        f"It ends at {_end(alarm)}, since it was set with the token of a wake. "
        f"A report on one of its wakes with renew: true keeps it going for {days} days from that report."
    )


def lineage_event(alarm: Alarm, what: str, reason: str) -> Event:
    return Event(at=alarm.updated_at, what=what, alarm_id=alarm.id, owner_did=alarm.owner_did, reason=reason)


def _end(alarm: Alarm) -> str:
    assert alarm.policy.ends_at is not None
    return alarm.policy.ends_at.isoformat(timespec="seconds").replace("+00:00", "Z")
