"""What a refused phrase most likely means, in fields that are understood: `when`, `timezone`, and a policy's bounds.

A repair says all of what was said, or it is not made: one that drops the days, the hours or the end of a rhythm would
be a different rhythm. Each is read here before it is suggested.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime, time, timedelta
from typing import Any

from wakeful.errors import InvalidSchedule
from wakeful.schedule import words
from wakeful.schedule.recurrence import DAY_CODES
from wakeful.schedule.refusals import PhraseRefused
from wakeful.schedule.suggestions import ends
from wakeful.schedule.zones import zone

Repair = dict[str, Any]
Understand = Callable[
    [str, str, datetime], Any
]  # of a phrase, in a zone, at a moment; raises where it is not understood

_REPEATED_SECONDS = re.compile(r"r([0-9]{1,4})/pt(?:([0-9]{1,4})m)?([0-9]{1,5})s")
_COUNTED = re.compile(
    rf"(?:every|each) (?:(other|alternate|[0-9]{{1,3}}) ({words.WEEKDAY}|days?|weeks?)"
    rf"|([0-9]{{1,3}})(?:nd|rd|th) (day|week))(?: on ({words.WEEKDAY}))?(?: at (.+))?"
)
_HOURS = re.compile(
    r"(?:every hour|hourly),? (?:from |between )?([0-9]{1,2})(?::00)? ?([ap]m)? (?:to|until|till|and|through|-) "
    r"([0-9]{1,2})(?::00)? ?([ap]m)?(?:,? (?:on |every )?(weekdays?|days?|daily))?"
)
_LAST_WORKDAY = re.compile(
    r"(?:on )?(?:the )?last (?:business|working|work|week) ?day (?:of|in) (?:the|every|each) month(?: at (.+))?"
)
_FOR = re.compile(r"((?:every|each) .+?|daily.*?|hourly.*?) for (?:the next )?([0-9]{1,4}) (day|week|time)s?")
_UNTIL = re.compile(r"((?:every|each) .+?|daily.*?|hourly.*?) (?:until|till|through) (.+)")


def repair(text: str, timezone: str, now: datetime, understand: Understand) -> Repair:
    """The fields of a request that say the same and are understood; empty where none are known."""
    phrase = words.normal(text.strip().rstrip(".!"))
    if phrase is None:
        return {}
    for found in _candidates(phrase, timezone, now, understand):
        try:
            understand(found["when"], found.get("timezone", timezone), now)
        except (PhraseRefused, InvalidSchedule, OverflowError, ValueError):
            continue
        return found
    return {}


def _candidates(phrase: str, timezone: str, now: datetime, understand: Understand) -> Iterator[Repair]:
    local = now.astimezone(zone(timezone))
    yield from _repeated_seconds(phrase)
    yield from _last_workday(phrase)
    yield from _counted(phrase)
    yield from _within_hours(phrase)
    yield from _an_end(phrase, local)

    def moment(said: str) -> datetime:
        found: datetime | None = understand(said, timezone, now).fire_at
        if found is None:
            raise ValueError(said)
        return found.astimezone(zone(timezone))

    for read in (_so_often, _until):
        try:
            yield from read(phrase, moment, local)
        except (PhraseRefused, InvalidSchedule, OverflowError, ValueError):
            continue


def _repeated_seconds(phrase: str) -> Iterator[Repair]:
    """A repeating interval of seconds, which no rule counts: elapsed time, and how often beside it."""
    if found := _REPEATED_SECONDS.fullmatch(phrase):
        seconds = int(found[2] or 0) * 60 + int(found[3])
        yield {"when": f"@every {seconds}s", "policy": {"max_fires": int(found[1])}}


def _last_workday(phrase: str) -> Iterator[Repair]:
    found = _LAST_WORKDAY.fullmatch(phrase)
    if found and (at := _clock(found[1])):
        yield {"when": f"{at.minute} {at.hour} LW * *"}


def _counted(phrase: str) -> Iterator[Repair]:
    """Every so many days, or every so many weeks on a weekday: a phrase that is understood, or a recurrence rule."""
    if not (found := _COUNTED.fullmatch(phrase)):
        return
    count, unit, on, at = found[1] or found[3], found[2] or found[4], found[5] or "", _clock(found[6])
    number = int(count) if count.isdigit() else 2
    weekday = on or ("" if unit.startswith(("day", "week")) else unit)
    if number < 2 or at is None or (on and not unit.startswith("week")):
        return
    if not weekday:
        yield {"when": f"every {number} {unit.rstrip('s')}s at {at:%H:%M}"}
        return
    day = DAY_CODES[words.WEEKDAYS[weekday]]
    yield {"when": f"RRULE:FREQ=WEEKLY;INTERVAL={number};BYDAY={day};BYHOUR={at.hour};BYMINUTE={at.minute}"}


def _within_hours(phrase: str) -> Iterator[Repair]:
    found = _HOURS.fullmatch(phrase)
    if not found:
        return
    first, last = (
        int(found[at]) % 12 + 12 * (found[at + 1] == "pm") if found[at + 1] else int(found[at]) for at in (1, 3)
    )
    if not found[4] and last <= first:
        last += 12  # "9 to 5"
    days = "1-5" if (found[5] or "").startswith("week") else "*"
    if first < last < 24:
        yield {"when": f"0 {first}-{last} * * {days}"}


def _an_end(phrase: str, local: datetime) -> Iterator[Repair]:
    """The end of a day, a week or a month: at 17:00, where that is ahead, else the last minute."""
    yield from ({"when": said} for said in ends(phrase, local))
    if phrase == "next month":
        yield {"when": "1st of next month at 9am"}


def _so_often(phrase: str, _: Callable[[str], datetime], local: datetime) -> Iterator[Repair]:
    if not (found := _FOR.fullmatch(phrase)):
        return
    number, unit = int(found[2]), found[3]
    if unit == "time" or (unit == "day" and found[1].startswith(("every day", "each day", "daily"))):
        yield {"when": found[1], "policy": {"max_fires": number}}
    else:
        ends = local + timedelta(days=number * (7 if unit == "week" else 1))
        yield {"when": found[1], "policy": {"ends_at": _iso(ends)}}


def _until(phrase: str, moment: Callable[[str], datetime], _: datetime) -> Iterator[Repair]:
    if found := _UNTIL.fullmatch(phrase):
        yield {"when": found[1], "policy": {"ends_at": _iso(end_meant(found[2], moment))}}


def end_meant(said: str, moment: Callable[[str], datetime]) -> datetime:
    """The moment that "until …" means: a day without a time of day counts to its end."""
    try:
        return moment(f"{said} at 23:59")
    except (PhraseRefused, InvalidSchedule):
        return moment(said)


def _clock(said: str | None) -> time | None:
    """The time of day that was said, 9:00 where none was; None where it was said otherwise."""
    from wakeful.schedule.time_of_day import time_of_day

    found = time_of_day(said) if said else time(9)
    return None if found is None or found.second else found


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def in_words(found: Repair, first: str) -> str:
    """A repair as a sentence for whoever reads the refusal; `first`: when it would fire."""
    more = " and ".join(f"{name} {value}" for name, value in _flat(found))
    return f'Try "{found["when"]}" ({first}){f" with {more}" if more else ""}.'


def _flat(found: Repair) -> Iterator[tuple[str, Any]]:
    for name, value in found.items():
        if isinstance(value, dict):
            yield from value.items()
        elif name != "when":
            yield name, value
