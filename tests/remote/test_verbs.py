"""A remote client has every verb of `Alarms`, with the same signature, the same answers and the same errors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec import Raw

import wakeful
from tests.interfaces.world import Visitor
from wakeful.errors import Conflict, InvalidRequest, NotFound, WakefulError
from wakeful.http.app import OPERATIONS
from wakeful.model.alarm import Alarm, Fire
from wakeful.model.requests import CreateRequest, EditRequest, ReportRequest
from wakeful.python.program import Wakeful
from wakeful.remote import RemoteWakeful, client
from wakeful.remote.client import NOT_SENT as NOT_ASKED
from wakeful.remote.wire import PART
from wakeful.service import Alarms, Similar

VERBS = sorted(name for name, _ in inspect.getmembers(Alarms, inspect.isfunction) if not name.startswith("_"))
# Of an alarm the wire does not have what only a dispatcher needs, nor when it was changed.
NOT_SENT = ("claimed_at", "claim", "unsettled", "awaiting", "failed_in_a_row", "updated_at", "occurrence_at")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_there_with_the_same_signature(verb: str) -> None:
    here, there = getattr(Alarms, verb), getattr(RemoteWakeful, verb)
    (arguments, answers), (arguments_there, answers_there) = _signature(here), _signature(there)
    assert arguments == arguments_there
    assert answers_there in (answers, "NoReturn")
    assert verb in vars(RemoteWakeful), f"RemoteWakeful does not list {verb}"


def _signature(verb: Callable[..., Any]) -> tuple[list[inspect.Parameter], Any]:
    """What a verb takes besides itself, and what it returns."""
    signature = inspect.signature(verb)
    return list(signature.parameters.values())[1:], signature.return_annotation


ASKING = {
    name: inspect.getclosurevars(verb).nonlocals
    for name, verb in vars(RemoteWakeful).items()
    if inspect.iscoroutinefunction(verb) and "operation" in inspect.getclosurevars(verb).nonlocals
}


@pytest.mark.parametrize("verb", ASKING)
def test_a_verb_that_is_one_request_sends_what_its_operation_takes(verb: str) -> None:
    asking = ASKING[verb]
    [operation] = [one for one in OPERATIONS if f"{one.method} {one.path}" == asking["operation"]]
    given = {one.name for one in _signature(getattr(Alarms, verb))[0]} - {*NOT_ASKED, *PART.findall(operation.path)}
    sent = {asking["names"].get(name, name) for name in given} | {*(asking["says"] or {})}
    body = () if operation.body is None else msgspec.structs.fields(operation.body)
    assert sent <= {*(one.name for one in operation.query), *(one.encode_name for one in body)}


def test_every_request_is_an_operation_of_the_http_interface() -> None:
    asked = set(re.findall(r"\b(?:GET|POST|PATCH|DELETE) /v1[\w/{}-]*", inspect.getsource(client)))
    assert len(asked) > 30
    assert asked <= {f"{one.method} {one.path}" for one in OPERATIONS}


def same(alarm: Alarm) -> dict[str, Any]:
    shown = msgspec.structs.asdict(alarm)
    for name in NOT_SENT:
        del shown[name]
    if alarm.status != "active":
        del shown["next_fire_at"]
    return shown


async def test_alarms_are_read_as_they_are_on_the_database(house: Visitor, alarms: Wakeful) -> None:
    made = [
        await alarms.set(
            "tomorrow at 9am",
            "Grüße",
            payload=Raw(b'{"b" : 1.50, "a": [ ]}'),
            timezone="Europe/Berlin",
            key="k",
            label="l",
            conversation_id="c",
            policy={"report_within": "15m", "ends_at": datetime(2099, 1, 1, tzinfo=UTC)},
        ),
        await alarms.set(at=datetime(2090, 1, 1, tzinfo=UTC), wake_message="at", isolated=True, max_failures=2),
        await alarms.set(delay=timedelta(hours=1), wake_message="later", target="ops"),
        await alarms.set(delay="90m", wake_message="text"),
        await alarms.set(cron="0 9 * * 1-5", wake_message="series", policy=wakeful.Policy(max_fires=3, jitter=5)),
    ]
    kept = [await house.alarms.get(alarm.id) for alarm in made]
    assert [same(alarm) for alarm in made] == [same(alarm) for alarm in kept]
    assert made[0].payload_json == '{"b" : 1.50, "a": [ ]}'
    assert made[4].policy == wakeful.Policy(max_fires=3, jitter=5, on_silence="again")
    assert {alarm.created_via for alarm in made} == {"http"}
    assert [same(alarm) for alarm in await alarms.find()] == [same(alarm) for alarm in await house.alarms.find()]
    assert await alarms.pending() == await house.alarms.pending()
    ours, theirs = await alarms.agenda(hours=48), await house.alarms.agenda(hours=48)
    assert [(at, same(alarm)) for at, alarm in ours] == [(at, same(alarm)) for at, alarm in theirs]


async def test_what_happened_is_told_as_on_the_database(house: Visitor, alarms: Wakeful) -> None:
    done = await house.fired()
    assert await alarms.completed(done.fire_id, "ok") == await house.alarms.fire_of(done.fire_id)
    failed = await house.fired()
    fire = await alarms.delivery_failed(failed.fire_id, "HTTP 503")
    assert fire == await house.alarms.fire_of(failed.fire_id)
    assert fire.status == "retrying"
    assert await alarms.retry_at(fire) == await house.alarms.retry_at(fire)
    later = await house.fired()
    assert (await alarms.working(later.fire_id, "half")).result == "half"
    assert (await alarms.snooze_fire(later.fire_id, "15m")).status == "snoozed"
    for said in ({}, {"status": "completed"}, {"status": ("completed", "snoozed"), "target": "agent"}):
        assert await alarms.fires(**said) == await house.alarms.fires(**said)
    assert await alarms.fires(done.alarm_id) == await house.alarms.fires(done.alarm_id)
    assert await alarms.fires(done.alarm_id, target="inbox") == []
    assert await alarms.history() == await house.alarms.history()
    assert await alarms.failed() == await house.alarms.failed()
    assert await alarms.stats() == await house.alarms.stats()
    assert (await alarms.why(done.alarm_id)).summary == (await house.alarms.why(done.alarm_id)).summary
    assert (await alarms.why(done.fire_id)).summary == (await house.alarms.why(done.fire_id)).summary


async def test_alarms_are_changed(house: Visitor, alarms: Wakeful) -> None:
    alarm = await alarms.set("every day at 9am", "x")
    updated = await alarms.update(alarm.id, label="new", at=datetime(2090, 1, 1, tzinfo=UTC), version=alarm.version)
    assert (updated.alarm.label, updated.alarm.fire_at, updated.in_flight) == (
        "new",
        datetime(2090, 1, 1, tzinfo=UTC),
        False,
    )
    assert same(updated.alarm) == same(await house.alarms.get(alarm.id))
    assert (await alarms.edit(alarm.id, EditRequest(label=""))).alarm.label == ""
    assert (await alarms.pause(alarm.id, reason="lunch")).alarm.paused_reason == "lunch"
    assert (await alarms.resume(alarm.id)).alarm.status == "active"
    series = await alarms.set("every day at 9am", "y")
    skipped = await alarms.skip(series.id, at=series.next_fire_at)
    assert skipped.alarm.next_fire_at == series.next_fire_at + timedelta(days=1)
    with pytest.raises(Conflict) as refused:
        await alarms.skip(series.id, at=series.next_fire_at)
    assert refused.value.field == "at"
    assert (await alarms.undo(series.id)).alarm.next_fire_at == series.next_fire_at
    assert (await alarms.cancel(series.id)).alarm.status == "cancelled"
    assert (await alarms.undo(series.id, when="every day at 8am")).alarm.cron_expr == "0 8 * * *"
    assert (await alarms.cancel(series.id)).alarm.status == "cancelled"
    assert (await alarms.snooze(alarm.id, until=datetime(2091, 1, 1, tzinfo=UTC))).alarm.next_fire_at.year == 2091
    copy = await alarms.fire(alarm.id)
    assert (copy.alarm.wake_message, copy.alarm.kind, copy.alarm.policy.manual_of) == ("x", "once", alarm.id)
    while copy.alarm.id not in [fire.alarm_id for fire in await alarms.fires(alarm.id)]:
        assert (await house.alarms.get(copy.alarm.id)).status in ("active", "fired")
    assert copy.alarm.id not in [one.id for one in await alarms.find()]
    assert (await alarms.cancel(alarm.id, reason="enough")).alarm.status == "cancelled"
    assert "enough" in str((await house.alarms.why(alarm.id)).facts)
    root = await alarms.set("in 1 hour", "root")
    assert await alarms.cancel_chain(root.id) == 1
    await alarms.set("in 1 hour", "one more")
    assert await alarms.reset() >= 1
    assert (await alarms.stats()).pending == 0


async def test_many_are_kept_together_or_not_at_all(alarms: Wakeful) -> None:
    good = CreateRequest(wake_message="a", when="in 1 hour", idempotency_key="a")
    with pytest.raises(wakeful.InvalidSchedule):
        await alarms.create_many([good, CreateRequest(wake_message="b", when="yesterday")])
    assert await alarms.find() == []
    made = await alarms.create_many([good, CreateRequest(wake_message="b", when="in 1 hour")])
    assert [(one.alarm.wake_message, one.deduped) for one in made] == [("a", False), ("b", False)]
    assert [one.deduped for one in await alarms.create_many([good])] == [True]
    assert await alarms.create_many([]) == []


async def test_many_are_kept_each_on_its_own(alarms: Wakeful) -> None:
    good = CreateRequest(wake_message="a", when="tomorrow at 9am", idempotency_key="a")
    bad = CreateRequest(wake_message="b", when="yesterday")
    first, refused, again = await alarms.create_each([good, bad, good])
    assert isinstance(first, wakeful.Created)
    assert isinstance(again, wakeful.Created)
    assert (first.deduped, again.deduped, again.alarm) == (False, True, first.alarm)
    assert isinstance(refused, wakeful.InvalidSchedule)
    with pytest.raises(wakeful.InvalidSchedule) as alone:
        await alarms.create(bad)
    assert (refused.field, refused.fix, refused.message) == (alone.value.field, alone.value.fix, alone.value.message)
    assert first.notes != []
    assert await alarms.create_each([]) == []


async def test_what_says_the_same_is_named(alarms: Wakeful) -> None:
    asked = CreateRequest(wake_message="a", cron_expr="0 9 * * *")
    first = await alarms.create(asked)
    assert first.similar is None
    second = await alarms.create(asked)
    assert second.similar == Similar.of(first.alarm)


async def test_pages_go_on_until_all_are_there(
    house: Visitor, alarms: Wakeful, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakeful.remote.client.PAGE", 2)
    for number in range(5):
        await alarms.set("in 1 hour", str(number))
    assert [alarm.wake_message for alarm in await alarms.find()] == ["4", "3", "2", "1", "0"]
    page = await alarms.find(limit=3)
    assert [alarm.wake_message for alarm in page] == ["4", "3", "2"]
    assert page.further == (await house.alarms.find(limit=3)).further
    assert [alarm.wake_message for alarm in await alarms.find(cursor=page[-1])] == ["1", "0"]
    assert [alarm.wake_message for alarm in await alarms.active(limit=2)] == ["0", "1"]


async def test_a_time_is_understood_by_the_server(house: Visitor, alarms: Wakeful) -> None:
    bounded = "every other friday at 9am from 2090-12-01 until 2091-03-01 for 5 times"
    for when in ("every weekday at 9am", "2090-01-01T00:00:00Z", bounded):
        ours = await alarms.parse(when, timezone="Europe/Berlin")
        theirs = await house.alarms.parse(when, timezone="Europe/Berlin")
        assert (ours.kind, ours.description, ours.remarks, ours.cron_expr) == (
            theirs.kind,
            theirs.description,
            theirs.remarks,
            theirs.cron_expr,
        )
        assert (ours.starts_at, ours.ends_at, ours.max_fires) == (theirs.starts_at, theirs.ends_at, theirs.max_fires)
        assert ours.next(9) == theirs.next(9)
    assert abs(await alarms.now() - await house.alarms.now()) < timedelta(minutes=1)


Call = Callable[[Wakeful], Awaitable[Any]]
REFUSED: dict[str, Call] = {
    "no such alarm": lambda alarms: alarms.get("01a1dfc1-8d22-7000-87c1-99265ea41940"),
    "an id that is none": lambda alarms: alarms.get("a/b?c=d#e"),
    "an empty id": lambda alarms: alarms.get(""),
    "no fire": lambda alarms: alarms.fire_of("x"),
    "a time that is past": lambda alarms: alarms.set("yesterday", "x"),
    "no length": lambda alarms: alarms.set(delay="soon", wake_message="x"),
    "a length under zero": lambda alarms: alarms.set(delay=-1, wake_message="x"),
    "a moment without an offset": lambda alarms: alarms.set(at=datetime(2090, 1, 1), wake_message="x"),  # noqa: DTZ001
    "an unknown target": lambda alarms: alarms.set("in 1 hour", "x", target="nowhere"),
    "nothing to say": lambda alarms: alarms.set("in 1 hour", ""),
    "two times": lambda alarms: alarms.set("in 1 hour", "x", delay=1),
    "nothing to change": lambda alarms: alarms.update("x"),
    "no such field": lambda alarms: alarms.update("x", colour="red"),  # type: ignore[call-arg]
    "no length to snooze": lambda alarms: alarms.snooze("x"),
    "nothing to skip": lambda alarms: alarms.skip("x"),
    "no such chain": lambda alarms: alarms.cancel_chain("x"),
    "a bad zone": lambda alarms: alarms.parse("tomorrow at 9am", timezone="Mars/Olympus"),
    "no such inbox": lambda alarms: alarms.inbox(target="nowhere"),
    "a report on nothing": lambda alarms: alarms.report("x@1", ReportRequest(outcome="completed")),
    "a limit of none": lambda alarms: alarms.active(limit=0),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_what_is_refused_is_the_same_error(what: str, house: Visitor, alarms: Wakeful) -> None:
    with pytest.raises(WakefulError) as here:
        await REFUSED[what](house.alarms)
    with pytest.raises(WakefulError) as there:
        await REFUSED[what](alarms)
    told = [(type(error), error.code, error.field, error.fix) for error in (here.value, there.value)]
    assert told[0] == told[1]
    if "It is now" not in str(here.value):
        assert str(here.value) == str(there.value)


async def test_a_key_that_is_taken_and_a_version_that_is_old(alarms: Wakeful) -> None:
    first = await alarms.set("in 1 hour", "x", key="k")
    assert (await alarms.set("in 1 hour", "x", key="k")).id == first.id
    with pytest.raises(wakeful.Conflict) as taken:
        await alarms.set("in 1 hour", "y", key="k")
    assert taken.value.field == "key"
    await alarms.update(first.id, label="l")
    with pytest.raises(wakeful.StaleVersion):
        await alarms.update(first.id, label="m", version=first.version)


async def test_what_a_server_cannot_do_says_so(alarms: Wakeful) -> None:
    with pytest.raises(InvalidRequest, match="records by itself"):
        await alarms.set("in 1 hour", "x", created_by="eve")
    with pytest.raises(InvalidRequest, match="transaction"):
        async with alarms.within(object()):
            pass
    with pytest.raises(InvalidRequest, match="one owner"):
        alarms.for_owner("eve")
    with pytest.raises(InvalidRequest, match="needs the database"):
        await alarms.check_targets()
    with pytest.raises(InvalidRequest, match="needs the database"):
        alarms.declare("ops")
    with pytest.raises(InvalidRequest, match="needs the database"):
        alarms.asgi()
    for local in ("service", "caller", "dispatcher", "metrics"):  # a type checker says so before
        assert not hasattr(alarms, local)


async def test_a_wake_is_fetched_and_reported(house: Visitor, alarms: Wakeful) -> None:
    alarm = await alarms.set(delay=0.01, wake_message="hello", payload={"page": 3}, label="l")
    [taken] = await alarms.inbox(wait=60)
    assert isinstance(taken.fire, Fire)
    assert (taken.alarm.id, taken.alarm.wake_message, taken.alarm.payload_json) == (alarm.id, "hello", '{"page":3}')
    kept = await house.alarms.fire_of(taken.fire.id)
    assert (taken.fire.report_by, taken.fire.attempts, taken.attempt) == (kept.report_by, 1, 1)
    assert taken.fire.delivered_at == kept.delivered_at
    assert (await alarms.completed(taken.fire.id)).status == "completed"
    assert await alarms.inbox() == []


async def test_watching_a_server_shows_what_its_own_clock_shows(house: Visitor, alarms: Wakeful) -> None:
    alarm = await alarms.set(when="in 1 hour", wake_message="hello")
    await alarms.pause((await alarms.set(when="in 1 hour", wake_message="later")).id, reason="lunch")
    assert await alarms.targets() == await house.alarms.targets()
    assert {"inbox", "ops"} <= {one.target for one in await alarms.targets()}
    seen, here = await alarms.overview(), await house.alarms.overview()
    assert [one.id for one in seen.next] == [alarm.id]
    assert (seen.due, seen.in_flight, seen.ahead, seen.targets) == (here.due, here.in_flight, here.ahead, here.targets)
    assert await alarms.recent_events() == await house.alarms.recent_events()
    assert [event.what for event in await alarms.recent_events(limit=2)] == ["created", "paused"]
    assert [event.what for event in await alarms.recent_events(alarm_id=alarm.id[:20])] == ["created"]
    for asked in (alarms, house.alarms):
        with pytest.raises(NotFound):
            await asked.recent_events(alarm_id="nobody")
        with pytest.raises(InvalidRequest, match="events"):
            await asked.recent_events("nothing")
