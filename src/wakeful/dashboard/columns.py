"""Which columns a list shows: chosen in its address, and kept in a cookie for the next time."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from wakeful.dashboard.page import Visit

# In the order in which they are shown. What an alarm is called always is.
COLUMNS: Final = {
    "alarms": {
        "status": "Status",
        "next": "Next",
        "schedule": "Schedule",
        "target": "Target",
        "label": "Label",
        "conversation": "Conversation",
        "created": "Set",
        "fires": "Fires",
        "error": "Last error",
        "key": "Key",
        "id": "Id",
    },
    "fires": {
        "late": "Late",
        "outcome": "Outcome",
        "target": "Target",
        "attempts": "Attempts",
        "took": "Took",
        "result": "Result",
        "id": "Id",
    },
}
USUAL: Final = {
    "alarms": ("status", "next", "schedule", "target", "id"),
    "fires": ("late", "outcome", "target", "attempts", "result"),
}
_A_YEAR: Final = 365 * 86_400


def chosen(visit: Visit, what: str) -> list[str]:
    """The columns of a list, in their own order, whatever order they were named in."""
    said = visit.request.query_params.getlist("columns")
    kept = visit.request.cookies.get(_cookie(what), "").split(".")
    wanted = [name for name in COLUMNS[what] if name in (said or kept)]
    return wanted or list(USUAL[what])


def keep(visit: Visit, what: str, response: Response) -> Response:
    """Remember what was chosen just now."""
    if visit.request.query_params.getlist("columns"):
        kept = ".".join(chosen(visit, what))
        path = visit.root or "/"
        response.set_cookie(_cookie(what), kept, max_age=_A_YEAR, path=path, samesite="strict", httponly=True)
    return response


def _cookie(what: str) -> str:
    return f"wakeful_columns_{what}"
