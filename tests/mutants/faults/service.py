"""Faults in the verbs and what they ask: `service/`."""

from __future__ import annotations

from typing import Final

from .fault import Fault, Source

IN_VERBS: Final[dict[str, Fault]] = {
    "with a router new alarms go to an inbox": Source(
        "wakeful.settings", 'ROUTER if self.wake_url else "inbox"', '"inbox"'
    ),
    "rows in SQL stay with the inbox": Source(
        "wakeful.process.server", "    if not name:\n        return\n", "    return\n"
    ),
    "calendar links outlive the token that made them": Source(
        "wakeful.service.tokens",
        "            await self._store.access.update_token(link, revoked_at=now)\n",
        "            pass\n",
    ),
    "a revoked token makes calendar links": Source(
        "wakeful.service.tokens", "maker is not None and maker.revoked_at is not None", "False"
    ),
    "a bare day is at nine whatever is set": Source(
        "wakeful.settings.values", "        bare_day=settings.bare_day,\n", ""
    ),
    "a second result is dropped without a word": Source(
        "wakeful.rules.report", "or not result or result == fire.result", "or True"
    ),
    "nobody knows who fetched a wake": Source("wakeful.service.inbox", "if not session.caller.token_id:", "if True:"),
    "a limit leaves somebody out": Source(
        "wakeful.service.bulk",
        "place(rows[acted.reached - 1]) if acted.reached",
        "place(rows[acted.done - 1]) if acted.done",
    ),
    "many are set over a key that is taken": Source(
        "wakeful.service.create", "return bool(one.alarm.idempotency_key) and (", "return False and ("
    ),
    "owners hear what a target said to others": Source(
        "wakeful.service.why", "if state is not None and not operator:", "if False:"
    ),
    "events are counted for all owners": Source(
        "wakeful.service.live", "seq=self._counts.next(event.owner)", "seq=number"
    ),
    "another fire is skipped than the one that was meant": Source(
        "wakeful.service.change", "meant = alarm.occurrence_at  # if", "pass  # if"
    ),
    "a target is for everyone": Source(
        "wakeful.service.targets", "may_use(name) if name in configured", "True if name in configured"
    ),
    "nobody looks for fires of a clock that was set back": Source(
        "wakeful.service.signalling", "for fire in await session.service.store.fires(query)", "for fire in ()"
    ),
    "a calendar silences alarms unasked": Source(
        "wakeful.service.holidays",
        "if not said and not policy.calendar and policy.on_holiday is None:",
        "if not said and not own.calendar and policy.on_holiday is None:",
    ),
    "an owner's settings are everyone's": Source(
        "wakeful.service.owner_settings",
        "known = self._known.get(owner)",
        "known = next(iter(self._known.values()), None)",
    ),
    "an owner's settings are read once and for all": Source(
        "wakeful.service.owner_settings",
        "known is not None and self._clock.monotonic() - known.at < GOOD_FOR:",
        "known is not None:",
    ),
    "the history does not say what waits for its budget": Source(
        "wakeful.service.history", '"budget" if alarm.id in deferred else alarm.paused_reason', "alarm.paused_reason"
    ),
    "what waits for its budget counts as missed": Source(
        "wakeful.service.inbox", 'if fire.status == "skipped" and fire.reason', "if fire.reason"
    ),
    "a key whose alarm has ended is a silent success": Source(
        "wakeful.service.notes", "return _ended(alarm, request)", "return []"
    ),
    "a forecast makes the checks of alarms": Source(
        "wakeful.process.forecast", "replace(alarm.policy, only_if=None)", "alarm.policy"
    ),
    "a forecast wakes targets that are paused": Source(
        "wakeful.process.forecast", "served.keys() - closed", "served.keys()"
    ),
    "a forecast's workers are never down": Source(
        "wakeful.process.forecast", "            moment = back\n", "            break\n"
    ),
    "an audit believes reports that are gone": Source(
        "wakeful.service.diagnosis", "fire.status not in _REPORTED:", "fire.status == 'skipped':"
    ),
    "an audit misses an instant": Source("wakeful.service.diagnosis", "        yield instant\n", "        pass\n"),
    "an audit goes by an older schedule": Source(
        "wakeful.service.diagnosis",
        "window.since, window.changed_at or window.since, alarm.created_at",
        "alarm.created_at",
    ),
    "the token of a wake names any parent": Source(
        "wakeful.service.create", "parent_fire=caller.wake.fire_id)", "parent_fire=asked.parent_fire)"
    ),
    "the token of a wake finds every alarm": Source(
        "wakeful.service.caller",
        "return self.wake is None or self.wake.root_id in (alarm.id, alarm.root_id)",
        "return True",
    ),
    "the token of a wake lists every alarm": Source(
        "wakeful.service.read", "        root_id = session.caller.wake.root_id\n", "        pass\n"
    ),
    "the token of a wake lists every fire": Source(
        "wakeful.service.read", " or session.caller.wake is not None:\n        try:", ":\n        try:"
    ),
    "the token of a wake shows every fire": Source(
        "wakeful.service.resolving",
        "        await get_alarm(session, fire.alarm_id)  # found only",
        "        pass  # found only",
    ),
    "the token of a wake cancels what fits": Source(
        "wakeful.service.cancel", '        filters["root_id"] = session.caller.wake.root_id\n', "        pass\n"
    ),
    "the token of a wake cancels what waits in the inbox": Source(
        "wakeful.service.cancel", " and session.caller.reaches(alarm):", ":"
    ),
    "the token of a wake tells of similar alarms": Source(
        "wakeful.service.create",
        "Similar.of(found) if found is not None and session.caller.reaches(found) else None",
        "Similar.of(found) if found is not None else None",
    ),
    "the token of a wake takes any key": Source(
        "wakeful.service.create", "    check_holder(session.caller, known, on_conflict)\n", ""
    ),
    "many take any key with the token of a wake": Source(
        "wakeful.service.create", "        check_holder(caller, known, on_conflict)\n", ""
    ),
    "the token of a wake replaces its owner's alarm": Source(
        "wakeful.service.caller", "(self.wake is None or bool(alarm.parent_fire))", "True"
    ),
    "the token of a wake outlives its chain": Source(
        "wakeful.service.tokens", 'if root is not None and root.status == "cancelled":', "if False:"
    ),
    "the token of a wake outlives its key": Source(
        "wakeful.service.tokens",
        "if retired_at is not None and not reports_under(",
        "if False and not reports_under(",
    ),
    "a series that a wake sets never ends": Source(
        "wakeful.service.create",
        "        if self._caller.wake is not None:\n            alarm = with_end",
        "        if False:\n            alarm = with_end",
    ),
    "a manual fire is an alarm of its own": Source(
        "wakeful.service.read", "return page if is_chain else without_copies(page)", "return page"
    ),
    "a manual fire is not among its alarm's": Source("wakeful.service.read", "if id else page", "if False else page"),
    "a page of fires repeats manual ones": Source(
        "wakeful.service.history", "if page.further is not None:", "if False:"
    ),
    "nobody is told that a fire was manual": Source(
        "wakeful.service.history", "manual=bool(found.manual_of),", "manual=False,"
    ),
    "a cancelled chain goes on": Source(
        "wakeful.service.tokens", "begun_at(alarm, fire) <= cancelled[0][1].at", "False"
    ),
    "a chain is cancelled for all time": Source(
        "wakeful.service.tokens", "begun_at(alarm, fire) <= cancelled[0][1].at", "True"
    ),
    "an alarm is set behind a cancelled chain": Source(
        "wakeful.service.create",
        "    except Unauthorized:\n        for one in made:",
        "    except Unauthorized:\n        for one in ():",
    ),
    "a wake stays with a reader who has gone": Source(
        "wakeful.service.inbox", "for one in await leasing}", "for one in ()}"
    ),
    "a wake stays with a reader who has gone where its alarm was claimed meanwhile": Source(
        "wakeful.service.inbox", "alarms = [alarm for id in moved if", "alarms = [alarm for id in () if"
    ),
    "the key of an ended alarm is answered without a word": Source(
        "wakeful.service.create", "    if created.deduped and created.alarm.finished and", "    if False and"
    ),
    "the rate is counted after the work": Source(
        "wakeful.service.create",
        "        await self._reserve(requests)\n        try:\n            for one",
        "        try:\n            for one",
    ),
    "each of a batch is worked out before it is counted": Source(
        "wakeful.service.create",
        "        await self._reserve([request])\n        try:\n            return await self._build(request, id)\n",
        "        try:\n            built = await self._build(request, id)\n            await self._reserve([request])\n"
        "            return built\n",
    ),
    "a target is looked up after the time is read": Source(
        "wakeful.service.create",
        '        await self._admit_place(wanted.fields["target"], wanted.fields.get("conversation_id", ""))\n',
        "        create(wanted, self._origin, id='x', now=now)\n"
        '        await self._admit_place(wanted.fields["target"], wanted.fields.get("conversation_id", ""))\n',
    ),
    "what is refused uses up the rate": Source(
        "wakeful.service.limits", "        self._uncount(owner, number)\n        if (count", "        if (count"
    ),
    "a rule is searched for thousands of years": Source(
        "wakeful.schedule.phrases", "            if fire.year > last:\n                return\n", ""
    ),
}
