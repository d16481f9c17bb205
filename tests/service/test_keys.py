"""A key that is taken: the same request gives the same alarm, another request is a conflict."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from wakeful.errors import Conflict, InvalidRequest
from wakeful.model.requests import CreateRequest, OnConflict
from wakeful.python.client import LocalWakeful
from wakeful.store import Store
from wakeful.testing import ManualClock

from .world import HOUR, waiting, waking

MOMENT = datetime.fromisoformat("2030-01-31T09:00:00+00:00")
ONCE: dict[str, Any] = {"delay": 300, "wake_message": "one", "key": "k"}
SERIES: dict[str, Any] = {"cron": "0 9 * * 1-5", "timezone": "Europe/Berlin", "wake_message": "one", "key": "k"}


@pytest.fixture
def wake_me(store: Store, clock: ManualClock) -> LocalWakeful:
    return waking(store, clock)


@pytest.mark.parametrize(
    "asked",
    [
        ONCE,
        ONCE | {"delay": None, "when": "in 5 minutes"},
        ONCE | {"delay": None, "when": "tomorrow at 9am"},
        ONCE | {"delay": None, "at": MOMENT},
        SERIES,
        SERIES | {"cron": "", "when": "every weekday at 9am"},
        SERIES | {"cron": "@every 90m"},
        ONCE | {"payload": {"a": 1, "b": [True, None]}, "policy": {"expires": "2h"}, "label": "x", "isolated": True},
    ],
)
async def test_the_same_request_later_on_is_the_same_alarm(
    wake_me: LocalWakeful, clock: ManualClock, asked: dict[str, Any]
) -> None:
    first = await wake_me.set(**asked)
    await clock.advance(60)
    assert await wake_me.set(**asked) == first
    assert await wake_me.set(**asked | {"created_by": "somebody else", "created_via": "mcp"}) == first


@pytest.mark.parametrize(
    ("asked", "other", "differs"),
    [
        (ONCE, {"delay": 600}, "when"),
        (ONCE, {"delay": None, "when": "in 10 minutes"}, "when"),
        (ONCE, {"delay": None, "at": MOMENT}, "when"),
        (ONCE | {"delay": None, "at": MOMENT}, {"at": MOMENT + HOUR}, "when"),
        (ONCE, {"delay": None, "cron": "0 9 * * *"}, "when"),
        (SERIES, {"cron": "0 9 * * *"}, "when"),
        (SERIES, {"timezone": "Asia/Tokyo"}, "when"),
        (ONCE, {"wake_message": "two"}, "wake_message"),
        (ONCE, {"payload": {"page": 3}}, "payload"),
        (ONCE | {"payload": {"a": 1}}, {"payload": {"a": True}}, "payload"),
        (ONCE, {"label": "x"}, "label"),
        (ONCE, {"conversation_id": "c"}, "conversation_id"),
        (ONCE, {"isolated": True}, "isolated"),
        (ONCE, {"max_failures": 1}, "max_failures"),
        (SERIES, {"policy": {"max_fires": 3}}, "policy"),
        (SERIES | {"cron": "@every 90m"}, {"policy": {"jitter": 5}}, "policy"),
        (ONCE, {"wake_message": "two", "label": "x"}, "wake_message, label"),
    ],
)
async def test_another_request_is_a_conflict_and_changes_nothing(
    wake_me: LocalWakeful, clock: ManualClock, asked: dict[str, Any], other: dict[str, Any], differs: str
) -> None:
    first = await wake_me.set(**asked)
    await clock.advance(60)
    with pytest.raises(Conflict) as refused:
        await wake_me.set(**asked | other)
    assert refused.value.field == "key"
    assert refused.value.message == f"alarm {first.id} already has the key 'k', and differs in {differs}"
    assert await wake_me.get(first.id) == first
    assert await wake_me.set(**asked | other, on_conflict="return") == first
    replaced = await wake_me.set(**asked | other, on_conflict="replace")
    assert (replaced.id, replaced.version) == (first.id, 2)
    assert (await wake_me.set(**asked | other)).id == first.id, "what was replaced is now the same request"


async def test_another_target_is_another_request(wake_me: LocalWakeful) -> None:
    wake_me.handler("ops")(lambda wake: None)
    await wake_me.set(**ONCE)
    with pytest.raises(Conflict, match="differs in target"):
        await wake_me.set(**ONCE, target="ops")


async def test_space_within_a_payload_is_no_other_payload(wake_me: LocalWakeful) -> None:
    from msgspec import Raw

    first = await wake_me.set(**ONCE, payload=Raw(b'{"b": 1, "a": [2.0]}'))
    assert await wake_me.set(**ONCE, payload=Raw(b'{"a":[2.0],"b":1}')) == first


async def test_a_key_is_the_same_with_spaces_around_it(wake_me: LocalWakeful) -> None:
    first = await wake_me.set(**ONCE | {"key": " k\t"})
    assert first.idempotency_key == "k"
    assert await wake_me.set(**ONCE) == first
    assert (await wake_me.set(**ONCE | {"key": " "})).idempotency_key == ""


async def test_the_same_request_after_it_has_fired_is_answered_with_what_became_of_it(
    wake_me: LocalWakeful, clock: ManualClock
) -> None:
    first = await waiting(wake_me, clock, key="k")
    again = await wake_me.set(delay=60, wake_message="read me", key="k")
    assert (again.id, again.status) == (first.id, "fired")


async def test_of_many_at_once_the_same_are_one_and_the_others_are_refused(wake_me: LocalWakeful) -> None:
    asked = [ONCE if number % 2 else ONCE | {"wake_message": "two"} for number in range(20)]
    answers = await asyncio.gather(*(wake_me.set(**one) for one in asked), return_exceptions=True)
    kept = [one for one in answers if not isinstance(one, BaseException)]
    refused = [one for one in answers if isinstance(one, Conflict)]
    assert (len(kept), len(refused), len({alarm.id for alarm in kept})) == (10, 10, 1)


async def test_error_refuses_the_same_request_too(wake_me: LocalWakeful) -> None:
    await wake_me.set(**ONCE)
    with pytest.raises(Conflict, match="already has the key 'k'"):
        await wake_me.set(**ONCE, on_conflict="error")
    with pytest.raises(InvalidRequest, match="merge"):
        await wake_me.set(**ONCE, on_conflict="merge")  # type: ignore[arg-type]  # what a caller might give


async def test_a_request_for_a_changed_alarm_is_compared_with_what_it_is_now(
    wake_me: LocalWakeful, clock: ManualClock
) -> None:
    first = await wake_me.set(**ONCE)
    await wake_me.update(first.id, label="x")
    with pytest.raises(Conflict, match="differs in label"):
        await wake_me.set(**ONCE)
    await clock.advance(timedelta(seconds=1))
    assert (await wake_me.set(**ONCE, label="x")).id == first.id


@pytest.mark.parametrize("again", [{"delay": 300}, {"delay": None, "when": "in 1 hour"}], ids=["same", "relative"])
async def test_the_key_of_an_ended_alarm_is_answered_with_it_and_a_warning_that_nothing_will_fire(
    wake_me: LocalWakeful, clock: ManualClock, caplog: pytest.LogCaptureFixture, again: dict[str, Any]
) -> None:
    first = await wake_me.set(**ONCE)
    await clock.advance(1)
    await wake_me.set(**ONCE)
    assert not caplog.records, "an alarm that waits is no reason for a warning"
    await wake_me.cancel(first.id)
    assert (await wake_me.set(**ONCE | again)).status == "cancelled"
    [warned] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert f"{first.id} had this key and is cancelled: nothing was set. Nothing will fire" in warned
    assert 'on_conflict "replace"' in warned
    caplog.clear()
    assert (await wake_me.set(**ONCE | again, on_conflict="replace")).status == "active"
    assert not caplog.records


@pytest.mark.parametrize("on_conflict", [None, "return"])
async def test_the_answer_under_the_key_of_an_ended_alarm_notes_that_nothing_will_fire(
    wake_me: LocalWakeful, on_conflict: OnConflict | None
) -> None:
    first = await wake_me.set(**ONCE)
    asked = CreateRequest(wake_message="one", when="in 5 minutes", idempotency_key="k", on_conflict=on_conflict)
    again = await wake_me.create(asked)
    assert again.deduped
    assert not any("nothing was set" in note for note in again.notes)
    await wake_me.cancel(first.id)
    again = await wake_me.create(asked)
    [note] = again.notes
    assert again.deduped
    assert note.startswith(f"Alarm {first.id} had this key and is cancelled: nothing was set. Nothing will fire")
