"""Conformance tests for targets: subclass TargetConformance and give it a `target` fixture."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final, get_args

from wakeful.model.alarm import Alarm
from wakeful.model.outcome import Failed, Outcome
from wakeful.rules.wake import Wake
from wakeful.targets import Target

NINE: Final = datetime(2030, 1, 1, 9, 0, tzinfo=UTC)
_STRANGE: Final = "<b>\"'\\ \u202e\r\n\t\x1b[31m😀 {0.__class__} %s ; drop table messages; --"


def a_wake(
    message: str = "Check the grant portal",
    *,
    attempt: int = 1,
    late_ms: int = 0,
    missed: int = 0,
    report_url: str = "https://wakeful.example/v1/fires/{fire_id}/report",
    **fields: Any,
) -> Wake:
    """A wake to try a target with; any field of its alarm can be given."""
    given = {
        "id": "01900000-0000-7000-8000-000000000001",
        "owner_did": "did:matrix:alice:0123456789abcdef",
        "user_id": "alice",
        "next_fire_at": NINE,
        "occurrence_at": NINE,
        "created_at": NINE,
        "updated_at": NINE,
        "wake_message": message,
        **fields,
    }
    alarm = Alarm(**given)
    return Wake(alarm, attempt=attempt, late_ms=late_ms, missed=missed, report_url=report_url, secret=b"test")


class TargetConformance:
    """The tests. `target` must be a working target; what stands behind it is yours to set up."""

    async def test_delivering_gives_an_outcome(self, target: Target) -> None:
        outcome = await target.deliver(a_wake())
        assert isinstance(outcome, get_args(Outcome))
        assert not isinstance(outcome, Failed)

    async def test_a_repetition_under_the_same_fire_id_is_safe(self, target: Target) -> None:
        first = await target.deliver(a_wake())
        again = await target.deliver(a_wake(attempt=2, late_ms=30_000))
        assert type(again) is type(first)

    async def test_strange_text_is_delivered_and_never_raises(self, target: Target) -> None:
        plain = await target.deliver(a_wake())
        strange: dict[str, Any] = dict.fromkeys(
            ("label", "conversation_id", "owner_did", "user_id", "created_by", "created_via"), _STRANGE
        )
        wake = a_wake(
            _STRANGE,
            id="01900000-0000-7000-8000-000000000002",
            payload_json=json.dumps({_STRANGE: _STRANGE}),
            **strange,
        )
        assert type(await target.deliver(wake)) is type(plain)

    async def test_an_id_that_is_no_uuid_never_raises(self, target: Target) -> None:
        outcome = await target.deliver(a_wake(id="folder/sub-mem-0 é\r\nx: y"))
        assert isinstance(outcome, get_args(Outcome))

    async def test_the_largest_wake_is_delivered(self, target: Target) -> None:
        plain = await target.deliver(a_wake())
        large = json.dumps("é" * 60_000, ensure_ascii=False)
        wake = a_wake("m" * 32_768, id="01900000-0000-7000-8000-000000000003", payload_json=large)
        assert type(await target.deliver(wake)) is type(plain)

    async def test_it_can_be_closed_twice(self, target: Target) -> None:
        await target.deliver(a_wake())
        await target.close()
        await target.close()

    async def test_it_can_be_closed_unused(self, target: Target) -> None:
        await target.close()
