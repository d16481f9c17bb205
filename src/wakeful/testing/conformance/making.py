"""Alarms, fires and changes in one line, for the tests beside this."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final, Protocol

from msgspec.structs import replace

from wakeful.clock import Clock
from wakeful.model.alarm import Alarm, Change, Event, Fire, Row, SeenValue
from wakeful.moments import whole_ms
from wakeful.store import Store

LEASE: Final = timedelta(minutes=2)
DESK: Final = "desk"  # the target of most alarms here
SECOND: Final = timedelta(seconds=1)
MS: Final = timedelta(milliseconds=1)
_numbers: Final = itertools.count(1)


class Outbox(Protocol):
    """A table of another program in the store's database: fire_id (text, unique) and body (text)."""

    table: str

    async def rows(self) -> list[tuple[str, str]]: ...

    async def run(self, sql: str) -> None:
        """That program's own SQL: it also has tables of tasks."""
        ...


def new_id() -> str:
    """A UUIDv7 that is later than the ones before it."""
    number = next(_numbers)
    return f"01900000-0000-7000-8000-{number:012x}"


def an_alarm(clock: Clock, *, due: float = 0, **given: Any) -> Alarm:
    """A one-shot alarm due so many seconds from now."""
    now = whole_ms(clock.now())
    at = now + timedelta(seconds=due)
    owner = given.get("owner_did", "ada")
    fields = {
        "id": new_id(),
        "owner_did": owner,
        "user_id": owner,
        "wake_message": "wake up",
        "target": DESK,
        "fire_at": at,
        "next_fire_at": at,
        "occurrence_at": at,
        "created_at": now,
        "updated_at": now,
    }
    return Alarm(**(fields | given))


def a_fire(alarm: Alarm, **given: Any) -> Fire:
    fields: dict[str, Any] = {
        "alarm_id": alarm.id,
        "scheduled_for": alarm.occurrence_at,
        "owner_did": alarm.owner_did,
        "target": alarm.target,
        "status": "delivered",
        "updated_at": alarm.updated_at,
    }
    return Fire(**(fields | given))


def an_event(alarm: Alarm, what: str = "cancelled", **given: Any) -> Event:
    fields: dict[str, Any] = {"at": alarm.updated_at, "what": what, "alarm_id": alarm.id, "owner_did": alarm.owner_did}
    return Event(**(fields | given))


def change(
    alarm: Alarm,
    *fires: Fire,
    events: Sequence[Event] = (),
    row: Row | None = None,
    edited: bool = False,
    cost: float = 0.0,
    seen: SeenValue | None = None,
    **after: Any,
) -> Change:
    """A change to the alarm as it was read."""
    return Change(
        claim=alarm.claim,
        version=alarm.version,
        after=replace(alarm, **after),
        fires=fires,
        events=tuple(events),
        row=row,
        edited=edited,
        cost=cost,
        seen=seen,
    )


def done(alarm: Alarm, *fires: Fire, **given: Any) -> Change:
    """The settlement of a one-shot that was delivered."""
    after = {"status": "fired", "claimed_at": None, "unsettled": 0} | given
    return change(alarm, *(fires or (a_fire(alarm),)), **after)


async def added(store: Store, *alarms: Alarm) -> None:
    await store.add(alarms)


async def claimed(
    store: Store, slots: int = 100, *, target: str = DESK, lease: timedelta = LEASE, suspects: bool = True
) -> list[Alarm]:
    return (await store.claim({target: slots}, lease=lease, suspects=suspects)).alarms


async def one_claimed(store: Store) -> Alarm:
    [alarm] = await claimed(store)
    return alarm


async def settled(store: Store, *changes: Change) -> list[str]:
    return [answer.what for answer in await store.settle(changes)]


async def stored(store: Store, alarm: Alarm) -> Alarm:
    found = await store.get(alarm.id)
    assert found is not None
    return found
