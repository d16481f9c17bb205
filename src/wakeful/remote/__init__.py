"""The remote client: the same verbs, as requests to a `wakeful serve` over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wakeful.remote.connection import ServerAddress as ServerAddress
from wakeful.remote.connection import server_address as server_address

if TYPE_CHECKING:
    from wakeful.remote.client import RemoteWakeful as RemoteWakeful


def __getattr__(name: str) -> Any:
    """The client is imported on first use: reading an address needs none of it."""
    if name != "RemoteWakeful":
        raise AttributeError(f"module 'wakeful.remote' has no attribute {name!r}")
    from wakeful.remote.client import RemoteWakeful

    return RemoteWakeful
