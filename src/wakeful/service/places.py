"""Targets as the doors know them: which there are, who serves them, and which are paused."""

from __future__ import annotations

from collections.abc import Callable, Collection

from wakeful.alarm import INBOX, Event
from wakeful.errors import UnknownTarget
from wakeful.service.why import is_alive
from wakeful.store import Store, TargetState, Worker


class Places:
    def __init__(self, store: Store, configured: Callable[[], Collection[str]]) -> None:
        self._store = store
        self._configured = configured  # among them this process's own handlers
        self._elsewhere: frozenset[str] = frozenset()  # handlers other processes have told of

    async def check(self, name: str) -> None:
        """Refuse a target that nothing is configured for and no process serves."""
        if name == INBOX or name in self._configured() or name in self._elsewhere:
            return
        workers = await self._store.workers()
        self._elsewhere = frozenset(served for worker in workers for served in (*worker.handlers, *worker.targets))
        if name not in self._elsewhere:
            known = ", ".join(sorted({INBOX, *self._configured(), *self._elsewhere}))
            raise UnknownTarget(f"there is no target {name!r}", field="target", fix=f"Known are: {known}.")

    async def served(self) -> dict[str, list[Worker]]:
        """Every target there is, configured or told of by a worker, with the workers that serve it and are alive."""
        now = await self._store.now()
        found: dict[str, list[Worker]] = {name: [] for name in (INBOX, *self._configured())}
        for worker in await self._store.workers():
            for name in (*worker.targets, *worker.handlers):
                found.setdefault(name, []).extend([worker] if is_alive(worker, now) else [])
        return found

    async def mark(self, name: str, *, paused: bool, by: str, reason: str) -> TargetState:
        """Pause a target or let it go on."""
        await self.check(name)
        now = await self._store.now()
        known = (await self._store.target_states()).get(name)
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
        await self._store.set_target_state(state, event=Event(at=now, what=what, by=by, reason=f"{name}: {reason}"))
        return state
