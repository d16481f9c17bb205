"""The memory store and SQLite answer alike, whatever they are asked: the same calls to both, at random from a seed."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from wakeful.errors import WakefulError
from wakeful.model.alarm import Alarm, Attempt, Event, Fire, Policy, SeenValue
from wakeful.model.outcome import Completed, Delivered, Failed, Outcome, Report, Snoozed, Try, Waiting
from wakeful.model.owner_settings import OwnerSettings
from wakeful.rules.budget import Allowance, Charge
from wakeful.rules.edit import cancel, pause, resume, skip_next
from wakeful.rules.report import fetch, report, sweep
from wakeful.rules.settle import settle
from wakeful.rules.undo import with_former
from wakeful.store import (
    AlarmQuery,
    Claim,
    EventQuery,
    FireQuery,
    Followed,
    Settled,
    Store,
    TargetState,
    Token,
    Turn,
    Worker,
)
from wakeful.store.memory import MemoryStore
from wakeful.store.memory.database import MemoryDatabase
from wakeful.store.sqlite import SqliteStore
from wakeful.testing import ManualClock
from wakeful.testing.conformance.making import LEASE, MS, a_fire, an_alarm, change

OWNERS = ("ada", "bob", "é")
TARGETS = ("desk", "inbox", "other")
WORDS = ("", "Tea", "a Tea party", "straße")
STEPS = 150
SECOND = timedelta(seconds=1)
OUTCOMES = (Completed("ok"), Delivered(), Delivered(awaits_report=True), Failed("no"), Snoozed(9 * SECOND), Waiting())


class Both:
    """Two stores on clocks that go together, and what they said that is needed for the next step."""

    def __init__(self, seed: int, stores: tuple[Store, Store], clocks: tuple[ManualClock, ManualClock]) -> None:
        self.random = random.Random(seed)
        self.stores = stores
        self.clocks = clocks
        self.said: list[str] = []
        self.held: list[Alarm] = []

    @property
    def now(self) -> datetime:
        return self.clocks[0].now()

    def one(self, *of: Any) -> Any:
        return self.random.choice(of)

    async def ask(self, what: Callable[[Store], Awaitable[Any]], name: str) -> Any:
        """The answer of both; an error, too, is one, but for its words."""
        answers: list[Any] = []
        answer = None
        for store in self.stores:
            try:
                answer = await what(store)
                answers.append((_comparable(answer), getattr(answer, "further", None)))
            except WakefulError as error:
                answers.append((error.code, None))
        self.said.append(name)
        assert answers[0] == answers[1], "\n".join(self.said[-30:])
        return answer

    async def every_alarm(self) -> list[Alarm]:
        found: list[Alarm] = await self.ask(lambda store: store.find(AlarmQuery(limit=1000)), "find all")
        return found

    async def some_alarm(self) -> Alarm | None:
        alarms = await self.every_alarm()
        return self.random.choice(alarms) if alarms else None

    async def fire_of(self, alarm: Alarm) -> Fire | None:
        key = (alarm.id, alarm.occurrence_at)
        found: dict[Any, Fire] = await self.ask(lambda store: store.fires_at([key]), "fires_at")
        return found.get(key)

    # Writes

    def an_alarm(self) -> Alarm:
        given: dict[str, Any] = {
            "owner_did": self.one(*OWNERS),
            "target": self.one(*TARGETS),
            "label": self.one(*WORDS),
            "wake_message": self.one(*WORDS),
            "idempotency_key": self.one("", "", "", "k1", "k2"),
            "conversation_id": self.one("", "c-1"),
            "payload_json": self.one("{}", '{"a" : 1}'),
            "status": self.one(*["active"] * 8, "paused", "cancelled", "fired"),
            "root_id": self.one("", "", "r-1"),
        }
        if self.random.random() < 0.5:
            given |= {"kind": "cron", "cron_expr": self.one("@hourly", "*/5 * * * *"), "fire_at": None}
            given["timezone"] = self.one("UTC", "Europe/Berlin")
        policies = (Policy(report_within=30.0), Policy(unless="s"), Policy(or_when="s", jitter=2.0))
        given["policy"] = self.one(*[Policy()] * 3, *policies)
        if self.random.random() < 0.05:
            given |= self.one({"kind": "never"}, {"label": "\ud800"}, {"status": "odd"})
        return an_alarm(self.clocks[0], due=self.random.choice((-60, -1, 0, 0.5, 1, 30, 300)), **given)

    async def add(self) -> None:
        alarms = [self.an_alarm() for _ in range(self.random.randint(1, 4))]
        await self.ask(lambda store: store.add(alarms), f"add {len(alarms)}")

    async def claim(self) -> None:
        slots = {target: self.random.randint(0, 4) for target in TARGETS}
        turns = {
            target: Turn(self.random.randint(1, 3), self.one("", *OWNERS))
            for target in TARGETS
            if self.random.random() < 0.4
        }
        early = {target: timedelta(seconds=40) for target in TARGETS if self.random.random() < 0.2}
        lease, suspects = self.one(LEASE, LEASE, 30 * SECOND), self.random.random() < 0.8
        claimed = await self.ask(
            lambda store: store.claim(slots, lease=lease, suspects=suspects, turns=turns, early=early),
            f"claim {slots} {turns} {early} {suspects}",
        )
        self.held = [*self.held, *claimed.alarms][-12:]

    async def settle(self) -> None:
        """Some of what was claimed, or is no longer held, as a dispatcher would."""
        changes = []
        for alarm in self.random.sample(self.held, min(len(self.held), self.random.randint(1, 4))):
            outcome: Outcome = self.one(*OUTCOMES)
            attempt = Try(self.now - MS, self.now)
            fire = await self.fire_of(alarm) if self.random.random() < 0.7 else None
            changes.append(settle(alarm, fire, outcome, attempt))
        await self.ask(lambda store: store.settle(changes), f"settle {len(changes)}")

    async def act(self) -> None:
        """What owners and receivers do."""
        if (alarm := await self.some_alarm()) is None:
            return
        fire, now = await self.fire_of(alarm), self.now
        try:
            acted = self.one(
                lambda: report(alarm, fire, alarm.occurrence_at, Report(self.one("completed", "failed")), now=now),
                lambda: cancel(alarm, fire, now=now),
                lambda: pause(alarm, now=now, by="ada"),
                lambda: resume(alarm, fire, now=now, by="ada"),
                lambda: skip_next(alarm, fire, now=now, lease=LEASE, by="ada"),
                lambda: fetch(alarm, fire, now=now) if fire is not None else None,
                lambda: sweep(alarm, fire, now=now) if fire is not None and fire.report_by is not None else None,
                lambda: change(alarm, version=alarm.version + 1, edited=True, label="new", policy=Policy(unless="s")),
                lambda: change(alarm, version=alarm.version + 1, cost=0.25, seen=SeenValue(name="n", value="v")),
                lambda: with_former(alarm, pause(alarm, now=now)),
            )()
        except WakefulError:  # not in its state
            return
        if acted is not None:
            await self.ask(lambda store: store.settle([acted]), f"act {acted.after.status}")

    async def odd_fires(self) -> None:
        """Fires as no decision would make them: of every status, at moments around now."""
        if (alarm := await self.some_alarm()) is None:
            return
        statuses = ("retrying", "waiting", "delivered", "completed", "failed", "timed_out", "snoozed", "skipped")
        fires = {
            at: a_fire(
                alarm,
                scheduled_for=self.now + at * SECOND,
                status=self.one(*statuses),
                reason=self.one("", "reported"),
                report_by=self.one(None, self.now + 5 * SECOND),
                duration_ms=self.one(None, 7, 8),
                log=(Attempt(self.now, 1, "said"),),
                last_error=self.one("", "no " * 300),
                updated_at=self.now,
            )
            for at in (self.random.randint(-5, 5), self.random.randint(-5, 5))
        }
        event = Event(at=self.now, what=self.one("paused", "fired"), alarm_id=alarm.id, owner_did=alarm.owner_did)
        written = change(alarm, *fires.values(), events=[event])
        await self.ask(lambda store: store.settle([written]), "odd fires")

    async def renew(self) -> None:
        claims = [Claim(alarm.id, alarm.claim) for alarm in self.held]
        await self.ask(lambda store: store.renew(claims), "renew")

    async def purge(self) -> None:
        before, owner = self.now - self.one(0, 30, 300) * SECOND, self.one("", *OWNERS)
        await self.ask(lambda store: store.maintenance.count_old(before, owner=owner), "count_old")
        await self.ask(lambda store: store.maintenance.purge(before, owner=owner), "purge")
        await self.ask(lambda store: store.maintenance.purge_counts(before, limit=9), "purge_counts")

    async def small_tables(self) -> None:
        now, id = self.now, self.one("a", "b")
        charge = Charge((Allowance("owner", self.one(*OWNERS), "hour", 2),), now, attempt=self.one("", "x@1"))
        await self.ask(lambda store: store.access.spend([charge, charge]), "spend")
        await self.ask(lambda store: store.access.spent(charge), "used")
        token = Token(id=id, owner_did="ada", hash=b"h", created_at=now, expires_at=self.one(None, now + 60 * SECOND))
        await self.ask(lambda store: store.access.add_token(token), "add_token")
        await self.ask(lambda store: store.access.update_token("b", revoked_at=now), "revoke_token")
        await self.ask(lambda store: store.access.update_token(id, last_used_at=now), "touch_token")
        await self.ask(lambda store: store.access.tokens(), "tokens")
        await self.ask(lambda store: store.access.auth_state(), "door")
        state = TargetState(target=self.one(*TARGETS), updated_at=now)
        event = Event(at=now, what="target paused", by="ops")
        await self.ask(lambda store: store.maintenance.set_target_state(state, event=event), "set_target_state")
        await self.ask(lambda store: store.maintenance.target_states(), "target_states")
        worker = Worker(id=id, host="h", pid=1, version="1", started_at=now, seen_at=now)
        await self.ask(lambda store: store.maintenance.beat(worker), "beat")
        await self.ask(lambda store: store.maintenance.workers(), "workers")
        settings = OwnerSettings(timezone=self.one("", "UTC"))
        await self.ask(lambda store: store.access.put_owner_settings("ada", settings), "put")
        await self.ask(lambda store: store.access.owner_settings("ada"), "get")

    async def time_passes(self) -> None:
        by = self.one(0.0004, 0.001, 1, 1, 30, 121)
        for clock in self.clocks:
            await clock.advance(by)
        if self.random.random() < 0.1:
            back = self.one(1, 20, 200)
            for clock in self.clocks:
                clock.set_back(back)

    # Reads

    async def read(self) -> None:
        owner, now = self.one("", *OWNERS, "nobody"), self.now
        alarms = await self.every_alarm()
        await self.ask(lambda store: store.next_due(TARGETS), "next_due")
        await self.ask(lambda store: store.maintenance.backlog(lease=LEASE), "backlog")
        await self.ask(lambda store: store.overdue(limit=5), "overdue")
        await self.ask(lambda store: store.agenda(owner=owner, until=now + 40 * SECOND, limit=1000), "agenda")
        await self.ask(lambda store: store.stats(owner), "stats")
        target, conversation = self.one(*TARGETS), self.one("", "c-1")
        await self.ask(
            lambda store: store.waiting(owner, limit=3, target=target, conversation_id=conversation), "waiting"
        )
        await self.ask(lambda store: store.listening(owner, "s", limit=9), "listening")
        await self.ask(lambda store: store.usage(owner or "ada"), "usage")
        after = self.one(0, 3, 9)
        await self.ask(lambda store: store.events(EventQuery(owner=owner, after=after, limit=100)), "events")
        since = now - self.one(0, 5, 60) * SECOND
        await self.ask(lambda store: store.changes(owner=owner, since=since, after_event=after, limit=1000), "changes")
        steps = [(now - 60 * SECOND, now), (now, now + 60 * SECOND)]
        await self.ask(lambda store: store.maintenance.fire_counts(owner or "ada", steps, limit=99), "counts")
        await self.ask(lambda store: store.maintenance.fire_counts("", steps, limit=3), "changed")
        await self.ask(lambda store: store.maintenance.backlog_by_owner(lease=LEASE, limit=99), "due")
        await self.ask(
            lambda store: store.maintenance.owner_use(after="", limit=2, scan_limit=99, since=now - LEASE), "owners"
        )
        for alarm in self.random.sample(alarms, min(2, len(alarms))):
            await self.ask(lambda store, a=alarm: store.similar(a, among=9), "similar")  # type: ignore[misc]
            await self.ask(lambda store, a=alarm: store.get(a.id, owner=owner), "get")  # type: ignore[misc]
            latest = EventQuery(alarm_id=alarm.id, latest=True, what=self.one("", "paused"), limit=3)
            await self.ask(lambda store, query=latest: store.events(query), "latest events")  # type: ignore[misc]
            await self.ask(lambda store, a=alarm: store.access.check_value(a.id, "n"), "seen")  # type: ignore[misc]

    async def search(self) -> None:
        common: dict[str, Any] = {"owner": self.one("", *OWNERS), "limit": self.one(1, 2, 5)}
        common |= {"look_at": self.one(0, 0, 2, 5)} | ({"target": self.one(*TARGETS)} if self.one(True, False) else {})
        span = {"since": self.now - 60 * SECOND, "until": self.now + self.one(-1, 1) * SECOND}
        statuses = self.one((), (), ("active",), ("paused",), ("active", "cancelled"))
        words = ({"label": "Tea"}, {"text": "TEA"}, {"key": "k1"}, {"root_id": "r-1"}, {"kind": "once"})
        more = self.one({}, {}, span, *words)
        await self.pages("find", AlarmQuery(statuses=statuses, **common, **more))
        statuses = self.one((), (), ("waiting",), ("failed",), ("failed", "timed_out"), ("completed", "waiting"))
        alarm = await self.some_alarm()
        more = self.one({}, {}, span, {} if alarm is None else {"alarm_id": alarm.id})
        await self.pages(self.one("fires", "described_fires"), FireQuery(statuses=statuses, **common, **more))

    async def pages(self, verb: str, query: Any) -> None:
        counted = query if not getattr(query, "text", "") else None
        if counted is not None:
            await self.ask(lambda store: store.count(counted), f"count {query}")
        for _ in range(5):
            page = await self.ask(lambda store: getattr(store, verb)(query), f"{verb} {query}")  # noqa: B023
            if page.further is None:
                return
            query = replace(query, cursor=page.further)


def _comparable(answer: Any) -> Any:
    """Without what is left to a store: the words of a refusal, the order of fires that changed at one moment."""
    match answer:
        case list():
            return [replace(one, error="") if isinstance(one, Settled) else one for one in answer]
        case Followed():
            fires = sorted(answer.fires, key=lambda fire: (fire.updated_at, fire.id))
            return Followed(answer.alarms, fires, answer.events, answer.last_event)
        case _:
            return answer


STEP_KINDS = (
    *[Both.add] * 4,
    *[Both.claim] * 4,
    *[Both.settle] * 4,
    *[Both.act] * 4,
    *[Both.odd_fires] * 2,
    *[Both.time_passes] * 4,
    Both.renew,
    Both.purge,
    Both.small_tables,
    Both.read,
    *[Both.search] * 2,
)


@pytest.mark.parametrize("seed", range(8))
async def test_both_answer_alike(tmp_path: Path, seed: int) -> None:
    clocks = (ManualClock(), ManualClock())
    sqlite = SqliteStore(str(tmp_path / "wakeful.db"), clock=clocks[0])
    memory = MemoryStore(MemoryDatabase(), clock=clocks[1])
    both = Both(seed, (sqlite, memory), clocks)
    await sqlite.migrate()
    for _ in range(STEPS):
        await both.random.choice(STEP_KINDS)(both)
    await both.every_alarm()
    await sqlite.close()
    await memory.close()
