"""The same wishes through every interface: MCP, HTTP, Python, and Python elsewhere.

A wish is said once, as an agent says it: the name of a tool and its arguments. The other interfaces say the same in
their own way, and tell the answer with the same names.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

import aiohttp
import msgspec
import uvicorn
from mcp import Client

import wakeful
from tests.interfaces.mcp_world import Agent, door, taught
from wakeful.errors import WakefulError
from wakeful.http.http_server import HttpServer
from wakeful.model.alarm import Alarm, Fire
from wakeful.model.requests import CreateRequest, ReportRequest
from wakeful.process.application import LocalWakeful
from wakeful.rules.wanted import request_of
from wakeful.service import Changed, Created, TakenWake, views
from wakeful.service.inbox import missed

Said = dict[str, Any]


class Refused(Exception):
    """A door said no. `again`: the same call with one thing corrected, if the door knows it."""

    def __init__(self, text: str, again: Said | None) -> None:
        super().__init__(text)
        self.text = text
        self.again = again


class WishInterface(Protocol):
    async def __call__(self, tool: str, **arguments: Any) -> Said: ...

    async def payload(self, key: str) -> str: ...


def corrected(arguments: Said, repair: Mapping[str, Any], at: int | None = None) -> Said | None:
    """A call with the fields of a repair, as docs/reference/errors.md says; `at`: of which of several alarms."""
    if not repair:
        return None
    if at is not None:
        several = list(arguments["alarms"])
        return arguments | {"alarms": [*several[:at], corrected(several[at], repair), *several[at + 1 :]]}
    both = arguments | dict(repair)
    if isinstance(repair.get("policy"), Mapping):
        both["policy"] = arguments.get("policy", {}) | repair["policy"]
    return {name: value for name, value in both.items() if value is not None}


def item_of(field: str) -> int | None:
    return int(field[len("alarms[") : field.index("]")]) if field.startswith("alarms[") else None


class McpDoor:
    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    async def __call__(self, tool: str, **arguments: Any) -> Said:
        result = await self.agent.client.call_tool(tool, arguments)
        if not result.is_error:
            return await self.agent.checked(tool, result)
        text: str = result.content[0].text  # type: ignore[union-attr]  # all our contents are texts
        assert "Nothing was changed." in text
        hinted, again = taught(text)
        raise Refused(text.removeprefix(f"{tool}: "), again if hinted == tool else None)

    async def payload(self, key: str) -> str:
        """In at most four calls, or as a resource in one."""
        text, offset, calls = "", 0, 0
        while offset or not text:
            arguments = {"id": key, "part": "payload", "offset": offset, "length": 32_768}
            piece = (await self.agent.client.call_tool("alarm_get", arguments)).structured_content
            text, offset, calls = text + piece["text"], piece.get("next_offset", 0), calls + 1
        assert calls <= 4
        [content] = (await self.agent.client.read_resource(f"alarm://{key}/payload")).contents
        assert content.text == text  # type: ignore[union-attr]
        return text


class HttpDoor:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def __call__(self, tool: str, **arguments: Any) -> Said:
        try:
            return await getattr(self, f"_{tool}")(dict(arguments))  # type: ignore[no-any-return]
        except _Problem as problem:
            told = problem.told
            again = corrected(arguments, told.get("repair", {}), item_of(told.get("field", "")))
            raise Refused(told["detail"], again) from None

    async def payload(self, key: str) -> str:
        async with self._session.get(f"{self._url}/v1/alarms/{key}") as response:
            told = msgspec.json.decode(await response.read(), type=dict[str, msgspec.Raw])
        return bytes(told["payload"]).decode()

    async def _ask(self, method: str, path: str, body: Any = None, **query: Any) -> Said:
        headers = {} if body is None else {"content-type": "application/json"}
        sent = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        url = f"{self._url}/v1{path}"
        async with self._session.request(method, url, params=query, data=sent, headers=headers) as response:
            told: Said = await response.json(content_type=None)
            if response.status >= 400:
                raise _Problem(told)
            return told

    async def _alarm_set(self, said: Said) -> Said:
        if "alarms" in said:
            several = said.pop("alarms")
            body = {"alarms": [_keyed(said | one) for one in several]}
            made = (await self._ask("POST", "/alarms/batch", body, all_or_none="true"))["results"]
            notes = [note for one in made for note in one.get("notes", ())]
            return {"ids": [one["alarm"]["id"] for one in made], "notes": notes}
        return _about(await self._ask("POST", "/alarms", _keyed(said)))

    async def _alarm_update(self, said: Said) -> Said:
        id, action = said.pop("id"), said.pop("action", "edit")
        match action:
            case "edit":
                return _about(await self._ask("PATCH", f"/alarms/{id}", said))
            case "retry":
                return {"fire_id": (await self._ask("POST", f"/fires/{id}/retry"))["id"]}
        return _about(await self._ask("POST", f"/alarms/{id}/{action}", said or None))

    async def _alarm_cancel(self, said: Said) -> Said:
        if "id" in said:
            done = _about(await self._ask("DELETE", f"/alarms/{said['id']}", reason=said.get("reason", "")))
            return done | {"cancelled": int(done["alarm"]["status"] == "cancelled")}
        done = await self._ask("POST", "/alarms/cancel", said)
        return done | ({"would_cancel": len(done["alarms"])} if done["dry_run"] else {})

    async def _alarm_agenda(self, said: Said) -> Said:
        told = await self._ask("GET", "/agenda", **said)
        return {"agenda": [{"at": one["at"]} | {"label": one["alarm"].get("label")} for one in told["agenda"]]}

    async def _alarm_history(self, said: Said) -> Said:
        return await self._ask("GET", "/history", **said)

    async def _alarm_get(self, said: Said) -> Said:
        return {"why": (await self._ask("GET", f"/alarms/{said['id']}/why"))["summary"]}

    async def _alarm_inbox(self, said: Said) -> Said:
        done = said.pop("done", None)
        told = await self._ask("POST", "/inbox", {"done": done} if done else None, **said)
        for wake in told["wakes"]:
            if (before := wake.get("previous")) is not None:
                wake["previous"] = f"{before['status']}: {before['result']}"
        return told

    async def _alarm_report(self, said: Said) -> Said:
        return {"fire": await self._ask("POST", f"/fires/{said.pop('fire_id')}/report", said)}

    async def _alarm_signal(self, said: Said) -> Said:
        return await self._ask("POST", f"/signals/{said.pop('name')}", said or None)


class _Problem(Exception):
    def __init__(self, told: Said) -> None:
        super().__init__(told["detail"])
        self.told = told


def _keyed(said: Said) -> Said:
    return {"idempotency_key" if name == "key" else name: value for name, value in said.items()}


def _about(told: Said) -> Said:
    """An answer about one alarm, which HTTP tells with the alarm's own fields around it."""
    return {"alarm": told, "notes": told.get("notes", []), "deduped": told.get("deduped", False)}


class PythonInterface:
    """A clock of one's own, or one that speaks to a server: the same verbs."""

    def __init__(self, alarms: wakeful.Wakeful) -> None:
        self._clock = alarms

    async def __call__(self, tool: str, **arguments: Any) -> Said:
        try:
            return await getattr(self, f"_{tool}")(dict(arguments))  # type: ignore[no-any-return]
        except WakefulError as error:
            raise Refused(str(error), corrected(arguments, error.repair, item_of(error.field))) from None

    async def payload(self, key: str) -> str:
        return (await self._clock.get(key)).payload_json

    async def _alarm_set(self, said: Said) -> Said:
        if "alarms" in said:
            several = said.pop("alarms")
            many = await self._clock.create_many([request_of(CreateRequest, _keyed(said | one)) for one in several])
            return {"ids": [one.alarm.id for one in many], "notes": [note for one in many for note in one.notes]}
        made = await self._clock.create(request_of(CreateRequest, _keyed(said)))
        return _told(made.alarm, made.all_notes) | {"deduped": made.deduped}

    async def _alarm_update(self, said: Said) -> Said:
        id, action, alarms = said.pop("id"), said.pop("action", "edit"), self._clock
        match action:
            case "edit":
                changed = await alarms.update(id, **said)
                return _told(changed.alarm, changed.notes)
            case "retry":
                return {"fire_id": (await alarms.retry(id)).fire.id}
            case "snooze":
                said = {"wait" if name == "for" else name: value for name, value in said.items()}
        done: Changed | Created = await getattr(alarms, action)(id, **said)
        return _told(done.alarm, done.notes)

    async def _alarm_cancel(self, said: Said) -> Said:
        if "id" in said:
            done = await self._clock.cancel(said.pop("id"), **said)
            return _told(done.alarm, done.notes) | {"cancelled": int(done.alarm.status == "cancelled")}
        found = await self._clock.cancel_many(said.pop("ids", ()), **said)
        number = len(found.alarms)
        return {"alarms": found.alarms, "would_cancel" if found.dry_run else "cancelled": number}

    async def _alarm_agenda(self, said: Said) -> Said:
        found = await self._clock.agenda(**said)
        return {"agenda": [{"at": at.isoformat(), "label": alarm.label} for at, alarm in found]}

    async def _alarm_history(self, said: Said) -> Said:
        found = await self._clock.history(**said)
        return {"history": [json.loads(views.encode(entry)) for entry in found], "missed": missed(found)}

    async def _alarm_get(self, said: Said) -> Said:
        return {"why": (await self._clock.why(said["id"])).summary}

    async def _alarm_inbox(self, said: Said) -> Said:
        found = await self._clock.inbox(**said)
        return {"wakes": [_wake(taken) for taken in found], "notes": found.notes}

    async def _alarm_signal(self, said: Said) -> Said:
        done = await self._clock.signal(said["name"], said.get("payload"))
        return {"cancelled": len(done.cancelled), "fired": len(done.fired)}

    async def _alarm_report(self, said: Said) -> Said:
        done = await self._clock.report(said.pop("fire_id"), request_of(ReportRequest, said))
        return {"fire": _plain(views.fire_view(done.fire))}


def _plain(value: Any) -> Said:
    found: Said = json.loads(views.encode(value))
    return found


def _told(alarm: Alarm, notes: list[str]) -> Said:
    return {"alarm": _plain(views.view(alarm)), "notes": notes}


def _wake(taken: TakenWake) -> Said:
    alarm: Alarm
    fire: Fire
    alarm, fire = taken
    found = _plain(views.handed_out(taken)) | {"fire_id": fire.id, "alarm_id": alarm.id}
    if taken.previous is not None:
        found["previous"] = f"{taken.previous.status}: {taken.previous.result}"
    payload = json.loads(alarm.payload_json)
    return found | {"message": alarm.wake_message, "payload": payload, "conversation_id": alarm.conversation_id}


@asynccontextmanager
async def listening(alarms: wakeful.Wakeful) -> AsyncIterator[str]:
    """The HTTP door of a clock on a port of its own; no dispatcher runs, so that the test says when one does."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()  # who comes before it has started waits
        config = uvicorn.Config(alarms.asgi(), log_config=None, lifespan="off", ws="none", timeout_graceful_shutdown=5)
        server = HttpServer(config)
        running = asyncio.create_task(server.serve(sockets=[bound]))
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.stop()
            await running


@asynccontextmanager
async def mcp(alarms: LocalWakeful) -> AsyncIterator[WishInterface]:
    async with Client(door(alarms)) as client:
        yield McpDoor(Agent(client))


@asynccontextmanager
async def http(alarms: LocalWakeful) -> AsyncIterator[WishInterface]:
    async with listening(alarms) as url, aiohttp.ClientSession() as session:
        yield HttpDoor(session, url)


@asynccontextmanager
async def python(alarms: LocalWakeful) -> AsyncIterator[WishInterface]:
    yield PythonInterface(alarms)


@asynccontextmanager
async def elsewhere(alarms: LocalWakeful) -> AsyncIterator[WishInterface]:
    async with listening(alarms) as url, wakeful.open(url) as remote:
        yield PythonInterface(remote)


INTERFACES = (mcp, http, python, elsewhere)
