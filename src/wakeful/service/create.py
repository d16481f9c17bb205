"""The verbs that set alarms: one, many together, or many each on its own; and a copy that fires now."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, TypeVar, Unpack

from msgspec.structs import replace

from wakeful.alarm import (
    Alarm,
    fire_now,
)
from wakeful.alarm.arguments import When, argument_named, request_fields, set_arguments
from wakeful.alarm.create import TEXT_LIMIT, check_text
from wakeful.alarm.keywords import SetKeywords
from wakeful.alarm.lineage import author_of
from wakeful.alarm.request import CreateRequest, OnConflict
from wakeful.clock import LoopShare
from wakeful.errors import InvalidRequest, StoreUnavailable, TooMany, Unauthorized, WakefulError
from wakeful.service.answers import Created, Similar
from wakeful.service.building import Creation, DrawnAlarm, check_holder, check_key, check_on_conflict, check_taken
from wakeful.service.change import cancel_alarm, replace_alarm
from wakeful.service.notes import key_of_ended, notes_on
from wakeful.service.resolving import get_alarm
from wakeful.service.session import Session, in_transaction
from wakeful.service.wake_tokens import check_chain
from wakeful.store import Added

log = logging.getLogger("wakeful.client")
M = TypeVar("M", Created, Created | WakefulError)
SIMILAR_AMONG: Final = 100  # latest alarms of an owner that are looked at: every create pays for it


async def set_alarm(session: Session, when: When = "", wake_message: str = "", **fields: Unpack[SetKeywords]) -> Alarm:
    """Set an alarm. Give exactly one of `when`, `at`, `delay` and `cron`.

    >>> alarm = await alarms.set("tomorrow at 9am", "Check the grant portal", payload={"page": 3}, key="portal")
    >>> alarm.status
    'active'

    `when` is a text (phrase, ISO time or cron), unix seconds, a datetime, a timedelta from now on, or a time of
    day: the next one in the alarm's `timezone`.

    With a `key`, repeating the same call returns the same alarm, and a different call raises Conflict. Change that
    with `on_conflict`: "return" the existing alarm in any case, "replace" it, or always raise an "error".
    What the alarm itself does not say is logged by `wakeful.client`: where the existing alarm has ended, a warning
    that nothing will fire; where another alarm says the same, that at level info. `create` returns all of it.
    `created_by`, `created_via`: for whom your program acts, and through which of its own interfaces.
    """
    said, origin = set_arguments(when, wake_message, fields)
    try:
        asked = CreateRequest(**request_fields(said, creates=True))
        created = await _set(session, asked, origin)
    except WakefulError as error:
        raise argument_named(error, said) from None
    log_created(created, asked.on_conflict)
    return created.alarm


async def _set(session: Session, asked: CreateRequest, origin: tuple[str, str]) -> Created:
    """What `set` logs is looked for, and no more."""
    created = await _create(session, asked, origin)
    if not log.isEnabledFor(logging.INFO):  # to look costs a read
        return created
    return replace(created, similar=await _similar(session, asked, created))


async def create_alarm(session: Session, asked: CreateRequest, *, origin: tuple[str, str] = ("", "")) -> Created:
    """Set an alarm from a request. Once this returns, the alarm survives a crash of the process or the machine.

    >>> asked = wakeful.CreateRequest(wake_message="Check the grant portal", when="in 2 hours")
    >>> (await alarms.create(asked)).deduped
    False

    `on_conflict` works as in `set`. `origin`: created_by and created_via, if they differ from the caller's.
    The answer is complete: the `alarm`; `deduped`, whether its key was taken and it is the alarm that has it;
    `in_flight`; `notes`, what to know besides, in words; `similar`, another active alarm that says the same.
    """
    created = await _create(session, asked, origin)
    similar = await _similar(session, asked, created)
    return replace(await _noted_created(session, created, asked), similar=similar)


async def _noted_created(session: Session, created: Created, asked: CreateRequest) -> Created:
    return replace(created, notes=await notes_on(session.outside, created.alarm, asked))


async def _create(session: Session, asked: CreateRequest, origin: tuple[str, str]) -> Created:
    """Without notes, and without looking for a similar alarm."""
    check_on_conflict(asked.on_conflict)
    if in_transaction(session) and asked.on_conflict == "replace":
        raise InvalidRequest(
            "replace would read and write outside your transaction",
            field="on_conflict",
            fix="Give return or error.",
        )
    if asked.on_conflict == "return" and not in_transaction(session) and (known := await _keyed(session, asked)):
        return Created(known, deduped=True)
    creation = await Creation.begin(session.outside, session.caller, origin)
    drawn = await creation.draw(asked)
    alarm = drawn.alarm
    [added] = await session.service.store.add([alarm])
    session.service.metrics.created(alarm.created_via, not added.deduped)
    created = await _known(session, drawn, added.alarm) if added.deduped else Created(added.alarm)
    await _check_chain(session, [created])
    return created


async def _keyed(session: Session, asked: CreateRequest) -> Alarm | None:
    """The alarm that has the key already: whoever accepts it in any case is not refused for the rest of a request.

    The moment of a request that is repeated may have passed meanwhile.
    """
    key = (asked.idempotency_key or "").strip()
    check_text("idempotency_key", key, TEXT_LIMIT)
    found = await session.service.store.named(session.caller.owner, [key]) if key else []
    for known in found:
        check_holder(session.caller, known, "return")
    return found[0] if found else None


async def _check_chain(session: Session, made: Sequence[Created | WakefulError]) -> None:
    """Cancel what a wake has just set if its chain was cancelled meanwhile: that may not have found it."""
    if session.caller.wake is None:
        return
    try:
        await check_chain(session.service.store, session.caller.wake.fire_id)
    except Unauthorized:
        for one in made:
            if isinstance(one, Created):
                await cancel_alarm(session, one.alarm.id, reason="chain cancelled")
        raise


async def _known(session: Session, drawn: DrawnAlarm, known: Alarm) -> Created:
    """What becomes of an alarm whose key another one has."""
    on_conflict = drawn.asked.on_conflict
    check_holder(session.caller, known, on_conflict)
    if on_conflict == "replace":
        return await _replaced(session, drawn, known)
    check_key(drawn.wanted, drawn.alarm, known, on_conflict)
    return Created(known, deduped=True)


async def _replaced(session: Session, drawn: DrawnAlarm, known: Alarm) -> Created:
    replaced = await replace_alarm(session, known.id, drawn.alarm)
    return Created(replaced.alarm, deduped=True, in_flight=replaced.in_flight)


async def create_many(session: Session, asked: Sequence[CreateRequest]) -> list[Created]:
    """Set many alarms, or none if one request is invalid or has a key that is taken; `on_conflict` as in `set`.

    >>> asked = [wakeful.CreateRequest(wake_message=f"Read page {n}", when="in 1 hour") for n in (1, 2)]
    >>> len(await alarms.create_many(asked))
    2
    """

    creation = await Creation.begin(session.service, session.caller)
    drawn = await creation.draw_all(asked)
    try:
        await check_taken(session.service.store, session.caller, drawn)
    except WakefulError:
        creation.release(asked)
        raise
    alarms = [one.alarm for one in drawn]
    answers = await session.service.store.add(alarms)
    session.service.metrics.created(session.caller.via, sum(not added.deduped for added in answers))
    made: list[Created] = []
    for one, added in zip(drawn, answers, strict=True):
        is_replaced = added.deduped and one.asked.on_conflict == "replace"
        created = await _replaced(session, one, added.alarm) if is_replaced else Created(added.alarm, added.deduped)
        made.append(created)
    await _check_chain(session, made)
    return await _each_noted(session, made, asked)


async def create_each(session: Session, asked: Sequence[CreateRequest]) -> list[Created | WakefulError]:
    """Set many alarms, each on its own: in the place of one that is refused stands its error.

    >>> asked = [wakeful.CreateRequest(wake_message="Read page 1", when=when) for when in ("in 1 hour", "soonish")]
    >>> [isinstance(one, wakeful.Created) for one in await alarms.create_each(asked)]
    [True, False]
    """
    creation = await Creation.begin(session.service, session.caller)
    each = await creation.draw_each(asked)
    drawn = [one for one in each if isinstance(one, DrawnAlarm)]
    answers = await _added_each(session, [one.alarm for one in drawn])
    new = sum(isinstance(answer, Added) and not answer.deduped for answer in answers)
    session.service.metrics.created(session.caller.via, new)
    made = await _made_each(session, drawn, answers)
    await _check_chain(session, made)
    written = iter(await _each_noted(session, made, [one.asked for one in drawn]))
    return [next(written) if isinstance(one, DrawnAlarm) else one for one in each]


async def _each_noted(session: Session, made: Sequence[M], asked: Sequence[CreateRequest]) -> list[M | Created]:
    """With the notes of each, in shares of the event loop: reading times again is work."""
    noted: list[M | Created] = []
    share = LoopShare()
    for one, said in zip(made, asked, strict=True):
        noted.append(await _noted_created(session, one, said) if isinstance(one, Created) else one)
        if share.is_used_up():
            await share.give_way()
    return noted


async def _added_each(session: Session, alarms: Sequence[Alarm]) -> list[Added | WakefulError]:
    """Write them together; where the store refuses that, each on its own, to see which it does not take."""

    async def alone(alarm: Alarm) -> Added | WakefulError:
        try:
            [added] = await session.service.store.add([alarm])
        except WakefulError as error:
            return error
        return added

    try:
        return [*await session.service.store.add(alarms)]
    except StoreUnavailable:  # with the same ids: what was written all the same is found, not written twice
        return await asyncio.gather(*map(alone, alarms))


async def _made_each(
    session: Session, drawn: Sequence[DrawnAlarm], answers: Sequence[Added | WakefulError]
) -> list[Created | WakefulError]:
    async def known(one: DrawnAlarm, alarm: Alarm) -> Created | WakefulError:
        try:
            return await _known(session, one, alarm)
        except WakefulError as error:
            return error

    pairs = list(zip(drawn, answers, strict=True))
    deduped = [(one, added) for one, added in pairs if isinstance(added, Added) and added.deduped]
    settled = iter(await asyncio.gather(*(known(one, added.alarm) for one, added in deduped)))
    made: list[Created | WakefulError] = []
    for _, added in pairs:
        if isinstance(added, Added):
            outcome = next(settled) if added.deduped else Created(added.alarm)
            made.append(outcome)
        else:
            made.append(added)
    return made


async def _similar(session: Session, asked: CreateRequest, created: Created) -> Similar | None:
    """Another active alarm of the owner with the same message, time and target, of the latest ones.

    Nothing is read for a request with a key (it cannot be set twice) or with a time that counts from now (it is
    never the same twice). The alarm is already set, so None is also the answer when the store cannot be read.
    """
    if in_transaction(session) or created.deduped or asked.idempotency_key or asked.delay_seconds is not None:
        return None
    if (asked.when or "").startswith("in "):
        return None
    with suppress(StoreUnavailable, TooMany):
        found = await session.service.store.similar(created.alarm, among=SIMILAR_AMONG)
        return Similar.of(found) if found is not None and session.caller.reaches(found) else None
    return None


async def fire_copy(session: Session, id: str) -> Created:
    """Fire a one-shot copy of the alarm now; the alarm itself is not changed.

    >>> copy = (await alarms.fire(alarm.id)).alarm
    >>> copy.id == alarm.id
    False
    """
    alarm = await get_alarm(session, id)
    now = await session.service.now()
    # A copy has the words of who wrote them, whoever fires it; a task's copy stands for no task.
    via = session.caller.via if author_of(alarm) in ("owner", "task") else alarm.created_via
    copy = fire_now(alarm, id=session.service.ids.new(now), now=now, by=session.caller.owner, via=via)
    copy = replace(copy, generation=alarm.generation)  # firing starts no new chain
    await session.service.targets.admit(copy)
    if session.caller.limited:
        await session.service.limits.admit([copy], now=now)
    [added] = await session.service.store.add([copy])
    session.service.metrics.created(session.caller.via)
    return Created(added.alarm, notes=await notes_on(session.service, added.alarm))


def log_created(created: Created, on_conflict: OnConflict | None) -> None:
    """What `set` has to say besides the alarm, which is all that it returns."""
    about = {"alarm_id": created.alarm.id}
    if created.deduped and created.alarm.finished and on_conflict is None:  # whoever says "return" knows
        log.warning("%s", key_of_ended(created.alarm), extra=about)
    if created.similar is not None:
        log.info("%s", created.similar.note, extra=about)
