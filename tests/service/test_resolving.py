"""An alarm is named by its id, by the beginning of its id, or by its key; in every verb, on both stores."""

from __future__ import annotations

import pytest

from wakeful.errors import Conflict, NotFound
from wakeful.python.client import LocalWakeful
from wakeful.service.resolving import resolve
from wakeful.store import Store
from wakeful.testing import ManualClock

from .world import waking


@pytest.fixture
def wake_me(store: Store, clock: ManualClock) -> LocalWakeful:
    return waking(store, clock)


async def test_a_beginning_is_enough_where_only_one_has_it(wake_me: LocalWakeful, clock: ManualClock) -> None:
    one = await wake_me.set("in 1 hour", "one")
    await clock.advance(90_000)
    two = await wake_me.set("in 1 hour", "two")
    assert (await wake_me.get(one.id[:13])).id == one.id
    assert (await wake_me.get(two.id[:13].upper())).id == two.id
    assert (await wake_me.pause(one.id[:13])).alarm.id == one.id
    assert (await wake_me.update(one.id[:13], label="L")).alarm.label == "L"
    assert "paused" in (await wake_me.why(one.id[:13])).summary
    assert (await wake_me.cancel(one.id[:30])).alarm.status == "cancelled"
    assert (await wake_me.get(two.id)).status == "active"


async def test_what_fits_several_is_refused_with_those_it_fits(wake_me: LocalWakeful) -> None:
    one = await wake_me.set("in 1 hour", "buy milk")
    two = await wake_me.set("in 1 hour", "x", label="bread")
    with pytest.raises(Conflict) as refused:
        await wake_me.cancel(one.id[:6])
    assert f"{one.id} (buy milk)" in str(refused.value)
    assert f"{two.id} (bread)" in str(refused.value)
    assert (await wake_me.get(one.id)).status == "active"


async def test_a_key_names_its_alarm_also_where_it_looks_like_an_id(wake_me: LocalWakeful) -> None:
    one = await wake_me.set("in 1 hour", "one", key="grant portal")
    assert (await wake_me.get("grant portal")).id == one.id
    two = await wake_me.set("in 1 hour", "two", key="beef")
    assert (await wake_me.get("beef")).id == two.id
    three = await wake_me.set("in 1 hour", "three", key=one.id[:13])
    if three.id[:13] != one.id[:13]:
        with pytest.raises(Conflict):
            await wake_me.get(one.id[:13])
    with pytest.raises(NotFound):
        await wake_me.for_owner("eve").get("beef")
    with pytest.raises(NotFound):
        await wake_me.for_owner("eve").get(one.id[:13])


@pytest.mark.parametrize(
    "text", ["", "0", "01a", "nobody", "zzzz-", "0000", "01a1dfba-b761x", "a\x00b", "-----", "\ud800"]
)
async def test_nothing_is_meant_by_what_nothing_begins_with(wake_me: LocalWakeful, text: str) -> None:
    await wake_me.set("in 1 hour", "one")
    with pytest.raises(NotFound):
        await wake_me.get(text)


async def test_a_fire_is_named_by_the_beginning_of_its_alarm(wake_me: LocalWakeful, clock: ManualClock) -> None:
    alarm = await wake_me.set("in 1 second", "one", key="k", max_failures=0)
    await clock.advance(2)
    await wake_me.run_due()
    [fire] = await wake_me.fires(alarm.id)
    short = fire.id.replace(alarm.id, alarm.id[:13])
    assert (await wake_me.fire_of(short)).id == fire.id
    assert (await wake_me.delivery_failed(short, "no")).status == "failed"
    assert (await wake_me.retry(short)).fire.status == "retrying"
    assert (await wake_me.completed("k", "done")).status == "completed"
    for named in (alarm.id[:13], "k", alarm.id[:13].upper()):
        assert [one.id for one in await wake_me.fires(named)] == [fire.id]
    assert await wake_me.fires("nobody") == []
    assert await wake_me.for_owner("eve").fires(alarm.id[:13]) == []


async def test_a_chain_is_named_by_the_beginning_or_the_key_of_its_first_alarm(
    wake_me: LocalWakeful, clock: ManualClock
) -> None:
    for by_key in (False, True):
        await clock.advance(90_000)
        root = await wake_me.set("in 1 hour", "root", key=f"by key {by_key}")
        assert await wake_me.cancel_chain(root.idempotency_key if by_key else root.id[:13]) == 1
        assert (await wake_me.get(root.id)).status == "cancelled"
    bystander = await wake_me.set("in 1 hour", "not of any chain")
    for unknown in ("nobody", ""):
        with pytest.raises(NotFound) as refused:
            await wake_me.cancel_chain(unknown)
        assert refused.value.field == "root_id"
    assert (await wake_me.get(bystander.id)).status == "active"


async def test_a_whole_id_costs_no_further_read(store: Store, wake_me: LocalWakeful) -> None:
    class ReadsOnce:
        """The store, but for the second read."""

        get = staticmethod(store.get)

    alarm = await wake_me.set("in 1 hour", "one")
    only: Store = ReadsOnce()  # type: ignore[assignment] # it is asked for nothing else
    assert (await resolve(only, alarm.id, owner=alarm.owner_did)).id == alarm.id
    with pytest.raises(NotFound):
        await resolve(only, alarm.id.replace("-7", "-8"), owner=alarm.owner_did)
