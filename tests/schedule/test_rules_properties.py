"""What holds for every recurrence rule, in every zone, and where clocks change."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from wakeful.errors import InvalidSchedule
from wakeful.schedule import schedule
from wakeful.schedule.recurrence import read
from wakeful.schedule.recurrence_schedule import RuleDays, RuleSchedule, _build
from wakeful.schedule.zones import zone

from .helpers import QUICK
from .rule_oracle import random_rule
from .test_properties import MOMENTS, TINY, ZONES
from .test_walker import AROUND, MINUTE, steps, transitions
from .test_walker import ZONES as WALKED

RULES = st.integers(0, 10**9).map(lambda seed: random_rule(random.Random(seed)).replace("Z RRULE", " RRULE"))


def fresh(text: str, name: str):  # type: ignore[no-untyped-def]
    """A schedule that remembers nothing; what never fires is no test."""
    try:
        recurrence, name = read(text, name)
        return _build(recurrence, zone(name), None)
    except InvalidSchedule:
        assume(False)
        raise


@QUICK
@given(RULES, ZONES, MOMENTS, st.integers(0, 10**6))
def test_nothing_fires_between_a_moment_and_its_next_fire(text: str, name: str, moment: datetime, part: int) -> None:
    fire = fresh(text, name).after(moment)
    assume(fire is not None)
    assert fire > moment
    between = moment + (fire - moment) * (part / (10**6 + 1))
    for earlier in (between, fire - TINY, moment):
        assert fresh(text, name).after(earlier) == fire
    later = fresh(text, name).after(fire)
    assert later is None or later > fire


@QUICK
@given(RULES, ZONES, st.lists(MOMENTS, min_size=2, max_size=6))
def test_what_a_rule_remembers_never_changes_its_answer(text: str, name: str, moments: list[datetime]) -> None:
    shared = fresh(text, name)
    for moment in moments:
        fire = shared.after(moment)
        asked = [moment] if fire is None else [moment, fire - TINY, fire, moment - timedelta(days=3), fire + TINY]
        for again in asked:
            assert shared.after(again) == fresh(text, name).after(again)


@QUICK
@given(RULES)
def test_a_rule_has_one_way_of_writing(text: str) -> None:
    recurrence, name = read(text, "Europe/Berlin")
    assert read(recurrence.text(), name) == (recurrence, name)


Shows = Callable[[datetime], bool]


def walked(shows: Shows, change: datetime, tz: ZoneInfo, *, follows: bool) -> list[datetime]:
    """What should fire around a change, by looking at every minute that really happened."""
    clock = [
        (moment, moment.astimezone(tz).replace(tzinfo=None, fold=0))
        for moment in steps(change - AROUND, change + AROUND)
    ]
    if follows:
        return [moment for moment, wall in clock if shows(wall)]
    fires, reached = set(), clock[0][1]
    for moment, wall in clock:
        while reached <= wall:
            if shows(reached):
                fires.add(moment)
            reached += MINUTE
    return sorted(fires)


def random_walk(rng: random.Random, origin: datetime, near: int) -> tuple[str, Shows, bool]:
    """A rule, what it fires at on the wall clock, and whether it follows whatever that shows."""
    hours = {(near + more) % 24 for more in rng.sample((-2, -1, 0, 1, 2, 5, 9), 4)}
    minutes = set(rng.sample(range(60), 3))
    n = rng.randrange(1, 5)
    by_hour, by_minute = (",".join(map(str, sorted(values))) for values in (hours, minutes))
    days: Shows = lambda wall: (wall.date() - origin.date()).days % n == 0  # noqa: E731
    if (kind := rng.randrange(4)) == 0:
        text = f"FREQ=DAILY;INTERVAL={n};BYHOUR={by_hour};BYMINUTE={by_minute}"
        return text, lambda wall: days(wall) and wall.hour in hours and wall.minute in minutes, False
    if kind == 1:
        text = f"FREQ=HOURLY;BYHOUR={by_hour};BYMINUTE={by_minute}"
        return text, lambda wall: wall.hour in hours and wall.minute in minutes, False
    if kind == 2:
        whole = origin.replace(minute=0)
        step = timedelta(hours=n)
        text = f"FREQ=HOURLY;INTERVAL={n};BYMINUTE={by_minute}"
        return (
            text,
            lambda wall: (wall.replace(minute=0) - whole) % step == timedelta(0) and wall.minute in minutes,
            True,
        )
    step = timedelta(minutes=n * 7)
    return f"FREQ=MINUTELY;INTERVAL={n * 7}", lambda wall: (wall - origin) % step == timedelta(0), True


@pytest.mark.parametrize("name", WALKED)
def test_the_walker_agrees_on_rules_around_clock_changes(name: str) -> None:
    rng, tz = random.Random(name), ZoneInfo(name)
    for change in rng.sample(transitions(name), 14):
        begin = change - AROUND
        # From before the stretch, so that all of it counts.
        origin = (begin - timedelta(days=rng.randrange(2, 400))).astimezone(tz).replace(tzinfo=None, fold=0)
        text, shows, follows = random_walk(rng, origin, change.astimezone(tz).hour)
        rhythm = schedule(f"DTSTART:{origin:%Y%m%dT%H%M00} RRULE:{text}", name)
        assert isinstance(rhythm, RuleSchedule)
        got, moment = [], rhythm.after(begin - timedelta(seconds=1))
        while moment is not None and moment <= change + AROUND:
            got.append(moment)
            moment = rhythm.after(moment)
        assert got == walked(shows, change, tz, follows=follows), f"{text} {origin} {change}"


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=MINUTELY;INTERVAL=7",
        "FREQ=HOURLY;INTERVAL=5;BYMINUTE=30",
        "FREQ=DAILY;INTERVAL=3",
        "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU",
        "FREQ=MONTHLY;INTERVAL=5;BYDAY=-1FR",
        "FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO",
        "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
    ],
)
def test_the_age_of_a_rule_does_not_matter(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked, look = 0, RuleDays._of

    def counting(self: RuleDays, year: int, month: int) -> int:
        nonlocal looked
        looked += 1
        return look(self, year, month)

    monkeypatch.setattr(RuleDays, "_of", counting)
    work = []
    for year in (1700, 2020):
        looked = 0
        fire = fresh(f"DTSTART:{year}0101T090000 RRULE:{rule}", "UTC").after(datetime(2026, 11, 15, 8, tzinfo=UTC))
        assert fire is not None
        work.append(looked)
    assert max(work) <= 40
    assert abs(work[0] - work[1]) <= 24  # where the next one is differs, how to find it does not


def test_what_is_counted_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searches, search = 0, RuleSchedule.search_uncounted

    def counting(self: RuleSchedule, asked: datetime) -> datetime | None:
        nonlocal searches
        searches += 1
        return search(self, asked)

    monkeypatch.setattr(RuleSchedule, "search_uncounted", counting)
    rhythm = fresh("DTSTART:20200101T090000 RRULE:FREQ=DAILY;COUNT=5000", "UTC")
    start = datetime(2026, 11, 15, 8, tzinfo=UTC)
    for day in range(50):
        assert rhythm.after(start + timedelta(days=day)) == start + timedelta(days=day, hours=1)
    assert searches < 2700  # 2510 days have passed, and are counted once
