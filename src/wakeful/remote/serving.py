"""Handlers of a remote client: wakes are fetched from the server's inbox of their name, worked on, and reported.

The lease of a wake is renewed while it is worked on, and ends by itself with the process: then it is handed out again.
So nothing is lost, and a wake can come twice, with the same `fire_id`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from wakeful.clock import Clock
from wakeful.errors import InvalidRequest, StoreUnavailable, TooMany, WakefulError
from wakeful.model.alarm import INBOX, Fire
from wakeful.model.outcome import Completed, Failed, Outcome, Snoozed
from wakeful.remote.wire import FetchedWake
from wakeful.rules.backoff import backoff
from wakeful.rules.wake import Wake
from wakeful.service import TakenWake
from wakeful.targets.handler import Handler

log = logging.getLogger("wakeful.remote")

POLL: Final = 30.0  # seconds one request waits for wakes
MOST: Final = 100  # wakes one request takes
FIRST_WAIT: Final = 0.5
LONGEST_WAIT: Final = 30.0
STOP_WITHIN: Final = 10.0  # seconds for what is under way when `run` is cancelled; the rest is handed out again
RENEW_AT: Final = 1 / 3  # of a lease: two renewals may get lost
SHORTEST_RENEWAL: Final = 0.1


class InboxVerbs(Protocol):
    """The verbs that serving needs."""

    async def inbox(self, *, limit: int = 10, wait: float = 0, target: str = INBOX) -> list[TakenWake]: ...
    async def completed(self, fire_id: str, result: str = "") -> Fire: ...
    async def delivery_failed(self, fire_id: str, reason: str = "") -> Fire: ...
    async def working(self, fire_id: str, note: str = "") -> Fire: ...
    async def snooze_fire(self, fire_id: str, wait: timedelta | float | str) -> Fire: ...


class ServedInbox(Struct, frozen=True):
    name: str
    handler: Handler
    concurrency: int


class InboxWorker:
    def __init__(self, verbs: InboxVerbs, clock: Clock) -> None:
        self._verbs = verbs
        self._clock = clock
        self._served: dict[str, ServedInbox] = {}
        self._under_way: dict[str, set[asyncio.Task[Outcome]]] = {}
        self._group: asyncio.TaskGroup | None = None  # while it runs

    def add(self, name: str, handler: Handler, concurrency: int) -> None:
        if name in self._served:
            raise InvalidRequest(f"the target {name!r} exists already", field="handler", fix="Take another name.")
        served = self._served[name] = ServedInbox(name, handler, concurrency)
        self._under_way[name] = set()
        if self._group is not None:
            self._fetch(served, self._group)

    async def close(self) -> None:
        for served in self._served.values():
            await served.handler.close()

    async def run(self) -> None:
        """Serve until cancelled; then finish what is under way, as far as there is time."""
        if not self._served:
            raise InvalidRequest(
                "there is no handler to run", field="handler", fix='Register one: @alarms.handler("ops")'
            )
        try:
            async with asyncio.TaskGroup() as group:
                for served in self._served.values():
                    self._fetch(served, group)
                self._group = group  # for handlers that are registered later
        except* InvalidRequest as refused:
            raise refused.exceptions[0] from None
        finally:
            self._group = None
            await self._come_down()

    def _fetch(self, served: ServedInbox, group: asyncio.TaskGroup) -> None:
        group.create_task(self._fetch_for(served), name=f"wakeful inbox {served.name}")

    async def run_due(self) -> int:
        count = 0
        for served in self._served.values():
            while taken := await self._verbs.inbox(target=served.name, limit=min(served.concurrency, MOST)):
                count += len(taken)
                await asyncio.gather(*(self.work(one, served.handler.deliver) for one in taken))
        return count

    async def _come_down(self) -> None:
        tasks = {task for under_way in self._under_way.values() for task in under_way}
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=STOP_WITHIN)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _fetch_for(self, served: ServedInbox) -> None:
        under_way, failures = self._under_way[served.name], 0
        while True:
            if not (room := served.concurrency - len(under_way)):
                await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                continue
            try:
                taken = await self._verbs.inbox(target=served.name, limit=min(room, MOST), wait=POLL)
            except (StoreUnavailable, TooMany) as error:
                if failures == 0:
                    log.warning("no wakes for %s just now: %s", served.name, error.message)
                failures += 1
                await self._clock.sleep(backoff(failures - 1, base=FIRST_WAIT, cap=LONGEST_WAIT).total_seconds())
                continue
            failures = 0
            for one in taken:
                task = asyncio.create_task(self.work(one, served.handler.deliver), name=f"wakeful {one.fire.id}")
                under_way.add(task)
                task.add_done_callback(under_way.discard)

    async def work(self, taken: TakenWake, deliver: Callable[[Wake], Awaitable[Outcome]]) -> Outcome:
        """Work on one wake, keep its lease meanwhile, and report how it went."""
        renewing = asyncio.create_task(self._renew(taken.fire))
        try:
            outcome = await deliver(_wake(taken))
            if (say := self._report(taken.fire.id, outcome)) is not None:
                await self._said(taken.fire, say)
            return outcome
        finally:
            renewing.cancel()

    def _report(self, fire_id: str, outcome: Outcome) -> Callable[[], Awaitable[Fire]] | None:
        """How the work went, as a report; None where the handler's own report is awaited."""
        verbs = self._verbs
        match outcome:
            case Completed(result):
                return lambda: verbs.completed(fire_id, result)
            case Failed(error):
                return lambda: verbs.delivery_failed(fire_id, error)
            case Snoozed(wait):
                return lambda: verbs.snooze_fire(fire_id, wait)
            case _:
                return None

    async def _said(self, fire: Fire, say: Callable[[], Awaitable[Fire]]) -> None:
        """Say it until it is heard: the lease is renewed meanwhile, or else ends, and the wake comes again."""
        failures = 0
        while True:
            try:
                await say()
                return
            except (StoreUnavailable, TooMany) as error:
                log.warning("the report on %s did not get through, and is said again: %s", fire.id, error.message)
                failures += 1
                await self._clock.sleep(backoff(failures - 1, base=FIRST_WAIT, cap=LONGEST_WAIT).total_seconds())
            except WakefulError as error:  # somebody else has reported on it, or taken it back
                log.warning("the report on %s was not taken: %s", fire.id, error.message)
                return

    async def _renew(self, fire: Fire) -> None:
        """Keep the lease while the work lasts."""
        since = fire.delivered_at or fire.scheduled_for
        while fire.report_by is not None:
            lease = (fire.report_by - since).total_seconds()
            await self._clock.sleep(max(lease * RENEW_AT, SHORTEST_RENEWAL))
            try:
                fire = await self._verbs.working(fire.id)
                since = fire.updated_at
            except (StoreUnavailable, TooMany):
                continue
            except WakefulError as error:
                log.warning("%s is no longer ours: %s", fire.id, error.message)
                return


def _wake(taken: TakenWake) -> Wake:
    url = taken.report_url if isinstance(taken, FetchedWake) else ""
    # A series has moved on since its wake was put into the inbox.
    alarm = replace(taken.alarm, occurrence_at=taken.fire.scheduled_for, fire_count=taken.number - 1)
    wake = Wake(alarm, attempt=taken.attempt, late_ms=taken.late_ms, missed=taken.missed, report_url=url)
    wake.prompt = taken.prompt  # it also knows what became of the fire before
    wake.next_fire_at = taken.next_fire_at
    wake.token, wake.report_token = taken.token, ""  # who took it reports on it
    if isinstance(taken, FetchedWake):
        # Instead of what is made with the server's key, and read off a policy that only the server knows.
        wake.report_token = taken.report_token
        wake.ends_at, wake.renewable = taken.ends_at, taken.renewable
    return wake
