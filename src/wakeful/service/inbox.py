"""The verb of whoever fetches wakes from an inbox: they are handed out, and leased until they are reported."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Self

from msgspec import Struct
from msgspec.structs import replace

from wakeful.clock import stopwatch
from wakeful.errors import StoreUnavailable, UnknownTarget
from wakeful.model.alarm import INBOX, STEPPED_OVER, Alarm, Change, Event, Fire, FireStatus, HeardSignal
from wakeful.model.requests import ReportRequest
from wakeful.moments import unix_ms
from wakeful.rules.lineage import Author, author_of, is_ending
from wakeful.rules.plan import following
from wakeful.rules.report import check_reportable, fetch, unfetch
from wakeful.rules.wake import Wake, prompt, wake_token
from wakeful.service.answers import Noted
from wakeful.service.core import FIRST_LOOK, LONGEST_PAUSE, Session
from wakeful.service.history import HistoryEntry
from wakeful.service.notes import due_notes
from wakeful.service.read import EVIDENCE
from wakeful.service.report import report_fire
from wakeful.service.resolving import all_fires, get_fire
from wakeful.service.tokens import FETCHED
from wakeful.store import FireQuery

HANDED_OUT: Final = 4_000_000  # characters of wakes taken from an inbox at once, but always one wake
LATEST: Final = 20  # fires of a series that are looked at to say where a wake stands in it


class Waiting(NamedTuple):
    """Which wakes of an inbox are asked for."""

    target: str
    conversation_id: str
    limit: int


class Leased(NamedTuple):
    """A wake that was leased just now: as it waited, the change that leased it, and what its reader gets."""

    waited: Fire
    change: Change
    wake: TakenWake


async def take_wakes(
    session: Session,
    *,
    limit: int = 10,
    wait: float = 0,
    target: str = INBOX,
    conversation_id: str = "",
    done: Mapping[str, str] | None = None,
) -> Noted[TakenWake]:
    """Take wakes from the inbox, leased until they are reported; if there are none, wait up to `wait` seconds.

    >>> for alarm, fire in await alarms.inbox(limit=10, wait=0):
    ...     await alarms.completed(fire.id, "done")

    `target`: another inbox than the usual one, by the name that `[targets.NAME]` with `kind = "inbox"` gives it.
    `conversation_id`: only the wakes of this conversation; the others stay. `done`: earlier wakes by their fire_id,
    with what came of each; they are reported as completed first, and where one cannot be, nothing is done.

    Each wake unpacks as (alarm, fire) and has `late_ms`, `missed` and `attempt`, like the headers of a webhook,
    and `number`, `max_fires`, `previous` and `next_fire_at`: where it stands in its series.
    Wakes that are too long for one answer stay in the inbox for the next call. A waiting call counts against
    `live_per_owner`, and ends early when its process stops. A call that is cancelled, at whatever moment, takes
    nothing: what it had leased already waits in the inbox again. Where there is no wake, `notes` of the answer says
    in words what is due and not delivered yet, and which wakes other readers have.
    """
    if target not in session.service.settings.inboxes:
        known = ", ".join(session.service.settings.inboxes)
        raise UnknownTarget(f"there is no inbox {target!r}", field="target", fix=f"Known are: {known}.")
    await _acknowledge(session, done or {})
    wanted = Waiting(target, conversation_id, limit)
    found = await (_handed_out(session, wanted) if wait <= 0 else _waited(session, wanted, wait))
    return Noted(found, notes=() if found else await due_notes(session.service, session.caller.owner, target))


async def _acknowledge(session: Session, done: Mapping[str, str]) -> None:
    """Report these wakes as completed. All are looked at before the first is reported."""
    for fire_id in done:
        check_reportable(await get_fire(session, fire_id))
    for fire_id, result in done.items():
        await report_fire(session, fire_id, ReportRequest(outcome="completed", result=result))


async def _waited(session: Session, wanted: Waiting, wait: float) -> list[TakenWake]:
    bell = session.service.inbox_signal
    ending, pause = stopwatch() + wait, FIRST_LOOK
    with session.service.connections.seat(session.caller.owner if session.caller.limited else None):
        while not (found := await _handed_out(session, wanted)):
            left = ending - stopwatch()
            if left <= 0 or bell.stopped:
                break
            rung = await bell.heard(session.caller.owner, min(left, pause))
            pause = FIRST_LOOK if rung else min(2 * pause, LONGEST_PAUSE)
    return found


async def _handed_out(session: Session, wanted: Waiting) -> list[TakenWake]:
    leasing = asyncio.create_task(_leased(session, wanted))
    try:
        leased = await asyncio.shield(leasing)
    except asyncio.CancelledError:  # the reader has gone, perhaps while the lease was being written
        releasing = asyncio.create_task(_release(session, leasing))
        while not releasing.done():  # a cancelled anyio scope cancels again and again
            with suppress(asyncio.CancelledError):
                await asyncio.shield(releasing)
        raise
    for one in leased:
        session.service.metrics.fires(one.waited, one.change.fires)
    return [one.wake for one in leased]


async def _leased(session: Session, wanted: Waiting) -> list[Leased]:
    store = session.service.store
    waiting = await store.waiting(session.caller.owner, most=HANDED_OUT, **wanted._asdict())
    changes = [_recorded(session, fetch(alarm, fire, now=await store.now())) for alarm, fire in waiting]
    answers = await store.settle(changes) if changes else []
    leased = [at for at, answer in enumerate(answers) if answer.what == "applied"]
    key = (await store.access.report_keys()).current if leased else b""
    return [
        Leased(waiting[at][1], changes[at], await _taken(session, changes[at].after, changes[at].fires[0], key))
        for at in leased
    ]


def _recorded(session: Session, change: Change) -> Change:
    """With who fetched it, where that is known: the token of a wake outlives the token that it was fetched with.

    The event names no alarm: it would be among those that tell what became of one.
    """
    if not session.caller.token_id:
        return change
    [fire] = change.fires
    event = Event(at=fire.updated_at, what=FETCHED, owner_did=fire.owner_did, fire_id=fire.id, by=session.caller.name)
    return replace(change, events=(*change.events, event))


async def _release(session: Session, leasing: asyncio.Task[list[Leased]]) -> None:
    """Put back into the inbox what was leased to a reader who has gone, for the next one."""
    with suppress(StoreUnavailable):  # then it comes again when its lease ends
        left = {one.change.after.id: one for one in await leasing}
        store, alarms = session.service.store, [one.change.after for one in left.values()]
        while alarms:
            now = await store.now()
            changes = [unfetch(alarm, left[alarm.id].waited, now=now) for alarm in alarms]
            answers = await store.settle(changes)
            moved = [alarm.id for alarm, answer in zip(alarms, answers, strict=True) if answer.what != "applied"]
            alarms = [alarm for id in moved if (alarm := await _still_leased(session, left[id])) is not None]
        session.service.inbox_signal.ring(session.caller.owner)


async def _still_leased(session: Session, one: Leased) -> Alarm | None:
    """The alarm as it is now, where its wake is leased as it was: a worker may have claimed its next fire."""
    [given] = one.change.fires
    alarm, key = await session.service.store.get(given.alarm_id), (given.alarm_id, given.scheduled_for)
    known = (await session.service.store.fires_at([key])).get(key)
    return alarm if known == given else None


async def _taken(session: Session, alarm: Alarm, fire: Fire, key: bytes) -> TakenWake:
    place, token = ALONE, wake_token(key, fire.id)
    if alarm.kind == "cron":
        latest = await session.service.store.fires(FireQuery(alarm_id=alarm.id, limit=LATEST, most=EVIDENCE))
        place = place_in_series(alarm, fire, latest)
    if not may_have_missed(alarm, fire, alarm.updated_at):
        return TakenWake(alarm, fire, place=place, token=token)
    since = fire.scheduled_for + timedelta(milliseconds=1)
    skipped = await all_fires(session, FireQuery(alarm_id=alarm.id, statuses=("skipped",), since=since))
    return TakenWake(alarm, fire, missed=missed(skipped), place=place, token=token)


# A wake taken from the inbox, with the facts that a webhook has in its headers.

# Not what its owner paused, moved or skipped.
PASSED_OVER: Final = frozenset({"missed", "overlap", "expired", "budget"})


class PreviousFire(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The fire of the same series before a wake: what became of it."""

    fire_id: str
    status: FireStatus
    result: str = ""
    error: str = ""


class PlaceInSeries(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Which fire of its alarm a wake is, of how many at most, what came before it and what comes next."""

    number: int = 1
    max_fires: int | None = None
    previous: PreviousFire | None = None
    next_fire_at: datetime | None = None


ALONE: Final = PlaceInSeries()  # of an alarm that fires once


class TakenWake(tuple[Alarm, Fire]):
    """A wake taken from the inbox; it unpacks as (alarm, fire).

    `late_ms`: how long after its scheduled time it was taken. `missed`: how many later fires of its series came and
    went without a wake of their own by then. `attempt`: how often it has been handed out. `number`, `max_fires`,
    `previous`, `next_fire_at`: see PlaceInSeries. `token`, `author`, `ends_at`, `renewable`: as in a Wake.
    """

    late_ms: int
    missed: int
    place: PlaceInSeries
    token: str
    ends_at: datetime | None
    renewable: bool

    def __new__(
        cls, alarm: Alarm, fire: Fire, *, missed: int = 0, place: PlaceInSeries = ALONE, token: str = ""
    ) -> Self:
        made = super().__new__(cls, (alarm, fire))
        made.place = place
        made.token = token
        made.ends_at = alarm.policy.ends_at if alarm.kind == "cron" else None
        made.renewable = is_ending(replace(alarm, occurrence_at=fire.scheduled_for))
        handed_at = fire.delivered_at or fire.scheduled_for
        made.late_ms = max(0, unix_ms(handed_at) - unix_ms(fire.scheduled_for))
        made.missed = missed
        return made

    @property
    def alarm(self) -> Alarm:
        return self[0]

    @property
    def fire(self) -> Fire:
        return self[1]

    @property
    def author(self) -> Author:
        return author_of(self[0])

    @property
    def attempt(self) -> int:
        return self[1].attempts

    @property
    def signal(self) -> HeardSignal | None:
        """The signal that it comes for; None where its time had come."""
        return self[0].signal_of(self[1].scheduled_for)

    @property
    def prompt(self) -> str:
        """The wake as one text for a model, with what became of the fire before it."""
        alarm, fire, previous = *self, self.previous
        outcome = "" if previous is None else f"{previous.status}: {previous.error or previous.result}".rstrip(": ")
        return prompt(Wake(replace(alarm, occurrence_at=fire.scheduled_for)).content, previous=outcome)

    @property
    def number(self) -> int:
        return self.place.number

    @property
    def max_fires(self) -> int | None:
        return self.place.max_fires

    @property
    def previous(self) -> PreviousFire | None:
        return self.place.previous

    @property
    def next_fire_at(self) -> datetime | None:
        return self.place.next_fire_at


def place_in_series(alarm: Alarm, fire: Fire, latest: Sequence[Fire]) -> PlaceInSeries:
    """Where a fire that was handed out stands among its alarm's latest fires, newest first."""
    happened = [one for one in latest if one.status not in STEPPED_OVER]
    later = sum(one.scheduled_for > fire.scheduled_for for one in happened)
    before = next((one for one in happened if one.scheduled_for < fire.scheduled_for), None)
    return PlaceInSeries(
        number=max(1, alarm.fire_count - later),
        max_fires=alarm.policy.max_fires,
        previous=None
        if before is None
        else PreviousFire(fire_id=before.id, status=before.status, result=before.result, error=before.last_error),
        next_fire_at=alarm.next_fire_at if alarm.status == "active" else None,
    )


def may_have_missed(alarm: Alarm, fire: Fire, now: datetime) -> bool:
    """Whether the series came round again since: only then something can have been passed over."""
    uncounted = replace(alarm, fire_count=0)  # its last fire allowed has a past too
    after = following(uncounted, fire.scheduled_for)
    return after is not None and after <= now


def missed(skipped: Iterable[Fire | HistoryEntry]) -> int:
    """How many instants these skipped runs passed over without anybody having asked for it."""
    return sum(fire.count for fire in skipped if fire.status == "skipped" and fire.reason in PASSED_OVER)
