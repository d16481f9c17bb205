"""A channel of Claude Code: on stdio, each wake of an inbox goes to the client as a notification.

A notification has no answer, so nothing counts as received before it is reported: a wake is leased when it is sent, as
it is by `alarm_inbox`, and is sent again when its lease ends without a report.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, Literal

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession

from wakeful.clock import Clock
from wakeful.errors import NotFound, WakefulError
from wakeful.rules.backoff import backoff
from wakeful.service import Alarms, TakenWake

log = logging.getLogger("wakeful.mcp")

CAPABILITY: Final = "claude/channel"
METHOD: Final = "notifications/claude/channel"
INSTRUCTIONS: Final = """
- The wakes of your inbox also come by themselves, as <channel source="wakeful" fire_id="…" alarm_id="…">: do what it \
says, then call alarm_report with that fire_id. If the work takes minutes, report working first. A wake that is not \
reported in time comes again with the same fire_id: then go on with it. There is no need to call alarm_inbox."""

AT_ONCE: Final = 4  # wakes that are sent and not reported: the client works on one after the other
POLL: Final = 30.0  # seconds one call waits for wakes
LOOK: Final = 1.0  # seconds between looks at what was reported, while no more may be sent
FIRST_WAIT: Final = 0.5
LONGEST_WAIT: Final = 30.0


class _Params(types.NotificationParams):
    content: str
    meta: dict[str, str]


class _Notification(types.Notification[_Params, Literal["notifications/claude/channel"]]):
    method: Literal["notifications/claude/channel"] = METHOD


class Channel:
    """Sends wakes from the handshake on. `alarms_of` returns the verbs of the caller, or raises: tokens are revoked."""

    def __init__(
        self, alarms_of: Callable[[], Awaitable[Alarms]], clock: Clock, *, target: str, conversation_id: str
    ) -> None:
        self._alarms_of = alarms_of
        self._clock = clock
        self._target = target
        self._conversation_id = conversation_id
        self._open: set[str] = set()  # fires that were sent and may not be reported yet
        self._sending: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def open(self, served: Server[Any]) -> AsyncIterator[None]:
        """Begin when the client says that it is initialized: only that handshake has notifications of this kind."""

        async def initialized(ctx: ServerRequestContext[Any, Any], _: types.NotificationParams) -> None:
            if self._sending is None:
                self._sending = asyncio.create_task(self._send(ctx.session), name="wakeful channel")

        served.add_notification_handler("notifications/initialized", types.NotificationParams, initialized)
        try:
            yield
        finally:
            if self._sending is not None:
                self._sending.cancel()
                await asyncio.wait((self._sending,))

    async def _send(self, session: ServerSession) -> None:
        failures = 0
        while True:
            try:
                await self._send_next(session)
                failures = 0
            except Exception as error:
                if failures == 0:
                    known = isinstance(error, WakefulError)
                    log.warning("no wakes for the channel just now: %s", error, exc_info=not known)
                failures += 1
                await self._clock.sleep(backoff(failures - 1, base=FIRST_WAIT, cap=LONGEST_WAIT).total_seconds())

    async def _send_next(self, session: ServerSession) -> None:
        alarms = await self._alarms_of()
        self._open = {fire_id for fire_id in self._open if await _is_open(alarms, fire_id)}
        room = AT_ONCE - len(self._open)
        if not room:
            await self._clock.sleep(LOOK)
            return
        for wake in await alarms.inbox(
            limit=room, wait=POLL, target=self._target, conversation_id=self._conversation_id
        ):
            self._open.add(wake.fire.id)
            await session.send_notification(notification(wake))  # type: ignore[arg-type]  # the union is the standard's


def notification(wake: TakenWake) -> _Notification:
    return _Notification(params=_Params(content=wake.prompt, meta={"fire_id": wake.fire.id, "alarm_id": wake.alarm.id}))


async def _is_open(alarms: Alarms, fire_id: str) -> bool:
    try:
        return (await alarms.fire_of(fire_id)).status == "delivered"
    except NotFound:  # its alarm was purged
        return False
