"""What is handed to SQLite's writer: the work of one caller, and what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import apsw

T = TypeVar("T")
Work = Callable[[apsw.Connection], T]
Joint = Callable[[apsw.Connection, list[Any]], list[Any]]


class QueuedWork(Generic[T]):
    """One caller's write on its way through the writer."""

    __slots__ = ("alone", "careful", "future", "is_row", "item", "joint", "lax", "loop", "then", "work")

    def __init__(
        self,
        work: Work[T] | None,
        then: Callable[[], None] | None,
        *,
        alone: bool = False,
        careful: bool = False,
        lax: bool = False,
        joint: Joint | None = None,
        item: Any = None,
        is_row: bool = False,
    ) -> None:
        self.work = work
        self.then = then
        self.alone = alone
        self.careful = careful
        self.lax = lax
        self.joint = joint
        self.item = item
        self.is_row = is_row
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self.loop.create_future()

    def done_by(self, db: apsw.Connection) -> T:
        """Its work, by itself."""
        if self.work is not None:
            return self.work(db)
        assert self.joint is not None
        result: T = self.joint(db, [self.item])[0]
        return result


Answer = tuple[QueuedWork[Any], Any, BaseException | None]


def is_alike(one: QueuedWork[Any], other: QueuedWork[Any]) -> bool:
    return one.is_row and one.joint is other.joint


def resolve(answers: list[Answer]) -> None:
    for operation, result, error in answers:
        if error is None and operation.then is not None:
            operation.then()
        if operation.future.done():
            continue  # cancelled meanwhile
        if error is None:
            operation.future.set_result(result)
        else:
            operation.future.set_exception(error)
