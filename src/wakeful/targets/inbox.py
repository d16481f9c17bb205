"""The inbox: for owners without an address. Their wakes wait in the database until they are fetched."""

from __future__ import annotations

from wakeful.alarm import Outcome, Waiting, Wake

_WAITING = Waiting()


class Inbox:
    """Has no settings: every wakeful has one, named `inbox`, and alarms without a target go there."""

    async def deliver(self, wake: Wake) -> Outcome:
        return _WAITING

    async def close(self) -> None:
        return None
