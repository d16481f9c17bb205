"""What interfaces show of an alarm that fires once and was set by the wall clock."""

from __future__ import annotations

from tests.rules.world import alarm
from wakeful.cli.output import schedule_of
from wakeful.mcp.agent_views import TextBudget, alarm_view
from wakeful.service.views import view

BY_THE_CLOCK = alarm(when="2027-07-01 09:00", timezone="Europe/Berlin")


def test_its_wall_time_is_not_shown_as_an_expression() -> None:
    shown = view(BY_THE_CLOCK)
    assert "cron_expr" not in shown
    assert shown["wall_time"] == "2027-07-01T09:00:00"
    assert schedule_of(BY_THE_CLOCK) == "once"
    assert alarm_view(BY_THE_CLOCK, TextBudget(), message=10, payload=0).cron_expr == ""


def test_an_instant_a_series_and_utc_have_none() -> None:
    for other in (
        alarm(when="2027-07-01T09:00+02:00", timezone="Europe/Berlin"),
        alarm(cron_expr="0 9 * * *", timezone="Europe/Berlin"),
        alarm(when="2027-07-01 09:00"),
    ):
        assert "wall_time" not in view(other)
