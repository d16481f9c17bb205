"""Requests as a server takes them, and its answers read back into the types that the verbs answer with. Pure.

The wire has what people and programs look at. What only a dispatcher needs is not on it, and has its usual value here:
`claimed_at`, `claim`, `unsettled`, `awaiting`, `failed_in_a_row`. A field that this version does not know is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar, get_type_hints
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Raw, Struct

from wakeful.errors import NotFound
from wakeful.model.alarm import DEFAULT_POLICY, WAKEFULS_OWN, Alarm, Fire, HeardSignal, Kind, Policy
from wakeful.model.requests import CreateRequest, EditRequest, PolicyRequest
from wakeful.moments import read_cursor
from wakeful.remote.connection import Answered
from wakeful.rules.signalling import Effect
from wakeful.rules.wake import SignalBody, WakeBody
from wakeful.rules.wanted import span
from wakeful.schedule import Understood
from wakeful.service import Cancelled, Changed, Created, Details, HistoryEntry, Noted, Signalled, Similar, TakenWake
from wakeful.service.inbox import PlaceInSeries
from wakeful.service.moving import Moved
from wakeful.service.report import log_repeated
from wakeful.service.signalling import SignalledAlarm
from wakeful.service.watch import Overview
from wakeful.store.filters import Cursor
from wakeful.store.records import Matches

T = TypeVar("T")
_EMPTY: Final = Raw(b"{}")
_NULL: Final = Raw(b"null")
PART: Final = re.compile(r"\{(\w+)\}")  # of a path


def value(answered: Answered, name: str, kind: type[T]) -> T:
    return msgspec.json.decode(answered[name], type=kind)


def maybe(answered: Answered, name: str, kind: type[T]) -> T | None:
    return value(answered, name, kind) if name in answered else None


def whole(kind: type[T]) -> Callable[[Answered], T]:
    """How an answer is read that has the fields of a type."""
    return lambda answered: msgspec.json.decode(msgspec.json.encode(answered), type=kind)


def field(name: str, kind: type[T]) -> Callable[[Answered], T]:
    """How an answer is read of which one field counts."""
    return lambda answered: value(answered, name, kind)


def fields_of(raw: Raw) -> Answered:
    return msgspec.json.decode(raw, type=Answered)


def alarms_of(raw: Raw) -> list[Alarm]:
    return [alarm_of(fields) for fields in msgspec.json.decode(raw, type=list[Answered])]


class _Effect(Struct, frozen=True):
    alarm_id: str
    effect: Effect
    at: datetime | None = None


def signalled_of(response: Answered) -> Signalled:
    """What a signal did to each alarm that it reached."""
    alarms = {alarm.id: alarm for alarm in alarms_of(response["alarms"])}
    if "effects" not in response:  # an older server: it cancels or fires
        done = [
            SignalledAlarm(alarm=alarm, effect="cancelled" if alarm.status == "cancelled" else "fired")
            for alarm in alarms.values()
        ]
    else:
        effects = value(response, "effects", list[_Effect])
        done = [SignalledAlarm(alarm=alarms[one.alarm_id], effect=one.effect, at=one.at) for one in effects]
    return Signalled(alarms=done, in_flight=value(response, "in_flight", int))


def notes_of(response: Answered) -> list[str]:
    return maybe(response, "notes", list[str]) or []


def is_said(response: Answered, name: str) -> bool:
    return maybe(response, name, bool) or False


def created_of(response: Answered) -> Created:
    return Created(
        alarm_of(response),
        deduped=is_said(response, "deduped"),
        in_flight=is_said(response, "in_flight"),
        notes=notes_of(response),
        similar=maybe(response, "similar", Similar),
    )


def created_in_batch(one: Answered) -> Created:
    is_known = value(one, "status", int) == 200
    return Created(alarm_of(fields_of(one["alarm"])), deduped=is_known, notes=notes_of(one))


def changed_of(response: Answered) -> Changed:
    return Changed(alarm_of(response), is_said(response, "in_flight"), notes_of(response))


def cancelled_of(response: Answered) -> Cancelled:
    alarms, dry_run = alarms_of(response["alarms"]), is_said(response, "dry_run")
    in_flight, skipped = value(response, "in_flight", int), maybe(response, "skipped", int) or 0
    return Cancelled(alarms=alarms, dry_run=dry_run, in_flight=in_flight, skipped=skipped, notes=notes_of(response))


def moved_of(response: Answered) -> Moved:
    alarms, dry_run = alarms_of(response["alarms"]), is_said(response, "dry_run")
    return Moved(alarms=alarms, dry_run=dry_run, in_flight=value(response, "in_flight", int), notes=notes_of(response))


def details_of(response: Answered) -> Details:
    return Details(alarm_of(response), notes_of(response))


def alarm_of(shown: Answered) -> Alarm:
    """An alarm. Its payload is kept byte for byte."""
    told = {name: text for name, text in shown.items() if name not in ("payload", "policy")}
    created = told["created_at"]
    # Of one that is not active the wire does not say when it was due: the nearest moment that it has.
    due = told.get("next_fire_at") or told.get("fire_at") or told.get("last_fired_at") or created
    filled = {
        "user_id": told["owner_did"],
        "next_fire_at": due,
        "occurrence_at": told.get("fire_at") or due,
        "updated_at": told.get("cancelled_at") or told.get("last_fired_at") or created,
        "payload": bytes(shown.get("payload", _EMPTY)).decode(),
        "policy": _policy(shown.get("policy", _EMPTY))
        | {name: shown[name] for name in ("manual_of",) if name in shown},
    }
    return msgspec.json.decode(msgspec.json.encode({**filled, **told}), type=Alarm)


def _policy(raw: Raw) -> Answered:
    """A policy as it was shown: without what is usual, such as to wake again where no report comes."""
    return {"on_silence": Raw(b'"again"')} | {
        name: text for name, text in fields_of(raw).items() if name in Policy.__struct_fields__
    }


def further(answered: Answered) -> Cursor | None:
    return read_cursor(value(answered, "next_cursor", str)) if "next_cursor" in answered else None


fire_read = whole(Fire)


def completed_of(response: Answered) -> Fire:
    fire = fire_read(response)
    log_repeated(fire, notes_of(response))
    return fire


def history_of(response: Answered) -> Noted[HistoryEntry]:
    found = entries_of(response, "history")
    return Noted(found, found.further, notes_of(response))


def entries_of(response: Answered, name: str) -> Matches[HistoryEntry]:
    found = maybe(response, name, list[HistoryEntry]) or []
    last = found[-1] if found and is_said(response, "more") else None
    return Matches(found, None if last is None else (last.scheduled_for, last.alarm_id))


def agenda_of(response: Answered) -> Noted[tuple[datetime, Alarm]]:
    coming = [
        (value(one, "at", datetime), alarm_of(fields_of(one["alarm"])))
        for one in value(response, "agenda", list[Answered])
    ]
    last = (coming[-1][0], coming[-1][1].id) if coming and is_said(response, "more") else None
    return Noted(coming, last, notes_of(response))


def overview_of(response: Answered) -> Overview:
    alarms = msgspec.json.encode([msgspec.to_builtins(alarm) for alarm in alarms_of(response["next"])])
    return whole(Overview)(response | {"next": Raw(alarms)})


def understood_of(response: Answered) -> Understood:
    left_out = maybe(response, "skipped", list[Answered]) or []
    return Understood(
        kind=msgspec.json.decode(response["kind"], type=Kind),
        fire_at=maybe(response, "fire_at", datetime),
        cron_expr=maybe(response, "cron_expr", str) or "",
        timezone=value(response, "timezone", str),
        description=value(response, "description", str),
        now=value(response, "now", datetime),
        _remarks=tuple(value(response, "remarks", list[str])),
        starts_at=maybe(response, "starts_at", datetime),
        ends_at=maybe(response, "ends_at", datetime),
        max_fires=maybe(response, "max_fires", int),
        skips_holidays="calendar" in response,
        calendar=maybe(response, "calendar", str) or "",
        left_out=tuple((value(one, "utc", datetime), value(one, "holiday", str)) for one in left_out),
    )


class FetchedWake(TakenWake):
    """A wake that a server handed out, with the address and the token for reports on it alone."""

    report_url: str
    report_token: str


_OF_A_WAKE: Final = {  # what a wake says of its alarm under the same name
    name: kind
    for name, kind in get_type_hints(Alarm).items()
    if name in WakeBody.__struct_fields__ and name != "payload"
}


def _signalled(raw: Raw, scheduled: datetime) -> Policy:
    """Of its policy a wake says only which signal it comes for."""
    signal = msgspec.json.decode(raw, type=SignalBody)
    payload = bytes(signal.payload).decode()
    return Policy(heard=HeardSignal(name=signal.name, occurrence_at=scheduled, payload_json=payload))


def taken_of(shown: Answered, *, target: str) -> FetchedWake:
    """A wake as it was handed out. Of its alarm it says what a wake says: not its schedule, state or policy."""
    scheduled, handed = value(shown, "scheduled_for", datetime), timedelta(milliseconds=value(shown, "late_ms", int))
    # An earlier server does not say where its alarm comes from.
    said: dict[str, Any] = {name: value(shown, name, kind) for name, kind in _OF_A_WAKE.items() if name in shown}
    alarm = Alarm(
        id=value(shown, "alarm_id", str),
        wake_message=value(shown, "message", str),
        payload_json=bytes(shown["payload"]).decode(),
        target=target,
        fire_at=scheduled,
        next_fire_at=scheduled,
        occurrence_at=scheduled,
        updated_at=scheduled + handed,
        policy=_signalled(shown["signal"], scheduled) if "signal" in shown else DEFAULT_POLICY,
        **said,
    )
    fire = Fire(
        alarm_id=alarm.id,
        scheduled_for=scheduled,
        owner_did=alarm.owner_did,
        target=target,
        status="delivered",
        attempts=value(shown, "attempt", int),
        started_at=scheduled + handed,
        delivered_at=scheduled + handed,
        report_by=maybe(shown, "report_by", datetime),
        updated_at=scheduled + handed,
    )
    taken = FetchedWake(alarm, fire, missed=value(shown, "missed", int), place=whole(PlaceInSeries)(shown))
    taken.token = maybe(shown, "token", str) or ""
    taken.ends_at = msgspec.json.decode(shown.get("ends_at", _NULL), type=datetime | None)
    taken.renewable = is_said(shown, "renewable")
    report = value(shown, "report", dict[str, str])
    taken.report_url, taken.report_token = report["url"], report["token"]
    return taken


# Requests


def body_of(request: EditRequest) -> dict[str, Any]:
    """A request as JSON: Python's own dates and lengths as the wire has them, and nothing that was not said."""
    is_new = isinstance(request, CreateRequest)
    said: dict[str, Any] = {}
    for name in request.__struct_fields__:
        given = getattr(request, name)
        if given is None or given is UNSET or (is_new and given == "" and name != "wake_message"):
            continue
        said[name] = given
    if "delay_seconds" in said:
        said["delay_seconds"] = span(said["delay_seconds"], "delay_seconds").total_seconds()
    if isinstance(at := said.get("fire_at"), datetime) and at.tzinfo is None:
        said["fire_at"] = str(at)  # to be refused as it was written
    if "policy" in said:
        said["policy"] = _policy_body(said["policy"])
    return said


def _policy_body(policy: Policy | PolicyRequest) -> dict[str, Any]:
    said: Mapping[str, Any] = msgspec.structs.asdict(policy)
    return {name: given for name, given in said.items() if given is not UNSET and name not in WAKEFULS_OWN}


def path_of(path: str, arguments: Mapping[str, Any]) -> str:
    """The path with its `{names}` filled in from the arguments."""
    for name in PART.findall(path):
        text = arguments[name]
        if not text or "/" in text or text in (".", ".."):  # a path of its own, and no alarm
            raise NotFound(f"there is no {'fire' if name == 'fire_id' else 'alarm'} {text!r}", field=name)
        path = path.replace(f"{{{name}}}", quote(text, safe="@"))
    return path


def query_text(given: Any) -> str:
    """An argument in an address; empty where it is not said."""
    match given:
        case None | False:
            return ""
        case True:
            return "true"
        case datetime():
            return given.isoformat()
        case float():
            return f"{given:.6f}"
        case str() | int():
            return str(given)
        case _:
            return ",".join(given)


def json_value(given: Any) -> Any:
    return given.total_seconds() if isinstance(given, timedelta) else given
