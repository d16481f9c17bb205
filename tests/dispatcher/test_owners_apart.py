"""What a target answers to one owner's wakes holds up that owner there, and nobody else."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.acting import acting
from wakeful.dispatcher.breaker import APART, LONGEST_HOLD, OPENS_AFTER, TOGETHER
from wakeful.model.alarm import Alarm, Policy
from wakeful.model.outcome import Delivered, Failed, Outcome
from wakeful.rules.settle import release
from wakeful.rules.wake import Wake
from wakeful.testing.conformance.making import an_alarm

from .conftest import World

SECOND = timedelta(seconds=1)
EVE = "eve"
ADA = "ada"
ILL = Failed("HTTP 500", unhealthy=True, answered=True)
AWAY = Failed("could not connect", unhealthy=True)


class Shared:
    """A router for many: it answers each owner as that owner's agent does."""

    def __init__(self, **answers: Outcome) -> None:
        self.answers = answers
        self.wakes: list[Wake] = []

    async def deliver(self, wake: Wake) -> Outcome:
        self.wakes.append(wake)
        return self.answers.get(wake.alarm.owner_did, Delivered())

    async def close(self) -> None: ...

    @property
    def sent(self) -> Counter[str]:
        return Counter(wake.alarm.owner_did for wake in self.wakes)


@pytest.fixture
def router(world: World) -> Shared:
    router = Shared(eve=ILL)
    world.serve("router", router)
    return router


def of(world: World, owner: str, *, due: float = -1, **given: object) -> Alarm:
    return an_alarm(world.clock, due=due, owner_did=owner, target="router", **given)


async def break_for_eve(world: World, router: Shared) -> None:
    """As many of hers as it takes, all sent and all answered with trouble."""
    await world.store.add([of(world, EVE) for _ in range(OPENS_AFTER)])
    await world.dispatcher.run_due()
    assert router.sent[EVE] == OPENS_AFTER


async def test_five_bad_answers_to_one_owner_do_not_delay_another(world: World, router: Shared) -> None:
    await break_for_eve(world, router)
    hers, his = of(world, EVE, due=0), of(world, ADA, due=0)
    await world.store.add([hers, his])
    await world.dispatcher.run_due()
    assert router.sent == {EVE: OPENS_AFTER, ADA: 1}
    assert world.dispatcher.health.breakers["router"] is False
    assert world.dispatcher.health.held == {"router": 1}
    assert (await world.read(hers)).next_fire_at > world.clock.now(), "out of everybody's way"


async def test_an_answer_counts_for_nobody_else_however_many_owners_get_one(world: World, router: Shared) -> None:
    owners = [f"owner{number}" for number in range(3 * OPENS_AFTER)]
    router.answers |= dict.fromkeys(owners, ILL)
    await world.store.add([of(world, owner) for owner in owners])
    await world.dispatcher.run_due()
    await world.store.add([of(world, owner, due=0) for owner in (*owners, ADA)])
    await world.dispatcher.run_due()
    assert router.sent == dict.fromkeys(owners, 2) | {ADA: 1}


async def test_a_target_that_cannot_be_reached_is_spared_for_all(world: World, router: Shared) -> None:
    router.answers[EVE] = AWAY
    await break_for_eve(world, router)
    await world.store.add([of(world, ADA, due=0)])
    await world.dispatcher.run_due()
    assert router.sent[ADA] == 0
    assert world.dispatcher.health.breakers["router"] is True
    await world.clock.advance(1)
    await world.dispatcher.run_due()
    assert router.sent[ADA] == 1


async def test_probes_of_a_target_go_to_one_owner_after_the_other(world: World, router: Shared) -> None:
    """Eve's oldest alarm alone would say for ever that nobody can be reached."""
    router.answers[EVE] = AWAY
    await break_for_eve(world, router)
    await world.store.add([of(world, EVE, due=-50) for _ in range(50)])
    await world.store.add([of(world, "zoe", due=0)])
    for _ in range(3):
        await world.clock.advance(2)
        await world.dispatcher.run_due()
    assert router.sent["zoe"] == 1


async def test_an_answer_shows_that_the_target_is_reached_also_a_bad_one(world: World, router: Shared) -> None:
    router.answers[ADA] = AWAY
    await world.store.add([of(world, ADA) for _ in range(OPENS_AFTER - 1)])
    await world.dispatcher.run_due()
    await world.store.add([of(world, EVE, due=0)])
    await world.dispatcher.run_due()
    await world.store.add([of(world, ADA, due=0)])
    await world.dispatcher.run_due()
    assert world.dispatcher.health.breakers["router"] is False
    assert router.sent == {ADA: OPENS_AFTER, EVE: 1}


async def test_after_the_pause_one_wake_of_the_owner_is_tried_then_after_a_longer_one(
    world: World, router: Shared
) -> None:
    await break_for_eve(world, router)
    await world.store.add([of(world, EVE, due=0) for _ in range(4)])
    await world.dispatcher.run_due()
    await world.clock.advance(0.9)
    await world.dispatcher.run_due()
    assert router.sent[EVE] == OPENS_AFTER
    await world.clock.advance(1)
    await world.dispatcher.run_due()
    assert router.sent[EVE] == OPENS_AFTER + 1, "one probe"
    await world.clock.advance(1.9)
    await world.dispatcher.run_due()
    assert router.sent[EVE] == OPENS_AFTER + 1, "the second pause is twice as long"
    await world.clock.advance(1)
    await world.dispatcher.run_due()
    assert router.sent[EVE] == OPENS_AFTER + 2


async def test_a_success_of_the_owner_lets_all_through_again_and_no_attempt_was_counted(
    world: World, router: Shared
) -> None:
    await break_for_eve(world, router)
    held = [of(world, EVE, due=0) for _ in range(20)]
    await world.store.add(held)
    for _ in range(3):
        await world.dispatcher.run_due()
        await world.clock.advance(0.3)
    for alarm in held:
        now = await world.read(alarm)
        assert (now.failure_count, now.unsettled, now.version, now.status) == (0, 0, alarm.version, "active")
        assert not await world.fires(alarm)
    router.answers.clear()
    await world.clock.advance(1)
    await world.dispatcher.run_due()
    await world.clock.advance(2)
    await world.dispatcher.run_due()
    fires = [fire for alarm in held for fire in await world.fires(alarm)]
    assert [(fire.status, fire.attempts) for fire in fires] == [("delivered", 1)] * 20
    assert world.dispatcher.health.held == {}


async def test_a_success_of_another_owner_does_not_let_them_through(world: World, router: Shared) -> None:
    await break_for_eve(world, router)
    await world.store.add([of(world, ADA, due=0)])
    await world.dispatcher.run_due()
    await world.store.add([of(world, EVE, due=0)])
    await world.dispatcher.run_due()
    assert router.sent == {EVE: OPENS_AFTER, ADA: 1}


async def test_what_a_receiver_asks_for_holds_for_the_owner_it_answered(world: World, router: Shared) -> None:
    router.answers[EVE] = Failed("HTTP 429", unhealthy=True, answered=True, retry_after=120)
    await world.store.add([of(world, EVE)])
    await world.dispatcher.run_due()
    await world.store.add([of(world, EVE, due=0), of(world, ADA, due=0)])
    await world.dispatcher.run_due()
    assert router.sent == {EVE: 1, ADA: 1}
    router.answers.clear()
    await world.clock.advance(119)
    await world.dispatcher.run_due()
    assert router.sent[EVE] == 1
    await world.clock.advance(2)
    await world.dispatcher.run_due()
    assert router.sent[EVE] >= 2


async def test_a_receiver_that_asks_for_a_day_is_tried_before(world: World, router: Shared) -> None:
    router.answers[EVE] = Failed("HTTP 503", unhealthy=True, answered=True, retry_after=1e12)
    await world.store.add([of(world, EVE)])
    await world.dispatcher.run_due()
    await world.store.add([of(world, EVE, due=0)])
    await world.dispatcher.run_due()
    await world.clock.advance(LONGEST_HOLD + timedelta(seconds=1))
    await world.dispatcher.run_due()
    assert router.sent[EVE] == 2


async def test_a_thousand_that_wait_are_passed_through_once_and_come_up_again_apart(
    world: World, router: Shared
) -> None:
    await break_for_eve(world, router)
    await world.store.add([of(world, EVE, due=-60) for _ in range(1_000)])
    await world.store.add([of(world, ADA, due=0)])
    assert await world.dispatcher.run_due() == 1_001, "each of hers was looked at once"
    assert router.sent == {EVE: OPENS_AFTER, ADA: 1}
    for _ in range(3):
        await world.clock.advance(1 if router.sent[ADA] == 1 else APART)
        await world.store.add([of(world, ADA, due=0)])
        assert await world.dispatcher.run_due() == TOGETHER + 1, "a few of hers at a time"
    assert router.sent == {EVE: OPENS_AFTER + 1, ADA: 4}


async def test_a_restart_forgets_it_and_loses_nothing(world: World, router: Shared) -> None:
    await break_for_eve(world, router)
    held = [of(world, EVE, due=0) for _ in range(50)]
    await world.store.add(held)
    await world.dispatcher.run_due()
    router.answers.clear()
    await world.clock.advance(2)
    await world.another().run_due()
    assert {wake.alarm.id for wake in router.wakes} >= {alarm.id for alarm in held}
    assert router.sent[EVE] == OPENS_AFTER + 50, "once each"


async def test_a_series_that_waits_keeps_account_of_every_instant(world: World, router: Shared) -> None:
    every_second = replace(
        of(world, EVE, due=0), kind="cron", cron_expr="@every 1s", policy=Policy(anchor=world.clock.now())
    )
    await break_for_eve(world, router)
    await world.store.add([every_second])
    for _ in range(20):
        await world.dispatcher.run_due()
        await world.clock.advance(0.7)
    router.answers.clear()
    for _ in range(40):
        await world.dispatcher.run_due()
        await world.clock.advance(0.7)
    now = await world.read(every_second)
    fires = await world.fires(every_second)
    told = [fire.scheduled_for + n * SECOND for fire in fires for n in range(fire.count)]
    start = every_second.occurrence_at
    assert sorted(told) == [start + n * SECOND for n in range((now.occurrence_at - start) // SECOND)]
    assert {fire.status for fire in fires} >= {"delivered", "skipped"}


async def test_why_tells_its_owner_and_nobody_else(world: World, router: Shared) -> None:
    router.answers[EVE] = Failed("HTTP 500: eve's own words", unhealthy=True, answered=True)
    await break_for_eve(world, router)
    held, his = of(world, EVE, due=0), of(world, ADA, due=30)
    await world.store.add([held, his])
    await world.dispatcher.run_due()
    told = (await acting(world.service, EVE, limited=True).why(held.id)).summary
    assert told == (
        "It has been due for 0 s; the target has answered this owner's wakes with HTTP 500 since 2030-01-01T00:00:00Z. "
        "It waits for that to end and is looked at again at 2030-01-01T00:00:01Z."
    )
    assert "HTTP 500" not in str(await acting(world.service, ADA, limited=True).why(his.id))
    assert (await world.store.maintenance.target_states()).get("router") is None


async def test_why_of_one_that_was_put_back_for_another_reason_names_none(world: World, router: Shared) -> None:
    alarm = of(world, EVE, due=-5)
    await world.store.add([alarm])
    [claimed] = (await world.store.claim({"router": 1}, lease=world.settings.lease)).alarms
    await world.store.settle([release(claimed, now=world.clock.now(), wait=10 * SECOND)])
    assert (await acting(world.service, EVE, limited=True).why(alarm.id)).summary == (
        "It has been due for 5 s, could not be delivered just then, and is looked at again at 2030-01-01T00:00:10Z."
    )


async def test_a_success_since_then_ends_what_why_tells_of(world: World, router: Shared) -> None:
    await break_for_eve(world, router)
    held = [of(world, EVE, due=0) for _ in range(30)]
    await world.store.add(held)
    await world.dispatcher.run_due()
    router.answers.clear()
    await world.clock.advance(1)
    await world.dispatcher.run_due()
    waiting = [alarm for alarm in held if alarm.id not in {wake.alarm.id for wake in router.wakes}]
    assert "HTTP 500" not in (await acting(world.service, EVE, limited=True).why(waiting[-1].id)).summary
