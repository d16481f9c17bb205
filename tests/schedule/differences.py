"""Every cron row where wakeful answers differently, and why: (expression, start) by reason."""

from __future__ import annotations

GAP = "a fixed time in a gap fires at the gap's end; the source skips it"
TWICE = "a fixed time that happens twice fires the first time only; the source fires it twice"
KEPT = "@every counts from its exact start; the source cuts the start to whole seconds"
SHORT = "@every below one second is refused; the source makes it one second"
EXTRA = "L, LW, 5L and # are understood here; the source refuses them"
EITHER = "a day of the month or a day of the week is enough; the source was asked for both at once"
NO_RANGE = "a range that ends in L is refused; the source understands it"

SPRING, AUTUMN = "2021-03-28T", "2021-10-31T"
DIFFERENCES: dict[tuple[str, str], str] = {
    ("TZ=America/New_York 0 30 2 11 Mar ?", "2012-03-11T00:00:00-05:00"): GAP,
    ("TZ=America/New_York 0 0 2 * * ?", "2012-03-11T00:00:00-05:00"): GAP,
    ("30 1,2,3,4,5 * * *", f"{SPRING}02:30:00+02:00"): GAP,
    ("0 3 * * *", "2021-03-27T03:00:00+02:00"): GAP,
    ("0 1,3,5,7,9,11,13,15,17,19,21,23 * * *", f"{SPRING}01:00:00+02:00"): GAP,
    ("33 30 1-10 * * *", f"{SPRING}02:30:33+02:00"): GAP,
    ("0 30 1-10 * * *", f"{SPRING}02:30:00+02:00"): GAP,
    ("1 2 * * *", "2020-03-29T01:59:55+01:00"): GAP,
    ("0 1,2,3,4,5 * * *", f"{AUTUMN}03:00:00+03:00"): TWICE,
    ("30 1,2,3,4,5 * * *", f"{AUTUMN}03:30:00+03:00"): TWICE,
    ("0 3 * * *", f"{AUTUMN}03:00:00+03:00"): TWICE,
    (f"0 {','.join(map(str, range(24)))} * * *", f"{AUTUMN}03:00:00+03:00"): TWICE,
    ("0 1-5 * * *", f"{AUTUMN}03:00:00+03:00"): TWICE,
    ("@every 15m50ns", "2012-07-09T14:45:00.005000+00:00"): KEPT,
    ("@every 0s", "2026-11-15T08:00:00+00:00"): SHORT,
    ("0 0 L * *", "2026-11-15T08:00:00+00:00"): EXTRA,
    ("0 0 LW * *", "2026-11-15T08:00:00+00:00"): EXTRA,
    ("0 0 * * 5L", "2026-11-15T08:00:00+00:00"): EXTRA,
    ("0 0 * * 5#2", "2026-11-15T08:00:00+00:00"): EXTRA,
}
# By the source's own option, which no expression says.
OPTIONS = {
    ("30 23 1-7 JAN MON-FRI#1", "2020-01-03T23:30:00+00:00"): EITHER,
    ("30 23 1-7 JAN MON-FRI#1", "2023-01-06T23:30:00+00:00"): EITHER,
    ("30 23 1-7 JAN MON-FRI#1", "2022-01-07T23:30:00+00:00"): EITHER,
}
# Refused whatever the start: nobody gets a wrong time from these.
REFUSED = {
    "35 * 1-l/8 * *": NO_RANGE,
    "0 0 29-L * *": NO_RANGE,
}

# Where python-dateutil answers differently from wakeful, in words that say when.
FIRST_WEEK = "BYSETPOS counts within whole weeks; the source counts the first week from DTSTART on"
NEW_YEAR = "a week that crosses New Year has its number in both years; the source leaves out or adds some of its days"
NO_TIME = "a step or position that meets no time it names is refused; the source searches to the end of the calendar"

# Phrases that a source takes for one moment and wakeful refuses on purpose, by reason. Each refusal says what can have
# been meant; docs/when.md has the rules. What is left are the definite points, of which nearly all must be right.
MORE_THAN_ONE = {
    "a day and month, or the other way round: date_order decides": (
        *("05/06", "12/1", "6/10/2018", "8/10/2012", "11/12/35", "next 5/12", "16 days from 01/02/2018", "friday 7/6"),
        *("8/1/2100 at 12:15am", "8/1/2100 at 1am", "8/1/2100 at 1:01", "8/1/2100 at 1 pm", "at 1 pm on 8/1/2100"),
        *("1pm on 8/1/2100", "8/1/2100 at 2:01pm", "8/1/2100 2:01pm"),
    ),
    "midnight is the start or the end of a day": (
        *("jan 3 2010 midnight", "jan 3 2010 at midnight", "November 18th 2010 at midnight"),
        "7 hours before tomorrow at midnight",
    ),
    "twelve is noon or midnight": ("this evening at 12", "this afternoon at 12"),
    "the end of a day is when work ends or its last minute": (
        *("end of the sunday", "end of this sunday", "the end of today"),
    ),
    "the weekday and the date are not the same day": (
        *("Thursday December 31", "Thursday December 31 2006", "Thursday December 31st", "Tuesday, January 10"),
        *("tue may 9", "friday march fifteenth nine a m", "may/22(tue)-11:30 am", "this friday 7.6"),
        "tomorrow, 13/04/21, at 7 pm",
    ),
    "a span of time, not a moment": (
        *("two upcoming weeks", "two upcoming week", "2 upcoming weeks", "2 upcoming week", "two upcoming days"),
        *("two upcoming day", "2 upcoming months", "two upcoming quarter", "2 upcoming quarter", "2 upcoming year"),
        *("next 2 days", "next two years", "next 2 weeks 3 days", "2024 Aug", "2023 Sept", "July 2019"),
        *("March in 1 year", "in 2014 A.D.", "December 31, 2022 10:00 pm - 1:00 am", "1st week of oct. on friday"),
        *("December 31, 2022 10:00 pm - 12:00 am", "1 weekend from now", "at 7 in 3 years"),
    ),
    "a vague amount": ("in a few minutes", "In several hours", "in a few year", "noonish", "tomorrow at 150ish"),
    "a lone number": ("5", "15h", "may 27 32", "friday 7.6", "friday 7-6", "2024/13/1"),
    "a time of day or a length of time": ("3h18",),
    "it is past already": ("today", "this morning", "friday 2018-7-6", "nov/2"),
    "words that say nothing about time": (
        *("eat pasty buns today at 2pm", "futuristically speaking today at 2pm", "The Deadline is Tomorrow"),
    ),
}
# Answered, and not as the source does: by the conventions in docs/when.md.
CONVENTIONS = {
    "next friday is the coming one": ("next wednesday", "next saturday", "Next Saturday", "2 days after next Friday"),
    "a weekday and a day of the month are a date that is both": ("Thu 1st at 4pm",),
    "a weekday is today while its time is ahead": ("sat 7 in the evening",),
    "days, months and years from now keep the time of day": ("a day from now", "two years hence"),
}
