"""A webhook: the wake as a signed HTTP POST, and what the receiver's answer means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote

import msgspec

from wakeful.clock import Clock
from wakeful.errors import InvalidSchedule
from wakeful.model.alarm import ERROR_LIMIT, RESULT_LIMIT
from wakeful.model.outcome import MOST_COST, Completed, Delivered, Failed, Outcome, Snoozed
from wakeful.rules.wake import Wake
from wakeful.schedule import duration
from wakeful.targets.sending import Sender
from wakeful.targets.sending.addresses import Allowed, check_headers
from wakeful.targets.sending.reading import REPLY_LIMIT, Reply
from wakeful.targets.signing import key, sign
from wakeful.targets.template import ServerFacts, Template
from wakeful.targets.text import one_line, storable

_HEADER_SAFE: Final = "".join(map(chr, range(0x21, 0x7F)))


class Webhook:
    """Settings:

    url               where to: http or https, no user name, no fragment
    secret            signs each wake (Standard Webhooks): `whsec_<base64>` or plain text; "" leaves it unsigned
    previous_secret   signs too, while receivers change from the old secret to the new one
    timeout           seconds for the whole exchange, from resolving the name to the end of the reply
    reports           the receiver will say later how it went: a report is awaited after a 2xx
    allow_private     False: public addresses only; true: private ones and loopback too; or a list of networks
    headers           more headers to send
    body              a JSON body of one's own in place of the wake: a table, or JSON in one text, whose texts may hold
                      fields of the wake such as `{message}`; see template.py
    """

    def __init__(
        self,
        *,
        url: str,
        clock: Clock,
        secret: str = "",
        previous_secret: str = "",
        timeout: float = 30,
        reports: bool = False,
        allow_private: Allowed = False,
        headers: Mapping[str, str] = {},
        body: Any = None,
        operator: str = "",
        public_url: str = "",
    ) -> None:
        check_headers(headers)
        self._template = None if body is None else Template(body, ServerFacts(operator, public_url))
        self._keys = [key(text) for text in (secret, previous_secret) if text]
        self._clock = clock
        self._reports = reports
        self._sender = Sender(
            url,
            timeout=timeout,
            allow_private=allow_private,
            headers=dict(headers),
            secrets=(secret, previous_secret, *hidden(headers)),
        )

    async def deliver(self, wake: Wake) -> Outcome:
        body = wake.body if self._template is None else self._template.fill(wake)
        reply = await self._sender.post(self._signed(wake, body), body)
        if not reply.ok:
            return self._sender.failure(reply, now=self._clock.now(), hide=(wake.report_token, wake.token))
        if reply.trouble and reply.is_json:
            # The half that is missing could have said that the work failed.
            return Failed(f"HTTP {reply.status}, but {reply.trouble}", unhealthy=True, answered=True)
        return self._understood(reply)

    async def close(self) -> None:
        await self._sender.close()

    def _signed(self, wake: Wake, body: bytes) -> dict[str, str]:
        message_id = quote(wake.fire_id, safe=_HEADER_SAFE)
        timestamp = int(self._clock.now().timestamp())
        headers = varying(wake)
        headers["webhook-id"] = headers["idempotency-key"] = message_id
        headers["webhook-timestamp"] = str(timestamp)
        if self._keys:
            headers["webhook-signature"] = sign(self._keys, message_id, timestamp, body)
        return headers

    def _understood(self, reply: Reply) -> Outcome:
        """A yes, and what its body adds to it. A body we cannot make sense of takes nothing away from the yes."""
        note = reply.trouble or (_too_long(reply) if reply.cut else "")
        answer: Any = None
        if not note and (reply.is_json or reply.body[:1] == b"{"):
            try:
                answer = msgspec.json.decode(reply.body or b"null")
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                note = "the reply was not valid JSON"
        if isinstance(answer, dict):
            found, note = _answered(answer)
            if found is not None:
                return found
        detail = f"HTTP {reply.status}" + (f"; {note}" if note else "")
        return Delivered(detail, awaits_report=self._reports)


def varying(wake: Wake) -> dict[str, str]:
    """The headers of any wake: what differs between attempts stands here, so that the body can stay the same."""
    most, then = wake.max_fires, wake.next_fire_at
    headers = {
        "content-type": "application/json",
        "wakeful-attempt": str(wake.attempt),
        "wakeful-late-ms": str(wake.late_ms),
        "wakeful-missed": str(wake.missed),
        "wakeful-number": f"{wake.number}" if most is None else f"{wake.number}/{most}",
        "wakeful-failed-in-a-row": str(wake.failed_in_a_row),
    }
    if wake.check is not None:
        headers["wakeful-check"] = f"{wake.check.name} {wake.check.found}"
    if then is not None:
        headers["wakeful-next"] = then.isoformat()
    return headers


def hidden(headers: Mapping[str, str]) -> Sequence[str]:
    """The words of header values that must not turn up in an error text: a receiver can echo what it was sent."""
    return [word for value in headers.values() for word in (value, *value.split())]


def _answered(answer: dict[str, Any]) -> tuple[Outcome | None, str]:
    """What a JSON object says about the work, or why that was not understood."""
    match answer:
        case {"outcome": "completed"}:
            cost = _cost(answer.get("cost"))
            return Completed(storable(_text(answer.get("result", "")), RESULT_LIMIT), cost), ""
        case {"outcome": "failed"}:
            reason = _text(answer.get("reason", answer.get("result", ""))) or "the receiver answered: failed"
            return Failed(one_line(reason, ERROR_LIMIT), answered=True), ""
        case {"outcome": other}:
            return None, f"its outcome {one_line(_text(other), 60)!r} is neither completed nor failed"
        case {"snooze": wait}:
            try:
                return Snoozed(_wait(wait)), ""
            except InvalidSchedule as error:
                return None, f"its snooze was not understood: {one_line(error.message, 120)}"
    return None, ""


def _cost(cost: Any) -> float:
    """What the work cost. What is not a cost is not counted: the work is done all the same."""
    is_number = isinstance(cost, int | float) and not isinstance(cost, bool)
    return float(cost) if is_number and 0 <= cost <= MOST_COST else 0.0


def _wait(wait: Any) -> timedelta:
    if not isinstance(wait, str | int | float):
        raise InvalidSchedule("it is neither a duration nor a number of seconds.")
    return duration(wait)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _too_long(reply: Reply) -> str:
    what = f"longer than {REPLY_LIMIT} bytes" if len(reply.body) >= REPLY_LIMIT else "in too many pieces"
    return f"the reply was {what} and not read"
