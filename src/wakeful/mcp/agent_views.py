"""Alarms, fires and wakes as an agent reads them: times in words, long texts cut with a note on how to read on.

An answer stays under BUDGET bytes, about 2,000 tokens, whatever its alarms hold.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import UNSET
from msgspec.structs import fields

from wakeful.errors import InvalidRequest
from wakeful.mcp.schemas import EDITABLE, AgentAlarm, AgentBudget, AgentFire, AgentSignalEffect, WakeView
from wakeful.model.alarm import Alarm, Fire
from wakeful.moments import from_unix_ms, unix_ms
from wakeful.rules.budget import BudgetUse
from wakeful.rules.create import series_words
from wakeful.schedule import zone
from wakeful.schedule.descriptions import moment as in_words
from wakeful.service import TakenWake
from wakeful.service.signalling import SignalledAlarm
from wakeful.service.views import view

BUDGET: Final = 6000
NAME: Final = 160
ERROR: Final = 300
SHORTEST_PIECE: Final = 100
# Of an alarm's fields: said in another way, cut at a length of their own, or never long. The rest of its texts are cut.
_OWN_WAY: Final = frozenset({"policy", "next_fire_at", "wake_message", "payload", "last_error"})
_SHORT: Final = frozenset({"id", "status", "timezone"})
_SHARED: Final = {field.name: field.type for field in fields(Alarm) if field.name in AgentAlarm.__struct_fields__}
_TEXTS: Final = tuple(name for name, kind in _SHARED.items() if kind is str and name not in _OWN_WAY | _SHORT)
_AS_THEY_ARE: Final = tuple(name for name in _SHARED if name not in _OWN_WAY.union(_TEXTS))
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


class TextBudget:
    """Cuts texts, and keeps the notes that say what is missing and how to get it."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def text(self, text: str, max_bytes: int, what: str = "", how: str = "") -> str:
        kept = cut(text, max_bytes)
        if what and kept != text:
            self.notes.append(f"{what} is cut: {len(kept) - 1} of {len(text)} characters. {how}".rstrip())
        return kept

    def payload(self, payload: str, max_bytes: int, what: str, how: str) -> Any:
        if payload == "{}":
            return None
        if len(payload.encode()) > max_bytes:
            self.notes.append(f"{what} is left out: {len(payload)} characters. {how}")
            return None
        return msgspec.json.decode(payload)


def budget(use: BudgetUse) -> AgentBudget:
    return AgentBudget(
        of=use.scope,
        id=cut(use.id, 120),
        period=use.period,
        wakes=use.wakes,
        wakes_left=max(0, use.wakes_allowed - use.wakes) if use.wakes_allowed else UNSET,
        cost=use.cost,
        cost_left=max(0.0, use.cost_allowed - use.cost) if use.cost_allowed else UNSET,
    )


def cut(text: str, max_bytes: int) -> str:
    """The text, or as much of it as fits into so many bytes of JSON, and an ellipsis."""
    kept = text
    while (size := len(msgspec.json.encode(kept))) > max_bytes:
        kept = kept[: min(len(kept) * (max_bytes - 4) // size, len(kept) - 1)]
    return kept if kept == text else kept + "…"


def part_call(id: str, part: str, offset: int = 0) -> str:
    more = {"offset": offset} if offset else {}
    return f"Read it: alarm_get {msgspec.json.encode({'id': id, 'part': part} | more).decode()}"


def alarm_view(alarm: Alarm, budget: TextBudget, *, message: int, payload: int) -> AgentAlarm:
    """An alarm with as much of its message and payload as there is room for; no room leaves the payload out."""
    active = alarm.status == "active"
    how = part_call(alarm.id, "wake_message")
    plain: dict[str, Any] = {name: getattr(alarm, name) for name in _AS_THEY_ARE}
    texts: dict[str, Any] = {
        name: budget.text(getattr(alarm, name), NAME, name if name in EDITABLE else "") for name in _TEXTS
    }
    return AgentAlarm(
        **plain,
        **texts,
        when=words(alarm),
        next_fire_at=utc(alarm.next_fire_at) if active else "",
        next_fire_local=local(alarm.next_fire_at, alarm.timezone) if active else "",
        key=budget.text(alarm.idempotency_key, NAME, "key"),
        policy=policy_shown(alarm),
        wake_message=budget.text(alarm.wake_message, message, "wake_message", how),
        payload=budget.payload(alarm.payload_json, payload, "payload", part_call(alarm.id, "payload"))
        if payload
        else None,
        last_error=cut(alarm.last_error, ERROR),
    )


def brief(alarm: Alarm) -> AgentAlarm:
    """An alarm as one line of a list."""
    active = alarm.status == "active"
    return AgentAlarm(
        id=alarm.id,
        status=alarm.status,
        when=words(alarm),
        target=cut(alarm.target, 80),
        next_fire_at=utc(alarm.next_fire_at) if active else "",
        label=cut(alarm.label, 80),
        key=cut(alarm.idempotency_key, 80),
        wake_message=cut(alarm.wake_message, 120),
    )


def signal_effect(one: SignalledAlarm) -> AgentSignalEffect:
    at = "" if one.at is None else one.at.astimezone(zone(one.alarm.timezone)).isoformat(timespec="seconds")
    return AgentSignalEffect(alarm_id=one.alarm.id, effect=one.effect, at=at)


def fire_view(fire: Fire, budget: TextBudget, *, result: int = 200, manual: bool = False) -> AgentFire:
    return AgentFire(
        fire_id=fire.id,
        status=fire.status,
        scheduled_for=utc(fire.scheduled_for),
        manual=manual,
        reason=fire.reason,
        attempts=fire.attempts,
        delivered_at=_utc(fire.delivered_at),
        completed_at=_utc(fire.completed_at),
        report_by=_utc(fire.report_by),
        result=budget.text(fire.result, result, "result", part_call(fire.id, "result")),
        last_error=cut(fire.last_error, result),
    )


def wake_view(taken: TakenWake, budget: TextBudget, *, each: int) -> WakeView:
    alarm, fire = taken
    how: Callable[[str], str] = lambda part: part_call(alarm.id, part)  # noqa: E731  # used twice, just here
    return WakeView(
        fire_id=fire.id,
        alarm_id=alarm.id,
        scheduled_for=utc(fire.scheduled_for),
        report_by=_utc(fire.report_by),
        attempt=taken.attempt,
        late_ms=taken.late_ms,
        missed=taken.missed,
        number=taken.number,
        max_fires=taken.max_fires or 0,
        previous=_previous(taken),
        next_fire_at=_utc(taken.next_fire_at),
        author=taken.author,
        parent_fire=alarm.parent_fire,
        ends_at=_utc(taken.ends_at),
        renewable=taken.renewable,
        message=budget.text(alarm.wake_message, each // 3, "message", how("wake_message")),
        payload=budget.payload(alarm.payload_json, each // 4, "payload", how("payload")),
        **_signal(taken, budget, each=each),
        label=cut(alarm.label, 80),
        key=cut(alarm.idempotency_key, 80),
        conversation_id=budget.text(alarm.conversation_id, NAME, "conversation_id"),
    )


def _signal(taken: TakenWake, budget: TextBudget, *, each: int) -> dict[str, Any]:
    if (signal := taken.signal) is None:
        return {}
    payload = budget.payload(signal.payload_json, each // 6, "signal_payload", "the signal's sender has it all")
    return {"signal": signal.name, "signal_payload": payload}


def _previous(taken: TakenWake) -> str:
    before = taken.previous
    if before is None:
        return ""
    said = before.result or before.error
    return cut(f"{before.status}: {said}" if said else before.status, 120)


def policy_shown(alarm: Alarm) -> dict[str, Any]:
    """What was said of a policy, as every interface shows it."""
    shown = view(alarm).get("policy")
    found: dict[str, Any] = {} if shown is None else msgspec.to_builtins(shown)
    return found


def words(alarm: Alarm) -> str:
    """When an alarm fires, in words."""
    if alarm.fire_at is not None:
        return in_words(alarm.fire_at, alarm.timezone)
    return cut(series_words(alarm), ERROR)


def ahead(alarm: Alarm, now: datetime) -> str:
    """When it fires next and how far away that is, or why it does not."""
    if alarm.status != "active":
        return f"The alarm is {alarm.status}" + (" and will not fire again." if alarm.finished else ".")
    return f"Next at {local(alarm.next_fire_at, alarm.timezone)}, {away(alarm.next_fire_at - now)}."


def away(length: timedelta) -> str:
    seconds = round(length.total_seconds())
    if seconds <= 0:
        return "due now"
    for size, name in _UNITS:
        if seconds >= size:
            rest = seconds % size * 10 // size
            return f"in {seconds // size}{f'.{rest}' if rest else ''} {name}"
    return f"in {seconds} s"


def utc(moment: datetime) -> str:
    return _iso(moment.astimezone(UTC)).replace("+00:00", "Z")


def local(moment: datetime, timezone: str) -> str:
    return _iso(moment.astimezone(zone(timezone)))


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds" if moment.microsecond >= 1000 else "seconds")


def _utc(moment: datetime | None) -> str:
    return "" if moment is None else utc(moment)


def cursor_of(at: datetime, id: str) -> str:
    return f"{unix_ms(at)}.{id}"


def cursor(text: str) -> tuple[datetime, str] | None:
    if not text:
        return None
    ms, _, id = text.partition(".")
    try:
        return from_unix_ms(int(ms)), str(uuid.UUID(id))
    except (ValueError, OverflowError):
        fix = "Use the next_cursor of an earlier answer."
        raise InvalidRequest(f"{text[:80]!r} is not a cursor", field="cursor", fix=fix) from None
