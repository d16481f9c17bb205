"""A web application that reminds its users: the store opens, dispatches and closes with it."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

import wakeful


def application(file: str, sent: list[str]) -> Starlette:
    alarms = wakeful.open(file, default_target="mail", max_failures=3, log_level="warning")

    @alarms.handler("mail", timeout=30, concurrency=4)
    async def mail(wake: wakeful.Wake) -> str:
        sent.append(wake.message)
        return f"mailed to {wake.payload['to']}"

    async def remind(request: Request) -> JSONResponse:
        try:
            alarm = await alarms.set(
                request.query_params["when"],
                request.query_params["message"],
                payload={"to": "ada@example.org"},
                key=request.query_params.get("key", ""),
                on_conflict="replace",
            )
        except wakeful.InvalidRequest as error:
            return JSONResponse({"field": error.field, "fix": error.fix}, status_code=400)
        return JSONResponse({"id": alarm.id})

    async def reminders(request: Request) -> JSONResponse:
        found = await alarms.for_owner("local").find(status=("active", "paused"), limit=20)
        fires: list[wakeful.Fire] = await alarms.fires(status="completed")
        return JSONResponse({"waiting": [alarm.id for alarm in found], "done": [fire.result for fire in fires]})

    routes = [Route("/remind", remind), Route("/reminders", reminders), Mount("/wakeful", alarms.asgi())]
    return Starlette(routes=routes, lifespan=alarms.lifespan)
