"""The public view of an alarm, a fire and an error, the same for every interface."""

from __future__ import annotations

from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from wakeful.errors import (
    Conflict,
    Forbidden,
    InvalidConfig,
    InvalidRequest,
    InvalidSchedule,
    NotFound,
    StaleVersion,
    StoreBusy,
    StoreUnavailable,
    TooMany,
    Unauthorized,
    UnknownTarget,
    WakefulError,
)
from wakeful.model.alarm import (
    DEFAULT_POLICY,
    NEW_POLICY,
    WAKEFULS_OWN,
    Alarm,
    AlarmStatus,
    Attempt,
    Fire,
    FireStatus,
    Kind,
    Policy,
)

if TYPE_CHECKING:
    from wakeful.service.inbox import TakenWake

# code → (HTTP status, exit status of the command line)
DOORS: Final[dict[str, tuple[int, int]]] = {
    InvalidRequest.code: (400, 2),
    InvalidSchedule.code: (400, 2),
    UnknownTarget.code: (400, 2),
    InvalidConfig.code: (500, 2),
    NotFound.code: (404, 3),
    Conflict.code: (409, 4),
    StaleVersion.code: (412, 4),
    Unauthorized.code: (401, 5),
    Forbidden.code: (403, 5),
    TooMany.code: (429, 5),
    StoreUnavailable.code: (503, 6),
    StoreBusy.code: (503, 6),
    WakefulError.code: (500, 1),
}

Text = str | UnsetType
Instant = datetime | UnsetType


class Shape(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Nothing but what is named here."""


# A policy as it is shown: what is as usual is left out, and so is what is wakeful's own.
PolicyView = msgspec.defstruct(
    "PolicyView",
    [
        (field.name, (int | float if field.type is float else field.type) | UnsetType, UNSET)
        for field in msgspec.structs.fields(Policy)
        if field.name not in WAKEFULS_OWN
    ],
    bases=(Shape,),
    namespace={"__doc__": Policy.__doc__},
    module=__name__,
    frozen=True,
    kw_only=True,
)


class AlarmView(Shape, frozen=True, kw_only=True):
    """An alarm. Empty fields are left out: `next_fire_at` where it is not active, `fire_at` where it is a series.

    `wall_time`: what clocks of its zone show when it fires, where it fires once and was set by that. `manual_of`: the
    alarm that it is a manual fire of.
    """

    id: str
    label: str
    kind: Kind
    fire_at: Instant = UNSET
    cron_expr: Text = UNSET
    timezone: str
    wall_time: Text = UNSET
    next_fire_at: Instant = UNSET
    conversation_id: Text = UNSET
    wake_message: str
    payload: Raw
    status: AlarmStatus
    idempotency_key: Text = UNSET
    max_failures: int
    failure_count: int
    last_error: Text = UNSET
    created_at: datetime
    last_fired_at: Instant = UNSET
    target: str
    version: int
    fire_count: int
    policy: PolicyView | UnsetType = UNSET  # type: ignore[valid-type]  # made above
    paused_reason: Text = UNSET
    cancelled_at: Instant = UNSET
    isolated: bool | UnsetType = UNSET
    owner_did: str
    created_by: Text = UNSET
    created_via: Text = UNSET
    root_id: Text = UNSET
    manual_of: Text = UNSET
    parent_fire: Text = UNSET
    generation: int | UnsetType = UNSET

    @classmethod
    def of(cls, alarm: Alarm, **more: Any) -> Self:
        """An alarm, and what an answer says of it besides."""
        return cls(**view(alarm), **more)


class FireView(Shape, frozen=True, kw_only=True):
    """One occurrence of an alarm and its outcome. `manual`: `fire` made it; its `alarm_id` is that of the copy."""

    id: str
    alarm_id: str
    scheduled_for: datetime
    owner_did: str
    target: str
    status: FireStatus
    reason: Text = UNSET
    attempts: int
    failures: int
    started_at: Instant = UNSET
    delivered_at: Instant = UNSET
    report_by: Instant = UNSET
    completed_at: Instant = UNSET
    duration_ms: int | UnsetType = UNSET
    result: Text = UNSET
    last_error: Text = UNSET
    log: tuple[Attempt, ...] | UnsetType = UNSET
    through: Instant = UNSET
    count: int | UnsetType = UNSET
    manual: bool | UnsetType = UNSET
    updated_at: datetime

    @classmethod
    def of(cls, fire: Fire, alarm_id: str = "", **more: Any) -> Self:
        """A fire, of those of an alarm, and what an answer says of it besides."""
        return cls(**fire_view(fire, alarm_id), **more)


class Problem(Struct, frozen=True, kw_only=True):
    """RFC 9457: what was wrong, with a stable `code`, the `field` at fault, and what to do instead."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    field: Text = UNSET
    fix: Text = UNSET
    repair: Annotated[
        dict[str, Any] | UnsetType,
        Meta(description="The request that was refused is accepted with these fields so; null: without that one."),
    ] = UNSET


_SHOWN: Final = AlarmView.__struct_fields__  # what is declared is what is sent
_OPTIONAL: Final = tuple(field.name for field in msgspec.structs.fields(AlarmView) if not field.required)
_KEPT_AS: Final = {"payload": "payload_json", "manual_of": "policy.manual_of"}
_shown: Final = attrgetter(*(_KEPT_AS.get(name, name) for name in _SHOWN))


def view(alarm: Alarm) -> dict[str, Any]:
    """The fields of an AlarmView that are there: empty ones left out, `next_fire_at` only while it is active."""
    shown: dict[str, Any] = dict(zip(_SHOWN, _shown(alarm), strict=True))
    shown["payload"] = Raw(alarm.payload_json.encode())
    shown["policy"] = _policy_view(alarm.policy)
    if alarm.status != "active":
        shown["next_fire_at"] = None
    for name in _OPTIONAL:
        if not shown[name]:
            del shown[name]
    return shown


def _policy_view(policy: Policy) -> Struct | None:
    """What was said; None where nothing was. The usual value is shown too where somebody said it, as it is kept."""
    if policy is NEW_POLICY or policy == NEW_POLICY:
        return None
    all_of_it = {name: getattr(policy, name) for name in PolicyView.__struct_fields__}
    said = {name: _whole(value) for name, value in all_of_it.items() if value is not getattr(DEFAULT_POLICY, name)}
    if policy.on_silence == "again":  # as usual
        del said["on_silence"]
    elif policy.on_silence is None:
        said["on_silence"] = "give_up"  # what it does: it is older than the field
    return PolicyView(**said) if said else None


def _whole(value: Any) -> Any:
    """Return whole seconds as an integer: not every client accepts 30.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def fire_view(fire: Fire, of: str = "") -> dict[str, Any]:
    """The fields of a FireView that are there. `of`: the alarm whose fires are shown, manual ones among them."""
    shown = {"id": fire.id, "manual": of not in ("", fire.alarm_id) or None} | msgspec.structs.asdict(fire)
    if fire.status != "skipped":
        del shown["through"], shown["count"]
    return {name: value for name, value in shown.items() if value not in (None, "", ())}


def handed_out(taken: TakenWake) -> dict[str, Any]:
    """What varies each time a wake is fetched from the inbox, as the headers of a webhook have it."""
    return {
        "attempt": taken.attempt,
        "late_ms": taken.late_ms,
        "missed": taken.missed,
        "report_by": taken.fire.report_by,
        "number": taken.number,
    } | {
        name: value for name in ("max_fires", "previous", "next_fire_at") if (value := getattr(taken, name)) is not None
    }


def problem(error: WakefulError, status: int | None = None, title: str = "") -> Problem:
    """An error as RFC 9457 wants it; `status` and `title` are for refusals that only HTTP knows."""
    return Problem(
        type=f"urn:wakeful:{error.code}",
        title=title or _title(error),
        status=status or DOORS[error.code][0],
        code=error.code,
        detail=str(error),
        field=error.field or UNSET,
        fix=error.fix or UNSET,
        repair=error.repair or UNSET,
    )


def _title(error: WakefulError) -> str:
    """Return the documented name of an error, not that of an internal subclass."""
    return next(kind.__name__ for kind in type(error).__mro__ if "code" in vars(kind))


def encode(value: Any) -> bytes:
    return msgspec.json.encode(value)
