"""The router of seed 002: `POST …/internal/wake` with a bearer token; any 2xx means the wake was taken."""

from __future__ import annotations

import msgspec

from wakeful.clock import Clock
from wakeful.errors import InvalidConfig
from wakeful.model.outcome import Delivered, Outcome
from wakeful.rules.wake import Wake
from wakeful.targets.sending import Sender
from wakeful.targets.sending.addresses import Allowed
from wakeful.targets.webhook import hidden, varying


class Router:
    """Settings:

    url             the router's wake address, normally http://127.0.0.1:8088/internal/wake
    token           sent as `Authorization: Bearer …`; "" sends none
    timeout         seconds for the whole exchange
    allow_private   true: the router is usually on this machine; False or a list of networks, as for a webhook
    """

    def __init__(
        self, *, url: str, clock: Clock, token: str = "", timeout: float = 60, allow_private: Allowed = True
    ) -> None:
        if not token.isascii() or not token.isprintable():
            raise InvalidConfig("it has characters other than printable ASCII", field="token")
        self._clock = clock
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self._sender = Sender(
            url, timeout=timeout, allow_private=allow_private, headers=headers, secrets=hidden(headers)
        )

    async def deliver(self, wake: Wake) -> Outcome:
        reply = await self._sender.post(varying(wake), _body(wake), skip_body_when_ok=True)
        if reply.ok:
            return Delivered(f"HTTP {reply.status}")
        return self._sender.failure(
            reply, now=self._clock.now(), hide=(wake.report_token, wake.token), who="router returned "
        )

    async def reach(self) -> str:
        """Return what keeps a connection from being made; empty where nothing does."""
        return await self._sender.reach()

    async def close(self) -> None:
        await self._sender.close()


def _body(wake: Wake) -> bytes:
    """The wake, but for a conversation nobody named: routers take an empty one for a conversation."""
    if wake.conversation_id:
        return wake.body
    sent = msgspec.structs.asdict(wake.content)
    left_out = {name for name, value in sent.items() if value is msgspec.UNSET} | {"conversation_id"}
    return msgspec.json.encode({name: value for name, value in sent.items() if name not in left_out})
