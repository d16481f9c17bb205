from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from wakeful.errors import InvalidConfig
from wakeful.model.outcome import Completed, Failed, Snoozed
from wakeful.process.application import open_local
from wakeful.rules.wake import Wake
from wakeful.targets import Target
from wakeful.targets.handler import Handler, Snooze
from wakeful.testing import targets_of
from wakeful.testing.targets import TargetConformance, a_wake

Open = Callable[..., Handler]


@pytest.fixture
async def handler() -> AsyncIterator[Open]:
    opened: list[Handler] = []

    def open(function: Callable[[Wake], Any], **settings: Any) -> Handler:
        opened.append(Handler(function, **settings))
        return opened[-1]

    yield open
    for each in opened:
        await each.close()


async def echo(wake: Wake) -> str:
    return wake.message


def plain_echo(wake: Wake) -> str:
    return wake.message


class TestAsync(TargetConformance):
    @pytest.fixture
    def target(self, handler: Open) -> Target:
        return handler(echo)


class TestPlain(TargetConformance):
    @pytest.fixture
    def target(self, handler: Open) -> Target:
        return handler(plain_echo)


@pytest.mark.parametrize(
    ("returned", "result"),
    [
        (None, ""),
        ("done", "done"),
        ("line one\nline two é😀\u200d", "line one\nline two é😀\u200d"),
        ({"n": 3}, '{"n":3}'),
        (7, "7"),
        (False, "false"),
        (3 + 4j, "(3+4j)"),
        ("a\x00b\ud800", "a\\x00b\\ud800"),
        ("x" * 20_000, "x" * 16_384),
    ],
)
@pytest.mark.parametrize("plain", [False, True])
async def test_what_it_returns_is_the_result(handler: Open, returned: Any, result: str, plain: bool) -> None:
    async def in_the_loop(wake: Wake) -> Any:
        return returned

    outcome = await handler((lambda wake: returned) if plain else in_the_loop).deliver(a_wake())
    assert outcome == Completed(result)


async def test_a_result_that_cannot_even_be_shown_is_no_failure(handler: Open) -> None:
    class Mute:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    outcome = await handler(lambda wake: Mute()).deliver(a_wake())
    assert outcome == Completed("a Mute that cannot be shown (RuntimeError: no)")


class _Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (ValueError("no such page"), "ValueError: no such page"),
        (ValueError("two\nlines\x00"), "ValueError: two\\nlines\\x00"),
        (KeyError(), "KeyError"),
        (_Mute(), "_Mute"),
        (SystemExit(3), "SystemExit: 3"),
        (TimeoutError("its own"), "TimeoutError: its own"),
        (ExceptionGroup("both", [ValueError()]), "ExceptionGroup: both (1 sub-exception)"),
        (asyncio.CancelledError("inner"), "CancelledError: inner"),
    ],
)
@pytest.mark.parametrize("plain", [False, True])
async def test_what_it_raises_is_the_failure(handler: Open, raised: BaseException, error: str, plain: bool) -> None:
    def fail(wake: Wake) -> None:
        raise raised

    async def fail_in_the_loop(wake: Wake) -> None:
        raise raised

    outcome = await handler(fail if plain else fail_in_the_loop).deliver(a_wake())
    assert outcome == Failed(error)


async def test_a_plain_function_that_raises_stop_iteration_failed_too(handler: Open) -> None:
    outcome = await handler(lambda wake: next(iter(()))).deliver(a_wake())
    assert isinstance(outcome, Failed)
    assert "StopIteration" in outcome.error


@pytest.mark.parametrize("wait", ["15m", timedelta(minutes=15), 900, 900.0])
async def test_it_can_ask_for_the_same_wake_later(handler: Open, wait: Any) -> None:
    def later(wake: Wake) -> None:
        raise Snooze(wait)

    assert await handler(later).deliver(a_wake()) == Snoozed(timedelta(minutes=15))


async def test_a_snooze_without_sense_is_a_failure_that_says_so(handler: Open) -> None:
    def later(wake: Wake) -> None:
        raise Snooze("soonish")

    outcome = await handler(later).deliver(a_wake())
    assert isinstance(outcome, Failed)
    assert "soonish" in outcome.error


class _Callable:
    async def __call__(self, wake: Wake) -> str:
        return wake.message

    async def method(self, wake: Wake) -> str:
        return wake.message


async def _with_page(page: int, wake: Wake) -> str:
    return f"{wake.message} {page}"


@pytest.mark.parametrize(
    "function",
    [_Callable(), _Callable().method, functools.partial(_with_page, 3), lambda wake: echo(wake)],
    ids=["object", "method", "partial", "lambda"],
)
async def test_anything_that_can_be_called_and_awaited_will_do(handler: Open, function: Any) -> None:
    outcome = await handler(function).deliver(a_wake("hello"))
    assert isinstance(outcome, Completed)
    assert outcome.result.startswith("hello")


class TestTimeout:
    async def test_an_async_function_that_takes_too_long_is_cancelled(self, handler: Open) -> None:
        cancelled = False

        async def sleepy(wake: Wake) -> None:
            nonlocal cancelled
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled = True
                raise

        assert await handler(sleepy, timeout=0.05).deliver(a_wake()) == Failed("no answer within 0.05 s")
        assert cancelled
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    async def test_one_that_answers_to_its_cancellation_is_heard(self, handler: Open) -> None:
        async def stubborn(wake: Wake) -> str:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return "half of it"
            return "all"

        assert await handler(stubborn, timeout=0.05).deliver(a_wake()) == Completed("half of it")
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    async def test_each_call_has_its_own_time_although_they_share_a_timer(self, handler: Open) -> None:
        loop = asyncio.get_running_loop()
        began = asyncio.Event()

        async def sleepy(wake: Wake) -> None:
            began.set()
            if wake.attempt < 3:
                await asyncio.Event().wait()

        target = handler(sleepy, timeout=0.2)
        start = loop.time()
        first = asyncio.create_task(target.deliver(a_wake()))
        await began.wait()
        await asyncio.sleep(0.1)
        second = asyncio.create_task(target.deliver(a_wake(attempt=2)))
        quick = await target.deliver(a_wake(attempt=3))
        assert isinstance(await first, Failed)
        took = loop.time() - start
        async with asyncio.timeout(30):
            assert isinstance(await second, Failed)
        assert quick == Completed()
        assert took >= 0.19
        assert loop.time() - start >= 0.29

    async def test_the_timer_starts_again_after_a_quiet_while(self, handler: Open) -> None:
        async def sleepy(wake: Wake) -> None:
            if wake.attempt == 2:
                await asyncio.Event().wait()

        target = handler(sleepy, timeout=0.05)
        assert await target.deliver(a_wake()) == Completed()
        await asyncio.sleep(0.1)
        async with asyncio.timeout(30):
            assert isinstance(await target.deliver(a_wake(attempt=2)), Failed)

    def test_it_works_in_one_loop_after_another(self) -> None:
        async def sleepy(wake: Wake) -> None:
            await asyncio.Event().wait()

        target = Handler(sleepy, timeout=0.05)

        async def twice() -> None:
            async with asyncio.timeout(30):
                assert isinstance(await target.deliver(a_wake()), Failed)

        async def left_behind() -> None:
            task = asyncio.create_task(target.deliver(a_wake()))
            await asyncio.sleep(0)
            task.cancel()

        asyncio.run(twice())
        asyncio.run(left_behind())
        asyncio.run(twice())

    async def test_a_plain_function_that_takes_too_long_keeps_its_thread_and_is_counted(self, handler: Open) -> None:
        release = threading.Event()

        def stuck(wake: Wake) -> None:
            release.wait(60)

        target = handler(stuck, timeout=0.5, threads=1)  # long enough for a thread to start on a busy machine
        try:
            assert await target.deliver(a_wake()) == Failed("no answer within 0.5 s")
            assert target.overdue == 1
            # The one thread is taken: this call never starts, so it is not overdue either.
            assert await target.deliver(a_wake()) == Failed("no answer within 0.5 s")
            assert target.overdue == 1
        finally:
            release.set()
        # The next call to get through has the thread after the stuck one gave it back.
        while isinstance(await target.deliver(a_wake()), Failed):
            pass
        assert target.overdue == 0

    async def test_a_stuck_handler_takes_no_thread_from_another(self, handler: Open) -> None:
        release = threading.Event()
        stuck = handler(lambda wake: release.wait(60), timeout=60, threads=1)
        waiting = asyncio.create_task(stuck.deliver(a_wake()))
        try:
            assert await handler(plain_echo, threads=1).deliver(a_wake("free")) == Completed("free")
        finally:
            release.set()
        assert await waiting == Completed("true")


async def test_cancelling_the_delivery_cancels_the_handler(handler: Open) -> None:
    began = asyncio.Event()

    async def sleepy(wake: Wake) -> None:
        began.set()
        await asyncio.Event().wait()

    delivery = asyncio.create_task(handler(sleepy).deliver(a_wake()))
    await began.wait()
    delivery.cancel()
    with pytest.raises(asyncio.CancelledError):
        await delivery


async def test_a_plain_function_sees_the_context_of_its_delivery(handler: Open) -> None:
    trace: contextvars.ContextVar[str] = contextvars.ContextVar("trace")
    trace.set("t-1")
    assert await handler(lambda wake: trace.get()).deliver(a_wake()) == Completed("t-1")


async def test_plain_functions_run_beside_each_other_up_to_the_limit(handler: Open) -> None:
    together = threading.Barrier(4)
    target = handler(lambda wake: together.wait(60) >= 0, threads=4)
    outcomes = await asyncio.gather(*(target.deliver(a_wake()) for _ in range(4)))
    assert outcomes == [Completed("true")] * 4


async def test_a_plain_function_is_not_handed_what_would_wait_long_for_a_thread(tmp_path: Path) -> None:
    async with open_local(tmp_path / "w.db", total_concurrency=1000) as alarms:
        for name, function in (("plain", plain_echo), ("async", echo)):
            alarms.handler(name)(function)
        alarms.handler("few", concurrency=3)(echo)
        room = {name: served.concurrency for name, served in targets_of(alarms).items()}
    assert (room["plain"], room["async"], room["few"]) == (64, 1000, 3)
    assert Handler(plain_echo).room(10) == 10


@pytest.mark.parametrize("settings", [{"timeout": 0}, {"threads": 0}])
def test_a_wrong_setting_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfig):
        Handler(echo, **settings)
