"""Who waits for a signal is found by its name, and only among an owner's own active alarms."""

from __future__ import annotations

from wakeful.alarm import Policy
from wakeful.alarm.model import HeardSignal
from wakeful.store import Store
from wakeful.testing.clock import ManualClock
from wakeful.testing.conformance.making import added, an_alarm, change, settled, stored

CANCELS = Policy(unless="reply")
FIRES = Policy(or_when="reply", jitter=3.0)


class TestSignals:
    async def test_those_who_wait_for_it_are_found_in_the_order_of_their_ids(
        self, store: Store, clock: ManualClock
    ) -> None:
        waiting = [an_alarm(clock, policy=policy) for policy in (CANCELS, FIRES, CANCELS, FIRES)]
        others = [an_alarm(clock), an_alarm(clock, policy=Policy(unless="replies", or_when="other"))]
        await added(store, *others, *waiting)
        assert await store.listening("ada", "reply", limit=10) == waiting
        first = await store.listening("ada", "reply", limit=3)
        assert first == waiting[:3]
        assert await store.listening("ada", "reply", after=first[-1].id, limit=3) == waiting[3:]
        assert await store.listening("ada", "Reply", limit=10) == []

    async def test_another_owner_s_are_not(self, store: Store, clock: ManualClock) -> None:
        await added(store, an_alarm(clock, policy=CANCELS, owner_did="bob"))
        assert await store.listening("ada", "reply", limit=10) == []
        assert await store.listening("", "reply", limit=10) == []
        assert len(await store.listening("bob", "reply", limit=10)) == 1

    async def test_those_that_have_ended_or_are_paused_are_not(self, store: Store, clock: ManualClock) -> None:
        alarms = [an_alarm(clock, policy=policy) for policy in (CANCELS, FIRES, FIRES)]
        await added(store, *alarms)
        statuses = ("cancelled", "paused", "fired")
        changes = [change(one, status=status, version=2) for one, status in zip(alarms, statuses, strict=True)]
        assert await settled(store, *changes) == ["applied"] * 3
        assert await store.listening("ada", "reply", limit=10) == []
        again = await stored(store, alarms[1])
        await settled(store, change(again, status="active", version=3))
        assert [one.id for one in await store.listening("ada", "reply", limit=10)] == [alarms[1].id]

    async def test_an_edit_says_anew_what_is_waited_for(self, store: Store, clock: ManualClock) -> None:
        alarm = an_alarm(clock, policy=CANCELS)
        await added(store, alarm)
        await settled(store, change(alarm, edited=True, policy=Policy(or_when="done"), version=2))
        assert await store.listening("ada", "reply", limit=10) == []
        assert len(await store.listening("ada", "done", limit=10)) == 1

    async def test_what_was_heard_is_kept_byte_for_byte(self, store: Store, clock: ManualClock) -> None:
        heard = HeardSignal(name="reply", occurrence_at=clock.now(), payload_json='{"b" : 1.50, "a": "\\u00fc"}')
        alarm = an_alarm(clock, policy=Policy(or_when="reply", heard=heard))
        await added(store, alarm)
        assert (await stored(store, alarm)).policy.heard == heard
