"""The dates that the parts of a phrase mean together: a date checked against its weekday, a weekday in two weeks."""

from __future__ import annotations

from datetime import date, timedelta

from wakeful.schedule.dates import Day, month_length, next_month
from wakeful.schedule.names import MONTH_NAMES, WEEKDAY_NAMES, ordinal
from wakeful.schedule.offsets import Offset
from wakeful.schedule.once_parts import OnceParts
from wakeful.schedule.refusals import Contradiction, PhraseRefused

_WEEK = timedelta(days=7)
_COUNTED_WEEKDAYS = 5  # "2nd friday" counts the fridays of a month, "13th friday" cannot


def days_meant(said: OnceParts, today: date) -> tuple[date, ...]:
    """The dates it can be, soonest first; what was decided on the way is remarked."""
    if said.date and said.dayword:
        raise PhraseRefused("two dates are given")
    day = said.date or said.dayword
    if said.year is not None:
        day = _with_year(day, said.year)
    if said.offset is not None:
        return (_counted(said, said.offset, day, today),)
    if day is not None:
        return _with_weekday(said, day).dates
    if said.weekday is not None:
        return said.weekday[0].dates
    if said.clock is None:
        raise PhraseRefused("no day is given")
    return today, today + timedelta(days=1)


def is_weekday_in_weeks(said: OnceParts) -> bool:
    """Whether it is the weekday of a week that is so many weeks ahead: "friday in two weeks"."""
    if not (said.offset and said.offset.in_weeks and said.weekday and said.weekday[0].plain):
        return False
    words = said.words("offset")  # "for two weeks" and "within two weeks" are not a week
    return words.startswith("in ") or words.endswith((" now", " hence", " out"))


def check_weekday(said: OnceParts, day: date) -> None:
    if said.weekday is not None and day.toordinal() % 7 != said.weekday[1]:
        name = WEEKDAY_NAMES[day.toordinal() % 7]
        either = (said.with_part("weekday", name.lower()), said.with_part("date", ""))
        why = f"{day} is a {name}, not a {WEEKDAY_NAMES[said.weekday[1]]}"
        raise Contradiction(why, *(either if "date" in said.spans else ()))


def which_week(said: OnceParts, taken: date) -> tuple[str, ...]:
    """Which of two weekdays was taken, where the words are used for both."""
    if said.weekday is None or said.date or said.dayword:
        return ()
    day, other = said.weekday[0], said.weekday[0].other
    if other is None or taken != day.dates[0]:
        return ()
    name = WEEKDAY_NAMES[said.weekday[1]]
    meant = _day_and_month(other)
    return (
        f'"{said.words("weekday")}" is {name} {_day_and_month(taken)}: '
        f'for {name} {meant} say "{name.lower()} {meant.lower()}".',
    )


def _day_and_month(day: date) -> str:
    return f"{day.day} {MONTH_NAMES[day.month - 1]}"


def _in_full(day: date) -> str:
    return f"{WEEKDAY_NAMES[day.toordinal() % 7]} {_day_and_month(day)} {day.year}"


def _with_year(day: Day | None, year: int) -> Day:
    if day is None or not day.yearless:
        raise PhraseRefused(f'"{year}" does not belong to a date')
    try:
        return Day((day.dates[0].replace(year=year),))
    except ValueError:
        raise PhraseRefused(f"there is no 29 February {year}") from None


def _counted(said: OnceParts, offset: Offset, day: Day | None, today: date) -> date:
    """So far from today, or from the day that is named after it: "2 days after next friday"."""
    if day is None and is_weekday_in_weeks(said):
        return _weekday_in_weeks(said, offset, today)
    counts_from_weekday = offset.from_date and said.weekday is not None and said.comes_before("offset", "weekday")
    if counts_from_weekday and said.weekday is not None:
        if day is not None:
            day = _with_weekday(said, day)
        elif len(said.weekday[0].dates) == 1:
            day = said.weekday[0]
            said.remarks += which_week(said, day.dates[0])
    counted = _shifted(offset, day, today)
    if not counts_from_weekday:
        check_weekday(said, counted)
    return counted


def _shifted(offset: Offset, day: Day | None, today: date) -> date:
    counts_from_day = offset.from_date and day is not None and not offset.millis
    if not counts_from_day and not (offset.takes_a_clock and day is None and not offset.from_date):
        raise PhraseRefused("an offset and a date cannot be combined like that")
    return offset.shift(day.dates[0] if day else today)


def _weekday_in_weeks(said: OnceParts, offset: Offset, today: date) -> date:
    """That weekday of the week, Monday to Sunday, in which today's weekday is so many weeks ahead."""
    assert said.weekday is not None
    there = offset.shift(today)
    day = there + timedelta(days=(said.weekday[1] - 1) % 7 - (there.toordinal() - 1) % 7)
    if day < today + _WEEK:  # "friday in a week", said on a Sunday: hardly the one in five days
        readings = [said.with_part("offset", f"{_day_and_month(one)} {one.year}".lower()) for one in (day, day + _WEEK)]
        name = WEEKDAY_NAMES[said.weekday[1]]
        raise PhraseRefused(f"that can be {name} {_day_and_month(day)} or a week later", *readings)
    if day != there:
        words = said.words("offset")
        said.remarks += (f'"{words}" is {_in_full(there)}: {_in_full(day)}, in the same week, is meant.',)
    return day


def _with_weekday(said: OnceParts, day: Day) -> Day:
    """The day with the weekday beside it: the next date that is both, where its month or year is not said."""
    if said.weekday is None:
        return day
    fits = day.dates[0].toordinal() % 7 == said.weekday[1]
    if day.monthless and said.between("date", "weekday") == " " and not (fits and day.dates[0].day == 1):
        _check_is_not_counted(said, day.dates[0].day, said.weekday[1])
    if day.monthless and said.weekday[0].plain and said.comes_before("weekday", "date"):
        return _next_that_is_both(said, day.dates[0], said.weekday[1])
    if not fits and day.yearless and said.weekday[0].plain:
        following = _a_year_later(day.dates[0])
        if following is not None and following.toordinal() % 7 == said.weekday[1]:
            name, coming = WEEKDAY_NAMES[said.weekday[1]], day.dates[0]
            said.remarks += (
                f"{_day_and_month(coming)} is not a {name} in {coming.year}: {_in_full(following)} is meant.",
            )
            return Day((following,))
    check_weekday(said, day.dates[0])
    return day


def _check_is_not_counted(said: OnceParts, number: int, weekday: int) -> None:
    """PhraseRefused for "2nd friday"; there is no 13th friday in a month."""
    if number > _COUNTED_WEEKDAYS:
        return
    nth, name = ordinal(number), WEEKDAY_NAMES[weekday].lower()
    said.spans["counted"] = (said.spans["date"][0], said.spans["weekday"][1])
    readings = (f"{name} the {nth}", f"{nth} {name} of this month", f"{nth} {name} of next month")
    raise PhraseRefused(
        f'"{nth} {name}" can be a day of the month or count the {name.title()}s of one',
        *(said.with_part("counted", words) for words in readings),
    )


def _next_that_is_both(said: OnceParts, coming: date, weekday: int) -> Day:
    """Every day of the month comes on every weekday within two years, the 31st too."""
    found, number = coming, coming.day
    while found.toordinal() % 7 != weekday:
        month = next_month(found)
        while month_length(month) < number:
            month = next_month(month)
        found = month.replace(day=number)
    if found != coming or said.number is not None:
        name = WEEKDAY_NAMES[weekday]
        said.remarks += (f'"{name} {ordinal(number)}" is {_in_full(found)}, the next {ordinal(number)} on a {name}.',)
    return Day((found,))


def _a_year_later(day: date) -> date | None:
    """None for 29 February."""
    try:
        return day.replace(year=day.year + 1)
    except ValueError:
        return None
