"""Signals from end to end, on both stores: who hears them, what is on record, and what a wake carries."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from tests.acting import acting
from wakeful.errors import InvalidRequest
from wakeful.model.outcome import Delivered, Outcome
from wakeful.rules.wake import Wake
from wakeful.service import Alarms, Signalled
from wakeful.settings.tables import BudgetSettings
from wakeful.store import AlarmQuery

from .conftest import OWNER, World

HOUR = 3600
DAY = timedelta(days=1)
SHOWN = "{:%Y-%m-%dT%H:%M:%SZ}"


@pytest.fixture
def ada(world: World) -> Alarms:
    return acting(world.service, OWNER, by="ada's agent")


def ids(done: Signalled) -> tuple[list[str], list[str], int]:
    return [one.id for one in done.cancelled], [one.id for one in done.fired], done.in_flight


async def test_in_two_hours_unless_it_is_answered(world: World, ada: Alarms) -> None:
    alarm = await world.set(2 * HOUR, policy={"unless": "answered"})
    assert "in 2 h, unless the signal 'answered' comes first." in (await ada.why(alarm.id)).summary
    await world.run_due(HOUR)
    assert ids(await ada.signal("answered")) == ([alarm.id], [], 0)
    await world.run_due(2 * HOUR)
    assert world.desk.wakes == []
    why = await ada.why(alarm.id)
    assert why.summary.startswith("The signal 'answered' came at ")
    assert any("cancelled by ada's agent: the signal 'answered'" in fact for fact in why.facts)


async def test_when_it_is_built_or_at_five(world: World, ada: Alarms) -> None:
    early, late = [await world.set(8 * HOUR, policy={"or_when": "built"}) for _ in range(2)]
    await ada.pause(late.id)  # it hears nothing
    await world.run_due(HOUR)
    done = await ada.signal("built", Raw(b'{"ok" : true}'))
    assert ids(done) == ([], [early.id], 0)
    assert done.notes == []
    await world.run_due()
    [wake] = world.desk.wakes
    assert wake.signal is not None
    assert (wake.signal.name, wake.signal.payload_json) == ("built", '{"ok" : true}')
    assert (await world.read(early)).status == "fired"
    why = await ada.why(early.id)
    assert "It came for the signal 'built'." in why.summary
    assert any("signalled by ada's agent: the signal 'built'" in fact for fact in why.facts)
    await ada.resume(late.id)
    await world.run_due(8 * HOUR)
    assert [wake.signal is None for wake in world.desk.wakes] == [False, True]


async def test_a_series_fires_once_more(world: World, ada: Alarms) -> None:
    alarm = await world.set(cron="0 * * * *", policy={"or_when": "built"})
    first = alarm.next_fire_at
    await world.run_due(60)
    for payload in (1, 2):
        await ada.signal("built", payload)
        await world.run_due()
        await world.run_due(1)
    assert [wake.signal.payload for wake in world.desk.wakes if wake.signal] == [1, 2]
    assert (await world.read(alarm)).next_fire_at == first
    assert len(await world.fires(alarm)) == 2


async def test_a_dead_man_s_switch_goes_on_after_each_day_that_was_well(world: World, ada: Alarms) -> None:
    alarm = await world.set(cron="0 17 * * *", policy={"unless": "backup", "unless_since": 12 * HOUR})
    five = alarm.next_fire_at
    assert (await ada.details(alarm.id)).notes[0] == (
        f"A signal 'backup' skips the fire that it comes at most 12 hours before, now that of {five.isoformat()}; "
        "the series goes on."
    )
    early = await ada.signal("backup")
    assert [one.effect for one in early.alarms] == ["too_early"]
    assert early.notes == [
        f"Alarm {alarm.id}: the fire of {five.isoformat()} is more than 12 hours away (unless_since), "
        "so this signal is ignored."
    ]
    await world.run_due(6 * HOUR)
    done = await ada.signal("backup")
    assert [(one.alarm.id, one.effect, one.at) for one in done.alarms] == [(alarm.id, "skipped", five)]
    assert (done.in_flight, done.notes) == (0, [])
    assert (await world.read(alarm)).next_fire_at == five + DAY
    again = await ada.signal("backup")
    assert [(one.effect, one.at) for one in again.alarms] == [("already_skipped", five)]
    assert again.notes == [
        f"Alarm {alarm.id}: its fire of {five.isoformat()} had been skipped already; what comes after it is not."
    ]
    await world.run_due(12 * HOUR)
    assert world.desk.wakes == []
    why = await ada.why(alarm.id)
    assert f"The fire of {SHOWN.format(five)} was skipped: the signal 'backup' came first." in why.summary
    assert "unless the signal 'backup' comes first, at most 12 hours before it" in why.summary
    await world.run_due(DAY)
    assert [wake.scheduled_for for wake in world.desk.wakes] == [five + DAY]
    statuses = {(fire.status, fire.reason) for fire in await world.fires(alarm)}
    assert statuses == {("skipped", "signalled"), ("delivered", "")}


async def test_what_a_signal_skipped_is_taken_back(world: World, ada: Alarms) -> None:
    alarm = await world.set(cron="0 17 * * *", policy={"unless": "backup"})
    await ada.signal("backup")
    assert (await ada.undo(alarm.id)).alarm.next_fire_at == alarm.next_fire_at
    await world.run_due(DAY)
    assert [wake.scheduled_for for wake in world.desk.wakes] == [alarm.next_fire_at]


async def test_a_heartbeat_wakes_once_it_stays_away(world: World, ada: Alarms) -> None:
    alarm = await world.set(900, policy={"unless": "beat", "rearm": 900.0})
    assert "Each signal 'beat' moves this alarm to 15 minutes after it." in (await ada.details(alarm.id)).notes
    for _ in range(4):
        await world.run_due(600)
        done = await ada.signal("beat")
        assert [(one.effect, one.at) for one in done.alarms] == [("moved", world.clock.now() + timedelta(minutes=15))]
        assert [one.id for one in done.moved] == [alarm.id]
    assert await world.fires(alarm) == []
    why = (await ada.why(alarm.id)).summary
    assert "unless the signal 'beat' comes first, which moves it to 15 minutes after that." in why
    await world.run_due(900)
    [wake] = world.desk.wakes
    assert wake.alarm_id == alarm.id
    assert (await world.read(alarm)).status == "fired"
    assert "No active alarm" in (await ada.signal("beat")).notes[0]


async def test_a_beat_during_the_delivery_moves_it_and_the_answer_stays_on_record(world: World, ada: Alarms) -> None:
    class BeatsMeanwhile:
        async def deliver(self, wake: Wake) -> Outcome:
            assert (await ada.signal("beat")).in_flight == 1
            return Delivered()

        async def close(self) -> None: ...

    world.serve("slow", BeatsMeanwhile())
    for given, moves in (({"delay": 1}, 900), ({"cron": "0 * * * *"}, HOUR)):
        policy = {"unless": "beat"} | ({"rearm": 900.0} if "delay" in given else {})
        alarm = await world.set(target="slow", policy=policy, **given)
        await world.clock.advance(alarm.next_fire_at - world.clock.now())
        await world.run_due()
        after = await world.read(alarm)
        assert (after.status, after.next_fire_at - alarm.next_fire_at) == ("active", timedelta(seconds=moves))
        assert [fire.status for fire in await world.fires(alarm)] == ["delivered"]
        await ada.cancel(alarm.id)


async def test_only_the_owner_s_own_alarms_hear_it(world: World, ada: Alarms) -> None:
    alarm = await world.set(HOUR, policy={"unless": "answered"})
    done = await acting(world.service, "bob").signal("answered")
    assert ids(done) == ([], [], 0)
    assert done.notes == [
        "No active alarm of yours waits for this signal. A signal is not kept for alarms that are set later."
    ]
    assert await world.read(alarm) == alarm


async def test_it_is_not_kept_for_later(world: World, ada: Alarms) -> None:
    await ada.signal("built")
    alarm = await world.set(HOUR, policy={"or_when": "built"})
    await world.run_due(60)
    assert world.desk.wakes == []
    assert (await world.read(alarm)).status == "active"


async def test_what_is_on_its_way_is_in_flight_and_not_sent_twice(world: World, ada: Alarms) -> None:
    heard: list[tuple[list[str], list[str], int]] = []

    class SignalsMeanwhile:
        async def deliver(self, wake: Wake) -> Outcome:
            heard.append(ids(await ada.signal("built")))
            return Delivered()

        async def close(self) -> None: ...

    world.serve("slow", SignalsMeanwhile())
    fires = await world.set(1, target="slow", policy={"or_when": "built"})
    await world.run_due(1)
    assert heard == [([], [fires.id], 1)]
    assert await world.run_due(1) == 0
    gone = await world.set(1, target="slow", policy={"unless": "built"})
    await world.run_due(1)
    assert heard[1:] == [([gone.id], [], 1)]
    assert (await world.read(gone)).status == "cancelled"
    assert [fire.status for fire in await world.fires(gone)] == ["delivered"]


async def test_more_than_a_page_of_them(world: World, ada: Alarms, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wakeful.service.signalling.PAGE", 2)
    alarms = [await world.set(HOUR, policy={name: "built"}) for name in ("unless", "or_when") * 3]
    cancelled, fired, _ = ids(await ada.signal("built"))
    assert (cancelled, fired) == ([one.id for one in alarms[::2]], [one.id for one in alarms[1::2]])


async def test_an_agent_that_signals_itself_is_stopped_at_its_budget(world: World, ada: Alarms) -> None:
    world.settings = replace(world.settings, budget=BudgetSettings(rewakes_per_hour=3, rewakes_per_day=0))
    alarm = await world.set(cron="0 9 * * *", policy={"or_when": "again"})
    for _ in range(6):
        await ada.signal("again")
        await world.run_due(1)
    assert len(world.desk.wakes) == 3
    assert [fire.reason for fire in await world.fires(alarm)] == ["budget"] * 3 + [""] * 3


async def test_it_counts_and_is_told_live(world: World, ada: Alarms) -> None:
    await world.set(HOUR, policy={"unless": "built"})
    await world.set(HOUR, policy={"or_when": "built"})
    await ada.signal("built")
    counts = world.service.metrics._counts["wakeful_signalled_total"]
    assert counts == {("cancelled",): 1, ("fired",): 1}
    told = [event.what for event in await ada.recent_events("cancelled", "signalled")]
    assert sorted(told) == ["cancelled", "signalled"]
    await world.set(cron="0 * * * *", policy={"unless": "beat"})
    await world.set(HOUR, policy={"unless": "beat", "rearm": 60.0})
    for _ in range(2):
        await ada.signal("beat")
    assert counts == {("cancelled",): 1, ("fired",): 1, ("skipped",): 1, ("moved",): 2}
    assert sorted(event.what for event in await ada.recent_events("skipped")) == ["skipped"]


@pytest.mark.parametrize(
    ("name", "payload", "field"),
    [("a b", None, "name"), ("", None, "name"), ("built", "x" * 20_000, "payload"), ("built", object, "payload")],
    ids=str,
)
async def test_what_is_not_a_signal_changes_nothing(
    world: World, ada: Alarms, name: str, payload: Any, field: str
) -> None:
    await world.set(HOUR, policy={"or_when": "built"})
    with pytest.raises(InvalidRequest) as refused:
        await ada.signal(name, payload)
    assert refused.value.field == field
    [alarm] = await world.store.find(AlarmQuery(owner=OWNER))
    assert alarm.version == 1


async def test_after_a_clock_was_set_back_a_signal_is_a_wake_of_its_own(world: World, ada: Alarms) -> None:
    """It comes at the very moment of an earlier fire, and that one is not fired again."""
    alarm = await world.set(cron="0 0 1 1 *", policy={"or_when": "go"})
    for wait in (60, 60):
        await world.run_due(wait)
        assert ids(await ada.signal("go"))[1] == [alarm.id]
        await world.run_due()
    world.clock.set_back(60)
    assert ids(await ada.signal("go"))[1] == [alarm.id]
    await world.run_due(1)
    assert len(world.desk.wakes) == 3
    assert len({wake.fire_id for wake in world.desk.wakes}) == len(await world.fires(alarm)) == 3


async def test_what_was_skipped_before_a_signal_does_not_come_after_it(world: World, ada: Alarms) -> None:
    alarm = await world.set(cron="0 * * * *", policy={"or_when": "go"})
    await ada.skip(alarm.id)
    await world.run_due(60)
    assert ids(await ada.signal("go"))[1] == [alarm.id]
    assert ids(await ada.signal("go"))[1] == [alarm.id]
    await world.run_due()
    assert (await world.read(alarm)).next_fire_at.hour == 2
    await world.run_due(2 * HOUR)
    assert [wake.scheduled_for.hour for wake in world.desk.wakes] == [0, 2]
    assert [fire.status for fire in await world.fires(alarm)].count("skipped") == 1
    assert ids(await ada.signal("go"))[1] == [alarm.id]
    edited = await ada.update(alarm.id, when="every minute")
    assert (edited.alarm.next_fire_at - world.clock.now()).total_seconds() <= 60
