"""What a refused phrase most likely means, in fields that are understood: `when`, and a policy's bounds.

A repair says all of what was said, or it is not made: one that drops the days, the hours or the end of a rhythm would
be a different rhythm. Each is read here before it is suggested.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from wakeful.errors import InvalidSchedule
from wakeful.schedule import words
from wakeful.schedule.refusals import PhraseRefused
from wakeful.schedule.suggestions import ends

Repair = dict[str, Any]
Understand = Callable[
    [str, str, datetime], Any
]  # of a phrase, in a zone, at a moment; raises where it is not understood

_REPEATED_SECONDS = re.compile(r"r([0-9]{1,4})/pt(?:([0-9]{1,4})m)?([0-9]{1,5})s")


def repair(text: str, timezone: str, now: datetime, understand: Understand) -> Repair:
    """The fields of a request that say the same and are understood; empty where none are known."""
    phrase = words.normal(text.strip().rstrip(".!"))
    if phrase is None:
        return {}
    for found in _candidates(phrase):
        try:
            understand(found["when"], found.get("timezone", timezone), now)
        except (PhraseRefused, InvalidSchedule, OverflowError, ValueError):
            continue
        return found
    return {}


def _candidates(phrase: str) -> Iterator[Repair]:
    yield from _repeated_seconds(phrase)
    yield from _an_end(phrase)


def _repeated_seconds(phrase: str) -> Iterator[Repair]:
    """A repeating interval of seconds, which no rule counts: elapsed time, and how often beside it."""
    if found := _REPEATED_SECONDS.fullmatch(phrase):
        seconds = int(found[2] or 0) * 60 + int(found[3])
        yield {"when": f"@every {seconds}s", "policy": {"max_fires": int(found[1])}}


def _an_end(phrase: str) -> Iterator[Repair]:
    """The end of a day, a week or a month: at 17:00, where that is ahead, else the last minute."""
    for swap in ends(phrase):
        yield from ({"when": said} for said in swap.phrases(phrase))
    if phrase == "next month":
        yield {"when": "1st of next month at 9am"}


def in_words(found: Repair, first: str) -> str:
    """A repair as a sentence for whoever reads the refusal; `first`: when it would fire."""
    more = " and ".join(f"{name} {value}" for name, value in _flat(found))
    return f'Try "{found["when"]}" ({first}){f" with {more}" if more else ""}.'


def _flat(found: Repair) -> Iterator[tuple[str, Any]]:
    for name, value in found.items():
        if isinstance(value, dict):
            yield from value.items()
        elif name != "when":
            yield name, value
