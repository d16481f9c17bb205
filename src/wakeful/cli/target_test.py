"""`target test`: one wake through the real target, now, without an alarm."""

from __future__ import annotations

import asyncio

import click
import msgspec

from wakeful.alarm import Wake
from wakeful.app import build_targets
from wakeful.cli.context import Command, asked
from wakeful.client import Checked
from wakeful.clock import SystemClock
from wakeful.config import Settings
from wakeful.errors import InvalidRequest
from wakeful.service.target_testing import MESSAGE, PAYLOAD, Tested, send_test, target_named, told, wake_for_test


@click.command("test", cls=Command)
@click.argument("name")
@click.option("--message", default=MESSAGE, help="What the wake says.")
@click.option("--payload", default=PAYLOAD, metavar="JSON", help="What the wake brings along.")
@click.option("--conversation", default="", help="The conversation the wake belongs to.")
def target_test(name: str, message: str, payload: str, conversation: str) -> int:
    """Send one test wake through a target and show what came back.

    It is really sent, from here and at once. No alarm is set and nothing is kept; a report on it is not accepted. The
    row of a table is shown, not written. The exit status is 1 when the target did not take it.
    """
    settings = asked().settings()
    _check_json(payload)
    said = {"message": message, "payload": payload, "conversation": conversation}
    wake = wake_for_test(settings, name, now=SystemClock().now(), via="cli", **said)
    tested = asyncio.run(_sent(settings, name, wake))
    shown = {"target": name, "outcome": type(tested.outcome).__name__.lower(), **told(tested.outcome)}
    fields = {
        key: value if isinstance(value, str) else msgspec.json.encode(value).decode() for key, value in shown.items()
    }
    asked().output.record(
        fields | {"took": f"{tested.took_ms} ms", "fire": wake.fire_id},
        shown | {"took_ms": tested.took_ms, "fire_id": wake.fire_id},
    )
    return 1 if tested.failed else 0


def _check_json(payload: str) -> None:
    try:
        msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(f"it is not JSON ({error})", field="--payload") from None


async def _sent(settings: Settings, name: str, wake: Wake) -> Tested:
    served = build_targets(settings)
    try:
        target = target_named(name, {known: one.target for known, one in served.items()})
        if isinstance(target, Checked):
            await target.check(settings.db)
        return await send_test(target, wake)
    finally:
        for one in served.values():
            await one.target.close()
