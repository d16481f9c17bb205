"""What every operation of the HTTP door stands in: the service, the store, the settings, and how answers are made."""

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
        """The verbs, for whoever asks."""
        return self.service.of(call.caller)

    async def answer(self, shown: dict[str, Any], status: int = 200, headers: Mapping[str, str] = _NONE) -> Response:
        """An answer that says what time it is."""
        shown["now"] = await self.service.now()
        return answer(shown, status, headers)

    async def alarm(
        self,
        alarm: Alarm,
        shown: dict[str, Any] | None = None,
        status: int = 200,
        headers: Mapping[str, str] = _NONE,
    ) -> Response:
        """An answer about one alarm, with its version in the header that `If-Match` takes back."""
        tagged = {"etag": f'"{alarm.version}"', **headers}
        return await self.answer(views.view(alarm) if shown is None else shown, status, tagged)

    async def changed(self, done: Changed) -> Response:
        """An alarm as its owner's change left it, and whether an attempt was under way just then."""
        return await self.alarm(done, views.view(done) | {"in_flight": done.in_flight})

    async def why(self, why: Why) -> Response:
        return answer({"summary": why.summary, "facts": why.facts, "now": why.now})
