"""The judge of a neighbour run finds each promise that is broken, and names the attack."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from .__main__ import BEGIN, END, PAGE, stages
from .records import Asked, Evidence, Sample, Stall, Tried, Window, Woken
from .verdict import judge, rank, table

START = 1_800_000_000.0
SECONDS = 60


def evidence() -> Evidence:
    """A minute in which all is well: an alarm a second, each 10 ms late."""
    created = [
        Asked(
            at=START + n,
            took=0.02,
            verb="create",
            status=201,
            alarm=f"a{n}",
            due=START + n + 1.5,
            target="desk",
        )
        for n in range(SECONDS)
    ]
    woken = [Woken(at=one.due + 0.01, receiver="desk", owner="quiet", alarm=one.alarm) for one in created]
    windows = [
        Window(
            began=START + 30 * n,
            ended=START + 30 * (n + 1),
            attacks={name: Tried(what="this and that", came={"429": 3})},
        )
        for n, name in enumerate(("flood", "loop"))
    ]
    return Evidence(
        store="sqlite",
        asked=created,
        woken=woken,
        stalls=[],
        windows=windows,
        samples=[Sample(at=START + 40, process="serve", rss=100_000_000, descriptors=40)],
        log_bytes=1000,
        ended=[],
        read_at=START + SECONDS + 10,
    )


def late(by: float, *numbers: int) -> Evidence:
    good = evidence()
    held = {f"a{n}" for n in numbers}
    return replace(good, woken=[replace(one, at=one.at + by) if one.alarm in held else one for one in good.woken])


def test_where_all_is_well_nothing_is_broken() -> None:
    verdict = judge(evidence())
    assert verdict.broken == []
    assert [row[0] for row in verdict.rows] == ["flood", "loop", "**in all**"]
    assert verdict.rows[0][1] == "this and that (429 ×3)"
    assert "wakes late by 10 / 10 / 10 ms; 30 answers within 20 ms" in verdict.rows[0][2]


def test_wakes_that_are_late_in_one_window_are_its_attack_s() -> None:
    broken = judge(late(2, 40, 41, 42, 43)).broken
    assert "loop: 4 of the quiet owner's 30 wakes were late, by 2.01 s" in broken
    assert all("flood" not in one for one in broken)
    assert all(
        "loop" not in one for one in judge(late(2, 40, 41, 42)).broken
    )  # one second's worth: of the run, too many
    assert judge(late(2, 40, 41, 42)).broken


def test_a_second_is_not_late() -> None:
    assert judge(late(0.98, *range(SECONDS))).broken == []


def test_what_the_machine_stood_still_for_is_not_late() -> None:
    broken = late(2, *range(SECONDS))
    assert judge(broken).broken
    still = [Stall(START + n + 3.5, 1.9) for n in range(0, SECONDS, 2)]
    assert judge(replace(broken, stalls=still)).broken == []


def test_a_wake_that_never_came_is_lost_and_late() -> None:
    good = evidence()
    broken = judge(replace(good, woken=good.woken[:35] + good.woken[36:])).broken
    assert "loop: 1 of the quiet owner's alarms never arrived" in broken


@pytest.mark.parametrize("status", [0, 400, 429, 500, 503])
def test_an_answer_that_is_no_yes_breaks_a_promise(status: int) -> None:
    good = evidence()
    asked = [*good.asked, Asked(at=START + 5, took=0.1, verb="list", status=status)]
    assert judge(replace(good, asked=asked)).broken == [
        f"flood: the quiet owner was answered [{status}] (0: no answer)"
    ]


def test_memory_is_bounded_and_the_attack_at_its_peak_is_named() -> None:
    sample = Sample(at=START + 45, process="serve", rss=400_000_000, descriptors=40)
    assert judge(replace(evidence(), samples=[sample])).broken == ["serve took 400 MB: loop"]


def test_an_attack_that_got_through_a_process_that_ended_and_a_long_log_break_promises() -> None:
    good = evidence()
    through = replace(good.windows[0], attacks={"flood": Tried(what="it", came={}, through="it was let in")})
    changed = replace(good, windows=[through, good.windows[1]], ended=["serve"], log_bytes=10**9)
    broken = ["flood: it was let in", "serve ended by itself", "the log has 1000 MB"]
    assert judge(changed).broken == broken


def test_a_run_that_measured_nothing_has_not_passed() -> None:
    assert judge(replace(evidence(), asked=[])).broken == ["the quiet owner had no alarm: nothing was measured"]


def test_a_rank_is_a_value_that_was_there() -> None:
    assert [rank(range(1, 101), share) for share in (0.5, 0.99, 1.0)] == [50, 99, 100]
    assert rank([], 0.99) == 0.0


def test_the_page_has_a_place_for_the_table_and_every_attack_in_it() -> None:
    _, _, rest = PAGE.read_text().partition(BEGIN)
    kept, _, _ = rest.partition(END)
    for group in stages(""):
        for one in group:
            for store in ("sqlite", "postgres"):
                assert f"| {one.name} | {store} |" in kept
    assert table([judge(evidence())]).splitlines()[0] in kept
