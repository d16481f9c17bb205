"""Import from Alarm, the Elixir scheduler: the rows of its SQLite file become alarms, with their outcomes.

A row's id, owner, process and message make the id of its alarm, and `alarm:<id>` is its key: so a row comes in once,
and one of another file that happens to have the same id is told apart and listed instead of being taken for it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.errors import InvalidRequest
from wakeful.ids import id_of
from wakeful.model.alarm import ERROR_LIMIT, RESULT_LIMIT, Alarm, AlarmStatus, Fire, FireStatus, Policy
from wakeful.moments import from_unix_ms
from wakeful.rules.backoff import backoff
from wakeful.rules.create import LONGEST_WAIT, MESSAGE_LIMIT, check, user_of
from wakeful.seeds.erlang_terms import SIZE_LIMIT, Atom, Term, as_json, entries, inspect, read, text
from wakeful.store.sqlite.file import ForeignFile
from wakeful.transfer.takeover import PAGE, TakeoverResult, Written

State = Literal["pending", "retrying", "fired", "completed", "failed", "cancelled", "timeout_unknown"]
COLUMNS: Final = ("id", "updated_at", "set_at", "process", "message", "started_at", "reply", "cancelled_at")
# Alarm added these later; the rows of an older one do without.
LATER: Final = {
    "completed_at": "null",
    "duration_ms": "null",
    "result": "null",
    "created_by": "null",
    "created_via": "null",
    "max_retries": "0",
    "attempts": "0",
    "backoff_ms": "5000",
}
_TEXTS: Final = ("process", "reply", "result", "created_by", "created_via")
_MILLISECONDS: Final = 10**11  # a number from here on counts milliseconds: as seconds it would be after the year 5000
_CUT: Final = "…"
_WORDS: Final = ("message", "title", "body")  # where a message keeps its text
_FIRES: Final[dict[State, FireStatus]] = {
    "retrying": "retrying",
    "fired": "delivered",
    "completed": "completed",
    "failed": "failed",
    "timeout_unknown": "timed_out",
}


class FileAlarm(Struct, frozen=True, kw_only=True):
    """A row as it stands: a number that is none is the name of what it is, texts are the bytes they are made of."""

    id: int | str
    updated_at: int | str | None
    set_at: int | str | None
    process: bytes | None
    message: bytes | str | None  # None: larger than a message may be
    started_at: int | str | None
    reply: bytes | None
    cancelled_at: int | str | None
    completed_at: int | str | None
    duration_ms: int | str | None
    result: bytes | None
    created_by: bytes | None
    created_via: bytes | None
    max_retries: int | str | None
    attempts: int | str | None
    backoff_ms: int | str | None


class AlarmFile:
    """Alarm's file, which is only read."""

    name = "Alarm"

    def __init__(self, path: str) -> None:
        self._file = ForeignFile(path, field="FILE", whose="Alarm's file")
        self._path = path
        self._sql = ""

    async def close(self) -> None:
        self._file.close()

    async def check(self) -> None:
        """Refuse what is not a file of Alarm."""
        keys = dict(self._file.fetch("select name, pk from pragma_table_info('alarm')"))
        if not keys:
            raise self._refusal("it has no table alarm", "Name the one Alarm keeps, data/alarm.sqlite.")
        if missing := [name for name in COLUMNS if name not in keys]:
            raise self._refusal(f"its table alarm has no {', '.join(missing)}", "")
        if not keys["id"]:
            raise self._refusal("the id of its table alarm is not the primary key", "")
        columns = ", ".join(_column(name, present=name in keys) for name in FileAlarm.__struct_fields__)
        self._sql = f"select {columns} from alarm where id > ? order by id limit ?"

    def _refusal(self, what: str, fix: str) -> InvalidRequest:
        return InvalidRequest(f"{self._path} is not Alarm's: {what}", field="FILE", fix=fix)

    async def count(self) -> int:
        return int(self._file.fetch("select count(*) from alarm")[0][0])

    async def pages(self) -> AsyncIterator[Sequence[Written]]:
        last = -(2**63)
        while found := self._file.fetch(self._sql, (last, PAGE)):
            rows = [FileAlarm(**dict(zip(FileAlarm.__struct_fields__, values, strict=True))) for values in found]
            last = found[-1][0]
            yield [(str(row.id), state_of(row), "once", row) for row in rows]


def _column(name: str, *, present: bool) -> str:
    """How a column is read, whatever stands in it: nothing here can fail, and nothing is larger than we would keep."""
    if not present:
        return LATER[name]
    if name in _TEXTS:
        return f"cast(substr({name}, 1, {RESULT_LIMIT}) as blob)"
    if name == "message":
        return f"iif(typeof(message) <> 'blob', typeof(message), iif(length(message) <= {SIZE_LIMIT}, message, null))"
    return f"iif(typeof({name}) in ('integer', 'null'), {name}, typeof({name}))"


def state_of(row: FileAlarm) -> State:
    """Alarm's states overlap: a failed one has fired too. The last word counts, and a cancel ends what was open."""
    result = row.result or b""
    if result.startswith(b"FAILED:"):
        return "failed"
    if result == b"timeout_unknown":
        return "timeout_unknown"
    if row.completed_at is not None:
        return "completed"
    if row.cancelled_at is not None:
        return "cancelled"
    if row.started_at is None:
        return "pending"
    return "retrying" if result.startswith(b"RETRY:") else "fired"


def taken(row: FileAlarm, *, owner: str, target: str, targets: Mapping[str, str]) -> TakeoverResult:
    """What a row stands for; InvalidRequest where wakeful cannot keep it.

    `target`: where wakes go; where it is empty, to the target that `targets` has for the process, or else to one of
    the same name.
    """
    state = state_of(row)
    process = _process(row)
    message = _message(row, process, must=state in ("pending", "retrying"))
    times = _Times.of(row)
    alarm = Alarm(
        id=id_of(times.created, *(repr(part).encode() for part in (owner, row.id, row.process, row.message))),
        owner_did=owner,
        user_id=user_of(owner),
        fire_at=times.due,
        next_fire_at=times.due,
        occurrence_at=times.due,
        wake_message=message.text,
        payload_json=message.payload,
        target=_target(process, target, targets),
        idempotency_key=f"alarm:{row.id}",
        max_failures=_number("max_retries", row.max_retries, default=0),
        policy=Policy(
            backoff_base=_number("backoff_ms", row.backoff_ms, default=5000) / 1000,
            backoff_cap=LONGEST_WAIT.total_seconds(),  # Alarm's ladder has no end
            on_silence="give_up",  # so does Alarm: what nobody reported on is `timeout_unknown`
        ),
        created_at=times.created,
        updated_at=times.updated,
        created_by=_text(row.created_by),
        created_via=_text(row.created_via) or "alarm",
    )
    check(alarm)
    alarm = _happened(row, state, alarm, times)
    return TakeoverResult(alarm, _fire(row, state, alarm, times) if state in _FIRES else None)


class _Times(Struct, frozen=True):
    """The moments of a row."""

    created: datetime
    due: datetime
    started: datetime | None
    completed: datetime | None
    cancelled: datetime | None
    updated: datetime  # the last thing that is known to have happened to it

    @classmethod
    def of(cls, row: FileAlarm) -> _Times:
        created = _moment("id", _number("id", row.id) / 1000)
        due = _moment("set_at", _number("set_at", row.set_at))
        started = _known("started_at", row.started_at)
        completed = _known("completed_at", row.completed_at)
        cancelled = _known("cancelled_at", row.cancelled_at)
        updated = _known("updated_at", row.updated_at)
        happened = [moment for moment in (created, started, completed, cancelled, updated) if moment is not None]
        return cls(created, due, started, completed, cancelled, max(happened))


def _attempts(row: FileAlarm, state: State) -> int:
    """As Alarm counts them: what waits for its retry has failed at least once."""
    return max(_number("attempts", row.attempts, default=0), int(state == "retrying"))


def _happened(row: FileAlarm, state: State, alarm: Alarm, times: _Times) -> Alarm:
    """The alarm after what has become of it."""
    attempts = _attempts(row, state)
    next_fire_at = times.due
    if state == "retrying":
        wait = backoff(attempts - 1, base=alarm.policy.backoff_base, cap=alarm.policy.backoff_cap)
        next_fire_at = _later(times.updated, wait)
    return replace(
        alarm,
        next_fire_at=next_fire_at,
        status=_status(row, state),
        failure_count=attempts if state in ("retrying", "failed") else 0,
        last_error=_error(row, state),
        last_fired_at=times.started,
        fire_count=int(state not in ("pending", "retrying", "cancelled")),
        failed_in_a_row=int(state in ("failed", "timeout_unknown")),
        cancelled_at=times.cancelled,
    )


def _status(row: FileAlarm, state: State) -> AlarmStatus:
    if row.cancelled_at is not None:
        return "cancelled"
    if state in ("pending", "retrying"):
        return "active"
    return "failed" if state == "failed" else "fired"


def _fire(row: FileAlarm, state: State, alarm: Alarm, times: _Times) -> Fire:
    duration = row.duration_ms
    attempts = _attempts(row, state)
    return Fire(
        alarm_id=alarm.id,
        scheduled_for=alarm.occurrence_at,
        owner_did=alarm.owner_did,
        target=alarm.target,
        status=_FIRES[state],
        reason="reported" if state == "failed" else "",
        attempts=attempts,
        failures=attempts,
        started_at=times.started,
        delivered_at=times.started,
        completed_at=times.completed,
        duration_ms=None if duration is None else _number("duration_ms", duration),
        result=_text(row.result)[:RESULT_LIMIT],
        last_error=alarm.last_error,
        updated_at=times.updated,
    )


def _error(row: FileAlarm, state: State) -> str:
    """Why it failed, without the word for it; Alarm of old wrote a message it could not read into `reply`."""
    if state not in ("failed", "retrying", "timeout_unknown"):
        return _text(row.reply)[:ERROR_LIMIT]
    return _text(row.result).removeprefix("FAILED:").removeprefix("RETRY:").strip()[:ERROR_LIMIT]


class _Message(Struct, frozen=True):
    text: str
    payload: str


def _message(row: FileAlarm, process: str, *, must: bool) -> _Message:
    """What the wake says. One that is no longer sent may be unreadable: that it was is part of its history."""
    try:
        term = read(_bytes(row))
    except InvalidRequest as error:
        if must:
            raise
        return _Message(f"(a message that cannot be read: {error.message})", _json({"process": process}))
    payload = {"process": process, "message": as_json(term), "term": inspect(term)}
    return _Message(_shortened(_term_text(term) or inspect(term)), _json(payload))


def _bytes(row: FileAlarm) -> bytes:
    if isinstance(row.message, bytes):
        return row.message
    what = f"larger than {SIZE_LIMIT} bytes" if row.message is None else f"{row.message}, not a BLOB"
    raise InvalidRequest(f"it is {what}", field="message")


def _term_text(term: Term) -> str:
    """The text of a message: itself, or what the first map or keyword list in it has under one of the usual names."""
    if own := (text(term) or "").strip():
        return own
    pairs = entries(term)
    if pairs is None:
        inside = term if isinstance(term, tuple | list) else ()
        return next(filter(None, (_term_text(one) for one in inside if not isinstance(one, bytes))), "")
    named = {key.name if isinstance(key, Atom) else text(key): text(value) or "" for key, value in pairs}
    words = next((named[name].strip() for name in _WORDS if named.get(name, "").strip()), "")
    return words or next(filter(None, (_term_text(value) for _, value in pairs if not isinstance(value, bytes))), "")


def _shortened(text: str) -> str:
    """At most as much as a wake says; the whole of it is in the payload."""
    if len(text.encode()) <= MESSAGE_LIMIT:
        return text
    return text.encode()[: MESSAGE_LIMIT - len(_CUT.encode())].decode(errors="ignore") + _CUT


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _process(row: FileAlarm) -> str:
    try:
        process = (row.process or b"").decode()
    except UnicodeDecodeError:
        raise InvalidRequest("it is not UTF-8", field="process") from None
    if not process.strip():
        raise InvalidRequest("it is empty, so it is unknown who should be woken", field="process")
    return process


def _target(process: str, target: str, targets: Mapping[str, str]) -> str:
    name = Atom(process).shown
    return targets.get(process) or targets.get(name) or target or name


def _text(value: bytes | None) -> str:
    """Return a text for people to read, with bytes that are not text escaped."""
    return (value or b"").replace(b"\x00", b"").decode(errors="replace")


def _number(field: str, value: int | str | None, *, default: int | None = None) -> int:
    if value is None and default is not None:
        return default
    if not isinstance(value, int):
        what = "nothing" if value is None else value
        raise InvalidRequest(f"it is {what}, not a whole number", field=field)
    if value < 0 or value >= 2**53:
        raise InvalidRequest(f"{value} is out of range", field=field)
    return value


def _known(field: str, value: int | str | None) -> datetime | None:
    """A moment that may be missing, in seconds or, as Alarm's ids are, in milliseconds."""
    if value is None:
        return None
    number = _number(field, value)
    return _moment(field, number / 1000 if number >= _MILLISECONDS else number)


def _moment(field: str, seconds: float) -> datetime:
    try:
        moment = from_unix_ms(round(seconds * 1000))
    except OverflowError:
        moment = datetime.max.replace(tzinfo=UTC)
    if moment.year == 9999:  # beyond its end the calendar cannot be asked
        raise InvalidRequest(f"{seconds:.0f} is not a moment that can be kept", field=field, fix="Give Unix seconds.")
    return moment


def _later(moment: datetime, wait: timedelta) -> datetime:
    try:
        return moment + wait
    except OverflowError:
        raise InvalidRequest("its next attempt would be after the year 9999", field="backoff_ms") from None
