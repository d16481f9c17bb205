"""Tables of other programs beside a memory database: those that table targets write to, of tasks, and for checks.

They are SQL, so they are kept by SQLite, in memory too. Nothing is opened before a table is asked for, and nothing
waits: every statement is done when its call returns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cache
from typing import Any, Final, TypeVar

import apsw

from wakeful.alarm import Row
from wakeful.clock import stopwatch
from wakeful.store.pages import too_slow
from wakeful.store.queries import Naming, migrations
from wakeful.store.sqlite import writes
from wakeful.store.sqlite.file import describe

T = TypeVar("T")
_PLACE: Final = "memory"
_OURS: Final = "0002-tasks"  # the step that makes the tables which tell what was changed in a table of tasks
_STEPS: Final = 2000  # of SQLite's machine, between two looks at the time


class OtherTables:
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
