"""The data model: an alarm, its policy, its fires, and a change to them. Values only, no decisions.

The fields of `Alarm` and `Fire` are the columns of their tables, by name: see store/columns.py.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from msgspec import Struct, field

from wakeful.errors import NotFound
from wakeful.moments import from_unix_ms, unix_ms
from wakeful.schedule.days_off import OnHoliday

Kind = Literal["once", "cron"]
AlarmStatus = Literal["active", "paused", "fired", "failed", "cancelled"]
EndedStatus = Literal["completed", "failed", "timed_out", "snoozed", "skipped"]
FireStatus = Literal["retrying", "waiting", "delivered", EndedStatus]
CatchUp = Literal["one", "skip"]
Overlap = Literal["skip", "allow"]
AtLimit = Literal["defer", "skip"]
OnSilence = Literal["again", "give_up"]
Cost = Annotated[float, msgspec.Meta(ge=0)]  # in whatever unit its owner counts
SkipReason = Literal[
    "missed",
    "overlap",
    "expired",
    "paused",
    "superseded",
    "cancelled",
    "requested",
    "budget",
    "unchanged",
    "holiday",
    "signalled",
]
FailReason = Literal[
    "broken",
    "cancelled",
    "exhausted",
    "expired",
    "paused",
    "refused",
    "reported",
    "requested",
    "signalled",
    "superseded",
    "unreported",
    "worker died",
]
Interface = Literal["http", "mcp", "cli", "python", "dashboard", "sql"]  # through which an alarm is set
ALARM_STATUSES: Final[tuple[str, ...]] = get_args(AlarmStatus)
FIRE_STATUSES: Final[tuple[str, ...]] = get_args(FireStatus)

FINISHED: Final = frozenset({"fired", "failed", "cancelled"})
PENDING: Final = tuple(status for status in ALARM_STATUSES if status not in FINISHED)
STEPPED_OVER: Final = ("skipped", "snoozed")  # statuses of a fire whose instant something later stands in for
UNSUCCESSFUL: Final = ("failed", "timed_out")  # statuses of a fire that is told as failed, and may be retried
INBOX: Final = "inbox"
FORMER: Final = "former"  # what the event says that keeps an alarm as it was before a change; nobody is shown it
TASKS: Final = "sql"  # `created_via` of an alarm that stands for a task of `scheduled_tasks`
REPORT_WITHIN: Final = timedelta(seconds=300)  # where a report is awaited and the alarm does not say for how long
SUSPECT: Final = 2  # `unsettled` of an alarm that is claimed again though it was never settled: see suspect.py
LOG_LIMIT: Final = 20
ERROR_LIMIT: Final = 2000
RESULT_LIMIT: Final = 16_384
_MS_DIGITS: Final = 14


class HeardSignal(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The signal that an alarm fires for: its name, the occurrence that it made, and what its sender gave along."""

    name: str
    occurrence_at: datetime
    payload_json: str = "null"  # byte for byte as given
    resumes_at: datetime | None = None  # where its series goes on: what was before that is over, or was skipped

    @property
    def payload(self) -> Any:
        return msgspec.json.decode(self.payload_json)


class Policy(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """What an alarm does when something goes wrong: retries, missed fires, reports. Durations are seconds."""

    backoff_base: float = 30.0
    backoff_cap: float = 900.0
    exact_backoff: bool = False  # the ladder's own waits, without the spread
    catch_up: CatchUp = "one"
    grace: float = 60.0  # with catch_up="skip": how late a fire may still be
    expires: float | None = None  # no attempt starts later than this after the scheduled moment
    overlap: Overlap = "skip"
    report_within: float | None = None
    on_silence: OnSilence | None = None  # no report came; None: stored before there was this field, so give_up
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    max_fires: int | None = None
    jitter: float = 0.0
    auto_pause_after: int | None = None
    wakes_per_hour: int | None = None
    wakes_per_day: int | None = None
    cost_per_day: Cost | None = None  # as its reports say
    at_limit: AtLimit | None = None  # where a budget is used up; None: a series skips, a one-shot waits
    renew_for: float | None = None  # how long a report can renew `ends_at` for, where wakeful itself set that
    only_if: str | None = None  # a check: without a change there, a fire is skipped
    unless: str | None = None  # a signal of this name cancels a one-shot, and skips the next fire of a series
    unless_since: float | None = None  # how long before a fire that signal counts at most
    rearm: float | None = None  # that signal moves a one-shot to so long after it, instead of cancelling it
    or_when: str | None = None  # a signal of this name fires it at once
    calendar: str = ""  # whose holidays a series keeps; empty: none
    on_holiday: OnHoliday | None = None  # None: skip, where there is a calendar
    working_days: str = ""  # where occurrences are moved to; empty: mon-fri
    anchor: datetime | None = None  # what `@every` and rules without DTSTART count from; set by wakeful alone
    heard: HeardSignal | None = None  # the latest signal it was fired by; set by wakeful alone
    manual_of: str | None = None  # the id of the alarm whose manual fire (Fire now) it is; set by wakeful alone


# Fields of a policy that nobody gives, and that are not shown as one's policy.
WAKEFULS_OWN: Final = ("anchor", "heard", "manual_of", "renew_for")
DEFAULT_POLICY: Final = Policy()
NEW_POLICY: Final = Policy(on_silence="again")  # of a new alarm, where neither its caller nor the settings say more


class Alarm(Struct, frozen=True, kw_only=True):
    """An alarm: when it fires, its message, its target and its owner."""

    id: str
    owner_did: str
    user_id: str
    label: str = ""
    kind: Kind = "once"
    fire_at: datetime | None = None
    cron_expr: str = ""
    timezone: str = "UTC"
    wall_time: str = ""  # of a one-shot: what clocks of its zone show then, where it was set by that
    next_fire_at: datetime
    conversation_id: str = ""
    wake_message: str = ""
    payload_json: str = field(default="{}", name="payload")  # byte for byte as given
    status: AlarmStatus = "active"
    idempotency_key: str = ""
    max_failures: int = 5
    failure_count: int = 0
    last_error: str = ""
    claimed_at: datetime | None = None
    created_at: datetime
    updated_at: datetime
    last_fired_at: datetime | None = None
    target: str = INBOX
    occurrence_at: datetime  # the nominal instant being worked on; next_fire_at adds jitter or a retry's wait
    claim: int = 0
    unsettled: int = 0
    version: int = 1
    awaiting: datetime | None = None
    policy: Policy = DEFAULT_POLICY
    fire_count: int = 0
    failed_in_a_row: int = 0
    created_by: str = ""
    created_via: str = ""
    paused_reason: str = ""
    cancelled_at: datetime | None = None
    isolated: bool = False
    parent_fire: str = ""
    root_id: str = ""
    generation: int = 0

    @property
    def payload(self) -> Any:
        """The state that comes back with the wake, decoded; `payload_json` is the JSON as it was given."""
        return msgspec.json.decode(self.payload_json)

    @property
    def fire_id(self) -> str:
        return fire_id(self.id, self.occurrence_at)

    @property
    def finished(self) -> bool:
        return self.status in FINISHED

    @property
    def may_have_fire(self) -> bool:
        """Return whether the current occurrence can already have a row in `fires`.

        Only a failed attempt, a dead worker, or a later report (which raises `version`) leaves one.
        """
        return self.failure_count > 0 or self.is_suspect or self.version > 1

    def signal_of(self, occurrence: datetime) -> HeardSignal | None:
        """The signal that an occurrence was fired by; None where its time had come."""
        heard = self.policy.heard
        return heard if heard is not None and heard.occurrence_at == occurrence else None

    def is_leased(self, now: datetime, lease: timedelta) -> bool:
        """Return whether a worker has it, as a claim judges: a lease dated too far ahead does not count."""
        return self.claimed_at is not None and now - lease < self.claimed_at <= now + lease

    @property
    def is_suspect(self) -> bool:
        """Return whether an earlier claim of it was never settled."""
        return self.unsettled >= SUSPECT


class Attempt(Struct, frozen=True, omit_defaults=True):
    """One line of a fire's log."""

    at: datetime
    ms: int
    said: str


class Fire(Struct, frozen=True, kw_only=True):
    """One occurrence of an alarm and its outcome."""

    alarm_id: str
    scheduled_for: datetime
    owner_did: str
    target: str
    status: FireStatus
    reason: str = ""
    attempts: int = 0
    failures: int = 0  # of this ladder: an explicit retry starts a new one
    started_at: datetime | None = None  # first attempt; kept on retries
    delivered_at: datetime | None = None
    report_by: datetime | None = None
    completed_at: datetime | None = None  # when its end was reported
    duration_ms: int | None = None
    result: str = ""
    last_error: str = ""
    log: tuple[Attempt, ...] = ()
    through: datetime | None = None  # skipped runs: the last instant of the run
    count: int = 1
    updated_at: datetime

    @property
    def id(self) -> str:
        return fire_id(self.alarm_id, self.scheduled_for)


class Event(Struct, frozen=True, kw_only=True):
    """A recorded change to an alarm, for live events and `why`.

    Only one decision depends on events: wakes that began before `chain_cancelled` set no more alarms.
    """

    at: datetime
    what: str
    alarm_id: str = ""
    owner_did: str = ""
    fire_id: str = ""
    by: str = ""
    reason: str = ""


class Row(Struct, frozen=True):
    """A row that a table target has written in the same transaction as the settlement."""

    table: str
    values: dict[str, Any]
    key: str  # the column that holds the fire id
    stamped: tuple[str, ...] = ()  # columns that take the moment of writing instead: see `stamp`
    optional: tuple[str, ...] = ()  # columns that are left out where the table has none of that name for text

    def fitted(self, texts: Collection[str]) -> Row:
        """Return the row with values converted to text for these text columns."""
        kept = {name: value for name, value in self.values.items() if name in texts or name not in self.optional}
        return Row(self.table, kept, self.key, self.stamped)


def is_for_numbers(type: str) -> bool:
    """Whether a column of this type is for numbers. NUMERIC is not: it is also what SQLite makes of DATETIME."""
    return any(part in type.lower() for part in ("int", "real", "floa", "doub"))


class SeenValue(Struct, frozen=True, kw_only=True):
    """What an alarm's check found, as a digest, when a wake told of it."""

    name: str
    value: str


class Change(Struct, frozen=True, kw_only=True):
    """A change to write: the new alarm, its new fires, and the two numbers that must still match."""

    claim: int
    version: int
    after: Alarm
    fires: tuple[Fire, ...] = ()
    events: tuple[Event, ...] = ()
    former: Event | None = None  # what the alarm was before, in the place of what was kept of it until now: see undo.py
    row: Row | None = None
    edited: bool = False  # intent columns changed too, not only the dispatch columns
    cost: float = 0.0  # as a report said: it is added to the counts of the budgets
    seen: SeenValue | None = None  # of the alarm's check: the next wake comes only if it differs
    at_once: bool = False  # a first attempt that arrived, as first_try.py says: a store may write it the short way


def fire_id(alarm_id: str, scheduled_for: datetime) -> str:
    return f"{alarm_id}@{unix_ms(scheduled_for)}"


def is_fire_id(text: str) -> bool:
    """Whether a text names a fire; a key may hold an @ as well."""
    alarm_id, at, ms = text.rpartition("@")
    return bool(at and alarm_id) and ms.isascii() and ms.isdigit() and len(ms) <= _MS_DIGITS


def parse_fire_id(text: str) -> tuple[str, datetime]:
    alarm_id, _, ms = text.rpartition("@")
    if not is_fire_id(text):
        raise NotFound(f"{text!r} is not a fire id; it looks like <alarm id>@<unix milliseconds>", field="fire_id")
    return alarm_id, from_unix_ms(int(ms))
