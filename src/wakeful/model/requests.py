"""What a caller may ask for through any interface, and what is wanted in an alarm's own terms. Data only.

Each field of a request is declared once, with its description. HTTP bodies, the OpenAPI document, the arguments of MCP
tools, the options of the command line and the keywords of `alarms.set` come from these. None, or leaving a field out,
means that the service fills in the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, time, timedelta
from datetime import time as clock_time
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from wakeful.model.alarm import AtLimit, CatchUp, Cost, Kind, OnSilence, Overlap, Policy
from wakeful.model.outcome import ReportOutcome
from wakeful.schedule.days_off import OnHoliday

Span = float | str  # seconds, or "15m"
Moment = str | float  # RFC 3339 with an offset, or unix seconds
OnConflict = Literal["return", "replace", "error"]
AGENTS: Final = "agents"


def about(text: str, *examples: Any, agents: bool = True, **schema: Any) -> Meta:
    """A field's words. What its schema says besides is for documents only: our refusals have better words.

    `agents`: whether the tools of agents offer it; what they do without costs them no words to read.
    """
    return Meta(
        description=text,
        examples=list(examples) or None,
        extra_json_schema=schema or None,
        extra=None if agents else {AGENTS: False},
    )


SaidSpan = Span | UnsetType | None  # in a policy null says something: see PolicyRequest
SaidMoment = Moment | UnsetType | None
Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class PolicyRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What an alarm does when something goes wrong. Fields that are left out come from the settings.

    In an edit they stay as they are, and null is what takes one back to the settings.
    """

    backoff_base: Annotated[
        SaidSpan, about("The wait before the first retry; it doubles from there.", "30s", agents=False)
    ] = UNSET
    backoff_cap: Annotated[SaidSpan, about("The longest wait between two retries.", "1h", agents=False)] = UNSET
    exact_backoff: Annotated[
        bool | UnsetType | None,
        about("Retry after exactly these waits, not up to a tenth later.", True, agents=False),
    ] = UNSET
    catch_up: Annotated[
        CatchUp | UnsetType | None, about("After downtime: fire once for what was missed, or skip it.")
    ] = UNSET
    grace: Annotated[SaidSpan, about("With catch_up skip: how late a fire may still happen.", "10m", agents=False)] = (
        UNSET
    )
    expires: Annotated[SaidSpan, about("Start no attempt later than this after the scheduled time.", "2h")] = UNSET
    overlap: Annotated[
        Overlap | UnsetType | None,
        about("While the report of the fire before is awaited: skip, or fire all the same.", agents=False),
    ] = UNSET
    report_within: Annotated[SaidSpan, about("How long to wait for a report after delivery.", "15m")] = UNSET
    on_silence: Annotated[
        OnSilence | UnsetType | None,
        about(
            "When an expected report does not come: wake again, like a failed try, or give up.",
            "give_up",
            agents=False,
        ),
    ] = UNSET
    starts_at: Annotated[SaidMoment, about("No fire before this moment.", "2030-01-31T09:00:00Z")] = UNSET
    ends_at: Annotated[SaidMoment, about("No fire after this moment.", "2030-12-31T00:00:00Z")] = UNSET
    max_fires: Annotated[Count | UnsetType | None, about("End after this many fires.", 10)] = UNSET
    jitter: Annotated[SaidSpan, about("Delay each fire by a random time up to this.", "30s", agents=False)] = UNSET
    auto_pause_after: Annotated[
        Count | UnsetType | None, about("Pause after this many failed fires in a row.", 5, agents=False)
    ] = UNSET
    wakes_per_hour: Annotated[Count | UnsetType | None, about("The most wakes of this alarm in an hour.", 4)] = UNSET
    wakes_per_day: Annotated[Count | UnsetType | None, about("The most wakes of this alarm in a day.", 24)] = UNSET
    cost_per_day: Annotated[
        Cost | UnsetType | None,
        about("The most cost that reports on this alarm may name in a day.", 2.5, agents=False),
    ] = UNSET
    at_limit: Annotated[
        AtLimit | UnsetType | None,
        about(
            "When a budget is used up: defer the wake until it is free again, or skip it. Default: a series skips.",
            "defer",
            agents=False,
        ),
    ] = UNSET
    only_if: Annotated[
        str | UnsetType | None,
        about("A check of the operator's: skip the fire unless it finds a change.", "grant-portal", maxLength=100),
    ] = UNSET
    unless: Annotated[
        str | UnsetType | None,
        about("When this signal comes: skip the next fire of a series, cancel a one-shot.", "reply", maxLength=100),
    ] = UNSET
    unless_since: Annotated[
        SaidSpan, about("Ignore signals for `unless` that come earlier than this before the fire.", "12h")
    ] = UNSET
    rearm: Annotated[
        SaidSpan, about("The signal for `unless` moves the alarm, which fires once, to this long after it.", "15m")
    ] = UNSET
    or_when: Annotated[
        str | UnsetType | None, about("Fire at once when this signal comes.", "build-done", maxLength=100)
    ] = UNSET

    calendar: Annotated[
        str | UnsetType | None,
        about("Whose holidays a series keeps: a calendar of the server's.", "berlin", agents=False),
    ] = UNSET
    on_holiday: Annotated[
        OnHoliday | UnsetType | None,
        about("What falls on a holiday: skip it, or fire on the next or previous working day.", "skip", agents=False),
    ] = UNSET
    working_days: Annotated[
        str | UnsetType | None,
        about("The days it may be moved to; default: its owner's.", "mon-fri", agents=False),
    ] = UNSET


class EditRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The changes to an alarm; fields left out or null stay as they are, and so do those of its `policy` left out."""

    wake_message: Annotated[
        str | None,
        about("The message for the reader, who may know nothing else.", minLength=1, maxLength=32 * 1024),
    ] = None
    when: Annotated[
        str | None,
        about(
            "A phrase, duration, ISO time with offset, or cron with 5 or 6 fields. Phrases are never guessed.",
            "tomorrow at 9am",
            "in 20 minutes",
            "every weekday at 9am",
            "0 9 * * 1-5",
            "2030-01-31T09:00:00Z",
            minLength=1,
        ),
    ] = None
    kind: Annotated[
        Kind | None,
        about(
            "What the time must be. An edit that makes a series fire once, or the other way round, has to say it.",
            agents=False,
        ),
    ] = None
    delay_seconds: Annotated[float | None, about("Once, so many seconds from now.", 90, agents=False)] = None
    fire_at: Annotated[Moment | None, about("Once, at this moment.", "2030-01-31T09:00:00Z", agents=False)] = None
    cron_expr: Annotated[
        str | None,
        about("Recurring: cron, @daily and the like, @every 90m, or RRULE:FREQ=DAILY;BYHOUR=9.", agents=False),
    ] = None
    timezone: Annotated[str | None, about("The IANA time zone of the time.", "Europe/Berlin")] = None
    label: Annotated[str | None, about("A short name for people.", "grant portal")] = None
    conversation_id: Annotated[str | None, about("The conversation of this alarm; the wake carries it.")] = None
    payload: Annotated[
        Raw | UnsetType, about("State to get back with the wake, unchanged; at most 128 KiB of JSON.", {"page": 3})
    ] = UNSET
    target: Annotated[str | None, about("The name of a configured target, never a URL.", "inbox")] = None
    isolated: Annotated[bool | None, about("Ask the receiver for a run apart from the conversation.", agents=False)] = (
        None
    )
    max_failures: Annotated[int | None, about("How often a failed delivery is tried again.", 5)] = None
    policy: PolicyRequest | None = None


class CreateRequest(EditRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A requested alarm. Exactly one of when, fire_at, delay_seconds and cron_expr gives the time."""

    wake_message: Annotated[
        str, about("The message for the reader, who may know nothing else.", minLength=1, maxLength=32 * 1024)
    ]
    idempotency_key: Annotated[
        str | None, about("Your name for this alarm: repeating the request does not set a second one.", "brief")
    ] = None
    on_conflict: Annotated[
        OnConflict | None,
        about(
            "When the key is taken: return the alarm that has it, replace it, or refuse. Default: return it if the "
            "request is the same, else refuse."
        ),
    ] = None
    parent_fire: Annotated[
        str | None, about("The `fire_id` of the wake that led to this alarm; it joins that chain.")
    ] = None


class ReportRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    outcome: ReportOutcome
    result: str = ""
    reason: str = ""
    wait: Span | None = msgspec.field(default=None, name="for")
    cost: Annotated[
        Cost | None,
        about("What the work cost since the last report, in any unit; it counts against budgets of cost.", 0.12),
    ] = None
    renew: Annotated[
        bool, about("Keep its series, which was set with the token of a wake, for as long again from now.")
    ] = False


When = str | float | datetime | timedelta | time  # what a Python program gives as a time


# What is wanted, in an alarm's own terms


class SaidBounds(Struct, frozen=True):
    """From when, until when and how often a series fires, as its phrase says it ("until friday", "10 times").

    None where it does not say.
    """

    starts_at: datetime | None = None
    ends_at: datetime | None = None
    max_fires: int | None = None


NO_BOUNDS: Final = SaidBounds()
BOUNDS: Final = SaidBounds.__struct_fields__


class GivenTime(Struct, frozen=True, kw_only=True):
    """When, as somebody said it: exactly one of these, and the zone it is meant in."""

    when: str = ""
    fire_at: datetime | None = None
    delay: timedelta | None = None
    cron_expr: str = ""
    timezone: str = ""
    kind: Kind | Literal[""] = ""  # what it must turn out to be, where somebody said so


class Wanted(Struct, frozen=True):
    """What a request asks for, in an alarm's own terms: its fields by name, and its time as it was said."""

    fields: Mapping[str, Any]
    time: GivenTime
    policy: Mapping[str, Any] = {}  # of an edit: the fields of the policy that change
    date_order: str = ""  # how 03/04 is read, as the operator has set it
    bare_day: clock_time = clock_time(9)  # the time of day where only a day is named


class Origin(Struct, frozen=True, kw_only=True):
    """What an alarm has from who sets it: whose it is, by whom, through what, and in which chain."""

    owner_did: str
    created_by: str = ""
    created_via: str = ""
    root_id: str = ""
    generation: int = 0


class Timing(Struct, frozen=True):
    """A parsed time: one moment or a cron expression, in a time zone.

    `wall_time` of one moment: what clocks of the zone show then, where it was named by that; else empty.
    """

    kind: Kind
    fire_at: datetime | None
    cron_expr: str
    timezone: str
    bounds: SaidBounds = NO_BOUNDS
    wall_time: str = ""


class Defaults(Struct, frozen=True, kw_only=True):
    """What an alarm has where its caller does not say."""

    timezone: str
    date_order: str = ""  # of 03/04: dmy or mdy; without one, such a date is refused
    bare_day: time = time(9)  # the time of day where only a day is named
    target: str
    max_failures: int
    policy: Policy
