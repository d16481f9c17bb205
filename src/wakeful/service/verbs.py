"""Every verb there is, for one caller: each reads, lets a pure function decide, and writes once.

A door makes one `Alarms` per request; a Python program holds one. Whose alarms it is about, who acts and which limits
hold is said once, by the caller: no verb takes it, and no door has a rule of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final, get_args

from msgspec import UNSET
from msgspec.structs import replace

from wakeful.alarm import (
    INBOX,
    Alarm,
    Fire,
    Origin,
    Policy,
    Wanted,
    create,
    differences,
    fetch,
    fire_now,
    parse_fire_id,
)
from wakeful.alarm.request import CreateRequest, OnConflict, json_of, moment, policy_of, wanted_alarm
from wakeful.clock import stopwatch
from wakeful.errors import Conflict, InvalidRequest, StoreUnavailable, TooMany, UnknownTarget
from wakeful.schedule import Understood, parse
from wakeful.service.changes import ChangeVerbs, as_python_names_it
from wakeful.service.history import History, HistoryEntry, Pending
from wakeful.service.inbox_signal import FIRST_LOOK, LONGEST_PAUSE
from wakeful.service.limits import chained
from wakeful.service.taken_wake import TakenWake, may_have_missed, missed
from wakeful.service.why import LATELY, Why, explain, is_put_back
from wakeful.store import Added, AlarmQuery, FireQuery, Matches, Stats

SIMILAR_AMONG: Final = 100  # latest alarms of an owner that are looked at: every create pays for it
HANDED_OUT: Final = 4_000_000  # characters of wakes taken from an inbox at once, but always one wake
EVIDENCE: Final = 1_000_000  # characters of fires, and of events, that are read for one explanation
Cursor = tuple[datetime, str]


class Created(Added, frozen=True):
    """An alarm that was set, or the one that has its key.

    `in_flight`: it replaced one that a worker, or a reader of the inbox, has just now.
    """

    in_flight: bool = False


class Alarms(ChangeVerbs):
    # Set

    async def set(
        self,
        when: str | float = "",
        wake_message: str = "",
        *,
        at: datetime | float | None = None,
        delay: timedelta | float | str | None = None,
        cron: str = "",
        payload: Any = None,
        target: str = "",
        timezone: str = "",
        key: str = "",
        on_conflict: OnConflict | None = None,
        label: str = "",
        conversation_id: str = "",
        isolated: bool = False,
        max_failures: int | None = None,
        policy: Policy | Mapping[str, Any] | None = None,
        parent_fire: str = "",
        created_by: str = "",
        created_via: str = "",
        connection: Any = None,
    ) -> Alarm:
        """Set an alarm: exactly one of `when` (a phrase, ISO time, unix seconds or cron), `at`, `delay` and `cron`.

        With a `key`, the same call again answers with the alarm that has the key, and another one is a Conflict;
        `on_conflict` says otherwise: "return" that alarm whatever is asked for, "replace" it, or "error".
        `created_by`, `created_via`: for whom a program acts, and through which door of its own. `connection`: an
        asyncpg connection, to create inside your own transaction.
        """
        # Put together by hand: these are Python's own types already, and many a program sets thousands.
        said: Any = {
            "wake_message": wake_message,
            "when": str(when),
            "fire_at": at,
            "delay_seconds": delay,
            "cron_expr": cron or None,
            "payload": UNSET if payload is None else json_of(payload),
            "target": target,
            "timezone": timezone,
            "idempotency_key": key,
            "on_conflict": on_conflict,
            "label": label,
            "conversation_id": conversation_id,
            "isolated": isolated,
            "max_failures": max_failures,
            "policy": policy_of(policy) if isinstance(policy, Mapping) else policy,
            "parent_fire": parent_fire,
        }
        try:
            asked, origin = CreateRequest(**said), (created_by, created_via)
            return (await self.create(asked, origin=origin, connection=connection)).alarm
        except InvalidRequest as error:
            raise as_python_names_it(error) from None

    async def create(
        self, asked: CreateRequest, *, origin: tuple[str, str] = ("", ""), connection: Any = None
    ) -> Created:
        """Keep a new alarm. Once this returns, it survives anything the disk survives.

        Where its key is taken: the same request again is answered with the alarm there is, another is a Conflict. With
        `on_conflict`, whatever is asked for: "return" the alarm that has the key, "replace" it, or an "error".
        `origin`: by whom and through what, where that is not the caller.
        """
        on_conflict = asked.on_conflict
        if on_conflict not in (None, *get_args(OnConflict)):
            raise InvalidRequest(
                f"{on_conflict!r} is not accepted", field="on_conflict", fix="Give return, replace or error."
            )
        if connection is not None and on_conflict == "replace":
            raise InvalidRequest(
                "replacing reads and writes outside your transaction", field="on_conflict", fix="Give return or error."
            )
        wanted = self._wanted(asked)
        alarm = await self._drawn(wanted, *origin)
        if self.caller.limited:
            await self.service.limits.admit([alarm], now=alarm.created_at)
        [added] = await self.service.store.add([alarm], connection=connection)
        self.service.metrics.created(alarm.created_via, not added.deduped)
        if not added.deduped:
            return Created(added.alarm)
        if on_conflict == "replace":
            replaced = await self._replace(added.alarm.id, alarm)
            return Created(replaced.alarm, deduped=True, in_flight=replaced.in_flight)
        _check_key(wanted, alarm, added.alarm, on_conflict)
        return Created(added.alarm, deduped=True)

    async def create_many(self, asked: Sequence[CreateRequest]) -> list[Created]:
        """Keep many alarms: one bad request and none is kept. A taken key answers with the alarm that has it."""
        alarms = [await self._drawn(wanted) for wanted in [self._wanted(one) for one in asked]]
        if self.caller.limited:
            await self.service.limits.admit(alarms, now=await self.service.now())
        answers = await self.service.store.add(alarms)
        for alarm, added in zip(alarms, answers, strict=True):
            self.service.metrics.created(alarm.created_via, not added.deduped)
        return [Created(added.alarm, deduped=added.deduped) for added in answers]

    async def similar(self, asked: CreateRequest, alarm: Alarm) -> Alarm | None:
        """Another active alarm of the same owner that says the same at the same times to the same target.

        With a key it is that one itself, and what counts from now is never the same twice: nothing is read then. The
        alarm is set: where there is no reading just now, there is no such remark.
        """
        if asked.idempotency_key or asked.delay_seconds is not None or (asked.when or "").startswith("in "):
            return None
        with suppress(StoreUnavailable, TooMany):
            return await self.service.store.similar(alarm, among=SIMILAR_AMONG)
        return None

    def _wanted(self, asked: CreateRequest) -> Wanted:
        wanted = wanted_alarm(asked, self.service.defaults)
        self._check_pace(asked, wanted.fields["policy"])
        return wanted

    async def _drawn(self, wanted: Wanted, by: str = "", via: str = "") -> Alarm:
        caller = self.caller
        origin = Origin(owner_did=caller.owner, created_by=by or caller.owner, created_via=via or caller.via)
        if parent_fire := wanted.fields.get("parent_fire"):
            origin = await chained(self.service.store, origin, parent_fire)
        now = await self.service.now()
        alarm = create(wanted, origin, id=self.service.ids.new(now), now=now)
        await self.service.registry.admit(alarm)
        return alarm

    async def fire(self, id: str) -> Alarm:
        """A one-shot copy, due now; the alarm itself is left alone."""
        alarm = await self.get(id)
        now = await self.service.now()
        copy = fire_now(alarm, id=self.service.ids.new(now), now=now, by=self.caller.owner, via=self.caller.via)
        copy = replace(copy, generation=alarm.generation)  # firing starts no new chain
        await self.service.registry.admit(copy)
        if self.caller.limited:
            await self.service.limits.admit([copy], now=now)
        [added] = await self.service.store.add([copy])
        self.service.metrics.created(self.caller.via)
        return added.alarm

    # Look

    async def parse(self, when: str, *, timezone: str = "") -> Understood:
        """What a time means from now, in a zone; nothing is set. InvalidSchedule where it is not understood."""
        return parse(when, timezone=timezone or self.service.settings.timezone, now=await self.service.now())

    async def find(
        self,
        *,
        status: str | Sequence[str] = (),
        kind: str = "",
        target: str = "",
        label: str = "",
        conversation_id: str = "",
        root_id: str = "",
        text: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
        cursor: Alarm | Cursor | None = None,
        most: int = 0,
    ) -> Matches[Alarm]:
        """Alarms, newest first; `cursor` is the last one of the page before.

        `most`: characters of rows on a page, but always one row. Then a search may also end before all was looked at:
        `further` says where to go on.
        """
        query = AlarmQuery(
            owner=self.caller.owner,
            statuses=_several(status),
            kind=kind,
            target=target,
            label=label,
            conversation_id=conversation_id,
            root_id=root_id,
            text=text,
            since=since,
            until=until,
            limit=limit,
            cursor=(cursor.created_at, cursor.id) if isinstance(cursor, Alarm) else cursor,
            most=most,
        )
        found = await self.service.store.find(query)
        while not most and found.further is not None and len(found) < limit:
            rest = replace(query, cursor=found.further, limit=limit - len(found))
            more = await self.service.store.find(rest)
            found = Matches([*found, *more], more.further)
        return found

    async def fires(
        self,
        id: str = "",
        *,
        status: str | Sequence[str] = (),
        target: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
        cursor: Cursor | None = None,
        most: int = 0,
    ) -> Matches[Fire]:
        """What happened: the fires of one alarm, or of all, latest first."""
        return await self.service.store.fires(
            FireQuery(
                owner=self.caller.owner,
                alarm_id=id,
                statuses=_several(status),
                target=target,
                since=since,
                until=until,
                limit=limit,
                cursor=cursor,
                most=most,
            )
        )

    async def pending(self, *, limit: int | None = None) -> list[Pending]:
        """Every alarm that waits to fire, soonest first: its id, when it is due, how long after its creation."""
        return await History(self.service.store).pending(owner=self.caller.owner, limit=limit)

    async def active(self, *, limit: int | None = None, most: int = 0) -> Matches[Alarm]:
        """Every alarm that waits to fire, soonest first."""
        return await History(self.service.store, most=most).active(self.caller.owner, limit)

    async def history(
        self,
        *,
        status: str = "",
        target: str = "",
        since: datetime | float | str | None = None,
        limit: int = 50,
        most: int = 0,
    ) -> Matches[HistoryEntry]:
        """What happened and what is to come, newest first: fires due, and alarms created, `since` a moment.

        `most`: characters of what is told, but always one line; `further` is set where there may be more.
        """
        return await History(self.service.store, most=most).entries(
            owner=self.caller.owner,
            status=status,
            target=target,
            since=None if since is None else moment(since, "since"),
            limit=limit,
        )

    async def failed(self, *, limit: int = 20, most: int = 0) -> Matches[HistoryEntry]:
        """The latest fires that failed or fell silent."""
        return await History(self.service.store, most=most).failed(owner=self.caller.owner, limit=limit)

    async def stats(self) -> Stats:
        return await self.service.store.stats(self.caller.owner)

    async def agenda(self, *, hours: float = 24, limit: int = 100, most: int = 0) -> Matches[tuple[datetime, Alarm]]:
        """The next fires of all alarms, merged, soonest first."""
        return await History(self.service.store, most=most).agenda(owner=self.caller.owner, hours=hours, limit=limit)

    async def why(self, id: str) -> Why:
        """Why an alarm (or one of its fires) fired late, did not fire, or when it will: words and facts.

        Whoever has no limits is the operator, and also hears what the target said to others' wakes, and on which
        machines workers run.
        """
        store = self.service.store
        alarm = await self.get(parse_fire_id(id)[0] if "@" in id else id)
        alarm_id = alarm.id
        latest = FireQuery(alarm_id=alarm_id, limit=10, most=EVIDENCE)
        fires = [await self.fire_of(id)] if "@" in id else await store.fires(latest)
        now = await store.now()
        theirs = FireQuery(owner=alarm.owner_did, target=alarm.target, since=now - LATELY, limit=100)
        return explain(
            alarm,
            fires,
            events=[event for _, event in await store.events(alarm_id=alarm_id, limit=100, most=EVIDENCE)],
            workers=await store.workers(),
            state=(await store.target_states()).get(alarm.target),
            lease=self.service.settings.lease,
            now=now,
            operator=not self.caller.limited,
            lately=await store.fires(theirs) if is_put_back(alarm, now) else (),
        )

    # Fetch

    async def inbox(self, *, limit: int = 10, wait: float = 0, target: str = INBOX) -> list[TakenWake]:
        """What waits in the inbox, leased until it is reported; with nothing there, wait so many seconds for it.

        `target`: another inbox than the usual one, by the name that `[targets.NAME]` with `kind = "inbox"` gives it.

        Each unpacks as (alarm, fire), and has `late_ms`, `missed` and `attempt` as a webhook's headers have them.
        What is long comes in several calls: what does not fit goes on waiting. Whoever waits has a seat; a process that
        is about to end waits no longer.
        """
        if target not in self.service.settings.inboxes:
            known = ", ".join(self.service.settings.inboxes)
            raise UnknownTarget(f"there is no inbox {target!r}", field="target", fix=f"Known are: {known}.")
        if wait <= 0:
            return await self._handed_out(limit, target)
        with self.service.connections.seat(self.caller.owner if self.caller.limited else None):
            return await self._waited(limit, wait, target)

    async def _waited(self, limit: int, wait: float, target: str) -> list[TakenWake]:
        bell = self.service.inbox_signal
        ending, pause = stopwatch() + wait, FIRST_LOOK
        while not (found := await self._handed_out(limit, target)):
            left = ending - stopwatch()
            if left <= 0 or bell.stopped:
                break
            rung = await bell.heard(self.caller.owner, min(left, pause))
            pause = FIRST_LOOK if rung else min(2 * pause, LONGEST_PAUSE)
        return found

    async def _handed_out(self, limit: int, target: str) -> list[TakenWake]:
        store = self.service.store
        waiting = await store.waiting(self.caller.owner, limit=limit, most=HANDED_OUT, target=target)
        changes = [fetch(alarm, fire, now=await store.now()) for alarm, fire in waiting]
        answers = await store.settle(changes) if changes else []
        handed = [at for at, answer in enumerate(answers) if answer.what == "applied"]
        for at in handed:
            self.service.metrics.fires(waiting[at][1], changes[at].fires)
        return [await self._taken(changes[at].after, changes[at].fires[0]) for at in handed]

    async def _taken(self, alarm: Alarm, fire: Fire) -> TakenWake:
        if not may_have_missed(alarm, fire, alarm.updated_at):
            return TakenWake(alarm, fire)
        since = fire.scheduled_for + timedelta(milliseconds=1)
        skipped = await self._all_fires(FireQuery(alarm_id=alarm.id, statuses=("skipped",), since=since))
        return TakenWake(alarm, fire, missed=missed(skipped))


def _several(status: str | Sequence[str]) -> tuple[str, ...]:
    return ((status,) if status else ()) if isinstance(status, str) else tuple(status)


def _check_key(wanted: Wanted, alarm: Alarm, known: Alarm, on_conflict: OnConflict | None) -> None:
    """Refuse a key that is taken, unless the caller takes whatever has it or asks for the very same once more."""
    if on_conflict == "return":
        return
    differ = differences(wanted, alarm, known)
    if on_conflict is None and not differ:
        return
    what = f", and is different in {', '.join(differ)}" if differ else ""
    raise Conflict(
        f"alarm {known.id} already has the key {alarm.idempotency_key!r}{what}",
        field="idempotency_key",
        fix='Use another key; or give on_conflict: "replace" to change that alarm, "return" to leave it as it is.',
    )
