"""Faults on the way of a wake: `dispatcher/` and `targets/`."""

from __future__ import annotations

from typing import Final

from .fault import Fault, Several, Source

IN_DELIVERY: Final[dict[str, Fault]] = {
    "a run of LangGraph that is under way is started again": Source(
        "wakeful.targets.langgraph", "if wake.attempt > 1 and (known", "if False and (known"
    ),
    "a task of A2A that is under way is begun again": Source(
        "wakeful.targets.a2a", "if wake.attempt > 1 and (known", "if False and (known"
    ),
    "owners share the thread of a conversation": Source(
        "wakeful.targets.langgraph", "wakeful:{wake.owner_did}:{wake.conversation_id}", "wakeful:{wake.conversation_id}"
    ),
    "an agent card sends the token to another host": Source(
        "wakeful.targets.a2a", "if urlsplit(urls[0]).netloc.lower() != urlsplit(card_url).netloc.lower():", "if False:"
    ),
    "a conversation that is not a session is sent": Source(
        "wakeful.targets.openai_session", "if not _SESSION.fullmatch(wake.conversation_id):", "if False:"
    ),
    "an earlier answer is the result of a run": Source(
        "wakeful.targets.langgraph", 'if message.type == "human" or message.role == "user":', "if False:"
    ),
    "anyone may use a kind that says nothing": Source(
        "wakeful.settings.kinds", 'getattr(found, "read_as_words", True)', 'getattr(found, "read_as_words", False)'
    ),
    "what is claimed early is delivered early": Source(
        "wakeful.dispatcher.delivery", "if flight.alarm.next_fire_at > now or takes_long", "if takes_long"
    ),
    "a worker's own clock makes it early": Source(
        "wakeful.dispatcher.delivery",
        "            while (rest := self._store_clock.surely_until(flight.alarm.next_fire_at)) > 0:\n",
        "            if (rest := self._store_clock.surely_until(flight.alarm.next_fire_at)) > 0:\n",
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
        "waits = await overtaken(self._features, claimed.alarms, claimed.now)",
        "waits: dict[str, timedelta] = {}",
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
        "wakeful.dispatcher.delivery",
        "if (held := self._flights.holding(flight.alarm)) is not None:",
        "if (held := None) is not None:",
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
        "wakeful.dispatcher.breaker", "return alarm.target, alarm.owner_did", 'return alarm.target, ""'
    ),
    "an answer counts against the target": Source(
        "wakeful.dispatcher.flights", "            if failed.answered:\n", "            if False:\n"
    ),
    "who may use a target is not asked at delivery": Source(
        "wakeful.dispatcher.guards", "now=now, refused=refused)", "now=now)"
    ),
    "a wake is sent without being counted": Source("wakeful.dispatcher.guards", "    if not met:\n", "    if True:\n"),
    "what cannot be counted is sent": Source(
        "wakeful.dispatcher.delivery",
        "self._release(flight, wait=self._settings.tick)",
        "await self._attempt(flight)",
    ),
    "an owner reads what a check was answered": Source(
        "wakeful.targets.sending.check", 'f"HTTP {reply.status}" if reply.status else failure.error', "failure.error"
    ),
    "nobody looks at checks": Source(
        "wakeful.dispatcher.guards", "if keeps_back(alarm, flight.fire, flight.look) else None", "if False else None"
    ),
    "counts are kept for ever": Source(
        "wakeful.dispatcher.upkeep",
        "        await self._store.maintenance.purge_counts(now - BUDGETS_KEPT, limit=PURGE_LIMIT)\n",
        "",
    ),
    "an error quotes the token of a wake": Source(
        "wakeful.targets.webhook", "hide=(wake.report_token, wake.token)", "hide=(wake.report_token,)"
    ),
    "a body may name fields that no wake has": Source(
        "wakeful.targets.template", "    if name not in _FIELDS:\n", "    if False:\n"
    ),
    "a body may have links that lead nowhere": Source(
        "wakeful.targets.template", "    if name in _LINKS and not server.public_url:\n", "    if False:\n"
    ),
    "a message alerts a whole channel": Source(
        "wakeful.targets.template", "return text.translate(escape) if escape else text", "return text"
    ),
    "others' words pass for the operator's": Source(
        "wakeful.targets.text", "    if operator and owner == operator and (", "    if True or ("
    ),
    "who opens a link reports": Source("wakeful.http.routes.links", "    run=done_page,\n", "    run=done,\n"),
    "any token opens a link": Source(
        "wakeful.http.routes.links",
        '    if not await speaks_for(context, call.fire_id, str(call["token"])):\n',
        "    if False:\n",
    ),
    "alarms are claimed before the law is looked at": Source(
        "wakeful.dispatcher", "        if not await self._zones.step():\n            return 0.0\n", ""
    ),
    "an older process plans by its own rules": Source(
        "wakeful.dispatcher.upkeep",
        "if current.version != (rules_in_force()[0] or self._machine):",
        "if False:",
    ),
    "nobody waits until all have heard of the new rules": Source(
        "wakeful.dispatcher.upkeep",
        "round.begun >= round.edition.since + self._spreads_within",
        "True",
    ),
    "an alarm claimed again keeps the fire of before": Source(
        "wakeful.dispatcher.flights", "        self.fire = again.fire\n", ""
    ),
    "after a clock step a wake is early by what a claim takes": Source(
        "wakeful.dispatcher.store_clock",
        "return offset if least <= offset <= most else least",
        "return min(max(offset, least), most)",
    ),
    "the answer of the attempt before counts for the retry": Source(
        "wakeful.dispatcher.flights", "return again.fire.delivered_at not in (None, self.arrived)", "return False"
    ),
    "a retry that waits for the attempt before loses its lease": Source(
        "wakeful.dispatcher.upkeep", "[flight.again or flight for flight", "[flight for flight"
    ),
    "a report is overwritten by the flight of before": Several(
        (
            Source("wakeful.dispatcher.flights", "        self.fire = again.fire\n", ""),
            Source("wakeful.store.memory.settling", "if is_settlement and any(", "if False and any("),
        )
    ),
    "waits go by the wall clock and have no bound": Several(
        (
            Source("wakeful.dispatcher.delivery", "if rest > LONGEST_EARLY:", "if False:"),
            Source(
                "wakeful.dispatcher.store_clock",
                "return (moment - self._passed() - self._offset).total_seconds()",
                "return (moment - self._clock.now() - self._of_ours).total_seconds()",
            ),
        )
    ),
    "suspects are tried one a tick": Several(
        (
            Source(
                "wakeful.dispatcher.delivery",
                "        if flight.alarm.is_suspect and self._suspects.survived():\n",
                "        if False:\n",
            ),
            Source(
                "wakeful.store.memory.claiming",
                "in_group = suspect is not None and suspect.unsettled == 1",
                "in_group = False",
            ),
        )
    ),
    "what is refused again and again is settled without a pause": Source(
        "wakeful.dispatcher.settler", "if flight.decided_again == 1:", "if True:"
    ),
    "a claim ends with the settlement before it": Source(
        "wakeful.dispatcher.delivery", "if held.finished or held", "if held"
    ),
    "a handler's exception is not logged": Source(
        "wakeful.targets.handler", "            self._log_failure(wake)\n            return", "            return"
    ),
    "a program's SIGTERM is not handled": Source(
        "wakeful.python.client", "with ending_run() if signals", "with ending_run() if False"
    ),
    "run takes the place of a program's own signal handler": Source(
        "wakeful.runtime.os_signals", "if in_main and signal.getsignal(one) is usual]", "if in_main]"
    ),
    "a run that stays when its clock is closed": Source(
        "wakeful.python.client", "            run.cancel()  #", "            return  #"
    ),
    "an inbox that is served later is forgotten": Source(
        "wakeful.remote.serving", "        if self._group is not None:\n", "        if False:\n"
    ),
    "a plain script registers beside its loop": Source(
        "wakeful.python.sync", "            return self._result(on_its_loop())", "            return decorate(function)"
    ),
    "a forked child registers handlers with what its parent opened": Source(
        "wakeful.python.sync", "            if self._process.is_forked:\n                self._process.check()\n", ""
    ),
    "a wait for what was claimed early has no bound": Source(
        "wakeful.dispatcher.delivery", "if rest > LONGEST_EARLY:", "if False:"
    ),
    "the loop sleeps by the wall clock": Source(
        "wakeful.dispatcher.store_clock",
        "return (moment - self._passed() - self._offset).total_seconds()",
        "return (moment - self._clock.now() - self._of_ours).total_seconds()",
    ),
    "a loop that has stopped running is healthy": Source("wakeful.http.health", "and pulse.stuck:", "and False:"),
    "a watchdog hears of a process whose loop has stopped": Source(
        "wakeful.process.server", "return pulse is None or not pulse.stuck", "return True"
    ),
    "a step of the worker's own clock is not told": Source(
        "wakeful.dispatcher.store_clock", "elif abs(ours) > JUMP:", "elif False:"
    ),
    "fires of a rule that is due are counted in the event loop": Source(
        "wakeful.dispatcher.delivery", "                await self._work_out(flight.alarm)\n", "                pass\n"
    ),
    "a rule of several parts is worked out in the event loop": Source(
        "wakeful.schedule.expression", ' or text.count("FREQ=") > 1', ""
    ),
    "fires of a rule without a report are counted in the event loop": Source(
        "wakeful.dispatcher.upkeep", "await _computed(decided, (alarm for alarm, _ in overdue))", "decided()"
    ),
    "fires of a rule in another zone are counted in the event loop": Source(
        "wakeful.dispatcher.upkeep", "await _computed(decided, found)", "decided()"
    ),
    "of a program's group only the program is ended": Source(
        "wakeful.runtime.child", "        os.killpg(group, number)\n", "        os.kill(group, number)\n"
    ),
    "a program that ignores SIGTERM goes on": Source(
        "wakeful.runtime.child",
        "    if _is_there(process):\n        _signal(group, signal.SIGKILL)\n",
        "",
    ),
    "a program gets all of wakeful's environment": Source(
        "wakeful.targets.command",
        "for name in names if name.encode() in os.environb}",
        "for name in os.environ}",
    ),
    "a final exit status is tried again": Source(
        "wakeful.targets.command", "retryable=not (by_itself and ended.status in final_codes)", "retryable=True"
    ),
    "the next suspect waits for a tick": Source(
        "wakeful.dispatcher.delivery",
        "        if flight.alarm.is_suspect and self._suspects.survived():\n",
        "        if False:\n",
    ),
    "a wake whose worker died is charged again": Source(
        "wakeful.rules.budget",
        "    if any(mark in known and known[mark].wakes for mark in charge.marks):",
        "    if False:",
    ),
    "what was counted is forgotten at midnight": Source(
        "wakeful.rules.budget", '(self.at, self.at - _LENGTHS["day"]) if self.again', "(self.at,) if self.again"
    ),
    "the next group does not wait for the last one": Source(
        "wakeful.dispatcher.claiming", "        return not self._on_trial\n", "        return True\n"
    ),
    "the slow one is blamed for the next": Source(
        "wakeful.dispatcher.guards",
        "context.store.settle([put_on_trial(flight.alarm), *cleared])",
        "context.store.settle([put_on_trial(flight.alarm)])",
    ),
    "who kills beside a group is never blamed": Source(
        "wakeful.dispatcher.guards", "elif deaths(flight.alarm):", "elif False:"
    ),
    "a suspect beside a group counts as alone": Source(
        "wakeful.dispatcher.guards", "and context.suspects.may_be_blamed(others):", "and True:"
    ),
}
