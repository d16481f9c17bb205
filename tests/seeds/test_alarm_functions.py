"""`wakeful.seeds.Alarm`: each function of Alarm's page under its name, with what the page says that it returns."""

from __future__ import annotations

import queue
import re
from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

import wakeful
from tests.seeds.alarm_world import FUNCTIONS, STORES, Place, a_place
from wakeful.seeds import Alarm
from wakeful.testing import NEW_YEAR, ManualClock

UNIX = int(NEW_YEAR.timestamp())
PAGE = (Path(__file__).parents[2] / "docs" / "seeds" / "alarm.md").read_text()
COLUMNS = (
    *("id", "updated_at", "set_at", "process", "message", "started_at", "reply", "cancelled_at", "completed_at"),
    *("duration_ms", "result", "created_by", "created_via", "max_retries", "attempts", "backoff_ms"),
)
Passes = Callable[[float], int]


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return a_place(request, tmp_path)


@pytest.fixture
def time() -> ManualClock:
    return ManualClock()


@pytest.fixture
def alarm(place: Place, time: ManualClock) -> Iterator[Alarm]:
    where = place | {"db_path": place["db"]}
    del where["db"]
    with Alarm.start_link(**where, background=False, clock=time) as alarm:
        yield alarm


@pytest.fixture
def wakes(alarm: Alarm) -> list[wakeful.Wake]:
    """What the process `Pushover` was sent."""
    sent: list[wakeful.Wake] = []
    alarm.process("Pushover")(lambda wake: sent.append(wake))
    return sent


@pytest.fixture
def passes(alarm: Alarm, time: ManualClock) -> Passes:
    """Time passes, and what is due is delivered; how many that was."""

    def passes(seconds: float) -> int:
        alarm.alarms.wait(time.advance(seconds))
        return alarm.alarms.run_due()

    return passes


def test_every_function_of_the_page_is_there_and_in_the_table_of_its_errors() -> None:
    for name in FUNCTIONS:
        assert callable(getattr(Alarm, name))
        assert re.search(rf"^\| `{name}\(", PAGE, re.MULTILINE), name
    assert list(signature(Alarm.set_timer).parameters)[1:4] == ["set_at", "process", "message"]


def test_a_timer_is_set_with_unix_seconds_or_a_phrase_and_sent_to_its_process(
    alarm: Alarm, wakes: list[wakeful.Wake], passes: Passes
) -> None:
    first = alarm.set_timer(UNIX + 60, "Pushover", ("send", {"title": "Reminder", "message": "Call client"}))
    second = alarm.set_timer("in 30 minutes", "Elixir.Pushover", {"title": "Break time"})
    assert alarm.list_ids() == [[first, UNIX + 60, 60], [second, UNIX + 1800, 1800]]
    assert passes(60) == 1
    assert (wakes[0].alarm_id, wakes[0].message) == (first, "Call client")
    assert wakes[0].payload == ["send", {"title": "Reminder", "message": "Call client"}]
    assert passes(1740) == 1
    assert wakes[1].message == "Break time"
    assert alarm.list_ids() == []


def test_an_alarm_is_told_under_the_names_of_its_columns(
    alarm: Alarm, wakes: list[wakeful.Wake], passes: Passes
) -> None:
    options: dict[str, Any] = {"created_by": "1", "created_via": "mcp", "max_retries": 3, "backoff_ms": 10_000}
    id = alarm.set_timer("in 1 minute", "Pushover", {"message": "Follow up"}, **options)
    told = alarm.get(id)
    assert tuple(told) == COLUMNS
    expected = options | {"id": id, "set_at": UNIX + 60, "process": "Pushover", "started_at": None, "result": None}
    assert {name: told[name] for name in expected} == expected
    assert told["message"] == '{"message":"Follow up"}'
    passes(60)
    assert alarm.get(id)["started_at"] == UNIX + 60
    passes(2.5)
    alarm.completed(id, "sent to 3 recipients")
    told = alarm.get(id)
    assert (told["completed_at"], told["duration_ms"]) == (UNIX + 63, 2500)
    assert (told["result"], told["attempts"]) == ("sent to 3 recipients", 0)


def test_defaults_are_those_of_the_page(alarm: Alarm, wakes: list[wakeful.Wake], passes: Passes) -> None:
    id = alarm.set_timer("in 1 minute", "Pushover", "hello")
    assert (alarm.get(id)["max_retries"], alarm.get(id)["backoff_ms"]) == (0, 5000)
    passes(60)
    passes(301)
    assert alarm.get(id)["result"] == "timeout_unknown"
    assert [one["id"] for one in alarm.failed()] == [id]
    assert alarm.stats()["timeout_unknown"] == 1


def test_a_failure_is_retried_with_doubling_waits_and_then_is_final(
    alarm: Alarm, wakes: list[wakeful.Wake], passes: Passes
) -> None:
    id = alarm.set_timer("in 1 minute", "Pushover", "hello", max_retries=2)
    passes(60)
    for attempt, wait in ((1, 5), (2, 10)):
        alarm.delivery_failed(id, "HTTP 503")
        told = alarm.get(id)
        assert (told["result"], told["attempts"]) == (f"RETRY: HTTP 503 (attempt {attempt}/2)", attempt)
        assert passes(wait * 0.9) == 0
        assert passes(wait * 0.21) == 1
    alarm.delivery_failed(id, "HTTP 503")
    told = alarm.get(id)
    assert (told["result"], told["attempts"]) == ("FAILED: HTTP 503 (after 3 attempts)", 2)
    assert (told["started_at"], told["completed_at"]) == (UNIX + 60, None)
    assert [one["id"] for one in alarm.history(status="failed", process="Elixir.Pushover")] == [id]


def test_cancel_and_reset_take_what_is_pending_and_nothing_else(
    alarm: Alarm, wakes: list[wakeful.Wake], passes: Passes
) -> None:
    fired = alarm.set_timer("in 1 minute", "Pushover", "now")
    passes(60)
    ids = [alarm.set_timer(f"in {n} hours", "Pushover", "later") for n in (1, 2, 3)]
    assert alarm.cancel(ids[0]) == "cancelled"
    for gone in (ids[0], fired, "1709395200000"):
        with pytest.raises(wakeful.NotFound):
            alarm.cancel(gone)
    alarm.reset()
    assert alarm.list_ids() == []
    assert alarm.get(ids[1])["cancelled_at"] == UNIX + 60
    assert len(alarm.history(status="cancelled")) == 3
    assert len(alarm.history(status="cancelled", limit=2)) == 2
    counts = {"total": 4, "pending": 0, "fired": 1, "completed": 0, "failed": 0, "cancelled": 3, "timeout_unknown": 0}
    assert alarm.stats() == counts | {"avg_duration_ms": None}


def test_what_the_page_answers_as_an_error_is_an_exception(alarm: Alarm, wakes: list[wakeful.Wake]) -> None:
    for when in (1736882445, "whenever it suits you"):
        with pytest.raises(wakeful.InvalidSchedule):
            alarm.set_timer(when, "Pushover", "hello")
    with pytest.raises(wakeful.UnknownTarget):
        alarm.set_timer("in 1 hour", "Nobody", "hello")
    for call in (alarm.get, alarm.cancel):
        with pytest.raises(wakeful.NotFound):
            call("nobody")
    with pytest.raises(wakeful.NotFound):
        alarm.completed("nobody", "ok")


def test_a_time_is_parsed_without_setting_anything(alarm: Alarm) -> None:
    assert alarm.parse_timestamp("tomorrow at 9am") == UNIX + 33 * 3600
    assert alarm.parse_timestamp("tomorrow at 9am", "America/New_York") == UNIX + 14 * 3600  # there it is still 2029
    with pytest.raises(wakeful.InvalidSchedule):
        alarm.parse_timestamp("whenever it suits you")
    with pytest.raises(wakeful.InvalidRequest, match="more than one moment"):
        alarm.parse_timestamp("every day at 9am")
    assert alarm.stats()["total"] == 0


def test_an_async_process_is_refused_before_it_could_wait_for_itself(alarm: Alarm) -> None:
    async def pushover(wake: wakeful.Wake) -> None: ...

    with pytest.raises(wakeful.InvalidRequest, match="is an async function"):
        alarm.process("Pushover")(pushover)


def test_it_fires_by_itself_and_a_process_reports_from_inside_its_call(place: Place) -> None:
    results: queue.Queue[str] = queue.Queue()
    with Alarm.start_link(place["db"], **{name: value for name, value in place.items() if name != "db"}) as alarm:

        @alarm.process("Pushover")
        def pushover(wake: wakeful.Wake) -> None:
            alarm.completed(wake.alarm_id, "ok")
            results.put(wake.alarm_id)

        id = alarm.set_timer("in 1 second", "Pushover", {"title": "Reminder"})
        assert results.get(timeout=60) == id
        assert alarm.get(id)["result"] == "ok"
