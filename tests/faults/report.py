"""The result of a fault run as a table, a few examples of what went wrong, and a last line."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from msgspec import Struct

from .checker import ALLOWED, CALM, COLUMNS, Violation
from .rounds import Result

HEADS: Final = {
    "lost": "lost",
    "duplicate_in_flight": "dup (in flight)",
    "duplicate_other": "dup (other)",
    "early": "early",
    "late": "late",
    "very_late": "very late",
    "after_cancel": "after cancel",
    "after_edit": "after edit",
    "overwritten": "overwritten",
    "wrong_status": "wrong status",
    "unaccounted": "unaccounted",
    "stuck": "stuck",
}
EXAMPLES: Final = 3  # of each column and kind


class Line(Struct, kw_only=True):
    kind: str
    store: str
    injections: int = 0
    alarms: int = 0
    counts: Counter[str] = Counter()
    recovery: float | None = None
    errors: list[str] = []

    @property
    def failed(self) -> bool:
        return bool(self.errors) or any(n for column, n in self.counts.items() if column not in ALLOWED)

    def cells(self) -> list[str]:
        numbers = [str(self.counts[column]) for column in COLUMNS]
        recovery = "" if self.recovery is None else f"{self.recovery:.1f}"
        return [self.kind, self.store, str(self.injections), str(self.alarms), *numbers, recovery]


class Report:
    def __init__(self) -> None:
        self.lines: dict[tuple[str, str], Line] = {}
        self.absent: dict[tuple[str, str], str] = {}  # (kind, store) → why it was not done
        self.examples: dict[tuple[str, str], list[Violation]] = defaultdict(list)
        self.rounds = 0
        self.exits: Counter[str] = Counter()
        self.broken: list[str] = []

    def add(self, result: Result) -> None:
        store = result.plan.where
        self._add_what_was_not_done(result)
        for injection in result.injections:
            line = self.line(injection.kind, store)
            line.injections += 1
            if injection.error:
                line.errors.append(injection.error)
        if (verdict := result.verdict) is None:
            return
        self.rounds += 1
        self.exits.update(f"{one.name} {one.status}" for one in result.exits)
        for kind, count in verdict.alarms.items():
            self.line(kind, store).alarms += count
        for kind, seconds in verdict.recovery.items():
            line = self.line(kind, store)
            line.recovery = max(seconds, line.recovery or 0.0)
        for violation in verdict.violations:
            self.line(violation.kind, store).counts[violation.column] += 1
            self.examples[violation.column, violation.kind].append(violation)

    def _add_what_was_not_done(self, result: Result) -> None:
        store, kinds = result.plan.where, result.plan.kinds
        if result.error:
            self.broken.append(f"{store}, seed {result.plan.seed}, {', '.join(kinds)}:\n{result.error}")
        if result.too_busy:
            self.absent |= {(kind, store): result.too_busy for kind in kinds}
        self.absent |= {(one.kind, store): one.too_busy for one in result.injections if one.too_busy}

    def line(self, kind: str, store: str) -> Line:
        if (kind, store) not in self.lines:
            self.lines[kind, store] = Line(kind=kind, store=store, counts=Counter(), errors=[])
        return self.lines[kind, store]

    @property
    def failed(self) -> bool:
        return bool(self.broken) or any(line.failed for line in self.lines.values())

    def table(self) -> str:
        """Markdown, so that it can stand in a document as it is."""
        heads = ["kind", "store", "injections", "alarms", *(HEADS[column] for column in COLUMNS), "worst recovery s"]
        rows = [self.lines[key].cells() for key in sorted(self.lines, key=lambda key: (key[0] != CALM, key))]
        rows.append(self._sum().cells())
        rows += [[kind, store, why, *[""] * (len(heads) - 3)] for (kind, store), why in sorted(self.absent.items())]
        widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
        dashes = ["-" * width for width in widths]
        return "\n".join(
            "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
            for row in [heads, dashes, *rows]
        )

    def _sum(self) -> Line:
        lines = self.lines.values()
        return Line(
            kind="**all**",
            store="",
            injections=sum(line.injections for line in lines),
            alarms=sum(line.alarms for line in lines),
            counts=sum((line.counts for line in lines), Counter()),
            recovery=max((line.recovery for line in lines if line.recovery is not None), default=None),
            errors=[],
        )

    def details(self) -> str:
        said = []
        for (column, kind), found in sorted(self.examples.items()):
            if column not in ALLOWED or column == "late":
                said.append(f"{HEADS[column]} at {kind!r}: {len(found)}")
                said += [f"    {one.alarm} {one.says}" for one in found[:EXAMPLES]]
        for line in self.lines.values():
            said += [f"error at {line.kind!r} ({line.store}): {error}" for error in line.errors[:EXAMPLES]]
        said += [f"a round broke off: {one}" for one in self.broken[:EXAMPLES]]
        if self.exits:
            ends = ", ".join(f"{what} ×{n}" for what, n in sorted(self.exits.items()))
            said.append(f"processes that ended and were started again (name, status): {ends}")
        return "\n".join(said)

    def last_line(self) -> str:
        bad = {line.kind for line in self.lines.values() if line.failed}
        good = {line.kind for line in self.lines.values() if line.injections} - bad
        return f"{len(good)} passed, {len(bad) + len(self.broken)} failed"
