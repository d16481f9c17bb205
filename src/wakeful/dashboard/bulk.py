"""`/bulk/alarms` and `/bulk/fires`: one action on everything marked, or on everything that a filter fits.

The number is said first, and typed where it is large. Then slices follow one another until all is done; each answer
carries what the next needs, so closing the page stops it between two slices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Final

from msgspec import Struct
from starlette.responses import Response

from wakeful.dashboard.lists import address, cursor_of, filters, names_of
from wakeful.dashboard.page import Visit, our_path, reader_zone
from wakeful.errors import Conflict, InvalidRequest, NotFound
from wakeful.model.alarm import Alarm
from wakeful.model.requests import ReportRequest
from wakeful.moments import cursor_text, whole_ms
from wakeful.service import Changed, ChangedFire, Created, bulk

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


# What the buttons do: the same verbs as everywhere, then back to the page.

Action = Callable[[Visit, str], Awaitable[str]]


async def _pause(visit: Visit, id: str) -> str:
    return _with_notes("Paused.", await visit.alarms.pause(id, reason=visit.field("reason")))


async def _resume(visit: Visit, id: str) -> str:
    return _with_notes("Resumed.", await visit.alarms.resume(id))


async def _snooze(visit: Visit, id: str) -> str:
    if said := visit.field("until"):
        understood = await visit.alarms.parse(said, timezone=reader_zone(visit).key)
        return _with_notes("Snoozed.", await visit.alarms.snooze(id, until=understood.next(1)[0]))
    return _with_notes("Snoozed.", await visit.alarms.snooze(id, visit.field("for") or "1h"))


async def _skip(visit: Visit, id: str) -> str:
    done = await visit.alarms.skip(id, at=visit.field("at") or None)
    return _with_notes(
        "Skipped." if done.alarm.status == "active" else "Skipped. It was the last one: the series is over.", done
    )


async def _undo(visit: Visit, id: str) -> str:
    return _with_notes("Taken back.", await visit.alarms.undo(id, when=visit.field("when") or None))


async def _cancel(visit: Visit, id: str) -> str:
    done = await visit.alarms.cancel(id, reason=visit.field("reason"))
    return _with_notes(
        "Cancelled; an attempt was under way and may still arrive." if done.in_flight else "Cancelled.", done
    )


def _with_notes(what: str, done: Changed | Created | ChangedFire) -> str:
    return " ".join((what, *done.notes))


ON_ALARM: Final[dict[str, Action]] = {
    "pause": _pause,
    "resume": _resume,
    "snooze": _snooze,
    "skip": _skip,
    "cancel": _cancel,
    "undo": _undo,
}


async def on_alarm(visit: Visit) -> Response:
    id, verb = visit.request.path_params["id"], visit.request.path_params["verb"]
    if verb == "fire":
        made = await visit.alarms.fire(id)
        said = "Fires now. Its own times stay; the manual fire is listed with the others."
        return visit.back(f"/alarms/{made.alarm.policy.manual_of or id}", _with_notes(said, made))
    if verb not in ON_ALARM:
        raise NotFound(f"there is no action {verb!r}", field="verb")
    return visit.back(visit.field("back") or f"/alarms/{id}", await ON_ALARM[verb](visit, id))


async def on_fire(visit: Visit) -> Response:
    id, verb = visit.request.path_params["id"], visit.request.path_params["verb"]
    if verb == "retry":
        said = _with_notes("It is tried again.", await visit.alarms.retry(id))
    elif verb == "done":
        report = ReportRequest(outcome="completed", result=visit.field("result"))
        said = _with_notes("Reported as done.", await visit.alarms.report(id, report))
    else:
        raise NotFound(f"there is no action {verb!r}", field="verb")
    return visit.back(visit.field("back") or f"/alarms/{id.partition('@')[0]}", said)


async def on_target(visit: Visit) -> Response:
    visit.principal.need("admin")
    name, verb = visit.request.path_params["id"], visit.request.path_params["verb"]
    service = visit.context.service
    if verb == "pause":
        await service.targets.pause(name, by=visit.principal.by, reason=visit.field("reason"))
    elif verb == "resume":
        await service.targets.resume(name, by=visit.principal.by)
    else:
        raise NotFound(f"there is no action {verb!r}", field="verb")
    return visit.back(visit.field("back") or "/targets", f"{name} is {verb}d.")
