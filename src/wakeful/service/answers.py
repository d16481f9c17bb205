"""What the verbs answer with: everything that an interface shows of what was done, so that none asks a second time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Self, TypeVar

from msgspec import Struct

from wakeful.model.alarm import Alarm, Fire
from wakeful.store.filters import Cursor
from wakeful.store.records import Matches

T = TypeVar("T")


class Similar(Struct, frozen=True, kw_only=True):
    """An active alarm of the same owner with the same target, schedule and message."""

    id: str
    label: str
    created_at: datetime
    next_fire_at: datetime

    @classmethod
    def of(cls, alarm: Alarm) -> Self:
        return cls(**{name: getattr(alarm, name) for name in cls.__struct_fields__})

    @property
    def note(self) -> str:
        return f"Alarm {self.id} has the same message and time: cancel one if you meant one."


class Created(Struct, frozen=True):
    """The alarm that was set, or the existing alarm with the same key.

    `in_flight`: it replaced an alarm that a worker or a reader of the inbox is working on right now. `notes`: what its
    owner should know besides, in words. `similar`: another active alarm that says the same.
    """

    alarm: Alarm
    deduped: bool = False
    in_flight: bool = False
    notes: list[str] = []
    similar: Similar | None = None

    @property
    def all_notes(self) -> list[str]:
        """The notes, and in words that there is a similar alarm."""
        return self.notes if self.similar is None else [*self.notes, self.similar.note]


class Changed(Struct, frozen=True):
    """An alarm after a change by its owner.

    `in_flight`: a worker is delivering it right now, so at most that one attempt may still happen unchanged; or one of
    its wakes was taken from the inbox, and its reader may still be working on it. `notes`: what its owner should know
    besides, in words.
    """

    alarm: Alarm
    in_flight: bool = False
    notes: list[str] = []


class ChangedFire(Struct, frozen=True, kw_only=True):
    """A fire after a report or a retry, and its alarm.

    `retry_at`: when it is tried again; None if it is not. `notes`: that it had been completed with another result.
    """

    fire: Fire
    alarm: Alarm
    retry_at: datetime | None = None
    notes: list[str] = []


class Details(Struct, frozen=True):
    """An alarm as it is, and what its owner should know besides, in words."""

    alarm: Alarm
    notes: list[str] = []


class Noted(Matches[T]):
    """What was found. `notes`: what is due and not delivered yet, in words; nothing where all is well."""

    def __init__(self, values: Iterable[T] = (), further: Cursor | None = None, notes: Iterable[str] = ()) -> None:
        super().__init__(values, further)
        self.notes = list(notes)
