"""Every verb is behind every interface, or is left out of it by name, with the reason."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Final

import pytest
from starlette.routing import Route

import wakeful
from wakeful.cli import COMMANDS
from wakeful.http.app import OPERATIONS
from wakeful.mcp.catalogue import TOOLS
from wakeful.python.sync import SyncWakeful
from wakeful.remote import RemoteWakeful
from wakeful.service import Alarms

VERBS: Final = sorted(name for name, verb in vars(Alarms).items() if inspect.iscoroutinefunction(verb))
# Reasons, in the place of an operation, a tool, a command or a page.
SAME: Final = "- says another verb with Python's own arguments"
LONG: Final = "- an answer without an end, for a program"
PART: Final = "- part of what the others answer"
ONE: Final = "- one at a time here"
PAGES: Final = "- the lists and pages show it"
WORKER: Final = "- for whoever does the work, not for who looks"
AGENTS: Final = "- more than an agent needs"

# verb: (HTTP, MCP, command line, dashboard)
BEHIND: Final[dict[str, tuple[str, str, str, str]]] = {
    "set": (SAME, SAME, SAME, SAME),
    "create": ("POST /v1/alarms", "alarm_set", "at", "POST /new"),
    "create_many": ("POST /v1/alarms/batch", "alarm_set", "set", ONE),
    "create_each": ("POST /v1/alarms/batch", "- all or none: an agent repeats the call", "- all or none", ONE),
    "fire": ("POST /v1/alarms/{id}/fire", "alarm_update", "fire", "POST /alarms/{id}/{verb}"),
    "update": (SAME, SAME, SAME, SAME),
    "edit": ("PATCH /v1/alarms/{id}", "alarm_update", "edit", "POST /alarms/{id}/edit"),
    "append": ("POST /v1/alarms/{id}/append", "alarm_update", "append", "- its form has the whole payload"),
    "pause": ("POST /v1/alarms/{id}/pause", "alarm_update", "pause", "POST /alarms/{id}/{verb}"),
    "resume": ("POST /v1/alarms/{id}/resume", "alarm_update", "resume", "POST /alarms/{id}/{verb}"),
    "snooze": ("POST /v1/alarms/{id}/snooze", "alarm_update", "snooze", "POST /alarms/{id}/{verb}"),
    "skip": ("POST /v1/alarms/{id}/skip", "alarm_update", "skip", "POST /alarms/{id}/{verb}"),
    "undo": ("POST /v1/alarms/{id}/undo", "alarm_update", "undo", "POST /alarms/{id}/{verb}"),
    "cancel": ("DELETE /v1/alarms/{id}", "alarm_cancel", "cancel", "POST /alarms/{id}/{verb}"),
    "cancel_many": ("POST /v1/alarms/cancel", "alarm_cancel", "cancel", "POST /bulk/{what}"),
    "move_many": ("POST /v1/alarms/move", "alarm_update", "move", "- the command line and HTTP have it"),
    "cancel_chain": ("DELETE /v1/alarms", AGENTS, "- by its alarms", "- by its alarms"),
    "reset": ("DELETE /v1/alarms", "- an agent names what it cancels", "cancel", "POST /bulk/{what}"),
    "signal": ("POST /v1/signals/{name}", "alarm_signal", "signal", "- programs send signals"),
    "report": ("POST /v1/fires/{fire_id}/report", "alarm_report", "done", "POST /fires/{id}/{verb}"),
    "completed": (SAME, SAME, SAME, SAME),
    "delivery_failed": (SAME, SAME, SAME, WORKER),
    "working": (SAME, SAME, WORKER, WORKER),
    "snooze_fire": (SAME, SAME, WORKER, WORKER),
    "hand_over": ("POST /v1/fires/{fire_id}/hand-over", "alarm_report", "hand-over", WORKER),
    "retry": ("POST /v1/fires/{fire_id}/retry", "alarm_update", "retry", "POST /fires/{id}/{verb}"),
    "retry_at": ("GET /v1/fires/{fire_id}", PART, PART, PAGES),
    "inbox": ("POST /v1/inbox", "alarm_inbox", "wait", WORKER),
    "get": (PART, PART, "show", "GET /alarms/{id}"),
    "fire_of": ("GET /v1/fires/{fire_id}", "alarm_get", "show", "GET /alarms/{id}"),
    "details": ("GET /v1/alarms/{id}", "alarm_get", "- `get` and `why`", "- `get` and `why`"),
    "now": (PART, PART, PART, PART),
    "parse": ("POST /v1/preview", "- alarm_set says how a time was understood", "preview", "POST /new/preview"),
    "find": ("GET /v1/alarms", "alarm_list", "ls", "GET /alarms"),
    "fires": ("GET /v1/fires", "alarm_get", "show", "GET /fires"),
    "pending": (LONG, LONG, "- ls", PAGES),
    "active": (LONG, LONG, "- ls", PAGES),
    "history": ("GET /v1/history", "alarm_history", "history", "GET /fires"),
    "failed": ("GET /v1/failed", "alarm_history", "failed", "GET /fires"),
    "stats": ("GET /v1/stats", AGENTS, "stats", "GET /"),
    "agenda": ("GET /v1/agenda", "alarm_agenda", "agenda", "GET /timeline"),
    "why": ("GET /v1/alarms/{id}/why", "alarm_get", "why", "GET /alarms/{id}"),
    "targets": ("GET /v1/targets", "- a refusal names them", "target", "GET /targets"),
    "overview": ("GET /v1/overview", AGENTS, "top", "GET /"),
    "budget": ("GET /v1/budget", "- its notes say what is used up", "budget", "GET /owners"),
    "recent_events": ("GET /v1/events/recent", AGENTS, "tail", "GET /now/tail"),
    "owner_settings": ("GET /v1/settings", AGENTS, "settings", "- the command line and HTTP have them"),
    "set_owner_settings": (SAME, "alarm_update", "settings", "- the command line and HTTP have them"),
    "change_settings": ("PATCH /v1/settings", SAME, SAME, "- the command line and HTTP have them"),
}


def test_every_verb_is_listed() -> None:
    assert sorted(BEHIND) == VERBS


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_there_without_await_and_from_elsewhere(verb: str) -> None:
    assert callable(getattr(SyncWakeful, verb))
    assert callable(vars(RemoteWakeful)[verb])


async def test_what_is_listed_is_there(tmp_path: Path) -> None:
    there: list[set[str]] = [
        {f"{one.method} {one.path}" for one in OPERATIONS},
        set(TOOLS),
        {name for section in COMMANDS.values() for name in section},
        set(),
    ]
    async with wakeful.open(tmp_path / "w.db") as alarms:
        for route in alarms.asgi().routes:
            if isinstance(route, Route):
                there[3] |= {f"{method} {route.path}" for method in route.methods or ()}
    for verb, places in BEHIND.items():
        for known, place in zip(there, places, strict=True):
            assert place.startswith("- ") or place in known, (verb, place)
