"""On which days a phrase recurs ("the 1st and 15th", "the last friday"), and on which not ("except in august")."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, timedelta

from wakeful.schedule.dates import month_length, read_date, read_dayword, read_weekday
from wakeful.schedule.recurrence import CountedDay
from wakeful.schedule.recurring_parts import WEEKEND, WORKDAYS, Exclusions, RhythmParts, how_many
from wakeful.schedule.words import MONTH, MONTHS, WEEKDAY, WEEKDAYS, LazyPattern, PhraseRefused

AND = r"(?:,? and |, ?| ?& ?)"
THROUGH = r"(?: (?:through|thru|to) (?:the )?| ?- ?)"
_END = r"(?![a-z0-9])"
_WORKDAY = r"(?:week|work|working|business)[ -]?days?"
_DAY_NAME = rf"(?:{WEEKDAY}s?\b\.?|{_WORKDAY}{_END}|weekends?{_END})"
_DAY_ITEM = rf"(?:{WEEKDAY}s?\b\.?{THROUGH}{WEEKDAY}s?\b\.?|{_DAY_NAME})"
_DAYS_AND = r"(?:(?:,? and |, ?| ?[&/] ?)(?:on )?| )"
DAY_LIST = rf"{_DAY_ITEM}(?:{_DAYS_AND}{_DAY_ITEM})*{_END}"
_WEEKDAYS = LazyPattern(rf"(?:(?:on|from) )?(?:the )?({DAY_LIST})")
_ONE_DAY_ITEM = LazyPattern(
    rf"(?P<low>{WEEKDAY}s?)\b\.?{THROUGH}(?P<high>{WEEKDAY}s?)|(?P<work>{_WORKDAY}{_END})"
    rf"|(?P<end>weekends?{_END})|(?P<one>{WEEKDAY}s?\b)"
)
_MONTH_ITEM = rf"{MONTH}\b\.?(?:{THROUGH}{MONTH}\b\.?)?"
MONTH_LIST = rf"{_MONTH_ITEM}(?:{AND}(?:in )?{_MONTH_ITEM})*{_END}(?! ?[0-9])"
_ONE_MONTH_ITEM = LazyPattern(rf"({MONTH})\b\.?(?:{THROUGH}({MONTH})\b)?")
_MONTHS = LazyPattern(rf"(in|of|during) ({MONTH_LIST})")
_MONTHS_ALONE = LazyPattern(MONTH_LIST)

_TO_LAST = r"(?:[1-9](?:st|nd|rd|th)[ -](?:to[ -])?(?:the[ -])?last|penultimate|next to last)"
_COUNT = rf"(?:{_TO_LAST}|last|[0-9]{{1,3}}(?:st|nd|rd|th))"
_BARE = rf"[0-9]{{1,2}}(?=(?:{AND}(?:the )?(?:[0-9]{{1,2}}(?:st|nd|rd|th)?|last))*(?: day)? of (?:every|each|the) )"
_KIND = rf"(?: (?:instances?|occurrences?) of)? (?:{WEEKDAY}s?\b\.?|{_WORKDAY}|days?){_END}"
_ORDINAL = rf"(?:(?:{_COUNT}|{_BARE}){THROUGH}(?:{_COUNT}|{_BARE})|{_COUNT}|{_BARE})(?:{_KIND})?"
_ORDINALS = LazyPattern(rf"(?:on )?(?:the )?({_ORDINAL}(?:{AND}(?:on )?(?:the )?{_ORDINAL})*)(?![a-z0-9:])")
_ONE_ORDINAL = LazyPattern(
    rf"(?P<low>{_COUNT}|[0-9]{{1,2}})(?:{THROUGH}(?P<high>{_COUNT}|[0-9]{{1,2}}))?(?P<kind>{_KIND})?"
)
_MORE_NAMES = LazyPattern(rf"{AND}({WEEKDAY}s?)\b")
_POSITION = LazyPattern(
    r"(?:(?:at|on|by) )?(?:the )?(?:very )?(start|beginning|begin|end)"
    r"(?= (?:of|in) | ?$|,| (?:at|for|until|from|starting) )"
)
_PERIOD = LazyPattern(
    rf" (?:of|in) (?:(?:every|each) (?:(other|alternate|second|[0-9]{{1,3}}(?:st|nd|rd|th)?) )|(?:every|each|the|a) )"
    rf"(month|quarter|year|week)s?{_END}"
)
_NUMBERS = rf"[0-9]{{1,2}}(?:st|nd|rd|th)?(?:{AND}(?:the )?[0-9]{{1,2}}(?:st|nd|rd|th)?)*"
_DATES = LazyPattern(
    rf"(?:on )?(?:the )?(?:(?P<m1>{MONTH})\b\.? (?:the )?(?P<d1>{_NUMBERS})|(?P<d2>{_NUMBERS}) (?:of )?(?P<m2>{MONTH}))"
    rf"(?![a-z0-9:]| ?[ap]m\b)"
)
_WEEK_NUMBERS = LazyPattern(
    r"(?:in |of |during )?weeks? (?:number )?([0-9]{1,2}(?:(?:,? and |, ?)[0-9]{1,2})*)(?![0-9])"
)
_ALL_MONTHS = 12


def read_weekdays(text: str, position: int, parts: RhythmParts) -> int:
    found = _WEEKDAYS.match(text, position)
    if found is None:
        return -1
    if parts.weekdays:
        raise PhraseRefused(f'"{found[1]}" is a second set of weekdays')
    if parts.unit == "day" and not found[0].startswith(("on ", "from ")):
        raise PhraseRefused(f'every day and "{found[1]}" contradict each other')
    parts.weekdays = weekdays_in(found[1])
    items = list(_ONE_DAY_ITEM.compiled.finditer(found[1]))
    parts.is_weekday_range = any(item["low"] for item in items)
    if parts.each or all(item[0].endswith(("days", "ends")) for item in items):
        parts.recurs, parts.each = True, False
    return found.end()


def weekdays_in(text: str) -> frozenset[int]:
    """The weekdays of a list of names and ranges."""
    days: set[int] = set()
    for item in _ONE_DAY_ITEM.compiled.finditer(text):
        if item["low"]:
            low, high = _weekday(item["low"]), _weekday(item["high"])
            days |= {(low + more) % 7 for more in range((high - low) % 7 + 1)}
        else:
            days |= WORKDAYS if item["work"] else WEEKEND if item["end"] else {_weekday(item["one"])}
    return frozenset(days)


def _weekday(word: str) -> int:
    word = word.rstrip(".")
    number = WEEKDAYS.get(word)
    return number if number is not None else WEEKDAYS[word[:-1]]


def read_months(text: str, position: int, parts: RhythmParts) -> int:
    """In june and july; every june."""
    found = _MONTHS.match(text, position)
    if found is None and parts.each and (alone := _MONTHS_ALONE.match(text, position)):
        parts.each = False
        _set_months(parts, alone[0])
        return alone.end()
    if found is None:
        return -1
    _set_months(parts, found[2])
    return found.end()


def _set_months(parts: RhythmParts, text: str) -> None:
    if parts.months:
        raise PhraseRefused("months are said twice")
    parts.months = months_in(text)


def months_in(text: str) -> frozenset[int]:
    """The months of a list of names and ranges."""
    months: set[int] = set()
    for item in _ONE_MONTH_ITEM.compiled.finditer(text):
        low = MONTHS[item[1]]
        high = MONTHS[item[2]] if item[2] else low
        months |= {(low + more - 1) % 12 + 1 for more in range((high - low) % 12 + 1)}
    return frozenset(months)


def read_dates(text: str, position: int, parts: RhythmParts) -> int:
    """4 july, december 21st and 31st."""
    found = _DATES.match(text, position)
    if found is None:
        return -1
    parts.set_dates()
    parts.days = _checked(int(number) for number in re.findall(r"[0-9]+", found["d1"] or found["d2"]))
    _set_months(parts, found["m1"] or found["m2"])
    parts.unit = parts.unit or "year"
    return found.end()


def read_week_numbers(text: str, position: int, parts: RhythmParts) -> int:
    found = _WEEK_NUMBERS.match(text, position)
    if found is None:
        return -1
    numbers = tuple(sorted({int(number) for number in re.findall(r"[0-9]+", found[1])}))
    if not 1 <= numbers[0] <= numbers[-1] <= 53:
        raise PhraseRefused("weeks of a year are numbered 1 to 53")
    parts.weeks = numbers
    return found.end()


def read_ordinals(text: str, position: int, parts: RhythmParts) -> int:
    """The 1st and 15th, the first and third friday, the last weekday; and of which months."""
    if found := _POSITION.match(text, position):
        parts.set_dates()
        end = _period(text, found.end(), parts)
        if parts.unit == "week" and found[1] == "end":
            readings = (f"{text[:position]}every {day}{text[end:]}" for day in ("friday", "sunday"))
            raise PhraseRefused("a week can end on Friday, Saturday or Sunday", *readings)
        _place(parts, -1 if found[1] == "end" else 1)
        return end
    if (found := _ORDINALS.match(text, position)) is None:
        return -1
    parts.set_dates()
    end = _more_names(text, found, parts)
    end = _period(text, end, parts)
    _set_ordinals(parts, found[1])
    return end


def _period(text: str, position: int, parts: RhythmParts) -> int:
    """Of the month, of every 3rd month, of every quarter, of november."""
    found = _PERIOD.match(text, position)
    if found is None:
        return position
    parts.recurs = True
    parts.is_of_quarter = found[2] == "quarter"
    if parts.is_of_quarter and found[1]:
        raise PhraseRefused("quarters cannot be counted: say of every so many months")
    unit = "month" if parts.is_of_quarter else found[2]
    if parts.unit in ("", unit):
        counted = found[1] is not None
        parts.unit, parts.interval = unit, how_many(found[1]) if counted or not parts.interval else parts.interval
    elif unit == "week" or not (parts.unit == "year" and unit == "month"):
        raise PhraseRefused("how often it recurs is said twice")
    return found.end()


def _place(parts: RhythmParts, n: int) -> None:
    """The start or the end of a week, month, quarter or year."""
    if parts.unit == "week":
        parts.weekdays = frozenset({1})
    elif parts.unit == "month":
        parts.days = (n,)
    elif parts.unit == "year":
        parts.days, parts.months = (n,), frozenset({1 if n > 0 else _ALL_MONTHS})
    else:
        raise PhraseRefused("it does not say the start or end of what")


def _more_names(text: str, found: re.Match[str], parts: RhythmParts) -> int:
    """The first instance of tuesday *and friday*: of all these days together."""
    if not re.search(r"(?:instance|occurrence)s? of", found[1]):
        return found.end()
    end, names = found.end(), [re.findall(WEEKDAY, found[1])[-1]]
    while more := _MORE_NAMES.match(text, end):
        end = more.end()
        names.append(more[1])
    parts.picked_from = frozenset(_weekday(name) for name in names)
    return end


def _set_ordinals(parts: RhythmParts, text: str) -> None:
    numbers, kinds = _numbered(text)
    if parts.picked_from:
        parts.positions = _checked(numbers)
    elif set(kinds) <= {"", "day", "days"}:
        if parts.unit == "year" and not parts.months and "day" in kinds:
            parts.year_days = _checked(numbers, 366)
        else:
            parts.days = _checked(numbers)
    elif all(re.match(_WORKDAY, kind) for kind in kinds):
        parts.positions, parts.picked_from = _checked(numbers, 23), WORKDAYS
    elif all(kind.rstrip("s.") in WEEKDAYS or kind in WEEKDAYS for kind in kinds):
        counted = zip(_checked_each(numbers, 5), kinds, strict=True)
        parts.counted = tuple(sorted({CountedDay(_weekday(kind), number) for number, kind in counted}))
    else:
        raise PhraseRefused("days and weekdays of a month are different schedules: set one for each")


def _numbered(text: str) -> tuple[list[int], list[str]]:
    """The numbers and what each of them counts: what stands behind it, or behind a later one."""
    numbers: list[list[int]] = []
    kinds: list[str] = []
    for item in _ONE_ORDINAL.compiled.finditer(text):
        numbers.append(list(_from_to(item["low"], item["high"])))
        kinds.append(re.sub(r"^ (?:(?:instance|occurrence)s? of )?", "", item["kind"] or ""))
    kind = ""
    for place in range(len(kinds) - 1, -1, -1):
        kind = kinds[place] = kinds[place] or kind
    flat = [(number, kind) for some, kind in zip(numbers, kinds, strict=True) for number in some]
    return [number for number, _ in flat], [kind for _, kind in flat]


def _from_to(low: str, high: str | None) -> Iterator[int]:
    first = _ordinal(low)
    last = first if high is None else _ordinal(high)
    if high is not None and not 0 < first < last:
        raise PhraseRefused("a range of days goes from a day to a later one, such as the 1st through the 5th")
    yield from range(first, last + 1)


def _ordinal(word: str) -> int:
    if word == "last":
        return -1
    if word in ("penultimate", "next to last"):
        return -2
    number = int(re.match(r"[0-9]+", word)[0])  # type: ignore[index]  # every other word begins with its number
    return -number if "last" in word else number


def _checked_each(numbers: Iterable[int], highest: int) -> list[int]:
    found = list(numbers)
    if any(not 1 <= abs(number) <= highest for number in found):
        what = {31: "no month has such a day", 366: "no year has such a day"}.get(highest, "no month has that many")
        raise PhraseRefused(what)
    return found


def _checked(numbers: Iterable[int], highest: int = 31) -> tuple[int, ...]:
    return tuple(sorted(set(_checked_each(numbers, highest)), key=lambda n: (n < 0, n)))


_HEAD = LazyPattern(
    r"(?:except(?:ing)?(?: for)?|excluding|but(?: not)?|not|other than|apart from|skipping|without)"
    r"(?![a-z0-9]) ?(?=\S)"
)
_PREPOSITION = LazyPattern(r"(?:on |in |during |for |the (?=[0-9]|month of)|month of )*")
_MORE = LazyPattern(rf"{AND}(?!(?:ending|until|starting|for|from|at)\b)")
_DAYS = LazyPattern(DAY_LIST)
_MONTHS_OUT = LazyPattern(MONTH_LIST)
_MONTH_OF_YEAR = LazyPattern(rf"({MONTH})\b\.? ([0-9]{{4}})(?![0-9])")
_NUMBER = r"[0-9]{1,2}(?:st|nd|rd|th)?"
_DAYS_OUT = rf"{_NUMBER}(?:{AND}(?:the )?{_NUMBER})*"
_YEARLY = LazyPattern(
    rf"(?:(?P<d2>{_NUMBERS}) (?:of )?(?P<m2>{MONTH})|(?P<m1>{MONTH})\b\.? (?:the )?(?P<d1>{_NUMBERS}))\b"
    rf"(?!,? [0-9]{{4}}(?![0-9:]))(?![a-z0-9:/-])"
)
_MONTH_DAYS = LazyPattern(
    rf"([0-9]{{1,2}}(?:st|nd|rd|th)(?:{AND}(?:the )?[0-9]{{1,2}}(?:st|nd|rd|th))*)"
    r"(?: of (?:the|every|each) month)?(?![a-z0-9])"
)
_ONE_WEEKDAY = LazyPattern(r"(?:this|next|the coming|coming) ")


def read_exclusion(text: str, position: int, parts: RhythmParts, here: datetime) -> int:
    """Read "except …" with all that follows it; -1 where nothing of this kind stands."""
    head = _HEAD.match(text, position)
    if head is None:
        return -1
    at = _read_item(text, head.end(), parts.exclusions, here.date())
    if at < 0:
        raise PhraseRefused(f'"{text[position:][:60]}" was not understood: name weekdays, months or dates')
    while more := _MORE.match(text, at):
        end = _read_item(text, more.end(), parts.exclusions, here.date())
        if end < 0:
            break
        at = end
    return at


def _read_item(text: str, position: int, off: Exclusions, today: date) -> int:
    found = _PREPOSITION.match(text, position)
    at = found.end() if found else position
    for read in _READERS:
        if (end := read(text, at, off, today)) >= 0:
            return end
    return -1


def _read_month_of_year(text: str, at: int, off: Exclusions, today: date) -> int:
    found = _MONTH_OF_YEAR.match(text, at)
    if found is None:
        return -1
    first = date(int(found[2]), MONTHS[found[1]], 1)
    off.dates |= {first + timedelta(days=more) for more in range(month_length(first))}
    return found.end()


def _read_yearly(text: str, at: int, off: Exclusions, today: date) -> int:
    found = _YEARLY.match(text, at)
    if found is None:
        return -1
    month = MONTHS[found["m1"] or found["m2"]]
    for number in re.findall(r"[0-9]+", found["d1"] or found["d2"]):
        try:
            date(2000, month, int(number))  # a leap year
        except ValueError:
            raise PhraseRefused(f"there is no {number} {found['m1'] or found['m2']}") from None
        off.yearly |= {(month, int(number))}
    return found.end()


def _read_date(text: str, at: int, off: Exclusions, today: date) -> int:
    """One date: tomorrow, this friday, 3 december 2026."""
    found = None if _MONTH_DAYS.match(text, at) else read_date(text, at, today)
    found = found or read_dayword(text, at, today)
    if found is None and _ONE_WEEKDAY.match(text, at) and (weekday := read_weekday(text, at, today)):
        found = weekday[0][0], weekday[1]
    if found is None or found[0].part is not None:
        return -1
    off.dates |= {found[0].dates[0]}
    return found[1]


def _read_weekdays(text: str, at: int, off: Exclusions, today: date) -> int:
    found = _DAYS.match(text, at)
    if found is None:
        return -1
    off.weekdays |= weekdays_in(found[0])
    return found.end()


def _read_months(text: str, at: int, off: Exclusions, today: date) -> int:
    found = _MONTHS_OUT.match(text, at)
    if found is None:
        return -1
    off.months |= months_in(found[0])
    return found.end()


def _read_month_days(text: str, at: int, off: Exclusions, today: date) -> int:
    found = _MONTH_DAYS.match(text, at)
    if found is None:
        return -1
    numbers = {int(number) for number in re.findall(r"[0-9]+", found[1])}
    if not all(1 <= number <= 31 for number in numbers):
        raise PhraseRefused("no month has such a day")
    off.month_days |= numbers
    return found.end()


_READERS: tuple[Callable[[str, int, Exclusions, date], int], ...] = (
    _read_month_of_year,
    _read_yearly,
    _read_date,
    _read_weekdays,
    _read_months,
    _read_month_days,
)
