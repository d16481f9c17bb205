"""What targets share whose wakes go to an agent platform's API: JSON by HTTP, under the rules of webhooks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import urlsplit

from wakeful.clock import Clock
from wakeful.errors import InvalidConfig
from wakeful.model.outcome import Failed
from wakeful.rules.wake import Wake
from wakeful.targets.sending import Sender
from wakeful.targets.sending.addresses import Allowed, check_headers
from wakeful.targets.sending.reading import Reply
from wakeful.targets.webhook import hidden

# The same request would be refused again. What needs another key, or an agent that is deployed later, is tried again.
FINAL: Final = (400, 409, 410, 413, 422)


class Platform:
    """An address with the headers that every request there has; the values of these never turn up in an error."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        clock: Clock,
        timeout: float,
        allow_private: Allowed,
        field: str = "url",
    ) -> None:
        parts = urlsplit(url)
        if parts.query:
            raise InvalidConfig(
                "it has a query, and paths are added to it", field=field, fix="Leave out what follows ?."
            )
        if bad := next((name for name, text in headers.items() if not text.isascii() or not text.isprintable()), ""):
            raise InvalidConfig(f"the value of {bad} has characters other than printable ASCII", field="headers")
        check_headers(headers)
        self._clock = clock
        self._sender = Sender(
            url,
            timeout=timeout,
            allow_private=allow_private,
            headers={**headers, "content-type": "application/json"},
            secrets=hidden(headers),
        )

    async def post(self, wake: Wake, body: bytes, *, path: str = "", headers: Mapping[str, str] = {}) -> Reply:
        return await self._sender.post({"wakeful-attempt": str(wake.attempt), **headers}, body, path=path)

    async def get(self, path: str) -> Reply:
        return await self._sender.get(path)

    def failure(self, reply: Reply, wake: Wake, *, final: Collection[int] = FINAL) -> Failed:
        """What a reply means that is not a yes."""
        return self._sender.failure(reply, now=self._clock.now(), hide=(wake.report_token, wake.token), final=final)

    async def close(self) -> None:
        await self._sender.close()
