"""What a caller may ask for through any interface: each field declared once, with its description. Pure.

HTTP bodies, the OpenAPI document, the arguments of MCP tools, the options of the command line and the keywords of
`clock.set` come from these. None, or leaving a field out, means that the service fills in the default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.structs import replace

from wakeful.alarm.create import Draft, check_text
from wakeful.alarm.edit import Edit
from wakeful.alarm.model import Policy
from wakeful.alarm.outcome import Report
from wakeful.errors import InvalidRequest, InvalidSchedule
from wakeful.schedule import duration

Span = float | str  # seconds, or "15m"
Moment = str | float  # RFC 3339 with an offset, or unix seconds
OnConflict = Literal["return", "replace", "error"]
REPORT_LIMIT: Final = 128 * 1024
# A day from the ends of the calendar: whatever is reckoned from a moment, in whatever zone, is still a date.
_FIRST: Final = datetime.min.replace(tzinfo=UTC) + timedelta(days=1)
_LAST: Final = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)
_NAMED: Final = re.compile(r"(?:required|unknown) field `(.*)`$")
_CHECKED_LATER: Final = ("fire_at", "delay_seconds", "payload", "policy")  # they have more forms in Python than in JSON
_AS_GIVEN: Final = ("catch_up", "overlap", "max_fires", "auto_pause_after")


def about(text: str, *examples: Any, **schema: Any) -> Meta:
    """Describe a field. The schema's constraints are for documentation only: our own errors explain more."""
    return Meta(description=text, examples=list(examples) or None, extra_json_schema=schema or None)


Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class PolicyRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What an alarm does when something goes wrong. Fields that are left out come from the settings."""

    backoff_base: Annotated[Span | None, about("The wait before the first retry; it doubles from there.", "30s")] = None
    backoff_cap: Annotated[Span | None, about("The longest wait between two retries.", "1h")] = None
    catch_up: Annotated[
        Literal["one", "skip"] | None, about("After downtime: fire once for all missed fires, or skip them.")
    ] = None
    grace: Annotated[Span | None, about("With catch_up skip: how late a fire may still happen.", "10m")] = None
    expires: Annotated[Span | None, about("Start no attempt later than this after the scheduled time.", "2h")] = None
    overlap: Annotated[
        Literal["skip", "allow"] | None,
        about("If the previous fire still waits for its report: skip, or fire anyway."),
    ] = None
    report_within: Annotated[Span | None, about("How long to wait for a report after delivery.", "15m")] = None
    starts_at: Annotated[Moment | None, about("No fire before this moment.", "2030-01-31T09:00:00Z")] = None
    ends_at: Annotated[Moment | None, about("No fire after this moment.", "2030-12-31T00:00:00Z")] = None
    max_fires: Annotated[Count | None, about("End after this many fires.", 10)] = None
    jitter: Annotated[Span | None, about("Delay each fire by a random time up to this.", "30s")] = None
    auto_pause_after: Annotated[Count | None, about("Pause after this many failed fires in a row.", 5)] = None


class EditRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The changes to an alarm; fields left out or null stay as they are. `policy` is replaced as a whole."""

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
    kind: Annotated[Literal["once", "cron"] | None, about("Refuse the request if its time is of the other kind.")] = (
        None
    )
    delay_seconds: Annotated[float | None, about("Once, this many seconds from now.", 90)] = None
    fire_at: Annotated[Moment | None, about("Once, at this moment.", "2030-01-31T09:00:00Z")] = None
    cron_expr: Annotated[str | None, about("Recurring: cron, @daily and the like, or @every 90m.")] = None
    timezone: Annotated[str | None, about("The IANA time zone of the time.", "Europe/Berlin")] = None
    label: Annotated[str | None, about("A short name for people.", "grant portal")] = None
    conversation_id: Annotated[str | None, about("The conversation of this alarm; the wake carries it.")] = None
    payload: Annotated[
        Raw | UnsetType, about("State to get back with the wake, unchanged; at most 128 KiB of JSON.", {"page": 3})
    ] = UNSET
    target: Annotated[str | None, about("The name of a configured target, never a URL.", "inbox")] = None
    isolated: Annotated[bool | None, about("Ask the receiver to run this outside the conversation.")] = None
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


class ReportRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    outcome: Literal["completed", "failed", "working", "snooze"]
    result: str = ""
    reason: str = ""
    wait: Span | None = msgspec.field(default=None, name="for")


class Asker(Struct, frozen=True, kw_only=True):
    """Defaults for an alarm from its caller and from the settings."""

    owner: str
    by: str
    via: str
    timezone: str
    target: str
    max_failures: int
    policy: Policy


def draft(asked: CreateRequest, asker: Asker) -> Draft:
    """Build the draft of the alarm that a request asks for."""
    _check_kind(asked)
    return Draft(
        owner_did=asker.owner,
        wake_message=asked.wake_message,
        when=asked.when or "",
        fire_at=_fire_at(asked),
        delay=None if asked.delay_seconds is None else span(asked.delay_seconds, "delay_seconds"),
        cron_expr=asked.cron_expr or "",
        timezone=asked.timezone or asker.timezone,
        label=(asked.label or "").strip(),
        conversation_id=(asked.conversation_id or "").strip(),
        payload="{}" if asked.payload is UNSET else raw_text(asked.payload),
        target=asked.target or asker.target,
        isolated=bool(asked.isolated),
        idempotency_key=(asked.idempotency_key or "").strip(),
        max_failures=asker.max_failures if asked.max_failures is None else asked.max_failures,
        policy=policy(asked.policy, asker.policy),
        created_by=asker.by,
        created_via=asker.via,
        parent_fire=asked.parent_fire or "",
    )


def edit(asked: EditRequest, default: Policy) -> Edit:
    """Build the edit that a request asks for."""
    _check_kind(asked)
    shared = (name for name in Edit.__struct_fields__ if name in EditRequest.__struct_fields__)
    said: dict[str, Any] = {name: getattr(asked, name) for name in shared}
    for name in ("label", "conversation_id"):
        said[name] = None if said[name] is None else said[name].strip()
    said["payload"] = None if asked.payload is UNSET else raw_text(asked.payload)
    said["delay"] = None if asked.delay_seconds is None else span(asked.delay_seconds, "delay_seconds")
    said["fire_at"] = _fire_at(asked)
    said["policy"] = None if asked.policy is None else policy(asked.policy, default)
    if all(value is None for value in said.values()):
        raise InvalidRequest("nothing to change was given", field="body", fix="Name at least one field.")
    return Edit(**said)


def _fire_at(asked: EditRequest) -> datetime | None:
    try:
        return None if asked.fire_at is None else moment(asked.fire_at, "fire_at")
    except InvalidRequest as error:  # like everything that is wrong with a time
        raise InvalidSchedule(error.message, field=error.field, fix=error.fix) from None


def report(asked: ReportRequest) -> Report:
    for name in ("result", "reason"):
        check_text(name, getattr(asked, name), REPORT_LIMIT)
    wait = None if asked.wait is None else span(asked.wait, "for")
    return Report(asked.outcome, asked.result or asked.reason, wait)


def _check_kind(asked: EditRequest) -> None:
    """Refuse a kind that does not match the time."""
    once = asked.fire_at is not None or asked.delay_seconds is not None
    if asked.kind is None or not (asked.cron_expr is not None if asked.kind == "once" else once):
        return
    fix = "Give delay_seconds or fire_at." if asked.kind == "once" else "Give cron_expr."
    raise InvalidSchedule(f"the kind {asked.kind!r} does not match the time that was given", field="kind", fix=fix)


def policy(asked: PolicyRequest | Policy | None, default: Policy) -> Policy:
    """Fill in a requested policy from the default; a complete Policy stays as it is."""
    if asked is None or isinstance(asked, Policy):
        return asked or default
    fields: dict[str, Any] = {}
    for name in PolicyRequest.__struct_fields__:
        value = getattr(asked, name)
        if value is None:
            continue
        if name in ("starts_at", "ends_at"):
            value = moment(value, f"policy.{name}")
        elif name not in _AS_GIVEN:
            value = span(value, f"policy.{name}", least=timedelta(0)).total_seconds()
        fields[name] = value
    return replace(default, **fields) if fields else default


# Values as people write them


def span(value: Span | timedelta, field: str, *, least: timedelta = timedelta(milliseconds=1)) -> timedelta:
    """Parse a length of time: seconds, "15m", or a timedelta."""
    if isinstance(value, timedelta):
        found = value
    elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e10:
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
        if isinstance(value, int | float) and not isinstance(value, bool):
            found = datetime.fromtimestamp(value, UTC)
        else:
            found = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
            if found.tzinfo is None:
                raise InvalidRequest(f"{value} has no UTC offset", field=field, fix="Add one, or Z for UTC.")
            found = found.astimezone(UTC)
        if not _FIRST <= found <= _LAST:
            raise ValueError(found)
        return found
    except (ValueError, OverflowError, OSError):
        raise InvalidRequest(
            f"{value!r} is not a moment", field=field, fix="Give RFC 3339 with an offset, or unix seconds."
        ) from None


def raw_text(raw: Raw) -> str:
    try:
        return bytes(raw).decode()
    except UnicodeDecodeError as error:  # what is passed through unread is not checked by the decoder either
        raise InvalidRequest(f"it is not UTF-8 ({error})", field="payload", fix="Send JSON in UTF-8.") from None


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
    if isinstance(policy := as_they_are.get("policy"), Mapping):
        as_they_are["policy"] = policy_of(policy)
    return replace(_converted(said, kind), **as_they_are)


def policy_of(given: Mapping[str, Any]) -> PolicyRequest:
    return _converted({name: _plain(value) for name, value in given.items()}, PolicyRequest, "policy")


def json_of(value: Any) -> Raw:
    """Encode any JSON value; `msgspec.Raw` passes its bytes through unchanged."""
    try:
        return Raw(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"it cannot be written as JSON ({error})", field="payload") from None


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
