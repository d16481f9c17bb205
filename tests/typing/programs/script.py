"""A plain script: set, look, change, without `await`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, time, timedelta

import wakeful


def main(file: str) -> list[str]:
    with wakeful.open_sync(file, owner="ada", timezone="Europe/Berlin", lease="5m") as alarms:
        once: wakeful.Alarm = alarms.set(timedelta(hours=1), "Stretch", payload={"minutes": 5}, key="stretch")
        daily = alarms.set("every day at 9am", "Read the news", policy={"catch_up": "skip", "max_fires": 10})
        alarms.set(time(17, 30), "Go home")
        alarms.set(datetime(2099, 1, 1, tzinfo=UTC), "A new year")
        changed: wakeful.Changed = alarms.update(once.id, delay=timedelta(minutes=30), label="body")
        alarms.update(daily.id, policy=wakeful.Policy(max_fires=5), version=daily.version)
        found: wakeful.Matches[wakeful.Alarm] = alarms.find(status="active", kind="once")
        stats: wakeful.Stats = alarms.stats()
        why: wakeful.Why = alarms.why(daily.id)
        history: list[wakeful.HistoryEntry] = alarms.history(status="pending")
        lines = [f"{alarm.label or alarm.wake_message}: {alarm.next_fire_at:%H:%M}" for alarm in found]
        minutes: int = changed.alarm.payload["minutes"]
        alarms.cancel(once.id)
        return [*lines, f"{stats.pending} pending, {len(history)} told, {minutes} minutes", why.summary]


if __name__ == "__main__":
    for line in main(sys.argv[1]):
        sys.stdout.write(f"{line}\n")
