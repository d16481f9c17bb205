"""Claiming: due alarms and no others, oldest first, owners in turn, one live lease each."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from wakeful.model.alarm import Alarm
from wakeful.store import Claim, Claimed, Store, Turn
from wakeful.store.records import OWNERS_A_CLAIM
from wakeful.testing.conformance.making import (
    DESK,
    LEASE,
    MS,
    SECOND,
    added,
    an_alarm,
    change,
    claimed,
    done,
    new_id,
    one_claimed,
    settled,
    stored,
)
from wakeful.testing.manual_clock import ManualClock


class TestClaiming:
    async def test_a_due_alarm_is_leased_and_numbered(self, store: Store, clock: ManualClock) -> None:
        alarm = an_alarm(clock)
        await added(store, alarm)
        answer = await store.claim({DESK: 5}, lease=LEASE)
        [leased] = answer.alarms
        assert answer.now == clock.now()
        assert (leased.id, leased.claim, leased.unsettled, leased.claimed_at) == (alarm.id, 1, 1, clock.now())
        assert await store.get(alarm.id) == leased

    async def test_a_claim_is_not_a_change(self, store: Store, clock: ManualClock) -> None:
        alarm = an_alarm(clock)
        await added(store, alarm)
        await clock.advance(5)
        leased = await one_claimed(store)
        assert (leased.version, leased.updated_at) == (alarm.version, alarm.updated_at)

    async def test_nothing_fires_early(self, store: Store, clock: ManualClock) -> None:
        await added(store, an_alarm(clock, due=10))
        await clock.advance(10 * SECOND - timedelta(microseconds=1))
        assert await claimed(store) == []
        await clock.advance(timedelta(microseconds=1))
        assert len(await claimed(store)) == 1

    @pytest.mark.parametrize("turns", [{}, {DESK: Turn(2), "else": Turn(2)}])
    async def test_what_is_due_soon_is_claimed_early_where_that_is_asked_for(
        self, store: Store, clock: ManualClock, turns: dict[str, Turn]
    ) -> None:
        await added(store, *(an_alarm(clock, due=due, target=at) for at in (DESK, "else") for due in (0.04, 0.041)))
        early = {DESK: timedelta(milliseconds=40), "unknown": LEASE}
        answer = await store.claim({DESK: 9, "else": 9}, lease=LEASE, turns=turns, early=early)
        assert [(alarm.target, alarm.next_fire_at - clock.now()) for alarm in answer.alarms] == [(DESK, early[DESK])]
        assert (answer.now, answer.alarms[0].claimed_at) == (clock.now(), clock.now())
        await clock.advance(1)
        assert len((await store.claim({DESK: 9, "else": 9}, lease=LEASE)).alarms) == 3

    async def test_a_suspect_is_not_claimed_early(self, store: Store, clock: ManualClock) -> None:
        await added(store, an_alarm(clock, due=1, unsettled=1))
        early = {DESK: timedelta(seconds=5)}
        assert (await store.claim({DESK: 9}, lease=LEASE, early=early)).alarms == []
        await clock.advance(1)
        assert len((await store.claim({DESK: 9}, lease=LEASE, early=early)).alarms) == 1

    async def test_the_oldest_come_first(self, store: Store, clock: ManualClock) -> None:
        alarms = [an_alarm(clock, due=due) for due in (3, 1, 5, 2, 4)]
        await added(store, *alarms)
        await clock.advance(60)
        first = await claimed(store, 2)
        rest = await claimed(store, 10)
        assert [leased.next_fire_at - alarms[1].next_fire_at for leased in first + rest] == [
            n * SECOND for n in range(5)
        ]

    async def test_no_more_than_the_free_slots_are_claimed(self, store: Store, clock: ManualClock) -> None:
        await added(store, *(an_alarm(clock) for _ in range(10)))
        assert len(await claimed(store, 3)) == 3
        assert await claimed(store, 0) == []
        assert len(await claimed(store, 100)) == 7

    async def test_each_target_has_its_own_slots(self, store: Store, clock: ManualClock) -> None:
        await added(store, *(an_alarm(clock, target=target) for target in ("a", "b", "c") for _ in range(5)))
        answer = await store.claim({"a": 2, "b": 4, "unknown": 9}, lease=LEASE)
        assert sorted(alarm.target for alarm in answer.alarms) == ["a"] * 2 + ["b"] * 4

    async def test_a_targets_backlog_does_not_hold_up_another(self, store: Store, clock: ManualClock) -> None:
        await added(store, *(an_alarm(clock, target="dead") for _ in range(1000)))
        await clock.advance(1)
        await added(store, an_alarm(clock, target="quick"))
        answer = await store.claim({"dead": 1, "quick": 5}, lease=LEASE)
        assert sorted(alarm.target for alarm in answer.alarms) == ["dead", "quick"]

    async def test_no_targets_and_no_alarms_claim_nothing(self, store: Store) -> None:
        assert (await store.claim({}, lease=LEASE)).alarms == []
        assert await claimed(store) == []

    @pytest.mark.parametrize("status", ["paused", "fired", "failed", "cancelled"])
    async def test_only_active_alarms_are_claimed(self, store: Store, clock: ManualClock, status: str) -> None:
        await added(store, an_alarm(clock, status=status))
        assert await claimed(store) == []
        assert await store.next_due([DESK]) is None

    async def test_claimers_at_the_same_time_never_share_an_alarm(self, store: Store, clock: ManualClock) -> None:
        alarms = [an_alarm(clock) for _ in range(60)]
        await added(store, *alarms)
        answers = await asyncio.gather(*(claimed(store, 10) for _ in range(12)))
        leased = [alarm.id for answer in answers for alarm in answer]
        assert len(leased) == len(set(leased))
        rest = [alarm.id for alarm in await claimed(store)]  # a busy row may be passed over, but it is not lost
        assert sorted(leased + rest) == sorted(alarm.id for alarm in alarms)


class TestBacklog:
    async def test_what_could_be_claimed_is_counted_per_target_with_the_first_due(
        self, store: Store, clock: ManualClock
    ) -> None:
        start = clock.now()
        alarms = [an_alarm(clock, due=due, target=name) for name in ("desk", "zoo", "a'b") for due in (3, 1, 2, 100)]
        await added(store, *alarms, an_alarm(clock, due=100, target="far"), an_alarm(clock, due=1, status="paused"))
        assert await store.maintenance.backlog(lease=LEASE) == {}
        await clock.advance(10)
        first = start + SECOND
        assert await store.maintenance.backlog(lease=LEASE) == {
            "desk": (3, first),
            "zoo": (3, first),
            "a'b": (3, first),
        }

    async def test_what_is_leased_counts_again_when_the_lease_is_over(self, store: Store, clock: ManualClock) -> None:
        start = clock.now()
        await added(store, an_alarm(clock), an_alarm(clock, due=1))
        await claimed(store, 1)
        await clock.advance(SECOND)
        assert await store.maintenance.backlog(lease=LEASE) == {DESK: (1, start + SECOND)}
        await clock.advance(LEASE)
        assert await store.maintenance.backlog(lease=LEASE) == {DESK: (2, start)}

    async def test_it_counts_no_further_than_the_limit(
        self, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(f"{type(store.maintenance).__module__}.BACKLOG_LIMIT", 3)
        await added(store, *(an_alarm(clock) for _ in range(5)))
        assert await store.maintenance.backlog(lease=LEASE) == {DESK: (3, clock.now())}


class TestLeases:
    async def test_a_leased_alarm_is_left_alone_until_its_lease_runs_out(
        self, store: Store, clock: ManualClock
    ) -> None:
        await added(store, an_alarm(clock))
        first = await one_claimed(store)
        await clock.advance(LEASE - MS)
        assert await claimed(store) == []
        await clock.advance(MS)
        again = await one_claimed(store)
        assert (again.id, again.claim, again.unsettled) == (first.id, 2, 2)

    async def test_a_settled_alarm_that_is_due_again_can_be_claimed_at_once(
        self, store: Store, clock: ManualClock
    ) -> None:
        await added(store, an_alarm(clock))
        leased = await one_claimed(store)
        assert await settled(store, change(leased, claimed_at=None, unsettled=0)) == ["applied"]
        assert (await one_claimed(store)).claim == 2

    async def test_renewing_starts_the_lease_anew(self, store: Store, clock: ManualClock) -> None:
        await added(store, an_alarm(clock))
        leased = await one_claimed(store)
        await clock.advance(LEASE - SECOND)
        assert await store.renew([Claim(leased.id, leased.claim)]) == []
        await clock.advance(LEASE - MS)
        assert await claimed(store) == []
        await clock.advance(MS)
        assert (await one_claimed(store)).claim == 2

    async def test_renewing_nothing_loses_nothing(self, store: Store) -> None:
        assert await store.renew([]) == []

    async def test_renewing_tells_which_leases_were_lost(self, store: Store, clock: ManualClock) -> None:
        await added(store, *(an_alarm(clock) for _ in range(6)))
        kept, taken, settled_one, paused, cancelled, stale = await claimed(store)
        claims = [Claim(alarm.id, alarm.claim) for alarm in (kept, taken, settled_one, paused, cancelled)]
        await settled(
            store,
            done(settled_one),
            change(paused, status="paused", claim=paused.claim + 1, claimed_at=None, version=2),
            change(cancelled, status="cancelled", claim=cancelled.claim + 1, claimed_at=None, version=2),
        )
        await clock.advance(LEASE)
        await store.renew([claims[0]])
        again = {alarm.id: alarm.claim for alarm in await claimed(store)}
        assert again == {taken.id: 2, stale.id: 2}
        gone = Claim(new_id(), 1)
        assert await store.renew([*claims, gone]) == [*claims[1:], gone]

    async def test_a_lost_lease_is_not_prolonged_by_renewing_it(self, store: Store, clock: ManualClock) -> None:
        await added(store, an_alarm(clock))
        first = await one_claimed(store)
        await clock.advance(LEASE)
        await one_claimed(store)
        await clock.advance(LEASE - SECOND)
        await store.renew([Claim(first.id, first.claim)])
        await clock.advance(SECOND)
        assert (await one_claimed(store)).claim == 3

    async def test_a_lease_that_ran_out_unnoticed_can_still_be_renewed(self, store: Store, clock: ManualClock) -> None:
        await added(store, an_alarm(clock))
        leased = await one_claimed(store)
        await clock.advance(3 * LEASE)
        assert await store.renew([Claim(leased.id, leased.claim)]) == []
        assert await claimed(store) == []

    async def test_a_clock_set_back_gives_nobody_a_second_lease(self, store: Store, clock: ManualClock) -> None:
        alarm = an_alarm(clock)
        await added(store, alarm)
        await clock.advance(30)
        await one_claimed(store)
        clock.set_back(20)
        assert await claimed(store) == []
        assert (await stored(store, alarm)).claim == 1


class TestSuspects:
    """What was claimed and never settled: it may have killed its worker, or only been there when that died."""

    async def test_they_are_claimed_again_as_a_group_and_then_one_at_a_time(
        self, store: Store, clock: ManualClock
    ) -> None:
        await added(store, *(an_alarm(clock, target=target) for target in ("a", "b", "b", "c") for _ in range(5)))
        slots = {"a": 10, "b": 20, "c": 10}
        for unsettled in (1, 2):
            group = (await store.claim(slots, lease=LEASE)).alarms
            assert [alarm.unsettled for alarm in group] == [unsettled] * 20
            await clock.advance(LEASE)
            assert (await store.claim(slots, lease=LEASE, suspects=False)).alarms == []
        taken = [alarm for _ in range(20) for alarm in (await store.claim(slots, lease=LEASE)).alarms]
        assert len({alarm.id for alarm in taken}) == 20
        assert (await store.claim(slots, lease=LEASE)).alarms == []

    async def test_a_group_is_no_larger_than_the_free_slots(self, store: Store, clock: ManualClock) -> None:
        await added(store, *(an_alarm(clock, target=target) for target in ("a", "b") for _ in range(9)))
        await store.claim({"a": 9, "b": 9}, lease=LEASE)
        await clock.advance(LEASE)
        answer = await store.claim({"a": 4, "b": 2}, lease=LEASE)
        assert sorted(alarm.target for alarm in answer.alarms) == ["a"] * 4 + ["b"] * 2

    @pytest.mark.parametrize("turns", [{}, {DESK: Turn(2)}])
    async def test_one_that_is_to_be_tried_alone_never_comes_with_a_group(
        self, store: Store, clock: ManualClock, turns: dict[str, Turn]
    ) -> None:
        """Wherever they stand: those that killed a group are the oldest here, and more than there are slots."""
        await added(store, *(an_alarm(clock, due=-9) for _ in range(8)))
        for _ in range(2):
            await claimed(store)
            await clock.advance(LEASE)
        await added(store, *(an_alarm(clock) for _ in range(6)))
        assert len(await claimed(store, suspects=False)) == 6
        await clock.advance(LEASE)
        await added(store, *(an_alarm(clock) for _ in range(3)))
        came = []
        for _ in range(4):
            answer = await store.claim({DESK: 5}, lease=LEASE, turns=turns)
            came.append(sorted(alarm.unsettled for alarm in answer.alarms))
        assert sorted(came[0] + came[1]) == [1, 1, 1, 2, 2, 2, 2, 2, 2]
        assert came[2:] == [[3], [3]]

    async def test_they_do_not_hold_up_what_is_innocent(self, store: Store, clock: ManualClock) -> None:
        await added(store, *(an_alarm(clock) for _ in range(8)))
        for _ in range(2):
            await claimed(store)
            await clock.advance(LEASE)
        fresh = [an_alarm(clock) for _ in range(4)]
        await added(store, *fresh)
        first = await claimed(store, 4)
        assert [alarm.unsettled for alarm in first] == [3, 1, 1, 1]
        assert {alarm.id for alarm in first[1:]} < {alarm.id for alarm in fresh}
        assert len(await claimed(store, 4, suspects=False)) == 1

    async def test_claims_alone_count_up_to_three(self, store: Store, clock: ManualClock) -> None:
        await added(store, an_alarm(clock))
        counted = []
        for _ in range(5):
            counted.append((await one_claimed(store)).unsettled)
            await clock.advance(LEASE)
        assert counted == [1, 2, 3, 3, 3]

    async def test_what_a_dispatcher_counted_stays(self, store: Store, clock: ManualClock) -> None:
        await added(store, an_alarm(clock))
        leased = await one_claimed(store)
        assert await settled(store, change(leased, unsettled=4)) == ["applied"]
        await clock.advance(LEASE)
        assert (await one_claimed(store)).unsettled == 4

    async def test_the_one_with_the_least_against_it_comes_first(self, store: Store, clock: ManualClock) -> None:
        await added(store, *(an_alarm(clock, due=due) for due in (0, 1, 2)))
        await clock.advance(3)
        worst, bad, mild = await claimed(store)
        await settled(store, change(worst, unsettled=4), change(bad, unsettled=3))
        await clock.advance(LEASE)
        order = [(await one_claimed(store)).id for _ in range(3)]
        assert order == [mild.id, bad.id, worst.id]

    async def test_a_lease_from_a_clock_that_was_set_back_is_none(self, store: Store, clock: ManualClock) -> None:
        alarm = an_alarm(clock)
        await added(store, alarm)
        await clock.advance(3600)
        await one_claimed(store)
        clock.set_back(3600 - 1)
        answer = await store.claim({DESK: 1}, lease=LEASE)
        assert [(leased.id, leased.claimed_at) for leased in answer.alarms] == [(alarm.id, clock.now())]
        assert answer.ahead
        assert await claimed(store) == []
        await clock.advance(LEASE)
        assert not (await store.claim({DESK: 1}, lease=LEASE)).ahead


class TestNextDue:
    async def test_it_is_the_earliest_moment_of_these_targets(self, store: Store, clock: ManualClock) -> None:
        await added(store, *(an_alarm(clock, due=due, target=t) for due, t in ((9, "a"), (5, "b"), (2, "c"), (7, "a"))))
        assert await store.next_due(["a", "b"]) == clock.now() + 5 * SECOND
        assert await store.next_due(["a"]) == clock.now() + 7 * SECOND

    async def test_nothing_to_do_has_no_moment(self, store: Store, clock: ManualClock) -> None:
        await added(store, an_alarm(clock, target="other"))
        assert await store.next_due([DESK]) is None
        assert await store.next_due([]) is None

    async def test_what_is_overdue_is_due_in_the_past(self, store: Store, clock: ManualClock) -> None:
        await added(store, an_alarm(clock))
        await clock.advance(10)
        assert await store.next_due([DESK]) == clock.now() - 10 * SECOND

    async def test_what_is_leased_or_suspect_does_not_hide_what_is_free(self, store: Store, clock: ManualClock) -> None:
        await added(store, an_alarm(clock), an_alarm(clock, due=500))
        await one_claimed(store)
        assert await store.next_due([DESK]) == clock.now() + 500 * SECOND
        await clock.advance(LEASE)
        assert await store.next_due([DESK]) == clock.now() + 500 * SECOND - LEASE
        await one_claimed(store)
        await clock.advance(500)
        assert await store.next_due([DESK]) == clock.now() - LEASE

    async def test_sleeping_until_it_and_claiming_misses_nothing(self, store: Store, clock: ManualClock) -> None:
        await added(store, *(an_alarm(clock, due=due) for due in (3, 1, 2, 2)))
        seen = 0
        while (due := await store.next_due([DESK])) is not None and seen < 4:
            await clock.advance(max(timedelta(0), due - clock.now()))
            seen += len(await claimed(store, 2, lease=timedelta(days=1)))
        assert seen == 4


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
