"""The tools: each reads its arguments, calls one verb of the service, and describes the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Struct

from wakeful.errors import Conflict, InvalidRequest, NotFound
from wakeful.http import operations
from wakeful.mcp import agent_views
from wakeful.mcp.agent_views import BUDGET, TextBudget
from wakeful.mcp.schemas import (
    EDITABLE,
    RENAMED,
    REQUIRED_TO_SET,
    ActArguments,
    AgendaArguments,
    AgendaEntry,
    AgendaResult,
    AgentAlarm,
    AlarmResult,
    CancelArguments,
    CancelResult,
    GetArguments,
    GetResult,
    HistoryArguments,
    HistoryLine,
    HistoryResult,
    InboxArguments,
    InboxResult,
    ListArguments,
    ListResult,
    ReportArguments,
    ReportResult,
    SetArguments,
    SetResult,
    SignalArguments,
    SignalResult,
    as_meant,
    given,
)
from wakeful.model.alarm import INBOX, PENDING, Alarm, is_fire_id, parse_fire_id
from wakeful.model.requests import CreateRequest, EditRequest, ReportRequest
from wakeful.rules.wanted import request_of
from wakeful.service import Alarms, Cancelled, Changed, ChangedFire, Created, HistoryEntry
from wakeful.service.history import next_fires
from wakeful.service.inbox import missed

HEAD: Final = 400  # bytes of an answer around its list
PIECE: Final = 4800  # bytes of a long text read in pieces, unless more are asked for
Line = TypeVar("Line", bound=Struct)


class LookTools:
    """What one caller can look at."""

    def __init__(self, alarms: Alarms) -> None:
        self._alarms = alarms
        self._service = alarms.service

    async def list(self, arguments: ListArguments) -> ListResult:
        statuses: Any = {"all": (), "pending": PENDING}.get(arguments.status, (arguments.status,))
        found = await self._alarms.find(
            status=statuses,
            text=arguments.text,
            target=arguments.target,
            conversation_id=arguments.conversation_id,
            cursor=agent_views.cursor(arguments.cursor),
            limit=arguments.limit,
            most=operations.PAGE_SIZE,
        )
        shown: list[AgentAlarm] = that_fit(agent_views.brief(alarm) for alarm in found)
        last = found[len(shown) - 1] if len(shown) < len(found) else None
        further = found.further if last is None else (last.created_at, last.id)
        more = further is not None
        what = f"{len(shown)} alarms, newest first" if len(shown) != 1 else "1 alarm"
        kind = "" if arguments.status == "all" else f" ({arguments.status})"
        return ListResult(
            summary=f"{what}{kind}." + (" There are more: call again with cursor." if more else ""),
            now=await self._now(),
            alarms=shown,
            next_cursor="" if further is None else agent_views.cursor_of(*further),
        )

    async def agenda(self, arguments: AgendaArguments) -> AgendaResult:
        found = await self._alarms.agenda(hours=arguments.hours, limit=arguments.limit, most=operations.PAGE_SIZE)
        now = await self._service.now()
        shown = that_fit(_coming(at, alarm) for at, alarm in found)
        more = len(shown) < len(found) or found.further is not None
        what = f"{len(shown)} fires" if len(shown) != 1 else "1 fire"
        first = f" The next is {agent_views.away(found[0][0] - now)}." if found else ""
        return AgendaResult(
            summary=f"{what} in the next {arguments.hours:g} hours, soonest first.{first}"
            + (" There are more: ask for fewer hours." if more else ""),
            now=agent_views.utc(now),
            agenda=shown,
            more=more,
            notes=found.notes,
        )

    async def history(self, arguments: HistoryArguments) -> HistoryResult:
        since = None if arguments.since is UNSET else arguments.since
        found = await self._alarms.history(
            status=arguments.status,
            target=arguments.target,
            since=since,
            limit=arguments.limit,
            most=operations.PAGE_SIZE,
        )
        shown = that_fit(map(_line, found), BUDGET - 3 * HEAD)
        more = len(shown) < len(found) or found.further is not None
        kinds = Counter(entry.status for entry in found[: len(shown)])
        told = ", ".join(f"{number} {status}" for status, number in kinds.most_common()) or "nothing happened"
        return HistoryResult(
            summary=f"{told}, newest first." + (" There are more: give since, status or target." if more else ""),
            now=await self._now(),
            history=shown,
            missed=missed(found[: len(shown)]),
            budget=[agent_views.budget(use) for use in await self._alarms.budget() if use.wakes or use.cost][:5],
            more=more,
            notes=found.notes,
        )

    async def get(self, arguments: GetArguments) -> GetResult:
        try:
            return await self._got(arguments)
        except NotFound as error:  # be it an alarm or a fire: here it is called id
            raise NotFound(error.message, field="id", fix=error.fix) from None

    async def _got(self, arguments: GetArguments) -> GetResult:
        is_fire = is_fire_id(arguments.id)
        found = await self._alarms.details(parse_fire_id(arguments.id)[0] if is_fire else arguments.id)
        alarm = found.alarm
        if arguments.part is not UNSET:
            return await self._part(alarm, arguments)
        why = await self._alarms.why(arguments.id)
        one = [await self._alarms.fire_of(arguments.id)] if is_fire else None
        fires = one or await self._alarms.fires(alarm.id, limit=3)
        ahead = await next_fires(alarm, 3) if alarm.status == "active" else []
        room = TextBudget()
        return GetResult(
            summary=f"{agent_views.words(alarm)}. {agent_views.ahead(alarm, why.now)}",
            now=agent_views.utc(why.now),
            why=room.text(why.summary, 800, "why", agent_views.part_call(arguments.id, "facts")),
            alarm=agent_views.alarm_view(alarm, room, message=900, payload=900),
            next_fires=[agent_views.local(at, alarm.timezone) for at in ahead],
            fires=[agent_views.fire_view(fire, room, manual=fire.alarm_id != alarm.id) for fire in fires],
            notes=[*room.notes, *found.notes],
        )

    async def _part(self, alarm: Alarm, arguments: GetArguments) -> GetResult:
        assert arguments.part is not UNSET
        part, offset = arguments.part, arguments.offset
        text = await self._text(alarm, arguments.id, part)
        kept = agent_views.cut(
            text[offset:], PIECE if arguments.length is UNSET else max(arguments.length, agent_views.SHORTEST_PIECE)
        )
        end = offset + len(kept) - (1 if kept != text[offset:] else 0)
        more = end < len(text)
        return GetResult(
            summary=f"{part}: characters {offset} to {end} of {len(text)}."
            + (" Call again with offset; a greater length takes fewer calls." if more else ""),
            now=await self._now(),
            part=part,
            text=kept.removesuffix("…") if more else kept,
            next_offset=end if more else 0,
        )

    async def _text(self, alarm: Alarm, id: str, part: str) -> str:
        if part == "facts":
            why = await self._alarms.why(id)
            return "\n".join(why.facts)
        if part == "result":
            if not is_fire_id(id):
                raise InvalidRequest(
                    "only a fire has a result", field="id", fix="Give a fire_id from alarm_get's fires."
                )
            return (await self._alarms.fire_of(id)).result
        return alarm.payload_json if part == "payload" else alarm.wake_message

    async def _now(self) -> str:
        return agent_views.utc(await self._service.now())


def that_fit(lines: Iterable[Line], room: int = BUDGET - HEAD) -> list[Line]:
    """As many lines as there is room for in an answer, but always one."""
    shown: list[Line] = []
    for line in lines:
        room -= len(msgspec.json.encode(line)) + 1
        if room < 0 and shown:
            break
        shown.append(line)
    return shown


def _coming(at: datetime, alarm: Alarm) -> AgendaEntry:
    return AgendaEntry(
        at=agent_views.utc(at),
        local=agent_views.local(at, alarm.timezone),
        alarm_id=alarm.id,
        target=agent_views.cut(alarm.target, 80),
        label=agent_views.cut(alarm.label, 80),
        key=agent_views.cut(alarm.idempotency_key, 80),
        message=agent_views.cut(alarm.wake_message, 120),
    )


def _line(entry: HistoryEntry) -> HistoryLine:
    return HistoryLine(
        id=entry.id,
        status=entry.status,
        scheduled_for=agent_views.utc(entry.scheduled_for),
        late_ms=entry.late_ms or 0,
        count=entry.count,
        manual=entry.manual,
        reason=agent_views.cut(entry.reason, 120),
        attempts=entry.attempts,
        outcome=agent_views.cut(entry.result or entry.error, 160),
        message=agent_views.cut(entry.label or entry.message, 100),
    )


NUMBERS: Final = 540  # bytes of each wake that tell how late it is and where it stands in its series
OWNER: Final = "me"  # in place of an alarm's id
EVERY: Final = "all"
FOR_ALL: Final = ("due_from", "due_to", "dry_run")
NAMES: Final = {mine: theirs for theirs, mine in RENAMED.items()}
_FOR_ACTION: Final[Mapping[str, tuple[str, ...]]] = {
    "edit": (*EDITABLE, "version"),
    "pause": ("reason",),
    "resume": (),
    "snooze": ("wait", "until"),
    "skip": ("at",),
    "move": ("by",),
    "append": ("payload",),
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
        lines = that_fit((agent_views.brief(one.alarm) for one in added), BUDGET - 2 * HEAD - 40 * len(ids))
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

    async def update(self, arguments: ActArguments) -> AlarmResult:
        _check_action(arguments)
        if arguments.id == OWNER:
            return await self._own_zone(given(arguments))
        if arguments.id == EVERY or arguments.action == "move":
            return await self._move(given(arguments))
        match arguments.action:
            case "pause":
                reason = arguments.reason if arguments.reason is not UNSET else ""
                return await self._changed("Paused", await self._alarms.pause(arguments.id, reason=reason))
            case "resume":
                return await self._changed("Resumed", await self._alarms.resume(arguments.id))
            case "snooze":
                return await self._snooze(arguments)
            case "skip":
                meant = arguments.at if arguments.at is not UNSET else None
                return await self._changed("Skipped the next fire", await self._alarms.skip(arguments.id, at=meant))
            case "append" | "fire" | "retry" | "undo":
                return await self._again(arguments)
        return await self._edit(arguments)

    async def _again(self, asked: Any) -> AlarmResult:
        if asked.action == "append":
            if asked.payload is UNSET:
                fix = 'Give what is to be added, such as {"seen": [3]}.'
                raise InvalidRequest("it is missing", field="payload", fix=fix)
            return await self._changed("Appended to", await self._alarms.append(asked.id, asked.payload))
        if asked.action == "undo":
            when = asked.when if asked.when is not UNSET else None
            return await self._changed("Taken back", await self._alarms.undo(asked.id, when=when))
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

    async def _move(self, said: Mapping[str, Any]) -> AlarmResult:
        """Of all alarms, or of one: later, or, of all of them, to another zone."""
        fields = {name: value for name, value in said.items() if name not in ("id", "action")}
        if said["action"] not in ("edit", "move") or set(fields) - {"by", "timezone", *FOR_ALL}:
            fix = 'Give action "move" with by, or timezone alone; and due_from, due_to, dry_run.'
            raise InvalidRequest("all alarms can only be moved", field="id", fix=fix)
        named: dict[str, Any] = {"everything": True} if said["id"] == EVERY else {"ids": [said["id"]]}
        done = await self._alarms.move_many(**named, **fields)
        if "ids" in named:
            told = await self._said("Moved", done.alarms[0], done.notes)
            return AlarmResult(**told, moved=1, in_flight=bool(done.in_flight))
        number, shown = len(done.alarms), that_fit(agent_views.brief(alarm) for alarm in done.alarms)
        what = f"{number} alarms" if number != 1 else "1 alarm"
        return AlarmResult(
            summary=f"{what} would be moved; nothing was." if done.dry_run else f"{what} moved.",
            now=await self._now(),
            alarms=shown,
            moved=0 if done.dry_run else number,
            would_move=number if done.dry_run else 0,
            in_flight=bool(done.in_flight),
            notes=[*done.notes, *([f"{number - len(shown)} more are not shown."] if len(shown) < number else [])],
        )

    async def _edit(self, arguments: ActArguments) -> AlarmResult:
        version = arguments.version if arguments.version is not UNSET else None
        fields = {name: value for name, value in given(arguments).items() if name in EDITABLE}
        return await self._changed(
            "Changed", await self._alarms.edit(arguments.id, request_of(EditRequest, fields), version=version)
        )

    async def _snooze(self, arguments: ActArguments) -> AlarmResult:
        wait = None if arguments.wait is UNSET else arguments.wait
        until = None if arguments.until is UNSET else arguments.until
        if (wait is None) == (until is None):
            fix = 'Give "for", such as "1h", or "until", such as "tomorrow at 9am".'
            raise InvalidRequest("a snooze needs a length or an end", field="for", fix=fix)
        return await self._changed("Snoozed", await self._alarms.snooze(arguments.id, wait, until=until))

    async def _retry(self, id: str) -> AlarmResult:
        try:
            done = await self._alarms.retry(id)
        except (NotFound, Conflict) as error:
            error.field = "id"
            raise
        return AlarmResult(**await self._said("Tried again", done.alarm, done.notes), fire_id=done.fire.id)

    async def cancel(self, arguments: CancelArguments) -> CancelResult:
        named = given(arguments)
        ids = [*([named["id"]] if "id" in named else []), *named.get("ids", [])]
        filters = {name: named[name] for name in ("text", "conversation_id", "target")}
        due = {name: named[name] for name in ("due_from", "due_to") if name in named}
        if len(ids) == 1 and not arguments.dry_run and not any(filters.values()) and not due:
            done = await self._alarms.cancel(ids[0], reason=arguments.reason)
            is_cancelled = done.alarm.status == "cancelled"
            what = "Cancelled" if is_cancelled else "It had ended already"
            said = await self._said(what, done.alarm, done.notes)
            return CancelResult(**said, cancelled=int(is_cancelled), in_flight=done.in_flight)
        return await self._cancelled(
            await self._alarms.cancel_many(ids, **filters, **due, reason=arguments.reason, dry_run=arguments.dry_run)
        )

    async def _cancelled(self, done: Cancelled) -> CancelResult:
        shown = that_fit(agent_views.brief(alarm) for alarm in done.alarms)
        number = len(done.alarms)
        what = f"{number} alarms" if number != 1 else "1 alarm"
        told = f"{what} would be cancelled; nothing was." if done.dry_run else f"{what} cancelled."
        if done.skipped:
            told += f" Of these {done.skipped} are series, which leave out what falls within and go on."
        notes = [*done.notes, *([f"{number - len(shown)} more are not shown."] if len(shown) < number else [])]
        return CancelResult(
            summary=told,
            now=await self._now(),
            alarms=shown,
            cancelled=0 if done.dry_run else number,
            would_cancel=number if done.dry_run else 0,
            skipped=done.skipped,
            in_flight=bool(done.in_flight),
            notes=notes,
        )

    async def signal(self, arguments: SignalArguments) -> SignalResult:
        payload = None if arguments.payload is UNSET else arguments.payload
        done = await self._alarms.signal(arguments.name, payload)
        shown = that_fit(map(agent_views.brief, (one.alarm for one in done.alarms)), BUDGET - 2 * HEAD)
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
            effects=[agent_views.signal_effect(one) for one in done.alarms[: len(shown)]],
            in_flight=bool(done.in_flight),
            notes=[f"{hidden} more are not shown."] if hidden else done.notes,
        )

    async def report(self, arguments: ReportArguments) -> ReportResult:
        if arguments.outcome == "hand_over":
            return await self._hand_over(arguments)
        if arguments.target is not UNSET:
            await self._alarms.fire_of(arguments.fire_id)
            raise InvalidRequest("it goes with hand_over only", field="target", fix='Give outcome "hand_over".')
        wait = arguments.wait if arguments.wait is not UNSET else None
        cost = arguments.cost if arguments.cost is not UNSET else None
        said = ReportRequest(
            outcome=arguments.outcome,
            result=arguments.result,
            reason=arguments.reason,
            wait=wait,
            cost=cost,
            renew=arguments.renew,
        )
        try:
            done = await self._alarms.report(arguments.fire_id, said)
        except NotFound:  # be it the fire or its alarm: the caller named a fire
            raise NotFound(
                f"there is no fire {arguments.fire_id!r} to report on",
                field="fire_id",
                fix="Give the fire_id of your wake.",
            ) from None
        fire, alarm = done.fire, done.alarm
        now, room = await self._service.now(), TextBudget()
        told = f"Not noted: the fire is {fire.status}." if done.notes else f"Noted: the fire is {fire.status}."
        return ReportResult(
            summary=" ".join((told, *done.notes, _then(done, now))),
            now=agent_views.utc(now),
            fire=agent_views.fire_view(fire, room, result=600),
            alarm=agent_views.alarm_view(alarm, room, message=600, payload=0),
            notes=[*room.notes, *done.notes],
        )

    async def _hand_over(self, arguments: ReportArguments) -> ReportResult:
        if arguments.target is UNSET:
            await self._alarms.fire_of(arguments.fire_id)
            raise InvalidRequest("it is missing", field="target", fix="Name the target that is woken in your place.")
        made = await self._alarms.hand_over(arguments.fire_id, arguments.target)
        fire, room, now = await self._alarms.fire_of(arguments.fire_id), TextBudget(), await self._service.now()
        return ReportResult(
            summary=f"Handed over: {arguments.target!r} is woken for it by alarm {made.alarm.id}.",
            now=agent_views.utc(now),
            fire=agent_views.fire_view(fire, room, result=600),
            alarm=agent_views.alarm_view(made.alarm, room, message=600, payload=0),
            notes=[*room.notes, *made.notes],
        )

    async def inbox(self, arguments: InboxArguments) -> InboxResult:
        target = arguments.target or INBOX
        found = await self._alarms.inbox(
            limit=arguments.limit,
            wait=arguments.wait,
            target=target,
            conversation_id=arguments.conversation_id,
            done=arguments.done,
        )
        room = TextBudget()
        each = (BUDGET - HEAD) // max(1, len(found)) - NUMBERS
        wakes = [agent_views.wake_view(taken, room, each=each) for taken in found]
        what = f"{len(wakes)} wakes" if len(wakes) != 1 else "1 wake"
        reported = f" {len(arguments.done)} reported as completed." if arguments.done else ""
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
            "summary": f"{what}: {agent_views.words(alarm)}. {agent_views.ahead(alarm, now)}",
            "now": agent_views.utc(now),
            "alarm": agent_views.alarm_view(alarm, room, message=600, payload=600),
            "notes": [*notes, *room.notes],
        }


def _then(done: ChangedFire, now: datetime) -> str:
    if done.retry_at is not None:
        return f"It is tried again at {agent_views.utc(done.retry_at)}."
    if done.fire.status == "delivered" and done.fire.report_by is not None:
        return f"Report its end by {agent_views.utc(done.fire.report_by)}."
    return agent_views.ahead(done.alarm, now)


def _request(asked: Any) -> CreateRequest:
    return request_of(CreateRequest, {NAMES.get(name, name): value for name, value in _plain(asked).items()})


def _item(at: int, shared: Mapping[str, Any], one: Mapping[str, Any]) -> CreateRequest:
    """One of several, with what was said for all of them."""
    try:
        asked = msgspec.convert(as_meant(one, SetArguments), SetArguments)
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
            if name == "when" and getattr(fields.get("policy"), "or_when", UNSET) is not UNSET:
                fix = 'Give the latest time, such as "in 30 days": or_when fires it as soon as the signal comes.'
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
    return f"The first fires at {agent_views.local(first.next_fire_at, first.timezone)}."


def _check_action(arguments: ActArguments) -> None:
    """Refuse arguments that do not belong to the action: a `when` with `pause` would be silently ignored."""
    mine = (*_FOR_ACTION[arguments.action], *(FOR_ALL if arguments.id == EVERY else ()))
    strange = [name for name in given(arguments) if name not in ("id", "action", *mine)]
    if strange:
        name = "for" if strange[0] == "wait" else strange[0]
        takes = ", ".join("for" if field == "wait" else field for field in mine) or "nothing else"
        raise InvalidRequest(
            f"it does not go with action {arguments.action!r}", field=name, fix=f"{arguments.action} takes: {takes}."
        )
    if arguments.action == "edit" and not set(given(arguments)) & set(mine[:-1]):
        raise InvalidRequest("nothing to change was given", field="action", fix=f"Give one of: {', '.join(mine[:-1])}.")


def _plain(asked: Struct) -> dict[str, Any]:
    """What was given, the policy as a mapping."""
    fields = given(asked)
    return fields | ({"policy": given(fields["policy"])} if isinstance(fields.get("policy"), Struct) else {})
