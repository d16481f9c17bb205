"""`target test`: one wake through the real target, now, without an alarm."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any, Final

import click
import msgspec

from wakeful.alarm import Alarm, Completed, Delivered, Failed, Outcome, Snoozed, Wake
from wakeful.app import build_targets
from wakeful.cli.context import Command, asked
from wakeful.client import Checked
from wakeful.clock import SystemClock, stopwatch
from wakeful.config import Settings
from wakeful.errors import InvalidRequest, UnknownTarget
from wakeful.ids import Ids
from wakeful.moments import whole_ms

_WITHIN: Final = 300  # seconds; a target's own limit is shorter


@click.command("test", cls=Command)
@click.argument("name")
@click.option("--message", default="This is a test of wakeful: nothing is to be done.", help="What the wake says.")
@click.option("--payload", default='{"test": true}', metavar="JSON", help="What the wake brings along.")
@click.option("--conversation", default="", help="The conversation the wake belongs to.")
def target_test(name: str, message: str, payload: str, conversation: str) -> int:
    """Send one test wake through a target and show what came back.

    It is really sent, from here and at once. No alarm is set and nothing is kept; a report on it is not accepted. The
    row of a table is shown, not written. The exit status is 1 when the target did not take it.
    """
    settings = asked().settings()
    _check_json(payload)
    wake = _wake(settings, name, message=message, payload=payload, conversation=conversation)
    outcome, took = asyncio.run(_sent(settings, name, wake))
    shown = {"target": name, "outcome": type(outcome).__name__.lower(), **_said(outcome)}
    fields = {
        key: value if isinstance(value, str) else msgspec.json.encode(value).decode() for key, value in shown.items()
    }
    asked().output.record(
        fields | {"took": f"{took} ms", "fire": wake.fire_id}, shown | {"took_ms": took, "fire_id": wake.fire_id}
    )
    return 1 if isinstance(outcome, Failed) else 0


def _check_json(payload: str) -> None:
    try:
        msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(f"it is not JSON ({error})", field="--payload") from None


def _wake(settings: Settings, name: str, *, message: str, payload: str, conversation: str) -> Wake:
    now = whole_ms(SystemClock().now())
    alarm = Alarm(
        id=Ids().new(now),
        owner_did=settings.owner,
        user_id=settings.owner,
        label="test",
        wake_message=message,
        payload_json=payload,
        conversation_id=conversation,
        target=name,
        fire_at=now,
        next_fire_at=now,
        occurrence_at=now,
        created_at=now,
        updated_at=now,
        created_by=settings.owner,
        created_via="cli",
    )
    base = settings.public_url or settings.local_url
    # A key nobody knows: the report token has the usual form and opens nothing.
    url = base.rstrip("/") + "/v1/fires/{fire_id}/report"
    return Wake(alarm, report_url=url, secret=secrets.token_bytes(32))


async def _sent(settings: Settings, name: str, wake: Wake) -> tuple[Outcome, int]:
    served = build_targets(settings)
    try:
        if name not in served:
            raise UnknownTarget(
                f"there is no target {name!r} in the settings",
                field="target",
                fix=f"Known are: {', '.join(sorted(served))}. A handler lives in its own program, and is tested there.",
            )
        target = served[name].target
        if isinstance(target, Checked):
            await target.check(settings.db)
        begun = stopwatch()
        async with asyncio.timeout(_WITHIN):
            outcome = await target.deliver(wake)
        return outcome, round((stopwatch() - begun) * 1000)
    finally:
        for one in served.values():
            await one.target.close()


def _said(outcome: Outcome) -> dict[str, Any]:
    """What came back, as far as there is something."""
    match outcome:
        case Delivered(detail, awaits_report, row):
            awaits = {"awaits": "a report"} if awaits_report else {}
            return {"detail": detail, **awaits} | (
                {"row": {"table": row.table, **row.values}} if row is not None else {}
            )
        case Completed(result):
            return {"result": result}
        case Failed(error, retryable):
            return {
                "error": error,
                "retried": "it would be tried again" if retryable else "it would not be tried again",
            }
        case Snoozed(wait):
            return {"wants": f"it again in {wait.total_seconds():g} s"}
        case _:
            return {"detail": "it would wait in its owner's inbox"}
