"""From the requests of one call to alarms: what they share is looked up once, and every fault names its request."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, get_args

from msgspec import Struct
from msgspec.structs import replace

from wakeful.alarm import Alarm, Origin, Wanted, create, differences
from wakeful.alarm.checks import check_gate
from wakeful.alarm.lineage import with_end
from wakeful.alarm.owner_settings import OwnerSettings
from wakeful.alarm.relative_moments import bound_meant
from wakeful.alarm.request import CreateRequest, OnConflict, wanted_alarm
from wakeful.clock import LoopShare
from wakeful.errors import Conflict, InvalidRequest, WakefulError
from wakeful.moments import whole_ms
from wakeful.service.caller import Caller
from wakeful.service.holidays import as_said, with_holidays
from wakeful.service.limits import chained, check_said_backoff
from wakeful.service.owner_settings import defaults_for
from wakeful.store import Store

if TYPE_CHECKING:
    from wakeful.service import Service


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
        """The alarm that is asked for. Nothing is written."""
        service, now = self._service, self.now
        wanted = self._wanted(asked)
        parent_fire = wanted.fields.get("parent_fire")
        origin = await self._chained(parent_fire) if parent_fire else self._origin
        alarm = create(wanted, origin, id=id or service.ids.new(now), now=now)
        if self._caller.wake is not None:
            alarm = with_end(alarm, service.settings.chain_series_lasts, now=now)
        check_gate(alarm, service.settings.checks)
        if (place := (alarm.target, alarm.conversation_id)) not in self._admitted:
            await service.targets.admit(alarm)
            self._admitted.add(place)
        return DrawnAlarm(asked, wanted, alarm)

    async def draw_all(self, asked: Sequence[CreateRequest]) -> list[DrawnAlarm]:
        """The same for many. Raises the first error, which names the request it is about: `alarms[3].when`."""
        drawn: list[DrawnAlarm] = []
        share = LoopShare()
        try:
            for one, id in zip(asked, self._service.ids.many(self.now, len(asked)), strict=True):
                drawn.append(await self.draw(one, id))
                if share.is_used_up():
                    await share.give_way()
        except WakefulError as error:
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
        kept = {alarm.idempotency_key: alarm for alarm in await store.keyed(caller.owner, sorted(keys))} if keys else {}
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
