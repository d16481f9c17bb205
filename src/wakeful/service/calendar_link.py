"""Addresses of the calendar feed, each with a token of its own: made and revoked by the owner whose alarms it shows."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from wakeful.alarm.create import TEXT_LIMIT, check_text
from wakeful.errors import Conflict, NotFound
from wakeful.service.caller import Caller
from wakeful.service.tokens import CALENDAR, TokenVerbs
from wakeful.store import Store, Token

FEED: Final = "/v1/calendar.ics"
FEED_TOKEN: Final = "token"
MOST_LINKS: Final = 20  # of one owner that are good at the same time


class CalendarLink(Struct, frozen=True):
    """`token`: None where a server needs none."""

    url: str
    token: Token | None = None


def feed_url(base: str, token: str = "") -> str:
    return f"{base.rstrip('/')}{FEED}" + (f"?{FEED_TOKEN}={token}" if token else "")


class CalendarLinks:
    """The verbs of one owner on addresses of their calendar feed. `base`: where the server is reached."""

    def __init__(self, store: Store, caller: Caller, base: str) -> None:
        self._store = store
        self._caller = caller
        self._base = base

    async def new(self, *, lasts: timedelta | None = None, label: str = "") -> CalendarLink:
        """Make an address. Where no token is needed there is none in it: the first one would lock everybody out."""
        check_text("label", label, TEXT_LIMIT)
        if not self._caller.limited:
            return CalendarLink(feed_url(self._base))
        good = await self._good(await self._store.now())
        if len(good) >= MOST_LINKS:
            raise Conflict(
                f"{len(good)} addresses of your calendar feed are good already, and {MOST_LINKS} is the most",
                fix=f"Revoke one first, the oldest is {min(good, key=lambda one: one.created_at).id}.",
            )
        text, token = await TokenVerbs(self._store).new(
            self._caller.owner, [CALENDAR], lasts=lasts, label=label, made_by=self._caller.token_id
        )
        return CalendarLink(feed_url(self._base, text), token)

    async def revoke(self, id: str) -> str:
        """Make an address of this owner useless, for good; return the id of its token."""
        if id not in {token.id for token in await self._good(await self._store.now())}:
            raise NotFound(f"there is no calendar link {id[:100]!r}", field="token_id")
        return (await TokenVerbs(self._store).revoke(id)).id

    async def _good(self, now: datetime) -> list[Token]:
        return [
            token
            for token in await self._store.access.tokens()
            if token.owner_did == self._caller.owner and token.scopes == (CALENDAR,) and token.is_live(now)
        ]
