"""`at --wait`: stay until the alarm has fired and what became of that is known."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

import click

from wakeful.alarm import Alarm, Fire
from wakeful.cli.context import asked
from wakeful.cli.output import clean
from wakeful.clock import SystemClock
from wakeful.process.application import Wakeful
from wakeful.runtime.os_signals import ending_run

EVERY: Final = 0.1  # seconds between two looks
GOOD: Final = ("waiting", "delivered", "completed", "working")
_OPEN: Final = ("retrying",)  # another attempt follows
_PENDING: Final = ("active", "paused")


async def settled(alarms: Wakeful, alarm: Alarm) -> Fire | None:
    """The fire of a one-shot alarm once it is delivered or given up; None where the alarm ended without one."""
    async with _delivering(alarms, alarm):
        moment = asked().output.when(alarm.next_fire_at, await alarms.service.now())
        click.echo(f"note: waiting until it fires: {moment}; Ctrl-C ends the waiting, not the alarm", err=True)
        while True:
            now = await alarms.get(alarm.id)
            fires = await alarms.fires(alarm.id, limit=1)
            if fires and fires[0].status not in _OPEN:
                return fires[0]
            if now.status not in _PENDING:
                return None
            await SystemClock().sleep(EVERY)


@contextlib.asynccontextmanager
async def _delivering(alarms: Wakeful, alarm: Alarm) -> AsyncIterator[None]:
    """Deliver in this process where no worker does: otherwise the waiting would have no end."""
    # Whoever answers us at a server delivers there as well.
    if alarms.service.is_remote or (await alarms.service.targets.served()).get(alarm.target):
        yield
        return
    click.echo("note: no worker is running on this database: this command delivers while it waits", err=True)
    await alarms.check_targets()
    running = asyncio.create_task(alarms.dispatcher.run(), name="wakeful dispatcher")
    try:
        with ending_run():  # what it has started is ended too
            yield
    finally:
        alarms.dispatcher.stop()
        await asyncio.wait((running,))
    running.result()


def outcome(fire: Fire | None) -> str:
    """What became of it, in words."""
    if fire is None:
        return "it ended without firing"
    said = fire.last_error or fire.result or fire.reason
    where = " in the inbox; `wakeful wait` takes it" if fire.status == "waiting" else ""
    return f"{fire.status}{where}" + (f": {clean(said)}" if said else "")
