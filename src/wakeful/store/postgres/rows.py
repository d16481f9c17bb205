"""Between wakeful's values and PostgreSQL's rows.

Values travel as one array per column, so a batch of any size is one statement with the same parameters. Every statement
asks for a struct's columns in the order of its fields (store/columns.py), whatever else the table has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec.structs import astuple, replace

from wakeful.model.alarm import DEFAULT_POLICY, Alarm, Attempt, Change, Event, Fire
from wakeful.moments import MS, unix_ms
from wakeful.store import DescribedFire, MovedFire, NewAlarm, TargetState, Token, Worker
from wakeful.store.columns import (
    ALARM_FIELDS,
    DISPATCH,
    INTENT,
    FirstTry,
    columns,
    folded,
    kept_schedule,
    places,
    with_schedule,
)
from wakeful.store.rows import policy_of, policy_text

_ALARM: Final = ALARM_FIELDS
_kept: Final = attrgetter(*_ALARM)
_COLUMNS: Final = tuple(column.name for column in columns(Alarm))
_FIRE: Final = Fire.__struct_fields__
_DESCRIPTION: Final = DescribedFire.__struct_fields__[:-1]
_EVENT: Final = Event.__struct_fields__
_TARGET: Final = TargetState.__struct_fields__
_WORKER: Final = Worker.__struct_fields__
_TOKEN: Final = Token.__struct_fields__
_FIRST_TRY: Final = FirstTry.__struct_fields__
_POLICY: Final = _ALARM.index("policy")
_LOG: Final = _FIRE.index("log")
_LISTS: Final = places(Worker, "json")
_SEEN: Final = _WORKER.index("seen_at")
_dispatched: Final = attrgetter(*DISPATCH)
_FIELDS: Final = dict(zip(_COLUMNS, _ALARM, strict=True))  # by their columns
_intended: Final = attrgetter(*(_FIELDS[name] for name in INTENT))
_INTENT_POLICY: Final = INTENT.index("policy")
_INTENT_SCHEDULE: Final = INTENT.index("cron_expr")
_SCHEDULE: Final = _ALARM.index("cron_expr")

_json = msgspec.json.Encoder()
_log = msgspec.json.Decoder(tuple[Attempt, ...])
_names = msgspec.json.Decoder(tuple[str, ...])

Columns = list[Sequence[Any]]


def uuid_of(text: str) -> UUID | None:
    """The id as the database has it; None when it cannot be one of ours, which are spelled in one way only."""
    try:
        found = UUID(text)
    except ValueError:
        return None
    return found if str(found) == text else None


def first_uuid(moment: datetime) -> UUID:
    """Where the ids begin that were made at a moment or later."""
    return UUID(int=max(0, unix_ms(moment)) << 80)


def alarm_of(row: Iterable[Any]) -> Alarm:
    values = dict(zip(_ALARM, row, strict=True))
    values["id"] = str(values["id"])
    policy = values["policy"]
    values["policy"] = DEFAULT_POLICY if policy is None else policy_of(policy)
    return Alarm(**with_schedule(values))


def fire_of(row: Iterable[Any]) -> Fire:
    values = dict(zip(_FIRE, row, strict=True))
    values["alarm_id"] = str(values["alarm_id"])
    values["log"] = _log.decode(values["log"])
    return Fire(**values)


def new_alarm_of(row: Iterable[Any]) -> NewAlarm:
    id, *rest = row
    return NewAlarm(**dict(zip(NewAlarm.__struct_fields__, (str(id), *rest), strict=True)))


def moved_fire_of(row: Iterable[Any]) -> MovedFire:
    alarm_id, *rest = row
    return MovedFire(**dict(zip(MovedFire.__struct_fields__, (str(alarm_id), *rest), strict=True)))


def described_fire_of(row: Iterable[Any]) -> DescribedFire:
    """The alarm's columns come first; they are empty where it is gone."""
    values = tuple(row)
    said = {name: value for name, value in zip(_DESCRIPTION, values, strict=False) if value is not None}
    return DescribedFire(**said, fire=fire_of(values[len(_DESCRIPTION) :]))


def alarm_and_fire_of(row: Iterable[Any]) -> tuple[Alarm, Fire]:
    """Both from one row: the fire's columns first."""
    values = tuple(row)
    return alarm_of(values[len(_FIRE) :]), fire_of(values[: len(_FIRE)])


def event_of(row: Iterable[Any]) -> tuple[int, Event]:
    seq, *values = row
    return seq, Event(**dict(zip(_EVENT, values, strict=True)))


def worker_of(row: Iterable[Any]) -> Worker:
    values = dict(zip(_WORKER, row, strict=True))
    for index in _LISTS:
        values[_WORKER[index]] = _names.decode(values[_WORKER[index]])
    return Worker(**values)


def target_state_of(row: Iterable[Any]) -> TargetState:
    return TargetState(**dict(zip(_TARGET, row, strict=True)))


def token_of(row: Iterable[Any]) -> Token:
    values = dict(zip(_TOKEN, row, strict=True))
    values["scopes"] = tuple(values["scopes"].split(","))
    return Token(**values)


def token_values(token: Token) -> tuple[Any, ...]:
    return astuple(replace(token, scopes=",".join(token.scopes)))


def new_alarm_columns(alarms: Sequence[Alarm]) -> list[str | None]:
    """The columns of alarms to add, folded: most of a batch have most of them alike, and each value costs to send."""
    sent: Columns = list(zip(*map(_kept, alarms), strict=True))
    sent[_POLICY] = [policy_text(policy) for policy in sent[_POLICY]]
    sent[_SCHEDULE] = list(map(kept_schedule, alarms))
    return folded(sent, _COLUMNS)


def guard_columns(changes: Iterable[Change]) -> Columns:
    return _columns([(change.after.id, change.claim, change.version) for change in changes], 3)


def settled_columns(changes: Iterable[Change]) -> Columns:
    """Of the settlement of an attempt: the fire's moment and its new status. Reports and edits raise the version."""
    return _columns(
        [
            (change.fires[0].scheduled_for, change.fires[0].status)
            if change.fires and change.after.version == change.version
            else (None, None)
            for change in changes
        ],
        2,
    )


def dispatch_columns(changes: Iterable[Change]) -> Columns:
    return _columns([_dispatched(change.after) for change in changes], len(DISPATCH))


def first_try_columns(changes: Iterable[Change]) -> list[str | None]:
    """Of first attempts that arrived, folded: see `settle_at_once`."""
    values = [_first_try_values(change, change.after, change.fires[0]) for change in changes]
    return folded(list(zip(*values, strict=True)), _FIRST_TRY)


def _first_try_values(change: Change, after: Alarm, fire: Fire) -> tuple[Any, ...]:
    started = fire.started_at
    assert started is not None
    moments: tuple[datetime | None, ...] = (None, None, None)
    if after.kind == "cron":
        moments = (after.next_fire_at, after.occurrence_at, fire.scheduled_for)
    ms = (fire.updated_at - started) // MS
    log = _json.encode(fire.log).decode()
    held = (after.id, change.claim, change.version, after.status)
    return (*held, *moments, started, ms, fire.completed_at is not None, fire.result, log)


def intent_columns(changes: Iterable[Change]) -> Columns:
    return _columns([_intent_values(change.after) for change in changes], len(INTENT))


def fire_columns(changes: Iterable[Change]) -> Columns:
    return _columns([_fire_values(fire) for change in changes for fire in _last_of_each(change.fires)], len(_FIRE))


def event_columns(events: Iterable[Event]) -> Columns:
    return _columns([astuple(event) for event in events], len(_EVENT))


def worker_values(worker: Worker) -> list[Any]:
    """Without when it was seen: that says the database's clock."""
    values = list(astuple(worker))
    for index in _LISTS:
        values[index] = _json.encode(values[index]).decode()
    return [*values[:_SEEN], *values[_SEEN + 1 :]]


def without_unwritable(change: Change) -> Change:
    """A target may answer with characters that PostgreSQL does not take. That must not keep its wake unsettled."""
    after = replace(change.after, last_error=_writable(change.after.last_error))
    fires = tuple(
        replace(
            fire,
            result=_writable(fire.result),
            last_error=_writable(fire.last_error),
            log=tuple(replace(line, said=_writable(line.said)) for line in fire.log),
        )
        for fire in change.fires
    )
    events = tuple(replace(event, reason=_writable(event.reason)) for event in change.events)
    after = replace(after, paused_reason=_writable(after.paused_reason))
    return replace(change, after=after, fires=fires, events=events)


def _writable(text: str) -> str:
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def _intent_values(alarm: Alarm) -> tuple[Any, ...]:
    values = list(_intended(alarm))
    values[_INTENT_POLICY] = policy_text(alarm.policy)
    values[_INTENT_SCHEDULE] = kept_schedule(alarm)
    return tuple(values)


def _fire_values(fire: Fire) -> tuple[Any, ...]:
    values = astuple(fire)
    return (*values[:_LOG], _json.encode(fire.log).decode(), *values[_LOG + 1 :])


def _last_of_each(fires: tuple[Fire, ...]) -> Iterable[Fire]:
    # One statement may not write a row twice.
    if len(fires) < 2:
        return fires
    latest: Mapping[datetime, Fire] = {fire.scheduled_for: fire for fire in fires}
    return latest.values()


def _columns(rows: list[tuple[Any, ...]], width: int) -> Columns:
    return list(zip(*rows, strict=True)) if rows else [()] * width
