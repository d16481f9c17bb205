"""What a memory database holds, and its indexes. Values only: whoever opens a store on it brings the clock.

Alarms, fires and events are the immutable structs themselves. Everything is in a stable order (dicts keep theirs, the
rest are sorted lists), so that a run that is repeated from the same seed finds the same rows in the same order.
"""

from __future__ import annotations

import asyncio
import math
import os
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from functools import cache
from operator import attrgetter
from typing import Any, Final, TypeVar

import apsw
from msgspec import Struct
from msgspec.structs import replace

from wakeful.clock import stopwatch
from wakeful.model.alarm import ALARM_STATUSES, FIRE_STATUSES, FORMER, Alarm, Event, Fire, Row
from wakeful.model.owner_settings import OwnerSettings
from wakeful.moments import whole_ms
from wakeful.rules.budget import BudgetCount, Key
from wakeful.schedule.zone_rules import ZoneRules
from wakeful.store import TargetState, Token, Worker
from wakeful.store.access import AuthState, ReportKeys
from wakeful.store.batching import StoreRefused
from wakeful.store.columns import Kind, columns
from wakeful.store.maintenance import Edition
from wakeful.store.queries import Naming, migrations
from wakeful.store.records import too_slow
from wakeful.store.rows import policy_text
from wakeful.store.sqlite import writes
from wakeful.store.sqlite.file import describe

T = TypeVar("T")
S = TypeVar("S", bound=Struct)
_PLACE: Final = "memory"
_OURS: Final = "0002-tasks"  # the step that makes the tables which tell what was changed in a table of tasks
_STEPS: Final = 2000  # of SQLite's machine, between two checks of the time


class OtherTables:
    """Tables of other programs beside a memory database: those that table targets write to, of tasks, and for checks.

    They are SQL, so they are kept by SQLite, in memory too. Nothing is opened before a table is asked for.
    """

    def __init__(self) -> None:
        self._db: apsw.Connection | None = None
        self._ends = math.inf

    @property
    def db(self) -> apsw.Connection:
        if self._db is None:
            self._db = apsw.Connection(":memory:")
            self._db.set_progress_handler(lambda: stopwatch() > self._ends, _STEPS)
            self._db.execute(_task_tables())
        return self._db

    def run(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The other program's own SQL."""
        return self.db.execute(sql, values).fetchall()

    def put_row(self, row: Row, stamp: str) -> None:
        """Write what a table target delivers; RowRefused where its table does not take it."""
        with self.db:
            writes.put_row(self.db, row, stamp)

    def write(self, work: Callable[[apsw.Connection], T], *, alone: bool = False) -> T:
        """Do it as a whole, or not; `alone`: outside a transaction, it makes its own."""
        try:
            with nullcontext() if alone else self.db:
                done = work(self.db)
        except Exception as error:
            raise describe(error, _PLACE) from error
        return done

    def read(self, work: Callable[[apsw.Connection], T], *, within: float = math.inf) -> T:
        self._ends = stopwatch() + within
        try:
            return work(self.db)
        except apsw.InterruptError:
            raise too_slow(within) from None
        except Exception as error:
            raise describe(error, _PLACE) from error
        finally:
            self._ends = math.inf


@cache
def _task_tables() -> str:
    [step] = [step for step in migrations("sqlite", Naming()) if step.name == _OURS]
    return step.sql


FireKey = tuple[str, datetime]  # alarm_id, scheduled_for
_KINDS: Final = ("once", "cron")


class KeptEdition(Struct):
    """An edition of the zone data. What it says is packed when somebody asks: that takes long."""

    edition: Edition
    rules: ZoneRules | None = None
    data: bytes = b""

    def packed(self) -> bytes:
        if self.rules is not None:
            self.data, self.rules = self.rules.packed(), None
        return self.data


class MemoryDatabase:
    """The data. Any number of stores may be open on it at a time; it is still there when they are closed or killed.

    All of them are used in one event loop. `random_bytes` makes the keys of report tokens.
    """

    def __init__(self, *, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self.random_bytes = random_bytes
        self.listeners: list[asyncio.Event] = []  # the hints of the stores that are open
        self.alarms: dict[str, Alarm] = {}
        self.ids: list[str] = []  # sorted
        self.ids_of: dict[str, list[tuple[datetime, str]]] = {}  # an owner's, by created_at and id
        self.keyed: dict[tuple[str, str], str] = {}
        self.due: dict[str, list[tuple[datetime, int, str]]] = {}  # a target's active alarms by next_fire_at
        self.fires: dict[FireKey, Fire] = {}
        self.moments_of: dict[str, list[datetime]] = {}  # of an alarm's fires, sorted
        self.fire_order: dict[str, list[tuple[datetime, str]]] = {"": []}  # an owner's fires; of all: ""
        self.reportable: dict[FireKey, None] = {}  # fires with a `report_by`
        self.waiting: dict[FireKey, None] = {}
        self.events: dict[int, Event] = {}
        self.workers: dict[str, Worker] = {}
        self.target_states: dict[str, TargetState] = {}
        self.tokens: dict[str, Token] = {}
        self.auth_state: AuthState = "new"
        self.report_keys: ReportKeys | None = None
        self.budget: dict[Key, BudgetCount] = {}
        self.seen: dict[tuple[str, str], str] = {}
        self.editions: dict[str, KeptEdition] = {}
        self.owner_settings: dict[str, OwnerSettings] = {}
        self.other_tables = OtherTables()
        self._added = 0
        self._last_event = 0
        self._numbers: dict[str, int] = {}  # alarms that are due at the same moment go in the order they were added in

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Take back what is written inside if that fails. It copies the indexes: hot paths check before they write."""
        before = {name: _copied(value) for name, value in vars(self).items()}
        try:
            yield
        except BaseException:
            vars(self).update(before)
            raise

    def put_alarm(self, alarm: Alarm) -> None:
        before = self.alarms.get(alarm.id)
        self.alarms[alarm.id] = alarm
        if before is None:
            self._added += 1
            self._numbers[alarm.id] = self._added
            insort(self.ids, alarm.id)
            insort(self.ids_of.setdefault(alarm.owner_did, []), (alarm.created_at, alarm.id))
            if alarm.idempotency_key:
                self.keyed[alarm.owner_did, alarm.idempotency_key] = alarm.id
        else:
            if _place(before) == _place(alarm):
                return
            self._take_out_of_line(before)
        if alarm.status == "active":
            line = self.due.setdefault(alarm.target, [])
            insort(line, (alarm.next_fire_at, self._numbers[alarm.id], alarm.id))

    def with_key(self, owner: str, key: str) -> Alarm | None:
        id = self.keyed.get((owner, key)) if key else None
        return None if id is None else self.alarms[id]

    def ids_behind(self, after: str) -> list[str]:
        return self.ids[bisect_right(self.ids, after) :]

    def remove_alarm(self, id: str) -> None:
        alarm = self.alarms.pop(id)
        self._take_out_of_line(alarm)
        _discard(self.ids, id)
        _discard(self.ids_of[alarm.owner_did], (alarm.created_at, id))
        if alarm.idempotency_key:
            del self.keyed[alarm.owner_did, alarm.idempotency_key]
        del self._numbers[id]

    def _take_out_of_line(self, alarm: Alarm) -> None:
        if alarm.status == "active":
            _discard(self.due[alarm.target], (alarm.next_fire_at, self._numbers[alarm.id], alarm.id))

    def put_fire(self, fire: Fire) -> None:
        key = (fire.alarm_id, fire.scheduled_for)
        before = self.fires.get(key)
        if before is not None and before.owner_did != fire.owner_did:
            self.remove_fire(key)
            before = None
        if before is None:
            insort(self.moments_of.setdefault(fire.alarm_id, []), fire.scheduled_for)
            for owner in dict.fromkeys(("", fire.owner_did)):
                insort(self.fire_order.setdefault(owner, []), (fire.scheduled_for, fire.alarm_id))
        self.fires[key] = fire
        _mark(self.reportable, key, fire.report_by is not None)
        _mark(self.waiting, key, fire.status == "waiting")

    def remove_fire(self, key: FireKey) -> None:
        id, at = key
        fire = self.fires.pop(key)
        _discard(self.moments_of[id], at)
        for owner in dict.fromkeys(("", fire.owner_did)):
            _discard(self.fire_order[owner], (at, id))
        self.reportable.pop(key, None)
        self.waiting.pop(key, None)

    def fires_of(self, id: str) -> list[datetime]:
        return self.moments_of.get(id, [])

    def add_event(self, event: Event) -> None:
        self._last_event += 1
        self.events[self._last_event] = event

    def forget_former(self, alarm_id: str) -> None:
        """All but the newest event that says what an alarm was before a change."""
        former = [seq for seq, event in self.events.items() if event.what == FORMER and event.alarm_id == alarm_id]
        for seq in former[:-1]:
            del self.events[seq]

    @property
    def last_event(self) -> int:
        return next(reversed(self.events), 0)


def _copied(value: Any) -> Any:
    """A table or an index; whatever else there is stays as it is."""
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    return list(value) if isinstance(value, list) else value


def _place(alarm: Alarm) -> tuple[str, datetime] | None:
    """Where it stands in the line of what is due."""
    return (alarm.target, alarm.next_fire_at) if alarm.status == "active" else None


def _discard(values: list[Any], value: object) -> None:
    at = bisect_left(values, value)
    assert values[at] == value
    del values[at]


def _mark(keys: dict[FireKey, None], key: FireKey, wanted: bool) -> None:
    if wanted:
        keys[key] = None
    else:
        keys.pop(key, None)


# What a row can hold. The databases refuse the rest, so this one does, too.


def text_names(struct: type[Struct]) -> tuple[str, ...]:
    return _names(struct, "text")


def _names(struct: type[Struct], kind: Kind) -> tuple[str, ...]:
    fields = dict(zip(struct.__struct_encode_fields__, struct.__struct_fields__, strict=True))
    return tuple(fields[column.name] for column in columns(struct) if column.kind == kind)


class _Shape:
    """The moments of a struct, which a row holds as whole milliseconds, and its texts, which are Unicode."""

    def __init__(self, struct: type[Struct]) -> None:
        self._moments = _names(struct, "moment")
        # With one name alone it gives no tuple.
        self._all_moments = attrgetter(*self._moments, *self._moments[:1])
        self.texts = attrgetter(*text_names(struct))

    def kept(self, value: S) -> S:
        "".join(self.texts(value)).encode()  # ValueError for what is not Unicode
        moments = self._all_moments(value)
        if all(at is None or (at.tzinfo is UTC and not at.microsecond % 1000) for at in moments):
            return value
        whole = (None if at is None else whole_ms(at) for at in moments)
        return replace(value, **dict(zip(self._moments, whole, strict=False)))


_KEPT: Final[tuple[type[Struct], ...]] = (Alarm, Fire, Event, Token, TargetState, Worker)
_SHAPES: Final = {struct: _Shape(struct) for struct in _KEPT}
fire_texts: Final = _SHAPES[Fire].texts


def kept(value: S) -> S:
    """A value as it comes back from a row; ValueError where a row cannot hold it."""
    return _SHAPES[type(value)].kept(value)


def kept_alarm(alarm: Alarm) -> Alarm:
    _check("kind", alarm.kind, _KINDS)
    _check("status", alarm.status, ALARM_STATUSES)
    policy_text(alarm.policy)  # its texts are Unicode, too
    if alarm.cron_expr if alarm.kind == "once" else alarm.wall_time:  # one column has both: see `kept_schedule`
        alarm = replace(alarm, **{"cron_expr" if alarm.kind == "once" else "wall_time": ""})
    return kept(alarm)


def kept_fire(fire: Fire) -> Fire:
    _check("status", fire.status, FIRE_STATUSES)
    "".join([attempt.said for attempt in fire.log]).encode()
    return kept(fire)


def _check(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name} {value!r} is none of {', '.join(known)}")


def storable(value: S, keep: Callable[[S], S] = kept) -> S:
    """The value as a row holds it."""
    try:
        return keep(value)
    except (TypeError, ValueError) as error:
        raise StoreRefused(f"a row of the database cannot hold this: {error}") from error
