"""Those who follow along take turns: few at a time, each in its order, none for ever."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from wakeful.service.live import AT_ONCE, QUEUE, LiveEvent, LoopShare, NumberedEvent, Subscription, Wanted


class Turns:
    """Counts the turns of the loop."""

    def __init__(self) -> None:
        self.now = 0
        self._loop = asyncio.get_running_loop()
        self._loop.call_soon(self._count)

    def _count(self) -> None:
        self.now += 1
        self._loop.call_soon(self._count)

    def stop(self) -> None:
        self._count = lambda: None  # type: ignore[method-assign]


async def test_only_a_few_are_let_through_in_one_turn_of_the_loop() -> None:
    pace, turns = LoopShare(), Turns()
    through: list[tuple[int, int]] = []

    async def one(number: int) -> None:
        await pace.step()
        through.append((turns.now, number))

    async with asyncio.timeout(30):
        await asyncio.gather(*(one(number) for number in range(10 * AT_ONCE)))
    turns.stop()
    by_turn = [sum(when == turn for when, _ in through) for turn in {when for when, _ in through}]
    assert max(by_turn) <= AT_ONCE
    assert [number for _, number in through] == list(range(10 * AT_ONCE))


async def test_who_leaves_while_waiting_holds_nobody_up() -> None:
    pace = LoopShare(at_once=1)
    await pace.step()
    leaving = [asyncio.create_task(pace.step()) for _ in range(5)]
    staying = asyncio.create_task(pace.step())
    await asyncio.sleep(0)
    for task in leaving:
        task.cancel()
    async with asyncio.timeout(30):
        await staying
        await pace.step()  # and whoever comes later


def telling(number: int) -> NumberedEvent:
    event = LiveEvent(seq=number, at=datetime(2030, 1, 1, tzinfo=UTC), what="created", alarm_id=str(number))
    return NumberedEvent(f"run-{number}", event)


async def test_what_waits_is_taken_together_and_in_order() -> None:
    subscription = Subscription(Wanted(), LoopShare(), resumed=False)
    subscription.put([telling(number) for number in range(QUEUE)])

    def words(id: str, event: LiveEvent) -> bytes:
        return event.alarm_id.encode()

    first = await subscription.take(words, 10)
    assert first == [b"%d" % number for number in range(10)]
    assert await subscription.take(words) == [b"%d" % number for number in range(10, QUEUE)]
    assert subscription.waiting == 0


async def test_words_are_made_once_for_each_door() -> None:
    said: list[str] = []

    def loud(id: str, event: LiveEvent) -> bytes:
        said.append(f"loud {id}")
        return b"!"

    def soft(id: str, event: LiveEvent) -> bytes:
        said.append(f"soft {id}")
        return b"."

    pace, one = LoopShare(), telling(1)
    for words in (loud, soft, loud, soft):
        subscription = Subscription(Wanted(), pace, resumed=False)
        subscription.put([one])
        assert await subscription.take(words) in ([b"!"], [b"."])
    assert said == ["loud run-1", "soft run-1"]


async def test_whoever_was_dropped_gets_nothing_more() -> None:
    subscription = Subscription(Wanted(), LoopShare(), resumed=False)
    subscription.drop("too slow")
    subscription.put([telling(1)])
    assert subscription.waiting == 0
