"""Recurrence rules: how they are written, what they count from, and what becomes of the clocks."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.errors import InvalidSchedule
from wakeful.schedule import anchor_now, counts_from_start, describe, is_rule, parse, schedule, split_zone
from wakeful.schedule.recurrence import CountedDay, Recurrence, RecurrenceRule, read
from wakeful.schedule.recurrence_words import read_words

from .helpers import BERLIN, NOW, QUICK, rule_fires, say
from .rule_oracle import random_rule

TUESDAYS = "DTSTART;TZID=Europe/Berlin:20270105T090000 RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=TU"


def days(text: str, n: int = 3, *, anchor: datetime | None = None, timezone: str = BERLIN) -> list[str]:
    """The first fires on the wall clock of the rule's zone."""
    return [f"{fire:%Y-%m-%d %H:%M}" for fire in islice(rule_fires(text, timezone=timezone, anchor=anchor), n)]


@pytest.mark.parametrize(
    ("text", "canonical", "zone"),
    [
        (TUESDAYS, "DTSTART:20270105T090000 RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=TU", BERLIN),
        ("DTSTART:20270105T080000Z RRULE:FREQ=DAILY", "DTSTART:20270105T080000 RRULE:FREQ=DAILY", "UTC"),
        ("freq=daily;interval=3", "RRULE:FREQ=DAILY;INTERVAL=3", "Asia/Tokyo"),
        ("RRULE:FREQ=DAILY;WKST=MO;INTERVAL=1;BYHOUR=9", "RRULE:FREQ=DAILY;BYHOUR=9;BYMINUTE=0", "Asia/Tokyo"),
        (
            "EXDATE:20270107\r\nRRULE:BYDAY=TH,MO,MO;FREQ=WEEKLY;BYMINUTE=0;BYHOUR=17,9\r\nDTSTART:20270105T090000\n",
            "DTSTART:20270105T090000 RRULE:FREQ=WEEKLY;BYDAY=MO,TH;BYHOUR=9,17;BYMINUTE=0 EXDATE:20270107",
            "Asia/Tokyo",
        ),
        (
            "DTSTART:20270105 RRULE:FREQ=MONTHLY;BYDAY=+1FR,-1FR EXDATE;TZID=Europe/Berlin:20270108T000000",
            "DTSTART:20270105 RRULE:FREQ=MONTHLY;BYDAY=-1FR,1FR EXDATE:20270107T230000Z",
            "Asia/Tokyo",
        ),
        ("TZ=Europe/Berlin RRULE:FREQ=YEARLY", "RRULE:FREQ=YEARLY", BERLIN),
    ],
)
def test_a_rule_has_one_way_of_writing_and_a_zone(text: str, canonical: str, zone: str) -> None:
    assert split_zone(text, "Asia/Tokyo") == (canonical, zone)
    assert split_zone(canonical, zone) == (canonical, zone)
    understood = parse(text, timezone="Asia/Tokyo", now=NOW)
    assert (understood.kind, understood.cron_expr, understood.timezone) == ("cron", canonical, zone)


def test_a_rule_is_made_from_values() -> None:
    rule = RecurrenceRule("MONTHLY", 2, by_day=(CountedDay(5, 1), CountedDay(5, 3)), by_hour=(9,), by_minute=(0,))
    text = Recurrence((rule,)).text()
    assert text == "RRULE:FREQ=MONTHLY;INTERVAL=2;BYDAY=1FR,3FR;BYHOUR=9;BYMINUTE=0"
    assert read(text, BERLIN) == (Recurrence((rule,)), BERLIN)


def test_what_is_a_rule_and_what_counts_from_its_start() -> None:
    assert is_rule("rrule:freq=daily")
    assert is_rule("TZ=UTC FREQ=DAILY")
    assert not is_rule("0 9 * * 1-5")
    assert not is_rule("every day")
    assert counts_from_start("FREQ=DAILY")
    assert counts_from_start("@every 5m")
    assert not counts_from_start(TUESDAYS)
    assert not counts_from_start("0 9 * * *")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("RRULE:FREQ=SECONDLY", "FREQ: 'SECONDLY'.*@every 10s"),
        ("RRULE:BYHOUR=9", "FREQ is missing"),
        ("RRULE:FREQ=DAILY;BYHOUR=25", "BYHOUR: '25'.*0 to 23"),
        ("RRULE:FREQ=DAILY;INTERVAL=0", "INTERVAL: '0'.*1 to 99999"),
        ("RRULE:FREQ=MONTHLY;BYMONTHDAY=0", "BYMONTHDAY: '0'.*-1 to -31 from the end"),
        ("RRULE:FREQ=WEEKLY;BYDAY=XX", "BYDAY: 'XX'.*MO, TU"),
        ("RRULE:FREQ=WEEKLY;BYDAY=2MO", "BYDAY counts weekdays.*FREQ=MONTHLY"),
        ("RRULE:FREQ=WEEKLY;BYMONTHDAY=3", "BYMONTHDAY has no meaning with FREQ=WEEKLY"),
        ("RRULE:FREQ=DAILY;BYYEARDAY=3", "BYYEARDAY has no meaning with FREQ=DAILY"),
        ("RRULE:FREQ=MONTHLY;BYWEEKNO=3", "BYWEEKNO has no meaning.*FREQ=YEARLY"),
        ("RRULE:FREQ=DAILY;BYSETPOS=1", "BYSETPOS picks from"),
        ("RRULE:FREQ=DAILY;COUNT=3;UNTIL=20280101", "COUNT and UNTIL"),
        ("RRULE:FREQ=DAILY;COUNT=5001", "COUNT: '5001'.*max_fires"),
        ("RRULE:FREQ=DAILY;FREQ=WEEKLY", "FREQ is given twice"),
        ("RRULE:FREQ=DAILY;BYEASTER=1", "BYEASTER is not a part of RRULE"),
        ("RRULE:FREQ=DAILY;WKST=1", "WKST: '1'"),
        ("RRULE:FREQ=DAILY;UNTIL=tomorrow", "UNTIL: 'TOMORROW' is not a date"),
        ("DTSTART:20271301T000000 RRULE:FREQ=DAILY", "DTSTART: '20271301T000000' is not a date"),
        ("DTSTART:20270101 DTSTART:20270102 RRULE:FREQ=DAILY", "DTSTART is given more than once"),
        ("DTSTART;TZID=Europe/Berlin:20270101T000000Z RRULE:FREQ=DAILY", "DTSTART has a zone and a Z"),
        ("DTSTART;VALUE=PERIOD:20270101 RRULE:FREQ=DAILY", "VALUE=PERIOD is not accepted"),
        ("RRULE;X=1:FREQ=DAILY", "RRULE X=1 is not accepted"),
        ("DTSTART:20270101T000000", "RRULE is missing"),
        ("EXRULE:FREQ=DAILY", "EXRULE is not accepted.*EXDATE"),
        ("RRULE:FREQ=DAILY hello", "hello is not a part"),
        ("RRULE:FREQ=DAILY RRULE:FREQ=WEEKLY", "DTSTART is missing"),
        ("RRULE:FREQ=DAILY RDATE:20270101", "RDATE names a day"),
        (" ".join(["DTSTART:20270101", *["RRULE:FREQ=DAILY"] * 11]), "RRULE is given 11 times"),
        ("DTSTART:20270101T000600 RRULE:FREQ=MINUTELY;INTERVAL=60;BYMINUTE=5", "never fires"),
        ("RRULE:FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSETPOS=2", "never fires"),
        (f"RRULE:FREQ=DAILY EXDATE:{','.join(['20270101'] * 230)}", "longer than 2000"),
    ],
)
def test_a_refusal_names_the_part_and_what_it_accepts(text: str, said: str) -> None:
    with pytest.raises(InvalidSchedule, match=f"(?s){said}"):
        schedule(text, anchor=NOW)
    with pytest.raises(InvalidSchedule) as refused:
        say(text)
    assert refused.value.field == "when"
    assert refused.value.fix or "longer" in refused.value.message


def test_a_zone_that_is_not_known_is_named() -> None:
    with pytest.raises(InvalidSchedule) as refused:
        say("DTSTART;TZID=Mars/Olympus:20270101T000000 RRULE:FREQ=DAILY")
    assert refused.value.field == "timezone"


@pytest.mark.parametrize(
    "text",
    [
        "RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "RRULE:FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYSETPOS=3",
        "DTSTART:20200101T090000 RRULE:FREQ=DAILY;COUNT=5",
        "RRULE:FREQ=DAILY;UNTIL=20200101",
        "RDATE:20200101T090000",
    ],
)
def test_what_does_not_fire_any_more_is_refused(text: str) -> None:
    assert schedule(text, BERLIN, anchor=NOW).after(NOW) is None
    with pytest.raises(InvalidSchedule, match="does not fire after now"):
        say(text)


def test_a_rule_without_a_start_is_counted_from_its_first_fire() -> None:
    sunday = NOW  # 09:00 in Berlin
    assert days("FREQ=WEEKLY;INTERVAL=2;BYDAY=TU;BYHOUR=9", anchor=sunday) == [
        *("2026-11-17 09:00", "2026-12-01 09:00", "2026-12-15 09:00")
    ]
    assert days("FREQ=DAILY;INTERVAL=3;BYHOUR=8,10", 4, anchor=sunday) == [
        *("2026-11-15 10:00", "2026-11-18 08:00", "2026-11-18 10:00", "2026-11-21 08:00")
    ]
    assert days("FREQ=YEARLY;INTERVAL=4;BYMONTH=7;BYMONTHDAY=4;BYHOUR=12", 2, anchor=sunday) == [
        *("2027-07-04 12:00", "2031-07-04 12:00")
    ]


def test_a_rule_without_a_time_has_that_of_its_start_to_the_millisecond() -> None:
    start = NOW + timedelta(minutes=17, seconds=33, milliseconds=123)
    fires = list(islice(rule_fires("FREQ=DAILY;INTERVAL=3", timezone=BERLIN, anchor=start), 3))
    assert fires == [start + timedelta(days=3 * n) for n in range(3)]
    assert days("FREQ=DAILY;INTERVAL=3;BYMINUTE=5", 2, anchor=start) == ["2026-11-16 09:05", "2026-11-19 09:05"]


def test_counted_fires_begin_with_the_first_that_can_still_fire() -> None:
    for text in ("FREQ=DAILY;INTERVAL=3;COUNT=4", "FREQ=DAILY;COUNT=4;BYHOUR=9", "FREQ=HOURLY;COUNT=4"):
        assert len(say(text).next(9)) == 4
        anchor = anchor_now(text, BERLIN, NOW)
        assert schedule(text, BERLIN, anchor=anchor).after(NOW) == anchor


@pytest.mark.parametrize("seconds", [0, 1, 1800])
def test_a_rule_set_at_its_time_of_day_begins_with_the_next(seconds: int) -> None:
    understood = say("every 3 days at 9am", now=NOW + timedelta(seconds=seconds))  # it is nine
    assert understood.next(2) == [NOW + timedelta(days=1), NOW + timedelta(days=4)]


def test_what_the_clocks_moved_is_not_taken_for_the_time_of_day() -> None:
    before = datetime(2027, 3, 27, 1, 30, tzinfo=UTC)  # 02:30, which the next day does not have
    fires = say("FREQ=DAILY", now=before).next(2)
    assert fires == [datetime(2027, 3, 28, 1, tzinfo=UTC), datetime(2027, 3, 29, 0, 30, tzinfo=UTC)]


def test_a_rule_can_be_checked_without_an_anchor_but_not_asked() -> None:
    rhythm = schedule("FREQ=DAILY")
    with pytest.raises(InvalidSchedule, match="counts from"):
        rhythm.after(NOW)


def test_dates_more_and_less() -> None:
    text = "DTSTART:20270105T090000 RRULE:FREQ=DAILY;COUNT=4 RDATE:20270120T120000,20270121 EXDATE:20270106T090000"
    assert days(text, 9) == [
        *("2027-01-05 09:00", "2027-01-07 09:00", "2027-01-08 09:00", "2027-01-20 12:00", "2027-01-21 09:00")
    ]
    hourly = "DTSTART:20270105T090000 RRULE:FREQ=HOURLY;INTERVAL=8 EXDATE:20270106"
    assert days(hourly, 4) == ["2027-01-05 09:00", "2027-01-05 17:00", "2027-01-07 01:00", "2027-01-07 09:00"]


def test_several_rules_are_a_union() -> None:
    text = "DTSTART:20270104T090000 RRULE:FREQ=WEEKLY;BYDAY=MO RRULE:FREQ=MONTHLY;BYMONTHDAY=11,12"
    assert days(text, 4) == ["2027-01-04 09:00", "2027-01-11 09:00", "2027-01-12 09:00", "2027-01-18 09:00"]


def test_a_day_as_the_end_is_part_of_it() -> None:
    start = "DTSTART:20270105T090000 RRULE:FREQ=DAILY;UNTIL="
    assert len(days(f"{start}20270107", 9)) == 3
    assert len(days(f"{start}20270107T085959", 9)) == 2
    assert len(days(f"{start}20270107T080000Z", 9)) == 3
    assert len(days(f"{start}20270107T075959Z", 9)) == 2


def test_a_start_that_the_rule_does_not_name_is_not_a_fire() -> None:
    assert days(TUESDAYS.replace("0105T", "0104T"), 1) == ["2027-01-05 09:00"]


def test_named_times_in_a_gap_fire_at_its_end_and_repeated_ones_once() -> None:
    nightly = "DTSTART:20270327T023000 RRULE:FREQ=DAILY"
    assert days(nightly, 3) == ["2027-03-27 02:30", "2027-03-28 03:00", "2027-03-29 02:30"]
    autumn = [
        fire.isoformat() for fire in islice(rule_fires("DTSTART:20271030T023000 RRULE:FREQ=DAILY", timezone=BERLIN), 3)
    ]
    assert autumn == ["2027-10-30T02:30:00+02:00", "2027-10-31T02:30:00+02:00", "2027-11-01T02:30:00+01:00"]


def test_what_would_be_before_the_start_does_not_fire_where_a_gap_swallows_both() -> None:
    text = "DTSTART:20270328T023000 RRULE:FREQ=DAILY;BYHOUR=2;BYMINUTE=15"
    assert days(text, 1) == ["2027-03-29 02:15"]


def test_a_long_interval_is_found_however_long_it_is() -> None:
    assert days("DTSTART:20000101T090000 RRULE:FREQ=DAILY;INTERVAL=50000", 2)[1] == "2136-11-23 09:00"
    assert days("DTSTART:20000101T090000 RRULE:FREQ=WEEKLY;INTERVAL=5000;BYDAY=SU", 2)[1] == "2095-10-30 09:00"
    assert days("DTSTART:20000101T090000 RRULE:FREQ=MONTHLY;INTERVAL=1500", 2)[1] == "2125-01-01 09:00"


def test_steps_of_hours_follow_the_wall_clock() -> None:
    spring = "DTSTART:20270328T010000 RRULE:FREQ=HOURLY"
    assert days(spring, 3) == ["2027-03-28 01:00", "2027-03-28 03:00", "2027-03-28 04:00"]
    autumn = "DTSTART:20271031T010000 RRULE:FREQ=HOURLY;COUNT=4"
    assert days(autumn, 9) == ["2027-10-31 01:00", "2027-10-31 02:00", "2027-10-31 02:00", "2027-10-31 03:00"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=TU;BYHOUR=9", "every 2 weeks on Tuesday at 09:00"),
        (TUESDAYS, "every 2 weeks on Tuesday, counted from 5 January 2027 at 09:00"),
        ("FREQ=DAILY;INTERVAL=3;COUNT=5", "every 3 days, counted from its start, 5 times"),
        ("FREQ=DAILY;BYHOUR=9;COUNT=1", "every day at 09:00, once"),
        ("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9", "every week on Monday through Friday at 09:00"),
        ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=17", "every month on the last weekday at 17:00"),
        (
            "FREQ=MONTHLY;BYDAY=1FR,3FR,-2MO;BYHOUR=9,17;UNTIL=20271224",
            "every month on the 2nd to last Monday, first and third Friday at 09:00 and 17:00, until 24 December 2027",
        ),
        ("FREQ=MONTHLY;INTERVAL=6;BYHOUR=9", "every 6 months at 09:00"),
        (
            "FREQ=MONTHLY;BYMONTHDAY=1,15,-1;BYHOUR=8;BYMINUTE=0;BYSECOND=30",
            "every month on the 1st, 15th and last day at 08:00:30",
        ),
        ("FREQ=YEARLY;BYMONTH=11;BYDAY=4TH;BYHOUR=9", "every year on the fourth Thursday in November at 09:00"),
        (
            "DTSTART:20270105T080000Z RRULE:FREQ=HOURLY;INTERVAL=5;UNTIL=20270601T000000Z EXDATE:20270106",
            "every 5 hours, counted from 5 January 2027 at 08:00, until 1 June 2027 at 00:00 UTC,"
            " except on 6 January 2027",
        ),
        (
            "FREQ=MONTHLY;BYMONTHDAY=13;BYDAY=FR;BYHOUR=9",
            "RRULE:FREQ=MONTHLY;BYMONTHDAY=13;BYDAY=FR;BYHOUR=9;BYMINUTE=0",
        ),
    ],
)
def test_a_rule_in_words(text: str, words: str) -> None:
    zone = "UTC" if "Z RRULE" in text else BERLIN
    assert describe(text, BERLIN) == f"{words}, {zone}"
    assert say(f"{words}, {zone}").next(5) == say(text).next(5)


def test_words_that_would_be_too_long_for_a_phrase_are_not_made() -> None:
    days_off = ",".join(f"202701{day}" for day in range(10, 29))
    text = f"RRULE:FREQ=DAILY;INTERVAL=2;BYHOUR=9;BYMINUTE=0 EXDATE:{days_off}"
    assert describe(text, BERLIN) == f"{text}, {BERLIN}"
    assert say(describe(text, BERLIN)).cron_expr == text


def test_words_that_leave_the_time_of_day_open_are_not_a_rule() -> None:
    assert read_words("every 2 weeks on tuesday") is None
    assert read_words("every 2 weeks on tuesday at 09:00, counted from its start") is None
    assert read_words("every 2 weeks on tuesday, counted from its start") is not None


def common_rule(seed: int) -> str:
    """A random rule, of those people write: half of them without a start, half of them with one time of day."""
    rng = random.Random(seed)
    start, _, rule = random_rule(rng).partition(" ")
    if rng.random() < 0.5:
        kept = [part for part in rule.split(";") if not part.startswith(("BYHOUR", "BYMINUTE", "BYSECOND", "BYSETPOS"))]
        rule = ";".join([*kept, "BYHOUR=9", "BYMINUTE=30"])
    return rule if rng.random() < 0.5 else f"DTSTART:{start[8:23]} {rule}"


MADE = st.integers(0, 10**9).map(common_rule)


@QUICK
@given(MADE)
def test_the_words_for_a_rule_mean_that_rule(text: str) -> None:
    try:
        understood = say(text)
    except InvalidSchedule:
        return
    again = parse(understood.description, now=NOW)
    assert again.timezone == understood.timezone
    assert again.next(8) == understood.next(8)
    if is_rule(again.cron_expr):  # else cron says the same
        assert again.cron_expr == understood.cron_expr


@pytest.mark.parametrize(
    ("text", "remarks"),
    [
        ("FREQ=MONTHLY;BYMONTHDAY=13;BYDAY=FR;BYHOUR=9", ("It fires once in the year ahead.",)),
        ("FREQ=MONTHLY;INTERVAL=6;BYMONTHDAY=31;BYHOUR=9", ("Months without a day 31 are skipped.",)),
        ("FREQ=MONTHLY;BYMONTH=4;BYMONTHDAY=30;BYHOUR=9", ()),
        ("DTSTART:20300101T000000 RRULE:FREQ=HOURLY", ()),
        ("FREQ=DAILY;UNTIL=20270301;BYHOUR=2;BYMINUTE=30", ()),
        (
            "FREQ=DAILY;INTERVAL=2;BYHOUR=2;BYMINUTE=30",
            (
                "On 2027-03-28 clocks in Europe/Berlin go forward and 02:00 to 03:00 does not happen:"
                " it fires once, at 03:00.",
            ),
        ),
    ],
)
def test_remarks_on_a_rule(text: str, remarks: tuple[str, ...]) -> None:
    assert say(text).remarks == remarks
