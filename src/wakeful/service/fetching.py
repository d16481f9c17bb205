"""The verb of whoever fetches wakes from an inbox: they are handed out, and leased until they are reported."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final, NamedTuple

from wakeful.alarm import INBOX, Alarm, Fire, check_reportable, fetch
from wakeful.alarm.wake_token import wake_token
from wakeful.clock import stopwatch
from wakeful.errors import UnknownTarget
from wakeful.service.inbox_signal import FIRST_LOOK, LONGEST_PAUSE
from wakeful.service.looking import EVIDENCE
from wakeful.service.taken_wake import ALONE, TakenWake, may_have_missed, missed, place_in_series
from wakeful.service.watching import WatchVerbs
from wakeful.store import FireQuery

HANDED_OUT: Final = 4_000_000  # characters of wakes taken from an inbox at once, but always one wake
LATEST: Final = 20  # fires of a series that are looked at to say where a wake stands in it


class Waiting(NamedTuple):
    """Which wakes of an inbox are asked for."""

    target: str
    conversation_id: str
    limit: int


class FetchVerbs(WatchVerbs):
    """The verbs with which one caller fetches."""

    async def inbox(
        self,
        *,
        limit: int = 10,
        wait: float = 0,
        target: str = INBOX,
        conversation_id: str = "",
        done: Mapping[str, str] | None = None,
    ) -> list[TakenWake]:
        """Take wakes from the inbox, leased until they are reported; if there are none, wait up to `wait` seconds.

        >>> for alarm, fire in await clock.inbox(limit=10, wait=0):
        ...     await clock.completed(fire.id, "done")

        `target`: another inbox than the usual one, by the name that `[targets.NAME]` with `kind = "inbox"` gives it.
        `conversation_id`: only the wakes of this conversation; the others stay. `done`: earlier wakes by their fire_id,
        with what came of each; they are reported as completed first, and where one cannot be, nothing is done.

        Each wake unpacks as (alarm, fire) and has `late_ms`, `missed` and `attempt`, like the headers of a webhook,
        and `number`, `max_fires`, `previous` and `next_fire_at`: where it stands in its series.
        Wakes that are too long for one answer stay in the inbox for the next call. A waiting call counts against
        `live_per_owner`, and ends early when its process stops.
        """
        if target not in self.service.settings.inboxes:
            known = ", ".join(self.service.settings.inboxes)
            raise UnknownTarget(f"there is no inbox {target!r}", field="target", fix=f"Known are: {known}.")
        await self._acknowledge(done or {})
        wanted = Waiting(target, conversation_id, limit)
        if wait <= 0:
            return await self._handed_out(wanted)
        with self.service.connections.seat(self.caller.owner if self.caller.limited else None):
            return await self._waited(wanted, wait)

    async def _acknowledge(self, done: Mapping[str, str]) -> None:
        """Report these wakes as completed. All are looked at before the first is reported."""
        for fire_id in done:
            check_reportable(await self.fire_of(fire_id))
        for fire_id, result in done.items():
            await self.completed(fire_id, result)

    async def _waited(self, wanted: Waiting, wait: float) -> list[TakenWake]:
        bell = self.service.inbox_signal
        ending, pause = stopwatch() + wait, FIRST_LOOK
        while not (found := await self._handed_out(wanted)):
            left = ending - stopwatch()
            if left <= 0 or bell.stopped:
                break
            rung = await bell.heard(self.caller.owner, min(left, pause))
            pause = FIRST_LOOK if rung else min(2 * pause, LONGEST_PAUSE)
        return found

    async def _handed_out(self, wanted: Waiting) -> list[TakenWake]:
        store = self.service.store
        waiting = await store.waiting(self.caller.owner, most=HANDED_OUT, **wanted._asdict())
        changes = [fetch(alarm, fire, now=await store.now()) for alarm, fire in waiting]
        answers = await store.settle(changes) if changes else []
        handed = [at for at, answer in enumerate(answers) if answer.what == "applied"]
        for at in handed:
            self.service.metrics.fires(waiting[at][1], changes[at].fires)
        key = (await store.report_keys()).current if handed else b""
        return [await self._taken(changes[at].after, changes[at].fires[0], key) for at in handed]

    async def _taken(self, alarm: Alarm, fire: Fire, key: bytes) -> TakenWake:
        place, token = ALONE, wake_token(key, fire.id)
        if alarm.kind == "cron":
            latest = await self.service.store.fires(FireQuery(alarm_id=alarm.id, limit=LATEST, most=EVIDENCE))
            place = place_in_series(alarm, fire, latest)
        if not may_have_missed(alarm, fire, alarm.updated_at):
            return TakenWake(alarm, fire, place=place, token=token)
        since = fire.scheduled_for + timedelta(milliseconds=1)
        skipped = await self._all_fires(FireQuery(alarm_id=alarm.id, statuses=("skipped",), since=since))
        return TakenWake(alarm, fire, missed=missed(skipped), place=place, token=token)
