"""Which alarms or fires a page is about: filters as they stand in its address. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from wakeful.alarm import ALARM_STATUSES, FIRE_STATUSES
from wakeful.alarm.create import TEXT_LIMIT, check_text
from wakeful.errors import InvalidRequest
from wakeful.http import operations
from wakeful.schedule import duration

KINDS: Final = ("once", "cron")
ALARM_FILTERS: Final = ("text", "status", "kind", "target", "label", "conversation_id", "since", "until", "owner")
FIRE_FILTERS: Final = ("status", "target", "since", "until", "owner")
_ACCEPTED: Final = {"alarms": {"status": ALARM_STATUSES, "kind": KINDS}, "fires": {"status": FIRE_STATUSES}}
_LENGTH: Final = re.compile(r"\d+(\.\d+)?\s*[a-z]+(\s*\d+(\.\d+)?\s*[a-z]+)*", re.IGNORECASE)


def names_of(what: str) -> Sequence[str]:
    return ALARM_FILTERS if what == "alarms" else FIRE_FILTERS


def filters(what: str, asked: Mapping[str, str], now: datetime) -> dict[str, Any]:
    """What a page asks for, as `find` and `fires` take it; InvalidRequest names the filter that is not understood."""
    found: dict[str, Any] = {}
    for name in names_of(what):
        if not (said := asked.get(name, "")):
            continue
        check_text(name, said, TEXT_LIMIT)
        if name == "owner":  # whose they are is for the visit to say, by the rights it has
            continue
        if name in ("since", "until"):
            found[name] = moment_of(name, said, now)
        elif name in _ACCEPTED[what]:
            found[name] = _among(name, said, _ACCEPTED[what][name])
        else:
            found[name] = said
    if found.get("kind") and found["kind"] not in KINDS:  # a status may be several, a kind is one
        raise InvalidRequest(f"{found['kind']!r} is not accepted", field="kind", fix=f"Accepted: {', '.join(KINDS)}.")
    return found


def moment_of(name: str, said: str, now: datetime) -> datetime:
    """A moment: RFC 3339, unix seconds, or a length of time, which counts back from now."""
    if _LENGTH.fullmatch(said):
        try:
            return now - duration(said)
        except (InvalidRequest, OverflowError):
            pass
    found: datetime = operations.moment(name, "").read(name, said)
    return found


def _among(name: str, said: str, accepted: Sequence[str]) -> str | tuple[str, ...]:
    parts = tuple(part.strip() for part in said.split(","))
    if wrong := [part for part in parts if part not in accepted]:
        raise InvalidRequest(f"{wrong[0]!r} is not accepted", field=name, fix=f"Accepted: {', '.join(accepted)}.")
    return parts[0] if len(parts) == 1 else parts


def cursor_of(said: str) -> tuple[datetime, str] | None:
    found: tuple[datetime, str] | None = operations.CURSOR.read("cursor", said) if said else None
    return found


def address(asked: Mapping[str, str], **more: str) -> str:
    """The query of a page with these filters, to be put behind its path."""
    kept = {name: value for name, value in {**asked, **more}.items() if value}
    return "?" + urlencode(kept) if kept else ""
