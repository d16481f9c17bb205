"""A pytest plugin: the fixture `wakeful_alarms`. pytest finds it by itself where wakeful is installed.

    def test_the_brief_is_sent(wakeful_alarms):
        sent = []
        wakeful_alarms.handler("brief")(lambda wake: sent.append(wake.message))
        wakeful_alarms.set("in 9 hours", "Morning brief", target="brief")
        wakeful_alarms.advance("9h")
        assert sent == ["Morning brief"]

It needs no plugin for asyncio: the alarms have an event loop in a thread of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from wakeful.testing.alarms_for_tests import SteppedWakeful


@pytest.fixture
def wakeful_alarms(tmp_path: Path) -> Iterator[SteppedWakeful]:
    """Alarms in a file of this test's own, delivered while `advance` moves the time."""
    from wakeful.testing.alarms_for_tests import (
        SteppedWakeful,  # not before it is asked for: every pytest run loads this file
    )

    with SteppedWakeful(tmp_path / "wakeful.db") as alarms:
        yield alarms
