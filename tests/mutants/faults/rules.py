"""Faults in decisions: `rules/` and the times of `schedule/`."""

from __future__ import annotations

from typing import Final

from .fault import Fault, Source

IN_DECISIONS: Final[dict[str, Fault]] = {
    "an exact ladder is spread": Source("wakeful.rules.settle", "wait if policy.exact_backoff else spread", "spread"),
    "an edit changes the kind unasked": Source(
        "wakeful.rules.edit", "if timing.kind == alarm.kind or said.kind or not said.when:", "if True:"
    ),
    "an edited policy drops what it does not name": Source(
        "wakeful.rules.edit", "after = replace(policy, **said)", "after = replace(Policy(), **said)"
    ),
    "an attempt nobody came back from is not the first": Source(
        "wakeful.rules.settle", "if alarm.unsettled > 1 or alarm.failure_count", "if alarm.failure_count"
    ),
    "a run that was passed over is not on record": Source(
        "wakeful.rules.settle", " or (upcoming is not None and upcoming <= ended):", ":"
    ),
    "cancel that does not raise the claim": Source(
        "wakeful.rules.edit",
        "        alarm,\n        claim=alarm.claim + 1,\n        version",
        "        alarm,\n        version",
    ),
    "what is being delivered is skipped": Source("wakeful.rules.edit", "if alarm.is_leased(now, lease) or (", "if ("),
    "a failure reported after silence ends as silence": Source(
        "wakeful.rules.report", 'reason = "" if is_silent(fire) else fire.reason', "reason = fire.reason"
    ),
    "a failure reported during a further try counts as that of before": Source(
        "wakeful.rules.settle", "delivered_at=now,  # who", "delivered_at=fire.delivered_at or now,  # who"
    ),
    "a report that counts twice": Source(
        "wakeful.rules.report",
        "    if fire.status not in _OPEN or fire.completed_at is not None:",
        "    if fire.status not in _OPEN:",
    ),
    "a task's row is not asked when it is said": Source(
        "wakeful.rules.task", "    if change.after.created_via != TASKS or change.edited:", "    if True:"
    ),
    "a task's status is read in any letters": Source(
        "wakeful.rules.task", 'news.alarm, task.status or ""', 'news.alarm, (task.status or "").strip().lower()'
    ),
    "a group that is released counts as dead": Source(
        "wakeful.rules.suspect", "max(0, alarm.unsettled - 1)", "alarm.unsettled if alarm.is_suspect else 0"
    ),
    "a death in a group counts against its members": Source(
        "wakeful.rules.suspect", "alarm.unsettled - ALONE)", "alarm.unsettled - SUSPECT)"
    ),
    "a suspect's delivery is not counted": Source(
        "wakeful.rules.suspect", "unsettled=alarm.unsettled + 1", "unsettled=alarm.unsettled"
    ),
    "put back past the next instant": Source(
        "wakeful.rules.plan", "        at = min(at, upcoming - _MS)\n", "        pass\n"
    ),
    "a task may name any chat": Source("wakeful.rules.task", "self.users.check_chat(owner, chat, via=TASKS)", "pass"),
    "a late answer replaces a failure that was reported": Source(
        "wakeful.rules.settle", "if is_open and _is_news(known, arrived):", "if is_open:"
    ),
    "a failure that is reported after its alarm was moved is not kept": Source(
        "wakeful.rules.report", 'if said.outcome == "failed" and may_still_arrive(fire):', "if False:"
    ),
    "what passed before the retry of a last fire is not on record": Source(
        "wakeful.rules.plan", "        alarm, alarm.occurrence_at, fired=1\n", "        alarm, alarm.occurrence_at\n"
    ),
    "no poison rule": Source("wakeful.rules.settle", "if is_poison(alarm):", "if False:"),
    "a retry that may delay the series": Source(
        "wakeful.rules.settle", "if upcoming is not None and at >= upcoming", "if False"
    ),
    "a gate that fails stays shut": Source(
        "wakeful.rules.checks",
        'return look.found == "unchanged" and',
        'return look.found in ("unchanged", "failed") and',
    ),
    "the first look wakes nobody": Source(
        "wakeful.rules.checks", '"first" if known is None else', '"unchanged" if known is None else'
    ),
    "a retry is kept back": Source("wakeful.rules.checks", " and not is_retry and", " and"),
    "what a signal asked for is kept back": Source("wakeful.rules.checks", " and not is_asked_for", ""),
    "a wake that failed has told of it": Source(
        "wakeful.rules.checks", "if not isinstance(outcome, Completed | Delivered | Waiting):", "if False:"
    ),
    "any check may be named": Source("wakeful.rules.checks", "if name not in known:", "if False:"),
    "a signal that cancels is fired": Source(
        "wakeful.rules.signalling", "if alarm.policy.unless == signal.name:", "if False:"
    ),
    "a signal ends a series": Source(
        "wakeful.rules.signalling", 'alarm.kind == "once" and not _is_too_early', "not _is_too_early"
    ),
    "a signal that comes twice skips two fires": Source(
        "wakeful.rules.signalling", "if (skipped := _skipped_before(alarm, now)) is not None:", "if skipped := None:"
    ),
    "a snoozed fire is not the next one": Source(
        "wakeful.rules.signalling", "return upcoming if is_of_its_schedule else None", "return upcoming"
    ),
    "a signal counts however early it comes": Source(
        "wakeful.rules.signalling", "return since is not None and", "return False and"
    ),
    "a signal skips what has arrived": Source(
        "wakeful.rules.signalling",
        'if fire is not None and fire.status not in ("retrying", *STEPPED_OVER):',
        "if False:",
    ),
    "a heartbeat leaves what is under way to its worker": Source(
        "wakeful.rules.signalling",
        "after = at_occurrence(taken_back(alarm, now), done.at)",
        "after = at_occurrence(alarm, done.at)",
    ),
    "what a heartbeat overtook is not on record": Source(
        "wakeful.rules.signalling", ", *left_behind(alarm, fire, SIGNALLED, now))", ")"
    ),
    "what arrived in spite of a signal is not on record": Source(
        "wakeful.rules.settle", '"requested", "signalled"})', '"requested"})'
    ),
    "a series may have rearm": Source("wakeful.rules.create", "    check_rearm(alarm)\n", ""),
    "an edit may give a series rearm": Source("wakeful.rules.edit", "    check_rearm(after)\n", ""),
    "an edit may make a heartbeat a series": Source(
        "wakeful.rules.edit", "        check_rearm(change.after)  # it may have become a series\n", ""
    ),
    "a paused alarm hears": Source("wakeful.rules.signalling", 'if alarm.status != "active":', "if False:"),
    "what is on its way is fired again": Source(
        "wakeful.rules.signalling", 'case "fired" if alarm.claimed_at is None:', 'case "fired":'
    ),
    "a signal starts the retries anew": Source(
        "wakeful.rules.signalling", "        unsettled=0,\n", "        unsettled=0,\n        failure_count=0,\n"
    ),
    "a signal is a wake that was already": Source(
        "wakeful.rules.signalling", "at == alarm.last_fired_at or at in fired_at", "at in fired_at"
    ),
    "after a clock was set back a signal is an old wake": Source("wakeful.rules.signalling", " or at in fired_at", ""),
    "what was skipped comes after a signal": Source(
        "wakeful.rules.plan", "return max(moment, heard.resumes_at - _TICK)", "return moment"
    ),
    "holidays are not kept": Source(
        "wakeful.rules.settle", "name = holiday_at(alarm, alarm.occurrence_at)", 'name = ""'
    ),
    "a holiday skips the days after it": Source(
        "wakeful.rules.settle", "min(now, end_of_day(alarm, alarm.occurrence_at))", "now"
    ),
    "a snooze is skipped on a holiday": Source(
        "wakeful.rules.settle", "if said_schedule(alarm).after(before) != alarm.occurrence_at:", "if False:"
    ),
    "nobody hears that holidays are not known": Source(
        "wakeful.rules.settle", "events=(*change.events, *unknown)", "events=change.events"
    ),
    "a calendar that cannot be read silences": Source(
        "wakeful.rules.plan",
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
        "wakeful.rules.budget", 'return alarm.kind != "once" or alarm.created_via != _BY_AGENTS', "return True"
    ),
    "one wake more than the budget": Source(
        "wakeful.rules.budget", "by_wakes = 0 < self.wakes <= used.wakes", "by_wakes = 0 < self.wakes < used.wakes"
    ),
    "a cost has no limit": Source(
        "wakeful.rules.budget", "return by_wakes or 0 < self.cost * MILLIONTHS <= used.cost", "return by_wakes"
    ),
    "a chain has no budget": Source(
        "wakeful.rules.budget", "return alarm.generation > 0 and bool(alarm.root_id)", "return False"
    ),
    "a snooze is a new wake": Source(
        "wakeful.rules.budget", "and alarm.occurrence_at - alarm.fire_at >= _MS", "and False"
    ),
    "a snooze of a series is a new wake": Source(
        "wakeful.rules.budget", "return following(alarm, alarm.occurrence_at - _MS) != alarm.occurrence_at", "pass"
    ),
    "a wake that arrived may be had again": Source(
        "wakeful.rules.budget", "fire.scheduled_for == alarm.occurrence_at:", "False:"
    ),
    "an owner raises the operator's limit": Source(
        "wakeful.rules.budget",
        "hour = _least(policy.wakes_per_hour, limits.alarm_wakes_per_hour)",
        "hour = policy.wakes_per_hour or 0",
    ),
    "a limit holds for every owner but one with its own": Source(
        "wakeful.rules.budget", "limits = self._owners.get(alarm.owner_did)", "limits = None"
    ),
    "what does not arrive is paid for again": Source(
        "wakeful.rules.budget", "if is_paid_for(alarm, fire):", "if False:"
    ),
    "what waits for its budget does not say so": Source(
        "wakeful.rules.budget", "events=(event,), fires=() if", "events=(), fires=() if"
    ),
    "an owner is told of every wake": Source("wakeful.rules.budget", "first=not count.told", "first=True"),
    "an owner is not told": Source("wakeful.rules.budget", "if refusal.first:", "if False:"),
    "a skip for the budget does not say so": Source(
        "wakeful.rules.budget", 'change = skip(alarm, "budget", now=now)', 'change = skip(alarm, "missed", now=now)'
    ),
    "whatever ends with an hour waits for a budget": Source(
        "wakeful.rules.budget",
        "if count.ends_at == alarm.next_fire_at and allowance.is_used_up(count):",
        "if count.ends_at == alarm.next_fire_at:",
    ),
    "what would be too late waits": Source("wakeful.rules.budget", " or is_too_late(alarm, refusal.until)", ""),
    "anyone makes the token of a wake": Source(
        "wakeful.rules.wake",
        "return hmac.compare_digest(token.encode(), wake_token(secret, fire_id).encode())",
        "return True",
    ),
    "the token of a wake is good for ever": Source(
        "wakeful.rules.wake", "if now < _handed_out_at(fire) + lasts else", "if True else"
    ),
    "the token of a wake outlives its alarm": Source(
        "wakeful.rules.wake", 'if alarm.status == "cancelled":', "if False:"
    ),
    "a series that a wake sets ends when it likes": Source(
        "wakeful.rules.lineage",
        "if policy.ends_at is not None and policy.ends_at <= end:",
        "if policy.ends_at is not None:",
    ),
    "a report moves an end that its owner named": Source(
        "wakeful.rules.edit",
        "return after if after.ends_at == policy.ends_at else replace(after, renew_for=None)",
        "return after",
    ),
    "a series ends unannounced": Source(
        "wakeful.rules.settle", "events = announced(before, after) if", "events = () if"
    ),
    "a renewed series stays at its end": Source(
        "wakeful.rules.lineage", 'if alarm.status == "fired" else after', "if False else after"
    ),
    "an agent's words are its owner's": Source(
        "wakeful.rules.lineage", "if alarm.parent_fire or alarm.generation > 0:", "if False:"
    ),
    "what is under way fires again by the new rules": Source(
        "wakeful.rules.plan", "if changed_at is not None and alarm.occurrence_at <= changed_at:", "if False:"
    ),
    "what has fired fires again by the new rules": Source(
        "wakeful.rules.rezone", "(since < changed_at or former == alarm.occurrence_at != current)", "False"
    ),
    "two occurrences under one id": Source(
        "wakeful.rules.rezone", "        if occurrence <= self.alarm.updated_at:\n", "        if False:\n"
    ),
    "the next occurrence comes from now": Source(
        "wakeful.rules.settle",
        "        return max(self.now, self.alarm.next_fire_at)",
        "        return self.now",
    ),
    "setting an alarm aside replaces what a report has said": Source(
        "wakeful.rules.passing", "fires=() if is_reported else (kept,)", "fires=(kept,)"
    ),
    "a window over midnight ends in the afternoon": Source(
        "wakeful.schedule.recurring_parts",
        "        return [(begin, end)] if _fits_24_hours(sure, unsure) else",
        "        return [(begin, begin + _ahead(begin, end))] if _fits_24_hours(sure, unsure) else",
    ),
    "one of two windows is guessed": Source(
        "wakeful.schedule.recurring_parts",
        "begins = (begin + _NOON,) if begin < end < _NOON else (begin, begin + _NOON)",
        "begins = (begin + _NOON,)",
    ),
    "what programs write is an afternoon": Source(
        "wakeful.schedule.times_of_day",
        "says_half = clock.half or clock.certain or clock.exact or part is not None",
        "says_half = clock.half or clock.certain or part is not None",
    ),
    "a date in numbers says nothing of its clock": Source(
        "wakeful.schedule.times_of_day",
        'if ":" not in clock or not _NUMERIC_DATE.fullmatch(day):',
        "if True:",
    ),
    "1800 hours is a length of time": Source(
        "wakeful.schedule.times_of_day",
        "_BEFORE_OFFSETS = ((_PAST, _past), (_FOUR_DIGITS, _four_digits))",
        "_BEFORE_OFFSETS = ((_PAST, _past),)",
    ),
    "an afternoon is assumed without a word": Source(
        "wakeful.service.notes",
        "[*(read.assumed if read else ()), *told]",
        "[*told]",
    ),
    "the day beside an end of day is lost": Source(
        "wakeful.schedule.suggestions",
        'return "" if _NAMES_DAY.search(rest) else "today"',
        'return "today"',
    ),
    "a suggestion loses what stands around it": Source(
        "wakeful.schedule.suggestions",
        "before, after = text[: self.start], text[self.end :]",
        'before, after = "", text[self.end :]',
    ),
    "a suggestion fires once for several times": Source(
        "wakeful.schedule.recurring", "if parts.times_per_unit > 1:", "if False:"
    ),
    "a suggestion loses its zone": Source(
        "wakeful.schedule.phrases",
        "    if not named:\n        return suggestion",
        "    if True:\n        return suggestion",
    ),
    "a suggestion loses its end": Source(
        "wakeful.schedule.recurring",
        "if parts.bounds != WallBounds():",
        "if False:",
    ),
    "one of two readings is suggested": Source(
        "wakeful.schedule.suggestions",
        "if working == found or not swap.all_or_none:",
        "if True:",
    ),
    "a suggestion fires on holidays": Source(
        "wakeful.schedule.phrases", '{f"{one} {EXCEPT_HOLIDAYS}": understood for', "{one: understood for"
    ),
    "one of two rhythms is suggested": Source(
        "wakeful.schedule.phrases", "if refused.all_or_none and len(candidates) < len(refused.instead):", "if False:"
    ),
    "one of several moments is suggested": Source(
        "wakeful.schedule.suggestions", "elif _SEVERAL.search(text):", "elif False:"
    ),
    "hours in other words are one night": Source(
        "wakeful.schedule.recurring", "if hours is None or hours.end is None:", "if True:"
    ),
    "a bound in UTC is an afternoon": Source(
        "wakeful.schedule.recurring_bounds", "read[0]._replace(exact=True) if exact else read[0]", "read[0]"
    ),
    "a window in UTC is an afternoon": Source(
        "wakeful.schedule.recurring_parts", "if exact and _is_open(first) and _is_open(last):", "if False:"
    ),
    "half an hour is a time of day": Source(
        "wakeful.schedule.times_of_day", "(not is_padded and", "(not _is_24h(found[2]) and"
    ),
    "a silent receiver is not woken again": Source(
        "wakeful.rules.report", 'if alarm.policy.on_silence != "again":', "if True:"
    ),
    "alarms stored before on_silence are woken again": Source(
        "wakeful.rules.report", 'if alarm.policy.on_silence != "again":', 'if alarm.policy.on_silence == "give_up":'
    ),
    "alarms that come from Alarm are woken again": Source(
        "wakeful.seeds.alarm_file", 'on_silence="give_up",', 'on_silence="again",'
    ),
    "silence goes back to an older fire": Source(
        "wakeful.rules.report", "    return after is None or now < after\n", "    return True\n"
    ),
    "a further try after silence is charged again": Source("wakeful.rules.budget", " or fire.reason == UNREPORTED", ""),
    "silence ends as a failed delivery": Source(
        "wakeful.rules.settle",
        "    return _timed_out(change) if end.fire.reason == UNREPORTED else change\n",
        "    return change\n",
    ),
    "a word of a silent receiver does not end the wait": Source(
        "wakeful.rules.report", "    if not is_silent(fire) or not is_planned:\n", "    if True:\n"
    ),
    "a fast series seems to end on a holiday": Source(
        "wakeful.rules.plan", "max(moment, end_of_day(alarm, occurrence))", "moment"
    ),
    "a change is taken back over a later one": Source(
        "wakeful.rules.undo", "    if since:\n        raise", "    if False:\n        raise"
    ),
    "a change is taken back days later": Source("wakeful.rules.undo", "if now - event.at > UNDO_WITHIN:", "if False:"),
    "a one-shot comes back in the past": Source(
        "wakeful.rules.undo",
        "is_ahead = alarm.next_fire_at > now and",
        "is_ahead = alarm.next_fire_at != now and",
    ),
    "a skipped fire comes back when it is over": Source(
        "wakeful.rules.undo",
        "is_over = former.was_tried or former.next_fire_at <= now or _has_gone_on(alarm, former)",
        "is_over = False",
    ),
    "former values of any length are kept": Source("wakeful.rules.undo", "if len(text) > FORMER_LIMIT:", "if False:"),
    "a cancelled alarm comes back beyond the limit": Source(
        "wakeful.service.limits", "        await self._check_quota(owner, 1, 0, now)", "        pass"
    ),
}
