"""What a request asks for, in an alarm's own terms; and values as people and programs write them. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta
from datetime import time as clock_time
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import fields, replace

from wakeful.errors import InvalidRequest, InvalidSchedule
from wakeful.model.alarm import Alarm, Policy
from wakeful.model.outcome import MOST_COST, Report
from wakeful.model.requests import (
    CreateRequest,
    Defaults,
    EditRequest,
    GivenTime,
    Moment,
    PolicyRequest,
    ReportRequest,
    Span,
    Wanted,
)
from wakeful.rules.create import POLICY_LENGTHS, POLICY_MOMENTS, check_text
from wakeful.schedule import duration, given_zone, parse

REPORT_LIMIT: Final = 128 * 1024
# A day from the ends of the calendar: whatever is reckoned from a moment, in whatever zone, is still a date.
_FIRST: Final = datetime.min.replace(tzinfo=UTC) + timedelta(days=1)
_LAST: Final = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)
_NAMED: Final = re.compile(r"(?:required|unknown) field `(.*)`$")
_CHECKED_LATER: Final = ("fire_at", "delay_seconds", "payload", "policy")  # they have more forms in Python than in JSON


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


def wanted_alarm(request: CreateRequest, usual: Defaults) -> Wanted:
    """The alarm a request asks for, as is usual where it does not say."""
    _check_kind(request)
    said = _said(request, SETTABLE, usual.policy)
    said["target"] = said.get("target") or usual.target  # an empty name says nothing
    said.setdefault("max_failures", usual.max_failures)
    said.setdefault("policy", usual.policy)
    return Wanted(said, _time(request, usual.timezone), date_order=usual.date_order, bare_day=usual.bare_day)


def wanted_change(
    request: EditRequest, usual: Policy, date_order: str = "", bare_day: clock_time = clock_time(9)
) -> Wanted:
    """Build the edit that a request asks for. What it says of a policy is merged into the alarm's own."""
    _check_kind(request)
    names = [name for name in EDITABLE if name != "policy"]
    changes = policy_changes(request.policy, usual)
    found = Wanted(_said(request, names, usual), _time(request, ""), changes, date_order, bare_day)
    if not found.fields and not found.policy and replace(found.time, kind="") == GivenTime():
        raise InvalidRequest("nothing to change was given", field="body", fix="Name at least one field.")
    return found


def _said(request: EditRequest, names: Sequence[str], usual: Policy) -> dict[str, Any]:
    """The fields of an alarm that a request names, as an alarm has them."""
    found: dict[str, Any] = {}
    for name in names:
        value = getattr(request, name)
        if value is None or value is UNSET:
            continue
        if name == "policy":
            value = policy(value, usual)
        elif name in _READ:
            value = _READ[name](value)
        found[ATTRIBUTES[name]] = value
    return found


def _time(request: EditRequest, usual_zone: str) -> GivenTime:
    return GivenTime(
        when=request.when or "",
        fire_at=_fire_at(request),
        delay=None if request.delay_seconds is None else span(request.delay_seconds, "delay_seconds"),
        cron_expr=request.cron_expr or "",
        timezone=given_zone(request.timezone) if request.timezone else usual_zone,
        kind=request.kind or "",
    )


def _fire_at(request: EditRequest) -> datetime | None:
    try:
        return None if request.fire_at is None else moment(request.fire_at, "fire_at")
    except InvalidRequest as error:  # like everything that is wrong with a time
        raise InvalidSchedule(error.message, field=error.field, fix=error.fix) from None


def report(request: ReportRequest) -> Report:
    for name in ("result", "reason"):
        check_text(name, getattr(request, name), REPORT_LIMIT)
    wait = None if request.wait is None else span(request.wait, "for")
    return Report(request.outcome, request.result or request.reason, wait, cost_of(request.cost), request.renew)


def cost_of(value: float | None, field: str = "cost") -> float:
    """Check a cost: a number from 0 on that can be counted."""
    cost = value or 0.0
    if not 0 <= cost <= MOST_COST:
        raise InvalidRequest(f"{value} is not a cost", field=field, fix=f"Give a number from 0 to {MOST_COST:g}.")
    return cost


def _check_kind(request: EditRequest) -> None:
    """Refuse a kind that does not match the time."""
    once = request.fire_at is not None or request.delay_seconds is not None
    if request.kind is None or not (request.cron_expr is not None if request.kind == "once" else once):
        return
    fix = "Give delay_seconds or fire_at." if request.kind == "once" else "Give cron_expr."
    raise InvalidSchedule(f"the kind {request.kind!r} does not match the time that was given", field="kind", fix=fix)


def policy(request: PolicyRequest | Policy | None, default: Policy) -> Policy:
    """Fill in a requested policy from the default; a complete Policy stays as it is."""
    if request is None:
        return default
    if isinstance(request, Policy):
        return request if request.on_silence is not None else replace(request, on_silence=default.on_silence)
    said = policy_changes(request, default)
    return replace(default, **said) if said else default


def policy_changes(request: PolicyRequest | Policy | None, default: Policy) -> dict[str, Any]:
    """What a request says of a policy, field by field; null is what the default has."""
    if request is None:
        return {}
    if isinstance(request, Policy):
        return {name: getattr(policy(request, default), name) for name in PolicyRequest.__struct_fields__}
    said: dict[str, Any] = {}
    for name in PolicyRequest.__struct_fields__:
        value = getattr(request, name)
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


def bound_meant(error: InvalidRequest, request: EditRequest, *, timezone: str, now: datetime) -> dict[str, Any]:
    """The moment that was meant where a bound of a policy was refused as it is a phrase: "friday" ends with that day.

    As a repair of the request; {} if nothing else is wrong, or the phrase means no moment.
    """
    name = error.field.partition("policy.")[2]
    phrase = getattr(request.policy, name, None) if name in POLICY_MOMENTS else None
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


def appended(payload_json: str, more: Raw) -> Raw:
    """A payload with more of it: an object's fields, each of them the same way, or the elements of a list."""
    try:
        before, added = msgspec.json.decode(payload_json), msgspec.json.decode(more)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"it is not JSON ({error})", field="payload") from None
    if type(before) is not type(added) or not isinstance(added, dict | list):
        what = "an object" if isinstance(before, dict) else "a list" if isinstance(before, list) else "not one of these"
        fix = "Give an object for an object, and a list for a list; an edit replaces it."
        raise InvalidRequest(f"it cannot be appended: the payload is {what}", field="payload", fix=fix)
    return Raw(msgspec.json.encode(_joined(before, added)))


def _joined(before: Any, added: Any) -> Any:
    if isinstance(before, dict) and isinstance(added, dict):
        return before | {name: _joined(before.get(name), value) for name, value in added.items()}
    return [*before, *added] if isinstance(before, list) and isinstance(added, list) else added


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
