"""Elapsed time: @every and durations."""

from __future__ import annotations

from datetime import timedelta

import pytest

from wakeful.errors import InvalidSchedule
from wakeful.schedule import duration, is_interval, schedule

from .helpers import NOW


def test_every_counts_from_its_anchor_without_drift() -> None:
    rhythm = schedule("@every 90m", anchor=NOW)
    late = NOW + timedelta(minutes=100)
    assert rhythm.after(late) == NOW + timedelta(minutes=180)


def test_every_fires_first_one_period_after_its_anchor() -> None:
    rhythm = schedule("@every 10s", anchor=NOW)
    assert rhythm.after(NOW - timedelta(days=1)) == NOW + timedelta(seconds=10)
    assert rhythm.after(NOW) == NOW + timedelta(seconds=10)
    assert rhythm.after(NOW + timedelta(seconds=10)) == NOW + timedelta(seconds=20)


def test_every_is_whole_milliseconds() -> None:
    fire = schedule("@every 1.0005s", anchor=NOW + timedelta(microseconds=1999)).after(NOW)
    assert fire == NOW + timedelta(milliseconds=1001)


def test_every_can_be_checked_without_an_anchor_but_not_asked() -> None:
    rhythm = schedule("@every 5m")
    with pytest.raises(InvalidSchedule, match="counts from"):
        rhythm.after(NOW)


@pytest.mark.parametrize("text", ["0s", "500ms", "90", "1d", "Xm", "-5m", "1h 30m", "", "+", ".s", "999999999999h"])
def test_every_refuses_what_is_no_duration_of_a_second_or_more(text: str) -> None:
    with pytest.raises(InvalidSchedule):
        schedule(f"@every {text}", anchor=NOW)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1.5h", 5400), ("1h30m10s", 5410), ("+5m", 300), ("15m50ns", 900), ("2184h25m", 7_863_900), (".5h", 1800)],
)
def test_every_reads_go_durations(text: str, seconds: int) -> None:
    assert schedule(f"@every {text}", anchor=NOW).after(NOW) == NOW + timedelta(seconds=seconds)


def test_only_every_is_an_interval() -> None:
    assert is_interval("@every 5m")
    assert is_interval("TZ=UTC @every 5m")
    assert not is_interval("*/5 * * * *")
    assert not is_interval("@daily")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30m", 1800),
        ("1h30m", 5400),
        ("90s", 90),
        ("2d", 172_800),
        ("15 minutes", 900),
        ("1 week", 604_800),
        ("1 hour and 5 minutes", 3900),
        ("1.5h", 5400),
        ("250ms", 0.25),
        ("45", 45),
        (45, 45),
        (0.25, 0.25),
        (" 10 SEC ", 10),
    ],
)
def test_a_duration_is_understood(text: str | float, seconds: float) -> None:
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "0",
        0,
        -5,
        "-5m",
        "5 parsecs",
        "1 month",
        "m",
        "5m5m",
        "5m and",
        "1h,",
        float("nan"),
        float("inf"),
        True,
        0.0001,
        "9" * 13,
        10**12,
        "1e3",
        "٣m",
    ],
)
def test_what_is_no_duration_is_refused(text: str | float) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        duration(text)
    assert refused.value.field == "duration"
