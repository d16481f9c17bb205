"""Chats that people read: Slack, Discord, Telegram and ntfy, each an entry with the address and the body it expects.

A new service of that sort is an entry here and a line in `settings/kinds.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.clock import Clock
from wakeful.errors import InvalidConfig
from wakeful.model.outcome import Delivered, Failed, Outcome
from wakeful.rules.wake import Wake
from wakeful.targets.platform import FINAL
from wakeful.targets.sending import Sender
from wakeful.targets.sending.addresses import Allowed, check_headers
from wakeful.targets.sending.reading import Reply
from wakeful.targets.template import ServerFacts, Template

_LONGEST_WAIT: Final = 86_400.0  # seconds that a service may ask for


class Service(Struct, frozen=True, kw_only=True):
    """What a service expects. `body` is a template, `links` what replaces parts of it where wakes have links.

    `url`: where it is, unless the settings say. `path`: what follows that, with the token in it. `needs`: settings that
    have to be there; `may`: those that may be. `sends`: of these, what goes into the body as it is.
    """

    name: str
    body: Mapping[str, Any]
    links: Mapping[str, Any]
    url: str = ""
    path: str = ""
    needs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    sends: tuple[str, ...] = ()
    bearer: bool = False  # the token is sent in a header
    escape: Mapping[int, str] = {}


_VIEW: Final = {"action": "view", "clear": True}

SLACK: Final = Service(
    name="slack",
    needs=("url",),
    body={"text": "{from:300}{message:3500}", "unfurl_links": False},
    links={"text": "{from:300}{message:3500}\n<{done_url}|Done> · <{snooze_url}|Snooze>"},
    escape=str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"}),  # else <!channel> in a message alerts everyone
)
DISCORD: Final = Service(
    name="discord",
    needs=("url",),
    body={"content": "{from:100}{message:1300}", "allowed_mentions": {"parse": []}, "flags": 4},  # 4: no previews
    links={"content": "{from:100}{message:1300}\n[Done](<{done_url}>) · [Snooze](<{snooze_url}>)"},
)
TELEGRAM: Final = Service(
    name="telegram",
    url="https://api.telegram.org",
    path="/bot{token}/sendMessage",
    needs=("token", "chat_id"),
    sends=("chat_id",),
    body={"text": "{from:300}{message:3500}", "link_preview_options": {"is_disabled": True}},
    links={
        "reply_markup": {
            "inline_keyboard": [[{"text": "Done", "url": "{done_url}"}, {"text": "Snooze", "url": "{snooze_url}"}]]
        }
    },
)
NTFY: Final = Service(
    name="ntfy",
    url="https://ntfy.sh",
    path="/",
    needs=("topic",),
    may=("token",),
    sends=("topic",),
    bearer=True,
    body={"title": "{label:100}", "message": "{from:60}{message:1300}"},  # at most 4,096 bytes, and a sign may have 3
    links={
        "actions": [
            {**_VIEW, "label": "Done", "url": "{done_url}"},
            {**_VIEW, "label": "Snooze", "url": "{snooze_url}"},
        ]
    },
)


class Chat:
    """Settings:

    url             the address of the webhook (slack, discord); of the server, for one of your own (telegram, ntfy)
    token           of the bot (telegram), or an access token (ntfy)
    chat_id         telegram: the chat, a number or @channel
    topic           ntfy: the topic
    timeout         seconds for the whole exchange
    allow_private   False: public addresses only; true: private ones and loopback too; or a list of networks
    """

    def __init__(
        self,
        service: Service,
        *,
        clock: Clock,
        url: str = "",
        token: str = "",
        chat_id: str | int = "",
        topic: str = "",
        timeout: float = 30,
        allow_private: Allowed = False,
        operator: str = "",
        public_url: str = "",
    ) -> None:
        given: dict[str, Any] = {"url": url, "token": token, "chat_id": chat_id, "topic": topic}
        _check_settings(service, given)
        body = {
            **{name: given[name] for name in service.sends},
            **service.body,
            **(service.links if public_url else {}),
        }
        self._template = Template(body, ServerFacts(operator, public_url), escape=service.escape)
        headers = {"authorization": f"Bearer {token}"} if service.bearer and token else {}
        check_headers(headers, field="token")
        self._name = service.name
        self._clock = clock
        self._sender = Sender(
            (url or service.url).rstrip("/") + service.path.replace("{token}", quote(token, safe=":")),
            timeout=timeout,
            allow_private=allow_private,
            headers={**headers, "content-type": "application/json"},
            secrets=(token,),
        )

    async def deliver(self, wake: Wake) -> Outcome:
        reply = await self._sender.post({}, self._template.fill(wake))
        answer = _decoded(reply.body)
        if reply.ok and answer.get("ok") is not False:
            return Delivered(f"HTTP {reply.status}")
        return self._failure(reply, answer, wake)

    async def close(self) -> None:
        await self._sender.close()

    def _failure(self, reply: Reply, answer: Mapping[str, Any], wake: Wake) -> Failed:
        hide = (wake.report_token, wake.token)
        failed = self._sender.failure(
            reply, now=self._clock.now(), hide=hide, who=f"{self._name} returned ", final=FINAL
        )
        wait = _wait(answer)
        return failed if wait is None or reply.status != 429 else replace(failed, retry_after=wait)


def _check_settings(service: Service, given: Mapping[str, Any]) -> None:
    if missing := next((name for name in service.needs if not given[name]), ""):
        fix = f"docs/targets/chat.md says what {service.name} needs."
        raise InvalidConfig(f"{service.name} needs a {missing}", field=missing, fix=fix)
    taken = {*service.needs, *service.may, "url"}
    if odd := next((name for name, value in given.items() if value and name not in taken), ""):
        raise InvalidConfig(f"a {service.name} target has no setting {odd!r}", field=odd, fix="Leave it out.")


def _decoded(body: bytes) -> Mapping[str, Any]:
    try:
        answer = msgspec.json.decode(body or b"null")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _wait(answer: Mapping[str, Any]) -> float | None:
    """Seconds that the body of a refusal asks for: Telegram and Discord say them there, in fractions of a second."""
    parameters = answer.get("parameters")
    wait = (parameters if isinstance(parameters, dict) else answer).get("retry_after")
    if not isinstance(wait, int | float) or isinstance(wait, bool):
        return None
    return float(wait) if 0 <= wait <= _LONGEST_WAIT else None


slack: Final = partial(Chat, SLACK)
discord: Final = partial(Chat, DISCORD)
telegram: Final = partial(Chat, TELEGRAM)
ntfy: Final = partial(Chat, NTFY)
