"""A calendar file (.ics): its events as requests for alarms, or why one is not taken over. Pure.

An event is one request for each of its VALARMs, or one at its start.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.errors import InvalidConfig, InvalidRequest
from wakeful.model.requests import CreateRequest
from wakeful.rules.wanted import json_of
from wakeful.schedule import zone
from wakeful.schedule.expression import schedule
from wakeful.schedule.recurrence import LONGEST_RULE, Recurrence, RuleMoment, read, written
from wakeful.schedule.recurrence_shift import shifted, wall
from wakeful.schedule.zones import instant

if TYPE_CHECKING:
    from icalendar import Component


KEYS: Final = "ics:"  # what the keys of all imported alarms begin with
MOST_REPEATS: Final = 20
MOST_ALARMS: Final = 50  # of one event
FURTHEST: Final = timedelta(days=400)  # of an alarm from its event
_NOW: Final = timedelta(0)
_DAY: Final = timedelta(days=1)
_TITLE: Final = 200
_LOCATION: Final = 500
_DESCRIPTION: Final = 4000
# What has to be understood; anything else in an event may be as it likes.
_NEEDED: Final = ("DTSTART", "DTEND", "DURATION", "RRULE", "RDATE", "EXDATE", "RECURRENCE-ID", "TRIGGER", "REPEAT")


class NotTaken(Exception):
    """Why an event is not taken over."""


class EventAlarm(Struct, frozen=True):
    """`revision`: of the event as far as this alarm says it; the same as long as nothing in it changes."""

    request: CreateRequest
    revision: str
    next: datetime | None  # None: it would only have fired in the past

    @property
    def key(self) -> str:
        return self.request.idempotency_key or ""


class CalendarDefaults(NamedTuple):
    """What a file does not say: the zone of times without one, and where the wakes go."""

    timezone: str
    target: str
    now: datetime


class _Start(NamedTuple):
    moment: RuleMoment  # without a zone
    timezone: str

    @property
    def is_day(self) -> bool:
        return not isinstance(self.moment, datetime)


class _Trigger(NamedTuple):
    """When an alarm of an event fires: so long after its start, or at a moment of its own."""

    name: str  # which one of its event it is
    offset: timedelta = _NOW
    at: datetime | None = None


def key_of(uid: str) -> str:
    """What the keys of all alarms of an event begin with."""
    return f"{KEYS}{_hash(uid)[:24]}"


def alarms_of(uid: str, event: Component, others: Sequence[Component], usual: CalendarDefaults) -> list[EventAlarm]:
    """The alarms of an event. `others`: those of its occurrences that are written apart (RECURRENCE-ID)."""
    if is_cancelled(event):
        return []
    start = _start(event, usual)
    apart = tuple(_value_moment(_one(other, "RECURRENCE-ID"), start.timezone, usual) for other in others)
    series = _series(event, start, apart, usual)
    found = [_alarm(uid, event, start, series, trigger, usual) for trigger in _triggers(event, start, usual)]
    return _checked(found)


def alarms_apart(uid: str, event: Component, usual: CalendarDefaults) -> list[EventAlarm]:
    """The alarms of one occurrence that is written apart from its series."""
    if is_cancelled(event):
        return []
    apart = _one(event, "RECURRENCE-ID")
    if str(apart.params.get("RANGE", "")):
        raise NotTaken("RECURRENCE-ID with RANGE changes all later occurrences, which is not supported")
    start = _start(event, usual)
    name = written(_value_moment(apart, start.timezone, usual))
    found = [_alarm(uid, event, start, None, trigger, usual, name) for trigger in _triggers(event, start, usual)]
    return _checked(found)


def is_cancelled(event: Component) -> bool:
    return text_of(event, "STATUS").upper() == "CANCELLED"


def text_of(event: Component, name: str) -> str:
    value = event.get(name)
    return str(value[0] if isinstance(value, list) else value).strip() if value is not None else ""


def title_of(event: Component) -> str:
    return " ".join(text_of(event, "SUMMARY").split())[:_TITLE] or "Calendar event"


def _checked(found: list[EventAlarm]) -> list[EventAlarm]:
    if len(found) > MOST_ALARMS:
        raise NotTaken(f"it has {len(found)} alarms, and at most {MOST_ALARMS} are taken over")
    return list({alarm.key: alarm for alarm in found}.values())  # two ways to be told of one moment are one alarm


# When it is


def _one(event: Component, name: str) -> Any:
    """The one value of a property that has to be there, and understood."""
    value = event.get(name)
    if value is None:
        raise NotTaken(f"{name} is missing")
    if isinstance(value, list):
        raise NotTaken(f"{name} is given more than once")
    check_understood(event)
    return value


def check_understood(event: Component) -> None:
    """Refuse an event of which something that matters makes no sense; a line without a name may be one of those."""
    for name, why in event.errors:
        if str(name).upper() in _NEEDED or (name is None and any(one in str(why).upper() for one in _NEEDED)):
            raise NotTaken(f"{name or 'a line'} is not understood: {str(why)[:200]}")


def _start(event: Component, usual: CalendarDefaults) -> _Start:
    value = _one(event, "DTSTART")
    moment = value.dt
    if not isinstance(moment, datetime):
        if not isinstance(moment, date):
            raise NotTaken("DTSTART is not a date")
        return _Start(moment, usual.timezone)
    return _Start(moment.replace(tzinfo=None), _zone_of(moment, value.params, usual))


def _zone_of(moment: datetime, params: Any, usual: CalendarDefaults) -> str:
    """The IANA name of the zone of a moment; the usual one where it is in none."""
    if moment.tzinfo is not None:
        name = str(getattr(moment.tzinfo, "key", "") or moment.tzinfo)
        return name if zone(name) else usual.timezone
    if tzid := str(params.get("TZID", "")):
        raise NotTaken(f"TZID {tzid[:64]!r} is not a known time zone")
    return usual.timezone


def _value_moment(value: Any, timezone: str, usual: CalendarDefaults) -> RuleMoment:
    """A date of an event as a recurrence takes it: a day, a reading of the event's own clock, or a moment in UTC."""
    return _moment_in_zone(value.dt, value.params, timezone, usual)


def _moment_in_zone(moment: Any, params: Any, timezone: str, usual: CalendarDefaults) -> RuleMoment:
    if isinstance(moment, tuple):  # a period: it begins then
        moment = moment[0]
    if not isinstance(moment, datetime):
        if not isinstance(moment, date):
            raise NotTaken("a date of it is not understood")
        return moment
    name = _zone_of(moment, params, usual) if moment.tzinfo or params.get("TZID") else timezone
    reading = moment.replace(tzinfo=None)
    return reading if name == timezone else instant(reading, zone(name))


def _series(
    event: Component, start: _Start, apart: tuple[RuleMoment, ...], usual: CalendarDefaults
) -> Recurrence | None:
    rules = [rule.to_ical().decode() for rule in _values(event, "RRULE")]
    if event.get("EXRULE") is not None:
        raise NotTaken("EXRULE is not supported: EXDATE names the dates it does not happen on")
    dates = tuple(_dates(event, "RDATE", start, usual))
    if not rules and not dates:
        return None
    # The start is the first occurrence, which a rule says by itself and single dates do not.
    properties = [f"RRULE:{rule}" for rule in rules] or [f"RDATE:{written(start.moment)}"]
    recurrence, _ = read(" ".join([f"DTSTART:{written(start.moment)}", *properties]), start.timezone)
    exceptions = (*_dates(event, "EXDATE", start, usual), *apart)
    return recurrence._replace(dates=(*recurrence.dates, *dates), exceptions=exceptions)


def _values(event: Component, name: str) -> list[Any]:
    check_understood(event)
    value = event.get(name)
    return [] if value is None else value if isinstance(value, list) else [value]


def _dates(event: Component, name: str, start: _Start, usual: CalendarDefaults) -> Iterator[RuleMoment]:
    for value in _values(event, name):
        for one in value.dts:
            yield _moment_in_zone(one.dt, value.params, start.timezone, usual)


# Its alarms


def _triggers(event: Component, start: _Start, usual: CalendarDefaults) -> list[_Trigger]:
    found = [
        trigger
        for number, alarm in enumerate(event.walk("VALARM"))
        if text_of(alarm, "ACTION").upper() != "NONE"
        for trigger in _repeated(number, alarm, event, start, usual)
    ]
    return found or [_Trigger("start")]


def _repeated(
    number: int, alarm: Component, event: Component, start: _Start, usual: CalendarDefaults
) -> Iterator[_Trigger]:
    value = _one(alarm, "TRIGGER")
    repeats = int(_one(alarm, "REPEAT")) if alarm.get("REPEAT") is not None else 0
    wait = _one(alarm, "DURATION").dt if repeats else _NOW
    if not 0 <= repeats <= MOST_REPEATS or not isinstance(wait, timedelta):
        raise NotTaken(f"REPEAT of an alarm is not accepted: up to {MOST_REPEATS} times, with a DURATION")
    for nth in range(repeats + 1):
        if isinstance(value.dt, timedelta):
            offset = value.dt + nth * wait + (_length(event, start, usual) if _is_from_end(value) else _NOW)
            if abs(offset) > FURTHEST:
                raise NotTaken(f"an alarm of it is more than {FURTHEST.days} days off")
            yield _Trigger(f"{offset.total_seconds():.0f}", offset)
        elif isinstance(value.dt, datetime):
            first = instant(value.dt.replace(tzinfo=None), zone(_zone_of(value.dt, value.params, usual)))
            yield _Trigger(f"at {number} {nth}", at=first + nth * wait)
        else:
            raise NotTaken("TRIGGER of an alarm is not a length of time or a moment")


def _is_from_end(trigger: Any) -> bool:
    return str(trigger.params.get("RELATED", "")).upper() == "END"


def _length(event: Component, start: _Start, usual: CalendarDefaults) -> timedelta:
    """From the start to the end of an event, by the clock on the wall."""
    if event.get("DTEND") is not None:
        end = wall(_value_moment(_one(event, "DTEND"), start.timezone, usual))
        begin = wall(start.moment)
        return end - (begin if end.tzinfo is None else instant(begin, zone(start.timezone)))
    if event.get("DURATION") is not None:
        length = _one(event, "DURATION").dt
        if not isinstance(length, timedelta):
            raise NotTaken("DURATION is not a length of time")
        return length
    return _DAY if start.is_day else _NOW


def _alarm(
    uid: str,
    event: Component,
    start: _Start,
    series: Recurrence | None,
    trigger: _Trigger,
    usual: CalendarDefaults,
    apart: str = "",
) -> EventAlarm:
    time = _moment(start, trigger) if series is None or trigger.at is not None else _rhythm(start, series, trigger)
    payload = {"event": _event_fields(uid, event, start), "offset_seconds": int(trigger.offset.total_seconds())}
    fields: dict[str, Any] = {
        "wake_message": _message(event, start, trigger),
        "label": title_of(event),
        "target": usual.target or None,
        **time,
    }
    revision = _hash(msgspec.json.encode([fields, payload], order="sorted").decode())[:16]
    if len(time.get("cron_expr", "")) > LONGEST_RULE:
        fields["cron_expr"] = _without_past(time["cron_expr"], start.timezone, usual.now)
    key = f"{key_of(uid)}:{_hash(f'{apart}|{trigger.name}')[:12]}"
    request = CreateRequest(**fields, payload=json_of(payload | {"revision": revision}), idempotency_key=key)
    return EventAlarm(request, revision, _next(request, usual.now))


def _moment(start: _Start, trigger: _Trigger) -> dict[str, Any]:
    """One moment: by the wall clock where the event is set by it, so that it follows the law of its zone."""
    tz = zone(start.timezone)
    begin = wall(start.moment)
    if trigger.at is not None:
        return {"fire_at": trigger.at.isoformat(), "timezone": start.timezone}
    reading = begin + trigger.offset
    at = instant(reading, tz)
    if _NOW < abs(trigger.offset) < _DAY:  # minutes and hours pass; days are counted
        at = instant(begin, tz) + trigger.offset
        reading = at.astimezone(tz).replace(tzinfo=None, fold=0)
    if start.timezone == "UTC" or instant(reading, tz) != at:
        return {"fire_at": at.isoformat(), "timezone": start.timezone}
    return {"when": reading.isoformat(timespec="seconds"), "timezone": start.timezone}


def _rhythm(start: _Start, series: Recurrence, trigger: _Trigger) -> dict[str, Any]:
    return {"cron_expr": shifted(series, trigger.offset).text(), "timezone": start.timezone}


def _without_past(expr: str, timezone: str, now: datetime) -> str:
    """A rule without the single dates that have passed, for one with more of them than can be kept."""
    before = (now.astimezone(zone(timezone)) - 2 * _DAY).strftime("%Y%m%d")
    parts = []
    for part in expr.split(" "):
        name, _, value = part.partition(":")
        if name in ("RDATE", "EXDATE"):
            value = ",".join(one for one in value.split(",") if one >= before)
        parts += [f"{name}:{value}"] if value else []
    if len(shorter := " ".join(parts)) > LONGEST_RULE:
        raise NotTaken(f"its rule with all its dates is longer than {LONGEST_RULE} characters")
    return shorter


def _next(request: CreateRequest, now: datetime) -> datetime | None:
    if request.cron_expr is not None:
        return schedule(request.cron_expr, request.timezone or "").after(now)
    if request.fire_at is not None:
        at = datetime.fromisoformat(str(request.fire_at))
    else:
        at = instant(datetime.fromisoformat(request.when or ""), zone(request.timezone or ""))
    return at if at > now else None


# What it says


def _event_fields(uid: str, event: Component, start: _Start) -> dict[str, str]:
    end = event.get("DTEND")
    fields = {
        "uid": uid,
        "summary": text_of(event, "SUMMARY")[:_TITLE],
        "start": start.moment.isoformat(),
        "end": end.dt.isoformat() if isinstance(getattr(end, "dt", None), date) else "",
        "timezone": start.timezone,
        "location": text_of(event, "LOCATION")[:_LOCATION],
        "description": text_of(event, "DESCRIPTION")[:_DESCRIPTION],
        "url": text_of(event, "URL")[:_LOCATION],
    }
    return {name: value for name, value in fields.items() if value}


def _message(event: Component, start: _Start, trigger: _Trigger) -> str:
    title, where = title_of(event), " ".join(text_of(event, "LOCATION").split())[:_LOCATION]
    message = title if trigger.at is not None else f"{title} {_when(trigger.offset, start)}"
    return f"{message}\nWhere: {where}" if where else message


def _when(offset: timedelta, start: _Start) -> str:
    if not offset:
        return "is today" if start.is_day else "starts now"
    begins = "is" if start.is_day else "starts"
    return f"{begins} in {_words(-offset)}" if offset < _NOW else f"started {_words(offset)} ago"


def _words(length: timedelta) -> str:
    seconds = int(length.total_seconds())
    units = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))
    counts = []
    for name, size in units:
        count, seconds = divmod(seconds, size)
        counts += [f"{count} {name}{'s' if count > 1 else ''}"] if count else []
    return " ".join(counts)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


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
    found = re.search(r"(?im)^SUMMARY[^:\r\n]*:(.*)$", block.text)
    return found[1].strip()[:100] if found else block.name


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
