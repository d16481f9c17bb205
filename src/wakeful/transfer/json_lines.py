"""Alarms as JSON lines, and back: to look at, to keep, or to take into another database.

The first line says what the file is, the last one how much is in it, so that a file that was cut off is noticed.
Between them is a line for each alarm, with every field it has, followed by a line for each of its fires. Leases stay
behind: whoever holds one answers to the database it was taken in.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.errors import InvalidRequest
from wakeful.model.alarm import FINISHED, TASKS, Alarm, Change, Fire
from wakeful.rules.create import check_payload, check_texts
from wakeful.rules.plan import timetable
from wakeful.store import AlarmQuery, FireQuery, Store

FORMAT: Final = "wakeful-export"
VERSION: Final = 1
PAGE: Final = 500
LISTED: Final = 1000  # lines that are told one by one; beyond that they are counted
_OPEN: Final = ("retrying", "waiting", "delivered")  # fires that may still become something else
_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
Seen = Callable[[int], None]


class Header(Struct, frozen=True, kw_only=True):
    """The first line."""

    format: str
    version: int
    wakeful: str  # the version that wrote it
    at: datetime
    source: str = msgspec.field(name="from")  # the database
    owner: str  # empty: of all
    fires: bool  # whether all fires are in it, or only those that are still open


class End(Struct, frozen=True, kw_only=True):
    alarms: int
    fires: int


class Line(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One of these."""

    alarm: Alarm | None = None
    fire: Fire | None = None
    end: End | None = None


class ExportedAlarm(Struct, frozen=True):
    """An alarm of a file with its fires, and the line it stands on."""

    line: int
    alarm: Alarm
    fires: list[Fire]


class BadLine(Struct, frozen=True):
    line: int
    reason: str


class ImportResult(Struct):
    """What became of the lines of a file."""

    alarms: int = 0
    fires: int = 0
    imported: int = 0
    there_already: int = 0  # and left as they are
    due: int = 0  # of the imported: they fire as soon as somebody delivers
    left_count: int = 0
    left: list[BadLine] = []  # lines that were not imported, and why

    def note(self, line: int, reason: str) -> None:
        self.left_count += 1
        if len(self.left) < LISTED:
            self.left.append(BadLine(line, reason))


# Writing


async def exported(store: Store, header: Header, *, seen: Seen = lambda count: None) -> AsyncIterator[bytes]:
    """The lines of an export, newest alarm first. Alarms of `scheduled_tasks` belong to that table and are left out."""
    yield _line(header)
    alarms = fires = 0
    query = AlarmQuery(owner=header.owner, limit=PAGE)
    while page := await store.find(query):
        for alarm in page:
            if alarm.created_via == TASKS:
                continue
            yield _line(Line(alarm=replace(alarm, claimed_at=None)))
            alarms += 1
            async for fire in _fires(store, alarm, every=header.fires):
                yield _line(Line(fire=fire))
                fires += 1
        seen(len(page))
        query = replace(query, cursor=(page[-1].created_at, page[-1].id))
    yield _line(Line(end=End(alarms=alarms, fires=fires)))


async def _fires(store: Store, alarm: Alarm, *, every: bool) -> AsyncIterator[Fire]:
    if not every and alarm.last_fired_at is None and not alarm.may_have_fire:
        return  # a long series that waits for its first time has none: one read less
    query = FireQuery(alarm_id=alarm.id, statuses=() if every else _OPEN, limit=PAGE)
    while page := await store.fires(query):
        for fire in page:
            if every or fire.status != "delivered" or fire.report_by is not None:
                yield fire
        query = replace(query, cursor=(page[-1].scheduled_for, page[-1].alarm_id))


def _line(value: Header | Line) -> bytes:
    return msgspec.json.encode(value) + b"\n"


def how_much(last_line: bytes) -> End:
    end = msgspec.json.decode(last_line, type=Line).end
    assert end is not None
    return end


# Reading


def read_header(line: bytes) -> Header:
    try:
        header = msgspec.json.decode(line, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError):
        header = None
    if header is None or header.format != FORMAT:
        raise InvalidRequest(
            "this is not a file of `wakeful export`: its first line says nothing of that", field="FILE", fix="Name one."
        )
    if header.version > VERSION:
        raise InvalidRequest(
            f"it has version {header.version} of the format, and this program knows {VERSION}",
            field="FILE",
            fix=f"Use wakeful {header.wakeful} or newer.",
        )
    return header


def read_alarms(lines: Iterable[bytes], bad: Callable[[int, str], None]) -> Iterator[ExportedAlarm]:
    """The alarms of a file behind its first line, each with its fires. What is wrong with a line is told to `bad`."""
    current: ExportedAlarm | None = None
    for number, line in _good_lines(lines, bad):
        if line.alarm is not None:
            if current is not None:
                yield current
            current = ExportedAlarm(number, line.alarm, [])
        elif line.fire is not None and current is not None and line.fire.alarm_id == current.alarm.id:
            current.fires.append(line.fire)
        elif line.fire is not None:
            bad(number, "a fire whose alarm is not above it")
    if current is not None:
        yield current


def _good_lines(lines: Iterable[bytes], bad: Callable[[int, str], None]) -> Iterator[tuple[int, Line]]:
    number, found, end, all_good = 1, End(alarms=0, fires=0), None, True
    for number, text in enumerate(lines, 2):
        try:
            line = _read(text)
        except InvalidRequest as error:
            bad(number, str(error))
            all_good = False
            continue
        found = End(alarms=found.alarms + (line.alarm is not None), fires=found.fires + (line.fire is not None))
        end = line.end
        yield number, line
    if end is None:
        bad(number + 1, "the file ends early: the last line, which says how much there is, is missing")
    elif all_good and end != found:
        expected, there = f"{end.alarms} alarms and {end.fires} fires", f"{found.alarms} and {found.fires}"
        bad(number, f"the file is not complete: it should have {expected}, and {there} can be read")


def _read(text: bytes) -> Line:
    try:
        line = msgspec.json.decode(text, type=Line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"it cannot be read ({error})") from None
    if sum(part is not None for part in (line.alarm, line.fire, line.end)) != 1:
        raise InvalidRequest("it is not an alarm, a fire or the end")
    if line.alarm is not None:
        _check(line.alarm)
    return line


def _check(alarm: Alarm) -> None:
    """Refuse what nobody could have set: it would trouble whoever has to deliver it."""
    check_texts(alarm)
    check_payload(alarm.payload_json)
    if not _ID.fullmatch(alarm.id):
        raise InvalidRequest(f"{alarm.id[:60]!r} is not the id of an alarm", field="id")
    if alarm.status not in FINISHED and alarm.kind == "cron":
        timetable(alarm)  # what has ended is kept as it is: nobody plans it again


# Importing


async def bring_in(store: Store, found: Iterable[ExportedAlarm], result: ImportResult, *, seen: Seen) -> None:
    """Add what is not here yet. Every alarm keeps its id and its place in its own time: nothing settled fires again."""
    page: list[ExportedAlarm] = []
    for one in found:
        page.append(one)
        if len(page) == PAGE:
            await _bring_page(store, page, result)
            seen(len(page))
            page = []
    if page:
        await _bring_page(store, page, result)
        seen(len(page))


async def _bring_page(store: Store, page: Sequence[ExportedAlarm], result: ImportResult) -> None:
    found = await asyncio.gather(*(store.get(one.alarm.id) for one in page))
    there = {alarm.id for alarm in found if alarm is not None}
    result.there_already += len(there)
    new = [one for one in page if one.alarm.id not in there]
    now = await store.now()
    # Nobody takes up an alarm whose fires are not on record yet: until they are it is leased, and a lease ends by
    # itself.
    added = await store.add([replace(one.alarm, claimed_at=now if one.fires else None) for one in new])
    changes: list[tuple[ExportedAlarm, Change]] = []
    for one, put in zip(new, added, strict=True):
        alarm = one.alarm
        if put.alarm.id != alarm.id:
            key = alarm.idempotency_key
            result.note(one.line, f"alarm {put.alarm.id} already has the key {key!r} here")
            continue
        result.imported += 1
        result.due += alarm.status == "active" and alarm.next_fire_at <= now
        for at in range(0, len(one.fires), PAGE):
            # The lease goes with the last of them.
            is_last = at + PAGE >= len(one.fires)
            after = replace(alarm, claimed_at=None if is_last else now)
            fires = tuple(one.fires[at : at + PAGE])
            changes.append((one, Change(claim=alarm.claim, version=alarm.version, after=after, fires=fires)))
    for one, change in changes:
        (settled,) = await store.settle([change])
        if settled.what == "refused":
            result.note(one.line, f"its fires cannot be written here: {settled.error}")
