"""What every operation of the HTTP door stands in: the service, the store, the settings; and how answers are made."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from msgspec import UNSET, Struct, UnsetType
from starlette.responses import Response

from wakeful.config import Settings
from wakeful.http import answers as shape
from wakeful.http.operations import OperationRequest
from wakeful.http.security.guard import answer
from wakeful.moments import cursor_text
from wakeful.service import Alarms, Changed, Service
from wakeful.store import Store

_NONE: Final[Mapping[str, str]] = {}


class Context(Struct, frozen=True):
    service: Service
    store: Store
    settings: Settings

    def of(self, call: OperationRequest) -> Alarms:
        """Return the verbs for this caller."""
        return Alarms(self.service, call.caller)

    async def now(self) -> datetime:
        """What time it is, for an answer: every one says it."""
        return await self.service.now()

    async def changed(self, done: Changed) -> Response:
        """Return an answer about a changed alarm, and whether an attempt was under way."""
        more = {"in_flight": done.in_flight, "notes": done.notes or UNSET}
        return tagged(shape.ChangedAnswer.of(done.alarm, **more, now=await self.now()))


def tagged(shown: shape.AlarmAnswer, status: int = 200, headers: Mapping[str, str] = _NONE) -> Response:
    """An answer about one alarm, with its version in the header that `If-Match` takes back."""
    return answer(shown, status, {"etag": f'"{shown.version}"', **headers})


def further(cursor: tuple[datetime, str] | None) -> str | UnsetType:
    """`next_cursor` where there are more."""
    return UNSET if cursor is None else cursor_text(*cursor)
