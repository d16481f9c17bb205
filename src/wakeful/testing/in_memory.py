"""Alarms in memory, for tests: no file, no thread of a database, and time that passes when the test says so."""

from __future__ import annotations

from typing import Unpack

from wakeful.app import build
from wakeful.client import Wakeful
from wakeful.clock import Clock, SystemClock
from wakeful.config import load
from wakeful.keywords import OpenKeywords
from wakeful.store.memory import MemoryStore
from wakeful.store.memory.database import MemoryDatabase


def open_in_memory(
    database: MemoryDatabase | None = None,
    *,
    owner: str | None = None,
    clock: Clock | None = None,
    **settings: Unpack[OpenKeywords],
) -> Wakeful:
    """As `wakeful.open`, on a database in memory: a new one, or one that others have open or had open before.

    >>> async with open_in_memory(owner="ada", clock=ManualClock()) as alarms:
    ...     alarm = await alarms.set("tomorrow at 9am", "Check the grant portal")
    """
    loaded = load(flags={"db": ":memory:", "owner": owner, **settings})
    here = MemoryDatabase() if database is None else database
    store = MemoryStore(here, clock=clock or SystemClock(), tick=loaded.tick)
    return build(loaded, clock=clock, store=store)
