"""Settling: an alarm, its fires, its events and its row together, only by whoever holds it, whoever reads meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from wakeful.model.alarm import Attempt, Change, Fire, Policy, Row
from wakeful.model.outcome import Completed, Delivered, Failed, Outcome, Report, ReportOutcome, Snoozed, Try
from wakeful.moments import stamp
from wakeful.rules.edit import skip_next
from wakeful.rules.report import fetch, report, sweep
from wakeful.rules.settle import settle
from wakeful.store import EventQuery, FireQuery, Store
from wakeful.testing.conformance.making import (
    LEASE,
    Outbox,
    a_fire,
    added,
    an_alarm,
    an_event,
    change,
    claimed,
    done,
    new_id,
    one_claimed,
    settled,
    stored,
)
from wakeful.testing.manual_clock import ManualClock


class TestSettling:
    async def test_alarm_fire_and_event_are_written_together(self, store: Store, clock: ManualClock) -> None:
        await added(store, an_alarm(clock))
        leased = await one_claimed(store)
        settlement = done(leased, last_fired_at=clock.now(), fire_count=1)
        settlement = replace(settlement, events=(an_event(leased, "fired"),))
        assert await settled(store, settlement) == ["applied"]
        assert await store.get(leased.id) == settlement.after
        assert await store.fires(FireQuery(alarm_id=leased.id)) == list(settlement.fires)
        assert [event for _, event in await store.events(EventQuery())] == list(settlement.events)

    @pytest.mark.parametrize("cron_expr", ["", "@hourly"])
    @pytest.mark.parametrize("outcome", [Completed(), Completed("three grants"), Delivered("HTTP 200")])
    async def test_a_first_attempt_that_arrived_is_written_as_it_was_decided(
        self, store: Store, clock: ManualClock, cron_expr: str, outcome: Outcome
    ) -> None:
        kind = "cron" if cron_expr else "once"
        alarm = an_alarm(clock, kind=kind, cron_expr=cron_expr, fire_count=3, failed_in_a_row=2, last_error="HTTP 503")
        await added(store, alarm)
        leased = await one_claimed(store)
        attempt = Try(clock.now(), clock.now() + timedelta(milliseconds=1500))
        settlement = settle(leased, None, outcome, attempt)
        assert settlement.at_once
        assert await settled(store, settlement) == ["applied"]
        assert await store.get(leased.id) == settlement.after
        assert await store.fires(FireQuery(alarm_id=leased.id)) == list(settlement.fires)
        assert await settled(store, settlement) == ["lost"]

    async def test_a_first_attempt_settled_twice_is_not_written(self, store: Store, clock: ManualClock) -> None:
        await added(store, an_alarm(clock, kind="cron", cron_expr="@hourly"))
        first = settle(await one_claimed(store), None, Completed("ok"), Try(clock.now(), clock.now()))
        assert await settled(store, first) == ["applied"]
        assert await settled(store, replace(first, fires=(replace(first.fires[0], result="again"),))) == ["lost"]
        assert await stored(store, first.after) == first.after
        assert await store.fires(FireQuery(alarm_id=first.after.id)) == list(first.fires)

    async def test_a_first_attempt_of_an_earlier_claim_is_not_written(self, store: Store, clock: ManualClock) -> None:
        await added(store, an_alarm(clock))
        slow = await one_claimed(store)
        await clock.advance(LEASE)
        quick = await one_claimed(store)
        late = settle(slow, None, Completed("ok"), Try(clock.now(), clock.now()))
        assert await settled(store, late) == ["lost"]
        assert await stored(store, quick) == quick
        assert await store.fires(FireQuery()) == []

    async def test_a_first_attempt_edited_meanwhile_is_not_written(self, store: Store, clock: ManualClock) -> None:
        await added(store, an_alarm(clock))
        leased = await one_claimed(store)
        edited = replace(change(leased), after=replace(leased, version=leased.version + 1, label="new"), edited=True)
        assert await settled(store, edited) == ["applied"]
        late = settle(leased, None, Completed("ok"), Try(clock.now(), clock.now()))
        assert await settled(store, late) == ["edited"]
        assert await stored(store, leased) == edited.after
        assert await store.fires(FireQuery(alarm_id=leased.id)) == []

    async def test_first_attempts_and_others_in_one_call_each_get_their_own_answer(
        self, store: Store, clock: ManualClock
    ) -> None:
        await added(store, *(an_alarm(clock) for _ in range(6)))
        now = clock.now()
        held = await claimed(store)
        plain = [settle(alarm, None, Completed("ok"), Try(now, now)) for alarm in held[:3]]
        failed = [settle(alarm, None, Failed("no"), Try(now, now)) for alarm in held[3:]]
        stale = replace(plain[1], version=plain[1].version + 1)
        mixed = [plain[0], failed[0], stale, failed[1], plain[2], failed[2]]
        assert await settled(store, *mixed) == ["applied", "applied", "edited", "applied", "applied", "applied"]
        assert await stored(store, held[1]) == held[1]
        for one in (*plain[::2], *failed):
            assert await store.get(one.after.id) == one.after
            assert await store.fires(FireQuery(alarm_id=one.after.id)) == list(one.fires)

    async def test_first_attempts_of_all_kinds_in_one_call_are_each_written_as_decided(
        self, store: Store, clock: ManualClock
    ) -> None:
        kinds: list[dict[str, Any]] = [
            {},
            {"kind": "cron", "cron_expr": "@hourly"},
            {"kind": "cron", "cron_expr": "@daily"},
        ]
        await added(store, *(an_alarm(clock, **kinds[number % 3]) for number in range(40)))
        outcomes: list[Outcome] = [Completed(), Completed('said "so" \\ {1,2} NULL'), Delivered("HTTP 200")]
        changes = []
        for number, alarm in enumerate(await claimed(store)):
            # The third in four ends before it began: a clock was set back meanwhile.
            ended = clock.now() + timedelta(milliseconds=(0, 7, -5, 1500)[number % 4])
            changes.append(settle(alarm, None, outcomes[number // 3 % 3], Try(clock.now(), ended)))
        assert await settled(store, *changes) == ["applied"] * 40
        for one in changes:
            assert await store.get(one.after.id) == one.after
            assert await store.fires(FireQuery(alarm_id=one.after.id)) == list(one.fires)

    async def test_settling_nothing_is_fine(self, store: Store) -> None:
        assert await store.settle([]) == []

    async def test_every_dispatch_column_is_written(self, store: Store, clock: ManualClock) -> None:
        alarm = an_alarm(clock, kind="cron", cron_expr="@hourly")
        await added(store, alarm)
        leased = await one_claimed(store)
        now = clock.now()
        after = replace(
            leased,
            status="paused",
            next_fire_at=now + timedelta(hours=1, milliseconds=5),
            occurrence_at=now + timedelta(hours=1),
            failure_count=2,
            last_error="HTTP 503",
            claimed_at=None,
            claim=leased.claim + 1,
            version=leased.version + 1,
            unsettled=0,
            awaiting=now,
            fire_count=4,
            failed_in_a_row=3,
            paused_reason="too many",
            cancelled_at=now,
            last_fired_at=now,
            updated_at=now + timedelta(seconds=1),
        )
        assert await settled(store, replace(change(leased), after=after)) == ["applied"]
        assert await store.get(alarm.id) == after

    async def test_every_field_of_a_fire_comes_back(self, store: Store, clock: ManualClock) -> None:
        alarm, now = an_alarm(clock), clock.now()
        await added(store, alarm)
        fire = Fire(
            alarm_id=alarm.id,
            scheduled_for=now + timedelta(milliseconds=1),
            owner_did=alarm.owner_did,
            target="elsewhere",
            status="skipped",
            reason="missed",
            attempts=2,
            failures=1,
            started_at=now,
            delivered_at=now + timedelta(milliseconds=2),
            report_by=now + timedelta(milliseconds=3),
            completed_at=now + timedelta(milliseconds=4),
            duration_ms=5_000_000_000,
            result="☃ " * 100,
            last_error="no ☃",
            log=(Attempt(now, 12, "failed: HTTP 500"), Attempt(now + timedelta(milliseconds=6), 0, "delivered")),
            through=now + timedelta(days=1),
            count=17,
            updated_at=now + timedelta(milliseconds=7),
        )
        await settled(store, change(alarm, fire))
        assert await store.fires(FireQuery()) == [fire]
        key = (alarm.id, fire.scheduled_for)
        assert await store.fires_at([key, (alarm.id, now), (new_id(), now), ("no uuid", now)]) == {key: fire}

    async def test_a_fire_is_replaced_as_a_whole(self, store: Store, clock: ManualClock) -> None:
        alarm = an_alarm(clock)
        await added(store, alarm)
        first = a_fire(
            alarm, report_by=clock.now(), result="a", last_error="b", attempts=3, log=(Attempt(clock.now(), 1, "x"),)
        )
        await settled(store, change(alarm, first))
        second = a_fire(alarm, status="completed", completed_at=clock.now())
        await settled(store, change(alarm, second))
        assert await store.fires(FireQuery()) == [second]

    async def test_one_change_may_write_several_fires(self, store: Store, clock: ManualClock) -> None:
        alarm = an_alarm(clock)
        await added(store, alarm)
        run = a_fire(alarm, scheduled_for=clock.now() + timedelta(hours=1), status="skipped", reason="missed", count=3)
        await settled(store, change(alarm, a_fire(alarm), run))
        assert [fire.status for fire in await store.fires(FireQuery())] == ["skipped", "delivered"]

    async def test_a_stale_claim_is_lost_and_changes_nothing(self, store: Store, clock: ManualClock) -> None:
        await added(store, an_alarm(clock))
        slow = await one_claimed(store)
        await clock.advance(LEASE)
        quick = await one_claimed(store)
        late = replace(done(slow), events=(an_event(slow),))
        assert await settled(store, late) == ["lost"]
        assert await store.get(slow.id) == quick
        assert await store.fires(FireQuery()) == []
        assert await store.events(EventQuery()) == []

    async def test_an_alarm_that_is_gone_is_lost(self, store: Store, clock: ManualClock) -> None:
        gone = an_alarm(clock)
        assert await settled(store, done(gone)) == ["lost"]
        assert await store.fires(FireQuery()) == []

    async def test_a_version_that_moved_means_decide_again(self, store: Store, clock: ManualClock) -> None:
        await added(store, an_alarm(clock, label="old"))
        leased = await one_claimed(store)
        await settled(store, change(leased, label="new", version=2, edited=True))
        assert await settled(store, done(leased)) == ["edited"]
        assert (await stored(store, leased)).status == "active"
        assert await store.fires(FireQuery()) == []

    @pytest.mark.parametrize("said", ["completed", "failed"])
    @pytest.mark.parametrize(
        "outcome", [Delivered(), Delivered(awaits_report=True), Snoozed(timedelta(minutes=5)), Failed("HTTP 500")]
    )
    async def test_a_settlement_never_replaces_what_a_report_has_said(
        self, store: Store, clock: ManualClock, said: ReportOutcome, outcome: Outcome
    ) -> None:
        await added(store, an_alarm(clock), an_alarm(clock))
        held, other = await claimed(store)
        reported = report(held, None, held.occurrence_at, Report(said, "three grants"), now=clock.now())
        assert reported is not None
        assert await settled(store, reported) == ["applied"]
        # Both numbers hold: whoever decides has the alarm as it is now, but not its fire.
        attempt = Try(clock.now(), clock.now())
        unaware = settle(await stored(store, held), None, outcome, attempt)
        beside = settle(other, None, Delivered(), attempt)
        is_kept = said == "failed" and isinstance(outcome, Failed)  # it failed, as the report says
        assert await settled(store, unaware, beside) == ["applied" if is_kept else "edited", "applied"]
        if not is_kept:
            assert await stored(store, held) == reported.after
            assert await store.fires(FireQuery(alarm_id=held.id)) == list(reported.fires)
            aware = settle(reported.after, reported.fires[0], outcome, attempt)
            assert await settled(store, aware) == ["applied"]
        [fire] = await store.fires(FireQuery(alarm_id=held.id))
        assert fire.status == ("completed" if said == "completed" else "retrying")
        assert await stored(store, other) == beside.after

    async def test_a_late_report_and_an_explicit_retry_change_a_status_that_a_report_has_set(
        self, store: Store, clock: ManualClock
    ) -> None:
        alarm = an_alarm(clock, max_failures=0)
        await added(store, alarm)
        gone = settle(await one_claimed(store), None, Failed("HTTP 500"), Try(clock.now(), clock.now()))
        assert await settled(store, gone) == ["applied"]
        late = report(gone.after, gone.fires[0], alarm.occurrence_at, Report("completed"), now=clock.now())
        assert late is not None
        assert await settled(store, late) == ["applied"]
        assert [fire.reason for fire in await store.fires(FireQuery())] == ["late"]
        opened = replace(late, version=late.after.version, fires=(replace(gone.fires[0], status="retrying"),))
        opened = replace(opened, after=replace(late.after, version=late.after.version + 1))
        assert await settled(store, opened) == ["applied"]

    async def test_an_owner_who_takes_an_alarm_back_wins_over_its_worker(
        self, store: Store, clock: ManualClock
    ) -> None:
        await added(store, an_alarm(clock))
        leased = await one_claimed(store)
        cancel = change(leased, status="cancelled", claim=leased.claim + 1, version=2, claimed_at=None)
        assert await settled(store, cancel) == ["applied"]
        assert await settled(store, done(leased)) == ["lost"]
        assert (await stored(store, leased)).status == "cancelled"

    async def test_a_skip_is_written_with_its_record_and_counts_once(self, store: Store, clock: ManualClock) -> None:
        alarm = an_alarm(clock, due=60, kind="cron", cron_expr="* * * * *", fire_at=None)
        await added(store, alarm)
        skip = skip_next(alarm, None, now=clock.now(), lease=LEASE, by="ada")
        assert await settled(store, skip) == ["applied"]
        assert await stored(store, alarm) == skip.after
        [record] = await store.fires(FireQuery(alarm_id=alarm.id, statuses=("skipped",)))
        assert (record.scheduled_for, record.reason) == (alarm.occurrence_at, "requested")
        assert [event.what for _, event in await store.events(EventQuery(alarm_id=alarm.id))] == ["skipped"]
        assert await settled(store, skip) == ["lost"], "the same decision again"
        assert await stored(store, alarm) == skip.after
        await clock.advance(60)
        assert await claimed(store) == [], "the fire that was skipped is not due"
        await clock.advance(60)
        assert (await one_claimed(store)).occurrence_at == alarm.occurrence_at + timedelta(seconds=60)

    async def test_of_two_who_change_the_same_version_one_is_told(self, store: Store, clock: ManualClock) -> None:
        alarm = an_alarm(clock, due=60)
        await added(store, alarm)
        edits = [change(alarm, label=label, version=2, edited=True) for label in "abcdefgh"]
        answers = await asyncio.gather(*(settled(store, edit) for edit in edits))
        assert sorted(what for [what] in answers) == ["applied"] + ["edited"] * 7

    async def test_answers_come_in_the_order_of_the_changes(self, store: Store, clock: ManualClock) -> None:
        await added(store, *(an_alarm(clock) for _ in range(30)))
        leased = await claimed(store)
        changes = [done(alarm if n % 3 else replace(alarm, claim=99)) for n, alarm in enumerate(leased)]
        assert await settled(store, *changes) == ["applied" if n % 3 else "lost" for n in range(30)]

    async def test_two_changes_to_one_alarm_in_one_call_are_taken_in_order(
        self, store: Store, clock: ManualClock
    ) -> None:
        alarm = an_alarm(clock, due=60)
        await added(store, alarm)
        first = change(alarm, last_error="first", version=2)
        second = change(first.after, last_error="second", version=3)
        stale = change(alarm, last_error="stale", version=2)
        assert await settled(store, first, second, stale) == ["applied", "applied", "edited"]
        assert (await stored(store, alarm)).last_error == "second"

    async def test_thousands_at_once_are_all_settled(self, store: Store, clock: ManualClock) -> None:
        await added(store, *(an_alarm(clock) for _ in range(1300)))
        leased = await claimed(store, 2000)
        assert await settled(store, *(done(alarm) for alarm in leased)) == ["applied"] * 1300
        assert (await store.stats()).fired == 1300

    async def test_an_alarm_left_due_at_once_gives_a_hint(self, store: Store, clock: ManualClock) -> None:
        alarm = an_alarm(clock, due=3600)
        await added(store, alarm)
        store.hints.clear()
        await settled(store, change(alarm, next_fire_at=clock.now()))
        await asyncio.wait_for(store.hints.wait(), 60)

    async def test_a_value_the_database_cannot_hold_is_refused_alone(self, store: Store, clock: ManualClock) -> None:
        await added(store, *(an_alarm(clock) for _ in range(5)))
        leased = await claimed(store)
        changes = [done(alarm) for alarm in leased]
        changes[2] = done(leased[2], a_fire(leased[2], status="nonsense"))
        answers = await store.settle(changes)
        assert [answer.what for answer in answers] == ["applied", "applied", "refused", "applied", "applied"]
        assert answers[2].error
        assert await store.get(leased[2].id) == leased[2]


class TestEditing:
    async def test_a_settlement_never_overwrites_what_an_owner_edited(self, store: Store, clock: ManualClock) -> None:
        await added(store, an_alarm(clock, label="old", payload_json="1", wake_message="old"))
        leased = await one_claimed(store)
        await settled(store, change(leased, label="new", payload_json="2", wake_message="new", version=2, edited=True))
        # The worker read the version again, but still carries the old label.
        assert await settled(store, done(replace(leased, version=2))) == ["applied"]
        after = await stored(store, leased)
        assert (after.status, after.label, after.payload_json, after.wake_message) == ("fired", "new", "2", "new")

    async def test_an_edit_writes_intent_and_dispatch_columns(self, store: Store, clock: ManualClock) -> None:
        alarm = an_alarm(clock, due=60)
        await added(store, alarm)
        after = replace(
            alarm,
            label="new",
            kind="cron",
            fire_at=None,
            cron_expr="@daily",
            timezone="Asia/Tokyo",
            next_fire_at=clock.now() + timedelta(days=1),
            occurrence_at=clock.now() + timedelta(days=1),
            conversation_id="room",
            wake_message="new message",
            payload_json="[ 1]",
            max_failures=1,
            target="elsewhere",
            policy=Policy(jitter=4.0),
            created_by="bob",
            created_via="cli",
            isolated=True,
            parent_fire="p@1",
            root_id=new_id(),
            generation=2,
            version=2,
            claim=1,
        )
        assert await settled(store, replace(change(alarm, edited=True), after=after)) == ["applied"]
        assert await store.get(alarm.id) == after

    async def test_an_edit_leaves_whose_alarm_it_is_and_when_it_came(self, store: Store, clock: ManualClock) -> None:
        alarm = an_alarm(clock, idempotency_key="k")
        await added(store, alarm)
        other = change(
            alarm,
            owner_did="eve",
            user_id="eve",
            idempotency_key="other",
            created_at=clock.now() + timedelta(days=1),
            label="new",
            edited=True,
        )
        assert await settled(store, other) == ["applied"]
        assert await store.get(alarm.id) == replace(alarm, label="new")

    async def test_a_policy_can_be_set_back_to_the_default(self, store: Store, clock: ManualClock) -> None:
        alarm = an_alarm(clock, policy=Policy(jitter=4.0))
        await added(store, alarm)
        await settled(store, change(alarm, policy=Policy(), edited=True))
        assert (await stored(store, alarm)).policy == Policy()


class TestRows:
    async def test_a_row_is_written_with_its_settlement(self, store: Store, clock: ManualClock, outbox: Outbox) -> None:
        await added(store, an_alarm(clock))
        leased = await one_claimed(store)
        assert await settled(store, replace(done(leased), row=_row(outbox, leased.fire_id, "hello"))) == ["applied"]
        assert await outbox.rows() == [(leased.fire_id, "hello")]

    async def test_there_is_one_row_per_fire_however_often_it_is_settled(
        self, store: Store, clock: ManualClock, outbox: Outbox
    ) -> None:
        await added(store, an_alarm(clock))
        leased = await one_claimed(store)
        settlement = replace(change(leased, a_fire(leased)), row=_row(outbox, leased.fire_id, "hello"))
        assert await settled(store, settlement) == ["applied"]
        assert await settled(store, settlement) == ["applied"]
        assert len(await outbox.rows()) == 1

    async def test_a_lost_settlement_writes_no_row(self, store: Store, clock: ManualClock, outbox: Outbox) -> None:
        await added(store, an_alarm(clock))
        slow = await one_claimed(store)
        await clock.advance(LEASE)
        await one_claimed(store)
        assert await settled(store, replace(done(slow), row=_row(outbox, slow.fire_id, "late"))) == ["lost"]
        assert await outbox.rows() == []

    async def test_a_row_that_asks_for_it_has_the_moment_it_was_written(
        self, store: Store, clock: ManualClock, outbox: Outbox
    ) -> None:
        await added(store, an_alarm(clock))
        leased = await one_claimed(store)
        row = replace(_row(outbox, leased.fire_id, "when it was delivered"), stamped=("body",))
        await clock.advance(1.5)
        assert await settled(store, replace(done(leased), row=row)) == ["applied"]
        assert await outbox.rows() == [(leased.fire_id, stamp(clock.now()))]

    async def test_a_row_that_cannot_be_written_is_refused_alone(
        self, store: Store, clock: ManualClock, outbox: Outbox
    ) -> None:
        await added(store, *(an_alarm(clock) for _ in range(6)))
        leased = await claimed(store)
        rows = [_row(outbox, alarm.fire_id, "hello") for alarm in leased]
        rows[1] = Row("no_such_table", {"fire_id": leased[1].fire_id}, "fire_id")
        rows[3] = Row(outbox.table, {"fire_id": leased[3].fire_id, "no_such_column": "x"}, "fire_id")
        rows[4] = Row(outbox.table, {"fire_id": leased[4].fire_id, "body": None}, "fire_id")
        changes = [
            replace(done(alarm), row=row, events=(an_event(alarm),)) for alarm, row in zip(leased, rows, strict=True)
        ]
        answers = await store.settle(changes)
        refused = {1, 3, 4}
        assert [answer.what for answer in answers] == ["refused" if n in refused else "applied" for n in range(6)]
        assert all(bool(answer.error) == (answer.what == "refused") for answer in answers)
        good = sorted(alarm.fire_id for n, alarm in enumerate(leased) if n not in refused)
        assert sorted(fire_id for fire_id, _ in await outbox.rows()) == good
        assert sorted(fire.id for fire in await store.fires(FireQuery())) == good
        assert len(await store.events(EventQuery())) == 3
        for n in refused:
            assert await store.get(leased[n].id) == leased[n]

    @pytest.mark.parametrize(
        "name",
        ["fire_id, body) select ?, 'evil' --", "fire_id, body) select $1, 'evil' --", 'fire_id") values (1); --'],
    )
    async def test_names_are_names_and_nothing_else(
        self, store: Store, clock: ManualClock, outbox: Outbox, name: str
    ) -> None:
        await added(store, an_alarm(clock))
        leased = await one_claimed(store)
        evil = Row(outbox.table, {name: "x"}, "fire_id")
        assert await settled(store, replace(done(leased), row=evil)) == ["refused"]
        assert await outbox.rows() == []
        assert await store.fires(FireQuery()) == []


def _row(outbox: Outbox, fire_id: str, body: str) -> Row:
    return Row(outbox.table, {"fire_id": fire_id, "body": body}, "fire_id")


WAKES = 160
CONSUMERS = 12


async def _put_into_the_inbox(store: Store, clock: ManualClock) -> None:
    await added(store, *(an_alarm(clock) for _ in range(WAKES)))
    for _ in range(0, WAKES, 40):
        leased = await claimed(store, 40)
        changes = [
            done(alarm, a_fire(alarm, status="waiting", target="inbox"), awaiting=alarm.occurrence_at)
            for alarm in leased
        ]
        assert set(await settled(store, *changes)) == {"applied"}


async def _taken(store: Store, clock: ManualClock) -> list[Change]:
    """What one consumer gets, until there is nothing left."""
    got: list[Change] = []
    while waiting := await store.waiting("ada", limit=10):
        changes = [fetch(alarm, fire, now=clock.now()) for alarm, fire in waiting]
        answers = await store.settle(changes)
        got += [change for change, answer in zip(changes, answers, strict=True) if answer.what == "applied"]
    return got


class TestInterleaving:
    async def test_each_wake_is_handed_to_one_of_many_consumers(self, store: Store, clock: ManualClock) -> None:
        await _put_into_the_inbox(store, clock)
        taken = await asyncio.gather(*(_taken(store, clock) for _ in range(CONSUMERS)))
        times = Counter(change.after.id for changes in taken for change in changes)
        assert len(times) == WAKES
        assert {id: count for id, count in times.items() if count > 1} == {}

    async def test_a_report_that_was_taken_is_not_swept_away(self, store: Store, clock: ManualClock) -> None:
        await added(store, *(an_alarm(clock) for _ in range(WAKES)))
        leased = [alarm for _ in range(0, WAKES, 40) for alarm in await claimed(store, 40)]
        fires = [a_fire(alarm, report_by=clock.now()) for alarm in leased]
        settlements = [done(alarm, fire) for alarm, fire in zip(leased, fires, strict=True)]
        assert set(await settled(store, *settlements)) == {"applied"}
        said: list[Fire] = []

        async def complete(mine: list[Change]) -> None:
            for delivered in mine:
                occurrence = delivered.fires[0].scheduled_for
                ending = report(delivered.after, delivered.fires[0], occurrence, Report("completed"), now=clock.now())
                assert ending is not None
                [answer] = await store.settle([ending])
                said.extend(ending.fires if answer.what == "applied" else ())

        async def sweep_all() -> None:
            while overdue := await store.overdue(limit=20):
                await store.settle([sweep(alarm, fire, now=clock.now()) for alarm, fire in overdue])

        shares = [settlements[at::4] for at in range(4)]
        await asyncio.gather(*(complete(share) for share in shares), *(sweep_all() for _ in range(4)))
        ended = await store.fires_at([(fire.alarm_id, fire.scheduled_for) for fire in said])
        assert said
        assert {fire.status for fire in ended.values()} == {"completed"}
