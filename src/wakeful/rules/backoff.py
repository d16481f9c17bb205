"""How long to wait before the next attempt: exponential backoff with a spread."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Final

RETRY_SPREAD: Final = 0.1


def backoff(failures: int, *, base: float = 30.0, cap: float = 900.0) -> timedelta:
    """30 s, 1, 2, 4, 8 min, then 15 min: `base` doubled for each failure before this one, never above `cap`.

    A base above the cap waits for the cap.
    """
    # Past 2**40 the cap has long won; the bound keeps a huge count from making a huge number.
    return timedelta(seconds=min(base * 2.0 ** min(failures, 40), cap))


def spread(wait: timedelta, key: str) -> timedelta:
    """`wait` plus up to a tenth, the same for the same key: it only ever adds."""
    return wait + wait * RETRY_SPREAD * fraction(key)


def fraction(key: str) -> float:
    """A number in [0, 1) that depends on nothing but the key."""
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=6).digest()) / 2**48
