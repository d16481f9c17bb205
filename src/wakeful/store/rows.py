"""Between a SQLite row and the value it stands for: moments as whole unix milliseconds, policy and log as JSON.

Every statement asks for a struct's columns in the order of its fields (store/columns.py), whatever else the table has.
So only the positions that differ in kind are touched.
This is on the path of every wake: a few microseconds a row.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec.structs import astuple, replace

from wakeful.model.alarm import DEFAULT_POLICY, Alarm, Attempt, Change, Event, Fire, Policy
from wakeful.moments import EPOCH, MS, unix_ms
from wakeful.store import DescribedFire, MovedFire, NewAlarm, TargetState, Token, Worker
from wakeful.store.columns import ALARM_FIELDS, DISPATCH, kept_schedule, places, with_schedule

Row = tuple[Any, ...]


def storable(*texts: str) -> bool:
    """Whether a text could be in the database at all; what is not valid Unicode finds nothing."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


def length_ms(length: timedelta) -> int:
    """A length in whole milliseconds, rounded up: a lease never ends before it should."""
    return -(-length // MS)


def first_id(ms: int) -> str:
    """Where the ids begin that were made in a millisecond or later."""
    text = f"{max(0, ms):012x}"
    return f"{text[:8]}-{text[8:]}"


_ALARM: Final = ALARM_FIELDS
_kept: Final = attrgetter(*_ALARM)
ID, OWNER, KEY = (_ALARM.index(name) for name in ("id", "owner_did", "idempotency_key"))
_ALARM_MOMENTS: Final = places(Alarm, "moment")
_ALARM_FLAGS: Final = places(Alarm, "flag")
_POLICY: Final = _ALARM.index("policy")
_SCHEDULE: Final = _ALARM.index("cron_expr")
WORDS: Final = tuple(_ALARM.index(name) for name in ("label", "wake_message", "idempotency_key"))
_dispatched: Final = attrgetter(*DISPATCH)
_CHANGE_MOMENTS: Final = places(Alarm, "moment", ("id", "held_claim", "held_version", *DISPATCH))

_FIRE: Final = Fire.__struct_fields__
_FIRE_MOMENTS: Final = places(Fire, "moment")
_LOG: Final = _FIRE.index("log")
_NEW_MOMENTS: Final = places(NewAlarm, "moment")
_MOVED_MOMENTS: Final = places(MovedFire, "moment")


def _with_moments(row: Row, positions: tuple[int, ...]) -> list[Any]:
    values = list(row)
    for at in positions:
        if (ms := values[at]) is not None:
            values[at] = EPOCH + ms * MS
    return values


def _with_ms(row: Row, positions: tuple[int, ...]) -> list[Any]:
    values = list(row)
    known = ms = None
    for at in positions:
        if (moment := values[at]) is not None:
            if moment is not known:  # a new row has two moments in its five
                known, ms = moment, (moment - EPOCH) // MS
            values[at] = ms
    return values


def to_alarm(row: Row) -> Alarm:
    values = _with_moments(row, _ALARM_MOMENTS)
    policy = values[_POLICY]
    values[_POLICY] = DEFAULT_POLICY if policy is None else policy_of(policy)
    for at in _ALARM_FLAGS:
        values[at] = values[at] == 1
    return Alarm(**with_schedule(dict(zip(_ALARM, values, strict=True))))


def to_alarms(text: str) -> list[Alarm]:
    """A JSON array of alarms, moments as unix seconds: how a claim reads many at once."""
    try:
        return _read_alarms(text)
    except msgspec.ValidationError:  # one that this version cannot read must not hide the others
        return [_to_alarm_leniently(each) for each in msgspec.json.decode(text)]


def _to_alarm_leniently(given: dict[str, Any]) -> Alarm:
    try:
        return msgspec.convert(given, Alarm, strict=False)
    except msgspec.ValidationError:
        policy = _known_fields(given["policy"])
        return msgspec.convert(given | {"policy": policy}, Alarm, strict=False)


def from_alarm(alarm: Alarm) -> list[Any]:
    values = _with_ms(_kept(alarm), _ALARM_MOMENTS)
    values[_POLICY] = policy_text(alarm.policy)
    values[_SCHEDULE] = kept_schedule(alarm)
    return values


def policy_text(policy: Policy) -> str | None:
    """A policy as its column holds it, in either store."""
    # One shared object in nearly every alarm: told by identity before it is compared field by field.
    return None if policy is DEFAULT_POLICY or policy == DEFAULT_POLICY else _json(policy)


def from_change(change: Change) -> list[Any]:
    """The parameters of `settle` or, where intent changed, of `settle_edited`."""
    if change.edited:
        return [change.claim, change.version, *from_alarm(change.after)]
    after = change.after
    values = [after.id, change.claim, change.version, *_dispatched(after)]
    for at in _CHANGE_MOMENTS:
        if (moment := values[at]) is not None:
            values[at] = (moment - EPOCH) // MS
    return values


def from_first_try(change: Change) -> tuple[list[Any], list[Any]]:
    """The parameters of `settle_at_once`, where a one-shot stays at its moment, and of `put_first_fires`."""
    after, fire = change.after, change.fires[0]
    assert fire.started_at is not None
    moments = (unix_ms(after.next_fire_at), unix_ms(after.occurrence_at)) if after.kind == "cron" else (None, None)
    ended = unix_ms(fire.updated_at)
    completed = None if fire.completed_at is None else ended
    whose = (fire.alarm_id, unix_ms(fire.scheduled_for), fire.owner_did, fire.target, fire.status)
    return (
        [after.id, change.claim, change.version, after.status, *moments, ended],
        [*whose, unix_ms(fire.started_at), ended, completed, fire.duration_ms, fire.result, _json(fire.log)],
    )


def to_fire(row: Row) -> Fire:
    values = _with_moments(row, _FIRE_MOMENTS)
    values[_LOG] = _read_log(values[_LOG])
    return Fire(**dict(zip(_FIRE, values, strict=True)))


def from_fire(fire: Fire) -> list[Any]:
    values = _with_ms(astuple(fire), _FIRE_MOMENTS)
    values[_LOG] = _json(fire.log)
    return values


_DESCRIPTION: Final = DescribedFire.__struct_fields__[:-1]


def to_described_fire(row: Row) -> DescribedFire:
    """The alarm's columns come first; they are empty where it is gone."""
    said = {name: value for name, value in zip(_DESCRIPTION, row, strict=False) if value is not None}
    return DescribedFire(**said, fire=to_fire(row[len(_DESCRIPTION) :]))


def to_alarm_and_fire(row: Row) -> tuple[Alarm, Fire]:
    return to_alarm(row[len(_FIRE) :]), to_fire(row[: len(_FIRE)])


def to_new_alarm(row: Row) -> NewAlarm:
    values = _with_moments(row, _NEW_MOMENTS)
    return NewAlarm(**dict(zip(NewAlarm.__struct_fields__, values, strict=True)))


def to_moved_fire(row: Row) -> MovedFire:
    values = _with_moments(row, _MOVED_MOMENTS)
    return MovedFire(**dict(zip(MovedFire.__struct_fields__, values, strict=True)))


_EVENT_MOMENTS: Final = places(Event, "moment")


def to_event(row: Row) -> tuple[int, Event]:
    values = _with_moments(row[1:], _EVENT_MOMENTS)
    return row[0], Event(**dict(zip(Event.__struct_fields__, values, strict=True)))


def from_event(event: Event) -> list[Any]:
    return _with_ms(astuple(event), _EVENT_MOMENTS)


_WORKER_MOMENTS: Final = places(Worker, "moment")
_WORKER_NAMES: Final = places(Worker, "json")


def to_worker(row: Row) -> Worker:
    values = _with_moments(row, _WORKER_MOMENTS)
    for at in _WORKER_NAMES:
        values[at] = _read_names(values[at])
    return Worker(**dict(zip(Worker.__struct_fields__, values, strict=True)))


def from_worker(worker: Worker, *, seen_at: datetime) -> list[Any]:
    values = _with_ms(astuple(replace(worker, seen_at=seen_at)), _WORKER_MOMENTS)
    for at in _WORKER_NAMES:
        values[at] = _json(values[at])
    return values


_STATE_MOMENTS: Final = places(TargetState, "moment")


def to_target_state(row: Row) -> TargetState:
    values = _with_moments(row, _STATE_MOMENTS)
    return TargetState(**dict(zip(TargetState.__struct_fields__, values, strict=True)))


def from_target_state(state: TargetState) -> list[Any]:
    return _with_ms(astuple(state), _STATE_MOMENTS)


_TOKEN: Final = Token.__struct_fields__
_TOKEN_MOMENTS: Final = places(Token, "moment")
_SCOPES: Final = _TOKEN.index("scopes")


def to_token(row: Row) -> Token:
    values = _with_moments(row, _TOKEN_MOMENTS)
    values[_SCOPES] = tuple(values[_SCOPES].split(","))
    return Token(**dict(zip(_TOKEN, values, strict=True)))


def from_token(token: Token) -> list[Any]:
    values = _with_ms(astuple(token), _TOKEN_MOMENTS)
    values[_SCOPES] = ",".join(token.scopes)
    return values


_read_alarms: Final = msgspec.json.Decoder(list[Alarm], strict=False).decode
_read_policy: Final = msgspec.json.Decoder(Policy).decode
_read_log: Final = msgspec.json.Decoder(tuple[Attempt, ...]).decode
_read_names: Final = msgspec.json.Decoder(tuple[str, ...]).decode
_encode: Final = msgspec.json.Encoder().encode


@lru_cache(maxsize=1024)
def policy_of(text: str) -> Policy:
    """A policy as a row has it, also one with fields that this version does not know."""
    try:
        return _read_policy(text)
    except msgspec.DecodeError:
        return _known_fields(text)


def _known_fields(given: Any) -> Policy:
    """What can be read of a policy that a newer wakeful, or somebody's hand, has written."""
    try:
        fields = msgspec.json.decode(given) if isinstance(given, str) else given
        return msgspec.convert({name: fields[name] for name in Policy.__struct_fields__ if name in fields}, Policy)
    except (msgspec.MsgspecError, TypeError):
        return DEFAULT_POLICY


def _json(value: object) -> str:
    return _encode(value).decode()
