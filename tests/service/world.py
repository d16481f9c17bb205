"""One owner's clock on either store, with an inbox, moved by hand."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.acting import acting
from wakeful.clock import Clock
from wakeful.dispatcher import ServedTarget
from wakeful.model.alarm import Alarm
from wakeful.python.client import LocalWakeful
from wakeful.settings import Settings
from wakeful.store import Store
from wakeful.targets.inbox import Inbox
from wakeful.testing import ManualClock

HOUR = timedelta(hours=1)


def waking(store: Store, clock: Clock, **settings: Any) -> LocalWakeful:
    served = {"inbox": ServedTarget(Inbox(), 64)}
    return LocalWakeful(store, settings=Settings(**settings), targets=served, clock=clock)


async def waiting(wake_me: LocalWakeful, clock: ManualClock, **asked: Any) -> Alarm:
    """An alarm that has fired into the inbox."""
    usual = {} if "cron" in asked else {"delay": 60}
    owner = asked.pop("owner", wake_me.caller.owner)
    alarm = await wake_me.for_owner(owner).set(**({"wake_message": "read me"} | usual | asked))
    await clock.advance(max(timedelta(0), alarm.next_fire_at - clock.now()))
    await wake_me.run_due()
    return alarm


async def ends(wake_me: LocalWakeful, id: str) -> list[tuple[str, str]]:
    """How its fires stand, the latest first."""
    return [(fire.status, fire.reason) for fire in await acting(wake_me.service, "").fires(id)]
