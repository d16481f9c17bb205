"""The time zone of whoever reads: what the page is asked for, what their machine says, else the server's setting."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote
from zoneinfo import ZoneInfo

from wakeful.dashboard.page import Visit
from wakeful.errors import InvalidRequest
from wakeful.schedule import zone

_COOKIE: Final = "wakeful_tz"  # that theme.js sets to the zone of the reader's machine


def reader_zone(visit: Visit) -> ZoneInfo:
    """A zone that is asked for must be one; a cookie may say anything, and is passed over."""
    if asked := visit.query("tz"):
        return zone(asked)
    try:
        return zone(unquote(visit.request.cookies.get(_COOKIE, "")) or visit.context.settings.timezone)
    except InvalidRequest:
        return zone(visit.context.settings.timezone)
