"""The clock a Python program holds: every verb, the handlers of this process, and the dispatcher."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, runtime_checkable

from wakeful.alarm import INBOX, Alarm, Draft, Fire, Policy, Report, Users, users_of
from wakeful.clock import Clock, SystemClock
from wakeful.config import Settings
from wakeful.dispatcher import Dispatcher, Pulse, Served
from wakeful.doors import wire
from wakeful.errors import InvalidConfig, InvalidRequest
from wakeful.ids import Ids
from wakeful.metrics import Metrics
from wakeful.schedule import Understood, parse
from wakeful.service import Changed, Entry, OnConflict, Past, Service, Taken, Why
from wakeful.service.history import Pending
from wakeful.store import AlarmQuery, FireQuery, Stats, Store, Worker
from wakeful.targets.handler import Handler
from wakeful.targets.inbox import Inbox

if TYPE_CHECKING:
    from starlette.applications import Starlette

F = TypeVar("F", bound=Callable[..., Any])


@runtime_checkable
class Checked(Protocol):
    """A target that can tell at the start that it will not work."""

    async def check(self, database: str) -> None: ...


class Wakeful:
    """One owner's clock on a store. Use it as `async with wakeful.open(…) as clock`."""

    def __init__(
        self,
        store: Store,
        *,
        settings: Settings,
        targets: Mapping[str, Served],
        clock: Clock | None = None,
        via: str = "python",
        task_target: Callable[[], Served] | None = None,
    ) -> None:
        self.settings = settings
        self._store = store
        self._clock = clock or SystemClock()
        self._served: dict[str, Served] = dict(targets)
        self._via = via
        self._task_target = task_target
        self._implied = ""  # the target that tasks have where nobody has named one: a handler of that name replaces it
        self._dispatcher: Dispatcher | None = None
        self.metrics = Metrics(version=_version(), store="postgres" if "://" in settings.db else "sqlite")
        self.service = Service(
            store,
            clock=self._clock,
            settings=settings,
            targets=lambda: self._served,
            users=self._users,
            metrics=self.metrics,
        )
        if (inbox := self._served.get(INBOX)) is not None and isinstance(inbox.target, Inbox):
            inbox.target.arriving = self.service.bell.ring

    def _users(self, target: str) -> Users:
        return served.users if (served := self._served.get(target)) is not None else Users()

    async def __aenter__(self) -> Self:
        await self._store.migrate()
        name = self.settings.tasks_target
        if name not in self._served and self._task_target is not None and await self._store.tasks.table():
            self._served[name] = self._task_target()
            self._implied = name
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        for served in self._served.values():
            await served.target.close()
        await self._store.close()

    # Set

    async def set(
        self,
        when: str | float = "",
        wake_message: str = "",
        *,
        at: datetime | float | None = None,
        delay: timedelta | float | str | None = None,
        cron: str = "",
        payload: Any = None,
        target: str = "",
        timezone: str = "",
        key: str = "",
        on_conflict: OnConflict | None = None,
        label: str = "",
        conversation_id: str = "",
        isolated: bool = False,
        max_failures: int | None = None,
        policy: Policy | Mapping[str, Any] | None = None,
        created_by: str = "",
        created_via: str = "",
        owner: str = "",
        connection: Any = None,
    ) -> Alarm:
        """Set an alarm: exactly one of `when` (a phrase, ISO time, unix seconds or cron), `at`, `delay` and `cron`.

        With a `key`, the same call again answers with the alarm that has the key, and another one is a Conflict;
        `on_conflict` says otherwise: "return" that alarm whatever is asked for, "replace" it, or "error".
        `connection`: an asyncpg connection, to create inside your own transaction.
        """
        draft = Draft(
            owner_did=owner or self.settings.owner,
            wake_message=wake_message,
            when=str(when),
            fire_at=at if at is None or isinstance(at, datetime) else wire.moment(at, "fire_at"),
            delay=None if delay is None else wire.span(delay, "delay"),
            cron_expr=cron,
            timezone=timezone or self.settings.timezone,
            label=label,
            conversation_id=conversation_id,
            payload=wire.payload_text(payload),
            target=target or self.settings.default_target,
            isolated=isolated,
            idempotency_key=key,
            max_failures=self.settings.max_failures if max_failures is None else max_failures,
            policy=wire.policy(policy, self.service.default_policy),
            created_by=created_by,
            created_via=created_via or self._via,
        )
        return (await self.service.set(draft, on_conflict=on_conflict, connection=connection)).alarm

    async def parse(self, when: str, *, timezone: str = "") -> Understood:
        """What a time means from now, in a zone; nothing is set. InvalidSchedule where it is not understood."""
        return parse(when, timezone=timezone or self.settings.timezone, now=await self.service.now())

    # Look

    async def get(self, id: str) -> Alarm:
        return await self.service.get(id, owner=self.settings.owner)

    async def find(
        self,
        *,
        status: str = "",
        kind: str = "",
        target: str = "",
        label: str = "",
        conversation_id: str = "",
        text: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
        cursor: Alarm | None = None,
    ) -> list[Alarm]:
        """Alarms, newest first; `cursor` is the last one of the page before."""
        return await self.service.find(
            AlarmQuery(
                owner=self.settings.owner,
                statuses=(status,) if status else (),
                kind=kind,
                target=target,
                label=label,
                conversation_id=conversation_id,
                text=text,
                since=since,
                until=until,
                limit=limit,
                cursor=(cursor.created_at, cursor.id) if cursor else None,
            )
        )

    async def fires(self, id: str = "", *, status: str = "", target: str = "", limit: int = 100) -> list[Fire]:
        """What happened: the fires of one alarm, or of all, latest first."""
        statuses = (status,) if status else ()
        query = FireQuery(owner=self.settings.owner, alarm_id=id, statuses=statuses, target=target, limit=limit)
        return await self.service.fires(query)

    async def pending(self, *, limit: int | None = None) -> list[Pending]:
        """Every alarm that waits to fire, soonest first: its id, when it is due, how long after its creation."""
        return await Past(self._store).pending(owner=self.settings.owner, limit=limit)

    async def history(
        self, *, status: str = "", target: str = "", since: datetime | float | None = None, limit: int = 50
    ) -> list[Entry]:
        """What happened and what is to come, newest first: fires due, and alarms created, `since` a moment."""
        moment = None if since is None else wire.moment(since, "since")
        return await self.service.history(
            owner=self.settings.owner, status=status, target=target, since=moment, limit=limit
        )

    async def failed(self, *, limit: int = 20) -> list[Entry]:
        """The latest fires that failed or fell silent."""
        return await self.service.failed(owner=self.settings.owner, limit=limit)

    async def stats(self) -> Stats:
        return await self.service.stats(owner=self.settings.owner)

    async def agenda(self, *, hours: float = 24, limit: int = 100) -> list[tuple[datetime, Alarm]]:
        return await self.service.agenda(owner=self.settings.owner, hours=hours, limit=limit)

    async def why(self, id: str) -> Why:
        return await self.service.why(id, owner=self.settings.owner, operator=True)  # who is here holds the database

    # Act

    async def update(self, id: str, /, *, version: int | None = None, **fields: Any) -> Changed:
        """Change the fields named: those of `set` that say when, what and how. A new when starts it anew.

        Like pause, resume, snooze and cancel it answers with the alarm, and `in_flight`: whether an attempt was under
        way, which may still arrive as it was.
        """
        names = {"at": "fire_at", "cron": "cron_expr"}
        given = {names.get(name, name): value for name, value in fields.items()}
        if given.get("when") is not None:
            given["when"] = str(given["when"])
        if given.get("payload") is not None:
            given["payload"] = wire.payload_text(given["payload"])
        try:
            edit = wire.edit(given, self.service.default_policy)
        except TypeError as error:
            raise InvalidRequest(str(error), field="update", fix="Name fields that `set` takes.") from None
        return await self.service.update(id, edit, owner=self.settings.owner, version=version, by=self._via)

    async def pause(self, id: str, *, reason: str = "") -> Changed:
        return await self.service.pause(id, owner=self.settings.owner, reason=reason, by=self._via)

    async def resume(self, id: str) -> Changed:
        return await self.service.resume(id, owner=self.settings.owner, by=self._via)

    async def snooze(self, id: str, wait: timedelta | float | str) -> Changed:
        return await self.service.snooze(id, wire.span(wait, "for"), owner=self.settings.owner, by=self._via)

    async def fire(self, id: str) -> Alarm:
        return await self.service.fire(id, owner=self.settings.owner, via=self._via)

    async def cancel(self, id: str, *, reason: str = "") -> Changed:
        return await self.service.cancel(id, owner=self.settings.owner, reason=reason, by=self._via)

    async def reset(self) -> int:
        return await self.service.reset(owner=self.settings.owner, by=self._via)

    async def completed(self, fire_id: str, result: str = "") -> Fire:
        return await self.service.report(fire_id, Report("completed", result), owner=self.settings.owner)

    async def delivery_failed(self, fire_id: str, reason: str = "") -> Fire:
        return await self.service.report(fire_id, Report("failed", reason), owner=self.settings.owner)

    async def retry_at(self, fire: Fire) -> datetime | None:
        """When a fire that is being retried is tried next; None where nothing more comes."""
        return await self.service.retry_at(fire, owner=self.settings.owner)

    async def working(self, fire_id: str, note: str = "") -> Fire:
        """Still at it: the time allowed for the report starts again."""
        return await self.service.report(fire_id, Report("working", note), owner=self.settings.owner)

    async def snooze_fire(self, fire_id: str, wait: timedelta | float | str) -> Fire:
        """This wake again after a while."""
        said = Report("snooze", wait=wire.span(wait, "for"))
        return await self.service.report(fire_id, said, owner=self.settings.owner)

    async def retry(self, fire_id: str) -> Fire:
        return await self.service.retry(fire_id, owner=self.settings.owner, by=self._via)

    async def inbox(self, *, limit: int = 10, wait: float = 0) -> list[Taken]:
        """What waits in the inbox, leased until it is reported; with nothing there, wait so many seconds for it.

        Each unpacks as (alarm, fire), and has `late_ms`, `missed` and `attempt` as a webhook's headers have them.
        """
        return await self.service.inbox(owner=self.settings.owner, limit=limit, wait=wait)

    # Serve

    def handler(
        self, name: str, *, timeout: float = 900, concurrency: int | None = None, reports: bool = False
    ) -> Callable[[F], F]:
        """Serve a target of this name in this process with a function, async or plain.

        What it returns is the result; what it raises is the failure, and the retry ladder climbs. With `reports` it
        may return None and say later how it went, by `completed` or `delivery_failed`.
        """

        def register(function: F) -> F:
            if name == INBOX or (name in self._served and name != self._implied):
                raise InvalidRequest(f"the target {name!r} exists already", field="handler", fix="Take another name.")
            if name == self._implied:
                self._implied = ""
            room = self.settings.total_concurrency if concurrency is None else concurrency
            target = Handler(function, timeout=timeout, reports=reports)
            self._served[name] = Served(target, room, breaks=False, users=users_of(self.settings, name, "handler"))
            return function

        return register

    @property
    def dispatcher(self) -> Dispatcher:
        """Made on first use: handlers are registered before it runs."""
        if self._dispatcher is None:
            now = self._clock.now()
            worker = Worker(
                id=Ids().new(now),
                host=socket.gethostname(),
                pid=os.getpid(),
                version=_version(),
                started_at=now,
                seen_at=now,
            )
            base = self.settings.public_url or self.settings.local_url
            self._dispatcher = Dispatcher(
                self._store,
                self._served,
                worker=worker,
                settings=self.settings,
                clock=self._clock,
                report_url=base.rstrip("/") + "/v1/fires/{fire_id}/report",
                metrics=self.metrics,
            )
        return self._dispatcher

    async def run(self) -> None:
        """Dispatch until cancelled; then finish or hand back what is in flight."""
        await self.check_targets()
        await self.dispatcher.run()

    async def check_targets(self) -> None:
        """Refuse to start with a target that cannot work: a table that is missing, or has no unique key."""
        for name, served in self._served.items():
            if isinstance(served.target, Checked):
                try:
                    await served.target.check(self.settings.db)
                except InvalidRequest as error:
                    raise InvalidConfig(error.message, field=f"targets.{name}", fix=error.fix) from None

    async def run_due(self) -> int:
        """Deliver what is due now, and return: for tests and for programs with a loop of their own."""
        return await self.dispatcher.run_due()

    def asgi(self) -> Starlette:
        """The HTTP doors as an ASGI application, to mount in one of your own."""
        from wakeful.doors import did, health, websocket
        from wakeful.doors.agents import mcp_routes
        from wakeful.doors.auth import Auth
        from wakeful.doors.envelope import Envelope
        from wakeful.doors.http import application
        from wakeful.service.live import Live

        auth = Auth(self._store, self.settings, self._clock)
        extra = [*did.routes(auth, self._store, self.settings, self._clock), *mcp_routes(self.service, self.settings)]
        watching = health.routes(
            self._store, self.metrics, lease=self.settings.lease, targets=self._served, heartbeat=self._pulse
        )
        live = Live(self._store, self._clock, self.settings.tick)
        following = websocket.routes(self.service, self._store, live, auth, self.settings)
        app = application(self.service, self._store, self.settings, auth=auth, extra=[*extra, *watching, *following])
        if self.settings.chronos_envelope:
            app.add_middleware(Envelope)
        app.add_middleware(health.Watched, metrics=self.metrics)  # outermost: refusals count too
        return app

    def _pulse(self) -> Pulse | None:
        return None if self._dispatcher is None else self._dispatcher.pulse


def _version() -> str:
    from wakeful import __version__

    return __version__
