"""`wakeful simulate`, as an operator calls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.interfaces.pty_world import on_a_terminal, piped


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    env = {"WAKEFUL_DB": str(tmp_path / "wakeful.db"), "WAKEFUL_TIMEZONE": "UTC"}
    piped("every", "every hour", "hourly", "--label", "hourly", cwd=tmp_path, env=env)
    return env


def test_two_days_in_which_the_worker_is_down_at_night(tmp_path: Path, env: dict[str, str]) -> None:
    told = piped("simulate", "--json", "--days", "2", "--down", "22:00-03:30", cwd=tmp_path, env=env)[0]
    found: Any = json.loads(told)
    assert found["alarms"] == 1
    assert 42 <= found["fires"] + found["skipped"] <= 48  # it may end while no worker runs
    assert found["skipped"] > 3
    assert {run["reason"] for run in found["skips"]} == {"missed"}
    listed = json.loads(piped("ls", "--json", cwd=tmp_path, env=env)[0])
    assert [alarm["fire_count"] for alarm in listed["alarms"]] == [0]


def test_rows_are_by_hour_in_a_pipe_and_by_day_for_people(tmp_path: Path, env: dict[str, str]) -> None:
    rows = [row.split("\t") for row in piped("simulate", "--days", "1", cwd=tmp_path, env=env)[0].splitlines()]
    hours = [row for row in rows if row[0] == "fires"]
    assert len(hours) == sum(int(row[3]) for row in hours) == 24
    screen = on_a_terminal("simulate", "--days", "1", cwd=tmp_path, env=env)
    assert screen.code == 0
    assert "24 fires, 0 skipped" in screen.text
    days = [line.split() for line in screen.text.splitlines() if line.startswith("fires")]
    assert sum(int(day[5]) for day in days) == 24
    assert len(days) <= 2


def test_the_picture_shows_each_hour_of_each_target(tmp_path: Path, env: dict[str, str]) -> None:
    piped("simulate", "--days", "1", "--picture", "week.svg", cwd=tmp_path, env=env)
    picture = ElementTree.parse(tmp_path / "week.svg").getroot()
    shown = [title.text for title in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert sum("inbox: 1 fires, 0 skipped" in (text or "") for text in shown) == 24


def test_a_picture_that_cannot_be_written_is_refused_before_the_simulation(tmp_path: Path, env: dict[str, str]) -> None:
    told, error = piped("simulate", "--picture", "nowhere/week.svg", cwd=tmp_path, env=env, code=2)
    assert not told
    assert "--picture: nowhere/week.svg cannot be written: No such file or directory" in error


def test_people_are_told_how_many_fires_are_not_listed(tmp_path: Path, env: dict[str, str]) -> None:
    down = [word for hour in range(24) for word in ("--down", f"{hour:02}:50-{hour:02}:59")]
    down += [word for hour in range(23) for word in ("--down", f"{hour:02}:59-{hour + 1:02}:05")]
    screen = on_a_terminal("simulate", "--days", "2", *down, cwd=tmp_path, env=env)
    late = [line.split() for line in screen.text.splitlines() if line.startswith("late")]
    assert late[-1][-1] == "others"
    assert f"{20 + int(late[-1][1])} late by a minute or more" in screen.text


@pytest.mark.parametrize("span", ["2-4", "25:00-26:00", "04:00-04:00", "night"])
def test_a_span_that_is_none_is_refused_with_an_example(tmp_path: Path, env: dict[str, str], span: str) -> None:
    error = piped("simulate", "--down", span, cwd=tmp_path, env=env, code=2)[1]
    assert "--down" in error
    assert "02:00-04:00" in error


def test_without_a_database_it_makes_none(tmp_path: Path) -> None:
    piped("simulate", cwd=tmp_path, env={"WAKEFUL_DB": str(tmp_path / "none.db")}, code=3)
    assert list(tmp_path.iterdir()) == []
