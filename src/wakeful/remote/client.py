"""The remote client: every verb of `Wakeful`, asked of a server.

It is a `Wakeful`, so what takes one takes this one: the command line, `open_sync`, a program's own functions. Rules
are the server's; here is only how each verb is said over HTTP (those that only read: looking.py). What needs the
database itself says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import Any, Final, NoReturn, Self, TypeVar, Unpack, cast

import msgspec
from msgspec import UNSET
from msgspec.structs import asdict, replace

from wakeful.clock import Clock, SystemClock
from wakeful.errors import InvalidRequest, NotFound, WakefulError
from wakeful.model.alarm import INBOX, Alarm, Fire
from wakeful.model.keywords import SetKeywords, UpdateKeywords
from wakeful.model.owner_settings import OwnerSettingsView, SettingsRequest
from wakeful.model.requests import CreateRequest, EditRequest, ReportRequest, When
from wakeful.remote.address import ServerAddress
from wakeful.remote.connection import Answered, ServerConnection
from wakeful.remote.decoding import (
    alarm_of,
    alarm_path,
    alarms_of,
    body_of,
    created_of,
    fields_of,
    fire_path,
    fire_read,
    is_said,
    length,
    notes_of,
    signalled_of,
    taken_of,
    value,
)
from wakeful.remote.events import followed
from wakeful.remote.looking import RemoteLookVerbs
from wakeful.remote.problems import error_of
from wakeful.remote.serving import InboxWorker
from wakeful.rules.arguments import argument_named, request_fields, set_arguments
from wakeful.rules.signals import check_signal_name
from wakeful.rules.wanted import json_of, request_of, span
from wakeful.runtime.os_signals import ending_run
from wakeful.service import Alarms, Changed, ChangedFire, Created, Noted, Service, Signalled, TakenWake
from wakeful.service.cancel import Cancelled
from wakeful.service.create import log_created
from wakeful.service.live import LiveEvent
from wakeful.service.report import log_repeated
from wakeful.settings import Settings
from wakeful.targets.handler import Handler, HandlerFunction

F = TypeVar("F", bound=HandlerFunction)
FETCHED_AT_ONCE: Final = 100
LONGEST_WAIT: Final = 60.0
_LOCAL_ONLY: Final = ("_store", "_served", "_implied", "_task_target", "metrics", "caller")


def needs_the_database(what: str) -> InvalidRequest:
    return InvalidRequest(
        f"{what} needs the database itself, and these alarms are on a server",
        field="url",
        fix="Do it where the database is; on the command line, name that with --db.",
    )


def _settings_of(told: Answered) -> OwnerSettingsView:
    return msgspec.json.decode(msgspec.json.encode(told), type=OwnerSettingsView)


class RemoteService:
    """The little of a service that a door asks for besides the verbs: what time it is there."""

    is_remote = True

    def __init__(self, connection: ServerConnection, settings: Settings) -> None:
        self._connection = connection
        self.settings = settings

    async def now(self) -> datetime:
        return self._connection.now()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise needs_the_database(f"`{name}`")


class RemoteWakeful(RemoteLookVerbs):
    """One owner's alarms on a server: the token says whose. For `async with wakeful.open("https://…") as alarms`."""

    def __init__(self, address: ServerAddress, *, clock: Clock | None = None) -> None:
        # Not `super().__init__`: that opens a store. Whatever is inherited only says other verbs in another way.
        self._clock = clock or SystemClock()
        self._connection = ServerConnection(address, self._clock)
        self.settings = Settings(db=address.url)
        self.service = cast(Service, RemoteService(self._connection, self.settings))
        self._inbox_worker = InboxWorker(self, self._clock)

    def __getattr__(self, name: str) -> NoReturn:
        if name in _LOCAL_ONLY:
            raise needs_the_database(f"`{name.strip('_')}`")
        raise AttributeError(name)

    async def __aenter__(self) -> Self:
        """Ask once: a wrong address or token is said here, and the server tells its time and its zone."""
        try:
            told = await self._preview("in 1 second")
        except BaseException:
            await self.close()
            raise
        self.settings = replace(self.settings, timezone=value(told, "timezone", str))
        self.service.settings = self.settings
        return self

    async def close(self) -> None:
        await self._inbox_worker.close()
        await self._connection.close()

    # Set

    async def set(self, when: When = "", wake_message: str = "", **fields: Unpack[SetKeywords]) -> Alarm:
        said, origin = set_arguments(when, wake_message, fields)
        try:
            asked = CreateRequest(**request_fields(said, creates=True))
            created = await self.create(asked, origin=origin)
        except WakefulError as error:
            raise argument_named(error, said) from None
        log_created(created, asked.on_conflict)
        return created.alarm

    async def create(self, asked: CreateRequest, *, origin: tuple[str, str] = ("", "")) -> Created:
        if any(origin):
            field = "created_by" if origin[0] else "created_via"
            raise InvalidRequest("a server records by itself who asks", field=field, fix="Leave it out.")
        is_named = bool(asked.idempotency_key) and asked.on_conflict in (None, "return")
        told = await self._ask("POST", "/v1/alarms", body=body_of(asked), repeatable=is_named)
        return created_of(told)

    async def create_many(self, asked: Sequence[CreateRequest]) -> list[Created]:
        return [self._created(one) for one in await self._batch(asked, {"all_or_none": "true"})]

    async def create_each(self, asked: Sequence[CreateRequest]) -> list[Created | WakefulError]:
        return [
            self._created(one) if "alarm" in one else error_of(value(one, "status", int), bytes(one["problem"]))
            for one in await self._batch(asked, {})
        ]

    async def _batch(self, asked: Sequence[CreateRequest], query: dict[str, str]) -> list[Answered]:
        if not asked:
            return []
        body = {"alarms": [body_of(one) for one in asked]}
        are_named = all(one.idempotency_key for one in asked)
        told = await self._ask("POST", "/v1/alarms/batch", query, body=body, repeatable=are_named)
        return value(told, "results", list[Answered])

    def _created(self, one: Answered) -> Created:
        """One of many that were set."""
        is_known = value(one, "status", int) == 200
        return Created(alarm_of(fields_of(one["alarm"])), deduped=is_known, notes=notes_of(one))

    async def fire(self, id: str) -> Created:
        return created_of(await self._ask("POST", f"{alarm_path(id)}/fire"))

    # Settings

    async def owner_settings(self) -> OwnerSettingsView:
        return _settings_of(await self._ask("GET", "/v1/settings"))

    async def change_settings(self, asked: SettingsRequest) -> OwnerSettingsView:
        body = {name: said for name, said in asdict(asked).items() if said is not UNSET}
        return _settings_of(await self._ask("PATCH", "/v1/settings", body=body, repeatable=True))

    # Change

    async def set_owner_settings(
        self,
        *,
        timezone: str | None = None,
        date_order: str | None = None,
        working_days: str | None = None,
        calendar: str | None = None,
    ) -> OwnerSettingsView:
        given = {"timezone": timezone, "date_order": date_order, "working_days": working_days, "calendar": calendar}
        return await self.change_settings(request_of(SettingsRequest, given))

    async def update(self, id: str, /, *, version: int | None = None, **fields: Unpack[UpdateKeywords]) -> Changed:
        try:
            return await self.edit(id, request_of(EditRequest, request_fields(fields)), version=version)
        except WakefulError as error:
            raise argument_named(error, fields) from None

    async def edit(self, id: str, asked: EditRequest, *, version: int | None = None) -> Changed:
        match = {} if version is None else {"If-Match": f'"{version}"'}
        return await self._changed("PATCH", alarm_path(id), body=body_of(asked), headers=match)

    async def pause(self, id: str, *, reason: str = "") -> Changed:
        return await self._changed("POST", f"{alarm_path(id)}/pause", body={"reason": reason})

    async def resume(self, id: str) -> Changed:
        return await self._changed("POST", f"{alarm_path(id)}/resume")

    async def snooze(
        self,
        id: str,
        wait: timedelta | float | str | None = None,
        *,
        until: datetime | float | str | None = None,
    ) -> Changed:
        return await self._changed("POST", f"{alarm_path(id)}/snooze", body={"for": length(wait), "until": until})

    async def skip(self, id: str, *, at: datetime | float | str | None = None) -> Changed:
        return await self._changed("POST", f"{alarm_path(id)}/skip", body={"at": at})

    async def cancel(self, id: str, *, reason: str = "") -> Changed:
        return await self._changed("DELETE", alarm_path(id), query={"reason": reason}, repeatable=True)

    async def undo(self, id: str, *, when: str | None = None) -> Changed:
        return await self._changed("POST", f"{alarm_path(id)}/undo", body={"when": when})

    async def _changed(self, method: str, path: str, **more: Any) -> Changed:
        told = await self._ask(method, path, more.pop("query", None), **more)
        return Changed(alarm_of(told), is_said(told, "in_flight"), notes_of(told))

    async def cancel_many(
        self,
        ids: Sequence[str] = (),
        *,
        text: str = "",
        conversation_id: str = "",
        target: str = "",
        label: str = "",
        reason: str = "",
        dry_run: bool = False,
    ) -> Cancelled:
        body = {"ids": list(ids), "text": text, "conversation_id": conversation_id, "target": target, "label": label}
        more = {"reason": reason, "dry_run": dry_run}
        told = await self._ask("POST", "/v1/alarms/cancel", body=body | more, repeatable=True)
        return Cancelled(alarms=alarms_of(told["alarms"]), dry_run=dry_run, in_flight=value(told, "in_flight", int))

    async def signal(self, name: str, payload: Any = None) -> Signalled:
        check_signal_name(name, "name")  # it is a part of the address
        body = None if payload is None else {"payload": json_of(payload)}
        told = await self._ask("POST", f"/v1/signals/{name}", body=body)
        return Signalled(alarms=signalled_of(told), in_flight=value(told, "in_flight", int))

    async def reset(self) -> int:
        return value(await self._ask("DELETE", "/v1/alarms", {"all": "true"}), "cancelled", int)

    async def cancel_chain(self, root_id: str) -> int:
        if not root_id:
            raise NotFound(f"there is no chain {root_id!r}", field="root_id", fix="Give root_id of one of its alarms.")
        return value(await self._ask("DELETE", "/v1/alarms", {"root_id": root_id}), "cancelled", int)

    # Report

    async def report(self, fire_id: str, asked: ReportRequest) -> ChangedFire:
        return await self._changed_fire(await self._ask_report(fire_id, asked))

    async def completed(
        self, fire_id: str, result: str = "", *, cost: float | None = None, renew: bool = False
    ) -> Fire:
        asked = ReportRequest(outcome="completed", result=result, cost=cost, renew=renew)
        told = await self._ask_report(fire_id, asked)
        fire = fire_read(told)
        log_repeated(fire, notes_of(told))
        return fire

    async def delivery_failed(
        self, fire_id: str, reason: str = "", *, cost: float | None = None, renew: bool = False
    ) -> Fire:
        asked = ReportRequest(outcome="failed", reason=reason, cost=cost, renew=renew)
        return fire_read(await self._ask_report(fire_id, asked))

    async def working(self, fire_id: str, note: str = "", *, cost: float | None = None, renew: bool = False) -> Fire:
        asked = ReportRequest(outcome="working", result=note, cost=cost, renew=renew)
        return fire_read(await self._ask_report(fire_id, asked))

    async def _ask_report(self, fire_id: str, asked: ReportRequest) -> Answered:
        path = f"{fire_path(fire_id)}/report"
        return await self._ask("POST", path, body=asked, repeatable=asked.outcome != "snooze")

    async def _changed_fire(self, told: Answered) -> ChangedFire:
        """With the alarm, which the wire does not repeat."""
        fire = fire_read(told)
        alarm = await self.get(fire.alarm_id)
        again = value(told, "retry_at", datetime) if "retry_at" in told else None
        return ChangedFire(fire=fire, alarm=alarm, retry_at=again, notes=notes_of(told))

    async def snooze_fire(self, fire_id: str, wait: timedelta | float | str) -> Fire:
        seconds = span(wait, "for").total_seconds()
        return fire_read(await self._ask_report(fire_id, ReportRequest(outcome="snooze", wait=seconds)))

    async def retry_at(self, fire: Fire) -> datetime | None:
        told = await self._ask("GET", fire_path(fire.id)) if fire.status == "retrying" else {}
        return value(told, "retry_at", datetime) if "retry_at" in told else None

    async def retry(self, fire_id: str) -> ChangedFire:
        return await self._changed_fire(await self._ask("POST", f"{fire_path(fire_id)}/retry"))

    # Fetch, serve, follow

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
            told = await self._ask("POST", "/v1/inbox", query, body={"done": done} if done else None, wait=part)
            done = None  # said once
            wait -= part
            if (found := value(told, "wakes", list[Answered])) or wait <= 0:
                return Noted([taken_of(wake, target=target) for wake in found], notes=notes_of(told))

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

    def events(self, *whats: str, alarm_id: str = "", opened: asyncio.Event | None = None) -> AsyncIterator[LiveEvent]:
        return followed(self._connection, self._clock, whats, alarm_id, opened)

    def within(self, connection: Any) -> NoReturn:
        what = "a transaction does not reach as far as a server"
        raise InvalidRequest(what, field="connection", fix="Use the verbs without it.")

    def for_owner(self, owner: str) -> Alarms:
        raise InvalidRequest(
            "a token speaks for one owner", field="owner", fix="Open the server with that owner's token."
        )

    async def check_targets(self) -> None:
        raise needs_the_database("dispatching")

    @property
    def dispatcher(self) -> NoReturn:
        raise needs_the_database("dispatching")

    def asgi(self) -> NoReturn:
        raise needs_the_database("serving HTTP")
