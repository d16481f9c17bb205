"""The inbox: for owners without an address. Their wakes wait in the database until they are fetched."""

from __future__ import annotations

from collections.abc import Callable

from wakeful.alarm import Outcome, Waiting, Wake

_WAITING = Waiting()


class Inbox:
    """Has no settings: every wakeful has one, named `inbox`, and alarms without a target go there."""

    def __init__(self, arriving: Callable[[str], None] = lambda _: None) -> None:
        self.arriving = arriving  # told the owner, a moment before the wake is on record

    async def deliver(self, wake: Wake) -> Outcome:
        self.arriving(wake.owner_did)
        return _WAITING

    async def close(self) -> None:
        return None
