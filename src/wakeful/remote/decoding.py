"""What a server sends, read back into the types that the verbs answer with; and requests as it takes them. Pure.

The wire has what people and programs look at. What only a dispatcher needs is not on it, and has its usual value here:
`claimed_at`, `claim`, `unsettled`, `awaiting`, `failed_in_a_row`. A field that this version does not know is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar, get_type_hints
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Raw, Struct

from wakeful.errors import NotFound
from wakeful.model.alarm import DEFAULT_POLICY, WAKEFULS_OWN, Alarm, Fire, HeardSignal, Policy
from wakeful.model.requests import CreateRequest, EditRequest, PolicyRequest
from wakeful.moments import read_cursor
from wakeful.rules.signalling import Effect
from wakeful.rules.wake import SignalBody, WakeBody
from wakeful.rules.wanted import span
from wakeful.service import Created, HistoryEntry, Similar, TakenWake
from wakeful.service.inbox import PlaceInSeries
from wakeful.service.signalling import SignalledAlarm
from wakeful.store.filters import Cursor
from wakeful.store.records import Matches

T = TypeVar("T")
Answered = dict[str, Raw]
_EMPTY: Final = Raw(b"{}")
_NULL: Final = Raw(b"null")


def value(answered: Answered, name: str, kind: type[T]) -> T:
    return msgspec.json.decode(answered[name], type=kind)


def fields_of(raw: Raw) -> Answered:
    return msgspec.json.decode(raw, type=Answered)


def alarms_of(raw: Raw) -> list[Alarm]:
    return [alarm_of(fields) for fields in msgspec.json.decode(raw, type=list[Answered])]


class _Effect(Struct, frozen=True):
    alarm_id: str
    effect: Effect
    at: datetime | None = None


def signalled_of(told: Answered) -> list[SignalledAlarm]:
    """What a signal did to each alarm that it reached."""
    alarms = {alarm.id: alarm for alarm in alarms_of(told["alarms"])}
    if "effects" not in told:  # an older server: it cancels or fires
        return [
            SignalledAlarm(alarm=alarm, effect="cancelled" if alarm.status == "cancelled" else "fired")
            for alarm in alarms.values()
        ]
    effects = value(told, "effects", list[_Effect])
    return [SignalledAlarm(alarm=alarms[one.alarm_id], effect=one.effect, at=one.at) for one in effects]


def notes_of(told: Answered) -> list[str]:
    return value(told, "notes", list[str]) if "notes" in told else []


def created_of(told: Answered) -> Created:
    return Created(
        alarm_of(told),
        deduped=is_said(told, "deduped"),
        in_flight=is_said(told, "in_flight"),
        notes=notes_of(told),
        similar=value(told, "similar", Similar) if "similar" in told else None,
    )


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


def fires_of(raw: Raw) -> list[Fire]:
    return msgspec.json.decode(raw, type=list[Fire])


def further(answered: Answered) -> Cursor | None:
    return read_cursor(value(answered, "next_cursor", str)) if "next_cursor" in answered else None


def is_said(told: Answered, name: str) -> bool:
    return name in told and value(told, name, bool)


def fire_read(told: Answered) -> Fire:
    return msgspec.json.decode(msgspec.json.encode(told), type=Fire)


def entries_of(told: Answered, name: str) -> Matches[HistoryEntry]:
    found = msgspec.json.decode(told.get(name, Raw(b"[]")), type=list[HistoryEntry])
    last = found[-1] if found and is_said(told, "more") else None
    return Matches(found, None if last is None else (last.scheduled_for, last.alarm_id))


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
        report_by=value(shown, "report_by", datetime) if "report_by" in shown else None,
        updated_at=scheduled + handed,
    )
    place = msgspec.json.decode(msgspec.json.encode(shown), type=PlaceInSeries)
    taken = FetchedWake(alarm, fire, missed=value(shown, "missed", int), place=place)
    taken.token = value(shown, "token", str) if "token" in shown else ""
    taken.ends_at = msgspec.json.decode(shown.get("ends_at", _NULL), type=datetime | None)
    taken.renewable = is_said(shown, "renewable")
    report = value(shown, "report", dict[str, str])
    taken.report_url, taken.report_token = report["url"], report["token"]
    return taken


# Requests


def body_of(asked: EditRequest) -> dict[str, Any]:
    """A request as JSON: Python's own dates and lengths as the wire has them, and nothing that was not said."""
    is_new = isinstance(asked, CreateRequest)
    said: dict[str, Any] = {}
    for name in asked.__struct_fields__:
        given = getattr(asked, name)
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


def moment_text(given: datetime | None) -> str:
    return "" if given is None else given.isoformat()


def length(given: timedelta | float | str | None) -> float | str | None:
    return given.total_seconds() if isinstance(given, timedelta) else given


def alarm_path(id: str) -> str:
    if not id or "/" in id or id in (".", ".."):  # a path of its own, and no alarm
        raise NotFound(f"there is no alarm {id!r}", field="id")
    return f"/v1/alarms/{quote(id, safe='')}"


def fire_path(fire_id: str) -> str:
    if not fire_id or "/" in fire_id or fire_id in (".", ".."):
        raise NotFound(f"there is no fire {fire_id!r}", field="fire_id")
    return f"/v1/fires/{quote(fire_id, safe='@')}"
