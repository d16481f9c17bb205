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
