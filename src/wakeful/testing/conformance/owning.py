"""Owners: their tokens, their settings, and alarms of theirs that say the same."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from wakeful.clock import Clock
from wakeful.model.alarm import Event, Policy
from wakeful.model.owner_settings import OwnerSettings
from wakeful.store import EventQuery, Store, Token
from wakeful.testing.conformance.making import MS, SECOND, added, an_alarm
from wakeful.testing.manual_clock import ManualClock

DAY = timedelta(days=1)


def a_token(clock: Clock, id: str = "aa11", **given: Any) -> Token:
    fields: dict[str, Any] = {"owner_did": "ada", "hash": bytes(range(32)), "created_at": clock.now()}
    return Token(id=id, **(fields | given))


class TestTokens:
    async def test_a_token_reads_back_as_it_was_kept(self, store: Store, clock: ManualClock) -> None:
        plain = a_token(clock)
        full = a_token(
            clock,
            "bb22",
            owner_did="did:matrix:ada:0011223344556677",
            scopes=("read", "write", "admin"),
            label="lap🛋top",
            expires_at=clock.now() + DAY,
            last_used_at=clock.now() + MS,
            revoked_at=clock.now() + SECOND,
            made_by="aa11",
        )
        assert await store.access.add_token(plain)
        assert await store.access.add_token(full)
        assert await store.access.token("aa11") == plain
        assert await store.access.token("bb22") == full
        assert await store.access.token("cc33") is None

    async def test_every_token_is_listed_oldest_first(self, store: Store, clock: ManualClock) -> None:
        assert await store.access.tokens() == []
        late, early = a_token(clock, "aa11"), a_token(clock, "bb22", created_at=clock.now() - SECOND)
        same = a_token(clock, "aa00", revoked_at=clock.now())
        for token in (late, early, same):
            await store.access.add_token(token)
        assert await store.access.tokens() == [early, same, late]

    async def test_an_id_is_taken_once_also_by_many_at_once(self, store: Store, clock: ManualClock) -> None:
        rivals = [a_token(clock, hash=bytes([number]) * 32) for number in range(8)]
        won = await asyncio.gather(*(store.access.add_token(token) for token in rivals))
        assert sum(won) == 1
        assert await store.access.tokens() == [rivals[won.index(True)]]

    async def test_a_revoked_token_stays_revoked_since_then(self, store: Store, clock: ManualClock) -> None:
        token = a_token(clock)
        await store.access.add_token(token)
        first = clock.now() + SECOND
        assert await store.access.update_token("aa11", revoked_at=first)
        assert await store.access.update_token("aa11", revoked_at=first + DAY)
        assert await store.access.token("aa11") == replace(token, revoked_at=first)
        assert not await store.access.update_token("nobody", revoked_at=first)

    async def test_its_last_use_never_goes_back(self, store: Store, clock: ManualClock) -> None:
        token = a_token(clock)
        await store.access.add_token(token)
        used = clock.now() + SECOND
        await store.access.update_token("aa11", last_used_at=used)
        await store.access.update_token("aa11", last_used_at=used - MS)
        await store.access.update_token("nobody", last_used_at=used)
        assert await store.access.tokens() == [replace(token, last_used_at=used)]

    async def test_what_ended_long_ago_is_purged(self, store: Store, clock: ManualClock) -> None:
        now = clock.now()
        kept = [
            a_token(clock, "a1"),
            a_token(clock, "a2", expires_at=now),
            a_token(clock, "a3", expires_at=now + DAY),
            a_token(clock, "a4", revoked_at=now),
        ]
        gone = [
            a_token(clock, "b1", expires_at=now - MS),
            a_token(clock, "b2", revoked_at=now - MS),
            a_token(clock, "b3", revoked_at=now - MS, expires_at=now + DAY),
        ]
        for token in (*kept, *gone):
            await store.access.add_token(token)
        assert await store.maintenance.purge(now) == len(gone)
        assert await store.access.tokens() == kept


class TestDoor:
    async def test_it_is_closed_from_the_first_token_on_whatever_becomes_of_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        assert await store.access.auth_state() == "new"
        await store.access.add_token(a_token(clock, expires_at=clock.now() + SECOND))
        assert await store.access.auth_state() == "closed"
        await store.access.update_token("aa11", revoked_at=clock.now())
        assert await store.maintenance.purge(clock.now() + DAY) == 1
        assert await store.access.tokens() == []
        assert await store.access.auth_state() == "closed"

    async def test_it_is_opened_on_record_and_closed_by_the_next_token(self, store: Store, clock: ManualClock) -> None:
        await store.access.add_token(a_token(clock, revoked_at=clock.now()))
        opened = Event(at=clock.now(), what="opened", by="ops")
        await store.access.open_auth(opened)
        assert await store.access.auth_state() == "open"
        assert [event for _, event in await store.events(EventQuery())] == [opened]
        await store.access.add_token(a_token(clock, "bb22"))
        assert await store.access.auth_state() == "closed"

    async def test_it_can_be_opened_before_there_is_a_token(self, store: Store, clock: ManualClock) -> None:
        await store.access.open_auth(Event(at=clock.now(), what="opened"))
        assert await store.access.auth_state() == "open"


class TestSimilar:
    async def test_it_is_found_by_target_times_and_words(self, store: Store, clock: ManualClock) -> None:
        one, other = an_alarm(clock, due=60), an_alarm(clock, due=60)
        await added(store, one, other)
        assert await store.similar(other, among=100) == one
        assert await store.similar(one, among=100) == other

    async def test_also_of_recurring_ones(self, store: Store, clock: ManualClock) -> None:
        cron: dict[str, Any] = {"kind": "cron", "cron_expr": "0 9 * * *", "timezone": "Europe/Berlin", "fire_at": None}
        one, other = an_alarm(clock, **cron), an_alarm(clock, **cron)
        await added(store, one, other)
        assert await store.similar(other, among=100) == one

    @pytest.mark.parametrize(
        "different",
        [
            {"owner_did": "eve"},
            {"target": "elsewhere"},
            {"wake_message": "something else"},
            {"timezone": "Europe/Berlin"},
            {"payload_json": '{"page":4}'},
            {"conversation_id": "c-1"},
            {"policy": Policy(max_fires=4)},
            {"due": 61},
            {"kind": "cron", "cron_expr": "0 9 * * *", "fire_at": None},
            {"status": "paused"},
            {"status": "fired"},
            {"status": "cancelled"},
        ],
    )
    async def test_anything_different_is_not_similar(
        self, store: Store, clock: ManualClock, different: dict[str, Any]
    ) -> None:
        asked = an_alarm(clock, due=60)
        await added(store, an_alarm(clock, **({"due": 60} | different)), asked)
        assert await store.similar(asked, among=100) is None

    async def test_only_the_latest_are_looked_at_and_the_newest_is_named(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, second, asked = (an_alarm(clock, due=60) for _ in range(3))
        await added(store, first, second, asked)
        assert await store.similar(asked, among=3) == second
        assert await store.similar(asked, among=1) is None
        assert await store.similar(second, among=3) == asked

    async def test_a_rhythm_is_the_same_with_its_start_its_bounds_and_where_it_counts_from(
        self, store: Store, clock: ManualClock
    ) -> None:
        policy = Policy(starts_at=clock.now(), ends_at=clock.now() + DAY, max_fires=3, anchor=clock.now())
        one, other = (
            an_alarm(clock, kind="cron", cron_expr="@every 90m", fire_at=None, policy=policy) for _ in range(2)
        )
        await added(store, one, other)
        assert await store.similar(other, among=9) == one
        for name in ("starts_at", "ends_at", "max_fires", "anchor"):
            differs = replace(other, policy=replace(policy, **{name: None}))
            assert await store.similar(differs, among=9) is None, name


class TestOwnerSettings:
    async def test_they_read_back_as_they_were_put(self, store: Store) -> None:
        assert await store.access.owner_settings("ada") == OwnerSettings()
        full = OwnerSettings(timezone="Europe/Berlin", date_order="dmy", working_days="mon-fri", calendar="bürö")
        await store.access.put_owner_settings("ada", full)
        await store.access.put_owner_settings("bob", OwnerSettings(timezone="Asia/Tokyo"))
        assert await store.access.owner_settings("ada") == full
        assert await store.access.owner_settings("bob") == OwnerSettings(timezone="Asia/Tokyo")

    async def test_what_is_put_again_takes_the_place_of_what_was(self, store: Store) -> None:
        await store.access.put_owner_settings("ada", OwnerSettings(timezone="Europe/Berlin", calendar="de"))
        await store.access.put_owner_settings("ada", OwnerSettings(date_order="mdy"))
        assert await store.access.owner_settings("ada") == OwnerSettings(date_order="mdy")
