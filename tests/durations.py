"""How long the tests of each lane took, as a page of the documentation, from the reports that pytest writes.

The page itself has the commands. Each report has the name of its lane: quick.xml, usual.xml, long.xml. The sections
of other lanes stay as they are.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from msgspec import Struct

from tests.lanes import COMMANDS

SLOWEST: Final = 15
PAGE: Final = Path(__file__).parents[1] / "docs" / "test-durations.md"
HEAD: Final = """\
# Durations of the tests

What the tests of each lane take, the slowest first. The seconds of a test are those of its fixtures and its body. Tests
run in several processes, so the sum is more than the run took. A test belongs in a slower lane (`tests/lanes.py`) when
it waits, or when it repeats what another proves.

To measure again, on a machine with two cores and no other work, all lanes or some of them:

```console
$ ./scripts/test quick --junitxml=quick.xml
$ ./scripts/test --junitxml=usual.xml
$ ./scripts/test --long --junitxml=long.xml
$ .venv/bin/python -m tests.durations quick.xml usual.xml long.xml
```
"""


class Took(Struct, frozen=True):
    place: str  # the dotted path of the file, and the class in it
    name: str
    seconds: float

    @property
    def directory(self) -> str:
        parts = self.place.split(".")
        return parts[1] if len(parts) > 2 and not parts[1].startswith("test_") else "(tests)"

    @property
    def file(self) -> str:
        parts = self.place.split(".")
        last = next((number for number, part in enumerate(parts) if part.startswith("test_")), len(parts) - 1)
        return "/".join(parts[: last + 1]) + ".py"


class Run(Struct, frozen=True):
    lane: str
    date: str
    seconds: float
    took: list[Took]


def read(file: Path) -> Run:
    """What pytest wrote about one run; the file has the name of its lane."""
    suite = next(ElementTree.parse(file).iter("testsuite"))
    took = [
        Took(one.get("classname", ""), one.get("name", ""), float(one.get("time", 0))) for one in suite.iter("testcase")
    ]
    return Run(file.stem, suite.get("timestamp", "").partition("T")[0], float(suite.get("time", 0)), took)


def page(runs: Sequence[Run], before: str = "") -> str:
    """With the sections of these runs, and of the page as it was those of other lanes."""
    _, *others = before.split("\n## ")
    sections = {name: f"## {text.rstrip()}\n" for text in others for name in [text.partition("\n")[0]]}
    sections |= {COMMANDS[run.lane]: section(run) for run in runs}
    return "\n".join([HEAD, *(sections[command] for command in COMMANDS.values() if command in sections)])


def section(run: Run) -> str:
    slowest = sorted(run.took, key=lambda one: -one.seconds)[:SLOWEST]
    whole = sum(one.seconds for one in run.took)
    return "\n".join(
        [
            *(f"## {COMMANDS[run.lane]}", ""),
            f"{run.date}: {len(run.took)} tests in {run.seconds:.0f} seconds, {whole:.0f} seconds in all processes.",
            *("", "| directory | tests | seconds | share |", "|---|---|---|---|", *_summed(run.took, "directory")),
            *("", "| file | tests | seconds | share |", "|---|---|---|---|", *_summed(run.took, "file")[:SLOWEST]),
            *("", "| test | seconds |", "|---|---|"),
            *(f"| `{one.file}::{_in_a_cell(one.name)}` | {one.seconds:.1f} |" for one in slowest),
            "",
        ]
    )


def _in_a_cell(name: str) -> str:
    return " ".join(name.split()).replace("|", "\\|").replace("`", "'")


def _summed(took: list[Took], by: str) -> list[str]:
    groups: dict[str, list[float]] = defaultdict(list)
    for one in took:
        groups[getattr(one, by)].append(one.seconds)
    whole = sum(one.seconds for one in took) or 1.0
    ordered = sorted(groups.items(), key=lambda item: -sum(item[1]))
    return [f"| {name} | {len(all)} | {sum(all):.0f} | {sum(all) / whole:.0%} |" for name, all in ordered]


if __name__ == "__main__":
    PAGE.write_text(page([read(Path(file)) for file in sys.argv[1:]], PAGE.read_text()))
