"""The MCP server: tools for agents, and more for tasks, over streamable HTTP at `/mcp` and on stdio.

A request is bound to one owner: over HTTP that of its token, on stdio that of the process. Agents name targets, never
addresses. Nothing is kept between requests but which of them wait (`Waits`), so any number of servers may stand behind
one address.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping
from typing import Any, Final

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import ClientDisconnect, Request
from starlette.routing import BaseRoute, Route
from starlette.types import Message, Receive, Scope, Send

from wakeful._version import __version__
from wakeful.errors import Forbidden, InvalidConfig, InvalidRequest, Unauthorized, WakefulError
from wakeful.http.endpoint import disconnected, unless_gone, whole_body
from wakeful.http.security.auth import PRINCIPAL, SCOPES, Principal
from wakeful.http.security.guard import BODY_LIMIT, check_depth
from wakeful.mcp import channel as channels
from wakeful.mcp import resources
from wakeful.mcp.agent_views import utc
from wakeful.mcp.catalogue import INSTRUCTIONS, TOOLS, ToolEntry, lesson, listed
from wakeful.mcp.schemas import argument_schema, as_meant, given, schema
from wakeful.mcp.task_tools import TASK_INSTRUCTIONS, TASK_TOOLS
from wakeful.model.alarm import INBOX
from wakeful.rules.create import check_text
from wakeful.rules.wanted import decode, json_of
from wakeful.runtime.cpu_time import charged
from wakeful.service import Alarms, Service
from wakeful.settings import Settings

__all__ = ["TASK_TOOLS", "TOOLS", "http", "server", "stdio"]

log = logging.getLogger("wakeful.mcp")

PATH: Final = "/mcp"
CANCELLED: Final = "notifications/cancelled"
Context = ServerRequestContext[Any, Any]
PrincipalOf = Callable[[Context], Awaitable[Principal]]
Calling = Coroutine[Any, Any, types.CallToolResult]


# What a host says of the agent that it connects, by the names of its headers, of its query and within `_meta`. Session
# ids are not in a model's sight: without them a wake finds no way to the conversation that it belongs to.
OF_HOST: Final = {"target": "wakeful-target", "conversation_id": "wakeful-conversation", "timezone": "wakeful-timezone"}


def said_by_host(ctx: Context, otherwise: Mapping[str, str]) -> dict[str, str]:
    """What a call's `_meta` says, else a header of its request, else the query of its address.

    `otherwise`: what the process was started with, on stdio.
    """
    meta: Mapping[str, Any] = ctx.meta or {}
    headers, query = (ctx.request.headers, ctx.request.query_params) if ctx.request is not None else ({}, {})
    found = dict(otherwise)
    for argument, name in OF_HOST.items():
        said = meta.get(name) or headers.get(name) or query.get(argument)
        if isinstance(said, str) and said:
            found[argument] = said
    return found


def with_host(
    arguments: Mapping[str, Any], entry: ToolEntry, host: Mapping[str, str], inboxes: Collection[str]
) -> Mapping[str, Any]:
    """The arguments of a call, and for those that it does not name what its host says.

    Where an alarm goes, an empty text says nothing either. Of an inbox, "" asks for all of its conversations; and
    where the wakes go to another kind of target, there is no such inbox to read.
    """
    defaults = {name: value for name, value in host.items() if name in entry.from_host}
    if entry.takes_wakes:
        if defaults.get("target") not in inboxes:
            defaults.pop("target", None)
        return {**defaults, **arguments}
    return {**arguments, **{name: value for name, value in defaults.items() if not arguments.get(name)}}


class Waits:
    """The calls over HTTP that wait at an inbox. When their client gives up they are cancelled, and take no wake.

    A client gives up by closing the connection or, before revision 2026-07-28, by a request of its own that names the
    call by its number. Two clients of one principal may use the same number: then both waits end, without a wake.
    """

    def __init__(self) -> None:
        self._calls: defaultdict[tuple[Principal, str], set[asyncio.Event]] = defaultdict(set)

    async def answered(self, ctx: Context, principal: Principal, calling: Calling) -> types.CallToolResult:
        """The answer to a call, or that it was cancelled, which nobody reads but a client that used the same number."""
        request: Any = ctx.request  # over HTTP there is one
        with self._open(principal, str(ctx.request_id)) as cancelled:
            try:
                return await unless_gone(calling, disconnected(request), cancelled.wait())
            except ClientDisconnect:
                return _failed("This call was cancelled, and no wake was taken. Nothing was changed. Call it again.")

    @contextlib.contextmanager
    def _open(self, principal: Principal, number: str) -> Iterator[asyncio.Event]:
        key, cancelled = (principal, number), asyncio.Event()
        self._calls[key].add(cancelled)
        try:
            yield cancelled
        finally:
            self._calls[key].discard(cancelled)
            if not self._calls[key]:
                del self._calls[key]

    def heard(self, principal: Principal, said: bytes) -> None:
        """End the waits that a request cancels; most requests cancel nothing."""
        if CANCELLED.encode() not in said:
            return
        with contextlib.suppress(msgspec.DecodeError):
            message = msgspec.json.decode(said, type=_Cancellation)
            if message.method == CANCELLED:
                for cancelled in self._calls.get((principal, str(message.params.request_id)), ()):
                    cancelled.set()


class _CancelledRequest(msgspec.Struct, rename="camel"):
    request_id: str | int


class _Cancellation(msgspec.Struct):
    method: str
    params: _CancelledRequest


def server(
    service: Service,
    settings: Settings,
    principal_of: PrincipalOf,
    waits: Waits | None = None,
    host: Mapping[str, str] | None = None,
) -> Server[Any]:
    """Build the MCP server; `principal_of` returns the identity behind a request, or raises.

    `waits`: over HTTP, where a client that gives up is noticed by us; on stdio the library cancels its call. `host`:
    what holds for calls that do not say it, by the names of arguments.
    """

    offered = {**TOOLS, **TASK_TOOLS} if settings.mcp_tasks else TOOLS
    schemas = {name: argument_schema(entry.takes) for name, entry in offered.items()}

    async def list_tools(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        principal = await _known(principal_of(ctx))
        is_wake = principal is not None and principal.wake is not None
        entries = [entry for entry in offered.values() if entry.for_wakes or not is_wake]
        zone = (await service.owner_settings.of(principal.owner if principal is not None else "")).timezone
        own = {"timezone": zone, "target": INBOX} | said_by_host(ctx, host or {})
        targets = await _targets_of(service, principal)
        return listed(entries, timezone=own["timezone"], target=own["target"], targets=targets)

    async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            principal = await principal_of(ctx)
        except WakefulError as error:
            return _failed(f"{error} Nothing was changed.")
        entry = offered.get(params.name)
        if entry is None:
            known = ", ".join(offered)
            return _failed(f"There is no tool {params.name[:100]!r}. Nothing was changed. Known names: {known}.")
        arguments = with_host(
            as_meant(params.arguments or {}, entry.takes), entry, said_by_host(ctx, host or {}), settings.inboxes
        )
        calling = charged(_called(service, principal, entry, arguments))
        return await (waits.answered(ctx, principal, calling) if waits and entry.takes_wakes else calling)

    async def alarms_of(ctx: Context) -> Alarms:
        principal = await principal_of(ctx)
        _check_owner(principal)
        principal.need("read")
        return Alarms(service, principal.caller("mcp"))

    quiet = logging.getLogger("mcp")
    if quiet.level == logging.NOTSET:  # it notes every request and, in detail, what was said
        quiet.setLevel(logging.WARNING)
    return Server(
        "wakeful",
        version=__version__,
        title="wakeful",
        description="A durable alarm clock for agents.",
        instructions=INSTRUCTIONS + (TASK_INSTRUCTIONS if settings.mcp_tasks else ""),
        get_tool_input_schema=schemas.get,  # else the library lists and serialises all tools for each call
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        **resources.handlers(alarms_of),
    )


async def _known(principal: Awaitable[Principal]) -> Principal | None:
    try:
        return await principal
    except WakefulError:
        return None


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

    def principal_in(scope: Scope) -> Principal | None:
        found: Principal | None = scope.get(PRINCIPAL, everyone)
        return found

    async def asking(ctx: Context) -> Principal:
        found = principal_in(ctx.request.scope) if ctx.request is not None else None
        if found is None:
            raise Unauthorized("the caller is unknown", field="Authorization")
        return found

    waits = Waits()
    endpoint = _Endpoint(server(service, settings, asking, waits), waits, principal_in)
    return [Route(PATH, endpoint, methods=["POST"])]


async def stdio(
    service: Service,
    settings: Settings,
    principal_of: Callable[[Any], Awaitable[Principal]],
    host: Mapping[str, str] | None = None,
    *,
    channel: bool = False,
) -> None:
    """Answer on stdin and stdout until stdin ends. `host`: see `server`. `channel`: send the wakes of its inbox too."""
    served = server(service, settings, principal_of, host=host)
    options = served.create_initialization_options()
    async with contextlib.AsyncExitStack() as stack:
        if channel:
            sending = await _channel(service, settings, principal_of, host or {})
            await stack.enter_async_context(sending.open(served))
            options = served.create_initialization_options(experimental_capabilities={channels.CAPABILITY: {}})
            options.instructions = f"{options.instructions}{channels.INSTRUCTIONS}"
        reading, writing = await stack.enter_async_context(stdio_server())
        await served.run(reading, writing, options)


async def _channel(
    service: Service,
    settings: Settings,
    principal_of: Callable[[Any], Awaitable[Principal]],
    host: Mapping[str, str],
) -> channels.Channel:
    target = host.get("target", INBOX)
    if target not in settings.inboxes:
        known = ", ".join(settings.inboxes)
        raise InvalidConfig(f"a channel needs an inbox, and {target!r} is none", field="target", fix=f"Known: {known}.")

    async def alarms_of() -> Alarms:
        principal = await principal_of(None)
        _check_owner(principal)
        principal.need(TOOLS["alarm_inbox"].scope)
        return Alarms(service, principal.caller("mcp"))

    await alarms_of()  # a token that may not read an inbox ends it here, where its owner sees why
    conversation_id = host.get("conversation_id", "")
    return channels.Channel(alarms_of, service.clock, target=target, conversation_id=conversation_id)


class _Endpoint:
    """Serves each request with its own manager, so that nothing needs starting or stopping where it is mounted.

    Hosts and origins are checked in front of the whole application (`http/security/guard.py`), for this route too.
    """

    def __init__(self, served: Server[Any], waits: Waits, principal_in: Callable[[Scope], Principal | None]) -> None:
        self._served = served
        self._waits = waits
        self._principal_in = principal_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        said = await whole_body(Request(scope, receive))  # the SDK would wait for it without end
        if (principal := self._principal_in(scope)) is not None:
            self._waits.heard(principal, said)
        manager = StreamableHTTPSessionManager(
            self._served, json_response=True, stateless=True, max_request_body_size=BODY_LIMIT
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
    name, alarms = entry.name, Alarms(service, principal.caller("mcp"))
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
    wanted = shape["properties"].get(field, {})
    if "enum" in wanted:
        return f"Accepted: {', '.join(wanted['enum'])}."
    if wanted.get("type") == "object":
        return 'Give an object, such as {"page": 3}.'
    names = (f"{name}*" if name in shape.get("required", ()) else name for name in shape["properties"])
    return f"It takes: {', '.join(names)} (* required)."


async def _lesson(alarms: Alarms, entry: ToolEntry, error: WakefulError, arguments: Mapping[str, Any]) -> str:
    try:
        return await lesson(alarms, entry, error, arguments, utc(await alarms.service.now()))
    except WakefulError:  # the store is away: the fault itself still has to be told
        return f"{entry.name}: {error}"


def _failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
