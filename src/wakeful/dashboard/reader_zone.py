"""The time zone of whoever reads: their machine says it in a cookie; without it, the server's setting."""

from __future__ import annotations

from urllib.parse import unquote

from wakeful.dashboard.page import Visit
from wakeful.errors import InvalidRequest
from wakeful.schedule import zone

COOKIE = "wakeful_tz"


def reader_zone(visit: Visit) -> str:
    said = unquote(visit.request.cookies.get(COOKIE, ""))
    try:
        zone(said)
    except InvalidRequest:
        return visit.context.settings.timezone
    return said
