"""The same things asked through every door: the rows they leave and the refusals they get are the same.

What a door does not have is left out by name. The WebSocket only looks: what it tells is what HTTP and Python tell.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import aiohttp
import pytest
from click.testing import CliRunner
from mcp import Client
from msgspec import Struct

import wakeful
from tests.interfaces.mcp_world import door as mcp_door
from tests.interfaces.world import Visitor, serving
from tests.seeds.alarm_world import Desk
from wakeful.cli import main
from wakeful.errors import WakefulError
from wakeful.model.alarm import Alarm
from wakeful.model.requests import CreateRequest, EditRequest
from wakeful.process.application import build
from wakeful.rules.wanted import request_of
from wakeful.service import views
from wakeful.service.history import HistoryStatus
from wakeful.settings import Settings
from wakeful.store import AlarmQuery, Store
from wakeful.testing import store_of

AT = "2099-07-01T09:00:00+02:00"
RULE = "DTSTART;TZID=Europe/Berlin:20270105T090000 RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=TU"
BOUNDED = "every weekday at 9am from 1 december 2098 until 24 december 2098 for 10 times, except mondays"
SERIES = {"when": "every weekday at 5pm", "wake_message": "watch", "idempotency_key": "watch"}
NOBODY = "01a1dfba-b761-7000-8856-d5f2b52e48f7"
# Whose words differ on purpose: which door it was, and who is on record for what was done there.
OWN = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[\d:.]+(?:\+00:00|Z)|\d\d:\d\d(?= in UTC)")
VARIES = ("id", "created_at", "updated_at", "created_via")
FULL = {
    "when": AT,
    "wake_message": "Check the portal",
    "label": " portal ",
    "conversation_id": " c-1 ",
    "payload": {"page": 3},
    "timezone": "Europe/Berlin",
    "max_failures": 2,
    "idempotency_key": " k ",
    "policy": {"report_within": "15m", "expires": "2h", "max_fires": 3},
}


class Wish(Struct, frozen=True):
    """A verb with what it takes. `on`: the key of the alarm it is about."""

    name: str
    verb: str
    fields: dict[str, Any] = {}
    on: str = ""


WISHES = (
    Wish("everything at once", "set", FULL),
    Wish("the same again", "set", FULL),
    Wish("the key with other words", "set", FULL | {"wake_message": "Other"}),
    Wish("the key, to be replaced", "set", FULL | {"wake_message": "Other", "on_conflict": "replace"}),
    Wish("the key, as it is", "set", FULL | {"wake_message": "Again", "on_conflict": "return"}),
    Wish("a rhythm", "set", {"when": "every weekday at 9am", "wake_message": "brief", "idempotency_key": "brief"}),
    Wish("an interval", "set", {"when": "@every 90m", "wake_message": "look", "idempotency_key": "look"}),
    Wish("a rule", "set", {"when": RULE, "wake_message": "fortnight", "idempotency_key": "fortnight"}),
    Wish("the same rule again", "set", {"when": RULE, "wake_message": "fortnight", "idempotency_key": "fortnight"}),
    Wish("another rule", "edit", {"when": "every 3 days at 9am"}, on="fortnight"),
    Wish("a rhythm with bounds", "set", {"when": BOUNDED, "wake_message": "advent", "idempotency_key": "advent"}),
    Wish("the same bounds again", "set", {"when": BOUNDED, "wake_message": "advent", "idempotency_key": "advent"}),
    Wish("other bounds", "edit", {"when": "every other friday at 9am for 5 times"}, on="advent"),
    Wish("bounds that differ", "set", {"when": BOUNDED, "wake_message": "x", "policy": {"max_fires": 3}}),
    Wish("a rule with a fault", "set", {"when": "RRULE:FREQ=DAILY;BYHOUR=25", "wake_message": "x"}),
    Wish("no time", "set", {"when": "whenever", "wake_message": "x"}),
    Wish("the past", "set", {"when": "2020-01-01T00:00:00Z", "wake_message": "x"}),
    Wish("no zone", "set", {"when": AT, "wake_message": "x", "timezone": "Mars/Base"}),
    Wish("no words", "set", {"when": AT, "wake_message": "  "}),
    Wish("too many words", "set", {"when": AT, "wake_message": "x" * 40_000}),
    Wish("no such target", "set", {"when": AT, "wake_message": "x", "target": "moon"}),
    Wish("too many retries", "set", {"when": AT, "wake_message": "x", "policy": {"expires": "soon"}}),
    Wish("no name of a signal", "set", {"when": AT, "wake_message": "x", "policy": {"unless": "a b"}}),
    Wish("one signal for both", "set", {"when": AT, "wake_message": "x", "policy": {"unless": "a", "or_when": "a"}}),
    Wish(
        "signals",
        "set",
        {"when": AT, "wake_message": "x", "idempotency_key": "s", "policy": {"unless": "a", "or_when": "b"}},
    ),
    Wish(
        "a heartbeat",
        "set",
        {"when": AT, "wake_message": "x", "idempotency_key": "hb", "policy": {"unless": "a", "rearm": "15m"}},
    ),
    Wish("a heartbeat that is a series", "edit", {"when": "every day at 9am", "kind": "cron"}, on="hb"),
    Wish("a series that a signal moves", "set", {**SERIES, "policy": {"unless": "a", "rearm": "15m"}}),
    Wish("a rearm without a signal", "set", {"when": AT, "wake_message": "x", "policy": {"rearm": "15m"}}),
    Wish("a watch", "set", {**SERIES, "policy": {"unless": "a", "unless_since": "12h"}}),
    Wish("since no signal", "set", {**SERIES, "policy": {"unless_since": "12h"}}),
    Wish("a rearm of no time", "set", {"when": AT, "wake_message": "x", "policy": {"unless": "a", "rearm": "0s"}}),
    Wish("new words", "edit", {"wake_message": "Morning brief", "label": " b "}, on="brief"),
    Wish("another time", "edit", {"when": "every monday at 10am"}, on="brief"),
    Wish("another time of day", "edit", {"when": "11am"}, on="brief"),
    Wish("another kind, unasked", "edit", {"when": "tomorrow at 9am"}, on="brief"),
    Wish("no such target to go to", "edit", {"target": "moon"}, on="brief"),
    Wish("pause", "pause", {"reason": "holiday"}, on="brief"),
    Wish("pause again", "pause", {"reason": "other"}, on="brief"),
    Wish("resume", "resume", on="brief"),
    Wish("skip", "skip", on="brief"),
    Wish("skip another than the next", "skip", {"at": "2020-01-06T10:00:00Z"}, on="brief"),
    Wish("skip no moment", "skip", {"at": "soonish"}, on="brief"),
    Wish("skip the only one", "skip", on="k"),
    Wish("snooze", "snooze", {"wait": "100d"}, on="brief"),
    Wish("a snooze of nothing", "snooze", {"wait": "0s"}, on="brief"),
    Wish("cancel", "cancel", {"reason": "done with it"}, on="look"),
    Wish("cancel again", "cancel", {"reason": "more"}, on="look"),
    Wish("cancel nobody's", "cancel", on=NOBODY),
    Wish("undo a cancel", "undo", on="look"),
    Wish("undo it again", "undo", on="look"),
    Wish("new words to take back", "edit", {"wake_message": "Listen", "when": "@every 3h"}, on="look"),
    Wish("undo an edit", "undo", on="look"),
    Wish("undo a snooze", "undo", on="brief"),
    Wish("a skip to take back", "skip", on="brief"),
    Wish("undo a skip with a time", "undo", {"when": "tomorrow at 9am"}, on="brief"),
    Wish("undo a skip", "undo", on="brief"),
    Wish("undo to no time", "undo", {"when": "soonish"}, on="k"),
    Wish("undo nobody's", "undo", on=NOBODY),
)

Do = Callable[[Wish, str], Awaitable[None]]


class Refused(Exception):
    """What a door says no with."""


@asynccontextmanager
async def python(db: str) -> AsyncIterator[Do]:
    async with wakeful.open(db) as alarms:

        async def do(wish: Wish, id: str) -> None:
            fields = dict(wish.fields)
            match wish.verb:
                case "set":
                    key, when = fields.pop("idempotency_key", ""), fields.pop("when")
                    await alarms.set(when, fields.pop("wake_message"), key=key, **fields)
                case "edit":
                    await alarms.update(id, **fields)
                case "snooze":
                    await alarms.snooze(id, fields["wait"])
                case verb:
                    await getattr(alarms, verb)(id, **fields)

        yield do


@asynccontextmanager
async def requests(db: str) -> AsyncIterator[Do]:
    """Python again, with the requests that interfaces make."""
    async with wakeful.open(db) as alarms:

        async def do(wish: Wish, id: str) -> None:
            if wish.verb == "set":
                await alarms.create(request_of(CreateRequest, wish.fields))
            elif wish.verb == "edit":
                await alarms.edit(id, request_of(EditRequest, wish.fields))
            else:
                await getattr(alarms, wish.verb)(id, **wish.fields)

        yield do


@asynccontextmanager
async def sync(db: str) -> AsyncIterator[Do]:
    async def do(wish: Wish, id: str) -> None:
        def work() -> None:
            with wakeful.open_sync(db) as alarms:
                fields = dict(wish.fields)
                match wish.verb:
                    case "set":
                        key, when = fields.pop("idempotency_key", ""), fields.pop("when")
                        alarms.set(when, fields.pop("wake_message"), key=key, **fields)
                    case "edit":
                        alarms.update(id, **fields)
                    case "snooze":
                        alarms.snooze(id, fields["wait"])
                    case verb:
                        getattr(alarms, verb)(id, **fields)

        await asyncio.to_thread(work)

    yield do


@asynccontextmanager
async def http(db: str) -> AsyncIterator[Do]:
    async with serving(db) as visit:

        async def do(wish: Wish, id: str) -> None:
            fields = {"for" if name == "wait" else name: value for name, value in wish.fields.items()}
            match wish.verb:
                case "set":
                    answer = await visit("POST", "/v1/alarms", fields)
                case "edit":
                    answer = await visit("PATCH", f"/v1/alarms/{id}", fields)
                case "cancel":
                    answer = await visit("DELETE", f"/v1/alarms/{id}")
                case verb:
                    answer = await visit("POST", f"/v1/alarms/{id}/{verb}", fields or None)
            if answer.status >= 400:
                raise Refused(answer.json["detail"])

        yield do


@asynccontextmanager
async def mcp(db: str) -> AsyncIterator[Do]:
    async with build(Settings(db=db)) as alarms, Client(mcp_door(alarms)) as client:

        async def do(wish: Wish, id: str) -> None:
            names = {"wait": "for", "idempotency_key": "key"}
            fields = {names.get(name, name): value for name, value in wish.fields.items()}
            match wish.verb:
                case "set":
                    answer = await client.call_tool("alarm_set", fields)
                case "cancel":
                    answer = await client.call_tool("alarm_cancel", {"id": id, **fields})
                case verb:
                    answer = await client.call_tool("alarm_update", {"id": id, "action": verb, **fields})
            if answer.is_error:
                raise Refused(answer.content[0].text)  # type: ignore[union-attr]

        yield do


@asynccontextmanager
async def cli(db: str) -> AsyncIterator[Do]:
    async def do(wish: Wish, id: str) -> None:
        fields = dict(wish.fields)
        match wish.verb:
            case "set":
                when = fields.pop("when")
                again = when.startswith(("every", "@every", "DTSTART", "RRULE"))
                words = ["every" if again else "at", when, fields.pop("wake_message")]
            case "snooze":
                words = ["snooze", id, fields.pop("wait")]
            case verb:
                words = [verb, id]
        if "payload" in fields:
            fields["payload"] = json.dumps(fields["payload"])
        spelled = {
            "wake_message": "message",
            "idempotency_key": "key",
            "conversation_id": "conversation",
            "timezone": "tz",
            "target": "to",
        }
        for name, value in (fields | fields.pop("policy", {})).items():
            if name != "policy":
                words += [f"--{spelled.get(name, name).replace('_', '-')}", str(value)]
        result = await asyncio.to_thread(CliRunner().invoke, main, [*words, "--db", db])
        if result.exit_code:
            raise Refused(result.stderr)

    yield do


DOORS = {"requests": requests, "sync": sync, "http": http, "mcp": mcp, "cli": cli}
LEFT_OUT = {
    "cli": (),
    "http": (),
    "mcp": (),
    "requests": (),
    "sync": (),
}


async def outcomes(door: Callable[[str], Any], db: str, leave_out: tuple[str, ...]) -> dict[str, Any]:
    """What became of each wish: the rows there are afterwards, or the words it was refused with."""
    found: dict[str, Any] = {}
    async with door(db) as do:
        for wish in WISHES:
            if wish.verb in leave_out:
                continue
            async with build(Settings(db=db)) as aside:
                id = await _id(store_of(aside), wish.on)
            try:
                await do(wish, id)
            except (WakefulError, Refused) as refusal:
                found[wish.name] = refusal
                continue
            async with build(Settings(db=db)) as aside:
                rows = await store_of(aside).find(AlarmQuery())
                found[wish.name] = sorted((_row(row) for row in rows), key=lambda row: str(row["idempotency_key"]))
    return found


async def _id(store: Store, key: str) -> str:
    rows = await store.find(AlarmQuery())
    return next((row.id for row in rows if row.idempotency_key == key), key)


def _row(alarm: Alarm) -> dict[str, Any]:
    row = {name: getattr(alarm, name) for name in alarm.__struct_fields__ if name not in VARIES}
    row["payload_json"] = alarm.payload  # kept as it is written: compared by what it says
    if alarm.cron_expr.startswith("@every"):  # counts from the moment it was set
        for name in ("next_fire_at", "occurrence_at", "policy"):
            del row[name]
    if alarm.cancelled_at is not None:
        row["cancelled_at"] = True
    if alarm.idempotency_key == "brief":
        row["next_fire_at"] = row["occurrence_at"] = None  # a snooze counts from now
    return row


def said(text: str) -> str:
    """Without what each database has of its own, and the moment it was asked."""
    return OWN.sub("…", " ".join(text.split()))


@pytest.mark.parametrize("name", DOORS)
async def test_the_same_call_means_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEFUL_TIMEZONE", "UTC")
    leave_out = LEFT_OUT[name]
    expected = await outcomes(python, str(tmp_path / "python.db"), leave_out)
    got = await outcomes(DOORS[name], str(tmp_path / "door.db"), leave_out)
    assert list(got) == list(expected)
    for wish, one in expected.items():
        if isinstance(one, WakefulError):
            assert isinstance(got[wish], Exception), wish
            assert said(one.message) in said(str(got[wish])), wish
        else:
            assert got[wish] == one, wish


# The WebSocket: list, count, history, stats, failed, get


@pytest.fixture
async def looked_at(tmp_path: Path) -> AsyncIterator[tuple[Visitor, aiohttp.ClientWebSocketResponse]]:
    """A server with one alarm of each fate, and a socket to it."""
    async with serving(str(tmp_path / "wakeful.db")) as visit:
        desk, alarms = Desk(visit.alarms), visit.alarms
        policy: wakeful.PolicyKeywords = {"max_fires": 3}
        await alarms.set("every day at 9am", "brief", label="b", conversation_id="c", payload=[1], policy=policy)
        await alarms.pause((await alarms.set("in 2 hours", "paused")).id, reason="holiday")
        await alarms.cancel((await alarms.set("in 3 hours", "cancelled")).id)
        await alarms.set(delay=0.01, wake_message="done", target="good")
        await alarms.set(delay=0.01, wake_message="failed", target="bad", max_failures=0)
        await desk.settled(2)
        async with visit._session.ws_connect(f"{visit.url}/v1/ws") as socket:
            yield visit, socket


async def asked(socket: aiohttp.ClientWebSocketResponse, method: str, **params: Any) -> Any:
    await socket.send_json({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    answer = await socket.receive_json(timeout=30)
    if "error" in answer:
        raise Refused(answer["error"]["message"])
    return answer["result"]


def plain(value: Any) -> Any:
    return json.loads(views.encode(value))


async def test_the_websocket_tells_what_http_and_python_tell(
    looked_at: tuple[Visitor, aiohttp.ClientWebSocketResponse],
) -> None:
    visit, socket = looked_at
    alarms = visit.alarms
    stats = plain(await alarms.stats())
    assert await asked(socket, "stats") == stats
    assert (await visit("GET", "/v1/stats")).json.items() > stats.items()
    assert await asked(socket, "count") == stats["pending"] == 1
    statuses: tuple[HistoryStatus | Literal[""], ...] = ("", "pending", "completed", "failed", "cancelled")
    for status in statuses:
        history = plain(await alarms.history(status=status))
        assert history, status
        assert await asked(socket, "history", status=status) == history
        assert (await visit("GET", f"/v1/history?status={status}")).json["history"] == history
    failed = plain(await alarms.failed())
    assert await asked(socket, "failed") == (await visit("GET", "/v1/failed")).json["failed"] == failed != []
    for alarm in await alarms.find():
        told = await asked(socket, "get", id=alarm.id)
        over_http = (await visit("GET", f"/v1/alarms/{alarm.id}")).json
        fires = (await visit("GET", f"/v1/alarms/{alarm.id}/fires?limit=5")).json["fires"]
        assert told.pop("fires") == fires == plain([views.FireView.of(fire) for fire in await alarms.fires(alarm.id)])
        assert told | {"now": over_http["now"]} == over_http
        assert told == plain(views.AlarmView.of(alarm)) == plain(views.view(alarm))
    shown = [plain(views.AlarmView.of(alarm)) for alarm in await alarms.active()]
    listed = await asked(socket, "list")
    assert [one.pop("set_at") > one.pop("time_offset") > 0 for one in listed] == [True] * len(shown)
    assert listed == shown != []


@pytest.mark.parametrize(
    ("method", "params", "path"),
    [
        ("get", {"id": NOBODY}, f"/v1/alarms/{NOBODY}"),
        ("history", {"since": "soon"}, "/v1/history?since=soon"),
    ],
)
async def test_the_websocket_refuses_in_the_words_of_http(
    looked_at: tuple[Visitor, aiohttp.ClientWebSocketResponse], method: str, params: dict[str, Any], path: str
) -> None:
    visit, socket = looked_at
    with pytest.raises(Refused) as refusal:
        await asked(socket, method, **params)
    assert str(refusal.value) == (await visit("GET", path)).json["detail"]
