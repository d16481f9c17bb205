"""The exceptions that wakeful raises.

WakefulError
├── InvalidRequest        the caller's input; names the field and what is accepted
│   ├── InvalidSchedule   a time, phrase or cron expression that was not understood
│   ├── UnknownTarget     no such target is configured and no process serves a handler of that name
│   └── InvalidConfig     a setting; names the file and the accepted values
├── NotFound              no such alarm or fire (or it belongs to someone else: the answer is the same)
├── Conflict              it exists, but not in the state that the request assumes
│   └── StaleVersion      the alarm was changed since the caller read it
├── Unauthorized          no token, or one that is unknown, expired or revoked
├── Forbidden             the token is valid, but not for this
├── TooMany               a limit that protects others; says how long to wait, if waiting helps
└── StoreUnavailable      the database did not answer; nothing is known to have been written
    └── StoreBusy         it answered, but a row was locked for too long

A failed delivery is never an exception: it is an Outcome.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any


class WakefulError(Exception):
    """Every error wakeful raises on purpose. `code` is stable and documented in docs/reference/errors.md."""

    code = "error"

    def __init__(self, message: str, *, field: str = "", fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.fix = fix
        self.repair: dict[str, Any] = {}  # the caller's own request with these fields so (None: without) is accepted

    def __str__(self) -> str:
        """Return the error in sentences: where, what, and what to do instead."""
        where = f"{self.field}: " if self.field else ""
        then = f" {self.fix}" if self.fix else ""
        return f"{where}{self.message.rstrip('.')}.{then}"


class InvalidRequest(WakefulError):
    code = "invalid_request"


class InvalidSchedule(InvalidRequest):
    code = "invalid_schedule"
    meant: tuple[str, ...] = ()  # other ways to say what was meant, each of which is understood


class UnknownTarget(InvalidRequest):
    code = "unknown_target"


class InvalidConfig(InvalidRequest):
    code = "invalid_config"


class NotFound(WakefulError):
    code = "not_found"


class Conflict(WakefulError):
    code = "conflict"


class StaleVersion(Conflict):
    code = "stale_version"


class Unauthorized(WakefulError):
    code = "unauthorized"


class Forbidden(WakefulError):
    code = "forbidden"


class TooMany(WakefulError):
    """A limit was reached. `retry_after`: seconds until the request may succeed; None if waiting does not help."""

    code = "too_many"

    def __init__(self, message: str, *, field: str = "", fix: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, field=field, fix=fix)
        self.retry_after = retry_after


class StoreUnavailable(WakefulError):
    """The database cannot be used. `passing`: whether waiting may help; not with a wrong password or a missing file.

    `by_machine`: whether its machine failed, whatever was asked of it: no room, no memory, no descriptor, a bad disk.
    """

    code = "store_unavailable"

    def __init__(
        self, message: str, *, field: str = "", fix: str = "", passing: bool = True, by_machine: bool = False
    ) -> None:
        super().__init__(message, field=field, fix=fix)
        self.passing = passing
        self.by_machine = by_machine


class OneProcess:
    """Threads, connections and the event loop of a process do not survive a fork.

    Whoever uses what its parent process has opened is told so at once: a call would wait for ever, or speak on the
    parent's connection.
    """

    def __init__(self) -> None:
        self._pid = 0  # of the process that used it first

    @property
    def is_forked(self) -> bool:
        return self._pid not in (0, os.getpid())

    def check(self) -> None:
        here = os.getpid()
        if self._pid not in (0, here):
            raise StoreUnavailable(
                f"this database was opened by process {self._pid}, and this is process {here}, forked from it",
                fix="Open it in the process that uses it, after the fork: wakeful.open or wakeful.open_sync in the"
                " child, with gunicorn in post_fork or without --preload.",
                passing=False,
            )
        self._pid = here


class StoreBusy(StoreUnavailable):
    code = "store_busy"


def nearest(name: str, known: Iterable[str]) -> str:
    """`Did you mean …?`, or nothing where none is like it."""
    import difflib

    found = difflib.get_close_matches(name.lower(), {one.lower(): one for one in known}, n=1, cutoff=0.6)
    return next((f"Did you mean {one}?" for one in known if found and one.lower() == found[0]), "")
