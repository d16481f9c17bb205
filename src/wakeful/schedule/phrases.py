"""parse(): any way of saying when, understood or refused, never guessed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from typing import Literal

from wakeful.errors import InvalidSchedule
from wakeful.schedule.descriptions import describe, moment
from wakeful.schedule.expression import LONGEST, Schedule, anchor_now, counts_from_start, is_rule, schedule, split_zone
from wakeful.schedule.names import MONTH_NAMES, WEEKDAY_NAMES
from wakeful.schedule.refusals import PhraseRefused, RefusedRhythm
from wakeful.schedule.remarks import remarks
from wakeful.schedule.zones import aware, zone

_CRON_START = re.compile(r"@[a-z]|(?:CRON_)?TZ=|[0-9*?][0-9*?,/\-]*\s+[0-9*?][0-9*?,/\-]*(?:\s|$)")
_CRON_FIELD = re.compile(r"(?:[0-9,/#\-]|[A-Za-z]{3}(?![A-Za-z])|(?:[LWlw]|[Ll][Ww])(?![A-Za-z]))+")
_ZONE_AT_END = re.compile(r"(?:, ?| (?:in )?|^)\(?([A-Za-z][A-Za-z0-9_+\-]*(?:/[A-Za-z][A-Za-z0-9_+\-]+)+)\)?$")
# What begins so is meant as a zone, also where there is none of that name; "Mon/Wed" is not.
_REGIONS = ("Africa/", "America/", "Asia/", "Atlantic/", "Australia/", "Europe/", "Indian/", "Pacific/")
# Not "EST": as a name it is New York without summer time, which hardly anyone means by it.
_ZONE_AFTER_COMMA = re.compile(r", (UTC|GMT|[A-Z][a-z][A-Za-z0-9_+\-]+|[A-Z]{3}[0-9][A-Z]{3})$")
DATE_ORDERS = ("", "dmy", "mdy")
PARTLY = "leave it out"
RHYTHMS = (
    "Write every, the days and a time of day; or @every and a length in hours, minutes or seconds; "
    "or cron with 5 or 6 fields."
)


@dataclass(frozen=True, slots=True)
class Understood:
    """What a text was understood to mean."""

    kind: Literal["once", "cron"]
    fire_at: datetime | None
    cron_expr: str
    timezone: str
    description: str
    now: datetime
    _remarks: tuple[str, ...] = field(default=(), repr=False)
    wall_time: str = field(default="", repr=False)  # one moment that was named by what clocks show then

    def next(self, n: int = 5, *, after: datetime | None = None) -> list[datetime]:
        """The next fires after a moment (`now` unless another is given), in UTC."""
        moment = self.now if after is None else aware(after, "after")
        if self.fire_at is not None:
            return [self.fire_at][: max(0, n)] if self.fire_at > moment else []
        rhythm = _rhythm(self.cron_expr, self.timezone, self.now)
        fires: list[datetime] = []
        while len(fires) < n and (fire := rhythm.after(moment)) is not None:
            fires.append(fire)
            moment = fire
        return fires

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the clocks of the zone do to it, in words; empty on ordinary days."""
        return self._remarks or (remarks(self.cron_expr, self.timezone, self.now) if self.cron_expr else ())


def parse(
    text: str, *, timezone: str = "UTC", now: datetime, default_time: time = time(9), date_order: str = ""
) -> Understood:
    """Understand a phrase, an ISO time, an offset, unix seconds, a cron expression or a recurring phrase.

    `date_order` says how 03/04 is read: "dmy" or "mdy"; without it, both readings are offered. Raises InvalidSchedule,
    and nothing else, for what is ambiguous, past or not understood.
    """
    if date_order not in DATE_ORDERS:
        raise InvalidSchedule(f"{date_order!r} is not accepted.", field="date_order", fix='Give "dmy" or "mdy".')
    try:
        return _parsed(text, timezone, now, default_time, date_order)
    except InvalidSchedule as error:
        if error.field == "when" and isinstance(text, str) and len(text) <= LONGEST:
            _repair(error, text, timezone, aware(now, "now"))
        raise


def _repair(error: InvalidSchedule, text: str, timezone: str, now: datetime) -> None:
    """Say what was most likely meant in fields that are understood, in the place of what says only a part of it."""
    from wakeful.schedule import repairs

    def understand(said: str, name: str, at: datetime) -> Understood:
        return _understand(said, name, at, time(9))

    found = repairs.repair(text, timezone, now, understand)
    if found:
        error.repair = found
        meant = understand(found["when"], timezone, now)
        if meant.kind == "cron":
            error.meant, error.fix = (found["when"],), repairs.in_words(found, _moment_of(meant, timezone))
    elif PARTLY in error.message:
        error.meant, error.fix = (), RHYTHMS  # without what is to be left out it is another rhythm


def _parsed(text: str, timezone: str, now: datetime, default_time: time, date_order: str) -> Understood:
    asked = aware(now, "now")
    timezone = zone(timezone).key
    try:
        return _understand(text, timezone, asked, default_time, date_order)
    except RefusedRhythm as refused:
        raise _refused_rhythm(text, refused, timezone, asked) from None
    except PhraseRefused as refused:
        right = _spelled_right(text)
        if _that_work(right, timezone, asked, kind="cron"):  # "evry monday": no single monday is suggested for it
            raise _refused_rhythm(text, RefusedRhythm(refused.why, *right), timezone, asked) from None
        fix = _try(_suggested(text, refused.instead, timezone, asked), timezone)
        raise _refusal(text, refused.why, fix, timezone, asked) from None
    except (OverflowError, ValueError):  # beyond the first or last year of the calendar
        fix = _try(_that_work(_usual(asked, timezone), timezone, asked), timezone)
        raise _refusal(text, "it is too far away", fix, timezone, asked) from None
    except InvalidSchedule as invalid:
        if invalid.field == "timezone":
            raise
        raise _refusal(text, invalid.message, invalid.fix or RHYTHMS, timezone, asked) from None


def _understand(text: str, timezone: str, now: datetime, default: time, date_order: str = "") -> Understood:
    if not isinstance(text, str) or not text.strip():
        raise PhraseRefused("it is empty")
    text = text.strip()
    if is_rule(text):
        expr, named = _take_zone(text)
        return _recurring(*split_zone(expr, named or timezone), now)
    if len(text) > LONGEST:
        raise PhraseRefused(f"it is longer than {LONGEST} characters")
    if _is_cron(text):
        expr, timezone = split_zone(text, timezone)
        return _recurring(" ".join(expr.split()), timezone, now)
    if text[0] in "Rr" and "/" in text:
        from wakeful.schedule.iso8601 import read_repeated

        return _recurring(*split_zone(*read_repeated(text, timezone)), now)
    text, named = _take_zone(text)
    understood = _phrase(text, named or timezone, now, default, date_order)
    if named and understood.timezone != named:
        raise PhraseRefused(f"two time zones are given, {named} and {understood.timezone}")
    return understood


def _phrase(text: str, timezone: str, now: datetime, default: time, date_order: str) -> Understood:
    # Imported when first needed: compiling their patterns takes longer than everything else in this room.
    from wakeful.schedule import once, recurring, words

    phrase = words.normal(text)
    if phrase is None:
        refuse = RefusedRhythm if "*" in text else PhraseRefused
        raise refuse("it has characters that are not used in dates or times")
    if recurring.RECURS.search(phrase):
        try:
            expr, utc = recurring.understand(phrase, default)
        except PhraseRefused as refused:
            from wakeful.schedule.recurrence_words import read_words

            if (recurrence := read_words(phrase)) is not None:  # the words of describe()
                return _recurring(*split_zone(recurrence.text(), timezone), now)
            raise RefusedRhythm(refused.why, *refused.instead) from None
        return _recurring(expr, "UTC" if utc else timezone, now)
    try:
        found = once.understand(phrase, timezone, now, default, date_order)
    except PhraseRefused as refused:
        if "*" in phrase or recurring.SOUNDS_RECURRING.search(phrase):
            raise RefusedRhythm(refused.why) from None
        raise
    description = moment(found.fire_at, found.timezone)
    # UTC has no law that could change.
    wall = found.wall.isoformat() if found.wall is not None and found.timezone != "UTC" else ""
    return Understood("once", found.fire_at, "", found.timezone, description, now, found.remarks, wall)


def _is_cron(text: str) -> bool:
    """Whether it is meant as cron, so that its refusal can speak of fields."""
    if not _CRON_START.match(text):
        return False
    if not text[0].isdigit() or "*" in text or "?" in text:
        return True
    fields = text.split()
    return len(fields) in (5, 6) and all(_CRON_FIELD.fullmatch(field) for field in fields)


def _take_zone(text: str) -> tuple[str, str]:
    """The text without a zone named at its end, and that zone: it counts instead of the one handed in."""
    if (found := _ZONE_AT_END.search(text)) and (found[1].startswith(_REGIONS) or _known(found[1])):
        return text[: found.start()], zone(found[1]).key
    if (found := _ZONE_AFTER_COMMA.search(text)) and _known(found[1]):
        return text[: found.start()], found[1]
    lower = text.lower()
    if lower.endswith(" time") or " in " in lower:
        from wakeful.schedule.zone_names import zone_said

        return zone_said(text) or (text, "")
    return text, ""


def _known(name: str) -> bool:
    try:
        return bool(zone(name))
    except InvalidSchedule:
        return False


def _rhythm(expr: str, timezone: str, now: datetime) -> Schedule:
    """The schedule as it is if it is set now."""
    return schedule(expr, timezone, anchor=anchor_now(expr, timezone, now) if counts_from_start(expr) else None)


def _recurring(expr: str, timezone: str, now: datetime) -> Understood:
    timezone = zone(timezone).key
    if _rhythm(expr, timezone, now).after(now) is None:
        if is_rule(expr):
            fix = "Give a later UNTIL or DTSTART, a higher COUNT, or dates that come."
            raise InvalidSchedule("it does not fire after now", field="when", fix=fix)
        raise RefusedRhythm("it would never fire in the next 28 years")
    return Understood("cron", None, expr, timezone, describe(expr, timezone), now)


def _refused_rhythm(text: str, refused: RefusedRhythm, timezone: str, now: datetime) -> InvalidSchedule:
    """With nothing suggested but what recurs as often as was meant: else the forms there are."""
    meant = _that_work([*refused.instead, *_spelled_right(text)], timezone, now, kind="cron")
    error = _refusal(text, refused.why, _try(meant, timezone) if meant else RHYTHMS, timezone, now)
    error.meant = tuple(meant)
    return error


def _refusal(text: str, why: str, fix: str, timezone: str, now: datetime) -> InvalidSchedule:
    local = now.astimezone(zone(timezone))
    today = (
        f"{WEEKDAY_NAMES[local.toordinal() % 7]} {local.day} {MONTH_NAMES[local.month - 1]} {local.year} {local:%H:%M}"
    )
    said = text.strip() if isinstance(text, str) else repr(text)
    said = said if len(said) <= 80 else said[:77] + "..."
    message = f"{said!r} is not a time: {why.rstrip('.')}. It is now {today} in {timezone}."
    return InvalidSchedule(message, field="when", fix=fix)


def _try(phrases: dict[str, Understood], timezone: str) -> str:
    """Each suggestion with the moment that it means, or when it fires first."""
    quoted = " or ".join(f'"{phrase}" ({_moment_of(found, timezone)})' for phrase, found in phrases.items())
    return f"Try {quoted}." if phrases else "Give a moment nearer to now."


def _moment_of(found: Understood, timezone: str) -> str:
    at, now = (moment.astimezone(zone(timezone)) for moment in (found.next(1)[0], found.now))
    year = "" if at.year == now.year else f" {at.year}"
    day = f"{WEEKDAY_NAMES[at.toordinal() % 7][:3]} {at.day} {MONTH_NAMES[at.month - 1][:3]}{year}"
    return f"{'next ' if found.kind == 'cron' else ''}{day} {at:%H:%M}"


def _suggested(text: str, instead: tuple[str, ...], timezone: str, now: datetime) -> dict[str, Understood]:
    """What was probably meant, where that can be told from the words; else times that everybody understands."""
    from wakeful.schedule import suggestions, words

    phrase = words.normal(text) if isinstance(text, str) and len(text) <= LONGEST else None

    def is_understood(said: str) -> bool:
        return bool(_that_work([said], timezone, now, kind="once"))

    meant = suggestions.meant_by(phrase, now.astimezone(zone(timezone)), is_understood) if phrase else ()
    known = list(_that_work(instead, timezone, now))
    likely = known or list(_that_work(meant, timezone, now, kind="once"))
    return _that_work([*likely, *_usual(now, timezone)], timezone, now)


def _spelled_right(text: str) -> Iterable[str]:
    from wakeful.schedule import suggestions, words

    phrase = words.normal(text) if isinstance(text, str) and len(text) <= LONGEST else None
    return [right] if phrase and (right := suggestions.spelled(phrase)) else []


def _usual(now: datetime, timezone: str) -> tuple[str, ...]:
    in_two_days = now.astimezone(zone(timezone)) + timedelta(days=2)
    return "in 30 minutes", "tomorrow at 9am", f"{in_two_days:%Y-%m-%d} 15:00", "in 1 hour"


def _that_work(
    phrases: Iterable[str], timezone: str, now: datetime, *, kind: str = "", most: int = 2
) -> dict[str, Understood]:
    """The first that are understood here and now, no two alike: a suggestion that does not work is not made."""
    working: dict[str, Understood] = {}
    for phrase in phrases:
        try:
            found = _understand(phrase, timezone, now, time(9))
        except (PhraseRefused, InvalidSchedule, OverflowError, ValueError):
            continue
        alike = (known for known in working.values() if known.kind == found.kind)
        if kind in ("", found.kind) and found.next(1) not in [known.next(1) for known in alike]:
            working[phrase] = found
        if len(working) == most:
            break
    return working
