"""The context of every HTTP operation: the service, the store, the settings, and how answers are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from starlette.responses import Response

from wakeful import views
from wakeful.alarm import Alarm
from wakeful.config import Settings
from wakeful.http.operations import OperationRequest
from wakeful.http.security.guard import answer
from wakeful.service import Alarms, Changed, Service, Why
from wakeful.store import Store

_NONE: Final[Mapping[str, str]] = {}


class Context(Struct, frozen=True):
    service: Service
    store: Store
    settings: Settings

    def of(self, call: OperationRequest) -> Alarms:
        """Return the verbs for this caller."""
        return self.service.of(call.caller)

    async def answer(self, shown: dict[str, Any], status: int = 200, headers: Mapping[str, str] = _NONE) -> Response:
        """Return an answer with the current time."""
        shown["now"] = await self.service.now()
        return answer(shown, status, headers)

    async def alarm(
        self,
        alarm: Alarm,
        shown: dict[str, Any] | None = None,
        status: int = 200,
        headers: Mapping[str, str] = _NONE,
    ) -> Response:
        """Return an answer about one alarm, with its version in the header ETag."""
        tagged = {"etag": f'"{alarm.version}"', **headers}
        return await self.answer(views.view(alarm) if shown is None else shown, status, tagged)

    async def changed(self, done: Changed) -> Response:
        """Return an answer about a changed alarm, and whether an attempt was under way."""
        return await self.alarm(done, views.view(done) | {"in_flight": done.in_flight})

    async def why(self, why: Why) -> Response:
        return answer({"summary": why.summary, "facts": why.facts, "now": why.now})
