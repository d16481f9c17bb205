"""parse(): any way of saying when, understood or refused, never guessed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, time, timedelta
from itertools import islice
from typing import Any, Final, Literal

from wakeful.errors import InvalidSchedule
from wakeful.schedule.days_off import EXCEPT_HOLIDAYS, USUAL_DAYS, calendar_named, without_days_off
from wakeful.schedule.descriptions import describe, moment, remarks
from wakeful.schedule.expression import LONGEST, Schedule, anchor_now, counts_from_start, is_rule, schedule, split_zone
from wakeful.schedule.names import DATE_ORDERS, MONTH_NAMES, WEEKDAY_NAMES
from wakeful.schedule.words import (
    COUNTED_WORKDAYS,
    EVERY,
    RECURS,
    SEVERAL_DAYS,
    SOUNDS_RECURRING,
    PhraseRefused,
    RefusedRhythm,
    normal,
)
from wakeful.schedule.zones import aware, split_place, zone

_CRON_START = re.compile(r"@[a-z]|(?:CRON_)?TZ=|[0-9*?][0-9*?,/\-]*\s+[0-9*?][0-9*?,/\-]*(?:\s|$)")
_CRON_FIELD = re.compile(r"(?:[0-9,/#\-]|[A-Za-z]{3}(?![A-Za-z])|(?:[LWlw]|[Ll][Ww])(?![A-Za-z]))+")
_ZONE_AT_END = re.compile(r"(?:, ?| (?:in )?|^)\(?([A-Za-z][A-Za-z0-9_+\-]*(?:/[A-Za-z][A-Za-z0-9_+\-]+)+)\)?$")
# What begins so is meant as a zone, also where there is none of that name; "Mon/Wed" is not.
_REGIONS = ("Africa/", "America/", "Asia/", "Atlantic/", "Australia/", "Europe/", "Indian/", "Pacific/")
# Not "EST": as a name it is New York without summer time, which hardly anyone means by it.
_ZONE_AFTER_COMMA = re.compile(r", (UTC|GMT|[A-Z][a-z][A-Za-z0-9_+\-]+|[A-Z]{3}[0-9][A-Z]{3})$")
_PASSED_AT_MOST: Final = 1_000  # holidays in a row: a calendar may have every day of all years
_YEARS_AHEAD: Final = 200  # what comes later is not listed
_TICK = timedelta(microseconds=1)
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
    starts_at: datetime | None = None  # the bounds of a series, as far as the text says them
    ends_at: datetime | None = None
    max_fires: int | None = None
    skips_holidays: bool = field(default=False, repr=False)  # as the text says
    calendar: str = field(default="", repr=False)  # whose they are, where whoever asked for it knows
    left_out: tuple[tuple[datetime, str], ...] = field(default=(), repr=False)  # as a server said
    assumed: tuple[str, ...] = field(default=(), repr=False, compare=False)  # how the words of a series were read

    def next(self, n: int = 5, *, after: datetime | None = None) -> list[datetime]:
        """The next fires after a moment (`now` unless another is given), in UTC."""
        moment = self.now if after is None else aware(after, "after")
        if self.fire_at is not None:
            return [self.fire_at][: max(0, n)] if self.fire_at > moment else []
        fires = (fire for fire, holiday in self._coming(moment) if not holiday)
        return list(islice(fires, max(0, n)))

    def skipped(self, n: int = 5) -> list[tuple[datetime, str]]:
        """What is left out of the next fires: when that would be, and what the holiday is called."""
        fires, found = 0, []
        for fire, holiday in self._coming(self.now):
            if holiday:
                found.append((fire, holiday))
            elif (fires := fires + 1) >= n:
                break
        return found

    def _coming(self, moment: datetime) -> Iterator[tuple[datetime, str]]:
        """The fires of a series after a moment, within its bounds, each with the holiday it falls on.

        It ends where no day is left.
        """
        if self.fire_at is not None:
            return
        days = calendar_named(self.calendar) if self.calendar and not self.left_out else None
        left_out, local = dict(self.left_out), zone(self.timezone)
        fired = passed = 0
        for fire in self._within_bounds(moment):
            holiday = left_out.get(fire, "") if days is None else days.holiday(fire.astimezone(local).date())
            fired, passed = (fired, passed + 1) if holiday else (fired + 1, 0)
            if fire > moment:
                yield fire, holiday
            if passed >= _PASSED_AT_MOST or fired == self.max_fires:
                return

    def _within_bounds(self, moment: datetime) -> Iterator[datetime]:
        """What its rhythm names between its start and its end; from now on where that is counted."""
        moment = moment if self.max_fires is None else min(moment, self.now)
        if self.starts_at is not None:
            moment = max(moment, self.starts_at - _TICK)
        rhythm = _rhythm(self.cron_expr, self.timezone, self.now, self.starts_at)
        last = moment.year + _YEARS_AHEAD
        while (fire := rhythm.after(moment)) is not None and (self.ends_at is None or fire <= self.ends_at):
            if fire.year > last:
                return
            yield fire
            moment = fire

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was assumed, and what the clocks of the zone do to it, in words; empty on ordinary days."""
        if self._remarks or not self.cron_expr:
            return self._remarks
        return *self.assumed, *remarks(self.cron_expr, self.timezone, self.now)


def parse(
    text: str,
    *,
    timezone: str = "UTC",
    now: datetime,
    default_time: time = time(9),
    date_order: str = "",
    working_days: str = USUAL_DAYS,
    has_calendar: bool = True,
) -> Understood:
    """Understand a phrase, an ISO time, an offset, unix seconds, a cron expression or a recurring phrase.

    `date_order` says how 03/04 is read: "dmy" or "mdy"; without it, both readings are offered. `working_days`
    and `has_calendar`: as in `without_days_off`. Raises InvalidSchedule, and nothing else, for what is ambiguous, past
    or not understood.
    """
    if date_order not in DATE_ORDERS:
        raise InvalidSchedule(f"{date_order!r} is not accepted.", field="date_order", fix='Give "dmy" or "mdy".')
    if isinstance(text, str) and len(text) <= LONGEST:
        phrase, skips_holidays = without_days_off(text, working_days, has_calendar=has_calendar)
        if skips_holidays:
            try:
                kept = parse(phrase, timezone=timezone, now=now, default_time=default_time, date_order=date_order)
            except InvalidSchedule as error:
                raise _suggested_without_holidays(error, text, phrase, timezone, now, default_time) from None
            return _but_not_on_holidays(kept, text)
        text = phrase
    try:
        return _parsed(text, timezone, now, default_time, date_order)
    except InvalidSchedule as error:
        if error.field == "when" and isinstance(text, str) and len(text) <= LONGEST:
            _repair(error, text, timezone, aware(now, "now"), default_time)
        raise


def _but_not_on_holidays(understood: Understood, text: str) -> Understood:
    if understood.kind == "once":
        fix = "Leave the holidays out: a single moment is named on purpose."
        raise InvalidSchedule(f"{text!r} fires once, and only a series leaves holidays out", field="when", fix=fix)
    return replace(understood, skips_holidays=True, description=f"{understood.description}, {EXCEPT_HOLIDAYS}")


def _suggested_without_holidays(
    error: InvalidSchedule, text: str, phrase: str, timezone: str, now: datetime, default: time
) -> InvalidSchedule:
    """The refusal of a phrase that leaves holidays out: so does what it suggests, or it gives the forms there are."""
    if error.field != "when":
        return error
    kept = _that_work(error.meant, timezone, aware(now, "now"), default, kind="cron")
    candidates = {f"{one} {EXCEPT_HOLIDAYS}": understood for one, understood in kept.items()}
    message = error.message.replace(repr(phrase), repr(text.strip()), 1)
    without = InvalidSchedule(message, field="when", fix=_try(candidates, timezone) if candidates else RHYTHMS)
    without.meant = tuple(candidates)
    return without


def _repair(error: InvalidSchedule, text: str, timezone: str, now: datetime, default: time) -> None:
    """Say what was most likely meant in fields that are understood, in the place of what says only a part of it."""
    from wakeful.schedule import suggestions

    def understand(phrase: str, name: str, at: datetime) -> Understood:
        return _understand(phrase, name, at, default)

    found = suggestions.repair(text, timezone, now, understand)
    if not found:
        return
    error.repair = found
    understood = understand(found["when"], timezone, now)
    if understood.kind == "cron":
        error.meant, error.fix = (found["when"],), suggestions.in_words(found, _moment_of(understood, timezone))


def _parsed(text: str, timezone: str, now: datetime, default_time: time, date_order: str) -> Understood:
    now = aware(now, "now")
    timezone = zone(timezone).key
    try:
        return _understand(text, timezone, now, default_time, date_order)
    except RefusedRhythm as refused:
        raise _refused_rhythm(text, refused, timezone, now, default_time) from None
    except PhraseRefused as refused:
        right = _spelled_right(text)
        if _that_work(
            right, timezone, now, default_time, kind="cron"
        ):  # "evry monday": no single monday is suggested for it
            raise _refused_rhythm(text, RefusedRhythm(refused.why, *right), timezone, now, default_time) from None
        candidates = _suggested(text, refused, timezone, now, default_time)
        fix = _try(candidates, timezone) if candidates else _examples(timezone, now)
        raise _refusal(text, refused.why, fix, timezone, now) from None
    except (OverflowError, ValueError):  # beyond the first or last year of the calendar
        raise _refusal(text, "it is too far away", _examples(timezone, now), timezone, now) from None
    except InvalidSchedule as invalid:
        if invalid.field == "timezone":
            raise
        raise _refusal(text, invalid.message, invalid.fix or RHYTHMS, timezone, now) from None


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
        from wakeful.schedule.offsets import read_repeated

        return _recurring(*split_zone(*read_repeated(text, timezone)), now)
    text, named = _take_zone(text)
    try:
        understood = _phrase(text, named or timezone, now, default, date_order, in_utc=named in ("UTC", "GMT"))
    except PhraseRefused as refused:
        raise refused.suggesting(*(_in_zone(one, named) for one in refused.instead)) from None
    if named and understood.timezone != named:
        raise PhraseRefused(f"two time zones are given, {named} and {understood.timezone}")
    return understood


def _in_zone(suggestion: str, named: str) -> str:
    """A suggestion for a phrase without its zone, with that zone."""
    if not named:
        return suggestion
    is_expression = is_rule(suggestion) or _is_cron(suggestion)
    return f"CRON_TZ={named} {suggestion}" if is_expression else f"{suggestion} {named}"


def _phrase(text: str, timezone: str, now: datetime, default: time, date_order: str, *, in_utc: bool) -> Understood:
    # Imported when first needed: compiling their patterns takes longer than everything else here.
    from wakeful.schedule import once

    phrase = normal(text)
    if phrase is None:
        refuse = RefusedRhythm if "*" in text else PhraseRefused
        raise refuse("it has characters that are not used in dates or times")
    if (counted := COUNTED_WORKDAYS.search(phrase)) and not EVERY.search(phrase):
        raise PhraseRefused(f'"{counted[0]}" cannot be counted: name the day')
    if RECURS.search(phrase):
        return _rhythm_phrase(phrase, timezone, now, default, in_utc=in_utc)
    try:
        found = once.understand(phrase, timezone, now, default, date_order, in_utc=in_utc)
    except PhraseRefused as refused:
        if SEVERAL_DAYS.search(phrase):
            raise RefusedRhythm(refused.why, f"every {phrase}") from None
        if "*" in phrase or SOUNDS_RECURRING.search(phrase):
            raise RefusedRhythm(refused.why) from None
        raise
    description = moment(found.fire_at, found.timezone)
    # UTC has no law that could change.
    wall = found.wall.isoformat() if found.wall is not None and found.timezone != "UTC" else ""
    return Understood("once", found.fire_at, "", found.timezone, description, now, found.remarks, wall)


def _rhythm_phrase(phrase: str, timezone: str, now: datetime, default: time, *, in_utc: bool) -> Understood:
    from wakeful.schedule import recurring

    # The words of describe() for a rule; those with bounds of the rule's own come first, or they would be the alarm's.
    if ", " in phrase and (understood := _in_rule_words(phrase, timezone, now)) is not None:
        return understood
    try:
        found = recurring.understand(phrase, timezone, now, default, in_utc=in_utc)
    except PhraseRefused as refused:
        if (understood := _in_rule_words(phrase, timezone, now)) is not None:
            return understood
        error = RefusedRhythm(refused.why, *refused.instead)
        error.all_or_none = refused.all_or_none
        raise error from None
    understood = _recurring(*split_zone(found.expr, found.timezone), now, found.bounds)
    return replace(understood, assumed=found.remarks) if found.remarks else understood


def _in_rule_words(phrase: str, timezone: str, now: datetime) -> Understood | None:
    """What the words of a rule mean; None for other words, and for numbers that no rule can have."""
    from wakeful.schedule.recurrence_words import read_words

    recurrence = read_words(phrase) if phrase.startswith("every ") else None
    if recurrence is None:
        return None
    try:
        expr, timezone = split_zone(recurrence.text(), timezone)
        schedule(expr, timezone)
    except InvalidSchedule:  # it speaks of the parts of a rule, which nobody has said
        return None
    return _recurring(expr, timezone, now)


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
        return split_place(text) or (text, "")
    return text, ""


def _known(name: str) -> bool:
    try:
        return bool(zone(name))
    except InvalidSchedule:
        return False


def _rhythm(expr: str, timezone: str, now: datetime, starts_at: datetime | None = None) -> Schedule:
    """The schedule as it is if it is set now."""
    if not counts_from_start(expr):
        return schedule(expr, timezone)
    return schedule(expr, timezone, anchor=starts_at or anchor_now(expr, timezone, now))


def _recurring(
    expr: str, timezone: str, now: datetime, bounds: tuple[Any, Any, Any] = (None, None, None)
) -> Understood:
    starts_at, ends_at, max_fires = bounds
    timezone = zone(timezone).key
    description = describe(expr, timezone, starts_at=starts_at, ends_at=ends_at, max_fires=max_fires)
    understood = Understood("cron", None, expr, timezone, description, now, (), "", *bounds)
    if understood.next(1):
        return understood
    if _rhythm(expr, timezone, now, starts_at).after(now) is not None:
        raise RefusedRhythm("it does not fire between its start and its end")
    if is_rule(expr):
        fix = "Give a later UNTIL or DTSTART, a higher COUNT, or dates that come."
        raise InvalidSchedule("it does not fire after now", field="when", fix=fix)
    raise RefusedRhythm("it would never fire in the next 28 years")


def _refused_rhythm(text: str, refused: RefusedRhythm, timezone: str, now: datetime, default: time) -> InvalidSchedule:
    """With nothing suggested but what recurs as often as was meant: else the forms there are."""
    candidates = _that_work(refused.instead, timezone, now, default, kind="cron")
    if refused.all_or_none and len(candidates) < len(refused.instead):
        candidates = {}
    elif not refused.instead:
        candidates = _that_work(_spelled_right(text), timezone, now, default, kind="cron")
    error = _refusal(text, refused.why, _try(candidates, timezone) if candidates else RHYTHMS, timezone, now)
    error.meant = tuple(candidates)
    return error


def _refusal(text: str, why: str, fix: str, timezone: str, now: datetime) -> InvalidSchedule:
    local = now.astimezone(zone(timezone))
    today = (
        f"{WEEKDAY_NAMES[local.toordinal() % 7]} {local.day} {MONTH_NAMES[local.month - 1]} {local.year} {local:%H:%M}"
    )
    shown = text.strip() if isinstance(text, str) else repr(text)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    message = f"{shown!r} is not a time: {why.rstrip('.')}. It is now {today} in {timezone}."
    return InvalidSchedule(message, field="when", fix=fix)


def _try(phrases: dict[str, Understood], timezone: str) -> str:
    """Each suggestion with the moment that it means, or when it fires first."""
    return f"Try {_quoted(phrases, timezone)}."


def _examples(timezone: str, now: datetime) -> str:
    """Times that everybody understands, where the words say nothing; never as if one of them had been meant."""
    phrases = _that_work(_usual(now, timezone), timezone, now, time(9))  # each has its time
    return f"A time is written like {_quoted(phrases, timezone)}." if phrases else "Give a moment nearer to now."


def _quoted(phrases: dict[str, Understood], timezone: str) -> str:
    return " or ".join(f'"{phrase}" ({_moment_of(found, timezone)})' for phrase, found in phrases.items())


def _moment_of(found: Understood, timezone: str) -> str:
    at, now = (moment.astimezone(zone(timezone)) for moment in (found.next(1)[0], found.now))
    year = "" if at.year == now.year else f" {at.year}"
    day = f"{WEEKDAY_NAMES[at.toordinal() % 7][:3]} {at.day} {MONTH_NAMES[at.month - 1][:3]}{year}"
    return f"{'next ' if found.kind == 'cron' else ''}{day} {at:%H:%M}"


def _suggested(text: str, refused: PhraseRefused, timezone: str, now: datetime, default: time) -> dict[str, Understood]:
    """What was probably meant, where that can be told from the words."""
    from wakeful.schedule import suggestions

    phrase = normal(text) if isinstance(text, str) and len(text) <= LONGEST else None

    def is_understood(candidate: str) -> bool:
        return bool(_that_work([candidate], timezone, now, default, kind="once"))

    known = _that_work(refused.instead, timezone, now, default)
    if refused.all_or_none and len(known) < len(refused.instead):
        known = {}
    if known or not phrase:
        return known
    return _that_work(suggestions.suggested_phrases(phrase, is_understood), timezone, now, default, kind="once")


def _spelled_right(text: str) -> Iterable[str]:
    from wakeful.schedule import suggestions

    phrase = normal(text) if isinstance(text, str) and len(text) <= LONGEST else None
    return [right] if phrase and (right := suggestions.spelled(phrase)) else []


def _usual(now: datetime, timezone: str) -> tuple[str, ...]:
    in_two_days = now.astimezone(zone(timezone)) + timedelta(days=2)
    return "in 30 minutes", "tomorrow at 9am", f"{in_two_days:%Y-%m-%d} 15:00", "in 1 hour"


def _that_work(
    phrases: Iterable[str], timezone: str, now: datetime, default: time, *, kind: str = "", limit: int = 2
) -> dict[str, Understood]:
    """The first that are understood here and now, no two alike: a suggestion that does not work is not made."""
    working: dict[str, Understood] = {}
    for phrase in phrases:
        try:
            found = _understand(phrase, timezone, now, default)
        except (PhraseRefused, InvalidSchedule, OverflowError, ValueError):
            continue
        if kind in ("", found.kind) and not any(_are_alike(found, known) for known in working.values()):
            working[phrase] = found
        if len(working) == limit:
            break
    return working


def _are_alike(one: Understood, other: Understood) -> bool:
    if one.cron_expr or other.cron_expr:
        return (one.cron_expr, one.timezone) == (other.cron_expr, other.timezone)
    return one.fire_at == other.fire_at
