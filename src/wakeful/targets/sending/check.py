"""Reads one part of the answer of a URL: its status, its ETag, or a value in its JSON.

Under the rules of webhooks: the address is checked where it is connected to, no redirects, one deadline, a bound on
what is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from wakeful.clock import Clock
from wakeful.rules.checks import CheckFailed
from wakeful.settings.tables import CheckSettings
from wakeful.targets.sending import Sender
from wakeful.targets.sending.addresses import Allowed, check_headers, check_url, networks
from wakeful.targets.sending.reading import Reply
from wakeful.targets.webhook import hidden

_NOTHING: Final = object()


def verify_checks(checks: Mapping[str, CheckSettings]) -> None:
    """InvalidConfig for an address, a header or a network that is not one."""
    for name, check in checks.items():
        if check.url:
            check_url(check.url, field=f"checks.{name}.url")
        check_headers(check.headers, field=f"checks.{name}.headers")
        if not isinstance(check.allow_private, bool):
            networks(check.allow_private, field=f"checks.{name}.allow_private")


async def read(
    url: str, changed: str, *, headers: Mapping[str, str], timeout: float, allow_private: Allowed, clock: Clock
) -> str:
    """The part of the answer that counts, or CheckFailed. Any status is one, where the status is what counts."""
    sender = Sender(
        url, timeout=timeout, allow_private=allow_private, headers=headers, secrets=hidden(headers), method="GET"
    )
    try:
        reply = await sender.post({}, b"", skip_body_when_ok=not changed.startswith("/"))
    finally:
        await sender.close()
    if changed == "status" and reply.status:
        return str(reply.status)
    if not reply.ok:
        failure = sender.failure(reply, now=clock.now())
        # Its text stays out: the owner of an alarm knows the name of a check, and nothing of what is there.
        raise CheckFailed(f"HTTP {reply.status}" if reply.status else failure.error)
    return _etag(reply) if changed == "etag" else _at(changed, reply)


def _etag(reply: Reply) -> str:
    found = next((value for name, value in reply.headers.items() if name.lower() == "etag"), "")
    if not found:
        raise CheckFailed("its answer has no ETag")
    return found


def _at(pointer: str, reply: Reply) -> str:
    """The value at a JSON pointer (RFC 6901); what is not there is a value too, unlike any other."""
    if reply.cut or reply.trouble:
        raise CheckFailed(reply.trouble or "its answer is too long")
    try:
        value = msgspec.json.decode(reply.body)
    except (msgspec.DecodeError, RecursionError):
        raise CheckFailed("its answer is not JSON") from None
    for part in pointer.split("/")[1:]:
        value = _within(value, part.replace("~1", "/").replace("~0", "~"))
    return "" if value is _NOTHING else msgspec.json.encode(value, order="sorted").decode()


def _within(value: Any, part: str) -> Any:
    if isinstance(value, dict):
        return value.get(part, _NOTHING)
    is_place = isinstance(value, list) and part.isascii() and part.isdigit() and len(part) < 10
    return value[int(part)] if is_place and int(part) < len(value) else _NOTHING
