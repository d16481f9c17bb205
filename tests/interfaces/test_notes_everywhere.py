"""What is said besides of an alarm that was set or changed: every interface says the same, and all of it at once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from mcp import Client
from msgspec import Struct

import wakeful
from tests.dashboard.pages.desk import Desk
from tests.interfaces.mcp_world import Agent
from tests.interfaces.mcp_world import door as mcp_door
from tests.interfaces.test_same_everywhere import said
from tests.interfaces.world import serving
from wakeful.cli import main
from wakeful.model.requests import CreateRequest, EditRequest
from wakeful.process.application import build
from wakeful.rules.wanted import request_of
from wakeful.settings import Settings

ONCE = {"when": "2099-03-29 02:30", "wake_message": "look", "timezone": "Europe/Berlin"}
OFTEN = {"when": "every 5 minutes", "wake_message": "often", "timezone": "UTC", "idempotency_key": "often"}


class Step(Struct, frozen=True):
    name: str
    verb: str
    fields: dict[str, Any] = {}
    on: str = ""


STEPS = (
    Step("a time that clocks leave out", "create", ONCE | {"idempotency_key": "gap"}),
    Step("a plain alarm", "create", ONCE),
    Step("the same again", "create", ONCE),
    Step("a series", "create", OFTEN),
    Step("its time of day alone", "edit", {"when": "11:15"}, on="gap"),
    Step("a pause", "pause", on="often"),
    Step("on again", "resume", on="often"),
    Step("once more, now", "fire", on="often"),
    Step("the end", "cancel", on="often"),
    Step("the key of one that has ended", "create", OFTEN | {"on_conflict": "return"}),
)
Say = Callable[[Step], Awaitable[list[str]]]
_DONE = re.compile(
    r"^(The alarm is set\.|This key was taken: here is the alarm that has it\.|Changed\.|Paused\.|Resumed\.|Cancelled\."
    r"|Fires now\. Its own times stay; the manual fire is listed with the others\.) ?"
)


async def _asked(alarms: Any, step: Step) -> Any:
    """Python: the complete answer of the verb."""
    match step.verb:
        case "create":
            return await alarms.create(request_of(CreateRequest, step.fields))
        case "edit":
            return await alarms.edit(step.on, request_of(EditRequest, step.fields))
        case verb:
            return await getattr(alarms, verb)(step.on)


def _notes(answer: Any) -> list[str]:
    return list(answer.all_notes if isinstance(answer, wakeful.Created) else answer.notes)


@asynccontextmanager
async def python(db: str) -> AsyncIterator[Say]:
    async with wakeful.open(db) as alarms:

        async def say(step: Step) -> list[str]:
            return _notes(await _asked(alarms, step))

        yield say


@asynccontextmanager
async def remote(db: str) -> AsyncIterator[Say]:
    async with serving(db) as visit, wakeful.open(visit.url) as alarms:

        async def say(step: Step) -> list[str]:
            return _notes(await _asked(alarms, step))

        yield say


@asynccontextmanager
async def sync(db: str) -> AsyncIterator[Say]:
    def work(step: Step) -> list[str]:
        with wakeful.open_sync(db) as alarms:
            match step.verb:
                case "create":
                    return _notes(alarms.create(request_of(CreateRequest, step.fields)))
                case "edit":
                    return _notes(alarms.edit(step.on, request_of(EditRequest, step.fields)))
                case verb:
                    return _notes(getattr(alarms, verb)(step.on))

    async def say(step: Step) -> list[str]:
        return await asyncio.to_thread(work, step)

    yield say


@asynccontextmanager
async def http(db: str) -> AsyncIterator[Say]:
    async with serving(db) as visit:

        async def say(step: Step) -> list[str]:
            match step.verb:
                case "create":
                    answer = await visit("POST", "/v1/alarms", step.fields)
                case "edit":
                    answer = await visit("PATCH", f"/v1/alarms/{step.on}", step.fields)
                case "cancel":
                    answer = await visit("DELETE", f"/v1/alarms/{step.on}")
                case verb:
                    answer = await visit("POST", f"/v1/alarms/{step.on}/{verb}")
            assert answer.status < 300, answer
            like = answer.json.get("similar")
            similar = (
                [f"Alarm {like['id']} has the same message and time: cancel one if you meant one."] if like else []
            )
            return [*answer.json.get("notes", []), *similar]

        yield say


@asynccontextmanager
async def mcp(db: str) -> AsyncIterator[Say]:
    async with build(Settings(db=db)) as alarms, Client(mcp_door(alarms)) as client:
        agent = Agent(client)

        async def say(step: Step) -> list[str]:
            fields = {"key" if name == "idempotency_key" else name: value for name, value in step.fields.items()}
            match step.verb:
                case "create":
                    answer = await agent("alarm_set", **fields)
                case "cancel":
                    answer = await agent("alarm_cancel", id=step.on)
                case verb:
                    answer = await agent("alarm_update", id=step.on, action=verb, **fields)
            return list(answer.get("notes", []))

        yield say


@asynccontextmanager
async def cli(db: str) -> AsyncIterator[Say]:
    spelled = {"timezone": "--tz", "idempotency_key": "--key", "on_conflict": "--on-conflict", "when": "--when"}

    async def say(step: Step) -> list[str]:
        fields = dict(step.fields)
        words = [step.verb, step.on]
        if step.verb == "create":
            when = fields.pop("when")
            words = ["every" if when.startswith("every") else "at", when, fields.pop("wake_message")]
        for name, value in fields.items():
            words += [spelled[name], value]
        result = await asyncio.to_thread(CliRunner().invoke, main, [*words, "--db", db])
        assert result.exit_code == 0, result.output
        notes = [line.removeprefix("note: ") for line in result.stderr.splitlines() if line.startswith("note: ")]
        return [note for note in notes if not note.startswith("making a new database")]

    yield say


@asynccontextmanager
async def dashboard(db: str) -> AsyncIterator[Say]:
    async with serving(db) as visit:
        desk = Desk(visit)

        async def say(step: Step) -> list[str]:
            match step.verb:
                case "create":
                    fields = dict(step.fields)
                    if fields.pop("on_conflict", ""):  # the form has no such field: what a plain request says
                        fields["wake_message"] = OFTEN["wake_message"]
                    answer = await desk.post("/new", list(fields.items()))
                case "edit":
                    alarm = await desk.alarms.get(step.on)
                    form = {name: getattr(alarm, name) for name in ("wake_message", "label", "target", "timezone")}
                    form |= {"version": str(alarm.version), "payload": "{}", "conversation_id": "", "step": "save"}
                    answer = await desk.post(f"/alarms/{step.on}/edit", list((form | step.fields).items()))
                case verb:
                    answer = await desk.post(f"/alarms/{step.on}/{verb}")
            cookie = answer.headers["set-cookie"]
            text = bytes.fromhex(cookie.partition("wakeful_said=")[2].partition(";")[0]).decode()
            assert _DONE.match(text), text
            return [_DONE.sub("", text)]

        yield say


INTERFACES = {"remote": remote, "sync": sync, "http": http, "mcp": mcp, "cli": cli, "dashboard": dashboard}


async def _said_at(interface: Callable[[str], Any], db: str) -> dict[str, str]:
    """What is said of each step. Whether a worker runs is up to the interface, not to the answer."""
    async with interface(db) as say:
        return {step.name: said(_without_worker(" ".join(await say(step)))) for step in STEPS}


def _without_worker(text: str) -> str:
    return re.sub(r"No running worker serves '\w+' yet: start one with `wakeful serve`\.", "", text)


@pytest.mark.parametrize("name", INTERFACES)
async def test_every_interface_says_the_same_besides(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAKEFUL_TIMEZONE", "UTC")
    expected = await _said_at(python, str(tmp_path / "python.db"))
    assert "has the same message and time" in expected["the same again"]
    assert "had this key and is cancelled" in expected["the key of one that has ended"]
    assert await _said_at(INTERFACES[name], str(tmp_path / "other.db")) == expected
