"""`mcp`: the tools for one agent, on stdin and stdout. Everything else this process says goes to stderr."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import click

from wakeful.cli.context import Command, asked
from wakeful.clock import SystemClock
from wakeful.errors import InvalidConfig
from wakeful.http.security.auth import SCOPES, Auth, Principal
from wakeful.process.application import LocalWakeful, build_store
from wakeful.python.client import has_mcp
from wakeful.settings import Settings

log = logging.getLogger("wakeful.mcp")


@click.command("mcp", cls=Command)
@click.option("--dispatch", is_flag=True, help="Deliver wakes as well, while the agent is connected.")
@click.option("--channel", is_flag=True, help="Send each wake of the inbox to Claude Code as it comes.")
@click.option("--target", envvar="WAKEFUL_MCP_TARGET", help="Where the wakes of this agent go, where it does not say.")
@click.option("--conversation", envvar="WAKEFUL_MCP_CONVERSATION", help="The conversation of this agent.")
@click.option("--timezone", envvar="WAKEFUL_MCP_TIMEZONE", help="The time zone of this agent's times.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="How much to log.")
def mcp_command(
    dispatch: bool,
    channel: bool,
    target: str | None,
    conversation: str | None,
    timezone: str | None,
    **flags: Any,
) -> None:
    """Answer an agent over MCP on stdin and stdout.

    For a client that starts its servers itself. It opens the database, and ends when stdin does. The owner is that of
    WAKEFUL_TOKEN, or --owner. Wakes are delivered by `wakeful serve` or `wakeful worker`, or here with --dispatch.
    --target, --conversation and --timezone hold for the alarms that the agent sets without them, and for the inbox
    that it reads. With --channel its wakes are sent, not fetched: Claude Code shows them where it was started with
    --dangerously-load-development-channels server:wakeful.
    """
    if not has_mcp():
        raise InvalidConfig("the package mcp is not installed", field="mcp", fix='Do: pip install "wakeful[mcp]"')
    from wakeful.process.server import log_to_stderr, shown

    said = {"target": target, "conversation_id": conversation, "timezone": timezone}
    host = {name: value for name, value in said.items() if value}
    settings = asked().settings(**flags)
    log_to_stderr(settings.log_level, settings.log_format, hide=settings.secrets)

    async def answer(alarms: LocalWakeful) -> None:
        from wakeful.mcp import stdio

        async with _asking(alarms.settings) as principal_of:
            await principal_of(None)  # a wrong token ends it here, where its owner sees why
            async with _dispatching(alarms, wanted=dispatch):
                log.info("MCP on stdio, store %s", shown(alarms.settings.db))
                await stdio(alarms.service, alarms.settings, principal_of, host, channel=channel)

    asked().run_local(answer, creates=True, delivers=True, **flags)


@contextlib.asynccontextmanager
async def _asking(settings: Settings) -> AsyncIterator[Callable[[Any], Awaitable[Principal]]]:
    """In whose name each call is made. A token is looked at anew each time: it may be revoked meanwhile."""
    token = os.environ.get("WAKEFUL_TOKEN")
    if not token and not settings.owner:
        raise InvalidConfig("it is empty", field="owner", fix="Name whose alarms these are.")
    store = build_store(settings)
    auth = Auth(store, settings, SystemClock())

    async def principal_of(_: Any) -> Principal:
        if not token:  # whoever can start this process could open the database as well
            return Principal(settings.owner, frozenset(SCOPES), local=True)
        return await auth.principal(f"Bearer {token}")

    try:
        yield principal_of
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def _dispatching(alarms: LocalWakeful, *, wanted: bool) -> AsyncIterator[None]:
    """Dispatch, where that is wanted, until the agent goes or a signal comes; what is in flight comes down first."""
    loop, running = asyncio.get_running_loop(), None
    if wanted:
        await alarms.check_targets()
        running = asyncio.create_task(alarms.dispatcher.run(), name="wakeful dispatcher")
        running.add_done_callback(_ended)

    async def stop() -> None:
        if running is not None:
            alarms.dispatcher.stop()
            await asyncio.wait((running,))

    def told() -> None:
        # The thread that waits for stdin cannot be called off. Whatever was answered is on disk.
        loop.create_task(stop()).add_done_callback(lambda _: os._exit(0))

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told)
    try:
        yield
    finally:
        await stop()


def _ended(dispatching: asyncio.Task[None]) -> None:
    """A dispatcher that broke takes the process along: an agent must not wait for wakes that do not come."""
    if not dispatching.cancelled() and (error := dispatching.exception()) is not None:
        log.critical("the dispatcher broke", exc_info=error)
        os._exit(1)
