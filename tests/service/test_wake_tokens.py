"""What is set with the token of a wake: its parent is filled in, its chain is all it reaches, and its series end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from wakeful.errors import Conflict, InvalidConfig, InvalidSchedule, NotFound, Unauthorized
from wakeful.model.alarm import Alarm, Event, Policy
from wakeful.model.requests import CreateRequest, ReportRequest
from wakeful.python.client import LocalWakeful
from wakeful.rules.lineage import author_of
from wakeful.service import Alarms, Caller, TakenWake
from wakeful.service.caller import WakeOrigin
from wakeful.service.tokens import wake_behind
from wakeful.settings import load
from wakeful.settings.tables import BudgetSettings
from wakeful.store import EventQuery, Store
from wakeful.testing import ManualClock

from .world import HOUR, waiting, waking

DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def wake_me(store: Store, clock: ManualClock) -> LocalWakeful:
    return waking(store, clock, owner="ada")


async def handed(wake_me: LocalWakeful, clock: ManualClock, **asked: Any) -> TakenWake:
    """A wake in somebody's hands."""
    await waiting(wake_me, clock, **asked)
    owner = asked.get("owner", "ada")
    [taken] = await wake_me.for_owner(owner).inbox()
    return taken


async def woken(wake_me: LocalWakeful, taken: TakenWake, via: str = "http") -> Alarms:
    """The verbs of who has only the wake's token, as every door makes them."""
    owner, wake = await wake_behind(wake_me.service.store, taken.token, lasts=wake_me.settings.chain_token_lasts)
    return Alarms(wake_me.service, Caller(owner=owner, via=via, by="a wake", wake=wake))


async def refused(wake_me: LocalWakeful, token: str) -> str:
    with pytest.raises(Unauthorized) as error:
        await wake_behind(wake_me.service.store, token, lasts=wake_me.settings.chain_token_lasts)
    assert error.value.field == "Authorization"
    return error.value.message


def asked(**fields: Any) -> CreateRequest:
    return CreateRequest(**({"wake_message": "check again", "when": "in 2 hours"} | fields))


# Whose it is


async def test_the_token_speaks_for_the_owner_of_its_wake(
    wake_me: LocalWakeful, store: Store, clock: ManualClock
) -> None:
    taken = await handed(wake_me, clock, owner="eve")
    found = await wake_behind(store, taken.token, lasts=DAY)
    assert found == ("eve", WakeOrigin(taken.fire.id, taken.alarm.id))


async def test_it_is_good_for_a_day_from_when_it_was_handed_out(wake_me: LocalWakeful, clock: ManualClock) -> None:
    await waiting(wake_me, clock)
    await clock.advance(3 * DAY)  # in the inbox
    [taken] = await wake_me.inbox()
    await clock.advance(DAY - MINUTE)
    await woken(wake_me, taken)
    await clock.advance(MINUTE)
    assert await refused(wake_me, taken.token) == "this token of a wake is not good any more: it has expired"


async def test_how_long_is_a_setting(store: Store, clock: ManualClock) -> None:
    wake_me = waking(store, clock, owner="ada", chain_token_lasts=HOUR)
    taken = await handed(wake_me, clock)
    await clock.advance(HOUR)
    assert "it has expired" in await refused(wake_me, taken.token)


@pytest.mark.parametrize("name", ["chain_token_lasts", "chain_series_lasts"])
@pytest.mark.parametrize("said", ["0s", "999ms", "40000d"])
def test_a_length_that_makes_no_sense_is_refused(name: str, said: str) -> None:
    with pytest.raises(InvalidConfig) as error:
        load(environ={f"WAKEFUL_{name.upper()}": said})
    assert error.value.field == name
    assert error.value.fix.startswith("Give ")


async def test_it_ends_with_its_alarm(wake_me: LocalWakeful, clock: ManualClock) -> None:
    taken = await handed(wake_me, clock, cron="@every 1h")
    await woken(wake_me, taken)
    await wake_me.cancel(taken.alarm.id)
    assert "the alarm of its wake was cancelled" in await refused(wake_me, taken.token)


async def test_it_ends_with_the_alarm_that_its_chain_began_with(wake_me: LocalWakeful, clock: ManualClock) -> None:
    first = await handed(wake_me, clock, cron="@every 1h")
    child = (await (await woken(wake_me, first)).create(asked(when="in 1 minute"))).alarm
    await wake_me.completed(first.fire.id)
    await clock.advance(MINUTE)
    await wake_me.run_due()
    [second] = await wake_me.inbox()
    assert second.alarm.id == child.id
    await woken(wake_me, second)
    await wake_me.cancel_chain(first.alarm.id)
    assert (await wake_me.get(child.id)).status == "fired"  # there was nothing more to cancel of it
    assert "the alarm that its chain began with was cancelled" in await refused(wake_me, second.token)


# A chain that was cancelled


async def test_a_cancelled_chain_sets_no_more_also_when_its_root_has_fired(
    wake_me: LocalWakeful, store: Store, clock: ManualClock
) -> None:
    first = await handed(wake_me, clock)  # a one-shot: it has fired, and cannot be cancelled any more
    child = (await (await woken(wake_me, first)).create(asked(when="in 1 minute"))).alarm
    second = await woken_child(wake_me, clock, child)
    other = await handed(wake_me, clock)
    await wake_me.completed(first.fire.id)
    assert (await wake_me.get(first.alarm.id)).status == "fired"
    assert await wake_me.cancel_chain(first.alarm.id) == 0
    for token in (first.token, second.token):
        assert await refused(wake_me, token) == "this token of a wake is not good any more: its chain was cancelled"
    await woken(wake_me, other)  # another chain of the same owner
    later = waking(store, clock, owner="ada")  # as after a restart
    assert "its chain was cancelled" in await refused(later, second.token)


async def woken_child(wake_me: LocalWakeful, clock: ManualClock, child: Alarm) -> TakenWake:
    await clock.advance(max(timedelta(0), child.next_fire_at - clock.now()))
    await wake_me.run_due()
    [taken] = [one for one in await wake_me.inbox() if one.alarm.id == child.id]
    return taken


async def test_a_chain_is_cancelled_also_when_its_root_is_deleted(
    wake_me: LocalWakeful, store: Store, clock: ManualClock
) -> None:
    first = await handed(wake_me, clock)
    child = (await (await woken(wake_me, first)).create(asked(when="every hour"))).alarm
    await wake_me.completed(first.fire.id)
    await clock.advance(MINUTE)
    await store.maintenance.purge(clock.now())
    assert await store.get(first.alarm.id) is None
    second = await woken_child(wake_me, clock, child)
    grandchild = (await (await woken(wake_me, second)).create(asked(when="in 1 minute"))).alarm
    third = await woken_child(wake_me, clock, grandchild)
    await wake_me.completed(third.fire.id)
    assert await wake_me.cancel_chain(first.alarm.id) == 1
    assert (await wake_me.get(grandchild.id)).status == "fired"
    assert "its chain was cancelled" in await refused(wake_me, third.token)


async def test_an_alarm_that_is_set_anew_after_its_chain_was_cancelled_wakes_with_a_good_token(
    wake_me: LocalWakeful, clock: ManualClock
) -> None:
    first = await handed(wake_me, clock, key="daily")
    await wake_me.completed(first.fire.id)
    await wake_me.cancel_chain("daily")
    again = await handed(wake_me, clock, key="daily", on_conflict="replace")
    assert again.alarm.id == first.alarm.id
    await woken(wake_me, again)
    assert "its chain was cancelled" in await refused(wake_me, first.token)


@pytest.mark.parametrize("many", ["create", "create_many", "create_each"])
async def test_nothing_is_set_behind_a_cancelled_chain(
    wake_me: LocalWakeful, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, many: str
) -> None:
    first = await handed(wake_me, clock)
    agent = await woken(wake_me, first)
    await wake_me.completed(first.fire.id)
    add = store.add

    async def cancelled_first(*given: Any, **more: Any) -> Any:
        """Somebody cancels the chain after this request was let in, and before its alarm is written."""
        await wake_me.cancel_chain(first.alarm.id)
        return await add(*given, **more)

    monkeypatch.setattr(store, "add", cancelled_first)
    request = asked() if many == "create" else [asked()]
    with pytest.raises(Unauthorized) as error:
        await getattr(agent, many)(request)
    assert "its chain was cancelled" in error.value.message
    [left] = await wake_me.find(root_id=first.alarm.id)
    assert left.status == "cancelled"


async def test_a_token_of_before_the_key_was_changed_is_good_for_an_hour_more(
    wake_me: LocalWakeful, store: Store, clock: ManualClock
) -> None:
    taken = await handed(wake_me, clock)
    await wake_me.completed(taken.fire.id)
    await store.access.rotate_report_key(clock.now(), Event(at=clock.now(), what="rotated"))
    await woken(wake_me, taken)
    await clock.advance(HOUR)
    assert "the key it was made with was replaced" in await refused(wake_me, taken.token)


async def test_nobody_else_can_make_one(wake_me: LocalWakeful, clock: ManualClock) -> None:
    one = await handed(wake_me, clock)
    two = await handed(wake_me, clock)
    mixed = one.token[:-43] + two.token[-43:]
    for token in (mixed, one.token[:-1], "wk_wake_", one.fire.id):
        assert await refused(wake_me, token) == "this is not the token of a wake"


async def test_of_an_alarm_that_is_deleted_it_is_good_no_more(
    wake_me: LocalWakeful, store: Store, clock: ManualClock
) -> None:
    taken = await handed(wake_me, clock)
    await wake_me.completed(taken.fire.id)
    await store.maintenance.purge(clock.now() + HOUR)
    assert "the alarm of its wake is gone" in await refused(wake_me, taken.token)


# What is set with it


@pytest.mark.parametrize("said", ["", "somebody-elses@1"])
async def test_the_parent_is_filled_in_whatever_the_caller_says(
    wake_me: LocalWakeful, clock: ManualClock, said: str
) -> None:
    taken = await handed(wake_me, clock)
    other = await handed(wake_me, clock)
    verbs = await woken(wake_me, taken)
    for parent in (said, other.fire.id):
        made = (await verbs.create(asked(parent_fire=parent))).alarm
        assert (made.parent_fire, made.root_id, made.generation) == (taken.fire.id, taken.alarm.id, 1)
    [many] = await verbs.create_many([asked(parent_fire=other.fire.id)])
    assert (many.alarm.parent_fire, many.alarm.owner_did) == (taken.fire.id, "ada")


async def test_the_chain_has_its_limits(wake_me: LocalWakeful, clock: ManualClock) -> None:
    taken = await handed(wake_me, clock)
    verbs = await woken(wake_me, taken)
    with pytest.raises(InvalidSchedule, match="may fire in 60 s at the earliest"):
        await verbs.create(asked(when="in 30 seconds"))
    for generation in range(1, 17):
        made = (await (await woken(wake_me, taken)).create(asked(when="in 1 minute"))).alarm
        assert made.generation == generation
        await wake_me.completed(taken.fire.id)
        await clock.advance(MINUTE)
        await wake_me.run_due()
        [taken] = await wake_me.inbox()
        assert taken.author == "agent"
    with pytest.raises(Conflict, match="this would be alarm 17 of a chain"):
        await (await woken(wake_me, taken)).create(asked())


async def test_a_repeated_request_is_the_same_alarm_also_of_a_series(wake_me: LocalWakeful, clock: ManualClock) -> None:
    verbs = await woken(wake_me, await handed(wake_me, clock))
    for when in ("in 2 hours", "every day at 9am"):
        first = await verbs.create(asked(when=when, idempotency_key=when))
        await clock.advance(MINUTE)
        again = await verbs.create(asked(when=when, idempotency_key=when))
        assert (again.deduped, again.alarm.id) == (True, first.alarm.id)
        assert again.alarm.policy == first.alarm.policy
    with pytest.raises(Conflict, match="differs in policy"):
        await verbs.create(asked(when="every day at 9am", idempotency_key="every day at 9am", policy=Policy(jitter=5)))


async def test_alarms_that_multiply_stop_at_the_budget_of_their_chain(store: Store, clock: ManualClock) -> None:
    wake_me = waking(store, clock, owner="ada", budget=BudgetSettings(chain_wakes_per_hour=8))
    await waiting(wake_me, clock, wake_message="begin")
    woken_up = 0
    for _ in range(10):
        await wake_me.run_due()
        for taken in await wake_me.inbox(limit=100):
            woken_up += 1
            verbs = await woken(wake_me, taken)
            await verbs.create_many([asked(when="in 1 minute"), asked(when="in 1 minute")])
            await wake_me.completed(taken.fire.id)
        await clock.advance(MINUTE)
    assert woken_up == 1 + 8
    put_off = await wake_me.find(status="active")
    assert len(put_off) == 2 * woken_up - 8
    assert "the budget of the chain" in (await wake_me.why(put_off[0].id)).summary


async def test_a_copy_that_somebody_fires_has_the_words_of_who_wrote_them(
    wake_me: LocalWakeful, clock: ManualClock
) -> None:
    def of(via: str) -> Alarms:
        return Alarms(wake_me.service, Caller(owner="ada", via=via))

    agents = (await of("mcp").create(asked())).alarm
    owners = (await of("http").create(asked())).alarm
    woken_by = await handed(wake_me, clock)
    child = (await (await woken(wake_me, woken_by)).create(asked())).alarm
    for alarm, author in ((agents, "agent"), (child, "agent"), (owners, "owner")):
        assert author_of((await of("dashboard").fire(alarm.id)).alarm) == author


# The end of a series


async def test_a_series_has_an_end_and_the_notes_say_so(wake_me: LocalWakeful, clock: ManualClock) -> None:
    verbs = await woken(wake_me, await handed(wake_me, clock))
    created = await verbs.create(asked(when="every day at 9am"))
    made, notes = created.alarm, created.notes
    assert made.policy.ends_at == clock.now() + 90 * DAY
    assert any(note.startswith("It ends at 2030-04-01T00:01:00Z, since it was set with the token") for note in notes)
    kept = await wake_me.get(made.id)
    assert kept.policy == made.policy


async def test_how_long_a_series_goes_on_is_a_setting(store: Store, clock: ManualClock) -> None:
    wake_me = waking(store, clock, owner="ada", chain_series_lasts=3 * DAY)
    verbs = await woken(wake_me, await handed(wake_me, clock))
    made = (await verbs.create(asked(when="every day at 9am"))).alarm
    assert made.policy.ends_at == clock.now() + 3 * DAY


async def test_what_the_owner_sets_ends_only_when_it_says_so(wake_me: LocalWakeful, clock: ManualClock) -> None:
    taken = await handed(wake_me, clock)
    for limited in (True, False):
        owner = Alarms(wake_me.service, Caller(owner="ada", via="http", limited=limited))
        made = (await owner.create(asked(when="every day at 9am", parent_fire=taken.fire.id))).alarm
        assert (made.policy.ends_at, made.policy.renew_for, made.generation) == (None, None, 1)


async def test_a_series_is_announced_renewed_by_a_report_and_goes_on(
    wake_me: LocalWakeful, store: Store, clock: ManualClock
) -> None:
    first = await handed(wake_me, clock)
    verbs = await woken(wake_me, first)
    made = (await verbs.create(asked(when="every day at 9am"))).alarm
    await wake_me.completed(first.fire.id)
    await clock.advance(made.next_fire_at - clock.now())
    end = made.policy.ends_at
    assert end is not None
    taken = None
    for _ in range(90):
        await wake_me.run_due()
        [taken] = await wake_me.inbox()
        assert taken.ends_at == end
        assert taken.renewable == (end - taken.fire.scheduled_for <= 7 * DAY)
        await wake_me.completed(taken.fire.id)
        await clock.advance(DAY)
    assert taken is not None
    assert (await wake_me.get(made.id)).status == "fired"
    why = await wake_me.why(made.id)
    assert any(" ending: at 2030-04-01T00:01:00Z, unless a report with renew" in fact for fact in why.facts)
    await wake_me.report(taken.fire.id, ReportRequest(outcome="completed", renew=True))
    again = await wake_me.get(made.id)
    assert (again.status, again.policy.ends_at) == ("active", clock.now() + 90 * DAY)
    events = [event for _, event in await store.events(EventQuery(alarm_id=made.id, limit=100))]
    assert [(event.what, event.by) for event in events[-2:]] == [("ending", ""), ("renewed", "python")]
    await clock.advance(again.next_fire_at - clock.now())
    await wake_me.run_due()
    assert [one.alarm.id for one in await wake_me.inbox()] == [made.id]


async def test_why_says_that_it_ends_soon(wake_me: LocalWakeful, store: Store, clock: ManualClock) -> None:
    verbs = await woken(wake_me, await handed(wake_me, clock))
    made = (await verbs.create(asked(when="every day at 9am"))).alarm
    assert "unless a report with renew" not in (await wake_me.why(made.id)).summary
    await wake_me.snooze(made.id, 85 * DAY)
    summary = (await wake_me.why(made.id)).summary
    assert "It ends at 2030-04-01T00:01:00Z unless a report with renew comes before." in summary


# What it reaches


async def world(wake_me: LocalWakeful, clock: ManualClock) -> tuple[Alarms, TakenWake, Alarm, Alarm]:
    """The verbs of a wake, the wake, an alarm of its chain, and another one of the same owner."""
    taken = await handed(wake_me, clock, wake_message="mine", key="root")
    verbs = await woken(wake_me, taken)
    mine = (await verbs.create(asked(wake_message="mine too", idempotency_key="mine"))).alarm
    other = await wake_me.set("in 2 hours", "secret", key="theirs", label="mine")
    return verbs, taken, mine, other


async def test_its_chain_is_found_and_nothing_else(wake_me: LocalWakeful, clock: ManualClock) -> None:
    verbs, taken, mine, other = await world(wake_me, clock)
    assert [alarm.id for alarm in await verbs.find()] == [mine.id]
    assert [alarm.id for alarm in await verbs.find(root_id=other.id)] == [mine.id]
    assert await verbs.find(key="theirs") == []
    assert (await verbs.get(taken.alarm.id)).id == taken.alarm.id
    assert (await verbs.get("mine")).id == mine.id
    assert [fire.id for fire in await verbs.fires(taken.alarm.id)] == [taken.fire.id]
    assert (await verbs.fire_of(taken.fire.id)).id == taken.fire.id
    fired = await handed(wake_me, clock, wake_message="another chain")
    for id in (other.id, "theirs", fired.alarm.id):
        with pytest.raises(NotFound):
            await verbs.get(id)
        with pytest.raises(NotFound):
            await verbs.why(id)
        with pytest.raises(NotFound):
            await verbs.cancel(id)
        assert await verbs.fires(id) == []
    assert await verbs.fires() == []
    with pytest.raises(NotFound):
        await verbs.fire_of(fired.fire.id)
    for id in (fired.fire.id, fired.alarm.id):
        with pytest.raises(NotFound):
            await verbs.report(id, ReportRequest(outcome="completed"))
    assert (await wake_me.fire_of(fired.fire.id)).status == "delivered"


async def test_the_beginning_of_an_id_names_only_what_it_reaches(wake_me: LocalWakeful, clock: ManualClock) -> None:
    verbs, taken, mine, _ = await world(wake_me, clock)
    with pytest.raises(Conflict) as refused:
        await verbs.get(mine.id[:4])
    assert "secret" not in refused.value.message
    assert {taken.alarm.id, mine.id} <= set(refused.value.message.replace(",", " ").split())


async def test_similar_and_keys_tell_nothing_of_other_alarms(wake_me: LocalWakeful, clock: ManualClock) -> None:
    verbs, _, _, other = await world(wake_me, clock)
    same = asked(wake_message="secret", when=other.next_fire_at.isoformat())
    owners = (await wake_me.create(same)).similar
    assert owners is not None
    assert owners.id == other.id
    assert (await verbs.create(same)).similar is None
    for on_conflict in (None, "return", "replace", "error"):
        request = asked(wake_message="changed", idempotency_key="theirs", on_conflict=on_conflict)
        for refusing in (verbs.create(request), verbs.create_many([asked(), request])):
            with pytest.raises(Conflict, match="belongs to an alarm that no wake of this chain has set") as refused:
                await refusing
            assert other.id not in str(refused.value)
    assert await wake_me.get(other.id) == other
    assert len(await verbs.find()) == 2


async def test_of_its_chain_it_replaces_only_what_a_wake_has_set(wake_me: LocalWakeful, clock: ManualClock) -> None:
    verbs, taken, mine, _ = await world(wake_me, clock)
    for refusing in (
        verbs.create(asked(idempotency_key="root", on_conflict="replace")),
        verbs.create_many([asked(idempotency_key="root", on_conflict="replace")]),
    ):
        with pytest.raises(Conflict, match="no wake of this chain has set"):
            await refusing
    root = await wake_me.get(taken.alarm.id)
    assert (root.wake_message, root.parent_fire) == ("mine", "")
    replaced = await verbs.create(asked(wake_message="new", idempotency_key="mine", on_conflict="replace"))
    assert (replaced.alarm.id, replaced.alarm.wake_message) == (mine.id, "new")
    assert replaced.alarm.parent_fire == taken.fire.id


async def test_many_are_cancelled_only_within_its_chain(wake_me: LocalWakeful, clock: ManualClock) -> None:
    verbs, taken, mine, other = await world(wake_me, clock)
    unread = await waiting(wake_me, clock, wake_message="mine, in the inbox")
    assert [alarm.id for alarm in (await verbs.cancel_many(text="mine", dry_run=True)).alarms] == [mine.id]
    with pytest.raises(NotFound):
        await verbs.cancel_many([mine.id, other.id])
    assert (await wake_me.get(mine.id)).status == "active"
    assert [alarm.id for alarm in (await verbs.cancel_many(text="mine")).alarms] == [mine.id]
    assert (await wake_me.get(other.id)).status == "active"
    assert (await wake_me.get(unread.id)).status == "fired"
    assert (await verbs.cancel(taken.alarm.id)).alarm.status == "cancelled"  # the one whose wake this is
    assert "was cancelled" in await refused(wake_me, taken.token)


async def test_it_reports_on_its_own_fire(wake_me: LocalWakeful, clock: ManualClock) -> None:
    verbs, taken, _, _ = await world(wake_me, clock)
    done = await verbs.report(taken.alarm.id, ReportRequest(outcome="completed", result="done"))
    assert (done.fire.id, done.fire.status) == (taken.fire.id, "completed")


async def test_what_the_other_changes_are_refused_out_of_reach_too(wake_me: LocalWakeful, clock: ManualClock) -> None:
    """A door does not even offer them: whoever calls one by mistake changes nothing of the owner's."""
    verbs, _, _, other = await world(wake_me, clock)
    for calling in (
        verbs.update(other.id, label="x"),
        verbs.pause(other.id),
        verbs.snooze(other.id, 7200 * 2),
        verbs.skip(other.id),
        verbs.fire(other.id),
    ):
        with pytest.raises(NotFound):
            await calling
    assert replace(await wake_me.get(other.id)) == other
