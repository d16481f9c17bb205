"""What is read for an answer has a weight: rows that do not fit are never in memory, and the answer says so."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Literal

import pytest

from tests.acting import acting
from wakeful.http.websocket import AlarmMethods, RpcDispatcher
from wakeful.ids import Ids
from wakeful.model.alarm import Alarm, Fire
from wakeful.service import Service
from wakeful.service.inbox import HANDED_OUT
from wakeful.service.live import Live
from wakeful.store import Store
from wakeful.testing import ManualClock
from wakeful.testing.conformance.making import MS, a_fire, added, an_alarm, an_event, change, settled

from .world import waking

MB = 1_000_000
MANY = 30
STATE = '"' + "x" * (MB - 2) + '"'
BUDGET = 4 * MB
ids = Ids()


class Weighed:
    peak = 0


@contextmanager
def weighed() -> Iterator[Weighed]:
    """The most memory that was taken inside, beyond what there was."""
    found = Weighed()
    tracemalloc.start()
    try:
        yield found
        found.peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture
def service(store: Store, clock: ManualClock) -> Service:
    return waking(store, clock, owner="ada").service


async def heavy(store: Store, clock: ManualClock, **given: object) -> list[Alarm]:
    """Alarms of 1 MB each, all but one of them in the payload."""
    made = [an_alarm(clock, id=ids.new(clock.now()), due=n + 1, payload_json=STATE, **given) for n in range(MANY)]
    for alarm in made:
        await added(store, alarm)
    return made


async def with_fires(store: Store, alarms: list[Alarm], **given: object) -> list[Fire]:
    fires = [a_fire(alarm, **given) for alarm in alarms]
    for alarm, fire in zip(alarms, fires, strict=True):
        assert await settled(store, change(alarm, fire)) == ["applied"]
    return fires


async def test_the_agenda_ends_at_its_weight(store: Store, clock: ManualClock, service: Service) -> None:
    alarms = await heavy(store, clock)
    with weighed() as memory:
        found = await acting(service, "ada").agenda(limit=500, most=BUDGET)
    assert [alarm.id for _, alarm in found] == [alarm.id for alarm in alarms[:4]]
    assert found.further is not None
    assert memory.peak < 5 * BUDGET
    assert len(await acting(service, "ada").agenda(limit=500)) == MANY  # who sets no weight gets all


async def test_an_alarm_weighs_as_often_as_it_is_told(store: Store, clock: ManualClock, service: Service) -> None:
    often = an_alarm(clock, kind="cron", cron_expr="* * * * *", fire_at=None, payload_json=STATE)
    await added(store, often)
    found = await acting(service, "ada").agenda(hours=24, limit=500, most=BUDGET)
    assert (len(found), found.further is None) == (4, False)


async def test_what_comes_behind_an_alarm_that_did_not_fit_is_not_told(
    store: Store, clock: ManualClock, service: Service
) -> None:
    start = clock.now()
    minutely = an_alarm(clock, due=60, kind="cron", cron_expr="* * * * *", fire_at=None)
    await added(store, minutely, an_alarm(clock, due=150, payload_json=STATE), an_alarm(clock, due=200))
    found = await acting(service, "ada").agenda(hours=1, limit=500, most=MB)
    assert [(at - start).total_seconds() for at, _ in found] == [60, 120, 150]
    assert found.further is not None


@pytest.mark.parametrize("status", ["", "pending"])
async def test_history_does_not_read_what_it_does_not_tell(
    status: Literal["", "pending"], store: Store, clock: ManualClock, service: Service
) -> None:
    await heavy(store, clock)
    with weighed() as memory:
        found = await acting(service, "ada").history(status=status, limit=500, most=BUDGET)
    assert (len(found), found.further) == (MANY, None)  # a payload is no part of it
    assert memory.peak < 4 * BUDGET


@pytest.mark.parametrize("verb", ["history", "failed"])
async def test_a_history_of_fires_ends_at_its_weight(
    verb: str, store: Store, clock: ManualClock, service: Service
) -> None:
    alarms = await heavy(store, clock, wake_message="m" * MB, status="failed")
    await with_fires(store, alarms, status="failed")
    with weighed() as memory:
        found = await getattr(acting(service, "ada"), verb)(limit=500, most=BUDGET)
    assert [entry.alarm_id for entry in found] == [alarm.id for alarm in reversed(alarms)][:4]
    assert found.further is not None
    assert memory.peak < 3 * BUDGET  # of their alarms nothing is read that is not told


async def test_a_history_of_two_kinds_goes_back_only_as_far_as_both_do(
    store: Store, clock: ManualClock, service: Service
) -> None:
    fired = []
    for n in range(8):
        alarm = an_alarm(clock, status="fired", wake_message="m" * 1000 if n % 2 else "s")
        await added(store, alarm, an_alarm(clock, due=99, label=str(n)))
        await with_fires(store, [alarm])
        fired.append(alarm.id)
        await clock.advance(1)
    found = await acting(service, "ada").history(limit=500, most=2500)
    told = [entry.alarm_id for entry in found if entry.status == "delivered"]
    assert told == fired[: len(fired) - len(told) - 1 : -1]
    assert len(told) < 8
    pending = [int(entry.label) for entry in found if entry.status == "pending"]
    assert pending == list(range(7, 7 - len(pending), -1))
    assert abs(len(pending) - len(told)) <= 1
    assert found.further is not None


async def test_the_inbox_hands_out_what_fits_and_keeps_the_rest(
    store: Store, clock: ManualClock, service: Service
) -> None:
    alarms = await heavy(store, clock, target="inbox", status="fired")
    fires = await with_fires(store, alarms, status="waiting")
    taken: list[str] = []
    peaks: list[int] = []
    while len(taken) < MANY:
        with weighed() as memory:
            found = await acting(service, "ada").inbox(limit=100)
        assert 0 < len(found) <= HANDED_OUT // MB + 1
        peaks.append(memory.peak)
        taken += [one.fire.id for one in found]
    assert taken == [fire.id for fire in fires]
    assert max(peaks) < 5 * HANDED_OUT


async def test_why_reads_no_more_than_it_needs(store: Store, clock: ManualClock, service: Service) -> None:
    alarm = an_alarm(clock, due=60)
    await added(store, alarm)
    long = [a_fire(alarm, scheduled_for=clock.now() + n * MS, result="r" * MB, status="completed") for n in range(10)]
    events = [an_event(alarm, "updated", reason="e" * MB) for _ in range(20)]
    assert await settled(store, change(alarm, *long, events=events)) == ["applied"]
    with weighed() as memory:
        why = await acting(service, "ada", limited=True).why(alarm.id)
    assert sum(map(len, why.facts)) < 2 * MB
    assert memory.peak < 12 * MB


async def test_who_follows_along_reads_no_long_words(store: Store, clock: ManualClock) -> None:
    live = Live(store, clock, timedelta(seconds=1))
    async with live.subscribed("ada"):
        alarms = await heavy(store, clock, status="fired")
        await with_fires(store, alarms, status="failed", result="r" * MB, last_error="e" * MB)
        with weighed() as memory:
            told = await live._page()
    assert len(told) == 3 * MANY  # created, fired and failed
    assert memory.peak < 2 * MB


async def test_the_sockets_lists_end_before_they_are_read(store: Store, clock: ManualClock) -> None:
    clocked = waking(store, clock, owner="ada")
    alarms = await heavy(store, clock, wake_message="m" * MB)
    await with_fires(store, alarms[:15], status="failed")
    desk = RpcDispatcher(AlarmMethods(clocked).methods())
    for method in ("list", "history", "failed"):
        with weighed() as memory:
            answer = await desk.answer(f'{{"jsonrpc": "2.0", "method": "{method}", "id": 1}}')
        assert b"smaller limit" in (answer or b""), method
        assert memory.peak < 15 * BUDGET, method
