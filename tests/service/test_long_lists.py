"""Lists of an owner who has very many alarms: each read looks at a part of them, and whoever asks misses nothing."""

from __future__ import annotations

from asyncio import Event, timeout
from datetime import timedelta
from typing import Any

import pytest

from tests.acting import Draft, acting, keep, keep_many
from wakeful.errors import TooMany
from wakeful.service import Alarms, Service
from wakeful.service.bulk import count_that_fit
from wakeful.settings import Settings
from wakeful.store import AlarmQuery, FireQuery, Store
from wakeful.testing import ManualClock
from wakeful.testing.conformance.making import SECOND, a_fire, change, settled

PAGE_SIZE = 1_000_000
PATCHED = ("read.ROWS_A_READ", "read.ROWS_A_SEARCH", "history.ROWS_A_READ", "cancel.ROWS_A_READ")
Query = AlarmQuery | FireQuery


class Watched:
    """A store, and how many rows it was allowed to look at by each query."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.queries: list[Query] = []

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if name not in ("find", "fires", "described_fires", "count"):
            return verb

        async def noted(query: Query) -> Any:
            self.queries.append(query)
            return await verb(query)

        return noted


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*PATCHED, "watch.ROWS_A_READ", "bulk.ROWS_A_READ"):
        monkeypatch.setattr(f"wakeful.service.{name}", 3)


@pytest.fixture
def watched(store: Store) -> Watched:
    return Watched(store)


@pytest.fixture
async def ada(watched: Any, clock: ManualClock) -> Alarms:
    """Ten alarms and ten fires; what a test looks for are the oldest."""
    service = Service(watched, clock=clock, settings=Settings())
    for number in range(10):
        label = "rare" if number < 2 else "often"
        draft = Draft(owner_did="ada", delay=timedelta(hours=1), wake_message=label, label=label)
        alarm = (await keep(service, draft)).alarm
        status = "delivered" if number < 2 else "completed"
        fire = a_fire(alarm, scheduled_for=clock.now() - SECOND, status=status, target=label)
        await settled(watched, change(alarm, fire))
        await clock.advance(1)
    watched.queries.clear()
    return acting(service, "ada")


@pytest.mark.parametrize("filters", [{"label": "rare"}, {"text": "RAR"}, {"label": "rare", "status": "active"}])
async def test_a_program_finds_all_alarms_that_fit_and_a_door_a_page_and_where_to_go_on(
    ada: Alarms, filters: dict[str, Any]
) -> None:
    assert len(await ada.find(**filters)) == 2
    page = await ada.find(**filters, most=PAGE_SIZE)
    assert (list(page), page.further is None) == ([], False)
    seen, pages = 0, 1
    while page.further is not None:
        page = await ada.find(**filters, most=PAGE_SIZE, cursor=page.further)
        seen, pages = seen + len(page), pages + 1
    assert (seen, pages) == (2, 4)


@pytest.mark.parametrize("filters", [{"target": "rare"}, {"status": "delivered"}])
async def test_the_same_with_fires(ada: Alarms, filters: dict[str, Any]) -> None:
    assert len(await ada.fires(**filters)) == 2
    page = await ada.fires(**filters, most=PAGE_SIZE)
    assert (list(page), page.further is None) == ([], False)
    while page.further is not None:
        page = await ada.fires(**filters, most=PAGE_SIZE, cursor=page.further)
    assert [fire.status for fire in page] == ["delivered"]


@pytest.mark.parametrize("most", [0, PAGE_SIZE])
async def test_history_goes_on_until_it_has_what_was_asked_for(ada: Alarms, most: int) -> None:
    assert len(await ada.history(status="fired", most=most)) == 2
    assert len(await ada.history(target="rare", most=most)) == 2
    assert len(await ada.history(most=most)) == 20


async def test_counting_and_cancelling_what_fits_look_at_a_part_at_a_time_too(ada: Alarms, watched: Watched) -> None:
    assert await count_that_fit(ada, "alarms", "pause", {"label": "rare"}) == 2
    assert len((await ada.cancel_many(label="rare")).alarms) == 2
    assert await ada.budget() == []
    unbounded = [
        one for one in watched.queries if not one.look_at and not (isinstance(one, FireQuery) and one.statuses)
    ]
    assert unbounded == []


# What an owner may have


class Slow:
    """A store whose second look at what an owner has takes until it is told to go on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.go_on = Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def usage(self, owner: str, *, cursor: Any = None, look_at: int = 0) -> Any:
        if cursor is not None:
            await self.go_on.wait()
        return await self._store.usage(owner, cursor=cursor, look_at=look_at)


async def test_a_create_does_not_wait_until_very_many_alarms_are_counted(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakeful.service.limits.COUNTED_AT_ONCE", 3)
    slow: Any = Slow(store)
    service = Service(slow, clock=clock, settings=Settings(quota_active=8))
    draft = Draft(owner_did="ada", delay=timedelta(hours=1), wake_message="hello")
    await keep_many(service, [draft] * 10)  # by the machine's owner, whom no limit holds
    async with timeout(60):  # for ever, if it waited
        await keep(service, draft, limited=True)  # three are counted, and it is one more
    counting = service.limits._asking["ada"]
    slow.go_on.set()
    await counting.whole
    with pytest.raises(TooMany, match="11 active and paused alarms"):
        await keep(service, draft, limited=True)
    await clock.advance(61)
    with pytest.raises(TooMany, match="11 active and paused alarms"):
        await keep(service, draft, limited=True)


async def test_while_they_are_counted_again_the_last_count_holds(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakeful.service.limits.COUNTED_AT_ONCE", 3)
    slow: Any = Slow(store)
    slow.go_on.set()
    service = Service(slow, clock=clock, settings=Settings(quota_active=6))
    draft = Draft(owner_did="ada", delay=timedelta(hours=1), wake_message="hello")
    await keep_many(service, [draft] * 5)
    await service.limits._counted("ada", clock.now(), in_full=True)
    await keep(service, draft, limited=True)
    await clock.advance(61)
    slow.go_on.clear()
    waiting = service.limits._counted("ada", clock.now(), in_full=False)
    assert (await waiting).alarms == 6
    slow.go_on.set()


async def test_nobody_is_refused_before_all_are_counted_again(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakeful.service.limits.COUNTED_AT_ONCE", 3)
    service, elsewhere = (Service(store, clock=clock, settings=Settings(quota_active=6)) for _ in range(2))
    draft = Draft(owner_did="ada", delay=timedelta(hours=1), wake_message="hello")
    made = await keep_many(service, [draft] * 6)
    assert (await service.limits._counted("ada", clock.now(), in_full=True)).alarms == 6
    with pytest.raises(TooMany):
        await keep(service, draft, limited=True)
    for one in made[:4]:  # by another process, of which this one knows nothing
        await acting(elsewhere, "ada").cancel(one.alarm.id)
    await clock.advance(61)
    await keep(service, draft, limited=True)
