"""Set many alarms in one call, all of them or none: every fault is found before anything is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

from wakeful.alarm import Alarm, Wanted, differences
from wakeful.alarm.request import CreateRequest, OnConflict
from wakeful.errors import Conflict, WakefulError
from wakeful.service.caller import Caller
from wakeful.store import AlarmQuery, Store

Draw = Callable[[CreateRequest], Awaitable[tuple[Wanted, Alarm]]]


async def draw_all(store: Store, caller: Caller, asked: Sequence[CreateRequest], draw: Draw) -> list[Alarm]:
    """The alarms that these requests ask for. An error names the request it is about: `alarms[3].when`."""
    found: list[Alarm] = []
    for at, one in enumerate(asked):
        with _numbered(at, of=len(asked)):
            wanted, alarm = await draw(one)
            await _check_taken(store, caller, wanted, alarm, one.on_conflict, earlier=found)
            found.append(alarm)
    return found


@contextmanager
def _numbered(at: int, *, of: int) -> Iterator[None]:
    try:
        yield
    except WakefulError as error:
        if of > 1:
            error.field = f"alarms[{at}].{error.field}".rstrip(".")
        raise


async def _check_taken(
    store: Store,
    caller: Caller,
    wanted: Wanted,
    alarm: Alarm,
    on_conflict: OnConflict | None,
    *,
    earlier: Sequence[Alarm],
) -> None:
    """Refuse a key that another alarm has, also one of the same call."""
    key = alarm.idempotency_key
    is_accepted = on_conflict in ("return", "replace")
    if not key or (is_accepted and caller.wake is None):
        return
    known = [one for one in earlier if one.idempotency_key == key]
    query = AlarmQuery(owner=alarm.owner_did, key=key, limit=1)
    for one in known[:1] or await store.find(query):
        check_holder(caller, one, on_conflict)
        if not is_accepted:
            check_key(wanted, alarm, one, on_conflict)


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
