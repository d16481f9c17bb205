"""All verbs for one caller: each reads, lets a pure function decide, and writes once.

Every interface creates one `Alarms` per request; a Python program holds one. The caller carries the owner, who acts and
which limits apply, so no verb takes these as arguments and no interface has rules of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final, Literal, get_args

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
from wakeful.alarm.arguments import When, accepted, argument_named, request_fields
from wakeful.alarm.budget import wake_notes
from wakeful.alarm.model import ALARM_STATUSES, FIRE_STATUSES, AlarmStatus, FireStatus, Kind
from wakeful.alarm.request import CreateRequest, OnConflict, json_of, moment, policy_of, wanted_alarm
from wakeful.clock import stopwatch
from wakeful.errors import Conflict, InvalidRequest, StoreUnavailable, TooMany, UnknownTarget, WakefulError
from wakeful.keywords import PolicyKeywords
from wakeful.schedule import Understood, parse
from wakeful.service.history import History, HistoryEntry, HistoryStatus, Pending
from wakeful.service.inbox_signal import FIRST_LOOK, LONGEST_PAUSE
from wakeful.service.limits import chained
from wakeful.service.taken_wake import TakenWake, may_have_missed, missed
from wakeful.service.watching import WatchVerbs
from wakeful.service.why import LATELY, Why, explain, is_put_back
from wakeful.store import Added, AlarmQuery, FireQuery, Matches, Stats

SIMILAR_AMONG: Final = 100  # latest alarms of an owner that are looked at: every create pays for it
HANDED_OUT: Final = 4_000_000  # characters of wakes taken from an inbox at once, but always one wake
EVIDENCE: Final = 1_000_000  # characters of fires, and of events, that are read for one explanation
_ON_CONFLICT: Final = (None, *get_args(OnConflict))
Cursor = tuple[datetime, str]


class Created(Added, frozen=True):
    """The alarm that was set, or the existing alarm with the same key.

    `in_flight`: it replaced an alarm that a worker or a reader of the inbox is working on right now.
    `notes`: what whoever set it should know, such as how often it wakes.
    """

    in_flight: bool = False
    notes: tuple[str, ...] = ()


class Alarms(WatchVerbs):
    """All verbs of one caller.

    In the examples `clock` comes from `async with wakeful.open("wakeful.db") as clock`, `alarm` is one of its alarms,
    and `wake` was taken from its inbox.
    """

    # Set

    async def set(
        self,
        when: When = "",
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
        policy: Policy | PolicyKeywords | None = None,
        parent_fire: str = "",
        created_by: str = "",
        created_via: str = "",
        connection: Any = None,
    ) -> Alarm:
        """Set an alarm. Give exactly one of `when`, `at`, `delay` and `cron`.

        >>> alarm = await clock.set("tomorrow at 9am", "Check the grant portal", payload={"page": 3}, key="portal")
        >>> alarm.status
        'active'

        `when` is a text (phrase, ISO time or cron), unix seconds, a datetime, a timedelta from now on, or a time of
        day: the next one in the alarm's `timezone`.

        With a `key`, repeating the same call returns the same alarm, and a different call raises Conflict. Change that
        with `on_conflict`: "return" the existing alarm in any case, "replace" it, or always raise an "error".
        `created_by`, `created_via`: for whom your program acts, and through which of its own interfaces. `connection`:
        an asyncpg connection, to create the alarm inside your own transaction.
        """
        # Put together by hand: these are Python's own types already, and many a program sets thousands.
        said: dict[str, Any] = {
            "wake_message": wake_message,
            "when": when,
            "at": at,
            "delay": delay,
            "cron": cron,
            "payload": None if payload is None else json_of(payload),
            "target": target,
            "timezone": timezone,
            "key": key,
            "on_conflict": on_conflict,
            "label": label,
            "conversation_id": conversation_id,
            "isolated": isolated,
            "max_failures": max_failures,
            "policy": None if policy is None else policy_of(policy),
            "parent_fire": parent_fire,
        }
        try:
            asked = CreateRequest(**request_fields(said, creates=True))
            return (await self.create(asked, origin=(created_by, created_via), connection=connection)).alarm
        except WakefulError as error:
            raise argument_named(error, said) from None

    async def create(
        self, asked: CreateRequest, *, origin: tuple[str, str] = ("", ""), connection: Any = None
    ) -> Created:
        """Set an alarm from a request. Once this returns, the alarm survives a crash of the process or the machine.

        >>> asked = wakeful.CreateRequest(wake_message="Check the grant portal", when="in 2 hours")
        >>> (await clock.create(asked)).deduped
        False

        `on_conflict` works as in `set`. `origin`: created_by and created_via, if they differ from the caller's.
        """
        on_conflict = asked.on_conflict
        if on_conflict not in _ON_CONFLICT:
            raise InvalidRequest(
                f"{on_conflict!r} is not accepted", field="on_conflict", fix="Give return, replace or error."
            )
        if connection is not None and on_conflict == "replace":
            raise InvalidRequest(
                "replace would read and write outside your transaction",
                field="on_conflict",
                fix="Give return or error.",
            )
        wanted = self._wanted(asked)
        alarm = await self._drawn(wanted, *origin)
        if self.caller.limited:
            await self.service.limits.admit([alarm], now=alarm.created_at)
        [added] = await self.service.store.add([alarm], connection=connection)
        self.service.metrics.created(alarm.created_via, not added.deduped)
        if not added.deduped:
            return Created(added.alarm, notes=self._notes(added.alarm))
        if on_conflict == "replace":
            replaced = await self._replace(added.alarm.id, alarm)
            notes = self._notes(replaced.alarm)
            return Created(replaced.alarm, deduped=True, in_flight=replaced.in_flight, notes=notes)
        _check_key(wanted, alarm, added.alarm, on_conflict)
        return Created(added.alarm, deduped=True)

    async def create_many(self, asked: Sequence[CreateRequest]) -> list[Created]:
        """Set many alarms, or none if one request is invalid. For a key that is taken, return the existing alarm.

        >>> asked = [wakeful.CreateRequest(wake_message=f"Read page {n}", when="in 1 hour") for n in (1, 2)]
        >>> len(await clock.create_many(asked))
        2
        """
        alarms = [await self._drawn(wanted) for wanted in [self._wanted(one) for one in asked]]
        if self.caller.limited:
            await self.service.limits.admit(alarms, now=await self.service.now())
        answers = await self.service.store.add(alarms)
        for alarm, added in zip(alarms, answers, strict=True):
            self.service.metrics.created(alarm.created_via, not added.deduped)
        return [Created(added.alarm, deduped=added.deduped) for added in answers]

    async def similar(self, asked: CreateRequest, alarm: Alarm) -> Alarm | None:
        """Return another active alarm of the owner with the same message, time and target, or None.

        >>> asked = wakeful.CreateRequest(wake_message="Check the grant portal", when="every weekday at 9am")
        >>> new = await clock.create(asked)
        >>> (await clock.similar(asked, new.alarm)).id == alarm.id
        True

        Nothing is read for a request with a key (it cannot be set twice) or with a time that counts from now (it is
        never the same twice). The alarm is already set, so None is also the answer when the store cannot be read.
        """
        if asked.idempotency_key or asked.delay_seconds is not None or (asked.when or "").startswith("in "):
            return None
        with suppress(StoreUnavailable, TooMany):
            return await self.service.store.similar(alarm, among=SIMILAR_AMONG)
        return None

    def _notes(self, alarm: Alarm) -> tuple[str, ...]:
        if alarm.kind == "once":
            return ()
        return wake_notes(alarm, self.service.budget.limits_of(alarm.owner_did))

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
        await self.service.targets.admit(alarm)
        return alarm

    async def fire(self, id: str) -> Alarm:
        """Fire a one-shot copy of the alarm now; the alarm itself is not changed.

        >>> copy = await clock.fire(alarm.id)
        >>> copy.id == alarm.id
        False
        """
        alarm = await self.get(id)
        now = await self.service.now()
        copy = fire_now(alarm, id=self.service.ids.new(now), now=now, by=self.caller.owner, via=self.caller.via)
        copy = replace(copy, generation=alarm.generation)  # firing starts no new chain
        await self.service.targets.admit(copy)
        if self.caller.limited:
            await self.service.limits.admit([copy], now=now)
        [added] = await self.service.store.add([copy])
        self.service.metrics.created(self.caller.via)
        return added.alarm

    # Look

    async def parse(self, when: str, *, timezone: str = "") -> Understood:
        """Return what a time means as of now, without setting an alarm. Raises InvalidSchedule if it is not understood.

        >>> (await clock.parse("every weekday at 9am")).cron_expr
        '0 9 * * 1-5'
        """
        return parse(when, timezone=timezone or self.service.settings.timezone, now=await self.service.now())

    async def find(
        self,
        *,
        status: AlarmStatus | Sequence[AlarmStatus] = (),
        kind: Kind | Literal[""] = "",
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
        """Return alarms, newest first; `cursor` is the last alarm of the previous page.

        >>> [found.id == alarm.id for found in await clock.find(status="active", text="grant")]
        [True]

        `most`: the most characters of rows on a page, but always at least one row. With it, a search may also end
        before everything was read: `further` then says where to continue.
        """
        query = AlarmQuery(
            owner=self.caller.owner,
            statuses=accepted("status", status, ALARM_STATUSES),
            kind=next(iter(accepted("kind", kind, get_args(Kind))), ""),
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
        status: FireStatus | Sequence[FireStatus] = (),
        target: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
        cursor: Cursor | None = None,
        most: int = 0,
    ) -> Matches[Fire]:
        """Return what happened: the fires of one alarm, or of all alarms, latest first.

        >>> [fire.status for fire in await clock.fires(wake.alarm.id)]
        ['delivered']
        """
        return await self.service.store.fires(
            FireQuery(
                owner=self.caller.owner,
                alarm_id=id,
                statuses=accepted("status", status, FIRE_STATUSES),
                target=target,
                since=since,
                until=until,
                limit=limit,
                cursor=cursor,
                most=most,
            )
        )

    async def pending(self, *, limit: int | None = None) -> list[Pending]:
        """Return id, due time and offset (from creation to due) of every alarm that waits to fire, soonest first.

        >>> [entry.id == alarm.id for entry in await clock.pending()]
        [True]
        """
        return await History(self.service.store).pending(owner=self.caller.owner, limit=limit)

    async def active(self, *, limit: int | None = None, most: int = 0) -> Matches[Alarm]:
        """Return every alarm that waits to fire, soonest first.

        >>> [entry.id == alarm.id for entry in await clock.active()]
        [True]
        """
        return await History(self.service.store, most=most).active(self.caller.owner, limit)

    async def history(
        self,
        *,
        status: HistoryStatus | Literal[""] = "",
        target: str = "",
        since: datetime | float | str | None = None,
        limit: int = 50,
        most: int = 0,
    ) -> Matches[HistoryEntry]:
        """Return past and upcoming fires, newest first: fires due, and alarms created, `since` a moment.

        >>> [entry.status for entry in await clock.history(limit=2)]
        ['pending', 'delivered']

        `most`: the most characters of the answer, but always at least one entry; `further` is set if there may be more.
        """
        return await History(self.service.store, most=most).entries(
            owner=self.caller.owner,
            status=status,
            target=target,
            since=None if since is None else moment(since, "since"),
            limit=limit,
        )

    async def failed(self, *, limit: int = 20, most: int = 0) -> Matches[HistoryEntry]:
        """Return the latest fires that failed or were not reported in time.

        >>> await clock.failed(limit=5)
        []
        """
        return await History(self.service.store, most=most).failed(owner=self.caller.owner, limit=limit)

    async def stats(self) -> Stats:
        """Return how many alarms and fires there are in each status.

        >>> (await clock.stats()).pending
        1
        """
        return await self.service.store.stats(self.caller.owner)

    async def agenda(self, *, hours: float = 24, limit: int = 100, most: int = 0) -> Matches[tuple[datetime, Alarm]]:
        """Return the next fires of all alarms, merged, soonest first, as (time, alarm) pairs.

        >>> [str(at) for at, alarm in await clock.agenda(hours=24)]
        ['2030-01-01 09:00:00+00:00']
        """
        return await History(self.service.store, most=most).agenda(owner=self.caller.owner, hours=hours, limit=limit)

    async def why(self, id: str) -> Why:
        """Explain why an alarm (or one of its fires) was late or did not fire, and when it will, in words and facts.

        >>> (await clock.why(alarm.id)).summary
        'It fires at 2030-01-01T09:00:00Z, in 8 h. After that at 2030-01-02T09:00:00Z.'

        A caller without limits is the operator, who also sees how the target answered other owners' wakes and on
        which machines workers run.
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
        """Take wakes from the inbox, leased until they are reported; if there are none, wait up to `wait` seconds.

        >>> for alarm, fire in await clock.inbox(limit=10, wait=0):
        ...     await clock.completed(fire.id, "done")

        `target`: another inbox than the usual one, by the name that `[targets.NAME]` with `kind = "inbox"` gives it.

        Each wake unpacks as (alarm, fire) and has `late_ms`, `missed` and `attempt`, like the headers of a webhook.
        Wakes that are too long for one answer stay in the inbox for the next call. A waiting call counts against
        `live_per_owner`, and ends early when its process stops.
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


def _check_key(wanted: Wanted, alarm: Alarm, known: Alarm, on_conflict: OnConflict | None) -> None:
    """Refuse a key that is taken, unless the caller accepts the existing alarm or repeats the same request."""
    if on_conflict == "return":
        return
    differ = differences(wanted, alarm, known)
    if on_conflict is None and not differ:
        return
    what = f", and differs in {', '.join(differ)}" if differ else ""
    raise Conflict(
        f"alarm {known.id} already has the key {alarm.idempotency_key!r}{what}",
        field="idempotency_key",
        fix='Use another key; or give on_conflict: "replace" to change that alarm, "return" to leave it as it is.',
    )
