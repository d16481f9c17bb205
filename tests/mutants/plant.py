"""A pytest plugin that plants one fault: `WAKEFUL_TEST_MUTANT=name pytest -p tests.mutants.plant …`.

A fault is a fragment of SQL or of a decision's source, and what stands there instead. A fragment that is not found ends
the run with a status of its own: the code was rewritten, and the fault has to be found again in it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any, Final

from msgspec import Struct

NOT_FOUND: Final = 70
VARIABLE: Final = "WAKEFUL_TEST_MUTANT"


class Sql(Struct, frozen=True):
    """A fragment of one dialect's statements, in each of the named ones that have it."""

    dialect: str
    statements: tuple[str, ...]
    old: str
    new: str = ""


class Source(Struct, frozen=True):
    """A fragment of a module, once."""

    module: str
    old: str
    new: str


Fault = Sql | Source
_SETTLING = ("settle", "settle_edited")
_COMPLETED = ("settle_at_once",)
_CLAIMING = ("claim", "due", "suspect", "in_turn", "claim_in_turn")

FAULTS: Final[dict[str, Fault]] = {
    "a form without its word": Source(
        "wakeful.dashboard.page", "if not hmac.compare_digest(form", "if False and (form"
    ),
    "a form of another site": Source(
        "wakeful.dashboard.page", '"same-origin") not in ("same-origin", "none"):', '"same-origin") == "nowhere":'
    ),
    "a page of another origin": Source(
        "wakeful.http.security.guard", "if origin is not None and _netloc(", "if False and _netloc("
    ),
    "what others write is markup": Source("wakeful.dashboard.words", "else escape(sign)", "else Markup(sign)"),
    "fields are markup": Source("wakeful.dashboard.page", "autoescape=True", "autoescape=False"),
    "everyone has buttons": Source("wakeful.dashboard.page", 'return self._has("write")', "return True"),
    "everyone is an operator": Source("wakeful.dashboard.page", 'return self._has("admin")', "return True"),
    "anyone names an owner": Source(
        "wakeful.dashboard.page", '        self.principal.need("admin")\n        check_text(', "        check_text("
    ),
    "a limit leaves somebody out": Source(
        "wakeful.service.bulk",
        "place(rows[acted.reached - 1]) if acted.reached",
        "place(rows[acted.done - 1]) if acted.done",
    ),
    "an edit changes the kind unasked": Source(
        "wakeful.alarm.edit", "if timing.kind == alarm.kind or said.kind or not said.when:", "if True:"
    ),
    "an edited policy drops what it does not name": Source(
        "wakeful.alarm.edit", "after = replace(policy, **said)", "after = replace(Policy(), **said)"
    ),
    "many are set over a key that is taken": Source(
        "wakeful.service.creating", "return bool(one.alarm.idempotency_key) and (", "return False and ("
    ),
    "the end of the last token opens the server": Source(
        "wakeful.http.security.auth", 'if door == "closed" or (', "if ("
    ),
    "a bad token is nobody's": Source(
        "wakeful.http.security.auth", "if not _is_token(authorization) and await self", "if await self"
    ),
    "a page takes wakes out of the inbox": Source(
        "wakeful.http.routes.fires", "if not call.caller.limited and not header(", "if False and not header("
    ),
    "owners hear what a target said to others": Source(
        "wakeful.service.why", "if state is not None and not operator:", "if False:"
    ),
    "events are counted for all owners": Source(
        "wakeful.service.live", "seq=self._counts.next(event.owner)", "seq=number"
    ),
    "a key everyone can sign for": Source("wakeful.http.did", "if has_small_order(key):", "if False:"),
    "what is signed names no server": Source(
        "wakeful.http.did", '"wakeful-auth:{server}:{did}:{nonce}"', '"wakeful-auth:{did}:{nonce}"'
    ),
    "sqlite: settle without the claim check": Sql("sqlite", _SETTLING, "and alarm.claim = change.held_claim"),
    "sqlite: settle without the version check": Sql("sqlite", _SETTLING, "and alarm.version = change.held_version"),
    "sqlite: claim without the lease check": Sql(
        "sqlite", _CLAIMING, "and (claimed_at is null or claimed_at <= :now - :lease or claimed_at > :now + :lease)"
    ),
    "sqlite: a lease from the future holds": Sql("sqlite", _CLAIMING, " or claimed_at > :now + :lease"),
    "sqlite: all suspects at once": Sql("sqlite", _CLAIMING, "and (unsettled = 0 or rowid = :suspect)"),
    "sqlite: claim without the due check": Sql("sqlite", ("due",), "and next_fire_at <= :due"),
    "sqlite: finished when it is claimed": Sql(
        "sqlite", ("claim",), "set claimed_at", "set status = 'fired', claimed_at"
    ),
    "sqlite: a commit that is not synced": Source(
        "wakeful.store.sqlite.file", 'SYNCHRONOUS: Final = "full"', 'SYNCHRONOUS: Final = "off"'
    ),
    "postgres: settle without the claim check": Sql("postgres", _SETTLING, "and alarm.claim = change.held_claim"),
    "postgres: settle without the version check": Sql("postgres", _SETTLING, "and alarm.version = change.held_version"),
    "postgres: claim without the lease check": Sql(
        "postgres",
        _CLAIMING,
        "claimed_at <= (select now from moment) - $2::interval",
        "claimed_at <= (select now from moment) + $2::interval",
    ),
    "postgres: a lease from the future holds": Sql(
        "postgres", _CLAIMING, "claimed_at > (select now from moment) + $2::interval", "false"
    ),
    "postgres: all suspects at once": Sql(
        "postgres", _CLAIMING, "and (unsettled = 0 or id = (select id from suspect))"
    ),
    "postgres: claim without the due check": Sql(
        "postgres", ("claim", "claim_in_turn"), "and next_fire_at <= (select now from moment) + slot.early"
    ),
    "sqlite: a first attempt settled without the claim check": Sql(
        "sqlite", _COMPLETED, "and alarm.claim = change.held_claim"
    ),
    "sqlite: a first attempt settled without the version check": Sql(
        "sqlite", _COMPLETED, "and alarm.version = change.held_version"
    ),
    "postgres: a first attempt settled without the claim check": Sql(
        "postgres", _COMPLETED, "and alarm.claim = change.held_claim"
    ),
    "postgres: a first attempt settled without the version check": Sql(
        "postgres", _COMPLETED, "and alarm.version = change.held_version"
    ),
    "what is claimed early is delivered early": Source(
        "wakeful.dispatcher", "if alarm.next_fire_at > now:", "if False:"
    ),
    "a worker's own clock makes it early": Source(
        "wakeful.dispatcher",
        "            while (rest := self._store_clock.until(flight.alarm.next_fire_at)) > 0:\n",
        "            if (rest := self._store_clock.until(flight.alarm.next_fire_at)) > 0:\n",
    ),
    "an attempt nobody came back from is not the first": Source(
        "wakeful.alarm.first_try", "if alarm.unsettled > 1 or alarm.failure_count", "if alarm.failure_count"
    ),
    "a run that was passed over is not on record": Source(
        "wakeful.alarm.first_try", " or passed_over(alarm, started=attempt.started, now=ended):", ":"
    ),
    "postgres: claim without skip locked": Sql("postgres", _CLAIMING, "for update skip locked", "for update"),
    "postgres: finished when it is claimed": Sql(
        "postgres", ("claim",), "set claimed_at", "set status = 'fired', claimed_at"
    ),
    "cancel that does not raise the claim": Source(
        "wakeful.alarm.edit",
        "        alarm,\n        claim=alarm.claim + 1,\n        version",
        "        alarm,\n        version",
    ),
    "what is being delivered is skipped": Source("wakeful.alarm.edit", "if alarm.is_leased(now, lease) or (", "if ("),
    "another fire is skipped than the one that was meant": Source(
        "wakeful.service.changes", "meant = alarm.occurrence_at  # if", "pass  # if"
    ),
    "a report that counts twice": Source(
        "wakeful.alarm.report",
        "    if fire.status not in _OPEN or fire.completed_at is not None:",
        "    if fire.status not in _OPEN:",
    ),
    "a task's row is not asked when it is said": Source(
        "wakeful.alarm.task", "    if change.after.created_via != TASKS or change.edited:", "    if True:"
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
    "a suspect's delivery is not counted": Source(
        "wakeful.alarm.suspect", "unsettled=alarm.unsettled + 1", "unsettled=alarm.unsettled"
    ),
    "an answer to one owner counts for all": Source(
        "wakeful.dispatcher.holds", "return alarm.target, alarm.owner_did", 'return alarm.target, ""'
    ),
    "an answer counts against the target": Source(
        "wakeful.dispatcher.flights", "            if failed.answered:\n", "            if False:\n"
    ),
    "put back past the next instant": Source(
        "wakeful.alarm.plan", "        at = min(at, upcoming - _MS)\n", "        pass\n"
    ),
    "a target is for everyone": Source(
        "wakeful.service.targets", "may_use(name) if name in configured", "True if name in configured"
    ),
    "who may use a target is not asked at delivery": Source(
        "wakeful.dispatcher", "now=now, refused=refused)", "now=now)"
    ),
    "a task may name any chat": Source("wakeful.alarm.task", "self.users.check_chat(owner, chat, via=TASKS)", "pass"),
    "no poison rule": Source("wakeful.alarm.settle", "if is_poison(alarm):", "if False:"),
    "a retry that may delay the series": Source(
        "wakeful.alarm.settle", "if upcoming is not None and at >= upcoming", "if False"
    ),
    "a wake is sent without being counted": Source(
        "wakeful.dispatcher", "if met and not await self._is_affordable(flight, met):", "if False:"
    ),
    "what cannot be counted is sent": Source(
        "wakeful.dispatcher",
        "flight.change = release(flight.alarm, now=self._now(), wait=self._settings.tick)",
        "flight.change = None",
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
    "an owner reads what a check was answered": Source(
        "wakeful.targets.http_check", 'f"HTTP {reply.status}" if reply.status else failure.error', "failure.error"
    ),
    "any check may be named": Source("wakeful.alarm.checks", "if name not in known:", "if False:"),
    "what was seen is not kept, sqlite": Source("wakeful.store.sqlite", "self.checks.keep(db, written_too)", "pass"),
    "what was seen is kept by a change that is not ours, sqlite": Source(
        "wakeful.store.sqlite", "self.checks.keep(db, written_too)", "self.checks.keep(db, more)"
    ),
    "what was seen is not kept, postgres": Source("wakeful.store.postgres", "or change.seen is not None", "or False"),
    "a query of a check writes, postgres": Source(
        "wakeful.store.postgres.checks", "connection.transaction(readonly=True)", "connection.transaction()"
    ),
    "nobody looks at checks": Source(
        "wakeful.dispatcher", "if keeps_back(alarm, flight.fire, flight.look):", "if False:"
    ),
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
    "nobody looks for fires of a clock that was set back": Source(
        "wakeful.service.signalling", "for fire in await self.service.store.fires(query)", "for fire in ()"
    ),
    "what was skipped comes after a signal": Source(
        "wakeful.alarm.plan", "return max(moment, heard.resumes_at - _TICK)", "return moment"
    ),
    "everybody hears a signal, sqlite": Sql("sqlite", ("listening",), "owner_did = :owner", "owner_did > ''"),
    "everybody hears a signal, postgres": Sql("postgres", ("listening",), "owner_did = $1", "owner_did > $1"),
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
        "wakeful.service.owner_settings", "known is not None and now - known[0] < GOOD_FOR:", "known is not None:"
    ),
    "an agent outside of chains has no budget": Source(
        "wakeful.alarm.budget", "is_plain and alarm.created_via != _BY_AGENTS", "is_plain"
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
    "the history does not say what waits for its budget": Source(
        "wakeful.service.history", '"budget" if alarm.id in deferred else alarm.paused_reason', "alarm.paused_reason"
    ),
    "whatever ends with an hour waits for a budget": Source(
        "wakeful.alarm.budget_use",
        "if count.ends_at == alarm.next_fire_at and allowance.is_used_up(count):",
        "if count.ends_at == alarm.next_fire_at:",
    ),
    "what waits for its budget counts as missed": Source(
        "wakeful.service.taken_wake", 'if fire.status == "skipped" and fire.reason', "if fire.reason"
    ),
    "a key whose alarm has ended is a silent success": Source(
        "wakeful.service.notes", "return _ended(alarm, asked)", "return []"
    ),
    "what would be too late waits": Source("wakeful.alarm.budget", " or is_too_late(alarm, refusal.until)", ""),
    "postgres: counts are not held": Source(
        "wakeful.store.postgres.budget", "async with connection.transaction():", "for _ in (None,):"
    ),
    "postgres: a cost without its report": Source(
        "wakeful.store.postgres.writes",
        "add_costs(connection, [change for change in changes if change.after.id in applied])",
        "add_costs(connection, changes)",
    ),
    "sqlite: a cost without its report": Source(
        "wakeful.store.sqlite", "self.budget.add_costs(db, written_too)", "self.budget.add_costs(db, more)"
    ),
    "counts are kept for ever": Source(
        "wakeful.dispatcher.upkeep", "        await self._store.budget.forget(now - KEPT)\n", ""
    ),
    "the token of a wake names any parent": Source(
        "wakeful.service.creating", "parent_fire=caller.wake.fire_id)", "parent_fire=asked.parent_fire)"
    ),
    "the token of a wake opens everything": Source(
        "wakeful.http.security.auth", "            if for_wakes:\n", "            if True:\n"
    ),
    "a tool forgets whose token it is": Source(
        "wakeful.mcp",
        "principal.need(entry.scope, for_wakes=entry.for_wakes)",
        "principal.need(entry.scope, for_wakes=True)",
    ),
    "the token of a wake signs in": Source(
        "wakeful.dashboard.signing_in", '        principal.need("read")  # the token of a wake is for agents\n', ""
    ),
    "the token of a wake finds every alarm": Source(
        "wakeful.service.caller",
        "return self.wake is None or self.wake.root_id in (alarm.id, alarm.root_id)",
        "return True",
    ),
    "the token of a wake lists every alarm": Source(
        "wakeful.service.looking", "            root_id = self.caller.wake.root_id\n", "            pass\n"
    ),
    "the token of a wake lists every fire": Source(
        "wakeful.service.looking", " or self.caller.wake is not None:\n            try:", ":\n            try:"
    ),
    "the token of a wake shows every fire": Source(
        "wakeful.service.changes",
        "            await self.get(fire.alarm_id)  # found only",
        "            pass  # found only",
    ),
    "the token of a wake cancels what fits": Source(
        "wakeful.service.cancelling", '        filters["root_id"] = verbs.caller.wake.root_id\n', "        pass\n"
    ),
    "the token of a wake cancels what waits in the inbox": Source(
        "wakeful.service.cancelling", " and verbs.caller.reaches(alarm):", ":"
    ),
    "the token of a wake tells of similar alarms": Source(
        "wakeful.service.verbs",
        "return like if like is not None and self.caller.reaches(like) else None",
        "return like",
    ),
    "the token of a wake takes any key": Source(
        "wakeful.service.verbs", "        check_holder(self.caller, known, on_conflict)\n", ""
    ),
    "many take any key with the token of a wake": Source(
        "wakeful.service.creating", "        check_holder(caller, known, on_conflict)\n", ""
    ),
    "the token of a wake replaces its owner's alarm": Source(
        "wakeful.service.caller", "(self.wake is None or bool(alarm.parent_fire))", "True"
    ),
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
    "the token of a wake outlives its chain": Source(
        "wakeful.service.wake_tokens", 'if root is not None and root.status == "cancelled":', "if False:"
    ),
    "the token of a wake outlives its key": Source(
        "wakeful.service.wake_tokens",
        "if retired_at is not None and not reports_under(",
        "if False and not reports_under(",
    ),
    "a series that a wake sets never ends": Source(
        "wakeful.service.creating",
        "        if self._caller.wake is not None:\n            alarm = with_end",
        "        if False:\n            alarm = with_end",
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
    "a page shows the token of a wake": Source("wakeful.dashboard.wake_shown", "token=WAKE_TOKEN, report=", "report="),
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


def plant(name: str) -> None:
    fault = FAULTS[name]
    if isinstance(fault, Source):
        sys.meta_path.insert(0, _Finder(fault))
        return
    from wakeful.store import queries

    real = queries.queries

    def altered(dialect: Any, naming: Any) -> dict[str, str]:
        found = real(dialect, naming)
        return _altered(found, fault) if dialect == fault.dialect else found

    queries.queries = altered


def _altered(statements: dict[str, str], fault: Sql) -> dict[str, str]:
    places = [name for name in fault.statements if fault.old in statements.get(name, "")]
    if not places:
        _not_found(fault)
    return statements | {name: statements[name].replace(fault.old, fault.new) for name in places}


class _Finder:
    """Hands out the one module with the fault in it; all others come as ever."""

    def __init__(self, fault: Source) -> None:
        self._fault = fault

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._fault.module:
            return None
        spec = PathFinder.find_spec(fullname, path)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Loader(fullname, spec.origin, self._fault)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, fault: Source) -> None:
        super().__init__(fullname, path)
        self._fault = fault

    def get_code(self, fullname: str) -> CodeType:  # not from the cache
        source = self.get_data(self.path).decode()
        if source.count(self._fault.old) != 1:
            _not_found(self._fault)
        code: CodeType = compile(source.replace(self._fault.old, self._fault.new), self.path, "exec")
        return code


def _not_found(fault: Fault) -> None:
    print(f"not found, or not once: {fault}", file=sys.stderr, flush=True)
    os._exit(NOT_FOUND)


if name := os.environ.get(VARIABLE):
    plant(name)
