"""What a store keeps beside alarms, fires and events. Field names and order are the columns of their tables."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct


class Worker(Struct, frozen=True, kw_only=True):
    """A process that dispatches, what it serves, and when it was last seen."""

    id: str
    host: str
    pid: int
    version: str
    started_at: datetime
    seen_at: datetime
    stopped_at: datetime | None = None
    targets: tuple[str, ...] = ()
    handlers: tuple[str, ...] = ()


class TargetState(Struct, frozen=True, kw_only=True):
    """What is known of a target across processes: paused by whom, and whether its breaker is open."""

    target: str
    paused_at: datetime | None = None
    paused_by: str = ""
    paused_reason: str = ""
    breaker_opened_at: datetime | None = None
    last_error: str = ""
    updated_at: datetime


class Token(Struct, frozen=True, kw_only=True):
    """Who may speak for an owner, and for how long. The secret itself is nowhere: `hash` is its SHA-256."""

    id: str
    owner_did: str
    hash: bytes
    scopes: tuple[str, ...] = ("read", "write")
    label: str = ""
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None
    made_by: str = ""  # the id of the token with which it was made; empty where that was done at the database

    def is_live(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class FirstTry(Struct, frozen=True):
    """What is written of a first attempt that arrived (alarm/first_try.py): all that does not follow from its alarm.

    The moments after `status` are of a series: a one-shot stays at its own. `ms`: from the start to the end, which is
    before it where a clock was set back.
    """

    id: str
    held_claim: int
    held_version: int
    status: str
    next_fire_at: datetime | None
    occurrence_at: datetime | None
    scheduled_for: datetime | None
    started_at: datetime
    ms: int
    completed: bool
    result: str
    log: tuple[object, ...]
