#!/usr/bin/env python3
# ruff: noqa: B905, E501, E731, RUF007
"""How many functions and modules one request crosses. Run with the project's own Python:

    .venv/bin/python scripts/trace.py [--names]

Sets an alarm twice through `asgi()` on a new SQLite file (the second time is counted, everything is warm) and prints functions, modules and changes of package.
"""

import asyncio
import json
import os
import sys
import tempfile
import threading

import wakeful

HERE = os.path.dirname(wakeful.__file__)
calls: list[tuple[str, str]] = []
counting = False


def profile(frame, event, _):
    if counting and event == "call" and (name := frame.f_code.co_filename).startswith(HERE):
        calls.append((name[len(HERE) + 1 : -3], frame.f_code.co_qualname))


async def post(app, body: dict) -> int:
    raw, sent = json.dumps(body).encode(), []
    headers = [
        (b"host", b"127.0.0.1:4747"),
        (b"content-type", b"application/json"),
        (b"content-length", str(len(raw)).encode()),
    ]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/alarms",
        "raw_path": b"/v1/alarms",
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 5),
        "server": ("127.0.0.1", 4747),
    }
    parts = [{"type": "http.request", "body": raw, "more_body": False}]

    async def receive():
        return parts.pop() if parts else await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"]


async def main() -> None:
    global counting
    os.chdir(tempfile.mkdtemp())
    threading.setprofile(profile)
    sys.setprofile(profile)
    async with wakeful.open("w.db", owner="ada") as alarms:
        app = alarms.asgi()
        body = {"wake_message": "x", "when": "tomorrow at 9am", "timezone": "Europe/Berlin"}
        await post(app, {**body, "wake_message": "warm"})
        counting = True
        status = await post(app, body)
        counting = False
    package = lambda module: module.split("/")[0] if "/" in module else module
    changes = sum(package(a[0]) != package(b[0]) for a, b in zip(calls, calls[1:]))
    print(
        f"create over HTTP ({status}): calls {len(calls)}, functions {len(set(calls))}, modules {len({m for m, _ in calls})}, changes of package {changes}"
    )
    if "--names" in sys.argv:
        for module, name in dict.fromkeys(calls):
            print(f"  {module}: {name}")


asyncio.run(main())
