"""The inbox: for owners without an address. Their wakes wait in the database until they are fetched."""

from __future__ import annotations

from collections.abc import Callable

from wakeful.model.outcome import Outcome, Waiting
from wakeful.rules.wake import Wake

_WAITING = Waiting()


def _nobody_waits(_: str) -> None:
    return None


class Inbox:
    """Has no settings. Every wakeful has one, named `inbox`, where alarms without a target go; others have names."""

    def __init__(self) -> None:
        self.arriving: Callable[[str], None] = _nobody_waits  # called with the owner, just before the wake is recorded

    async def deliver(self, wake: Wake) -> Outcome:
        self.arriving(wake.owner_did)
        return _WAITING

    async def close(self) -> None:
        return None
