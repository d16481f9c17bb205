"""The list of tools as a client gets it, and errors that teach: what was wrong, that nothing changed, what works."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Literal

import mcp_types as types
import msgspec
from msgspec import Struct

from wakeful.alarm import parse_fire_id
from wakeful.doors.mcp import schemas
from wakeful.doors.mcp.tools import Tools
from wakeful.errors import Conflict, Forbidden, InvalidRequest, NotFound, StoreUnavailable, TooMany, WakefulError
from wakeful.service import Service

FRESH_FOR: Final = 3_600_000  # ms; lists are the same for everyone until the next release
INSTRUCTIONS: Final = """\
wakeful is your alarm clock: it wakes you later, survives restarts, and retries. Use it to remind yourself, follow up, \
check again tomorrow, run something every weekday, or retry after a rate limit.
- Set: alarm_set {"when": "tomorrow at 9am", "wake_message": "Check the grant portal", "key": "grant-portal"}. Give a \
key: repeating the call is then safe. The answer says how the time was understood: check it. Put state into payload.
- Times: "in 20 minutes", "tomorrow at 9am", "every weekday at 9am", cron, ISO with offset. Give timezone when you \
mean local time. Every answer carries `now`.
- Wakes go to a target named by the operator, or to your inbox: alarm_inbox {"wait": 30} waits for the next one.
- After a wake, do the work and call alarm_report with its fire_id: completed, failed (tried again), working (more \
time), snooze. Unreported wakes from the inbox come again.
- alarm_list and alarm_get (with why) tell what is set and what happened; alarm_update and alarm_cancel change it."""

_SET_EXAMPLE: Final = {"when": "tomorrow at 9am", "wake_message": "Check the grant portal", "key": "grant-portal"}


Example = Callable[[Service, str, str, WakefulError, Mapping[str, Any]], Awaitable[str]]


class Entry(Struct, frozen=True, kw_only=True):
    """A tool: what it takes and answers, which scope it needs, and the verb behind it."""

    name: str
    title: str
    about: str
    takes: type[Struct]
    answers: type[Struct]
    scope: Literal["read", "write"]
    run: Callable[[Any, Any], Awaitable[schemas.Result]]
    tools: Callable[..., Any] = Tools  # what `run` is a verb of, made for each caller
    example: Example | None = None  # a call that works; None: see `_example`
    unknown: str = "It is not known whether it was done; alarm_set with a key, and the other tools, may be repeated."
    names: Mapping[str, str] = {}  # of fields, where the tool calls them otherwise than its verb
    destructive: bool = False
    idempotent: bool = False

    def tool(self) -> types.Tool:
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.about,
            input_schema=schemas.schema(self.takes),
            output_schema=schemas.schema(self.answers),
            annotations=types.ToolAnnotations(
                title=self.title,
                read_only_hint=self.scope == "read",
                destructive_hint=self.destructive,
                idempotent_hint=self.idempotent or self.scope == "read",
                open_world_hint=False,
            ),
        )


ENTRIES: Final = (
    Entry(
        name="alarm_set",
        title="Set an alarm",
        about="Set an alarm, reminder, timer or recurring job that wakes you later with a message and your state. Give "
        "a key, so that repeating the call does not set it twice. Example: "
        '{"when": "every weekday at 9am", "timezone": "Europe/Berlin", "wake_message": "Morning brief", '
        '"key": "brief"}',
        takes=schemas.SetArguments,
        answers=schemas.AlarmResult,
        scope="write",
        run=Tools.set,
    ),
    Entry(
        name="alarm_list",
        title="List alarms",
        about='List your alarms, newest first, in short. Example: {"status": "pending", "text": "grant"}',
        takes=schemas.ListArguments,
        answers=schemas.ListResult,
        scope="read",
        run=Tools.list,
    ),
    Entry(
        name="alarm_get",
        title="Look at an alarm",
        about="One alarm: when it fires next, why it was late or did not fire, and its latest fires. With `part`, a "
        "long message, payload, result or the facts behind why, in pieces.",
        takes=schemas.GetArguments,
        answers=schemas.GetResult,
        scope="read",
        run=Tools.get,
    ),
    Entry(
        name="alarm_update",
        title="Change an alarm",
        about="Change an alarm: its time, message, payload, target (action edit), or pause, resume or snooze it. "
        'Examples: {"id": "…", "when": "in 2 hours"}, {"id": "…", "action": "snooze", "for": "1h"}',
        takes=schemas.UpdateArguments,
        answers=schemas.AlarmResult,
        scope="write",
        run=Tools.update,
        destructive=True,
    ),
    Entry(
        name="alarm_cancel",
        title="Cancel an alarm",
        about="Cancel an alarm for good. One that has ended already answers as it is.",
        takes=schemas.CancelArguments,
        answers=schemas.AlarmResult,
        scope="write",
        run=Tools.cancel,
        destructive=True,
        idempotent=True,
    ),
    Entry(
        name="alarm_report",
        title="Report on a wake",
        about="Say what became of a wake. Without it, a wake from the inbox comes again. "
        'Example: {"fire_id": "…", "outcome": "completed", "result": "3 new grants"}',
        takes=schemas.ReportArguments,
        answers=schemas.ReportResult,
        scope="write",
        run=Tools.report,
        idempotent=True,
    ),
    Entry(
        name="alarm_inbox",
        title="Read your inbox",
        about="Take the wakes that wait for you, or wait up to 60 seconds for the next one. They are yours until "
        'report_by: report each with alarm_report. Example: {"wait": 30}',
        takes=schemas.InboxArguments,
        answers=schemas.InboxResult,
        scope="write",
        run=Tools.inbox,
    ),
)
TOOLS: Final[Mapping[str, Entry]] = {entry.name: entry for entry in ENTRIES}


def listed(entries: Iterable[Entry]) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[entry.tool() for entry in entries], ttl_ms=FRESH_FOR, cache_scope="public")


async def lesson(
    service: Service, owner: str, entry: Entry, error: WakefulError, arguments: Mapping[str, Any], now: str
) -> str:
    """An error as its reader can act on it: the fault, that nothing changed, the time, and a call that works."""
    changed = entry.unknown if isinstance(error, StoreUnavailable) else "Nothing was changed."
    example = await (entry.example or _example)(service, owner, entry.name, error, arguments)
    return f"{entry.name}: {error} {changed} It is {now} now. This works: {example}"


async def _example(service: Service, owner: str, name: str, error: WakefulError, arguments: Mapping[str, Any]) -> str:
    if isinstance(error, Forbidden | NotFound | TooMany):
        return call("alarm_list", {"status": "all"})
    if name == "alarm_set":
        return call(name, _SET_EXAMPLE)
    if name == "alarm_inbox":
        return call(name, {"wait": 30, "limit": 5})
    if name == "alarm_list":
        return call(name, {"status": "pending", "limit": 10})
    field = "fire_id" if name == "alarm_report" else "id"
    id = arguments.get(field)
    # Only what the caller named itself, never another alarm of theirs: an example is soon copied.
    if not isinstance(id, str) or not await _exists(service, owner, field, id):
        return call("alarm_list", {"status": "all"})
    if isinstance(error, Conflict):
        return call("alarm_get", {"id": id})
    more: dict[str, Any] = {
        "alarm_update": {"when": "tomorrow at 9am"},
        "alarm_report": {"outcome": "completed", "result": "Checked: 3 new grants"},
    }.get(name, {})
    return call(name, {field: id} | more)


async def _exists(service: Service, owner: str, field: str, id: str) -> bool:
    try:
        if field == "fire_id":
            await service.fire_of(id, owner=owner)
        else:
            await service.get(parse_fire_id(id)[0] if "@" in id else id, owner=owner)
    except (NotFound, InvalidRequest):
        return False
    return True


def call(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name} {msgspec.json.encode(arguments).decode()}"
