"""A file of Alarm's, a database of ours on either store, and `wakeful import alarm` from the one into the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import wakeful
from wakeful.cli import main
from wakeful.model.alarm import Alarm, Fire
from wakeful.store import FireQuery, Store

from .alarm_file_world import AlarmsFile
from .chronos_world import Here, here_on

Import = Callable[..., Result]
A_PID = bytes([131, 104, 2, 119, 4]) + b"ping" + bytes([88, 119, 1]) + b"n" + bytes(12)


@pytest.fixture
def file(tmp_path: Path) -> AlarmsFile:
    (tmp_path / "data").mkdir()
    return AlarmsFile(tmp_path / "data" / "alarm.sqlite")


@pytest.fixture(params=["sqlite", "postgres"])
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Here]:
    with here_on(request.param, request, tmp_path) as here:
        yield here


@pytest.fixture
def bring(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Import:
    """Run the command, as people and scripts do."""
    monkeypatch.chdir(tmp_path)
    for name, value in here.environ.items():
        monkeypatch.setenv(name, value)

    def bring(*args: str, code: int = 0, path: str = "data/alarm.sqlite") -> Result:
        result = CliRunner().invoke(main, ["import", "alarm", path, *args], catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    return bring


def told(result: Result) -> Any:
    return json.loads(result.stdout)


def by_row(here: Here) -> dict[int, Alarm]:
    alarms = here.alarms().values()
    found = {int(alarm.idempotency_key.removeprefix("alarm:")): alarm for alarm in alarms}
    assert len(found) == len(alarms)
    return found


def fires(here: Here) -> dict[str, Fire]:
    async def read(store: Store) -> dict[str, Fire]:
        return {fire.alarm_id: fire for fire in await store.fires(FireQuery(limit=100_000))}

    return here.ask(read)


def opened(here: Here, **more: Any) -> wakeful.Wakeful:
    given: dict[str, Any] = here.given | more
    return wakeful.open(**given)


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
