"""Signals: an external event happened, and the alarms that wait for it are cancelled, skip a fire, move, or fire.

A signal is not stored. `unless` and `or_when` are fields of the policy. An index on them finds the alarms that wait for
a name (`Store.listening`), and each is changed as if by its owner (rules/signalling.py). The sender's payload is
stored in the policy (`heard`) with the occurrence that it made, so a wake stays a function of its row and occurrence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct

from wakeful.errors import NotFound
from wakeful.model.alarm import Alarm, Change, Fire
from wakeful.rules.create import check_payload, check_text
from wakeful.rules.signalling import Effect, effect_of, signalled
from wakeful.rules.signals import SIGNAL_PAYLOAD_LIMIT, Signal, check_signal_name
from wakeful.rules.wanted import json_of, raw_text
from wakeful.schedule import zone
from wakeful.schedule.interval import span_words
from wakeful.service.change import PATIENCE, write_change
from wakeful.service.core import Session
from wakeful.service.resolving import PAGE
from wakeful.store import FireQuery

NOTED: Final = 10  # alarms that a signal did not change and that are named
_UNCHANGED: Final[Mapping[str, str]] = {
    "already_skipped": "Alarm {id}: its fire of {at} had been skipped already; what comes after it is not.",
    "too_early": "Alarm {id}: the fire of {at} is more than {since} away (unless_since), so this signal is ignored.",
    "too_late": "Alarm {id}: its wake of {at} has arrived already.",
}
_AHEAD: Final = timedelta(seconds=10)  # longer than the change of one alarm takes


class SignalledAlarm(Struct, frozen=True, kw_only=True):
    """An alarm after a signal, and what that did. `at`: the fire that is skipped or is not, or where it is moved to."""

    alarm: Alarm
    effect: Effect
    at: datetime | None = None


class Signalled(Struct, frozen=True, kw_only=True):
    """What a signal did to the alarms that wait for it.

    `in_flight`: of how many of those it changed an attempt was under way already, which may still arrive once; one that
    was to fire is on its way as it was, without the signal's payload.
    """

    alarms: list[SignalledAlarm]
    in_flight: int = 0

    @property
    def cancelled(self) -> list[Alarm]:
        return self._all("cancelled")

    @property
    def fired(self) -> list[Alarm]:
        return self._all("fired")

    @property
    def skipped(self) -> list[Alarm]:
        return self._all("skipped")

    @property
    def moved(self) -> list[Alarm]:
        return self._all("moved")

    def _all(self, effect: Effect) -> list[Alarm]:
        return [one.alarm for one in self.alarms if one.effect == effect]

    @property
    def notes(self) -> list[str]:
        """What its sender should know besides, in words: what it did not change, and why."""
        if not self.alarms:
            return [
                "No active alarm of yours waits for this signal. A signal is not kept for alarms that are set later."
            ]
        unchanged = [one for one in self.alarms if one.effect in _UNCHANGED]
        more = f"{len(unchanged) - NOTED} more were not changed."
        return [_unchanged(one) for one in unchanged[:NOTED]] + [more] * (len(unchanged) > NOTED)


def _unchanged(one: SignalledAlarm) -> str:
    alarm, at = one.alarm, one.at or one.alarm.occurrence_at
    local = at.astimezone(zone(alarm.timezone)).isoformat(timespec="seconds")
    return _UNCHANGED[one.effect].format(id=alarm.id, at=local, since=span_words(alarm.policy.unless_since or 0))


async def send_signal(session: Session, name: str, payload: Any = None) -> Signalled:
    """Say that something happened, to the alarms that wait for it.

    Those that have it as `or_when` fire at once. Of those that have it as `unless` a one-shot is cancelled, or
    moved where it has `rearm`, and a series skips the next fire after the signal.

    >>> policy = {"or_when": "build-done"}
    >>> waiting = await alarms.set("today at 5pm", "Look at the build", target="inbox", policy=policy)
    >>> [one.id == waiting.id for one in (await alarms.signal("build-done", {"ok": True})).fired]
    [True]

    Only active alarms of the same owner hear it, and it is not kept for those that are set later. `payload`: any
    JSON up to 16 KiB; a wake that comes for the signal carries it.
    """
    check_signal_name(name, "name")
    given = "null" if payload is None else raw_text(json_of(payload))
    check_text("payload", given, SIGNAL_PAYLOAD_LIMIT)
    check_payload(given)
    return await _signalled(session, Signal(name=name, payload_json=given))


async def _signalled(session: Session, signal: Signal) -> Signalled:
    heard: list[SignalledAlarm] = []
    in_flight, after = 0, ""
    while page := await session.service.store.listening(session.caller.owner, signal.name, after=after, limit=PAGE):
        for id in dict.fromkeys(alarm.id for alarm in page):
            one, is_in_flight = await _heard(session, id, signal)
            heard += filter(None, [one])
            in_flight += is_in_flight
        after = page[-1].id
    if any(one.alarm.finished for one in heard):
        session.service.limits.ended(session.caller.owner)
    counts: Counter[str] = Counter(one.effect for one in heard if one.effect not in _UNCHANGED)
    session.service.metrics.signalled(**counts)
    return Signalled(alarms=heard, in_flight=in_flight)


async def _heard(session: Session, id: str, signal: Signal) -> tuple[SignalledAlarm | None, bool]:
    """The alarm after a signal, None where it waits for it no longer; and whether an attempt was under way."""
    found, is_claimed, fired_at = None, False, await _fired_at(session, id)

    def decide(alarm: Alarm, fire: Fire | None, inbox: list[Fire], now: datetime) -> Change | None:
        nonlocal found, is_claimed
        found, is_claimed = effect_of(alarm, fire, signal, now=now), alarm.claimed_at is not None
        return signalled(alarm, fire, signal, now=now, by=session.caller.name, inbox=inbox, fired_at=fired_at)

    with suppress(NotFound):  # deleted meanwhile
        changed = await write_change(session, id, decide, tries=PATIENCE)
        if found is None:
            return None, False
        one = SignalledAlarm(alarm=changed.alarm, effect=found.effect, at=found.at)
        # What waits in the inbox is an earlier fire, which only a cancel takes away.
        is_in_flight = changed.in_flight if found.effect == "cancelled" else is_claimed
        return one, is_in_flight and found.effect not in _UNCHANGED
    return None, False


async def _fired_at(session: Session, id: str) -> set[datetime]:
    """The moments of an alarm's fires from now on: there are none, unless a clock was set back."""
    now = await session.service.store.now()
    query = FireQuery(alarm_id=id, since=now, until=now + _AHEAD, limit=PAGE)
    return {fire.scheduled_for for fire in await session.service.store.fires(query)}
