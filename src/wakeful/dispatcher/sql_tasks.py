"""SQL tasks, a feature of the dispatcher: changed rows of another program's table become alarms within a tick."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from wakeful.clock import stopwatch
from wakeful.dispatcher import observability
from wakeful.errors import StoreUnavailable
from wakeful.ids import Ids
from wakeful.model.alarm import TASKS, Alarm
from wakeful.rules.task import TaskNews, TaskPlan, refused_task
from wakeful.runtime.metrics import Metrics
from wakeful.settings import Settings
from wakeful.settings.values import planner_of
from wakeful.store import Store

log = logging.getLogger("wakeful.dispatcher")

AT_ONCE: Final = 200
ALL: Final = sys.maxsize  # rounds
CHECK_EVERY: Final = 10.0  # seconds: whether the table is still watched


class SqlTasks:
    def __init__(self, store: Store, settings: Settings, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self._ids = Ids()
        self._checked_at: float | None = None
        self.tick = settings.tick
        self._broken: set[str] = set()  # tasks that were logged as such
        self._lately: dict[str, datetime] = {}  # tasks whose alarm was claimed and overtaken, and when
        self._stuck: set[str] = set()  # alarms that wait for a row nothing can be made of, and were logged
        self._planner = planner_of(settings)

    async def catch_up(self, now: datetime, *, whole: bool) -> None:
        """Of very many plan the first: the others are planned beside the claims.

        Should that fail, claims go on without it: a task's row is read again before anything is said for it.
        """
        try:
            await self.plan(now, rounds=ALL if whole else 1)
        except Exception as error:
            log.warning("the tasks could not all be planned: %s", type(error).__name__)

    async def upkeep(self, now: datetime) -> None:
        await self.plan(now)

    async def plan(self, now: datetime, *, rounds: int = ALL) -> int:
        """Plan what was changed, all of it or so many rounds; how many tasks."""
        await self._check_table()
        count = after = 0
        # On behind those that could not be planned just now: however many they are, they are in nobody's way.
        while rounds > 0 and (news := await self._store.tasks.news(limit=AT_ONCE, after=after)):
            after = max(one.upto for one in news)
            count += await self._planned(news, now)
            rounds -= 1
        return count

    async def overtaken(self, alarms: Sequence[Alarm], now: datetime) -> dict[str, timedelta]:
        """Those of these claimed alarms that must not be delivered: their task's row was changed since it was planned.

        It is planned again here. What they are to say, if anything, is known once they are claimed again: at once, or
        after the wait given here where the row is being changed just now, or nothing can be made of it.
        """
        ids = [alarm.id for alarm in alarms if alarm.created_via == TASKS]
        if not ids:
            return {}
        try:
            moved = await self._store.tasks.moved(ids)
            await self._planned(self._due_again([news for news in moved.values() if news is not None], now), now)
            still = await self._store.tasks.moved(list(moved)) if moved else {}
        except StoreUnavailable as error:
            # They are leased already: better released than sent unread.
            log.warning("cannot read the rows of %d tasks yet, trying again: %s", len(ids), error)
            return dict.fromkeys(ids, self.tick)
        self._warn_of_stuck(set(still), set(ids))
        return {id: self.tick if id in still else timedelta(0) for id in moved}

    def _due_again(self, news: Sequence[TaskNews], now: datetime) -> list[TaskNews]:
        """Without those planned here within the last tick: a row that never stands as it was left keeps nobody busy."""
        self._lately = {id: at for id, at in self._lately.items() if at <= now < at + self.tick}
        due = [one for one in news if one.task_id not in self._lately]
        self._lately |= {one.task_id: now for one in due}
        return due

    async def _planned(self, news: Sequence[TaskNews], now: datetime) -> int:
        """Plan and write these; how many were still as they were read."""
        plans = [self._plan_of(await self._known(one), now) for one in news]
        written, refused = await self._written(plans)
        if refused:
            again, hopeless = await self._written([refused_task(plan.news, why, now=now) for plan, why in refused])
            written += again
            for plan, why in hopeless:
                self._log_broken(plan.news, why)
        return written

    async def _written(self, plans: Sequence[TaskPlan]) -> tuple[int, list[tuple[TaskPlan, str]]]:
        """How many of these are, and which the database does not take, and why."""
        answers = await self._store.tasks.plan(plans) if plans else []
        for plan, answer in zip(plans, answers, strict=True):
            if answer.what == "written":
                self._log(plan)
        # The first of many need not wait until the last is planned.
        if any(plan.new is not None and plan.new.status == "active" for plan in plans):
            self._store.hints.set()
        refused = [
            (plan, f"it cannot be written: {answer.error}")
            for plan, answer in zip(plans, answers, strict=True)
            if answer.what == "refused"
        ]
        return sum(answer.what == "written" for answer in answers), refused

    def _plan_of(self, news: TaskNews, now: datetime) -> TaskPlan:
        try:
            return self._planner.plan(news, id=self._ids.new(now), now=now)
        except Exception as error:  # one row that breaks us must not keep the others from being planned
            self._log_broken(news, type(error).__name__)
            return refused_task(news, f"it cannot be planned: {type(error).__name__}", now=now)

    def _log_broken(self, news: TaskNews, why: str) -> None:
        if news.task_id not in self._broken:
            log.error("task %s cannot be planned: %s", news.task_id, observability.shown(why))
        self._broken.add(news.task_id)

    def _warn_of_stuck(self, stuck: set[str], among: set[str]) -> None:
        """Once for each, although it is read every tick."""
        for id in stuck - self._stuck:
            log.warning("a due task waits: its row cannot be planned right now", extra={"alarm_id": id})
        self._stuck = (self._stuck - among) | stuck

    async def _check_table(self) -> None:
        if self._checked_at is not None and stopwatch() - self._checked_at < CHECK_EVERY:
            return
        if await self._store.tasks.mend():
            log.warning("the table of tasks was recreated: all of its rows are read again")
        for id, note in (await self._store.tasks.nameless()).items():
            if id not in self._broken:
                log.warning("task %s does not run: %s", observability.shown(id), note)
            self._broken.add(id)
        self._checked_at = stopwatch()

    async def _known(self, news: TaskNews) -> TaskNews:
        """With the alarm the task has, and the fire that one is working on."""
        alarm = await self._store.get(news.alarm_id) if news.alarm_id else None
        if alarm is None:
            return news
        key = (alarm.id, alarm.occurrence_at)
        return replace(news, alarm=alarm, fire=(await self._store.fires_at([key])).get(key))

    def _log(self, plan: TaskPlan) -> None:
        if plan.note and not plan.news.note.startswith(plan.note):  # once, however often the row is touched
            log.warning("task %s does not run: %s", plan.news.task_id, plan.note)
        if plan.new is not None:
            self._metrics.created(plan.new.created_via)
        if plan.change is not None:
            observability.settled(self._metrics, plan.news.fire, plan.change)
