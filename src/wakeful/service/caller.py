"""The caller of the verbs: set once by each interface."""

from __future__ import annotations

from msgspec import Struct

from wakeful.model.alarm import Alarm


class WakeOrigin(Struct, frozen=True):
    """The wake out of which a caller acts, who has only its token; and the chain that this wake belongs to."""

    fire_id: str
    root_id: str


class Caller(Struct, frozen=True, kw_only=True):
    owner: str  # whose alarms these are: somebody else's are not found. Empty: the operator, who sees all
    via: str  # the interface
    by: str = ""  # who is on record for what is done; the owner, where nothing more is known
    token_id: str = ""  # of the owner's token with which it is asked
    limited: bool = True  # whether an owner's limits hold. Without tokens there are none

    remote: bool = True  # whether it is asked over the network, or by a program that holds the database itself
    wake: WakeOrigin | None = None  # with the token of a wake: only its chain is found, and what is set joins it

    @property
    def name(self) -> str:
        return self.by or self.owner

    def reaches(self, alarm: Alarm) -> bool:
        """Return whether an alarm of the owner is one this caller may see."""
        return self.wake is None or self.wake.root_id in (alarm.id, alarm.root_id)

    def may_replace(self, alarm: Alarm) -> bool:
        """Return whether this caller may put another alarm in its place: out of a wake, only what a wake has set."""
        return self.reaches(alarm) and (self.wake is None or bool(alarm.parent_fire))
