"""Values as people read them: moments, lengths, states. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from markupsafe import Markup, escape
from msgspec import json

from wakeful.model.alarm import Alarm
from wakeful.rules.create import series_words
from wakeful.schedule.interval import span_words

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
SHOWN: Final = 64_000  # bytes of one text that a page shows
INDENTED: Final = 12  # levels of JSON: each level indents everything in it, so a deep payload would grow a hundredfold
MARKED: Final = 500  # hidden signs of one text that are named; where there are more, they are only counted out
_STRINGS: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BRACKETS: Final = re.compile(r"[\[\]{}]")
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


def beginning(text: str) -> str:
    """Return the first SHOWN bytes of a text."""
    if len(text) * 4 <= SHOWN:
        return text
    return text[:SHOWN].encode("utf-8", "replace")[:SHOWN].decode("utf-8", "ignore")


def is_cut(text: str) -> bool:
    """Return whether a page shows only the beginning of a text."""
    return len(beginning(text)) < len(text)


def visible(text: str) -> Markup:
    """Return a text that somebody else wrote; signs that would be invisible or reverse the line are shown as ␦.

    The time it takes is proportional to SHOWN at most, whatever the text is.
    """
    text = beginning(text)
    hidden = {ord(sign) for sign in set(text) if not sign.isprintable() and sign not in "\n\t"}
    if not hidden:
        return escape(text)
    count = len(text) - len(text.translate(dict.fromkeys(hidden)))
    mark = '<span class="hidden-sign" title="U+{:04X}">␦</span>' if count <= MARKED else "␦"
    marks = {code: mark.format(code) for code in hidden}
    return Markup(str(escape(text)).translate(marks))


def told(text: str) -> Markup:
    """A text with its moments as the reader's clock has them; what was written stands in their title."""
    parts = _STAMP.split(beginning(text))
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
    """Return JSON indented; as it is where it is too long or too deep for that, or not JSON."""
    if is_cut(payload) or _depth(payload) > INDENTED:
        return payload
    try:
        return json.format(json.encode(json.decode(payload)), indent=2).decode()
    except (ValueError, OverflowError, RecursionError):
        return payload


def _depth(payload: str) -> int:
    depth = deepest = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub("", payload)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def short(id: str) -> str:
    return id[:13]


FILTERS: Final[dict[str, Any]] = {
    "moment": moment,
    "span": span,
    "lateness": lateness,
    "state": state,
    "schedule": schedule,
    "in_words": span_words,
    "visible": visible,
    "is_cut": is_cut,
    "told": told,
    "pretty": pretty,
    "short": short,
}
