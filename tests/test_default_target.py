"""Where alarms go that name no target: the inbox, or what the setting says, whichever door they come through."""

from __future__ import annotations

from pathlib import Path

import pytest

import wakeful
from wakeful.errors import UnknownTarget

TARGETS = {"desk": {"kind": "webhook", "url": "https://desk.example/wake"}}


async def test_without_a_setting_it_is_the_inbox(tmp_path: Path) -> None:
    async with wakeful.open(tmp_path / "wakeful.db", targets=TARGETS) as alarms:
        assert (await alarms.set("in 1 hour", "x")).target == "inbox"


async def test_a_router_is_the_default_target_unless_another_is_named(tmp_path: Path) -> None:
    url = "http://127.0.0.1:9/internal/wake"
    async with wakeful.open(tmp_path / "wakeful.db", wake_url=url) as alarms:
        assert (await alarms.set("in 1 hour", "x")).target == "router"
        assert (await alarms.set("in 1 hour", "x", target="inbox")).target == "inbox"
    async with wakeful.open(tmp_path / "wakeful.db", default_target="inbox", wake_url=url) as alarms:
        assert (await alarms.set("in 1 hour", "x")).target == "inbox"


async def test_the_setting_says_another_and_a_caller_may_say_a_third(tmp_path: Path) -> None:
    async with wakeful.open(tmp_path / "wakeful.db", targets=TARGETS, default_target="desk") as alarms:
        assert (await alarms.set("in 1 hour", "x")).target == "desk"
        assert (await alarms.set("in 1 hour", "x", target="inbox")).target == "inbox"


async def test_a_setting_that_names_no_target_is_told_when_it_matters(tmp_path: Path) -> None:
    async with wakeful.open(tmp_path / "wakeful.db", default_target="nowhere") as alarms:
        with pytest.raises(UnknownTarget, match="nowhere"):
            await alarms.set("in 1 hour", "x")
