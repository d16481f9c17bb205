"""The verbs that set alarms: one, many together, or many each on its own; and a copy that fires now."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Final, TypeVar, Unpack, get_args

from msgspec import Raw, Struct
from msgspec.structs import replace

from wakeful.clock import LoopShare
from wakeful.errors import Conflict, Forbidden, InvalidRequest, StoreUnavailable, TooMany, Unauthorized, WakefulError
from wakeful.model.alarm import Alarm
from wakeful.model.keywords import SetKeywords
from wakeful.model.owner_settings import OwnerSettings
from wakeful.model.requests import CreateRequest, OnConflict, Origin, ReportRequest, Wanted, When
from wakeful.moments import whole_ms
from wakeful.rules.arguments import argument_named, request_fields, set_arguments
from wakeful.rules.checks import check_gate
from wakeful.rules.create import TEXT_LIMIT, check_text, create, differences
from wakeful.rules.edit import fire_now
from wakeful.rules.lineage import author_of, with_end
from wakeful.rules.report import check_reportable
from wakeful.rules.wanted import bound_meant, wanted_alarm
from wakeful.runtime.cpu_time import in_thread
from wakeful.schedule import may_be_rule
from wakeful.service.answers import Created, Similar
from wakeful.service.caller import Caller
from wakeful.service.change import cancel_alarm, replace_alarm
from wakeful.service.core import Service, Session, in_transaction
from wakeful.service.holidays import as_said, with_holidays
from wakeful.service.limits import chained, check, check_said_backoff
from wakeful.service.notes import key_of_ended, notes_on
from wakeful.service.owner_settings import defaults_for
from wakeful.service.report import report_fire
from wakeful.service.resolving import get_alarm, get_fire
from wakeful.service.tokens import check_chain
from wakeful.store import Added, Store

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
        request = CreateRequest(**request_fields(said, creates=True))
        created = await _set(session, request, origin)
    except WakefulError as error:
        raise argument_named(error, said) from None
    log_created(created, request.on_conflict)
    return created.alarm


async def _set(session: Session, request: CreateRequest, origin: tuple[str, str]) -> Created:
    """What `set` logs is looked for, and no more."""
    created = await _create(session, request, origin)
    if not log.isEnabledFor(logging.INFO):  # to look costs a read
        return created
    return replace(created, similar=await _similar(session, request, created))


async def create_alarm(session: Session, request: CreateRequest, *, origin: tuple[str, str] = ("", "")) -> Created:
    """Set an alarm from a request. Once this returns, the alarm survives a crash of the process or the machine.

    >>> request = wakeful.CreateRequest(wake_message="Check the grant portal", when="in 2 hours")
    >>> (await alarms.create(request)).deduped
    False

    `on_conflict` works as in `set`. `origin`: created_by and created_via, if they differ from the caller's.
    The answer is complete: the `alarm`; `deduped`, whether its key was taken and it is the alarm that has it;
    `in_flight`; `notes`, what to know besides, in words; `similar`, another active alarm that says the same.
    """
    created = await _create(session, request, origin)
    similar = await _similar(session, request, created)
    return replace(created, notes=await notes_on(session.outside, created.alarm, request), similar=similar)


async def _create(session: Session, request: CreateRequest, origin: tuple[str, str]) -> Created:
    """Without notes, and without looking for a similar alarm."""
    check_on_conflict(request.on_conflict)
    if in_transaction(session) and request.on_conflict == "replace":
        raise InvalidRequest(
            "replace would read and write outside your transaction",
            field="on_conflict",
            fix="Give return or error.",
        )
    if request.on_conflict == "return" and not in_transaction(session) and (known := await _keyed(session, request)):
        return Created(known, deduped=True)
    creation = await Creation.begin(session.outside, session.caller, origin)
    built = await creation.build(request)
    alarm = built.alarm
    [added] = await session.service.store.add([alarm])
    session.service.metrics.created(alarm.created_via, not added.deduped)
    created = await _known(session, built, added.alarm) if added.deduped else Created(added.alarm)
    await _check_chain(session, [created])
    return created


async def _keyed(session: Session, request: CreateRequest) -> Alarm | None:
    """The alarm that has the key already: whoever accepts it in any case is not refused for the rest of a request.

    The moment of a request that is repeated may have passed meanwhile.
    """
    key = (request.idempotency_key or "").strip()
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


async def _known(session: Session, built: BuiltAlarm, known: Alarm) -> Created:
    """What becomes of an alarm whose key another one has."""
    on_conflict = built.request.on_conflict
    check_holder(session.caller, known, on_conflict)
    if on_conflict == "replace":
        return await _replaced(session, built, known)
    check_key(built.wanted, built.alarm, known, on_conflict)
    return Created(known, deduped=True)


async def _replaced(session: Session, built: BuiltAlarm, known: Alarm) -> Created:
    replaced = await replace_alarm(session, known.id, built.alarm)
    return Created(replaced.alarm, deduped=True, in_flight=replaced.in_flight)


async def create_many(session: Session, requests: Sequence[CreateRequest]) -> list[Created]:
    """Set many alarms, or none if one request is invalid or has a key that is taken; `on_conflict` as in `set`.

    >>> requests = [wakeful.CreateRequest(wake_message=f"Read page {n}", when="in 1 hour") for n in (1, 2)]
    >>> len(await alarms.create_many(requests))
    2
    """

    creation = await Creation.begin(session.service, session.caller)
    built = await creation.build_all(requests)
    try:
        await check_taken(session.service.store, session.caller, built)
    except WakefulError:
        creation.release(requests)
        raise
    alarms = [one.alarm for one in built]
    answers = await session.service.store.add(alarms)
    session.service.metrics.created(session.caller.via, sum(not added.deduped for added in answers))
    made: list[Created] = []
    for one, added in zip(built, answers, strict=True):
        is_replaced = added.deduped and one.request.on_conflict == "replace"
        created = await _replaced(session, one, added.alarm) if is_replaced else Created(added.alarm, added.deduped)
        made.append(created)
    await _check_chain(session, made)
    return await _each_noted(session, made, requests)


async def create_each(session: Session, requests: Sequence[CreateRequest]) -> list[Created | WakefulError]:
    """Set many alarms, each on its own: in the place of one that is refused stands its error.

    >>> requests = [wakeful.CreateRequest(wake_message="Read page 1", when=when) for when in ("in 1 hour", "soonish")]
    >>> [isinstance(one, wakeful.Created) for one in await alarms.create_each(requests)]
    [True, False]
    """
    creation = await Creation.begin(session.service, session.caller)
    each = await creation.draw_each(requests)
    built = [one for one in each if isinstance(one, BuiltAlarm)]
    answers = await _added_each(session, [one.alarm for one in built])
    new = sum(isinstance(answer, Added) and not answer.deduped for answer in answers)
    session.service.metrics.created(session.caller.via, new)
    made = await _made_each(session, built, answers)
    await _check_chain(session, made)
    written = iter(await _each_noted(session, made, [one.request for one in built]))
    return [next(written) if isinstance(one, BuiltAlarm) else one for one in each]


async def _each_noted(session: Session, made: Sequence[M], requests: Sequence[CreateRequest]) -> list[M | Created]:
    """With the notes of each, in shares of the event loop: reading times again is work."""
    noted: list[M | Created] = []
    share = LoopShare()
    for one, said in zip(made, requests, strict=True):
        if isinstance(one, Created):
            noted.append(replace(one, notes=await notes_on(session.service, one.alarm, said)))
        else:
            noted.append(one)
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
    session: Session, built: Sequence[BuiltAlarm], answers: Sequence[Added | WakefulError]
) -> list[Created | WakefulError]:
    async def known(one: BuiltAlarm, alarm: Alarm) -> Created | WakefulError:
        try:
            return await _known(session, one, alarm)
        except WakefulError as error:
            return error

    pairs = list(zip(built, answers, strict=True))
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


async def _similar(session: Session, request: CreateRequest, created: Created) -> Similar | None:
    """Another active alarm of the owner with the same message, time and target, of the latest ones.

    Nothing is read for a request with a key (it cannot be set twice) or with a time that counts from now (it is
    never the same twice). The alarm is already set, so None is also the answer when the store cannot be read.
    """
    if in_transaction(session) or created.deduped or request.idempotency_key or request.delay_seconds is not None:
        return None
    if (request.when or "").startswith("in "):
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
    copy = await _copied(session, await get_alarm(session, id))
    return Created(copy, notes=await notes_on(session.service, copy))


async def hand_over(session: Session, fire_id: str, target: str) -> Created:
    """Wake another target in place of the one that has a wake, which is reported as completed with that.

    >>> copy = (await alarms.hand_over(wake.fire.id, "inbox")).alarm
    >>> copy.target
    'inbox'

    Its alarm is not changed. The answer is the alarm of the new wake; asked again, it is the same one.
    """
    if session.caller.wake is not None:
        await get_fire(session, fire_id)  # another chain's is not found
        fix = "Set an alarm for that target, and report what became of this wake."
        raise Forbidden("the token of a wake cannot hand it over", field="Authorization", fix=fix)
    check_text("target", target, TEXT_LIMIT)
    await session.service.targets.admit_use(session.caller.owner, target, "")
    fire = await get_fire(session, fire_id)
    check_reportable(fire)
    alarm = await get_alarm(session, fire.alarm_id)
    copy = await _copied(session, alarm, target=target, idempotency_key=f"handed over {fire.id}")
    done = ReportRequest(outcome="completed", result=f"handed over to {target!r}: alarm {copy.id}")
    await report_fire(session, fire.id, done)
    return Created(copy, notes=await notes_on(session.service, copy))


async def _copied(session: Session, alarm: Alarm, **changed: str) -> Alarm:
    """A copy of an alarm that is due now, written; where its key is known already, the alarm that has it."""
    now = await session.service.now()
    # A copy has the words of who wrote them, whoever fires it; a task's copy stands for no task.
    via = session.caller.via if author_of(alarm) in ("owner", "task") else alarm.created_via
    copy = fire_now(alarm, id=session.service.ids.new(now), now=now, by=session.caller.owner, via=via)
    copy = replace(copy, generation=alarm.generation, **changed)  # firing starts no new chain
    await session.service.targets.admit(copy)
    if session.caller.limited:
        await session.service.limits.admit([copy], now=now)
    [added] = await session.service.store.add([copy])
    session.service.metrics.created(session.caller.via, not added.deduped)
    return added.alarm


def log_created(created: Created, on_conflict: OnConflict | None) -> None:
    """What `set` has to say besides the alarm, which is all that it returns."""
    about = {"alarm_id": created.alarm.id}
    if created.deduped and created.alarm.finished and on_conflict is None:  # whoever says "return" knows
        log.warning("%s", key_of_ended(created.alarm), extra=about)
    if created.similar is not None:
        log.info("%s", created.similar.note, extra=about)


# Build the alarms of one call, which sets one or a thousand: `Creation`.
#
# What they share is read once: the moment, the owner's settings, chains, which targets may be used, and keys
# (together). A phrase that several requests contain is parsed once. Every error names its request. The event loop
# gets its turn every millisecond.

_ON_CONFLICT: Final = (None, *get_args(OnConflict))
KEYS_AT_ONCE: Final = 100  # looked up at once: what has them may be large


class BuiltAlarm(Struct, frozen=True):
    """An alarm that is to be set, with the request for it, and what that asks for in an alarm's own terms."""

    request: CreateRequest
    wanted: Wanted
    alarm: Alarm


class Creation:
    """One call that sets alarms, from its moment on."""

    def __init__(
        self, service: Service, caller: Caller, own: OwnerSettings, now: datetime, origin: tuple[str, str]
    ) -> None:
        by, via = origin
        self._service = service
        self._caller = caller
        self._own = own
        self._usual = defaults_for(service.defaults, own)
        self._origin = Origin(owner_did=caller.owner, created_by=by or caller.owner, created_via=via or caller.via)
        self._chains: dict[str, Origin] = {}  # by the wake that led to an alarm
        self._admitted: set[tuple[str, str]] = set()  # targets with their conversations
        self.now = whole_ms(now)

    @classmethod
    async def begin(cls, service: Service, caller: Caller, origin: tuple[str, str] = ("", "")) -> Creation:
        known = await service.owner_settings.read(caller.owner)
        return cls(service, caller, known.counting, await service.now(), origin)

    async def build(self, request: CreateRequest, id: str = "") -> BuiltAlarm:
        """The alarm that is asked for, admitted by every limit. Nothing is written.

        In the order of what it costs: what is counted, where it goes, what its time means, how often it fires.
        """
        await self._reserve([request])
        try:
            return await self._build(request, id)
        except WakefulError:
            self.release([request])
            raise

    async def _build(self, request: CreateRequest, id: str = "") -> BuiltAlarm:
        service, now = self._service, self.now
        wanted = self._wanted(request)
        await self._admit_place(wanted.fields["target"], wanted.fields.get("conversation_id", ""))
        parent_fire = wanted.fields.get("parent_fire")
        origin = await self._chained(parent_fire) if parent_fire else self._origin
        build = partial(self._alarm_of, wanted, origin, id or service.ids.new(now))
        # What a rule costs is up to whoever wrote it: it is worked out beside the event loop.
        alarm = await in_thread(build) if may_be_rule(wanted.time.cron_expr or wanted.time.when) else build()
        return BuiltAlarm(request, wanted, alarm)

    def _alarm_of(self, wanted: Wanted, origin: Origin, id: str) -> Alarm:
        service, now = self._service, self.now
        alarm = create(wanted, origin, id=id, now=now)
        if self._caller.wake is not None:
            alarm = with_end(alarm, service.settings.chain_series_lasts, now=now)
        check_gate(alarm, service.settings.checks)
        if self._caller.limited:
            check(alarm, service.settings, now=now)
        return alarm

    async def _admit_place(self, target: str, conversation_id: str) -> None:
        if (place := (target, conversation_id)) in self._admitted:
            return
        check_text("target", target, TEXT_LIMIT)
        check_text("conversation_id", conversation_id, TEXT_LIMIT)
        await self._service.targets.admit_use(self._caller.owner, target, conversation_id)
        self._admitted.add(place)

    async def _reserve(self, requests: Sequence[CreateRequest]) -> None:
        if self._caller.limited:
            sizes = sum(map(_size, requests))
            await self._service.limits.reserve(self._caller.owner, len(requests), sizes, now=self.now)

    def release(self, requests: Sequence[CreateRequest]) -> None:
        """Take back what was counted for requests that are refused after all."""
        if self._caller.limited:
            self._service.limits.release(self._caller.owner, len(requests), sum(map(_size, requests)))

    async def build_all(self, requests: Sequence[CreateRequest]) -> list[BuiltAlarm]:
        """The same for many. Raises the first error, which names the request it is about: `alarms[3].when`."""
        built: list[BuiltAlarm] = []
        share = LoopShare()
        await self._reserve(requests)
        try:
            for one, id in zip(requests, self._service.ids.many(self.now, len(requests)), strict=True):
                built.append(await self._build(one, id))
                if share.is_used_up():
                    await share.give_way()
        except WakefulError as error:
            self.release(requests)
            raise numbered(error, len(built), of=len(requests)) from None
        return built

    async def draw_each(self, requests: Sequence[CreateRequest]) -> list[BuiltAlarm | WakefulError]:
        """The same for many, each on its own: an error stands in the place of its alarm."""
        built: list[BuiltAlarm | WakefulError] = []
        share = LoopShare()
        for one, id in zip(requests, self._service.ids.many(self.now, len(requests)), strict=True):
            try:
                check_on_conflict(one.on_conflict)
                built.append(await self.build(one, id))
            except WakefulError as error:
                built.append(error)
            if share.is_used_up():
                await share.give_way()
        return built

    def _wanted(self, request: CreateRequest) -> Wanted:
        caller, settings = self._caller, self._service.settings
        if caller.wake is not None:  # whatever the caller says
            request = replace(request, parent_fire=caller.wake.fire_id)
        when, skips_holidays = as_said(request.when, self._own, settings)
        request = request if when == request.when else replace(request, when=when)
        try:
            wanted = wanted_alarm(request, self._usual)
        except InvalidRequest as error:
            timezone = request.timezone or self._own.timezone
            error.repair = error.repair or bound_meant(error, request, timezone=timezone, now=self.now)
            raise
        said = wanted.fields["policy"]
        policy = with_holidays(said, said=skips_holidays, own=self._own, settings=settings)
        wanted = wanted if policy is said else replace(wanted, fields={**wanted.fields, "policy": policy})
        check_said_backoff(caller, request.policy, policy)
        return wanted

    async def _chained(self, parent_fire: str) -> Origin:
        if (known := self._chains.get(parent_fire)) is None:
            known = self._chains[parent_fire] = await chained(self._service.store, self._origin, parent_fire)
        return known


def _size(request: CreateRequest) -> int:
    """Bytes of the message and payload of the alarm that is asked for, about."""
    payload = len(bytes(request.payload)) if isinstance(request.payload, Raw) else 2
    return len((request.wake_message or "").encode("utf-8", "replace")) + payload


def numbered(error: WakefulError, at: int, *, of: int) -> WakefulError:
    """The error with the number of the request it is about, where there are several."""
    if of > 1:
        error.field = f"alarms[{at}].{error.field}".rstrip(".")
    return error


async def check_taken(store: Store, caller: Caller, built: Sequence[BuiltAlarm]) -> None:
    """Refuse keys that other alarms have, also others of the same call. They are looked up together."""
    if not any(one.alarm.idempotency_key for one in built):
        return
    earlier: dict[str, Alarm] = {}
    for start in range(0, len(built), KEYS_AT_ONCE):
        some = built[start : start + KEYS_AT_ONCE]
        keys = {one.alarm.idempotency_key for one in some if _is_checked(caller, one)}
        kept = {alarm.idempotency_key: alarm for alarm in await store.named(caller.owner, sorted(keys))} if keys else {}
        for at, one in enumerate(some, start):
            key = one.alarm.idempotency_key
            known = earlier.get(key) or kept.get(key)
            earlier.setdefault(key, one.alarm)
            if known is not None and _is_checked(caller, one):
                _check_known(caller, one, known, at=at, of=len(built))


def _is_checked(caller: Caller, one: BuiltAlarm) -> bool:
    is_accepted = one.request.on_conflict in ("return", "replace")
    return bool(one.alarm.idempotency_key) and (not is_accepted or caller.wake is not None)


def _check_known(caller: Caller, one: BuiltAlarm, known: Alarm, *, at: int, of: int) -> None:
    on_conflict = one.request.on_conflict
    try:
        check_holder(caller, known, on_conflict)
        if on_conflict != "replace":
            check_key(one.wanted, one.alarm, known, on_conflict)
    except WakefulError as error:
        raise numbered(error, at, of=of) from None


def check_on_conflict(given: str | None) -> None:
    if given not in _ON_CONFLICT:
        raise InvalidRequest(f"{given!r} is not accepted", field="on_conflict", fix="Give return, replace or error.")


def check_holder(caller: Caller, known: Alarm, on_conflict: OnConflict | None) -> None:
    """Refuse a key whose alarm is out of the caller's reach, without saying anything of that alarm."""
    if caller.reaches(known) and (on_conflict != "replace" or caller.may_replace(known)):
        return
    raise Conflict(
        f"the key {known.idempotency_key!r} belongs to an alarm that no wake of this chain has set",
        field="idempotency_key",
        fix="Use another key, or a token of the owner.",
    )


def check_key(wanted: Wanted, alarm: Alarm, known: Alarm, on_conflict: OnConflict | None) -> None:
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
