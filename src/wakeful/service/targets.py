"""The registry of targets: which exist, who may use them, who serves them, and which are paused."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from wakeful.alarm import INBOX, Alarm, Event, Users
from wakeful.clock import stopwatch
from wakeful.errors import UnknownTarget
from wakeful.service.why import is_alive
from wakeful.settings import Settings
from wakeful.store import Store, TargetState, Worker

SERVED_GOOD_FOR: Final = 1.0  # seconds: a burst of creates asks once


class TargetRegistry:
    def __init__(
        self,
        store: Store,
        configured: Callable[[], Collection[str]],
        users: Callable[[str], Users],
        settings: Settings,
    ) -> None:
        self._store = store
        self._configured = configured  # among them this process's own handlers
        self._users = users  # of each of these
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
            await self._check(target, lambda name: self._users(name).may_use(owner, via=via), tell_all=is_operator)
        self._users(target).check_chat(owner, conversation_id, via=via)

    async def check(self, name: str) -> None:
        """Refuse a target that nothing is configured for and no process serves."""
        await self._check(name, lambda _: True, tell_all=True)

    async def _check(self, name: str, may_use: Callable[[str], bool], *, tell_all: bool) -> None:
        """Refuse an unknown target. One that the owner may not use counts as unknown."""
        configured = self._configured()
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

    async def _look_elsewhere(self) -> None:
        workers = await self._store.maintenance.workers()
        self._handlers = frozenset(name for worker in workers for name in worker.handlers)
        self._elsewhere = self._handlers.union(name for worker in workers for name in worker.targets)

    async def served(self) -> dict[str, list[Worker]]:
        """Every target there is, configured or told of by a worker, with the workers that serve it and are alive."""
        now = await self._store.now()
        found: dict[str, list[Worker]] = {name: [] for name in (INBOX, *self._configured())}
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
        configured = self._configured()

        def may_know(name: str) -> bool:
            # Who may use what only others have configured is not known here: it is not told.
            return self._users(name).may_use(owner) if name in configured else name in self._handlers

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
