from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.dashboard.browser import browsing
from tests.dashboard.driving import QUICK
from tests.databases import database_of
from tests.interfaces.world import Visitor, serving


@pytest.fixture
async def visit(tmp_path: Path) -> AsyncIterator[Visitor]:
    async with serving(str(tmp_path / "wakeful.db")) as visitor:
        yield visitor


# A browser is started once for all tests, each of which has a context of its own. What works with it runs in its loop.


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with browsing() as found:
        yield found


@pytest_asyncio.fixture(loop_scope="session", params=["sqlite", "postgres"])
async def both(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Visitor]:
    """A server on either store, that looks for what is due often."""
    async with serving(**database_of(request, tmp_path), tick=QUICK) as visitor:
        yield visitor
