"""Handlers on a remote clock: served through the server's inbox of their name, leased, renewed and reported."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

import wakeful
from tests.interfaces.world import Visitor
from tests.ports import free_port
from tests.remote.world import environment, serving_process, until
from wakeful.errors import InvalidRequest, UnknownTarget
from wakeful.model.alarm import FireStatus
from wakeful.process.application import open_server
from wakeful.python.program import Wakeful
from wakeful.remote.wire import taken_of


@asynccontextmanager
async def running(alarms: Wakeful) -> AsyncIterator[None]:
    task = asyncio.create_task(alarms.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))
        assert task.cancelled(), task.exception()


async def ended(house: Visitor, alarm_id: str, status: FireStatus) -> wakeful.Fire:
    return (await until(lambda: house.alarms.fires(alarm_id, status=status)))[0]


async def test_what_a_handler_returns_raises_and_snoozes_is_on_record(house: Visitor, alarms: Wakeful) -> None:
    seen: list[wakeful.Wake] = []

    @alarms.handler("ops")
    async def ops(wake: wakeful.Wake) -> str:
        seen.append(wake)
        if wake.message == "fail":
            raise ValueError("no such page")
        if wake.message == "snooze":
            raise wakeful.Snooze("15m")
        return f"read page {wake.payload['page']}"

    async with running(alarms):
        done = await alarms.set(delay=0.01, wake_message="ok", payload={"page": 3}, target="ops", label="l")
        fire = await ended(house, done.id, "completed")
        assert (fire.result, fire.target, fire.attempts) == ("read page 3", "ops", 1)
        failed = await alarms.set(delay=0.01, wake_message="fail", target="ops")
        assert (await ended(house, failed.id, "retrying")).last_error == "ValueError: no such page"
        later = await alarms.set(delay=0.01, wake_message="snooze", target="ops")
        assert (await ended(house, later.id, "snoozed")).status == "snoozed"
    assert (seen[0].fire_id, seen[0].label, seen[0].attempt) == (fire.id, "l", 1)
    told = await house("POST", f"/v1/fires/{fire.id}/report", {"outcome": "completed"}, headers=bearer(seen[0]))
    assert told.status == 200, told.text


async def test_a_handler_that_is_registered_while_it_runs_is_served(house: Visitor, alarms: Wakeful) -> None:
    @alarms.handler("inbox")
    async def usual(wake: wakeful.Wake) -> str:
        return "the first"

    async with running(alarms):
        first = await alarms.set(delay=0.01, wake_message="hello")
        await ended(house, first.id, "completed")

        @alarms.handler("ops")
        async def ops(wake: wakeful.Wake) -> str:
            return "the second"

        second = await alarms.set(delay=0.01, wake_message="hello", target="ops")
        assert (await ended(house, second.id, "completed")).result == "the second"


async def test_a_handler_gets_the_token_of_the_wake_and_whose_words_it_has(house: Visitor, alarms: Wakeful) -> None:
    seen: asyncio.Queue[wakeful.Wake] = asyncio.Queue()

    @alarms.handler("ops")
    async def ops(wake: wakeful.Wake) -> None:
        seen.put_nowait(wake)

    async with running(alarms):
        await alarms.set(delay=0.01, wake_message="begin", target="ops")
        first = await asyncio.wait_for(seen.get(), 60)
        async with wakeful.open(house.url, token=first.token) as woken:
            made = await woken.set("every minute", "again", target="ops", policy={"ends_at": "2090-01-01T00:00:00Z"})
        await alarms.update(made.id, delay=0.01, kind="once")
        second = await asyncio.wait_for(seen.get(), 60)
        sent = msgspec.json.decode(second.body)
    assert (first.author, first.parent_fire, first.ends_at) == ("owner", "", None)
    assert (second.author, second.parent_fire, sent["root_id"]) == ("agent", first.fire_id, first.alarm_id)
    assert (sent["token"], sent["generation"]) == (second.token, 1)
    assert second.prompt.startswith("again\n\n[Wake]\n")
    assert f"Fire id: {second.fire_id}" in second.prompt


async def test_a_wake_of_an_earlier_server_is_read(house: Visitor) -> None:
    await house.set(when="in 1 second")
    [shown] = (await house("POST", "/v1/inbox?wait=60")).json["wakes"]
    for name in ("author", "parent_fire", "root_id", "generation", "ends_at", "renewable", "token"):
        del shown[name]
    taken = taken_of(msgspec.json.decode(msgspec.json.encode(shown), type=dict[str, msgspec.Raw]), target="inbox")
    assert (taken.token, taken.ends_at, taken.renewable, taken.author) == ("", None, False, "owner")


def bearer(wake: wakeful.Wake) -> dict[str, str]:
    return {"authorization": f"Bearer {wake.report_token}"}


async def test_the_lease_is_renewed_while_the_work_lasts(house: Visitor, alarms: Wakeful) -> None:
    calls: list[str] = []
    go_on = asyncio.Event()

    @alarms.handler("ops")
    async def ops(wake: wakeful.Wake) -> None:
        calls.append(wake.fire_id)
        await go_on.wait()

    async with running(alarms):
        alarm = await alarms.set(delay=0.01, wake_message="x", target="ops", policy={"report_within": 3})
        fire = await ended(house, alarm.id, "delivered")

        async def is_renewed() -> bool:
            later = (await house.alarms.fire_of(fire.id)).report_by
            return later is not None and fire.report_by is not None and later > fire.report_by

        assert await until(is_renewed)
        go_on.set()
        assert (await ended(house, alarm.id, "completed")).attempts == 1
    assert len(calls) == 1


async def test_a_handler_that_reports_later_is_awaited(house: Visitor, alarms: Wakeful) -> None:
    taken: asyncio.Queue[str] = asyncio.Queue()

    @alarms.handler("ops", reports=True)
    async def ops(wake: wakeful.Wake) -> None:
        taken.put_nowait(wake.fire_id)

    async with running(alarms):
        alarm = await alarms.set(delay=0.01, wake_message="x", target="ops")
        fire_id = await asyncio.wait_for(taken.get(), 60)
        await alarms.completed(fire_id, "later")
        assert (await ended(house, alarm.id, "completed")).result == "later"


async def test_one_owner_s_inboxes_are_apart(house: Visitor, alarms: Wakeful) -> None:
    usual = await alarms.set(delay=0.01, wake_message="usual")
    ours = await alarms.set(delay=0.01, wake_message="ours", target="ops")
    await ended(house, usual.id, "waiting")
    await ended(house, ours.id, "waiting")
    assert [taken.alarm.id for taken in await alarms.inbox(target="ops")] == [ours.id]
    assert [taken.alarm.id for taken in await alarms.inbox()] == [usual.id]


async def test_what_waits_in_a_named_inbox_is_retracted_with_its_alarm(house: Visitor, alarms: Wakeful) -> None:
    alarm = await alarms.set(delay=0.01, wake_message="x", target="ops")
    fire = await ended(house, alarm.id, "waiting")
    await alarms.cancel(alarm.id)
    gone = await alarms.fire_of(fire.id)
    assert (gone.status, gone.reason) == ("skipped", "cancelled")
    assert await alarms.inbox(target="ops") == []


async def test_run_due_serves_what_waits_and_returns(house: Visitor, alarms: Wakeful) -> None:
    alarms.handler("ops", concurrency=1)(lambda wake: wake.message)
    made = [await alarms.set(delay=0.01, wake_message=str(number), target="ops") for number in range(3)]
    for alarm in made:
        await ended(house, alarm.id, "waiting")
    assert await alarms.run_due() == 3
    assert await alarms.run_due() == 0
    assert sorted(fire.result for fire in await alarms.fires(status="completed")) == ["0", "1", "2"]


async def test_a_handler_without_such_an_inbox_is_refused(alarms: Wakeful) -> None:
    with pytest.raises(InvalidRequest, match="no handler to run"):
        await alarms.run()
    alarms.handler("nowhere")(lambda wake: None)
    with pytest.raises(UnknownTarget) as refused:
        await alarms.run()
    assert refused.value.fix == "Known are: inbox, ops."
    with pytest.raises(InvalidRequest, match="exists already"):
        alarms.handler("nowhere")(lambda wake: None)


LAPTOP = """
import asyncio, sys
import wakeful

async def main():
    async with wakeful.open(sys.argv[1]) as alarms:
        @alarms.handler("ops")
        async def ops(wake):
            print(wake.fire_id, wake.attempt, flush=True)
            if sys.argv[2] == "hang":
                await asyncio.Event().wait()
            return "done by another"
        await alarms.run()

asyncio.run(main())
"""


def laptop(url: str, how: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", LAPTOP, url, how], stdout=subprocess.PIPE, env=environment(), text=True
    )


async def test_a_wake_whose_process_is_killed_is_handed_out_again(tmp_path: Path) -> None:
    (tmp_path / "wakeful.toml").write_text('[targets.ops]\nkind = "inbox"\n')
    with serving_process(tmp_path) as serving:
        async with open_server(serving.url, "") as alarms:
            first = laptop(serving.url, "hang")
            assert first.stdout is not None
            alarm = await alarms.set(delay=0.01, wake_message="x", target="ops", policy={"report_within": 1})
            said = (await asyncio.to_thread(first.stdout.readline)).split()
            first.kill()
            await asyncio.to_thread(first.communicate)
            second = laptop(serving.url, "return")
            try:
                assert second.stdout is not None
                again = (await asyncio.to_thread(second.stdout.readline)).split()
                assert again[0] == said[0]
                assert (said[1], again[1]) == ("1", "2")
                found = await until(lambda: alarms.fires(alarm.id, status="completed"))
                assert (found[0].id, found[0].result, found[0].attempts) == (said[0], "done by another", 2)
            finally:
                second.kill()
                second.communicate()


async def test_a_server_that_starts_anew_loses_no_wake_and_no_report(tmp_path: Path) -> None:
    (tmp_path / "wakeful.toml").write_text('[targets.ops]\nkind = "inbox"\n')
    begun, go_on = asyncio.Event(), asyncio.Event()
    with serving_process(tmp_path, port=str(free_port())) as serving:
        async with open_server(serving.url, "") as alarms:

            @alarms.handler("ops")
            async def ops(wake: wakeful.Wake) -> str:
                begun.set()
                await go_on.wait()
                return "worked through it"

            async with running(alarms):
                alarm = await alarms.set(delay=0.01, wake_message="x", target="ops")
                async with asyncio.timeout(30):
                    await begun.wait()
                serving.kill()
                go_on.set()  # its report meets nobody
                with serving_process(tmp_path, port=serving.port):
                    found = await until(lambda: alarms.fires(alarm.id, status="completed"))
                    assert (found[0].result, found[0].attempts) == ("worked through it", 1)
