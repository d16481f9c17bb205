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
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState
from yarl import URL

from wakeful.targets.sending.reading import Answering

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
WEBHOOKS = "src/wakeful/targets/sending/__init__.py"
CONNECTION = "src/wakeful/http/security/connection.py"
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
    "send_400_response": ["self", "msg"],
}
ATTRIBUTES = ("app_state", "client", "cycle", "flow", "headers", "loop", "parser", "pipeline", "scope", "transport")
OF_A_CYCLE = ("disconnected", "message_event", "more_body", "response_complete", "response_started")


def changed(library: Any, name: str, user: str) -> str:
    return f"{library.__name__} {library.__version__} changed {name}, which {user} uses"


@pytest.mark.parametrize("name", METHODS)
def test_a_method_of_uvicorns_connection(name: str) -> None:
    method = getattr(HttpToolsProtocol, name, None)
    assert method is not None, changed(uvicorn, f"HttpToolsProtocol.{name}", CONNECTION)
    assert list(inspect.signature(method).parameters) == METHODS[name], changed(uvicorn, name, CONNECTION)


@pytest.mark.parametrize("name", ATTRIBUTES)
async def test_an_attribute_of_uvicorns_connection(name: str) -> None:
    config = uvicorn.Config(lambda: None)
    config.load()
    made = HttpToolsProtocol(config, server_state=ServerState(), app_state={})
    assert hasattr(made, name), changed(uvicorn, f"HttpToolsProtocol.{name}", CONNECTION)


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


@pytest.mark.parametrize("library", ["aiohttp", "uvicorn", "mcp"])
def test_a_library_whose_private_names_are_used_has_an_upper_bound(library: str) -> None:
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    named = [*project["dependencies"], *project["optional-dependencies"]["mcp"]]
    [bounds] = [one for one in named if re.match(rf"{library}\b", one)]
    assert re.search(r"<\d", bounds), f"{bounds} may be any later version"
