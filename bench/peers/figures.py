"""What was found, and what is said about it: medians, spread, tables. Pure."""

from __future__ import annotations

from statistics import median
from typing import Any

from msgspec import Struct

from bench.peers.contestants import BARE, PEERS, WAKEFUL


class Run(Struct, frozen=True):
    """What one driver answered, once."""

    round: int
    measure: str
    store: str
    contestant: str
    answer: dict[str, Any]


class Figures:
    def __init__(self, runs: list[Run]) -> None:
        self.runs = runs

    def all(self, measure: str, store: str, contestant: str, field: str) -> list[float]:
        return [
            run.answer[field]
            for run in self.runs
            if (run.measure, run.store, run.contestant) == (measure, store, contestant)
            and run.answer.get(field) is not None
        ]

    def median(self, measure: str, store: str, contestant: str, field: str = "per_s") -> float | None:
        found = self.all(measure, store, contestant, field)
        return median(found) if found else None

    def best(self, measure: str, store: str, among: list[str], field: str = "per_s") -> tuple[str, float] | None:
        """Of those that were measured the fastest, and its median."""
        found = [(name, value) for name in among if (value := self.median(measure, store, name, field)) is not None]
        return max(found, key=lambda one: one[1], default=None)


def beside(figures: Figures, measure: str, store: str, figure: str) -> list[list[str]]:
    """The rows of one table: each contestant's median, its spread, and how wakeful stands to it."""
    ours = figures.median(measure, store, WAKEFUL.name, figure)
    rows = []
    for one in (WAKEFUL, *PEERS, BARE):
        found = figures.all(measure, store, one.name, figure)
        if found:
            ratio = f"{ours / median(found):.2f}" if ours is not None and one is not WAKEFUL else ""
            rows.append([named(figures, one.name), short(median(found)), spread(found), ratio, one.records])
    return rows


def spread(found: list[float]) -> str:
    return f"{short(min(found))} to {short(max(found))}"


def named(figures: Figures, contestant: str) -> str:
    versions = {run.answer["version"] for run in figures.runs if run.contestant == contestant}
    return " ".join([contestant, *sorted(versions)]) if contestant != BARE.name else contestant


def short(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """A table that reads well in a terminal and in a page."""
    widths = [max(len(row[n]) for row in [head, *rows]) for n in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )
