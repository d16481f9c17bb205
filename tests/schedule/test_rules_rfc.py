"""Every example of RFC 5545, section 3.8.5.3, with the dates it lists; all in New York, at nine unless it says else."""

from __future__ import annotations

from datetime import datetime
from itertools import islice

import pytest

from .helpers import rule_fires

# Of those without an end the RFC lists the first ones: so many are compared. "1997-09: 2-4 9" is three days and one.
SEPTEMBER_2 = "19970902T090000"
EXAMPLES: list[tuple[str, str, str, bool]] = [
    # rule, DTSTART, days, whether it ends with them
    ("FREQ=DAILY;COUNT=10", SEPTEMBER_2, "1997-09: 2-11", True),
    (
        "FREQ=DAILY;UNTIL=19971224T000000Z",
        SEPTEMBER_2,
        "1997-09: 2-30 | 1997-10: 1-31 | 1997-11: 1-30 | 1997-12: 1-23",
        True,
    ),
    (
        "FREQ=DAILY;INTERVAL=2",
        SEPTEMBER_2,
        "1997-09: 2 4 6 8 10 12 14 16 18 20 22 24 26 28 30"
        " | 1997-10: 2 4 6 8 10 12 14 16 18 20 22 24 26 28 30"
        " | 1997-11: 1 3 5 7 9 11 13 15 17 19 21 23 25 27 29 | 1997-12: 1 3",
        False,
    ),
    ("FREQ=DAILY;INTERVAL=10;COUNT=5", SEPTEMBER_2, "1997-09: 2 12 22 | 1997-10: 2 12", True),
    (
        "FREQ=YEARLY;UNTIL=20000131T140000Z;BYMONTH=1;BYDAY=SU,MO,TU,WE,TH,FR,SA",
        "19980101T090000",
        "1998-01: 1-31 | 1999-01: 1-31 | 2000-01: 1-31",
        True,
    ),
    (
        "FREQ=DAILY;UNTIL=20000131T140000Z;BYMONTH=1",
        "19980101T090000",
        "1998-01: 1-31 | 1999-01: 1-31 | 2000-01: 1-31",
        True,
    ),
    ("FREQ=WEEKLY;COUNT=10", SEPTEMBER_2, "1997-09: 2 9 16 23 30 | 1997-10: 7 14 21 28 | 1997-11: 4", True),
    (
        "FREQ=WEEKLY;UNTIL=19971224T000000Z",
        SEPTEMBER_2,
        "1997-09: 2 9 16 23 30 | 1997-10: 7 14 21 28 | 1997-11: 4 11 18 25 | 1997-12: 2 9 16 23",
        True,
    ),
    (
        "FREQ=WEEKLY;INTERVAL=2;WKST=SU",
        SEPTEMBER_2,
        "1997-09: 2 16 30 | 1997-10: 14 28 | 1997-11: 11 25 | 1997-12: 9 23 | 1998-01: 6 20 | 1998-02: 3 17",
        False,
    ),
    (
        "FREQ=WEEKLY;UNTIL=19971007T000000Z;WKST=SU;BYDAY=TU,TH",
        SEPTEMBER_2,
        "1997-09: 2 4 9 11 16 18 23 25 30 | 1997-10: 2",
        True,
    ),
    (
        "FREQ=WEEKLY;COUNT=10;WKST=SU;BYDAY=TU,TH",
        SEPTEMBER_2,
        "1997-09: 2 4 9 11 16 18 23 25 30 | 1997-10: 2",
        True,
    ),
    (
        "FREQ=WEEKLY;INTERVAL=2;UNTIL=19971224T000000Z;WKST=SU;BYDAY=MO,WE,FR",
        "19970901T090000",
        "1997-09: 1 3 5 15 17 19 29 | 1997-10: 1 3 13 15 17 27 29 31 | 1997-11: 10 12 14 24 26 28"
        " | 1997-12: 8 10 12 22",
        True,
    ),
    (
        "FREQ=WEEKLY;INTERVAL=2;COUNT=8;WKST=SU;BYDAY=TU,TH",
        SEPTEMBER_2,
        "1997-09: 2 4 16 18 30 | 1997-10: 2 14 16",
        True,
    ),
    (
        "FREQ=MONTHLY;COUNT=10;BYDAY=1FR",
        "19970905T090000",
        "1997-09: 5 | 1997-10: 3 | 1997-11: 7 | 1997-12: 5 | 1998-01: 2 | 1998-02: 6 | 1998-03: 6 | 1998-04: 3"
        " | 1998-05: 1 | 1998-06: 5",
        True,
    ),
    (
        "FREQ=MONTHLY;UNTIL=19971224T000000Z;BYDAY=1FR",
        "19970905T090000",
        "1997-09: 5 | 1997-10: 3 | 1997-11: 7 | 1997-12: 5",
        True,
    ),
    (
        "FREQ=MONTHLY;INTERVAL=2;COUNT=10;BYDAY=1SU,-1SU",
        "19970907T090000",
        "1997-09: 7 28 | 1997-11: 2 30 | 1998-01: 4 25 | 1998-03: 1 29 | 1998-05: 3 31",
        True,
    ),
    (
        "FREQ=MONTHLY;COUNT=6;BYDAY=-2MO",
        "19970922T090000",
        "1997-09: 22 | 1997-10: 20 | 1997-11: 17 | 1997-12: 22 | 1998-01: 19 | 1998-02: 16",
        True,
    ),
    (
        "FREQ=MONTHLY;BYMONTHDAY=-3",
        "19970928T090000",
        "1997-09: 28 | 1997-10: 29 | 1997-11: 28 | 1997-12: 29 | 1998-01: 29 | 1998-02: 26",
        False,
    ),
    (
        "FREQ=MONTHLY;COUNT=10;BYMONTHDAY=2,15",
        SEPTEMBER_2,
        "1997-09: 2 15 | 1997-10: 2 15 | 1997-11: 2 15 | 1997-12: 2 15 | 1998-01: 2 15",
        True,
    ),
    (
        "FREQ=MONTHLY;COUNT=10;BYMONTHDAY=1,-1",
        "19970930T090000",
        "1997-09: 30 | 1997-10: 1 31 | 1997-11: 1 30 | 1997-12: 1 31 | 1998-01: 1 31 | 1998-02: 1",
        True,
    ),
    (
        "FREQ=MONTHLY;INTERVAL=18;COUNT=10;BYMONTHDAY=10,11,12,13,14,15",
        "19970910T090000",
        "1997-09: 10-15 | 1999-03: 10-13",
        True,
    ),
    (
        "FREQ=MONTHLY;INTERVAL=2;BYDAY=TU",
        SEPTEMBER_2,
        "1997-09: 2 9 16 23 30 | 1997-11: 4 11 18 25 | 1998-01: 6 13 20 27 | 1998-03: 3 10 17 24 31",
        False,
    ),
    (
        "FREQ=YEARLY;COUNT=10;BYMONTH=6,7",
        "19970610T090000",
        "1997-06: 10 | 1997-07: 10 | 1998-06: 10 | 1998-07: 10 | 1999-06: 10 | 1999-07: 10 | 2000-06: 10"
        " | 2000-07: 10 | 2001-06: 10 | 2001-07: 10",
        True,
    ),
    (
        "FREQ=YEARLY;INTERVAL=2;COUNT=10;BYMONTH=1,2,3",
        "19970310T090000",
        "1997-03: 10 | 1999-01: 10 | 1999-02: 10 | 1999-03: 10 | 2001-01: 10 | 2001-02: 10 | 2001-03: 10"
        " | 2003-01: 10 | 2003-02: 10 | 2003-03: 10",
        True,
    ),
    (
        "FREQ=YEARLY;INTERVAL=3;COUNT=10;BYYEARDAY=1,100,200",
        "19970101T090000",
        "1997-01: 1 | 1997-04: 10 | 1997-07: 19 | 2000-01: 1 | 2000-04: 9 | 2000-07: 18 | 2003-01: 1 | 2003-04: 10"
        " | 2003-07: 19 | 2006-01: 1",
        True,
    ),
    ("FREQ=YEARLY;BYDAY=20MO", "19970519T090000", "1997-05: 19 | 1998-05: 18 | 1999-05: 17", False),
    ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "19970512T090000", "1997-05: 12 | 1998-05: 11 | 1999-05: 17", False),
    (
        "FREQ=YEARLY;BYMONTH=3;BYDAY=TH",
        "19970313T090000",
        "1997-03: 13 20 27 | 1998-03: 5 12 19 26 | 1999-03: 4 11 18 25",
        False,
    ),
    (
        "FREQ=YEARLY;BYDAY=TH;BYMONTH=6,7,8",
        "19970605T090000",
        "1997-06: 5 12 19 26 | 1997-07: 3 10 17 24 31 | 1997-08: 7 14 21 28 | 1998-06: 4 11 18 25"
        " | 1998-07: 2 9 16 23 30 | 1998-08: 6 13 20 27 | 1999-06: 3 10 17 24 | 1999-07: 1 8 15 22 29"
        " | 1999-08: 5 12 19 26",
        False,
    ),
    (
        "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13 EXDATE;TZID=America/New_York:19970902T090000",
        SEPTEMBER_2,
        "1998-02: 13 | 1998-03: 13 | 1998-11: 13 | 1999-08: 13 | 2000-10: 13",
        False,
    ),
    (
        "FREQ=MONTHLY;BYDAY=SA;BYMONTHDAY=7,8,9,10,11,12,13",
        "19970913T090000",
        "1997-09: 13 | 1997-10: 11 | 1997-11: 8 | 1997-12: 13 | 1998-01: 10 | 1998-02: 7 | 1998-03: 7 | 1998-04: 11"
        " | 1998-05: 9 | 1998-06: 13",
        False,
    ),
    (
        "FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8",
        "19961105T090000",
        "1996-11: 5 | 2000-11: 7 | 2004-11: 2",
        False,
    ),
    (
        "FREQ=MONTHLY;COUNT=3;BYDAY=TU,WE,TH;BYSETPOS=3",
        "19970904T090000",
        "1997-09: 4 | 1997-10: 7 | 1997-11: 6",
        True,
    ),
    (
        "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2",
        "19970929T090000",
        "1997-09: 29 | 1997-10: 30 | 1997-11: 27 | 1997-12: 30 | 1998-01: 29 | 1998-02: 26 | 1998-03: 30",
        False,
    ),
    (
        "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=MO",
        "19970805T090000",
        "1997-08: 5 10 19 24",
        True,
    ),
    (
        "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU",
        "19970805T090000",
        "1997-08: 5 17 19 31",
        True,
    ),
    (
        "FREQ=MONTHLY;BYMONTHDAY=15,30;COUNT=5",
        "20070115T090000",
        "2007-01: 15 30 | 2007-02: 15 | 2007-03: 15 30",
        True,
    ),
]


@pytest.mark.parametrize(("rule", "start", "days", "ends"), EXAMPLES, ids=[example[0] for example in EXAMPLES])
def test_an_example_of_the_rfc_fires_on_the_days_it_lists(rule: str, start: str, days: str, ends: bool) -> None:
    expected = listed(days)
    got = list(islice(rule_fires(f"DTSTART;TZID=America/New_York:{start} RRULE:{rule}"), len(expected) + 1))
    assert [f"{fire:%Y-%m-%d %H:%M}" for fire in got[: len(expected)]] == [f"{day} 09:00" for day in expected]
    assert len(got) == len(expected) + (not ends)


def listed(days: str) -> list[str]:
    """The days of a line of the table."""
    found = []
    for month, _, numbers in (part.partition(": ") for part in days.split(" | ")):
        for number in numbers.split():
            low, _, high = number.partition("-")
            found += [f"{month}-{day:02}" for day in range(int(low), int(high or low) + 1)]
    return found


# Those that name times of day; the RFC gives 17:00Z as the end of the first and means 17:00 in New York.
TWENTY = [f"{hour:02}:{minute:02}" for hour in range(9, 17) for minute in (0, 20, 40)]
TIMED: list[tuple[str, list[str], bool]] = [
    ("FREQ=HOURLY;INTERVAL=3;UNTIL=19970902T210000Z", ["2 09:00", "2 12:00", "2 15:00"], True),
    (
        "FREQ=MINUTELY;INTERVAL=15;COUNT=6",
        [f"2 {clock}" for clock in ("09:00", "09:15", "09:30", "09:45", "10:00", "10:15")],
        True,
    ),
    ("FREQ=MINUTELY;INTERVAL=90;COUNT=4", ["2 09:00", "2 10:30", "2 12:00", "2 13:30"], True),
    (
        "FREQ=DAILY;BYHOUR=9,10,11,12,13,14,15,16;BYMINUTE=0,20,40",
        [f"{day} {clock}" for day in (2, 3) for clock in TWENTY],
        False,
    ),
    (
        "FREQ=MINUTELY;INTERVAL=20;BYHOUR=9,10,11,12,13,14,15,16",
        [f"{day} {clock}" for day in (2, 3) for clock in TWENTY],
        False,
    ),
]


@pytest.mark.parametrize(("rule", "expected", "ends"), TIMED, ids=[example[0] for example in TIMED])
def test_an_example_of_the_rfc_fires_at_the_times_it_lists(rule: str, expected: list[str], ends: bool) -> None:
    got = list(islice(rule_fires(f"DTSTART;TZID=America/New_York:{SEPTEMBER_2} RRULE:{rule}"), len(expected) + 1))
    assert [f"{fire.day} {fire:%H:%M}" for fire in got[: len(expected)]] == expected
    assert all(isinstance(fire, datetime) and fire.year == 1997 for fire in got)
    assert len(got) == len(expected) + (not ends)
