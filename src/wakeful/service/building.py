"""Build the alarms of one call, which sets one or a thousand: `Creation`.

What they share is read once: the moment, the owner's settings, chains, which targets may be used, and keys (together).
A phrase that several requests contain is parsed once. Every error names its request. The event loop gets its turn every
millisecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Final, get_args

from msgspec import Raw, Struct
from msgspec.structs import replace

from wakeful.alarm import Alarm, Origin, Wanted, create, differences
from wakeful.alarm.checks import check_gate
from wakeful.alarm.create import TEXT_LIMIT, check_text
from wakeful.alarm.lineage import with_end
from wakeful.alarm.owner_settings import OwnerSettings
from wakeful.alarm.relative_moments import bound_meant
from wakeful.alarm.request import CreateRequest, OnConflict, wanted_alarm
from wakeful.clock import LoopShare
from wakeful.errors import Conflict, InvalidRequest, WakefulError
from wakeful.moments import whole_ms
from wakeful.runtime.cpu_time import in_thread
from wakeful.schedule import may_be_rule
from wakeful.service.caller import Caller
from wakeful.service.core import Service
from wakeful.service.holidays import as_said, with_holidays
from wakeful.service.limits import chained, check, check_said_backoff
from wakeful.service.owner_settings import defaults_for
from wakeful.store import Store

_ON_CONFLICT: Final = (None, *get_args(OnConflict))
KEYS_AT_ONCE: Final = 100  # looked up at once: what has them may be large


class DrawnAlarm(Struct, frozen=True):
    """An alarm that is to be set, with the request for it, and what that asks for in an alarm's own terms."""

    asked: CreateRequest
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
        return cls(service, caller, await service.owner_settings.of(caller.owner), await service.now(), origin)

    async def draw(self, asked: CreateRequest, id: str = "") -> DrawnAlarm:
        """The alarm that is asked for, admitted by every limit. Nothing is written.

        In the order of what it costs: what is counted, where it goes, what its time means, how often it fires.
        """
        await self._reserve([asked])
        try:
            return await self._draw(asked, id)
        except WakefulError:
            self.release([asked])
            raise

    async def _draw(self, asked: CreateRequest, id: str = "") -> DrawnAlarm:
        service, now = self._service, self.now
        wanted = self._wanted(asked)
        await self._admit_place(wanted.fields["target"], wanted.fields.get("conversation_id", ""))
        parent_fire = wanted.fields.get("parent_fire")
        origin = await self._chained(parent_fire) if parent_fire else self._origin
        build = partial(self._build, wanted, origin, id or service.ids.new(now))
        # What a rule costs is up to whoever wrote it: it is worked out beside the event loop.
        alarm = await in_thread(build) if may_be_rule(wanted.time.cron_expr or wanted.time.when) else build()
        return DrawnAlarm(asked, wanted, alarm)

    def _build(self, wanted: Wanted, origin: Origin, id: str) -> Alarm:
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

    async def _reserve(self, asked: Sequence[CreateRequest]) -> None:
        if self._caller.limited:
            sizes = sum(map(_size, asked))
            await self._service.limits.reserve(self._caller.owner, len(asked), sizes, now=self.now)

    def release(self, asked: Sequence[CreateRequest]) -> None:
        """Take back what was counted for requests that are refused after all."""
        if self._caller.limited:
            self._service.limits.release(self._caller.owner, len(asked), sum(map(_size, asked)))

    async def draw_all(self, asked: Sequence[CreateRequest]) -> list[DrawnAlarm]:
        """The same for many. Raises the first error, which names the request it is about: `alarms[3].when`."""
        drawn: list[DrawnAlarm] = []
        share = LoopShare()
        await self._reserve(asked)
        try:
            for one, id in zip(asked, self._service.ids.many(self.now, len(asked)), strict=True):
                drawn.append(await self._draw(one, id))
                if share.is_used_up():
                    await share.give_way()
        except WakefulError as error:
            self.release(asked)
            raise numbered(error, len(drawn), of=len(asked)) from None
        return drawn

    async def draw_each(self, asked: Sequence[CreateRequest]) -> list[DrawnAlarm | WakefulError]:
        """The same for many, each on its own: an error stands in the place of its alarm."""
        drawn: list[DrawnAlarm | WakefulError] = []
        share = LoopShare()
        for one, id in zip(asked, self._service.ids.many(self.now, len(asked)), strict=True):
            try:
                check_on_conflict(one.on_conflict)
                drawn.append(await self.draw(one, id))
            except WakefulError as error:
                drawn.append(error)
            if share.is_used_up():
                await share.give_way()
        return drawn

    def _wanted(self, asked: CreateRequest) -> Wanted:
        caller, settings = self._caller, self._service.settings
        if caller.wake is not None:  # whatever the caller says
            asked = replace(asked, parent_fire=caller.wake.fire_id)
        when, skips_holidays = as_said(asked.when, self._own, settings)
        asked = asked if when == asked.when else replace(asked, when=when)
        try:
            wanted = wanted_alarm(asked, self._usual)
        except InvalidRequest as error:
            timezone = asked.timezone or self._own.timezone
            error.repair = error.repair or bound_meant(error, asked, timezone=timezone, now=self.now)
            raise
        said = wanted.fields["policy"]
        policy = with_holidays(said, said=skips_holidays, own=self._own, settings=settings)
        wanted = wanted if policy is said else replace(wanted, fields={**wanted.fields, "policy": policy})
        check_said_backoff(caller, asked.policy, policy)
        return wanted

    async def _chained(self, parent_fire: str) -> Origin:
        if (known := self._chains.get(parent_fire)) is None:
            known = self._chains[parent_fire] = await chained(self._service.store, self._origin, parent_fire)
        return known


def _size(asked: CreateRequest) -> int:
    """Bytes of the message and payload of the alarm that is asked for, about."""
    payload = len(bytes(asked.payload)) if isinstance(asked.payload, Raw) else 2
    return len((asked.wake_message or "").encode("utf-8", "replace")) + payload


def numbered(error: WakefulError, at: int, *, of: int) -> WakefulError:
    """The error with the number of the request it is about, where there are several."""
    if of > 1:
        error.field = f"alarms[{at}].{error.field}".rstrip(".")
    return error


async def check_taken(store: Store, caller: Caller, drawn: Sequence[DrawnAlarm]) -> None:
    """Refuse keys that other alarms have, also others of the same call. They are looked up together."""
    if not any(one.alarm.idempotency_key for one in drawn):
        return
    earlier: dict[str, Alarm] = {}
    for start in range(0, len(drawn), KEYS_AT_ONCE):
        some = drawn[start : start + KEYS_AT_ONCE]
        keys = {one.alarm.idempotency_key for one in some if _is_checked(caller, one)}
        kept = {alarm.idempotency_key: alarm for alarm in await store.named(caller.owner, sorted(keys))} if keys else {}
        for at, one in enumerate(some, start):
            key = one.alarm.idempotency_key
            known = earlier.get(key) or kept.get(key)
            earlier.setdefault(key, one.alarm)
            if known is not None and _is_checked(caller, one):
                _check_known(caller, one, known, at=at, of=len(drawn))


def _is_checked(caller: Caller, one: DrawnAlarm) -> bool:
    is_accepted = one.asked.on_conflict in ("return", "replace")
    return bool(one.alarm.idempotency_key) and (not is_accepted or caller.wake is not None)


def _check_known(caller: Caller, one: DrawnAlarm, known: Alarm, *, at: int, of: int) -> None:
    on_conflict = one.asked.on_conflict
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
