"""What a caller may ask for through any interface: each field declared once, with its description. Pure.

HTTP bodies, the OpenAPI document, the arguments of MCP tools, the options of the command line and the keywords of
`alarms.set` come from these. None, or leaving a field out, means that the service fills in the default.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta
from datetime import time as clock_time
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.structs import fields, replace

from wakeful.alarm.create import POLICY_LENGTHS, POLICY_MOMENTS, GivenTime, Wanted, check_text
from wakeful.alarm.defaults import Defaults
from wakeful.alarm.model import Alarm, AtLimit, CatchUp, Cost, Kind, OnSilence, Overlap, Policy
from wakeful.alarm.outcome import MOST_COST, Report, ReportOutcome
from wakeful.errors import InvalidRequest, InvalidSchedule
from wakeful.schedule import duration, given_zone, parse
from wakeful.schedule.days_off import OnHoliday

Span = float | str  # seconds, or "15m"
Moment = str | float  # RFC 3339 with an offset, or unix seconds
OnConflict = Literal["return", "replace", "error"]
AGENTS: Final = "agents"
REPORT_LIMIT: Final = 128 * 1024
# A day from the ends of the calendar: whatever is reckoned from a moment, in whatever zone, is still a date.
_FIRST: Final = datetime.min.replace(tzinfo=UTC) + timedelta(days=1)
_LAST: Final = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)
_NAMED: Final = re.compile(r"(?:required|unknown) field `(.*)`$")
_CHECKED_LATER: Final = ("fire_at", "delay_seconds", "payload", "policy")  # they have more forms in Python than in JSON


def about(text: str, *examples: Any, agents: bool = True, **schema: Any) -> Meta:
    """A field's words. What its schema says besides is for documents only: our refusals have better words.

    `agents`: whether the tools of agents offer it; what they do without costs them no words to read.
    """
    return Meta(
        description=text,
        examples=list(examples) or None,
        extra_json_schema=schema or None,
        extra=None if agents else {AGENTS: False},
    )


SaidSpan = Span | UnsetType | None  # in a policy null says something: see PolicyRequest
SaidMoment = Moment | UnsetType | None
Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class PolicyRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What an alarm does when something goes wrong. Fields that are left out come from the settings.

    In an edit they stay as they are, and null is what takes one back to the settings.
    """

    backoff_base: Annotated[
        SaidSpan, about("The wait before the first retry; it doubles from there.", "30s", agents=False)
    ] = UNSET
    backoff_cap: Annotated[SaidSpan, about("The longest wait between two retries.", "1h", agents=False)] = UNSET
    exact_backoff: Annotated[
        bool | UnsetType | None,
        about("Retry after exactly these waits, not up to a tenth later.", True, agents=False),
    ] = UNSET
    catch_up: Annotated[
        CatchUp | UnsetType | None, about("After downtime: fire once for what was missed, or skip it.")
    ] = UNSET
    grace: Annotated[SaidSpan, about("With catch_up skip: how late a fire may still happen.", "10m", agents=False)] = (
        UNSET
    )
    expires: Annotated[SaidSpan, about("Start no attempt later than this after the scheduled time.", "2h")] = UNSET
    overlap: Annotated[
        Overlap | UnsetType | None,
        about("While the report of the fire before is awaited: skip, or fire all the same.", agents=False),
    ] = UNSET
    report_within: Annotated[SaidSpan, about("How long to wait for a report after delivery.", "15m")] = UNSET
    on_silence: Annotated[
        OnSilence | UnsetType | None,
        about(
            "When an expected report does not come: wake again, like a failed try, or give up.",
            "give_up",
            agents=False,
        ),
    ] = UNSET
    starts_at: Annotated[SaidMoment, about("No fire before this moment.", "2030-01-31T09:00:00Z")] = UNSET
    ends_at: Annotated[SaidMoment, about("No fire after this moment.", "2030-12-31T00:00:00Z")] = UNSET
    max_fires: Annotated[Count | UnsetType | None, about("End after this many fires.", 10)] = UNSET
    jitter: Annotated[SaidSpan, about("Delay each fire by a random time up to this.", "30s", agents=False)] = UNSET
    auto_pause_after: Annotated[
        Count | UnsetType | None, about("Pause after this many failed fires in a row.", 5, agents=False)
    ] = UNSET
    wakes_per_hour: Annotated[Count | UnsetType | None, about("The most wakes of this alarm in an hour.", 4)] = UNSET
    wakes_per_day: Annotated[Count | UnsetType | None, about("The most wakes of this alarm in a day.", 24)] = UNSET
    cost_per_day: Annotated[
        Cost | UnsetType | None,
        about("The most cost that reports on this alarm may name in a day.", 2.5, agents=False),
    ] = UNSET
    at_limit: Annotated[
        AtLimit | UnsetType | None,
        about(
            "When a budget is used up: defer the wake until it is free again, or skip it. Default: a series skips.",
            "defer",
            agents=False,
        ),
    ] = UNSET
    only_if: Annotated[
        str | UnsetType | None,
        about("A check of the operator's: skip the fire unless it finds a change.", "grant-portal", maxLength=100),
    ] = UNSET
    unless: Annotated[
        str | UnsetType | None,
        about("When this signal comes: skip the next fire of a series, cancel a one-shot.", "reply", maxLength=100),
    ] = UNSET
    unless_since: Annotated[
        SaidSpan, about("Ignore signals for `unless` that come earlier than this before the fire.", "12h")
    ] = UNSET
    rearm: Annotated[
        SaidSpan, about("The signal for `unless` moves the alarm, which fires once, to this long after it.", "15m")
    ] = UNSET
    or_when: Annotated[
        str | UnsetType | None, about("Fire at once when this signal comes.", "build-done", maxLength=100)
    ] = UNSET

    calendar: Annotated[
        str | UnsetType | None,
        about("Whose holidays a series keeps: a calendar of the server's.", "berlin", agents=False),
    ] = UNSET
    on_holiday: Annotated[
        OnHoliday | UnsetType | None,
        about("What falls on a holiday: skip it, or fire on the next or previous working day.", "skip", agents=False),
    ] = UNSET
    working_days: Annotated[
        str | UnsetType | None,
        about("The days it may be moved to; default: its owner's.", "mon-fri", agents=False),
    ] = UNSET


class EditRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The changes to an alarm; fields left out or null stay as they are, and so do those of its `policy` left out."""

    wake_message: Annotated[
        str | None,
        about("The message for the reader, who may know nothing else.", minLength=1, maxLength=32 * 1024),
    ] = None
    when: Annotated[
        str | None,
        about(
            "A phrase, duration, ISO time with offset, or cron with 5 or 6 fields. Phrases are never guessed.",
            "tomorrow at 9am",
            "in 20 minutes",
            "every weekday at 9am",
            "0 9 * * 1-5",
            "2030-01-31T09:00:00Z",
            minLength=1,
        ),
    ] = None
    kind: Annotated[
        Kind | None,
        about(
            "What the time must be. An edit that makes a series fire once, or the other way round, has to say it.",
            agents=False,
        ),
    ] = None
    delay_seconds: Annotated[float | None, about("Once, so many seconds from now.", 90, agents=False)] = None
    fire_at: Annotated[Moment | None, about("Once, at this moment.", "2030-01-31T09:00:00Z", agents=False)] = None
    cron_expr: Annotated[
        str | None,
        about("Recurring: cron, @daily and the like, @every 90m, or RRULE:FREQ=DAILY;BYHOUR=9.", agents=False),
    ] = None
    timezone: Annotated[str | None, about("The IANA time zone of the time.", "Europe/Berlin")] = None
    label: Annotated[str | None, about("A short name for people.", "grant portal")] = None
    conversation_id: Annotated[str | None, about("The conversation of this alarm; the wake carries it.")] = None
    payload: Annotated[
        Raw | UnsetType, about("State to get back with the wake, unchanged; at most 128 KiB of JSON.", {"page": 3})
    ] = UNSET
    target: Annotated[str | None, about("The name of a configured target, never a URL.", "inbox")] = None
    isolated: Annotated[bool | None, about("Ask the receiver for a run apart from the conversation.", agents=False)] = (
        None
    )
    max_failures: Annotated[int | None, about("How often a failed delivery is tried again.", 5)] = None
    policy: PolicyRequest | None = None


class CreateRequest(EditRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A requested alarm. Exactly one of when, fire_at, delay_seconds and cron_expr gives the time."""

    wake_message: Annotated[
        str, about("The message for the reader, who may know nothing else.", minLength=1, maxLength=32 * 1024)
    ]
    idempotency_key: Annotated[
        str | None, about("Your name for this alarm: repeating the request does not set a second one.", "brief")
    ] = None
    on_conflict: Annotated[
        OnConflict | None,
        about(
            "When the key is taken: return the alarm that has it, replace it, or refuse. Default: return it if the "
            "request is the same, else refuse."
        ),
    ] = None
    parent_fire: Annotated[
        str | None, about("The `fire_id` of the wake that led to this alarm; it joins that chain.")
    ] = None


class ReportRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    outcome: ReportOutcome
    result: str = ""
    reason: str = ""
    wait: Span | None = msgspec.field(default=None, name="for")
    cost: Annotated[
        Cost | None,
        about("What the work cost since the last report, in any unit; it counts against budgets of cost.", 0.12),
    ] = None
    renew: Annotated[
        bool, about("Keep its series, which was set with the token of a wake, for as long again from now.")
    ] = False


# From a request to what is wanted, in an alarm's own terms


_TIME: Final = frozenset({"kind", "fire_at", "cron_expr", "timezone"})  # an alarm has them as its time was understood
SETTABLE: Final = tuple(
    name for name in CreateRequest.__struct_fields__ if name in Alarm.__struct_encode_fields__ and name not in _TIME
)
EDITABLE: Final = tuple(name for name in SETTABLE if name in EditRequest.__struct_fields__)
_AS_THEY_ARE: Final = frozenset({"wake_message", "target", "parent_fire"})  # texts that keep the space around them
_KINDS: Final = {field.encode_name: field.type for field in fields(Alarm)}
ATTRIBUTES: Final = dict(zip(Alarm.__struct_encode_fields__, Alarm.__struct_fields__, strict=True))
_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    **{name: str.strip for name in SETTABLE if _KINDS[name] is str and name not in _AS_THEY_ARE},
    **{name: bool for name in SETTABLE if _KINDS[name] is bool},
    "payload": lambda raw: raw_text(raw),
}


def wanted_alarm(asked: CreateRequest, usual: Defaults) -> Wanted:
    """The alarm a request asks for, as is usual where it does not say."""
    _check_kind(asked)
    said = _said(asked, SETTABLE, usual.policy)
    said["target"] = said.get("target") or usual.target  # an empty name says nothing
    said.setdefault("max_failures", usual.max_failures)
    said.setdefault("policy", usual.policy)
    return Wanted(said, _time(asked, usual.timezone), date_order=usual.date_order, bare_day=usual.bare_day)


def wanted_change(
    asked: EditRequest, usual: Policy, date_order: str = "", bare_day: clock_time = clock_time(9)
) -> Wanted:
    """Build the edit that a request asks for. What it says of a policy is merged into the alarm's own."""
    _check_kind(asked)
    names = [name for name in EDITABLE if name != "policy"]
    changes = policy_changes(asked.policy, usual)
    found = Wanted(_said(asked, names, usual), _time(asked, ""), changes, date_order, bare_day)
    if not found.fields and not found.policy and replace(found.time, kind="") == GivenTime():
        raise InvalidRequest("nothing to change was given", field="body", fix="Name at least one field.")
    return found


def _said(asked: EditRequest, names: Sequence[str], usual: Policy) -> dict[str, Any]:
    """The fields of an alarm that a request names, as an alarm has them."""
    found: dict[str, Any] = {}
    for name in names:
        value = getattr(asked, name)
        if value is None or value is UNSET:
            continue
        if name == "policy":
            value = policy(value, usual)
        elif name in _READ:
            value = _READ[name](value)
        found[ATTRIBUTES[name]] = value
    return found


def _time(asked: EditRequest, usual_zone: str) -> GivenTime:
    return GivenTime(
        when=asked.when or "",
        fire_at=_fire_at(asked),
        delay=None if asked.delay_seconds is None else span(asked.delay_seconds, "delay_seconds"),
        cron_expr=asked.cron_expr or "",
        timezone=given_zone(asked.timezone) if asked.timezone else usual_zone,
        kind=asked.kind or "",
    )


def _fire_at(asked: EditRequest) -> datetime | None:
    try:
        return None if asked.fire_at is None else moment(asked.fire_at, "fire_at")
    except InvalidRequest as error:  # like everything that is wrong with a time
        raise InvalidSchedule(error.message, field=error.field, fix=error.fix) from None


def report(asked: ReportRequest) -> Report:
    for name in ("result", "reason"):
        check_text(name, getattr(asked, name), REPORT_LIMIT)
    wait = None if asked.wait is None else span(asked.wait, "for")
    return Report(asked.outcome, asked.result or asked.reason, wait, cost_of(asked.cost), asked.renew)


def cost_of(value: float | None, field: str = "cost") -> float:
    """Check a cost: a number from 0 on that can be counted."""
    cost = value or 0.0
    if not 0 <= cost <= MOST_COST:
        raise InvalidRequest(f"{value} is not a cost", field=field, fix=f"Give a number from 0 to {MOST_COST:g}.")
    return cost


def _check_kind(asked: EditRequest) -> None:
    """Refuse a kind that does not match the time."""
    once = asked.fire_at is not None or asked.delay_seconds is not None
    if asked.kind is None or not (asked.cron_expr is not None if asked.kind == "once" else once):
        return
    fix = "Give delay_seconds or fire_at." if asked.kind == "once" else "Give cron_expr."
    raise InvalidSchedule(f"the kind {asked.kind!r} does not match the time that was given", field="kind", fix=fix)


def policy(asked: PolicyRequest | Policy | None, default: Policy) -> Policy:
    """Fill in a requested policy from the default; a complete Policy stays as it is."""
    if asked is None:
        return default
    if isinstance(asked, Policy):
        return asked if asked.on_silence is not None else replace(asked, on_silence=default.on_silence)
    said = policy_changes(asked, default)
    return replace(default, **said) if said else default


def policy_changes(asked: PolicyRequest | Policy | None, default: Policy) -> dict[str, Any]:
    """What a request says of a policy, field by field; null is what the default has."""
    if asked is None:
        return {}
    if isinstance(asked, Policy):
        return {name: getattr(policy(asked, default), name) for name in PolicyRequest.__struct_fields__}
    said: dict[str, Any] = {}
    for name in PolicyRequest.__struct_fields__:
        value = getattr(asked, name)
        if value is UNSET:
            continue
        if value is None:
            value = getattr(default, name)
        elif name in POLICY_MOMENTS:
            value = moment(value, f"policy.{name}")
        elif name in POLICY_LENGTHS:
            value = span(value, f"policy.{name}", least=timedelta(0)).total_seconds()
        said[name] = value
    return said


# Values as people write them


_NUMBERS: Final = (int, float)  # made once: every create asks


def span(value: Span | timedelta, field: str, *, least: timedelta = timedelta(milliseconds=1)) -> timedelta:
    """Parse a length of time: seconds, "15m", or a timedelta."""
    if isinstance(value, timedelta):
        found = value
    elif isinstance(value, _NUMBERS) and not isinstance(value, bool) and abs(value) < 1e10:
        found = timedelta(seconds=value)
    else:
        try:
            found = duration(value)
        except InvalidRequest as error:
            raise InvalidRequest(error.message, field=field, fix=error.fix) from None
    if found < least:
        raise InvalidRequest(f"{value} is too short", field=field, fix="Give more than 0 seconds.")
    return found


def moment(value: Moment | datetime, field: str) -> datetime:
    """Parse a moment: RFC 3339 with an offset, unix seconds, or an aware datetime."""
    try:
        if isinstance(value, _NUMBERS) and not isinstance(value, bool):
            found = datetime.fromtimestamp(value, UTC)
        else:
            found = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
            if found.tzinfo is None:
                raise InvalidRequest(f"{value} has no UTC offset", field=field, fix="Add one, or Z for UTC.")
            found = found if found.tzinfo is UTC else found.astimezone(UTC)
        if not _FIRST <= found <= _LAST:
            raise ValueError(found)
        return found
    except (ValueError, OverflowError, OSError):
        raise InvalidRequest(
            f"{value!r} is not a moment", field=field, fix="Give RFC 3339 with an offset, or unix seconds."
        ) from None


# From JSON, and from plain Python values

T = TypeVar("T")
S = TypeVar("S", bound=Struct)


def decode(body: bytes | str, kind: type[T]) -> T:
    """Decode JSON into a type, or raise an error that names the field."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise _misfit(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"it is not JSON ({error})", field="body") from None


def request_of(kind: type[S], given: Mapping[str, Any]) -> S:
    """Build a request from keywords, which may be datetimes, timedeltas, any JSON payload or a Policy.

    None means "not given", as everywhere.
    """
    said = {name: value for name, value in given.items() if value is not None}
    as_they_are = {name: said.pop(name) for name in _CHECKED_LATER if name in said}
    if "payload" in as_they_are:
        as_they_are["payload"] = json_of(as_they_are["payload"])
    if "policy" in as_they_are:
        as_they_are["policy"] = policy_of(as_they_are["policy"])
    return replace(_converted(said, kind), **as_they_are)


def policy_of(given: Any) -> Policy | PolicyRequest:
    if isinstance(given, Policy):  # perhaps that of another alarm, whose manual fire this is not
        return given if given.manual_of is None else replace(given, manual_of=None)
    if isinstance(given, PolicyRequest):
        return given
    if not isinstance(given, Mapping):
        fix = 'Give a dict such as {"catch_up": "skip"}, or a Policy.'
        raise InvalidRequest(f"{given!r} is not a policy", field="policy", fix=fix)
    return _converted({name: _plain(value) for name, value in given.items()}, PolicyRequest, "policy")


def _converted(given: Mapping[str, Any], kind: type[T], within: str = "") -> T:
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise _misfit(error, within) from None


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return value.total_seconds() if isinstance(value, timedelta) else value


def _misfit(error: msgspec.ValidationError, within: str = "") -> InvalidRequest:
    """Return an error that names the field for a value that is of the wrong type, missing or unknown."""
    what, _, where = str(error).partition(" - at `$")
    path = [within, where.strip("`.")]
    if named := _NAMED.search(what):
        path.append(named[1])
    return InvalidRequest(what, field=".".join(part for part in path if part) or "body")


# Moments that somebody says relative to now: a phrase such as "tomorrow at 9am", or how long ago. Pure.


def said_moment(
    value: Moment | datetime,
    field: str,
    *,
    timezone: str,
    now: datetime,
    date_order: str = "",
    bare_day: time = time(9),
) -> datetime:
    """Parse a moment, or a phrase for one ("tomorrow at 9am") as it is meant in a time zone at this moment."""
    try:
        return moment(value, field)
    except InvalidRequest as error:
        if not isinstance(value, str):
            raise
        refused = error
    try:
        understood = parse(value, timezone=timezone, now=now, default_time=bare_day, date_order=date_order)
    except InvalidSchedule as error:
        raise InvalidRequest(error.message, field=field, fix=error.fix) from None
    if understood.fire_at is None:
        raise InvalidRequest(f"{value!r} is a series, not one moment", field=field, fix=refused.fix)
    return understood.fire_at


def moment_or_ago(value: Moment | datetime, field: str, *, now: datetime) -> datetime:
    """Parse a moment, or a length of time ("8h") that counts back from now."""
    try:
        return moment(value, field)
    except InvalidRequest as refused:
        if not isinstance(value, str):
            raise
        try:
            return now - duration(value)
        except (InvalidRequest, OverflowError):
            raise InvalidRequest(
                refused.message, field=field, fix=f'{refused.fix} Or how long ago, such as "8h".'
            ) from None


def bound_meant(error: InvalidRequest, asked: EditRequest, *, timezone: str, now: datetime) -> dict[str, Any]:
    """The moment that was meant where a bound of a policy was refused as it is a phrase: "friday" ends with that day.

    As a repair of the request; {} if nothing else is wrong, or the phrase means no moment.
    """
    name = error.field.partition("policy.")[2]
    phrase = getattr(asked.policy, name, None) if name in POLICY_MOMENTS else None
    if not isinstance(phrase, str):
        return {}
    for text in (f"{phrase} at 23:59", phrase) if name == "ends_at" else (phrase,):
        with suppress(InvalidRequest):
            found = parse(text, timezone=timezone, now=now).fire_at
            if found is not None:
                return {"policy": {name: found.isoformat()}}
    return {}


# JSON that a caller hands in as a value, or as bytes that are passed through unread. Pure.


def json_of(value: Any, field: str = "payload") -> Raw:
    """Encode any JSON value; `msgspec.Raw` passes its bytes through unchanged."""
    try:
        encoded = msgspec.json.encode(value)
        # NaN and the infinities are written as null, so only what holds one is looked through for them.
        is_safe = b"null" not in encoded or isinstance(value, Raw)
        odd = None if is_safe else _not_finite(msgspec.to_builtins(value, enc_hook=_as_it_is))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"it cannot be written as JSON ({error})", field=field) from None
    if odd is not None:
        fix = "Give a number, null or a text in its place."
        raise InvalidRequest(f"it holds {odd}, which JSON does not have", field=field, fix=fix)
    return Raw(encoded)


def _as_it_is(value: Any) -> Any:
    if isinstance(value, Raw):
        return None  # JSON already, so it holds none
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


def _not_finite(value: Any) -> float | None:
    """The first number within that is NaN or infinite."""
    if isinstance(value, float):
        return None if math.isfinite(value) else value
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return next((odd for one in inner if (odd := _not_finite(one)) is not None), None)


def raw_text(raw: Raw) -> str:
    try:
        return bytes(raw).decode()
    except UnicodeDecodeError as error:  # what is passed through unread is not checked by the decoder either
        raise InvalidRequest(f"it is not UTF-8 ({error})", field="payload", fix="Send JSON in UTF-8.") from None
