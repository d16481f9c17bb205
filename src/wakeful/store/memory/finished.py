"""What of a memory database is finished and may go, and what in it wakeful never wrote."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice

from wakeful.alarm import Alarm, Fire
from wakeful.alarm.model import FINISHED, PENDING
from wakeful.store.inspection import IMPOSSIBLE
from wakeful.store.memory.database import MemoryDatabase


def count_old(database: MemoryDatabase, before: datetime, owner: str) -> dict[str, int]:
    gone = [fire for fire in database.fires.values() if _is_over(database, fire, before, owner)]
    kept = {
        fire.alarm_id
        for fire in database.fires.values()
        if fire.updated_at >= before or fire.status == "waiting" or fire.report_by is not None
    }
    return {
        "alarms": sum(_is_finished(one, before, owner) and one.id not in kept for one in database.alarms.values()),
        "fires": len(gone),
        "events": sum(1 for _ in _old_events(database, before, owner)),
        "tokens": sum(1 for _ in _old_tokens(database, before, owner)),
    }


def purge(database: MemoryDatabase, before: datetime, owner: str, limit: int) -> int:
    fires = [fire for fire in database.fires.values() if _is_over(database, fire, before, owner)]
    fires = sorted(fires, key=lambda fire: fire.updated_at)[:limit]
    for fire in fires:
        database.remove_fire((fire.alarm_id, fire.scheduled_for))
    ended = [one for one in database.alarms.values() if _is_finished(one, before, owner)]
    ended.sort(key=lambda alarm: (alarm.updated_at, alarm.id))
    alarms = list(islice((alarm for alarm in ended if not database.fires_of(alarm.id)), limit))
    for alarm in alarms:
        database.remove_alarm(alarm.id)
    events = list(islice(_old_events(database, before, owner), limit))
    for seq in events:
        del database.events[seq]
    tokens = list(islice(_old_tokens(database, before, owner), limit))
    for id in tokens:
        del database.tokens[id]
    return len(fires) + len(alarms) + len(events) + len(tokens)


def _is_over(database: MemoryDatabase, fire: Fire, before: datetime, owner: str) -> bool:
    """Whether nothing more is expected of a fire, since before a moment."""
    if fire.updated_at >= before or fire.status == "waiting" or fire.report_by is not None:
        return False
    alarm = database.alarms.get(fire.alarm_id)
    is_current = alarm is not None and alarm.status in PENDING and alarm.occurrence_at == fire.scheduled_for
    return not is_current and owner in ("", fire.owner_did)


def _is_finished(alarm: Alarm, before: datetime, owner: str) -> bool:
    return alarm.status in FINISHED and alarm.updated_at < before and owner in ("", alarm.owner_did)


def _old_events(database: MemoryDatabase, before: datetime, owner: str) -> Iterator[int]:
    events = database.events.items()
    return (seq for seq, event in events if event.at < before and owner in ("", event.owner_did))


def _old_tokens(database: MemoryDatabase, before: datetime, owner: str) -> Iterator[str]:
    for token in database.tokens.values():
        ended = token.revoked_at or token.expires_at
        if ended is not None and ended < before and owner in ("", token.owner_did):
            yield token.id


def impossible(database: MemoryDatabase, ahead: datetime) -> dict[str, int]:
    """What wakeful never writes, in the order of IMPOSSIBLE."""
    alarms, fires = database.alarms.values(), database.fires.values()
    pending = [one for one in alarms if one.status in PENDING]
    pairs = [(fire, database.alarms.get(fire.alarm_id)) for fire in fires]
    counts = (
        sum(one.fire_at is None if one.kind == "once" else not one.cron_expr for one in pending),
        sum(not one.owner_did for one in alarms),
        sum(one.version < 1 or min(one.claim, one.unsettled, one.fire_count, one.failure_count) < 0 for one in alarms),
        sum(one.claimed_at is not None and one.claimed_at > ahead for one in alarms),
        sum(alarm is None for _, alarm in pairs),
        sum(alarm is not None and alarm.owner_did != fire.owner_did for fire, alarm in pairs),
        sum(fire.status == "skipped" and fire.count < 1 for fire in fires),
    )
    return dict(zip(IMPOSSIBLE, counts, strict=True))
