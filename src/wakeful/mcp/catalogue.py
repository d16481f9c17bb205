"""The list of tools, and error answers: what was wrong, that nothing changed, and what to call next."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import mcp_types as types
import msgspec
from msgspec import Struct

from wakeful.errors import (
    Forbidden,
    InvalidRequest,
    InvalidSchedule,
    NotFound,
    StoreUnavailable,
    TooMany,
    WakefulError,
)
from wakeful.mcp import schemas
from wakeful.mcp.agent_views import cut
from wakeful.mcp.schemas import argument_schema, schema
from wakeful.mcp.tools import Tools
from wakeful.model.alarm import INBOX, is_fire_id
from wakeful.rules.wanted import decode
from wakeful.service import Alarms

FRESH_FOR: Final = 3_600_000  # ms; lists are the same for everyone until the next release
TARGETS_NAMED: Final = 10
TARGET_NAME: Final = 40
HINT: Final = 2000  # characters: a call with a longer message or payload is not repeated to its caller
_ITEM: Final = re.compile(r"alarms\[([0-9]+)\]")
INSTRUCTIONS: Final = """\
wakeful is your alarm clock: it wakes you later, survives restarts, and retries. Use it to remind yourself, follow up, \
check again tomorrow, run something every weekday, or retry after a rate limit.
- Set: alarm_set {"when": "tomorrow at 9am", "wake_message": "Check the grant portal", "key": "grant-portal"}. Give a \
key: repeating the call is then safe, and the key is accepted wherever an id is. Check in the answer how the time was \
understood, and read `notes`. Put state into payload. Several at once: "alarms".
- Times: "in 20 minutes", "tomorrow at 9am", "every weekday at 9am", cron, ISO with offset. Give timezone when you \
mean local time: without it the server's counts, usually UTC. Every answer carries `now`.
- Wakes go to a target named by the operator, or to your inbox: alarm_inbox {"wait": 4} waits for the next one; \
call it again while it is empty. Wait longer only if your client does: many give up after 5 seconds.
- After a wake, do the work and call alarm_report with its fire_id: completed, failed (tried again), working (more \
time), snooze. Unreported wakes from the inbox come again. Alarms you set because of a wake: give its fire_id as \
parent_fire.
- alarm_agenda: what is next. alarm_history: what happened, what you missed. alarm_list and alarm_get (with why) show \
what is set; alarm_update and alarm_cancel change it."""


Hint = Callable[[Alarms, "ToolEntry", WakefulError, Mapping[str, Any]], Awaitable[str]]


class ToolEntry(Struct, frozen=True, kw_only=True):
    """A tool: what it takes and answers, which scope it needs, and the verb behind it."""

    name: str
    title: str
    about: str
    takes: type[Struct]
    answers: type[Struct]
    scope: Literal["read", "write"]
    run: Callable[[Any, Any], Awaitable[schemas.Result]]
    tools: Callable[..., Any] = Tools  # what `run` is a verb of, made for each caller
    example: Hint | None = None  # what an error tells to call next; None: see `_hint`
    unknown: str = "It may or may not have been done; alarm_set with a key, and the other tools, may be repeated."
    from_host: tuple[str, ...] = ()  # the arguments that its caller's host may give in its place
    names: Mapping[str, str] = {}  # of fields, where the tool calls them otherwise than its verb
    destructive: bool = False
    idempotent: bool = False
    for_wakes: bool = False  # also called with the token of a wake, within its chain
    takes_wakes: bool = False  # it changes nothing but who has a wake in hand

    @property
    def harmless(self) -> bool:
        return self.scope == "read" or self.takes_wakes

    def tool(self) -> types.Tool:
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.about,
            input_schema=argument_schema(self.takes),
            output_schema=schema(self.answers),
            annotations=types.ToolAnnotations(
                title=self.title,
                read_only_hint=self.scope == "read",
                destructive_hint=self.destructive,
                idempotent_hint=self.idempotent or self.scope == "read",
                open_world_hint=False,
            ),
        )


ENTRIES: Final = (
    ToolEntry(
        name="alarm_set",
        title="Set an alarm",
        about="Set an alarm, reminder, timer or recurring job that wakes you later with a message and your state; or "
        "up to 100 at once. Needs when and wake_message. "
        'Example: {"when": "every weekday at 9am", "timezone": "Europe/Berlin", "wake_message": "Morning brief", '
        '"key": "brief"}',
        takes=schemas.SetArguments,
        answers=schemas.SetResult,
        scope="write",
        run=Tools.set,
        for_wakes=True,
        from_host=("target", "conversation_id", "timezone"),
        names=schemas.RENAMED,
    ),
    ToolEntry(
        name="alarm_list",
        title="List alarms",
        about="List your alarms, newest first, in short.",
        takes=schemas.ListArguments,
        answers=schemas.ListResult,
        scope="read",
        run=Tools.list,
        for_wakes=True,
    ),
    ToolEntry(
        name="alarm_agenda",
        title="What is next",
        about="What fires next, soonest first: each coming fire, those of series too.",
        takes=schemas.AgendaArguments,
        answers=schemas.AgendaResult,
        scope="read",
        run=Tools.agenda,
    ),
    ToolEntry(
        name="alarm_history",
        title="What happened",
        about="What happened, newest first: outcomes, how late, what was missed, what waits. "
        'What did I miss: {"since": "8h"}',
        takes=schemas.HistoryArguments,
        answers=schemas.HistoryResult,
        scope="read",
        run=Tools.history,
    ),
    ToolEntry(
        name="alarm_get",
        title="Show an alarm",
        about="One alarm: when it fires next, why it was late or did not fire, its latest fires.",
        takes=schemas.GetArguments,
        answers=schemas.GetResult,
        scope="read",
        run=Tools.get,
        for_wakes=True,
    ),
    ToolEntry(
        name="alarm_update",
        title="Change an alarm",
        about="Change an alarm, or move many: edit, move, pause, resume, snooze, skip, undo, fire now, retry. "
        'Examples: {"id": "…", "when": "10am"}, {"id": "…", "action": "snooze", "for": "1h"}',
        takes=schemas.UpdateArguments,
        answers=schemas.AlarmResult,
        scope="write",
        run=Tools.update,
        destructive=True,
    ),
    ToolEntry(
        name="alarm_cancel",
        title="Cancel alarms",
        about="Cancel: by id, by ids, or all pending ones by text, conversation, target or time.",
        takes=schemas.CancelArguments,
        answers=schemas.CancelResult,
        scope="write",
        run=Tools.cancel,
        for_wakes=True,
        destructive=True,
        idempotent=True,
    ),
    ToolEntry(
        name="alarm_signal",
        title="Send a signal",
        about="Say that something happened, to alarms set with it as policy.unless or or_when. Not kept for "
        "later ones.",
        takes=schemas.SignalArguments,
        answers=schemas.SignalResult,
        scope="write",
        run=Tools.signal,
        destructive=True,
    ),
    ToolEntry(
        name="alarm_report",
        title="Report on a wake",
        about="Report the outcome of a wake. Without it, a wake from the inbox comes again. "
        'Example: {"fire_id": "…", "outcome": "completed", "result": "3 new grants"}',
        takes=schemas.ReportArguments,
        answers=schemas.ReportResult,
        scope="write",
        run=Tools.report,
        for_wakes=True,
        idempotent=True,
    ),
    ToolEntry(
        name="alarm_inbox",
        title="Read your inbox",
        about="Take the wakes that wait for you, or wait up to 60 seconds for the next one. They are yours until "
        "report_by: report each with alarm_report, or in the next call with `done`.",
        takes=schemas.InboxArguments,
        answers=schemas.InboxResult,
        scope="write",
        run=Tools.inbox,
        from_host=("target", "conversation_id"),
        takes_wakes=True,
    ),
)
TOOLS: Final[Mapping[str, ToolEntry]] = {entry.name: entry for entry in ENTRIES}


def listed(
    entries: Iterable[ToolEntry], *, timezone: str, target: str, targets: Sequence[str]
) -> types.ListToolsResult:
    """The tools as one caller reads them: with the zone and target that count without one, and all it may name."""
    own = {
        "timezone": f"The IANA time zone of the time. Default: {timezone}.",
        "target": _targets_named(targets, target),
    }
    tools = [_described(entry.tool(), own) if entry.name == "alarm_set" else entry.tool() for entry in entries]
    return types.ListToolsResult(tools=tools, ttl_ms=FRESH_FOR, cache_scope="private")


def _described(tool: types.Tool, own: Mapping[str, str]) -> types.Tool:
    """A tool with descriptions of its own for some arguments. The schema is everyone's: what differs is copied."""
    arguments = tool.input_schema["properties"]
    changed = {name: {**arguments[name], "description": text} for name, text in own.items()}
    return tool.model_copy(update={"input_schema": {**tool.input_schema, "properties": {**arguments, **changed}}})


def _targets_named(targets: Sequence[str], usual: str) -> str:
    named = ", ".join([f"`{name}`" for name in targets if len(name) <= TARGET_NAME][:TARGETS_NAMED])
    more = " and others" if len(targets) > TARGETS_NAMED else ""
    read = ", read with alarm_inbox" if usual == INBOX else ""
    return f"Where the wake goes: {named}{more}. Default: `{cut(usual, TARGET_NAME)}`{read}."


async def lesson(alarms: Alarms, entry: ToolEntry, error: WakefulError, arguments: Mapping[str, Any], now: str) -> str:
    """Return an error the agent can act on: what was wrong, that nothing changed, the time, and what to call next."""
    changed = entry.unknown if isinstance(error, StoreUnavailable) else "Nothing was changed."
    hint = await (entry.example or _hint)(alarms, entry, error, arguments)
    return f"{entry.name}: {error} {changed} It is {now} now. {hint}"


async def _hint(alarms: Alarms, entry: ToolEntry, error: WakefulError, arguments: Mapping[str, Any]) -> str:
    """Suggest the caller's own call with the error corrected, or a read-only call; never an invented one."""
    if again := repaired(entry, error, arguments):
        return again
    if isinstance(error, Forbidden | NotFound | TooMany):
        return look("alarm_list", {"status": "all"})
    if corrected := correction(entry, error, arguments, when="when"):
        return corrected
    id = arguments.get("fire_id" if entry.name == "alarm_report" else "id")
    # Only what the caller named itself, never another alarm of theirs: an example is soon copied.
    if isinstance(id, str) and await _exists(alarms, id):
        return look("alarm_get", {"id": id})
    return look("alarm_list", {"status": "all"})


def repaired(entry: ToolEntry, error: WakefulError, arguments: Mapping[str, Any]) -> str:
    """Return the call with what was refused said otherwise, in whichever of its fields, also for one of several."""
    said, at = _part_at_fault(error, arguments)
    if not error.repair:
        return ""
    again = _changed(said, error.repair)
    if at is not None:
        several = list(arguments["alarms"])
        again = {**arguments, "alarms": [*several[:at], again, *several[at + 1 :]]}
    again_said = call(entry.name, again)
    return f"Your call corrected: {again_said}" if len(again_said) <= HINT else ""


def _part_at_fault(error: WakefulError, arguments: Mapping[str, Any]) -> tuple[Mapping[str, Any], int | None]:
    """The arguments that an error is about: all of them, or those of one alarm of several, and which it is."""
    item, several = _ITEM.match(error.field), arguments.get("alarms")
    if item is None or not isinstance(several, list):
        return arguments, None
    one = several[int(item[1])]
    return (one, int(item[1])) if isinstance(one, Mapping) else ({}, None)


def _changed(said: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**said, **changes}
    if isinstance(changes.get("policy"), Mapping):
        merged["policy"] = {**said.get("policy", {}), **changes["policy"]}
    return {name: value for name, value in merged.items() if value is not None}


def correction(entry: ToolEntry, error: WakefulError, arguments: Mapping[str, Any], *, when: str) -> str:
    """Return the call with a corrected time or, for a read-only call, without the wrong argument."""
    # Of several meanings none is taken: the refusal names them.
    if isinstance(error, InvalidSchedule) and len(error.meant) == 1 and error.field == when and when in arguments:
        again = call(entry.name, {**arguments, when: error.meant[0]})
        return f"Your call with another {when}: {again}" if len(again) <= HINT else ""
    if entry.harmless and error.field in arguments:
        rest = {name: value for name, value in arguments.items() if name != error.field}
        with contextlib.suppress(WakefulError, TypeError, ValueError):
            decode(msgspec.json.encode(rest), entry.takes)
            return f"Your call without {error.field}: {call(entry.name, rest)}"
    return ""


def look(name: str, arguments: Mapping[str, Any]) -> str:
    return f"To check: {call(name, arguments)}"


async def _exists(alarms: Alarms, id: str) -> bool:
    try:
        if is_fire_id(id):
            await alarms.fire_of(id)
        else:
            await alarms.get(id)
    except (NotFound, InvalidRequest):
        return False
    return True


def call(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name} {msgspec.json.encode(arguments).decode()}"
