"""The tools that do something: each reads its arguments, calls one verb of the service, and describes the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct

from wakeful.alarm import INBOX, Alarm
from wakeful.alarm.request import CreateRequest, EditRequest, ReportRequest, request_of
from wakeful.errors import Conflict, InvalidRequest, NotFound
from wakeful.mcp import views
from wakeful.mcp.arguments import without_nulls
from wakeful.mcp.json_schema import given
from wakeful.mcp.look_tools import HEAD, LookTools, that_fit
from wakeful.mcp.schemas import (
    EDITABLE,
    RENAMED,
    REQUIRED_TO_SET,
    ActArguments,
    AlarmResult,
    CancelArguments,
    CancelResult,
    InboxArguments,
    InboxResult,
    ReportArguments,
    ReportResult,
    SetArguments,
    SetResult,
    SignalArguments,
    SignalResult,
)
from wakeful.mcp.views import BUDGET, TextBudget
from wakeful.service import Cancelled, Changed, ChangedFire, Created

NUMBERS: Final = 540  # bytes of each wake that tell how late it is and where it stands in its series
OWNER: Final = "me"  # in place of an alarm's id
NAMES: Final = {mine: theirs for theirs, mine in RENAMED.items()}
_FOR_ACTION: Final[Mapping[str, tuple[str, ...]]] = {
    "edit": (*EDITABLE, "version"),
    "pause": ("reason",),
    "resume": (),
    "snooze": ("wait", "until"),
    "skip": ("at",),
    "undo": ("when",),
    "fire": (),
    "retry": (),
}


class Tools(LookTools):
    """The tools for one caller."""

    async def set(self, asked: Any) -> SetResult:
        if asked.alarms is not UNSET:
            return await self._set_many(asked)
        _check_required(given(asked))
        request = _request(asked)
        added = await self._alarms.create(request)
        alarm, notes = added.alarm, added.all_notes
        if not added.deduped:
            return await self._set("Set", alarm, notes, similar=added.similar.id if added.similar else "")
        if request.on_conflict == "replace":
            return await self._set("Replaced", alarm, notes, deduped=True, in_flight=added.in_flight)
        what = (
            "Nothing was set, as the alarm with this key has ended"
            if alarm.finished
            else "It exists already and was not changed"
        )
        return await self._set(what, alarm, notes, deduped=True)

    async def _set(self, what: str, alarm: Alarm, notes: Sequence[str], **more: Any) -> SetResult:
        return SetResult(**await self._said(what, alarm, notes), **more)

    async def _set_many(self, asked: Any) -> SetResult:
        shared = {name: value for name, value in given(asked).items() if name != "alarms"}
        requests = [_item(at, shared, one) for at, one in enumerate(asked.alarms)]
        added = await self._alarms.create_many(requests)
        ids = [one.alarm.id for one in added]
        lines = that_fit((views.brief(one.alarm) for one in added), BUDGET - 2 * HEAD - 40 * len(ids))
        notes: dict[str, None] = {}
        for one in sorted(added, key=lambda one: not one.alarm.finished):  # what was not set, first
            notes |= dict.fromkeys(one.notes)
        if len(lines) < len(ids):
            notes['There was no room for all of them; alarm_list {"limit": 50} shows the rest.'] = None
        return SetResult(
            summary=" ".join(filter(None, (_tally(added), _soonest(added)))),
            now=await self._now(),
            ids=ids,
            alarms=lines,
            notes=list(notes)[:3],
        )

    async def update(self, asked: ActArguments) -> AlarmResult:
        _check_action(asked)
        if asked.id == OWNER:
            return await self._own_zone(given(asked))
        match asked.action:
            case "pause":
                reason = asked.reason if asked.reason is not UNSET else ""
                return await self._changed("Paused", await self._alarms.pause(asked.id, reason=reason))
            case "resume":
                return await self._changed("Resumed", await self._alarms.resume(asked.id))
            case "snooze":
                return await self._snooze(asked)
            case "skip":
                meant = asked.at if asked.at is not UNSET else None
                return await self._changed("Skipped the next fire", await self._alarms.skip(asked.id, at=meant))
            case "undo":
                return await self._undo(asked)
            case "fire" | "retry":
                return await self._fire_again(asked)
        return await self._edit(asked)

    async def _undo(self, asked: Any) -> AlarmResult:
        when = asked.when if asked.when is not UNSET else None
        return await self._changed("Taken back", await self._alarms.undo(asked.id, when=when))

    async def _fire_again(self, asked: ActArguments) -> AlarmResult:
        if asked.action == "retry":
            return await self._retry(asked.id)
        made = await self._alarms.fire(asked.id)
        return AlarmResult(**await self._said("Fires now, once more, as", made.alarm, made.notes))

    async def _own_zone(self, said: Mapping[str, Any]) -> AlarmResult:
        """For every alarm to come, not for one."""
        if set(said) - {"action"} != {"id", "timezone"}:
            raise InvalidRequest("only a timezone is yours", field="id", fix="Give timezone, or the id of an alarm.")
        found = await self._alarms.set_owner_settings(timezone=said["timezone"])
        whose = "your zone" if "timezone" in found.own else "the server's"
        told = f"Times without a timezone are in {found.timezone}, {whose}, from now on. Alarms set before keep theirs."
        return AlarmResult(summary=told, now=await self._now())

    async def _edit(self, asked: ActArguments) -> AlarmResult:
        version = asked.version if asked.version is not UNSET else None
        fields = {name: value for name, value in given(asked).items() if name in EDITABLE}
        return await self._changed(
            "Changed", await self._alarms.edit(asked.id, request_of(EditRequest, fields), version=version)
        )

    async def _snooze(self, asked: ActArguments) -> AlarmResult:
        wait = None if asked.wait is UNSET else asked.wait
        until = None if asked.until is UNSET else asked.until
        if (wait is None) == (until is None):
            fix = 'Give "for", such as "1h", or "until", such as "tomorrow at 9am".'
            raise InvalidRequest("a snooze needs a length or an end", field="for", fix=fix)
        return await self._changed("Snoozed", await self._alarms.snooze(asked.id, wait, until=until))

    async def _retry(self, id: str) -> AlarmResult:
        try:
            done = await self._alarms.retry(id)
        except (NotFound, Conflict) as error:
            error.field = "id"
            raise
        return AlarmResult(**await self._said("Tried again", done.alarm, done.notes), fire_id=done.fire.id)

    async def cancel(self, asked: CancelArguments) -> CancelResult:
        named = given(asked)
        ids = [*([named["id"]] if "id" in named else []), *named.get("ids", [])]
        filters = {name: named[name] for name in ("text", "conversation_id", "target")}
        if len(ids) == 1 and not asked.dry_run and not any(filters.values()):
            done = await self._alarms.cancel(ids[0], reason=asked.reason)
            is_cancelled = done.alarm.status == "cancelled"
            what = "Cancelled" if is_cancelled else "It had ended already"
            said = await self._said(what, done.alarm, done.notes)
            return CancelResult(**said, cancelled=int(is_cancelled), in_flight=done.in_flight)
        return await self._cancelled(
            await self._alarms.cancel_many(ids, **filters, reason=asked.reason, dry_run=asked.dry_run)
        )

    async def _cancelled(self, done: Cancelled) -> CancelResult:
        shown = that_fit(views.brief(alarm) for alarm in done.alarms)
        number = len(done.alarms)
        what = f"{number} alarms" if number != 1 else "1 alarm"
        told = f"{what} would be cancelled; nothing was." if done.dry_run else f"{what} cancelled."
        notes = [f"{number - len(shown)} more are not shown."] if len(shown) < number else []
        return CancelResult(
            summary=told,
            now=await self._now(),
            alarms=shown,
            cancelled=0 if done.dry_run else number,
            would_cancel=number if done.dry_run else 0,
            in_flight=bool(done.in_flight),
            notes=notes,
        )

    async def signal(self, asked: SignalArguments) -> SignalResult:
        payload = None if asked.payload is UNSET else asked.payload
        done = await self._alarms.signal(asked.name, payload)
        shown = that_fit(map(views.brief, (one.alarm for one in done.alarms)), BUDGET - 2 * HEAD)
        hidden = len(done.alarms) - len(shown)
        others = f", {len(done.skipped)} skipped, {len(done.moved)} moved" if done.skipped or done.moved else ""
        return SignalResult(
            summary=f"{len(done.cancelled)} cancelled, {len(done.fired)} fired at once{others}.",
            now=await self._now(),
            alarms=shown,
            cancelled=len(done.cancelled),
            fired=len(done.fired),
            skipped=len(done.skipped),
            moved=len(done.moved),
            effects=[views.signal_effect(one) for one in done.alarms[: len(shown)]],
            in_flight=bool(done.in_flight),
            notes=[f"{hidden} more are not shown."] if hidden else done.notes,
        )

    async def report(self, asked: ReportArguments) -> ReportResult:
        wait = asked.wait if asked.wait is not UNSET else None
        cost = asked.cost if asked.cost is not UNSET else None
        said = ReportRequest(
            outcome=asked.outcome, result=asked.result, reason=asked.reason, wait=wait, cost=cost, renew=asked.renew
        )
        try:
            done = await self._alarms.report(asked.fire_id, said)
        except NotFound:  # be it the fire or its alarm: the caller named a fire
            raise NotFound(
                f"there is no fire {asked.fire_id!r} to report on",
                field="fire_id",
                fix="Give the fire_id of your wake.",
            ) from None
        fire, alarm = done.fire, done.alarm
        now, room = await self._service.now(), TextBudget()
        told = f"Not noted: the fire is {fire.status}." if done.notes else f"Noted: the fire is {fire.status}."
        return ReportResult(
            summary=" ".join((told, *done.notes, _then(done, now))),
            now=views.utc(now),
            fire=views.fire_view(fire, room, result=600),
            alarm=views.alarm_view(alarm, room, message=600, payload=0),
            notes=[*room.notes, *done.notes],
        )

    async def inbox(self, asked: InboxArguments) -> InboxResult:
        target = asked.target or INBOX
        found = await self._alarms.inbox(
            limit=asked.limit,
            wait=asked.wait,
            target=target,
            conversation_id=asked.conversation_id,
            done=asked.done,
        )
        room = TextBudget()
        each = (BUDGET - HEAD) // max(1, len(found)) - NUMBERS
        wakes = [views.wake_view(taken, room, each=each) for taken in found]
        what = f"{len(wakes)} wakes" if len(wakes) != 1 else "1 wake"
        reported = f" {len(asked.done)} reported as completed." if asked.done else ""
        notes = found.notes
        then = "Do the work, then call alarm_report with each fire_id." if wakes else ""
        if not wakes and not notes:
            then = "Nothing is due."
        summary = " ".join(filter(None, (f"{what}.{reported}", then, *notes[:1])))
        return InboxResult(summary=summary, now=await self._now(), wakes=wakes, notes=[*room.notes, *notes])

    async def _changed(self, what: str, done: Changed) -> AlarmResult:
        return AlarmResult(**await self._said(what, done.alarm, done.notes), in_flight=done.in_flight)

    async def _said(self, what: str, alarm: Alarm, notes: Sequence[str] = ()) -> dict[str, Any]:
        """What every answer about one alarm says."""
        now, room = await self._service.now(), TextBudget()
        return {
            "summary": f"{what}: {views.words(alarm)}. {views.ahead(alarm, now)}",
            "now": views.utc(now),
            "alarm": views.alarm_view(alarm, room, message=600, payload=600),
            "notes": [*notes, *room.notes],
        }


def _then(done: ChangedFire, now: datetime) -> str:
    if done.retry_at is not None:
        return f"It is tried again at {views.utc(done.retry_at)}."
    if done.fire.status == "delivered" and done.fire.report_by is not None:
        return f"Report its end by {views.utc(done.fire.report_by)}."
    return views.ahead(done.alarm, now)


def _request(asked: Any) -> CreateRequest:
    return request_of(CreateRequest, {NAMES.get(name, name): value for name, value in _plain(asked).items()})


def _item(at: int, shared: Mapping[str, Any], one: Mapping[str, Any]) -> CreateRequest:
    """One of several, with what was said for all of them."""
    try:
        asked = msgspec.convert(without_nulls(one, SetArguments), SetArguments)
        if asked.alarms is not UNSET:
            raise InvalidRequest("it is a list within the list", field="alarms", fix="Give one list.")
        fields = {**shared, **given(asked)}
        _check_required(fields)
        return _request(msgspec.structs.replace(asked, **fields))
    except msgspec.ValidationError as error:
        raise InvalidRequest(str(error), field=f"alarms[{at}]") from None
    except InvalidRequest as error:
        error.field = f"alarms[{at}].{error.field}"
        raise


def _check_required(fields: Mapping[str, Any]) -> None:
    for name in REQUIRED_TO_SET:
        if name not in fields:
            required = ", ".join(f"{one}*" for one in REQUIRED_TO_SET)
            fix = f"It takes: {required}, {', '.join(_OPTIONAL)} (* required)."
            raise InvalidRequest(f"Object missing required field `{name}`", field=name, fix=fix)


_OPTIONAL: Final = tuple(
    name for name in SetArguments.__struct_encode_fields__ if name not in (*REQUIRED_TO_SET, "alarms")
)


def _tally(added: Sequence[Created]) -> str:
    """How many were set; those whose key was known were not, and ended ones will not fire again."""
    known = [one.alarm for one in added if one.deduped]
    if not known:
        return f"Set {len(added)} alarms, all of them."
    told = f"Set {len(added) - len(known)} of {len(added)} alarms; {len(known)} existed already."
    ended = sum(alarm.finished for alarm in known)
    if not ended:
        return told
    verb = "has" if ended == 1 else "have"
    return f'{told} {ended} of those {verb} ended: give on_conflict "replace" to set them again.'


def _soonest(added: Sequence[Created]) -> str:
    active = [one.alarm for one in added if one.alarm.status == "active"]
    if not active:
        return ""
    first = min(active, key=lambda alarm: alarm.next_fire_at)
    return f"The first fires at {views.local(first.next_fire_at, first.timezone)}."


def _check_action(asked: ActArguments) -> None:
    """Refuse arguments that do not belong to the action: a `when` with `pause` would be silently ignored."""
    mine = _FOR_ACTION[asked.action]
    strange = [name for name in given(asked) if name not in ("id", "action", *mine)]
    if strange:
        name = "for" if strange[0] == "wait" else strange[0]
        takes = ", ".join("for" if field == "wait" else field for field in mine) or "nothing else"
        raise InvalidRequest(
            f"it does not go with action {asked.action!r}", field=name, fix=f"{asked.action} takes: {takes}."
        )
    if asked.action == "edit" and not set(given(asked)) & set(mine[:-1]):
        raise InvalidRequest("nothing to change was given", field="action", fix=f"Give one of: {', '.join(mine[:-1])}.")


def _plain(asked: Struct) -> dict[str, Any]:
    """What was given, the policy as a mapping."""
    fields = given(asked)
    return fields | ({"policy": given(fields["policy"])} if isinstance(fields.get("policy"), Struct) else {})
