"""What a fault run writes down: every answer the client got, every wake a receiver saw, every fault, and the rows left.

Each line is one write to a file opened for appending, so that what is in the file was said, whoever died afterwards.
Moments are unix seconds by the machine's own clock, which no fault touches.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

Verb = Literal["create", "edit", "cancel", "pause", "resume", "snooze", "report"]
Known = Literal["ok", "refused", "unknown"]


class Ack(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request of the client, and what it knows of how that went."""

    verb: Verb
    n: int  # the client's own number of the alarm; the message begins with it
    sent: float
    answered: float  # or when it gave up
    known: Known = "ok"
    alarm: str = ""
    message: str = ""
    due: float | None = None  # as the answer says: when it fires next
    target: str = ""
    period: float = 0.0  # of a series
    ends: float = 0.0  # of a series
    in_flight: bool | None = None  # None: the answer does not say
    fire: str = ""  # what was reported on
    key: str = ""
    outcome: str = ""  # what was reported
    lasts: float | None = None  # seconds that were asked for with "working"
    said: str = ""


class Seen(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One wake, as a receiver saw it."""

    at: float
    answered: float
    status: int  # 0: the connection ended before the answer was out
    fire: str
    alarm: str
    attempt: int
    message: str
    scheduled: float
    receiver: str
    process: str  # which of wakeful's processes sent it
    late_ms: int = 0

    @property
    def taken(self) -> bool:
        return 200 <= self.status < 300


class Injection(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault: when, and what it hit: names of processes, "store", "receiver:NAME", or "clock:NAME" of a process.

    A clock that goes wrong excuses lateness; it excuses a duplicate only where it is the one that judges leases.
    """

    kind: str
    store: str
    began: float
    ended: float
    hits: tuple[str, ...]
    since: float = 0.0  # when it was begun to be prepared, where that was earlier: alarms from then on are its own
    skew: float = 0.0  # seconds by which the clock of what it hit was wrong
    forgets_since: float | None = None  # a backup of this moment came back: what was said later is gone by intent
    within: float | None = None  # seconds after its end for what it held up; None: a lease and a tick
    note: str = ""
    error: str = ""  # it could not be done
    too_busy: str = ""  # it took too long, on a machine that had other work


class Stall(Struct, frozen=True):
    """A time in which a process that only wanted to go on could not: the machine was busy, or stood still."""

    at: float
    seconds: float


class AlarmRow(Struct, frozen=True, kw_only=True):
    id: str
    status: str
    next_fire_at: float
    target: str
    message: str
    key: str = ""
    last_error: str = ""


class FireRow(Struct, frozen=True, kw_only=True):
    alarm: str
    scheduled: float
    status: str
    through: float | None = None
    reason: str = ""


class Evidence(Struct, frozen=True, kw_only=True):
    """All there is to judge one round by."""

    store: str
    acks: list[Ack]
    wakes: list[Seen]
    alarms: list[AlarmRow]
    fires: list[FireRow]
    injections: list[Injection]
    lease: float
    tick: float
    slack: float = 1.5  # after a lease and a tick: claiming, connecting, a retry's first wait, what a receiver takes
    read_at: float  # when the rows were read: everything had time to happen by then
    stalls: list[tuple[float, float]] = []  # (when, seconds) the harness or the receivers could not go on
    crowds: list[tuple[float, float]] = []  # (when, programs that wanted each processor), every few seconds


class Notes:
    """A file of lines that survive whoever writes them."""

    def __init__(self, path: Path | str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def add(self, record: Struct) -> None:
        os.write(self._file, msgspec.json.encode(record) + b"\n")

    def close(self) -> None:
        os.close(self._file)


T = TypeVar("T")


def read(path: Path, kind: type[T]) -> list[T]:
    """Every whole line of a file; a last one without its end was never said."""
    data = path.read_bytes() if path.exists() else b""
    return [msgspec.json.decode(line, type=kind) for line in data.split(b"\n")[:-1] if line]


def write_all(path: Path, records: Iterable[Any]) -> None:
    path.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
