from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.interfaces.world import Visitor, serving

# What these check is told like what a test checks.
pytest.register_assert_rewrite("tests.interfaces.owner_world", "tests.interfaces.wishes")


@pytest.fixture
async def visit(tmp_path: Path) -> AsyncIterator[Visitor]:
    async with serving(str(tmp_path / "wakeful.db")) as visitor:
        yield visitor
