"""The MCP server: nine tools for agents and seven more for tasks, over streamable HTTP at `/mcp` and on stdio.

A request is bound to one owner: over HTTP that of its token, on stdio that of the process. Agents name targets, never
addresses. Nothing is kept between requests, so any number of servers may stand behind one address.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import Message, Receive, Scope, Send

from wakeful import __version__
from wakeful.alarm import INBOX
from wakeful.alarm.create import check_text
from wakeful.alarm.json_text import json_of
from wakeful.alarm.request import decode
from wakeful.config import Settings
from wakeful.errors import Forbidden, InvalidRequest, Unauthorized, WakefulError
from wakeful.http.endpoint import whole_body
from wakeful.http.security.auth import PRINCIPAL, SCOPES, Principal
from wakeful.http.security.guard import BODY_LIMIT, check_depth
from wakeful.mcp import resources
from wakeful.mcp.catalogue import INSTRUCTIONS, TOOLS, ToolEntry, lesson, listed
from wakeful.mcp.json_schema import given, schema
from wakeful.mcp.task_catalogue import TASK_INSTRUCTIONS, TASK_TOOLS
from wakeful.mcp.views import utc
from wakeful.service import Alarms, Service

__all__ = ["TASK_TOOLS", "TOOLS", "http", "server", "stdio"]

log = logging.getLogger("wakeful.mcp")

PATH: Final = "/mcp"
Context = ServerRequestContext[Any, Any]
PrincipalOf = Callable[[Context], Awaitable[Principal]]


def server(service: Service, settings: Settings, principal_of: PrincipalOf) -> Server[Any]:
    """Build the MCP server; `principal_of` returns the identity behind a request, or raises."""

    offered = {**TOOLS, **TASK_TOOLS} if settings.mcp_tasks else TOOLS

    async def list_tools(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        try:
            principal: Principal | None = await principal_of(ctx)
        except WakefulError:
            principal = None
        is_wake = principal is not None and principal.wake is not None
        entries = [entry for entry in offered.values() if entry.for_wakes or not is_wake]
        zone = (await service.owner_settings.of(principal.owner if principal is not None else "")).timezone
        return listed(entries, timezone=zone, targets=await _targets_of(service, principal))

    async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            principal = await principal_of(ctx)
        except WakefulError as error:
            return _failed(f"{error} Nothing was changed.")
        entry = offered.get(params.name)
        if entry is None:
            known = ", ".join(offered)
            return _failed(f"There is no tool {params.name[:100]!r}. Nothing was changed. Known names: {known}.")
        return await _called(service, principal, entry, params.arguments or {})

    async def alarms_of(ctx: Context) -> Alarms:
        principal = await principal_of(ctx)
        _check_owner(principal)
        principal.need("read")
        return service.of(principal.caller("mcp"))

    quiet = logging.getLogger("mcp")
    if quiet.level == logging.NOTSET:  # it notes every request and, in detail, what was said
        quiet.setLevel(logging.WARNING)
    return Server(
        "wakeful",
        version=__version__,
        title="wakeful",
        description="A durable alarm clock for agents.",
        instructions=INSTRUCTIONS + (TASK_INSTRUCTIONS if settings.mcp_tasks else ""),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        **resources.handlers(alarms_of),
    )


async def _targets_of(service: Service, principal: Principal | None) -> list[str]:
    """The names of the targets that a caller may use; who is not known is told of the inbox alone."""
    known: Mapping[str, Any] = {}
    if principal is not None and principal.owner:
        with contextlib.suppress(WakefulError):
            known = await service.targets.known_to(principal.owner, is_operator=False)
    return [INBOX, *sorted(name for name in known if name != INBOX)]


def http(service: Service, settings: Settings) -> list[BaseRoute]:
    """Return the route `/mcp`, for an application that authenticates callers and refuses foreign hosts."""
    everyone = Principal(settings.owner, frozenset(SCOPES), local=True)

    async def asking(ctx: Context) -> Principal:
        found = ctx.request.scope.get(PRINCIPAL, everyone) if ctx.request is not None else None
        if not isinstance(found, Principal):
            raise Unauthorized("the caller is unknown", field="Authorization")
        return found

    return [Route(PATH, _Endpoint(server(service, settings, asking)), methods=["POST"])]


async def stdio(service: Service, settings: Settings, principal_of: PrincipalOf) -> None:
    """Answer on stdin and stdout until stdin ends."""
    door = server(service, settings, principal_of)
    async with stdio_server() as (reading, writing):
        await door.run(reading, writing, door.create_initialization_options())


class _Endpoint:
    """Serves each request with its own manager, so that nothing needs starting or stopping where it is mounted.

    Hosts and origins are checked in front of the whole application (`http/security/guard.py`), for this route too.
    """

    def __init__(self, door: Server[Any]) -> None:
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        said = await whole_body(Request(scope, receive))  # the SDK would wait for it without end
        manager = StreamableHTTPSessionManager(
            self._door, json_response=True, stateless=True, max_request_body_size=BODY_LIMIT
        )
        async with manager.run():
            await manager.handle_request(scope, _again(said, receive), send)


def _again(said: bytes, receive: Receive) -> Receive:
    """Return a `receive` that replays a body that was already read."""
    waiting: list[Message] = [{"type": "http.request", "body": said, "more_body": False}]

    async def receiving() -> Message:
        return waiting.pop() if waiting else await receive()

    return receiving


async def _called(
    service: Service, principal: Principal, entry: ToolEntry, arguments: Mapping[str, Any]
) -> types.CallToolResult:
    name, alarms = entry.name, service.of(principal.caller("mcp"))
    try:
        _check_owner(principal)
        principal.need(entry.scope, for_wakes=entry.for_wakes)
        asked = _read(arguments, entry.takes)
        found = msgspec.to_builtins(await entry.run(entry.tools(alarms), asked))
    except WakefulError as error:
        where, dot, field = error.field.rpartition(".")
        error.field = f"{where}{dot}{entry.names.get(field, field)}"
        return _failed(await _lesson(alarms, entry, error, arguments))
    except Exception:
        log.exception("%s broke", name)
        return _failed(f"{name}: an internal error; the server's log has the details. It may not have been done.")
    text = msgspec.json.encode(found).decode()
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=found)


def _check_owner(principal: Principal) -> None:
    if not principal.owner:  # to the service that means the operator, who sees all
        raise Forbidden("this token does not name an owner", field="Authorization")


def _read(arguments: Mapping[str, Any], kind: type[msgspec.Struct]) -> msgspec.Struct:
    """Decode the arguments into their type: the SDK does not check them."""
    try:
        body = msgspec.json.encode({name: json_of(value, name) for name, value in arguments.items()})
    except (UnicodeEncodeError, RecursionError, ValueError, TypeError) as error:
        raise InvalidRequest(f"the arguments cannot be read ({error})", field="arguments") from None
    check_depth(body, "arguments")
    try:
        asked = decode(body, kind)
    except InvalidRequest as error:
        raise InvalidRequest(error.message, field=error.field, fix=_accepted(kind, error.field)) from None
    for name, text in given(asked).items():  # each has its own limit further in; NUL not even a search may hold
        if isinstance(text, str):
            check_text(name, text, BODY_LIMIT)
    return asked


def _accepted(kind: type[msgspec.Struct], field: str) -> str:
    """Return the accepted values of a field if they can be listed, else the known fields."""
    shape = schema(kind)
    enum = shape["properties"].get(field, {}).get("enum")
    if enum is not None:
        return f"Accepted: {', '.join(enum)}."
    names = (f"{name}*" if name in shape.get("required", ()) else name for name in shape["properties"])
    return f"It takes: {', '.join(names)} (* required)."


async def _lesson(alarms: Alarms, entry: ToolEntry, error: WakefulError, arguments: Mapping[str, Any]) -> str:
    try:
        return await lesson(alarms, entry, error, arguments, utc(await alarms.service.now()))
    except WakefulError:  # the store is away: the fault itself still has to be told
        return f"{entry.name}: {error}"


def _failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
