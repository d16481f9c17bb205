"""Live events of a server, one after the other, for `async for`: it comes back by itself and goes on where it was."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import msgspec

from wakeful.clock import Clock
from wakeful.errors import StoreUnavailable, TooMany
from wakeful.remote.connection import ServerConnection
from wakeful.rules.backoff import backoff
from wakeful.service.live import LiveEvent

log = logging.getLogger("wakeful.remote")

RESET: Final = "reset"
FIRST_WAIT: Final = 0.5
LONGEST_WAIT: Final = 30.0


class EventPlace:
    """What of a stream was seen: where to go on, and how often nothing came since."""

    def __init__(self) -> None:
        self.last_id = ""
        self.failures = 0


async def followed(
    connection: ServerConnection,
    clock: Clock,
    whats: Sequence[str],
    alarm_id: str,
    opened: asyncio.Event | None = None,
) -> AsyncIterator[LiveEvent]:
    """Events as they come. `what` is "reset" where some were missed: read again what you show.

    `opened` is set once the server listens on our behalf.
    """
    query, place = {"events": ",".join(whats), "alarm_id": alarm_id}, EventPlace()
    while True:
        resume = {"Last-Event-ID": place.last_id} if place.last_id else {}
        try:
            async with connection.stream("/v1/events", query, resume) as lines:
                if opened is not None:
                    opened.set()
                async for event in _told(lines, place, connection):
                    yield event
        except (StoreUnavailable, TooMany) as error:
            if place.failures == 0:
                log.warning("live events pause: %s", error.message)
        place.failures += 1
        await clock.sleep(backoff(place.failures - 1, base=FIRST_WAIT, cap=LONGEST_WAIT).total_seconds())


async def _told(lines: Any, place: EventPlace, connection: ServerConnection) -> AsyncIterator[LiveEvent]:
    """The events of one stream until it ends."""
    fields: dict[str, str] = {}
    async for raw in lines:
        line = raw.decode().rstrip("\r\n")
        if line:
            name, _, text = line.partition(": ")
            fields[name] = text
            continue
        place.failures = 0
        what, data, id = fields.get("event", ""), fields.get("data", ""), fields.get("id", "")
        fields = {}
        if what and what != "dropped":
            yield _event(what, data, connection)
            place.last_id = id or place.last_id  # only once it was taken


def _event(what: str, data: str, connection: ServerConnection) -> LiveEvent:
    if what != RESET:
        return msgspec.json.decode(data, type=LiveEvent)
    reason = str(msgspec.json.decode(data, type=dict[str, Any]).get("reason", ""))
    return LiveEvent(seq=0, at=connection.now(), what=RESET, alarm_id="", reason=reason)
