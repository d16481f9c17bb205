"""Every parser with inputs nobody would write, by seed: python -m tests.fuzz --seconds 60 --seed 1. A table.

No input may crash a parser, be answered with 5xx, or take more than 50 ms of CPU (a batch of 1,000 or a very large
one: hold the event loop for that long at once); exit status 1 if one did. The same
seed tries the same inputs in the same order, as far as the time reaches.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Final

from .harness import SLOW, Finding, Parser, fuzz
from .interfaces import interfaces
from .outside import outside
from .reading import readers

SHOWN: Final = 60  # characters of an input in the table
PRINTED: Final = 3_000  # and of one that has to be repeated


def parsers() -> list[Parser]:
    return [*readers(), *interfaces(), *outside()]


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="for all parsers together")
    parser.add_argument("--seed", type=int, default=1, help="which inputs")
    parser.add_argument("--only", default="", help="only these parsers: names or parts of names, with commas between")
    parser.add_argument("--list", action="store_true", help="name the parsers and end")
    return parser.parse_args()


def chosen(only: str) -> list[Parser]:
    wanted = [part.strip().lower() for part in only.split(",") if part.strip()]
    return [one for one in parsers() if not wanted or any(part in one.name.lower() for part in wanted)]


def table(findings: list[Finding]) -> Iterator[str]:
    yield "| parser | inputs | taken | slowest | worst input |"
    yield "|---|---|---|---|---|"
    for one in findings:
        said = repr(one.worst)
        said = (said if len(said) <= SHOWN else said[: SHOWN - 1] + "…").replace("|", "\\|")
        yield f"| {one.name} | {one.inputs:,} | {one.taken:,} | {one.slowest * 1000:.1f} ms | `{said}` |"


def complaints(finding: Finding) -> Iterator[str]:
    """What is wrong, and the input to repeat it with."""
    if finding.broke:
        yield f"{finding.name}: {finding.broke[:2000]}"
        yield f"  input: {finding.culprit!r}"[:PRINTED]
        yield f"  first met with: {finding.first!r}"[:PRINTED]
        yield f"  again: ./scripts/fuzz --only {finding.name.split()[0]!r} --seed {finding.seed} --seconds 1"
    if finding.is_slow:
        yield f"{finding.name}: {finding.slowest * 1000:.0f} ms of CPU, and at most {SLOW * 1000:.0f} are allowed"
        yield f"  input: {finding.worst!r}"[:PRINTED]


def main() -> int:
    asked = parsed()
    those = chosen(asked.only)
    if asked.list or not those:
        print("\n".join(one.name for one in parsers()))
        return 0 if asked.list else 2
    fuzz(those[0], seconds=1, start=asked.seed)  # the tables of characters are made when first needed
    findings = []
    for one in those:
        findings.append(fuzz(one, seconds=asked.seconds / len(those), start=asked.seed))
        print(f"{one.name}: {findings[-1].inputs:,} inputs{', FAILED' * findings[-1].is_bad}", file=sys.stderr)
    print("\n".join(table(findings)))
    for finding in findings:
        for line in complaints(finding):
            print(line)
    return int(any(finding.is_bad for finding in findings))


if __name__ == "__main__":
    sys.exit(main())
