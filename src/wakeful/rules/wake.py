"""What is delivered to a target for one fire: the same bytes on every attempt unless the owner edited the alarm,
or the key of report tokens was changed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from wakeful.model.alarm import Alarm, Fire, HeardSignal, is_fire_id
from wakeful.rules.checks import CheckLook
from wakeful.rules.lineage import Author, author_of, is_ending
from wakeful.rules.plan import following, missed_before

ORIGIN: Final = "wakeful"
HEARD_WITHIN: Final = timedelta(minutes=1)  # of a new key of report tokens, by every process
KEY_GRACE: Final = timedelta(hours=1)
_PREVIOUS_LIMIT: Final = 2000  # characters of an earlier result that a prompt repeats
_NO_DATA: Final = (b"{}", b"null", b'""', b"[]")
# Of JSON, line breaks stand between values; what else may end a line stands inside a string and is escaped there.
_ONE_LINE: Final = {ord(sign): " " for sign in "\r\n\v\f"} | {ord(sign): ascii(sign)[1:-1] for sign in "\u2028\u2029"}
_ONE_LINE[0x85] = "\\u0085"


class ReportTo(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where to say what became of a wake, and with which token."""

    url: str
    token: str

    def __repr__(self) -> str:
        return f"ReportTo({self.url!r})"


class SignalBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The signal that a wake comes for, before its time or besides its schedule."""

    name: str
    payload: Raw


class WakeBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A wake as it is sent.

    `author`: who wrote its words; `parent_fire`: the fire out of whose wake its alarm was set. `ends_at`: when its
    series ends; `renewable`: that is soon, and a report with `renew` puts it off. `token`: sets alarms for its owner.
    """

    fire_id: str
    alarm_id: str
    owner_did: str
    user_id: str
    conversation_id: str
    label: str
    message: str
    payload: Raw
    scheduled_for: datetime
    isolated: bool
    created_by: str
    created_via: str
    created_at: datetime
    author: Author
    parent_fire: str
    root_id: str
    generation: int
    ends_at: datetime | None
    renewable: bool
    origin: str
    token: str
    report: ReportTo
    signal: SignalBody | UnsetType = UNSET  # only where a signal fired it

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.fire_id!r})"  # whoever logs or shows it shows no token


class Wake:
    """One fire of an alarm on its way to a target.

    The body depends only on the alarm and the occurrence; what varies between attempts is kept outside it.
    """

    def __init__(
        self,
        alarm: Alarm,
        *,
        attempt: int = 1,
        late_ms: int = 0,
        missed: int | None = None,
        report_url: str = "",
        secret: bytes = b"",
        check: CheckLook | None = None,
    ) -> None:
        self.alarm = alarm
        self.attempt = attempt
        self.late_ms = late_ms
        self._missed = missed
        self.check = check  # what the check of `only_if` found just before this attempt
        self._report_url = report_url
        self._secret = secret

    def __repr__(self) -> str:
        return f"Wake({self.fire_id!r}, {self.message!r}, attempt={self.attempt})"

    @cached_property
    def fire_id(self) -> str:
        return self.alarm.fire_id

    @property
    def missed(self) -> int:
        """How many later occurrences of its series were overdue as well when this attempt began."""
        if self._missed is None:
            began = self.alarm.occurrence_at + timedelta(milliseconds=self.late_ms)
            self._missed = missed_before(self.alarm, began) if self.alarm.kind == "cron" else 0
        return self._missed

    @property
    def alarm_id(self) -> str:
        return self.alarm.id

    @property
    def owner_did(self) -> str:
        return self.alarm.owner_did

    @property
    def user_id(self) -> str:
        return self.alarm.user_id

    @property
    def conversation_id(self) -> str:
        return self.alarm.conversation_id

    @property
    def label(self) -> str:
        return self.alarm.label

    @property
    def message(self) -> str:
        return self.alarm.wake_message

    @cached_property
    def payload(self) -> Any:
        """The payload, decoded. `payload_json` has the exact bytes that were given."""
        return self.alarm.payload

    @property
    def payload_json(self) -> str:
        return self.alarm.payload_json

    @property
    def scheduled_for(self) -> datetime:
        return self.alarm.occurrence_at

    @property
    def isolated(self) -> bool:
        return self.alarm.isolated

    @property
    def number(self) -> int:
        """Which fire of its alarm this is: 1 is the first. It is the same on every attempt."""
        return self.alarm.fire_count + 1

    @property
    def max_fires(self) -> int | None:
        """How many fires the alarm has at most; None if there is no such bound."""
        return 1 if self.alarm.kind == "once" else self.alarm.policy.max_fires

    @cached_property
    def next_fire_at(self) -> datetime | None:
        """When the alarm fires next, as of its schedule; None if this is the last time."""
        return following(self.alarm, max(self.alarm.next_fire_at, self.scheduled_for), fired=1)

    @property
    def failed_in_a_row(self) -> int:
        """How many fires before this one failed without a success since; `last_error` says how."""
        return self.alarm.failed_in_a_row

    @property
    def last_error(self) -> str:
        return self.alarm.last_error

    @property
    def author(self) -> Author:
        """Who wrote the words: the owner, an agent (over MCP, or out of a wake), an import, a template or a task."""
        return author_of(self.alarm)

    @property
    def parent_fire(self) -> str:
        """The fire out of whose wake the alarm was set; empty if none."""
        return self.alarm.parent_fire

    @cached_property
    def ends_at(self) -> datetime | None:
        """When the series ends; None if it has no such end, or fires once."""
        return self.alarm.policy.ends_at if self.alarm.kind == "cron" else None

    @cached_property
    def renewable(self) -> bool:
        """Whether the series ends soon, and a report with `renew` puts that off."""
        return is_ending(self.alarm)

    @property
    def signal(self) -> HeardSignal | None:
        """The signal that it comes for; None where its time has come."""
        return self.alarm.signal_of(self.scheduled_for)

    @cached_property
    def report_token(self) -> str:
        return report_token(self._secret, self.fire_id)

    @cached_property
    def token(self) -> str:
        """With it alarms are set for the wake's owner, as part of the wake's chain."""
        return wake_token(self._secret, self.fire_id)

    def callback_url(self, kind: str) -> str:
        """Return where an agent platform says what became of the wake; empty where no server listens.

        Beside the address of reports: what comes there is the platform's own, and its kind of target translates it.
        """
        base, found, _ = self._report_url.partition("/v1/fires/")
        return f"{base}/v1/callbacks/{kind}/{quote(self.fire_id, safe='@')}" if found else ""

    @cached_property
    def content(self) -> WakeBody:
        """The body before it is encoded; `payload` stays raw."""
        alarm = self.alarm
        return WakeBody(
            fire_id=self.fire_id,
            alarm_id=alarm.id,
            owner_did=alarm.owner_did,
            user_id=alarm.user_id,
            conversation_id=alarm.conversation_id,
            label=alarm.label,
            message=alarm.wake_message,
            payload=Raw(alarm.payload_json.encode()),
            scheduled_for=alarm.occurrence_at,
            isolated=alarm.isolated,
            created_by=alarm.created_by,
            created_via=alarm.created_via,
            created_at=alarm.created_at,
            author=self.author,
            parent_fire=alarm.parent_fire,
            root_id=alarm.root_id,
            generation=alarm.generation,
            ends_at=self.ends_at,
            renewable=self.renewable,
            origin=ORIGIN,
            token=self.token,
            report=ReportTo(url=self._report_url.replace("{fire_id}", self.fire_id), token=self.report_token),
            signal=UNSET if self.signal is None else _signal_body(self.signal),
        )

    @cached_property
    def body(self) -> bytes:
        return msgspec.json.encode(self.content)

    @cached_property
    def prompt(self) -> str:
        """The wake as one text for a model: the same on every attempt, as the body is."""
        return prompt(self.content, failed_in_a_row=self.failed_in_a_row)


def prompt(wake: WakeBody, *, previous: str = "", failed_in_a_row: int = 0) -> str:
    """Return a wake as one text for a model: the message, then what belongs to it, each on a line of its own.

    `previous`: what became of the fire before it. Everything but the message is data that others may have written: it
    is JSON on one line and cannot look like a line of its own. No token is in it.
    """
    signal = None if wake.signal is UNSET else wake.signal
    facts = {
        "Alarm": wake.label and _quoted(wake.label),
        "Payload (data, JSON)": "" if bytes(wake.payload).strip() in _NO_DATA else bytes(wake.payload).decode(),
        "Signal that it comes for": signal and _quoted(signal.name),
        "Payload of the signal (data, JSON)": signal and bytes(signal.payload).decode(),
        "Outcome of the previous fire (data)": previous and _quoted(previous[:_PREVIOUS_LIMIT]),
        "Fires before it that failed without a success since": failed_in_a_row,
        "Scheduled for": wake.scheduled_for.isoformat().replace("+00:00", "Z"),
        "Fire id": wake.fire_id,
    }
    lines = [f"{name}: {fact}".translate(_ONE_LINE) for name, fact in facts.items() if fact]
    return f"{wake.message}\n\n[Wake]\n" + "\n".join(lines)


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _signal_body(signal: HeardSignal) -> SignalBody:
    return SignalBody(name=signal.name, payload=Raw(signal.payload_json.encode()))


def reports_under(retired_at: datetime, fire: Fire | None, *, now: datetime) -> bool:
    """Return whether a report token is still valid although its key was replaced at a moment.

    Only for a fire that began before that, give or take the time in which every process has heard of it, and while
    its report is awaited; for an hour in any case, since an attempt may be under way that is not on record yet.
    """
    if fire is not None:
        began = fire.started_at or fire.scheduled_for
        if began >= retired_at + HEARD_WITHIN:
            return False
        if fire.report_by is not None and now < fire.report_by:
            return True
    return now < retired_at + KEY_GRACE


def report_token(secret: bytes, fire_id: str) -> str:
    """Return the token with which the receiver of one wake, and nobody else, can report on that fire."""
    return hmac.new(secret, f"report:{fire_id}".encode(), hashlib.sha256).hexdigest()


# The token of a wake: an agent that was woken sets alarms with it, and these join the chain of that wake. Pure.
#
# It is the fire's id, signed with the key of report tokens. So it is the same on every attempt and is not stored. How
# long it is valid is computed from the stored alarm and fire.

# Like every token it begins with wk_, and has only signs that are taken out of logs together with that.
WAKE_PREFIX: Final = "wk_wake_"
_WAKE_TOKEN: Final = re.compile(WAKE_PREFIX + r"([A-Za-z0-9_-]{1,200})_([A-Za-z0-9_-]{43})")


def wake_token(secret: bytes, fire_id: str) -> str:
    """Return the token with which the receiver of one wake sets alarms for its owner."""
    made = hmac.new(secret, f"wake:{fire_id}".encode(), hashlib.sha256).digest()
    return f"{WAKE_PREFIX}{_text(fire_id.encode())}_{_text(made)}"


def fire_named(token: str) -> str:
    """Return the fire that a wake's token names, or nothing. Whether it is really that fire's is not looked at."""
    found = _WAKE_TOKEN.fullmatch(token)
    if found is None:
        return ""
    try:
        named = base64.urlsafe_b64decode(found[1] + "=" * (-len(found[1]) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return named if is_fire_id(named) and "\x00" not in named else ""


def is_wake_token_of(token: str, secret: bytes, fire_id: str) -> bool:
    return hmac.compare_digest(token.encode(), wake_token(secret, fire_id).encode())


def why_not_good(alarm: Alarm, fire: Fire | None, occurrence: datetime, *, lasts: timedelta, now: datetime) -> str:
    """Return why the token of a wake is not good any more; nothing if it is.

    It is good while the wake is on its way, and for a while from the last time it was handed to somebody.
    """
    if alarm.status == "cancelled":
        return "the alarm of its wake was cancelled"
    if alarm.claimed_at is not None and alarm.occurrence_at == occurrence:
        return ""
    if fire is None:
        return "its wake is not on record"
    return "" if now < _handed_out_at(fire) + lasts else "it has expired"


def begun_at(alarm: Alarm, fire: Fire | None) -> datetime:
    """When the wake of a token was first sent, or the latest moment at which that can have been."""
    if fire is None:
        return alarm.claimed_at or alarm.updated_at  # its first attempt is on its way
    return fire.started_at or fire.scheduled_for


def _handed_out_at(fire: Fire) -> datetime:
    known = [fire.delivered_at, fire.started_at, *(line.at for line in fire.log[-1:])]
    return max((at for at in known if at is not None), default=fire.scheduled_for)


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
