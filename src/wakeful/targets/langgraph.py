"""A LangGraph server (LangSmith Deployment too): a wake starts a run on a thread, whose end comes back as the report.

A run has no idempotency key. So before a wake is sent again, the runs of its thread are listed: one that already has
this fire's id, and did not fail, is not started a second time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import NAMESPACE_URL, UUID, uuid5

import msgspec
from msgspec import Raw, Struct

from wakeful.clock import Clock
from wakeful.errors import InvalidConfig, InvalidRequest
from wakeful.model.alarm import ERROR_LIMIT, RESULT_LIMIT
from wakeful.model.outcome import Completed, Delivered, Outcome
from wakeful.model.requests import ReportRequest
from wakeful.rules.wake import Wake
from wakeful.targets.platform import FINAL, Platform
from wakeful.targets.sending.addresses import Allowed
from wakeful.targets.sending.reading import Reply
from wakeful.targets.text import one_line, storable

KIND: Final = "langgraph"
_LISTED: Final = 20  # runs of a thread, the latest first
_UNDER_WAY: Final = ("pending", "running")
_NO_ANSWER: Final = "The run ended without an answer: the graph may be interrupted, and wait for input."


class LangGraph:
    """Settings:

    url             where the server is, such as https://my-agent.us.langgraph.app; paths are added to it
    assistant_id    the graph, or the assistant, that is woken
    api_key         sent as `x-api-key`; "" sends none
    reports         the server is asked to call back at the end of the run, and a report is awaited
    timeout         seconds for one exchange
    allow_private   False: public addresses only; true: private ones and loopback too; or a list of networks
    headers         more headers to send
    """

    def __init__(
        self,
        *,
        url: str,
        assistant_id: str,
        clock: Clock,
        api_key: str = "",
        reports: bool = True,
        timeout: float = 30,
        allow_private: Allowed = False,
        headers: Mapping[str, str] = {},
    ) -> None:
        if not assistant_id:
            raise InvalidConfig("it is empty", field="assistant_id", fix="Name the graph or the assistant to wake.")
        self._assistant, self._reports = assistant_id, reports
        key = {"x-api-key": api_key} if api_key else {}
        self._server = Platform(url, {**headers, **key}, clock=clock, timeout=timeout, allow_private=allow_private)

    async def deliver(self, wake: Wake) -> Outcome:
        path = f"/threads/{thread_of(wake)}/runs"
        if wake.attempt > 1 and (known := await self._known(path, wake)) is not None:
            return known
        body = run_of(wake, self._assistant, webhook=callback_of(wake) if self._reports else "")
        reply = await self._server.post(wake, body, path=path)
        if not reply.ok:
            return self._server.failure(reply, wake, final=FINAL)
        return self._delivered(_decoded(reply, _Run).run_id)

    async def close(self) -> None:
        await self._server.close()

    def _delivered(self, run_id: str) -> Delivered:
        return Delivered(f"run {one_line(run_id, 60)}" if run_id else "a run", awaits_report=self._reports)

    async def _known(self, path: str, wake: Wake) -> Outcome | None:
        """What an earlier attempt led to; None where this fire has no run, or only runs that failed."""
        reply = await self._server.get(f"{path}?limit={_LISTED}&select=run_id&select=status&select=metadata")
        if reply.status == 404:  # there is no such thread yet
            return None
        if not reply.ok:
            return self._server.failure(reply, wake, final=FINAL)
        runs = _decoded(reply, list[_Run]) if reply.body else []
        run = next((run for run in runs if run.metadata.get("fire_id") == wake.fire_id), None)
        if run is None or run.status in ("error", "timeout"):
            return None
        if run.status in _UNDER_WAY:
            return self._delivered(run.run_id)
        return Completed(f"run {one_line(run.run_id, 60)} ended: {one_line(run.status, 60)}")


class _Run(Struct):
    run_id: str = ""
    status: str = ""
    metadata: dict[str, Any] = {}


def _decoded(reply: Reply, kind: Any) -> Any:
    """What a reply says; of one that is not understood, nothing: the 2xx counts all the same."""
    try:
        return msgspec.json.decode(reply.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return kind()


# What is sent


def thread_of(wake: Wake) -> UUID:
    """Return the thread of a wake: the conversation, if that is a UUID, or one that is made of owner and conversation.

    Without a conversation, or if the wake is to be kept apart from it, each fire has a thread of its own.
    """
    if wake.isolated or not wake.conversation_id:
        return uuid5(NAMESPACE_URL, f"wakeful:{wake.fire_id}")
    try:
        return UUID(wake.conversation_id)
    except ValueError:
        return uuid5(NAMESPACE_URL, f"wakeful:{wake.owner_did}:{wake.conversation_id}")


def run_of(wake: Wake, assistant_id: str, *, webhook: str = "") -> bytes:
    """Return the run to start: a message for the graph, or the value with which an interrupt goes on."""
    resume = resume_of(wake)
    if resume is not None:
        work: dict[str, Any] = {"command": {"resume": resume}}
    else:
        work = {"input": {"messages": [{"role": "user", "content": wake.prompt}]}}
    run = {
        "assistant_id": assistant_id,
        **work,
        "multitask_strategy": "enqueue",
        "if_not_exists": "create",
        "metadata": {"fire_id": wake.fire_id, "alarm_id": wake.alarm_id},
    }
    return msgspec.json.encode(run | ({"webhook": webhook} if webhook else {}))


def resume_of(wake: Wake) -> Raw | None:
    """Return the value that an interrupted graph goes on with; None where the wake is a message.

    The payload asks for it: `{"langgraph": {"resume": …}}`. A signal that fires the alarm brings the value instead.
    """
    try:
        resume = msgspec.json.decode(wake.payload_json, type=_Payload).langgraph.resume
    except msgspec.ValidationError:  # a payload of another kind
        return None
    if not bytes(resume):
        return None
    if wake.signal is not None and wake.signal.payload_json != "null":
        return Raw(wake.signal.payload_json.encode())
    return resume


class _Resume(Struct, frozen=True):
    resume: Raw = Raw(b"")


class _Payload(Struct, frozen=True):
    langgraph: _Resume = _Resume()


def callback_of(wake: Wake) -> str:
    """Return where the server says how the run ended. The token is in the address: the server signs nothing."""
    url = wake.callback_url(KIND)
    return f"{url}?token={wake.report_token}" if url else ""


# What comes back


class _Message(Struct):
    type: str = ""
    role: str = ""
    content: Any = ""


class _Values(Struct):
    messages: list[Raw] = []
    interrupts: Any = msgspec.field(default=None, name="__interrupt__")


class _Ended(Struct):
    status: str
    error: Any = None
    values: Raw = Raw(b"{}")


def report_of(body: bytes) -> ReportRequest:
    """Return the report that is in a run as the server posts it at its end."""
    try:
        ended = msgspec.json.decode(body, type=_Ended)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"this is not a run of LangGraph: {error}", field="body") from None
    values = _values(ended.values)
    match ended.status:
        case "success":
            # A graph that was interrupted ends with success as well, and its state does not show that.
            text = last_message(values.messages) or (_NO_ANSWER if values.messages else "")
            return ReportRequest(outcome="completed", result=storable(text, RESULT_LIMIT))
        case "interrupted":
            asked = msgspec.json.encode(values.interrupts).decode() if values.interrupts else ""
            asked = asked or last_message(values.messages)
            return ReportRequest(outcome="completed", result=storable(f"Waits for input: {asked}", RESULT_LIMIT))
        case status:
            reason = f"the run ended with {status}: {_error(ended.error)}".removesuffix(": ")
            return ReportRequest(outcome="failed", reason=one_line(reason, ERROR_LIMIT))


def _values(raw: Raw) -> _Values:
    """The graph's state, if it has messages: a graph may have any other."""
    try:
        return msgspec.json.decode(raw, type=_Values)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Values()


def last_message(messages: list[Raw]) -> str:
    """Return the text of the last message that the model wrote, if it came after the last that was put to it.

    What stands before that is the answer to an earlier turn.
    """
    for raw in reversed(messages):
        try:
            message = msgspec.json.decode(raw, type=_Message)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if message.type == "ai" or message.role == "assistant":
            return _text(message.content)
        if message.type == "human" or message.role == "user":
            break
    return ""


def _text(content: Any) -> str:
    """A message's text: a string, or a list of parts of which some are text."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part if isinstance(part, str) else part.get("text") for part in parts if isinstance(part, str | dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _error(error: Any) -> str:
    if isinstance(error, dict):
        return ": ".join(str(error[name]) for name in ("error", "message") if error.get(name))
    return "" if error is None else str(error)
