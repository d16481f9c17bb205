"""Convert moments for storage and transport: whole milliseconds, always in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)


def unix_ms(moment: datetime) -> int:
    return (moment - _EPOCH) // _MS


def from_unix_ms(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)


def stamp(moment: datetime) -> str:
    """UTC, always with six decimals: so that text sorts like time, among Go's RFC3339Nano stamps too."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def whole_ms(moment: datetime) -> datetime:
    """The moment in UTC, cut to the millisecond: what a row can hold."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    rest = moment.microsecond % 1000
    return moment.replace(microsecond=moment.microsecond - rest) if rest else moment
