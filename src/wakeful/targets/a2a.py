"""An A2A agent (protocol 1.0, JSON-RPC): a wake is a message in a context, and push notifications say how it went.

An agent need not tell repeated messages apart. So before a wake is sent again, the tasks of its context are listed: one
that this fire's message began, and that did not fail, is not begun a second time. An agent without such a list gets the
message again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw, Struct

from wakeful.clock import Clock
from wakeful.errors import InvalidConfig, InvalidRequest
from wakeful.model.alarm import ERROR_LIMIT, RESULT_LIMIT
from wakeful.model.outcome import Completed, Delivered, Failed, Outcome
from wakeful.model.requests import ReportRequest
from wakeful.rules.wake import Wake
from wakeful.targets.platform import FINAL, Platform
from wakeful.targets.sending import Sender
from wakeful.targets.sending.addresses import Allowed
from wakeful.targets.sending.reading import Reply
from wakeful.targets.text import one_line, storable
from wakeful.targets.webhook import hidden

KIND: Final = "a2a"
TOKEN_HEADER: Final = "x-a2a-notification-token"
VERSION: Final = "1.0"
_LISTED: Final = 10  # tasks of a context, the latest first
_STATE: Final = "TASK_STATE_"
_FAILED: Final = ("FAILED", "CANCELED", "REJECTED")
_WAITS: Final = ("INPUT_REQUIRED", "AUTH_REQUIRED")
_INTERNAL: Final = -32603  # the one error of JSON-RPC that the same request may not meet again


class A2A:
    """Settings:

    url             where the agent takes JSON-RPC
    card            instead of url: where its agent card is, which names that address
    token           sent as a Bearer token; "" sends none
    reports         the agent is asked for push notifications, and a report is awaited
    timeout         seconds for one exchange
    allow_private   False: public addresses only; true: private ones and loopback too; or a list of networks
    headers         more headers to send
    """

    def __init__(
        self,
        *,
        clock: Clock,
        url: str = "",
        card: str = "",
        token: str = "",
        reports: bool = True,
        timeout: float = 30,
        allow_private: Allowed = False,
        headers: Mapping[str, str] = {},
    ) -> None:
        if bool(url) == bool(card):
            raise InvalidConfig("an agent has either a url or a card", field="url", fix="Give url, or card.")
        self._clock, self._reports, self._card = clock, reports, card
        bearer = {"authorization": f"Bearer {token}"} if token else {}
        self._headers = {**headers, **bearer, "a2a-version": VERSION}
        self._options: dict[str, Any] = {"timeout": timeout, "allow_private": allow_private}
        self._agent = None if card else self._reached_at(url)
        if card:
            Sender(card, **self._options)  # so that a bad address is refused at the start

    async def deliver(self, wake: Wake) -> Outcome:
        agent = self._agent or await self._introduced(wake)
        if isinstance(agent, Failed):
            return agent
        if wake.attempt > 1 and (known := await self._known(agent, wake)) is not None:
            return known
        push = wake.callback_url(KIND) if self._reports else ""
        reply = await agent.post(wake, message_of(wake, push=push))
        if not reply.ok:
            return agent.failure(reply, wake, final=FINAL)
        return self._understood(_answer(reply), push)

    async def close(self) -> None:
        if self._agent is not None:
            await self._agent.close()

    def _reached_at(self, url: str) -> Platform:
        return Platform(url, self._headers, clock=self._clock, **self._options)

    async def _introduced(self, wake: Wake) -> Platform | Failed:
        """Read the card, once: it says where the agent takes what."""
        sender = Sender(self._card, headers=self._headers, secrets=hidden(self._headers), method="GET", **self._options)
        try:
            reply = await sender.post({}, b"")
        finally:
            await sender.close()
        if not reply.ok:
            return sender.failure(reply, now=self._clock.now(), who="the agent card: HTTP ")
        try:
            found = interface_in(reply.body, self._card)
            self._agent = self._agent or self._reached_at(found)
        except InvalidConfig as error:
            return Failed(f"the agent card: {error.message}", answered=True)
        return self._agent

    async def _known(self, agent: Platform, wake: Wake) -> Outcome | None:
        """What an earlier attempt led to; None where nothing is known of one, or it failed."""
        reply = await agent.post(wake, tasks_of(wake))
        tasks = _answer(reply).get("tasks") if reply.ok and not reply.cut else None
        for task in tasks if isinstance(tasks, list) else ():
            if isinstance(task, dict) and _began_with(task, wake.fire_id):
                outcome = self._as_task(task)
                return None if isinstance(outcome, Failed) else outcome
        return None

    def _understood(self, answer: Mapping[str, Any], push: str) -> Outcome:
        """What the agent says at once: a message is its whole answer, a task goes on."""
        match answer:
            case {"error": {"code": code, **said}}:
                text = one_line(f"the agent refused it: {code} {said.get('message', '')}", ERROR_LIMIT)
                return Failed(text, retryable=code == _INTERNAL, answered=True)
            case {"message": {"parts": list(parts)}}:
                return Completed(storable(text_of(parts), RESULT_LIMIT))
            case {"task": dict(task)}:
                return self._as_task(task, awaits=bool(push))
            case _:
                return Delivered("the answer was not understood", awaits_report=bool(push))

    def _as_task(self, task: Mapping[str, Any], *, awaits: bool | None = None) -> Outcome:
        report = report_on_task(task)
        if report is not None and report.outcome == "completed":
            return Completed(report.result)
        if report is not None and report.outcome == "failed":
            return Failed(report.reason, answered=True)
        return Delivered(f"task {one_line(str(task.get('id', '')), 60)}", self._reports if awaits is None else awaits)


def interface_in(card: bytes, card_url: str) -> str:
    """Return the address of the JSON-RPC interface that a card names, for protocol 1.0.

    It is on the card's own host: a card must not send a token to another.
    """
    try:
        found = msgspec.json.decode(card, type=_Card).interfaces
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidConfig("it is not an agent card of A2A 1.0") from None
    urls = [one.url for one in found if one.binding == "JSONRPC" and one.version.split(".")[0] == "1"]
    if not urls:
        raise InvalidConfig("it names no JSON-RPC interface of protocol 1.0")
    if urlsplit(urls[0]).netloc.lower() != urlsplit(card_url).netloc.lower():
        raise InvalidConfig("it names an interface on another host; set url to it if that is right")
    return urls[0]


class _Interface(Struct):
    url: str
    binding: str = msgspec.field(default="", name="protocolBinding")
    version: str = msgspec.field(default="", name="protocolVersion")


class _Card(Struct):
    interfaces: list[_Interface] = msgspec.field(default_factory=list, name="supportedInterfaces")


# What is sent


def context_of(wake: Wake) -> str:
    """Return the context of a wake: its conversation. Without one, or if kept apart, each fire has a context."""
    return wake.fire_id if wake.isolated or not wake.conversation_id else wake.conversation_id


def message_of(wake: Wake, *, push: str = "") -> bytes:
    """Return the request that brings a wake: the prompt as text, and the payload as data."""
    parts: list[dict[str, Any]] = [{"text": wake.prompt}]
    if wake.payload_json.strip() not in ("{}", "null"):
        parts.append({"data": Raw(wake.payload_json.encode())})
    message = {
        "messageId": wake.fire_id,
        "role": "ROLE_USER",
        "contextId": context_of(wake),
        "parts": parts,
        "metadata": {"fire_id": wake.fire_id, "alarm_id": wake.alarm_id},
    }
    configuration: dict[str, Any] = {"returnImmediately": True, "acceptedOutputModes": ["text/plain"]}
    if push:
        configuration["taskPushNotificationConfig"] = {"url": push, "token": wake.report_token}
    return _request("SendMessage", wake, {"message": message, "configuration": configuration})


def tasks_of(wake: Wake) -> bytes:
    """Return the request for the latest tasks of a wake's context."""
    asked = {"contextId": context_of(wake), "pageSize": _LISTED, "historyLength": 5, "includeArtifacts": True}
    return _request("ListTasks", wake, asked)


def _request(method: str, wake: Wake, params: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": wake.fire_id, "method": method, "params": params})


# What comes back


def _answer(reply: Reply) -> Mapping[str, Any]:
    """The result of a JSON-RPC answer, or its error; empty where it is neither. Of a bad one the 2xx counts."""
    try:
        decoded = msgspec.json.decode(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    match decoded:
        case {"error": dict()}:
            return {"error": {"code": 0, **decoded["error"]}}
        case {"result": dict(result)}:
            return cast(Mapping[str, Any], result)
        case _:
            return {}


def _began_with(task: Mapping[str, Any], fire_id: str) -> bool:
    history = task.get("history")
    messages = history if isinstance(history, list) else []
    return any(isinstance(one, dict) and one.get("messageId") == fire_id for one in messages)


def report_of(body: bytes, *, so_far: str = "") -> ReportRequest | None:
    """Return the report that a push notification makes; None where it says nothing about the outcome.

    The end of a task comes without its artifacts: `so_far` is what they said before.
    """
    try:
        pushed = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"this is not a push notification of A2A: {error}", field="body") from None
    match pushed:
        case {"task": dict(task)} | {"statusUpdate": dict(task)}:
            return report_on_task(task, so_far=so_far)
        case {"message": {"parts": list(parts)}}:
            return ReportRequest(outcome="completed", result=storable(text_of(parts), RESULT_LIMIT))
        case {"artifactUpdate": {"artifact": {"parts": list(parts)}, **rest}}:
            text = text_of(parts)
            text = so_far + text if rest.get("append") else "\n".join(filter(None, (so_far, text)))
            return ReportRequest(outcome="working", result=storable(text, RESULT_LIMIT))
        case _:
            return None


def report_on_task(task: Mapping[str, Any], *, so_far: str = "") -> ReportRequest | None:
    """Return what the state of a task says about a wake; None of one that has not begun, or an unknown state."""
    status = task.get("status")
    status = status if isinstance(status, dict) else {}
    message = status.get("message")
    said = text_of(message.get("parts")) if isinstance(message, dict) else ""
    match str(status.get("state", "")).removeprefix(_STATE):
        case "WORKING":
            return ReportRequest(outcome="working")
        case "COMPLETED":
            text = _artifacts(task) or so_far or said
            return ReportRequest(outcome="completed", result=storable(text, RESULT_LIMIT))
        case state if state in _WAITS:
            what = "input" if state == "INPUT_REQUIRED" else "authorization"
            text = f"Waits for {what}: {said}".removesuffix(": ")
            return ReportRequest(outcome="completed", result=storable(text, RESULT_LIMIT))
        case state if state in _FAILED:
            text = f"the task was {state.lower()}: {said}".removesuffix(": ")
            return ReportRequest(outcome="failed", reason=one_line(text, ERROR_LIMIT))
        case _:
            return None


def _artifacts(task: Mapping[str, Any]) -> str:
    found = task.get("artifacts")
    artifacts = found if isinstance(found, list) else []
    return "\n".join(text for one in artifacts if isinstance(one, dict) and (text := text_of(one.get("parts"))))


def text_of(parts: Any) -> str:
    """Return parts as text: what is text as it is, data as JSON."""
    texts = []
    for part in parts if isinstance(parts, list) else ():
        match part:
            case {"text": str(text)}:
                texts.append(text)
            case {"data": data}:
                texts.append(msgspec.json.encode(data).decode())
    return "\n".join(texts)
