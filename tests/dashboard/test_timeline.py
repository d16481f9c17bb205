"""The timeline: hours and days as the reader's clocks show them, with what fired and what will."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from html import unescape
from itertools import pairwise
from pathlib import Path

import pytest

from tests.interfaces.world import Visitor, serving
from wakeful.errors import InvalidRequest
from wakeful.schedule import zone
from wakeful.service.figures import cells, day_of, days, first_of, hours_between, hours_of, monday_of, week_name
from wakeful.store.maintenance import StepCount
from wakeful.testing import store_of
from wakeful.testing.conformance.making import a_fire, added, an_alarm, change, settled

BERLIN = zone("Europe/Berlin")
HOUR = timedelta(hours=1)


def none(count: int) -> list[StepCount]:
    return [StepCount.of({})] * count


class TestHours:
    def test_a_usual_day_has_24_that_follow_each_other(self) -> None:
        steps = hours_of(date(2026, 11, 16), BERLIN)
        assert steps[0] == (datetime(2026, 11, 15, 23, tzinfo=UTC), datetime(2026, 11, 16, 0, tzinfo=UTC))
        assert all(one is not None and one[1] - one[0] == HOUR for one in steps)

    def test_the_hour_that_the_clocks_skip_does_not_exist(self) -> None:
        steps = hours_of(date(2026, 3, 29), BERLIN)
        assert [hour for hour, step in enumerate(steps) if step is None] == [2]
        assert hours_between(day_of(date(2026, 3, 29), BERLIN)) == 23
        assert steps[1] is not None
        assert steps[3] is not None
        assert steps[1][1] == steps[3][0]

    def test_the_hour_that_they_repeat_is_a_longer_one(self) -> None:
        steps = hours_of(date(2026, 10, 25), BERLIN)
        assert [step[1] - step[0] for step in steps if step is not None][2] == 2 * HOUR
        assert hours_between(day_of(date(2026, 10, 25), BERLIN)) == 25

    @pytest.mark.parametrize("name", ["Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Kathmandu", "UTC"])
    def test_a_year_of_hours_has_no_gap_and_no_overlap(self, name: str) -> None:
        tz = zone(name)
        dates = [date(2026, 1, 1) + timedelta(days=number) for number in range(366)]
        steps = [step for day in dates for step in hours_of(day, tz) if step is not None]
        assert all(earlier[1] == later[0] for earlier, later in pairwise(steps))
        assert sum((until - since for since, until in steps), timedelta()) >= timedelta(days=366) - HOUR


class TestNames:
    def test_weeks_and_months_are_named_as_iso_does(self) -> None:
        assert monday_of("2026-W47", date(2000, 1, 1)) == date(2026, 11, 16)
        assert monday_of("", date(2026, 11, 19)) == date(2026, 11, 16)
        assert week_name(date(2026, 11, 16)) == "2026-W47"
        assert week_name(date(2026, 12, 28)) == "2026-W53"
        assert first_of("2026-02") == date(2026, 2, 1)

    @pytest.mark.parametrize("text", ["2026", "2026-W54", "2026-Wx", "9999-W52", "2026-W1-W1", "W", "-W"])
    def test_what_is_not_a_week(self, text: str) -> None:
        with pytest.raises(InvalidRequest, match="is not a week"):
            monday_of(text, date(2026, 1, 1))

    @pytest.mark.parametrize("text", ["2026", "2026-13", "0-1", "x-y", "99999-1"])
    def test_what_is_not_a_month(self, text: str) -> None:
        with pytest.raises(InvalidRequest, match="is not a month"):
            first_of(text)


STEPS = [step for step in hours_of(date(2026, 11, 16), BERLIN) if step is not None]


class TestCells:
    def test_the_worst_outcome_colours_a_step(self) -> None:
        kinds = ({"completed": 5}, {"completed": 5, "waiting": 1}, {"waiting": 9, "skipped": 1}, {"retrying": 1})
        counts = [*map(StepCount.of, kinds), StepCount.of({"completed": 3}, failed=1), StepCount.of({})]
        found = cells(STEPS[:6], counts, [], most=100)
        assert [cell.outcome for cell in found] == ["good", "open", "warn", "warn", "bad", ""]

    def test_coming_fires_fall_into_their_steps_and_others_into_none(self) -> None:
        since, until = STEPS[2]
        coming = [since - timedelta(days=9), since, until - timedelta(seconds=1), until, since + timedelta(days=9)]
        found = cells(STEPS, none(24), coming, most=100)
        assert {hour: cell.coming for hour, cell in enumerate(found) if cell.coming} == {2: 2, 3: 1}
        assert (found[2].level, found[3].level, found[4].level) == (4, 2, 0)

    def test_a_full_look_says_that_there_may_be_more(self) -> None:
        [full, rest] = cells(STEPS[:2], [StepCount.of({"completed": 7}), StepCount.of({"completed": 6})], [], most=7)
        assert (full.more, rest.more) == (True, False)

    def test_cells_stand_in_the_column_of_their_hour(self) -> None:
        day = date(2026, 3, 29)
        steps = [step for step in hours_of(day, BERLIN) if step is not None]
        [found] = days([day], BERLIN, cells(steps, none(23), [steps[2][0]], most=9))
        assert (len(found.cells), found.hours, found.cells[2]) == (24, 23, None)
        assert found.cells[3] is not None
        assert found.cells[3].coming == 1


@pytest.fixture(params=["sqlite", "postgres"])
async def visit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Visitor]:
    if request.param == "sqlite":
        place = serving(str(tmp_path / "wakeful.db"))
    else:
        place = serving(request.getfixturevalue("pg_dsn"), schema=request.getfixturevalue("pg_migrated"))
    async with place as visitor:
        yield visitor


async def fired(visit: Visitor, owner: str, at: datetime, *statuses: str) -> None:
    store = store_of(visit.alarms)
    alarm = an_alarm(visit.alarms.service.clock, owner_did=owner, status="cancelled", label=f"of {owner}")
    await added(store, alarm)
    fires = [
        a_fire(alarm, scheduled_for=at + timedelta(seconds=number), status=status)
        for number, status in enumerate(statuses)
    ]
    await settled(store, change(alarm, *fires))


class TestPage:
    async def test_a_week_shows_what_fired_in_the_readers_zone(self, visit: Visitor) -> None:
        await fired(visit, "local", datetime(2026, 3, 25, 8, 15, tzinfo=UTC), "completed", "failed")
        await fired(visit, "somebody else", datetime(2026, 3, 25, 9, 15, tzinfo=UTC), "completed")
        shown = await visit("GET", "/timeline?week=2026-W13&tz=Europe/Berlin")
        assert shown.status == 200
        assert "Wed 25 Mar 09:00, 2 fired, 1 failed" in shown.text
        assert "/fires?since=2026-03-25T08%3A00%3A00Z&amp;until=2026-03-25T09%3A00%3A00Z" in shown.text
        assert "10:00, " not in shown.text  # another owner's
        assert "this day has 23 hours" in shown.text
        assert "The clocks skip this hour." in shown.text
        utc = await visit("GET", "/timeline?week=2026-W13")
        assert "Wed 25 Mar 08:00, 2 fired, 1 failed" in utc.text
        assert "this day has" not in utc.text
        cookie = {"cookie": "wakeful_tz=Europe%2FBerlin"}
        assert "Wed 25 Mar 09:00, 2 fired" in (await visit("GET", "/timeline?week=2026-W13", headers=cookie)).text

    async def test_what_is_to_come_leads_to_its_list(self, visit: Visitor) -> None:
        now = await visit.alarms.service.now()
        at = (now + timedelta(days=7)).replace(minute=30)
        await visit.alarms.set(at=at, wake_message="look at the <b>post</b>")
        week = week_name((at - timedelta(days=at.weekday())).date())
        shown = (await visit("GET", f"/timeline?week={week}")).text
        assert f"{at:%a %d %b %H}:00, 1 to come" in shown
        address = shown.split('href="/timeline/coming')[1].split('"')[0].replace("&amp;", "&")
        listed = (await visit("GET", f"/timeline/coming{address}")).text
        assert "look at the &lt;b&gt;post&lt;/b&gt;" in listed
        earlier = at.replace(minute=0) - timedelta(hours=1)
        stamps = [f"{moment:%Y-%m-%dT%H:00:00Z}" for moment in (earlier, at)]
        before = await visit("GET", f"/timeline/coming?since={stamps[0]}&until={stamps[1]}")
        assert "Nothing is planned for this time." in before.text

    async def test_a_month_counts_days(self, visit: Visitor) -> None:
        await fired(visit, "local", datetime(2026, 3, 24, 23, 30, tzinfo=UTC), "completed")
        shown = (await visit("GET", "/timeline?month=2026-03&tz=Europe/Berlin")).text
        assert "March 2026" in shown
        assert "Wed 25 Mar, 1 fired" in shown  # in Berlin it was the next day already
        assert "/timeline?month=2026-02" in shown
        assert "/timeline?month=2026-04" in shown
        assert "/timeline?week=2026-W13" in shown
        assert shown.count("this day has 23 hours") == 1

    @pytest.mark.parametrize(
        ("address", "hidden"),
        [
            ("/timeline?week=1971-W01", "prev"),
            ("/timeline?week=2199-W52", "next"),
            ("/timeline?month=1971-01", "prev"),
            ("/timeline?month=2199-12", "next"),
        ],
    )
    async def test_no_link_leads_beyond_the_first_and_the_last_year(
        self, visit: Visitor, address: str, hidden: str
    ) -> None:
        shown = (await visit("GET", address)).text
        assert f'rel="{hidden}"' not in shown
        assert shown.count('rel="') - shown.count('rel="icon"') - shown.count('rel="stylesheet"') == 1
        for found in set(re.findall(r'href="(/timeline\?[^"]*)"', shown)):
            assert (await visit("GET", unescape(found))).status == 200, found

    async def test_a_zone_that_is_asked_for_is_kept_while_it_is_live_and_in_its_links(self, visit: Visitor) -> None:
        shown = (await visit("GET", "/timeline?week=2026-W13&tz=Europe/Berlin")).text
        assert 'hx-get="/timeline?week=2026-W13&amp;tz=Europe%2FBerlin"' in shown
        assert 'href="/timeline?week=2026-W14&amp;tz=Europe%2FBerlin"' in shown
        assert 'href="/timeline?tz=Europe%2FBerlin"' in shown
        month = (await visit("GET", "/timeline?month=2026-03&tz=Europe/Berlin")).text
        assert 'hx-get="/timeline?month=2026-03&amp;tz=Europe%2FBerlin"' in month

    async def test_a_script_gets_the_calendar_alone(self, visit: Visitor) -> None:
        part = await visit("GET", "/timeline?week=2026-W13", headers={"hx-request": "true"})
        assert "<html" not in part.text
        assert "heat" in part.text

    @pytest.mark.parametrize(
        ("address", "field"),
        [
            ("/timeline?week=soon", "week"),
            ("/timeline?month=soon", "month"),
            ("/timeline?tz=Mars/Base", "timezone"),
            ("/timeline/coming?since=soon&until=later", "since"),
            ("/timeline/coming?since=2026-11-16T09:00:00&until=2026-11-16T10:00:00", "since"),
        ],
    )
    async def test_what_is_not_understood_is_said(self, visit: Visitor, address: str, field: str) -> None:
        answer = await visit("GET", address)
        assert answer.status == 400
        assert field in answer.text

    async def test_a_zone_in_the_cookie_that_nobody_knows_is_utc(self, visit: Visitor) -> None:
        answer = await visit("GET", "/timeline?week=2026-W13", headers={"cookie": "wakeful_tz=Mars"})
        assert answer.status == 200
        assert "Fires by day and hour, UTC" in answer.text
