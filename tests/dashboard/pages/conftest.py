from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.dashboard.pages.desk import Desk
from tests.databases import database_of
from tests.interfaces.world import serving


@pytest.fixture(params=["sqlite", "postgres"])
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Desk]:
    async with serving(**database_of(request, tmp_path)) as visitor:
        yield Desk(visitor)
