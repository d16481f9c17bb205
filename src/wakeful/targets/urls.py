"""Checks of the URL and headers of a target, once at start."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from wakeful.errors import InvalidConfig

_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OURS: Final = frozenset(
    {"host", "content-length", "content-type", "content-encoding", "transfer-encoding", "accept-encoding"}
) | {"connection", "keep-alive", "te", "trailer", "upgrade", "expect", "user-agent", "idempotency-key"}
_OUR_PREFIXES: Final = ("webhook-", "wakeful-", "proxy-")


def check_url(url: str, *, field: str = "url") -> None:
    """Refuse what is not a plain http or https address."""
    fix = "Write for example https://example.com/wake."
    if not isinstance(url, str):  # a settings file can hold anything
        raise InvalidConfig(f"{url!r} is not a text", field=field, fix=fix)
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidConfig(f"it is not a URL ({error})", field=field, fix=fix) from None
    if any(not sign.isprintable() or sign in " \\" for sign in url):
        raise InvalidConfig("it holds a space, a backslash or a control character", field=field, fix=fix)
    if parts.scheme not in ("http", "https"):
        raise InvalidConfig("it does not begin with http:// or https://", field=field, fix=fix)
    if not host:
        raise InvalidConfig("it has no host", field=field, fix=fix)
    if "@" in parts.netloc:
        raise InvalidConfig("it holds a user name or password", field=field, fix="Put credentials into headers.")
    if "#" in url:
        raise InvalidConfig("it holds a fragment (#…), which is never sent", field=field, fix="Leave it out.")


def check_headers(headers: Mapping[str, str], *, field: str = "headers") -> None:
    """Refuse headers that are wakeful's own business, or that could break out of their line."""
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            raise InvalidConfig(f"{name[:60]!r} is not a header name", field=field)
        if name.lower() in _OURS or name.lower().startswith(_OUR_PREFIXES):
            raise InvalidConfig(f"{name!r} is set by wakeful itself", field=field, fix="Leave it out.")
        if not value.isascii() or not value.isprintable():
            raise InvalidConfig(f"the value of {name!r} has characters other than printable ASCII", field=field)
