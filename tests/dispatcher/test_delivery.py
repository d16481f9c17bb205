"""From due to settled: what a dispatcher does with an alarm, and with what its target answers."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from tests.acting import acting
from wakeful.model.alarm import Alarm, Change, Row
from wakeful.model.outcome import Completed, Delivered, Failed, Outcome, Snoozed
from wakeful.model.requests import EditRequest, ReportRequest
from wakeful.rules.wake import Wake
from wakeful.testing.conformance import Outbox

from .conftest import OWNER, World

MINUTE = timedelta(minutes=1)


async def test_an_alarm_is_delivered_once_it_is_due_and_not_before(world: World) -> None:
    alarm = await world.set(60)
    assert await world.run_due(59.999) == 0
    assert await world.run_due(0.001) == 1
    assert world.desk.fire_ids == [alarm.fire_id]
    assert (await world.read(alarm)).status == "fired"
    assert [fire.status for fire in await world.fires(alarm)] == ["delivered"]


async def test_a_failed_attempt_is_tried_again_under_the_same_id(world: World) -> None:
    world.desk.answer(Failed("HTTP 503"), Failed("HTTP 503"), Delivered())
    alarm = await world.set(1)
    await world.run_due(1)
    assert await world.run_due(29.9) == 0
    assert await world.run_due(3.2) == 1
    assert await world.run_due(66) == 1
    assert [wake.attempt for wake in world.desk.wakes] == [1, 2, 3]
    assert len(set(world.desk.fire_ids)) == 1
    [fire] = await world.fires(alarm)
    assert (fire.status, fire.attempts, len(fire.log)) == ("delivered", 3, 3)


async def test_an_alarm_that_keeps_failing_ends_failed_with_its_last_error(world: World) -> None:
    world.desk.answer(*[Failed(f"HTTP 50{n}") for n in range(3)])
    alarm = await world.set(1, max_failures=2)
    for _ in range(4):
        await world.run_due(timedelta(minutes=16))
    assert len(world.desk.wakes) == 3
    after = await world.read(alarm)
    assert (after.status, after.last_error) == ("failed", "HTTP 502")


async def test_a_series_goes_on_after_a_fire_that_failed_for_good(world: World) -> None:
    world.desk.answer(Failed("gone", retryable=False))
    alarm = await world.set(cron="0 * * * *")
    await world.run_due(timedelta(hours=1))
    await world.run_due(timedelta(hours=1))
    after = await world.read(alarm)
    assert after.status == "active"
    assert [fire.status for fire in await world.fires(alarm)] == ["delivered", "failed"]


async def test_what_a_target_raises_is_a_failed_attempt(world: World) -> None:
    class Broken:
        async def deliver(self, wake: Wake) -> Outcome:
            raise RuntimeError("no such luck")

        async def close(self) -> None: ...

    world.serve("broken", Broken())
    alarm = await world.set(1, target="broken")
    await world.run_due(1)
    after = await world.read(alarm)
    assert after.failure_count == 1
    assert "no such luck" in after.last_error


async def test_cancelling_during_delivery_wins_and_the_delivery_is_still_on_record(world: World) -> None:
    answers = []

    class CancelsMeanwhile:
        async def deliver(self, wake: Wake) -> Outcome:
            answers.append(await acting(world.service, OWNER).cancel(wake.alarm_id))
            return Delivered()

        async def close(self) -> None: ...

    world.serve("self", CancelsMeanwhile())
    alarm = await world.set(1, target="self")
    await world.run_due(1)
    assert answers[0].in_flight
    assert (await world.read(alarm)).status == "cancelled"
    assert [fire.status for fire in await world.fires(alarm)] == ["delivered"]


async def test_a_cancelled_alarm_is_not_retried_when_its_attempt_fails(world: World) -> None:
    class CancelsThenFails:
        async def deliver(self, wake: Wake) -> Outcome:
            await acting(world.service, OWNER).cancel(wake.alarm_id)
            return Failed("HTTP 500")

        async def close(self) -> None: ...

    world.serve("self", CancelsThenFails())
    alarm = await world.set(1, target="self")
    await world.run_due(1)
    assert await world.run_due(timedelta(hours=1)) == 0
    assert (await world.read(alarm)).status == "cancelled"
    assert [fire.status for fire in await world.fires(alarm)] == ["failed"]


async def test_an_edit_during_delivery_is_kept_and_the_delivery_counts(world: World) -> None:
    class EditsMeanwhile:
        async def deliver(self, wake: Wake) -> Outcome:

            await acting(world.service, OWNER).edit(wake.alarm_id, EditRequest(label="edited"))
            return Delivered()

        async def close(self) -> None: ...

    world.serve("self", EditsMeanwhile())
    alarm = await world.set(1, target="self")
    await world.run_due(1)
    after = await world.read(alarm)
    assert (after.status, after.label, after.version) == ("fired", "edited", 2)
    assert [fire.status for fire in await world.fires(alarm)] == ["delivered"]


async def test_a_report_that_comes_before_the_answer_is_not_overwritten_by_it(world: World) -> None:
    class ReportsFirst:
        async def deliver(self, wake: Wake) -> Outcome:
            await acting(world.service, OWNER).report(
                wake.fire_id, ReportRequest(outcome="completed", result="done early")
            )
            return Delivered()

        async def close(self) -> None: ...

    world.serve("self", ReportsFirst())
    alarm = await world.set(1, target="self")
    await world.run_due(1)
    [fire] = await world.fires(alarm)
    assert (fire.status, fire.result, fire.attempts) == ("completed", "done early", 1)
    assert (await world.read(alarm)).status == "fired"


async def test_a_failure_reported_before_the_answer_climbs_the_ladder(world: World) -> None:
    class FailsFirst:
        async def deliver(self, wake: Wake) -> Outcome:
            if wake.attempt == 1:
                await acting(world.service, OWNER).report(
                    wake.fire_id, ReportRequest(outcome="failed", result="disk full")
                )
            return Delivered()

        async def close(self) -> None: ...

    world.serve("self", FailsFirst())
    alarm = await world.set(1, target="self")
    await world.run_due(1)
    assert (await world.read(alarm)).last_error == "disk full"
    await world.run_due(34)
    [fire] = await world.fires(alarm)
    assert (fire.status, fire.attempts) == ("delivered", 2)


async def test_a_snoozed_wake_comes_again_as_a_fire_of_its_own(world: World) -> None:
    world.desk.answer(Snoozed(15 * MINUTE), Completed("up"))
    alarm = await world.set(1)
    await world.run_due(1)
    assert await world.run_due(14 * MINUTE) == 0
    assert await world.run_due(MINUTE) == 1
    assert len(set(world.desk.fire_ids)) == 2
    assert [fire.status for fire in await world.fires(alarm)] == ["completed", "snoozed"]


async def test_a_receiver_that_never_reports_is_woken_again_up_to_max_failures(world: World) -> None:
    alarm = await world.set(1, policy={"report_within": 60}, max_failures=2)
    assert await world.run_due(1) == 1
    for wait in (61 + 33, 61 + 66, 61):
        await world.run_due(61)
        await world.run_due(wait - 61)
    assert [wake.attempt for wake in world.desk.wakes] == [1, 2, 3]
    assert len({wake.body for wake in world.desk.wakes}) == 1, "the same wake, byte for byte"
    [fire] = await world.fires(alarm)
    assert (fire.id, fire.status, fire.result) == (alarm.fire_id, "timed_out", "timeout_unknown")
    assert (await world.read(alarm)).status == "fired"


async def test_a_failure_reported_after_silence_ends_as_failed_where_there_is_no_time_for_another_try(
    world: World,
) -> None:
    alarm = await world.set(1, policy={"report_within": 60, "expires": 80})
    await world.run_due(1)
    await world.run_due(61)
    await acting(world.service, OWNER).report(alarm.fire_id, ReportRequest(outcome="failed", result="disk full"))
    await world.run_due(600)
    [fire] = await world.fires(alarm)
    assert (fire.status, fire.last_error, len(world.desk.wakes)) == ("failed", "disk full", 1)
    assert (await world.read(alarm)).status == "failed"


async def test_an_alarm_stored_before_there_was_on_silence_gives_up(world: World) -> None:
    alarm = await world.set(1, policy={"report_within": 60})
    stored = await world.read(alarm)
    old = replace(stored, policy=replace(stored.policy, on_silence=None), version=stored.version + 1)
    await world.store.settle([Change(claim=stored.claim, version=stored.version, after=old, edited=True)])
    assert (await world.read(alarm)).policy.on_silence is None
    await world.run_due(1)
    await world.run_due(61)
    assert [fire.status for fire in await world.fires(alarm)] == ["timed_out"]


async def test_silence_where_a_report_is_awaited_is_a_timeout(world: World) -> None:
    alarm = await world.set(1, policy={"report_within": 60, "on_silence": "give_up"})
    await world.run_due(1)
    await world.run_due(59)
    assert [fire.status for fire in await world.fires(alarm)] == ["delivered"]
    await world.run_due(2)
    [fire] = await world.fires(alarm)
    assert (fire.status, fire.result) == ("timed_out", "timeout_unknown")


async def test_a_late_alarm_says_how_late_and_how_many_it_stands_for(world: World) -> None:
    alarm = await world.set(cron="* * * * *")
    await world.run_due(10 * MINUTE)
    [wake] = world.desk.wakes
    assert (wake.late_ms, wake.missed) == (9 * 60_000, 9)
    skipped, fired = await world.fires(alarm)
    assert (skipped.status, skipped.reason, skipped.count) == ("skipped", "missed", 9)
    assert fired.status == "delivered"


async def test_a_row_is_written_with_the_settlement_exactly_once(world: World, outbox: Outbox) -> None:
    class IntoOutbox:
        async def deliver(self, wake: Wake) -> Outcome:
            return Delivered(row=Row(outbox.table, {"fire_id": wake.fire_id, "body": wake.message}, "fire_id"))

        async def close(self) -> None: ...

    world.serve("table", IntoOutbox())
    alarm = await world.set(1, target="table")
    await world.run_due(1)
    assert await outbox.rows() == [(alarm.fire_id, "wake up")]


async def test_a_row_that_its_table_refuses_is_a_failed_attempt(world: World, outbox: Outbox) -> None:
    class IntoOutbox:
        async def deliver(self, wake: Wake) -> Outcome:
            return Delivered(row=Row(outbox.table, {"fire_id": wake.fire_id, "body": None}, "fire_id"))

        async def close(self) -> None: ...

    world.serve("table", IntoOutbox())
    alarm = await world.set(1, target="table")
    await world.run_due(1)
    after = await world.read(alarm)
    assert after.failure_count == 1
    assert "could not be written" in after.last_error
    assert await outbox.rows() == []


async def test_an_alarm_that_can_no_longer_be_planned_is_set_aside(world: World) -> None:
    """As after a downgrade, or a zone that left the zone data."""
    good = await world.set(60)
    bad = await world.set(cron="0 * * * *")
    await _spoil(world, bad)
    await world.run_due(timedelta(hours=1))
    after = await world.read(bad)
    assert after.status == "failed"
    assert "Nowhere/Land" in after.last_error
    assert after.last_error.startswith("set aside: what follows its delivery cannot be planned: InvalidSchedule: ")
    assert (await world.read(good)).status == "fired"


async def _spoil(world: World, alarm: Alarm) -> None:
    from msgspec.structs import replace

    from wakeful.model.alarm import Change

    spoilt = replace(alarm, timezone="Nowhere/Land")
    [answer] = await world.store.settle([Change(claim=alarm.claim, version=alarm.version, after=spoilt, edited=True)])
    assert answer.what == "applied"
