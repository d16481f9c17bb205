"""What a terminal is shown."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from wakeful.cli.output import Output, clean, table


def test_columns_are_aligned_and_the_last_one_is_cut() -> None:
    rows = [["a", "日本", "short"], ["bbb", "x", "far too long for the room that is left"]]
    assert table(("one", "two", "three"), rows, 31).splitlines() == [
        "ONE  TWO   THREE",
        "a    日本  short",
        "bbb  x     far too long for th…",
    ]


def test_control_characters_never_reach_a_terminal() -> None:
    assert clean("a\x1b[2Jb\r\n\tc\u202ed\\") == "a\\u001b[2Jb\\r\\n\\tc\\u202ed\\\\"
    assert clean("naïve ✓ 日本語 🎉") == "naïve ✓ 日本語 🎉"


def test_a_record_is_aligned_and_leaves_out_what_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    Output(terminal=True).record({"id": "7", "status": "active", "label": ""}, {})
    assert capsys.readouterr().out == "id      7\nstatus  active\n"


def test_moments_are_local_for_people_and_utc_for_programs() -> None:
    noon = datetime(2026, 7, 1, 12, tzinfo=UTC)
    assert Output(terminal=True).at(noon, "Europe/Berlin") == "2026-07-01T14:00:00+02:00"
    assert Output(terminal=False).at(noon, "Europe/Berlin") == "2026-07-01T12:00:00Z"
