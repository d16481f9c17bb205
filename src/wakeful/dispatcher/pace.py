"""When this process delivered the alarms that come again and again, as far as it matters (alarm/pace.py)."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta
from typing import Final

from wakeful.alarm import Alarm
from wakeful.alarm.pace import too_soon

_NO_TIME: Final = timedelta(0)
ALARMS: Final = 20_000  # remembered at once; beyond that those forgotten are the ones delivered longest ago


class Pace:
    def __init__(self, most: int) -> None:
        self.most = most
        self._delivered: dict[str, deque[datetime]] = {}

    def wait(self, alarm: Alarm, now: datetime) -> timedelta:
        """How long this alarm is to wait before it is delivered once more; nothing: it may go."""
        times = self._delivered.get(alarm.id)
        return _NO_TIME if times is None else too_soon(times, self.most, now=now)

    def begun(self, alarm: Alarm, now: datetime) -> None:
        """It is being delivered. An alarm in its first claim is in no loop: a drain of many costs nothing here."""
        if alarm.claim <= 1:
            return
        times = self._delivered.pop(alarm.id, None)  # and put in again at the end: the first is the longest ago
        self._delivered[alarm.id] = times = deque(maxlen=self.most) if times is None else times
        times.append(now)
        if len(self._delivered) > ALARMS:
            del self._delivered[next(iter(self._delivered))]
