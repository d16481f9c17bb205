from __future__ import annotations

import pytest

from wakeful.model.outcome import Waiting
from wakeful.targets import Target
from wakeful.targets.inbox import Inbox
from wakeful.testing.targets import TargetConformance, a_wake


class TestAsATarget(TargetConformance):
    @pytest.fixture
    def target(self) -> Target:
        return Inbox()


async def test_a_wake_waits_in_the_inbox() -> None:
    assert await Inbox().deliver(a_wake()) == Waiting()
