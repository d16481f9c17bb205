"""Between which hours: "from 9 to 5", "between 8:30 and 16:30", "of hours 9 through 16"."""

from __future__ import annotations

import re
from datetime import time

from wakeful.schedule.lazy_pattern import LazyPattern
from wakeful.schedule.recurring_parts import RhythmParts
from wakeful.schedule.refusals import PhraseRefused
from wakeful.schedule.words import MONTH

_CLOCK = r"(?:(noon|midday|midnight)|([0-9]{1,2})(?::([0-9]{2}))?(?: ?([ap])\.?m\b\.?)?)"
_WINDOW = LazyPattern(
    rf"(?:(?:from |between |during )|(?=[0-9]{{1,2}}(?::[0-9]{{2}})?(?: ?[ap]\.?m\.?)? ?(?:to|-|until|till) ?[0-9]))"
    rf"{_CLOCK}(?: (?:to|and|until|till|through|thru) | ?- ?){_CLOCK}(?![a-z0-9:]| (?:of )?{MONTH}\b)"
)
_HOURS = LazyPattern(
    r"of hours? ([0-9]{1,2})(?: through ([0-9]{1,2}))?(?: and hours? ([0-9]{1,2})(?: through ([0-9]{1,2}))?)?(?![0-9:])"
)
_AFTERNOON = 5  # up to here an hour that does not say which half of the day is in the afternoon, as everywhere


def read_window(text: str, position: int, parts: RhythmParts) -> int:
    if found := _HOURS.match(text, position):
        _set(parts, *_hours(found))
        return found.end()
    found = _WINDOW.match(text, position)
    if found is None:
        return -1
    first, last = found.groups()[:4], found.groups()[4:]
    begin, end = _time(first, last[3]), _time(last, None)
    if first[3] is None and last[3] is not None and begin > end:
        begin = _time(first, "a")  # "9 to 5pm"
    if last[3] is None and not last[0] and end <= begin and end.hour < 12 and not _is_24h(last[1]):
        end = end.replace(hour=end.hour + 12)  # "9 to 5"
    _set(parts, begin, end)
    return found.end()


def _hours(found: re.Match[str]) -> tuple[time, time]:
    """Of hours 9 through 16; of hours 0 through 5 and hours 22 through 23: those over midnight."""
    low, high = int(found[1]), int(found[2] or found[1])
    if found[3]:
        late, last = int(found[3]), int(found[4] or found[3])
        if (low, last) != (0, 23) or not high < late <= last:
            raise PhraseRefused("hours that are apart are different schedules: set one for each")
        low = late
    elif high < low:
        raise PhraseRefused("there are no such hours in a day")
    if max(low, high) > 23:
        raise PhraseRefused("there are no such hours in a day")
    return time(low), time(high, 59)


def _set(parts: RhythmParts, begin: time, end: time) -> None:
    if parts.window is not None:
        raise PhraseRefused("hours are said twice")
    if begin == end:
        raise PhraseRefused("it begins and ends at the same time")
    parts.window = begin, end


def _time(said: tuple[str | None, ...], half: str | None) -> time:
    name, hour, minute, own_half = said
    if name:
        return time(0) if name == "midnight" else time(12)
    half = own_half or half
    number = int(hour or 0)
    if number > 23 or int(minute or 0) > 59 or (own_half and not 1 <= number <= 12):
        raise PhraseRefused("there is no such time of day")
    if half and number <= 12 and not (hour or "").startswith("0"):
        number = number % 12 + (12 if half == "p" else 0)
    elif not _is_24h(hour) and number <= _AFTERNOON:
        number += 12
    return time(number, int(minute or 0))


def _is_24h(hour: str | None) -> bool:
    return bool(hour) and (str(hour).startswith("0") or int(hour or 0) > 12)


def times_within(seconds: int, window: tuple[time, time]) -> list[time]:
    """The times of day from the start of a window on, so many seconds apart.

    The end of the window counts; but what recurs within an hour ends before a full one: from 9 to 5, every 20 minutes,
    the last is at 16:40.
    """
    begin, end = (at.hour * 3600 + at.minute * 60 for at in window)
    if end < begin:
        end += 86_400
    if seconds < 3600 and end % 3600 == 0:
        end -= 1
    found = range(begin, end + 1, seconds)
    if len(found) > 1440:
        raise PhraseRefused("something that recurs every few seconds has no hours of its own")
    return [time(at // 3600 % 24, at // 60 % 60, at % 60) for at in found]


def crosses_midnight(window: tuple[time, time]) -> bool:
    return window[1] < window[0]
