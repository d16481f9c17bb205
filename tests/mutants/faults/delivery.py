"""Faults on the way of a wake: `dispatcher/` and `targets/`."""

from __future__ import annotations

from typing import Final

from .fault import Fault, Source

IN_DELIVERY: Final[dict[str, Fault]] = {
    "what is claimed early is delivered early": Source(
        "wakeful.dispatcher", "if alarm.next_fire_at > now:", "if False:"
    ),
    "a worker's own clock makes it early": Source(
        "wakeful.dispatcher",
        "            while (rest := self._store_clock.until(flight.alarm.next_fire_at)) > 0:\n",
        "            if (rest := self._store_clock.until(flight.alarm.next_fire_at)) > 0:\n",
    ),
    "while a target is full the others wait for a tick": Source(
        "wakeful.dispatcher", "            moments.append(now + self._lead)\n", "            pass\n"
    ),
    "a machine that is short of something is a fire's fault": Source(
        "wakeful.dispatcher.settler",
        "(error.by_machine or isinstance(error, StoreBusy))",
        "isinstance(error, StoreBusy)",
    ),
    "a task's row is not asked before it is sent": Source(
        "wakeful.dispatcher",
        "overtaken = await self._upkeep.tasks.overtaken(claimed.alarms, claimed.now)",
        "overtaken: dict[str, timedelta] = {}",
    ),
    "all of one owner before anyone else": Source(
        "wakeful.dispatcher",
        "turns = self._turns.wanted(slots, probes=self._flights.on_probe())",
        "turns: dict[str, object] = {}",
    ),
    "a claim before the tasks are planned": Source(
        "wakeful.dispatcher",
        "        await self._upkeep.catch_up()\n        await self._after_a_stall()",
        "        await self._after_a_stall()",
    ),
    "what is in flight is sent again": Source(
        "wakeful.dispatcher",
        "        if (held := self._flights.holding(alarm)) is not None:\n"
        "            self._adopt(held, alarm)\n            return\n"
        "        self._flights.take_off(flight)\n        if alarm",
        "        self._flights.take_off(flight)\n        if alarm",
    ),
    "a call is aborted when its alarm is changed": Source(
        "wakeful.dispatcher.upkeep",
        "            if flight.lost and flight.task is not None:\n",
        "            if flight.lost and flight.task is not None:\n                flight.task.cancel()\n",
    ),
    "upkeep by the wall clock": Source(
        "wakeful.dispatcher.upkeep",
        "        passed = self._clock.monotonic\n",
        "        passed = lambda: now().timestamp()\n",
    ),
    "an answer to one owner counts for all": Source(
        "wakeful.dispatcher.holds", "return alarm.target, alarm.owner_did", 'return alarm.target, ""'
    ),
    "an answer counts against the target": Source(
        "wakeful.dispatcher.flights", "            if failed.answered:\n", "            if False:\n"
    ),
    "who may use a target is not asked at delivery": Source(
        "wakeful.dispatcher", "now=now, refused=refused)", "now=now)"
    ),
    "a wake is sent without being counted": Source(
        "wakeful.dispatcher", "if met and not await self._is_affordable(flight, met):", "if False:"
    ),
    "what cannot be counted is sent": Source(
        "wakeful.dispatcher",
        "flight.change = release(flight.alarm, now=self._now(), wait=self._settings.tick)",
        "flight.change = None",
    ),
    "an owner reads what a check was answered": Source(
        "wakeful.targets.http_check", 'f"HTTP {reply.status}" if reply.status else failure.error', "failure.error"
    ),
    "nobody looks at checks": Source(
        "wakeful.dispatcher", "if keeps_back(alarm, flight.fire, flight.look):", "if False:"
    ),
    "counts are kept for ever": Source(
        "wakeful.dispatcher.upkeep", "        await self._store.budget.forget(now - KEPT)\n", ""
    ),
    "an error quotes the token of a wake": Source(
        "wakeful.targets.webhook", "hide=(wake.report_token, wake.token)", "hide=(wake.report_token,)"
    ),
    "alarms are claimed before the law is looked at": Source(
        "wakeful.dispatcher", "        if not await self._zones.step():\n            return 0.0\n", ""
    ),
    "an older process plans by its own rules": Source(
        "wakeful.dispatcher.zone_planning",
        "if current.version != (rules_in_force()[0] or self._machine):",
        "if False:",
    ),
    "nobody waits until all have heard of the new rules": Source(
        "wakeful.dispatcher.zone_planning",
        "round.begun >= round.edition.since + self._spreads_within",
        "True",
    ),
}
