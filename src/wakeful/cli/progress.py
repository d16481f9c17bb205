"""A bar with rate and time left, on stderr, for whoever watches a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")
_WORTH_IT: Final = 10  # what is done before a bar can be read needs none


def tracked(rows: Sequence[T], label: str) -> Iterator[T]:
    """Each of them, with a bar beside where stderr is a terminal."""
    if len(rows) <= _WORTH_IT or not sys.stderr.isatty():
        yield from rows
        return
    # Imported here: most commands never need it, and it takes a while.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    shown = (
        TextColumn(label),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*shown, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=len(rows), rate="")
        for row in rows:
            yield row
            speed = progress.tasks[task].speed
            progress.update(task, advance=1, rate=f"{speed:.0f}/s" if speed else "")
