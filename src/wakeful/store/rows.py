"""Between a SQLite row and the value it stands for: moments as whole unix milliseconds, policy and log as JSON.

A row and a struct have the same fields in the same order, so only the positions that differ in kind are touched.
This is on the path of every wake: a few microseconds a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec.structs import astuple

from wakeful.alarm import DEFAULT_POLICY, Alarm, Attempt, Change, Event, Fire, Policy
from wakeful.store import MovedFire, NewAlarm, TargetState, Token, Worker

Row = tuple[Any, ...]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)


def to_ms(moment: datetime) -> int:
    return (moment - _EPOCH) // _MS


def to_moment(ms: int) -> datetime:
    return _EPOCH + ms * _MS


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // _MS


def length_ms(length: timedelta) -> int:
    """A length in whole milliseconds, rounded up: a lease never ends before it should."""
    return -(-length // _MS)


def first_id(ms: int) -> str:
    """Where the ids begin that were made in a millisecond or later."""
    text = f"{max(0, ms):012x}"
    return f"{text[:8]}-{text[8:]}"


def _positions(fields: Sequence[str], *names: str) -> tuple[int, ...]:
    return tuple(fields.index(name) for name in names)


_ALARM: Final = Alarm.__struct_fields__
_ALARM_MOMENTS: Final = _positions(
    _ALARM,
    "fire_at",
    "next_fire_at",
    "claimed_at",
    "created_at",
    "updated_at",
    "last_fired_at",
    "occurrence_at",
    "awaiting",
    "cancelled_at",
)
_POLICY: Final = _ALARM.index("policy")
_ISOLATED: Final = _ALARM.index("isolated")

_FIRE: Final = Fire.__struct_fields__
_FIRE_MOMENTS: Final = _positions(
    _FIRE,
    "scheduled_for",
    "started_at",
    "delivered_at",
    "report_by",
    "completed_at",
    "through",
    "updated_at",
)
_LOG: Final = _FIRE.index("log")
_MOVED_MOMENTS: Final = _positions(MovedFire.__struct_fields__, "scheduled_for", "delivered_at", "updated_at")


def _with_moments(row: Row, positions: tuple[int, ...]) -> list[Any]:
    values = list(row)
    for at in positions:
        if (ms := values[at]) is not None:
            values[at] = _EPOCH + ms * _MS
    return values


def _with_ms(row: Row, positions: tuple[int, ...]) -> list[Any]:
    values = list(row)
    for at in positions:
        if (moment := values[at]) is not None:
            values[at] = (moment - _EPOCH) // _MS
    return values


def to_alarm(row: Row) -> Alarm:
    values = _with_moments(row, _ALARM_MOMENTS)
    policy = values[_POLICY]
    values[_POLICY] = DEFAULT_POLICY if policy is None else _policy(policy)
    values[_ISOLATED] = values[_ISOLATED] == 1
    return Alarm(**dict(zip(_ALARM, values, strict=True)))


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
    values = _with_ms(astuple(alarm), _ALARM_MOMENTS)
    policy = alarm.policy
    # One shared object in nearly every alarm: told by identity before it is compared field by field.
    values[_POLICY] = None if policy is DEFAULT_POLICY or policy == DEFAULT_POLICY else _json(policy)
    return values


def from_change(change: Change) -> list[Any]:
    """The parameters of `settle` or, where intent changed, of `settle_edited`."""
    if change.edited:
        return [change.claim, change.version, *from_alarm(change.after)]
    after = change.after
    return [  # in the order of `change` in that query
        after.id,
        change.claim,
        change.version,
        (after.next_fire_at - _EPOCH) // _MS,
        after.status,
        after.failure_count,
        after.last_error,
        _ms(after.claimed_at),
        (after.updated_at - _EPOCH) // _MS,
        _ms(after.last_fired_at),
        (after.occurrence_at - _EPOCH) // _MS,
        after.claim,
        after.unsettled,
        after.version,
        _ms(after.awaiting),
        after.fire_count,
        after.failed_in_a_row,
        after.paused_reason,
        _ms(after.cancelled_at),
    ]


def to_fire(row: Row) -> Fire:
    values = _with_moments(row, _FIRE_MOMENTS)
    values[_LOG] = _read_log(values[_LOG])
    return Fire(**dict(zip(_FIRE, values, strict=True)))


def from_fire(fire: Fire) -> list[Any]:
    values = _with_ms(astuple(fire), _FIRE_MOMENTS)
    values[_LOG] = _json(fire.log)
    return values


def to_alarm_and_fire(row: Row) -> tuple[Alarm, Fire]:
    return to_alarm(row[len(_FIRE) :]), to_fire(row[: len(_FIRE)])


def to_new_alarm(row: Row) -> NewAlarm:
    id, owner_did, target, status, created_at = row
    return NewAlarm(id=id, owner_did=owner_did, target=target, status=status, created_at=to_moment(created_at))


def to_moved_fire(row: Row) -> MovedFire:
    values = _with_moments(row, _MOVED_MOMENTS)
    return MovedFire(**dict(zip(MovedFire.__struct_fields__, values, strict=True)))


def to_event(row: Row) -> tuple[int, Event]:
    seq, at, what, alarm_id, owner_did, fire_id, by, reason = row
    event = Event(
        at=to_moment(at), what=what, alarm_id=alarm_id, owner_did=owner_did, fire_id=fire_id, by=by, reason=reason
    )
    return seq, event


def from_event(event: Event) -> list[Any]:
    return [to_ms(event.at), *astuple(event)[1:]]


def to_worker(row: Row) -> Worker:
    id, host, pid, version, started_at, seen_at, stopped_at, targets, handlers = row
    return Worker(
        id=id,
        host=host,
        pid=pid,
        version=version,
        started_at=to_moment(started_at),
        seen_at=to_moment(seen_at),
        stopped_at=None if stopped_at is None else to_moment(stopped_at),
        targets=_read_names(targets),
        handlers=_read_names(handlers),
    )


def from_worker(worker: Worker, *, seen_at: datetime) -> list[Any]:
    return [
        worker.id,
        worker.host,
        worker.pid,
        worker.version,
        to_ms(worker.started_at),
        to_ms(seen_at),
        None if worker.stopped_at is None else to_ms(worker.stopped_at),
        _json(worker.targets),
        _json(worker.handlers),
    ]


_STATE_MOMENTS: Final = _positions(TargetState.__struct_fields__, "paused_at", "breaker_opened_at", "updated_at")


def to_target_state(row: Row) -> TargetState:
    values = _with_moments(row, _STATE_MOMENTS)
    return TargetState(**dict(zip(TargetState.__struct_fields__, values, strict=True)))


def from_target_state(state: TargetState) -> list[Any]:
    return _with_ms(astuple(state), _STATE_MOMENTS)


_TOKEN: Final = Token.__struct_fields__
_TOKEN_MOMENTS: Final = _positions(_TOKEN, "created_at", "expires_at", "last_used_at", "revoked_at")
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
def _policy(text: str) -> Policy:
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
