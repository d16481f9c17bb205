"""Alarm's functions that set, look and cancel, on both stores: what its page says of them is true here."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import tzset
from typing import Any, cast

import pytest

import wakeful
from tests.seeds.alarm_world import FUNCTIONS, STORES, Desk, Place, a_place
from wakeful.process.application import open_local
from wakeful.python.client import LocalWakeful
from wakeful.python.sync import SyncWakeful
from wakeful.service import History
from wakeful.store import Store
from wakeful.testing import NEW_YEAR, ManualClock, store_of

UNIX = int(NEW_YEAR.timestamp())


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return a_place(request, tmp_path)


@pytest.fixture
def time() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def alarms(place: Place, time: ManualClock) -> AsyncIterator[LocalWakeful]:
    # Alarm gives up on silence; a new alarm of wakeful does not.
    async with open_local(**place, clock=time, on_silence="give_up") as alarms:
        yield alarms


@pytest.fixture
def desk(alarms: LocalWakeful) -> Desk:
    return Desk(alarms)


async def test_what_is_to_come_does_not_hide_what_happened(alarms: LocalWakeful, desk: Desk, time: ManualClock) -> None:
    for n in range(5):
        await alarms.set(f"in {n + 1} days", "later", target="good")
    await time.advance(60)
    await alarms.set("in 1 minute", "now", target="good")
    await time.advance(60)
    await alarms.run_due()
    assert await told(alarms, limit=3) == ["now", "later", "later"]


@pytest.mark.parametrize("verb", FUNCTIONS.values(), ids=FUNCTIONS)
def test_every_function_has_its_verb_in_both_fronts(verb: str) -> None:
    assert asyncio.iscoroutinefunction(getattr(LocalWakeful, verb))
    assert callable(getattr(SyncWakeful, verb))


def test_a_plain_script_has_all_of_it(tmp_path: Path) -> None:
    with wakeful.open_sync(tmp_path / "alarm.db") as alarms:
        alarms.handler("later", reports=True)(lambda wake: None)
        alarms.set("in 1 hour", "gone", created_by="1")
        assert alarms.reset() == 1
        alarm = alarms.set(delay=0.01, wake_message="now", target="later", max_failures=0)
        while not alarms.run_due():
            pass
        [fire] = alarms.fires(alarm.id)
        assert alarms.delivery_failed(fire.id, "no").result == "FAILED: no (after 1 attempts)"
        assert [entry.id for entry in alarms.failed()] == [fire.id]
        assert [entry.created_by for entry in alarms.history(status="cancelled")] == ["1"]
        assert alarms.pending() == []
        assert alarms.stats().total == 2
        assert alarms.parse("in 1 hour").kind == "once"


# set_timer


@pytest.mark.parametrize("seconds", [60, 60.0, 0.25])
@pytest.mark.parametrize("name", ["when", "at"])
async def test_a_unix_timestamp_says_when(alarms: LocalWakeful, name: str, seconds: float) -> None:
    given: dict[str, Any] = {name: UNIX + seconds}
    alarm = await alarms.set(**given, wake_message="Call client")
    assert (alarm.kind, alarm.next_fire_at) == ("once", NEW_YEAR + timedelta(seconds=seconds))
    assert (await alarms.get(alarm.id)).next_fire_at == alarm.next_fire_at


@pytest.mark.parametrize(
    "given",
    [
        {"when": UNIX - 1},
        {"at": UNIX - 1},
        {"when": (UNIX + 60) * 1000},
        {"at": (UNIX + 60) * 1000},
        {"when": float("nan")},
        {"at": float("nan")},
        {"at": float("inf")},
        {"when": True},
        {"at": True},
        {"when": UNIX + 60, "at": UNIX + 60},
    ],
    ids=str,
)
async def test_a_number_that_is_no_moment_ahead_is_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    async with open_local(tmp_path / "alarm.db", clock=ManualClock()) as alarms:
        with pytest.raises(wakeful.InvalidRequest) as raised:
            await alarms.set(**given, wake_message="never")
        assert raised.value.field in ("when", "at")
        assert await alarms.find() == []


async def test_an_edit_takes_unix_seconds_too(alarms: LocalWakeful) -> None:
    alarm = await alarms.set("in 1 hour", "Call client")
    assert (await alarms.update(alarm.id, when=UNIX + 60)).alarm.next_fire_at == NEW_YEAR + timedelta(seconds=60)
    assert (await alarms.update(alarm.id, at=UNIX + 90)).alarm.next_fire_at == NEW_YEAR + timedelta(seconds=90)


async def test_who_set_it_and_through_what_is_kept_shown_and_delivered(
    alarms: LocalWakeful, desk: Desk, time: ManualClock
) -> None:
    alarm = await alarms.set("in 1 minute", "go", target="good", created_by="1", created_via="web")
    kept = await alarms.get(alarm.id)
    assert (kept.created_by, kept.created_via) == ("1", "web")
    [entry] = await alarms.history(status="pending")
    assert (entry.created_by, entry.created_via, entry.max_failures) == ("1", "web", 5)
    await time.advance(60)
    await alarms.run_due()
    [entry] = await alarms.history(status="completed")
    assert (entry.created_by, entry.created_via, entry.max_failures) == ("1", "web", 5)
    [wake] = desk.wakes
    assert (wake.content.created_by, wake.content.created_via) == ("1", "web")
    assert (await alarms.set("in 1 minute", "go")).created_via == "python"


async def test_alarms_of_one_millisecond_have_ids_of_their_own_that_sort_as_they_were_made(
    alarms: LocalWakeful,
) -> None:
    made = [await alarms.set("in 1 hour", str(number)) for number in range(20)]
    assert len({alarm.created_at for alarm in made}) == 1
    ids = [alarm.id for alarm in made]
    assert sorted(set(ids)) == ids
    assert [alarm.id for alarm in await alarms.find()] == ids[::-1]


async def test_an_alarm_set_for_sooner_fires_first_and_a_cancelled_one_lets_the_next_through(
    alarms: LocalWakeful, desk: Desk, time: ManualClock
) -> None:
    await alarms.set("in 2 hours", "late", target="good")
    gone = await alarms.set("in 1 minute", "gone", target="good")
    await alarms.set("in 1 hour", "soon", target="good")
    assert (await alarms.cancel(gone.id)).alarm.status == "cancelled"
    for _ in range(2):
        await time.advance(timedelta(minutes=59))
        assert await alarms.run_due() == 0
        await time.advance(60)
        assert await alarms.run_due() == 1
    assert [(wake.message, wake.late_ms) for wake in desk.wakes] == [("soon", 0), ("late", 0)]


async def test_names_and_payloads_are_data_and_never_become_code(
    alarms: LocalWakeful, desk: Desk, time: ManualClock
) -> None:
    for name in ("Elixir.Pushover", "builtins.print", "os:system", "wakeful.python.client.LocalWakeful"):
        with pytest.raises(wakeful.UnknownTarget):
            await alarms.set("in 1 minute", "go", target=name)
    payload = {"__class__": "os.system", "$type": "builtins.eval", "args": ["1/0"], "py/object": "posix.kill"}
    await alarms.set("in 1 minute", "go", target="good", payload=payload)
    await time.advance(60)
    await alarms.run_due()
    assert [wake.payload for wake in desk.wakes] == [payload]


# cancel, reset


async def test_a_cancelled_alarm_is_marked_and_stays(alarms: LocalWakeful, time: ManualClock) -> None:
    alarm = await alarms.set("in 1 hour", "go")
    await time.advance(5)
    await alarms.cancel(alarm.id)
    kept = await alarms.get(alarm.id)
    assert (kept.status, kept.cancelled_at) == ("cancelled", NEW_YEAR + timedelta(seconds=5))
    [entry] = await alarms.history(status="cancelled")
    assert (entry.id, entry.cancelled_at) == (alarm.id, kept.cancelled_at)
    await time.advance(7200)
    assert await alarms.run_due() == 0


async def test_what_is_not_there_cannot_be_cancelled_and_what_has_fired_stays_fired(
    alarms: LocalWakeful, desk: Desk, time: ManualClock
) -> None:
    for id in ("nobody", "01900000-0000-7000-8000-000000000001"):
        with pytest.raises(wakeful.NotFound):
            await alarms.cancel(id)
    alarm = await alarms.set("in 1 minute", "go", target="good")
    await time.advance(60)
    await alarms.run_due()
    assert (await alarms.cancel(alarm.id)).alarm.status == "fired"
    assert (await alarms.get(alarm.id)).cancelled_at is None


async def test_reset_cancels_all_that_is_pending_of_one_owner_and_deletes_nothing(
    alarms: LocalWakeful, desk: Desk, time: ManualClock
) -> None:
    failing = await alarms.set("in 1 minute", "is being retried", target="bad")
    done = await alarms.set("in 1 minute", "is done", target="good")
    await time.advance(60)
    await alarms.run_due()
    waiting = await alarms.set("in 1 hour", "waits")
    paused = await alarms.set("every day at 9am", "is paused")
    await alarms.pause(paused.id)
    other = await alarms.for_owner("eve").set("in 1 hour", "another's")
    assert await alarms.reset() == 3
    pending = {failing.id, waiting.id, paused.id}
    assert {entry.alarm_id for entry in await alarms.history(status="cancelled")} == pending
    for id in pending:
        assert (await alarms.get(id)).cancelled_at == time.now()
    assert (await alarms.get(done.id)).status == "fired"
    assert (await store_of(alarms).get(other.id)) == other
    await time.advance(timedelta(days=2))
    assert await alarms.run_due() == 1, "the other owner's"


# list_ids


async def test_what_is_pending_is_told_soonest_first_with_its_way_from_creation(
    alarms: LocalWakeful, desk: Desk, time: ManualClock
) -> None:
    fired = await alarms.set("in 1 minute", "fired", target="good")
    late = await alarms.set("in 2 hours", "late")
    await time.advance(60)
    await alarms.run_due()
    soon = await alarms.set("in 1 hour", "soon")
    gone, held = await alarms.set("in 1 hour", "gone"), await alarms.set("in 1 hour", "held")
    await alarms.cancel(gone.id)
    await alarms.pause(held.id)
    await alarms.for_owner("eve").set("in 1 hour", "another's")
    assert await alarms.pending() == [
        (soon.id, soon.next_fire_at, timedelta(hours=1)),
        (late.id, late.next_fire_at, timedelta(hours=2)),
    ]
    assert [id for id, due, offset in await alarms.pending(limit=1)] == [soon.id]
    assert fired.id not in {one.id for one in await alarms.pending()}
    assert (await alarms.stats()).pending == 2
    with pytest.raises(wakeful.InvalidRequest):
        await alarms.pending(limit=0)


async def test_all_that_is_pending_is_told_however_many(alarms: LocalWakeful) -> None:
    await alarms.create_many([wakeful.CreateRequest(wake_message="go", delay_seconds=n) for n in range(1, 700)])
    assert [offset for _, _, offset in await alarms.pending()] == [timedelta(seconds=n) for n in range(1, 700)]


# history, stats, failed


async def told(alarms: LocalWakeful, **given: Any) -> list[str]:
    return [entry.message for entry in await alarms.history(**given)]


async def test_history_is_filtered_by_status_target_and_time_newest_first(
    alarms: LocalWakeful, desk: Desk, time: ManualClock
) -> None:
    async def deliver() -> None:
        await time.advance(60)
        await alarms.run_due()

    for message, target in (("completed", "good"), ("fired", "later"), ("retried", "bad")):
        await alarms.set("in 1 minute", message, target=target)
        await deliver()
    noon = time.now()
    await alarms.set("in 1 minute", "failed", target="bad", max_failures=0)
    await deliver()
    gone = await alarms.set("in 1 hour", "cancelled", target="good")
    await alarms.cancel(gone.id)
    await alarms.set("in 2 hours", "pending", target="good")
    assert await told(alarms, status="completed") == ["completed"]
    assert await told(alarms, status="fired") == ["retried", "fired"]
    assert await told(alarms, status="failed") == ["failed"]
    assert await told(alarms, status="cancelled") == ["cancelled"]
    assert await told(alarms, status="pending") == ["pending"]
    assert await told(alarms, target="good") == ["pending", "cancelled", "completed"]
    assert await told(alarms, status="failed", target="good") == []
    everything = ["pending", "cancelled", "failed", "retried", "fired", "completed"]
    assert sorted(await told(alarms)) == sorted(everything)
    assert (await told(alarms))[:2] == ["pending", "cancelled"]
    for since in (noon + timedelta(seconds=1), noon.timestamp() + 1):
        assert await told(alarms, since=since) == ["pending", "cancelled", "failed"]
    assert await told(alarms, since=noon + timedelta(days=1)) == []
    assert await told(alarms, limit=1) == ["pending"]


async def test_an_alarm_that_waits_for_its_retry_stands_in_history_once_and_takes_nobodys_place(
    alarms: LocalWakeful, desk: Desk, time: ManualClock
) -> None:
    waits = [await alarms.set("in 1 day", f"waits {number}", target="good") for number in range(3)]
    for number in range(4):
        await alarms.set("in 1 minute", f"retried {number}", target="bad")
    await alarms.set(cron="* * * * *", wake_message="series", target="bad", policy={"backoff_base": 5})
    await time.advance(60)
    await alarms.run_due()
    entries = await alarms.history()
    assert len(entries) == 8
    retrying = {fire.alarm_id: "retrying" for fire in await alarms.fires(status="retrying")}
    assert {entry.alarm_id: entry.status for entry in entries} == retrying | {alarm.id: "pending" for alarm in waits}
    # A page of two is full although the newest alarms stand elsewhere in the list.
    assert await told(alarms, status="pending", limit=2) == ["waits 2", "waits 1"]
    # Sent elsewhere, it waits there: its fire stands under the target it failed at.
    await alarms.update(next(entry.alarm_id for entry in entries if entry.message == "retried 0"), target="good")
    assert "retried 0" in await told(alarms, target="good")
    assert len(waits) == len(await told(alarms, status="pending"))


class Counted:
    """A store that notes how often each of its verbs was called."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return getattr(self._store, name)


@pytest.mark.parametrize("most", [0, 4_000_000])
async def test_history_is_read_in_bulk(most: int, alarms: LocalWakeful, desk: Desk, time: ManualClock) -> None:
    for number in range(60):
        await alarms.set("in 1 minute", f"{number}", target="bad")
    await time.advance(60)
    await alarms.run_due()
    store = Counted(store_of(alarms))
    entries = await History(cast(Store, store), most=most).entries(
        owner="local", status="", target="", since=None, limit=500
    )
    assert len(entries) == 60
    assert store.calls == {"described_fires": 1, "find": 1, "fires_at": 1}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"status": "asleep"}, "status"),
        ({"limit": 0}, "limit"),
        ({"limit": 501}, "limit"),
        ({"since": datetime(2030, 1, 1)}, "since"),  # noqa: DTZ001 - that it has no zone is the point
        ({"since": float("nan")}, "since"),
    ],
    ids=str,
)
async def test_a_filter_that_cannot_be_is_refused(tmp_path: Path, given: dict[str, Any], field: str) -> None:
    async with open_local(tmp_path / "alarm.db") as alarms:
        with pytest.raises(wakeful.InvalidRequest) as raised:
            await alarms.history(**given)
        assert raised.value.field == field


async def test_history_tells_the_latest_50_and_failures_the_latest_20_unless_asked_for_more(
    alarms: LocalWakeful, desk: Desk, time: ManualClock
) -> None:
    for number in range(60):
        await alarms.set(delay=1 + number, wake_message=str(number), target="bad", max_failures=0)
    await time.advance(60)
    await alarms.run_due()
    latest = [str(number) for number in reversed(range(60))]
    assert await told(alarms) == latest[:50]
    assert await told(alarms, limit=55) == latest[:55]
    assert [entry.message for entry in await alarms.failed()] == latest[:20]
    assert [entry.message for entry in await alarms.failed(limit=5)] == latest[:5]


async def test_every_count_counts_what_its_name_says(alarms: LocalWakeful, desk: Desk, time: ManualClock) -> None:
    nothing = await alarms.stats()
    assert (nothing.total, nothing.avg_duration_ms) == (0, None)
    silent = await alarms.set("in 1 minute", "times out", target="later")
    await time.advance(60)
    await alarms.run_due()
    for message, target in (("quick", "later"), ("slow", "later"), ("fails", "bad"), ("is on its way", "later")):
        await alarms.set("in 5 minutes", message, target=target, max_failures=0)
    await time.advance(300)
    await alarms.run_due()
    quick, slow = (wake.fire_id for wake in desk.wakes if wake.message in ("quick", "slow"))
    for fire_id, seconds in ((quick, 1), (slow, 2)):
        await time.advance(seconds)
        await alarms.completed(fire_id, "ok")
    await alarms.set("in 1 hour", "waits")
    await alarms.cancel((await alarms.set("in 1 hour", "is cancelled")).id)
    stats = await alarms.stats()
    assert (stats.total, stats.pending, stats.cancelled) == (7, 1, 1)
    assert (stats.fired, stats.completed, stats.failed, stats.timeout_unknown) == (1, 2, 1, 1)
    assert stats.avg_duration_ms == 2000, "one second, and three"
    assert [entry.alarm_id for entry in await alarms.history(status="timed_out")] == [silent.id]
    assert {entry.message for entry in await alarms.failed()} == {"times out", "fails"}


# parse_timestamp


@pytest.mark.parametrize(
    ("phrase", "moment"),
    [
        ("tomorrow at 5pm", datetime(2026, 11, 16, 17, tzinfo=UTC)),
        ("tomorrow at 9am", datetime(2026, 11, 16, 9, tzinfo=UTC)),
        ("next friday at 3pm", datetime(2026, 11, 20, 15, tzinfo=UTC)),
        ("in 5 minutes", datetime(2026, 11, 15, 8, 5, tzinfo=UTC)),
        ("in 30 minutes", datetime(2026, 11, 15, 8, 30, tzinfo=UTC)),
        ("in 2 hours", datetime(2026, 11, 15, 10, tzinfo=UTC)),
    ],
)
def test_every_phrase_on_alarms_page_is_understood(phrase: str, moment: datetime) -> None:
    assert wakeful.parse(phrase, now=datetime(2026, 11, 15, 8, tzinfo=UTC)).fire_at == moment


async def test_a_phrase_is_understood_without_setting_anything(place: Place) -> None:
    sunday = ManualClock(datetime(2026, 11, 15, 8, tzinfo=UTC))
    async with open_local(**place, clock=sunday, timezone="Europe/Berlin") as alarms:
        here = await alarms.parse("next friday at 3pm")
        assert here.fire_at == datetime(2026, 11, 20, 14, tzinfo=UTC)
        there = await alarms.parse("next friday at 3pm", timezone="America/New_York")
        assert there.fire_at == datetime(2026, 11, 20, 20, tzinfo=UTC)
        for phrase in ("", "whenever", "yesterday at 5pm"):
            with pytest.raises(wakeful.InvalidSchedule):
                await alarms.parse(phrase)
        with pytest.raises(wakeful.InvalidSchedule) as raised:
            await alarms.parse("tomorrow at 9am", timezone="Mars/Base")
        assert raised.value.field == "timezone"
        assert await alarms.find() == []


async def test_the_zone_of_the_machine_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    tzset()
    try:
        async with open_local(tmp_path / "alarm.db", clock=ManualClock()) as alarms:
            understood = await alarms.parse("tomorrow at 9am")
    finally:
        monkeypatch.undo()
        tzset()
    assert (understood.timezone, understood.fire_at) == ("UTC", NEW_YEAR + timedelta(days=1, hours=9))
