"""What the quiet owner saw, window by window, and which promise broke."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from .records import Asked, Evidence, Stall, Window

LATE: Final = 1.0  # seconds
A_SECOND: Final = 3  # alarms that the quiet owner sets in a second: one hiccup of the machine holds up all of them
MEMORY: Final = 300_000_000  # bytes that one process may take
LOG: Final = 50_000_000  # bytes of log
TAIL: Final = 2.0  # what fell due so shortly before the end may still be on its way


def rank(values: Iterable[float], share: float) -> float:
    """The smallest value that so large a share of them do not exceed; 0 where there are none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


class Seen(Struct, frozen=True, kw_only=True):
    """The quiet owner's view of some time."""

    late: list[float]  # seconds, of each alarm that fell due
    took: list[float]  # seconds, of each answer
    refused: list[int]  # answers other than 2xx; 0: none came
    lost: int  # alarms that never arrived

    def words(self) -> str:
        if not self.late and not self.took:
            return "nothing"
        late = f"{_ms(rank(self.late, 0.5))} / {_ms(rank(self.late, 0.99))} / {_ms(max(self.late, default=0.0))}"
        bad = f", {len(self.refused)} not answered with yes" if self.refused else ""
        lost = f", {self.lost} never woken" if self.lost else ""
        answers = f"{len(self.took)} answers within {_ms(rank(self.took, 0.99))} ms"
        return f"{len(self.late)} wakes late by {late} ms; {answers}{bad}{lost}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.0f}"


class Verdict(Struct, frozen=True, kw_only=True):
    store: str
    rows: list[tuple[str, str, str]]  # attack, what was tried, what the quiet owner saw
    broken: list[str]


def less_stalls(began: float, ended: float, stalls: list[Stall]) -> float:
    """How long that was, without the time in which the machine itself stood still."""
    still = sum(
        max(0.0, min(ended, stall.at) - max(began, stall.at - stall.seconds))
        for stall in stalls
        if stall.at > began and stall.at - stall.seconds < ended
    )
    return max(0.0, ended - began - still)


def seen(evidence: Evidence, began: float, ended: float) -> Seen:
    arrived: dict[str, float] = {}
    for wake in evidence.woken:
        arrived.setdefault(wake.alarm, wake.at)
    due = [
        one for one in evidence.asked if one.alarm and began <= one.due < ended and one.due < evidence.read_at - TAIL
    ]
    asked = [one for one in evidence.asked if began <= one.at < ended]
    return Seen(
        late=[_late(one, arrived, evidence) for one in due],
        took=[less_stalls(one.at, one.at + one.took, evidence.stalls) for one in asked],
        refused=[one.status for one in asked if not 200 <= one.status < 300],
        lost=sum(one.alarm not in arrived for one in due),
    )


def _late(one: Asked, arrived: dict[str, float], evidence: Evidence) -> float:
    return less_stalls(one.due, arrived.get(one.alarm, evidence.read_at), evidence.stalls)


def judge(evidence: Evidence) -> Verdict:
    rows, broken = [], []
    for window in evidence.windows:
        view = seen(evidence, window.began, window.ended)
        names = " + ".join(window.attacks)
        broken += _window_broke(names, view)
        for name, one in window.attacks.items():
            if one.through:
                broken.append(f"{name}: {one.through}")
            rows.append((name, _tried(one.what, one.came), view.words()))
    all_of_it = seen(evidence, evidence.windows[0].began, evidence.windows[-1].ended)
    broken += _run_broke(evidence, all_of_it)
    rows.append(("**in all**", _measured(evidence), all_of_it.words()))
    return Verdict(store=evidence.store, rows=rows, broken=broken)


def _tried(what: str, came: dict[str, int]) -> str:
    counts = ", ".join(f"{kind} ×{n:,}" for kind, n in sorted(came.items()) if n)
    return f"{what} ({counts})" if counts else what


def _window_broke(names: str, view: Seen) -> list[str]:
    broken = []
    late = [one for one in view.late if one > LATE]
    if len(late) > max(A_SECOND, 0.05 * len(view.late)):
        broken.append(
            f"{names}: {len(late)} of the quiet owner's {len(view.late)} wakes were late, by {max(late):.2f} s"
        )
    if view.refused:
        broken.append(f"{names}: the quiet owner was answered {view.refused[:5]} (0: no answer)")
    if view.lost:
        broken.append(f"{names}: {view.lost} of the quiet owner's alarms never arrived")
    return broken


def _run_broke(evidence: Evidence, view: Seen) -> list[str]:
    broken = [f"{name} ended by itself" for name in evidence.ended]
    if not view.late:
        broken.append("the quiet owner had no alarm: nothing was measured")
    if (late := rank(view.late, 0.99)) > LATE:
        broken.append(f"in all: the quiet owner's wakes were late by {late:.2f} s (99 % of {len(view.late)})")
    for name, most in _most(evidence, "rss").items():
        if most > MEMORY:
            broken.append(f"{name} took {most / 1e6:.0f} MB: {_during(evidence, name)}")
    if evidence.log_bytes > LOG:
        broken.append(f"the log has {evidence.log_bytes / 1e6:.0f} MB")
    return broken


def _most(evidence: Evidence, field: str) -> dict[str, int]:
    most: dict[str, int] = {}
    for sample in evidence.samples:
        most[sample.process] = max(most.get(sample.process, 0), getattr(sample, field))
    return most


def _during(evidence: Evidence, process: str) -> str:
    """What was being tried when it took the most."""
    peak = max((one for one in evidence.samples if one.process == process), key=lambda one: one.rss)
    found: list[Window] = [one for one in evidence.windows if one.began <= peak.at <= one.ended]
    return " + ".join(found[0].attacks) if found else "between attacks"


def _measured(evidence: Evidence) -> str:
    files = _most(evidence, "descriptors")
    each = [
        f"{name}: memory {most / 1e6:.0f} MB at most, {files[name]} descriptors at most"
        for name, most in _most(evidence, "rss").items()
    ]
    return "; ".join([*each, f"log {evidence.log_bytes / 1e6:.1f} MB"])


def table(verdicts: list[Verdict]) -> str:
    """Markdown, so that it can stand in a document as it is."""
    lines = ["| attack | store | what was tried, and what came back | what the quiet owner saw |", "|---|---|---|---|"]
    for verdict in verdicts:
        lines += [f"| {name} | {verdict.store} | {what} | {view} |" for name, what, view in verdict.rows]
    return "\n".join(lines)
