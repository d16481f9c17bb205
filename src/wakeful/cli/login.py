"""`login` and `logout`: servers by name, so that every command can be asked of one."""

from __future__ import annotations

import asyncio
import os
import sys

import click

from wakeful.cli.context import Command, asked
from wakeful.cli.profiles import forget_profile, keep_profile
from wakeful.errors import InvalidConfig
from wakeful.process.application import open_server
from wakeful.remote.connection import server_address


@click.command("login", cls=Command)
@click.argument("name", default="default")
def login_command(name: str) -> None:
    """Remember a server and a token for it.

    Under NAME, or as `default`. The address is --url or WAKEFUL_URL. The token is WAKEFUL_TOKEN; else it is asked for,
    or read from a pipe. Both are tried first, and kept in a file that only you can read.

    \b
      wakeful login home --url https://wakeful.example:4747
      wakeful ls --profile home
    """
    url = asked().server_url or os.environ.get("WAKEFUL_URL", "")
    if not url:
        raise InvalidConfig("no server is named", field="url", fix="Say --url https://….")
    address = server_address(url, _token())
    asyncio.run(_try(address.url, address.token))
    file = keep_profile(name, address.url, address.token)
    told = {"profile": name, "url": address.url, "kept in": str(file)}
    asked().output.record(told, {"profile": name, "url": address.url, "file": str(file)})


def _token() -> str:
    if (given := os.environ.get("WAKEFUL_TOKEN")) is not None:
        return given
    if not sys.stdin.isatty():
        return sys.stdin.readline().strip()
    said: str = click.prompt(
        "Token (empty where the server needs none)", default="", hide_input=True, show_default=False
    )
    return said


async def _try(url: str, token: str) -> None:
    async with open_server(url, token):
        return


@click.command("logout", cls=Command)
@click.argument("name", default="default")
def logout_command(name: str) -> None:
    """Forget a server and its token.

    The token itself stays good: `wakeful token revoke` on the server ends it.
    """
    file = forget_profile(name)
    asked().output.record({"forgotten": name, "from": str(file)}, {"profile": name, "file": str(file)})
