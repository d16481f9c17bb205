"""JSON-RPC 2.0: decoding messages, and the read-only methods.

Every call is answered for one owner, who is known from the credential alone.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Annotated, Any, Final, TypeVar, cast

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from wakeful import views
from wakeful.alarm import Alarm
from wakeful.alarm.request import Moment, decode
from wakeful.errors import InvalidRequest, TooMany, WakefulError
from wakeful.moments import unix_ms
from wakeful.service import Alarms
from wakeful.service.history import HistoryStatus, offset
from wakeful.service.live import WHATS
from wakeful.store import Matches
from wakeful.views import AlarmView, FireView

log = logging.getLogger("wakeful.rpc")

MESSAGE_LIMIT: Final = 64 * 1024
ANSWER_LIMIT: Final = 4_000_000  # bytes of results, for one message
BATCH_LIMIT: Final = 20
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
UNKNOWN_METHOD: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
REFUSED: Final = -32000  # wakeful said no; `data` is the problem, as HTTP would tell it
FIRES_SHOWN: Final = 5
_SECOND: Final = timedelta(seconds=1)

Limit = Annotated[int, Meta(ge=1, le=500)]
T = TypeVar("T")


class Nothing(Struct, frozen=True, forbid_unknown_fields=True): ...


class ListParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    limit: Limit = 100


class HistoryParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    status: str = ""
    limit: Limit = 50
    process: str = ""  # the Alarm system's word for target
    target: str = ""
    since: Moment | None = None


class FailedParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    limit: Limit = 20


class GetParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    id: str


class SubscribeParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    events: tuple[str, ...] = ()
    alarm_id: str = ""
    after: str = ""

    def check(self) -> None:
        check_whats(self.events)


def check_whats(names: tuple[str, ...]) -> None:
    for name in names:
        if name not in WHATS:
            raise InvalidRequest(
                f"{name[:100]!r} is not an event", field="events", fix=f"Accepted: {', '.join(WHATS)}."
            )


class AlarmWithFires(AlarmView, frozen=True, kw_only=True):
    """An alarm, what became of its latest fires, and what its owner should know besides."""

    fires: list[FireView]
    notes: list[str] | UnsetType = UNSET


class PendingAlarm(AlarmView, frozen=True, kw_only=True):
    """An alarm that waits: when it fires in unix seconds, and how many seconds that is after its creation.

    Whole seconds, as the Alarm system has them, and never before the moment; `next_fire_at` has the millisecond.
    """

    set_at: int
    time_offset: int


class Call(Struct, frozen=True):
    """One request. `id` is UNSET where no answer is wanted."""

    method: str
    params: dict[str, Any]
    id: str | int | float | UnsetType | None = UNSET


class Fault(Exception):
    """An error of JSON-RPC itself."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


Method = Callable[[dict[str, Any]], Awaitable[Any]]


class RpcDispatcher:
    """Decodes messages, calls methods and encodes answers."""

    def __init__(self, methods: dict[str, Method]) -> None:
        self._methods = methods

    async def answer(self, message: str | bytes) -> bytes | None:
        """Return what to send back, if anything."""
        try:
            said = _read(message)
        except Fault as fault:
            return views.encode(_refusal(None, fault))
        if not isinstance(said, list):
            answer = await self._one(said)
            return None if answer is None else views.encode(answer)
        answers: list[msgspec.Raw] = []
        room = ANSWER_LIMIT
        for each in said:
            if (answer := await self._one(each, room)) is not None:
                answers.append(msgspec.Raw(views.encode(answer)))
                room -= len(bytes(answers[-1]))
        return views.encode(answers) if answers else None

    async def _one(self, said: Any, room: int = ANSWER_LIMIT) -> dict[str, Any] | None:
        """Return the answer to one request, with at most this many bytes in its result."""
        try:
            call = _call(said)
        except Fault as fault:
            id = said.get("id") if isinstance(said, dict) else None
            return _refusal(id if _is_id(id) else None, fault)
        try:
            _check_room(room)
            result = msgspec.Raw(views.encode(await self._result(call)))
            _check_room(room - len(bytes(result)))
        except Fault as fault:
            return None if call.id is UNSET else _refusal(call.id, fault)
        return None if call.id is UNSET else {"jsonrpc": "2.0", "result": result, "id": call.id}

    async def _result(self, call: Call) -> Any:
        method = self._methods.get(call.method)
        if method is None:
            raise Fault(UNKNOWN_METHOD, f"there is no method {call.method[:100]!r}", {"methods": sorted(self._methods)})
        try:
            return await method(call.params)
        except InvalidRequest as error:
            raise Fault(INVALID_PARAMS, str(error), views.problem(error)) from None
        except WakefulError as error:
            raise Fault(REFUSED, str(error), views.problem(error)) from None
        except Exception:
            log.exception("%s raised an unexpected error", call.method)
            raise Fault(INTERNAL_ERROR, "an internal error; the server's log has the details") from None


def _check_room(left: int) -> None:
    if left < 0:
        error = _too_long()
        raise Fault(REFUSED, str(error), views.problem(error))


def _too_long() -> TooMany:
    return TooMany(
        f"the answer would be longer than {ANSWER_LIMIT} bytes, the most for one message",
        field="limit",
        fix="Ask with a smaller limit, or for less in one batch.",
    )


def _read(message: str | bytes) -> Any:
    try:
        said = msgspec.json.decode(message)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Fault(PARSE_ERROR, f"it is not JSON ({error})") from None
    if isinstance(said, list) and not 1 <= len(said) <= BATCH_LIMIT:
        raise Fault(INVALID_REQUEST, f"a batch has 1 to {BATCH_LIMIT} requests, not {len(said)}")
    return said


def _call(said: Any) -> Call:
    if not isinstance(said, dict) or said.get("jsonrpc") != "2.0" or not isinstance(said.get("method"), str):
        raise Fault(INVALID_REQUEST, 'a request is {"jsonrpc": "2.0", "method": "…", "params": {…}, "id": …}')
    id = said.get("id", UNSET)
    if id is not UNSET and not _is_id(id):
        raise Fault(INVALID_REQUEST, "an id must be a string, a number or null")
    params = said.get("params", {})
    if not isinstance(params, dict):
        raise Fault(
            INVALID_REQUEST if not isinstance(params, list) else INVALID_PARAMS,
            "params must be an object, with parameters by name",
        )
    return Call(said["method"], params, id)


def _is_id(id: Any) -> bool:
    return id is None or (isinstance(id, str | int | float) and not isinstance(id, bool))


def _refusal(id: Any, fault: Fault) -> dict[str, Any]:
    error: dict[str, Any] = {"code": fault.code, "message": fault.message}
    if fault.data is not None:
        error["data"] = fault.data
    return {"jsonrpc": "2.0", "error": error, "id": id}


def params_of(given: dict[str, Any], kind: type[T]) -> T:
    """Decode the parameters into a type, or raise an error that names the field."""
    return decode(views.encode(given), kind)


class AlarmMethods:
    """The methods of the Alarm system's WebSocket, for one owner."""

    def __init__(self, alarms: Alarms) -> None:
        self._alarms = alarms

    def methods(self) -> dict[str, Method]:
        return {
            "list": self.list,
            "count": self.count,
            "history": self.history,
            "stats": self.stats,
            "failed": self.failed,
            "get": self.get,
        }

    async def list(self, given: dict[str, Any]) -> Any:
        """Pending alarms, soonest first."""
        params = params_of(given, ListParams)
        found = await self._alarms.active(limit=params.limit, most=ANSWER_LIMIT)
        return [_pending(alarm) for alarm in _whole(found, params.limit)]

    async def count(self, given: dict[str, Any]) -> Any:
        params_of(given, Nothing)
        return (await self._alarms.stats()).pending

    async def history(self, given: dict[str, Any]) -> Any:
        params = params_of(given, HistoryParams)
        if params.process and params.target not in ("", params.process):
            raise InvalidRequest("it means the same as target", field="process", fix="Give only one of the two.")
        found = await self._alarms.history(
            status=cast(HistoryStatus, params.status),  # refused there
            target=params.target or params.process,
            since=params.since,
            limit=params.limit,
            most=ANSWER_LIMIT,
        )
        return _whole(found, params.limit)

    async def stats(self, given: dict[str, Any]) -> Any:
        params_of(given, Nothing)
        return await self._alarms.stats()

    async def failed(self, given: dict[str, Any]) -> Any:
        params = params_of(given, FailedParams)
        return _whole(await self._alarms.failed(limit=params.limit, most=ANSWER_LIMIT), params.limit)

    async def get(self, given: dict[str, Any]) -> Any:
        """Return one alarm and its latest fires; their `result` is the outcome."""
        params = params_of(given, GetParams)
        found = await self._alarms.details(params.id)
        fires = await self._alarms.fires(found.alarm.id, limit=FIRES_SHOWN)
        shown = [FireView.of(fire) for fire in fires]
        return AlarmWithFires.of(found.alarm, fires=shown, notes=found.notes or UNSET)


def _whole(found: Matches[T], limit: int) -> Matches[T]:
    """Return what was found, or raise if it was cut: these answers are plain lists and cannot say that more follows."""
    if found.further is not None and len(found) < limit:
        raise _too_long()
    return found


def _pending(alarm: Alarm) -> PendingAlarm:
    at = -(-unix_ms(alarm.next_fire_at) // 1000)
    return PendingAlarm.of(alarm, set_at=at, time_offset=-(-offset(alarm) // _SECOND))
