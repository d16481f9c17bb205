"""A quiet owner beside others who do all they can: python -m tests.neighbours --short.

One server for each store, attacks one after another and some at once; a table of what the quiet owner saw. The exit
status is 1 if a promise was broken, with the rows that broke it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Final

from tests.faults.records import write_all

from . import crowds, heavy, loops, reads, rows, strangers, turns, words
from .attack import ATTACKS, Attack
from .house import House
from .records import Tried, Window
from .verdict import Verdict, judge, table

PAGE: Final = Path(__file__).parents[2] / "docs/guarantees.md"
BEGIN: Final = "<!-- the table of the last neighbour run: begin -->"
END: Final = "<!-- the table of the last neighbour run: end -->"
SHORT: Final = 4.0  # seconds that each stage lasts in a short run
CALM: Final = 3.0
__all__ = ["crowds", "heavy", "loops", "reads", "rows", "strangers", "turns", "words"]


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.neighbours", description=__doc__)
    parser.add_argument("--store", default="both", choices=["both", "sqlite", "postgres"])
    parser.add_argument("--minutes", type=float, default=5.0, help="on each store, about")
    parser.add_argument("--short", action="store_true", help="about a minute on each store")
    parser.add_argument("--attacks", default="", help="only these: names or parts of names, with commas between")
    parser.add_argument("--write", action="store_true", help="put the table into docs/guarantees.md")
    parser.add_argument("--keep", type=Path, help="where to keep logs and what was seen")
    parser.add_argument("--list", action="store_true", help="name the attacks and end")
    return parser.parse_args()


def stages(wanted: str) -> list[list[Attack]]:
    """What is made at once, in order."""
    parts = [part.strip().lower() for part in wanted.split(",") if part.strip()]
    chosen = [one for one in ATTACKS.values() if not parts or any(part in one.name.lower() for part in parts)]
    chosen.sort(key=lambda one: one.stage)
    return [list(group) for _, group in groupby(chosen, key=lambda one: one.stage)]


async def stage(house: House, attacks: list[Attack], seconds: float) -> Window:
    began, until = time.time(), time.monotonic() + seconds
    attempts: dict[str, Tried] = {}

    async def attempt(one: Attack) -> None:
        attempts[one.name] = await one.make(house, until)

    try:
        async with asyncio.TaskGroup() as tasks:
            for one in attacks:
                tasks.create_task(attempt(one))
    except* Exception as trouble:
        raise RuntimeError(f"an attack could not be made: {trouble.exceptions[0]!r}") from trouble
    return Window(began=began, ended=time.time(), attacks={one.name: attempts[one.name] for one in attacks})


async def calm(name: str, seconds: float) -> Window:
    began = time.time()
    await asyncio.sleep(seconds)
    return Window(began=began, ended=time.time(), attacks={name: Tried(what="nobody does anything", came={})})


async def attacked(house: House, chosen: list[list[Attack]], seconds: float) -> list[Window]:
    windows = [await calm("before", CALM)]
    for attacks in chosen:
        windows.append(await stage(house, attacks, seconds))
        said = (
            f"{house.store}: {' + '.join(one.name for one in attacks)}: {windows[-1].ended - windows[-1].began:.0f} s"
        )
        print(said, file=sys.stderr, flush=True)
    windows.append(await calm("after", CALM))
    return windows


def elsewhere(house: House, chosen: list[list[Attack]], seconds: float) -> list[Window]:
    """In a thread that is nice: attackers stand for other machines, and must not take the processor from this one."""

    def nicely() -> list[Window]:
        os.setpriority(os.PRIO_PROCESS, 0, min(19, os.getpriority(os.PRIO_PROCESS, 0) + 5))  # of this thread alone
        return asyncio.run(attacked(house, chosen, seconds))

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(nicely).result()


def run(store: str, asked: argparse.Namespace, folder: Path) -> Verdict:
    chosen = stages(asked.attacks)
    seconds = SHORT if asked.short else max(SHORT, asked.minutes * 60 / len(chosen))
    with House(folder / store, store) as house:
        evidence = house.evidence(elsewhere(house, chosen, seconds))
    write_all(folder / f"{store}.json", [evidence])
    return judge(evidence)


def write(result: str, asked: argparse.Namespace, broken: list[str]) -> None:
    """The table into the page, below how it was made and what it says."""
    how = "--short" if asked.short else f"--minutes {asked.minutes:g}"
    today = datetime.now(UTC)
    said = (
        "Every promise held." if not broken else "Not every promise held:\n\n" + "\n".join(f"- {one}" for one in broken)
    )
    result = f"`./scripts/neighbours {how}` on {today.day} {today:%B %Y}. {said}\n\n{result}"
    text = PAGE.read_text()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    if not tail:
        raise SystemExit(f"{PAGE.name} has no markers for the table")
    PAGE.write_text(f"{head}{BEGIN}\n{result}\n{END}{tail}")


def main() -> int:
    asked = parsed()
    if asked.list:
        print("\n".join(one.name for group in stages("") for one in group))
        return 0
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65_536) if hard > 0 else 65_536, hard))
    folder = asked.keep or Path(tempfile.mkdtemp(prefix="wakeful-neighbours-"))
    verdicts = [run(store, asked, folder) for store in ("sqlite", "postgres") if asked.store in ("both", store)]
    result = table(verdicts)
    print(result, end="\n\n")
    broken = [f"{verdict.store}: {one}" for verdict in verdicts for one in verdict.broken]
    print("\n".join(broken) or "every promise held", flush=True)
    if asked.write:
        write(result, asked, broken)
    if not asked.keep and not broken:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
