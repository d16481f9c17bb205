"""The store inside a caller's own transaction: every statement on the caller's connection, hints with its commit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wakeful.alarm import Alarm
from wakeful.errors import InvalidRequest
from wakeful.store import Added
from wakeful.store.postgres import PostgresStore
from wakeful.store.postgres.database import Database

if TYPE_CHECKING:
    from wakeful.store.postgres import Work
    from wakeful.store.postgres.database import Connection

T = TypeVar("T")
A = TypeVar("A")


class CallersDatabase(Database):
    """One connection that is the caller's: nothing is opened, tried again or given back."""

    def __init__(self, connection: Connection, ours: Database) -> None:
        self._connection = connection
        self._password = ours._password
        self._within = ours._within
        self._lookers = asyncio.Semaphore()

    async def run(self, work: Callable[[Connection, bool], Awaitable[T]], *, keep_plans: bool = False) -> T:
        with self.told():
            return await work(self._connection, False)


class AtOnce(Generic[T, A]):
    """In the place of a group commit: whoever commits is not us."""

    def __init__(self, write: Callable[..., Awaitable[list[A]]]) -> None:
        self._write = write

    async def put(self, items: Sequence[T]) -> list[A]:
        return await self._write(items, alone=True)


class CallersTransaction(PostgresStore):
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
