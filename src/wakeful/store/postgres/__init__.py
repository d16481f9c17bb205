"""Alarms in PostgreSQL: any number of processes, one database, and its clock.

Every write is one statement or one transaction and leaves nothing behind in its session. Creates and settlements are
group commits. A `clock` is for tests: without one the database's own clock judges leases and due times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from uuid import UUID

from msgspec.structs import replace

from wakeful.clock import Clock
from wakeful.errors import InvalidConfig, InvalidRequest
from wakeful.model.alarm import INBOX, TASKS, Alarm, Change, Event, Fire
from wakeful.moments import EPOCH, whole_ms
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
from wakeful.store.batching import BATCH, WHOLE, Elbowroom, GroupCommit, StoreRefused
from wakeful.store.filters import EXACT, Cursor, EventQuery, bounds, counted, indexed_statuses, is_bounded
from wakeful.store.maintenance import first_edition_kept, keep_first_edition
from wakeful.store.postgres.access import PostgresAccess
from wakeful.store.postgres.database import Database
from wakeful.store.postgres.hints import Hints
from wakeful.store.postgres.maintenance import PostgresMaintenance
from wakeful.store.postgres.migrate import Migrator
from wakeful.store.postgres.rows import (
    alarm_and_fire_of,
    alarm_of,
    described_fire_of,
    event_of,
    fire_of,
    first_uuid,
    moved_fire_of,
    new_alarm_of,
    uuid_of,
)
from wakeful.store.postgres.sql_tasks import PostgresTasks
from wakeful.store.postgres.writes import Claims, Writes
from wakeful.store.queries import Naming, queries
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
from wakeful.store.rows import policy_text, storable

if TYPE_CHECKING:
    from wakeful.store.postgres.database import Connection

T = TypeVar("T")

if TYPE_CHECKING:
    from wakeful.store.postgres.database import Connection

    Work = Callable[[Connection, bool], Awaitable[tuple[list[T], bool]]]

_TICK: Final = timedelta(seconds=1)
_WORDS: Final = ("label", "wake_message", "idempotency_key")
NO_ID: Final = UUID(int=0)  # before every id there is
LAST_ID: Final = str(UUID(int=2**128 - 1))
_CROWD: Final = 24  # creates that wait at once: from here on a second connection costs less than waiting for the first
_FEWEST_CONNECTIONS: Final = 4  # one each for creating, settling, claiming and asking


class PostgresStore:
    def __init__(
        self,
        dsn: str,
        *,
        naming: Naming = Naming(),  # noqa: B008 - a frozen value
        clock: Clock | None = None,
        tick: timedelta = _TICK,
        pool_size: int = 8,
        pgbouncer: bool = False,
        read_within: timedelta = READ_WITHIN,
        reads_per_owner: int = READS_PER_OWNER,
    ) -> None:
        if pool_size < _FEWEST_CONNECTIONS:
            raise InvalidConfig(
                f"{pool_size} is too small", field="pool_size", fix=f"Give at least {_FEWEST_CONNECTIONS}."
            )
        self.hints = asyncio.Event()
        self._naming = naming
        self._clock = clock
        self._sql = queries("postgres", naming)
        self._turns = ReadTurns(reads_per_owner)
        within = read_within.total_seconds()
        self._database = Database(dsn, pool_size=pool_size, pgbouncer=pgbouncer, read_within=within)
        self._channel = f"wakeful:{naming.qualifier}alarms"
        self._hints = Hints(
            self._database,
            channel=self._channel,
            notify=self._sql["notify"],
            heard=self.hints,
            across=not pgbouncer,  # LISTEN is a session's, and there are none
        )
        self._across = not pgbouncer
        room = Elbowroom(pool_size)
        self.access = PostgresAccess(self._sql, self._database, room)
        self._writes = Writes(self._sql, tick=tick, access=self.access)
        self.tasks = self._writes.tasks = PostgresTasks(
            self._database, self._writes, naming=naming, moment=self._moment
        )
        self.maintenance = PostgresMaintenance(
            self._sql, self._database, self._turns, naming=naming, moment=self._moment
        )
        self._claims = Claims(self._database, self._sql, moment=self._moment)
        self._adding = GroupCommit(self._add, room=room)
        # Without keys it does not matter which of two comes first: a crowd goes over two connections.
        self._adding_keyless = GroupCommit(self._add, room=room, crowd=_CROWD)
        self._adding_beside = GroupCommit(self._add, room=room)  # every second batch of a large call
        self._settling = GroupCommit(self._settle, apart=_changed_id, room=room)
        self._settling_at_once = GroupCommit(self._settle_at_once, apart=_changed_id, room=room)
        self._settling_slowly = GroupCommit(self._settle_slowly, apart=_changed_id, room=room)

    async def migrate(self) -> list[str]:
        async with self._database.connection() as connection:
            return await Migrator(self._naming).migrate(connection)

    async def close(self) -> None:
        if self._database.process.is_forked:
            return
        await first_edition_kept(self.maintenance)
        adding = (self._adding, self._adding_keyless, self._adding_beside)
        for lane in (*adding, self._settling, self._settling_at_once, self._settling_slowly):
            await lane.close()
        await self.access.close()
        await self._hints.close()
        await self._database.close()

    async def now(self) -> datetime:
        moment: datetime = await self._value("now", self._moment())
        return moment

    async def add(self, alarms: Sequence[Alarm], *, connection: Any = None) -> list[Added]:
        if alarms and not self.maintenance.has_edition:
            await keep_first_edition(self.maintenance)
        if connection is not None:
            return await (await self.within(connection)).add(alarms)
        if not alarms:
            return []
        if any(alarm.idempotency_key for alarm in alarms):
            return await self._adding.put(alarms)
        if len(alarms) <= BATCH:
            return await self._adding_keyless.put(alarms)
        return await self._add_side_by_side(alarms)

    async def _add_side_by_side(self, alarms: Sequence[Alarm]) -> list[Added]:
        """Batches in turn on two connections: while one is written the next is made ready.

        Not of alarms with keys: which of two that have the same comes first is their order.
        """
        batches = [alarms[at : at + BATCH] for at in range(0, len(alarms), BATCH)]
        answers: list[list[Added]] = [[] for _ in batches]

        async def every_second(lane: GroupCommit[Alarm, Added], first: int) -> None:
            for at in range(first, len(batches), 2):
                answers[at] = await lane.put(batches[at])

        lanes = every_second(self._adding, 0), every_second(self._adding_beside, 1)
        for error in await asyncio.gather(*lanes, return_exceptions=True):  # once everything is decided
            if error is not None:
                raise error
        return [added for answer in answers for added in answer]

    async def within(self, connection: Any) -> Store:
        return CallersTransaction(self, await callers_connection(connection))

    async def claim(
        self,
        slots: Mapping[str, int],
        *,
        lease: timedelta,
        suspects: bool = True,
        turns: Mapping[str, Turn] = NO_TURNS,
        early: Mapping[str, timedelta] = NOT_EARLY,
    ) -> Claimed:
        self._hints.listen()
        return await self._claims.claim(slots, lease=lease, suspects=suspects, turns=turns, early=early)

    async def settle(self, changes: Sequence[Change]) -> list[Settled]:
        lanes = [self._lane(change) for change in changes]
        groups = {id(lane): lane for lane in lanes}
        if len(groups) == 1:
            return await self._put(lanes[0], changes)
        answered = await asyncio.gather(
            *(
                self._put(lane, [change for change, its in zip(changes, lanes, strict=True) if its is lane])
                for lane in groups.values()
            )
        )
        answers = {key: iter(some) for key, some in zip(groups, answered, strict=True)}
        return [next(answers[id(lane)]) for lane in lanes]

    async def _put(self, lane: GroupCommit[Change, Settled], changes: Sequence[Change]) -> list[Settled]:
        is_batch = WHOLE <= len(changes) <= BATCH and lane is self._settling_at_once
        if is_batch and len({change.after.id for change in changes}) == len(changes):
            return await lane.put_together(changes)
        return await lane.put(changes)

    def _lane(self, change: Change) -> GroupCommit[Change, Settled]:
        """What brings more than its own rows takes a transaction; what is quickly said is written quickly."""
        if (
            change.edited
            or change.row is not None
            or change.after.created_via == TASKS
            or change.cost > 0
            or change.seen is not None
        ):
            return self._settling_slowly
        is_short = change.at_once and len(change.fires) == 1 and not change.events
        return self._settling_at_once if is_short else self._settling

    async def renew(self, claims: Sequence[Claim]) -> list[Claim]:
        ours = [claim for claim in claims if uuid_of(claim.id)]
        columns = [claim.id for claim in ours], [claim.claim for claim in ours]
        rows = await self._database.fetch(self._sql["renew"], self._moment(), *columns, keep_plans=True)
        lost = {(str(row["id"]), row["claim"]) for row in rows}
        return [claim for claim in claims if (claim.id, claim.claim) in lost or claim not in ours]

    async def next_due(self, targets: Sequence[str]) -> datetime | None:
        self._hints.listen()
        moment: datetime | None = await self._value("next_due", list(targets), keep_plans=True)
        return moment

    async def get(self, id: str, *, owner: str = "") -> Alarm | None:
        if (uuid := uuid_of(id)) is None:
            return None
        rows = await self._database.fetch(self._sql["get"], uuid, owner)
        return alarm_of(rows[0]) if rows else None

    async def named(
        self, owner: str, keys: Sequence[str], *, between: tuple[str, str] | None = None, limit: int | None = None
    ) -> list[Alarm]:
        low, high = map(uuid_of, between or ("", ""))
        kept = [key for key in keys if storable(key) and "\0" not in key]  # no column holds any other
        return list(map(alarm_of, await self._database.fetch(self._sql["named"], owner, kept, low, high, limit)))

    async def listening(self, owner: str, signal: str, *, after: str = "", limit: int) -> list[Alarm]:
        rows = await self._database.fetch(self._sql["listening"], owner, signal, uuid_of(after) or NO_ID, limit)
        return list(map(alarm_of, rows))

    async def find(self, query: AlarmQuery) -> Matches[Alarm]:
        page = await self._search("find", query, ends="find_end", text=query.text)
        return page.found(alarm_of, lambda alarm: (alarm.created_at, alarm.id))

    async def similar(self, alarm: Alarm, *, among: int) -> Alarm | None:
        schedule = (alarm.kind, alarm.fire_at, alarm.cron_expr, alarm.timezone)
        words = (alarm.wake_message, alarm.conversation_id, alarm.payload_json, policy_text(alarm.policy) or "")
        values = (alarm.owner_did, among, uuid_of(alarm.id), alarm.target, *schedule, *words)
        rows = await self._long_rows("similar", *values, owner=alarm.owner_did)
        return alarm_of(rows[0]) if rows else None

    async def fires(self, query: FireQuery) -> Matches[Fire]:
        page = await self._fires("fires", query)
        return page.found(fire_of, lambda fire: (fire.scheduled_for, fire.alarm_id))

    async def described_fires(self, query: FireQuery) -> Matches[DescribedFire]:
        page = await self._fires("described_fires", query)
        return page.found(described_fire_of, lambda found: (found.fire.scheduled_for, found.fire.alarm_id))

    async def _fires(self, name: str, query: FireQuery) -> Page[Any]:
        if query.alarm_id and uuid_of(query.alarm_id) is None:
            return Page(0, among=_WORDS)
        return await self._search(name, query, ends="fires_end")

    async def _search(self, name: str, query: AlarmQuery | FireQuery, *, ends: str, text: str = "") -> Page[Any]:
        for look_at in bounds(query):
            end = await self._end(ends, replace(query, look_at=look_at))
            args = search_values(query, end)
            page = await self._page(name, *args, limit=query.limit, most=query.most, owner=query.owner, text=text)
            page.end = end
            if page.more or end is None:
                break
        return page

    async def count(self, query: AlarmQuery | FireQuery) -> int:
        if isinstance(query, FireQuery) and query.alarm_id and uuid_of(query.alarm_id) is None:
            return 0
        name = "count_alarms" if isinstance(query, AlarmQuery) else "count_fires"

        async def count(some: AlarmQuery | FireQuery) -> tuple[int, Cursor | None]:
            end = await self._end("find_end" if isinstance(some, AlarmQuery) else "fires_end", some)
            [[found]] = await self._long_rows(name, *search_values(some, end), some.limit, owner=some.owner)
            return int(found), end

        return await counted(query, count)

    async def _end(self, name: str, query: AlarmQuery | FireQuery) -> Cursor | None:
        return await self._last_of(name, query) if is_bounded(query) else None

    async def _last_of(self, name: str, query: AlarmQuery | FireQuery) -> Cursor | None:
        """The last row that is read, where no more than so many are; None where these are all."""
        if not query.look_at:
            return None
        asked = (
            query.owner,
            indexed_statuses(query),
            query.since,
            query.until,
            *cursor_values(query.cursor),
            query.look_at,
        )
        rows = await self._long_rows(name, *asked, owner=query.owner)
        return (rows[0][0], str(rows[0][1])) if len(rows) == 2 else None

    async def _page(
        self, name: str, *args: Any, limit: int, most: int = 0, owner: str = "", text: str = ""
    ) -> Page[Any]:
        def empty() -> Page[Any]:
            return Page(limit, most=most, text=text, among=_WORDS)

        async with self._turns.turn(owner):
            if text or most:
                asked = None if text else limit + 1
                return await self._database.long_page(self._sql[name], *args, asked, page=empty)
            rows = await self._database.long_read(self._sql[name], *args, limit + 1)
        return filled(rows, empty())

    async def fires_at(self, keys: Sequence[tuple[str, datetime]]) -> dict[tuple[str, datetime], Fire]:
        ours = [key for key in keys if uuid_of(key[0])]
        if not ours:
            return {}
        rows = await self._database.fetch(self._sql["fire_at"], [id for id, _ in ours], [moment for _, moment in ours])
        found = {(fire.alarm_id, fire.scheduled_for): fire for fire in map(fire_of, rows)}
        return {key: found[key] for key in ours if key in found}

    async def overdue(self, *, limit: int) -> list[tuple[Alarm, Fire]]:
        rows = await self._database.fetch(self._sql["overdue"], self._moment(), limit)
        return [alarm_and_fire_of(row) for row in rows]

    async def waiting(
        self, owner: str, *, limit: int, most: int = 0, target: str = INBOX, conversation_id: str = ""
    ) -> Matches[tuple[Alarm, Fire]]:
        page = await self._page("waiting", owner, target, conversation_id, limit=limit, most=most, owner=owner)
        return page.found(alarm_and_fire_of, lambda pair: (pair[1].scheduled_for, pair[1].alarm_id))

    async def agenda(self, *, owner: str, until: datetime, limit: int, most: int = 0) -> Matches[Alarm]:
        page = await self._page("agenda", owner, until, limit=limit, most=most, owner=owner)
        return page.found(alarm_of, lambda alarm: (alarm.next_fire_at, alarm.id))

    async def alarms_in_zones(self, zones: Collection[str], *, after: str, scan_limit: int) -> tuple[list[Alarm], str]:
        first = after or str(NO_ID)
        found = await self._database.fetch(self._sql["alarms_upto"], first, scan_limit)
        upto = str(found[0][0]) if found else ""
        rows = await self._database.fetch(self._sql["alarms_in_zones"], first, upto or LAST_ID, sorted(zones))
        return list(map(alarm_of, rows)), upto

    async def stats(self, owner: str = "", *, most: int = COUNTED) -> Stats:
        [row] = await self._long_rows("stats", owner, most, owner=owner)
        return stats_of(row, most=most)

    async def usage(self, owner: str, *, cursor: Cursor | None = None, look_at: int = 0) -> Usage:
        end = await self._last_of("find_end", AlarmQuery(owner=owner, cursor=cursor, look_at=look_at))
        [row] = await self._long_rows("usage", owner, *cursor_values(cursor), *cursor_values(end), owner=owner)
        return Usage(row["alarms"], row["bytes"], end)

    async def events(self, query: EventQuery) -> list[tuple[int, Event]]:
        if query.by:
            since = query.since or EPOCH
            rows = await self._database.fetch(self._sql["events_by"], query.by, query.what, since, query.limit)
        elif query.latest:
            rows = await self._database.fetch(self._sql["latest_events"], query.alarm_id, query.what, query.limit)
        else:
            values = (query.owner, query.alarm_id, query.after)
            page = await self._page("events", *values, limit=query.limit, most=query.most, owner=query.owner)
            rows = page.rows
        return [event_of(row) for row in rows]

    async def changes(self, *, owner: str, since: datetime, after_event: int, limit: int) -> Followed:
        last = await self._value("last_event")
        ahead = first_uuid(await self.now() + CLOCK_AHEAD)
        alarms = await self._long_rows("new_alarms", first_uuid(since), since, owner, limit, ahead, owner=owner)
        fires = await self._long_rows("changed_fires", since, owner, limit, owner=owner)
        events = await self.events(EventQuery(owner=owner, after=after_event, limit=limit))
        return Followed([new_alarm_of(row) for row in alarms], [moved_fire_of(row) for row in fires], events, last)

    async def _long_rows(self, name: str, *args: Any, owner: str) -> list[Any]:
        """Read what may take long, when it is this owner's turn."""
        async with self._turns.turn(owner):
            return await self._database.long_read(self._sql[name], *args)

    async def _value(self, name: str, *args: Any, keep_plans: bool = False) -> Any:
        [row] = await self._database.fetch(self._sql[name], *args, keep_plans=keep_plans)
        return row[0]

    async def _add(self, items: Sequence[Alarm], *, alone: bool) -> list[Added]:
        async def work(connection: Connection, again: bool) -> tuple[list[Added], bool]:
            return await self._writes.add(connection, items, now=self._moment(), alone=alone)

        return await self._write(work)

    async def _settle(self, items: Sequence[Change], *, alone: bool) -> list[Settled]:
        async def work(connection: Connection, again: bool) -> tuple[list[Settled], bool]:
            return await self._writes.settle(connection, items, now=self._moment(), alone=alone, again=again)

        return await self._write_or_refuse(work, alone=alone)

    async def _settle_at_once(self, items: Sequence[Change], *, alone: bool) -> list[Settled]:
        async def work(connection: Connection, again: bool) -> tuple[list[Settled], bool]:
            return await self._writes.settle_at_once(connection, items, now=self._moment(), alone=alone, again=again)

        return await self._write_or_refuse(work, alone=alone)

    async def _settle_slowly(self, items: Sequence[Change], *, alone: bool) -> list[Settled]:
        async def work(connection: Connection, again: bool) -> tuple[list[Settled], bool]:
            return await self._writes.settle_slowly(connection, items, now=self._moment(), alone=alone, again=again)

        return await self._write_or_refuse(work, alone=alone, keep_plans=False)  # other people's tables are among it

    async def _write_or_refuse(self, work: Work[Settled], *, alone: bool, keep_plans: bool = True) -> list[Settled]:
        try:
            return await self._write(work, keep_plans=keep_plans)
        except StoreRefused as refused:
            if not alone:
                raise
            return [Settled("refused", refused.message)]

    async def _write(self, work: Work[T], *, keep_plans: bool = True) -> list[T]:
        answers, soon = await self._database.run(work, keep_plans=keep_plans)
        if soon:  # after the commit: whoever is notified finds it
            self._hints.tell()
        return answers

    def _moment(self) -> datetime | None:
        """Handed to every statement that judges by time; None: the database's own clock."""
        return None if self._clock is None else whole_ms(self._clock.now())


def _changed_id(change: Change) -> str:
    return change.after.id


def search_values(query: AlarmQuery | FireQuery, end: Cursor | None) -> tuple[Any, ...]:
    """The parameters of a search, but for its limit."""
    between = (query.since, query.until, *cursor_values(query.cursor), *cursor_values(end))
    if isinstance(query, FireQuery):
        return (query.owner, uuid_of(query.alarm_id), query.statuses, query.target, *between)
    *words, key = (getattr(query, name) for name in EXACT)
    return (query.owner, query.statuses, *words, *between, key)


def cursor_values(cursor: Cursor | None) -> tuple[datetime | None, Any]:
    return (None, None) if cursor is None else (cursor[0], uuid_of(cursor[1]))


A = TypeVar("A")


class CallersDatabase(Database):
    """One connection that is the caller's: nothing is opened, tried again or given back."""

    def __init__(self, connection: Connection, ours: Database) -> None:
        self._connection = connection
        self._password = ours._password
        self._within = ours._within
        self._long_reads = asyncio.Semaphore()

    async def run(self, work: Callable[[Connection, bool], Awaitable[T]], *, keep_plans: bool = False) -> T:
        with self.errors_translated():
            return await work(self._connection, False)


class AtOnce(Generic[T, A]):
    """In the place of a group commit: whoever commits is not us."""

    def __init__(self, write: Callable[..., Awaitable[list[A]]]) -> None:
        self._write = write

    async def put(self, items: Sequence[T]) -> list[A]:
        return await self._write(items, alone=True)


class CallersTransaction(PostgresStore):
    """The store inside a caller's own transaction: every statement on its connection, hints with its commit."""

    def __init__(self, ours: PostgresStore, connection: Connection) -> None:
        self.__dict__.update(ours.__dict__)
        self._database = CallersDatabase(connection, ours._database)
        at_once: Any = AtOnce
        self._adding = self._adding_keyless = at_once(self._add)
        self._settling = at_once(self._settle)
        self._settling_slowly = at_once(self._settle_slowly)

    async def _add_side_by_side(self, alarms: Sequence[Alarm]) -> list[Added]:
        return await self._adding.put(alarms)  # there is one connection

    async def _write(self, work: Work[T], *, keep_plans: bool = True) -> list[T]:
        answers, soon = await self._database.run(work)
        if soon and self._across:
            # Inside the caller's transaction: it is heard when that commits, and never if it does not.
            await self._database.fetch(self._sql["notify"], self._channel)
        return answers


async def callers_connection(given: Any) -> Connection:
    """The asyncpg connection that is given, or that SQLAlchemy's AsyncSession or AsyncConnection is on."""
    found = given
    if hasattr(found, "get_bind") and hasattr(found, "connection"):  # a session
        found = await found.connection()
    if hasattr(found, "get_raw_connection"):
        # SQLAlchemy begins a transaction with the first statement that it sees, and ours it does not see.
        await found.exec_driver_sql("select 1")
        found = (await found.get_raw_connection()).driver_connection
    if not (hasattr(found, "fetch") and hasattr(found, "is_in_transaction")):
        raise InvalidRequest(
            f"a {type(given).__name__} is not a connection to PostgreSQL",
            field="connection",
            fix="Give asyncpg's own, or SQLAlchemy's AsyncConnection or AsyncSession over asyncpg.",
        )
    connection: Connection = found
    return connection
