"""Whether there is an MCP door, and its route. The package behind it is optional, and takes a second to import."""

from __future__ import annotations

from importlib.util import find_spec

from starlette.routing import BaseRoute

from wakeful.config import Settings
from wakeful.service import Service


def has_mcp() -> bool:
    return find_spec("mcp") is not None


def mcp_routes(service: Service, settings: Settings) -> list[BaseRoute]:
    if not has_mcp():
        return []
    from wakeful.mcp import http

    return http(service, settings)
