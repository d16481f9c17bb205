"""The arguments and answers of the tools, as types. The schemas that agents see are made from them."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from wakeful.alarm.model import AlarmStatus, Cost, FireStatus
from wakeful.alarm.outcome import ReportOutcome
from wakeful.alarm.request import CreateRequest, EditRequest, PolicyRequest, Span
from wakeful.mcp.arguments import arguments, offered

INBOX_LIMIT: Final = 5
LIST_LIMIT: Final = 50
LONGEST_WAIT: Final = 60


def _about(text: str, *examples: Any) -> Meta:
    return Meta(description=text, examples=list(examples) or None)


Payload = Annotated[dict[str, Any], _about("State to get back with the wake, unchanged; at most 128 KiB.", {"page": 3})]
TargetName = Annotated[
    str, _about("The name of a configured target, never a URL. Default: `inbox`, read with alarm_inbox.", "inbox")
]
Failures = Annotated[int, Meta(ge=0, le=1000, description="How often a failed delivery is tried again.")]
AlarmId = Annotated[str, _about("An alarm's id, from alarm_set or alarm_list.")]
Note = Annotated[str, _about("The reason, kept for later.")]


Policy = arguments(
    "Policy",
    PolicyRequest,
    offered(PolicyRequest),
    about="What to do when things go wrong.",
)
EDITABLE: Final = offered(EditRequest)
RENAMED: Final = {"idempotency_key": "key"}  # of a request, as an agent knows it
_FOR_AGENTS: Final = {"payload": Payload, "target": TargetName, "max_failures": Failures, "policy": Policy}
_FIRST: Final = ("when", "wake_message", "idempotency_key", "on_conflict")  # what an agent should read first
SetArguments = arguments(
    "SetArguments",
    CreateRequest,
    (*_FIRST, *(name for name in offered(CreateRequest) if name not in _FIRST)),
    required=_FIRST[:2],
    renamed=RENAMED,
    other=_FOR_AGENTS,
)


class ListArguments(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    status: Annotated[
        Literal["pending", AlarmStatus, "all"],
        _about("`pending`: active or paused."),
    ] = "pending"
    text: Annotated[str, _about("A part of the label or the message, in any case.", "grant")] = ""
    target: Annotated[str, _about("Only alarms of this target.")] = ""
    conversation_id: Annotated[str, _about("Only alarms of this conversation.")] = ""
    limit: Annotated[int, Meta(ge=1, le=LIST_LIMIT, description="The most to return; long ones come in pages.")] = 10
    cursor: Annotated[str, _about("`next_cursor` of the previous page.")] = ""


class GetArguments(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    id: Annotated[str, _about("An alarm's id, or a fire's (<alarm id>@<milliseconds>) for that fire alone.")]
    part: (
        Annotated[
            Literal["wake_message", "payload", "facts", "result"],
            _about("Read one long text in pieces. `result` needs a fire's id."),
        ]
        | UnsetType
    ) = UNSET
    offset: Annotated[int, Meta(ge=0, le=2**31 - 1, description="With `part`: the character to start at.")] = 0


class ActArguments(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    id: AlarmId
    action: Annotated[
        Literal["edit", "pause", "resume", "snooze", "skip"],
        _about(
            "edit: change the fields given. snooze: put the next fire off, with `for`. skip: no next fire, the "
            "series goes on. pause, resume."
        ),
    ] = "edit"
    version: (
        Annotated[int, Meta(ge=1, le=2**31 - 1, description="With edit: only if the alarm is still at this version.")]
        | UnsetType
    ) = UNSET
    wait: Annotated[Span, _about("With snooze: how long from now.", "1h")] | UnsetType = msgspec.field(
        default=UNSET, name="for"
    )
    at: Annotated[str, _about("With skip: the `next_fire_at` meant; no other is skipped.")] | UnsetType = UNSET
    reason: Note | UnsetType = UNSET


UpdateArguments = arguments("UpdateArguments", EditRequest, EDITABLE, other=_FOR_AGENTS, base=ActArguments)


class CancelArguments(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    id: AlarmId
    reason: Note = ""


class ReportArguments(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    fire_id: Annotated[str, _about("`fire_id` of the wake.")]
    outcome: Annotated[
        ReportOutcome,
        _about("failed is tried again by the retry policy; working asks for more time; snooze wakes you again later."),
    ]
    result: Annotated[str, _about("With completed or working: what you did.", "3 new grants, mailed to Ana")] = ""
    reason: Annotated[str, _about("With failed: what went wrong.", "the portal answered 503")] = ""
    wait: Annotated[Span, _about("With snooze: how long.", "15m")] | UnsetType = msgspec.field(
        default=UNSET, name="for"
    )
    cost: Annotated[Cost, _about("What it cost, for budgets of cost.", 0.12)] | UnsetType = UNSET


class InboxArguments(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    wait: Annotated[
        float, Meta(ge=0, le=LONGEST_WAIT, description="Seconds to wait if there is no wake yet.", examples=[30])
    ] = 0
    limit: Annotated[int, Meta(ge=1, le=INBOX_LIMIT, description="The most wakes to take.")] = INBOX_LIMIT


# Answers

Utc = Annotated[str, _about("RFC 3339 in UTC.")]
Local = Annotated[str, _about("The same moment in the alarm's timezone.")]
Words = Annotated[str, _about("The time in words, as it was understood.")]
Cut = Annotated[str, _about("Cut where a note says so.")]


class AgentAlarm(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    id: str
    status: AlarmStatus
    when: Words
    target: str
    next_fire_at: Utc = ""
    next_fire_local: Local = ""
    timezone: str = ""
    cron_expr: str = ""
    label: str = ""
    key: str = ""
    conversation_id: str = ""
    wake_message: Cut = ""
    payload: Any = None
    version: int = 0
    fire_count: int = 0
    failure_count: int = 0
    last_error: str = ""
    paused_reason: str = ""


class AgentFire(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    fire_id: str
    status: FireStatus
    scheduled_for: Utc
    reason: str = ""
    attempts: int = 0
    delivered_at: Utc = ""
    completed_at: Utc = ""
    report_by: Annotated[str, _about("Report until then, or ask for more time with working.")] = ""
    result: Cut = ""
    last_error: Cut = ""


class WakeView(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    fire_id: Annotated[str, _about("Name it in alarm_report.")]
    alarm_id: str
    scheduled_for: Utc
    report_by: Annotated[
        str, _about("Without a report by then it returns to the inbox, as often as a failure is retried.")
    ] = ""
    attempt: Annotated[int, _about("How often it has been handed out.")] = 1
    late_ms: Annotated[int, _about("Milliseconds from its scheduled time until you got it.")]
    missed: Annotated[int, _about("Later fires of its series that were missed and get no wake of their own.")] = 0
    message: Cut
    payload: Any = None
    label: str = ""
    conversation_id: str = ""


class Result(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What every tool answers: what happened in words, and the time it is."""

    summary: str
    now: Utc
    notes: list[str] = []


class AlarmResult(Result, frozen=True, omit_defaults=True, kw_only=True):
    alarm: AgentAlarm
    deduped: Annotated[bool, _about("The key was taken: this is the alarm that has it.")] = False
    similar: Annotated[
        str, _about("The id of an active alarm with the same message and time: cancel one if you meant one.")
    ] = ""
    in_flight: Annotated[
        bool, _about("A delivery is under way or its reader has the wake: that one attempt may still happen.")
    ] = False


class ListResult(Result, frozen=True, omit_defaults=True, kw_only=True):
    alarms: list[AgentAlarm]
    next_cursor: str = ""


class GetResult(Result, frozen=True, omit_defaults=True, kw_only=True):
    why: Annotated[str, _about("Why it fired late, did not fire, or when it will.")] = ""
    alarm: AgentAlarm | UnsetType = UNSET
    next_fires: Annotated[list[str], _about("The next ones in the alarm's timezone.")] = []
    fires: Annotated[list[AgentFire], _about("The latest first.")] = []
    part: str = ""
    text: Annotated[str, _about("The part asked for, from the offset.")] = ""
    next_offset: Annotated[int, _about("Where the part continues; absent at its end.")] = 0


class ReportResult(Result, frozen=True, omit_defaults=True, kw_only=True):
    fire: AgentFire
    alarm: AgentAlarm


class InboxResult(Result, frozen=True, omit_defaults=True, kw_only=True):
    wakes: list[WakeView]


def given(value: Struct) -> dict[str, Any]:
    """The fields that were given, by their names in Python."""
    fields = {name: getattr(value, name) for name in value.__struct_fields__}
    return {name: found for name, found in fields.items() if found is not UNSET}


_ANY: Final = {"anyOf": [{"type": name} for name in ("object", "array", "string", "number", "boolean")]}


def schema(kind: type[Struct]) -> dict[str, Any]:
    """The JSON schema of a type in one piece: no references, no titles."""
    made = msgspec.json.schema(kind)
    parts = made.pop("$defs")
    found: dict[str, Any] = _inlined(made, parts)
    return found


def _inlined(node: Any, parts: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inlined(item, parts) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        more = {name: value for name, value in node.items() if name != "$ref"}
        return _inlined(parts[node["$ref"].rpartition("/")[2]], parts) | more
    shown = {name: _inlined(value, parts) for name, value in node.items() if not _noise(name, value)}
    if "enum" in shown:
        shown.setdefault("type", "string")
    if isinstance(shown.get("properties"), dict):
        shown["properties"] = {name: value or _ANY for name, value in shown["properties"].items()}
    return shown


def _noise(name: str, value: Any) -> bool:
    return (name == "title" and isinstance(value, str)) or (name == "default" and value in ("", [], 0, None, False))
