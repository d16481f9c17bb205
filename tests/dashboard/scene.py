"""A database to be looked at: some agents' alarms on a Wednesday morning, and what they did in the days before.

The same at every start, by a clock that stands still: a picture of it can be made again.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from msgspec import Struct

from wakeful.clock import SystemClock
from wakeful.dispatcher import ServedTarget
from wakeful.model.alarm import Alarm, Attempt, Fire
from wakeful.model.outcome import Completed, Outcome
from wakeful.process.application import LocalWakeful, build
from wakeful.rules.plan import coming
from wakeful.rules.wake import Wake
from wakeful.settings import Settings
from wakeful.testing import store_of, targets_of
from wakeful.testing.conformance.making import a_fire, added, an_alarm, change, settled

ZONE: Final = "Europe/Berlin"
NOW: Final = datetime(2026, 11, 18, 8, 41, 12, tzinfo=UTC)
BEGUN: Final = NOW - timedelta(days=9, hours=3)
MS: Final = timedelta(milliseconds=1)
BATCH: Final = 1000


class StoppedClock(SystemClock):
    """Shows one moment for as long as a picture takes; what waits goes on waiting by the machine's clock."""

    def __init__(self, at: datetime = NOW) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at


class Receiver:
    async def deliver(self, wake: Wake) -> Outcome:
        return Completed("done")

    async def close(self) -> None: ...


class Series(Struct, frozen=True):
    when: str
    label: str
    target: str
    message: str
    result: str
    failing: tuple[int, ...] = ()  # which of its fires failed, counted back from the latest
    retried: tuple[int, ...] = ()  # which went out at the second attempt
    error: str = ""


SERIES: Final = (
    Series(
        "every weekday at 9am",
        "morning brief",
        "assistant",
        "Morning brief: what is new in the inbox, what is due today, and who waits. Ada reads it at 9:15.",
        "sent, 6 items",
        retried=(1,),
        error="HTTP 502: bad gateway",
    ),
    Series(
        "every 4 hours",
        "grant portal",
        "research",
        "Check the grant portal for a decision on EU-4471. If there is one, tell Ada and cancel this alarm.",
        "no decision yet",
        failing=(19, 20),
        retried=(3, 27),
        error="timeout after 30 s",
    ),
    Series("every day at 18:30", "evening summary", "assistant", "Summarise the day for Ada.", "sent"),
    Series("every monday at 8am", "week plan", "assistant", "Plan the week with Ada's calendar.", "12 entries"),
    Series(
        "every 30 minutes", "build watch", "ci", "Is the nightly build still red?", "green", failing=(163, 164, 165)
    ),
    Series(
        "every 2 hours",
        "ticket triage",
        "support",
        "Sort new tickets by urgency and answer those that a reply from the handbook settles.",
        "sorted",
        retried=(4, 11),
        error="HTTP 429: slow down",
    ),
    Series(
        "every day at 9:30am",
        "invoice chase",
        "mail",
        "Remind customers whose invoice is two weeks overdue.",
        "3 reminders sent",
        failing=(0,),
        error="HTTP 503: mailbox is over quota",
    ),
)


def serve_targets(served: LocalWakeful) -> None:
    targets_of(served).pop("agent", None)
    targets_of(served).update(served_targets(("assistant", "research", "ci", "support", "mail", "ops")))


def served_targets(names: Iterable[str]) -> dict[str, ServedTarget]:
    return {name: ServedTarget(Receiver(), 8) for name in names}


async def fill(db: str, clock: StoppedClock) -> str:
    """Write it before anybody dispatches; the address of the alarm that has most to show."""
    async with build(Settings(db=db), clock=clock) as served:
        serve_targets(served)
        return await _fill(served, clock)


async def _fill(served: LocalWakeful, clock: StoppedClock) -> str:
    shown = ""
    for number, one in enumerate(SERIES):
        clock.at = BEGUN + number * timedelta(minutes=17)
        made = await served.set(one.when, one.message, label=one.label, target=one.target, timezone=ZONE)
        found = await store_of(served).get(made.id)
        assert found is not None
        clock.at = NOW
        await _write_history(served, found, one)
        shown = f"/alarms/{made.id}" if one.label == "grant portal" else shown
        if one.label == "week plan":
            await served.pause(made.id, reason="Ada is away until the 30th")
    await served.set(at=NOW + timedelta(minutes=19), wake_message="Join the call with the auditors", target="assistant")
    await served.set(
        at=NOW + timedelta(days=2, hours=5),
        wake_message="Renew the certificate of example.org",
        target="ops",
        label="certificate",
    )
    await _write_failures(served, clock)
    return shown


async def _write_history(served: LocalWakeful, alarm: Alarm, series: Series) -> None:
    due = []
    for at in coming(alarm):
        if at > NOW:
            break
        due.append(at)
    chance = random.Random(series.label)
    fires = [_fire(alarm, moment, series, len(due) - 1 - number, chance) for number, moment in enumerate(due)]
    failed = next((back for back in range(len(fires)) if back not in series.failing), len(fires))
    after: dict[str, Any] = {"occurrence_at": at, "next_fire_at": at, "fire_count": len(fires), "updated_at": NOW}
    after["failed_in_a_row"] = failed
    await settled(store_of(served), change(alarm, *fires, **after))


def _fire(alarm: Alarm, due: datetime, series: Series, back: int, chance: random.Random) -> Fire:
    late = (3 + chance.randrange(24)) * MS
    log = list(_log(due + late, series, back, chance))
    last = log[-1]
    ended = last.at + last.ms * MS
    given: dict[str, Any] = {"scheduled_for": due, "started_at": log[0].at, "log": tuple(log), "attempts": len(log)}
    if back in series.failing:
        return a_fire(alarm, **given, status="failed", last_error=last.said, failures=len(log), updated_at=ended)
    reported = ended + (900 + chance.randrange(9000)) * MS
    given |= {"status": "completed", "delivered_at": ended, "completed_at": reported, "duration_ms": last.ms}
    return a_fire(alarm, **given, result=series.result, updated_at=reported)


def _log(begun: datetime, series: Series, back: int, chance: random.Random) -> Iterator[Attempt]:
    error = series.error or "HTTP 500"
    wrong = 3 if back in series.failing else 1 if back in series.retried else 0
    for number in range(wrong):
        yield Attempt(at=begun, ms=180 + chance.randrange(900), said=error)
        begun += timedelta(seconds=2 * 2**number)
    if back not in series.failing:
        yield Attempt(at=begun, ms=40 + chance.randrange(160), said="HTTP 202")


async def _write_failures(served: LocalWakeful, clock: StoppedClock) -> None:
    """What needs somebody: one that gave up, one that is tried again, one that nobody reported on."""
    store = store_of(served)
    for label, message, target, minutes, status, error in (
        (
            "board report",
            "Send the quarterly report to the board",
            "mail",
            26,
            "failed",
            "HTTP 503: mailbox is over quota",
        ),
        ("", "Ping the vendor about the open ticket", "support", 95, "timed_out", ""),
    ):
        due = NOW - timedelta(minutes=minutes)
        alarm = an_alarm(
            clock,
            owner_did="local",
            label=label,
            wake_message=message,
            target=target,
            status="failed",
            occurrence_at=due,
            created_at=NOW - timedelta(days=1),
            created_by="ada",
            created_via="mcp",
            last_error=error,
        )
        await added(store, alarm)
        log = tuple(
            Attempt(at=due + timedelta(seconds=4 * n) + 9 * MS, ms=310 + 40 * n, said=error or "HTTP 202")
            for n in range(3 if error else 1)
        )
        given: dict[str, Any] = {"started_at": log[0].at, "log": log, "attempts": len(log), "updated_at": log[-1].at}
        if not error:
            given |= {"delivered_at": log[-1].at, "report_by": due + timedelta(minutes=15)}
        await settled(store, change(alarm, a_fire(alarm, status=status, last_error=error, **given)))


async def fill_up(db: str, clock: StoppedClock, count: int) -> str:
    """As many alarms over the day ahead; one in ten has fired in the hours before, and one in 500 failed."""
    async with build(Settings(db=db), clock=clock) as served:
        store = store_of(served)
        for first in range(0, count, BATCH):
            alarms = [_one_of_many(clock, number) for number in range(first, min(first + BATCH, count))]
            await store.add(alarms)
            fired = [
                change(alarm, _fired_before(alarm, number)) for number, alarm in enumerate(alarms) if number % 10 == 0
            ]
            await settled(store, *fired)
    return f"/alarms/{alarms[0].id}"


def _one_of_many(clock: StoppedClock, number: int) -> Alarm:
    due: dict[str, Any] = {"due": 3600 + number * 7919 % 82_000, "created_at": NOW - timedelta(seconds=number)}
    texts: dict[str, Any] = {
        "label": f"customer {number}",
        "wake_message": "Ask whether the order has arrived",
        "target": f"agent-{number % 20}",
    }
    return an_alarm(clock, owner_did="local", **due, **texts)


def _fired_before(alarm: Alarm, number: int) -> Fire:
    due = NOW - timedelta(seconds=60 + int(alarm.id[-6:], 16) * 5 % 90_000)
    given: dict[str, Any] = {
        "scheduled_for": due,
        "started_at": due + 12 * MS,
        "attempts": 1,
        "updated_at": due + 80 * MS,
    }
    if number % 500 == 0:
        return a_fire(alarm, **given, status="failed", last_error="HTTP 500")
    return a_fire(alarm, **given, status="completed", result="arrived", completed_at=due + 80 * MS, duration_ms=68)
