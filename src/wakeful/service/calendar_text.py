"""Events written as a calendar file (RFC 5545), for programs that subscribe to it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

LINE: Final = 75  # octets of a line, without its end
_ESCAPED: Final = str.maketrans({"\\": "\\\\", ";": "\\;", ",": "\\,", "\n": "\\n"})
_ENDS: Final = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")  # what some program takes for the end of a line
_CONTROL: Final = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]")


class CalendarEvent(Struct, frozen=True, kw_only=True):
    """`sequence` rises whenever the event with this `uid` changes."""

    uid: str
    at: datetime
    summary: str
    description: str
    changed_at: datetime
    sequence: int
    url: str = ""


def calendar_file(events: Iterable[CalendarEvent], *, name: str, says: str, refresh: timedelta) -> bytes:
    """The whole file. It depends on nothing but what it is given: the same events are the same bytes."""
    every = f"PT{refresh // timedelta(minutes=1)}M"
    lines = [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//wakeful//calendar feed//EN",
        "CALSCALE:GREGORIAN",
        "METHOD:PUBLISH",
        f"NAME:{escaped(name)}",
        f"X-WR-CALNAME:{escaped(name)}",
        f"DESCRIPTION:{escaped(says)}",
        f"X-WR-CALDESC:{escaped(says)}",
        f"REFRESH-INTERVAL;VALUE=DURATION:{every}",
        f"X-PUBLISHED-TTL:{every}",
    ]
    for event in events:
        lines += _event(event)
    lines.append("END:VCALENDAR")
    return b"".join(folded(line) for line in lines)


def _event(event: CalendarEvent) -> Sequence[str]:
    changed = utc_text(event.changed_at)
    return [
        "BEGIN:VEVENT",
        f"UID:{escaped(event.uid)}",
        f"DTSTAMP:{changed}",
        f"LAST-MODIFIED:{changed}",
        f"SEQUENCE:{event.sequence}",
        f"DTSTART:{utc_text(event.at)}",
        f"SUMMARY:{escaped(event.summary)}",
        f"DESCRIPTION:{escaped(event.description)}",
        *([f"URL:{event.url}"] if event.url else []),
        "TRANSP:TRANSPARENT",  # a wake keeps nobody busy
        "END:VEVENT",
    ]


def utc_text(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def escaped(text: str) -> str:
    """A text as the value of a property. What ends a line elsewhere ends one here; other control characters go."""
    return _CONTROL.sub("", _ENDS.sub("\n", text)).translate(_ESCAPED)


def folded(line: str) -> bytes:
    """One line as it is sent: in pieces of 75 octets at most, no character in two of them."""
    return b"\r\n ".join(_pieces(line)) + b"\r\n"


def _pieces(line: str) -> Iterator[bytes]:
    octets = line.encode(errors="replace")
    start, room = 0, LINE
    while len(octets) - start > room:
        end = start + room
        while octets[end] & 0xC0 == 0x80:  # within a character
            end -= 1
        yield octets[start:end]
        start, room = end, LINE - 1  # the space before the next ones counts
    yield octets[start:]
