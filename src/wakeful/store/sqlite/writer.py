"""One thread, one connection: everything that writes to the SQLite file, many operations to a commit.

While one transaction is on its way to the disk the next one collects. An operation is answered only after its commit,
and one that fails takes nothing with it but itself. A lone operation waits for nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, TypeVar

import apsw

from wakeful.clock import stopwatch
from wakeful.errors import OneProcess, StoreUnavailable
from wakeful.store.sqlite.file import Original, describe, open_writer, sync_commits
from wakeful.store.sqlite.writes import PIECES

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


_FULL: Final = 0.020  # seconds a transaction takes in more operations: other programs write to this file too
_JOINT: Final = 512  # items that are written in one go
_CROWD: Final = 32  # callers: of so many, or of half of more, one statement is made
_SLOW: Final = 0.002  # seconds to write: where the disk takes longer than callers to get ready, all share a commit
_JUST_NOW: Final = 0.001  # seconds
_GATHER: Final = 0.0005  # seconds at a time to wait for a crowd to gather again; a lone caller never waits
_NOBODY: Final = 1 << 30
_GAP: Final = 0.002  # and how long we then let them in, when we have more to do


class Writer:
    """The queue before the one write connection, and the thread behind it."""

    def __init__(self, path: str, original: Original) -> None:
        self._path = path
        self._original = original
        self._queue: SimpleQueue[QueuedWork[Any] | None] = SimpleQueue()
        self._coming: dict[asyncio.AbstractEventLoop, list[QueuedWork[Any]]] = {}  # in this turn of their loop
        self._held_back: QueuedWork[Any] | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._process = OneProcess()
        self._closing = threading.Event()
        self._crowd = 0  # how many callers wrote the same kind of thing just now, or were waiting to
        self._wanted = _NOBODY  # how many the writer waits for, while it does
        self._enough = threading.Event()
        self._db: apsw.Connection | None = None
        self._emptied = False  # the log, of a file that is away
        self._is_slow = False  # the transaction before
        self._seen = -_JUST_NOW  # when the file was last seen under its name
        self.commits = 0  # for whoever wants to know how well operations share them

    def submit(
        self,
        work: Work[T],
        *,
        then: Callable[[], None] | None = None,
        alone: bool = False,
        careful: bool = False,
        lax: bool = False,
    ) -> asyncio.Future[T]:
        """Have some work done inside a transaction; `then` runs on the caller's loop after the commit.

        Alone: outside of any transaction, for work that begins and commits by itself.
        Careful: it takes back what it did when it fails, and needs no savepoint around it.
        Lax: a power cut may take it back, so it need not wait for the disk.
        """
        return self._put(QueuedWork(work, then, alone=alone, careful=careful, lax=lax))

    def submit_joint(
        self, joint: Joint, item: Any, *, then: Callable[[], None] | None = None, is_row: bool = False
    ) -> asyncio.Future[Any]:
        """Have an item written together with what others hand to the same `joint` meanwhile; its own answer.

        Where the items fail together, each is tried by itself: `joint` must not mind what it did of them already.
        `is_row`: it writes a row and no more, as many of them as `PIECES` says in one statement.
        """
        self._process.check()  # before the lock: a thread of the parent may have held it
        operation: QueuedWork[Any] = QueuedWork(None, then, joint=joint, item=item, is_row=is_row)
        with self._lock:
            self._check_open()
            coming = self._coming.setdefault(operation.loop, [])
            coming.append(operation)
        if len(coming) == 1:
            operation.loop.call_soon(self._hand_over, operation.loop)
        return operation.future

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        """What came in one turn of an event loop, together: a thread that is woken at the first waits for the rest."""
        with self._lock:
            self._enqueue(self._coming.pop(loop, ()))

    def _put(self, operation: QueuedWork[T]) -> asyncio.Future[T]:
        self._process.check()
        with self._lock:
            self._check_open()
            self._enqueue((operation,))
        return operation.future

    def _check_open(self) -> None:
        if self._closing.is_set():
            raise StoreUnavailable("the store is closed")

    def _enqueue(self, operations: Iterable[QueuedWork[Any]]) -> None:
        for operation in operations:
            self._queue.put(operation)
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="wakeful-writer", daemon=True)
            self._thread.start()
        if self._queue.qsize() >= self._wanted:
            self._enough.set()

    def close(self) -> None:
        """Finish what is queued, checkpoint, and end the thread. Blocks."""
        if self._process.is_forked:
            return  # the connection is the parent's
        with self._lock:
            if not self._closing.is_set():
                for operations in self._coming.values():
                    self._enqueue(operations)
                self._coming.clear()
                self._closing.set()
                self._queue.put(None)
        if self._thread is not None:
            self._thread.join()

    def _serve(self) -> None:
        while (operation := self._take()) is not None:
            began = stopwatch()
            if operation.alone:
                self._run_alone(operation)
            elif operation.lax and self._queue.empty():
                self._run_lax(operation)
            elif operation.is_row and not self._is_slow and self._queue.qsize() + 1 >= _CROWD:
                self._run_crowd(operation)
            else:
                if self._crowd > 1:
                    self._gather()
                self._run_together([operation])
            took = stopwatch() - began
            self._is_slow = took > _SLOW
            # Others poll for the lock; without a gap we would take it again before they look.
            if took > _FULL / 2 and not self._queue.empty():
                self._closing.wait(_GAP)
        if self._db is not None:
            with contextlib.suppress(apsw.Error):
                self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            self._forget_connection()

    def _gather(self) -> None:
        """Wait until half of a crowd is there, or no more come: they share one commit while the others get ready."""
        seen = -1
        self._wanted = self._crowd // 2
        while seen < (waiting := self._queue.qsize()) < self._wanted:
            seen = waiting
            self._enough.clear()
            self._enough.wait(_GATHER)
        self._wanted = _NOBODY

    def _take(self) -> QueuedWork[Any] | None:
        if (operation := self._held_back) is not None:
            self._held_back = None
            return operation
        return self._queue.get()

    def _another(self) -> QueuedWork[Any] | None:
        """One more that is waiting and may share the transaction."""
        try:
            operation = self._queue.get_nowait()
        except Empty:
            return None
        if operation is None:
            self._queue.put(None)  # the end: nothing can follow it
            return None
        if operation.alone:
            self._held_back = operation
            return None
        return operation

    def _run_alone(self, operation: QueuedWork[Any]) -> None:
        try:
            answer: Answer = (operation, operation.done_by(self._connection()), None)
            self._check_file()
        except Exception as error:
            self._give_up(error)
            answer = (operation, None, error)
        self._tell([answer])

    def _run_lax(self, operation: QueuedWork[Any]) -> None:
        """A transaction of its own that is not synced. The next one that is syncs the whole log, this included."""
        try:
            db = self._connection()
            sync_commits(db, False)
            db.execute("begin immediate")
            answer: Answer = (operation, operation.done_by(db), None)
            db.execute("commit")
            sync_commits(db, True)
            self.commits += 1
            self._check_file()
        except StoreUnavailable as error:  # the file is away, and no transaction open: the connection keeps its inode
            answer = (operation, None, error)
        except Exception as error:
            self._forget_connection()  # and with it the transaction: the next connection syncs again
            answer = (operation, None, error)
        self._tell([answer])

    def _run_crowd(self, first: QueuedWork[Any]) -> None:
        """Half of a crowd by one statement: that is a transaction by itself, without the interpreter's lock.

        The others get ready meanwhile. With more than one statement we would wait in between until all of them are.
        """
        wanted = next(size for size in PIECES if size <= max(_CROWD, self._queue.qsize() // 2))
        taken = [first]
        while is_alike(taken[-1], first) and len(taken) < wanted and (another := self._another()) is not None:
            taken.append(another)
        if len(taken) < wanted or not all(is_alike(one, first) and not one.future.cancelled() for one in taken):
            return self._run_together(taken)
        assert first.joint is not None
        try:
            # Looked at just now, after the other half: every system call lets the event loop have the interpreter.
            db = self._db if self._db is not None and stopwatch() - self._seen < _JUST_NOW else self._connection()
            results = first.joint(db, [operation.item for operation in taken])
            self.commits += 1
            self._check_file()
        except Exception as error:
            return self._fail(taken, error)
        return self._tell([(operation, result, None) for operation, result in zip(taken, results, strict=True)])

    def _run_together(self, taken: list[QueuedWork[Any]]) -> None:
        """One transaction for whatever waits. Where one of them has SQLite take it all back, each has its own.

        `taken`: from the queue, and not answered yet.
        """
        answers: list[Answer] = []
        try:
            db = self._connection()
            # Immediate: a deferred transaction that turns to writing fails instead of waiting.
            db.execute("begin immediate")
            began, crowd = stopwatch(), 0
            while taken:
                size = self._grouped(taken)
                crowd = max(crowd, size)
                answers += self._attempt_jointly(db, taken[:size])
                del taken[:size]
                if taken and stopwatch() - began >= _FULL:
                    self._held_back = taken.pop()
            self._check_file()  # it may have gone since: what came after that is not written to a file that is away
            db.execute("commit")
            self.commits += 1
            self._crowd = crowd + self._queue.qsize() if crowd > 1 else 0
            self._check_file()  # before anybody hears that it was written
        except Exception as error:
            return self._fail([answer[0] for answer in answers] + taken, error)
        return self._tell(answers)

    def _fail(self, waited: list[QueuedWork[Any]], error: Exception) -> None:
        """Of what was to be one transaction each has its own, unless the error would be the same."""
        self._give_up(error)
        if isinstance(error, apsw.BusyError):
            waited += self._everyone()  # they waited as well: not five more seconds for each
        elif len(waited) > 1 and not isinstance(error, StoreUnavailable):
            return self._run_one_by_one(waited)
        return self._tell([(failed, None, error) for failed in waited])

    def _run_one_by_one(self, operations: list[QueuedWork[Any]]) -> None:
        """A transaction for each: one of them broke the one they shared, and the others are not to blame."""
        stuck: Exception | None = None
        for operation in operations:
            try:
                if stuck is not None:
                    raise stuck
                db = self._connection()
                db.execute("begin immediate")
                answer = self._attempt(db, operation)
                db.execute("commit")
                self.commits += 1
                self._check_file()
            except Exception as error:
                self._give_up(error)
                answer = (operation, None, error)
                stuck = error if isinstance(error, apsw.BusyError | StoreUnavailable) else None
            self._tell([answer])

    def _grouped(self, taken: list[QueuedWork[Any]]) -> int:
        """How many operations can be done in one go. More are taken for it: the last may be one that cannot."""
        joint = taken[0].joint
        while True:
            if len(taken) > 1 and (joint is None or taken[-1].joint is not joint or len(taken) > _JOINT):
                return len(taken) - 1
            if (another := self._another()) is None:
                return len(taken)
            taken.append(another)

    def _attempt_jointly(self, db: apsw.Connection, group: list[QueuedWork[Any]]) -> list[Answer]:
        joint, wanted = group[0].joint, [operation for operation in group if not operation.future.cancelled()]
        if joint is not None and len(wanted) > 1:
            try:
                results = joint(db, [operation.item for operation in wanted])
            except Exception:
                if not db.in_transaction:
                    raise  # SQLite took the whole transaction back
            else:
                return [(operation, result, None) for operation, result in zip(wanted, results, strict=True)]
        return [self._attempt(db, operation) for operation in wanted]

    def _attempt(self, db: apsw.Connection, operation: QueuedWork[Any]) -> Answer:
        if operation.future.cancelled():
            return operation, None, None
        try:
            with contextlib.nullcontext() if operation.careful else db:  # a savepoint
                result = operation.done_by(db)
        except Exception as error:
            if not db.in_transaction:
                raise  # SQLite took the whole transaction back
            return operation, None, error
        return operation, result, None

    def _everyone(self) -> Iterable[QueuedWork[Any]]:
        while (operation := self._another()) is not None:
            yield operation

    def _check_file(self) -> None:
        """StoreUnavailable where the file's name leads elsewhere by now."""
        try:
            self._original.check()
        except StoreUnavailable:
            self._empty_log()
            self._seen = -_JUST_NOW
            raise
        self._emptied = False
        self._seen = stopwatch()

    def _empty_log(self) -> None:
        """Move what the log holds into the file, wherever that is now.

        The log stays under its name: it would be read into whatever is put in the file's place.
        """
        if self._db is not None and not self._emptied:
            with contextlib.suppress(apsw.Error):
                self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                self._emptied = True

    def _connection(self) -> apsw.Connection:
        self._check_file()
        if self._db is None:
            db = open_writer(self._path)
            try:
                self._original.remember()
            except BaseException:
                db.close(force=True)
                raise
            self._db = db
        return self._db

    def _give_up(self, error: Exception) -> None:
        """Leave no transaction behind.

        The next one gets a new connection, unless somebody was merely in the way, or the file is away: then this one
        keeps its inode.
        """
        if self._db is None:
            return
        with contextlib.suppress(apsw.Error):
            if self._db.in_transaction:
                self._db.execute("rollback")
        if self._db.in_transaction or not isinstance(error, apsw.BusyError | StoreUnavailable):
            self._forget_connection()

    def _forget_connection(self) -> None:
        if self._db is not None:
            with contextlib.suppress(apsw.Error):
                self._db.close(force=True)
            self._db = None

    def _tell(self, answers: list[Answer]) -> None:
        """One message per loop and transaction, not per operation."""
        loops: dict[asyncio.AbstractEventLoop, list[Answer]] = {}
        for operation, result, error in answers:
            meaning = None if error is None else describe(error, self._path)
            loops.setdefault(operation.loop, []).append((operation, result, meaning))
        for loop, some in loops.items():
            with contextlib.suppress(RuntimeError):  # its loop is gone, and with it whoever asked
                loop.call_soon_threadsafe(resolve, some)
