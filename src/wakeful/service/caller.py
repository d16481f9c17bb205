"""The caller of the verbs: set once by each interface."""

from __future__ import annotations

from msgspec import Struct


class Caller(Struct, frozen=True, kw_only=True):
    owner: str  # whose alarms these are: somebody else's are not found. Empty: the operator, who sees all
    via: str  # the door
    by: str = ""  # who is on record for what is done; the owner, where nothing more is known
    limited: bool = True  # whether an owner's limits hold. Without tokens there are none

    remote: bool = True  # whether it is asked over the network, or by a program that holds the database itself

    @property
    def name(self) -> str:
        return self.by or self.owner
