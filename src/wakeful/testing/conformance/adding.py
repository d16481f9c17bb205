"""Adding: what is acknowledged is there, once, and as it was given."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from wakeful.errors import StoreUnavailable
from wakeful.model.alarm import Policy
from wakeful.store import AlarmQuery, Store
from wakeful.testing.conformance.making import (
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

_WAIT = 10.0  # seconds for a hint that goes through a database


class TestAdding:
    async def test_an_added_alarm_is_there(self, store: Store, clock: ManualClock) -> None:
        alarm = an_alarm(clock)
        [answer] = await store.add([alarm])
        assert (answer.alarm, answer.deduped) == (alarm, False)
        assert await store.get(alarm.id) == alarm

    async def test_adding_nothing_is_fine(self, store: Store) -> None:
        assert await store.add([]) == []

    async def test_answers_come_in_the_order_of_the_alarms(self, store: Store, clock: ManualClock) -> None:
        alarms = [an_alarm(clock, due=n % 7) for n in range(100)]
        assert [answer.alarm.id for answer in await store.add(alarms)] == [alarm.id for alarm in alarms]

    @pytest.mark.parametrize("first", ["plain", "bare", "rich"])
    async def test_a_batch_keeps_what_its_alarms_have_alike_and_what_differs(
        self, store: Store, clock: ManualClock, first: str
    ) -> None:
        later, now = clock.now() + timedelta(hours=1), clock.now()
        series = {"kind": "cron", "fire_at": None, "cron_expr": "0 9 * * *", "payload_json": "[1,  2]"}
        moments = {"next_fire_at": later, "claimed_at": now, "awaiting": later, "last_fired_at": now}
        rich = {"policy": Policy(max_fires=3), "isolated": True, "fire_count": 2, "label": "x", **moments}
        kinds: dict[str, dict[str, Any]] = {"plain": {}, "bare": series, "rich": rich}
        others = [name for name in kinds if name != first]
        for names in ([first] * 3, [first, *others], [first, first, others[0]], [first, others[1], first]):
            alike = [an_alarm(clock, **kinds[name]) for name in names]  # due at the same moment, or each at its own
            apart = [an_alarm(clock, due=n, **kinds[name]) for n, name in enumerate(names, 1)]
            for alarms in (alike, apart):
                await store.add(alarms)
                assert [await store.get(alarm.id) for alarm in alarms] == alarms

    async def test_who_has_which_keys_is_found_together(self, store: Store, clock: ManualClock) -> None:
        mine = [an_alarm(clock, idempotency_key=key) for key in ("a", "b", "ü \u200b")]
        others = [an_alarm(clock), an_alarm(clock, idempotency_key="a", owner_did="bob")]
        await store.add([*mine, *others])
        found = await store.named("ada", ["ü \u200b", "a", "nobody's", ""])
        assert sorted(found, key=lambda alarm: alarm.id) == [mine[0], mine[2]]
        assert await store.named("ada", []) == []

    async def test_thousands_at_once_are_all_there(self, store: Store, clock: ManualClock) -> None:
        alarms = [an_alarm(clock) for _ in range(2300)]
        assert [answer.alarm.id for answer in await store.add(alarms)] == [alarm.id for alarm in alarms]
        assert (await store.stats()).total == 2300

    async def test_of_thousands_one_that_the_database_refuses_is_not_passed_over(
        self, store: Store, clock: ManualClock
    ) -> None:
        for at in (0, 700, 1100):
            alarms = [an_alarm(clock) for _ in range(1200)]
            alarms[at] = replace(alarms[at], kind="never")
            with pytest.raises(StoreUnavailable):
                await store.add(alarms)
            assert await store.get(alarms[at].id) is None

    async def test_of_two_with_one_key_in_a_large_call_the_first_has_it(self, store: Store, clock: ManualClock) -> None:
        # The last of one batch and the first of the next have the same.
        alarms = [an_alarm(clock, idempotency_key=f"k{n - 100 if 500 <= n < 600 else n}") for n in range(1200)]
        answers = await store.add(alarms)
        first = [alarms[n - 100 if 500 <= n < 600 else n].id for n in range(1200)]
        assert [answer.alarm.id for answer in answers] == first
        assert [n for n, answer in enumerate(answers) if answer.deduped] == list(range(500, 600))

    async def test_repeating_a_call_with_the_same_ids_changes_nothing(self, store: Store, clock: ManualClock) -> None:
        alarms = [an_alarm(clock), an_alarm(clock, idempotency_key="k")]
        await store.add(alarms)
        again = await store.add(alarms)
        assert [(answer.alarm, answer.deduped) for answer in again] == [(alarm, False) for alarm in alarms]
        assert (await store.stats()).total == 2

    async def test_a_repeated_call_answers_with_the_alarm_as_it_is_by_now(
        self, store: Store, clock: ManualClock
    ) -> None:
        alarm = an_alarm(clock)
        await store.add([alarm])
        [leased] = await claimed(store)
        assert await settled(store, done(leased)) == ["applied"]
        [answer] = await store.add([alarm])
        assert answer.alarm.status == "fired"

    async def test_a_call_the_database_refuses_leaves_nothing_of_itself(self, store: Store, clock: ManualClock) -> None:
        good = an_alarm(clock)
        bad = replace(an_alarm(clock), kind="never")
        with pytest.raises(StoreUnavailable):
            await store.add([good, bad])
        assert await store.get(good.id) is None
        assert await store.get(bad.id) is None

    async def test_a_refused_call_does_not_fail_the_calls_beside_it(self, store: Store, clock: ManualClock) -> None:
        good = [an_alarm(clock) for _ in range(20)]
        bad = [replace(an_alarm(clock), kind="never") for _ in range(3)]
        calls = [store.add([alarm]) for alarm in [*good[:7], bad[0], *good[7:14], bad[1], *good[14:], bad[2]]]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(isinstance(answer, StoreUnavailable) for answer in answers) == 3
        assert {alarm.id for alarm in await store.find(AlarmQuery())} == {alarm.id for alarm in good}

    async def test_a_cancelled_call_does_not_disturb_the_others(self, store: Store, clock: ManualClock) -> None:
        alarms = [an_alarm(clock) for _ in range(20)]
        calls = [asyncio.ensure_future(store.add([alarm])) for alarm in alarms]
        await asyncio.wait(calls[:1], timeout=0)
        for call in calls[::2]:
            call.cancel()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        kept = [alarm for alarm, answer in zip(alarms, answers, strict=True) if isinstance(answer, list)]
        assert len(kept) >= 10
        for alarm in kept:
            assert await store.get(alarm.id) == alarm

    async def test_an_alarm_due_at_once_gives_a_hint(self, store: Store, clock: ManualClock) -> None:
        store.hints.clear()
        await added(store, an_alarm(clock, due=0.5))
        await asyncio.wait_for(store.hints.wait(), _WAIT)

    async def test_an_alarm_due_much_later_gives_no_hint(self, store: Store, clock: ManualClock) -> None:
        store.hints.clear()
        await added(store, an_alarm(clock, due=3600))
        assert not store.hints.is_set()


class TestKeys:
    async def test_a_taken_key_answers_with_the_alarm_that_has_it(self, store: Store, clock: ManualClock) -> None:
        first = an_alarm(clock, idempotency_key="k", label="first")
        second = an_alarm(clock, idempotency_key="k", label="second")
        await store.add([first])
        [answer] = await store.add([second])
        assert (answer.alarm, answer.deduped) == (first, True)
        assert await store.get(second.id) is None

    async def test_one_key_asked_for_fifty_times_at_once_gives_one_alarm(
        self, store: Store, clock: ManualClock
    ) -> None:
        alarms = [an_alarm(clock, idempotency_key="k") for _ in range(50)]
        answers = await asyncio.gather(*(store.add([alarm]) for alarm in alarms))
        assert len({answer.alarm.id for [answer] in answers}) == 1
        assert sum(answer.deduped for [answer] in answers) == 49
        assert (await store.stats()).total == 1

    async def test_within_one_call_the_first_alarm_with_a_key_wins(self, store: Store, clock: ManualClock) -> None:
        alarms = [an_alarm(clock, idempotency_key=key) for key in ("a", "b", "a", "", "")]
        answers = await store.add(alarms)
        assert [answer.deduped for answer in answers] == [False, False, True, False, False]
        assert answers[2].alarm.id == alarms[0].id

    async def test_two_owners_may_use_the_same_key(self, store: Store, clock: ManualClock) -> None:
        [mine] = await store.add([an_alarm(clock, idempotency_key="k", owner_did="ada")])
        [theirs] = await store.add([an_alarm(clock, idempotency_key="k", owner_did="bob")])
        assert not theirs.deduped
        assert mine.alarm.id != theirs.alarm.id

    async def test_no_key_is_never_taken(self, store: Store, clock: ManualClock) -> None:
        answers = await store.add([an_alarm(clock), an_alarm(clock)])
        assert [answer.deduped for answer in answers] == [False, False]

    async def test_a_finished_alarm_still_has_its_key(self, store: Store, clock: ManualClock) -> None:
        await added(store, an_alarm(clock, idempotency_key="k"))
        [leased] = await claimed(store)
        await settled(store, done(leased))
        [answer] = await store.add([an_alarm(clock, idempotency_key="k")])
        assert (answer.deduped, answer.alarm.status) == (True, "fired")


class TestWhatIsKept:
    @pytest.mark.parametrize(
        "payload",
        [
            '{"a" : 1,\n\t"a":2,   "b":[ ]}',
            '{"n": 123456789012345678901234567890, "f": 1.000, "e": 1E5}',
            '{"é": "\\u00e9 ☃ 😀", "q": "\\"\\\\\\/"}',
            '"only a text"',
            "  null ",
        ],
    )
    async def test_a_payload_comes_back_byte_for_byte(self, store: Store, clock: ManualClock, payload: str) -> None:
        alarm = an_alarm(clock, payload_json=payload)
        await added(store, alarm)
        assert (await stored(store, alarm)).payload_json == payload
        [leased] = await claimed(store)
        assert leased.payload_json == payload

    @pytest.mark.parametrize("text", ["naïve ☃ 😀 日本語 עברית", 'it\'s "quoted"; -- drop', "tab\tline\nend\\", " "])
    async def test_text_survives_whatever_it_holds(self, store: Store, clock: ManualClock, text: str) -> None:
        alarm = an_alarm(clock, label=text, wake_message=text, conversation_id=text, owner_did=text, target=text)
        await added(store, alarm)
        assert await store.get(alarm.id, owner=text) == alarm
        [leased] = await claimed(store, target=text)
        assert leased.wake_message == text

    async def test_texts_of_a_batch_survive_whatever_they_hold(self, store: Store, clock: ManualClock) -> None:
        texts = ["naïve ☃ 😀", 'it\'s "quoted"; -- drop', "tab\tline\nend\\", "{a,b}", "null", "[]", "\x7f", " ", ""]
        alarms = [an_alarm(clock, label=text, payload_json=f"[ {json.dumps(text)} ,1.0]") for text in texts]
        await store.add(alarms)
        assert [await stored(store, alarm) for alarm in alarms] == alarms

    async def test_every_field_of_an_alarm_comes_back(self, store: Store, clock: ManualClock) -> None:
        now = clock.now()
        policy = Policy(
            backoff_base=1.5,
            backoff_cap=20.25,
            catch_up="skip",
            grace=3.0,
            expires=4.0,
            overlap="allow",
            report_within=5.5,
            starts_at=now,
            ends_at=now + timedelta(days=365, milliseconds=7),
            max_fires=8,
            jitter=9.0,
            auto_pause_after=10,
            renew_for=11.0,
            anchor=now - timedelta(hours=1),
        )
        alarm = an_alarm(
            clock,
            kind="cron",
            fire_at=None,
            cron_expr="*/5 * * * *",
            timezone="Europe/Berlin",
            status="paused",
            max_failures=3,
            failure_count=2,
            last_error="HTTP 500",
            claimed_at=now - timedelta(milliseconds=1),
            last_fired_at=now - timedelta(days=1),
            claim=11,
            unsettled=2,
            version=12,
            awaiting=now - timedelta(minutes=5),
            policy=policy,
            fire_count=13,
            failed_in_a_row=14,
            created_by="ada",
            created_via="mcp",
            paused_reason="holiday",
            cancelled_at=now,
            isolated=True,
            parent_fire="x@1",
            root_id=new_id(),
            generation=15,
        )
        await added(store, alarm)
        assert await store.get(alarm.id) == alarm

    async def test_the_wall_time_of_a_one_shot_is_kept_through_claims_and_edits(
        self, store: Store, clock: ManualClock
    ) -> None:
        alarm = an_alarm(clock, timezone="Europe/Berlin", wall_time="2030-01-01T01:00:00")
        await added(store, alarm)
        assert await stored(store, alarm) == alarm
        claimed = await one_claimed(store)
        assert (claimed.wall_time, claimed.cron_expr) == (alarm.wall_time, "")
        edit = change(claimed, edited=True, wall_time="2030-01-01T02:00:00", version=2)
        assert await settled(store, edit) == ["applied"]
        assert await stored(store, alarm) == edit.after
        series = change(edit.after, edited=True, kind="cron", cron_expr="@daily", wall_time="", version=3)
        assert await settled(store, series) == ["applied"]
        assert await stored(store, alarm) == series.after

    async def test_moments_far_away_come_back_to_the_millisecond(self, store: Store, clock: ManualClock) -> None:
        alarm = an_alarm(clock, due=1e9 + 0.001)
        await added(store, alarm)
        assert (await stored(store, alarm)).next_fire_at == alarm.next_fire_at
