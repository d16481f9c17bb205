"""Faults in decisions: `alarm/` and the times of `schedule/`."""

from __future__ import annotations

from typing import Final

from .fault import Fault, Source

IN_DECISIONS: Final[dict[str, Fault]] = {
    "an edit changes the kind unasked": Source(
        "wakeful.alarm.edit", "if timing.kind == alarm.kind or said.kind or not said.when:", "if True:"
    ),
    "an edited policy drops what it does not name": Source(
        "wakeful.alarm.edit", "after = replace(policy, **said)", "after = replace(Policy(), **said)"
    ),
    "an attempt nobody came back from is not the first": Source(
        "wakeful.alarm.first_try", "if alarm.unsettled > 1 or alarm.failure_count", "if alarm.failure_count"
    ),
    "a run that was passed over is not on record": Source(
        "wakeful.alarm.first_try", " or (upcoming is not None and upcoming <= ended):", ":"
    ),
    "cancel that does not raise the claim": Source(
        "wakeful.alarm.edit",
        "        alarm,\n        claim=alarm.claim + 1,\n        version",
        "        alarm,\n        version",
    ),
    "what is being delivered is skipped": Source("wakeful.alarm.edit", "if alarm.is_leased(now, lease) or (", "if ("),
    "a report that counts twice": Source(
        "wakeful.alarm.report",
        "    if fire.status not in _OPEN or fire.completed_at is not None:",
        "    if fire.status not in _OPEN:",
    ),
    "a task's row is not asked when it is said": Source(
        "wakeful.alarm.task", "    if change.after.created_via != TASKS or change.edited:", "    if True:"
    ),
    "a suspect's delivery is not counted": Source(
        "wakeful.alarm.suspect", "unsettled=alarm.unsettled + 1", "unsettled=alarm.unsettled"
    ),
    "put back past the next instant": Source(
        "wakeful.alarm.plan", "        at = min(at, upcoming - _MS)\n", "        pass\n"
    ),
    "a task may name any chat": Source("wakeful.alarm.task", "self.users.check_chat(owner, chat, via=TASKS)", "pass"),
    "no poison rule": Source("wakeful.alarm.settle", "if is_poison(alarm):", "if False:"),
    "a retry that may delay the series": Source(
        "wakeful.alarm.settle", "if upcoming is not None and at >= upcoming", "if False"
    ),
    "a gate that fails stays shut": Source(
        "wakeful.alarm.checks",
        'return look.found == "unchanged" and',
        'return look.found in ("unchanged", "failed") and',
    ),
    "the first look wakes nobody": Source(
        "wakeful.alarm.checks", '"first" if known is None else', '"unchanged" if known is None else'
    ),
    "a retry is kept back": Source("wakeful.alarm.checks", " and not is_retry and", " and"),
    "what a signal asked for is kept back": Source("wakeful.alarm.checks", " and not is_asked_for", ""),
    "a wake that failed has told of it": Source(
        "wakeful.alarm.checks", "if not isinstance(outcome, Completed | Delivered | Waiting):", "if False:"
    ),
    "any check may be named": Source("wakeful.alarm.checks", "if name not in known:", "if False:"),
    "a signal that cancels is fired": Source(
        "wakeful.alarm.signalling", "if alarm.policy.unless == signal.name:", "if False:"
    ),
    "a paused alarm hears": Source("wakeful.alarm.signalling", 'if alarm.status != "active":', "if False:"),
    "what is on its way is fired again": Source("wakeful.alarm.signalling", " or alarm.claimed_at is not None:", ":"),
    "a signal starts the retries anew": Source(
        "wakeful.alarm.signalling", "        unsettled=0,\n", "        unsettled=0,\n        failure_count=0,\n"
    ),
    "a signal is a wake that was already": Source(
        "wakeful.alarm.signalling", "at == alarm.last_fired_at or at in fired_at", "at in fired_at"
    ),
    "after a clock was set back a signal is an old wake": Source("wakeful.alarm.signalling", " or at in fired_at", ""),
    "what was skipped comes after a signal": Source(
        "wakeful.alarm.plan", "return max(moment, heard.resumes_at - _TICK)", "return moment"
    ),
    "holidays are not kept": Source(
        "wakeful.alarm.settle", "name = holiday_at(alarm, alarm.occurrence_at)", 'name = ""'
    ),
    "a holiday skips the days after it": Source(
        "wakeful.alarm.settle", "min(now, end_of_day(alarm, alarm.occurrence_at))", "now"
    ),
    "a snooze is skipped on a holiday": Source(
        "wakeful.alarm.settle", "if said_schedule(alarm).after(before) != alarm.occurrence_at:", "if False:"
    ),
    "nobody hears that holidays are not known": Source(
        "wakeful.alarm.settle", "events=(*change.events, *unknown)", "events=change.events"
    ),
    "a calendar that cannot be read silences": Source(
        "wakeful.alarm.holidays",
        'if days is None or days.problem:\n        return ""',
        'if days is None:\n        return ""',
    ),
    "what fired on a holiday comes again": Source(
        "wakeful.schedule.days_off", "if found != self._fired or moment < self._fired:", "if True:"
    ),
    "a day gets the fires of two": Source(
        "wakeful.schedule.days_off", "if to is None or self._has(to):", "if to is None:"
    ),
    "an agent outside of chains has no budget": Source(
        "wakeful.alarm.budget", 'return alarm.kind != "once" or alarm.created_via != _BY_AGENTS', "return True"
    ),
    "one wake more than the budget": Source(
        "wakeful.alarm.budget", "by_wakes = 0 < self.wakes <= used.wakes", "by_wakes = 0 < self.wakes < used.wakes"
    ),
    "a cost has no limit": Source(
        "wakeful.alarm.budget", "return by_wakes or 0 < self.cost * MILLIONTHS <= used.cost", "return by_wakes"
    ),
    "a chain has no budget": Source(
        "wakeful.alarm.budget", "return alarm.generation > 0 and bool(alarm.root_id)", "return False"
    ),
    "a snooze is a new wake": Source(
        "wakeful.alarm.budget", "and alarm.occurrence_at - alarm.fire_at >= _MS", "and False"
    ),
    "a snooze of a series is a new wake": Source(
        "wakeful.alarm.budget", "return following(alarm, alarm.occurrence_at - _MS) != alarm.occurrence_at", "pass"
    ),
    "a wake that arrived may be had again": Source(
        "wakeful.alarm.budget", "fire.scheduled_for == alarm.occurrence_at:", "False:"
    ),
    "an owner raises the operator's limit": Source(
        "wakeful.alarm.budget",
        "hour = _least(policy.wakes_per_hour, limits.alarm_wakes_per_hour)",
        "hour = policy.wakes_per_hour or 0",
    ),
    "a limit holds for every owner but one with its own": Source(
        "wakeful.alarm.budget", "limits = self._owners.get(alarm.owner_did)", "limits = None"
    ),
    "what does not arrive is paid for again": Source(
        "wakeful.alarm.budget", "if is_paid_for(alarm, fire):", "if False:"
    ),
    "what waits for its budget does not say so": Source(
        "wakeful.alarm.budget", "events=(event,), fires=() if", "events=(), fires=() if"
    ),
    "an owner is told of every wake": Source("wakeful.alarm.budget", "first=not count.told", "first=True"),
    "an owner is not told": Source("wakeful.alarm.budget", "if refusal.first:", "if False:"),
    "a skip for the budget does not say so": Source(
        "wakeful.alarm.budget", 'change = skip(alarm, "budget", now=now)', 'change = skip(alarm, "missed", now=now)'
    ),
    "whatever ends with an hour waits for a budget": Source(
        "wakeful.alarm.budget_use",
        "if count.ends_at == alarm.next_fire_at and allowance.is_used_up(count):",
        "if count.ends_at == alarm.next_fire_at:",
    ),
    "what would be too late waits": Source("wakeful.alarm.budget", " or is_too_late(alarm, refusal.until)", ""),
    "anyone makes the token of a wake": Source(
        "wakeful.alarm.wake_token",
        "return hmac.compare_digest(token.encode(), wake_token(secret, fire_id).encode())",
        "return True",
    ),
    "the token of a wake is good for ever": Source(
        "wakeful.alarm.wake_token", "if now < _handed_out_at(fire) + lasts else", "if True else"
    ),
    "the token of a wake outlives its alarm": Source(
        "wakeful.alarm.wake_token", 'if alarm.status == "cancelled":', "if False:"
    ),
    "a series that a wake sets ends when it likes": Source(
        "wakeful.alarm.lineage",
        "if policy.ends_at is not None and policy.ends_at <= end:",
        "if policy.ends_at is not None:",
    ),
    "a report moves an end that its owner named": Source(
        "wakeful.alarm.edit",
        "return after if after.ends_at == policy.ends_at else replace(after, renew_for=None)",
        "return after",
    ),
    "a series ends unannounced": Source(
        "wakeful.alarm.settle", "events = announced(before, after) if", "events = () if"
    ),
    "a renewed series stays at its end": Source(
        "wakeful.alarm.lineage", 'if alarm.status == "fired" else after', "if False else after"
    ),
    "an agent's words are its owner's": Source(
        "wakeful.alarm.lineage", "if alarm.parent_fire or alarm.generation > 0:", "if False:"
    ),
    "what is under way fires again by the new rules": Source(
        "wakeful.alarm.plan", "if changed_at is not None and alarm.occurrence_at <= changed_at:", "if False:"
    ),
    "what has fired fires again by the new rules": Source(
        "wakeful.alarm.rezone", "(since < changed_at or former == alarm.occurrence_at != current)", "False"
    ),
    "two occurrences under one id": Source(
        "wakeful.alarm.rezone", "        if occurrence <= self.alarm.updated_at:\n", "        if False:\n"
    ),
    "the next occurrence comes from now": Source(
        "wakeful.alarm.settle",
        "        return max(self.now, self.alarm.next_fire_at)",
        "        return self.now",
    ),
}
