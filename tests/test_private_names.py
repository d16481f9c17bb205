"""Names of other libraries that are not public, and that wakeful uses: each is there, and takes what it took.

Where one of these fails, the library was changed: look at who uses the name before its bound in pyproject.toml moves.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import tomllib
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState
from yarl import URL

from wakeful.targets.sending import _Connector
from wakeful.targets.sending.reading import Answering

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
WEBHOOKS = "src/wakeful/targets/sending/__init__.py"
CONNECTION = "src/wakeful/http/security/connection.py"
SERVER = "src/wakeful/http/http_server.py"
METHODS = {
    "_should_upgrade": ["self"],
    "_start_asgi_task": ["self", "cycle", "app"],
    "_unset_keepalive_if_required": ["self"],
    "_unsupported_upgrade_warning": ["self"],
    "connection_lost": ["self", "exc"],
    "connection_made": ["self", "transport"],
    "data_received": ["self", "data"],
    "handle_websocket_upgrade": ["self"],
    "on_body": ["self", "body"],
    "on_header": ["self", "name", "value"],
    "on_headers_complete": ["self"],
    "on_message_begin": ["self"],
    "on_message_complete": ["self"],
    "on_response_complete": ["self"],
    "on_url": ["self", "url"],
    "send_400_response": ["self", "msg"],
    "shutdown": ["self"],
}
OF_A_SERVER = {
    "capture_signals": ["self"],
    "main_loop": ["self"],
    "on_tick": ["self", "counter"],
    "serve": ["self", "sockets"],
    "shutdown": ["self", "sockets"],
    "startup": ["self", "sockets"],
}
ATTRIBUTES = ("app_state", "client", "cycle", "flow", "headers", "loop", "parser", "pipeline", "scope", "transport")
OF_A_CYCLE = ("disconnected", "message_event", "more_body", "response_complete", "response_started")


def nothing() -> None:
    return None


def a_connection() -> HttpToolsProtocol:
    config = uvicorn.Config(nothing)
    config.load()
    return HttpToolsProtocol(config, server_state=ServerState(), app_state={})


def changed(library: Any, name: str, user: str) -> str:
    return f"{library.__name__} {library.__version__} changed {name}, which {user} uses"


@pytest.mark.parametrize("name", METHODS)
def test_a_method_of_uvicorns_connection(name: str) -> None:
    method = getattr(HttpToolsProtocol, name, None)
    assert method is not None, changed(uvicorn, f"HttpToolsProtocol.{name}", CONNECTION)
    assert list(inspect.signature(method).parameters) == METHODS[name], changed(uvicorn, name, CONNECTION)


@pytest.mark.parametrize("name", ATTRIBUTES)
async def test_an_attribute_of_uvicorns_connection(name: str) -> None:
    made = a_connection()
    assert hasattr(made, name), changed(uvicorn, f"HttpToolsProtocol.{name}", CONNECTION)


async def test_what_uvicorns_connection_has_read_of_a_request() -> None:
    made = a_connection()
    made.on_message_begin()
    made.on_url(b"/x")
    made.on_header(b"Host", b"here")
    assert made.url == b"/x", changed(uvicorn, "HttpToolsProtocol.url", CONNECTION)
    assert made.headers == [(b"host", b"here")], changed(uvicorn, "HttpToolsProtocol.headers", CONNECTION)


def test_reading_of_uvicorns_connection_can_be_paused() -> None:
    assert callable(getattr(FlowControl, "pause_reading", None)), changed(uvicorn, "FlowControl", CONNECTION)


@pytest.mark.parametrize("name", OF_A_SERVER)
def test_a_method_of_uvicorns_server(name: str) -> None:
    method = getattr(uvicorn.Server, name, None)
    assert method is not None, changed(uvicorn, f"Server.{name}", SERVER)
    assert list(inspect.signature(method).parameters) == OF_A_SERVER[name], changed(uvicorn, name, SERVER)


async def test_what_uvicorns_server_has() -> None:
    config = uvicorn.Config(nothing, timeout_graceful_shutdown=7)
    config.load()
    server = uvicorn.Server(config)
    assert server.should_exit is False, changed(uvicorn, "Server.should_exit", SERVER)
    assert (server.server_state.connections, server.server_state.tasks) == (set(), set())
    assert config.http_protocol_class is HttpToolsProtocol, changed(uvicorn, "Config.http_protocol_class", SERVER)
    assert config.timeout_graceful_shutdown == 7
    lifespan = config.lifespan_class(config)
    assert lifespan.state == {}, changed(uvicorn, "lifespan.state", SERVER)
    assert list(inspect.signature(lifespan.shutdown).parameters) == [], changed(uvicorn, "lifespan.shutdown", SERVER)
    server.should_exit = True
    assert await server.on_tick(0), changed(uvicorn, "Server.on_tick", SERVER)


@pytest.mark.parametrize("name", OF_A_CYCLE)
def test_an_attribute_of_uvicorns_cycle(name: str) -> None:
    needed: dict[str, Any] = dict.fromkeys(inspect.signature(RequestResponseCycle).parameters)
    made = RequestResponseCycle(**needed)
    assert hasattr(made, name), changed(uvicorn, f"RequestResponseCycle.{name}", CONNECTION)


@pytest.mark.parametrize("name", ["_factory", "_loop"])
async def test_an_attribute_of_aiohttps_connector(name: str) -> None:
    async with aiohttp.TCPConnector() as connector:
        assert hasattr(connector, name), changed(aiohttp, f"TCPConnector.{name}", WEBHOOKS)


async def test_aiohttps_connector_makes_its_protocols_with_the_factory() -> None:
    made: list[Answering] = []

    def factory() -> Answering:
        made.append(Answering(asyncio.get_running_loop()))
        return made[0]

    async with (
        await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0) as server,
        aiohttp.TCPConnector() as connector,
    ):
        port = server.sockets[0].getsockname()[1]
        connector._factory = factory  # type: ignore[assignment]
        request = aiohttp.ClientRequest("GET", URL(f"http://127.0.0.1:{port}/"), headers={"a": "b"})
        connection = await connector.connect(request, [], aiohttp.ClientTimeout())
        connection.close()
    assert [connection.protocol or made[0]] == made, changed(aiohttp, "TCPConnector._factory", WEBHOOKS)
    assert request.headers["a"] == "b"


async def test_aiohttps_pool_keeps_a_connection_by_what_its_protocol_says() -> None:
    """`should_close`, `is_connected`, `closed`, `close` and `transport` of `Answering`: what the pool asks it."""

    async def stays(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(stays, "127.0.0.1", 0) as server:
        connector = _Connector()
        port = server.sockets[0].getsockname()[1]
        request = aiohttp.ClientRequest("GET", URL(f"http://127.0.0.1:{port}/"), headers={})
        first: Any = await connector.connect(request, [], aiohttp.ClientTimeout())
        protocol = first.protocol
        assert isinstance(protocol, Answering), changed(aiohttp, "Connection.protocol", WEBHOOKS)
        first.release()
        again: Any = await connector.connect(request, [], aiohttp.ClientTimeout())
        assert again.protocol is protocol, changed(aiohttp, "what is asked of a protocol", WEBHOOKS)
        again.release()
        await connector.close()
        await asyncio.wait_for(protocol.closed, 5)


@pytest.mark.parametrize("library", ["aiohttp", "uvicorn", "mcp"])
def test_a_library_whose_private_names_are_used_has_an_upper_bound(library: str) -> None:
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    named = [*project["dependencies"], *project["optional-dependencies"]["mcp"]]
    [bounds] = [one for one in named if re.match(rf"{library}\b", one)]
    assert re.search(r"<\d", bounds), f"{bounds} may be any later version"
