"""The whole contract again, as a store behind pgbouncer keeps it: no prepared statements, no session settings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from wakeful.store import Store
from wakeful.store.postgres import PostgresStore
from wakeful.store.queries import Naming
from wakeful.testing import ManualClock
from wakeful.testing.conformance import *  # noqa: F403

from .conftest import PostgresOutbox

if TYPE_CHECKING:
    from wakeful.testing.conformance import Outbox


@pytest.fixture
async def place(pg_dsn: str, pg_migrated: str, clock: ManualClock) -> AsyncIterator[tuple[Store, Outbox]]:
    store = PostgresStore(pg_dsn, naming=Naming(schema=pg_migrated), clock=clock, pgbouncer=True)
    outbox = PostgresOutbox(pg_dsn, pg_migrated)
    await outbox.create()
    yield store, outbox
    await store.close()
