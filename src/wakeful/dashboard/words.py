"""Values as people read them: moments, lengths, states. Pure."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from markupsafe import Markup, escape

from wakeful.alarm import Alarm
from wakeful.alarm.bounds import series_words

# Colour never stands alone: each state has a sign and a word as well.
SIGNS: Final = {
    "active": "●",
    "paused": "‖",
    "fired": "✓",
    "failed": "✗",
    "cancelled": "⊘",
    "completed": "✓",
    "delivered": "→",
    "waiting": "◷",
    "retrying": "↻",
    "timed_out": "◴",
    "snoozed": "☾",
    "skipped": "↷",
    "failing": "↻",
    "unread": "✉",
    "clock": "⚠",
    "nobody": "✗",
    "target_down": "✗",
    "target_paused": "‖",
}
_STAMP: Final = re.compile(r"(\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00))")
_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def span(length: timedelta) -> str:
    """Two units at most: "3 h 12 min"."""
    seconds = int(abs(length.total_seconds()))
    parts: list[str] = []
    for size, name in _UNITS:
        if seconds >= size or (name == "s" and not parts):
            parts.append(f"{seconds // size} {name}")
            seconds %= size
        elif parts:
            break
        if len(parts) == 2:
            break
    return " ".join(parts)


def relative(moment: datetime, now: datetime) -> str:
    length = moment - now
    if abs(length) < timedelta(seconds=1):
        return "now"
    return f"in {span(length)}" if length > timedelta(0) else f"{span(length)} ago"


def moment(at: datetime | None, now: datetime, form: str = "relative") -> Markup:
    """A moment that a script keeps up to date and shows in the reader's zone; without it, in UTC."""
    if at is None:
        return Markup("–")
    at = at.astimezone(UTC)
    full = f"{at:%a %d %b %Y %H:%M:%S} UTC"
    forms = {"relative": relative(at, now), "exact": f"{at:%H:%M:%S}.{at.microsecond // 1000:03}"}
    shown = forms.get(form) or f"{at:%a %d %b %H:%M}"
    iso = at.isoformat().replace("+00:00", "Z")
    return Markup('<time datetime="{}" title="{}" data-form="{}">{}</time>').format(iso, full, form, shown)


def lateness(ms: int) -> str:
    if ms < 1000:
        return f"+{ms} ms"
    return f"+{ms / 1000:.1f} s" if ms < 60_000 else f"+{span(timedelta(milliseconds=ms))}"


def state(status: str) -> Markup:
    said = status.replace("_", " ")
    return Markup('<span class="state {}"><span aria-hidden="true">{}</span> {}</span>').format(
        status, SIGNS.get(status, "·"), said
    )


def schedule(alarm: Alarm) -> str:
    """When an alarm fires, in words."""
    if alarm.kind == "once":
        return "once"
    return series_words(alarm)


def visible(text: str) -> Markup:
    """A text that somebody else wrote, with what would not be seen, or would turn the line around, shown as it is."""
    return Markup("").join(
        Markup('<span class="hidden-sign" title="U+{:04X}">␦</span>').format(ord(sign))
        if not sign.isprintable() and sign not in "\n\t"
        else escape(sign)
        for sign in text
    )


def told(text: str) -> Markup:
    """A text with its moments as the reader's clock has them; what was written stands in their title."""
    parts = _STAMP.split(text)
    return Markup("").join(_moment_in(part) if number % 2 else visible(part) for number, part in enumerate(parts))


def _moment_in(stamp: str) -> Markup:
    try:
        at = datetime.fromisoformat(stamp)
    except ValueError:
        return visible(stamp)
    return moment(at, at, "clock")


def title(label: str, message: str, limit: int = 90) -> str:
    """How an alarm is called in a list: by its label, else by the first line of what it says."""
    text = label or (message.strip().splitlines() or [""])[0]
    return text if len(text) <= limit else text[: limit - 1] + "…"


def pretty(payload: str) -> str:
    try:
        return json.dumps(json.loads(payload), indent=2, ensure_ascii=False)
    except ValueError:
        return payload


def short(id: str) -> str:
    return id[:13]


FILTERS: Final[dict[str, Any]] = {
    "moment": moment,
    "span": span,
    "lateness": lateness,
    "state": state,
    "schedule": schedule,
    "visible": visible,
    "told": told,
    "pretty": pretty,
    "short": short,
}
