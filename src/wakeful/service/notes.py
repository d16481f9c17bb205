"""What a caller should know about an alarm besides its fields.

An assumed zone, moved times, how often a series wakes, a target nobody serves, a key whose alarm has ended: shown by
every interface, in `notes`, while whoever set the alarm can still do something about it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import Final

from wakeful.errors import InvalidSchedule, StoreUnavailable, TooMany
from wakeful.model.alarm import Alarm
from wakeful.model.owner_settings import OwnerSettings
from wakeful.model.requests import CreateRequest, EditRequest
from wakeful.rules.attempts import in_hand
from wakeful.rules.budget import wake_notes
from wakeful.rules.create import bounds_in_words
from wakeful.rules.lineage import end_note
from wakeful.rules.plan import coming, holiday_at, holiday_problem, keeps_holidays
from wakeful.rules.signals import signal_notes
from wakeful.runtime.cpu_time import in_thread
from wakeful.schedule import Understood, describe, is_interval, is_rule, parse, zone
from wakeful.schedule.days_off import with_working_days
from wakeful.schedule.descriptions import moment as in_words
from wakeful.schedule.descriptions import remarks
from wakeful.schedule.names import listed
from wakeful.schedule.times_of_day import time_of_day
from wakeful.schedule.zones import by_zone_rules
from wakeful.service.core import Service
from wakeful.service.owner_settings import KnownSettings
from wakeful.store import FireQuery

# Words that can be remarked on: weekdays, dates that elsewhere are read the other way round, hours from 1 to 5.
_AFTERNOON: Final = (
    r"(?:[1-5]|one|two|three|four|five)"
    r"(?! ?(?:[smhdwy]|secs?|mins?|hrs?|seconds?|minutes?|hours?|days?|weeks?|months?|years?)\b)\b"
)
_DOUBTED: Final = re.compile(
    rf"\b(?:sun|mon|tue|wed|thu|fri|sat|[0-9]{{1,2}}(?:/[0-9]|[.\-][0-9]{{1,2}}[.\-])|{_AFTERNOON})", re.IGNORECASE
)
_DOUBTED_HOUR: Final = re.compile(rf"\b{_AFTERNOON}", re.IGNORECASE)
_ON_HOLIDAY: Final = {
    "skip": "is skipped",
    "next_working_day": "fires on the next working day",
    "previous_working_day": "fires on the working day before",
}
DUE_LOOKED_AT: Final = 100
UNREAD_AFTER: Final = timedelta(days=1)  # a wake that waits so long in an inbox says that nobody reads it
FIRES_LOOKED_AT: Final = 200  # of an owner, the latest: whether one is with a reader
_WEIGHT: Final = 1_000_000  # characters of rows that are read for it
_MS: Final = timedelta(milliseconds=1)
_CHANGE_WITHIN: Final = timedelta(hours=25)
_LONGEST_WORDS: Final = 300  # characters of a rhythm in a note


async def notes_on(
    service: Service, alarm: Alarm, request: EditRequest | None = None, before: Alarm | None = None
) -> list[str]:
    """The notes on an alarm as it is now.

    `asked`: the request that it has its time from, if that was just made. `before`: what it was, if that changed it.
    """
    if alarm.finished:
        return _ended(alarm, request)
    owner = await _settings_of(service, alarm.owner_did)
    tell = partial(_of_its_time, service, alarm, request, before, owner)
    is_costly = alarm.kind == "cron" and is_rule(alarm.cron_expr)  # what a rule costs is up to its writer
    found = await in_thread(tell) if is_costly else tell()
    if alarm.status != "active":
        return found
    try:
        if not await service.targets.is_served(alarm.target):
            found.append(f"No running worker serves {alarm.target!r} yet: start one with `wakeful serve`.")
        found += await _unread(service, alarm)
    except (StoreUnavailable, TooMany):  # what was done is done: it is told all the same
        pass
    return found


async def _unread(service: Service, alarm: Alarm) -> list[str]:
    """Whether a wake waits in the inbox for a day already: then nobody reads it, and this one will wait as well."""
    if alarm.target not in service.settings.inboxes:
        return []
    since = await service.unread.since(alarm.owner_did, alarm.target, before=await service.now() - UNREAD_AFTER)
    if since is None:
        return []
    what = f"Nobody has taken a wake from the inbox {alarm.target!r} that waits there since {since.isoformat()}"
    return [f"{what}: is it read? Give another target, or read it with alarm_inbox or `wakeful wait`."]


def _of_its_time(
    service: Service, alarm: Alarm, request: EditRequest | None, before: Alarm | None, owner: KnownSettings
) -> list[str]:
    found = [
        *_changed(before, alarm, request),
        *_assumed_zone(alarm, request, owner),
        *_remarks(alarm, request, owner.counting.date_order, service.defaults.bare_day),
        *_said_bounds(alarm, request),
    ]
    if alarm.kind == "cron" and alarm.status == "active":
        found += _holiday_notes(alarm, request)
        found += wake_notes(alarm, service.budget.limits_of(alarm.owner_did))
        found += filter(None, [end_note(alarm)])
    return [*found, *signal_notes(alarm)]


async def due_notes(service: Service, owner: str, target: str = "") -> list[str]:
    """What is due for an owner and not delivered yet, of one target or of all; nothing where all is well.

    Of an inbox also which of its wakes are with a reader.
    """
    store, now = service.store, await service.store.now()
    due = await store.agenda(owner=owner, until=now + _MS, limit=DUE_LOOKED_AT, most=_WEIGHT)
    found: list[str] = []
    for name in sorted({alarm.target for alarm in due if target in ("", alarm.target)}):
        late = [alarm for alarm in due if alarm.target == name]
        what = f"{len(late)} alarms are" if len(late) > 1 else "1 alarm is"
        since = f"{what} due for {name!r}, the first since {late[0].next_fire_at.isoformat()}"
        if await service.targets.is_served(name):
            found.append(f"{since}, and about to be delivered.")
        else:
            found.append(f"{since}, but no running worker delivers there (`wakeful serve`).")
    return [*found, *(await _with_readers(service, owner, target, now) if target in service.settings.inboxes else ())]


async def _with_readers(service: Service, owner: str, target: str, now: datetime) -> list[str]:
    """Which wakes of an inbox were taken and not reported yet, by this reader or another; of the latest fires alone."""
    query = FireQuery(
        owner=owner,
        target=target,
        statuses=("delivered",),
        limit=DUE_LOOKED_AT,
        most=_WEIGHT,
        look_at=FIRES_LOOKED_AT,
    )
    found = await service.store.fires(query)
    taken = sorted((fire.report_by, fire.id) for fire in found if fire.report_by is not None and in_hand(fire, now))
    if not taken:
        return []
    until, fire_id = taken[0]
    if len(taken) == 1:
        return [f"1 wake is with a reader who took it before, until {until.isoformat()}: {fire_id}."]
    return [
        f"{len(taken)} wakes are with readers who took them before, the first until {until.isoformat()}: {fire_id}."
    ]


def _ended(alarm: Alarm, request: EditRequest | None) -> list[str]:
    """A key that was repeated after its alarm has ended: the answer is that alarm, and it will not fire."""
    is_repeated = (
        isinstance(request, CreateRequest) and request.idempotency_key and request.on_conflict in (None, "return")
    )
    return [key_of_ended(alarm)] if is_repeated else []


def key_of_ended(alarm: Alarm) -> str:
    again = 'Nothing will fire: to set it anew, give on_conflict "replace", or use another key.'
    return f"Alarm {alarm.id} had this key and is {alarm.status}: nothing was set. {again}"


def _changed(before: Alarm | None, alarm: Alarm, request: EditRequest | None) -> list[str]:
    """What an edit made of the time besides: another kind, or the same time of day on another day."""
    if before is None:
        return []
    if alarm.kind != before.kind:
        now_it = "fires once and never again" if alarm.kind == "once" else "is a series"
        return [f"It was {_words(before)}, and now it {now_it}."]
    is_time_of_day = request is not None and bool(request.when) and time_of_day(request.when or "") is not None
    if not is_time_of_day or _day(alarm) == _day(before):
        return []
    return [f"It was {_words(before)}: a time of day alone is the next one. Give the day as well."]


def _words(alarm: Alarm) -> str:
    if alarm.fire_at is not None:
        return in_words(alarm.fire_at, alarm.timezone)
    return describe(alarm.cron_expr, alarm.timezone)[:_LONGEST_WORDS]


def _day(alarm: Alarm) -> date | None:
    """The date on which an alarm that fires once does, where it is; None for a series."""
    return None if alarm.fire_at is None else alarm.fire_at.astimezone(zone(alarm.timezone)).date()


def _holiday_notes(alarm: Alarm, request: EditRequest | None) -> list[str]:
    """Whose holidays a series keeps is said when it is set, where its next fire is one, or where they are not known."""
    if problem := holiday_problem(alarm):
        return [f"It fires on holidays too: {problem}."]
    return [*_whose_holidays(alarm, request), *_next_holiday(alarm)]


def _whose_holidays(alarm: Alarm, request: EditRequest | None) -> list[str]:
    if request is None:
        return []
    if not keeps_holidays(alarm):
        named = with_working_days(request.when or "") != (request.when or "")
        return ["No calendar of holidays is set: it fires on public holidays too."] if named else []
    how = _ON_HOLIDAY[alarm.policy.on_holiday or "skip"]
    return [f"What falls on a holiday of the calendar {alarm.policy.calendar!r} {how}."]


def _next_holiday(alarm: Alarm) -> list[str]:
    if not (name := holiday_at(alarm, alarm.occurrence_at)):
        return []
    then = next(coming(alarm), None)
    after = (
        f"it fires next at {then.astimezone(zone(alarm.timezone)).isoformat()}" if then else "no fire comes after it"
    )
    return [f"{alarm.occurrence_at.astimezone(zone(alarm.timezone)).date()} is a holiday ({name}): {after}."]


def _assumed_zone(alarm: Alarm, request: EditRequest | None, owner: KnownSettings) -> list[str]:
    usual = owner.counting
    if (
        request is None
        or request.timezone
        or not (request.when or request.cron_expr)
        or alarm.timezone != usual.timezone
    ):
        return []
    if alarm.kind == "cron":
        depends = series_depends_on_zone(alarm.cron_expr)
    else:
        depends = moment_depends_on_zone(request.when or "", alarm.timezone, alarm.fire_at, alarm.updated_at, usual)
    whose = f"your zone, {usual.timezone}" if owner.own.timezone else usual.timezone
    return [ASSUMED.format(whose)] if depends else []


async def _settings_of(service: Service, owner: str) -> KnownSettings:
    try:
        return await service.owner_settings.read(owner)
    except StoreUnavailable:  # what was done is done: it is told all the same
        return KnownSettings(0, OwnerSettings(), service.owner_settings.server)


def _said_bounds(alarm: Alarm, request: EditRequest | None) -> list[str]:
    """From when, until when and how often it fires, where a request has the time from a phrase and says no more."""
    if request is None or not request.when or alarm.kind != "cron":
        return []
    shown = {name: said for name, said in bounds_in_words(alarm).items() if not getattr(request.policy, name, None)}
    return [f"It {listed(list(shown.values()))}: see {listed(list(shown))} of its policy."] if shown else []


def _remarks(alarm: Alarm, request: EditRequest | None, date_order: str, bare_day: time) -> list[str]:
    """What the clocks of its zone do to its times, and which of two days, dates or hours was meant."""
    when = request.when if request is not None else None
    if alarm.kind == "cron":
        read = _read_again(alarm, when, date_order, bare_day) if when and _DOUBTED_HOUR.search(when) else None
        told = _remarks_of(alarm.cron_expr, alarm.timezone, alarm.updated_at.date())
        return [*(read.assumed if read else ()), *told]
    if not when or not (_DOUBTED.search(when) or _is_near_a_change(alarm)):
        return []
    read = _read_again(alarm, when, date_order, bare_day)
    return list(read.remarks) if read else []


def _read_again(alarm: Alarm, when: str, date_order: str, bare_day: time) -> Understood | None:
    try:
        now = alarm.updated_at
        return parse(when, timezone=alarm.timezone, now=now, default_time=bare_day, date_order=date_order)
    except InvalidSchedule:  # a time of day that was joined to the alarm's own day
        return None


@by_zone_rules(maxsize=1024)
def _remarks_of(cron_expr: str, timezone: str, day: date) -> tuple[str, ...]:
    """What clock changes do to a rhythm within a year of a day: many alarms of a day have the same."""
    return remarks(cron_expr, timezone, datetime.combine(day, time(), UTC))


def _is_near_a_change(alarm: Alarm) -> bool:
    """Whether the clocks of its zone change about then; reading a phrase again for nothing would slow every create."""
    if alarm.fire_at is None:
        return False
    local = zone(alarm.timezone)
    before, after = alarm.fire_at - _CHANGE_WITHIN, alarm.fire_at + _CHANGE_WITHIN
    return before.astimezone(local).utcoffset() != after.astimezone(local).utcoffset()


# Which zone was assumed for a time that was said without one, told where another zone would make it another time


ASSUMED: Final = "No timezone was given: the time is in {}. Give `timezone` if you meant another."
_FAR_WEST: Final = "Etc/GMT+12"  # what means the same moment there does not depend on the zone
_FAR_EAST: Final = "Etc/GMT-14"


def with_assumed_zone(found: Understood, when: str, usual: OwnerSettings) -> Understood:
    """What a time was understood to mean, with a remark on its zone where that was not said."""
    if found.timezone != usual.timezone:
        return found
    if found.kind == "cron":
        depends = series_depends_on_zone(found.cron_expr)
    else:
        depends = moment_depends_on_zone(when, found.timezone, found.fire_at, found.now, usual)
    return replace(found, _remarks=(ASSUMED.format(usual.timezone), *found.remarks)) if depends else found


def series_depends_on_zone(cron_expr: str) -> bool:
    """Not so elapsed time, and what fires at any hour of any day."""
    return not is_interval(cron_expr) and cron_expr.split()[-4:] != ["*"] * 4


def moment_depends_on_zone(when: str, name: str, fire_at: datetime | None, now: datetime, usual: OwnerSettings) -> bool:
    """Whether the same words mean another moment on the other side of the world."""
    far = _FAR_WEST if name != _FAR_WEST else _FAR_EAST
    try:
        return parse(when, timezone=far, now=now, date_order=usual.date_order).fire_at != fire_at
    except InvalidSchedule:  # past there
        return True
