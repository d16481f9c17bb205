"""What an alarm, a fire and an error look like from outside. One place, so that no two doors differ."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec import Raw

from wakeful.alarm import DEFAULT_POLICY, Alarm, Fire, Policy
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
from wakeful.service.taken import Taken

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

# Out


_SHOWN: Final = (
    *("id", "label", "kind", "cron_expr", "timezone", "next_fire_at", "conversation_id", "wake_message", "payload"),
    *("status", "idempotency_key", "max_failures", "failure_count", "last_error", "created_at", "last_fired_at"),
    *("target", "version", "fire_count", "policy", "paused_reason", "cancelled_at", "isolated", "owner_did"),
    *("created_by", "created_via", "root_id", "parent_fire"),
)
_shown: Final = attrgetter(*_SHOWN)
_EVEN_EMPTY: Final = ("label", "wake_message")  # as Chronos does


def view(alarm: Alarm) -> dict[str, Any]:
    """An alarm as every door shows it: empty fields left out, `next_fire_at` only while it is active."""
    shown: dict[str, Any] = dict(zip(_SHOWN, _shown(alarm), strict=True))
    shown["payload"] = Raw(alarm.payload.encode())
    shown["policy"] = None if alarm.policy == DEFAULT_POLICY else _policy_view(alarm.policy) or None
    if alarm.status != "active":
        shown["next_fire_at"] = None
    if not alarm.isolated:
        shown["isolated"] = None
    return {name: value for name, value in shown.items() if (value is not None and value != "") or name in _EVEN_EMPTY}


def _policy_view(policy: Policy) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(policy)
    shown.pop("anchor", None)
    return {name: _whole(value) for name, value in shown.items()}


def _whole(value: Any) -> Any:
    """Whole seconds as an integer: not every client takes 30.0 for one."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def fire_view(fire: Fire) -> dict[str, Any]:
    shown = {"id": fire.id} | msgspec.structs.asdict(fire)
    if fire.status != "skipped":
        del shown["through"], shown["count"]
    return {name: value for name, value in shown.items() if value not in (None, "", ())}


def handed_out(taken: Taken) -> dict[str, Any]:
    """What varies each time a wake is fetched from the inbox, as the headers of a webhook have it."""
    return {
        "attempt": taken.attempt,
        "late_ms": taken.late_ms,
        "missed": taken.missed,
        "report_by": taken.fire.report_by,
    }


def problem(error: WakefulError, status: int | None = None) -> dict[str, Any]:
    """An error as RFC 9457 wants it; `status` is for refusals that only HTTP knows."""
    status = status or DOORS[error.code][0]
    shown: dict[str, Any] = {
        "type": f"urn:wakeful:{error.code}",
        "title": _title(error),
        "status": status,
        "code": error.code,
        "detail": str(error),
    }
    return shown | ({"field": error.field} if error.field else {}) | ({"fix": error.fix} if error.fix else {})


def _title(error: WakefulError) -> str:
    """The documented name of an error: what is finer than that is our own affair."""
    return next(kind.__name__ for kind in type(error).__mro__ if "code" in vars(kind))


def encode(value: Any) -> bytes:
    return msgspec.json.encode(value)
