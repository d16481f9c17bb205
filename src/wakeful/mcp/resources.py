"""What clients show besides tools: alarms as resources (`alarm://…`), and prompts for a person to choose.

Reading a resource changes nothing. A long text comes whole: that is what tells it from a tool's answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from msgspec import Struct

from wakeful.errors import InvalidRequest, NotFound, WakefulError
from wakeful.mcp.catalogue import FRESH_FOR
from wakeful.mcp.schemas import AgendaArguments, GetArguments, HistoryArguments
from wakeful.mcp.tools import Tools
from wakeful.model.alarm import is_fire_id
from wakeful.service import Alarms

Context = ServerRequestContext[Any, Any]
SCHEME: Final = "alarm://"
JSON: Final = "application/json"
TEXT: Final = "text/plain"
WEEK: Final = 7 * 24


class _Entry(Struct, frozen=True):
    """A resource that everyone has, under a name of its own."""

    title: str
    about: str
    read: Callable[[Tools], Awaitable[Struct]]


_ENTRIES: Final[Mapping[str, _Entry]] = {
    "agenda": _Entry(
        "What is next",
        "Your fires of the next seven days, soonest first.",
        lambda tools: tools.agenda(AgendaArguments(hours=WEEK, limit=50)),
    ),
    "history": _Entry(
        "What happened",
        "What happened in the last 24 hours, and what was missed, newest first.",
        lambda tools: tools.history(HistoryArguments(since="24h", limit=50)),
    ),
}
_TEMPLATES: Final = (
    ("alarm", "{id}", JSON, "One alarm by its id or key: when it fires next, why not, and its latest fires."),
    ("payload", "{id}/payload", JSON, "An alarm's payload, whole."),
    ("message", "{id}/message", TEXT, "An alarm's message, whole."),
    ("result", "{fire_id}/result", TEXT, "What was reported of a fire, whole."),
)


def resources() -> types.ListResourcesResult:
    listed = [
        types.Resource(uri=SCHEME + name, name=name, title=entry.title, description=entry.about, mime_type=JSON)
        for name, entry in _ENTRIES.items()
    ]
    return types.ListResourcesResult(resources=listed, ttl_ms=FRESH_FOR, cache_scope="public")


def templates() -> types.ListResourceTemplatesResult:
    listed = [
        types.ResourceTemplate(uri_template=SCHEME + path, name=name, description=about, mime_type=mime)
        for name, path, mime, about in _TEMPLATES
    ]
    return types.ListResourceTemplatesResult(resource_templates=listed, ttl_ms=FRESH_FOR, cache_scope="public")


async def read(alarms: Alarms, uri: str) -> types.ReadResourceResult:
    """The contents of a resource; an error in the protocol's own form where there is none."""
    try:
        mime, text = await _read(alarms, uri)
    except WakefulError as error:
        raise MCPError(types.INVALID_PARAMS, str(error), {"uri": uri}) from None
    content = types.TextResourceContents(uri=uri, mime_type=mime, text=text)
    return types.ReadResourceResult(contents=[content], ttl_ms=0, cache_scope="private")


async def _read(alarms: Alarms, uri: str) -> tuple[str, str]:
    if not uri.startswith(SCHEME):
        raise NotFound(f"{uri[:200]!r} is not a resource", field="uri", fix=f"They begin with {SCHEME}.")
    path = uri.removeprefix(SCHEME).rstrip("/")
    tools = Tools(alarms)
    if (entry := _ENTRIES.get(path)) is not None:
        return JSON, _json(await entry.read(tools))
    id, _, part = path.partition("/")
    id = unquote(id)
    match part:
        case "":
            return JSON, _json(await tools.get(GetArguments(id=id)))
        case "payload":
            return JSON, (await alarms.get(id)).payload_json
        case "message":
            return TEXT, (await alarms.get(id)).wake_message
        case "result" if is_fire_id(id):
            return TEXT, (await alarms.fire_of(id)).result
    known = ", ".join(SCHEME + one for one in (*_ENTRIES, *(path for _, path, _, _ in _TEMPLATES)))
    raise InvalidRequest(f"there is no part {part[:80]!r}", field="uri", fix=f"Known are: {known}.")


def _json(found: Struct) -> str:
    return msgspec.json.encode(found).decode()


# Prompts

_PLAN: Final = """\
Plan my week with wakeful, my alarm clock.{about}
1. Call alarm_agenda {{"hours": 168, "limit": 50}} to see what is set already; say in one line what the week looks like.
2. Suggest the alarms that are missing: when, what each wake should say, and what belongs into its payload so that \
whoever is woken can begin without asking. Times are in {zone}. Do not set anything that is set already.
3. Once I agree, set them in one call: alarm_set {{"timezone": {zone}, "alarms": [{{"when": …, "wake_message": …, \
"key": …}}, …]}}, each with a key of its own.
4. Read back when each fires, as the answer says it, and what stands in its notes."""
_MISSED: Final = """\
What did I miss since {since}?
1. Call alarm_history {{"since": "{since}", "limit": 50}} and alarm_inbox {{}}.
2. Tell me, the most urgent first: what failed and why, what was missed or late and by how much, what waits for me.
3. For what failed, suggest alarm_update with the action retry or fire; do it only once I agree."""


class _Prompt(Struct, frozen=True):
    title: str
    about: str
    takes: Mapping[str, str]  # argument → what it is for; none is required
    said: Callable[[Mapping[str, str]], str]


_PROMPTS: Final[Mapping[str, _Prompt]] = {
    "plan_my_week": _Prompt(
        "Plan my week",
        "See what is set for the week, and set what is missing.",
        {"about": "What the week is about.", "timezone": "Your IANA time zone; UTC unless given."},
        lambda given: _PLAN.format(
            about=f" It is about: {given['about']}." if given.get("about") else "", zone=given.get("timezone") or "UTC"
        ),
    ),
    "what_did_i_miss": _Prompt(
        "What did I miss?",
        "What failed, was late or was missed, and what waits.",
        {"since": "How long ago, such as 8h; 24h unless given."},
        lambda given: _MISSED.format(since=given.get("since") or "24h"),
    ),
}


def prompts() -> types.ListPromptsResult:
    listed = [
        types.Prompt(
            name=name,
            title=prompt.title,
            description=prompt.about,
            arguments=[types.PromptArgument(name=one, description=about) for one, about in prompt.takes.items()],
        )
        for name, prompt in _PROMPTS.items()
    ]
    return types.ListPromptsResult(prompts=listed, ttl_ms=FRESH_FOR, cache_scope="public")


def prompt(name: str, given: Mapping[str, str]) -> types.GetPromptResult:
    known = _PROMPTS.get(name)
    if known is None:
        what = f"there is no prompt {name[:80]!r}; known are: {', '.join(_PROMPTS)}"
        raise MCPError(types.INVALID_PARAMS, what, {"name": name[:80]})
    if strange := [one for one in given if one not in known.takes]:
        what = f"it does not take {strange[0][:80]!r}, only: {', '.join(known.takes)}"
        raise MCPError(types.INVALID_PARAMS, what, {"name": name})
    said = types.TextContent(type="text", text=known.said(given))
    return types.GetPromptResult(description=known.about, messages=[types.PromptMessage(role="user", content=said)])


def handlers(alarms_of: Callable[[Context], Awaitable[Alarms]]) -> dict[str, Any]:
    """What the server of the protocol asks for; `alarms_of` returns the verbs of who asks, or raises."""

    async def list_resources(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        return resources()

    async def list_templates(
        ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return templates()

    async def read_resource(ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        try:
            alarms = await alarms_of(ctx)
        except WakefulError as error:
            raise MCPError(types.INVALID_REQUEST, str(error), {"uri": str(params.uri)}) from None
        return await read(alarms, str(params.uri))

    async def list_prompts(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        return prompts()

    async def get_prompt(ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        return prompt(params.name, params.arguments or {})

    return {
        "on_list_resources": list_resources,
        "on_list_resource_templates": list_templates,
        "on_read_resource": read_resource,
        "on_list_prompts": list_prompts,
        "on_get_prompt": get_prompt,
    }
