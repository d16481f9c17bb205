"""Alarms for tests: in memory or without await, on time that the test moves; and what lies behind them."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import Any, Unpack

from wakeful.clock import Clock, SystemClock
from wakeful.dispatcher import ServedTarget
from wakeful.model.keywords import OpenKeywords
from wakeful.process.application import build
from wakeful.process.application import open as open_clock
from wakeful.python.client import LocalWakeful
from wakeful.python.program import Wakeful
from wakeful.python.sync import SyncWakeful
from wakeful.schedule import duration
from wakeful.settings import load
from wakeful.store import Store
from wakeful.store.memory import MemoryStore
from wakeful.store.memory.database import MemoryDatabase
from wakeful.testing.manual_clock import NEW_YEAR, ManualClock


def open_in_memory(
    database: MemoryDatabase | None = None,
    *,
    owner: str | None = None,
    clock: Clock | None = None,
    **settings: Unpack[OpenKeywords],
) -> LocalWakeful:
    """As `wakeful.open`, on a database in memory: a new one, or one that others have open or had open before.

    >>> async with open_in_memory(owner="ada", clock=ManualClock()) as alarms:
    ...     alarm = await alarms.set("tomorrow at 9am", "Check the grant portal")
    """
    loaded = load(flags={"db": ":memory:", "owner": owner, **settings})
    here = MemoryDatabase() if database is None else database
    store = MemoryStore(here, clock=clock or SystemClock(), tick=loaded.tick)
    return build(loaded, clock=clock, store=store)


def store_of(alarms: Wakeful) -> Store:
    """Where it keeps its alarms: rows as they are, whoever they belong to, and a way to write what no verb would."""
    return _local(alarms)._store


def targets_of(alarms: Wakeful) -> dict[str, ServedTarget]:
    """The targets it serves by name; one that is put in is served from then on, as if it were configured."""
    return _local(alarms)._served


def _local(alarms: Wakeful) -> LocalWakeful:
    if not isinstance(alarms, LocalWakeful):
        raise TypeError("these alarms are on a server, which shows neither its store nor its targets")
    return alarms


class SteppedWakeful(SyncWakeful):
    """`wakeful.open_sync` on a manual clock, with a dispatcher: what falls due while time passes is delivered."""

    def __init__(self, db: str | os.PathLike[str], *, now: datetime = NEW_YEAR, **settings: Any) -> None:
        self.time = ManualClock(now)
        # A dispatcher looks around once a tick: with the usual second, a day would be 86,400 steps.
        given = {"tick": "5m", "lease": "15m", **settings}
        super().__init__(lambda: open_clock(db, clock=self.time, **given), background=True)

    def advance(self, by: timedelta | float | str) -> None:
        """Let time pass: a timedelta, seconds, or text such as "9h". When this returns, what fell due is delivered."""
        length = by if isinstance(by, timedelta) else duration(by)
        self.wait(self.time.advance(length))
