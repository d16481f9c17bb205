"""`mcp`: the tools for one agent, on stdin and stdout. Everything else this process says goes to stderr."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from typing import Any

import click

from wakeful.app import Wakeful, build_store
from wakeful.clock import SystemClock
from wakeful.config import Settings
from wakeful.doors.agents import has_mcp
from wakeful.doors.auth import SCOPES, Auth, Principal
from wakeful.doors.cli.asking import Command, asked
from wakeful.errors import InvalidConfig


@click.command("mcp", cls=Command)
@click.option("--dispatch", is_flag=True, help="Deliver wakes as well, while the agent is connected.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="How much to log.")
def mcp_command(dispatch: bool, **flags: Any) -> None:
    """Answer an agent over MCP on stdin and stdout.

    For a client that starts its servers itself. It opens the database, and ends when stdin does. The owner is that of
    WAKEFUL_TOKEN, or --owner. Wakes are delivered by `wakeful serve` or `wakeful worker`, or here with --dispatch.
    """
    if not has_mcp():
        raise InvalidConfig("the package mcp is not installed", field="mcp", fix='Do: pip install "wakeful[mcp]"')
    from wakeful.serving import log_to_stderr

    log_to_stderr(asked().settings(**flags).log_level)

    async def answer(clock: Wakeful) -> None:
        from wakeful.doors.mcp import stdio

        principal = await _principal(clock.settings)
        async with _dispatching(clock) if dispatch else contextlib.nullcontext():
            await stdio(clock.service, clock.settings, principal)

    asked().run(answer, **flags)


async def _principal(settings: Settings) -> Principal:
    """Whoever can start this process could open the database as well: a token is for naming the owner."""
    if not (token := os.environ.get("WAKEFUL_TOKEN")):
        if not settings.owner:
            raise InvalidConfig("it is empty", field="owner", fix="Name whose alarms these are.")
        return Principal(settings.owner, frozenset(SCOPES), local=True)
    store = build_store(settings)
    try:
        return await Auth(store, settings, SystemClock()).principal(f"Bearer {token}")
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def _dispatching(clock: Wakeful) -> AsyncIterator[None]:
    await clock.check_targets()
    running = asyncio.create_task(clock.dispatcher.run(), name="wakeful dispatcher")
    try:
        yield
    finally:
        clock.dispatcher.stop()
        await running
