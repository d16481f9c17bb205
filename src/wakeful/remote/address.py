"""Where a server is and who asks there: checked before anything is sent. The token is never shown."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from wakeful.errors import InvalidConfig

SCHEMES: Final = ("http://", "https://")
_EXAMPLE: Final = "Give an address such as https://wakeful.example:4747."


class ServerAddress(Struct, frozen=True):
    url: str
    token: str = ""

    def __repr__(self) -> str:
        return f"ServerAddress({self.url!r}{', with a token' if self.token else ''})"


def is_server(text: str) -> bool:
    return text.lower().startswith(SCHEMES)


def server_in(environ: Mapping[str, str]) -> str:
    """The server that the environment names; refused where it names a database as well."""
    url = environ.get("WAKEFUL_URL", "").strip()
    if url and environ.get("WAKEFUL_DB"):
        raise InvalidConfig(
            "WAKEFUL_URL names a server and WAKEFUL_DB a database",
            field="WAKEFUL_URL",
            fix="Unset one of them, or say --url or --db.",
        )
    return url


def server_address(url: str, token: str | None = None, *, environ: Mapping[str, str] | None = None) -> ServerAddress:
    """An address that may be spoken to. Without a token, that of WAKEFUL_TOKEN counts."""
    token = (os.environ if environ is None else environ).get("WAKEFUL_TOKEN", "") if token is None else token
    token = token.strip()
    parts = _split(url.strip())
    if parts.username is not None or parts.password is not None:
        raise InvalidConfig("an address does not hold a name or a password", field="url", fix="Give a token instead.")
    if parts.query or parts.fragment:
        raise InvalidConfig(f"{url!r} has more than a host and a path", field="url", fix=_EXAMPLE)
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidConfig("this is not a token", field="token", fix="It is one word, wk_…; see `wakeful token new`.")
    if token and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise InvalidConfig(
            f"a token would be sent to {parts.hostname} unencrypted, where anyone on the way can read it",
            field="url",
            fix="Use https://, or reach the server through a tunnel on 127.0.0.1.",
        )
    return ServerAddress(f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}", token)


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0  # reading the port checks it
    except ValueError:
        has_host = False
    if (
        not has_host
        or parts.scheme not in ("http", "https")
        or not url.isascii()
        or not url.isprintable()
        or " " in url
    ):
        raise InvalidConfig(f"{url!r} is not the address of a server", field="url", fix=_EXAMPLE)
    return parts


def is_loopback(host: str) -> bool:
    if host.lower() in ("localhost", "localhost."):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
