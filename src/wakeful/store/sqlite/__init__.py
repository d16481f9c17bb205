"""The store on one SQLite file: a writer thread that commits in groups, and readers beside it.

What dispatching and signing in need has readers of its own; what may take long (lists, searches, counts) has others, a
limit, and is done for each owner in turn: whatever is asked for, no alarm waits for it.
Across processes there is no hint: another process's dispatcher sees a new alarm at its next tick.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

import apsw
import msgspec

from wakeful.clock import Clock, SystemClock
from wakeful.errors import InvalidRequest
from wakeful.model.alarm import INBOX, TASKS, Alarm, Change, Event, Fire
from wakeful.moments import EPOCH, from_unix_ms, stamp, unix_ms, whole_ms
from wakeful.rules.task import speaks
from wakeful.store import (
    NO_TURNS,
    NOT_EARLY,
    Added,
    AlarmQuery,
    Claim,
    Claimed,
    DescribedFire,
    FireQuery,
    Followed,
    Settled,
    Stats,
    Store,
    Turn,
    Usage,
)
from wakeful.store.filters import Cursor, EventQuery, bounds, counted, is_bounded
from wakeful.store.maintenance import first_edition_kept, keep_first_edition
from wakeful.store.queries import Naming, migrations, queries
from wakeful.store.records import (
    CLOCK_AHEAD,
    COUNTED,
    READ_WITHIN,
    READS_PER_OWNER,
    Matches,
    Page,
    ReadTurns,
    filled,
    stats_of,
)
from wakeful.store.rows import (
    ID,
    WORDS,
    Row,
    first_id,
    from_alarm,
    length_ms,
    policy_text,
    storable,
    to_alarm,
    to_alarm_and_fire,
    to_alarms,
    to_described_fire,
    to_event,
    to_fire,
    to_moved_fire,
    to_new_alarm,
)
from wakeful.store.sqlite import writes
from wakeful.store.sqlite.access import SqliteAccess
from wakeful.store.sqlite.file import Original, check_expected, check_path, describe, make
from wakeful.store.sqlite.maintenance import SqliteMaintenance
from wakeful.store.sqlite.readers import Readers, narrowed, rows_of, search_end, search_values
from wakeful.store.sqlite.schema import bring_up_to_date
from wakeful.store.sqlite.sql_tasks import AlarmsInFile, SqliteTasks
from wakeful.store.sqlite.writer import Work, Writer

if TYPE_CHECKING:
    from wakeful.store.sqlite.writer import Joint, Work

T = TypeVar("T")
_TICK: Final = timedelta(seconds=1)
_NO_TIME: Final = timedelta(0)
_LONGEST_WAIT: Final = timedelta(seconds=10)  # for a commit, others' locks included
_CHUNK: Final = 500  # rows of one operation: about as much as a transaction should hold
_TASKS: Final = 32  # the same of alarms whose tasks' rows are read, compared and written


class SqliteStore:
    """Alarms in one file. Nothing is opened before the first verb."""

    def __init__(
        self,
        path: str,
        *,
        naming: Naming = Naming(),  # noqa: B008 - a frozen value
        clock: Clock = SystemClock(),  # noqa: B008 - stateless
        tick: timedelta = _TICK,
        read_within: timedelta = READ_WITHIN,
        reads_per_owner: int = READS_PER_OWNER,
    ) -> None:
        self.hints = asyncio.Event()
        self._path = os.path.abspath(path) if path not in ("", ":memory:") else path
        self._naming = naming
        self._clock = clock
        self._soon = tick + _LONGEST_WAIT
        self._sql = queries("sqlite", naming)
        self._original = Original(self._path)
        self._writer = Writer(self._path, self._original)
        self._add = self._add_jointly  # bound once: the writer joins what was handed to the same function
        self._readers = Readers(self._path, self._original, threads=2)
        self._long_readers = Readers(self._path, self._original, threads=4)
        self._within = read_within.total_seconds()
        self._turns = ReadTurns(reads_per_owner)
        alarms = AlarmsInFile(self._sql)
        self.tasks = SqliteTasks(
            self._writer, self._read, self._long_read, alarms, path=self._path, naming=naming, clock=clock
        )
        self.access = SqliteAccess(self._sql, self._writer, self._readers, self._long_readers)
        self.maintenance = self._maintenance()

    def _maintenance(self) -> SqliteMaintenance:
        return SqliteMaintenance(
            self._sql,
            self._writer,
            self._readers,
            self._long_readers,
            self._long_read,
            naming=self._naming,
            clock=self._clock,
            read_within=self._within,
        )

    async def migrate(self) -> list[str]:
        self._make()
        steps = migrations("sqlite", self._naming)
        now = self._clock.now()
        return await self._write(lambda db: bring_up_to_date(db, self._naming, steps, now), alone=True)

    def _make(self) -> None:
        check_path(self._path)
        if self._original.known:
            return  # it was here: what is missing now is not created again
        check_expected(self._path)
        make(self._path)

    async def close(self) -> None:
        await first_edition_kept(self.maintenance)
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._long_readers.close()
        self._readers.close()  # first: whoever closes last checkpoints, and that is the writer's work
        self._writer.close()

    async def now(self) -> datetime:
        return whole_ms(self._clock.now())

    async def add(self, alarms: Sequence[Alarm], *, connection: Any = None) -> list[Added]:
        if connection is not None:
            return await (await self.within(connection)).add(alarms)
        if alarms and not self.maintenance.has_edition:
            await keep_first_edition(self.maintenance)
        hint = self._hint(alarms)

        def some(chunk: Sequence[Alarm]) -> asyncio.Future[list[Row | None]]:
            rows = self._encoded(from_alarm, chunk)
            return self._writer.submit_joint(self._add, rows, then=hint, is_row=len(rows) == 1)

        there_first = await (some(alarms) if len(alarms) <= _CHUNK else _in_chunks(some, alarms))
        return [
            Added(alarm) if row is None else Added(to_alarm(row), deduped=row[ID] != alarm.id)
            for alarm, row in zip(alarms, there_first, strict=True)
        ]

    async def within(self, connection: Any) -> Store:
        return CallersTransaction(self, callers_connection(connection, self._path))

    def _add_jointly(self, db: apsw.Connection, calls: list[list[list[Any]]]) -> list[list[Row | None]]:
        """The alarms of several calls in one statement; each call's own answers."""
        answers = iter(writes.add(db, self._sql, [row for rows in calls for row in rows]))
        return [list(islice(answers, len(rows))) for rows in calls]

    async def claim(
        self,
        slots: Mapping[str, int],
        *,
        lease: timedelta,
        suspects: bool = True,
        turns: Mapping[str, Turn] = NO_TURNS,
        early: Mapping[str, timedelta] = NOT_EARLY,
    ) -> Claimed:
        free = {target: count for target, count in slots.items() if count > 0}

        def work(db: apsw.Connection) -> tuple[str, dict[str, str], bool, int]:
            now = unix_ms(self._clock.now())
            times = {"now": now, "lease": length_ms(lease)}
            suspect = writes.suspect(db, self._sql, free, times) if suspects else writes.Suspect()
            chosen = {"suspect": suspect.rowid, "in_group": suspect.in_group}
            due = {target: now + length_ms(early.get(target, _NO_TIME)) for target in free}
            return *writes.claim(db, self._sql, free, times | chosen, turns, due), suspect.is_ahead, now

        # As in PostgreSQL: a claim that a power cut takes back leaves the alarm due, and it is claimed again.
        text, stood, ahead, now = await self._writer.submit(work, lax=True)
        alarms = sorted(to_alarms(text), key=lambda alarm: (alarm.target, alarm.next_fire_at, alarm.id))
        return Claimed(alarms, from_unix_ms(now), ahead, stood)

    async def settle(self, changes: Sequence[Change]) -> list[Settled]:
        hint = self._hint(change.after for change in changes)

        async def some(chunk: Sequence[Change]) -> list[Settled]:
            ready, refused = self._written(chunk)
            tasks = [change for change in chunk if change.after.created_via == TASKS]
            more = [change for change in chunk if change.cost or change.seen is not None]
            answers = await self._settle(ready, hint, tasks, more) if ready else []
            for at, error in refused:
                answers.insert(at, Settled("refused", error))
            return answers

        has_tasks = any(change.after.created_via == TASKS for change in changes)
        return await _in_chunks(some, changes, _TASKS if has_tasks else _CHUNK)

    def _settle(
        self,
        ready: Sequence[writes.Written],
        then: Callable[[], None] | None,
        tasks: Sequence[Change],
        more: Sequence[Change],
    ) -> asyncio.Future[list[Settled]]:
        def work(db: apsw.Connection) -> list[Settled]:
            moved = self.tasks.overtaken(db, [one.after.id for one in tasks if speaks(one)]) if tasks else {}
            left = [one for one in ready if one.id not in moved] if moved else ready
            # Rows are stamped while nobody else can write: a reader that follows the stamps then misses none.
            answers = writes.settle(db, self._sql, left, stamp=stamp(self._clock.now()))
            if tasks or more:
                applied = {one.id for one, answer in zip(left, answers, strict=True) if answer.what == "applied"}
                self.tasks.follow(db, [change for change in tasks if change.after.id in applied])
                written_too = [change for change in more if change.after.id in applied]
                self.access.add_costs(db, written_too)
                self.access.keep_seen(db, written_too)
            written = iter(answers)
            return [Settled("moved") if one.id in moved else next(written) for one in ready] if moved else answers

        return self._writer.submit(work, then=then, careful=not tasks and not more)

    async def renew(self, claims: Sequence[Claim]) -> list[Claim]:
        def work(db: apsw.Connection) -> set[tuple[str, int]]:
            return writes.renew(db, self._sql, claims, now=unix_ms(self._clock.now()))

        held = await self._write(work)
        return [claim for claim in claims if (claim.id, claim.claim) not in held]

    async def next_due(self, targets: Sequence[str]) -> datetime | None:
        def work(db: apsw.Connection) -> list[int | None]:
            return [db.execute(self._sql["next_due"], {"target": target}).get for target in targets]

        moments = [moment for moment in await self._read(work) if moment is not None]
        return from_unix_ms(min(moments)) if moments else None

    async def get(self, id: str, *, owner: str = "") -> Alarm | None:
        if not storable(id, owner):
            return None
        rows = await self._rows("get", id=id, owner=owner)
        return to_alarm(rows[0]) if rows else None

    async def named(
        self, owner: str, keys: Sequence[str], *, between: tuple[str, str] | None = None, limit: int | None = None
    ) -> list[Alarm]:
        low, high = between or ("", "")
        kept = [key for key in keys if storable(key)]
        if not storable(owner) or not (kept or between):
            return []
        values = {"owner": owner, "keys": _json(kept), "low": low, "high": high}
        return list(map(to_alarm, await self._rows("named", **values, limit=-1 if limit is None else limit)))

    async def listening(self, owner: str, signal: str, *, after: str = "", limit: int) -> list[Alarm]:
        if not storable(owner, signal):
            return []
        rows = await self._rows("listening", owner=owner, signal=signal, after=after, limit=limit)
        return list(map(to_alarm, rows))

    async def find(self, query: AlarmQuery) -> Matches[Alarm]:
        page = await self._search("find", query, end="find_end", text=query.text)
        return page.found(to_alarm, lambda alarm: (alarm.created_at, alarm.id))

    async def similar(self, alarm: Alarm, *, among: int) -> Alarm | None:
        names = ("id", "target", "kind", "cron_expr", "timezone", "wake_message", "conversation_id")
        values = {name: getattr(alarm, name) for name in names}
        values |= {"payload": alarm.payload_json, "policy": policy_text(alarm.policy) or ""}
        at = None if alarm.fire_at is None else unix_ms(alarm.fire_at)
        rows = await self._long_rows("similar", owner=alarm.owner_did, among=among, fire_at=at, **values)
        return to_alarm(rows[0]) if rows else None

    async def fires(self, query: FireQuery) -> Matches[Fire]:
        page = await self._search("fires", query, end="fires_end")
        return page.found(to_fire, lambda fire: (fire.scheduled_for, fire.alarm_id))

    async def described_fires(self, query: FireQuery) -> Matches[DescribedFire]:
        page = await self._search("described_fires", query, end="fires_end")
        return page.found(to_described_fire, lambda found: (found.fire.scheduled_for, found.fire.alarm_id))

    async def count(self, query: AlarmQuery | FireQuery) -> int:
        name, ends = ("alarms", "find_end") if isinstance(query, AlarmQuery) else ("fires", "fires_end")

        def work(db: apsw.Connection, values: dict[str, Any]) -> tuple[int, Cursor | None]:
            end = search_end(db, self._sql[ends], values) if is_bounded(query) else None
            [(count,)] = rows_of(narrowed(self._sql[f"count_{name}"], values), values, db)
            return int(count), end

        return await counted(
            query, lambda some: self._long_read(partial(work, values=search_values(some)), query.owner)
        )

    async def _search(self, name: str, query: AlarmQuery | FireQuery, *, end: str, text: str = "") -> Page[Row]:
        ends = self._sql[end] if is_bounded(query) else ""
        for look_at in bounds(query):
            values = search_values(query) | {"look_at": look_at}
            page = await self._page(name, values, most=query.most, text=text, ends=ends)
            if page.more or page.end is None:
                break
        return page

    async def _page(
        self, name: str, values: dict[str, Any], *, most: int = 0, text: str = "", ends: str = ""
    ) -> Page[Row]:
        limit = values["limit"]
        values = {**values, "limit": -1 if text else limit + 1}

        def work(db: apsw.Connection) -> Page[Row]:
            page: Page[Row] = Page(limit, most=most, text=text, among=WORDS)
            page.end = search_end(db, ends, values) if ends else None
            return filled(db.execute(narrowed(self._sql[name], values), values), page)

        return await self._long_read(work, values["owner"])

    async def fires_at(self, keys: Sequence[tuple[str, datetime]]) -> dict[tuple[str, datetime], Fire]:
        asked = [(id, unix_ms(at)) for id, at in keys if storable(id)]
        rows = await self._rows("fire_at", keys=_json(asked)) if asked else []
        found = [to_fire(row) for row in rows]
        return {(fire.alarm_id, fire.scheduled_for): fire for fire in found}

    async def overdue(self, *, limit: int) -> list[tuple[Alarm, Fire]]:
        rows = await self._rows("overdue", now=unix_ms(self._clock.now()), limit=limit)
        return [to_alarm_and_fire(row) for row in rows]

    async def waiting(
        self, owner: str, *, limit: int, most: int = 0, target: str = INBOX, conversation_id: str = ""
    ) -> Matches[tuple[Alarm, Fire]]:
        values = {"owner": owner, "target": target, "conversation_id": conversation_id, "limit": limit}
        page = await self._page("waiting", values, most=most)
        return page.found(to_alarm_and_fire, lambda pair: (pair[1].scheduled_for, pair[1].alarm_id))

    async def agenda(self, *, owner: str, until: datetime, limit: int, most: int = 0) -> Matches[Alarm]:
        asked = {"owner": owner, "everyone": not owner or None, "until": unix_ms(until), "limit": limit}
        page = await self._page("agenda", asked, most=most)
        return page.found(to_alarm, lambda alarm: (alarm.next_fire_at, alarm.id))

    async def alarms_in_zones(self, zones: Collection[str], *, after: str, scan_limit: int) -> tuple[list[Alarm], str]:
        found = await self._rows("alarms_upto", after=after, scan_limit=scan_limit)
        upto = found[0][0] if found else ""
        rows = await self._rows("alarms_in_zones", after=after, upto=upto, names=_json(sorted(zones)))
        return list(map(to_alarm, rows)), upto

    async def stats(self, owner: str = "", *, most: int = COUNTED) -> Stats:
        values = {"owner": owner, "everyone": not owner or None, "most": most}
        sql = narrowed(self._sql["stats"], values)

        def work(db: apsw.Connection) -> dict[str, Any]:
            cursor = db.execute(sql, values)
            names = [name for name, *_ in cursor.description]
            return dict(zip(names, cursor.fetchone() or (), strict=True))

        return stats_of(await self._long_read(work, owner), most=most)

    async def usage(self, owner: str, *, cursor: Cursor | None = None, look_at: int = 0) -> Usage:
        values = search_values(AlarmQuery(owner=owner, cursor=cursor, look_at=look_at))

        def work(db: apsw.Connection) -> Usage:
            end = search_end(db, self._sql["find_end"], values) if look_at else None
            [(alarms, size)] = rows_of(narrowed(self._sql["usage"], values), values, db)
            return Usage(alarms, size, end)

        return await self._long_read(work, owner)

    async def events(self, query: EventQuery) -> list[tuple[int, Event]]:
        if not (query.by or query.latest):
            values = {"owner": query.owner, "alarm_id": query.alarm_id, "after": query.after, "limit": query.limit}
            return [to_event(row) for row in (await self._page("events", values, most=query.most)).rows]
        values = {"what": query.what, "limit": query.limit}
        if query.by:
            rows = await self._rows("events_by", by=query.by, since=unix_ms(query.since or EPOCH), **values)
        else:
            rows = await self._rows("latest_events", alarm_id=query.alarm_id, **values)
        return [to_event(row) for row in rows]

    async def changes(self, *, owner: str, since: datetime, after_event: int, limit: int) -> Followed:
        moment = unix_ms(since)
        last = await self._rows("last_event")
        ids = {"first_id": first_id(moment), "last_id": first_id(unix_ms(self._clock.now() + CLOCK_AHEAD))}
        alarms = await self._long_rows("new_alarms", owner=owner, since=moment, limit=limit, **ids)
        fires = await self._long_rows("changed_fires", owner=owner, since=moment, limit=limit)
        events = await self.events(EventQuery(owner=owner, after=after_event, limit=limit))
        return Followed(list(map(to_new_alarm, alarms)), list(map(to_moved_fire, fires)), events, last[0][0])

    def _hint(self, alarms: Iterable[Alarm]) -> Callable[[], None] | None:
        """What to do after the commit: wake a dispatcher that sleeps longer than one of these has to wait."""
        soon = self._clock.now() + self._soon
        is_due = any(alarm.status == "active" and alarm.next_fire_at <= soon for alarm in alarms)
        return self.hints.set if is_due else None

    def _encoded(self, encode: Callable[[T], list[Any]], values: Iterable[T]) -> list[list[Any]]:
        try:
            return [encode(value) for value in values]
        except writes.BAD_VALUE as error:
            raise describe(error, self._path) from error

    def _written(self, changes: Sequence[Change]) -> tuple[list[writes.Written], list[tuple[int, str]]]:
        """The changes as rows, and which of them (by position) cannot be."""
        ready, refused = [], []
        for at, change in enumerate(changes):
            try:
                ready.append(writes.written(change))
            except writes.BAD_VALUE as error:
                refused.append((at, str(error)))
        return ready, refused

    async def _write(self, work: Work[T], *, then: Callable[[], None] | None = None, alone: bool = False) -> T:
        return await self._writer.submit(work, then=then, alone=alone)

    async def _read(self, work: Work[T]) -> T:
        return await self._readers.read(work)

    async def _rows(self, name: str, **values: Any) -> list[Row]:
        return await self._read(partial(rows_of, narrowed(self._sql[name], values), values))

    async def _long_read(self, work: Work[T], owner: str = "") -> T:
        """Read what may take long, when it is this owner's turn."""
        async with self._turns.turn(owner):
            return await self._long_readers.read(work, within=self._within)

    async def _long_rows(self, name: str, *, owner: str, **values: Any) -> list[Row]:
        values["owner"] = owner
        return await self._long_read(partial(rows_of, narrowed(self._sql[name], values), values), owner)


def _json(values: object) -> str:
    return msgspec.json.encode(values).decode()


async def _in_chunks(
    work: Callable[[Sequence[Any]], Awaitable[list[Any]]], values: Sequence[Any], size: int = _CHUNK
) -> list[Any]:
    """Do a long list in transactions of bounded length, one after the other: a lone caller gets in between."""
    answers: list[Any] = []
    for at in range(0, len(values), size):
        answers += await work(values[at : at + size])
    return answers


class CallersConnection:
    """In the place of the writer and the readers. A savepoint around each write: it is done as a whole, or not."""

    def __init__(self, db: apsw.Connection, path: str) -> None:
        self._db = db
        self._path = path

    async def submit(self, work: Work[T], **_: Any) -> T:
        try:
            with self._db:
                done = work(self._db)
        except Exception as error:
            raise describe(error, self._path) from error
        return done

    async def submit_joint(self, joint: Joint, item: Any, **_: Any) -> Any:
        [answer] = await self.submit(lambda db: joint(db, [item]))
        return answer

    async def read(self, work: Work[T], *, within: float = math.inf) -> T:
        try:
            return work(self._db)
        except Exception as error:
            raise describe(error, self._path) from error


class CallersTransaction(SqliteStore):
    """The store inside a caller's own transaction: every statement on the caller's apsw connection, in its thread.

    There is no hint: a dispatcher sees what was written at its next tick after the commit.
    """

    def __init__(self, ours: SqliteStore, db: apsw.Connection) -> None:
        self.__dict__.update(ours.__dict__)
        connection: Any = CallersConnection(db, self._path)
        self._writer = self._readers = self._long_readers = connection
        # What it keeps is the caller's too, and may be rolled back: nothing else remembers it.
        self.maintenance = self._maintenance()
        self.maintenance.has_edition = ours.maintenance.has_edition


def callers_connection(given: Any, path: str) -> apsw.Connection:
    if not isinstance(given, apsw.Connection):
        raise InvalidRequest(
            f"a {type(given).__name__} is not a connection of apsw",
            field="connection",
            fix="Give an apsw.Connection; the standard library's sqlite3 must not open the same file in one process.",
        )
    if not given.filename or os.path.realpath(given.filename) != os.path.realpath(path):
        raise InvalidRequest(
            f"it is a connection to {given.filename or 'no file'}", field="connection", fix=f"Give one to {path}."
        )
    return given
