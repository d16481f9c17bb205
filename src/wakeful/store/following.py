"""What is new in a store, reduced to what live events need."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from wakeful.alarm import Event, fire_id


class NewAlarm(Struct, frozen=True, kw_only=True):
    """As much of a new alarm as those who follow along are told: what it says may be long, and stays where it is."""

    id: str
    owner_did: str
    target: str
    status: str
    created_at: datetime


class MovedFire(Struct, frozen=True, kw_only=True):
    """The same of a fire that changed. `reason`: its own, or what its last error begins with."""

    alarm_id: str
    scheduled_for: datetime
    owner_did: str
    target: str
    status: str
    reason: str
    attempts: int
    delivered_at: datetime | None
    count: int
    updated_at: datetime

    @property
    def id(self) -> str:
        return fire_id(self.alarm_id, self.scheduled_for)


class Followed(Struct, frozen=True):
    """What is new since a moment, each list oldest first. `last_event`: the latest number there is, whoever's."""

    alarms: list[NewAlarm]
    fires: list[MovedFire]
    events: list[tuple[int, Event]]
    last_event: int
