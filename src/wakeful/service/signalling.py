"""Signals: something happened, and the alarms that wait for it are cancelled or fire at once."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct

from wakeful.alarm import Alarm, Change, Fire
from wakeful.alarm.create import check_payload, check_text
from wakeful.alarm.json_text import json_of, raw_text
from wakeful.alarm.signalling import signalled
from wakeful.alarm.signals import SIGNAL_PAYLOAD_LIMIT, Signal, check_signal_name
from wakeful.errors import NotFound
from wakeful.service.cancelling import CancelVerbs
from wakeful.service.changes import PAGE, PATIENCE, Changed
from wakeful.store import FireQuery

_AHEAD: Final = timedelta(seconds=10)  # longer than the change of one alarm takes


class Signalled(Struct, frozen=True, kw_only=True):
    """What a signal did: the alarms it cancelled (`unless`) and those it fires at once (`or_when`).

    `in_flight`: of how many of them an attempt was under way already. A cancelled one may still arrive once; one that
    was to fire is on its way as it was, without the signal's payload.
    """

    cancelled: list[Alarm]
    fired: list[Alarm]
    in_flight: int = 0

    @property
    def notes(self) -> list[str]:
        """What its sender should know besides, in words."""
        if self.cancelled or self.fired:
            return []
        return ["No active alarm of yours waits for this signal. A signal is not kept for alarms that are set later."]


class SignalVerbs(CancelVerbs):
    """The verb with which one caller says that something happened."""

    async def signal(self, name: str, payload: Any = None, *, connection: Any = None) -> Signalled:
        """Cancel the alarms that have this signal as `unless`, and fire at once those that have it as `or_when`.

        >>> policy = {"or_when": "build-done"}
        >>> waiting = await clock.set("today at 5pm", "Look at the build", target="inbox", policy=policy)
        >>> [one.id == waiting.id for one in (await clock.signal("build-done", {"ok": True})).fired]
        [True]

        Only active alarms of the same owner hear it, and it is not kept for those that are set later. `payload`: any
        JSON up to 16 KiB; a wake that comes for the signal carries it. `connection`: as in `set`.
        """
        if connection is not None:
            return await (await self._within(connection)).signal(name, payload)
        check_signal_name(name, "name")
        given = "null" if payload is None else raw_text(json_of(payload))
        check_text("payload", given, SIGNAL_PAYLOAD_LIMIT)
        check_payload(given)
        return await self._signalled(Signal(name=name, payload_json=given))

    async def _signalled(self, signal: Signal) -> Signalled:
        cancelled: list[Alarm] = []
        fired: list[Alarm] = []
        in_flight, after = 0, ""
        while page := await self.service.store.listening(self.caller.owner, signal.name, after=after, limit=PAGE):
            for id in dict.fromkeys(alarm.id for alarm in page):
                if (done := await self._heard(id, signal)) is not None:
                    (cancelled if done.status == "cancelled" else fired).append(done.alarm)
                    in_flight += done.in_flight
            after = page[-1].id
        if cancelled:
            self.service.limits.ended(self.caller.owner)
        self.service.metrics.signalled(cancelled=len(cancelled), fired=len(fired))
        return Signalled(cancelled=cancelled, fired=fired, in_flight=in_flight)

    async def _heard(self, id: str, signal: Signal) -> Changed | None:
        """The alarm after a signal; None where it waits for it no longer."""
        waits, fired_at = False, await self._fired_at(id)

        def decide(alarm: Alarm, fire: Fire | None, inbox: list[Fire], now: datetime) -> Change | None:
            nonlocal waits
            waits = alarm.status == "active" and signal.name in (alarm.policy.unless, alarm.policy.or_when)
            return signalled(alarm, fire, signal, now=now, by=self.caller.name, inbox=inbox, fired_at=fired_at)

        with suppress(NotFound):  # deleted meanwhile
            changed = await self._change(id, decide, tries=PATIENCE)
            return changed if waits else None
        return None

    async def _fired_at(self, id: str) -> set[datetime]:
        """The moments of an alarm's fires from now on: there are none, unless a clock was set back."""
        now = await self.service.store.now()
        query = FireQuery(alarm_id=id, since=now, until=now + _AHEAD, limit=PAGE)
        return {fire.scheduled_for for fire in await self.service.store.fires(query)}
