"""One owner's flood delays another owner's wakes by a batch, not by all of it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from math import ceil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from wakeful.dispatcher.claiming import BETWEEN, Turns
from wakeful.model.alarm import Alarm
from wakeful.store import Claimed, Store, Turn
from wakeful.store.queries import Naming
from wakeful.store.sqlite import SqliteStore
from wakeful.testing import ManualClock
from wakeful.testing.conformance.making import LEASE, an_alarm, done
from wakeful.testing.receiver import RecordingTarget

from .conftest import World

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
K = 5  # owners a claim, in the property below


def brought(*owners: str, stood: dict[str, str] | None = None, target: str = "desk") -> Claimed:
    alarms: list[Alarm] = [an_alarm(ManualClock(), owner_did=owner, target=target) for owner in owners]
    return Claimed(alarms, NOON, stood=stood or {})


class TestWhenItIsSomebodysTurn:
    def test_never_while_everything_due_is_claimed(self) -> None:
        turns = Turns()
        assert turns.wanted({"desk": 4}) == {}
        turns.claimed({"desk": 4}, brought("much", "much", "much"))
        assert turns.wanted({"desk": 4}) == {}

    def test_half_of_the_slots_as_long_as_claims_bring_all_they_can(self) -> None:
        turns = Turns()
        turns.claimed({"desk": 4, "zoo": 9}, brought(*["much"] * 4))
        assert turns.wanted({"desk": 9, "zoo": 9}) == {"desk": Turn(4)}
        turns.claimed({"desk": 9, "zoo": 9}, brought(*["much"] * 9, stood={"desk": "b"}))
        assert turns.wanted({"desk": 2}) == {"desk": Turn(1, "b")}
        turns.claimed({"desk": 2}, brought("much", stood={"desk": "c"}))
        assert turns.wanted({"desk": 2}) == {}

    def test_with_one_slot_every_other_claim(self) -> None:
        turns = Turns()
        turns.claimed({"desk": 1}, brought("much"))
        asked = []
        for number in range(4):
            asked.append(turns.wanted({"desk": 1}))
            stood = {"desk": str(number)} if asked[-1] else None
            turns.claimed({"desk": 1}, brought("much", stood=stood))
        assert asked == [{"desk": Turn(1)}, {}, {"desk": Turn(1, "0")}, {}]

    def test_now_and_then_where_nobody_else_was_met_all_the_way_round(self) -> None:
        turns, four = Turns(), {"desk": 4}
        turns.claimed(four, brought(*["much"] * 4))
        asked = []
        for number in range(8):
            asked.append(bool(turns.wanted(four)))
            last = "quiet" if number == BETWEEN + 1 else "much"
            turns.claimed(four, brought(*["much"] * 3, last, stood={"desk": ""} if asked[-1] else None))
        assert asked == [True, *[False] * BETWEEN, True, True, *[False] * (BETWEEN - 1)]

    def test_a_later_flood_goes_on_where_the_last_one_stood(self) -> None:
        turns = Turns()
        for much in (["much"] * 4, ["much"] * 4, [], ["much"] * 4):
            turns.claimed({"desk": 4}, brought(*much, stood={"desk": "b"} if turns.wanted({"desk": 4}) else None))
        assert turns.wanted({"desk": 4}) == {"desk": Turn(2, "b")}

    def test_probes_go_to_one_owner_after_the_other(self) -> None:
        turns, one = Turns(), {"desk": 1}
        assert turns.wanted(one) == {}
        assert turns.wanted(one, probes=["desk"]) == {"desk": Turn(1)}
        turns.claimed(one, brought("a", stood={"desk": "a"}))
        assert turns.wanted(one, probes=["desk"]) == {"desk": Turn(1, "a")}
        turns.claimed(one, brought("b", stood={"desk": ""}))
        assert turns.wanted(one, probes=["desk"]) == {"desk": Turn(1, "")}


async def test_a_quiet_owner_starts_within_a_batch_of_anothers_flood(world: World) -> None:
    await world.store.add([an_alarm(world.clock, due=-60, owner_did="much") for _ in range(2_000)])
    await world.store.add([an_alarm(world.clock, due=-1, owner_did=name) for name in ("a", "quiet", "z")])
    assert await world.dispatcher.run_due() == 2_003
    order = [wake.owner_did for wake in world.desk.wakes]
    batch = world.served["desk"].concurrency
    assert max(order.index(name) for name in ("a", "quiet", "z")) < 2 * batch, (
        "the first batch is claimed before it is known"
    )
    assert len(set(world.desk.fire_ids)) == 2_003


async def test_a_target_with_one_place_takes_owners_in_turn_too(world: World) -> None:
    narrow = RecordingTarget()
    world.serve("narrow", narrow, 1)
    add = [("much", -60)] * 50 + [("a", -1)] * 3 + [("quiet", -1)]
    await world.store.add([an_alarm(world.clock, due=due, owner_did=name, target="narrow") for name, due in add])
    await world.dispatcher.run_due()
    order = [wake.owner_did for wake in narrow.wakes]
    assert order[:8] == ["much", "a", "much", "much", "much", "quiet", "much", "a"]


class Crowd(Struct, frozen=True):
    """Who has what at a target while a quiet owner's alarm is due."""

    due: list[int]  # of each owner, before the quiet one
    quiet: int  # where the quiet one stands among them
    slots: int
    comes: list[int]  # who gets one more before each claim
    stays: bool  # what is claimed stays under way


crowds = st.builds(
    Crowd,
    st.lists(st.integers(0, 3), min_size=1, max_size=14),
    st.integers(0, 14),
    st.integers(2, 9),
    st.lists(st.integers(0, 13), max_size=40),
    st.booleans(),
)


@asynccontextmanager
async def opened(kind: str, place: str, clock: ManualClock) -> AsyncIterator[Store]:
    if kind == "sqlite":
        store: Store = SqliteStore(place, clock=clock)
    else:
        from wakeful.store.postgres import PostgresStore

        store = PostgresStore(place, naming=Naming(schema="turns_bound"), clock=clock)
    await store.migrate()
    try:
        yield store
    finally:
        await store.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_bound_holds_whatever_others_have_due(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakeful.store.sqlite.writes.OWNERS_A_CLAIM", K)
    monkeypatch.setattr("wakeful.store.postgres.writes.OWNERS_A_CLAIM", K)
    place = str(tmp_path / "w.db") if kind == "sqlite" else request.getfixturevalue("pg_dsn")
    clock, numbers = ManualClock(), itertools.count()
    with asyncio.Runner() as runner:
        opening = opened(kind, place, clock)
        store = runner.run(opening.__aenter__())

        @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
        @given(crowds)
        def holds(crowd: Crowd) -> None:
            runner.run(claimed_within_the_bound(store, clock, crowd, target=f"t{next(numbers)}"))

        try:
            holds()
        finally:
            runner.run(opening.__aexit__(None, None, None))


async def claimed_within_the_bound(store: Store, clock: ManualClock, crowd: Crowd, *, target: str) -> None:
    names = [f"o{number:02}" for number in range(len(crowd.due))]
    quiet = f"o{min(crowd.quiet, len(names)):02}-quiet"

    def one(name: str, due: float) -> Alarm:
        return an_alarm(clock, due=due, owner_did=name, target=target)

    pending = len(names) + 2
    bound = 1 + ceil(pending / min(K, crowd.slots // 2)) + 1  # the first claim does not know yet
    flood = [one("o05-much", -60) for _ in range(crowd.slots * (bound + 1))]
    await store.add([*flood, *(one(name, 3600) for name in names)])
    await store.add([one(name, -50) for name, count in zip(names, crowd.due, strict=True) for _ in range(count)])
    mine = one(quiet, -1)
    await store.add([mine])
    turns, slots, comes = Turns(), {target: crowd.slots}, itertools.chain(crowd.comes, itertools.repeat(-1))
    for _ in range(bound):
        if (who := next(comes)) in range(len(names)):
            await store.add([one(names[who], -40)])
        answer = await store.claim(slots, lease=LEASE, turns=turns.wanted(slots))
        turns.claimed(slots, answer)
        assert len(answer.alarms) == crowd.slots, "every claim is full: there is a flood"
        if mine.id in {alarm.id for alarm in answer.alarms}:
            return
        if not crowd.stays:
            await store.settle([done(alarm) for alarm in answer.alarms])
    pytest.fail(f"{quiet} was not claimed within {bound} claims")
