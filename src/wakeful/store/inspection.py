"""What a database is and whether it is sound, for those who look after it."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

# What the statement `impossible` counts, in its order, and what it means for whoever finds some.
IMPOSSIBLE: Final = {
    "alarms without a time": "active or paused, and neither a moment nor a schedule",
    "alarms without an owner": "nobody can see or cancel them",
    "alarms with a number out of range": "version, claim or a count is less than it can be",
    "alarms leased far ahead": "claimed more than a day in the future",
    "fires without an alarm": "nothing says what they were",
    "fires of another owner": "the alarm belongs to somebody else",
    "skipped fires that count nothing": "they stand for less than one instant",
}


class Inspection(Struct, frozen=True, kw_only=True):
    """`schema`: 0 where there are no tables of ours. `broken`: what the database says is wrong with its own files.

    `impossible`: how many rows stand as none can that wakeful wrote, by what is wrong; empty where nobody counted.
    """

    engine: str
    size: int  # bytes
    schema: int
    known: int  # the newest schema this wakeful knows
    needed: int = 0  # the schema that a version must know to open the tables
    broken: tuple[str, ...] = ()
    impossible: dict[str, int] = {}

    @property
    def sound(self) -> bool:
        return not self.broken and not any(self.impossible.values())
