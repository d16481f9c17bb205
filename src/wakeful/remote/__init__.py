"""The clock of a program that is elsewhere: the same verbs, asked of a `wakeful serve` over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wakeful.remote.address import ServerAddress as ServerAddress
from wakeful.remote.address import server_address as server_address

if TYPE_CHECKING:
    from wakeful.remote.clock import RemoteWakeful as RemoteWakeful


def __getattr__(name: str) -> Any:
    """The clock is imported when it is asked for: who only looks for an address needs none of it."""
    if name != "RemoteWakeful":
        raise AttributeError(f"module 'wakeful.remote' has no attribute {name!r}")
    from wakeful.remote.clock import RemoteWakeful

    return RemoteWakeful
