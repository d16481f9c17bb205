"""Numbers live events, in order per process, without telling one owner how active others are.

What an owner sees are two things: a count of their own events, and a name to resume from that says nothing to anyone
but this process.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from typing import Final

OWNERS: Final = 50_000  # whose counts are kept; the one that was silent for longest starts again
_HALF: Final = 24  # bits
_MASK: Final = (1 << _HALF) - 1
_ROUNDS: Final = 4


class ResumeNames:
    """Numbers as names and back: all numbers of 48 bits, shuffled (a Feistel network) under a key of this process."""

    def __init__(self) -> None:
        self.run = secrets.token_hex(4)  # names of another process mean nothing here
        self._key = secrets.token_bytes(16)

    def of(self, number: int) -> str:
        left, right = number >> _HALF & _MASK, number & _MASK
        for turn in range(_ROUNDS):
            left, right = right, left ^ self._mixed(turn, right)
        return f"{self.run}-{left << _HALF | right}"

    def number(self, name: str) -> int | None:
        """Which number a name stands for; None where it cannot be one of ours."""
        run, _, digits = name.partition("-")
        if run != self.run or not digits.isascii() or not digits.isdigit() or len(digits) > 15:
            return None
        if (shuffled := int(digits)) >> 2 * _HALF:
            return None
        left, right = shuffled >> _HALF, shuffled & _MASK
        for turn in reversed(range(_ROUNDS)):
            left, right = right ^ self._mixed(turn, left), left
        return left << _HALF | right

    def _mixed(self, turn: int, half: int) -> int:
        said = bytes((turn,)) + half.to_bytes(3)
        return int.from_bytes(hashlib.blake2b(said, digest_size=3, key=self._key).digest())


class OwnerCounts:
    """How many events each owner has been told of, as far as that is remembered."""

    def __init__(self, most: int = OWNERS) -> None:
        self._most = most
        self._counts: OrderedDict[str, int] = OrderedDict()

    def next(self, owner: str) -> int:
        count = self._counts.get(owner, 0) + 1
        self._counts[owner] = count
        self._counts.move_to_end(owner)
        if len(self._counts) > self._most:
            self._counts.popitem(last=False)
        return count
