"""What an alarm waits for is on its page: its signals and its check."""

from __future__ import annotations

from pathlib import Path

from tests.dashboard.world import Person
from tests.interfaces.world import serving
from wakeful.settings.tables import CheckSettings


async def test_its_signals_and_its_check_are_named(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), checks={"portal": CheckSettings(sql="select 1")}) as visit:
        policy = {"unless": "bo-answered", "or_when": "build-done", "only_if": "portal"}
        alarm = await visit.set(when="every hour", policy=policy)
        page = (await Person(visit).get(f"/alarms/{alarm['id']}")).text
        assert (
            "fires at once when <code>build-done</code> comes; skips its next fire when <code>bo-answered</code> comes"
            in page
        )
        assert "the check <code>portal</code> finds a change" in page
        for given, shown in (
            ({}, "is cancelled when <code>beat</code> comes<"),
            ({"unless_since": "12h"}, "is cancelled when <code>beat</code> comes at most 12 hours before<"),
            ({"rearm": "15m"}, "is moved to 15 minutes after <code>beat</code> comes<"),
        ):
            alarm = await visit.set(policy={"unless": "beat", **given})
            assert shown in (await Person(visit).get(f"/alarms/{alarm['id']}")).text
        plain = await visit.set()
        page = (await Person(visit).get(f"/alarms/{plain['id']}")).text
        assert "<dt>Signals</dt>" not in page
        assert "<dt>Only if</dt>" not in page
