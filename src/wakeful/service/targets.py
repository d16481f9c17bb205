"""The registry of targets: which exist, who may use them, who serves them, and which are paused."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, Protocol

from msgspec import Struct

from wakeful.clock import stopwatch
from wakeful.errors import UnknownTarget
from wakeful.ids import Ids
from wakeful.model.alarm import INBOX, Alarm, Event
from wakeful.model.outcome import Completed, Delivered, Failed, Outcome, Snoozed
from wakeful.moments import whole_ms
from wakeful.rules.users import Users
from wakeful.rules.wake import Wake
from wakeful.service.why import is_alive
from wakeful.settings import Settings
from wakeful.store import Store, TargetState, Worker
from wakeful.targets import Target

_ANYBODY: Final = Users()
SERVED_GOOD_FOR: Final = 1.0  # seconds: a burst of creates asks once


class TargetHere(Protocol):
    """A target that this process delivers to."""

    @property
    def target(self) -> Target: ...

    @property
    def users(self) -> Users: ...


class TargetRegistry:
    def __init__(
        self, store: Store, here: Mapping[str, TargetHere], declared: Mapping[str, Users], settings: Settings
    ) -> None:
        self._store = store
        self._here = here  # what this process delivers to, its handlers among them
        self._declared = declared  # what is configured besides, and who may use it
        self._operator = settings.owner
        self._usual = settings.usual_target
        self._handlers: frozenset[str] = frozenset()  # that other processes have told of
        self._elsewhere: frozenset[str] = frozenset()  # these, and what only others have configured
        self._served: tuple[float, frozenset[str]] = (-SERVED_GOOD_FOR, frozenset())  # when looked, and who was there

    async def admit(self, alarm: Alarm, *, via: str = "") -> None:
        """Refuse an alarm whose owner may not use its target or chat.

        `via`: of an alarm that stands for a task, how it came to be.
        """
        await self.admit_use(alarm.owner_did, alarm.target, alarm.conversation_id, via=via)

    async def admit_use(self, owner: str, target: str, conversation_id: str, *, via: str = "") -> None:
        """Refuse a target or chat that an owner may not use: the only place that does."""
        if target != INBOX:
            is_operator = owner == self._operator
            await self._check(target, lambda name: self._users_of(name).may_use(owner, via=via), tell_all=is_operator)
        self._users_of(target).check_chat(owner, conversation_id, via=via)

    async def check(self, name: str) -> None:
        """Refuse a target that nothing is configured for and no process serves."""
        await self._check(name, lambda _: True, tell_all=True)

    async def _check(self, name: str, may_use: Callable[[str], bool], *, tell_all: bool) -> None:
        """Refuse an unknown target. One that the owner may not use counts as unknown."""
        configured = {*self._here, *self._declared}
        if name == INBOX or (may_use(name) if name in configured else name in self._elsewhere):
            return
        await self._look_elsewhere()
        if name not in configured and name in self._elsewhere:
            return
        # Who may use what only others have configured is not known here: it is not told, and decided at delivery.
        told = {*filter(may_use, configured), *(self._elsewhere if tell_all else self._handlers).difference(configured)}
        fix = f"Known names: {', '.join(sorted({INBOX, *told}))}."
        if name == self._usual and name in configured:
            raise UnknownTarget("this owner may not use the default target", field="target", fix=fix)
        raise UnknownTarget(f"there is no target {name!r}", field="target", fix=fix)

    def _users_of(self, name: str) -> Users:
        here = self._here.get(name)
        return self._declared.get(name, _ANYBODY) if here is None else here.users

    async def _look_elsewhere(self) -> None:
        workers = await self._store.maintenance.workers()
        self._handlers = frozenset(name for worker in workers for name in worker.handlers)
        self._elsewhere = self._handlers.union(name for worker in workers for name in worker.targets)

    async def served(self) -> dict[str, list[Worker]]:
        """Every target there is, configured or told of by a worker, with the workers that serve it and are alive."""
        now = await self._store.now()
        found: dict[str, list[Worker]] = {name: [] for name in (INBOX, *self._here, *self._declared)}
        for worker in await self._store.maintenance.workers():
            for name in (*worker.targets, *worker.handlers):
                found.setdefault(name, []).extend([worker] if is_alive(worker, now) else [])
        return found

    async def is_served(self, name: str) -> bool:
        """Whether a worker that is alive serves a target; looked up again after a second at most."""
        looked, served = self._served
        if (passed := stopwatch()) - looked > SERVED_GOOD_FOR:
            served = frozenset(target for target, workers in (await self.served()).items() if workers)
            self._served = (passed, served)
        return name in served

    async def states(self) -> dict[str, TargetState]:
        """What is known of targets that were paused or failed."""
        return await self._store.maintenance.target_states()

    async def pause(self, name: str, *, by: str = "", reason: str = "") -> TargetState:
        return await self._mark(name, paused=True, by=by, reason=reason)

    async def resume(self, name: str, *, by: str = "") -> TargetState:
        return await self._mark(name, paused=False, by=by, reason="")

    async def known_to(self, owner: str, *, is_operator: bool) -> dict[str, list[Worker]]:
        """The targets that an owner may use, with who serves them; the operator is told of all."""
        served = await self.served()
        if is_operator or owner == self._operator:
            return served
        await self._look_elsewhere()
        configured = {*self._here, *self._declared}

        def may_know(name: str) -> bool:
            # Who may use what only others have configured is not known here: it is not told.
            return self._users_of(name).may_use(owner) if name in configured else name in self._handlers

        return {name: workers for name, workers in served.items() if name == INBOX or may_know(name)}

    async def _mark(self, name: str, *, paused: bool, by: str, reason: str) -> TargetState:
        await self.check(name)
        now = await self._store.now()
        known = (await self._store.maintenance.target_states()).get(name)
        state = TargetState(
            target=name,
            paused_at=now if paused else None,
            paused_by=by,
            paused_reason=reason,
            breaker_opened_at=known.breaker_opened_at if known else None,
            last_error=known.last_error if known else "",
            updated_at=now,
        )
        what = "target paused" if paused else "target resumed"
        await self._store.maintenance.set_target_state(
            state, event=Event(at=now, what=what, by=by, reason=f"{name}: {reason}")
        )
        return state


# One wake through a real target, now, without an alarm: nothing is kept, and a report on it is not accepted.

MESSAGE: Final = "This is a test of wakeful: nothing is to be done."
PAYLOAD: Final = '{"test": true}'
_WITHIN: Final = 300  # seconds; the limit of a target itself is shorter, but for commands


class Tested(Struct, frozen=True):
    outcome: Outcome
    took_ms: int

    @property
    def failed(self) -> bool:
        return isinstance(self.outcome, Failed)


def wake_for_test(
    settings: Settings,
    name: str,
    *,
    now: datetime,
    via: str,
    message: str = MESSAGE,
    payload: str = PAYLOAD,
    conversation: str = "",
) -> Wake:
    now = whole_ms(now)
    alarm = Alarm(
        id=Ids().new(now),
        owner_did=settings.owner,
        user_id=settings.owner,
        label="test",
        wake_message=message,
        payload_json=payload,
        conversation_id=conversation,
        target=name,
        fire_at=now,
        next_fire_at=now,
        occurrence_at=now,
        created_at=now,
        updated_at=now,
        created_by=settings.owner,
        created_via=via,
    )
    base = settings.public_url or settings.local_url
    # A key nobody knows: the report token has the usual form and opens nothing.
    url = base.rstrip("/") + "/v1/fires/{fire_id}/report"
    return Wake(alarm, report_url=url, secret=secrets.token_bytes(32))


def target_named(name: str, served: Mapping[str, TargetHere]) -> Target:
    if name not in served:
        raise UnknownTarget(
            f"there is no target {name!r} in the settings",
            field="target",
            fix=f"Known are: {', '.join(sorted(served))}. A handler lives in its own program, and is tested there.",
        )
    return served[name].target


async def send_test(target: Target, wake: Wake) -> Tested:
    begun = stopwatch()
    try:
        async with asyncio.timeout(_WITHIN):
            outcome = await target.deliver(wake)
    except TimeoutError:
        outcome = Failed(f"a test ends after {_WITHIN} s, and it took longer")
    return Tested(outcome, round((stopwatch() - begun) * 1000))


def told(outcome: Outcome) -> dict[str, Any]:
    """What came back, as far as there is something."""
    match outcome:
        case Delivered(detail, awaits_report, row):
            awaits = {"awaits": "a report"} if awaits_report else {}
            return {"detail": detail, **awaits} | (
                {"row": {"table": row.table, **row.values}} if row is not None else {}
            )
        case Completed(result):
            return {"result": result}
        case Failed(error, retryable):
            return {
                "error": error,
                "retried": "it would be tried again" if retryable else "it would not be tried again",
            }
        case Snoozed(wait):
            return {"wants": f"it again in {wait.total_seconds():g} s"}
        case _:
            return {"detail": "it would wait in its owner's inbox"}
