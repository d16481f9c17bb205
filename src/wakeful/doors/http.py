"""The HTTP door: routes under `/v1`, JSON in and out, problems by RFC 9457.

Without tokens there is one owner, the one in the settings; a report may also come with its fire's own token.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import re
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from wakeful import __version__
from wakeful.alarm import ALARM_STATUSES, FIRE_STATUSES, INBOX, Alarm, Fire, from_unix_ms, report_token, unix_ms
from wakeful.alarm.create import TEXT_LIMIT, check_text
from wakeful.config import Settings
from wakeful.doors import wire
from wakeful.doors.guard import Guard, Refusal, answer, body, refused
from wakeful.errors import InvalidConfig, InvalidRequest, StoreUnavailable, WakefulError
from wakeful.service import Service
from wakeful.store import AlarmQuery, FireQuery, Store

LIMIT: Final = 500
DEFAULT_LIMIT: Final = 100
HEALTH_WITHIN: Final = 5.0
_NONE: Final[Mapping[str, str]] = {}
_PAGING: Final = ("since", "until", "limit", "cursor")
_UNIX: Final = re.compile(r"\d{1,12}(\.\d{1,6})?")
_PLUS_LOST: Final = re.compile(r"(T[\d:.]+) (\d\d:\d\d)$")


def application(service: Service, store: Store, settings: Settings) -> Starlette:
    """The door as an ASGI application: served by `wakeful serve`, or mounted in an application of one's own."""
    if not settings.owner:  # to the service that means the operator, who sees all
        raise InvalidConfig(
            "it is empty, and no token says who asks", field="owner", fix="Name whose alarms these are."
        )
    door = Door(service, store, settings)
    app = Starlette(
        routes=[
            Route("/v1/alarms", door.create, methods=["POST"]),
            Route("/v1/alarms", door.find, methods=["GET"]),
            Route("/v1/alarms", door.reset, methods=["DELETE"]),
            Route("/v1/alarms/{id}", door.get, methods=["GET"]),
            Route("/v1/alarms/{id}", door.cancel, methods=["DELETE"]),
            Route("/v1/alarms/{id}/fires", door.fires_of, methods=["GET"]),
            Route("/v1/fires", door.fires, methods=["GET"]),
            Route("/v1/fires/{fire_id}", door.fire, methods=["GET"]),
            Route("/v1/fires/{fire_id}/report", door.report, methods=["POST"]),
            Route("/v1/stats", door.stats, methods=["GET"]),
            Route("/healthz", door.health, methods=["GET"]),
        ],
        middleware=[Middleware(Guard, settings=settings)],
        exception_handlers={404: _refused, 405: _wrong_method, WakefulError: _refused},
    )
    app.router.redirect_slashes = False
    return app


def _refused(_: Request, error: Exception) -> Response:
    return refused(error)


def _wrong_method(request: Request, _: Exception) -> Response:
    """405, with the methods of every route at this path: the framework names those of one only."""
    routes: list[Route] = request.app.routes
    here = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    allowed = {method for route in here for method in route.methods or ()}
    return refused(HTTPException(405, headers={"allow": ", ".join(sorted(allowed))}))


class Door:
    def __init__(self, service: Service, store: Store, settings: Settings) -> None:
        self._service = service
        self._store = store
        self._settings = settings

    @property
    def _owner(self) -> str:
        return self._settings.owner

    # Alarms

    async def create(self, request: Request) -> Response:
        _Query(request)
        given = await body(request, wire.CreateBody)
        draft = wire.draft(
            given,
            owner=self._owner,
            timezone=self._settings.timezone,
            target=INBOX,
            max_failures=self._settings.max_failures,
            via="http",
            by=self._owner,
        )
        added = await self._service.set(draft, on_conflict=given.on_conflict)
        shown = wire.view(added.alarm)
        if added.deduped:
            return await self._answer(shown | {"deduped": True})
        place = f"{request.scope.get('root_path', '')}/v1/alarms/{added.alarm.id}"
        return await self._answer(shown, 201, {"location": place})

    async def find(self, request: Request) -> Response:
        query = _Query(request, "status", "kind", "target", "label", "conversation_id", "q", *_PAGING)
        limit = query.limit()
        found = await self._service.find(
            AlarmQuery(
                owner=self._owner,
                statuses=query.statuses(ALARM_STATUSES),
                kind=query.choice("kind", ("once", "cron")),
                target=query["target"],
                label=query["label"],
                conversation_id=query["conversation_id"],
                text=query["q"],
                since=query.moment("since"),
                until=query.moment("until"),
                cursor=query.cursor(),
                limit=limit + 1,
            )
        )
        shown = {"alarms": [wire.view(alarm) for alarm in found[:limit]]}
        return await self._answer(shown | _further(found, limit))

    async def get(self, request: Request) -> Response:
        _Query(request)
        return await self._answer(wire.view(await self._service.get(request.path_params["id"], owner=self._owner)))

    async def cancel(self, request: Request) -> Response:
        _Query(request)
        done = await self._service.cancel(request.path_params["id"], owner=self._owner, by=self._owner)
        return await self._answer(wire.view(done.alarm) | {"in_flight": done.in_flight})

    async def reset(self, request: Request) -> Response:
        if _Query(request, "all")["all"] != "true":
            raise InvalidRequest("this cancels every pending alarm", field="all", fix="Say ?all=true if you mean it.")
        return await self._answer({"cancelled": await self._service.reset(owner=self._owner, by=self._owner)})

    # Fires

    async def fires_of(self, request: Request) -> Response:
        query = _Query(request, "status", *_PAGING)
        alarm = await self._service.get(request.path_params["id"], owner=self._owner)
        return await self._fires(query, alarm.id)

    async def fires(self, request: Request) -> Response:
        return await self._fires(_Query(request, "status", "target", *_PAGING))

    async def _fires(self, query: _Query, alarm_id: str = "") -> Response:
        limit = query.limit()
        found = await self._service.fires(
            FireQuery(
                owner=self._owner,
                alarm_id=alarm_id,
                statuses=query.statuses(FIRE_STATUSES),
                target=query["target"],
                since=query.moment("since"),
                until=query.moment("until"),
                cursor=query.cursor(),
                limit=limit + 1,
            )
        )
        shown = {"fires": [wire.fire_view(fire) for fire in found[:limit]]}
        return await self._answer(shown | _further(found, limit))

    async def fire(self, request: Request) -> Response:
        _Query(request)
        fire = await self._service.fire_of(request.path_params["fire_id"], owner=self._owner)
        return await self._answer(wire.fire_view(fire))

    async def report(self, request: Request) -> Response:
        _Query(request)
        fire_id = request.path_params["fire_id"]
        owner = await self._reporter(request, fire_id)
        said = wire.report(await body(request, wire.ReportBody))
        return await self._answer(wire.fire_view(await self._service.report(fire_id, said, owner=owner)))

    async def _reporter(self, request: Request, fire_id: str) -> str:
        """In whose name a report is made; the fire's own token speaks for whoever owns it."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return self._owner
        expected = report_token(await self._store.secret(), fire_id)
        if not hmac.compare_digest(token.strip().encode(), expected.encode()):
            what = "this is not the report token of this fire"
            raise Refusal(401, "unauthorized", what, field="Authorization", fix="Use report.token of its wake.")
        return ""

    # The whole

    async def stats(self, request: Request) -> Response:
        _Query(request)
        return await self._answer(msgspec.structs.asdict(await self._service.stats(owner=self._owner)))

    async def health(self, request: Request) -> Response:
        _Query(request)
        try:
            await asyncio.wait_for(self._store.target_states(), HEALTH_WITHIN)
        except TimeoutError:
            raise StoreUnavailable(f"the database did not answer within {HEALTH_WITHIN:g} s") from None
        return answer({"status": "ok", "version": __version__})

    async def _answer(self, shown: dict[str, Any], status: int = 200, headers: Mapping[str, str] = _NONE) -> Response:
        return answer(shown | {"now": await self._service.now()}, status, headers)


class _Query:
    """The query of a request: only names the route knows, each at most once."""

    def __init__(self, request: Request, *known: str) -> None:
        self._given: dict[str, str] = {}
        for name, value in request.query_params.multi_items():
            if name not in known:
                fix = f"Known are: {', '.join(known)}." if known else "This route takes none."
                raise InvalidRequest("there is no such query parameter", field=name[:100], fix=fix)
            if name in self._given:
                raise InvalidRequest("it was given more than once", field=name, fix="Give it once.")
            check_text(name, value, TEXT_LIMIT)
            self._given[name] = value

    def __getitem__(self, name: str) -> str:
        return self._given.get(name, "")

    def choice(self, name: str, accepted: Sequence[str]) -> str:
        return self._among(name, self[name], accepted) if self[name] else ""

    def statuses(self, accepted: Sequence[str]) -> tuple[str, ...]:
        """One status, or several with commas between."""
        given = [part.strip() for part in self["status"].split(",")] if self["status"] else []
        return tuple(self._among("status", part, accepted) for part in given)

    @staticmethod
    def _among(name: str, value: str, accepted: Sequence[str]) -> str:
        if value not in accepted:
            raise InvalidRequest(f"{value!r} is not accepted", field=name, fix=f"Accepted are: {', '.join(accepted)}.")
        return value

    def moment(self, name: str) -> datetime | None:
        text = self[name]
        if not text:
            return None
        if _UNIX.fullmatch(text):
            return wire.moment(float(text), name)
        # An offset's plus sign that was not written %2B arrives as a space.
        return wire.moment(_PLUS_LOST.sub(r"\1+\2", text), name)

    def limit(self) -> int:
        text = self["limit"] or str(DEFAULT_LIMIT)
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
        if not 1 <= number <= LIMIT:
            raise InvalidRequest(f"{text!r} is not a number from 1 to {LIMIT}", field="limit")
        return number

    def cursor(self) -> tuple[datetime, str] | None:
        text = self["cursor"]
        if not text:
            return None
        try:
            ms, _, id = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True).decode().partition(" ")
            return from_unix_ms(int(ms)), str(uuid.UUID(id))
        except (ValueError, OverflowError):
            raise InvalidRequest("it is no cursor", field="cursor", fix="Use next_cursor of an answer.") from None


def _further(found: Sequence[Alarm] | Sequence[Fire], limit: int) -> dict[str, str]:
    """`next_cursor`, where there is more than this page."""
    if len(found) <= limit:
        return {}
    last = found[limit - 1]
    moment, id = (last.created_at, last.id) if isinstance(last, Alarm) else (last.scheduled_for, last.alarm_id)
    return {"next_cursor": base64.urlsafe_b64encode(f"{unix_ms(moment)} {id}".encode()).decode().rstrip("=")}
