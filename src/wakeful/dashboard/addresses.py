"""Addresses that pages point to."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import urlencode


def between(path: str, since: datetime, until: datetime) -> str:
    """Where what happened, or will happen, between two moments is listed."""
    return f"{path}?{urlencode({'since': _stamp(since), 'until': _stamp(until)})}"


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
