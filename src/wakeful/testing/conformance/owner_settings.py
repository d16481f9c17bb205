"""Owners' own settings: each owner's as they were put, and nobody else's."""

from __future__ import annotations

from wakeful.alarm.owner_settings import OwnerSettings
from wakeful.store import Store


class TestOwnerSettings:
    async def test_they_read_back_as_they_were_put(self, store: Store) -> None:
        assert await store.access.owner_settings("ada") == OwnerSettings()
        full = OwnerSettings(timezone="Europe/Berlin", date_order="dmy", working_days="mon-fri", calendar="bürö")
        await store.access.put_owner_settings("ada", full)
        await store.access.put_owner_settings("bob", OwnerSettings(timezone="Asia/Tokyo"))
        assert await store.access.owner_settings("ada") == full
        assert await store.access.owner_settings("bob") == OwnerSettings(timezone="Asia/Tokyo")

    async def test_what_is_put_again_takes_the_place_of_what_was(self, store: Store) -> None:
        await store.access.put_owner_settings("ada", OwnerSettings(timezone="Europe/Berlin", calendar="de"))
        await store.access.put_owner_settings("ada", OwnerSettings(date_order="mdy"))
        assert await store.access.owner_settings("ada") == OwnerSettings(date_order="mdy")
