"""Find the fire for a report that names only the alarm, as reports of the Alarm system do."""

from __future__ import annotations

from typing import Final

from wakeful.alarm import Alarm, Fire
from wakeful.errors import Conflict, NotFound
from wakeful.store import FireQuery, Store

MOST: Final = 500
NAMED: Final = 10  # in an error
_OPEN: Final = ("delivered", "waiting", "retrying")


async def reported_on(store: Store, alarm_id: str, *, owner: str) -> str:
    """The id of the one fire of an alarm that awaits its report; of an alarm that fired once, that one fire."""
    alarm = await store.get(alarm_id, owner=owner)
    if alarm is None:
        raise NotFound(
            f"there is no alarm or fire {alarm_id!r}",
            field="fire_id",
            fix="Give the fire_id of the wake, or the alarm_id.",
        )
    found = await store.fires(FireQuery(alarm_id=alarm.id, statuses=_OPEN, limit=MOST))
    awaited = _awaited(alarm, found) or await _only(store, alarm)
    if len(awaited) == 1:
        return awaited[0]
    if not awaited:
        raise NotFound(
            f"no fire of alarm {alarm_id} is waiting for a report",
            field="fire_id",
            fix="Give the fire_id of the wake you mean.",
        )
    named = ", ".join(awaited[:NAMED]) + (f" and {len(awaited) - NAMED} more" if len(awaited) > NAMED else "")
    raise Conflict(
        f"{len(awaited)} fires of alarm {alarm_id} are waiting for a report: {named}",
        field="fire_id",
        fix="Give one of these.",
    )


def _awaited(alarm: Alarm, fires: list[Fire]) -> list[str]:
    """Ids, the latest first: what is being delivered just now, and what was and has no end yet."""
    ids = [fire.id for fire in fires if fire.report_by is not None or fire.status != "delivered"]
    under_way = alarm.claimed_at is not None and alarm.fire_id not in ids
    return [alarm.fire_id, *ids] if under_way else ids


async def _only(store: Store, alarm: Alarm) -> list[str]:
    """The fire of an alarm that has just one: said again, or said late, a report is still about that."""
    fires = await store.fires(FireQuery(alarm_id=alarm.id, limit=2))
    return [fire.id for fire in fires] if len(fires) == 1 else []
