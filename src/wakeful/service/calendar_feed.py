"""The calendar feed: an owner's coming fires and what became of the latest ones, for calendar programs to subscribe to.

A fire is one event from the moment it is planned until its outcome is known: its id is the event's, so a program
shows the outcome where it showed the plan.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, time, timedelta
from itertools import islice
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from wakeful.errors import Conflict, InvalidRequest, NotFound
from wakeful.model.alarm import STEPPED_OVER, Alarm, Fire, fire_id
from wakeful.moments import unix_ms
from wakeful.rules.create import TEXT_LIMIT, check_text
from wakeful.rules.plan import coming
from wakeful.runtime.cpu_time import in_thread
from wakeful.schedule import describe
from wakeful.service.caller import Caller
from wakeful.service.tokens import CALENDAR, TokenVerbs
from wakeful.store import DescribedFire, FireQuery, Matches, Store, Token

AHEAD: Final = timedelta(days=90)
BACK: Final = timedelta(days=30)
MOST_COMING: Final = 1000
MOST_OF_ONE: Final = 100  # coming fires of one alarm: one that fires each minute leaves room for the others
MOST_PAST: Final = 500
REFRESH: Final = timedelta(hours=1)
_ROWS: Final = 4_000_000  # characters of rows that are read at once
_TITLE: Final = 80
_MESSAGE: Final = 1000
_RESULT: Final = 300
_DAY: Final = timedelta(days=1)
_MARKS: Final = {
    "completed": "✓",
    "failed": "✗",
    "timed_out": "✗",
    **dict.fromkeys(("delivered", "waiting", "retrying"), "…"),
}
_OUTCOMES: Final = {  # what its status alone does not say
    "timed_out": "No report came in time",
    "waiting": "Waiting in the inbox",
    "retrying": "Failed, and tried again",
}


class CalendarFeed(Struct, frozen=True):
    body: bytes
    etag: str


class ComingFire(NamedTuple):
    id: str
    at: datetime
    alarm: Alarm


class ComingFires(NamedTuple):
    fires: list[ComingFire]
    is_cut: bool  # whether there are more in these days


async def calendar_feed(store: Store, owner: str, *, base: str, now: datetime) -> CalendarFeed:
    """The feed of one owner. `base`: where the dashboard is reached."""
    # From midnight to midnight: between two changes the same feed is the same bytes all day.
    today = datetime.combine(now.astimezone(UTC).date(), time(), UTC)
    until = today + AHEAD + _DAY
    alarms = await store.agenda(owner=owner, until=until, limit=MOST_COMING, most=_ROWS)
    past = await _past(store, FireQuery(owner=owner, since=today - BACK, limit=MOST_PAST, most=_ROWS))
    # A thousand events take a while to write, and wakes are due meanwhile.
    return await in_thread(lambda: _composed(owner, alarms, past, until, base.rstrip("/")))


def _composed(
    owner: str, alarms: Matches[Alarm], past: Sequence[DescribedFire], until: datetime, base: str
) -> CalendarFeed:
    ahead = coming_fires(alarms, until=until)
    says = _says(is_cut=ahead.is_cut or alarms.further is not None, all_past=len(past) < MOST_PAST)
    body = calendar_file(events(ahead.fires, past, base=base), name=f"wakeful: {owner}", says=says, refresh=REFRESH)
    return CalendarFeed(body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


async def _past(store: Store, query: FireQuery) -> list[DescribedFire]:
    found: list[DescribedFire] = []
    while page := await store.described_fires(query):
        found += [replace(one, wake_message=one.wake_message[:_MESSAGE]) for one in page]
        if page.further is None or len(found) >= MOST_PAST:
            break
        query = replace(query, cursor=page.further, limit=MOST_PAST - len(found))
    return found


def coming_fires(alarms: Iterable[Alarm], *, until: datetime) -> ComingFires:
    """The coming fires of these alarms, soonest first. Every alarm's first one comes before anyone's second."""
    series = [_fires(alarm, until) for alarm in alarms]
    found: list[ComingFire] = []
    for _ in range(MOST_OF_ONE):
        turn = [(one, fire) for one in series if (fire := next(one, None)) is not None]
        found += [fire for _, fire in turn]
        series = [one for one, _ in turn]
        if not turn or len(found) >= MOST_COMING:
            break
    is_cut = len(found) > MOST_COMING or any(next(one, None) is not None for one in series)
    return ComingFires(sorted(found[:MOST_COMING], key=lambda fire: (fire.at, fire.id)), is_cut)


def _fires(alarm: Alarm, until: datetime) -> Iterator[ComingFire]:
    # One that was put back keeps the id of its own occurrence.
    yield ComingFire(fire_id(alarm.id, alarm.occurrence_at), alarm.next_fire_at, alarm)
    for moment in islice(coming(alarm), 1, None):
        if moment >= until:
            return
        yield ComingFire(fire_id(alarm.id, moment), moment, alarm)


def events(ahead: Sequence[ComingFire], past: Sequence[DescribedFire], *, base: str) -> list[CalendarEvent]:
    """One event for each fire, the past ones first."""
    planned = {one.id for one in ahead}
    # A fire that is tried again is told as it went so far; one that was put off is told where it will be.
    told = [one for one in past if not (one.fire.status in STEPPED_OVER and one.fire.id in planned)]
    told.sort(key=lambda one: (one.fire.scheduled_for, one.fire.alarm_id))
    known = {one.fire.id for one in told}
    return [
        *(_past_event(one, base) for one in told),
        *(_coming_event(one, base) for one in ahead if one.id not in known),
    ]


def _coming_event(coming: ComingFire, base: str) -> CalendarEvent:
    alarm = coming.alarm
    lines = [alarm.wake_message[:_MESSAGE], ""]
    lines += [f"Repeats: {_words(alarm)}"] if alarm.kind == "cron" else []
    lines += [f"Target: {alarm.target}", f"Alarm: {alarm.id}"]
    return CalendarEvent(
        uid=coming.id,
        at=coming.at,
        summary=_title(alarm.label, alarm.wake_message),
        description="\n".join(lines),
        changed_at=alarm.updated_at,
        sequence=alarm.version,
        url=f"{base}/alarms/{alarm.id}",
    )


def _past_event(found: DescribedFire, base: str) -> CalendarEvent:
    fire = found.fire
    outcome = _OUTCOMES.get(fire.status, fire.status.capitalize())
    lines = [found.wake_message, "", f"{outcome}{f' ({fire.reason})' if fire.reason else ''}."]
    lines += [f"Result: {fire.result[:_RESULT]}"] if fire.result else []
    lines += [f"Error: {fire.last_error[:_RESULT]}"] if fire.last_error else []
    lines += [f"Attempts: {fire.attempts}"] if fire.attempts > 1 else []
    lines += [f"Stands for {fire.count} fires."] if fire.count > 1 else []
    lines += [f"Target: {fire.target}", f"Alarm: {fire.alarm_id}"]
    return CalendarEvent(
        uid=fire.id,
        at=fire.scheduled_for,
        summary=f"{_MARKS.get(fire.status, '–')} {_title(found.label, found.wake_message)}",
        description="\n".join(lines),
        changed_at=fire.updated_at,
        sequence=_sequence(fire),
        url=f"{base}/alarms/{fire.alarm_id}",
    )


def _sequence(fire: Fire) -> int:
    """A fire has no version. Seconds are more than any version its alarm had as long as it was only planned."""
    return unix_ms(fire.updated_at) // 1000


def _title(label: str, message: str) -> str:
    text = label or next((line for line in message.splitlines() if line.strip()), "") or "A wake"
    return text if len(text) <= _TITLE else f"{text[: _TITLE - 1]}…"


def _words(alarm: Alarm) -> str:
    try:
        return describe(alarm.cron_expr, alarm.timezone)
    except InvalidRequest:  # one that was taken over from elsewhere
        return alarm.cron_expr


def _says(*, is_cut: bool, all_past: bool) -> str:
    said = [f"Fires of the next {AHEAD.days} days, and what became of those of the last {BACK.days}."]
    if is_cut:
        said.append(
            f"At most {MOST_OF_ONE} coming fires of one alarm are listed, and {MOST_COMING} in all: there are more."
        )
    if not all_past:
        said.append(f"Of the past the latest {MOST_PAST} are listed.")
    return " ".join(said)


# Events written as a calendar file (RFC 5545), for programs that subscribe to it. Pure


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


# Addresses of the calendar feed, each with a token of its own: made and revoked by the owner whose alarms it shows.

FEED: Final = "/v1/calendar.ics"
FEED_TOKEN: Final = "token"
MOST_LINKS: Final = 20  # of one owner that are good at the same time


class CalendarLink(Struct, frozen=True):
    """`token`: None where a server needs none."""

    url: str
    token: Token | None = None


def feed_url(base: str, token: str = "") -> str:
    return f"{base.rstrip('/')}{FEED}" + (f"?{FEED_TOKEN}={token}" if token else "")


class CalendarLinks:
    """The verbs of one owner on addresses of their calendar feed. `base`: where the server is reached."""

    def __init__(self, store: Store, caller: Caller, base: str) -> None:
        self._store = store
        self._caller = caller
        self._base = base

    async def new(self, *, lasts: timedelta | None = None, label: str = "") -> CalendarLink:
        """Make an address. Where no token is needed there is none in it: the first one would lock everybody out."""
        check_text("label", label, TEXT_LIMIT)
        if not self._caller.limited:
            return CalendarLink(feed_url(self._base))
        good = await self._good(await self._store.now())
        if len(good) >= MOST_LINKS:
            raise Conflict(
                f"{len(good)} addresses of your calendar feed are good already, and {MOST_LINKS} is the most",
                fix=f"Revoke one first, the oldest is {min(good, key=lambda one: one.created_at).id}.",
            )
        text, token = await TokenVerbs(self._store).new(
            self._caller.owner, [CALENDAR], lasts=lasts, label=label, made_by=self._caller.token_id
        )
        return CalendarLink(feed_url(self._base, text), token)

    async def revoke(self, id: str) -> str:
        """Make an address of this owner useless, for good; return the id of its token."""
        if id not in {token.id for token in await self._good(await self._store.now())}:
            raise NotFound(f"there is no calendar link {id[:100]!r}", field="token_id")
        return (await TokenVerbs(self._store).revoke(id)).id

    async def _good(self, now: datetime) -> list[Token]:
        return [
            token
            for token in await self._store.access.tokens()
            if token.owner_did == self._caller.owner and token.scopes == (CALENDAR,) and token.is_live(now)
        ]
