"""Claiming on PostgreSQL, where an answer can get lost on the way.

Every claim is written down under a token of its caller's. Where the answer never came, the next call asks for what was
leased under that token and takes it back: alarms are not left leased to nobody for a whole lease.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid4

from msgspec import Struct

from wakeful.alarm import Alarm
from wakeful.clock import stopwatch
from wakeful.errors import StoreUnavailable
from wakeful.store import Claimed, Turn
from wakeful.store.postgres.database import Database
from wakeful.store.postgres.rows import alarm_of
from wakeful.store.records import OWNERS_A_CLAIM
from wakeful.store.rows import ID

if TYPE_CHECKING:
    from wakeful.store.postgres.database import Connection

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
