"""A calendar file (.ics), event by event: the alarms each one asks for, or why it is not taken over. Pure.

The file may be anybody's: each event is read on its own, so that one that makes no sense spoils no other.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from wakeful.contrib.ics_event import (
    CalendarDefaults,
    EventAlarm,
    NotTaken,
    alarms_apart,
    alarms_of,
    check_understood,
    is_cancelled,
    key_of,
    text_of,
    title_of,
)
from wakeful.errors import InvalidConfig, InvalidRequest

if TYPE_CHECKING:
    from icalendar import Component

LIMIT: Final = 10 * 1024 * 1024  # bytes of a file
MOST_EVENTS: Final = 10_000
_LINES: Final = re.compile(r"\r\n|\n|\r")
_BEGIN: Final = re.compile(r"(BEGIN|END):([A-Za-z0-9-]+)\s*", re.IGNORECASE)
_NOT_EVENTS: Final = ("VTODO", "VJOURNAL", "VFREEBUSY")
# What a property that makes no sense may raise where it is read, in icalendar and in Python's own types. OSError: the
# name of a zone that is a folder, such as "Europe".
_NONSENSE: Final = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError, OSError)


class FoundEvent(Struct, frozen=True, kw_only=True):
    """An event of a file with all that belongs to its UID. `reason`: why it is not taken over."""

    line: int
    uid: str
    summary: str = ""
    alarms: tuple[EventAlarm, ...] = ()
    is_cancelled: bool = False
    reason: str = ""

    @property
    def key(self) -> str:
        """What the keys of its alarms begin with."""
        return key_of(self.uid)

    @property
    def coming(self) -> list[EventAlarm]:
        return [alarm for alarm in self.alarms if alarm.next is not None]


class _Block(NamedTuple):
    name: str
    line: int
    text: str
    is_whole: bool


class _Parsed(NamedTuple):
    line: int
    uid: str
    event: Component


def read_events(data: bytes, usual: CalendarDefaults) -> list[FoundEvent]:
    """All events of a calendar file, in its order; what is not an event stands there with the reason."""
    blocks = list(_blocks(_decoded(data)))
    if len(blocks) > MOST_EVENTS:
        raise InvalidRequest(
            f"it has {len(blocks)} entries, and at most {MOST_EVENTS} are accepted", field="FILE", fix="Split the file."
        )
    found: list[FoundEvent] = []
    groups: dict[str, list[_Parsed]] = {}
    for block in blocks:
        try:
            parsed = _parsed(block)
            groups.setdefault(parsed.uid, []).append(parsed)
        except NotTaken as why:
            found.append(FoundEvent(line=block.line, uid="", summary=_summary(block), reason=str(why)))
    for uid, group in groups.items():
        found += _found(uid, group, usual)
    return sorted(found, key=lambda event: event.line)


def _decoded(data: bytes) -> list[str]:
    if len(data) > LIMIT:
        raise InvalidRequest(f"it is longer than {LIMIT >> 20} MiB", field="FILE", fix="Split the file.")
    try:
        lines = _LINES.split(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidRequest("it is not UTF-8 text", field="FILE", fix="Give a calendar file (.ics).") from None
    if not any(line.strip().upper() == "BEGIN:VCALENDAR" for line in lines):
        raise InvalidRequest("it has no BEGIN:VCALENDAR", field="FILE", fix="Give a calendar file (.ics).")
    return lines


def _blocks(lines: Sequence[str]) -> Iterator[_Block]:
    """The components of the calendar, without those that are for reading others (VTIMEZONE)."""
    name, begun, depth = "", 0, 0
    for number, line in enumerate(lines, 1):
        found = _BEGIN.fullmatch(line)
        if found is None or found[2].upper() == "VCALENDAR":
            continue
        if found[1].upper() == "BEGIN":
            if not depth:
                name, begun = found[2].upper(), number
            depth += 1
        elif depth:
            depth -= 1
            if not depth and name != "VTIMEZONE":
                yield _Block(name, begun, "\r\n".join(lines[begun - 1 : number]) + "\r\n", True)
    if depth:
        yield _Block(name, begun, "", False)


def _parsed(block: _Block) -> _Parsed:
    if not block.is_whole:
        raise NotTaken("the file ends within it")
    if block.name != "VEVENT":
        what = "is not an event" if block.name in _NOT_EVENTS else "is not known"
        raise NotTaken(f"{block.name} {what}: only events (VEVENT) are taken over")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a zone's name was guessed from the end of a longer one
            event = _icalendar().Event.from_ical(block.text)
    except _NONSENSE as error:
        raise NotTaken(f"it is not understood: {str(error)[:200]}") from None
    uid = text_of(event, "UID") or hashlib.sha256(_without_stamp(block.text).encode()).hexdigest()
    return _Parsed(block.line, uid, event)


def _summary(block: _Block) -> str:
    """How something that could not be read calls itself."""
    said = re.search(r"(?im)^SUMMARY[^:\r\n]*:(.*)$", block.text)
    return said[1].strip()[:100] if said else block.name


def _without_stamp(text: str) -> str:
    """An event that has no UID is known by what it says; not by when the file was written."""
    return re.sub(r"(?im)^(DTSTAMP|LAST-MODIFIED|CREATED|SEQUENCE)[:;].*$", "", text)


def _icalendar() -> Any:
    try:
        import icalendar
    except ImportError:
        raise InvalidConfig(
            "reading calendar files needs icalendar", field="FILE", fix="pip install 'wakeful[ics]'."
        ) from None
    return icalendar


def _found(uid: str, group: Sequence[_Parsed], usual: CalendarDefaults) -> Iterator[FoundEvent]:
    """One event of a UID with its occurrences that are written apart, and the editions of it that are out of date."""
    apart = [one for one in group if one.event.get("RECURRENCE-ID") is not None]
    whole = sorted((one for one in group if one not in apart), key=_edition)
    for old in whole[:-1]:
        reason = "another event of the file has the same UID and counts instead"
        yield FoundEvent(line=old.line, uid=uid, summary=title_of(old.event), reason=reason)
    first = whole[-1] if whole else apart[0]
    found = FoundEvent(line=first.line, uid=uid, summary=title_of(first.event))
    try:
        alarms = alarms_of(uid, first.event, [one.event for one in apart], usual) if whole else []
        for one in apart:
            check_understood(one.event)
            alarms += alarms_apart(uid, one.event, usual)
    except (NotTaken, InvalidRequest) as why:
        yield replace(found, reason=str(why).rstrip("."))
    except _NONSENSE as error:
        yield replace(found, reason=f"it is not understood: {str(error)[:200]}")
    else:
        yield replace(found, alarms=tuple(alarms), is_cancelled=is_cancelled(first.event))


def _edition(parsed: _Parsed) -> tuple[int, int]:
    sequence = text_of(parsed.event, "SEQUENCE")
    return (int(sequence) if sequence.isascii() and sequence.isdigit() else 0, parsed.line)
