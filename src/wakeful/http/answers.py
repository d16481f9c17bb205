"""The requests and responses of the HTTP interface as types: bodies are read into them, and answers are made of them.

The OpenAPI document shows the same types, so nothing can be declared that is not sent.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Self

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from wakeful.model.alarm import Kind
from wakeful.model.owner_settings import OwnerSettingsView
from wakeful.model.requests import Moment, Span
from wakeful.rules.budget import BudgetUse
from wakeful.rules.signalling import Effect
from wakeful.rules.wake import WakeBody
from wakeful.service import HistoryEntry, Signalled, Similar
from wakeful.service.cancel import NAMED_AT_ONCE
from wakeful.service.inbox import PreviousFire
from wakeful.service.live import LiveEvent
from wakeful.service.views import AlarmView, FireView, Instant, Problem, Shape, Text
from wakeful.service.watch import Overview, TargetStatus
from wakeful.store import Stats

BATCH_LIMIT: Final = 1000
INBOX_LIMIT: Final = 100
PREVIEW_LIMIT: Final = 100

# Bodies


class BatchBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Each item is a body of `POST /v1/alarms`; an invalid one gets an error in its place."""

    alarms: Annotated[list[Raw], Meta(min_length=1, max_length=BATCH_LIMIT)]


class PauseBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    reason: str = ""


class SnoozeBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Exactly one of `for` (a length) and `until` (a moment)."""

    wait: Span | None = field(default=None, name="for")
    until: Moment | None = None


class SkipBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`at`: the fire that is meant, such as `next_fire_at` or "tomorrow at 9am"; another one is not skipped."""

    at: Moment | None = None


class UndoBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`when`: a new time, needed where that of a cancelled or edited one-shot has passed."""

    when: str | None = None


DueFrom = Annotated[
    Moment | None, Meta(description="Only what fires from then on: a moment or a phrase.", examples=["tomorrow"])
]
DueTo = Annotated[Moment | None, Meta(description="Only what fires until then; a day is the whole of it.")]


class AppendBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An object for an object, a list for a list."""

    payload: Raw


class HandOverBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`target`: whom to wake in place of whoever has the wake."""

    target: str


class CancelBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which alarms: `ids` (ids, keys or beginnings of ids), or all pending ones that fit the filters."""

    ids: Annotated[list[str], Meta(max_length=NAMED_AT_ONCE)] = []
    text: Annotated[str, Meta(description="A part of the label, the message or the key, in any case.")] = ""
    conversation_id: str = ""
    target: str = ""
    label: str = ""
    due_from: DueFrom = None
    due_to: DueTo = None
    reason: str = ""
    dry_run: Annotated[bool, Meta(description="Cancel nothing: only say which it would be.")] = False


class MoveBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which alarms: `ids`, those that fit the filters, or `all` pending ones. Exactly one of `by` and `timezone`."""

    ids: Annotated[list[str], Meta(max_length=NAMED_AT_ONCE)] = []
    everything: bool = field(default=False, name="all")
    by: Annotated[
        Span | None, Meta(description="Move the next fire by this; whole days keep the time of day.", examples=["1d"])
    ] = None
    timezone: Annotated[
        str, Meta(description="Move them to this zone: a series keeps its time of day, what fires once its moment.")
    ] = ""
    text: Annotated[str, Meta(description="A part of the label, the message or the key, in any case.")] = ""
    conversation_id: str = ""
    target: str = ""
    label: str = ""
    due_from: DueFrom = None
    due_to: DueTo = None
    dry_run: Annotated[bool, Meta(description="Move nothing: only say which it would be.")] = False


class SignalRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`payload`: any JSON up to 16 KiB; a wake that comes for the signal carries it."""

    payload: Raw | UnsetType = UNSET


class InboxBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`done`: earlier wakes by their fire_id, with what came of each; they are reported as completed first."""

    done: Annotated[dict[str, str], Meta(max_length=INBOX_LIMIT)] = {}


class PreviewBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    when: Annotated[str, Meta(extra_json_schema={"minLength": 1, "examples": ["every weekday at 9am"]})]
    timezone: str | None = None
    n: Annotated[int, Meta(ge=1, le=PREVIEW_LIMIT)] = 5


class CalendarLinkBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`expires`: how long the address is good, such as 90d; otherwise until it is revoked."""

    label: Annotated[str, Meta(description="What it is for, to tell it from others.")] = ""
    expires: Span | None = None


# Answers


class AlarmAnswer(AlarmView, frozen=True, kw_only=True):
    """An alarm as of `now`. The header ETag holds its version."""

    now: datetime


class NotedAnswer(AlarmAnswer, frozen=True, kw_only=True):
    """`notes`, where there are any: an assumed time zone, times that clock changes move, which of two days was meant,
    how often a series wakes, a target nobody serves, a key whose alarm has ended, a time that an edit made another kind
    of.
    """

    notes: list[str] | UnsetType = UNSET


class CreatedAnswer(NotedAnswer, frozen=True, kw_only=True):
    similar: Similar | UnsetType = UNSET


class DedupedAnswer(NotedAnswer, frozen=True, kw_only=True):
    """The alarm that already has the key. `in_flight`, if it was replaced: see ChangedAnswer."""

    deduped: bool
    in_flight: bool | UnsetType = UNSET


class ChangedAnswer(NotedAnswer, frozen=True, kw_only=True):
    """`in_flight`: a worker is delivering it, so this one attempt may still arrive unchanged; or a reader has fetched a
    wake of it from the inbox and may be working on it.
    """

    in_flight: bool


class AlarmsAnswer(Shape, frozen=True, kw_only=True):
    alarms: list[AlarmView]
    next_cursor: Text = UNSET
    now: datetime


class ResetAnswer(Shape, frozen=True, kw_only=True):
    cancelled: int
    now: datetime


class CancelledAnswer(ResetAnswer, frozen=True, kw_only=True):
    """How many were cancelled, and the first 500 of them; with `dry_run` none, and those that would be.

    `in_flight`: of how many an attempt was under way, which may still arrive. `skipped`: how many of them are series
    that only leave out what falls between due_from and due_to. `notes`, where there are any.
    """

    dry_run: bool
    in_flight: int
    alarms: list[AlarmView]
    skipped: int = 0
    notes: list[str] | UnsetType = UNSET


class MovedAnswer(Shape, frozen=True, kw_only=True):
    """How many were moved, and the first 500 of them; with `dry_run` none, and those that would be.

    `in_flight`: of how many an attempt was under way, which may still arrive. `notes`: which were not moved, and why.
    """

    moved: int
    dry_run: bool
    in_flight: int
    alarms: list[AlarmView]
    now: datetime
    notes: list[str] | UnsetType = UNSET


class SignalEffectView(Shape, frozen=True, kw_only=True):
    """What a signal did to one alarm. `at`: the fire that is skipped or is not, or where the alarm is moved to."""

    alarm_id: str
    effect: Effect
    at: Instant = UNSET


class SignalledAnswer(Shape, frozen=True, kw_only=True):
    """How many alarms a signal cancelled, fired, skipped a fire of and moved, and the first 500 of those it reached.

    `effects` says of each of them what became of it, in the same order. `in_flight`: of how many an attempt was under
    way already: it may still arrive, and one that was to fire is on its way as it was. `notes`: where nothing waited
    for it, and why an alarm was not changed.
    """

    cancelled: int
    fired: int
    skipped: int
    moved: int
    in_flight: int
    alarms: list[AlarmView]
    effects: list[SignalEffectView]
    notes: list[str] | UnsetType = UNSET
    now: datetime

    @classmethod
    def of(cls, done: Signalled, *, now: datetime, limit: int | None = None) -> Self:
        shown = done.alarms[:limit]
        return cls(
            cancelled=len(done.cancelled),
            fired=len(done.fired),
            skipped=len(done.skipped),
            moved=len(done.moved),
            in_flight=done.in_flight,
            alarms=[AlarmView.of(one.alarm) for one in shown],
            effects=[SignalEffectView(alarm_id=one.alarm.id, effect=one.effect, at=one.at or UNSET) for one in shown],
            notes=done.notes or UNSET,
            now=now,
        )


class BatchItem(Shape, frozen=True, kw_only=True):
    """The result of one item: an alarm (201 created, 200 its key existed) with its `notes`, or a problem."""

    status: int
    alarm: AlarmView | UnsetType = UNSET
    notes: list[str] | UnsetType = UNSET
    problem: Problem | UnsetType = UNSET


class BatchAnswer(Shape, frozen=True, kw_only=True):
    """One result per item, in the same order, and the counts."""

    results: list[BatchItem]
    created: int
    deduped: int
    refused: int
    now: datetime


class FireAnswer(FireView, frozen=True, kw_only=True):
    now: datetime


class ReportedAnswer(FireAnswer, frozen=True, kw_only=True):
    """A fire after a report. `retry_at`: when it is tried again; absent if it is not. `notes`: where it had been
    completed with another result, that this one is not kept.
    """

    retry_at: Instant = UNSET
    notes: list[str] | UnsetType = UNSET


class CallbackAnswer(Shape, frozen=True, kw_only=True):
    """What became of a message from an agent platform. `reported`: how many fires it was a report on."""

    reported: int
    now: datetime


class FiresAnswer(Shape, frozen=True, kw_only=True):
    fires: list[FireView]
    next_cursor: Text = UNSET
    now: datetime


class RetriedAnswer(Shape, frozen=True, kw_only=True):
    """How many fires matched the filters, and how many of them are retried."""

    found: int
    retried: int
    refused: int
    next_cursor: Text = UNSET
    now: datetime


class Limited(Shape, frozen=True, kw_only=True):
    """A list that ends at a number of entries or of bytes. `more`: there may be more."""

    now: datetime
    more: bool | UnsetType = UNSET


class HistoryAnswer(Limited, frozen=True, kw_only=True):
    """`missed`: how many fires of these were passed over without anybody having asked for it. `notes`: what is due and
    not delivered yet.
    """

    history: list[HistoryEntry]
    missed: int
    notes: list[str] | UnsetType = UNSET


class FailedAnswer(Limited, frozen=True, kw_only=True):
    failed: list[HistoryEntry]


class Coming(Shape, frozen=True, kw_only=True):
    at: datetime
    alarm: AlarmView


class AgendaAnswer(Limited, frozen=True, kw_only=True):
    """The next fires of all alarms, merged, soonest first. `notes`: what is due and not delivered yet."""

    agenda: list[Coming]
    notes: list[str] | UnsetType = UNSET


class StatsAnswer(Stats, frozen=True, kw_only=True):
    now: datetime


class BudgetAnswer(Struct, frozen=True, kw_only=True):
    """What is used of budgets in this hour and day (of UTC), those that are used up first."""

    budget: list[BudgetUse]
    now: datetime


class TargetsAnswer(Struct, frozen=True, kw_only=True):
    """The targets that the caller may use. `since`, `by` and `reason` of one that is paused or failing."""

    targets: list[TargetStatus]
    now: datetime


class OverviewAnswer(Overview, frozen=True, kw_only=True):
    """How much is due, in flight and next; and of each target, with the fires of the last hour."""

    next: list[AlarmView]  # type: ignore[assignment]  # soonest first


class RecentEventsAnswer(Struct, frozen=True, kw_only=True):
    """The latest live events, oldest first."""

    events: list[LiveEvent]
    now: datetime


class InboxWake(WakeBody, frozen=True, kw_only=True):
    """A wake from the inbox, to be reported by `report_by`; else it waits again, as often as a failure is retried.

    `late_ms`: how long after its scheduled time it was handed out. `missed`: how many later fires of its series passed
    meanwhile without a wake of their own. `attempt`: how often it has been handed out. `number`: which fire of its
    alarm it is, of `max_fires` at most; `previous`: what became of the one before; `next_fire_at`: when the next comes.
    """

    attempt: int
    late_ms: int
    missed: int
    number: int
    max_fires: int | UnsetType = UNSET
    previous: PreviousFire | UnsetType = UNSET
    next_fire_at: Instant = UNSET
    report_by: Instant = UNSET


class InboxAnswer(Shape, frozen=True, kw_only=True):
    """`notes`, where there is no wake: what is due and not delivered yet."""

    wakes: list[InboxWake]
    notes: list[str] | UnsetType = UNSET
    now: datetime


class Occurrence(Shape, frozen=True, kw_only=True):
    """One moment, in UTC and in local time."""

    utc: datetime
    local: datetime


class SkippedOccurrence(Occurrence, frozen=True, kw_only=True):
    """One moment that is left out, and the holiday it falls on."""

    holiday: str


class PreviewAnswer(Shape, frozen=True, kw_only=True):
    """How a `when` was understood; `remarks`: an assumed time zone, the effect of clock changes, which of two days or
    dates was meant, how often a rule fires.

    `starts_at`, `ends_at` and `max_fires` are the bounds that a phrase says, such as "until friday" or "10 times".
    """

    kind: Kind
    fire_at: Instant = UNSET
    cron_expr: Text = UNSET
    starts_at: Instant = UNSET
    ends_at: Instant = UNSET
    max_fires: int | UnsetType = UNSET
    timezone: str
    description: str
    next: list[Occurrence]
    skipped: list[SkippedOccurrence] | UnsetType = UNSET
    calendar: Text = UNSET
    remarks: tuple[str, ...]
    now: datetime


class SettingsAnswer(OwnerSettingsView, frozen=True, kw_only=True):
    """What counts for the caller's alarms. `own`: which of it the caller has set; the rest is the server's."""

    now: datetime


class HealthAnswer(Shape, frozen=True, kw_only=True):
    status: str
    version: str


class ReadyAnswer(Shape, frozen=True, kw_only=True):
    status: str
    version: str
    store: str
    dispatcher: str
    heartbeat_age_seconds: float | UnsetType = UNSET
    in_flight: int | UnsetType = UNSET
    now: datetime


class CalendarLinkAnswer(Shape, frozen=True, kw_only=True):
    """`url`: what a calendar program subscribes to, shown this once. `id` and the like: of the token in it."""

    url: str
    id: Text = UNSET
    label: Text = UNSET
    expires_at: Instant = UNSET
    now: datetime


class RevokedLinkAnswer(Struct, frozen=True, kw_only=True):
    id: str
    state: str
    now: datetime
