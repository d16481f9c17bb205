"""Finding: the filters, the order, the pages, what is new since a moment, and never another owner's alarms."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from wakeful.clock import Clock
from wakeful.ids import Ids
from wakeful.model.alarm import Alarm, Event, Fire
from wakeful.store import (
    AlarmQuery,
    DescribedFire,
    EventQuery,
    FireQuery,
    Followed,
    MovedFire,
    NewAlarm,
    Stats,
    Store,
    Usage,
)
from wakeful.store.records import SEARCHED
from wakeful.testing.conformance.making import (
    MS,
    SECOND,
    a_fire,
    added,
    an_alarm,
    an_event,
    change,
    done,
    new_id,
    settled,
)
from wakeful.testing.manual_clock import ManualClock


async def found(store: Store, **query: Any) -> list[str]:
    return [alarm.label for alarm in await store.find(AlarmQuery(**query))]


async def with_fires(store: Store, alarm: Alarm, *fires: Fire) -> None:
    await added(store, alarm)
    await settled(store, change(alarm, *fires))


class TestPages:
    async def test_further_is_where_to_go_on_and_none_at_the_end(self, store: Store, clock: ManualClock) -> None:
        alarms = [an_alarm(clock, label=str(number)) for number in range(5)]
        await added(store, *alarms)
        seen, query = [], AlarmQuery(limit=2)
        while True:
            page = await store.find(query)
            seen += [alarm.label for alarm in page]
            if page.further is None:
                break
            query = AlarmQuery(limit=2, cursor=page.further)
        assert sorted(seen) == ["0", "1", "2", "3", "4"]
        assert (await store.find(AlarmQuery(limit=5))).further is None

    @pytest.mark.parametrize(("look_at", "pages"), [(4, [[], [], ["0"]]), (5, [[], ["0"]]), (10, [["0"]])])
    async def test_a_search_looks_at_so_many_rows_and_says_where_to_go_on(
        self, store: Store, clock: ManualClock, look_at: int, pages: list[list[str]]
    ) -> None:
        for number in range(10):
            await added(store, an_alarm(clock, label=str(number), wake_message=f"say {number}"))
            await added(store, an_alarm(clock, label="0", owner_did="bob"))
            await clock.advance(1)
        for wanted in ({"label": "0"}, {"text": "SAY 0"}, {"label": "0", "statuses": ("active",), "kind": "once"}):
            query, seen = AlarmQuery(owner="ada", look_at=look_at, **wanted), []
            while True:
                page = await store.find(query)
                seen.append([alarm.label for alarm in page])
                if page.further is None:
                    break
                query = AlarmQuery(owner="ada", look_at=look_at, cursor=page.further, **wanted)
            assert seen == pages

    async def test_what_an_index_answers_is_found_however_few_are_looked_at(
        self, store: Store, clock: ManualClock
    ) -> None:
        await added(store, an_alarm(clock, label="old", status="paused"))
        await clock.advance(1)
        await added(store, *(an_alarm(clock, label="new") for _ in range(5)))
        page = await store.find(AlarmQuery(owner="ada", statuses=("paused",), look_at=1))
        assert ([alarm.label for alarm in page], page.further) == (["old"], None)
        assert len(await store.find(AlarmQuery(owner="ada", look_at=1))) == 6  # nothing is left out: all fit
        both = AlarmQuery(owner="ada", statuses=("paused", "cancelled"), look_at=5)
        assert await store.find(both) == []
        assert (await store.find(both)).further is not None

    async def test_a_page_ends_where_it_is_heavy_enough(self, store: Store, clock: ManualClock) -> None:
        await added(store, *(an_alarm(clock, wake_message="x" * 10_000) for _ in range(6)))
        page = await store.find(AlarmQuery(most=25_000))
        assert len(page) == 3
        assert page.further == (page[-1].created_at, page[-1].id)
        assert len(await store.find(AlarmQuery(most=1))) == 1  # one goes always
        rest = await store.find(AlarmQuery(most=100_000, cursor=page.further))
        assert (len(rest), rest.further) == (3, None)

    async def test_a_fire_is_described_by_its_alarm(self, store: Store, clock: ManualClock) -> None:
        said: dict[str, Any] = {"wake_message": "Check", "max_failures": 7, "created_by": "eve", "created_via": "mcp"}
        first, second = an_alarm(clock, label="a", **said), an_alarm(clock, label="b", owner_did="bob")
        fires = [a_fire(first), a_fire(first, scheduled_for=clock.now() + SECOND)]
        await with_fires(store, first, *fires)
        await with_fires(store, second, a_fire(second, owner_did="bob", scheduled_for=clock.now() + 2 * SECOND))
        latest, *own = await store.described_fires(FireQuery())
        assert (latest.label, latest.fire.owner_did) == ("b", "bob")
        assert own == [DescribedFire(label="a", **said, fire=fire) for fire in reversed(fires)]
        assert await store.described_fires(FireQuery(owner=first.owner_did, alarm_id=first.id)) == own
        assert await store.described_fires(FireQuery(alarm_id="nothing")) == []

    async def test_a_page_of_described_fires_weighs_what_it_tells(self, store: Store, clock: ManualClock) -> None:
        for number in range(4):
            payload = json.dumps("x" * 50_000)  # not a part of it
            alarm = an_alarm(clock, label=str(number), wake_message="x" * 10_000, payload_json=payload)
            await with_fires(store, alarm, a_fire(alarm))
            await clock.advance(1)
        page = await store.described_fires(FireQuery(most=15_000))
        assert [found.label for found in page] == ["3", "2"]
        assert page.further == (page[-1].fire.scheduled_for, page[-1].fire.alarm_id)
        rest = await store.described_fires(FireQuery(most=100_000, cursor=page.further))
        assert ([found.label for found in rest], rest.further) == (["1", "0"], None)

    async def test_a_page_of_fires_too(self, store: Store, clock: ManualClock) -> None:
        for _ in range(4):
            alarm = an_alarm(clock)
            await with_fires(store, alarm, a_fire(alarm, result="x" * 10_000))
        page = await store.fires(FireQuery(most=15_000))
        assert len(page) == 2
        rest = await store.fires(FireQuery(most=100_000, cursor=page.further))
        assert (len(rest), rest.further) == (2, None)

    async def test_a_search_looks_through_so_much_and_says_where_to_go_on(
        self, store: Store, clock: ManualClock
    ) -> None:
        await added(store, an_alarm(clock, label="Straße"))
        await clock.advance(1)
        long = "x" * (SEARCHED // 40)
        for _ in range(5):
            await added(store, *(an_alarm(clock, wake_message=long) for _ in range(10)))
        first = await store.find(AlarmQuery(text="STRASSE"))
        assert first == []
        assert first.further is not None
        second = await store.find(AlarmQuery(text="STRASSE", cursor=first.further))
        assert [alarm.label for alarm in second] == ["Straße"]
        assert second.further is None


class TestUsage:
    async def test_counts_what_is_active_or_paused_and_weighs_all(self, store: Store, clock: ManualClock) -> None:
        assert await store.usage("ada") == Usage(0, 0)
        words = "".join(chr(33 + number * number * 7919 % 90) for number in range(4000))
        kept = [an_alarm(clock, status=status) for status in ("active", "paused", "cancelled", "fired")]
        await added(store, *kept, an_alarm(clock, owner_did="bob", wake_message=words))
        before = await store.usage("ada")
        assert before.alarms == 2
        await added(store, an_alarm(clock, status="fired", wake_message=words))
        after = await store.usage("ada")
        assert (after.alarms, after.bytes > before.bytes) == (2, True)


class TestFinding:
    @pytest.mark.parametrize(
        "id", ["", "nothing", "0", new_id()[:-1], new_id() + "0", "'; drop table alarms", "☃", "\ud800"]
    )
    async def test_an_id_that_is_none_finds_nothing(self, store: Store, clock: ManualClock, id: str) -> None:
        await added(store, an_alarm(clock))
        assert await store.get(id) is None

    async def test_the_newest_come_first(self, store: Store, clock: ManualClock) -> None:
        for label in "abc":
            await added(store, an_alarm(clock, label=label))
            await clock.advance(1)
        assert await found(store) == ["c", "b", "a"]
        assert await found(store, limit=2) == ["c", "b"]

    @pytest.mark.parametrize(
        "query",
        [
            {"statuses": ("paused",)},
            {"statuses": ("paused", "failed")},
            {"kind": "cron"},
            {"target": "other"},
            {"label": "it"},
            {"conversation_id": "room"},
            {"root_id": "01900000-0000-7000-8000-00000000ffff"},
            {"text": "NEEDLE"},
            {"text": "eedl", "kind": "cron", "target": "other", "owner": "ada"},
        ],
        ids=str,
    )
    async def test_a_filter_keeps_what_it_names(self, store: Store, clock: ManualClock, query: dict[str, Any]) -> None:
        await added(
            store,
            an_alarm(clock, label="other"),
            an_alarm(
                clock,
                label="it",
                status="paused",
                kind="cron",
                target="other",
                conversation_id="room",
                root_id="01900000-0000-7000-8000-00000000ffff",
                wake_message="a Needle in hay",
            ),
        )
        assert await found(store, **query) == ["it"]
        if "text" not in query:
            assert await store.count(AlarmQuery(**query)) == 1

    async def test_text_is_looked_for_in_label_and_message_as_it_stands(self, store: Store, clock: ManualClock) -> None:
        labels = ["50% off", "50 off", "a_b", "axb", "back\\slash", "quo'te", "[x]*?"]
        await added(store, *(an_alarm(clock, label=label) for label in labels))
        await added(store, an_alarm(clock, label="message", wake_message="naïve ☃ Text"))
        assert await found(store, text="50%") == ["50% off"]
        assert await found(store, text="A_B") == ["a_b"]
        assert await found(store, text="K\\S") == ["back\\slash"]
        assert await found(store, text="O'T") == ["quo'te"]
        assert await found(store, text="[x]*?") == ["[x]*?"]
        assert await found(store, text="naïve ☃ text") == ["message"]
        assert await found(store, text="absent") == []

    async def test_a_key_is_found_by_itself_and_by_a_part_of_it(self, store: Store, clock: ManualClock) -> None:
        for key in ("grant-portal", "brief", ""):
            await added(store, an_alarm(clock, label=key or "none", idempotency_key=key))
        assert await found(store, key="brief") == ["brief"]
        assert await found(store, key="bri") == []
        assert await found(store, text="PORTAL") == ["grant-portal"]
        assert await found(store, key="brief", owner="eve") == []
        # Its index has nothing else: however few are looked at, it is among them.
        query = AlarmQuery(owner="ada", key="grant-portal", statuses=("active",), kind="once", look_at=1)
        assert [alarm.label for alarm in await store.find(query)] == ["grant-portal"]
        assert await store.count(AlarmQuery(owner="ada", key="grant-portal")) == 1
        assert await store.count(AlarmQuery(owner="ada", key="grant")) == 0

    async def test_since_is_included_and_until_is_not(self, store: Store, clock: ManualClock) -> None:
        start = clock.now()
        for label in "abcd":
            await added(store, an_alarm(clock, label=label))
            await clock.advance(1)
        assert await found(store, since=start + SECOND, until=start + 3 * SECOND) == ["c", "b"]

    async def test_pages_skip_nothing_and_repeat_nothing(self, store: Store, clock: ManualClock) -> None:
        alarms = []
        for _ in range(5):  # five moments, five alarms each: ties must not be lost at the edge of a page
            alarms += [an_alarm(clock) for _ in range(5)]
            await clock.advance(MS)
        await added(store, *alarms)
        seen: list[Alarm] = []
        query = AlarmQuery(limit=4)
        while page := await store.find(query):
            seen += page
            assert len(seen) <= len(alarms)
            await clock.advance(1)
            await added(store, an_alarm(clock))  # newer: before the first page, never in a later one
            query = AlarmQuery(limit=4, cursor=(page[-1].created_at, page[-1].id))
        assert seen == sorted(alarms, key=lambda alarm: (alarm.created_at, alarm.id), reverse=True)

    async def test_the_agenda_is_what_is_active_and_due_before_a_moment(self, store: Store, clock: ManualClock) -> None:
        await added(store, *(an_alarm(clock, due=due, label=str(due)) for due in (30, 10, 20, 40)))
        await added(store, an_alarm(clock, due=5, status="paused"), an_alarm(clock, due=6, owner_did="bob", label="6"))
        until = clock.now() + 40 * SECOND
        assert [a.label for a in await store.agenda(owner="ada", until=until, limit=9)] == ["10", "20", "30"]
        assert [a.label for a in await store.agenda(owner="", until=until, limit=2)] == ["6", "10"]

    async def test_the_agenda_is_of_all_targets_and_as_long_as_is_asked(self, store: Store, clock: ManualClock) -> None:
        at_once = [an_alarm(clock, due=20, target=target) for target in ("a", "b", "c") for _ in range(3)]
        sooner = [an_alarm(clock, due=due, target=target) for target, due in (("c", 10), ("a", 11), ("b", 12))]
        await added(store, *at_once, *sooner, an_alarm(clock, due=30, target="a"))
        await added(store, *(an_alarm(clock, due=1, target="b", owner_did="bob") for _ in range(5)))
        until = clock.now() + 30 * SECOND
        page = await store.agenda(owner="ada", until=until, limit=7)
        assert page[:3] == sooner
        assert {alarm.next_fire_at for alarm in page[3:]} == {clock.now() + 20 * SECOND}
        assert [alarm.id for alarm in page[3:]] == sorted(alarm.id for alarm in page[3:])
        assert len(page) == 7
        assert page.further == (page[-1].next_fire_at, page[-1].id)
        whole = await store.agenda(owner="ada", until=until, limit=12)
        assert whole == [*sooner, *sorted(at_once, key=lambda alarm: alarm.id)]
        assert whole.further is None


class TestFires:
    async def test_the_latest_come_first_and_filters_keep_what_they_name(
        self, store: Store, clock: ManualClock
    ) -> None:
        alarm, other = an_alarm(clock), an_alarm(clock, target="other")
        start = clock.now()
        fires = [
            a_fire(alarm, scheduled_for=start + n * SECOND, status=s) for n, s in enumerate(("failed", "completed"))
        ]
        await with_fires(store, alarm, *fires)
        await with_fires(store, other, a_fire(other, scheduled_for=start + 2 * SECOND))

        async def statuses(**query: Any) -> list[str]:
            return [fire.status for fire in await store.fires(FireQuery(**query))]

        assert await statuses() == ["delivered", "completed", "failed"]
        assert await statuses(limit=1) == ["delivered"]
        assert await statuses(alarm_id=alarm.id) == ["completed", "failed"]
        assert await statuses(alarm_id="no uuid") == []
        assert await statuses(statuses=("failed", "delivered")) == ["delivered", "failed"]
        assert await statuses(target="other") == ["delivered"]
        assert await statuses(since=start + SECOND, until=start + 2 * SECOND) == ["completed"]
        counted = [FireQuery(), FireQuery(limit=1), FireQuery(alarm_id=alarm.id), FireQuery(alarm_id="no uuid")]
        counted += [FireQuery(owner="ada", statuses=("failed",)), FireQuery(owner="bob"), FireQuery(target="other")]
        assert [await store.count(query) for query in counted] == [3, 1, 2, 0, 1, 0, 1]

    async def test_pages_skip_nothing_and_repeat_nothing(self, store: Store, clock: ManualClock) -> None:
        alarms = [an_alarm(clock) for _ in range(4)]
        fires = []
        for alarm in alarms:  # the same moments in each: ties at the edge of a page
            own = [a_fire(alarm, scheduled_for=clock.now() + n * MS) for n in range(5)]
            await with_fires(store, alarm, *own)
            fires += own
        seen: list[Fire] = []
        query = FireQuery(limit=3)
        while page := await store.fires(query):
            seen += page
            assert len(seen) <= len(fires)
            query = FireQuery(limit=3, cursor=(page[-1].scheduled_for, page[-1].alarm_id))
        assert seen == sorted(fires, key=lambda fire: (fire.scheduled_for, fire.alarm_id), reverse=True)

    async def test_a_search_looks_at_so_many_rows_unless_an_index_has_them(
        self, store: Store, clock: ManualClock
    ) -> None:
        statuses = ["retrying", "failed", "waiting", "timed_out", *["completed"] * 6]
        alarm, start = an_alarm(clock), clock.now()
        fires = [a_fire(alarm, scheduled_for=start + n * SECOND, status=s) for n, s in enumerate(statuses)]
        fires[1] = a_fire(alarm, scheduled_for=start + SECOND, status="failed", target="other")
        await with_fires(store, alarm, *fires)

        async def looked(**query: Any) -> tuple[list[str], int | None]:
            page = await store.fires(FireQuery(owner="ada", look_at=2, **query))
            place = None if page.further is None else (page.further[0] - start) // SECOND
            return [fire.status for fire in page], place

        for status in ("retrying", "failed", "waiting", "timed_out"):
            assert await looked(statuses=(status,)) == ([status], None)
        assert await looked(statuses=("failed", "timed_out")) == (["timed_out", "failed"], None)
        assert await looked(statuses=("failed",), target="other") == (["failed"], None)  # the second of two
        assert await looked(statuses=("waiting", "failed")) == ([], 8)
        assert await looked(target="other") == ([], 8)
        assert await looked(target="other", cursor=(start + 3 * SECOND, alarm.id)) == (["failed"], 1)
        assert await looked(target="other", until=start + 2 * SECOND) == (["failed"], None)
        assert (await looked(alarm_id=alarm.id, statuses=("retrying",)))[0] == ["retrying"]
        described = await store.described_fires(FireQuery(owner="ada", look_at=2, target="other"))
        assert (list(described), described.further) == ([], (start + 8 * SECOND, alarm.id))

    async def test_fires_are_found_by_their_keys(self, store: Store, clock: ManualClock) -> None:
        alarms = [an_alarm(clock) for _ in range(3)]
        for alarm in alarms:
            await with_fires(store, alarm, a_fire(alarm))
        keys = [(alarm.id, alarm.occurrence_at) for alarm in alarms]
        assert list(await store.fires_at([keys[2], keys[0]])) == [keys[2], keys[0]]
        assert await store.fires_at([(alarms[0].id, clock.now() + MS)]) == {}
        assert await store.fires_at([]) == {}


class TestInbox:
    async def test_what_waits_comes_oldest_first_with_its_alarm(self, store: Store, clock: ManualClock) -> None:
        for due in (3, 1, 2):
            alarm = an_alarm(clock, due=due, label=str(due), target="inbox")
            await with_fires(store, alarm, a_fire(alarm, status="waiting"))
        fetched = an_alarm(clock)
        await with_fires(store, fetched, a_fire(fetched, status="delivered"))
        pairs = await store.waiting("ada", limit=10)
        assert [alarm.label for alarm, _ in pairs] == ["1", "2", "3"]
        assert all((fire.alarm_id, fire.status) == (alarm.id, "waiting") for alarm, fire in pairs)
        assert len(await store.waiting("ada", limit=2)) == 2

    async def test_what_waits_in_an_inbox_of_another_name_is_left_there(self, store: Store, clock: ManualClock) -> None:
        for target in ("inbox", "ops"):
            alarm = an_alarm(clock, target=target)
            await with_fires(store, alarm, a_fire(alarm, status="waiting"))
        for said, targets in (({}, ["inbox"]), ({"target": "ops"}, ["ops"]), ({"target": "nowhere"}, [])):
            pairs = await store.waiting("ada", limit=10, most=1_000_000, **said)
            assert [fire.target for _, fire in pairs] == targets

    async def test_what_waits_for_another_conversation_is_left_there(self, store: Store, clock: ManualClock) -> None:
        for conversation in ("", "c-1", "c-2"):
            alarm = an_alarm(clock, target="inbox", conversation_id=conversation)
            await with_fires(store, alarm, a_fire(alarm, status="waiting"))
        for said, number in (("", 3), ("c-1", 1), ("C-1", 0)):
            pairs = await store.waiting("ada", limit=10, conversation_id=said)
            assert len(pairs) == number
            assert all(said in ("", alarm.conversation_id) for alarm, _ in pairs)


class TestOverdue:
    async def test_a_report_that_is_late_is_found_at_its_moment_and_not_before(
        self, store: Store, clock: ManualClock
    ) -> None:
        alarm = an_alarm(clock)
        await with_fires(store, alarm, a_fire(alarm, report_by=clock.now() + 10 * SECOND))
        await clock.advance(10 * SECOND - MS)
        assert await store.overdue(limit=10) == []
        await clock.advance(MS)
        [(late, fire)] = await store.overdue(limit=10)
        assert (late.id, fire.alarm_id, fire.status) == (alarm.id, alarm.id, "delivered")

    async def test_a_fire_that_awaits_no_report_is_never_overdue(self, store: Store, clock: ManualClock) -> None:
        alarm = an_alarm(clock)
        await with_fires(store, alarm, a_fire(alarm, report_by=None))
        await clock.advance(timedelta(days=1000))
        assert await store.overdue(limit=10) == []

    async def test_a_fire_that_is_being_tried_is_not_overdue(self, store: Store, clock: ManualClock) -> None:
        alarm = an_alarm(clock)
        await with_fires(store, alarm, a_fire(alarm, status="retrying", report_by=clock.now() + SECOND))
        await clock.advance(60)
        assert await store.overdue(limit=10) == []

    async def test_the_longest_overdue_comes_first(self, store: Store, clock: ManualClock) -> None:
        for due in (3, 1, 2):
            alarm = an_alarm(clock, label=str(due))
            await with_fires(store, alarm, a_fire(alarm, report_by=clock.now() + due * SECOND))
        await clock.advance(60)
        assert [alarm.label for alarm, _ in await store.overdue(limit=2)] == ["1", "2"]


class TestStats:
    async def test_an_empty_store_counts_nothing(self, store: Store) -> None:
        assert await store.stats() == Stats()

    async def test_alarms_are_counted_by_state_and_fires_by_how_they_went(
        self, store: Store, clock: ManualClock
    ) -> None:
        alarms = [an_alarm(clock, status=s) for s in ("active", "active", "paused", "fired", "failed", "cancelled")]
        await added(store, *alarms)
        outcomes: list[dict[str, Any]] = [
            {"status": "retrying"},
            {"status": "waiting"},
            {"status": "delivered"},
            {"status": "completed", "duration_ms": 100},
            {"status": "completed", "duration_ms": 201},
            {"status": "completed"},
            {"status": "failed"},
            {"status": "timed_out"},
            {"status": "snoozed"},
            {"status": "skipped", "count": 5},
            {"status": "skipped", "count": 2},
        ]
        fires = [a_fire(alarms[0], scheduled_for=clock.now() + n * MS, **how) for n, how in enumerate(outcomes)]
        await settled(store, change(alarms[0], *fires))
        assert await store.stats() == Stats(
            total=6,
            pending=2,
            paused=1,
            fired=2,
            completed=3,
            failed=1,
            cancelled=1,
            timeout_unknown=1,
            skipped=7,
            avg_duration_ms=151,
        )


class TestOwners:
    async def test_nobody_sees_what_belongs_to_another(self, store: Store, clock: ManualClock) -> None:
        alarm = an_alarm(clock, owner_did="ada", target="inbox")
        await added(store, alarm)
        waiting = change(alarm, a_fire(alarm, status="waiting"), events=[an_event(alarm)])
        assert await settled(store, waiting) == ["applied"]
        far = clock.now() + timedelta(days=9)
        for owner, sees in (("ada", 1), ("bob", 0), ("ADA", 0), ("ad_", 0), ("%", 0)):
            assert (await store.get(alarm.id, owner=owner) is not None) == bool(sees)
            assert len(await store.find(AlarmQuery(owner=owner))) == sees
            assert len(await store.fires(FireQuery(owner=owner))) == sees
            assert len(await store.waiting(owner, limit=9)) == sees
            assert len(await store.agenda(owner=owner, until=far, limit=9)) == sees
            assert len(await store.events(EventQuery(owner=owner))) == sees
            stats = await store.stats(owner)
            assert (stats.total, stats.pending, stats.fired) == (sees, sees, sees)

    async def test_no_owner_named_means_all_of_them(self, store: Store, clock: ManualClock) -> None:
        for owner in ("ada", "bob"):
            alarm = an_alarm(clock, owner_did=owner)
            await added(store, alarm)
            await settled(store, done(alarm))
        assert len(await store.find(AlarmQuery())) == 2
        assert len(await store.fires(FireQuery())) == 2
        assert (await store.stats()).total == 2


_ids: Final = Ids()


def made(clock: Clock, **given: Any) -> Alarm:
    """An alarm whose id was made when it was created, as all are outside these tests."""
    return an_alarm(clock, id=_ids.new(clock.now()), **given)


def told(alarm: Alarm) -> NewAlarm:
    return NewAlarm(**{name: getattr(alarm, name) for name in NewAlarm.__struct_fields__})


def moved(fire: Fire, *, reason: str | None = None) -> MovedFire:
    given = {name: getattr(fire, name) for name in MovedFire.__struct_fields__}
    return MovedFire(**(given if reason is None else given | {"reason": reason}))


async def changes(store: Store, clock: Clock, *, owner: str = "", after: int = 0, limit: int = 100) -> Followed:
    return await store.changes(owner=owner, since=clock.now(), after_event=after, limit=limit)


class TestFollowing:
    async def test_an_empty_store_has_nothing_new(self, store: Store, clock: ManualClock) -> None:
        assert await changes(store, clock) == Followed([], [], [], 0)

    async def test_alarms_created_since_then_come_oldest_first(self, store: Store, clock: ManualClock) -> None:
        await added(store, made(clock))
        await clock.advance(SECOND)
        first, second = made(clock), made(clock)
        await added(store, second, first)
        assert (await changes(store, clock)).alarms == [told(first), told(second)]
        assert (await changes(store, clock, limit=1)).alarms == [told(first)]

    async def test_fires_changed_since_then_come_oldest_change_first(self, store: Store, clock: ManualClock) -> None:
        now = clock.now()
        old, second, first = made(clock), made(clock), made(clock)
        await added(store, old, second, first)
        for alarm, at in ((old, now - MS), (second, now + MS), (first, now)):
            await settled(store, change(alarm, a_fire(alarm, updated_at=at)))
        found = await changes(store, clock)
        assert [fire.alarm_id for fire in found.fires] == [first.id, second.id]
        assert [fire.alarm_id for fire in (await changes(store, clock, limit=1)).fires] == [first.id]

    async def test_a_fire_that_changed_again_is_there_once_as_it_is_now(self, store: Store, clock: ManualClock) -> None:
        alarm = made(clock)
        await added(store, alarm)
        await settled(store, change(alarm, a_fire(alarm)))
        await clock.advance(SECOND)
        assert (await changes(store, clock)).fires == []
        done = a_fire(alarm, status="completed", result="ok", updated_at=clock.now())
        await settled(store, change(alarm, done))
        assert (await changes(store, clock)).fires == [moved(done)]

    async def test_only_the_beginning_of_an_error_is_read(self, store: Store, clock: ManualClock) -> None:
        alarm = made(clock)
        await added(store, alarm)
        long = a_fire(alarm, status="failed", last_error="é" * 2000, updated_at=clock.now())
        await settled(store, change(alarm, long))
        assert (await changes(store, clock)).fires == [moved(long, reason="é" * 500)]

    async def test_events_are_followed_by_their_number(self, store: Store, clock: ManualClock) -> None:
        alarm = made(clock)
        await added(store, alarm)
        events = [an_event(alarm, what) for what in ("paused", "resumed", "cancelled")]
        await settled(store, change(alarm, events=events))
        found = await changes(store, clock)
        assert [event for _, event in found.events] == events
        (first, _), (second, _), (third, _) = found.events
        assert found.last_event == third
        assert [seq for seq, _ in (await changes(store, clock, after=first)).events] == [second, third]
        assert [seq for seq, _ in (await changes(store, clock, after=first, limit=1)).events] == [second]

    async def test_the_last_event_of_a_kind_is_found(self, store: Store, clock: ManualClock) -> None:
        alarm, other = made(clock), made(clock)
        await added(store, alarm, other)
        assert await _last_at(store, alarm.id) is None
        for what in ("paused", "resumed", "paused", "cancelled"):
            await clock.advance(SECOND)
            await settled(store, change(alarm, events=[an_event(alarm, what, at=clock.now())]))
        latest = clock.now()
        await settled(store, change(other, events=[an_event(other, "paused", at=latest)]))
        assert await _last_at(store, alarm.id) == latest - SECOND
        assert await _last_at(store, other.id) == latest
        assert await _last_at(store, "") is None

    async def test_what_somebody_did_is_found_since_a_moment(self, store: Store, clock: ManualClock) -> None:
        alarm, other = made(clock), made(clock, owner_did="bob")
        await added(store, alarm, other)
        events = []
        for what, by in (("fetched", "ada"), ("fetched", "ada"), ("paused", "ada"), ("fetched", "eve")):
            await clock.advance(SECOND)
            events.append(an_event(alarm, what, at=clock.now(), by=by))
            await settled(store, change(alarm, events=[events[-1]]))
        others = an_event(other, "fetched", at=clock.now(), by="ada")
        await settled(store, change(other, events=[others]))
        since = events[0].at
        assert await _done_by(store, "ada", "fetched", since=since, limit=9) == [events[0], events[1], others]
        assert await _done_by(store, "ada", "fetched", since=since, limit=2) == events[:2]
        assert await _done_by(store, "ada", "fetched", since=events[1].at, limit=9) == [events[1], others]
        assert await _done_by(store, "eve", "paused", since=since, limit=9) == []

    async def test_an_owner_sees_only_their_own(self, store: Store, clock: ManualClock) -> None:
        hers, his = made(clock), made(clock, owner_did="eve")
        await added(store, hers, his)
        for alarm in (hers, his):
            await settled(store, change(alarm, a_fire(alarm), events=[an_event(alarm)]))
        found = await changes(store, clock, owner="ada")
        assert found.alarms == [told(hers)]
        assert [fire.owner_did for fire in found.fires] == ["ada"]
        assert [event.owner_did for _, event in found.events] == ["ada"]
        everyones = await changes(store, clock)
        assert found.last_event == everyones.last_event
        assert [len(kind) for kind in (everyones.alarms, everyones.fires, everyones.events)] == [2, 2, 2]


async def _last_at(store: Store, alarm_id: str) -> datetime | None:
    """When an alarm was last paused."""
    found = await store.events(EventQuery(alarm_id=alarm_id, what="paused", latest=True, limit=1))
    return found[0][1].at if found else None


async def _done_by(store: Store, by: str, what: str, *, since: datetime, limit: int) -> list[Event]:
    return [event for _, event in await store.events(EventQuery(by=by, what=what, since=since, limit=limit))]
