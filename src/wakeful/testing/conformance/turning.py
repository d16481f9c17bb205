"""Claiming a target's owners in turn: nobody waits for all that another has due, and no rule of claiming is bent."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from wakeful.alarm import Alarm
from wakeful.store import Claimed, Store, Turn
from wakeful.store.records import OWNERS_A_CLAIM
from wakeful.testing.clock import ManualClock
from wakeful.testing.conformance.making import DESK, LEASE, added, an_alarm, change, claimed, settled


async def in_turn(store: Store, slots: int, turn: Turn, *, suspects: bool = True) -> Claimed:
    return await store.claim({DESK: slots}, lease=LEASE, suspects=suspects, turns={DESK: turn})


def owners(alarms: list[Alarm]) -> Counter[str]:
    return Counter(alarm.owner_did for alarm in alarms)


async def flood(store: Store, clock: ManualClock, *others: str, much: int = 100, owner: str = "much") -> None:
    """Much of one owner, due before anything of the others."""
    await added(store, *(an_alarm(clock, due=-60, owner_did=owner) for _ in range(much)))
    await added(store, *(an_alarm(clock, due=-1, owner_did=owner) for owner in others))


class TestOwnersInTurn:
    async def test_whoever_was_due_last_is_claimed_beside_much_of_another(
        self, store: Store, clock: ManualClock
    ) -> None:
        await flood(store, clock, "quiet")
        assert owners(await claimed(store, 10)) == {"much": 10}, "without a turn: in the order they are due"
        answer = await in_turn(store, 10, Turn(5))
        assert owners(answer.alarms) == {"much": 9, "quiet": 1}
        assert [alarm.unsettled for alarm in answer.alarms] == [1] * 10
        assert answer.stood == {DESK: ""}, "there is nobody further"

    async def test_each_owner_gives_its_oldest_first_and_then_its_second(
        self, store: Store, clock: ManualClock
    ) -> None:
        await flood(store, clock, much=20)
        rest = {owner: [an_alarm(clock, due=due, owner_did=owner) for due in (-3, -2, -1)] for owner in "abc"}
        await added(store, *(alarm for alarms in rest.values() for alarm in alarms))
        answer = await in_turn(store, 10, Turn(5))
        assert owners(answer.alarms) == {"a": 2, "b": 1, "c": 1, "much": 6}
        taken = {alarm.id for alarm in answer.alarms}
        assert {alarm.id for alarm in (*rest["a"][:2], rest["b"][0], rest["c"][0])} < taken

    async def test_the_answer_is_in_the_order_they_were_due(self, store: Store, clock: ManualClock) -> None:
        await flood(store, clock, "a", "b", "zoe")
        moments = [alarm.next_fire_at for alarm in (await in_turn(store, 10, Turn(5))).alarms]
        assert moments == sorted(moments)

    async def test_the_walk_goes_on_where_it_stood_and_starts_again_at_the_end(
        self, store: Store, clock: ManualClock
    ) -> None:
        names = [f"o{number}" for number in range(5)]
        await flood(store, clock, *(name for name in names for _ in range(9)), owner="o2")
        stood, seen = "", []
        for _ in range(6):
            answer = await in_turn(store, 4, Turn(2, stood))
            stood = answer.stood[DESK]
            seen.append((owners(answer.alarms), stood))
        ones = [({"o0": 1, "o1": 1, "o2": 2}, "o1"), ({"o2": 3, "o3": 1}, "o3"), ({"o4": 1, "o2": 3}, "")]
        assert seen == ones * 2

    async def test_whoever_the_walk_stood_at_may_be_gone(self, store: Store, clock: ManualClock) -> None:
        await flood(store, clock, "a", "c", "e")
        answer = await in_turn(store, 2, Turn(1, "b"))
        assert (owners(answer.alarms), answer.stood) == ({"c": 1, "much": 1}, {DESK: "c"})
        answer = await in_turn(store, 2, Turn(1, "zzz"))
        assert (owners(answer.alarms), answer.stood) == ({"much": 2}, {DESK: ""})

    async def test_owners_with_nothing_due_are_passed_by_a_bounded_number_at_a_time(
        self, store: Store, clock: ManualClock
    ) -> None:
        k = OWNERS_A_CLAIM
        names = [f"idle{number:05}" for number in range(2 * k + 1)]
        await added(store, *(an_alarm(clock, due=60, owner_did=name) for name in names))
        await flood(store, clock, "quiet")
        stood, seen = "", []
        for _ in range(4):
            answer = await in_turn(store, 4, Turn(2, stood))
            stood = answer.stood[DESK]
            seen.append((owners(answer.alarms), stood))
        much = {"much": 4}
        last = names[k - 1], names[2 * k - 1]
        assert seen == [(much, last[0]), (much, last[1]), ({"quiet": 1, "much": 3}, ""), (much, last[0])]

    @pytest.mark.parametrize("share", [1, 2, 3, 7, 8, 20])
    @pytest.mark.parametrize("slots", [1, 2, 7, 40])
    async def test_never_more_than_the_slots_and_none_twice(
        self, store: Store, clock: ManualClock, slots: int, share: int
    ) -> None:
        await flood(store, clock, *(f"o{number % 6}" for number in range(18)), much=30)
        stood = ""
        seen: list[str] = []
        while (answer := await in_turn(store, slots, Turn(share, stood))).alarms:
            assert len(answer.alarms) == min(slots, 48 - len(seen)), "and never less than there is"
            seen += [alarm.id for alarm in answer.alarms]
            stood = answer.stood[DESK]
        assert len(seen) == len(set(seen)) == 48

    async def test_what_is_leased_or_not_yet_due_or_not_active_is_left_alone(
        self, store: Store, clock: ManualClock
    ) -> None:
        await added(store, an_alarm(clock, owner_did="leased"))
        [held] = await claimed(store)
        assert await settled(store, change(held, unsettled=0)) == ["applied"], "a lease alone holds it"
        await flood(store, clock)
        await added(store, an_alarm(clock, due=1, owner_did="later"), an_alarm(clock, owner_did="off", status="paused"))
        for _ in range(3):
            assert owners((await in_turn(store, 8, Turn(4))).alarms) == {"much": 8}
        await clock.advance(1)
        assert owners((await in_turn(store, 8, Turn(4))).alarms) == {"much": 7, "later": 1}
        assert await settled(store, change(held, claimed_at=None, unsettled=0)) == ["applied"]
        assert owners((await in_turn(store, 8, Turn(4))).alarms) == {"much": 7, "leased": 1}

    async def test_suspects_are_claimed_one_at_a_time_all_the_same(self, store: Store, clock: ManualClock) -> None:
        await added(store, *(an_alarm(clock, owner_did=owner) for owner in "abcdef"))
        for _ in range(2):
            assert len(await claimed(store)) == 6
            await clock.advance(LEASE)
        await flood(store, clock, "quiet")
        answer = await in_turn(store, 8, Turn(4), suspects=False)
        assert owners(answer.alarms) == {"much": 7, "quiet": 1}
        seen = []
        for slots in (8, 1, 2, 8):
            answer = await in_turn(store, slots, Turn(max(1, slots // 2)))
            seen.append(sum(alarm.is_suspect for alarm in answer.alarms))
            assert len(answer.alarms) == slots
        assert seen == [1, 1, 1, 1]

    async def test_a_group_of_suspects_is_claimed_in_the_order_it_was_due(
        self, store: Store, clock: ManualClock
    ) -> None:
        await added(store, *(an_alarm(clock, due=-60, owner_did=owner) for owner in "abcdef"))
        assert len(await claimed(store)) == 6
        await clock.advance(LEASE)
        await flood(store, clock, "quiet")
        answer = await in_turn(store, 8, Turn(2))
        assert sum(alarm.is_suspect for alarm in answer.alarms) == 6
        assert (len(answer.alarms), owners(answer.alarms)["quiet"]) == (8, 1)

    async def test_other_targets_are_claimed_as_ever(self, store: Store, clock: ManualClock) -> None:
        await flood(store, clock, "quiet")
        await added(store, *(an_alarm(clock, due=-60, owner_did="much", target="other") for _ in range(9)))
        await added(store, an_alarm(clock, owner_did="quiet", target="other"))
        slots = {DESK: 4, "other": 4, "none": 4}
        answer = await store.claim(slots, lease=LEASE, turns={DESK: Turn(2), "none": Turn(2)})
        found = Counter((alarm.target, alarm.owner_did) for alarm in answer.alarms)
        assert found == {(DESK, "much"): 3, (DESK, "quiet"): 1, ("other", "much"): 4}
        assert answer.stood == {DESK: "", "none": ""}

    async def test_two_targets_have_a_walk_each(self, store: Store, clock: ManualClock) -> None:
        for target in ("x", "y"):
            names = ["much"] * 20 + ["a", "b", "c"]
            await added(store, *(an_alarm(clock, owner_did=name, target=target) for name in names))
        answer = await store.claim({"x": 2, "y": 2}, lease=LEASE, turns={"x": Turn(1), "y": Turn(1, "b")})
        found = Counter((alarm.target, alarm.owner_did) for alarm in answer.alarms)
        assert found == {("x", "a"): 1, ("x", "much"): 1, ("y", "c"): 1, ("y", "much"): 1}
        assert answer.stood == {"x": "a", "y": "c"}

    async def test_claimers_at_the_same_time_never_share_an_alarm(self, store: Store, clock: ManualClock) -> None:
        await flood(store, clock, *(f"o{number}" for number in range(40)), much=80)
        turns = [in_turn(store, 10, Turn(5, f"o{number}")) for number in range(8)]
        plain = [store.claim({DESK: 10}, lease=LEASE) for _ in range(8)]
        answers = await asyncio.gather(*(one for both in zip(turns, plain, strict=True) for one in both))
        leased = [alarm.id for answer in answers for alarm in answer.alarms]
        assert len(leased) == len(set(leased))
        rest = [alarm.id for alarm in await claimed(store, 200)]
        assert len(set(leased + rest)) == 120
