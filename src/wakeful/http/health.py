"""Health checks, metrics, and a log line for each request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wakeful._version import __version__
from wakeful.clock import stopwatch
from wakeful.dispatcher import DispatcherHealth
from wakeful.errors import StoreUnavailable, WakefulError
from wakeful.http import answers as shape
from wakeful.http.endpoint import routed
from wakeful.http.operations import Operation, OperationRequest, TextParameter
from wakeful.http.security.guard import Refusal, answer, refused
from wakeful.runtime.metrics import Metrics
from wakeful.store import Store

log = logging.getLogger("wakeful.http")

ANSWER_WITHIN: Final = 5.0
OLDEST_BEAT: Final = 30.0
LONGEST_STALL: Final = 30.0
_DEAD: Final = {
    "stopping": "the dispatcher of this process is stopping",
    "ended": "the dispatcher of this process has stopped",
}


class ProcessHealth(Struct, frozen=True):
    """The health of a process. `heartbeat`: the state of its dispatcher; None if it has none."""

    store: Store
    metrics: Metrics
    lease: timedelta
    targets: Iterable[str]
    heartbeat: Callable[[], DispatcherHealth | None]


def routes(
    store: Store,
    metrics: Metrics,
    *,
    lease: timedelta,
    targets: Iterable[str],
    heartbeat: Callable[[], DispatcherHealth | None],
) -> list[Route]:
    """Return the routes `/healthz`, `/readyz` and `/metrics`, which every process can serve."""
    return routed(ProcessHealth(store, metrics, lease, targets, heartbeat), OPERATIONS)


async def health(watch: ProcessHealth, _: OperationRequest) -> Response:
    await _asked(watch.store)
    check_loop(watch.heartbeat())
    return answer(shape.HealthAnswer(status="ok", version=__version__))


async def metrics(watch: ProcessHealth, call: OperationRequest) -> Response:
    metrics, store = watch.metrics, watch.store
    pulse = watch.heartbeat()
    if pulse is not None:
        metrics.dispatching(pulse.in_flight, pulse.breakers, pulse.held)
    try:
        async with asyncio.timeout(ANSWER_WITHIN):
            metrics.backlog(await store.maintenance.backlog(lease=watch.lease), watch.targets, now=await store.now())
    except (StoreUnavailable, TimeoutError):
        metrics.store_failed()
        metrics.backlog_unknown()
    text, kind = metrics.exposition(call.request.headers.get("accept", ""))
    return Response(text, headers={"content-type": kind})


async def ready(watch: ProcessHealth, _: OperationRequest) -> Response:
    try:
        facts, now = judged(watch.heartbeat()), await _asked(watch.store)
    except WakefulError as error:
        if isinstance(error, StoreUnavailable):
            watch.metrics.store_failed()
        return refused(error)
    return answer(shape.ReadyAnswer(status="ready", version=__version__, store="ok", now=now, **facts))


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/healthz",
        run=health,
        says="Check that this server and its store respond",
        scope="",
        answers={200: shape.HealthAnswer},
    ),
    Operation(
        method="GET",
        path="/metrics",
        run=metrics,
        says="The metrics of this process, for Prometheus",
        scope="admin",
        answers={200: TextParameter(("text/plain", "application/openmetrics-text"), "The numbers")},
    ),
    Operation(
        method="GET",
        path="/readyz",
        run=ready,
        says="Check that this process can take traffic",
        scope="",
        answers={200: shape.ReadyAnswer},
    ),
)


def judged(pulse: DispatcherHealth | None) -> dict[str, Any]:
    """Return the facts about a healthy dispatcher, or raise a refusal for an unhealthy one."""
    if pulse is None or pulse.state == "idle":
        return {"dispatcher": "none in this process"}
    if pulse.state in _DEAD:
        raise Refusal(503, "not_ready", _DEAD[pulse.state])
    if pulse.age > OLDEST_BEAT:
        raise Refusal(
            503,
            "not_ready",
            f"the dispatcher of this process has not reported for {pulse.age:.0f} s",
            field="dispatcher",
        )
    if pulse.stalled > LONGEST_STALL:
        message = f"nothing has been settled for {pulse.stalled:.0f} s, and {pulse.in_flight} deliveries are waiting"
        raise Refusal(503, "not_ready", message, field="dispatcher")
    return {"dispatcher": pulse.state, "heartbeat_age_seconds": round(pulse.age, 1), "in_flight": pulse.in_flight}


def check_loop(pulse: DispatcherHealth | None) -> None:
    """Refuse where the loop of this process's dispatcher has stopped running: only a restart helps."""
    if pulse is not None and pulse.stuck:
        message = f"the dispatcher of this process has not run for {pulse.stuck:.0f} s"
        raise Refusal(503, "not_ready", message, field="dispatcher", fix="Restart this process.")


async def _asked(store: Store) -> datetime:
    try:
        async with asyncio.timeout(ANSWER_WITHIN):
            await (
                store.maintenance.target_states()
            )  # a small read from the database itself; SQLite's clock is not in it
            return await store.now()
    except TimeoutError:
        raise StoreUnavailable(f"the database did not answer within {ANSWER_WITHIN:g} s") from None


class RequestMetrics:
    """Counts and times every request, including refused ones, by its route and never by its path."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, begun = 0, stopwatch()

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            took = stopwatch() - begun
            route: str = getattr(scope.get("route"), "path", "") or "none"
            self._metrics.answered(route, scope["method"], status, took)
            if log.isEnabledFor(logging.DEBUG):
                more = {"route": route, "method": ascii(scope["method"])[1:-1], "status": status}
                log.debug("request", extra=more | {"ms": round(took * 1000, 1)})
