"""A session of OpenAI's Agents API: a wake is a message in it, and the project's webhooks say how the turn ended."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from wakeful.clock import Clock
from wakeful.errors import InvalidConfig, InvalidRequest
from wakeful.model.outcome import Delivered, Failed, Outcome
from wakeful.model.requests import ReportRequest
from wakeful.rules.wake import Wake
from wakeful.targets.platform import Platform
from wakeful.targets.sending.addresses import Allowed
from wakeful.targets.signing import key

KIND: Final = "openai_session"
_SESSION: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")
_HEADER_SAFE: Final = "".join(map(chr, range(0x21, 0x7F)))


class OpenAISession:
    """Settings:

    api_key          sent as a Bearer token
    webhook_secret   the signing secret of the project's webhook; "" takes none, and no report is awaited
    url              where the API is
    timeout          seconds for one exchange
    allow_private    False: public addresses only; true: private ones and loopback too; or a list of networks
    headers          more headers to send, such as `openai-project`
    """

    def __init__(
        self,
        *,
        api_key: str,
        clock: Clock,
        webhook_secret: str = "",
        url: str = "https://api.openai.com/v1",
        timeout: float = 30,
        allow_private: Allowed = False,
        headers: Mapping[str, str] = {},
    ) -> None:
        if not api_key:
            raise InvalidConfig("it is empty", field="api_key", fix="Give a key of the project.")
        if webhook_secret:
            key(webhook_secret)
        self._reports = bool(webhook_secret)
        own = {"authorization": f"Bearer {api_key}", "openai-beta": "agents=v1"}
        self._api = Platform(url, {**headers, **own}, clock=clock, timeout=timeout, allow_private=allow_private)

    async def deliver(self, wake: Wake) -> Outcome:
        if not _SESSION.fullmatch(wake.conversation_id):
            what = f"the conversation {wake.conversation_id[:60]!r} is not the id of a session"
            return Failed(f"{what}: set conversation_id to the session that is to be woken", retryable=False)
        headers = {"idempotency-key": quote(wake.fire_id, safe=_HEADER_SAFE)}
        path = f"/agents/sessions/{wake.conversation_id}/events"
        reply = await self._api.post(wake, event_of(wake), path=path, headers=headers)
        if not reply.ok:
            return self._api.failure(reply, wake)
        return Delivered(f"HTTP {reply.status}", awaits_report=self._reports)

    async def close(self) -> None:
        await self._api.close()


def event_of(wake: Wake) -> bytes:
    """Return the event that wakes the session: one message of the user's."""
    content = [{"type": "input_text", "text": wake.prompt}]
    message = {"type": "message", "role": "user", "content": content}
    return msgspec.json.encode({"events": [{"type": "agent.session.input.message", "input": [message]}]})


# What comes back


class _Session(Struct, frozen=True):
    id: str = ""
    required_action: Any = None
    error: Any = None


class SessionEvent(Struct, frozen=True):
    """An event of a session as the project's webhook brings it."""

    type: str
    data: _Session = _Session()
    created_at: float = 0.0


def event_in(body: bytes) -> SessionEvent:
    try:
        return msgspec.json.decode(body, type=SessionEvent)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"this is not an event of OpenAI's: {error}", field="body") from None


def report_of(event: SessionEvent) -> ReportRequest | None:
    """Return the report on the wakes of a session that an event makes; None where it says nothing about them.

    The event has no text: what the session said is in the session.
    """
    match event.type:
        case "agent.session.in_progress":
            return ReportRequest(outcome="working")
        case "agent.session.idle":
            return ReportRequest(outcome="completed", result="The session is idle again.")
        case "agent.session.action_required":
            action = event.data.required_action
            wanted = str(action.get("type", ""))[:100] if isinstance(action, dict) else ""
            return ReportRequest(outcome="completed", result=f"Waits for input: {wanted or 'an action'}")
        case "agent.session.failed":
            reason = f"the session failed: {msgspec.json.encode(event.data.error).decode()[:500]}"
            return ReportRequest(outcome="failed", reason=reason.removesuffix(": null"))
        case _:
            return None
