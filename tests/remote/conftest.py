from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.world import Visitor, serving
from wakeful.process.application import open_server
from wakeful.python.program import Wakeful


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """Where the server keeps its alarms."""
    if request.param == "sqlite":
        return {"db": str(tmp_path / "w.db")}
    return {"db": request.getfixturevalue("pg_dsn"), "schema": request.getfixturevalue("pg_schema")}


@pytest.fixture
async def house(place: dict[str, Any]) -> AsyncIterator[Visitor]:
    """A server with the inbox `ops` beside the usual one."""
    async with serving(**place, targets={"ops": {"kind": "inbox"}}) as visitor:
        yield visitor


@pytest.fixture
async def alarms(house: Visitor) -> AsyncIterator[Wakeful]:
    async with open_server(house.url, "") as alarms:
        yield alarms
