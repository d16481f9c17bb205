"""The arguments and answers of the tools as types, and the JSON schemas that agents see, as short as they can be."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from wakeful.model.alarm import AlarmStatus, CatchUp, Cost, FireStatus
from wakeful.model.outcome import ReportOutcome
from wakeful.model.requests import AGENTS, Count, CreateRequest, EditRequest, Moment, OnConflict, PolicyRequest, Span
from wakeful.rules.signalling import Effect
from wakeful.service.history import HistoryStatus


def given(value: Struct) -> dict[str, Any]:
    """The fields that were given, by their names in Python."""
    fields = {name: getattr(value, name) for name in value.__struct_fields__}
    return {name: found for name, found in fields.items() if found is not UNSET}


_ANY: Final = {"anyOf": [{"type": name} for name in ("object", "array", "string", "number", "boolean")]}


@cache
def schema(kind: type[Struct]) -> dict[str, Any]:
    """The JSON schema of a type in one piece: no references, no titles. Made once: nobody changes it."""
    made = msgspec.json.schema(kind)
    parts = made.pop("$defs")
    found: dict[str, Any] = _inlined(made, parts)
    return found


@cache
def argument_schema(kind: type[Struct]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments: null for what need not be given, and objects also as JSON in a text.

    In OpenAI's strict mode every argument is required and no object has fields that its schema does not name: there
    null says that one is not given, and a text is the only way to give a payload.
    """
    return _with_nulls(schema(kind), nullable=True)


def _with_nulls(shape: Mapping[str, Any], **marks: Any) -> dict[str, Any]:
    """`marks`: what clients that do not read types of several look for."""
    required = shape.get("required", ())
    fields = {
        name: field if name in required else _or_null(field) | marks for name, field in shape["properties"].items()
    }
    return {**shape, "properties": fields}


def _or_null(shape: Mapping[str, Any]) -> dict[str, Any]:
    if shape.get("type") == "object" and "properties" not in shape:
        words = {name: value for name, value in shape.items() if name not in ("type", "additionalProperties")}
        return {**words, "anyOf": [{"type": name} for name in ("object", "string", "null")]}
    if "properties" in shape:
        shape = _with_nulls(shape)
    values = {"enum": [*shape["enum"], None]} if "enum" in shape else {}
    return {**shape, **values, "type": [shape["type"], "null"]}


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
    kinds = shown.get("anyOf")
    if isinstance(kinds, list) and all(set(kind) == {"type"} for kind in kinds):
        shown["type"] = _one_type([kind["type"] for kind in shown.pop("anyOf")])
    if isinstance(shown.get("properties"), dict):
        shown["properties"] = {name: value or _ANY for name, value in shown["properties"].items()}
    return shown


def _one_type(kinds: list[str]) -> Any:
    """Return the type that agents see. A text says whatever a number does, and some clients know only single types."""
    return "string" if set(kinds) == {"string", "number"} else kinds


# What an agent does not need to be told in advance: it costs context in every conversation, and our refusals say it.
_SAID_BY_REFUSALS: Final = frozenset({"minLength", "maxLength", "minItems", "minimum", "exclusiveMinimum"})
_NO_BOUND: Final = 2**31 - 1


def _noise(name: str, value: Any) -> bool:
    if name in _SAID_BY_REFUSALS or (name == "maximum" and value == _NO_BOUND):
        return not isinstance(value, dict)
    if name in ("default", "required"):
        return value in ("", [], {}, 0, None, False)
    return name == "title" and isinstance(value, str)


def arguments(
    name: str,
    request: type[Struct],
    fields: Collection[str],
    *,
    required: Collection[str] = (),
    renamed: Mapping[str, str] | None = None,
    other: Mapping[str, Any] | None = None,
    base: type[Struct] | None = None,
    about: str = "",
) -> Any:
    """A type with these fields of a request. What need not be said is left out; null is the same (`as_meant`).

    `renamed`: the name an agent knows a field by. `other`: types that are different for an agent. `base`: what there is
    besides.
    """
    kinds = {field: _said(kind) for field, kind in get_type_hints(request, include_extras=True).items()}
    kinds |= other or {}
    names = {field: (renamed or {}).get(field, field) for field in fields}
    said: list[Any] = [
        (names[field], kinds[field]) if field in required else (names[field], kinds[field] | UnsetType, UNSET)
        for field in fields
    ]
    return msgspec.defstruct(
        name,
        said,
        bases=(base or Struct,),
        frozen=True,
        forbid_unknown_fields=True,
        kw_only=True,
        namespace={"__doc__": about},
    )


def as_meant(arguments: Mapping[str, Any], kind: type[Struct]) -> dict[str, Any]:
    """The arguments that are given, where a client says so in its own way.

    Null means that one is not given: some clients send it for each that nobody named. A text that is JSON for what is
    asked for, such as "3" or "[\\"a\\"]", is that. Only for arguments of this type: in a payload, and in the policy of
    an edit, null is a value and a text is a text.
    """
    hints = _hints(kind)
    return {
        name: _meant(value, hints[name]) if name in hints else value
        for name, value in arguments.items()
        if value is not None or name not in hints
    }


@cache
def _hints(kind: type[Struct]) -> dict[str, tuple[Any, ...]]:
    """The arguments of a type, each with the types that it may have."""
    hints = get_type_hints(kind)
    return {
        name: _alternatives(hints[field])
        for name, field in zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True)
    }


def _alternatives(hint: Any) -> tuple[Any, ...]:
    if get_origin(hint) in (Union, UnionType):
        return tuple(one for part in get_args(hint) for one in _alternatives(part))
    return (hint,)


def _meant(value: Any, kinds: tuple[Any, ...]) -> Any:
    if isinstance(value, str):
        value = _read_text(value, kinds)
    if isinstance(value, Mapping) and (inner := _struct_of(kinds)) is not None:
        return as_meant(value, inner)
    if isinstance(value, list) and (items := next((get_args(kind) for kind in kinds if get_origin(kind) is list), ())):
        return [_meant(item, _alternatives(items[0])) for item in value]
    return value


def _read_text(text: str, kinds: tuple[Any, ...]) -> Any:
    """What a text says where none is asked for; the text itself where it says nothing of that kind."""
    plain = {get_origin(kind) or kind for kind in kinds}
    if str in plain or Literal in plain:
        return text
    if list[str] in kinds and not text.lstrip().startswith("["):
        return [text]  # one of several, named alone
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return text
    accepted = plain | ({dict} if _struct_of(kinds) else set()) | ({int} if float in plain else set())
    return found if type(found) in accepted else text


def _struct_of(kinds: tuple[Any, ...]) -> type[Struct] | None:
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Struct)), None)


def offered(request: type[Struct]) -> tuple[str, ...]:
    """The fields of a request that agents get, as `about` marks them."""
    hints = get_type_hints(request, include_extras=True)
    return tuple(name for name in request.__struct_fields__ if _is_offered(hints[name]))


def _is_offered(kind: Any) -> bool:
    words = get_args(kind)[1:] if get_origin(kind) is Annotated else ()
    return not any(meta.extra == {AGENTS: False} for meta in words if isinstance(meta, msgspec.Meta))


def _said(kind: Any) -> Any:
    """The type of a field without its None, with its words."""
    if get_origin(kind) is not Annotated:
        return kind
    inner, *words = get_args(kind)
    if get_origin(inner) is Literal:
        return kind
    some = tuple(part for part in get_args(inner) or (inner,) if part is not type(None))
    return Annotated[(Union[some], *words)]  # noqa: UP007 (made at run time)


INBOX_LIMIT: Final = 5
LIST_LIMIT: Final = 50
SET_LIMIT: Final = 100
LONGEST_WAIT: Final = 60
LONGEST_PIECE: Final = 32_768


def _about(text: str, *examples: Any) -> Meta:
    return Meta(description=text, examples=list(examples) or None)


Payload = Annotated[dict[str, Any], _about("State to get back with the wake; at most 128 KiB.")]
TargetName = Annotated[
    str, _about("The name of a configured target, never a URL. Default: `inbox`, read with alarm_inbox.")
]
Zone = Annotated[str, _about("The IANA time zone of the time. Default: the server's, usually UTC.")]
Failures = Annotated[int, Meta(ge=0, le=1000, description="How often a failed delivery is tried again.")]
Parent = Annotated[str, _about("The `fire_id` of the wake that made you set this: it bounds chains.")]
AlarmId = Annotated[str, _about("An alarm's id or key.")]
Note = Annotated[str, _about("The reason, kept for later.")]
Since = Annotated[str | float, _about("From this moment on, or how long ago.", "8h")]


Policy = arguments(
    "Policy",
    PolicyRequest,
    offered(PolicyRequest),
    other={
        "catch_up": Annotated[CatchUp, _about("After downtime: fire once for what was missed, or skip it.")],
        "expires": Annotated[Span, _about("No attempt later than this after its time.")],
        "report_within": Annotated[Span, _about("How long to wait for a report.")],
        "starts_at": Annotated[Moment, _about("No fire before this moment (RFC 3339).")],
        "ends_at": Annotated[Moment, _about("No fire after it.")],
        "max_fires": Annotated[Count, _about("End after so many fires.")],
        "wakes_per_hour": Annotated[Count, _about("Most wakes in an hour.")],
        "wakes_per_day": Annotated[Count, _about("Most wakes in a day.")],
        "only_if": Annotated[str, _about("Skip unless this check changed.")],
        "unless": Annotated[str, _about("This signal cancels it, or skips the next fire of a series.")],
        "unless_since": Annotated[Span, _about("Ignore it if earlier before that fire.")],
        "rearm": Annotated[Span, _about("It moves the alarm, to so long after.")],
        "or_when": Annotated[str, _about("This signal fires it at once.")],
    },
    about="What to do when things go wrong.",
)
EDITABLE: Final = (*offered(EditRequest), "kind")
RENAMED: Final = {"idempotency_key": "key"}  # of a request, as an agent knows it
_FOR_AGENTS: Final = {
    "payload": Payload,
    "target": TargetName,
    "timezone": Zone,
    "max_failures": Failures,
    "policy": Policy,
    "parent_fire": Parent,
    "when": Annotated[str, _about("A phrase, duration, ISO time with offset, cron or RRULE.", "in 20 minutes")],
    "wake_message": Annotated[str, _about("What the wake says; its reader may know nothing else.")],
    "idempotency_key": Annotated[str, _about("Your name for this alarm; usable as its id. Repeating sets no second.")],
    "on_conflict": Annotated[
        OnConflict,
        _about("If the key is taken. Default: error, unless the request is the same."),
    ],
    "label": Annotated[str, _about("A short name for people.")],
    "conversation_id": Annotated[str, _about("Its conversation; the wake carries it.")],
}
_FIRST: Final = ("when", "wake_message", "idempotency_key", "on_conflict")  # what an agent should read first


class SetMany(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    alarms: (
        Annotated[
            list[dict[str, Any]],
            Meta(
                min_length=1,
                max_length=SET_LIMIT,
                description="Several at once, all or none, each with these arguments; those beside the list hold "
                "for all.",
            ),
        ]
        | UnsetType
    ) = UNSET


SetArguments = arguments(
    "SetArguments",
    CreateRequest,
    (*_FIRST, *(name for name in offered(CreateRequest) if name not in _FIRST)),
    renamed=RENAMED,
    other=_FOR_AGENTS,
    base=SetMany,
)
REQUIRED_TO_SET: Final = _FIRST[:2]


class ListArguments(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    status: Annotated[
        Literal["pending", AlarmStatus, "all"],
        _about("`pending`: active or paused."),
    ] = "pending"
    text: Annotated[str, _about("A part of label, message or key.")] = ""
    target: Annotated[str, _about("Only alarms of this target.")] = ""
    conversation_id: Annotated[str, _about("Only alarms of this conversation.")] = ""
    limit: Annotated[int, Meta(ge=1, le=LIST_LIMIT, description="The most to return.")] = 10
    cursor: Annotated[str, _about("`next_cursor` of the previous page.")] = ""


class AgendaArguments(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    hours: Annotated[float, Meta(gt=0, le=24 * 366, description="How far to look ahead.")] = 24
    limit: Annotated[int, Meta(ge=1, le=LIST_LIMIT, description="The most to return.")] = 20


class HistoryArguments(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    since: Since | UnsetType = UNSET
    status: Annotated[Literal["", HistoryStatus], _about("Only these.")] = ""
    target: Annotated[str, _about("Only fires of this target.")] = ""
    limit: Annotated[int, Meta(ge=1, le=LIST_LIMIT, description="The most to return.")] = 20


class GetArguments(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    id: Annotated[str, _about("An alarm's id or key, or a fire's id for that fire alone.")]
    part: (
        Annotated[
            Literal["wake_message", "payload", "facts", "result"],
            _about("Read one long text in pieces. `result` needs a fire's id."),
        ]
        | UnsetType
    ) = UNSET
    offset: Annotated[int, Meta(ge=0, le=2**31 - 1, description="With `part`: the character to start at.")] = 0
    length: (
        Annotated[int, Meta(ge=1, le=LONGEST_PIECE, description="With `part`: the most bytes to return at once.")]
        | UnsetType
    ) = UNSET


DueFrom = Annotated[str, _about("Only what fires from then on.", "tomorrow")]
DueTo = Annotated[str, _about("Only what fires until then; a day is all of it.")]


class ActArguments(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    id: Annotated[
        str,
        _about(
            "An alarm's id or key; to retry, a fire's id; `me`: your own timezone; `all`: to move, or a new timezone."
        ),
    ]
    action: Annotated[
        Literal["edit", "pause", "resume", "snooze", "skip", "move", "append", "undo", "fire", "retry"],
        _about(
            "edit: change the fields given. move: later, with `by`. append: to its payload. "
            "snooze: with `for` or `until`. "
            "skip: no next fire, the series goes on. "
            "undo: the last change. "
            "fire: one more wake now. retry: a failed fire."
        ),
    ] = "edit"
    version: (
        Annotated[int, Meta(ge=1, le=2**31 - 1, description="With edit: only if still at this version.")] | UnsetType
    ) = UNSET
    wait: Annotated[Span, _about("With snooze: how long from now.")] | UnsetType = msgspec.field(
        default=UNSET, name="for"
    )
    until: Annotated[str, _about("With snooze: until when.")] | UnsetType = UNSET
    at: Annotated[str, _about("With skip: the `next_fire_at` meant.")] | UnsetType = UNSET
    by: Annotated[Span, _about("With move: how much later.")] | UnsetType = UNSET
    due_from: DueFrom | UnsetType = UNSET
    due_to: DueTo | UnsetType = UNSET
    dry_run: Annotated[bool, _about("With `all`: only say which.")] | UnsetType = UNSET
    reason: Note | UnsetType = UNSET


def _as_set(kind: Any, about: str = "New.") -> Any:
    return Annotated[kind, _about(about)]


# The words stand in alarm_set: here only that it is the new one, and what is different.
_EDITED: Final = {
    "when": _as_set(str, 'As in alarm_set. A time of day alone ("10am") moves that and keeps the days.'),
    "kind": _as_set(Literal["once", "cron"], "Needed to turn a series into a one-shot, or back."),
    "wake_message": _as_set(str),
    "payload": _as_set(dict[str, Any]),
    "target": _as_set(str),
    "timezone": _as_set(str),
    "label": _as_set(str),
    "conversation_id": _as_set(str),
    "max_failures": _as_set(int),
    "policy": _as_set(dict[str, Any], "Only the fields named here change; null takes one out."),
}
UpdateArguments = arguments("UpdateArguments", EditRequest, EDITABLE, other=_EDITED, base=ActArguments)


class CancelArguments(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    id: AlarmId | UnsetType = UNSET
    ids: Annotated[list[str], Meta(min_length=1, max_length=100, description="Several ids or keys.")] | UnsetType = (
        UNSET
    )
    text: Annotated[str, _about("All with this in label, message or key.")] = ""
    conversation_id: Annotated[str, _about("All of this conversation.")] = ""
    target: Annotated[str, _about("All of this target.")] = ""
    due_from: DueFrom | UnsetType = UNSET
    due_to: DueTo | UnsetType = UNSET
    dry_run: Annotated[bool, _about("Cancel nothing: say which it would be.")] = False
    reason: Note = ""


class ReportArguments(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    fire_id: Annotated[str, _about("`fire_id` of the wake.")]
    outcome: Annotated[
        Literal[ReportOutcome, "hand_over"],
        _about(
            "completed: done. failed: tried again by the retry policy. working: not done yet, report_by moves. "
            "snooze: again later, with `for`. hand_over: to another `target`."
        ),
    ]
    result: Annotated[str, _about("With completed or working: what you did.")] = ""
    reason: Annotated[str, _about("With failed: what went wrong.")] = ""
    wait: Annotated[Span, _about("With snooze: how long.")] | UnsetType = msgspec.field(default=UNSET, name="for")
    target: Annotated[str, _about("With hand_over.")] | UnsetType = UNSET
    cost: Annotated[Cost, _about("What it cost, for budgets.")] | UnsetType = UNSET
    renew: Annotated[bool, _about("Keep a `renewable` series going.")] = False


class SignalArguments(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: Annotated[str, _about("Its name, as in `unless` or `or_when`.")]
    payload: Annotated[dict[str, Any], _about("State for the wakes.")] | UnsetType = UNSET


class InboxArguments(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    wait: Annotated[float, Meta(ge=0, le=LONGEST_WAIT, description="Seconds to wait if there is no wake yet.")] = 0
    limit: Annotated[int, Meta(ge=1, le=INBOX_LIMIT, description="The most wakes to take.")] = INBOX_LIMIT
    conversation_id: Annotated[str, _about("Only wakes of this conversation; the others stay.")] = ""
    target: Annotated[str, _about("Another inbox, by its name.")] = ""
    done: Annotated[
        dict[str, str],
        _about("Earlier wakes to report as completed first: by fire_id, with what came of each."),
    ] = {}


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
    policy: dict[str, Any] = {}
    max_failures: int | UnsetType = UNSET
    version: int = 0
    fire_count: int = 0
    failure_count: int = 0
    last_error: str = ""
    paused_reason: str = ""


class AgentFire(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    fire_id: str
    status: FireStatus
    scheduled_for: Utc
    manual: Annotated[bool, _about("It was fired by hand.")] = False
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
    attempt: Annotated[int, _about("How often it has been handed out.")]
    late_ms: Annotated[int, _about("Milliseconds from its scheduled time until you got it.")]
    missed: Annotated[int, _about("Later fires of its series that were missed and get no wake of their own.")]
    number: Annotated[int, _about("Which fire of its alarm this is.")]
    max_fires: Annotated[int, _about("Of how many at most.")] = 0
    previous: Annotated[str, _about("What became of the fire before.")] = ""
    next_fire_at: Annotated[str, _about("When the alarm fires next, in UTC.")] = ""
    author: Annotated[str, _about("Who wrote the words: owner, agent, import, template or task.")]
    parent_fire: Annotated[str, _about("The wake out of which the alarm was set.")] = ""
    ends_at: Annotated[str, _about("When its series ends.")] = ""
    renewable: Annotated[bool, _about("That is soon; report with `renew` to go on.")] = False
    message: Cut
    payload: Any = None
    signal: Annotated[str, _about("The signal that it comes for.")] = ""
    signal_payload: Any = None
    key: str = ""
    label: str = ""
    conversation_id: str = ""


class Result(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What every tool answers: what happened in words, and the time it is."""

    summary: str
    now: Utc
    notes: list[str] = []


class AlarmResult(Result, frozen=True, omit_defaults=True, kw_only=True):
    alarm: AgentAlarm | UnsetType = UNSET
    fire_id: Annotated[str, _about("The fire that is tried again.")] = ""
    alarms: Annotated[list[AgentAlarm], _about("Of `all`, as many as there is room for.")] = []
    moved: int = 0
    would_move: Annotated[int, _about("With dry_run: how many it would be.")] = 0
    in_flight: Annotated[
        bool, _about("A delivery is under way or its reader has the wake: that one attempt may still happen.")
    ] = False


class SetResult(Result, frozen=True, omit_defaults=True, kw_only=True):
    alarm: AgentAlarm | UnsetType = UNSET
    ids: Annotated[list[str], _about("Of several, in the order they were asked for.")] = []
    alarms: Annotated[list[AgentAlarm], _about("Of several, as many as there is room for.")] = []
    deduped: Annotated[bool, _about("The key was taken: this is the alarm that has it.")] = False
    similar: Annotated[
        str, _about("The id of an active alarm with the same message and time: cancel one if you meant one.")
    ] = ""
    in_flight: Annotated[
        bool, _about("A delivery is under way or its reader has the wake: that one attempt may still happen.")
    ] = False


class CancelResult(Result, frozen=True, omit_defaults=True, kw_only=True):
    alarm: AgentAlarm | UnsetType = UNSET
    alarms: Annotated[list[AgentAlarm], _about("Of several, as many as there is room for.")] = []
    cancelled: int = 0
    would_cancel: Annotated[int, _about("With dry_run: how many it would be.")] = 0
    skipped: Annotated[int, _about("Series among them: they leave out what falls within, and go on.")] = 0
    in_flight: Annotated[bool, _about("As in alarm_update.")] = False


class AgentSignalEffect(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    alarm_id: str
    effect: Effect
    at: Annotated[Local, _about("The fire that is skipped or is not, or where it is moved to.")] = ""


class SignalResult(Result, frozen=True, omit_defaults=True, kw_only=True):
    alarms: Annotated[list[AgentAlarm], _about("As many as there is room for.")]
    cancelled: int = 0
    fired: int = 0
    skipped: int = 0
    moved: int = 0
    effects: list[AgentSignalEffect] = []
    in_flight: Annotated[bool, _about("As in alarm_update.")] = False


class AgendaEntry(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    at: Utc
    local: Local
    alarm_id: str
    target: str
    key: str = ""
    label: str = ""
    message: str = ""


class AgendaResult(Result, frozen=True, omit_defaults=True, kw_only=True):
    agenda: Annotated[list[AgendaEntry], _about("The soonest first.")]
    more: bool = False


class HistoryLine(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    id: Annotated[str, _about("A fire's id, or an alarm's that has not fired.")]
    status: str
    scheduled_for: Utc
    late_ms: Annotated[int, _about("From then until it was first tried.")] = 0
    count: Annotated[int, _about("Of skipped ones: how many in a row.")] = 1
    manual: Annotated[bool, _about("It was fired by hand.")] = False
    reason: str = ""
    attempts: int = 0
    outcome: Annotated[str, _about("What was reported, or the error; cut.")] = ""
    message: str = ""


class AgentBudget(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    of: Annotated[str, _about("owner, alarm, chain, rewake or agent.")]
    id: str
    period: Literal["hour", "day"]
    wakes: int = 0
    wakes_left: Annotated[int | UnsetType, _about("Absent where wakes are not limited.")] = UNSET
    cost: float = 0.0
    cost_left: Annotated[float | UnsetType, _about("Absent where cost is not limited.")] = UNSET


class HistoryResult(Result, frozen=True, omit_defaults=True, kw_only=True):
    history: Annotated[list[HistoryLine], _about("The newest first.")]
    missed: Annotated[int, _about("Fires among these that passed without a wake.")] = 0
    budget: Annotated[list[AgentBudget], _about("What was used in this hour and day, and what is left.")] = []
    more: bool = False


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
