"""Convert moments for storage and transport: whole milliseconds, always in UTC."""

from __future__ import annotations

import base64
import uuid
from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MS: Final = timedelta(milliseconds=1)


def unix_ms(moment: datetime) -> int:
    return (moment - EPOCH) // MS


def from_unix_ms(ms: int) -> datetime:
    return EPOCH + ms * MS


def stamp(moment: datetime) -> str:
    """UTC, always with six decimals: so that text sorts like time, among Go's RFC3339Nano stamps too."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def whole_ms(moment: datetime) -> datetime:
    """The moment in UTC, cut to the millisecond: what a row can hold."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    rest = moment.microsecond % 1000
    return moment - timedelta(0, 0, rest) if rest else moment  # half of what `replace` costs


def cursor_text(at: datetime, id: str) -> str:
    """Where a page ended, as a text that goes into a URL."""
    return base64.urlsafe_b64encode(f"{unix_ms(at)} {id}".encode()).decode().rstrip("=")


def read_cursor(text: str) -> tuple[datetime, str]:
    """The moment and the id that `cursor_text` was given; ValueError or OverflowError for any other text."""
    ms, _, id = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True).decode().partition(" ")
    return from_unix_ms(int(ms)), str(uuid.UUID(id))
