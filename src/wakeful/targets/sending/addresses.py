"""Where a wake may be sent: checks of a target's URL and headers at start, and of each address that is connected to.

Addresses must be public, or among those that the operator allows. An address is judged where it is connected to, after
name resolution, with every way of writing an IPv4 address inside an IPv6 one unwrapped first.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from wakeful.errors import InvalidConfig

Allowed = bool | tuple[str, ...]
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# IPv6 prefixes that carry an IPv4 address, and how far from the right it stands.
_WRAPPED: Final = tuple(
    (ipaddress.IPv6Network(prefix), shift)
    for prefix, shift in (
        ("::ffff:0:0/96", 0),  # mapped
        ("::ffff:0:0:0/96", 0),  # translated
        ("64:ff9b::/96", 0),  # NAT64
        ("2002::/16", 80),  # 6to4
        ("::/96", 0),  # compatible, long deprecated
    )
)
# What the standard library calls global, although nobody's public service lives there.
_NOT_PUBLIC: Final = tuple(
    ipaddress.ip_network(network)
    for network in (
        *("192.0.0.0/24", "192.88.99.0/24", "64:ff9b:1::/48", "fec0::/10", "3fff::/20", "5f00::/16"),
        *("100:0:0:1::/64", "2001::/32"),
    )
)
_LOCAL_NAT64: Final = ipaddress.IPv6Network("64:ff9b:1::/48")
# Where clouds answer with credentials. `allow_private = true` does not open these; naming them does.
_METADATA: Final = tuple(
    ipaddress.ip_network(network)
    for network in ("169.254.0.0/16", "fe80::/10", "100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::/32")
)
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OURS: Final = frozenset(
    {"host", "content-length", "content-type", "content-encoding", "transfer-encoding", "accept-encoding"}
) | {"connection", "keep-alive", "te", "trailer", "upgrade", "expect", "user-agent", "idempotency-key"}
_OUR_PREFIXES: Final = ("webhook-", "wakeful-", "proxy-")


def networks(allowed: Iterable[str], *, field: str = "allow_private") -> tuple[_Network, ...]:
    """The networks an operator names, or InvalidConfig."""
    try:
        return tuple(ipaddress.ip_network(text, strict=False) for text in allowed)
    except ValueError as error:
        fix = 'Give true, or networks such as ["10.0.0.0/8", "127.0.0.1/32"].'
        raise InvalidConfig(f"{error}", field=field, fix=fix) from None


def refusal(address: str, allowed: Allowed = False) -> str | None:
    """Why nothing may be sent to this address, or None when it may."""
    try:
        real = _unwrapped(ipaddress.ip_address(address.partition("%")[0]))
    except ValueError:
        return f"address {address[:60]!r} is not an IP address"
    if not isinstance(allowed, bool) and any(real in network for network in _networks(allowed)):
        return None
    kind = _kind(real)
    if kind is None or (allowed is True and kind == "private"):
        return None
    shown = address if str(real) == address else f"{address} ({real})"
    return f"address {shown} is {kind} and is not allowed by allow_private"


def _kind(address: _Address) -> str | None:
    """What keeps an address from being public; None when nothing does."""
    if any(one in network for one in (address, *_carried(address)) for network in _METADATA):
        return "private, link-local or a cloud's metadata"
    if address.is_multicast:
        return "a multicast address"
    if not address.is_global or any(address in network for network in _NOT_PUBLIC):
        return "private"
    return None


def _carried(address: _Address) -> tuple[_Address, ...]:
    """Return the IPv4 addresses inside a tunnel or translator address, which is only as safe as they are."""
    if isinstance(address, ipaddress.IPv4Address):
        return ()
    if address.teredo is not None:
        return address.teredo
    if address in _LOCAL_NAT64:
        # Its operator chooses where in it an IPv4 address stands: at the end, or around the 8 bits that are kept free.
        bits = int(address)
        return tuple(ipaddress.IPv4Address(part) for part in (bits & 0xFFFFFFFF, _around(bits)))
    return ()


def _around(bits: int) -> int:
    return (bits >> 64 & 0xFFFF) << 16 | bits >> 40 & 0xFFFF


def _unwrapped(address: _Address) -> _Address:
    if isinstance(address, ipaddress.IPv4Address) or int(address) <= 1:  # :: and ::1 are themselves
        return address
    for network, shift in _WRAPPED:
        if address in network:
            return ipaddress.IPv4Address(int(address) >> shift & 0xFFFFFFFF)
    return address


@lru_cache(maxsize=256)
def _networks(allowed: tuple[str, ...]) -> tuple[_Network, ...]:
    return networks(allowed)


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
