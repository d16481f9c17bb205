"""Owners' own settings: which zone, date order, working days and holidays count for whose alarms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.clock import Clock
from wakeful.errors import InvalidRequest
from wakeful.model.owner_settings import OwnerSettings, SettingsRequest
from wakeful.model.requests import Defaults
from wakeful.rules.owner_settings import changed, effective
from wakeful.settings import Settings
from wakeful.settings.values import server_settings

if TYPE_CHECKING:
    from wakeful.store import Store

GOOD_FOR: Final = 3.0  # seconds after which a change by another process is seen
REMEMBERED: Final = 10_000  # owners


class KnownSettings(Struct, frozen=True):
    """What was read of an owner's settings, when, and what counts where the server's fill the gaps."""

    at: float
    own: OwnerSettings
    counting: OwnerSettings


class OwnerSettingsCache:
    """What counts for an owner. Read once in a few seconds: a create costs one round trip, as before."""

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self.server = server_settings(settings)
        self._known: dict[str, KnownSettings] = {}

    async def of(self, owner: str) -> OwnerSettings:
        """What counts for an owner's alarms where they do not say."""
        return (await self.read(owner)).counting

    async def change(self, owner: str, request: SettingsRequest) -> OwnerSettings:
        if not owner:
            raise InvalidRequest("it is empty", field="owner_did", fix="Name the owner whose settings these are.")
        wanted = changed(await self._store.access.owner_settings(owner), request, self._settings.calendars)
        await self._store.access.put_owner_settings(owner, wanted)
        return self._remember(owner, wanted).own

    async def read(self, owner: str) -> KnownSettings:
        known = self._known.get(owner)
        if known is not None and self._clock.monotonic() - known.at < GOOD_FOR:
            return known
        return self._remember(owner, await self._store.access.owner_settings(owner))

    def _remember(self, owner: str, found: OwnerSettings) -> KnownSettings:
        known = KnownSettings(self._clock.monotonic(), found, effective(found, self.server))
        self._known.pop(owner, None)
        self._known[owner] = known
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]
        return known


def defaults_for(usual: Defaults, owner: OwnerSettings) -> Defaults:
    """What an alarm of an owner has where its caller does not say."""
    if (owner.timezone, owner.date_order) == (usual.timezone, usual.date_order):
        return usual
    return replace(usual, timezone=owner.timezone, date_order=owner.date_order)
