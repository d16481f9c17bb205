"""`/alarms/{id}`: one alarm, why it is as it is, what it did and will do."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct, json
from msgspec.structs import replace
from starlette.responses import Response

from wakeful.dashboard.page import HEADERS, Visit
from wakeful.errors import Conflict, NotFound
from wakeful.http.security.guard import Answer
from wakeful.model.alarm import Alarm, Fire
from wakeful.rules.wake import ReportTo, Wake
from wakeful.service.change import last_change_of
from wakeful.service.history import next_fires
from wakeful.targets.webhook import varying

FIRES: Final = 30
NEXT: Final = 5


async def page(visit: Visit) -> Response:
    visit = visit.on_behalf(visit.query("owner"))
    alarms = visit.alarms
    found = await alarms.get(visit.request.path_params["id"])
    fires = await alarms.fires(found.id, limit=FIRES)
    chain = await alarms.find(root_id=found.root_id or found.id, limit=FIRES)
    now = await visit.context.service.now()
    chosen = await _chosen(visit, found, fires)
    fired = found if chosen is None or chosen.alarm_id == found.id else await alarms.get(chosen.alarm_id)
    return visit.show(
        "alarm.html",
        here="alarms",
        alarm=found,
        fires=fires,
        why=await alarms.why(found.id),
        following=await next_fires(found, NEXT) if found.status == "active" else [],
        parent=found.parent_fire.partition("@")[0],
        **await _undoable(visit, found, now),
        chain=[one for one in chain if one.id != found.id and one.policy.manual_of is None],
        now=now,
        told=_wake(visit, found).decode(),
        **_about(visit, fired, chosen, now),
    )


async def raw(visit: Visit) -> Response:
    """Send the whole of what the page of an alarm shows the beginning of, as a file."""
    visit = visit.on_behalf(visit.query("owner"))
    alarm = await visit.alarms.get(visit.request.path_params["id"])
    what = visit.request.path_params["what"]
    if what not in RAW:
        raise NotFound(f"an alarm has no {what!r} to send", field="what", fix="There are payload, wake and curl.")
    name, read = RAW[what]
    kind = "application/json" if name.endswith(".json") else "text/plain; charset=utf-8"
    headers = HEADERS | {"content-disposition": f'attachment; filename="{name}"'}
    return Answer(await read(visit, alarm), 200, headers, kind)


async def _raw_payload(_: Visit, alarm: Alarm) -> bytes:
    return alarm.payload_json.encode()


async def _raw_wake(visit: Visit, alarm: Alarm) -> bytes:
    return _wake(visit, alarm)


async def _raw_curl(visit: Visit, alarm: Alarm) -> bytes:
    fire = await visit.alarms.fire_of(visit.query("fire"))
    fired = await _fired(visit, alarm, fire)
    if fired is None or not fire.log:
        raise NotFound(f"the alarm has no attempt of a fire {fire.id!r}", field="fire")
    return _curl(visit, fired, fire).encode()


RAW: Final[dict[str, tuple[str, Callable[[Visit, Alarm], Awaitable[bytes]]]]] = {
    "payload": ("payload.json", _raw_payload),
    "wake": ("wake.json", _raw_wake),
    "curl": ("attempt.sh", _raw_curl),
}


async def _chosen(visit: Visit, alarm: Alarm, fires: list[Fire]) -> Fire | None:
    """The fire that the address names, else the latest that was tried."""
    if asked := visit.query("fire"):
        fire = await visit.alarms.fire_of(asked)
        if await _fired(visit, alarm, fire) is not None:
            return fire
    return next((fire for fire in fires if fire.log), fires[0] if fires else None)


async def _fired(visit: Visit, alarm: Alarm, fire: Fire) -> Alarm | None:
    """The alarm that a fire on this page is stored under: itself, or a copy by which it was fired by hand."""
    if fire.alarm_id == alarm.id:
        return alarm
    with suppress(NotFound):
        copy = await visit.alarms.get(fire.alarm_id)
        return copy if copy.policy.manual_of == alarm.id else None
    return None


async def _undoable(visit: Visit, alarm: Alarm, now: datetime) -> dict[str, Any]:
    """Which change of it the button takes back, empty where none can be; and whether that may need a new time."""
    with suppress(Conflict):
        former = await last_change_of(visit.alarms, alarm)
        has_passed = former.next_fire_at <= now and (former.what == "cancelled" or former.moved)
        return {"undo": former.verb, "undo_asks_time": has_passed and former.what in ("cancelled", "updated")}
    return {"undo": "", "undo_asks_time": False}


def _about(visit: Visit, alarm: Alarm, fire: Fire | None, now: Any) -> dict[str, Any]:
    if fire is None:
        return {"fire": None, "steps": [], "curl": ""}
    curl = _curl(visit, alarm, fire) if fire.log else ""
    return {"fire": fire, "steps": waterfall(fire, now), "curl": curl}


def _wake(visit: Visit, alarm: Alarm) -> bytes:
    return body_of(wake_of(alarm, alarm.occurrence_at, report_url=_report_url(visit)))


def _curl(visit: Visit, alarm: Alarm, fire: Fire) -> str:
    return curl_of(alarm, fire, report_url=_report_url(visit), attempt=len(fire.log))


def _report_url(visit: Visit) -> str:
    settings = visit.context.settings
    return (settings.public_url or settings.local_url).rstrip("/") + "/v1/fires/{fire_id}/report"


# A wake as its receiver gets it, and as a command to send it again by hand: without any secret. Pure


TOKEN: Final = "REPORT-TOKEN"  # these stand for tokens that only the receiver of a wake has
WAKE_TOKEN: Final = "WAKE-TOKEN"


def wake_of(alarm: Alarm, scheduled_for: datetime, *, report_url: str, attempt: int = 1, late_ms: int = 0) -> Wake:
    at = replace(alarm, occurrence_at=scheduled_for)
    return Wake(at, attempt=attempt, late_ms=late_ms, report_url=report_url)


def body_of(wake: Wake) -> bytes:
    """The body byte for byte, but for its tokens."""
    content = wake.content
    return json.encode(replace(content, token=WAKE_TOKEN, report=ReportTo(url=content.report.url, token=TOKEN)))


def curl_of(alarm: Alarm, fire: Fire, *, report_url: str, attempt: int) -> str:
    """The signed request of an attempt as a shell script; who runs it sets URL and SECRET."""
    line = fire.log[attempt - 1]
    late_ms = max(0, int((line.at - fire.scheduled_for).total_seconds() * 1000))
    wake = wake_of(alarm, fire.scheduled_for, report_url=report_url, attempt=attempt, late_ms=late_ms)
    headers = "".join(f"  -H {shlex.quote(f'{name}: {value}')} \\\n" for name, value in varying(wake).items())
    return (
        f"# URL and SECRET are those of the target {_comment(fire.target)}; {TOKEN} and {WAKE_TOKEN} in the body\n"
        "# stand for tokens that only its receiver has.\n"
        f"ID={shlex.quote(fire.id)}\n"
        "TIMESTAMP=$(date +%s)\n"
        f"BODY={shlex.quote(body_of(wake).decode())}\n"
        'case $SECRET in whsec_*) KEY=$(printf %s "${SECRET#whsec_}" | base64 -d | od -An -tx1 | tr -d " \\n");;\n'
        '  *) KEY=$(printf %s "$SECRET" | od -An -tx1 | tr -d " \\n");; esac\n'
        'SIGNATURE=$(printf %s "$ID.$TIMESTAMP.$BODY" |\n'
        '  openssl dgst -sha256 -mac HMAC -macopt "hexkey:$KEY" -binary | base64)\n'
        'curl -X POST "$URL" \\\n'
        f"{headers}"
        '  -H "webhook-id: $ID" -H "idempotency-key: $ID" \\\n'
        '  -H "webhook-timestamp: $TIMESTAMP" -H "webhook-signature: v1,$SIGNATURE" \\\n'
        '  --data-binary "$BODY"\n'
    )


def _comment(text: str) -> str:
    return "".join(sign for sign in text if sign.isprintable())


# One fire as a line of time: due, waiting for its start, each attempt, the waits between, its report. Pure


WIDTH: Final = 1000
LEAST: Final = 6  # so that what took no time is seen all the same
_MS: Final = timedelta(milliseconds=1)


class Step(Struct, frozen=True, kw_only=True):
    """A part of it. `kind`: late, attempt, failed, wait, report."""

    kind: str
    name: str
    begin: datetime
    end: datetime
    said: str = ""
    x: int = 0
    width: int = 0

    @property
    def ms(self) -> int:
        return (self.end - self.begin) // _MS


def waterfall(fire: Fire, now: datetime) -> list[Step]:
    """Its parts in the order of time, each with its place on a line of WIDTH units. None where nothing was tried."""
    steps = [step for step in _steps(fire, now) if step.end >= step.begin]
    if not steps:
        return []
    first, last = min(step.begin for step in steps), max(step.end for step in steps)
    whole = max(last - first, _MS)
    return [_placed(step, first, whole) for step in steps]


def _placed(step: Step, first: datetime, whole: timedelta) -> Step:
    width = max(LEAST, round(WIDTH * ((step.end - step.begin) / whole)))
    x = min(round(WIDTH * ((step.begin - first) / whole)), WIDTH - width)
    return Step(
        kind=step.kind, name=step.name, begin=step.begin, end=step.end, said=step.said, x=max(0, x), width=width
    )


def _steps(fire: Fire, now: datetime) -> Iterator[Step]:
    if not fire.log:
        return
    reached = fire.scheduled_for
    for number, line in enumerate(fire.log, 1):
        if line.at > reached:
            is_first = number == 1
            name = "waited for its start" if is_first else "waited for the next attempt"
            yield Step(kind="late" if is_first else "wait", name=name, begin=reached, end=line.at)
        end = line.at + line.ms * _MS
        is_last = number == len(fire.log)
        went_well = is_last and fire.status in ("delivered", "completed", "waiting")
        kind = "attempt" if went_well else "failed"
        yield Step(kind=kind, name=f"attempt {number}", begin=line.at, end=end, said=line.said)
        reached = max(reached, end)
    if fire.completed_at is not None and fire.completed_at > reached:
        yield Step(kind="report", name="until its report", begin=reached, end=fire.completed_at, said=fire.result[:200])
    elif fire.status == "delivered" and fire.report_by is not None:
        yield Step(kind="report", name="its report is awaited", begin=reached, end=max(now, reached))
