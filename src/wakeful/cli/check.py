"""`db check`: whether the database is sound, and whether rows stand as none can."""

from __future__ import annotations

import asyncio
import os

import click
import msgspec

from wakeful.app import build_store
from wakeful.cli.context import Command, asked
from wakeful.errors import NotFound
from wakeful.service.diagnosis import size
from wakeful.store import Inspection
from wakeful.store.maintenance import IMPOSSIBLE


@click.command("check", cls=Command)
def db_check() -> int:
    """Read all of the database and say whether it is sound.

    It reads every row, for as long as that takes, and changes nothing. The exit status is 1 when something is wrong.
    """
    settings = asked().settings()
    if "://" not in settings.db and not os.path.exists(settings.db):
        raise NotFound(f"{os.path.abspath(settings.db)} does not exist", field="db", fix="Name another: --db.")

    async def look() -> Inspection:
        store = build_store(settings)
        try:
            return await store.maintenance.inspect(thorough=True)
        finally:
            await store.close()

    found = asyncio.run(look())
    asked().output.record(_fields(found), msgspec.structs.asdict(found) | {"sound": found.sound})
    return 0 if found.sound else 1


def _fields(found: Inspection) -> dict[str, str]:
    fields = {"database": found.engine, "size": size(found.size)}
    fields["schema"] = f"{found.schema} of {found.known}" if found.schema else "no tables yet"
    fields |= {f"broken {number}": said for number, said in enumerate(found.broken, 1)}
    fields |= {what: f"{count}: {IMPOSSIBLE[what]}" if count else "0" for what, count in found.impossible.items()}
    return fields | {"sound": "yes" if found.sound else "no"}
