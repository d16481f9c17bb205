"""The functions of the Alarm system under their own names, with what they return: a thin layer over wakeful's verbs.

Ids are texts, and what Alarm answers as `{:error, reason}` is an exception; docs/seeds/alarm.md lists each.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from datetime import datetime
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Any, Final, Self, TypeVar, Unpack

import msgspec

from wakeful.clock import Clock
from wakeful.errors import InvalidRequest, NotFound
from wakeful.model.alarm import PENDING, Fire
from wakeful.model.alarm import Alarm as AlarmRow
from wakeful.model.keywords import OpenKeywords
from wakeful.process.application import open_sync
from wakeful.python.sync import SyncWakeful
from wakeful.rules.create import MESSAGE_LIMIT
from wakeful.service import HistoryEntry
from wakeful.service.history import HistoryStatus
from wakeful.targets.handler import HandlerFunction

F = TypeVar("F", bound=HandlerFunction)

_NO_CEILING: Final = 36_500 * 86_400.0  # seconds: Alarm doubles without end
_MODULE: Final = "Elixir."  # what marks a module in the name of a process
_WORDS: Final = ("message", "title", "body")  # where a message keeps its text
_STATS: Final = ("total", "pending", "fired", "completed", "failed", "cancelled", "timeout_unknown", "avg_duration_ms")


class Alarm:
    """Alarm's functions on one database, which is open and fires by itself until `close`.

    >>> with Alarm.start_link("alarm.db") as alarm:
    ...     id = alarm.set_timer("in 30 minutes", "Pushover", {"title": "Reminder"})

    For programs without `async`: in others, use the verbs of `wakeful.open`.
    """

    def __init__(self, alarms: SyncWakeful) -> None:
        self.alarms = alarms

    @classmethod
    def start_link(
        cls,
        db_path: str | os.PathLike[str] = "alarm.db",
        *,
        background: bool = True,
        clock: Clock | None = None,
        **settings: Unpack[OpenKeywords],
    ) -> Self:
        """Open the database, and fire what becomes due as long as it is open, unless `background` is False."""
        opened = open_sync(db_path, background=background, clock=clock, **settings)
        opened.__enter__()
        return cls(opened)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.alarms.close()

    def process(self, name: str) -> Callable[[F], F]:
        """Register a plain function under the name of a process: it takes a wake, and reports with its `alarm_id`."""

        def register(function: F) -> F:
            if iscoroutinefunction(function):
                raise InvalidRequest(
                    f"{name!r} is an async function, and Alarm's functions wait for their answer",
                    field="process",
                    fix="Give a plain function, or use wakeful.open and its verbs.",
                )
            return self.alarms.handler(_target(name), reports=True)(function)

        return register

    def set_timer(
        self,
        set_at: float | str,
        process: str,
        message: Any,
        *,
        created_by: str = "",
        created_via: str = "",
        max_retries: int = 0,
        backoff_ms: float = 5000,
    ) -> str:
        """Set an alarm with unix seconds or a phrase; return its id. `message` is anything that JSON can hold."""
        made = self.alarms.set(
            set_at,
            _said(message),
            target=_target(process),
            payload=message,
            max_failures=max_retries,
            policy={
                "backoff_base": backoff_ms / 1000,
                "backoff_cap": _NO_CEILING,
                "exact_backoff": True,
                "on_silence": "give_up",
            },
            created_by=created_by,
            created_via=created_via,
        )
        return made.id

    def cancel(self, id: str) -> str:
        """Cancel a pending alarm; NotFound if there is none of this id, or it does not wait."""
        found = self.alarms.get(id)
        if found.status not in PENDING or self.alarms.cancel(found.id).alarm.status != "cancelled":
            raise NotFound(f"there is no pending alarm {id!r}", field="id")
        return "cancelled"

    def reset(self) -> None:
        """Cancel every pending alarm."""
        self.alarms.reset()

    def list_ids(self) -> list[list[Any]]:
        """Return `[id, set_at, time_offset]` of each pending alarm, soonest first, in whole seconds."""
        return [[one.id, _unix(one.due), math.ceil(one.offset.total_seconds())] for one in self.alarms.pending()]

    def get(self, id: str) -> dict[str, Any]:
        """Return an alarm under the names of Alarm's columns."""
        alarm = self.alarms.get(id)
        return _columns(alarm, next(iter(self.alarms.fires(alarm.id, limit=1)), None))

    def history(
        self, *, status: HistoryStatus | None = None, process: str = "", since: float | None = None, limit: int = 50
    ) -> list[dict[str, Any]]:
        """Return alarms, newest first, each as `get` does."""
        target = _target(process) if process else ""
        return self._shown(self.alarms.history(status=status or "", target=target, since=since, limit=limit))

    def failed(self, *, limit: int = 20) -> list[dict[str, Any]]:
        """Return the latest alarms that failed or fell silent, newest first."""
        return self._shown(self.alarms.failed(limit=limit))

    def stats(self) -> dict[str, int | None]:
        """Return Alarm's eight counts."""
        counts = self.alarms.stats()
        return {name: getattr(counts, name) for name in _STATS}

    def completed(self, id: str, result: str) -> None:
        """Report success. The first result stays: another one is not kept, and a warning is logged."""
        self.alarms.completed(id, result)

    def delivery_failed(self, id: str, reason: str) -> None:
        """Report a failure; it is retried if retries are left."""
        self.alarms.delivery_failed(id, reason)

    def parse_timestamp(self, chronic_str: str, tz: str | None = None) -> int:
        """Return a phrase as unix seconds; InvalidSchedule where it is not understood, or names no single moment."""
        found = self.alarms.parse(chronic_str, timezone=tz or "")
        if found.fire_at is None:
            raise InvalidRequest(f"{chronic_str!r} is more than one moment", field="chronic_str", fix="Name one.")
        return _unix(found.fire_at)

    def _shown(self, entries: list[HistoryEntry]) -> list[dict[str, Any]]:
        return [self.get(id) for id in dict.fromkeys(entry.alarm_id for entry in entries)]


def _target(process: str) -> str:
    return process.removeprefix(_MODULE)


def _unix(moment: datetime) -> int:
    return math.ceil(moment.timestamp())


def _said(message: Any) -> str:
    """What a wake says: the first text in the message, by one of the usual names; else all of it as JSON."""
    said = next(_texts(message), "") or msgspec.json.encode(message).decode()
    return said.encode()[:MESSAGE_LIMIT].decode(errors="ignore")


def _texts(message: Any) -> Iterator[str]:
    if isinstance(message, str) and message.strip():
        yield message.strip()
    elif isinstance(message, dict):
        yield from (found for name in _WORDS if name in message for found in _texts(message[name]))
        yield from (found for one in message.values() if not isinstance(one, str) for found in _texts(one))
    elif isinstance(message, list | tuple):  # ("send", {…}): the first word says what to do with the rest
        yield from (found for one in message if not isinstance(one, str) for found in _texts(one))


def _columns(alarm: AlarmRow, fire: Fire | None) -> dict[str, Any]:
    started, completed = (fire.started_at, fire.completed_at) if fire else (None, None)
    return {
        "id": alarm.id,
        "updated_at": _unix(alarm.updated_at),
        "set_at": _unix(alarm.occurrence_at),
        "process": alarm.target,
        "message": alarm.payload_json,
        "started_at": _unix(started) if started else None,
        "reply": None,
        "cancelled_at": _unix(alarm.cancelled_at) if alarm.cancelled_at else None,
        "completed_at": _unix(completed) if completed and fire and fire.status == "completed" else None,
        "duration_ms": fire.duration_ms if fire else None,
        "result": (fire.result or None) if fire else None,
        "created_by": alarm.created_by,
        "created_via": alarm.created_via,
        "max_retries": alarm.max_failures,
        "attempts": fire.failures if fire else 0,
        "backoff_ms": round(alarm.policy.backoff_base * 1000),
    }
