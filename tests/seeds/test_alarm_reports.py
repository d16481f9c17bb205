"""Alarm's reports, retries, timeout sweep and restarts, on both stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest
from mcp import Client

import wakeful
from tests.interfaces.mcp_world import Agent, door
from tests.interfaces.world import serving
from tests.rules.world import at, once
from tests.seeds.alarm_world import STORES, Desk, Place, a_place
from wakeful import Alarm, Fire
from wakeful.model.outcome import Report
from wakeful.process.application import open_local
from wakeful.python.client import LocalWakeful
from wakeful.rules.passing import quarantine
from wakeful.testing import NEW_YEAR, ManualClock

SEED: wakeful.PolicyKeywords = {"backoff_base": 5, "backoff_cap": "1d"}  # Alarm's own ladder
MINUTE = timedelta(minutes=1)


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return a_place(request, tmp_path)


@pytest.fixture
def time() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def alarms(place: Place, time: ManualClock) -> AsyncIterator[LocalWakeful]:
    # Alarm gives up on silence; a new alarm of wakeful does not.
    async with open_local(**place, clock=time, on_silence="give_up") as alarms:
        yield alarms


@pytest.fixture
def desk(alarms: LocalWakeful) -> Desk:
    return Desk(alarms)


@pytest.fixture
def passes(alarms: LocalWakeful, time: ManualClock) -> Callable[[timedelta | float], Awaitable[int]]:
    async def passes(by: timedelta | float) -> int:
        await time.advance(by)
        return await alarms.run_due()

    return passes


Passes = Callable[[timedelta | float], Awaitable[int]]


async def only(alarms: LocalWakeful, alarm: Alarm) -> Fire:
    [fire] = await alarms.fires(alarm.id)
    return fire


# completed


async def test_completed_sets_the_end_the_duration_and_the_result(
    alarms: LocalWakeful, desk: Desk, passes: Passes, time: ManualClock
) -> None:
    alarm = await alarms.set("in 1 minute", "go", target="later")
    await passes(MINUTE)
    fired = await only(alarms, alarm)
    assert (fired.status, fired.started_at, fired.completed_at) == ("delivered", NEW_YEAR + MINUTE, None)
    await time.advance(1.25)
    await alarms.completed(fired.id, "sent to 3 recipients")
    done = await only(alarms, alarm)
    assert (done.status, done.result, done.duration_ms) == ("completed", "sent to 3 recipients", 1250)
    assert done.completed_at == NEW_YEAR + MINUTE + timedelta(seconds=1.25)


async def test_a_second_result_is_not_kept_and_who_reports_it_is_told(
    alarms: LocalWakeful, desk: Desk, passes: Passes, caplog: pytest.LogCaptureFixture
) -> None:
    alarm = await alarms.set("in 1 minute", "go", target="later")
    await passes(MINUTE)
    for result in ("sent", "sent", ""):
        assert (await alarms.completed(alarm.id, result)).result == "sent"
    assert "completed before" not in caplog.text
    assert (await alarms.completed(alarm.id, "not sent")).result == "sent"
    assert "completed before with another result" in caplog.text
    assert "not sent" not in caplog.text  # what a wake says, or its work, is not for logs


async def test_a_handler_that_reports_may_also_just_return_a_result(
    alarms: LocalWakeful, passes: Passes, time: ManualClock
) -> None:
    @alarms.handler("quick", reports=True)
    async def quick(wake: wakeful.Wake) -> str:
        return "done at once"

    alarm = await alarms.set("in 1 minute", "go", target="quick")
    await passes(MINUTE)
    assert ((await only(alarms, alarm)).status, (await only(alarms, alarm)).result) == ("completed", "done at once")


async def test_a_report_names_a_fire_that_happened(alarms: LocalWakeful, desk: Desk) -> None:
    alarm = await alarms.set("in 1 minute", "go", target="later")
    for fire_id in ("nobody", alarm.id, alarm.fire_id, f"{alarm.id}@1"):
        with pytest.raises(wakeful.NotFound):
            await alarms.completed(fire_id, "ok")
        with pytest.raises(wakeful.NotFound):
            await alarms.delivery_failed(fire_id, "no")


# delivery_failed


async def test_a_reported_failure_is_tried_again_after_five_ten_twenty_seconds_and_then_is_final(
    alarms: LocalWakeful, desk: Desk, passes: Passes, time: ManualClock
) -> None:
    alarm = await alarms.set("in 1 minute", "go", target="later", max_failures=3, policy=SEED)
    await passes(MINUTE)
    for number, wait in enumerate((5, 10, 20), 1):
        fire = await alarms.delivery_failed(alarm.fire_id, "HTTP 503")
        assert (fire.status, fire.result) == ("retrying", f"RETRY: HTTP 503 (attempt {number}/3)")
        waited = (await alarms.get(alarm.id)).next_fire_at - time.now()
        assert timedelta(seconds=wait) <= waited <= timedelta(seconds=1.1 * wait)
        assert await passes(waited - timedelta(milliseconds=1)) == 0
        assert await passes(0.001) == 1
    fire = await alarms.delivery_failed(alarm.fire_id, "HTTP 503")
    assert (fire.status, fire.result) == ("failed", "FAILED: HTTP 503 (after 4 attempts)")
    assert ((await alarms.get(alarm.id)).status, (await alarms.get(alarm.id)).last_error) == ("failed", "HTTP 503")
    assert await passes(timedelta(days=1)) == 0
    assert {wake.fire_id for wake in desk.wakes} == {alarm.fire_id}
    assert [wake.attempt for wake in desk.wakes] == [1, 2, 3, 4]


@pytest.mark.parametrize("target", ["later", "bad"])
async def test_without_retries_the_first_failure_is_final(
    alarms: LocalWakeful, desk: Desk, passes: Passes, target: str
) -> None:
    alarm = await alarms.set("in 1 minute", "go", target=target, max_failures=0)
    await passes(MINUTE)
    if target == "later":
        await alarms.delivery_failed(alarm.fire_id, "HTTP 503")
    fire = await only(alarms, alarm)
    assert fire.status == "failed"
    assert fire.result.startswith("FAILED: ")
    assert fire.result.endswith("HTTP 503 (after 1 attempts)")


async def test_what_a_handler_raises_climbs_the_same_ladder_in_the_same_words(
    alarms: LocalWakeful, desk: Desk, passes: Passes
) -> None:
    alarm = await alarms.set("in 1 minute", "go", target="bad", max_failures=1, policy=SEED)
    await passes(MINUTE)
    [entry] = await alarms.history(status="fired")
    assert entry.result == "RETRY: ConnectionError: HTTP 503 (attempt 1/1)"
    await passes(6)
    [entry] = await alarms.history(status="failed")
    assert (entry.result, entry.attempts) == ("FAILED: ConnectionError: HTTP 503 (after 2 attempts)", 2)
    assert [one.result for one in await alarms.failed()] == [entry.result]
    assert "its retries were used up" in (await alarms.why(alarm.id)).summary


async def test_the_first_start_is_kept_on_retries_and_the_duration_counts_from_it(
    alarms: LocalWakeful, desk: Desk, passes: Passes
) -> None:
    alarm = await alarms.set("in 1 minute", "go", target="later", policy=SEED)
    await passes(MINUTE)
    await alarms.delivery_failed(alarm.fire_id, "HTTP 503")
    await passes(10)
    done = await alarms.completed(alarm.fire_id, "ok")
    assert (done.started_at, done.duration_ms, done.attempts) == (NEW_YEAR + MINUTE, 10_000, 2)


Ending = Callable[[LocalWakeful, Alarm], Awaitable[object]]


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda alarms, alarm: alarms.cancel(alarm.id), "cancelled"),
        (lambda alarms, alarm: alarms.update(alarm.id, when="in 1 day"), "superseded"),
    ],
    ids=["cancelled", "another time"],
)
async def test_what_ends_a_retry_leaves_no_result_that_promises_another(
    alarms: LocalWakeful, desk: Desk, passes: Passes, end: Ending, reason: str
) -> None:
    alarm = await alarms.set("in 1 minute", "go", target="bad")
    await passes(MINUTE)
    await end(alarms, await alarms.get(alarm.id))
    fire = await only(alarms, alarm)
    assert (fire.status, fire.reason) == ("failed", reason)
    assert fire.result == "FAILED: ConnectionError: HTTP 503 (after 1 attempts)"


async def test_an_attempt_that_fails_after_its_alarm_was_cancelled_says_so_too(
    alarms: LocalWakeful, passes: Passes
) -> None:
    @alarms.handler("cancels")
    async def cancels(wake: wakeful.Wake) -> None:
        assert (await alarms.cancel(wake.alarm_id)).in_flight
        raise ConnectionError("HTTP 503")

    alarm = await alarms.set("in 1 minute", "go", target="cancels")
    await passes(MINUTE)
    fire = await only(alarms, alarm)
    assert (fire.status, fire.result) == ("failed", "FAILED: ConnectionError: HTTP 503 (after 1 attempts)")


async def test_what_a_handler_is_told_when_it_reports_from_inside_is_what_happens(
    alarms: LocalWakeful, time: ManualClock, passes: Passes
) -> None:
    told: list[tuple[Fire, object]] = []

    @alarms.handler("inside")
    async def inside(wake: wakeful.Wake) -> str:
        fire = await alarms.delivery_failed(wake.fire_id, "HTTP 503")
        told.append((fire, await alarms.retry_at(fire)))
        assert (await alarms.delivery_failed(wake.fire_id, "HTTP 503")).result == fire.result, "a report counts once"
        await time.advance(1)  # it is over a second later: the promised moment stands
        return "not heard: the report outweighs it"

    alarm = await alarms.set("in 1 minute", "go", target="inside", max_failures=2, policy=SEED)
    await passes(MINUTE)
    for _ in range(2):
        fire, again = told[-1]
        assert (fire.status, again) == ("retrying", (await alarms.get(alarm.id)).next_fire_at)
        assert (await only(alarms, alarm)).result == fire.result
        [entry] = await alarms.history()
        assert (entry.status, entry.result) == ("retrying", fire.result)
        await passes((await alarms.get(alarm.id)).next_fire_at - time.now())
    assert [fire.result for fire, _ in told] == [
        "RETRY: HTTP 503 (attempt 1/2)",
        "RETRY: HTTP 503 (attempt 2/2)",
        "FAILED: HTTP 503 (after 3 attempts)",
    ]
    last, again = told[-1]
    assert (last.status, again) == ("failed", None)
    fire = await only(alarms, alarm)
    assert (fire.status, fire.result, fire.attempts) == ("failed", last.result, 3)


async def test_a_report_may_name_the_alarm_as_alarms_own_do(alarms: LocalWakeful, desk: Desk, passes: Passes) -> None:
    told: list[Fire] = []

    @alarms.handler("inside")
    async def inside(wake: wakeful.Wake) -> None:
        told.append(await alarms.completed(wake.alarm_id, "from inside"))

    later = await alarms.set("in 1 minute", "go", target="later", policy=SEED)
    inner = await alarms.set("in 1 minute", "go", target="inside")
    with pytest.raises(wakeful.NotFound, match="is waiting for a report"):
        await alarms.completed(later.id)
    await passes(MINUTE)
    assert [(fire.alarm_id, fire.result) for fire in told] == [(inner.id, "from inside")]
    assert (await only(alarms, inner)).result == "from inside"
    assert (await alarms.delivery_failed(later.id, "HTTP 503")).status == "retrying"
    await passes(6)
    assert (await alarms.working(later.id, "page 3")).result == "page 3"
    done = await alarms.completed(later.id, "ok")
    assert (done.id, done.status, done.attempts) == (later.fire_id, "completed", 2)
    assert await alarms.completed(later.id, "again") == done, "a report counts once"
    with pytest.raises(wakeful.Conflict, match="its outcome is recorded"):
        await alarms.delivery_failed(later.id)
    with pytest.raises(wakeful.NotFound, match="no alarm or fire"):
        await alarms.completed("01900000-0000-7000-8000-000000000000")


async def test_a_report_that_could_mean_two_fires_is_refused_and_names_them(
    alarms: LocalWakeful, desk: Desk, passes: Passes
) -> None:
    series = await alarms.set(cron="* * * * *", wake_message="go", target="later", policy={"overlap": "allow"})
    await passes(MINUTE)
    assert (await alarms.working(series.id)).id == series.fire_id
    await passes(MINUTE)
    ids = [fire.id for fire in await alarms.fires(series.id)]
    with pytest.raises(wakeful.Conflict) as raised:
        await alarms.completed(series.id)
    assert all(id in str(raised.value) for id in ids)
    await alarms.completed(ids[1])
    assert (await alarms.completed(series.id)).id == ids[0]
    with pytest.raises(wakeful.NotFound, match="is waiting for a report"):
        await alarms.completed(series.id)


async def test_through_every_door_a_report_may_name_the_alarm(place: Place) -> None:
    settings = {name: value for name, value in place.items() if name != "db"}
    async with serving(place["db"], **settings) as visit:
        wake = await visit.fired()
        answer = await visit("POST", f"/v1/fires/{wake.alarm_id}/report", {"outcome": "completed", "result": "ok"})
        assert (answer.status, answer.json["id"]) == (200, wake.fire_id)
        wake = await visit.fired()
        async with Client(door(visit.alarms)) as client:
            noted = await Agent(client)("alarm_report", fire_id=wake.alarm_id, outcome="completed")
        assert noted["fire"]["fire_id"] == wake.fire_id
        stranger = await visit.fired(owner="somebody")
        refused = await visit("POST", f"/v1/fires/{stranger.alarm_id}/report", {"outcome": "completed"})
        assert refused.told == (404, "not_found", "fire_id")


def test_a_failure_reported_during_the_attempt_and_an_alarm_set_aside_say_it_in_the_same_words() -> None:
    for retries, told in ((5, "RETRY: no disk (attempt 1/5)"), (0, "FAILED: no disk (after 1 attempts)")):
        world = once(max_failures=retries)
        world.claim(at(9))
        assert world.report(at(9), Report("failed", "no disk"), at(9, 0, 1))
        assert world.fires[at(9)].result == told
    [aside] = quarantine(once().alarm, None, "it cannot be planned: KeyError", now=at(9)).fires
    assert aside.result == "FAILED: set aside: it cannot be planned: KeyError (after 1 attempts)"


async def test_only_a_word_brings_a_retry_and_silence_does_not(
    alarms: LocalWakeful, desk: Desk, passes: Passes, time: ManualClock
) -> None:
    """The page's last advice: the target must call delivery_failed; the sweep is the net under whoever is silent."""
    silent, spoken, none = [
        await alarms.set("in 1 minute", name, target="later", max_failures=retries, policy=SEED)
        for name, retries in (("silent", 3), ("spoken", 3), ("none", 0))
    ]
    await passes(MINUTE)
    for alarm in (spoken, none):
        await alarms.delivery_failed(alarm.fire_id, "HTTP 503")
    await passes(60)
    assert [wake.message for wake in desk.wakes[3:]] == ["spoken"]
    await passes(300)
    told = {alarm.label or alarm.wake_message: await only(alarms, alarm) for alarm in (silent, spoken, none)}
    assert {name: (fire.status, fire.attempts) for name, fire in told.items()} == {
        "silent": ("timed_out", 1),
        "spoken": ("timed_out", 2),
        "none": ("failed", 1),
    }
    await passes(timedelta(days=1))
    assert len(desk.wakes) == 4, "what timed out is not tried again by itself"


# The sweep


async def test_silence_for_five_minutes_is_a_timeout_and_not_a_moment_sooner(
    alarms: LocalWakeful, desk: Desk, passes: Passes
) -> None:
    alarm = await alarms.set("in 1 minute", "go", target="later")
    await passes(MINUTE)
    await passes(timedelta(minutes=5) - timedelta(milliseconds=1))
    assert (await only(alarms, alarm)).status == "delivered"
    await passes(0.001)
    fire = await only(alarms, alarm)
    assert (fire.status, fire.result, fire.completed_at) == ("timed_out", "timeout_unknown", None)
    assert [entry.result for entry in await alarms.failed()] == ["timeout_unknown"]
    assert (await alarms.get(alarm.id)).status == "fired"
    assert await passes(timedelta(days=1)) == 0, "silence is not tried again"


async def test_an_alarm_may_give_its_target_more_time_or_less(alarms: LocalWakeful, desk: Desk, passes: Passes) -> None:
    patient = await alarms.set("in 1 minute", "go", target="later", policy={"report_within": "1h"})
    hasty = await alarms.set("in 1 minute", "go", target="later", policy={"report_within": "10s"})
    await passes(MINUTE)
    await passes(10)
    assert ((await only(alarms, patient)).status, (await only(alarms, hasty)).status) == ("delivered", "timed_out")
    await passes(timedelta(hours=1))
    assert (await only(alarms, patient)).status == "timed_out"


async def test_the_sweep_leaves_what_ended_and_what_is_tried_again(
    alarms: LocalWakeful, desk: Desk, passes: Passes
) -> None:
    done = await alarms.set("in 1 minute", "done", target="good")
    reported = await alarms.set("in 1 minute", "reported", target="later")
    failed = await alarms.set("in 1 minute", "failed", target="later", max_failures=0)
    retried = await alarms.set("in 1 minute", "retried", target="later", policy={"backoff_base": 900})
    gone = await alarms.set("in 1 minute", "gone", target="later")
    await alarms.cancel(gone.id)
    await passes(MINUTE)
    await alarms.completed(reported.fire_id, "ok")
    for alarm in (failed, retried):
        await alarms.delivery_failed(alarm.fire_id, "HTTP 503")
    await passes(timedelta(minutes=6))
    assert [(await only(alarms, alarm)).status for alarm in (done, reported, failed, retried)] == [
        "completed",
        "completed",
        "failed",
        "retrying",
    ]
    assert await alarms.fires(gone.id) == []
    assert (await alarms.stats()).timeout_unknown == 0


async def test_a_word_that_comes_late_still_counts(alarms: LocalWakeful, desk: Desk, passes: Passes) -> None:
    alarm = await alarms.set("in 1 minute", "go", target="later")
    await passes(MINUTE)
    await passes(timedelta(minutes=6))
    done = await alarms.completed(alarm.fire_id, "ok")
    assert (done.status, done.reason, done.result) == ("completed", "late", "ok")
    assert await alarms.failed() == []


# Restarts


async def test_after_a_restart_everything_pending_fires_at_its_time_retries_too(
    place: Place, time: ManualClock
) -> None:
    # Alarm gives up on silence; a new alarm of wakeful does not.
    async with open_local(**place, clock=time, on_silence="give_up") as alarms:
        Desk(alarms)
        late = await alarms.set("in 3 minutes", "late", target="good")
        soon = await alarms.set("in 2 minutes", "soon", target="good")
        gone = await alarms.set("in 2 minutes", "gone", target="good")
        await alarms.cancel(gone.id)
        raised = await alarms.set("in 1 minute", "raised", target="bad")
        reported = await alarms.set("in 1 minute", "reported", target="later")
        await time.advance(MINUTE)
        await alarms.run_due()
        await alarms.delivery_failed(reported.fire_id, "HTTP 503")
    # Alarm gives up on silence; a new alarm of wakeful does not.
    async with open_local(**place, clock=time, on_silence="give_up") as alarms:
        desk = Desk(alarms)
        assert {one.id for one in await alarms.pending()} == {raised.id, reported.id, soon.id, late.id}
        for _ in range(4):
            await time.advance(timedelta(seconds=33))
            await alarms.run_due()
        told = [(wake.message, wake.attempt) for wake in desk.wakes]
        assert sorted(told[:2]) == [("raised", 2), ("reported", 2)]
        assert [message for message, attempt in told if attempt == 1] == ["soon", "late"]
        assert all(fire.started_at == NEW_YEAR + MINUTE for fire in await alarms.fires(reported.id))


async def test_what_fell_due_while_nobody_ran_is_delivered_late_and_in_order(place: Place, time: ManualClock) -> None:
    # Alarm gives up on silence; a new alarm of wakeful does not.
    async with open_local(**place, clock=time, on_silence="give_up") as alarms:
        Desk(alarms)
        for minutes in (3, 1, 2):
            await alarms.set(f"in {minutes} minutes", str(minutes), target="good")
    await time.advance(timedelta(hours=1))
    # Alarm gives up on silence; a new alarm of wakeful does not.
    async with open_local(**place, clock=time, on_silence="give_up") as alarms:
        desk = Desk(alarms)
        assert await alarms.run_due() == 3
        assert [wake.message for wake in desk.wakes] == ["1", "2", "3"]


async def test_a_name_that_no_process_serves_stays_due_is_visible_and_holds_up_nobody(place: Place) -> None:
    place = {**place, "batch": 10}
    async with open_local(**place) as before:
        before.handler("renamed")(lambda wake: "found at last")
        many = await asyncio.gather(
            *(before.set(delay=0.01, wake_message="go", target="renamed") for _ in range(before.settings.batch + 1))
        )
    async with serving(**place) as visit:
        await visit.fired()  # an alarm of another target, set after all of them
        assert "no running worker serves the target 'renamed'" in (await visit.alarms.why(many[0].id)).summary
        metrics = (await visit("GET", "/metrics")).text
        assert f'wakeful_due_backlog{{target="renamed"}} {float(len(many))}' in metrics
        assert 'wakeful_due_oldest_seconds{target="renamed"} ' in metrics
        with pytest.raises(wakeful.UnknownTarget) as raised:
            await visit.alarms.set("in 1 hour", "one more", target="renamed")
        assert raised.value.field == "target"
        assert {(await visit.alarms.get(alarm.id)).status for alarm in many} == {"active"}
    async with open_local(**place) as after:
        after.handler("renamed")(lambda wake: "found at last")
        assert await after.run_due() == len(many)
        assert {fire.result for fire in await after.fires(target="renamed")} == {"found at last"}
