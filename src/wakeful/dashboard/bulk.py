"""`/bulk/alarms` and `/bulk/fires`: one action on everything marked, or on everything that a filter fits.

The number is said first, and typed where it is large. Then slices follow one another until all is done; each answer
carries what the next needs, so closing the page stops it between two slices.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any, Final

from msgspec import Struct
from starlette.responses import Response

from wakeful.alarm import Alarm
from wakeful.dashboard.actions import ON_ALARM, Action
from wakeful.dashboard.lists import address, cursor_of, filters, names_of
from wakeful.dashboard.page import Visit, our_path
from wakeful.errors import Conflict, InvalidRequest, NotFound
from wakeful.moments import cursor_text, whole_ms
from wakeful.service import bulk

MANY: Final = 10  # more than these, and the number is to be typed
REASONS: Final = 5  # shown of why something could not be done
UNDONE_BY: Final = {"pause": "resume", "resume": "pause"}
DONE: Final = {
    "pause": "paused",
    "resume": "resumed",
    "snooze": "snoozed",
    "cancel": "cancelled",
    "retry": "set to be tried again",
}
KEPT: Final = ("for", "reason", "back", "undo_from", "undo_to")  # fields that each slice needs again


class Progress(Struct, frozen=True, kw_only=True):
    """How far it is: what the next slice needs, and what a person is told."""

    what: str  # alarms or fires
    verb: str
    total: int
    done: int = 0
    refused: dict[str, int] = {}
    cursor: str = ""
    stopped: str = ""  # the limit that was reached; going on is for a person to say
    ids: list[str] = []  # the marked ones; empty where a filter chose
    started: str = ""
    ended: str = ""

    @property
    def failed(self) -> int:
        return sum(self.refused.values())

    @property
    def is_over(self) -> bool:
        return not self.cursor and not self.stopped

    @property
    def percent(self) -> int:
        return 100 if self.is_over else min(99, 100 * (self.done + self.failed) // max(1, self.total))

    @property
    def undo(self) -> str:
        return UNDONE_BY.get(self.verb, "") if self.is_over and self.done else ""

    @property
    def done_as(self) -> str:
        return DONE[self.verb]

    @property
    def is_open_ended(self) -> bool:
        return self.total >= bulk.COUNTED


async def _retry(visit: Visit, id: str) -> str:
    await visit.alarms.retry(id)
    return ""


def _action(what: str, verb: str) -> Action:
    known: dict[str, Action] = ON_ALARM if what == "alarms" else {"retry": _retry}
    if verb not in DONE or verb not in known or what not in ("alarms", "fires"):
        raise NotFound(f"there is no action {verb!r} on many {what}", field="verb")
    return known[verb]


def _pages(visit: Visit, what: str, verb: str, asked: dict[str, str], now: datetime) -> Any:
    found_by = filters(what, asked, now)
    fits = bulk.alarms_that_fit if what == "alarms" else bulk.fires_that_fit
    return fits(visit.alarms, verb, found_by)


async def page(visit: Visit) -> Response:
    """How many it would be, and what they are: nothing is done yet."""
    visit.principal.need("write")
    visit = visit.on_behalf(visit.query("owner"))
    what, verb = visit.request.path_params["what"], visit.query("verb")
    _action(what, verb)
    return await _confirm(visit, what, verb, {name: visit.query(name) for name in names_of(what)})


async def _confirm(
    visit: Visit, what: str, verb: str, asked: dict[str, str], error: Conflict | None = None
) -> Response:
    now = await visit.context.service.now()
    # A length counts back from now: what was shown is what is done, however long the page stands open.
    asked = _fixed(what, asked, now)
    pages = _pages(visit, what, verb, asked, now)
    values: dict[str, Any] = {"what": what, "verb": verb, "asked": asked, "error": error, "now": now, "here": what}
    total = await bulk.count_that_fit(visit.alarms, what, verb, filters(what, asked, now))
    values |= {"total": total, "some": await pages(None, 5), "many": MANY, "most": bulk.COUNTED}
    values |= {"back": f"/{what}{address(asked)}", "done_as": DONE[verb]}
    return visit.show("bulk.html", 200 if error is None else 409, progress=None, **values)


def _fixed(what: str, asked: dict[str, str], now: datetime) -> dict[str, str]:
    found = filters(what, asked, now)
    return {
        name: found[name].isoformat() if name in ("since", "until") and said else said for name, said in asked.items()
    }


async def act(visit: Visit) -> Response:
    """Do the next slice; the answer goes on by itself until all is done."""
    visit = visit.on_behalf(visit.field("owner"))
    what, verb = visit.request.path_params["what"], visit.field("verb")
    action = _action(what, verb)
    if ids := visit.fields("id"):
        return await _act_on_marked(visit, what, verb, action, ids)
    asked = {name: visit.field(name) for name in names_of(what)}
    now = await visit.context.service.now()
    pages = _pages(visit, what, verb, asked, now)
    if not visit.field("cursor") and not visit.field("started"):
        total = await bulk.count_that_fit(visit.alarms, what, verb, filters(what, asked, now))
        if total > MANY and visit.field("count").replace(",", "") != str(total):
            error = Conflict(f"this is about {total} {what}", field="count", fix=f"Type {total} to go on.")
            return await _confirm(visit, what, verb, asked, error)
        so_far = Progress(what=what, verb=verb, total=total, started=await _stamp(visit))
    else:
        so_far = _so_far(visit, what, verb)
    fits = _changed_between(visit.field("undo_from"), visit.field("undo_to"))
    acted = await bulk.act_on_slice(pages, lambda id: action(visit, id), cursor_of(visit.field("cursor")), fits=fits)
    return await _told(visit, so_far, acted, asked)


async def _act_on_marked(visit: Visit, what: str, verb: str, action: Action, ids: list[str]) -> Response:
    if len(ids) > MANY and visit.field("count") != str(len(ids)):
        raise Conflict(
            f"this is about {len(ids)} {what}", field="count", fix=f"Type {len(ids)} to say that you mean all of them."
        )
    so_far = Progress(what=what, verb=verb, total=len(ids), ids=ids, started=await _stamp(visit))
    acted = await bulk.act_on(ids, lambda id: action(visit, id))
    return await _told(visit, so_far, acted, {})


def _so_far(visit: Visit, what: str, verb: str) -> Progress:
    try:
        refused = dict(zip(visit.fields("why_not"), map(int, visit.fields("times")), strict=True))
        total, done = int(visit.field("total") or 0), int(visit.field("done") or 0)
    except ValueError:
        raise InvalidRequest("the form is not complete", field="form", fix="Start again from the list.") from None
    return Progress(what=what, verb=verb, total=total, done=done, refused=refused, started=visit.field("started"))


async def _told(visit: Visit, before: Progress, acted: bulk.Acted, asked: dict[str, str]) -> Response:
    refused = Counter(before.refused) + Counter(acted.refused)
    progress = Progress(
        what=before.what,
        verb=before.verb,
        total=before.total,
        ids=before.ids,
        started=before.started,
        ended=await _stamp(visit),
        done=before.done + acted.done,
        refused=dict(refused.most_common(REASONS)),
        cursor=cursor_text(*acted.cursor) if acted.cursor else "",
        stopped=acted.stopped,
    )
    kept = {name: visit.field(name) for name in KEPT}
    kept["back"] = our_path(kept["back"]) if kept["back"] else ""
    undo_asked = asked | {"status": {"pause": "paused", "resume": "active"}.get(before.verb, "")}
    values: dict[str, Any] = {"progress": progress, "asked": asked, "kept": kept, "undo_asked": undo_asked}
    values |= {"here": before.what, "back": kept["back"] or f"/{before.what}{address({'owner': visit.owner})}"}
    return visit.show("parts/progress.html" if visit.is_fragment else "bulk.html", **values)


async def _stamp(visit: Visit) -> str:
    """This moment by the clock that alarms are changed by, as exact as they keep it."""
    return whole_ms(await visit.context.store.now()).isoformat()


def _changed_between(begin: str, end: str) -> Any:
    """What an undo is about: those that were changed while it was done, and not since."""
    if not begin or not end:
        return lambda _: True
    try:
        first, last = datetime.fromisoformat(begin), datetime.fromisoformat(end)
    except ValueError:
        raise InvalidRequest(f"{begin!r} or {end!r} is not a moment", field="undo_from") from None

    def fits(row: Alarm) -> bool:
        return first <= row.updated_at <= last

    return fits
