"""Planning the tasks that other programs write: what changed in their table becomes an alarm, within a tick."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from wakeful.alarm import Planner, TaskNews, TaskPlan
from wakeful.clock import stopwatch
from wakeful.config import Settings
from wakeful.dispatcher import telling
from wakeful.ids import Ids
from wakeful.metrics import Metrics
from wakeful.store import Store

log = logging.getLogger("wakeful.dispatcher")

AT_ONCE: Final = 200
LOOK_EVERY: Final = 10.0  # seconds: whether the table is still watched


class TaskPlanning:
    def __init__(self, store: Store, settings: Settings, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self._ids = Ids()
        self._looked: float | None = None
        self._planner = Planner(
            target=settings.tasks_target,
            owner=settings.owner,
            timezone=settings.timezone,
            max_failures=settings.max_failures,
        )

    async def plan(self, now: datetime) -> int:
        """Plan everything that was changed; how many tasks."""
        await self._look()
        count = 0
        while news := await self._store.tasks.news(limit=AT_ONCE):
            plans = [self._planner.plan(await self._known(one), id=self._ids.new(now), now=now) for one in news]
            written = await self._store.tasks.plan(plans)
            for plan, is_written in zip(plans, written, strict=True):
                if is_written:
                    self._tell(plan)
            count += sum(written)
            if not any(written):
                break  # all of them moved meanwhile: again at the next tick
        return count

    async def _look(self) -> None:
        if self._looked is not None and stopwatch() - self._looked < LOOK_EVERY:
            return
        if await self._store.tasks.mend():
            log.warning("the table of tasks was made anew: all of its rows are looked at")
        self._looked = stopwatch()

    async def _known(self, news: TaskNews) -> TaskNews:
        """With the alarm the task has, and the fire that one is working on."""
        alarm = await self._store.get(news.alarm_id) if news.alarm_id else None
        if alarm is None:
            return news
        key = (alarm.id, alarm.occurrence_at)
        return replace(news, alarm=alarm, fire=(await self._store.fires_at([key])).get(key))

    def _tell(self, plan: TaskPlan) -> None:
        if plan.note:
            log.warning("task %s does not run: %s", plan.news.task_id, plan.note)
        if plan.new is not None:
            self._metrics.created(plan.new.created_via)
        if plan.change is not None:
            telling.settled(self._metrics, plan.news.fire, plan.change)
