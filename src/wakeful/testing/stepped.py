"""A clock for plain tests: every verb without await, and time that passes when the test says so."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import Any

from wakeful.app import open as open_clock
from wakeful.schedule import duration
from wakeful.sync import SyncWakeful
from wakeful.testing.clock import NEW_YEAR, ManualClock


class SteppedWakeful(SyncWakeful):
    """`wakeful.open_sync` on a manual clock, with a dispatcher: what falls due while time passes is delivered."""

    def __init__(self, db: str | os.PathLike[str], *, now: datetime = NEW_YEAR, **settings: Any) -> None:
        self.time = ManualClock(now)
        # A dispatcher looks around once a tick: with the usual second, a day would be 86,400 steps.
        given = {"tick": "5m", "lease": "15m", **settings}
        super().__init__(lambda: open_clock(db, clock=self.time, **given), background=True)

    @property
    def now(self) -> datetime:
        return self.time.now()

    def advance(self, by: timedelta | float | str) -> None:
        """Let time pass: a timedelta, seconds, or text such as "9h". When this returns, what fell due is delivered."""
        length = by if isinstance(by, timedelta) else duration(by)
        self.wait(self.time.advance(length))
