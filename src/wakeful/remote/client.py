"""The remote client: the verbs as requests to a server. Rules are the server's.

Most verbs are a line: the verb of `Alarms` whose signature it has, the operation of the HTTP interface that does it,
and how the answer is read. The others follow, with what has no operation of its own.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from types import TracebackType
from typing import Any, Concatenate, Final, NoReturn, ParamSpec, Self, TypeVar, Unpack, get_args

from msgspec.structs import replace

from wakeful.clock import Clock, SystemClock
from wakeful.errors import InvalidRequest, NotFound, WakefulError
from wakeful.model.alarm import ALARM_STATUSES, FIRE_STATUSES, INBOX, Alarm, Fire, FireStatus, Kind, is_fire_id
from wakeful.model.keywords import SetKeywords
from wakeful.model.owner_settings import OwnerSettingsView, SettingsRequest
from wakeful.model.requests import CreateRequest, EditRequest, ReportRequest, When
from wakeful.moments import cursor_text
from wakeful.python.program import F, lifespan, running
from wakeful.remote import wire
from wakeful.remote.connection import Answered, ServerAddress, ServerConnection, error_of, followed
from wakeful.remote.serving import InboxWorker
from wakeful.remote.wire import field, maybe, path_of, query_text, value, whole
from wakeful.rules.arguments import accepted, argument_named, request_fields, set_arguments
from wakeful.rules.budget import BudgetUse
from wakeful.rules.signals import check_signal_name
from wakeful.rules.wanted import json_of
from wakeful.runtime.os_signals import ending_run
from wakeful.schedule import Understood
from wakeful.schedule.days_off import without_days_off
from wakeful.service import Alarms, Changed, ChangedFire, Created, Noted, Signalled, TakenWake, Why
from wakeful.service.change import set_settings, update_alarm
from wakeful.service.create import log_created
from wakeful.service.history import STATUSES
from wakeful.service.live import LiveEvent
from wakeful.service.read import Cursor, list_pending
from wakeful.service.watch import TargetStatus
from wakeful.settings import Settings
from wakeful.store import Matches, Stats
from wakeful.targets.handler import Handler

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
FETCHED_AT_ONCE: Final = 100
LONGEST_WAIT: Final = 60.0
PAGE: Final = 500
PREVIEWED: Final = 100
NOT_SENT: Final = ("most",)  # a server limits the size of its answers by itself
_REPORT: Final = "POST /v1/fires/{fire_id}/report"


def needs_the_database(what: str) -> InvalidRequest:
    return InvalidRequest(
        f"{what} needs the database itself, and these alarms are on a server",
        field="url",
        fix="Do it where the database is; on the command line, name that with --db.",
    )


def asks(
    like: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
    operation: str,
    read: Callable[[Answered], R],
    *,
    says: dict[str, str] | None = None,
    known: Mapping[str, Sequence[str]] | None = None,
    repeatable: bool | None = None,
    **names: str,
) -> Callable[Concatenate[RemoteWakeful, P], Coroutine[Any, Any, R]]:
    """A verb that is one request. What its path does not take goes into the query of a GET or DELETE, else the body.

    `says`: what is sent besides the arguments. `known`: the words that an argument may be. `repeatable`: whether it
    does the same twice as once; reading does. `names`: what the operation calls an argument.
    """
    arguments_of = _binding(like, known or {})

    @functools.wraps(like)
    async def verb(self: RemoteWakeful, /, *args: P.args, **kwargs: P.kwargs) -> R:
        arguments = arguments_of(self, *args, **kwargs)
        return read(await self._ask_with(operation, arguments, says or {}, names, repeatable))

    return verb


def finds(
    like: Callable[Concatenate[Any, P], Coroutine[Any, Any, Matches[Alarm]]],
) -> Callable[Concatenate[RemoteWakeful, P], Coroutine[Any, Any, Matches[Alarm]]]:
    """`find`, whose filters are those of the service: page by page."""
    arguments_of = _binding(like, {"status": ALARM_STATUSES, "kind": get_args(Kind)})

    @functools.wraps(like)
    async def verb(self: RemoteWakeful, /, *args: P.args, **kwargs: P.kwargs) -> Matches[Alarm]:
        said = arguments_of(self, *args, **kwargs)
        limit, cursor, most = said.pop("limit"), said.pop("cursor"), said.pop("most")
        after = (cursor.created_at, cursor.id) if isinstance(cursor, Alarm) else cursor
        said["q"] = said.pop("text")
        return await self._pages(
            "GET /v1/alarms", said, lambda told: wire.alarms_of(told["alarms"]), limit, after, most
        )

    return verb


def _binding(like: Callable[..., Any], known: Mapping[str, Sequence[str]]) -> Callable[..., dict[str, Any]]:
    """How the arguments of a verb are read by their names, defaults included; `known`: the words that one may be."""
    signature = inspect.signature(like)

    def arguments_of(*args: Any, **kwargs: Any) -> dict[str, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        _, *given = bound.arguments.items()  # without the first, which is who asks
        return {name: accepted(name, said, known[name]) if name in known else said for name, said in given}

    return arguments_of


class RemoteWakeful:
    """One owner's alarms on a server: the token says whose. For `async with wakeful.open("https://…") as alarms`."""

    def __init__(self, address: ServerAddress, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._connection = ServerConnection(address, self._clock)
        self._inbox_worker = InboxWorker(self, self._clock)
        self.settings = Settings(db=address.url)

    async def __aenter__(self) -> Self:
        """Ask once: a wrong address or token is said here, and the server tells its time and its zone."""
        try:
            told = await self._preview("in 1 second")
        except BaseException:
            await self.close()
            raise
        self.settings = replace(self.settings, timezone=value(told, "timezone", str))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._inbox_worker.close()
        await self._connection.close()

    async def _ask(self, operation: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> Answered:
        """Send a request: `more` is what `ServerConnection.ask` takes."""
        method, path = operation.split(" ")
        return await self._connection.ask(method, path_of(path, arguments or {}), **more)

    async def _ask_with(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        says: dict[str, str],
        names: Mapping[str, str],
        repeatable: bool | None,
    ) -> Answered:
        sent = {
            names.get(name, name): given
            for name, given in arguments.items()
            if name not in NOT_SENT and f"{{{name}}}" not in operation
        }
        if operation.startswith(("GET", "DELETE")):
            query = says | {name: query_text(given) for name, given in sent.items()}
            return await self._ask(operation, arguments, query=query, repeatable=repeatable)
        body = says | {name: wire.json_value(given) for name, given in sent.items() if given is not None}
        return await self._ask(operation, arguments, body=body if sent else None, repeatable=repeatable)

    # Verbs that are one request

    fire = asks(Alarms.fire, "POST /v1/alarms/{id}/fire", wire.created_of)
    pause = asks(Alarms.pause, "POST /v1/alarms/{id}/pause", wire.changed_of)
    resume = asks(Alarms.resume, "POST /v1/alarms/{id}/resume", wire.changed_of)
    snooze = asks(Alarms.snooze, "POST /v1/alarms/{id}/snooze", wire.changed_of, wait="for")
    append = asks(Alarms.append, "POST /v1/alarms/{id}/append", wire.changed_of)
    hand_over = asks(Alarms.hand_over, "POST /v1/fires/{fire_id}/hand-over", wire.created_of, repeatable=True)
    skip = asks(Alarms.skip, "POST /v1/alarms/{id}/skip", wire.changed_of)
    undo = asks(Alarms.undo, "POST /v1/alarms/{id}/undo", wire.changed_of)
    cancel = asks(Alarms.cancel, "DELETE /v1/alarms/{id}", wire.changed_of, repeatable=True)
    cancel_many = asks(Alarms.cancel_many, "POST /v1/alarms/cancel", wire.cancelled_of, repeatable=True)
    move_many = asks(Alarms.move_many, "POST /v1/alarms/move", wire.moved_of, everything="all")
    reset = asks(Alarms.reset, "DELETE /v1/alarms", field("cancelled", int), says={"all": "true"})

    completed = asks(Alarms.completed, _REPORT, wire.completed_of, says={"outcome": "completed"}, repeatable=True)
    delivery_failed = asks(Alarms.delivery_failed, _REPORT, wire.fire_read, says={"outcome": "failed"}, repeatable=True)
    working = asks(Alarms.working, _REPORT, wire.fire_read, says={"outcome": "working"}, repeatable=True, note="result")
    snooze_fire = asks(Alarms.snooze_fire, _REPORT, wire.fire_read, says={"outcome": "snooze"}, wait="for")

    get = asks(Alarms.get, "GET /v1/alarms/{id}", wire.alarm_of)
    details = asks(Alarms.details, "GET /v1/alarms/{id}", wire.details_of)
    fire_of = asks(Alarms.fire_of, "GET /v1/fires/{fire_id}", wire.fire_read)
    history = asks(Alarms.history, "GET /v1/history", wire.history_of, known={"status": STATUSES})
    failed = asks(Alarms.failed, "GET /v1/failed", lambda told: wire.entries_of(told, "failed"))
    stats = asks(Alarms.stats, "GET /v1/stats", whole(Stats))
    agenda = asks(Alarms.agenda, "GET /v1/agenda", wire.agenda_of)
    targets = asks(Alarms.targets, "GET /v1/targets", field("targets", list[TargetStatus]))
    budget = asks(Alarms.budget, "GET /v1/budget", field("budget", list[BudgetUse]), id="alarm_id")
    overview = asks(Alarms.overview, "GET /v1/overview", wire.overview_of)
    recent_events = asks(
        Alarms.recent_events, "GET /v1/events/recent", field("events", list[LiveEvent]), whats="events"
    )
    owner_settings = asks(Alarms.owner_settings, "GET /v1/settings", whole(OwnerSettingsView))

    # Verbs that say another one with Python's own arguments

    update = update_alarm
    set_owner_settings = set_settings
    pending = list_pending

    # Set and change

    async def set(self, when: When = "", wake_message: str = "", **fields: Unpack[SetKeywords]) -> Alarm:
        said, origin = set_arguments(when, wake_message, fields)
        try:
            request = CreateRequest(**request_fields(said, creates=True))
            created = await self.create(request, origin=origin)
        except WakefulError as error:
            raise argument_named(error, said) from None
        log_created(created, request.on_conflict)
        return created.alarm

    async def create(self, request: CreateRequest, *, origin: tuple[str, str] = ("", "")) -> Created:
        if any(origin):
            name = "created_by" if origin[0] else "created_via"
            raise InvalidRequest("a server records by itself who asks", field=name, fix="Leave it out.")
        is_named = bool(request.idempotency_key) and request.on_conflict in (None, "return")
        return wire.created_of(await self._ask("POST /v1/alarms", body=wire.body_of(request), repeatable=is_named))

    async def create_many(self, requests: Sequence[CreateRequest]) -> list[Created]:
        return [wire.created_in_batch(one) for one in await self._batch(requests, {"all_or_none": "true"})]

    async def create_each(self, requests: Sequence[CreateRequest]) -> list[Created | WakefulError]:
        return [
            wire.created_in_batch(one) if "alarm" in one else error_of(value(one, "status", int), bytes(one["problem"]))
            for one in await self._batch(requests, {})
        ]

    async def _batch(self, requests: Sequence[CreateRequest], query: dict[str, str]) -> list[Answered]:
        if not requests:
            return []
        body = {"alarms": [wire.body_of(one) for one in requests]}
        are_named = all(one.idempotency_key for one in requests)
        response = await self._ask("POST /v1/alarms/batch", query=query, body=body, repeatable=are_named)
        return value(response, "results", list[Answered])

    async def edit(self, id: str, request: EditRequest, *, version: int | None = None) -> Changed:
        match = {} if version is None else {"If-Match": f'"{version}"'}
        return wire.changed_of(
            await self._ask("PATCH /v1/alarms/{id}", {"id": id}, body=wire.body_of(request), headers=match)
        )

    async def cancel_chain(self, root_id: str) -> int:
        if not root_id:
            raise NotFound(f"there is no chain {root_id!r}", field="root_id", fix="Give root_id of one of its alarms.")
        return value(await self._ask("DELETE /v1/alarms", query={"root_id": root_id}), "cancelled", int)

    async def signal(self, name: str, payload: Any = None) -> Signalled:
        check_signal_name(name, "name")  # it is a part of the address
        body = None if payload is None else {"payload": json_of(payload)}
        return wire.signalled_of(await self._ask("POST /v1/signals/{name}", {"name": name}, body=body))

    async def change_settings(self, request: SettingsRequest) -> OwnerSettingsView:
        return whole(OwnerSettingsView)(await self._ask("PATCH /v1/settings", body=request, repeatable=True))

    # Report

    async def report(self, fire_id: str, request: ReportRequest) -> ChangedFire:
        is_same = request.outcome != "snooze"
        return await self._changed_fire(
            await self._ask(_REPORT, {"fire_id": fire_id}, body=request, repeatable=is_same)
        )

    async def retry(self, fire_id: str) -> ChangedFire:
        return await self._changed_fire(await self._ask("POST /v1/fires/{fire_id}/retry", {"fire_id": fire_id}))

    async def _changed_fire(self, response: Answered) -> ChangedFire:
        """With the alarm, which the wire does not repeat."""
        fire = whole(Fire)(response)
        alarm = await self.get(fire.alarm_id)
        return ChangedFire(
            fire=fire, alarm=alarm, retry_at=maybe(response, "retry_at", datetime), notes=wire.notes_of(response)
        )

    async def retry_at(self, fire: Fire) -> datetime | None:
        if fire.status != "retrying":
            return None
        return maybe(await self._ask("GET /v1/fires/{fire_id}", {"fire_id": fire.id}), "retry_at", datetime)

    async def inbox(
        self,
        *,
        limit: int = 10,
        wait: float = 0,
        target: str = INBOX,
        conversation_id: str = "",
        done: Mapping[str, str] | None = None,
    ) -> Noted[TakenWake]:
        """What waits in the inbox, leased until it is reported. A wait of more than a minute is several requests.

        Not repeated where the answer got lost: what it held waits again once its lease is over.
        """
        while True:
            part = max(0.0, min(wait, LONGEST_WAIT))
            query = {"limit": str(min(limit, FETCHED_AT_ONCE)), "wait": f"{part:.3f}", "target": target}
            query["conversation_id"] = conversation_id
            response = await self._ask("POST /v1/inbox", query=query, body={"done": done} if done else None, wait=part)
            done = None  # said once
            wait -= part
            if (found := value(response, "wakes", list[Answered])) or wait <= 0:
                return Noted([wire.taken_of(wake, target=target) for wake in found], notes=wire.notes_of(response))

    # Read

    async def now(self) -> datetime:
        """This moment by the server's clock, as its last answer told it."""
        return self._connection.now()

    async def parse(self, when: str, *, timezone: str = "") -> Understood:
        return wire.understood_of(await self._preview(when, timezone))

    async def _preview(self, when: str, timezone: str = "") -> Answered:
        n = PREVIEWED if without_days_off(when)[1] else 1  # what is left out only the server knows
        body = {"when": when, "n": n} | ({"timezone": timezone} if timezone else {})
        return await self._ask("POST /v1/preview", body=body, repeatable=True)

    find = finds(Alarms.find)

    async def fires(
        self,
        id: str = "",
        *,
        status: FireStatus | Sequence[FireStatus] = (),
        target: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
        cursor: Cursor | None = None,
        most: int = 0,
    ) -> Matches[Fire]:
        said: dict[str, Any] = {"status": accepted("status", status, FIRE_STATUSES), "since": since, "until": until}
        operation = path_of("GET /v1/alarms/{id}/fires", {"id": id}) if id else "GET /v1/fires"

        def read(response: Answered) -> list[Fire]:
            return [fire for fire in value(response, "fires", list[Fire]) if target in ("", fire.target)]

        try:
            filters = said if id else said | {"target": target}
            return await self._pages(operation, filters, read, limit, cursor, most)
        except NotFound:  # nothing happened to what there is not
            return Matches()

    async def _pages(
        self,
        operation: str,
        filters: Mapping[str, Any],
        read: Callable[[Answered], list[T]],
        limit: int,
        cursor: Cursor | None,
        most: int,
    ) -> Matches[T]:
        """As many as asked, page by page; with `most` only the first page, whose length the server decides."""
        found: Matches[T] = Matches((), cursor)
        while len(found) < limit:
            after = {} if found.further is None else {"cursor": cursor_text(*found.further)}
            size = {"limit": str(min(PAGE, limit - len(found)))}
            query = {name: query_text(said) for name, said in filters.items()}
            response = await self._ask(operation, query=query | after | size)
            found = Matches([*found, *read(response)], wire.further(response))
            if found.further is None or most:
                break
        return found

    async def active(self, *, limit: int | None = None, most: int = 0) -> Matches[Alarm]:
        if limit is not None and limit < 1:
            raise InvalidRequest(f"{limit} is less than 1", field="limit")
        found = await self.find(status="active", limit=1 << 62)
        return Matches(sorted(found, key=lambda alarm: (alarm.next_fire_at, alarm.id))[:limit])

    async def why(self, id: str) -> Why:
        path = "GET /v1/fires/{fire_id}/why" if is_fire_id(id) else "GET /v1/alarms/{id}/why"
        return whole(Why)(await self._ask(path, {"id": id, "fire_id": id}))

    # Serve and follow

    def handler(
        self, name: str, *, timeout: float = 900, concurrency: int | None = None, reports: bool = False
    ) -> Callable[[F], F]:
        """Serve the server's inbox of this name with a function of this process, once `run` is called.

        The server needs `[targets.NAME]` with `kind = "inbox"`. Wakes are leased: one whose process dies is handed out
        again.
        """

        def register(function: F) -> F:
            handler = Handler(function, timeout=timeout, reports=reports)
            self._inbox_worker.add(name, handler, concurrency or self.settings.concurrency)
            return function

        return register

    async def run(self, *, signals: bool = True) -> None:
        """Fetch wakes for the handlers of this process, and say how they went, until cancelled or told by a signal."""
        with ending_run() if signals else nullcontext():
            await self._inbox_worker.run()

    async def run_due(self) -> int:
        """Serve what waits for the handlers of this process just now, and return how many it was."""
        return await self._inbox_worker.run_due()

    running = running
    lifespan = lifespan

    def events(self, *whats: str, alarm_id: str = "", opened: asyncio.Event | None = None) -> AsyncIterator[LiveEvent]:
        return followed(self._connection, self._clock, whats, alarm_id, opened)

    # What needs the database

    def within(self, connection: Any) -> NoReturn:
        what = "a transaction does not reach as far as a server"
        raise InvalidRequest(what, field="connection", fix="Use the verbs without it.")

    def for_owner(self, owner: str) -> NoReturn:
        raise InvalidRequest(
            "a token speaks for one owner", field="owner", fix="Open the server with that owner's token."
        )

    def declare(self, *names: str) -> NoReturn:
        raise needs_the_database("naming targets")

    async def check_targets(self) -> NoReturn:
        raise needs_the_database("dispatching")

    def asgi(self) -> NoReturn:
        raise needs_the_database("serving HTTP")
