"""CPU time counts against the owner whose requests use it: in the event loop, in threads, through every interface."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.databases import database_of
from tests.interfaces.world import Answer, serving
from wakeful.errors import InvalidConfig, TooMany
from wakeful.http.security.limits import LONGEST_WAIT, OWNERS, CpuShares
from wakeful.process.application import open_local
from wakeful.runtime.cpu_time import charged, in_thread
from wakeful.settings import load
from wakeful.testing import ManualClock, store_of

SHARE = timedelta(milliseconds=200)
REQUESTS = 3000  # of the cheapest, which each use more than a fifteenth of a millisecond
Header = dict[str, str]


class Purse:
    """An account that remembers what was spent."""

    def __init__(self) -> None:
        self.spent = 0.0

    def spend(self, seconds: float) -> None:
        self.spent += seconds

    @asynccontextmanager
    async def thread(self) -> AsyncIterator[None]:
        yield


def burn(seconds: float) -> str:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
    return "done"


async def test_each_step_of_a_request_is_charged_and_what_others_do_meanwhile_is_not() -> None:
    purse = Purse()

    async def work() -> str:
        for _ in range(5):
            burn(0.02)
            await asyncio.sleep(0)
        return "done"

    async def others() -> None:
        for _ in range(5):
            burn(0.2)
            await asyncio.sleep(0)

    found, _ = await asyncio.gather(charged(work(), purse), others())
    assert found == "done"
    assert 0.1 <= purse.spent < 0.2


async def test_what_a_request_has_done_in_threads_is_charged_also_by_its_tasks() -> None:
    purse = Purse()

    async def work() -> list[str]:
        first = in_thread(lambda: burn(0.05))
        return [await first, await asyncio.create_task(in_thread(lambda: burn(0.05)))]

    assert await charged(work(), purse) == ["done", "done"]
    assert purse.spent >= 0.1
    before = purse.spent
    assert await in_thread(lambda: burn(0.01)) == "done"  # nobody's request
    assert purse.spent == before


async def test_a_read_of_a_sqlite_file_is_charged(tmp_path: Path) -> None:
    purse = Purse()
    async with open_local(str(tmp_path / "w.db")) as alarms:
        readers = store_of(alarms)._long_readers  # type: ignore[attr-defined]
        assert await charged(readers.read(lambda _: burn(0.05)), purse) == "done"
    assert purse.spent >= 0.05


async def test_a_request_that_fails_or_is_cancelled_is_charged_and_told_as_ever() -> None:
    purse = Purse()

    async def fails() -> None:
        burn(0.02)
        await asyncio.sleep(0)
        raise KeyError("it")

    with pytest.raises(KeyError, match="it"):
        await charged(fails(), purse)
    assert purse.spent >= 0.02

    cleaned = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            burn(0.02)
            cleaned.append("up")

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await charged(waits(), purse)
    assert cleaned == ["up"]
    assert purse.spent >= 0.04


async def test_a_request_that_failed_leaves_no_rubbish() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise KeyError("it")

    gc.collect()
    gc.disable()
    try:
        for _ in range(100):
            with pytest.raises(KeyError):
                await charged(fails(), Purse())
        await asyncio.sleep(0)
        assert gc.collect() < 200
    finally:
        gc.enable()


async def test_a_minutes_share_may_be_used_at_once_and_then_steadily() -> None:
    clock = ManualClock()
    shares = CpuShares(timedelta(seconds=20), clock)
    shares.spend("eve", 20.0)
    shares.admit("eve")
    shares.spend("eve", 1.0)
    with pytest.raises(TooMany) as refusal:
        shares.admit("eve")
    assert refusal.value.field == "cpu_per_minute"
    assert refusal.value.retry_after == pytest.approx(3)
    shares.admit("ada")
    clock.set_back(timedelta(days=1))  # the clock of the day counts for nothing
    await clock.advance(2.9)
    with pytest.raises(TooMany):
        shares.admit("eve")
    await clock.advance(0.2)
    shares.admit("eve")


def test_nobody_is_refused_for_longer_than_a_minute_however_much_was_used() -> None:
    shares = CpuShares(timedelta(seconds=20), ManualClock())
    shares.spend("eve", 3600.0)
    with pytest.raises(TooMany) as refusal:
        shares.admit("eve")
    assert refusal.value.retry_after == pytest.approx(LONGEST_WAIT)


def test_it_does_not_remember_every_owner_there_ever_was() -> None:
    shares = CpuShares(timedelta(seconds=20), ManualClock())
    for number in range(OWNERS + 100):
        shares.spend(str(number), 60.0)
    assert len(shares._spent) == OWNERS
    with pytest.raises(TooMany):
        shares.admit(str(OWNERS + 99))


def test_a_share_that_is_no_share_is_refused() -> None:
    with pytest.raises(InvalidConfig) as refusal:
        load(flags={"cpu_per_minute": "0s"}, environ={})
    assert refusal.value.field == "cpu_per_minute"


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return database_of(request, tmp_path)


async def until_refused(once: Callable[[], Awaitable[Answer]]) -> Answer:
    for _ in range(REQUESTS):
        if (answer := await once()).status == 429:
            return answer
        assert answer.status < 400, answer.text
    raise AssertionError("it was never refused")


async def test_who_used_more_than_its_share_waits_and_nobody_else_does(database: dict[str, Any]) -> None:
    async with serving(**database, cpu_per_minute=SHARE) as visit:
        eve, again, ada = await visit.token("eve"), await visit.token("eve"), await visit.token("ada")
        wake = await visit.fired("eve")
        refused = await until_refused(lambda: visit("GET", "/v1/alarms", headers=eve))
        assert refused.told == (429, "too_many", "cpu_per_minute")
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        woken = {"authorization": f"Bearer {wake.token}"}
        for headers in (again, woken):  # another token of the same owner, and the token of a wake
            found = await until_refused(partial(visit, "GET", "/v1/alarms", headers=headers))
            assert found.told == refused.told
        assert (await visit("GET", "/v1/alarms", headers=ada)).status == 200
        await visit.fired("eve")  # its alarms fire all the same
        reporting = {"authorization": f"Bearer {wake.report_token}"}
        done = await visit("POST", f"/v1/fires/{wake.fire_id}/report", {"outcome": "completed"}, headers=reporting)
        assert done.status == 200  # and what was asked for is reported


async def test_the_operators_own_process_has_no_share(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), cpu_per_minute=timedelta(milliseconds=100)) as visit:
        until = time.thread_time() + 0.5
        while time.thread_time() < until:
            assert (await visit("GET", "/v1/stats")).status == 200


async def test_mcp_and_pages_are_charged(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), cpu_per_minute=SHARE) as visit:
        eve, ada = await visit.token("eve"), await visit.token("ada")
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "alarm_list", "arguments": {}}}
        accept = {"accept": "application/json, text/event-stream"}
        refused = await until_refused(lambda: visit("POST", "/mcp", call, headers=eve | accept))
        assert refused.told == (429, "too_many", "cpu_per_minute")
        cookie = {"cookie": f"wakeful_token={ada['authorization'].removeprefix('Bearer ')}"}
        page = await until_refused(lambda: visit("GET", "/alarms", headers=cookie))
        assert "CPU time" in page.text


async def test_calls_on_a_socket_are_charged(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), cpu_per_minute=SHARE, requests_per_minute=10**6) as visit:
        eve = await visit.token("eve")
        async with visit._session.ws_connect(f"{visit.url}/v1/ws", headers=eve) as socket:
            for _ in range(REQUESTS):  # of calls that read nothing: no thread is charged for them
                await socket.send_json([{"jsonrpc": "2.0", "method": "unsubscribe", "id": 1}] * 20)
                answer = json.loads((await socket.receive(timeout=60)).data)[-1]
                if "error" in answer:
                    break
        assert answer["error"]["data"]["field"] == "cpu_per_minute"


async def test_one_owner_has_one_of_the_threads_beside_the_event_loop(tmp_path: Path) -> None:
    shares = CpuShares(timedelta(hours=1), ManualClock())
    eve, ada = shares.account("eve"), shares.account("ada")
    running: list[str] = []
    most: list[int] = []
    first, release = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def held(name: str) -> None:
        running.append(name)
        most.append(running.count(name))
        loop.call_soon_threadsafe(first.set)
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result(30)
        running.remove(name)

    waiting = [asyncio.create_task(charged(in_thread(lambda: held("eve")), eve)) for _ in range(5)]
    async with asyncio.timeout(30):
        await first.wait()
        assert await charged(in_thread(lambda: burn(0.001)), ada) == "done"  # while eve's are held
        release.set()
        await asyncio.gather(*waiting)
    assert most == [1] * 5


def test_a_thread_that_computes_keeps_the_event_loop_of_a_server_for_a_millisecond() -> None:
    code = (
        "import sys; from wakeful.process.server import run_process\n"
        "async def main(): print(sys.getswitchinterval())\n"
        "run_process(main())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) <= 0.001
