"""The two batched writes: alarms come in, changes are settled. Both are one statement per batch, safe to repeat."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import UUID, uuid4

from msgspec import Struct
from msgspec.structs import replace

from wakeful.clock import stopwatch
from wakeful.errors import StoreBusy, StoreUnavailable
from wakeful.model.alarm import Alarm, Change, Row
from wakeful.moments import stamp
from wakeful.rules.task import speaks
from wakeful.store import Added, Claimed, Settled, Turn
from wakeful.store.batching import StoreRefused
from wakeful.store.postgres.access import PostgresAccess
from wakeful.store.postgres.database import DRIVER_ERRORS, Database, lock_wait, translated
from wakeful.store.postgres.hosts import Lost
from wakeful.store.postgres.rows import (
    alarm_of,
    dispatch_columns,
    event_columns,
    fire_columns,
    first_try_columns,
    guard_columns,
    intent_columns,
    new_alarm_columns,
    settled_columns,
    without_unwritable,
)
from wakeful.store.records import OWNERS_A_CLAIM, written_events
from wakeful.store.rows import ID

if TYPE_CHECKING:
    from wakeful.store.postgres.database import Connection, Record

_TRIES: Final = 3
_APPLIED: Final = Settled("applied")
_COLUMNS: Final = """
select attname, format_type(atttypid, atttypmod)
  from pg_attribute
 where attrelid = to_regclass($1) and attnum > 0 and not attisdropped
"""


class Followed(Protocol):
    """Rows of somebody's table that follow their alarms."""

    async def overtaken(self, connection: Connection, alarm_ids: Sequence[str], *, wait: str) -> Set[str]: ...

    async def write_back(
        self, connection: Connection, changes: Sequence[Change], answers: Sequence[Settled]
    ) -> None: ...


class Writes:
    """Statements on a connection that is handed in. They answer also whether anything falls due within a tick."""

    def __init__(self, sql: Mapping[str, str], *, tick: timedelta, access: PostgresAccess) -> None:
        self._sql = sql
        self._tick = tick
        self._access = access
        self.tasks: Followed | None = None
        self._types: dict[str, dict[str, str]] = {}  # of the columns of table targets, as last seen

    async def add(
        self, connection: Connection, alarms: Sequence[Alarm], *, now: datetime | None, alone: bool
    ) -> tuple[list[Added], bool]:
        added: dict[str, Added] = {}
        soon = False
        left = alarms
        for _ in range(_TRIES):
            columns = new_alarm_columns(left)
            [(is_soon, ids)] = await connection.fetch(self._sql["add"], now, lock_wait(alone), self._tick, *columns)
            soon = soon or is_soon
            if ids is None and left is alarms:  # nearly always
                return [Added(alarm) for alarm in alarms], soon
            new = {str(id) for id in ids} if ids is not None else {alarm.id for alarm in left}
            added |= {alarm.id: Added(alarm) for alarm in left if alarm.id in new}
            if others := [alarm for alarm in left if alarm.id not in new]:
                added |= await self._taken(connection, others)
            # One that had the key may be gone by now: then it is free again.
            left = [alarm for alarm in left if alarm.id not in added]
            if not left:
                return [added[alarm.id] for alarm in alarms], soon
        raise StoreBusy("an idempotency key kept moving to another alarm")

    async def _taken(self, connection: Connection, alarms: Sequence[Alarm]) -> dict[str, Added]:
        """Who is there instead: the alarm itself, from an earlier try, or the one that has its key."""
        ids = [alarm.id for alarm in alarms]
        mine = {row.id: row for row in map(alarm_of, await connection.fetch(self._sql["same_id"], ids))}
        keys = [alarm.owner_did for alarm in alarms], [alarm.idempotency_key for alarm in alarms]
        others = map(alarm_of, await connection.fetch(self._sql["same_key"], *keys))
        by_key = {(other.owner_did, other.idempotency_key): other for other in others}
        taken: dict[str, Added] = {}
        for alarm in alarms:
            if (own := mine.get(alarm.id)) is not None:
                taken[alarm.id] = Added(own)
            elif (other := by_key.get((alarm.owner_did, alarm.idempotency_key))) is not None:
                taken[alarm.id] = Added(other, deduped=True)
        return taken

    async def settle(
        self, connection: Connection, changes: Sequence[Change], *, now: datetime | None, alone: bool, again: bool
    ) -> tuple[list[Settled], bool]:
        settled, soon, _ = await self._settled(connection, changes, now=now, alone=alone, again=again)
        return settled, soon

    async def settle_at_once(
        self, connection: Connection, changes: Sequence[Change], *, now: datetime | None, alone: bool, again: bool
    ) -> tuple[list[Settled], bool]:
        """First attempts that arrived. One that the database does not take is written at length, cleaned."""
        if alone:
            return await self.settle(connection, changes, now=now, alone=alone, again=again)
        ordered = sorted(changes, key=lambda change: change.after.id)
        columns = first_try_columns(ordered)
        [(soon, ids)] = await connection.fetch(self._sql["settle_at_once"], now, lock_wait(alone), self._tick, *columns)
        if ids is None:  # nearly always
            return [_APPLIED] * len(changes), soon
        return await self._verdicts(connection, changes, {str(id) for id in ids}, again=again), soon

    async def _settled(
        self, connection: Connection, changes: Sequence[Change], *, now: datetime | None, alone: bool, again: bool
    ) -> tuple[list[Settled], bool, Set[str]]:
        """The answers, whether anything falls due soon, and which alarms this very call wrote."""
        if alone:
            changes = [without_unwritable(change) for change in changes]
        # In one order everywhere: two batches that share rows then wait for each other instead of blocking each other.
        ordered = sorted(changes, key=lambda change: change.after.id)
        events = [(change.after.id, event) for change in ordered for event in written_events(change)]
        rows = await connection.fetch(
            self._sql["settle"],
            *(now, lock_wait(alone), self._tick),
            *guard_columns(ordered),
            [id for id, _ in events],
            *settled_columns(ordered),
            *dispatch_columns(ordered),
            *fire_columns(ordered),
            *event_columns(event for _, event in events),
        )
        return await self._answered(connection, changes, rows, again=again)

    async def _answered(
        self, connection: Connection, changes: Sequence[Change], rows: Sequence[Record], *, again: bool
    ) -> tuple[list[Settled], bool, Set[str]]:
        soon = any(row["soon"] for row in rows)
        applied = {str(row["id"]) for row in rows}
        return await self._verdicts(connection, changes, applied, again=again), soon, applied

    async def _verdicts(
        self, connection: Connection, changes: Sequence[Change], applied: Set[str], *, again: bool
    ) -> list[Settled]:
        """Of each change: it is written, or why it is not."""
        left = [change for change in changes if change.after.id not in applied]
        if not left:
            return [_APPLIED] * len(changes)
        verdicts = await self._why_not(connection, left, again=again)
        return [verdicts.get(change.after.id, _APPLIED) for change in changes]

    async def settle_slowly(
        self, connection: Connection, changes: Sequence[Change], *, now: datetime | None, alone: bool, again: bool
    ) -> tuple[list[Settled], bool]:
        """Changes that bring more than their own rows, or are of tasks: all of it in one transaction.

        They edit, have a row for somebody's table, name a cost, or tell what a check has seen.
        """
        async with connection.transaction():
            moved = await self._overtaken(connection, changes, alone=alone)
            left = [change for change in changes if change.after.id not in moved]
            settled: list[Settled] = []
            soon = False
            if left:
                settled, soon = await self._settle_all(connection, left, now=now, alone=alone, again=again)
        answers = iter(settled)
        return [Settled("moved") if change.after.id in moved else next(answers) for change in changes], soon

    async def _overtaken(self, connection: Connection, changes: Sequence[Change], *, alone: bool) -> Set[str]:
        """The alarms, of those about to say a task's words, whose row asks for something else by now."""
        ids = [change.after.id for change in changes if speaks(change)]
        if self.tasks is None or not ids:
            return frozenset()
        return await self.tasks.overtaken(connection, ids, wait=lock_wait(alone))

    async def _settle_all(
        self, connection: Connection, changes: Sequence[Change], *, now: datetime | None, alone: bool, again: bool
    ) -> tuple[list[Settled], bool]:
        edited = [change for change in changes if change.edited]
        if edited:
            columns = [*guard_columns(edited), *intent_columns(edited)]
            await connection.fetch(self._sql["settle_edited"], lock_wait(alone), *columns)
        settled, soon, applied = await self._settled(connection, changes, now=now, alone=alone, again=again)
        written = [change for change in changes if change.after.id in applied]
        await self._access.add_costs(connection, written)  # not for what an earlier try wrote: that counted it too
        if replaced := [change.after.id for change in written if change.former]:
            await connection.execute(self._sql["forget_former"], replaced)
        await self._access.keep_seen(connection, written)
        for change, verdict in zip(changes, settled, strict=True):
            if change.row is not None and verdict.what == "applied":
                await self._insert_row(connection, change.row, now)
        if self.tasks is not None:
            await self.tasks.write_back(connection, changes, settled)
        return settled, soon

    async def _insert_row(self, connection: Connection, row: Row, now: datetime | None) -> None:
        """Exactly one row per fire. Values come as text; the column says what they are."""
        if row.stamped:
            moment = stamp(now or await connection.fetchval("select clock_timestamp()"))
            row = replace(row, values=row.values | dict.fromkeys(row.stamped, moment))
        table = ".".join(map(_quoted, row.table.split(".")))
        try:
            types = self._types.get(table) or dict(map(tuple, await connection.fetch(_COLUMNS, table)))
            row = row.fitted({name for name, kind in types.items() if kind.startswith(("text", "character"))})
            columns = ", ".join(map(_quoted, row.values))
            places = ", ".join(f"${n}::text::{types.get(name, 'text')}" for n, name in enumerate(row.values, 1))
            sql = f"insert into {table} ({columns}) values ({places}) on conflict ({_quoted(row.key)}) do nothing"
            await connection.execute(sql, *(None if value is None else str(value) for value in row.values.values()))
            self._types[table] = types
        except DRIVER_ERRORS as error:
            self._types.pop(table, None)  # it may have been altered: ask again
            meaning = translated(error)
            if isinstance(meaning, Lost | StoreBusy) or isinstance(error, TimeoutError):
                raise
            raise StoreRefused(f"{row.table}: {str(error).strip()}") from error

    async def _why_not(self, connection: Connection, changes: Sequence[Change], *, again: bool) -> dict[str, Settled]:
        rows = await connection.fetch(self._sql["held_claim"], [change.after.id for change in changes])
        found = {str(row["id"]): row for row in rows}
        return {change.after.id: _verdict(change, found.get(change.after.id), again=again) for change in changes}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _verdict(change: Change, row: Record | None, *, again: bool) -> Settled:
    after = change.after
    if row is None:
        return Settled("lost")
    if again and (row["claim"], row["version"], row["updated_at"]) == (after.claim, after.version, after.updated_at):
        return _APPLIED  # by the try whose answer was lost with its connection
    return Settled("edited" if row["claim"] == change.claim else "lost")


# Claiming on PostgreSQL, where an answer can get lost on the way.
#
# Every claim is written down under a token of its caller's. Where the answer never came, the next call asks for
# what was leased under that token and takes it back: alarms are not left leased to nobody for a whole lease.

_REMEMBERED: Final = 60.0  # seconds: a server that was frozen may yet do what it was asked
_NO_TURN: Final = Turn(0)
_NO_TIME: Final = timedelta(0)


class _Note(Struct, frozen=True):
    """Under which name and token a claim was written down."""

    claimer: UUID
    token: UUID
    asked: float  # by the stopwatch


def _answer(rows: list[Any]) -> Claimed:
    now, is_ahead = rows[0][:2]
    return Claimed(_leased(rows, 2), now, is_ahead)


def _answer_in_turn(rows: list[Any]) -> Claimed:
    now, is_ahead, targets, owners = rows[0][:4]
    stood = dict(zip(targets, owners, strict=True))
    return Claimed(_leased(rows, 4), now, is_ahead, stood)


def _leased(rows: list[Any], before: int) -> list[Alarm]:
    """The alarms of a claim. `before`: how many columns stand before theirs. Nothing due: these stand alone."""
    return [] if rows[0][before + ID] is None else [alarm_of(row[before:]) for row in rows]


class Claims:
    def __init__(self, database: Database, sql: Mapping[str, str], *, moment: Callable[[], datetime | None]) -> None:
        self._database = database
        self._sql = sql
        self._moment = moment
        self._claimer = uuid4()
        self._unheard: list[_Note] = []

    async def claim(
        self,
        slots: Mapping[str, int],
        *,
        lease: timedelta,
        suspects: bool,
        turns: Mapping[str, Turn],
        early: Mapping[str, timedelta],
    ) -> Claimed:
        free = {target: count for target, count in slots.items() if count > 0}
        ahead = [early.get(target, _NO_TIME) for target in free]
        note = _Note(self._claimer, uuid4(), stopwatch())
        self._unheard = [one for one in self._unheard if note.asked - one.asked < _REMEMBERED]

        async def work(connection: Connection, again: bool) -> Claimed:
            asked = [*self._unheard, note] if again else self._unheard
            if asked and (back := await self._taken_back(connection, asked)) is not None:
                return back
            values = (self._moment(), lease, list(free), list(free.values()), suspects, note.claimer, note.token, ahead)
            if not turns:
                return _answer(await connection.fetch(self._sql["claim"], *values))
            theirs = [turns.get(target, _NO_TURN) for target in free]
            columns = [turn.share for turn in theirs], [turn.each for turn in theirs], [turn.after for turn in theirs]
            return _answer_in_turn(
                await connection.fetch(self._sql["claim_in_turn"], *values, *columns, OWNERS_A_CLAIM)
            )

        try:
            return await self._database.run(work, keep_plans=True)
        except StoreUnavailable:
            # It may have been done all the same. The next claim is written down elsewhere, so that both can be found.
            self._unheard.append(note)
            self._claimer = uuid4()
            raise

    async def _taken_back(self, connection: Connection, notes: list[_Note]) -> Claimed | None:
        names = [note.claimer for note in notes], [note.token for note in notes]
        rows = await connection.fetch(self._sql["claimed_unheard"], self._moment(), *names)
        if not rows:
            return None
        heard = {row[1] for row in rows}
        self._unheard = [note for note in self._unheard if note.token not in heard]
        alarms: list[Alarm] = [alarm_of(row[2:]) for row in rows]
        return Claimed(alarms, rows[0][0])
