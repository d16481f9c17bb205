"""JSON in, JSON out, and what each error is called at each door. One place, so that no two doors differ."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import replace

from wakeful.alarm import DEFAULT_POLICY, Alarm, Draft, Edit, Fire, Policy, Report
from wakeful.alarm.create import check_text
from wakeful.errors import (
    Conflict,
    Forbidden,
    InvalidConfig,
    InvalidRequest,
    InvalidSchedule,
    NotFound,
    StaleVersion,
    StoreBusy,
    StoreUnavailable,
    TooMany,
    Unauthorized,
    UnknownTarget,
    WakefulError,
)
from wakeful.schedule import duration
from wakeful.service.taken import Taken

# code → (HTTP status, exit status of the command line)
DOORS: Final[dict[str, tuple[int, int]]] = {
    InvalidRequest.code: (400, 2),
    InvalidSchedule.code: (400, 2),
    UnknownTarget.code: (400, 2),
    InvalidConfig.code: (500, 2),
    NotFound.code: (404, 3),
    Conflict.code: (409, 4),
    StaleVersion.code: (412, 4),
    Unauthorized.code: (401, 5),
    Forbidden.code: (403, 5),
    TooMany.code: (429, 5),
    StoreUnavailable.code: (503, 6),
    StoreBusy.code: (503, 6),
    WakefulError.code: (500, 1),
}

Span = float | str
Moment = str | float  # RFC 3339 with an offset, or unix seconds
# For the OpenAPI document only: what is wrong with them is told in better words than a decoder has.
Message = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 32 * 1024})]
When = Annotated[str, Meta(extra_json_schema={"minLength": 1, "examples": ["tomorrow at 9am", "every weekday at 9am"]})]
Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
REPORT_LIMIT: Final = 128 * 1024
# A day from the ends of the calendar: whatever is reckoned from a moment, in whatever zone, is still a date.
_FIRST: Final = datetime.min.replace(tzinfo=UTC) + timedelta(days=1)
_LAST: Final = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)
_NAMED: Final = re.compile(r"(?:required|unknown) field `(.*)`$")


class PolicyBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A policy as people write it: durations as seconds or "15m", moments as RFC 3339."""

    backoff_base: Span | None = None
    backoff_cap: Span | None = None
    catch_up: Literal["one", "skip"] | None = None
    grace: Span | None = None
    expires: Span | None = None
    overlap: Literal["skip", "allow"] | None = None
    report_within: Span | None = None
    starts_at: Moment | None = None
    ends_at: Moment | None = None
    max_fires: Count | None = None
    jitter: Span | None = None
    auto_pause_after: Count | None = None


class CreateBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    wake_message: Message
    when: When | None = None
    kind: Literal["once", "cron"] | None = None
    delay_seconds: float | None = None
    fire_at: Moment | None = None
    cron_expr: str | None = None
    timezone: str | None = None
    label: str = ""
    conversation_id: str = ""
    payload: Raw = msgspec.field(default_factory=lambda: Raw(b"{}"))
    target: str | None = None
    isolated: bool = False
    idempotency_key: str = ""
    on_conflict: Literal["return", "replace", "error"] | None = None
    max_failures: int | None = None
    policy: PolicyBody | None = None
    parent_fire: str = ""


class ReportBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    outcome: Literal["completed", "failed", "working", "snooze"]
    result: str = ""
    reason: str = ""
    wait: Span | None = msgspec.field(default=None, name="for")


T = TypeVar("T")


def decode(body: bytes | str, kind: type[T]) -> T:
    """A body as a value of a type, or an error that names the field."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise _misfit(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"it is not JSON ({error})", field="body") from None


def _misfit(error: msgspec.ValidationError, within: str = "") -> InvalidRequest:
    """A value that does not fit its type, as an error that names the field: also one that is missing or unknown."""
    what, _, where = str(error).partition(" - at `$")
    path = [within, where.strip("`.")]
    if named := _NAMED.search(what):
        path.append(named[1])
    return InvalidRequest(what, field=".".join(part for part in path if part) or "body")


def draft(
    body: CreateBody,
    *,
    owner: str,
    timezone: str,
    target: str,
    max_failures: int,
    default: Policy,
    via: str,
    by: str,
) -> Draft:
    """The alarm a body asks for."""
    check_kind(body.kind, once=(body.fire_at, body.delay_seconds), cron=body.cron_expr)
    return Draft(
        owner_did=owner,
        wake_message=body.wake_message,
        when=body.when or "",
        fire_at=None if body.fire_at is None else moment(body.fire_at, "fire_at"),
        delay=None if body.delay_seconds is None else span(body.delay_seconds, "delay_seconds"),
        cron_expr=body.cron_expr or "",
        timezone=body.timezone or timezone,
        label=body.label.strip(),
        conversation_id=body.conversation_id.strip(),
        payload=raw_text(body.payload),
        target=body.target or target,
        isolated=body.isolated,
        idempotency_key=body.idempotency_key,
        max_failures=max_failures if body.max_failures is None else body.max_failures,
        policy=policy(body.policy, default),
        created_by=by,
        created_via=via,
        parent_fire=body.parent_fire,
    )


def raw_text(raw: Raw) -> str:
    try:
        return bytes(raw).decode()
    except UnicodeDecodeError as error:  # what is passed through unread is not checked by the decoder either
        raise InvalidRequest(f"it is not UTF-8 ({error})", field="payload", fix="Send JSON in UTF-8.") from None


def check_kind(kind: str | None, *, once: tuple[Moment | None, float | None], cron: str | None) -> None:
    """Refuse a kind beside the time of the other kind."""
    if kind is None:
        return
    other = cron is not None if kind == "once" else any(given is not None for given in once)
    if other:
        fix = "Give delay_seconds or fire_at." if kind == "once" else "Give cron_expr."
        raise InvalidSchedule(f"the kind {kind!r} does not go with what was given", field="kind", fix=fix)


def policy(given: PolicyBody | Mapping[str, Any] | Policy | None, default: Policy) -> Policy:
    """A policy from any of the forms a caller may give it in; what it does not say is as in the default."""
    if given is None:
        return default
    if isinstance(given, Policy):
        return given
    if not isinstance(given, PolicyBody):
        given = _loose_policy(given)
    fields: dict[str, Any] = {}
    for name in PolicyBody.__struct_fields__:
        value = getattr(given, name)
        if value is None:
            continue
        if name in ("starts_at", "ends_at"):
            value = moment(value, f"policy.{name}")
        elif name not in ("catch_up", "overlap", "max_fires", "auto_pause_after"):
            value = span(value, f"policy.{name}", least=timedelta(0)).total_seconds()
        fields[name] = value
    return replace(default, **fields) if fields else default


def _loose_policy(given: Mapping[str, Any]) -> PolicyBody:
    plain = {
        name: value.isoformat()
        if isinstance(value, datetime)
        else value.total_seconds()
        if isinstance(value, timedelta)
        else value
        for name, value in given.items()
    }
    try:
        return msgspec.convert(plain, PolicyBody)
    except msgspec.ValidationError as error:
        raise _misfit(error, "policy") from None


def span(value: Span | timedelta, field: str, *, least: timedelta = timedelta(milliseconds=1)) -> timedelta:
    """A length of time: seconds, "15m", or a timedelta."""
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
    """A moment: RFC 3339 with an offset, unix seconds, or an aware datetime."""
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
            f"{value!r} is no moment", field=field, fix="Give RFC 3339 with an offset, or unix seconds."
        ) from None


def report(body: ReportBody) -> Report:
    for name in ("result", "reason"):
        check_text(name, getattr(body, name), REPORT_LIMIT)
    wait = None if body.wait is None else span(body.wait, "for")
    return Report(body.outcome, body.result or body.reason, wait)


def edit(fields: Mapping[str, Any], default: Policy) -> Edit:
    """The fields of an edit, in the forms `set` takes them."""
    given = {name: value for name, value in fields.items() if value is not None}
    if "policy" in given:
        given["policy"] = policy(given["policy"], default)
    if "delay" in given:
        given["delay"] = span(given["delay"], "delay")
    if "fire_at" in given:
        given["fire_at"] = moment(given["fire_at"], "fire_at")
    return Edit(**given)


def payload_text(value: Any) -> str:
    """Any JSON value as text; `msgspec.Raw` passes its bytes through untouched."""
    if value is None:
        return "{}"
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"it cannot be written as JSON ({error})", field="payload") from None


# Out


_SHOWN: Final = (
    *("id", "label", "kind", "cron_expr", "timezone", "next_fire_at", "conversation_id", "wake_message", "payload"),
    *("status", "idempotency_key", "max_failures", "failure_count", "last_error", "created_at", "last_fired_at"),
    *("target", "version", "fire_count", "policy", "paused_reason", "cancelled_at", "isolated", "owner_did"),
    *("created_by", "created_via", "root_id", "parent_fire"),
)
_shown: Final = attrgetter(*_SHOWN)
_EVEN_EMPTY: Final = ("label", "wake_message")  # as Chronos does


def view(alarm: Alarm) -> dict[str, Any]:
    """An alarm as every door shows it: empty fields left out, `next_fire_at` only while it is active."""
    shown: dict[str, Any] = dict(zip(_SHOWN, _shown(alarm), strict=True))
    shown["payload"] = Raw(alarm.payload.encode())
    shown["policy"] = None if alarm.policy == DEFAULT_POLICY else _policy_view(alarm.policy) or None
    if alarm.status != "active":
        shown["next_fire_at"] = None
    if not alarm.isolated:
        shown["isolated"] = None
    return {name: value for name, value in shown.items() if (value is not None and value != "") or name in _EVEN_EMPTY}


def _policy_view(policy: Policy) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(policy)
    shown.pop("anchor", None)
    return {name: _whole(value) for name, value in shown.items()}


def _whole(value: Any) -> Any:
    """Whole seconds as an integer: not every client takes 30.0 for one."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def fire_view(fire: Fire) -> dict[str, Any]:
    shown = {"id": fire.id} | msgspec.structs.asdict(fire)
    if fire.status != "skipped":
        del shown["through"], shown["count"]
    return {name: value for name, value in shown.items() if value not in (None, "", ())}


def handed_out(taken: Taken) -> dict[str, Any]:
    """What varies each time a wake is fetched from the inbox, as the headers of a webhook have it."""
    return {
        "attempt": taken.attempt,
        "late_ms": taken.late_ms,
        "missed": taken.missed,
        "report_by": taken.fire.report_by,
    }


def problem(error: WakefulError, status: int | None = None) -> dict[str, Any]:
    """An error as RFC 9457 wants it; `status` is for refusals that only HTTP knows."""
    status = status or DOORS[error.code][0]
    shown: dict[str, Any] = {
        "type": f"urn:wakeful:{error.code}",
        "title": _title(error),
        "status": status,
        "code": error.code,
        "detail": str(error),
    }
    return shown | ({"field": error.field} if error.field else {}) | ({"fix": error.fix} if error.fix else {})


def _title(error: WakefulError) -> str:
    """The documented name of an error: what is finer than that is our own affair."""
    return next(kind.__name__ for kind in type(error).__mro__ if "code" in vars(kind))


def encode(value: Any) -> bytes:
    return msgspec.json.encode(value)
