"""The 41 wishes of agents (tests/interfaces/wishes), made through every door.

Each is said once and made over the official MCP client, over HTTP, from Python, and from Python elsewhere
(tests/interfaces/wish_interfaces.py). A wish is answered right, or refused with a call that does it, which is then
made: one repair, never two.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from tests.interfaces.wish_interfaces import INTERFACES, WishInterface, mcp
from wakeful.process.application import LocalWakeful, build
from wakeful.settings import Settings
from wakeful.testing import ManualClock

from .wishes import WISHES
from .wishes.more import MORE
from .wishes.world import MONDAY, Wish, World

DOCS = Path(__file__).parents[2] / "docs"
OpenInterface = Callable[[LocalWakeful], AbstractAsyncContextManager[WishInterface]]
# What is said in words that are not understood: a refusal with one repair will do until they are.
NEEDS_PHRASES = (16, 21, 22, 23, 25)


@pytest.mark.parametrize("opened", INTERFACES, ids=lambda one: one.__name__)
@pytest.mark.parametrize("wish", WISHES, ids=lambda one: one.words)
async def test_a_wish_is_answered(tmp_path: Path, wish: Wish, opened: OpenInterface) -> None:
    time = ManualClock(MONDAY)
    async with build(Settings(db=str(tmp_path / "w.db")), clock=time) as alarms, opened(alarms) as door:
        world = World(door, alarms, time)
        await wish.do(world)
        assert not world.repairs or wish.number in (*NEEDS_PHRASES, 11, 15, 27, 34)


@pytest.mark.parametrize("wish", MORE, ids=lambda one: one.words)
async def test_a_wish_of_the_others_is_answered(tmp_path: Path, wish: Wish) -> None:
    time, settings = ManualClock(MONDAY), Settings(db=str(tmp_path / "w.db"), targets={"helper": {"kind": "inbox"}})
    async with build(settings, clock=time) as alarms, mcp(alarms) as interface:
        world = World(interface, alarms, time)
        await wish.do(world)
        assert world.repairs <= 1


def test_no_other_wish_is_left_out_but_those_that_cannot_be_answered_yet() -> None:
    not_yet = {46, 48, 49, 50}  # a signal that came before, "except at night", quiet hours, the end of another alarm
    assert {one.number for one in MORE} == set(range(42, 67)) - not_yet


def test_every_wish_is_here_and_in_the_docs() -> None:
    assert [one.number for one in WISHES] == list(range(1, 42))
    table = (DOCS / "mcp.md").read_text()
    for one in WISHES:
        assert f"| {one.number} | {one.words} |" in table, one
