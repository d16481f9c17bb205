"""Between which hours: "from 9 to 5", "between 8:30 and 16:30", "of hours 9 through 16"."""

from __future__ import annotations

import re
from datetime import time

from wakeful.schedule.lazy_pattern import LazyPattern
from wakeful.schedule.recurring_parts import RhythmParts
from wakeful.schedule.refusals import Contradiction, PhraseRefused
from wakeful.schedule.words import MONTH

_CLOCK = r"(?:(noon|midday|midnight)|([0-9]{1,2})(?::([0-9]{2}))?(?: ?([ap])\.?m\b\.?)?)"
_WINDOW = LazyPattern(
    rf"(?:(?:from |between |during )|(?=[0-9]{{1,2}}(?::[0-9]{{2}})?(?: ?[ap]\.?m\.?)? ?(?:to|-|until|till) ?[0-9]))"
    rf"{_CLOCK}(?: (?:to|and|until|till|through|thru) | ?- ?){_CLOCK}(?![a-z0-9:]| (?:of )?{MONTH}\b)"
)
_HOURS = LazyPattern(
    r"of hours? ([0-9]{1,2})(?: through ([0-9]{1,2}))?(?: and hours? ([0-9]{1,2})(?: through ([0-9]{1,2}))?)?(?![0-9:])"
)
_AFTERNOON = range(1, 6)  # an hour that does not say which half of the day is in the afternoon here, as everywhere
_NOON = 12 * 60
_DAY = 24 * 60
_Said = tuple[str | None, ...]  # the groups of _CLOCK: name, hour, minute, half


def read_window(text: str, position: int, parts: RhythmParts) -> int:
    if found := _HOURS.match(text, position):
        _set(parts, *_hours(found))
        return found.end()
    found = _WINDOW.match(text, position)
    if found is None:
        return -1
    readings = _readings(found.groups()[:4], found.groups()[4:], exact=parts.exact)
    if len(readings) > 1:
        words = [f"from {_time(begin):%H:%M} to {_time(end):%H:%M}" for begin, end in readings]
        raise Contradiction(
            f'"{found[0]}" can be {" or ".join(words)}',
            *(f"{text[:position]}{said}{text[found.end() :]}" for said in words),
        )
    [(begin, end)] = readings
    _set(parts, _time(begin), _time(end))
    if any(_is_in_afternoon(*one) for one in ((found.groups()[:4], begin), (found.groups()[4:], end))):
        read = f"{_time(begin):%H:%M} to {_time(end):%H:%M}"
        parts.remarks.append(f'"{found[0]}" was read as {read}: for other hours write am and pm, or the 24-hour clock.')
    return found.end()


def _is_in_afternoon(said: _Said, minutes: int) -> bool:
    """Whether it is 1 to 5 that was read as the afternoon."""
    return _is_open(said) and int(said[1] or 0) in _AFTERNOON and minutes % _DAY >= _NOON


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


def _readings(first: _Said, last: _Said, *, exact: bool) -> list[tuple[int, int]]:
    """The windows that two clocks can mean, in minutes of the day: both on the 12-hour clock, or both on the 24-hour.

    An end before its begin is on the next morning. More than one reading means that nobody can know. `exact`: UTC is
    said beside them, so that they are on the 24-hour clock.
    """
    begin, end = _minutes(first), _minutes(last)
    if exact and _is_open(first) and _is_open(last):
        return [(begin, end)] if begin < end else [(begin, end), (begin, end + _NOON)]
    if _is_open(first) and _is_open(last):
        return _both_open(begin, end)
    if not _is_open(first) and not _is_open(last):
        return [(begin, end)]
    sure, unsure = (last, first) if _is_open(first) else (first, last)
    if _is_24h(sure[1]):
        return [(begin, end)] if _fits_24_hours(sure, unsure) else _on_24_hours(first, begin, end)
    if _is_open(last):
        return [(begin, begin + _ahead(begin, end))]
    readings = [(end - _ahead(begin, end), end)]
    if last[0] == "midnight" and begin % _NOON > _AFTERNOON[-1] * 60 + 59:  # "9 to midnight"
        readings.insert(0, (begin, end))
    return readings


def _both_open(begin: int, end: int) -> list[tuple[int, int]]:
    """9 to 5 is a working day, 2 to 4 the afternoon; of 5 to 1 nobody can know where it begins."""
    if begin // 60 not in _AFTERNOON:
        return [(begin, begin + _ahead(begin, end))]
    begins = (begin + _NOON,) if begin < end < _NOON else (begin, begin + _NOON)
    return [(at, at + _ahead(at, end)) for at in begins]


def _fits_24_hours(sure: _Said, unsure: _Said) -> bool:
    """Whether the other clock is written as on a 24-hour clock too: as in "22:00 to 6:00" and in "10:00 to 06:00"."""
    return int(sure[1] or 0) not in range(1, 13) or (len(unsure[1] or "") > 1 and unsure[2] is not None)


def _on_24_hours(first: _Said, begin: int, end: int) -> list[tuple[int, int]]:
    """One clock has a leading zero. Over midnight the other may have been meant as pm: "09:00 to 5:00"."""
    if begin <= end:
        return [(begin, end)]
    return [(begin, end), (begin + _NOON, end) if _is_open(first) else (begin, end + _NOON)]


def _ahead(begin: int, end: int) -> int:
    """How many minutes after the begin a clock next shows the end, whichever half of the day; twelve hours at most."""
    return (end - begin) % _NOON or _NOON


def _time(minutes: int) -> time:
    return time(minutes % _DAY // 60, minutes % 60)


def _is_open(said: _Said) -> bool:
    """Whether it does not say which half of the day it is in."""
    return not said[0] and not said[3] and not _is_24h(said[1])


def _minutes(said: _Said) -> int:
    """Minutes of the day; of a clock that leaves its half of the day open those that are written."""
    name, hour, minute, half = said
    if name:
        return 0 if name == "midnight" else _NOON
    number, minutes = int(hour or 0), int(minute or 0)
    if number > 23 or minutes > 59 or (half and not 1 <= number <= 12):
        raise PhraseRefused("there is no such time of day")
    if half:
        number = number % 12 + (12 if half == "p" else 0)
    return number * 60 + minutes


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
