"""One wake through a real target, now, without an alarm: nothing is kept, and a report on it is not accepted."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from wakeful.alarm import Alarm, Completed, Delivered, Failed, Outcome, Snoozed, Wake
from wakeful.clock import stopwatch
from wakeful.errors import UnknownTarget
from wakeful.ids import Ids
from wakeful.moments import whole_ms
from wakeful.settings import Settings
from wakeful.targets import Target

MESSAGE: Final = "This is a test of wakeful: nothing is to be done."
PAYLOAD: Final = '{"test": true}'
_WITHIN: Final = 300  # seconds; the limit of a target itself is shorter, but for commands


class Tested(Struct, frozen=True):
    outcome: Outcome
    took_ms: int

    @property
    def failed(self) -> bool:
        return isinstance(self.outcome, Failed)


def wake_for_test(
    settings: Settings,
    name: str,
    *,
    now: datetime,
    via: str,
    message: str = MESSAGE,
    payload: str = PAYLOAD,
    conversation: str = "",
) -> Wake:
    now = whole_ms(now)
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
        created_via=via,
    )
    base = settings.public_url or settings.local_url
    # A key nobody knows: the report token has the usual form and opens nothing.
    url = base.rstrip("/") + "/v1/fires/{fire_id}/report"
    return Wake(alarm, report_url=url, secret=secrets.token_bytes(32))


def target_named(name: str, served: Mapping[str, Target]) -> Target:
    if name not in served:
        raise UnknownTarget(
            f"there is no target {name!r} in the settings",
            field="target",
            fix=f"Known are: {', '.join(sorted(served))}. A handler lives in its own program, and is tested there.",
        )
    return served[name]


async def send_test(target: Target, wake: Wake) -> Tested:
    begun = stopwatch()
    try:
        async with asyncio.timeout(_WITHIN):
            outcome = await target.deliver(wake)
    except TimeoutError:
        outcome = Failed(f"a test ends after {_WITHIN} s, and it took longer")
    return Tested(outcome, round((stopwatch() - begun) * 1000))


def told(outcome: Outcome) -> dict[str, Any]:
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
